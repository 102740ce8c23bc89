#!/usr/bin/env python3
"""Time and peak memory of `score`, `report` and `compare` on run logs and results of many requests.

Makes two short runs of the same dataset against the embedded server, one with slower tokens. Repeats their requests, with other numbers
and later times, until the logs together have `--requests`. Then runs each command on them. With `--other-sobench`, a second sobench does
the same work, and its output has to be equal byte for byte. Exit code 1: a command fails, is over `--max-mb`, or the outputs differ.

    tests/live/run_log_at_scale.py --requests 1000000
    tests/live/run_log_at_scale.py --requests 100000 --other-sobench OLD/sobench --commands score,compare
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOURCE_REQUESTS = 400
"""Requests of each short run."""

ABSOLUTE = re.compile(rb'"(?:due|ready|sent|headers|end|first_reasoning|first_answer|first_arguments)_ns":(\d+)')
"""Times since the start of the run; all others are durations."""

COMMANDS = {
    "score": ["score", "{whole}", "--format", "json"],
    "verdicts": ["score", "{whole}", "--format", "jsonl"],
    "report": ["report", "{whole}"],
    "report-json": ["report", "{whole}", "--format", "json"],
    "report-html": ["report", "{whole}", "--format", "html"],
    "detailed": ["report", "{detailed}", "--format", "json"],
    "compare": ["compare", "{first}", "{second}", "--format", "json"],
    "compare-results": ["compare", "{first_result}", "{second_result}", "--format", "json"],
}
"""`{whole}` has all requests; `{first}` and `{second}` have half of them each."""


def short_run(sobench: str, path: Path, itl_ms: float, options: argparse.Namespace) -> list[bytes]:
    """The lines of a run log of `SOURCE_REQUESTS` requests."""
    command = [sobench, "--dataset", options.dataset, "--num-prompts", str(SOURCE_REQUESTS), "--output-len", str(options.output_len)]
    command += ["--embedded-ttft-ms", "5", "--embedded-itl-ms", str(itl_ms), "--max-concurrency", "16"]
    command += ["--run-log", str(path), "--disable-tqdm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"error: the short run failed: {done.stderr}")
    return path.read_bytes().splitlines(keepends=True)


class Template:
    """A line with another number, another id and later times."""

    def __init__(self, line: bytes):
        spans = [(*match.span(1), "number") for match in [re.search(rb'"index":(\d+)', line)]]
        name = re.search(rb'"id":"[^"]*?(\d+)"', line)
        spans += [(*name.span(1), "number")] if name else []
        spans += [(*match.span(1), int(match[1])) for match in ABSOLUTE.finditer(line)]
        self.pieces, self.values, at = [], [], 0
        for start, end, value in sorted(spans):
            self.pieces.append(line[at:start])
            self.values.append(value)
            at = end
        self.rest = line[at:]

    def line(self, number: int, shift_ns: int) -> bytes:
        parts = []
        for piece, value in zip(self.pieces, self.values):
            parts += [piece, b"%d" % (number if value == "number" else value + shift_ns)]
        return b"".join(parts) + self.rest


def write_log(path: Path, lines: list[bytes], requests: int, is_detailed: bool) -> None:
    """A log of `requests` requests."""
    header, footer = json.loads(lines[0]), json.loads(lines[-1])
    duration_ns = footer["footer"]["duration_ns"]
    copies = -(-requests // SOURCE_REQUESTS)
    record = header["header"]["record"]
    record["dataset"]["requests"] = record["settings"]["dataset"]["num_prompts"] = requests
    record["settings"]["report"]["detailed"] = is_detailed
    footer["footer"]["requests"] = requests
    footer["footer"]["duration_ns"] = duration_ns * copies
    cost = footer["footer"]["cost"]
    cost["wall_s"], cost["cpu_s"] = cost["wall_s"] * copies, cost["cpu_s"] * copies
    shared = [line for line in lines[1:-1] if not line.startswith((b'{"request"', b'{"judged"'))]
    dump = lambda value: json.dumps(value, separators=(",", ":")).encode() + b"\n"
    with open(path, "wb", buffering=1 << 20) as file:
        file.write(dump(header))
        file.writelines(shared)
        for start in (b'{"request"', b'{"judged"'):
            templates = [(int(re.search(rb'"index":(\d+)', line)[1]), Template(line)) for line in lines if line.startswith(start)]
            for copy in range(copies):
                for index, template in templates:
                    number = copy * SOURCE_REQUESTS + index
                    if number < requests:
                        file.write(template.line(number, copy * duration_ns))
        file.write(dump(footer))


def measure(command: list[str]) -> tuple[str, float, float, float]:
    """Runs a command: the hash of what it prints, seconds by the clock, seconds of CPU and peak memory in MB."""
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    found = hashlib.sha256()
    while part := process.stdout.read(1 << 20):
        found.update(part)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"error: exit code {process.returncode}: {' '.join(command)}")
    return found.hexdigest(), seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--dataset", default="json")
    parser.add_argument("--output-len", type=int, default=16)
    parser.add_argument("--sobench", default="target/release/sobench")
    parser.add_argument("--other-sobench", help="a second sobench, whose output has to be equal")
    parser.add_argument("--commands", default=",".join(COMMANDS), help="the commands to measure, separated by commas")
    parser.add_argument("--folder", type=Path, help="keep the files in this folder, and use those in it")
    parser.add_argument("--max-mb", type=float, default=300.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        if problems := run(folder, options):
            sys.exit("error: " + "; ".join(problems))


def run(folder: Path, options: argparse.Namespace) -> list[str]:
    """Measures the commands; what is wrong."""
    named = {name: folder / f"{name}.jsonl" for name in ("whole", "detailed", "first", "second")}
    commands = options.commands.split(",")
    needed = {name for name in named if any(f"{{{name}" in part for command in commands for part in COMMANDS[command])}
    sources = {}
    for name in sorted(needed):
        source, itl_ms = ("second", 2) if name == "second" else ("first", 1)
        if not named[name].exists():
            if source not in sources:
                sources[source] = short_run(options.sobench, folder / f"source-{source}.jsonl", itl_ms, options)
            count = options.requests // (2 if name in ("first", "second") else 1)
            is_detailed = name == "detailed" or ("compare-results" in commands and name != "whole")
            write_log(named[name], sources[source], count, is_detailed)
    results = {f"{name}_result": folder / f"{name}.json" for name in ("first", "second")}
    if "compare-results" in commands:
        for name, path in results.items():
            if not path.exists():
                log = named[name.removesuffix("_result")]
                subprocess.run([options.sobench, "report", log, "--save", path], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    files = {name: str(path) for name, path in {**named, **results}.items()}
    sizes = ", ".join(f"{path.name} {path.stat().st_size / 1e6:.0f} MB" for path in {**named, **results}.values() if path.exists())
    print(f"{options.requests} requests, {os.cpu_count()} cores: {sizes}")
    print(f"{'':34}{'s':>8}{'CPU s':>8}{'MB':>8}")
    problems = []
    for name in commands:
        outputs = set()
        for program, prefix in ((options.sobench, ""), (options.other_sobench, "other ")):
            if program is None:
                continue
            command = [program, *(part.format(**files) for part in COMMANDS[name])]
            output, seconds, cpu, memory = measure(command)
            outputs.add(output)
            print(f"{prefix + name:34}{seconds:8.2f}{cpu:8.2f}{memory:8.0f}", flush=True)
            if not prefix and memory > options.max_mb:
                problems.append(f"{name}: over {options.max_mb:.0f} MB")
        if len(outputs) > 1:
            problems.append(f"{name}: different outputs")
    return problems


if __name__ == "__main__":
    main()
