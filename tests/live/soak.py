#!/usr/bin/env python3
"""Runs sobench for long, as fast as the machine carries, against a server that fails a hundredth of its requests in ten ways, and holds
what comes out to what went in.

Every request has to be accounted for: as many lines in the run log as requests, each request once, outcomes that add up, as many sent as
the server counted beside those before the run (trial, questions, warm-ups), and of each fault as many outcomes as the server planted.
Memory has to grow by no more than what a request is worth (`MAX_BYTES_A_REQUEST`, beyond the warm-up), and in the end no more files may
be open than connections that the run keeps.

Needs Python 3.9 with its standard library, Linux (`/proc`) and a built sobench. Exit codes: 0 all holds; 1 something does not; 2 the run did
not take place. Run by hand, and nightly by `.ci/nightly`; not part of `cargo test`.
"""

import argparse
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Each fault with the outcome that its request has to have; together they strike one request in a hundred.
FAULTS = {
    "error-429": "rejected", "error-500": "server_error", "hang": "timed_out", "reset": "transport", "truncate": "stream_error",
    "error-mid-stream": "stream_error", "slow-header:100": "completed", "stall:250": "completed", "no-done": "completed",
    "no-usage": "completed",
}  # fmt: skip
SHARE = 0.001
REQUEST_TIMEOUT_S = 10

MAX_BYTES_A_REQUEST = 160
"""Growth of the client's memory for each request once it is warm: what the queue and the ledger of verdicts keep of one."""

WARM_SHARE = 0.1
"""Of the time, before memory counts as warm."""

MAX_SPARE_FILES = 16
"""Open files beside the connections: the log, the runtime's own, the terminal."""


UNSENT = ("connect", "local")
"""Why a request went nowhere, though it has an instant: the one at which a connection was looked for."""


class NoRun(Exception):
    """The run did not take place; the text says why."""


def main():
    arguments = parse()
    folder = Path(tempfile.mkdtemp(prefix="soak-")) if arguments.folder is None else arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with Served(arguments.sobench, folder) as server:
            samples = drive(arguments, server, folder)
            stats = json.load(urllib.request.urlopen(f"{server.url}/sobench/stats", timeout=10))
            server_memory = server.samples
        wrong = report(arguments, folder, samples, server_memory, stats)
    except (NoRun, OSError) as error:
        print(f"no run: {error}", file=sys.stderr)
        return 2
    print("holds" if not wrong else "\n".join(f"WRONG: {words}" for words in wrong))
    return 1 if wrong else 0


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--sobench", type=Path, default=ROOT / "target/release/sobench", help="the program (default: the release build)")
    parser.add_argument("--seconds", type=int, default=1800, help="how long to send (default 1800)")
    parser.add_argument("--max-concurrency", type=int, default=256, help="requests under way at a time (default 256)")
    parser.add_argument("--output-len", type=int, default=128, help="most tokens of an answer (default 128)")
    parser.add_argument("--dataset", default="json", help="the dataset (default json)")
    parser.add_argument("--folder", type=Path, help="where the files go (default: a new folder)")
    return parser.parse_args()


class Watched:
    """A process whose memory and open files are looked at."""

    def __init__(self, process):
        self.process, self.samples, self.begin = process, [], time.monotonic()

    def look(self):
        """Keeps seconds since the begin, resident bytes and open files."""
        try:
            status = Path(f"/proc/{self.process.pid}/status").read_text()
            files = len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))
        except OSError:
            return
        resident = re.search(r"VmRSS:\s+(\d+) kB", status)
        if resident:
            self.samples.append((time.monotonic() - self.begin, int(resident[1]) * 1024, files))


class Served(Watched):
    """`sobench serve` with the faults, for the time of a `with`."""

    def __init__(self, sobench, folder):
        self.command, self.folder = [sobench, "serve", "--port", "0"], folder
        for fault in FAULTS:
            self.command += ["--fault", f"{fault}@{SHARE}"]

    def __enter__(self):
        said = self.folder / "serve.txt"
        with open(said, "wb") as out:
            super().__init__(subprocess.Popen(self.command, stdout=out, stderr=subprocess.STDOUT))
        for _ in range(600):
            found = re.search(r" at (http://\S+)", said.read_text())
            if found:
                self.url = found[1]
                return self
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        self.__exit__()
        raise NoRun(f"sobench serve did not come up: {said.read_text()[-500:]}")

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def drive(arguments, server, folder):
    """Runs the client, and returns what was seen of it, once a second."""
    command = [
        arguments.sobench, "--base-url", server.url, "--dataset", arguments.dataset, "--guided-decoding-ratio", "1.0",
        "--duration", arguments.seconds, "--max-concurrency", arguments.max_concurrency, "--output-len", arguments.output_len,
        "--request-timeout", REQUEST_TIMEOUT_S, "--disable-tqdm", "--save-result", "--result-dir", folder, "--result-filename", "result.json",
        "--run-log", folder / "log.jsonl",
    ]  # fmt: skip
    with open(folder / "printed.txt", "wb") as out:
        client = Watched(subprocess.Popen([str(word) for word in command], stdout=out, stderr=subprocess.STDOUT))
    while client.process.poll() is None:
        client.look()
        server.look()
        time.sleep(1)
    if client.process.returncode != 0:
        raise NoRun(f"sobench ended with code {client.process.returncode}: {(folder / 'printed.txt').read_text()[-1500:]}")
    # What still stands open once the client is gone would be the server's leak.
    time.sleep(2)
    server.look()
    return client.samples


def report(arguments, folder, samples, server_samples, stats):
    """Prints the figures and returns what does not hold."""
    result = json.loads((folder / "result.json").read_text())
    outcomes = {name: count for name, count in result["sobench"]["outcomes"].items() if count}
    lines, indices, logged, sent = read_log(folder / "log.jsonl")
    planted = dict(stats["faults"])
    wrong = accounts(result, outcomes, lines, indices, logged, planted)
    wrong += counts(result, sent, stats)
    growth = memory(arguments, samples, lines, wrong)
    print(f"{lines} requests in {result['duration']:.0f} s, {lines / result['duration']:.0f} requests/s, "
          f"{result['output_throughput']:.0f} tok/s, at most {arguments.max_concurrency} under way")  # fmt: skip
    print(f"outcomes: {outcomes}")
    print(f"planted by the server: {planted}")
    print(f"sent: {sent} in the run, {before(result)} before it; how the server's answers ended: {stats['answers']}")
    print(f"memory of the client: {growth}")
    resident = [sample[1] for sample in server_samples]
    print(f"memory of the server: {mib(resident[len(resident) // 10])} warm, {mib(resident[-1])} at the end")
    files = [sample[2] for sample in samples]
    print(f"open files of the client: most {max(files)}; of the server: most {max(s[2] for s in server_samples)}, "
          f"at the end {server_samples[-1][2]}")  # fmt: skip
    if max(files) > arguments.max_concurrency + MAX_SPARE_FILES:
        wrong.append(f"the client had {max(files)} files open for {arguments.max_concurrency} requests")
    if server_samples[-1][2] > server_samples[0][2] + MAX_SPARE_FILES:
        wrong.append(f"the server has {server_samples[-1][2]} files open after the run, {server_samples[0][2]} before")
    print(f"files: {folder}")
    return wrong


def read_log(path):
    """How many requests the log has, how many different ones, their outcomes, and how many were sent."""
    lines, indices, outcomes, sent = 0, set(), Counter(), 0
    with open(path, encoding="utf-8") as log:
        for line in log:
            if line.startswith('{"request":'):
                request = json.loads(line)["request"]
                lines += 1
                indices.add(request["index"])
                outcomes[request["outcome"]["kind"]] += 1
                sent += request["timing"].get("sent_ns") is not None and request["outcome"].get("cause") not in UNSENT
    return lines, indices, outcomes, sent


def accounts(result, outcomes, lines, indices, logged, planted):
    wrong = []

    def same(what, one, other):
        if one != other:
            wrong.append(f"{what}: {one} and {other}")

    same("requests of the result and of the log", result["num_prompts"], lines)
    same("requests and different requests in the log", lines, len(indices))
    same("the log's requests are the first ones", max(indices) + 1, lines)
    same("outcomes of the result and of the log", dict(outcomes), dict(logged))
    same("completed and failed, and requests", result["completed"] + result["failed"], lines)
    expected = Counter()
    for fault, count in planted.items():
        expected[FAULTS[next(known for known in FAULTS if known.split(":")[0] == fault.split(":")[0])]] += count
    for outcome in set(FAULTS.values()) - {"completed"}:
        same(f"planted faults and outcomes: {outcome}", expected[outcome], outcomes.get(outcome, 0))
    return wrong


def before(result):
    """How many requests for answers came before the run."""
    about = result["sobench"]
    return about["trial_requests"] + about["warmup_requests"] + about["enforcement"]["requests"]


def counts(result, sent, stats):
    """What does not hold of the server's own count of requests for answers."""
    taken = sum(stats["answers"].values())
    expected = sent + before(result)
    return [] if taken == expected else [f"requests sent, those before the run included, and the server's count: {expected} and {taken}"]


def memory(arguments, samples, requests, wrong):
    """Says how memory grew, and whether by more than the requests are worth."""
    sending = [sample for sample in samples if sample[0] <= arguments.seconds]
    warm = next(sample for sample in sending if sample[0] >= WARM_SHARE * arguments.seconds)
    grown = (sending[-1][1] - warm[1]) / (requests * (1 - WARM_SHARE))
    if grown > MAX_BYTES_A_REQUEST:
        wrong.append(f"the client's memory grew by {grown:.0f} bytes a request while sending")
    most = max(sample[1] for sample in samples)
    return f"{mib(warm[1])} warm, {mib(sending[-1][1])} when sending ended ({grown:.1f} bytes a request), {mib(most)} at most, with the report"


def mib(size):
    return f"{size / 2**20:.1f} MiB"


if __name__ == "__main__":
    sys.exit(main())
