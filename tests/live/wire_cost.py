#!/usr/bin/env python3
"""What the check of frames costs (`--wire`): CPU time of the client per million tokens, and TTFT.

    tests/live/wire_cost.py [--sobench target/release/sobench] [--pairs 12] [--only calibrate]

Both clients alternate: by `sobench calibrate` against its server of known timing, and against one `sobench serve` with streams of
tool calls and of text. A side of a pair is several runs. The intervals are of the mean difference of the pairs (Student's t, 95 %).
Exit code 1 if an interval of CPU time, or of the error of TTFT, reaches 3 %. `calibrate` takes 43 minutes. Nothing else may run.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

T_95 = {4: 3.18, 6: 2.57, 8: 2.36, 10: 2.26, 12: 2.20, 16: 2.13, 20: 2.09, 30: 2.05}
"""Student's t at 95 %, by the number of pairs."""

LIMIT_PERCENT = 3

RUNS = {"calibrate": 20, "tools": 4, "json": 4}
"""Runs of a side of a pair, which alternate with those of the other side: two processes differ by a few percent, however long they run."""


def middle_mean(figures):
    """The mean of the middle half: a slow run does not move it."""
    cut = len(figures) // 4
    return statistics.mean(sorted(figures)[cut : len(figures) - cut])


def calibrate(sobench, wires, folder):
    """CPU seconds per million tokens and the mean error of TTFT in ms, of the middle half of the runs with each value of --wire."""
    clients = []
    for wire in wires:
        command = (
            f"{sobench} bench --base-url {{base_url}} --model {{model}} --no-guided-decoding --num-prompts {{requests}}"
            " --max-concurrency {streams} --output-len {output_len} --save-result --save-detailed --result-dir {dir}"
            f" --result-filename {{file}} --skip-preflight --disable-tqdm --no-run-log --wire={wire}"
        )
        clients += ["--against-name", wire, "--against", command]
    options = ["--streams", "400", "--request-rate", "0", "--itl-ms", "20", "--repeat", str(RUNS["calibrate"]), "--format", "json", *clients]
    if len(os.sched_getaffinity(0)) > 1:
        options += ["--client-cores", "0", "--server-cores", "1"]
    page = subprocess.run([sobench, "calibrate", *options], check=True, capture_output=True, text=True, cwd=folder).stdout
    rows = [(row["client"], row["measured"]) for row in json.loads(page)["rows"]]
    means = {}
    for wire in wires:
        found = [(row["cpu_s_per_million_tokens"], row["ttft_error"]["mean_ms"]) for client, row in rows if client == wire]
        means[wire] = tuple(map(middle_mean, zip(*found)))
    return means


def measure(sobench, url, dataset, wire, folder):
    """CPU seconds of the client, output tokens, and the mean TTFT in ms."""
    result = Path(folder) / "result.json"
    command = [
        sobench, "bench", "--base-url", url, "--backend", "openai-chat", "--dataset", dataset, "--num-prompts", "1000", "--output-len", "100",
        "--max-concurrency", "64", "--skip-preflight", "--no-run-log", "--disable-tqdm", f"--wire={wire}", "--save-result", "--result-dir",
        folder, "--result-filename", result.name,
    ]  # fmt: skip
    before = os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = os.times()
    found = json.loads(result.read_text())
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    return cpu_s, found["total_output_tokens"], found["mean_ttft_ms"]


def alternate(sobench, url, dataset, wires, folder):
    """CPU seconds per million tokens and the mean TTFT in ms, of a client with each value of --wire."""
    runs = {wire: [] for wire in wires}
    for number in range(RUNS[dataset]):
        for wire in wires if number % 2 else reversed(wires):
            runs[wire].append(measure(sobench, url, dataset, wire, folder))
    sums = {wire: [sum(column) for column in zip(*rows)] for wire, rows in runs.items()}
    return {wire: (cpu_s / tokens * 1e6, ttft_ms / RUNS[dataset]) for wire, (cpu_s, tokens, ttft_ms) in sums.items()}


def interval(off, on):
    """The mean difference in percent of the mean without the check, with its interval."""
    base = statistics.mean(off)
    differences = [100 * (two - one) / base for one, two in zip(off, on)]
    half = T_95[len(differences)] * statistics.stdev(differences) / len(differences) ** 0.5
    mean = statistics.mean(differences)
    return mean, mean - half, mean + half


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sobench", type=lambda path: str(Path(path).resolve()), default="target/release/sobench")
    parser.add_argument("--pairs", type=int, default=12, choices=T_95)
    parser.add_argument("--only", choices=RUNS)
    options = parser.parse_args()
    is_passed = True
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen([options.sobench, "serve", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            url = next(word for line in server.stdout for word in line.split() if word.startswith("http://")).rstrip("/,.")
            for dataset in [options.only] if options.only else RUNS:
                rows = {"off": [], "on": []}
                for number in range(options.pairs):
                    wires = ("off", "on") if number % 2 else ("on", "off")
                    if dataset == "calibrate":
                        found = calibrate(options.sobench, wires, folder)
                    else:
                        found = alternate(options.sobench, url, dataset, wires, folder)
                    for wire in wires:
                        rows[wire].append(found[wire])
                for index, (name, unit) in enumerate((("CPU", "s per million tokens"), ("error of TTFT" if dataset == "calibrate" else "TTFT", "ms"))):
                    off, on = ([row[index] for row in rows[wire]] for wire in ("off", "on"))
                    mean, low, high = interval(off, on)
                    base = statistics.mean(off)
                    print(f"{dataset}: {name} {base:.4f} {unit} without, {mean:+.2f} % with (95 %: {low:+.2f} to {high:+.2f})", flush=True)
                    is_passed &= name == "TTFT" or high < LIMIT_PERCENT
        finally:
            server.kill()
    return 0 if is_passed else 1


if __name__ == "__main__":
    sys.exit(main())
