#!/usr/bin/env python3
"""Holds sobench against the tools that it replaces, run beside it with the same flags, dataset and seed.

`bodies`: against a stub server that writes requests down and answers by rule (`stub.py`), so that the comparison is exact. `vllm bench
serve` and sobench, on `random`, `sharegpt`, `prefix_repetition` and `custom`: the same bodies, the same due times, the same token totals.
vLLM's structured-output script and sobench, on each of its datasets, half of the requests constrained: the same prompts, the same requests
constrained, the same answers and the same rate by the script's formula.
`live`: the same against a real vLLM server, started with --serve MODEL or pointed at by --base-url: totals have to be
equal; times are held against each other within --noise, and a figure beyond it is a warning only.

Needs Python 3.9 with its standard library, a built sobench, an installation of vLLM, and for the script its folder in vLLM's source
distribution (it imports its neighbour). Exit codes: 0 all that has to be equal is; 1 something is not; 2 a wrong argument, a client that
did not run. Run by hand, and nightly by `.ci/nightly`; not part of `cargo test`.
"""

import argparse
import json
import math
import shutil
import sys
import tempfile
import urllib.request
from pathlib import Path

import tools
from server import NotReady, Server
from stub import UNIQUE, Stub

ROOT = Path(__file__).resolve().parents[2]
SCRIPT_DATASETS = ["json", "json-unique", "grammar", "regex", "choice", "xgrammar_bench"]
MUST_EQUAL = ["completed", "failed", "total_input_tokens", "total_output_tokens"]
TIMES = ["request_throughput", "output_throughput"] + [
    f"{statistic}_{metric}_ms" for metric in ("ttft", "tpot", "itl", "e2el") for statistic in ("mean", "median")
]
SHOWN = [f"p99_{metric}_ms" for metric in ("ttft", "tpot", "itl", "e2el")]
"""Shown and not held to a margin: of so few requests a p99 is the slowest one."""
DUE_MARGIN_MS = 50.0
"""How far apart two clients may send the same request of the same schedule before it is worth a warning."""

KNOWN_SHARE = 0.02
"""How far a count with a known difference may be off."""

HARMLESS = {"logprobs": None, "ignore_eos": False, "n": 1}
"""Members that say what leaving them out says, by vLLM's own defaults."""


class Findings:
    """What is printed, and what of it was wrong."""

    def __init__(self):
        self.different, self.warnings = [], []

    def same(self, what, ours, theirs):
        """A line for something that has to be equal."""
        equal = ours == theirs
        print(f"  {what:<34} {shown(theirs):>14} {shown(ours):>14}   {'equal' if equal else 'DIFFERENT'}")
        if not equal:
            self.different.append(f"{self.title}: {what}: {shown(theirs)} there, {shown(ours)} in sobench")

    def count(self, what, matching, of):
        """A line for so many equal of so many, all of which have to be."""
        print(f"  {what:<34} {matching:>11}/{of:<5}            {'   equal' if matching == of else '   DIFFERENT'}")
        if matching != of or of == 0:
            self.different.append(f"{self.title}: {what}: {matching} of {of}")

    def known(self, what, ours, theirs, why):
        """A line for a count that is known to differ, by a little and for this reason."""
        small = abs(ours - theirs) <= KNOWN_SHARE * theirs
        verdict = "equal" if ours == theirs else "differs, as known" if small else "DIFFERENT"
        print(f"  {what:<34} {shown(theirs):>14} {shown(ours):>14}   {verdict}")
        self.note(f"{what}: {why}")
        if not small:
            self.different.append(f"{self.title}: {what}: {shown(theirs)} there, {shown(ours)} in sobench")

    def near(self, what, ours, theirs, relative, absolute):
        """A line for something that may differ by noise."""
        if ours is None or theirs is None:
            return self.note(f"{what}: {shown(theirs)} there, {shown(ours)} in sobench")
        near = abs(ours - theirs) <= max(relative * abs(theirs), absolute)
        change = f"{100 * (ours / theirs - 1):+.1f} %" if theirs else ""
        print(f"  {what:<34} {shown(theirs):>14} {shown(ours):>14}   {change:>9}{'' if near else '   WARNING: past the margin'}")
        if not near:
            self.warnings.append(f"{self.title}: {what}: {shown(theirs)} there, {shown(ours)} in sobench")

    def note(self, text):
        print(f"  note: {text}")

    def begin(self, title, other):
        self.title = title
        print(f"\n== {title}\n  {'':<34} {other:>14} {'sobench':>14}", flush=True)


def shown(value):
    if isinstance(value, float):
        return f"{value:.2f}"
    return "none" if value is None else str(value)


def canonical(body):
    """A body without what is chance (the unique member) or says nothing (defaults that are spelt out)."""
    text = UNIQUE.sub("__optional_field_UNIQUE", json.dumps(body))
    return {key: value for key, value in json.loads(text).items() if key not in HARMLESS or value != HARMLESS[key]}


def bodies_equal(findings, theirs, ours):
    """Bodies of the same requests, member by member."""
    findings.same("requests", len(ours), len(theirs))
    pairs = [(canonical(a.body), canonical(b.body)) for a, b in zip(theirs, ours)]
    for member in sorted({key for a, b in pairs for key in (*a, *b)}):
        absent = object()
        same = sum(a.get(member, absent) == b.get(member, absent) for a, b in pairs)
        findings.count(f"same `{member}`", same, len(pairs))
        for a, b in [pair for pair in pairs if pair[0].get(member, absent) != pair[1].get(member, absent)][:1]:
            print(f"    there:   {json.dumps(a.get(member))[:300]}\n    sobench: {json.dumps(b.get(member))[:300]}")


def due_times_near(findings, theirs, ours):
    """When the same requests arrived, from the first one on."""
    apart = [abs((a.at - theirs[0].at) - (b.at - ours[0].at)) * 1000 for a, b in zip(theirs, ours)]
    worst = max(apart, default=0.0)
    print(f"  {'arrivals apart by at most (ms)':<34} {worst:>14.2f}")
    if worst > DUE_MARGIN_MS:
        findings.warnings.append(f"{findings.title}: a request arrived {worst:.1f} ms from where the other client sent it")


def totals_equal(findings, theirs, ours, input_why=""):
    """Counts in all and by request. With `input_why`, input is known to differ a little, for that reason."""
    for key in MUST_EQUAL:
        if input_why and key == "total_input_tokens":
            findings.known(key, ours[key], theirs[key], input_why)
        else:
            findings.same(key, ours.get(key), theirs.get(key))
    for key in ["output_lens"] if input_why else ["input_lens", "output_lens"]:
        a, b = theirs.get(key) or [], ours.get(key) or []
        findings.count(f"same {key}", sum(x == y for x, y in zip(a, b)), max(len(a), len(b)))


def times_near(findings, theirs, ours, options, shown_only=()):
    """Times and rates within the margin; those of `shown_only` beside each other and no more."""
    for key in [key for key in TIMES if key not in shown_only]:
        absolute = options.noise_ms if key.endswith("_ms") else 0.0
        findings.near(key, ours.get(key), theirs.get(key), options.noise, absolute)
    for key in [*shown_only, *SHOWN]:
        findings.near(key, ours.get(key), theirs.get(key), math.inf, 0.0)


def trust(findings, result):
    """What sobench says of its own part in its times: on a busy machine warnings about times say little."""
    client = result["sobench"]["client"]
    delay = (client.get("own_delay_ms") or {}).get("max")
    findings.note(f"sobench of its own times: {client.get('verdict')}; its own delay at most {shown(delay)} ms")


def keys_equal(findings, theirs, ours):
    """The keys of the result in the other tool's layout; a difference in order alone is one."""
    missing, added = [k for k in theirs if k not in ours], [k for k in ours if k not in theirs]
    findings.same("keys of the file, in its order", list(ours) == list(theirs), True)
    if missing or added:
        findings.note(f"only there: {', '.join(missing) or 'none'}; only in sobench's: {', '.join(added) or 'none'}")


def plain_bodies(options, findings, stub, folder):
    """`vllm bench serve` and sobench against the stub."""
    for dataset in chosen(options, tools.plain_datasets(ROOT / "fixtures/datasets", folder)):
        findings.begin(f"bodies: vllm bench serve, {dataset.name}", "bench serve")
        stub.start_afresh(varied=False)
        theirs = tools.bench_serve(options, stub.url, dataset, options.stub_rate, folder, f"bodies-{dataset.name}-vllm")
        asked = tools.measured(stub.requests, dataset.prompts)
        stub.start_afresh(varied=False)
        result, ours = tools.sobench_plain(options, stub.url, dataset, options.stub_rate, folder, f"bodies-{dataset.name}-sobench")
        asked_by_us = tools.measured(stub.requests, dataset.prompts)
        bodies_equal(findings, asked, asked_by_us)
        due_times_near(findings, asked, asked_by_us)
        trust(findings, result)
        totals_equal(findings, theirs, ours, dataset.uncounted_why)
        keys_equal(findings, theirs, ours)
        findings.same("quality is reported", result.get("correct_rate(%)") is not None, False)
        if dataset.why:
            findings.note(dataset.why)


def constrained(requests):
    return [i for i, request in enumerate(requests) if "structured_outputs" in request.body]


def script_datasets(options):
    """The script's datasets that can run here; the reason where one cannot."""
    names = [name for name in SCRIPT_DATASETS if not options.dataset or name in options.dataset]
    if "xgrammar_bench" in names:
        names.remove("xgrammar_bench")
        print("\n== xgrammar_bench: skipped. The script reads it from the Hub alone, and drops the rows that the installed vLLM's xgrammar"
              "\n   cannot do, which sobench sends and counts.")  # fmt: skip
    return names


def structured_bodies(options, findings, stub, folder):
    """The structured-output script and sobench against the stub."""
    for dataset in script_datasets(options):
        findings.begin(f"bodies: structured-output script, {dataset}, ratio {options.ratio}", "script")
        stub.start_afresh(varied=True)
        theirs = tools.script(options, stub.url, dataset, options.ratio, folder, f"bodies-{dataset}-script")
        asked, trial = stub.requests[-options.num_structured :], len(stub.requests) - options.num_structured
        stub.start_afresh(varied=True)
        result, ours = tools.sobench_structured(options, stub.url, dataset, options.ratio, False, folder, f"bodies-{dataset}-sobench")
        asked_by_us = tools.measured(stub.requests, options.num_structured)
        findings.same("requests before the run", len(stub.requests) - len(asked_by_us), trial)
        bodies_equal(findings, asked, asked_by_us)
        findings.same("constrained requests", len(constrained(asked_by_us)), len(constrained(asked)))
        findings.same("they are the same ones", constrained(asked_by_us) == constrained(asked), True)
        structured_results(findings, theirs, result, ours, exact=True, is_unique=dataset == "json-unique")
        if dataset == "json-unique":
            findings.note("the script draws a new uuid in each run, sobench from the seed; both read as UNIQUE above")


def structured_results(findings, theirs, result, ours, exact, is_unique):
    """What both made of the answers."""
    findings.same("completed", ours["completed"], theirs["completed"])
    if is_unique:
        why = "each client has drawn identifiers of its own, of as many characters and not as many tokens"
        findings.known("total_input_tokens", ours["total_input_tokens"], theirs["total_input_tokens"], why)
    else:
        findings.same("total_input_tokens", ours["total_input_tokens"], theirs["total_input_tokens"])
    if exact:
        findings.same("total_output_tokens", ours["total_output_tokens"], theirs["total_output_tokens"])
    texts = [[answer["generated"] for answer in one["outputs"]] for one in (theirs, ours)]
    same = sum(a == b for a, b in zip(*texts))
    if exact:
        findings.count("same answers, in order", same, len(texts[0]))
    else:
        findings.note(f"{same} of {len(texts[0])} answers have the same text")
    rates = result.get("vllm_correct_rate(%)"), theirs.get("correct_rate(%)")
    if exact or same == len(texts[0]):
        findings.same("rate by the script's formula (%)", *rates)
    else:
        findings.note(f"rate by the script's formula, of answers that are not the same: {shown(rates[1])}; in sobench {shown(rates[0])}")
    quality = result.get("correct_rate(%)")
    findings.note(f"sobench's own correct rate, by the constraint itself and of constrained requests only: {shown(quality)} %")
    keys_equal(findings, theirs, ours)


def plain_live(options, findings, folder):
    """`vllm bench serve` and sobench against a real server. One pass that is not measured fills its prefix cache for both."""
    for dataset in chosen(options, tools.plain_datasets(ROOT / "fixtures/datasets", folder)):
        findings.begin(f"live: vllm bench serve, {dataset.name}, {options.rate} requests/s", "bench serve")
        tools.sobench_plain(options, options.base_url, dataset, options.rate, folder, f"live-{dataset.name}-unmeasured")
        theirs = tools.bench_serve(options, options.base_url, dataset, options.rate, folder, f"live-{dataset.name}-vllm")
        result, ours = tools.sobench_plain(options, options.base_url, dataset, options.rate, folder, f"live-{dataset.name}-sobench")
        totals_equal(findings, theirs, ours)
        keys_equal(findings, theirs, ours)
        times_near(findings, theirs, ours, options)
        trust(findings, result)
        same = sum(a == b for a, b in zip(theirs["generated_texts"], ours["generated_texts"]))
        findings.note(f"{same} of {dataset.prompts} answers have the same text")
        findings.same("quality is reported", result.get("correct_rate(%)") is not None, False)
        printed = (folder / f"live-{dataset.name}-vllm.printed.txt").read_text()
        if "re-aligning prompts" in printed:
            findings.note("vLLM has cut prompts to length by the server's /tokenize, which sobench does not do: input may differ")


def structured_live(options, findings, folder):
    """The structured-output script and sobench against a real server."""
    for dataset in script_datasets(options):
        findings.begin(f"live: structured-output script, {dataset}, ratio {options.ratio}", "script")
        theirs = tools.script(options, options.base_url, dataset, options.ratio, folder, f"live-{dataset}-script")
        result, ours = tools.sobench_structured(options, options.base_url, dataset, options.ratio, True, folder, f"live-{dataset}-sobench")
        structured_results(findings, theirs, result, ours, exact=False, is_unique=dataset == "json-unique")
        findings.note(
            f"output tokens: {theirs['total_output_tokens']} there, {ours['total_output_tokens']} in sobench. The script tokenises each"
            " text again; sobench takes the server's count of what was generated, which is more where a mask leads to other tokens than"
            " the text's own, and has the end token in it. Rates and TPOT that are made from the counts are not held to a margin"
        )
        times_near(findings, theirs, ours, options, ["output_throughput", "mean_tpot_ms", "median_tpot_ms"])
        trust(findings, result)


def chosen(options, datasets):
    return [dataset for dataset in datasets if not options.dataset or dataset.name in options.dataset]


def check(parser, options):
    """Ends the program where arguments do not go together or name nothing."""
    if not options.vllm or not shutil.which(options.vllm):
        parser.error(f"--vllm is no command: {options.vllm}")
    if not options.sobench.is_file():
        parser.error(f"--sobench is no file: {options.sobench}")
    if options.base_url and options.serve:
        parser.error("--base-url and --serve exclude each other")
    if not options.tokenizer and not options.serve:
        parser.error("--tokenizer is needed where --serve does not name a model")
    if "live" in (options.part or []) and not (options.base_url or options.serve):
        parser.error("--part live needs --base-url or --serve")
    if "script" in (options.tool or []) and not options.script:
        parser.error("--tool script needs --script")
    if options.script and not options.script.is_file():
        parser.error(f"--script is no file: {options.script}")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--sobench", default=ROOT / "target/release/sobench", type=Path, help="the program (default: target/release/sobench)")
    add("--vllm", default=shutil.which("vllm"), help="vLLM's command (default: vllm on the PATH)")
    add("--python", help="Python that has vLLM, for the script (default: beside --vllm)")
    add("--script", type=Path, help="benchmark_serving_structured_output.py of vLLM's source distribution (default: that part is left out)")
    add("--tokenizer", help="tokenizer that both clients count with: the server's (default: that of --serve)")
    add("--base-url", help="a real vLLM server that runs; without it and --serve only `bodies` is done")
    add("--serve", metavar="MODEL", help="start `vllm serve MODEL`, and end it afterwards")
    add("--serve-args", default="", help="further arguments of `vllm serve`: --serve-args='--a 1 --b'")
    add("--serve-port", type=int, help="its port (default: a free one)")
    add("--ready-timeout-s", type=float, default=900.0, help="how long it may take to be ready (900)")
    add("--part", choices=["bodies", "live"], action="append", help="only this part (default: all that can be done)")
    add("--tool", choices=["serve", "script"], action="append", help="only beside this tool")
    add("--dataset", action="append", help="only this dataset; may be given several times")
    add("--rate", type=float, default=8.0, help="requests/s on the real server (8)")
    add("--stub-rate", type=float, default=20.0, help="requests/s on the stub (20)")
    add("--ratio", type=float, default=0.5, help="share of constrained requests (0.5)")
    add("--num-structured", type=int, default=40, help="requests beside the script (40)")
    add("--output-len", type=int, default=48, help="their token limit (48)")
    add("--noise", type=float, default=0.25, help="margin of times and rates, as a share (0.25)")
    add("--noise-ms", type=float, default=5.0, help="margin of times in ms, where it is the larger one (5)")
    add("--keep", type=Path, help="folder for all files (default: one that is deleted)")
    options = parser.parse_args()
    check(parser, options)
    options.tokenizer = options.tokenizer or options.serve
    options.sobench = options.sobench.resolve()
    options.python = options.python or Path(options.vllm).parent / "python"
    options.parts = options.part or ["bodies"] + (["live"] if options.base_url or options.serve else [])
    options.tools = options.tool or ["serve"] + (["script"] if options.script else [])
    return options


def served_name(base_url):
    with urllib.request.urlopen(f"{base_url}/v1/models", timeout=30) as answer:
        return json.load(answer)["data"][0]["id"]


def compare(options, findings, folder):
    if "bodies" in options.parts:
        options.served_name = "stub"
        stub = Stub(options.served_name)
        if "serve" in options.tools:
            plain_bodies(options, findings, stub, folder)
        if "script" in options.tools:
            structured_bodies(options, findings, stub, folder)
        stub.stop()
    if "live" in options.parts and options.serve:
        log = folder / "server.printed.txt"
        with Server(options.vllm, options.serve, options.serve_port, options.serve_args, options.ready_timeout_s, log) as options.base_url:
            live(options, findings, folder)
    elif "live" in options.parts:
        live(options, findings, folder)


def live(options, findings, folder):
    options.base_url = options.base_url.rstrip("/")
    options.served_name = served_name(options.base_url)
    if "serve" in options.tools:
        plain_live(options, findings, folder)
    if "script" in options.tools:
        structured_live(options, findings, folder)


def main():
    options, findings = parse(), Findings()
    with tempfile.TemporaryDirectory() as passing:
        try:
            compare(options, findings, tools.folder_of(options.keep or passing))
        except (tools.Failed, NotReady, OSError) as error:
            print(f"could not run: {error}", file=sys.stderr)
            return 2
    print(f"\n{len(findings.different)} differences, {len(findings.warnings)} times past the margin")
    for line in findings.different:
        print(f"  different: {line}")
    for line in findings.warnings:
        print(f"  warning: {line}")
    return 1 if findings.different else 0


if __name__ == "__main__":
    sys.exit(main())
