#!/usr/bin/env python3
"""Prints the times of `cargo bench --bench judge` beside those of Python's validators on the same documents, as a table in Markdown.

Times are for one document: the median of criterion's samples, and for Python the best of five repeats. `judge` reads a text and validates
it; the validators alone get a value that was read before. The last columns are the ratios of `judge` to reading and validating with the
libraries (`serde_json` and `jsonschema`), and to the validator alone.

    cargo bench --bench judge
    python3 -m venv VENV && VENV/bin/pip install jsonschema fastjsonschema jsonschema-rs
    VENV/bin/python crates/judge/benches/peers.py
"""

import argparse
import json
import sys
import timeit
from pathlib import Path

HERE = Path(__file__).resolve().parent
RUST = ["judge", "read", "serde_json", "jsonschema", "boon"]
SIZES = [5, 50, 500, 20_000]
"""Array lengths of the documents, as in `judge.rs`."""


def document(size: int) -> str:
    items = (f'{{"a":{index % 1000},"b":"x","c":true}}' for index in range(size))
    return "[" + ",".join(items) + "]"


def criterion_us(folder: Path, name: str, size: int) -> float:
    path = folder / name / str(size) / "new" / "estimates.json"
    try:
        return json.loads(path.read_text())["median"]["point_estimate"] / 1e3
    except OSError as error:
        sys.exit(f"error: cannot read {path}: {error.strerror}\nhint: run `cargo bench --bench judge` first, or set --criterion")


def python_validators(schema: dict) -> dict:
    """Functions that fail for an invalid value."""
    try:
        import fastjsonschema
        import jsonschema
        import jsonschema_rs
    except ImportError as error:
        sys.exit(f"error: {error}\nhint: pip install jsonschema fastjsonschema jsonschema-rs")
    return {
        "Python jsonschema-rs": jsonschema_rs.validator_for(schema, validate_formats=True).validate,
        "Python fastjsonschema": fastjsonschema.compile(schema),
        "Python jsonschema": jsonschema.Draft202012Validator(schema).validate,
    }


def best_us(work, *arguments) -> float:
    """The time of one call."""
    timer = timeit.Timer(lambda: work(*arguments))
    calls, _ = timer.autorange()
    return min(timer.repeat(5, max(calls // 4, 1))) / max(calls // 4, 1) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--criterion", type=Path, default=HERE.parents[2] / "target/criterion/judge", metavar="DIR", help="criterion's results")
    options = parser.parse_args()
    validators = python_validators(json.loads((HERE / "schema.json").read_text()))
    columns = RUST + ["Python json.loads", *validators, "judge / reading and validating", "judge / validator"]
    print("| answer | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for size in SIZES:
        text = document(size)
        value = json.loads(text)
        rust = {name: criterion_us(options.criterion, name, size) for name in RUST}
        times = [*rust.values(), best_us(json.loads, text), *(best_us(validate, value) for validate in validators.values())]
        ratios = [rust["judge"] / (rust["serde_json"] + rust["jsonschema"]), rust["judge"] / rust["jsonschema"]]
        cells = [f"{time:.3g} us" for time in times] + [f"{ratio:.2f}" for ratio in ratios]
        print(f"| {len(text)} bytes | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
