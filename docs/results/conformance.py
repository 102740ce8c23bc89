"""What each version of a server enforces, for machines: `conformance.json`, and the facts that the pages of it share."""

import json
from itertools import groupby
from math import comb
from statistics import median

from common import ABOUT, ENFORCED, FEATURES, HERE, KEYWORDS, KINDS, REQUESTS, STREAMS, WORDS, in_order, message, server_of, title

HELD = ("enforced", "no_violation_seen")
CHANCE = 0.01
"""A difference with a larger p-value could be chance: there are hundreds of comparisons."""
KIND_TITLES = {
    "json": "a JSON Schema",
    "json_object": "any JSON object",
    "regex": "a regular expression",
    "choice": "one of some texts",
    "grammar-lark": "a grammar in Lark",
    "grammar-ebnf": "a grammar in EBNF (GBNF)",
    "structural_tag": "a structural tag",
    "tool-required": "tool_choice `required`",
    "tool-named": "tool_choice with a named tool",
    "tool-auto": "tool_choice `auto`",
    "tool-none": "tool_choice `none`",
    "tool-parallel": "two calls in one answer",
    "tool-one_call": "at most one call in an answer",
    "tool-allowed_tools": "tool_choice with some allowed tools",
}
CLASSES = {"enforced": "enforced", "rejected": "rejected", "broken": "crashed", "unproven": "undecided"}
CLASSES |= {name: name for name in ("not_carried", "not_asked")}
CLASSES |= {name: "under_enforced" for name in ("partial", "ignored", "wrong_wrapper", "wrong_channel", "leaked", "merged")}

REFUSED = {"fine": "enforced", "refused": "rejected", "server_gone": "crashed", "hangs": "crashed", "unknown": "undecided"}
"""Of requests, other verdicts are *under-enforced*."""
CONTRACT = json.loads((HERE.parent.parent / "schemas/contracts/result.schema.json").read_text())
DEPARTURES = {entry["const"]: entry["description"] for entry in CONTRACT["$defs"]["Departure"]["oneOf"]}


def fewer_violations(file):
    """The features of a part that were measured without some of the texts that the list has now."""
    measured = {feature["id"]: set(feature["violating"]) for feature in file["result"]["features"]}
    return {item for item, texts in measured.items() if set(KEYWORDS.get(item, {}).get("violating", ())) - texts}


def columns():
    """Every version of every server that was measured, the newest version of each server first."""
    previous = None
    for name in in_order(set().union(*ENFORCED.values())):
        file = next(parts[name] for parts in ENFORCED.values() if name in parts)
        server, version, result = server_of(name), name.partition("@")[2], file["result"]
        yield {
            "id": name,
            "title": title(name),
            "server": server["product"],
            "engine": server["engine"],
            "version": version,
            "engine_versions": file["versions"]["engines"],
            "is_newest": server is not previous,
            "date": file["date"],
            "sobench_commit": file["versions"]["commit"],
            "dialect": result["servers"][0]["constraint_dialect"] if name in FEATURES else None,
            "answers": result.get("samples"),
            "answer_tokens": result.get("output_len"),
            "start": file["server"]["start"],
            "parts": [f"{kind}-{name}" for kind, parts in ENFORCED.items() if name in parts],
        }
        previous = server


SLOW_MS = 1000
"""A feature whose first token takes this much longer than that of the median feature is slow."""


def feature_cells():
    for name, file in FEATURES.items():
        fewer = fewer_violations(file)
        times = [entry["first_ttft_ms"] for entry in file["result"]["servers"][0]["found"] if "first_ttft_ms" in entry]
        usual_ms = median(times) if times else 0
        for entry in file["result"]["servers"][0]["found"]:
            cell = {"row": entry["id"], "column": name, "verdict": entry["verdict"]}
            cell |= {key: entry[key] for key in ("controls", "yielded", "valid", "invalid", "duplicate_members")}
            # Other verdicts hold: an answer that breaks the schema, or a refusal.
            cell["is_fewer"] = entry["id"] in fewer and entry["verdict"] in HELD
            if entry.get("first_ttft_ms", 0) > usual_ms + SLOW_MS:
                cell["slow_ms"] = round(entry["first_ttft_ms"] - usual_ms)
            if entry["offending"]:
                wrong = entry["offending"]
                cell |= {"answer": wrong["text"], "reason": wrong["reason"], "is_cut": wrong["cut"]}
            if entry["status"]:
                cell["status"] = entry["status"]
            if entry["words"]:
                cell["words"] = message(entry["words"])
            yield cell


def kind_cells():
    """One cell for each kind: its best request, because a client can choose it; of calls, the worse of streamed and whole. A request that breaks
    tells more than one that is refused, since the server took it."""
    best = list(dict.fromkeys(CLASSES))
    best = ["enforced", *(name for name in best if CLASSES[name] == "under_enforced"), "broken", "rejected", "unproven", "not_carried", "not_asked"]
    for name, file in KINDS.items():
        rows = {}
        for entry in file["result"]["cells"]:
            row = "-".join(filter(None, (entry["kind"], entry["grammar_dialect"])))
            rows.setdefault(row, {})[entry["constraint_dialect"]] = [(entry["constraint_dialect"], entry)]
        for entry in (file["result"]["tool_calls"] or {"cells": []})["cells"]:
            strict = "strict" if entry["strict"] else "not strict"
            request = f"{strict}, {'streamed' if entry['stream'] else 'whole'}"
            rows.setdefault(f"tool-{entry['row']}", {}).setdefault(strict, []).append((request, entry))
        for row, requests in rows.items():
            worst = [max((entry["class"] for _, entry in some), key=lambda c: (c != "not_asked", best.index(c))) for some in requests.values()]
            found = min(worst, key=best.index)
            tests = [test_of(request, entry) for some in requests.values() for request, entry in some]
            yield {"row": row, "column": name, "verdict": CLASSES[found], "class": found, "tests": tests}


def request_cells():
    for name, file in REQUESTS.items():
        for entry in [*file["result"]["wire"]["negative"], *file["result"]["wire"]["prompts"]]:
            found = entry["verdict"]
            row, tests = row_of(entry["name"]), [{"request": entry["name"], "class": found, "words": message(entry["words"])}]
            yield {"row": row, "column": name, "verdict": REFUSED.get(found, "under_enforced"), "class": found, "tests": tests}


def stream_cells():
    """One cell for each departure that a stream of any server has."""
    found = {name: departures(file) for name, file in STREAMS.items()}
    for departure in used_departures():
        for name, file in STREAMS.items():
            entry, answers = found[name].get(departure), answers_of(file)
            departing = entry["answers"] if entry else 0
            verdict = "under_enforced" if departing else "enforced" if answers else "undecided"
            cell = {"row": row_of(departure), "column": name, "verdict": verdict, "valid": answers - departing, "invalid": departing}
            yield cell | ({"forbidden_by": entry["forbidden_by"], "example": entry["example"]} if entry else {})


def departures(file):
    return {entry["name"]: entry for entry in file["result"]["sobench"].get("departures", {"by_name": []})["by_name"]}


def answers_of(file):
    return file["result"]["sobench"]["metrics"]["departure_rate"]["of"]


def used_departures():
    used = set().union(*map(departures, STREAMS.values()))
    return [departure for departure in DEPARTURES if departure in used]


def row_of(name):
    return name.replace(",", "").replace(" ", "-").replace("_", "-")


def test_of(request, entry):
    test = {"request": request, "class": entry["class"]}
    if entry["status"]:
        test["status"] = entry["status"]
    if entry["words"]:
        test["words"] = message(entry["words"])
    if entry["answer"] is not None:
        test["answer"] = entry["answer"]
    return test


def rows(cells):
    """Every feature and kind that a cell has."""
    used = {cell["row"] for cell in cells}
    for item, feature in KEYWORDS.items():
        if item in used:
            yield {"id": item, "group": "keyword", **{key: feature[key] for key in ("keyword", "schema", "valid", "violating")}}
    for kind, words in KIND_TITLES.items():
        if kind in used:
            yield {"id": kind, "group": "tool_call" if kind.startswith("tool-") else "kind", "title": words}
    for group, key in (("request", "negative"), ("prompt", "prompts")):
        names = dict.fromkeys(entry["name"] for file in REQUESTS.values() for entry in file["result"]["wire"][key])
        yield from ({"id": row_of(name), "group": group, "title": name} for name in names)
    for departure in used_departures():
        yield {"id": row_of(departure), "group": "stream", "title": DEPARTURES[departure]}


def fisher(a, b, c, d):
    """Two-sided p-value of Fisher's exact test for the rows (a, b) and (c, d)."""
    row, column, every = a + b, a + c, a + b + c + d
    ways = [comb(row, x) * comb(every - row, column - x) for x in range(max(0, column - c - d), min(row, column) + 1)]
    seen = comb(row, a) * comb(every - row, column - a)
    return sum(number for number in ways if number <= seen) / comb(every, column)


def changes(columns, cells):
    """Verdicts that differ between a version and the one before it. Enforced and no violation seen differ in the controls only."""
    by_place = {(cell["row"], cell["column"]): cell for cell in cells}
    for new, old in zip(columns, columns[1:]):
        if old["is_newest"]:
            continue
        for row in dict.fromkeys(cell["row"] for cell in cells):
            before, after = by_place.get((row, old["id"])), by_place.get((row, new["id"]))
            if not before or not after or "not_asked" in (before["verdict"], after["verdict"]):
                continue
            if before["verdict"] == after["verdict"] or (before["verdict"] in HELD and after["verdict"] in HELD):
                continue
            p = None
            both = {before["verdict"], after["verdict"]}
            if "valid" in before and both <= {*HELD, "under_enforced"}:
                p = fisher(before["invalid"], before["valid"], after["invalid"], after["valid"])
            fewer = before.get("is_fewer") or after.get("is_fewer")
            weak = "undecided" in both or (p is not None and (p > CHANCE or fewer))
            # The model writes the call, and there is one answer.
            weak |= row.startswith("tool-") and both <= {"enforced", "under_enforced"}
            change = {"row": row, "column": new["id"], "before": old["id"], "verdict": after["verdict"], "verdict_before": before["verdict"]}
            yield {**change, "p": p and round(p, 6), "is_weak": bool(weak)}


def history(cells, changed):
    """The verdicts of one feature over the versions of one server, oldest first: `under-enforced in 1.0, rejected since 1.1`.

    `changed` has whether a change could be chance, by row and column.
    """
    held = [verdict for verdict in HELD if any(cell["verdict"] == verdict for cell in cells)]
    name = lambda cell: " or ".join(WORDS[verdict] for verdict in held) if cell["verdict"] in HELD else WORDS[cell["verdict"]]
    runs = [(words, list(run)) for words, run in groupby(cells, key=name)]
    texts = []
    for words, run in runs:
        first = run[0]["column"].partition("@")[2]
        chance = " (could be chance)" if changed.get((run[0]["row"], run[0]["column"])) else ""
        if run is runs[-1][1] and len(runs) > 1:
            texts.append(f"{words} since {first}{chance}")
        else:
            measured = dict.fromkeys(cell["column"].partition("@")[2] for cell in run)
            texts.append(f"{words} in {' and '.join(measured)}{chance}")
    return ", ".join(texts)


def conformance():
    """The content of `conformance.json`."""
    every, cells = list(columns()), [*feature_cells(), *kind_cells(), *request_cells(), *stream_cells()]
    return {
        "$schema": "conformance.schema.json",
        "format": "sobench-conformance",
        "format_version": 1,
        "model": ABOUT["model"]["name"],
        "columns": every,
        "rows": list(rows(cells)),
        "cells": cells,
        "changes": list(changes(every, cells)),
    }


def written(content):
    """JSON with a line for each column, row, cell and change."""
    members = []
    for key, value in content.items():
        if isinstance(value, list):
            lines = ",\n".join("  " + json.dumps(entry, ensure_ascii=False) for entry in value)
            members.append(f' "{key}": [\n{lines}\n ]')
        else:
            members.append(f' "{key}": {json.dumps(value, ensure_ascii=False)}')
    return "{\n" + ",\n".join(members) + "\n}\n"
