#!/usr/bin/env python3
"""Compares right calls of sobench with the checker of the Berkeley Function-Calling Leaderboard, on answers made from its data.

An answer is drawn from the expected calls of a row of the Python package `bfcl-eval`, and then mostly damaged: a value, a type, a
name or a call is changed, added or left out. `sobench score` judges all answers; `ast_checker` of the package says whether each is
right. For rows of irrelevance an answer is right if it has no call. Rows of Java and JavaScript are left out: the leaderboard asks
for their values as source code, sobench for JSON.

sobench differs on purpose (docs/decisions/function-calls.md). Such a disagreement is counted by its reason. Exit codes: 0 every
disagreement has a reason; 1 one has not; 2 nothing was compared.

Needs Python 3.10 and the files of the package, without its dependencies: `pip download --no-deps bfcl-eval==2026.3.23`, unpacked.

    tests/live/bfcl.py --package bfcl/ --sobench target/debug/sobench --answers 1000 --seed 1
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
from types import ModuleType, SimpleNamespace

CATEGORIES = [
    "simple_python", "multiple", "parallel", "parallel_multiple",
    "live_simple", "live_multiple", "live_parallel", "live_parallel_multiple",
    "irrelevance", "live_irrelevance",
]  # fmt: skip
MODEL = "model"
TYPES = {"dict": "object", "float": "number", "tuple": "array", "integer": "integer", "boolean": "boolean", "string": "string", "array": "array"}


def load_checker(package):
    """`ast_checker`, without the clients of all models, which its module imports for their names."""
    sys.path.insert(0, str(package))
    models = ModuleType("bfcl_eval.constants.model_config")
    models.MODEL_CONFIG_MAPPING = {MODEL: SimpleNamespace(underscore_to_dot=True)}
    sys.modules["bfcl_eval.constants.model_config"] = models
    from bfcl_eval.constants.enums import Language
    from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker

    return lambda functions, calls, expected, category: ast_checker(functions, calls, expected, Language.PYTHON, category, MODEL)


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def rows(package):
    """(category, functions, expected calls) of every row."""
    data = package / "bfcl_eval/data"
    found = []
    for category in CATEGORIES:
        name = f"BFCL_v4_{category}.json"
        answers = {}
        if (data / "possible_answer" / name).exists():
            answers = {row["id"]: row["ground_truth"] for row in read_lines(data / "possible_answer" / name)}
        for row in read_lines(data / name):
            expected = answers.get(row["id"], [])
            if expected or "irrelevance" in category:
                found.append((category, row["function"], expected))
    return found


def tool_name(name):
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)


def schema(value):
    """The function's parameters as JSON Schema, as sobench's dataset sends them."""
    if not isinstance(value, dict):
        return value
    converted = {}
    for keyword, inner in value.items():
        if keyword == "type":
            if inner in TYPES:
                converted["type"] = TYPES[inner]
        elif keyword == "properties":
            converted["properties"] = {name: schema(inner) for name, inner in inner.items()}
        elif keyword == "items":
            converted["items"] = schema(inner)
        elif keyword == "required" and isinstance(inner, list):
            converted["required"] = inner
    return converted


def tool(function):
    return {"type": "function", "function": {"name": tool_name(function["name"]), "parameters": schema(function["parameters"])}}


class Answers:
    """Draws answers."""

    def __init__(self, rng):
        self.rng = rng

    def value(self, allowed, depth=0):
        """A value that the reference allows, or `None` for a parameter that is left out."""
        allowed = allowed if isinstance(allowed, list) else [allowed]
        if not allowed:
            return None
        drawn = self.rng.choice(allowed)
        if drawn == "" and self.rng.random() < 0.8:
            return None
        if isinstance(drawn, dict):
            members = {name: self.value(inner, depth + 1) for name, inner in drawn.items()}
            return {name: inner for name, inner in members.items() if inner is not None}
        if isinstance(drawn, list) and drawn and all(isinstance(item, dict) for item in drawn):
            return [self.value([item], depth + 1) for item in drawn]
        return copy.deepcopy(drawn)

    def calls(self, expected):
        made = []
        for call in expected:
            ((name, parameters),) = call.items()
            arguments = {parameter: self.value(allowed) for parameter, allowed in parameters.items()}
            made.append((name, {parameter: value for parameter, value in arguments.items() if value is not None}))
        return made

    def other(self, value):
        """Another value, often one that looks the same."""
        rng = self.rng
        if isinstance(value, bool):
            return rng.choice([not value, int(value), str(value)])
        if isinstance(value, (int, float)):
            return rng.choice([float(value), int(value), value + 1, str(value), -value, value * 1.5])
        if isinstance(value, str):
            changed = [value.upper(), value.replace(" ", "-"), value + ".", value + "x", value[:-1], value.replace("'", '"'), " " + value, 1, [value], ""]
            return rng.choice(changed)
        if isinstance(value, list):
            changed = [value[::-1], value[:-1], value + value[-1:], [self.other(item) for item in value], [], str(value)]
            if value:
                one = rng.randrange(len(value))
                changed.append([self.other(item) if index == one else item for index, item in enumerate(value)])
            return rng.choice(changed)
        if isinstance(value, dict):
            if not value or rng.random() < 0.3:
                return {**value, "extra": 1}
            one = rng.choice(list(value))
            return {name: self.other(inner) if name == one else inner for name, inner in value.items() if name != one or rng.random() < 0.7}
        return "x"

    def damaged(self, calls, functions):
        rng = self.rng
        kind = rng.choice(["value"] * 8 + ["left_out", "extra", "name", "no_call", "twice", "order", "one_less"])
        if not calls or kind == "no_call":
            return [] if calls else [(function["name"], {}) for function in functions[:1]]
        index = rng.randrange(len(calls))
        name, arguments = calls[index]
        arguments = dict(arguments)
        if kind == "value" and arguments:
            one = rng.choice(list(arguments))
            arguments[one] = self.other(arguments[one])
        elif kind == "left_out" and arguments:
            del arguments[rng.choice(list(arguments))]
        elif kind == "extra":
            known = [name for function in functions for name in function["parameters"]["properties"]]
            arguments[rng.choice(known + ["unknown"])] = rng.choice([1, "x", True])
        elif kind == "name":
            name = rng.choice([function["name"] for function in functions] + [name + "x", name.upper()])
        elif kind == "twice":
            return calls + [calls[index]]
        elif kind == "order":
            return calls[::-1]
        elif kind == "one_less":
            return calls[:index] + calls[index + 1 :]
        return calls[:index] + [(name, arguments)] + calls[index + 1 :]


def sobench_says(sobench, answers):
    lines = []
    for _, functions, expected, calls in answers:
        reference = {"ground_truth": [{tool_name(name): inner for name, inner in call.items()} for call in expected]}
        made = [
            {"id": f"call-{index}", "type": "function", "function": {"name": tool_name(name), "arguments": json.dumps(arguments)}}
            for index, (name, arguments) in enumerate(calls)
        ]
        tools = list({item["function"]["name"]: item for item in map(tool, functions)}.values())
        lines.append(json.dumps({"tools": tools, "tool_calls": made, "completion": json.dumps(reference)}) + "\n")
    done = subprocess.run([sobench, "score", "-", "--format", "jsonl"], input="".join(lines), capture_output=True, text=True, check=False)
    verdicts = [json.loads(line) for line in done.stdout.splitlines()]
    if len(verdicts) != len(answers):
        sys.exit(f"sobench judged {len(verdicts)} of {len(answers)} answers: {done.stderr[-2000:]}")
    return verdicts


def bfcl_says(checker, category, functions, expected, calls):
    """Whether the answer is right, or the error with which the checker ended."""
    if "irrelevance" in category:
        return not calls
    output = [{tool_name(name) if "." in name else name: copy.deepcopy(arguments)} for name, arguments in calls]
    try:
        return checker(functions, output, expected, category)["valid"]
    except (KeyError, AttributeError, TypeError) as error:
        return f"{type(error).__name__}"


def has_lists_in_objects(value, depth=0):
    if isinstance(value, dict):
        return depth > 1 or any(has_lists_in_objects(inner, depth + 1) for inner in value.values())
    return isinstance(value, list) and any(has_lists_in_objects(inner, depth) for inner in value)


def reason(is_right, expected, calls):
    """Why sobench differs, or None."""
    if is_right and any(has_lists_in_objects(call) for call in expected):
        return "an object in an object has lists of allowed values"
    if is_right and len(calls) > 1:
        return "calls can be assigned in another order than the first that fits"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", type=Path, required=True, help="the folder that has bfcl_eval")
    parser.add_argument("--sobench", default="target/debug/sobench")
    parser.add_argument("--answers", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=5, help="number of disagreements of each kind to print")
    options = parser.parse_args()
    checker = load_checker(options.package)
    rng = random.Random(options.seed)
    draw = Answers(rng)
    all_rows = rows(options.package)
    by_category = {}
    for row in all_rows:
        by_category.setdefault(row[0], []).append(row)
    answers = []
    while len(answers) < options.answers:
        category, functions, expected = rng.choice(by_category[rng.choice(CATEGORIES)])
        calls = draw.calls(expected)
        for _ in range(rng.choice([0, 0, 1, 1, 1, 2])):
            calls = draw.damaged(calls, functions)
        answers.append((category, functions, expected, calls))
    counts, shown, unexplained = Counter(), Counter(), 0
    for (category, functions, expected, calls), verdict in zip(answers, sobench_says(options.sobench, answers)):
        theirs, ours = bfcl_says(checker, category, functions, expected, calls), verdict.get("right_call")
        if isinstance(theirs, str) or ours is None:
            kind = f"not compared: the checker ended with {theirs}" if ours is not None else f"not compared: {verdict['message']}"
        elif theirs == ours:
            kind = f"both say {'right' if ours else 'wrong'}"
        else:
            why = reason(ours, expected, calls)
            unexplained += why is None
            kind = f"only {'sobench' if ours else 'bfcl-eval'} says right: {why or 'NO REASON'}"
        counts[kind] += 1
        if not kind.startswith("both") and shown[kind] < options.show:
            shown[kind] += 1
            print(kind, category, f"expected {json.dumps(expected)[:600]}", f"made     {json.dumps(calls)[:600]}", sep="\n    ")
    print(f"{len(answers)} answers, seed {options.seed}, {len(all_rows)} rows of {len(CATEGORIES)} categories")
    for kind, count in sorted(counts.items()):
        print(f"{count:7} {kind}")
    compared = sum(count for kind, count in counts.items() if kind.startswith(("both", "only")))
    return 2 if compared == 0 else int(unexplained > 0)


if __name__ == "__main__":
    sys.exit(main())
