#!/usr/bin/env python3
"""Fresh pairs of `sobench serve` with and without a planted loss: the verdicts of `sobench compare` with the rules of the guide and the
default ones, beside what `fixtures/baselines/gate-power.csv` promises. Logs that are in FOLDER already are not measured again.

    tests/live/gate_trial.py FOLDER --fresh 20

Needs Python 3.9 with its standard library, and a built sobench. A run takes some seconds. Run by hand; not part of `cargo test`.
"""

import argparse
import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Far above what a busy machine adds.
TTFT_MS, ITL_MS = 80.0, 8.0
SLOWER = 1.2

GUIDE = ["--fail-on", "correct_rate<-2pp", "--fail-on", "coverage<-2pp"]
DEFAULT = ["--gate"]
LOSS = ["--fault", "extra-text@0.05"]
# Name, rules, runs a side, requests a run, flags of the second server, and the share of failed, undecided and passed gates that pairs may
# have, as least and most.
PLANTED = [
    ("guide, nothing", GUIDE, 1, 600, [], {"passed": (0.8, 1.0), "failed": (0.0, 0.05)}),
    ("guide, 5 points", GUIDE, 1, 600, LOSS, {"failed": (0.85, 1.0)}),
    ("default, nothing", DEFAULT, 3, 200, [], {"failed": (0.0, 0.05)}),
    ("default, 5 points", DEFAULT, 3, 120, LOSS, {"failed": (0.8, 1.0)}),
    ("default, 5 points, few requests", DEFAULT, 3, 60, LOSS, {"passed": (0.0, 0.1)}),
    ("default, 20 % slower", DEFAULT, 3, 200, ["slower"], {"failed": (0.8, 1.0), "passed": (0.0, 0.1)}),
]


def main():
    """The runs of both servers are made in turn."""
    arguments = parse()
    failed = 0
    for number, (name, rules, runs, requests, flags, promised) in enumerate(PLANTED):
        if arguments.only and number not in arguments.only:
            continue
        second = delays(SLOWER) if flags == ["slower"] else [*delays(1.0), *flags]
        verdicts = Counter()
        with Server(arguments.sobench, delays(1.0)) as first, Server(arguments.sobench, second) as other:
            for pair in range(arguments.fresh):
                folder = arguments.folder / str(number) / f"{pair:03}"
                for run in range(runs):
                    for side, server in (("a", first), ("b", other)):
                        measure(arguments, folder / side / f"{run}.jsonl", server, requests, seed=pair)
                command = [arguments.sobench, "compare", folder / "a", folder / "b", *rules, "--format", "json"]
                ran = subprocess.run(command, capture_output=True, text=True)
                verdict = json.loads(ran.stdout)["gate"]["verdict"]
                assert ran.returncode == {"passed": 0, "failed": 1, "undecided": 5}[verdict], ran
                verdicts[verdict] += 1
        is_kept = all(least <= verdicts[verdict] / arguments.fresh <= most for verdict, (least, most) in promised.items())
        failed += not is_kept
        print(f"{name}, {runs} x {requests}: {dict(verdicts)}: {'as promised' if is_kept else 'NOT as promised'}", flush=True)
    sys.exit(min(failed, 1))


def delays(factor):
    return ["--embedded-ttft-ms", str(TTFT_MS * factor), "--embedded-itl-ms", str(ITL_MS * factor)]


class Server:
    def __init__(self, sobench, flags):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{free.getsockname()[1]}"
        self.command = [sobench, "serve", "--port", self.url.rsplit(":", 1)[1], "--model", "m", *flags]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{self.url}/health", timeout=1).close()
                return self
            except OSError:
                time.sleep(0.1)
        raise SystemExit(f"no server: {self.command}")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def measure(arguments, log, server, requests, seed):
    if log.exists():
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    part = log.with_suffix(".part")
    part.unlink(missing_ok=True)
    # Each pair has prompts of its own. The server draws faults anew for each repetition of a prompt.
    command = [arguments.sobench, "--base-url", server.url, "--skip-preflight", "--dataset", "json", "--num-prompts", str(requests)]
    command += ["--output-len", "64", "--max-concurrency", "32", "--seed", str(seed), "--disable-tqdm", "--run-log", part]
    subprocess.run(command, check=True, capture_output=True)
    part.rename(log)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sobench", default=ROOT / "target/release/sobench")
    parser.add_argument("--fresh", type=int, default=20, help="pairs of each trial")
    parser.add_argument("--only", nargs="+", type=int, help="numbers of trials, from 0")
    return parser.parse_args()


if __name__ == "__main__":
    main()
