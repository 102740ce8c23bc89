#!/usr/bin/env python3
"""Time and peak memory of loading a file of many rows (`--dataset custom` and `hf`), at a tenth of the rows and at all.

Makes the files, and loads each with `--dry-run`, which sends nothing: once for `--num-prompts 4`, and once for all rows. The columns are
seconds by the clock, and microseconds of CPU time for each row without the start of the program. Exit code 1: a row of the large file
takes over `--max-ratio` times as long as one of the small file, or four prompts need over `--max-mb`.

    tests/live/dataset_at_scale.py --rows 1000000
    tests/live/dataset_at_scale.py --rows 100000 --kinds shared,distinct --sobench target/debug/sobench
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path


NOISE_S = 0.1
"""CPU time that is not counted against the larger file."""


def schema(names: list[str]) -> dict:
    properties = {"name": {"type": "string", "maxLength": 40}, "age": {"type": "integer", "minimum": 0}}
    properties |= {"city": {"enum": ["Berlin", "Paris", "Rome"]}, "tags": {"type": "array", "items": {"type": "string"}}}
    properties |= {name: {"type": "string"} for name in names}
    return {"type": "object", "properties": properties, "required": ["name", "age"], "additionalProperties": False}


def tool(names: list[str]) -> dict:
    return {"type": "function", "function": {"name": "save", "parameters": schema(names)}}


KINDS = {
    "shared": lambda row: {"json": schema([])},
    "distinct": lambda row: {"json": schema([f"field_{row}"])},
    "tools": lambda row: {"tools": [tool([])]},
    "distinct-tools": lambda row: {"tools": [tool([f"field_{row}"])]},
    "regex": lambda row: {"regex": f"user-{row}-[a-z]{{3,8}}"},
    "choice": lambda row: {"choice": [f"yes-{row}", "no"]},
    "grammar": lambda row: {"grammar": f'root ::= "a{row}" | "b"'},
    "hf": lambda row: {},
}
"""The constraint of a row of `custom`; `hf` has none."""


def measure(command: list[str]) -> tuple[float, float, float]:
    """Seconds by the clock, seconds of CPU time, and peak memory in MB."""
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    error = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"error: exit code {process.returncode}: {' '.join(command)}\n{error}")
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--kinds", default=",".join(KINDS), help="kinds of constraints, separated by commas")
    parser.add_argument("--sobench", default="target/release/sobench")
    parser.add_argument("--max-ratio", type=float, default=1.5)
    parser.add_argument("--max-mb", type=float, default=300.0)
    options = parser.parse_args()
    problems = []
    print(f"{'kind':16}{'rows':>9}{'prompts':>9}{'s':>8}{'us/row':>8}{'MB':>7}{'ratio':>7}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.jsonl"
        for kind in options.kinds.split(","):
            costs = {}
            for rows in (1, options.rows // 10, options.rows):
                with open(path, "w", encoding="utf-8") as file:
                    for row in range(rows):
                        file.write(json.dumps({"prompt": f"Write the profile of user {row} as JSON."} | KINDS[kind](row)) + "\n")
                for name, prompts in (("4", min(4, rows)), ("all", rows)):
                    command = [options.sobench, "--dataset", "hf" if kind == "hf" else "custom", "--dataset-path", str(path)]
                    command += ["--backend", "openai-chat"] if "tools" in kind else []
                    seconds, cpu, memory = measure([*command, "--num-prompts", str(prompts), "--dry-run", "--disable-tqdm"])
                    if rows == 1:
                        costs[name] = [cpu]
                        continue
                    costs[name].append((cpu - costs[name][0]) / rows)
                    ratio = costs[name][-1] / costs[name][1]
                    print(f"{kind:16}{rows:9}{prompts:9}{seconds:8.2f}{costs[name][-1] * 1e6:8.2f}{memory:7.0f}{ratio:7.2f}", flush=True)
                    if costs[name][-1] * rows > options.max_ratio * costs[name][1] * rows + NOISE_S:
                        problems.append(f"{kind}: a row takes {ratio:.2f} times as long in a larger file")
                    if name == "4" and memory > options.max_mb:
                        problems.append(f"{kind}: over {options.max_mb:.0f} MB for four prompts")
    if problems:
        sys.exit("error: " + "; ".join(problems))


if __name__ == "__main__":
    main()
