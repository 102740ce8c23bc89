"""Data, texts and tables of the results chapter."""

import gzip
import json
import math
import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
DATA = HERE / "data"
ABOUT = json.loads((HERE / "servers.json").read_text())
SERVERS = ABOUT["servers"]

CORPORA = {
    "shipped": "constraints inside the program",
    "traps": "`fixtures/mask/traps.jsonl`",
    "maskbench": "sample of MaskBench",
}
TITLES = {
    "guidance": "guidance",
    "xgrammar": "xgrammar (port)",
    "xgrammar-cpp": "xgrammar (C++)",
    "outlines": "outlines",
}
MARKS = {
    "enforced": "✓",
    "no_violation_seen": "○",
    "under_enforced": "✗",
    "rejected": "R",
    "crashed": "!",
    "undecided": "?",
    "not_carried": "–",
    "not_asked": "–",
}
WORDS = {
    "enforced": "enforced",
    "no_violation_seen": "no violation seen",
    "under_enforced": "under-enforced",
    "rejected": "rejected",
    "crashed": "crashed",
    "undecided": "undecided",
    "not_carried": "no field for it",
    "not_asked": "not asked (the measurement or the server ended)",
}
MADE = "<!-- Made by docs/results/make from docs/results/data. Do not edit. -->"


def part(name):
    """A file of data, or None if it was not measured."""
    path = DATA / f"{name}.json.gz"
    return json.loads(gzip.decompress(path.read_bytes())) if path.exists() else None


def in_order(names):
    """Names such as `SERVER@VERSION`: servers in the order of `servers.json`, the newest version of each first."""
    by_version = sorted(names, key=lambda name: [int(number) for number in re.findall(r"\d+", name.partition("@")[2])], reverse=True)
    return sorted(by_version, key=lambda name: list(SERVERS).index(name.partition("@")[0]))


def parts_of_servers(kind):
    """The parts of servers by `SERVER@VERSION`."""
    names = [path.name[len(kind) + 1 : -len(".json.gz")] for path in DATA.glob(f"{kind}-*@*.json.gz")]
    return {name: part(f"{kind}-{name}") for name in in_order(names)}


def server_of(name):
    """The entry of `servers.json` for `SERVER@VERSION`."""
    return SERVERS[name.partition("@")[0]]


def title(name):
    """A title such as `vLLM 0.32.0, xgrammar` for `vllm-xgrammar@0.32.0`."""
    product = server_of(name)["product"]
    return server_of(name)["title"].replace(product, f"{product} {name.partition('@')[2]}", 1)


def newest(found):
    """The newest version of each server."""
    return {name: file for name, file in found.items() if name == next(other for other in found if server_of(other) is server_of(name))}


MASKS = {name: part(f"masks-{name}") for name in CORPORA}
PROOFS = {name: part(f"proofs-{name}") for name in CORPORA}
CPP = part("xgrammar-cpp")
OF_SERVERS = {kind: parts_of_servers(kind) for kind in ("features", "kinds", "requests", "streams", "costs")}
"""The parts of servers, by kind and `SERVER@VERSION`."""
FEATURES, KINDS, REQUESTS, STREAMS, COSTS = OF_SERVERS.values()
ENFORCED = {kind: parts for kind, parts in OF_SERVERS.items() if kind != "costs"}
"""Those of the chart."""
KEYWORDS = {
    feature["id"]: feature for feature in map(json.loads, (HERE.parent.parent / "schemas/features.jsonl").read_text().splitlines())
}


# Text


def table(header, rows):
    """A Markdown table; the first column is text, the others are numbers."""
    lines = ["| " + " | ".join(header) + " |", "|---" + "|---:" * (len(header) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows])


def texts(header, rows):
    """A Markdown table of texts."""
    return table(header, rows).replace("---:", "---")


def code(text, limit=60):
    """A text in the font of code, cut, on one line and without what would end a cell."""
    shown = "".join(character if character.isprintable() else f"\\u{ord(character):04x}" for character in text)
    shown = shown if len(shown) <= limit else shown[: limit - 1] + "…"
    fence = "``" if "`" in shown else "`"
    return f"{fence}{shown}{fence}".replace("|", "\\|") if shown else "empty"


def duration(ns):
    """A duration with three digits and a unit."""
    if ns is None:
        return "–"
    if math.isinf(ns):
        return "over the limit"
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if ns >= size:
            return f"{three(ns / size)} {unit}"
    return f"{ns:.0f} ns"


def three(value):
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def share(hits, of):
    return f"{hits} ({100 * hits / of:.0f} %)" if of else "0"


def count(number, noun):
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def polls(file):
    """Whether the part has a server that polls while it is idle, which is a load of 1."""
    return file["server"] is not None and file["server"]["product"] == "SGLang"


def is_busy(file):
    """Whether other programs ran when the part began, by the load before it."""
    return (file["machine"]["load_before"] or 0) > (1.5 if polls(file) else 0.5)


def measured(files):
    return [file for file in files if file]


def provenance(files):
    """Date, load and command of each part of a page."""
    if not files:
        return "Nothing on this page was measured yet.\n"
    commits = {file["versions"]["commit"] for file in files}
    parts = [
        f"- [`{file['part']}`](data/{file['part']}.json.gz): {file['date'][:16].replace('T', ' ')}"
        + (", ended early" if file["exit_code"] == 130 else "")
        + (f", {file['machine']['load_before']:.2f}" if file["machine"]["load_before"] is not None else ", made elsewhere")
        + "†" * is_busy(file)
        + (f", {file['versions']['commit']}" if len(commits) > 1 else "")
        for file in files
    ]
    load = "load before ([machine](README.md#data))"
    heading = f"Date (UTC), {load} and commit" if len(commits) > 1 else f"Commit {commits.pop()}. Date (UTC) and {load}"
    notes = sorted({note for file in files for note in file["notes"]})
    by_command = {}
    for file in files:
        command = " ".join(word if " " not in word else f"'{word}'" for word in file["command"])
        # Parts that were measured by an earlier program name its flags.
        for before, now in [("sobench mask", "sobench-tools mask"), (" --json ", " --save "), ("--save-comparison", "--save")]:
            command = command.replace(before, now)
        command = re.sub(r"(--base-url \S+ --backend) \S+", "--base-url URL --backend BACKEND", command)
        part = file["part"]
        if command.startswith("sobench-tools mask"):
            corpus = re.search(r"--corpus (\S+)", command).group(1)
            command = command.replace(corpus, "CORPUS", 1).replace(f"{part}.jsonl", "PART.jsonl")
            part += f" ({corpus})"
        by_command.setdefault(command, []).append(part)
    # A command of many parts comes last.
    shown = sorted(by_command.items(), key=lambda entry: len(entry[1]) > 6)
    lines = [f"# {', '.join(parts)}\n" if command != shown[-1][0] or len(parts) <= 6 else "# the other parts\n" for command, parts in shown]
    commands = "\n".join(line * (len(shown) > 1) + command for line, (command, _) in zip(lines, shown))
    return (
        f"{heading} of each part:\n\n"
        + "\n".join(parts)
        + "\n"
        + "".join(f"\n- {note}" for note in notes)
        + ("\n" if notes else "")
        + f"\n```text\n{commands}\n```\n"
    )


def one_machine(about):
    memory = about["memory_bytes"] / 2**30 if about["memory_bytes"] else 0
    return f"{about['os']} {about['arch']}, {about['cpu']}, {about['cores']} cores, {memory:.0f} GiB of memory"


def missing(prefix, found):
    """A sentence on the parts that have no data."""
    wanted = found if prefix in ("masks", "proofs") else SERVERS
    present = {name.partition("@")[0] for name, file in found.items() if file}
    names = [f"`{prefix}-{name}`" for name in wanted if name not in present]
    if len(names) == len(wanted):
        return f"Not measured: `{prefix}` of all.\n"
    return f"Not measured: {', '.join(names)}.\n" if names else ""


# Texts of reports


def by_notice(notices):
    """A line for each notice, with the titles of the servers that have it."""
    titles = {}
    for title, notice in notices:
        titles.setdefault(notice, dict.fromkeys([title]))[title] = None
    return [f"- {'; '.join(found) if len(found) < len(SERVERS) else 'all servers'}: {notice}" for notice, found in titles.items()]


def message(words):
    """The message of a server without its JSON, place in the code and time, and the words with which SGLang begins each."""
    try:
        error = json.loads(words)
        error = error.get("error") or error.get("meta_info", {}).get("finish_reason") or error
        words = error.get("message", words)
    except (ValueError, AttributeError):
        found = re.search(r'"message": ?"((?:[^"\\\\]|\\\\.)*)', words)
        words = found.group(1) if found else words
    words = words.removeprefix("Failed to compile json grammar: ")
    words = re.sub(r"\[[0-9:]{8}\] \S+:\d+: ", "", words).replace("\\n", " ")
    return " ".join(words.split())
