#!/usr/bin/env python3
"""Plants a leak of 1 MB for each schema, and checks that the report finds its slope, and no slope without the leak.

    tests/live/memory_per_schema.py --sobench target/release/sobench [--runs 20]

Each run starts its own `sobench serve` and sends 800 schemas, 20 a second. glibc keeps one area of memory in the servers
(`MALLOC_ARENA_MAX=1`): with several, freed memory of one is not used by the others, and memory grows for longer.
Exit codes: 0 every slope is within 10 % of the leak, and every interval without a leak contains 0; 1 otherwise.

Needs Python 3.9 with its standard library, and a built sobench. Run by hand; not part of `cargo test`. 20 runs take 30 minutes.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from server import free_port

LEAK_BYTES = 1_000_000
SCHEMAS, RATE = 800, 20


def memory_growth(sobench, seed, folder, faults):
    """Runs a server and a load, and returns the slope that the result has."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    environment = {**os.environ, "MALLOC_ARENA_MAX": "1"}
    command = [sobench, "serve", "--port", str(port), *faults]
    server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            try:
                urllib.request.urlopen(f"{url}/health", timeout=10).close()
                break
            except OSError:
                time.sleep(0.2)
        load = [
            sobench, "--base-url", url, "--model", "sobench-synthetic", "--dataset", "json-unique", "--num-prompts", str(SCHEMAS),
            "--request-rate", str(RATE), "--output-len", "60", "--seed", str(seed), "--disable-tqdm", "--no-run-log",
            "--save-result", "--result-dir", str(folder), "--result-filename", "result.json",
        ]  # fmt: skip
        subprocess.run(load, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    finally:
        server.kill()
        server.wait()
    return json.loads((folder / "result.json").read_text())["sobench"]["server_metrics"]["memory_growth"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sobench", required=True)
    parser.add_argument("--runs", type=int, default=20)
    arguments = parser.parse_args()
    failed = 0
    for name, faults, low, high in (
        ("leak", ["--fault", f"leak-per-schema:{LEAK_BYTES}"], 0.9 * LEAK_BYTES, 1.1 * LEAK_BYTES),
        ("no leak", [], 0, 0),
    ):
        for seed in range(1, arguments.runs + 1):
            with tempfile.TemporaryDirectory() as folder:
                growth = memory_growth(arguments.sobench, seed, Path(folder), faults)
            slope, interval = growth["bytes_per_constraint"], (growth["low"], growth["high"])
            good = low <= slope <= high if faults else interval[0] <= 0 <= interval[1]
            failed += not good
            print(f"{name:8} {seed:3}  {slope:12,.0f} B per schema, {interval[0]:,.0f} to {interval[1]:,.0f}  {'ok' if good else 'WRONG'}", flush=True)
    print(f"{failed} of {2 * arguments.runs} runs are wrong")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
