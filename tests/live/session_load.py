#!/usr/bin/env python3
"""What sessions under load cost the client, and whether their times are right.

    tests/live/session_load.py [--sobench target/release/sobench] [--sessions 500] [--turns 5] [--output-len 50] [--pairs 6]

Runs sessions at once against the server of known timing of `sobench calibrate`, and the same bodies as single requests, in turns. Prints
the error of TTFT for each turn, and CPU time per million tokens with the interval of the difference. Exit code 1 if the interval under
load reaches 10 %, or the median error of a turn is above 0.1 ms.
"""

import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from wire_cost import T_95, interval

TTFT_MS, ITL_MS = 100, 50
# The most that sessions may cost more than single requests under load.
LIMIT_PERCENT = 10


class Server:
    """The server of known timing."""

    def __init__(self, program):
        self.process = subprocess.Popen([program, "calibrate-server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = f"http://127.0.0.1:{self.process.stdout.readline().strip()}"

    def ask(self, command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def start(self):
        self.ask({"begin": {"ttft_ms": TTFT_MS, "itl_ms": ITL_MS}})

    def records(self):
        """The records by the id at the start of their texts, and the seconds from the start to the first arrival and the last token."""
        log = json.loads(self.ask("log"))
        since_start = lambda at_ns: (at_ns - log["started_ns"]) / 1e9
        first = min(record["arrived_ns"] for record in log["records"])
        last = max(record["write_ends_ns"][-1] for record in log["records"])
        return {record["id"]: record for record in log["records"]}, since_start(first), since_start(last)


class CpuTimes(threading.Thread):
    """Samples of the CPU time of a process, until it has ended."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.path = Path(f"/proc/{pid}/stat")
        self.samples = []
        self.start()

    def run(self):
        while True:
            try:
                fields = self.path.read_text().rpartition(")")[2].split()
            except OSError:
                return
            self.samples.append((time.monotonic(), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")))
            time.sleep(0.02)

    def between(self, start, end):
        at = lambda instant: max((cpu for when, cpu in self.samples if when <= instant), default=0)
        return at(end) - at(start)


def conversation(session, turns):
    words = "The customer asks about the order and waits for an answer. " * 8
    for turn in range(turns):
        yield {"role": "user", "content": f"Session {session}, question {turn}: {words}"}
        yield {"role": "assistant", "content": f"Answer {turn}: {words}"}


def write_files(folder, options):
    """The sessions, and each of their turns as a single request."""
    sessions, requests = folder / "sessions.jsonl", folder / "requests.jsonl"
    with sessions.open("w") as of_sessions, requests.open("w") as of_requests:
        for session in range(options.sessions):
            messages = list(conversation(session, options.turns))
            of_sessions.write(json.dumps({"messages": messages}) + "\n")
            for turn in range(options.turns):
                body = {"messages": messages[: 2 * turn + 1], "stream": True, "max_tokens": options.output_len, "temperature": 0}
                of_requests.write(json.dumps(body) + "\n")
    return sessions, requests


def measure(options, server, folder, arguments):
    """The CPU times of the client per million tokens, of the whole process and from the first request to the last token, and (place,
    error of TTFT in ms) of each answer in the order of the plan."""
    server.start()
    begin = time.monotonic()
    result = folder / "result.json"
    result.unlink(missing_ok=True)
    command = [
        options.sobench, "bench", "--base-url", server.url, "--model", "calibrate", "--backend", "openai-chat", "--no-guided-decoding",
        "--max-concurrency", str(options.sessions), "--output-len", str(options.output_len), "--ignore-eos", "--temperature", "0",
        "--skip-preflight", "--num-warmups", "0", "--disable-tqdm", "--save-result", "--save-detailed", "--result-dir", str(folder),
        "--result-filename", "result.json", *arguments,
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    cpu = CpuTimes(process.pid)
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    if not result.exists():
        sys.exit(f"{os.waitstatus_to_exitcode(status)}: {errors}")
    saved, (records, first_s, last_s) = json.loads(result.read_text()), server.records()
    tokens = sum(len(record["written_ns"]) for record in records.values())
    found = []
    for place, (text, ttft_s) in enumerate(zip(saved["generated_texts"], saved["ttfts"], strict=True)):
        record = records[int(re.match(r"\D*(\d+)", text)[1])]
        found.append((place, 1e3 * ttft_s - (record["written_ns"][0] - record["arrived_ns"]) / 1e6))
    times = usage.ru_utime + usage.ru_stime, cpu.between(begin + first_s, begin + last_s)
    return [time_s / tokens * 1e6 for time_s in times], found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sobench", type=Path, default=Path("target/release/sobench"), help="the program")
    parser.add_argument("--sessions", type=int, default=500, help="sessions at once")
    parser.add_argument("--turns", type=int, default=5, help="turns of each session")
    parser.add_argument("--output-len", type=int, default=50, help="tokens of each answer")
    parser.add_argument("--pairs", type=int, default=6, choices=T_95, help="runs of each kind")
    options = parser.parse_args()
    program = str(options.sobench.resolve())
    costs = {"sessions": [], "single requests": []}
    errors = {kind: [[] for _ in range(options.turns)] for kind in costs}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sessions, requests = write_files(folder, options)
        server = Server(program)
        kinds = {
            "sessions": ["--dataset", "sessions", "--dataset-path", str(sessions), "--num-prompts", str(options.sessions)],
            "single requests": ["--dataset", "requests", "--dataset-path", str(requests), "--num-prompts", str(options.sessions * options.turns)],
        }
        for pair in range(options.pairs):
            order = list(kinds) if pair % 2 == 0 else list(kinds)[::-1]
            for kind in order:
                cost, found = measure(options, server, folder, kinds[kind])
                costs[kind].append(cost)
                for place, error in found:
                    # Single requests go out in the order of their file, a turn of it for each stream.
                    turn = place % options.turns if kind == "sessions" else place // options.sessions
                    errors[kind][turn].append(error)
        server.process.stdin.close()
        server.process.wait()
    failed = False
    print(f"{options.sessions} sessions at once, {options.turns} turns of {options.output_len} tokens, {options.pairs} runs")
    print("turn  answers  error of TTFT (ms): mean  p50  p99  of single requests: mean  p50  p99")
    for turn, both in enumerate(zip(*errors.values(), strict=True), 1):
        shown = f"{turn:>4}  {len(both[0]):>7}"
        for values in both:
            values.sort()
            p50, p99 = values[len(values) // 2], values[math.ceil(0.99 * len(values)) - 1]
            shown += f"  {statistics.mean(values):>23.3f}  {p50:.3f}  {p99:.3f}"
            failed |= abs(p50) > 0.1
        print(shown)
    for place, what in enumerate(["whole process", "under load"]):
        sessions, singles = ([cost[place] for cost in costs[kind]] for kind in ("sessions", "single requests"))
        mean, low, high = interval(singles, sessions)
        base = statistics.mean(singles)
        print(f"{what}: {base:.1f} CPU s per million tokens of single requests, {mean:+.1f} % of sessions (95 %: {low:+.1f} to {high:+.1f})")
    return int(failed or high >= LIMIT_PERCENT)


if __name__ == "__main__":
    sys.exit(main())
