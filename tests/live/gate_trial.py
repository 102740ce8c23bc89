#!/usr/bin/env python3
"""Makes runs of the embedded server for a trial of the gate, and counts what `compare --gate` says about fresh pairs of them.

Below FOLDER are `quiet` and `busy` (beside a busy loop). Each has `a` (runs of equal servers), `b` (the same with 20 % more delay) and
`fresh` (pairs of sides of equal servers, three runs a side, in turn). Afterwards,
`cargo run --release -p sobench-results --example gate_power -- FOLDER` draws many pairs of sides from `a` and `b`.

    tests/live/gate_trial.py runs FOLDER --runs 150 --slower 60 --fresh 50
    tests/live/gate_trial.py compare FOLDER

Needs Python 3.9 with its standard library, and a built sobench. A run takes about a second. Run by hand; not part of `cargo test`.
"""

import argparse
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

REQUESTS = ["--dataset", "json", "--num-prompts", "150", "--output-len", "64", "--max-concurrency", "16", "--disable-tqdm"]
TTFT_MS, ITL_MS = 20.0, 2.0
SLOWER = 1.2
RUNS_A_SIDE = 3

# Ends with its parent, also if that is killed.
BUSY_LOOP = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"


def main():
    arguments = parse()
    if arguments.do == "runs":
        for load in arguments.load:
            loop = subprocess.Popen([sys.executable, "-c", BUSY_LOOP]) if load == "busy" else None
            try:
                make_runs(arguments, arguments.folder / load)
            finally:
                if loop is not None:
                    loop.kill()
    else:
        for load in arguments.load:
            compare_fresh(arguments, arguments.folder / load)


def make_runs(arguments, folder):
    for number in range(arguments.runs):
        run(arguments, folder / "a" / f"{number:03}.jsonl", 1.0)
        # Spread over the trial, so that both kinds see the same machine.
        if number * arguments.slower // arguments.runs != (number + 1) * arguments.slower // arguments.runs:
            run(arguments, folder / "b" / f"{number:03}.jsonl", SLOWER)
    for pair in range(arguments.fresh):
        for number in range(RUNS_A_SIDE):
            for side in "ab":
                run(arguments, folder / "fresh" / f"{pair:03}" / side / f"{number}.jsonl", 1.0)


def run(arguments, log, factor):
    if log.exists():
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    part = log.with_suffix(".part")
    part.unlink(missing_ok=True)
    delays = ["--embedded-ttft-ms", str(TTFT_MS * factor), "--embedded-itl-ms", str(ITL_MS * factor)]
    subprocess.run([arguments.sobench, *REQUESTS, *delays, "--run-log", part], check=True, capture_output=True)
    part.rename(log)


def compare_fresh(arguments, folder):
    verdicts, broken = Counter(), []
    for pair in sorted((folder / "fresh").iterdir()):
        command = [arguments.sobench, "compare", pair / "a", pair / "b", "--gate"]
        ran = subprocess.run(command, capture_output=True, text=True)
        lines = ran.stderr.splitlines()
        verdict = next((line.split(":")[0] for line in lines if line.startswith(("gate passed", "gate failed", "gate undecided"))), ran.stderr)
        verdicts[f"{verdict} (exit {ran.returncode})"] += 1
        broken += [f"{pair.name}: {line}" for line in lines if line.startswith("gate: ")]
    print(f"{folder.name}: {sum(verdicts.values())} fresh pairs: {dict(verdicts)}")
    for line in broken:
        print(f"  {line}")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("do", choices=["runs", "compare"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sobench", default=ROOT / "target/release/sobench")
    parser.add_argument("--load", nargs="+", choices=["quiet", "busy"], default=["quiet", "busy"])
    parser.add_argument("--runs", type=int, default=150, help="runs of equal servers")
    parser.add_argument("--slower", type=int, default=60, help="runs with 20 %% more delay, at most --runs")
    parser.add_argument("--fresh", type=int, default=50, help="pairs of sides of equal servers")
    return parser.parse_args()


if __name__ == "__main__":
    main()
