#!/usr/bin/env python3
"""Plants each fault of tool calls and of reasoning in exactly 20 of 2,000 requests, and counts what a run's result says of them.

    tests/live/planted_faults.py --sobench target/debug/sobench

A server with one fault (`sobench serve --fault KIND@20of2000`) gets as many requests as it takes for 2,000 that the fault can change.
The same requests go to a server without faults. Found are the answers that show the fault, by the verdict and the channels of each
answer. `named` is the reason of their verdict, or the metric of the run that counts them; such a metric must have the same count.
Exit codes: 0 all planted faults are found, and none on the server without faults; 1 otherwise.

Needs Python 3.9 with its standard library, and a built sobench. Run by hand; not part of `cargo test`.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLANTED, ELIGIBLE = 20, 2000

TOOLS = ["--dataset", "tools", "--tools-per-request", "2", "--output-len", "900"]
ROWS = ["--dataset", "custom", "--dataset-path", "{rows}", "--output-len", "900"]
NONE = ["--dataset", "custom", "--dataset-path", "{none}", "--output-len", "200"]
SHORT = ["--dataset", "custom", "--dataset-path", "{short}", "--output-len", "200"]
JSON = ["--dataset", "json", "--output-len", "600"]
THINKS = ["--embedded-reasoning-tokens", "20"]
# Long arguments at this speed come after more than the 500 ms of silence that docs/metrics.md asks for.
SLOW = ["--embedded-itl-ms", "20", "--embedded-max-batch", "512"]

SILENCE_NS, LATE_NS, LATE_SHARE = 500_000_000, 100_000_000, 0.9
"""The limits of a buffered tool call in docs/metrics.md."""


@dataclass(frozen=True)
class Fault:
    shows: callable
    """Whether an answer shows the fault."""
    named: str
    """The reason of the verdict, or the metric of the run that counts the fault; else where it is named, in parentheses."""
    dataset: list = field(default_factory=lambda: TOOLS)
    server: list = field(default_factory=list)
    client: list = field(default_factory=list)
    requests: int = 2200
    is_metric: bool = False


def reason(output):
    return output["verdict"].get("reason") or {}


def why(output):
    """What is wrong with the arguments of a call."""
    return (reason(output).get("why") or {}) if reason(output).get("fault") == "invalid_arguments" else {}


def tool_fault(*names):
    return lambda output: reason(output).get("fault") in names


def merged(output):
    return why(output).get("kind") == "second_document"


def dropped(output):
    """Arguments without a required member, in an answer with an empty call of a strict tool, or with a required call. The verdict names
    the first call, which is not strict in some of these answers."""
    is_enforced = any(call["name"] in STRICT for call in output["calls"] if call["arguments"] == "{}")
    return why(output).get("keyword") == "required" and (is_enforced or "tool_choice:auto" not in output["tags"])


def cut(output):
    return why(output).get("reason") == "not_json"


def buffered(output):
    """The rule of docs/metrics.md for one answer."""
    timing = output["timing"]
    gaps, channels = timing.get("chunk_gaps_ns", []), timing.get("channels")
    if not channels:
        return False
    late, every = (channels[name].get("tool_calls", 0) for name in ("late_bytes", "bytes"))
    before_end = [sum(gaps[index + 1 :]) for index in range(len(gaps))]
    first_late = next(index for index, left in enumerate(before_end) if left <= LATE_NS)
    return late >= LATE_SHARE * every and first_late > 0 and gaps[first_late] >= SILENCE_NS


def reasoning(output):
    return output["reasoning"] or ""


def is_json(text):
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def suppressed(output):
    return output["arm"] == "constrained" and not reasoning(output) and is_json(output["generated"])


def early(output):
    """The answer is whole only with the last characters of the reasoning."""
    whole = (reasoning(output)[-length:] + output["generated"] for length in (1, 2))
    return output["verdict"]["verdict"] == "invalid" and any(map(is_json, whole))


def late(output):
    """Free words before the answer, which may look like the start of JSON."""
    text = output["generated"]
    starts = (start for start in range(1, len(text)) if text[start] == "{" and text[:start].strip())
    return output["verdict"]["verdict"] == "invalid" and any(is_json(text[start:]) for start in starts)


def lost(output):
    return not output["generated"] and is_json(reasoning(output))


def endless(output):
    return not output["generated"] and output["outcome"]["kind"] == "truncated" and bool(reasoning(output))


def thinking(shows, named, is_metric=False, **more):
    return Fault(shows, named, dataset=JSON, server=THINKS, is_metric=is_metric, **more)


FAULTS = {
    "merge-calls": Fault(merged, "extra_text", requests=6500),
    "drop-strict": Fault(dropped, "schema", requests=4500),
    "leak-markup": Fault(tool_fault("leaked_markup"), "leaked_markup", requests=3200),
    "wrong-tool": Fault(tool_fault("wrong_tool", "unknown_tool"), "unknown_tool", requests=3200),
    "call-under-none": Fault(tool_fault("call_under_none"), "call_under_none", dataset=NONE),
    "cut-arguments": Fault(cut, "not_json", requests=3200),
    # A verdict has one reason, the first one. Arguments of these calls are valid without the fault.
    "duplicate-id": Fault(tool_fault("duplicate_call_id"), "duplicate_call_id", dataset=SHORT, requests=4400),
    "buffer-arguments": Fault(buffered, "(rule of docs/metrics.md)", dataset=ROWS, server=SLOW, client=["--max-concurrency", "256"]),
    # A control shows that the model thinks without the constraint.
    "suppress-thinking": thinking(
        suppressed, "thinking_suppressed_rate", True, requests=4600, client=["--guided-decoding-ratio", "0.5"]
    ),
    "constrain-thinking": thinking(lambda output: is_json(reasoning(output)), "(preflight --kind reasoning)"),
    "constraint-early": thinking(early, "invalid"),
    "constraint-late": thinking(late, "invalid"),
    "answer-in-reasoning": thinking(lost, "json_in_reasoning_rate", True),
    "leak-end-marker": thinking(lambda output: "</think>" in output["generated"], "end_marker_rate", True),
    "endless-thinking": thinking(endless, "thinking_budget_rate", True),
}


def main():
    options = parse()
    failed = False
    titles = ("fault", "eligible", "planted", "found", "without fault", "requests", "named")
    print("{:<20} {:>8} {:>8} {:>6} {:>14} {:>9}  {}".format(*titles), flush=True)
    clean = {}
    for name, fault in FAULTS.items():
        if options.fault and name not in options.fault:
            continue
        outputs, metrics, stats = measure(options, f"{name}@{PLANTED}of{ELIGIBLE}", fault)
        key = json.dumps([fault.dataset, fault.server, fault.client])
        if key not in clean or len(clean[key][0]) < fault.requests:
            clean[key] = measure(options, None, fault)[:2]
        clean_outputs, clean_metrics = clean[key]
        found = sum(map(bool, map(fault.shows, outputs)))
        without = sum(map(bool, map(fault.shows, clean_outputs)))
        planted, eligible = count(stats["faults"], name), count(stats["fault_eligible"], name)
        is_right = found == planted == PLANTED and without == 0 and eligible >= ELIGIBLE
        named = fault.named if fault.named.startswith("(") else f"{fault.named} {named_count(fault, outputs, metrics)}"
        if fault.is_metric:
            is_right &= named_count(fault, outputs, metrics) == PLANTED and named_count(fault, clean_outputs, clean_metrics) == 0
        failed |= not is_right
        mark = "" if is_right else "  WRONG"
        print(f"{name:<20} {eligible:>8} {planted:>8} {found:>6} {without:>14} {len(outputs):>9}  {named}{mark}", flush=True)
    return int(failed)


def named_count(fault, outputs, metrics):
    """The count of the metric, or of the answers that show the fault and have the reason."""
    if fault.is_metric:
        return metrics[fault.named]["hits"]
    shown = [output for output in outputs if fault.shows(output)]
    reasons = ((reason(output).get("fault"), why(output).get("reason"), reason(output).get("reason")) for output in shown)
    names = [(output["verdict"]["verdict"], *names) for output, names in zip(shown, reasons)]
    return sum(fault.named in name for name in names)


def count(counts, name):
    return dict(counts).get(name, 0)


def strict_tools():
    file = json.loads((ROOT / "crates/data/shipped/tools-1.json").read_text())
    tools = [tool["function"] for group in file["groups"] for tool in group["tools"]]
    return {tool["name"] for tool in tools if tool.get("strict")}


STRICT = strict_tools()


def rows(path, choice, is_long):
    """Requests with one tool of long or short arguments."""
    names = ("title", "summary", "details", "conclusion") if is_long else ("title",)
    properties = {name: {"type": "string", "pattern": "^[a-z ]{40,60}$" if is_long else "^[a-z]{3}$"} for name in names}
    parameters = {"type": "object", "properties": properties, "required": list(names), "additionalProperties": False}
    tool = {"type": "function", "function": {"name": "file_report", "strict": True, "parameters": parameters}}
    row = {"tools": [tool], "tool_choice": choice}
    lines = (json.dumps({"prompt": f"File report {number}.", **row}) for number in range(100))
    path.write_text("\n".join(lines) + "\n")
    return path


ROW_FILES = {"rows": ("required", True), "none": ("none", True), "short": ("required", False)}


def measure(options, planted, fault):
    """The outputs of a run with their timing, its metrics, and the statistics of its server."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: rows(Path(folder) / f"{name}.jsonl", *form) for name, form in ROW_FILES.items()}
        flags = [argument.format(**paths) for argument in fault.dataset]
        flags += fault.client if "--max-concurrency" in fault.client else ["--max-concurrency", "16", *fault.client]
        flags += ["--num-prompts", str(fault.requests)]
        result, log, stats = run(options.sobench, planted, fault.server, flags, Path(folder))
        return with_timing(result["outputs"], log), result["sobench"]["metrics"], stats


def run(sobench, planted, server_flags, flags, folder):
    """The result of a run on a server with a planted fault, the file of its run log, and the statistics of the server, if it lives."""
    command = [sobench, "serve", "--port", "0", "--guided-decoding-backend", "guidance", *server_flags]
    command += ["--fault", planted] if planted else []
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        url = address(server)
        file, log = folder / "result.json", folder / "run.jsonl"
        command = [sobench, "--base-url", url, "--backend", "openai-chat", *flags]
        command += ["--skip-preflight", "--num-warmups", "0", "--ready-check-timeout-sec", "0", "--allow-unenforced", "--disable-tqdm"]
        command += ["--run-log", str(log), "--save-result", "--save-detailed", "--result-dir", str(folder), "--result-filename", file.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not file.exists():
            sys.exit(done.stdout + done.stderr)
        with urllib.request.urlopen(f"{url}/sobench/stats") as answer:
            return json.loads(file.read_text()), log, json.load(answer)
    finally:
        server.terminate()
        server.wait()


def with_timing(outputs, log):
    """Adds the timing and the calls of each request, in the order of their numbers, which is that of the outputs."""
    requests = {}
    with log.open() as lines:
        for line in map(json.loads, lines):
            if request := line.get("request"):
                requests[request["index"]] = {"timing": request["timing"], "calls": request.get("tool_calls", [])}
    if len(requests) != len(outputs):
        sys.exit(f"{len(outputs)} outputs, but {len(requests)} requests in the log")
    return [{**output, **requests[index]} for index, output in enumerate(outputs)]


def address(server):
    for line in server.stdout:
        if "http://" in line:
            return line[line.index("http://") :].split()[0].rstrip("/").removesuffix("/v1")
    sys.exit("the server did not start")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sobench", default=ROOT / "target/debug/sobench")
    parser.add_argument("--fault", action="append", help="one of the faults; several times for several")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
