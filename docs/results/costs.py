"""The page of what a constraint costs."""

import re

import gpu
from common import COSTS, MADE, by_notice, missing, provenance, table, title
from pictures import added_bars


def page_costs(pictures):
    files = {name: file for name, file in COSTS.items() if file}
    out = [MADE, "# What a constraint costs", ""]
    out.append(gpu.headline() + "\n")
    out.append(gpu.section(pictures))
    out.append(
        "## On two cores\nThe time that a constraint adds on each server: the same requests with and without it. It says little about a GPU: here"
        " the two cores that compute the constraint also run the model and the client.\n"
    )
    lines, bars, notices = [], [], []
    for name, file in files.items():
        for row in file["result"]["rows"]:
            heading = title(name)
            if row["outcome"] != "measured":
                lines.append([heading, "did not run: " + row["reason"].splitlines()[0][:80], *[""] * 6])
                continue
            control = row["control"]
            lines.append([
                heading, row["requests"], rate(row["correct_rate"]), rate(control and control["control_rate"]), middle(control and control["ttft_ms"]),
                added(control and control["ttft_added"]),
                middle(control and control["tpot_ms"]), added(control and control["tpot_added"]),
            ])  # fmt: skip
            tpot = control and control["tpot_added"]
            if tpot and tpot["low_ms"] is not None:
                bars.append((heading, tpot["ms"], tpot["low_ms"], tpot["high_ms"]))
        # The page has no cold latencies.
        notices += [(title(name), notice) for notice in file["result"]["notices"] if not notice.startswith("cold TTFT")]
    if bars:
        pictures["added-tpot.svg"] = added_bars(bars)
        out.append("![Time that the constraint adds to each token, by server](pictures/added-tpot.svg)\n")
    if lines:
        header = ["server", "requests", "correct", "correct without it", "TTFT without it", "added TTFT", "TPOT without it", "added TPOT"]
        rows = table(header, lines)
        out.append(rows + "\n")
        record = next(iter(files.values()))["result"]["record"]
        out.append(
            f"Dataset `json` (one schema); load: {record['load']}; at most {record['output_len']} tokens; answers cut there are not correct. Means"
            " in ms with 95 % intervals."
            + " `n/a`: too few requests or answers at once ([why](../side-by-side.md#sentences))." * ("n/a" in rows)
            + "\n"
        )
    if notices:
        out.append("## Warnings of the reports\n")
        out += [*by_notice(notices), ""]
    out.append("""## What may be unfair
- An engine in a thread of its own has no idle core here.
- A constraint changes the length of answers, and so the sizes of batches.
- Do not compare servers with each other: kernels, precision and weights differ.
- Other servers were in memory, idle or stopped (SIGSTOP), beside SGLang and vLLM with outlines.
- Runs differ by more than the interval of one: two runs of vLLM with xgrammar, three hours apart, showed +10.1 ms a token (+3.3 to
  +17.1) and -1.1 (-12.2 to +10.0).
- The one schema is small. For large ones see [engines](engines.md).

## What was not measured
""" + (missing("costs", COSTS) or "") + "\nOn a GPU: other engines, servers and versions, cold schemas, other batch sizes, each server alone. Many schemas; several loads (`sobench bench --sweep`).\n")
    out.append("## Versions, date, machine")
    versions = sorted({version for file in files.values() if (version := version_of_server(file))})
    if versions:
        out.append(f"{'; '.join(versions)}. Other versions and engines: [servers](servers.md#versions-date-machine).\n")
    out.append(provenance(list(files.values())))
    out.append("On the GPU:\n\n" + gpu.about())
    return "\n".join(out)


def version_of_server(file):
    """Product and version, as a comparison records them of a running server."""
    version = re.search(r"version ([^;]+)", file["result"]["record"]["servers"])
    return f"{file['server']['product']} {version.group(1)}" if version else None


def rate(value):
    return "n/a" if not value else f"{value['percent']:.0f} % ({value['low_percent']:.0f} to {value['high_percent']:.0f})"


def middle(summary):
    return "n/a" if not summary or summary["mean"] is None else f"{summary['mean']:.1f}"


def added(value):
    if not value:
        return "n/a"
    interval = "" if value["low_ms"] is None else f" ({value['low_ms']:+.1f} to {value['high_ms']:+.1f})"
    return f"{value['ms']:+.1f}{interval}"
