#!/usr/bin/env python3
"""Compares `sobench score` with a Python script that uses `jsonschema-rs`, on many stored answers, in one run.

Both read the same file of rows with a schema and a text, parse each text, and validate it. Both have to find the same number of valid
answers. Prints the time by the clock, CPU time and peak memory of both, and the ratio. Exit code 1: different counts, over `--max-mb`, or
less than `--min-ratio` times as fast.

    python3 -m venv VENV && VENV/bin/pip install jsonschema-rs
    tests/live/score_at_scale.py --python VENV/bin/python --rows 1000000
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SCHEMAS = 20
"""Number of different schemas."""

PEER = '''
import json, sys
import jsonschema_rs

validators = {}
valid = 0
with open(sys.argv[1], "rb") as rows:
    for line in rows:
        row = json.loads(line)
        schema = row["constraint"]["json"]
        key = json.dumps(schema)
        validator = validators.get(key)
        if validator is None:
            validator = validators[key] = jsonschema_rs.validator_for(schema, validate_formats=True)
        try:
            document = json.loads(row["text"])
        except ValueError:
            continue
        valid += validator.is_valid(document)
print(valid)
'''
"""The script: one process, and one validator for each schema."""

WORDS = "river stone lamp over quiet seven chair green window table paper bridge north cable lemon".split()


def schema(number: int) -> dict:
    """A schema of an order, with one property of its own."""
    item = {
        "type": "object",
        "properties": {
            "sku": {"type": "string", "pattern": "^[a-z]{2,8}-[0-9]{1,4}$"},
            "count": {"type": "integer", "minimum": 1, "maximum": 99},
            "price": {"type": "number", "minimum": 0},
        },
        "required": ["sku", "count", "price"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {
            f"order_{number}": {"type": "string", "minLength": 1},
            "state": {"enum": ["open", "paid", "sent"]},
            "items": {"type": "array", "items": item, "minItems": 1},
            "note": {"type": ["string", "null"]},
        },
        "required": [f"order_{number}", "state", "items"],
        "additionalProperties": False,
    }


def answer(chance: random.Random, number: int) -> str:
    """An answer to a schema: seven of eight are valid."""
    words = lambda count: " ".join(chance.choice(WORDS) for _ in range(count))
    document = {
        f"order_{number}": words(2),
        "state": chance.choice(["open", "paid", "sent"]),
        "items": [
            {
                "sku": f"{chance.choice(WORDS)[:4]}-{chance.randrange(1000)}",
                "count": chance.randrange(1, 99),
                "price": chance.randrange(10_000) / 100,
            }
            for _ in range(chance.randrange(1, 5))
        ],
        "note": words(chance.randrange(6, 14)),
    }
    kind = chance.randrange(32)
    if kind == 0:
        document["state"] = "lost"
    elif kind == 1:
        document["items"][-1]["count"] = str(document["items"][-1]["count"])
    elif kind == 2:
        del document["items"][0]["sku"]
    text = json.dumps(document, indent=1 if chance.randrange(4) == 0 else None)
    return text[: len(text) // 2] if kind == 3 else text


def write_rows(path: Path, count: int, seed: int) -> None:
    """Rows of about 900 bytes."""
    chance = random.Random(seed)
    schemas = [json.dumps(schema(number)) for number in range(SCHEMAS)]
    with open(path, "w", encoding="utf-8") as file:
        for row in range(count):
            number = chance.randrange(SCHEMAS)
            text = json.dumps(answer(chance, number))
            file.write(f'{{"id": "row-{row}", "constraint": {{"json": {schemas[number]}}}, "text": {text}}}\n')


def measure(command: list[str]) -> tuple[str, float, float, float]:
    """Runs a command: its output, seconds by the clock, seconds of CPU and peak memory in MB."""
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"error: exit code {process.returncode}: {' '.join(command)}")
    return output, seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sobench", default="target/release/sobench")
    parser.add_argument("--other-sobench", help="a second sobench, which is measured as well")
    parser.add_argument("--python", default=sys.executable, help="a Python with jsonschema-rs")
    parser.add_argument("--file", type=Path, help="keep the rows in this file, and use it if it exists")
    parser.add_argument("--min-ratio", type=float, default=3.0)
    parser.add_argument("--max-mb", type=float, default=300.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.file or Path(folder) / "rows.jsonl"
        if not path.exists():
            write_rows(path, options.rows, options.seed)
        size = path.stat().st_size
        print(f"{options.rows} rows, {size / 1e6:.0f} MB, {os.cpu_count()} cores")
        print(f"{'':28}{'s':>8}{'CPU s':>8}{'us/row':>8}{'MB':>8}{'valid':>10}")
        found = {}
        programs = {"sobench score": options.sobench, "other sobench": options.other_sobench}
        commands = {name: [program, "score", str(path), "--format", "json"] for name, program in programs.items() if program}
        commands["Python, jsonschema-rs"] = [options.python, "-c", PEER, str(path)]
        for name, command in commands.items():
            output, seconds, cpu, memory = measure(command)
            valid = json.loads(output)
            if isinstance(valid, dict):
                valid = valid["files"][0]["correct_rate"]["hits"]
            found[name] = (valid, seconds, memory)
            print(f"{name:28}{seconds:8.2f}{cpu:8.2f}{seconds / options.rows * 1e6:8.2f}{memory:8.0f}{valid:10}", flush=True)
    ratio = found["Python, jsonschema-rs"][1] / found["sobench score"][1]
    print(f"sobench is {ratio:.2f} times as fast as the script")
    problems = []
    if len({valid for valid, _, _ in found.values()}) > 1:
        problems.append("different numbers of valid answers")
    if ratio < options.min_ratio:
        problems.append(f"less than {options.min_ratio} times as fast")
    if found["sobench score"][2] > options.max_mb:
        problems.append(f"over {options.max_mb:.0f} MB")
    if problems:
        sys.exit("error: " + "; ".join(problems))


if __name__ == "__main__":
    main()
