#!/usr/bin/env python3
"""Plants each fault of tool calls and of reasoning in exactly 20 of 2,000 requests, and counts what a run's result says of them.

    tests/live/planted_faults.py --sobench target/debug/sobench

A server with one fault (`sobench serve --fault KIND@20of2000`) gets as many requests as it takes for 2,000 that the fault can change.
The same requests go to a server without faults. An answer shows a fault if its verdict has the fault's reason. Exit codes: 0 all
planted faults are found, and none on the server without faults; 1 otherwise.

Needs Python 3.9 with its standard library, and a built sobench. Run by hand; not part of `cargo test`.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLANTED, ELIGIBLE = 20, 2000

TOOLS = ["--dataset", "tools", "--tools-per-request", "2", "--output-len", "900"]
JSON = ["--dataset", "json", "--output-len", "400"]
THINKS = ["--embedded-reasoning-tokens", "20"]


def tool_fault(*names):
    return lambda output, _: reason(output).get("fault") in names


def merged(output, _):
    why = reason(output).get("why", {})
    return reason(output).get("fault") == "invalid_arguments" and why.get("kind") == "second_document"


def free_arguments(output, strict):
    """Arguments without members, of a tool whose schema requires some and must be enforced."""
    why = reason(output)
    return why.get("fault") == "invalid_arguments" and why.get("name") in strict and why["why"].get("reason") == "schema"


def cut(output, _):
    return reason(output).get("fault") == "invalid_arguments" and reason(output)["why"].get("reason") == "not_json"


def reason(output):
    return output["verdict"].get("reason") or {}


def invalid(*names):
    return lambda output, _: reason(output).get("reason") in names


# name: (dataset, flags of the server, whether an answer shows the fault)
FAULTS = {
    "merge-calls": (TOOLS, [], merged),
    "drop-strict": (TOOLS, [], free_arguments),
    "leak-markup": (TOOLS, [], tool_fault("leaked_markup")),
    "wrong-tool": (TOOLS, [], tool_fault("wrong_tool", "unknown_tool")),
    "call-under-none": (TOOLS, [], tool_fault("call_under_none")),
    "cut-arguments": (TOOLS, [], cut),
    "duplicate-id": (TOOLS, [], tool_fault("duplicate_call_id")),
}
"""Faults that one answer shows."""


def main():
    options = parse()
    strict = strict_tools()
    failed = False
    print(f"{'fault':<20} {'eligible':>8} {'planted':>8} {'found':>6} {'without fault':>14}  {'requests':>8}")
    clean = {}
    for name, (dataset, flags, shows) in FAULTS.items():
        if options.fault and name not in options.fault:
            continue
        outputs, stats = run(options, name, dataset, flags)
        key = json.dumps([dataset, flags])
        if key not in clean:
            clean[key], _ = run(options, None, dataset, flags)
        found = sum(bool(shows(output, strict)) for output in outputs)
        without = sum(bool(shows(output, strict)) for output in clean[key])
        planted, eligible = count(stats["faults"], name), count(stats["fault_eligible"], name)
        is_right = found == planted == PLANTED and without == 0 and eligible >= ELIGIBLE
        failed |= not is_right
        print(f"{name:<20} {eligible:>8} {planted:>8} {found:>6} {without:>14}  {len(outputs):>8}{'' if is_right else '  WRONG'}", flush=True)
    return int(failed)


def count(counts, name):
    return dict(counts).get(name, 0)


def strict_tools():
    file = json.loads((ROOT / "schemas/workloads/tools-1.json").read_text())
    tools = [tool["function"] for group in file["groups"] for tool in group["tools"]]
    return {tool["name"] for tool in tools if tool.get("strict")}


def run(options, fault, dataset, flags):
    """The outputs of a run, and the statistics of its server."""
    planted = ["--fault", f"{fault}@{PLANTED}of{ELIGIBLE}"] if fault else []
    command = [options.sobench, "serve", "--port", "0", "--guided-decoding-backend", "guidance", *flags, *planted]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        url = address(server)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "result.json"
            command = [options.sobench, "--base-url", url, "--backend", "openai-chat", *dataset, "--num-prompts", str(options.requests)]
            command += ["--skip-preflight", "--num-warmups", "0", "--ready-check-timeout-sec", "0", "--allow-unenforced", "--no-run-log", "--disable-tqdm"]
            command += ["--max-concurrency", "16", "--save-result", "--save-detailed", "--result-dir", folder, "--result-filename", file.name]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if not file.exists():
                sys.exit(done.stdout + done.stderr)
            outputs = json.loads(file.read_text())["outputs"]
        with urllib.request.urlopen(f"{url}/sobench/stats") as answer:
            return outputs, json.load(answer)
    finally:
        server.terminate()
        server.wait()


def address(server):
    for line in server.stdout:
        if "http://" in line:
            return line[line.index("http://") :].split()[0].rstrip("/").removesuffix("/v1")
    sys.exit("the server did not start")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sobench", default=ROOT / "target/debug/sobench")
    parser.add_argument("--requests", type=int, default=6500)
    parser.add_argument("--fault", action="append", help="one of the faults; several times for several")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
