"""The page of what servers enforce."""

from chart import badges
from common import ABOUT, ENFORCED, FEATURES, KINDS, MADE, REQUESTS, SERVERS, STREAMS, WORDS, by_notice, count, missing, newest, provenance, server_of, table, texts, title
from conformance import CHANCE, answers_of
from pictures import verdict_bars, verdicts


def page_servers(pictures, data):
    files = newest(FEATURES)
    out = [MADE, "# What servers enforce", ""]
    out.append(
        "**[The chart](chart.html)**: every keyword by server, engine and version, with search, history, and the evidence for each cell.\n"
    )
    if files:
        pictures["verdicts.svg"] = verdict_bars(files)
        number = len(next(iter(files.values()))["result"]["features"])
        under = sorted((counts_of(file)["under_enforced"], title(name)) for name, file in files.items())
        out.append(
            f"Of {number} features of JSON Schema, the newest versions under-enforce between {under[0][0]} ({under[0][1]}) and {under[-1][0]}"
            f" ({under[-1][1]}): they return invalid answers with status 200. Measured by `sobench preflight --features`"
            f" ([method](../preflight.md#keywords-of-json-schema)) with the model {ABOUT['model']['name']} ({ABOUT['model']['licence']}).\n"
        )
        out.append("![Bars of the features by verdict, one for the newest version of each server](pictures/verdicts.svg)\n")
        names = [name for name in verdicts(FEATURES) if name != "not_asked"]
        lines = [[title(name).replace(" ", "\u00a0"), *(counts_of(file)[verdict] for verdict in names)] for name, file in FEATURES.items()]
        out.append(table(["server, engine", *(WORDS[name] for name in names)], lines) + "\n")
    out += [*changed(data), *kinds(data), *wire(data)]
    of_all = lambda key: " or ".join(map(str, sorted({file["result"][key] for file in FEATURES.values()})))
    notices = [(server_of(name)["title"], notice) for name, file in FEATURES.items() for notice in file["result"]["servers"][0]["notices"]]
    if notices:
        out += ["## Notices of the reports\n", *by_notice(notices), ""]
    if files:
        fewer = sum(cell.get("is_fewer", False) for cell in data["cells"])
        out.append(f"""## How to read
- *Enforced*: control requests break the keyword, constrained ones do not. *No violation seen*: too few controls break it to tell, which says
  nothing against the server. Columns had {of_all("samples")} answers for each feature: do not rank servers by one against the other. What tells them
  apart is *under-enforced* and *rejected*.
- *Under-enforced* is certain: the server returned an invalid answer with status 200.
- *Rejected* is a good result: the client gets an error in place of invalid answers.
- In the chart, `✗ 4 of 5` is the number of invalid answers of all, `✓ 13` and `○ 11` the number of answers without a violation.
{f"- `*` ({count(fewer, 'cell')}): measured with fewer violating texts than `schemas/features.jsonl` has now. The server may let a new one through." if fewer else ""}

## What may be unfair
- A model of 135 million parameters tries other violations than a large one, and samplers differ between servers.
- SGLang and vLLM refuse some keywords themselves, before the engine sees them. Their versions of an engine differ.
- Answers had at most {of_all("output_len")} tokens; white space between tokens uses them up.
- vLLM with `auto` checks a schema that its engine (see the notice) does not support for another one, but compiles it with the first.
- llama.cpp has a limit of 6 GiB of memory. It refuses `minLength-above-maxLength` only because it reaches that limit
  ([known](findings/README.md#dropped)).
- `format` is asserted here; as an annotation it may be ignored.
- Departures that makers document are shown, too.
- The chat template of the model has no place for tools: `tools-in-the-prompt` says nothing about the server.
""".replace("\n\n\n", "\n\n"))
    rest = "GPUs; other models and dialects. The time of each keyword (slow ones have `+3 s` in the chart): only in parts of sobench from 2026-11-28 on.\n"
    out.append("## What was not measured\n" + "\n".join(filter(None, [*(missing(kind, parts) for kind, parts in ENFORCED.items()), rest])))
    out += [machines(), *snippets(data)]
    parts = [file for parts in ENFORCED.values() for file in parts.values()]
    versions = [f"- {product_of(name)}: {file['versions']['engines'] or server_of(name)['engine']}" for name, file in {**KINDS, **FEATURES}.items()]
    out.append("## Versions, date, machine\n" + "\n".join(sorted(set(versions))))
    out.append("\nCommands that start the servers: [reproduce](reproduce.md).\n\n" + provenance(parts))
    return "\n".join(out)


def product_of(name):
    return f"{server_of(name)['product']} {name.partition('@')[2]}"


def counts_of(file):
    return file["result"]["servers"][0]["counts"]


def changed(data):
    """The changes between versions of a server, by their verdicts; those that could be chance as a number."""
    groups, weak = {}, {}
    for change in data["changes"]:
        versions = f"{title(change['before'])} → {change['column'].partition('@')[2]}"
        verdict = f"{WORDS[change['verdict_before']]} → {WORDS[change['verdict']]}"
        if change["is_weak"]:
            weak.setdefault(versions, []).append(change["row"])
            groups.setdefault(versions, {})
        else:
            groups.setdefault(versions, {}).setdefault(verdict, []).append(f"`{change['row']}`")
    out = [
        "## What changed between versions",
        "Verdicts that differ between a version and the measured version before it. *Enforced* and *no violation seen* count as equal: they"
        f" differ in the controls only. Left out, as a number: changes that could be chance (Fisher's exact test above {CHANCE}, an undecided"
        " verdict, or fewer violating texts). [The chart](chart.html) shows them.\n",
    ]
    for versions, found in groups.items():
        chance = f" ({count(len(weak[versions]), 'change')} could be chance)" if versions in weak else ""
        out.append(f"- {versions}{': no certain change' * (not found)}{chance}")
        out += [f"  - {verdict}: {', '.join(rows)}" for verdict, rows in found.items()]
    return [*out, ""] if groups else []


def kinds(data):
    """The kinds of constraints that the newest versions enforce."""
    lines = []
    for name, cells in newest_cells(data, "kind", "tool_call").items():
        of = lambda *verdicts: ", ".join(f"`{cell['row']}`" for cell in cells if cell["verdict"] in verdicts)
        lines.append([title(name), of("enforced"), of("under_enforced"), of("rejected", "crashed"), of("undecided", "not_carried", "not_asked")])
    if not lines:
        return []
    return [
        "## Kinds of constraints and tool calls\n",
        "One answer for each request of `sobench preflight`; the best request of each kind.\n",
        texts(["server, engine", "enforced", "under-enforced", "rejected or crashed", "undecided or no field for it"], lines),
        "",
    ]


def wire(data):
    """What the newest versions do that the API does not say."""
    requests, prompts, streams = (newest_cells(data, group) for group in ("request", "prompt", "stream"))
    lines = []
    for name in (column["id"] for column in data["columns"] if column["is_newest"] and column["id"] in {**REQUESTS, **STREAMS}):
        of = lambda parts, cells: differing(cells.get(name, [])) if name in parts else "not measured"
        found = [of(REQUESTS, requests), of(REQUESTS, prompts), of(STREAMS, streams)]
        if name in STREAMS and not answers_of(STREAMS[name]):
            found[-1] = "no answer"
        lines.append([title(name), *found])
    if not lines:
        return []
    return [
        "## Requests, prompts and streams\n",
        "What differs from the API: requests that are not refused with 400 and a message, prompts that do not count what they should, and departures"
        " of streams of tool calls ([names](../wire.md#departures)).\n",
        texts(["server, engine", "requests", "prompts", "streams"], lines),
        "",
    ]


def differing(cells):
    return ", ".join(f"`{cell['row']}`" for cell in cells if cell["verdict"] not in ("enforced", "undecided")) or "none"


def newest_cells(data, *groups):
    """The cells in these groups of rows, by column, of the newest version of each server."""
    group = {row["id"]: row["group"] for row in data["rows"]}
    cells = [cell for cell in data["cells"] if group[cell["row"]] in groups]
    found = {column["id"]: [cell for cell in cells if cell["column"] == column["id"]] for column in data["columns"] if column["is_newest"]}
    return {name: cells for name, cells in found.items() if cells}


def machines():
    return """## For machines
[conformance.json](conformance.json) has all of the chart; [its schema](conformance.schema.json) describes each key. `columns` are servers with
an engine and a version, `rows` features with their schemas and violating texts, `cells` verdicts with counts, answers and messages,
`changes` the differences between versions.
"""


def snippets(data):
    found = list(badges(data))
    if not found:
        return []
    shown = "\n".join(f"![{SERVERS[name[: -len('.svg')]]['title']}](badges/{name})" for name in found)
    return [f"""## Badges
{shown}

```text
[![JSON Schema](badges/{found[0]})](chart.html)
```
"""]
