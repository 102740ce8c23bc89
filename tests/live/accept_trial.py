#!/usr/bin/env python3
"""Whether `sobench accept` meets and misses rules of a server with known rates.

    tests/live/accept_trial.py [--sobench target/debug/sobench] [--runs 20] [--requests 300]

Starts `sobench serve` with wrong answers at a rate, and accepts it with the rule correct_rate>=95. Prints, for each rate, the runs that
say met, not met and not decided, and the mean of the requests. Exit code 1 if a server at the limit is met in more than 3 of 20 runs
or not met in more than 1, or if a clear one is not decided rightly in more than 2.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

# The share of wrong answers, and the right decision; None at the limit.
RATES = {0: "met", 0.05: None, 0.2: "not_met"}
FILE = """
[[run]]
name = "schemas"
dataset = "json-unique"
num-prompts = {requests}
max-concurrency = 16
require = ["correct_rate>=95"]
"""


def decision(options, url, seed, folder):
    """The decision on the rule, and the requests that it took."""
    must, saved = Path(folder) / "must.toml", Path(folder) / "acceptance.json"
    must.write_text(FILE.format(requests=options.requests))
    saved.unlink(missing_ok=True)
    command = [
        options.sobench, "accept", must, "--base-url", url, "--seed", str(seed), "--disable-tqdm", "--skip-preflight", "--no-run-log",
        "--save", saved,
    ]  # fmt: skip
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if not saved.exists():
        sys.exit(ran.stderr)
    part = json.loads(saved.read_text())["parts"][0]
    return part["rules"][0]["decision"], part["requests"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sobench", type=Path, default=Path("target/debug/sobench"), help="the program")
    parser.add_argument("--runs", type=int, default=20, help="runs of each rate")
    parser.add_argument("--requests", type=int, default=300, help="planned requests of a run")
    options = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for rate, right in RATES.items():
            faults = ["--fault", f"ignore-constraint@{rate}"] if rate else []
            with subprocess.Popen([options.sobench, "serve", "--port", "0", *faults], stderr=subprocess.PIPE, text=True) as server:
                try:
                    line = next(line for line in server.stderr if "http://" in line)
                    url = "http://" + line.split("http://")[1].split()[0]
                    runs = [decision(options, url, seed, folder) for seed in range(options.runs)]
                finally:
                    server.terminate()
            count = {name: sum(found == name for found, _ in runs) for name in ("met", "not_met", "not_decided")}
            mean = sum(requests for _, requests in runs) / options.runs
            print(f"{rate:.0%} wrong: {count}, {mean:.0f} of {options.requests} requests", flush=True)
            share = options.runs / 20
            failed |= options.runs - count[right] > 2 * share if right else count["met"] > 3 * share or count["not_met"] > share
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
