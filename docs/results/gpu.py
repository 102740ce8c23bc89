"""The part on a GPU of the page of what a constraint costs."""

import re
from statistics import mean

from common import COSTS, DATA, HERE, provenance, table
from common import part as data_part
from pictures import speed_bars

CAPS = [int(path.name.split("-c")[-1].split(".")[0]) for path in DATA.glob("gpu-h200-c*.json.gz")]
GPU = {cap: data_part(f"gpu-h200-c{cap}") for cap in sorted(CAPS)}
"""By the number of requests in flight."""
ENGINES = ["xgrammar", "guidance", "outlines"]


def figures(cap, engine):
    return next(side["figures"] for side in GPU[cap]["result"]["sides"] if side["name"].endswith(f"/{engine}"))


def runs(cap, engine, arm):
    return [row for row in GPU[cap]["rows"] if row["run"].startswith(f"json-{engine}-{arm}-")]


def mean_of(cap, engine, arm, key):
    return mean(row[key] for row in runs(cap, engine, arm))


def ranged(values, digits=1):
    low, high = min(values), max(values)
    return f"{low:,.{digits}f}" if f"{low:,.{digits}f}" == f"{high:,.{digits}f}" else f"{low:,.{digits}f} to {high:,.{digits}f}"


def added(value, digits=1):
    return f"{value['ms']:+,.{digits}f} ({value['low_ms']:+,.{digits}f} to {value['high_ms']:+,.{digits}f})"


def headline():
    """The sentence that the page begins with."""
    cap = min(GPU)
    found = {engine: figures(cap, engine) for engine in ENGINES}
    tokens = ", ".join(f"{found[engine]['tpot_ms']['mean']:.1f} ms with {engine}" for engine in ENGINES)
    without = ranged([found[engine]["control"]["tpot_ms"]["mean"] for engine in ENGINES])
    speeds = ", ".join(f"{found[engine]['output_throughput']:,.0f}" for engine in ENGINES)
    before = ranged([found[engine]["control"]["output_throughput"] for engine in ENGINES], 0)
    return (
        f"On one H200 with an 8B model and {cap} requests in flight, a token takes {tokens}, in place of {without} ms without a constraint;"
        f" the server writes {speeds} tokens per second in place of {before}."
    )


def section(pictures):
    """The part "on a GPU"."""
    lines, bars, metrics = [], [], []
    for cap in GPU:
        for engine in ENGINES:
            found = figures(cap, engine)
            control = found["control"]
            speeds = control["output_throughput"], found["output_throughput"]
            bars.append((f"{cap}, {engine}", *speeds))
            lines.append([
                f"{cap}, {engine}", f"{found['correct_rate']['hits']:,} of {found['correct_rate']['of']:,}", *(f"{speed:,.0f}" for speed in speeds),
                f"{control['tpot_ms']['mean']:.1f}", added(control["tpot_added"]), f"{control['ttft_ms']['mean']:.0f}", added(control["ttft_added"], 0),
            ])  # fmt: skip
            for arm, word in (("control", "without"), ("constrained", "with")):
                keys = ["mean_ttft_ms", "server_mean_ttft_ms", "server_mean_running", "server_peak_running", "server_peak_cache_usage_percent"]
                metrics.append([f"{cap}, {engine}, {word}", *(f"{mean_of(cap, engine, arm, key):,.0f}" for key in keys)])
    pictures["gpu-throughput.svg"] = speed_bars(bars)
    out = [
        "## On a GPU",
        "One NVIDIA H200, vLLM 0.26.0, a model of the shape of Qwen3-8B with random weights. Dataset `json` (one schema), at most 256 tokens, all"
        " requests at once with a cap on those in flight. Means with 95 % intervals.\n",
        "![Output tokens per second with and without the constraint, by requests in flight and engine](pictures/gpu-throughput.svg)\n",
        table(["in flight, engine", "valid", "tok/s without", "tok/s with", "TPOT without, ms", "added TPOT, ms", "TTFT without, ms", "added TTFT, ms"], lines) + "\n",
        "The server's own metrics beside ours, means over the runs:\n",
        table(["in flight, engine, constraint", "TTFT, ms", "TTFT of the server, ms", "running, mean", "running, peak", "KV cache, peak %"], metrics) + "\n",
        "### What surprised",
        *surprises(),
        "",
        "### What may be unfair on the GPU",
        "- Short runs, and the first seconds differ from the rest: TTFT falls over a run.",
        "- Answers with the constraint are shorter, so batches have other sizes.",
        "- Client and servers shared 16 cores, which also compute the masks.",
        "- vLLM's masks for a batch are made by its engine process; other versions and servers may overlap them better.",
        "- The order of the arms is not balanced with 256 in flight (three repeats).",
        "",
        "### The profile `8b-h100` of the embedded server",
        profile() + "\n",
    ]
    return "\n".join(out)


def surprises():
    most, least = max(GPU), min(GPU)
    of = lambda cap, engine: figures(cap, engine)["control"]["tpot_added"]["ms"]
    grammar = ["xgrammar", "guidance"]
    outlines = [figures(cap, "outlines")["output_throughput"] for cap in GPU]
    share = [1 - figures(cap, engine)["output_throughput"] / figures(cap, engine)["control"]["output_throughput"] for cap in GPU for engine in grammar]
    peaks = [row["server_peak_running"] for engine in ENGINES for row in runs(most, engine, "control")]
    invalid = [figures(cap, "guidance")["causes"]["invalid"] for cap in GPU]
    two_cores = [
        row["control"]["tpot_added"]["ms"]
        for file in COSTS.values()
        if file["server"]["product"] == "vLLM"
        for row in file["result"]["rows"]
        if row["outcome"] == "measured" and row["control"] and row["control"]["tpot_added"]
    ]
    yield (
        f"- Even the fast engines take {100 * min(share):.0f} to {100 * max(share):.0f} % of the tokens per second. They add {ranged([of(least, e) for e in grammar])}"
        f" ms to a token with {least} requests in flight, {ranged([of(most, e) for e in grammar])} ms with {most}: it is no cost per sequence alone."
    )
    yield (
        f"- outlines writes {ranged(outlines, 0)} tokens per second at either load: about {1000 / mean(outlines):.1f} ms pass for each token of the whole batch, as if its masks"
        " were made one after the other."
    )
    yield (
        f"- With {most} requests in flight and no constraint, vLLM never ran more than {min(peaks):.0f} to {max(peaks):.0f} of them at once, and none waited in its queue:"
        " so requests probably wait in its front end, which sends about 10,000 tokens per second. That may be why the first token comes *earlier*"
        " with xgrammar, where fewer tokens are written: do not read it as a gain."
    )
    yield (
        f"- guidance: {sum(rate['hits'] for rate in invalid)} of {sum(rate['of'] for rate in invalid):,} answers have a member twice (`\" \"`, `\"\"`), which JSON Schema cannot forbid,"
        " and a few more never end."
    )
    yield (
        f"- On two cores (below), vLLM's engines add {ranged(two_cores)} ms to tokens of over 50 ms: there the model hides what a GPU shows."
    )


def profile():
    row = re.search(r"\| `8b-h100` \|[^|]*\| ([\d.]+) ms \| ([\d.]+) ms \|", (HERE.parent / "serve.md").read_text())
    base, each = map(float, row.groups())
    texts = []
    for cap in GPU:
        measured = [figures(cap, engine)["control"]["tpot_ms"]["mean"] for engine in ENGINES]
        step = base + (cap - 1) * each
        ratios = [step / value for value in measured]
        texts.append(f"{step:.1f} ms with {cap} sequences, where this server takes {ranged(measured)} ms ({ranged(ratios)} times)")
    return (
        f"It takes {' and '.join(texts)}. An H200 reads its memory 1.4 times as fast as an H100 (4.8 and 3.35 TB/s), so the profile is too slow by more"
        " than the difference of the cards, and most at large batches. There is no profile `8b-h200`: it needs a sweep over batch sizes."
    )


def about():
    return provenance(list(GPU.values()))
