#!/usr/bin/env python3
"""Compares verdicts of sobench on structural tags with xgrammar's Python package, on the shipped tags and on generated ones.

Tags are drawn from a seed. A text is drawn from its tag, and then mostly damaged. `sobench score` judges all of them; xgrammar
accepts a text or not. For texts that both refuse, and tags without JSON Schemas, the byte of the verdict is compared with the
longest start that xgrammar accepts.

sobench differs from xgrammar on purpose (docs/decisions/structural-tags.md). A disagreement is explained if the two agree once
xgrammar is given a tag with that difference taken away, for example with white space allowed around JSON values, or if the reason
of the verdict is one that xgrammar does not have. Exit codes: 0 every disagreement is explained; 1 one is not; 2 nothing was compared.

Needs Python 3.9 and what `witnesses.requirements.txt` says.

    tests/live/structural_tags.py --sobench target/debug/sobench --tags 400 --seed 1
"""

import argparse
import copy
import json
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from unittest.mock import MagicMock

import tvm_ffi  # noqa: F401 (before torch, which it would look into)

for unused in ("torch", "transformers"):
    sys.modules.setdefault(unused, MagicMock())
import xgrammar  # noqa: E402 (it imports them, and nothing here calls them)

SHIPPED = Path(__file__).resolve().parents[2] / "fixtures/verdicts/structural_tag.jsonl"
TEXTS_PER_TAG = 12
MAX_TEXT = 400
WORDS = ["a", "b", "ab", "abc", "x", "yes", "<a>", "</a>", "<b>", "<a", "[", "{", "1", "0", "é", "日", " ", "\n", ",", "."]
TRIGGERS = ["<f=", "[[", "ab", "abc", "b", "é", "<a>"]
STYLES = ["qwen_xml", "minimax_xml", "deepseek_xml", "glm_xml", "kimi_k3_xml", "cohere_xml"]


class Generator:
    """Draws formats, each with a function that draws texts."""

    def __init__(self, rng):
        self.rng = rng

    def word(self):
        return "".join(self.rng.choices(WORDS, k=self.rng.randint(1, 3)))

    def free(self, excludes=()):
        text = "".join(self.rng.choices(WORDS, k=self.rng.randint(0, 4)))
        return "" if any(excluded and excluded in text for excluded in excludes) else text

    def format(self, depth, ends=()):
        leaves = ["const_string", "json_schema", "xml", "grammar", "regex", "any_text"]
        inner = ["sequence", "or", "optional", "plus", "star", "repeat", "tag", "triggered_tags", "tags_with_separator", "dispatch"]
        return getattr(self, self.rng.choice(leaves if depth == 0 else leaves + 2 * inner))(depth - 1, ends)

    def const_string(self, _depth, _ends):
        value = self.word()
        return {"type": "const_string", "value": value}, lambda: value

    def regex(self, _depth, _ends):
        rng = self.rng
        return rng.choice([
            ({"type": "regex", "pattern": "[a-c]+"}, lambda: "".join(rng.choices("abc", k=rng.randint(1, 3)))),
            ({"type": "regex", "pattern": "^(?:x|xa|b*)$"}, lambda: rng.choice(["x", "xa", "", "bb"])),
            ({"type": "regex", "pattern": r"\d{1,3}(?:\.\d)?"}, lambda: rng.choice(["1", "12", "123.4"])),
            ({"type": "regex", "pattern": ".{2}"}, lambda: "".join(rng.choices("aé\n<", k=2))),
            ({"type": "regex", "pattern": r"[^<\s]*\w"}, lambda: rng.choice(["a", "é1", "--_"])),
        ])  # fmt: skip

    def grammar(self, _depth, _ends):
        rng = self.rng

        def nested():
            depth = rng.randint(0, 3)
            return "(" * depth + rng.choice(["", "x"]) + ")" * depth

        return rng.choice([
            ({"type": "grammar", "grammar": 'root ::= "(" root ")" | "x" | ""'}, nested),
            ({"type": "grammar", "grammar": 'root ::= [a-b] [^<]* | "<" root'}, lambda: rng.choice(["a", "b1é", "<<a,"])),
            ({"type": "grammar", "grammar": 'root ::= item ("," item)*\nitem ::= "a" "b"? | [0-9]{2,3}'},
             lambda: ",".join(rng.choices(["a", "ab", "12", "345"], k=rng.randint(1, 3)))),
        ])  # fmt: skip

    def any_text(self, _depth, ends):
        excludes = [self.word() for _ in range(self.rng.choice([0, 0, 1, 2]))]
        node = {"type": "any_text"}
        if excludes:
            node["excludes"] = excludes
        most = self.rng.choice([None, None, None, 0, 2, 5])
        if most is not None:
            node["max_chars"] = most
        return node, lambda: self.free([*excludes, *ends])[:most]

    def schema(self, depth=1):
        """A schema, and a function that draws a value as xgrammar spells it: members in order, whole numbers."""
        rng = self.rng
        kinds = ["string", "integer", "boolean", "enum", "null", "number", "short"] + (["object", "array"] if depth else [])
        kind = rng.choice(kinds)
        if kind == "enum":
            values = rng.sample(["x", "y z", 3, True], k=2)
            return {"enum": values}, lambda: rng.choice(values)
        if kind == "short":
            return {"type": "string", "minLength": 1, "maxLength": 3}, lambda: rng.choice(["a", "ab", "é12"])
        if kind == "object":
            return self.object(depth - 1)
        if kind == "array":
            items, draw = self.schema(depth - 1)
            return {"type": "array", "items": items, "maxItems": 3}, lambda: [draw() for _ in range(rng.randint(0, 3))]
        draws = {
            "string": lambda: rng.choice(["", "a b", "</a>", 'q"', "é", "1"]),
            "integer": lambda: rng.choice([0, 7, -12, 345]),
            "number": lambda: rng.choice([0, 1.5, -2, 1e30]),
            "boolean": lambda: rng.random() < 0.5,
            "null": lambda: None,
        }
        return {"type": kind}, draws[kind]

    def object(self, depth=1):
        rng = self.rng
        members = {name: self.schema(depth) for name in rng.sample(["a", "b", "key", "n_1"], k=rng.randint(1, 3))}
        required = [name for name in members if rng.random() < 0.5]

        def draw():
            return {name: value() for name, (_, value) in members.items() if name in required or rng.random() < 0.5}

        schema = {"type": "object", "properties": {name: schema for name, (schema, _) in members.items()}, "additionalProperties": False}
        return {**schema, "required": required}, draw

    def json_schema(self, _depth, _ends):
        schema, draw = self.schema(2) if self.rng.random() < 0.8 else ({}, lambda: {"a": [1, "b", None]})
        node = {"type": "json_schema", "json_schema": schema}
        if self.rng.random() < 0.1:
            node["any_order"] = True

        def text():
            value = draw()
            if isinstance(value, dict) and self.rng.random() < 0.15:
                value = dict(reversed(value.items()))
            written = json.dumps(value, ensure_ascii=self.rng.random() < 0.2)
            return f" {written}\n" if self.rng.random() < 0.1 else written

        return node, text

    def xml(self, _depth, _ends):
        schema, draw = self.object()
        style = self.rng.choice(STYLES)

        def text():
            separator = self.rng.choice(["", "", "\n", " "])
            return separator.join(element(style, name, value, schema["properties"][name]) for name, value in draw().items())

        return {"type": "json_schema", "json_schema": schema, "style": style}, text

    def elements(self, depth, ends):
        return [self.format(depth, ends) for _ in range(self.rng.randint(1, 3))]

    def sequence(self, depth, ends):
        parts = self.elements(depth, ends)
        return {"type": "sequence", "elements": [node for node, _ in parts]}, lambda: "".join(draw() for _, draw in parts)

    def or_(self, depth, ends):
        parts = self.elements(depth, ends)
        return {"type": "or", "elements": [node for node, _ in parts]}, lambda: self.rng.choice(parts)[1]()

    def repeated(self, kind, depth, ends, least, most, **members):
        node, draw = self.format(depth, ends)
        times = lambda: self.rng.randint(least, most)  # noqa: E731
        return {"type": kind, **members, "content": node}, lambda: "".join(draw() for _ in range(times()))

    def optional(self, depth, ends):
        return self.repeated("optional", depth, ends, 0, 1)

    def plus(self, depth, ends):
        return self.repeated("plus", depth, ends, 1, 3)

    def star(self, depth, ends):
        return self.repeated("star", depth, ends, 0, 3)

    def repeat(self, depth, ends):
        least = self.rng.randint(0, 2)
        most = self.rng.choice([-1, least, least + 2])
        return self.repeated("repeat", depth, ends, least, most if most >= 0 else least + 2, min=least, max=most)

    def tag(self, depth, _ends, begin=None):
        ends = [self.word() for _ in range(self.rng.choice([1, 1, 2]))]
        begin = self.word() if begin is None else begin
        node, draw = self.format(depth, ends)
        written = ends[0] if len(ends) == 1 else ends
        return {"type": "tag", "begin": begin, "content": node, "end": written}, lambda: begin + draw() + self.rng.choice(ends)

    def triggered_tags(self, depth, ends):
        rng = self.rng
        triggers = rng.sample(TRIGGERS, k=rng.randint(1, 2))
        if any(one != other and one.startswith(other) for one in triggers for other in triggers):
            triggers = triggers[:1]
        tags = [self.tag(depth, (), trigger + rng.choice(["", "a", ">"])) for trigger in triggers for _ in range(rng.randint(1, 2))]
        excludes = [self.word()] if rng.random() < 0.2 else []
        at_least_one, stop = rng.random() < 0.3, rng.random() < 0.3

        def text():
            calls = [rng.choice(tags)[1]() for _ in range(rng.randint(1 if at_least_one else 0, 1 if stop else 2))]
            free = ["" if at_least_one else self.free(), *(("" if stop else self.free()) for _ in calls)]
            return free[0] + "".join(call + after for call, after in zip(calls, free[1:]))

        node = {"type": "triggered_tags", "triggers": triggers, "tags": [node for node, _ in tags], "excludes": excludes}
        return {**node, "at_least_one": at_least_one, "stop_after_first": stop}, text

    def tags_with_separator(self, depth, ends):
        rng = self.rng
        tags = [self.tag(depth, ends) for _ in range(rng.randint(1, 2))]
        separator = rng.choice(["", ",", "\n"])
        at_least_one, stop = rng.random() < 0.3, rng.random() < 0.3

        def text():
            return separator.join(rng.choice(tags)[1]() for _ in range(rng.randint(1 if at_least_one else 0, 1 if stop else 3)))

        node = {"type": "tags_with_separator", "tags": [node for node, _ in tags], "separator": separator}
        return {**node, "at_least_one": at_least_one, "stop_after_first": stop}, text

    def dispatch(self, depth, ends):
        rng = self.rng
        rules = [(trigger, *self.format(depth, ends)) for trigger in rng.sample(TRIGGERS, k=rng.randint(1, 3))]
        loop = rng.random() < 0.7
        excludes = [self.word()] if rng.random() < 0.3 else []

        def text():
            parts = [rng.choice(rules) for _ in range(rng.randint(0, 2 if loop else 1))]
            written = "".join(self.free() + trigger + draw() for trigger, _, draw in parts)
            return written + (self.free() if loop or not parts else "")

        return {"type": "dispatch", "rules": [[trigger, node] for trigger, node, _ in rules], "loop": loop, "excludes": excludes}, text

    def damaged(self, text, other):
        rng = self.rng
        for _ in range(rng.choice([1, 1, 2])):
            at = rng.randint(0, len(text))
            to = min(len(text), at + rng.randint(1, 3))
            text = rng.choice([
                text[:at] + text[to:],
                text[:at],
                text[:at] + rng.choice(WORDS) + text[at:],
                text[:at] + rng.choice(WORDS) + text[to:],
                text[:to] + text[at:],
                text + other,
            ])  # fmt: skip
        return text


setattr(Generator, "or", Generator.or_)


def element(style, name, value, schema):
    """A parameter in an XML style."""
    is_text = isinstance(value, str)
    text = value if is_text else json.dumps(value, ensure_ascii=False)
    kinds = {bool: "boolean", int: "number", float: "number", dict: "object", list: "array", type(None): "null", str: "string"}
    if style == "cohere_xml":
        return f'<cofl:value name="{name}" {cohere(value)}'
    return {
        "qwen_xml": f"<parameter={name}>{text}</parameter>",
        "minimax_xml": f'<parameter name="{name}">{text}</parameter>',
        "deepseek_xml": f'<｜DSML｜parameter name="{name}" string="{str(is_text).lower()}">{text}</｜DSML｜parameter>',
        "glm_xml": f"<arg_key>{name}</arg_key><arg_value>{text}</arg_value>",
        "kimi_k3_xml": f'<|open|>argument key="{name}" type="{kinds[type(value)]}"<|sep|>{text}<|close|>argument<|sep|>',
    }[style]


def cohere(value):
    if isinstance(value, str):
        return f'type="raw">{value}</cofl:value>'
    if isinstance(value, dict):
        return 'type="dict">' + "".join(f'<cofl:value name="{name}" {cohere(inner)}' for name, inner in value.items()) + "</cofl:value>"
    if isinstance(value, list):
        return 'type="list">' + "".join(f"<cofl:value {cohere(inner)}" for inner in value) + "</cofl:value>"
    return f'type="json">{json.dumps(value)}</cofl:value>'


def map_schemas(node, change):
    """A copy of a tag with changed `json_schema` formats."""
    if isinstance(node, dict):
        if "json_schema" in node:
            return change(copy.deepcopy(node))
        if "structures" in node:
            tags = [{"begin": tag["begin"], "content": {"type": "json_schema", "json_schema": tag["schema"]}, "end": tag["end"]} for tag in node["structures"]]
            return map_schemas({"format": {"type": "triggered_tags", "triggers": node["triggers"], "tags": tags}}, change)
        return {name: map_schemas(value, change) for name, value in node.items()}
    return [map_schemas(item, change) for item in node] if isinstance(node, list) else node


def map_numbers(schema):
    if isinstance(schema, dict):
        schema = {name: map_numbers(value) for name, value in schema.items()}
        if schema.get("type") == "integer":
            schema["type"] = "number"
    return [map_numbers(item) for item in schema] if isinstance(schema, list) else schema


def without_bounds(schema):
    if isinstance(schema, dict):
        return {name: without_bounds(value) for name, value in schema.items() if name not in ("minLength", "maxLength")}
    return [without_bounds(item) for item in schema] if isinstance(schema, list) else schema


def white_space(node):
    if node.get("style", "json") != "json":
        return node
    space = {"type": "regex", "pattern": "[ \\t\\n\\r]*"}
    return {"type": "sequence", "elements": [space, node, space]}


DIFFERENCES = {
    "white space around JSON": white_space,
    "order of members": lambda node: {**node, "any_order": True},
    "integers written as 1.0, 1e2 or -0": lambda node: {**node, "json_schema": map_numbers(node["json_schema"])},
    "escapes in a string of bounded length": lambda node: {**node, "json_schema": without_bounds(node["json_schema"])},
    "several of these": lambda node: white_space({**node, "any_order": True, "json_schema": map_numbers(node["json_schema"])}),
}
"""Why sobench accepts what xgrammar does not: changes after which xgrammar accepts it too."""

STRICTER = [
    ("duplicate members", r"twice"),
    ("required members with any_order", r"missing|\"\w+\" is a required property"),
    ("half a surrogate pair", r"surrogate"),
]
"""Why sobench refuses what xgrammar accepts: messages of verdicts."""


class XGrammar:
    """Accepts texts by a tag."""

    def __init__(self, tag):
        if "structures" in tag:
            tag = map_schemas(tag, lambda node: node)
        grammar = xgrammar.Grammar.from_structural_tag(json.dumps(tag))
        compiled = xgrammar.GrammarCompiler(xgrammar.TokenizerInfo([]), cache_enabled=False).compile_grammar(grammar)
        self.matcher = xgrammar.GrammarMatcher(compiled, terminate_without_stop_token=True)

    def accepts(self, text):
        self.matcher.reset()
        return bool(self.matcher.accept_string(text)) and self.matcher.is_terminated()

    def longest_start(self, text):
        """Bytes of the longest start of the text that can be continued, in whole characters."""
        self.matcher.reset()
        read = 0
        for character in text:
            if not self.matcher.accept_string(character):
                break
            read += len(character.encode())
        return read


def shipped_rows():
    with SHIPPED.open() as file:
        for line in file:
            row = json.loads(line)
            yield row["constraint"]["structural_tag"], row["text"]


def generated_rows(seed, tags):
    for number in range(tags):
        generator = Generator(random.Random(f"{seed}/{number}"))
        node, draw = generator.format(3)
        texts = {draw() for _ in range(TEXTS_PER_TAG // 3)}
        texts |= {generator.damaged(draw(), draw()) for _ in range(TEXTS_PER_TAG - len(texts))}
        for text in sorted(texts):
            if len(text) <= MAX_TEXT:
                yield {"type": "structural_tag", "format": node}, text


def sobench_verdicts(sobench, rows):
    text = "".join(json.dumps({"constraint": {"structural_tag": tag}, "text": text}) + "\n" for tag, text in rows)
    done = subprocess.run([sobench, "score", "-", "--format", "jsonl"], input=text, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    if len(lines) != len(rows):
        sys.exit(f"sobench judged {len(lines)} of {len(rows)} rows: {done.stderr[-2000:]}")
    return [json.loads(line) for line in lines]


def explanation(tag, text, verdict):
    """Why the verdicts differ, or None."""
    if verdict["valid"]:
        for name, change in DIFFERENCES.items():
            try:
                if XGrammar(map_schemas(tag, change)).accepts(text):
                    return name
            except RuntimeError:
                continue
        return None
    return next((name for name, pattern in STRICTER if re.search(pattern, verdict["message"])), None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sobench", default="target/debug/sobench")
    parser.add_argument("--tags", type=int, default=400, help="number of generated tags")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=5, help="number of examples of each class to print")
    options = parser.parse_args()
    shipped = list(shipped_rows())
    rows = shipped + list(generated_rows(options.seed, options.tags))
    counts, shown, unexplained = Counter(), Counter(), 0
    key, engine = None, None
    for (tag, text), verdict in zip(rows, sobench_verdicts(options.sobench, rows)):
        written = json.dumps(tag)
        if written != key:
            key = written
            try:
                engine = XGrammar(tag)
            except Exception as error:  # noqa: BLE001 (its binding has several kinds of errors)
                engine, refusal = None, str(error).strip().splitlines()[-1]
        if engine is None or verdict["valid"] is None:
            kind = "not judged by " + " and ".join(name for name, missing in (("xgrammar", engine is None), ("sobench", verdict["valid"] is None)) if missing)
            example = (refusal if engine is None else verdict["message"], written)
        elif engine.accepts(text) == verdict["valid"]:
            kind, example = f"both {'accept' if verdict['valid'] else 'refuse'}", None
            if verdict["reason"] == "structural_tag" and "json_schema" not in written and "structures" not in written:
                byte = int(re.search(r"byte (\d+):", verdict["message"])[1])
                longest = engine.longest_start(text)
                counts["the same byte" if byte == longest else "another byte"] += 1
                if byte != longest:
                    kind, example = "both refuse, another byte", (f"{verdict['message']}; xgrammar: {longest}", written, text)
        else:
            why = explanation(tag, text, verdict)
            unexplained += why is None
            kind = f"only {'sobench' if verdict['valid'] else 'xgrammar'} accepts: {why or 'NOT EXPLAINED'}"
            example = (verdict["message"], written, text)
        counts[kind] += 1
        if example and shown[kind] < options.show:
            shown[kind] += 1
            print(kind, *example, sep="\n    ")
    print(f"{len(shipped)} shipped and {len(rows) - len(shipped)} generated texts, seed {options.seed}")
    for kind, count in sorted(counts.items()):
        print(f"{count:7} {kind}")
    compared = sum(count for kind, count in counts.items() if kind.startswith(("both", "only")))
    return 2 if compared == 0 else int(unexplained > 0)


if __name__ == "__main__":
    sys.exit(main())
