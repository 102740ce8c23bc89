"""The chart of what servers enforce: one HTML file from `chart_page.html`, and the badges."""

import html
import json

from common import ABOUT, HERE, MARKS, WORDS, count, server_of
from conformance import HELD, history

GROUPS = {
    "keyword": "JSON Schema",
    "kind": "Kinds of constraints",
    "tool_call": "Tool calls",
    "request": "Requests that must be refused with 400 and a message",
    "prompt": "Prompts that must count",
    "stream": "Streams of tool calls that depart from the API",
}
TITLES = {key: html.escape(words[0].upper() + words[1:]) for key, words in WORDS.items()}


def escape(text):
    """Quotes stay, for the size of the file: attributes with free text use `html.escape`."""
    return html.escape(text, quote=False)


def mark(cell):
    """The text of a cell."""
    verdict, text = cell["verdict"], MARKS[cell["verdict"]]
    if verdict == "under_enforced":
        text += " " + (cell["class"].replace("_", " ") if "class" in cell else f"{cell['invalid']} of {cell['valid'] + cell['invalid']}")
    elif verdict in HELD and "valid" in cell:
        text += f" {cell['valid']}"
    slow = f" +{cell['slow_ms'] / 1000:.0f} s" if "slow_ms" in cell else ""
    return text + "*" * cell.get("is_fewer", False) + slow


def page(data):
    """The text of `chart.html`."""
    by_place = {(cell["row"], cell["column"]): cell for cell in data["cells"]}
    changed = {(change["row"], change["column"]): change["is_weak"] for change in data["changes"]}
    newest = [column for column in data["columns"] if column["is_newest"]]
    used = {cell["verdict"] for cell in data["cells"]}
    parts = {
        "HEAD": "".join(head(column) for column in data["columns"]),
        "BODY": "".join(body(group, data, by_place, changed) for group in GROUPS),
        "EVIDENCE": "".join(evidence(row, data["columns"], by_place, changed) for row in data["rows"]),
        "COLUMNS": "".join(about(column) for column in data["columns"]),
        "SERVERS": options(column["server"] for column in newest),
        "ENGINES": options(column["engine"] for column in newest),
        "VERDICTS": "".join(f'<option value="{verdict}">{TITLES[verdict]}' for verdict in MARKS if verdict in used),
        "CHOICES": "".join(
            f'<label><input type=checkbox checked value="{key(column)}"> {escape(server_of(column["id"])["title"])}</label>' for column in newest
        ),
        "SIZE": f"{count(len(data['rows']), 'feature')}, {count(len(newest), 'server')} with an engine, {count(len(data['columns']), 'version')}",
        "MODEL": escape(ABOUT["model"]["name"]),
    }
    text = (HERE / "chart_page.html").read_text()
    for name, part in parts.items():
        text = text.replace(f"<!--{name}-->", part)
    return text


def options(names):
    return "".join(f"<option>{escape(name)}" for name in dict.fromkeys(names))


def key(column):
    return column["id"].partition("@")[0]


def head(column):
    """The head of a column. `data-words` has what a search for columns compares."""
    old = "" if column["is_newest"] else ' class="old"'
    words = " ".join([column["server"], column["engine"], column["version"], key(column)]).lower()
    return (
        f'<th scope=col{old} data-key="{key(column)}" data-server="{html.escape(column["server"])}" data-engine="{html.escape(column["engine"])}"'
        f' data-words="{html.escape(words)}"><a href="#{column["id"]}">{escape(column["server"])} <b>{escape(column["engine"])}</b> {escape(column["version"])}</a>\n'
    )


def body(group, data, by_place, changed):
    rows = [row for row in data["rows"] if row["group"] == group]
    if not rows:
        return ""
    lines = [f"<tbody><tr class=group><th scope=rowgroup colspan={len(data['columns']) + 1}><span>{GROUPS[group]}</span>\n"]
    for row in rows:
        lines.append(f'<tr data-words="{html.escape(words_of(row))}"><th scope=row><a href="#{row["id"]}">{escape(row["id"])}</a>')
        for column in data["columns"]:
            cell, place = by_place.get((row["id"], column["id"])), f"{row['id']}/{column['id']}"
            if cell:
                change = {None: "{}", False: '"{} changed"', True: '"{} weak"'}[changed.get((row["id"], column["id"]))]
                lines.append(f"<td class={change.format(cell['verdict'])}><a href=#{place}>{mark(cell)}</a>")
            else:
                lines.append("<td>")
        lines.append("\n")
    return "".join(lines) + "</tbody>\n"


def words_of(row):
    return f"{row['id']} {row.get('keyword', '')} {row.get('title', '')}".lower()


def evidence(row, columns, by_place, changed):
    """A section with the schema of a feature, its history on each server, and the evidence for each cell."""
    out = [f'<section id="{row["id"]}"><h3>{escape(row["id"])}</h3>']
    if "schema" in row:
        texts = " ".join(code(text) for text in row["violating"])
        out.append(f"<p>Schema: {code(json.dumps(row['schema'], ensure_ascii=False))}<p>Texts that break it: {texts or 'every text'}")
    elif row["group"] == "stream":
        out.append(f"<p>Departure: {code_of_markdown(row['title'])}.")
    else:
        out.append(f"<p>Request: {code_of_markdown(row['title'])}. One answer for each request.")
    out.append("<dl>\n")
    for server in dict.fromkeys(map(key, columns)):
        cells = [cell for column in columns if key(column) == server and (cell := by_place.get((row["id"], column["id"])))]
        if cells:
            out.append(f"<dt>{escape(server_of(server)['title'])}: <b>{escape(history(cells[::-1], changed))}</b>\n")
            before = None
            for cell in cells:
                facts, version = details(cell), cell["column"].partition("@")[2]
                out.append(f"<dd id={row['id']}/{cell['column']}><a>{version}</a> {'the same' if facts == before else facts}\n")
                before = facts
    return "".join(out) + "</dl></section>\n"


def details(cell):
    """The evidence for a cell."""
    verdict = WORDS[cell["verdict"]]
    if "tests" in cell:
        return verdict + "".join(map(test, cell["tests"]))
    if "controls" not in cell:
        facts = [f"{cell['invalid']} of {count(cell['valid'] + cell['invalid'], 'answer')}"]
        return "; ".join(facts + ([f"forbidden by {cell['forbidden_by']}", code(cell["example"])] if "example" in cell else []))
    facts = [verdict]
    if cell["verdict"] in HELD:
        facts = [f"{verdict}: {count(cell['valid'], 'valid answer')}; {cell['yielded']} of {cell['controls']} controls break it"]
    if cell["verdict"] == "under_enforced":
        facts = [f"{verdict}: {cell['invalid']} of {cell['valid'] + cell['invalid']} answers invalid, first {code(cell['answer'])}{' (cut)' * cell['is_cut']}"]
        facts.append(escape(cell["reason"]))
    if cell["duplicate_members"]:
        facts.append(f"{count(cell['duplicate_members'], 'answer')} with duplicate members")
    if "slow_ms" in cell:
        facts.append(f"slow: the first token takes {cell['slow_ms']:,} ms longer than for the median feature")
    if cell["is_fewer"]:
        facts.append("fewer texts*")
    return "; ".join(facts + refusal(cell))


def refusal(facts):
    """Status and message of a server."""
    status = [f"status {facts['status']}"] if "status" in facts else []
    return status + ([f"<q>{escape(facts['words'])}</q>"] if "words" in facts else [])


def test(facts):
    answer = [code(facts["answer"], 160)] if "answer" in facts else []
    return f"<br>{escape(facts['request'])}: {'; '.join([facts['class'].replace('_', ' '), *answer, *refusal(facts)])}"


def code(text, limit=300):
    """A text in the font of code, cut, with control characters as escapes."""
    text = text if len(text) <= limit else text[: limit - 1] + "…"
    shown = "".join(character if character.isprintable() else f"\\u{ord(character):04x}" for character in text)
    return f"<code>{escape(shown)}</code>" if text else "<i>empty</i>"


def code_of_markdown(text):
    before, *rest = text.split("`")
    return escape(before) + (f"<code>{escape(rest[0])}</code>{escape(rest[1])}" if rest else "")


def about(column):
    """A section with the date, versions, data and commands of a column."""
    facts = [f"Date: {column['date'][:16].replace('T', ' ')} UTC", f"sobench {column['sobench_commit']}"]
    if column["engine_versions"]:
        facts.insert(0, f"Engines: {escape(column['engine_versions'])}")
    if column["dialect"]:
        facts.append(f"dialect {code(column['dialect'])}; {column['answers']} answers for each keyword, at most {column['answer_tokens']} tokens")
    collected = " ".join(part.partition("@")[0] for part in column["parts"])
    links = ", ".join(f'<a href="data/{part}.json.gz">{part}</a>' for part in column["parts"])
    return (
        f'<section id="{column["id"]}"><h3>{escape(column["title"])}</h3><p>{"; ".join(facts)}. Data: {links}.\n'
        f"<pre>{escape(column['start'])}\ndocs/results/collect {collected} --base-url URL</pre></section>\n"
    )


def badges(data):
    """A badge for the newest version of each server."""
    found = {}
    for column in (column for column in data["columns"] if column["is_newest"] and column["dialect"]):
        cells = [cell for cell in data["cells"] if cell["column"] == column["id"] and "controls" in cell]
        numbers = {verdict: sum(cell["verdict"] == verdict for cell in cells) for verdict in ("enforced", "under_enforced")}
        left = f"JSON Schema: {column['title']}"
        right = f"{numbers['enforced']} enforced, {numbers['under_enforced']} under-enforced of {len(cells)}"
        found[f"{key(column)}.svg"] = badge(left, right)
    return found


def badge(left, right):
    widths = [round(6.2 * len(text)) + 12 for text in (left, right)]
    texts = "".join(
        f'<text x="{x + width / 2:g}" y="14" textLength="{width - 12}">{escape(text)}</text>'
        for x, width, text in ((0, widths[0], left), (widths[0], widths[1], right))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{sum(widths)}" height="20" role="img" aria-label="{html.escape(left)}: {html.escape(right)}">'
        f'<rect width="{sum(widths)}" height="20" rx="3" fill="#24292f"/><path d="M{widths[0]} 0h{widths[1] - 3}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3h-{widths[1] - 3}z"'
        f' fill="#1f5fd0"/><g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">{texts}</g></svg>\n'
    )
