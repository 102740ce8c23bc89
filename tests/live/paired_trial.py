#!/usr/bin/env python3
"""Whether `--matrix-order paired` finds what a server loses, and nothing where it loses nothing.

    tests/live/paired_trial.py [--sobench target/debug/sobench] [--runs 20] [--pairs 913] [--noise 0.005]

Two servers of this script answer each request with the text that the request names; with the noise, with a wrong one. The second one
also loses 1 % of all requests: those with one keyword, calls of one tool of 40, streamed ones, or ones with more than 8 others in
flight. Prints, for each kind, the runs that say "worse: YES", and those that name the right place. Exit code 1 if equal servers are
said to differ in more than 3 of 20 runs, or a loss is missed in more than 3.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

TOOLS = [
    {"type": "function", "function": {"name": f"tool_{index}", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}}
    for index in range(40)
]
KEYWORDS = [{"minLength": 1}, {"maxLength": 9}, {"pattern": "^x"}, {"enum": ["x", "xy"]}, {"const": "x"}]
PLACES = {"nothing": "", "keyword": "keyword minLength", "tool": "tool tool_7", "streamed": "streamed answers", "in flight": "above 8 requests in flight"}
CONCURRENCY = ["--max-concurrency", "16"]
# About half of the requests are among more than 8 in flight.
LOADS = {"in flight": ["--request-rate", "280"]}
SHARE = 0.01
LIMIT = 3


def requests(count):
    """Bodies: half with a schema of five keywords, half with 40 tools; half streamed."""
    for index in range(count):
        body = {"model": "m", "stream": index % 4 < 2, "messages": [{"role": "user", "content": f"request {index}"}]}
        if index % 2:
            schema = {"type": "object", "properties": {"a": {"type": "string", **KEYWORDS[index // 2 % 5]}}, "required": ["a"]}
            body["response_format"] = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
        else:
            body |= {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": f"tool_{index // 2 % 40}"}}}
        yield body


def chance(*parts):
    """A number in [0, 1) that depends on the parts alone."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:6], "big") / 2**48


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, name, loses, noise):
        super().__init__(("127.0.0.1", 0), Handler)
        self.name, self.loses, self.noise, self.seed = name, loses, noise, 0
        self.lock, self.in_flight, self.seen, self.crowded = threading.Lock(), 0, 0, 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def is_wrong(self, body, tool, in_flight):
        key = (self.seed, self.name, body["messages"])
        with self.lock:
            self.seen += 1
            self.crowded += in_flight > 8
        if chance("noise", *key) < self.noise:
            return True
        # The share of the requests that the loss can hit.
        hit, of = {
            "nothing": (False, 1),
            "keyword": ("minLength" in json.dumps(body), 0.1),
            "tool": (tool == "tool_7", 1 / 80),
            "streamed": (body["stream"], 0.5),
            "in flight": (in_flight > 8, max(0.2, self.crowded / self.seen)),
        }[self.loses]
        return hit and chance("lost", *key) < SHARE / of


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def log_message(self, *_):
        pass

    def send(self, kind, body):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send("application/json", b'{"object": "list", "data": [{"id": "m", "object": "model"}]}')

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.in_flight += 1
            in_flight = self.server.in_flight
        threading.Event().wait(0.02)
        choice = body.get("tool_choice")
        tool = choice["function"]["name"] if choice else None
        wrong = self.server.is_wrong(body, tool, in_flight)
        if tool:
            call = {"index": 0, "id": "c", "type": "function", "function": {"name": tool, "arguments": '{"a": "no"}' if wrong else '{"a": 1}'}}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        else:
            message = {"role": "assistant", "content": '{"b": 1}' if wrong else '{"a": "x"}'}
        top = {"id": "r", "created": 1, "model": "m"}
        end = "tool_calls" if tool else "stop"
        if body["stream"]:
            frames = [{"delta": message, "finish_reason": None}, {"delta": {}, "finish_reason": end}]
            frames = [{**top, "object": "chat.completion.chunk", "choices": [{"index": 0, **frame}]} for frame in frames]
            text = "".join(f"data: {json.dumps(frame)}\n\n" for frame in frames) + "data: [DONE]\n\n"
            self.send("text/event-stream", text.encode())
        else:
            choices = [{"index": 0, "message": message, "finish_reason": end}]
            self.send("application/json", json.dumps({**top, "object": "chat.completion", "choices": choices}).encode())
        with self.server.lock:
            self.server.in_flight -= 1


def run(options, servers, load, path, folder):
    """Whether the page says that the second server is worse, and the place that it names."""
    saved = Path(folder) / "pairs.json"
    saved.unlink(missing_ok=True)
    command = [
        options.sobench, "matrix", *(f"--target={server.name}=http://127.0.0.1:{server.server_address[1]}" for server in servers),
        "--matrix-order", "paired", "--backend", "openai-chat", "--dataset", "requests", "--dataset-path", path, "--num-prompts",
        str(options.pairs), *load, "--skip-preflight", "--disable-tqdm", "--save", saved,
        "--run-log", f"{folder}/logs/", "--force",
    ]  # fmt: skip
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if not saved.exists():
        sys.exit(ran.stderr)
    answer = next((line for line in ran.stdout.splitlines() if line.startswith("worse?")), "")
    return answer.startswith("worse? YES"), " ".join(ran.stdout.split())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sobench", type=Path, default=Path("target/debug/sobench"), help="the program")
    parser.add_argument("--runs", type=int, default=20, help="runs of each kind")
    parser.add_argument("--pairs", type=int, default=913, help="requests; 913 find a loss of 1 point in 95 %% of runs")
    parser.add_argument("--noise", type=float, default=0, help="share of answers that each server gets wrong by chance")
    parser.add_argument("--kind", choices=PLACES, help="only this kind")
    options = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "requests.jsonl"
        path.write_text("\n".join(map(json.dumps, requests(options.pairs))))
        for loses, place in PLACES.items():
            if options.kind not in (None, loses):
                continue
            worse = named = 0
            servers = [Server("A", "nothing", options.noise), Server("B", loses, options.noise)]
            for seed in range(options.runs):
                for server in servers:
                    server.seed = seed
                is_worse, page = run(options, servers, LOADS.get(loses, CONCURRENCY), path, folder)
                worse += is_worse
                named += is_worse and f"with {place}" in page.split("cost?")[1] if place else 0
            for server in servers:
                server.shutdown()
            print(f"{loses}: {worse} of {options.runs} runs say that B is worse, {named} name the place", flush=True)
            limit = LIMIT * options.runs / 20
            failed |= worse > limit if loses == "nothing" else options.runs - worse > limit
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
