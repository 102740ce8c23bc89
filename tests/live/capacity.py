#!/usr/bin/env python3
"""Sweeps a server of known capacity, and checks that the reported bracket contains it.

    tests/live/capacity.py --repeat 5

The server answers SLOTS requests at a time, each after SERVICE seconds; others wait. Its capacity is SLOTS / SERVICE.
Needs Python 3.9 with its standard library, and a built sobench. Run by hand, alone on the machine; not part of `cargo test`.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

EVENTS = 'data: {"choices":[{"index":0,"text":"yes","finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'

TOLERANCE = 0.15
"""Requests come at random times, so that a short run can sustain a rate slightly above the capacity."""


def main():
    arguments = parse()
    capacity = arguments.slots / arguments.service
    failed = 0
    for number in range(1, arguments.repeat + 1):
        low, sustained, missed, high, undecided = sweep(arguments)
        is_right = low is not None and high is not None and low <= (1 + TOLERANCE) * capacity and high >= (1 - TOLERANCE) * capacity
        failed += not is_right
        print(
            f"{number}: capacity {capacity:g} req/s, bracket {low} to {high} (observed {sustained} to {missed}), "
            f"{undecided} undecided: {'contained' if is_right else 'NOT contained'}",
            flush=True,
        )
    sys.exit(failed > 0)


def sweep(arguments):
    with tempfile.TemporaryDirectory() as folder, Server(arguments.slots, arguments.service) as url:
        file = Path(folder) / "comparison.json"
        command = [arguments.sobench, "--target", f"known={url}", "--model", "m", "--dataset", "choice", "--choice", "yes,no"]
        command += ["--no-control-arm", "--skip-preflight", "--allow-unenforced", "--no-run-log", "--disable-tqdm"]
        command += ["--sweep", "--sweep-duration", str(arguments.duration), "--goodput", f"e2el:{arguments.objective_ms}"]
        command += ["--save", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not file.exists() or done.returncode != 0:
            sys.exit(done.stdout + done.stderr)
        found = json.loads(file.read_text())["capacity"][0]["constrained"]["sweeps"][0]
        undecided = sum(step["is_undecided"] for step in found["steps"])
        return found["low_rps"], found["sustained_rps"], found["missed_rps"], found["high_rps"], undecided


class Server:
    """A server of completions in a thread of its own. Entering it gives its address."""

    def __init__(self, slots, service_s):
        self.slots, self.service_s = slots, service_s
        self.loop = asyncio.new_event_loop()

    def __enter__(self):
        started = threading.Event()
        threading.Thread(target=self.run, args=(started,), daemon=True).start()
        started.wait()
        return f"http://127.0.0.1:{self.port}"

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.loop.stop)

    def run(self, started):
        async def start():
            self.free = asyncio.Semaphore(self.slots)
            server = await asyncio.start_server(self.serve, "127.0.0.1", 0, backlog=4096)
            self.port = server.sockets[0].getsockname()[1]
            started.set()

        self.loop.run_until_complete(start())
        self.loop.run_forever()

    async def serve(self, reader, writer):
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                lengths = [line.split(":")[1] for line in head.lower().split("\r\n") if line.startswith("content-length:")]
                await reader.readexactly(int(lengths[0]) if lengths else 0)
                if head.startswith("POST"):
                    async with self.free:
                        await asyncio.sleep(self.service_s)
                    self.answer(writer, "text/event-stream", EVENTS)
                else:
                    self.answer(writer, "application/json", '{"object":"list","data":[{"id":"m","object":"model"}]}')
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def answer(self, writer, kind, body):
        writer.write(f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode())


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sobench", default=ROOT / "target/release/sobench")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--service", type=float, default=0.4, help="seconds")
    parser.add_argument("--duration", type=float, default=20, help="--sweep-duration")
    parser.add_argument("--objective-ms", type=float, default=60000, help="objective of E2EL; the default leaves the decision to the backlog")
    return parser.parse_args()


if __name__ == "__main__":
    main()
