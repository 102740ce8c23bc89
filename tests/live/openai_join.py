#!/usr/bin/env python3
"""Holds the join of streamed answers to openai-python: serves streams of chat completions on a local port, reads each with
`client.chat.completions.stream()` and with sobench, and compares what they joined. Where sobench joins otherwise, the departure that
it names must say what openai-python read.

Needs Python 3.9 and the package openai (`pip install openai==3.57.0`). The streams are those below and the ones of a chat server in
fixtures/streams. `cargo test` reads the same streams and what openai-python read from fixtures/joins/openai-python.json, which --write
renews. Exit codes: 0 all agree; 1 one does not. Run by hand; not part of `cargo test`.

    tests/live/openai_join.py target/debug/sobench [--write]
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import openai

ROOT = Path(__file__).resolve().parents[2]
STREAMS = ROOT / "fixtures/streams"
RECORD = ROOT / "fixtures/joins/openai-python.json"
HEAD = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
FUNCTION = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
OSLO, ROME = '{"city": "Oslo"}', '{"city": "Rome"}'


def call(index=0, **members):
    """A delta of a call: members of its function by their names, others as they are. `index` None leaves it out."""
    function = {name: members.pop(name) for name in ("name", "arguments") if name in members}
    entry = {} if index is None else {"index": index}
    return {**entry, **members, **({"function": function} if function else {})}


def calls(*entries):
    return {"tool_calls": list(entries)}


def whole(index=0, call_id="a", arguments=OSLO, **more):
    return call(index, id=call_id, type="function", name="get_weather", arguments=arguments, **more)


def more(arguments, index=0, **members):
    return call(index, arguments=arguments, **members)


ROLE = {"role": "assistant", "content": None}
PIECES = ['{"city"', ': "Os', 'lo"}']
OWN = {
    "content": [{"role": "assistant", "content": ""}, {"content": "Hel"}, {"content": "lo"}],
    "content in one delta": [{"role": "assistant", "content": "Hello"}],
    "content in other scripts": [{"content": "é"}, {"content": "日本"}, {"content": "👍🏽"}],
    "content with null between": [{"content": "a"}, {"content": None}, {"content": "b"}],
    "replacement characters": [{"content": "a\ufffd"}, {"content": "\ufffdb"}],
    "refusal": [ROLE, {"refusal": "I can"}, {"refusal": "not"}],
    "reasoning beside content": [{"reasoning_content": "Hm"}, {"content": "a"}],
    "call in one delta": [ROLE, calls(whole())],
    "call in pieces": [ROLE, calls(whole(arguments="")), *[calls(more(piece)) for piece in PIECES]],
    "content, then a call": [{"content": "Let me see"}, calls(whole())],
    "two calls": [calls(whole()), calls(whole(1, "b", ROME))],
    "two calls in one delta": [calls(whole(), whole(1, "b", ROME))],
    "two calls that take turns": [
        calls(whole(arguments='{"city"')), calls(whole(1, "b", '{"city"')), calls(more(': "Oslo"}')), calls(more(': "Rome"}', 1)),
    ],
    "pieces of one call in one delta": [calls(whole(arguments='{"city"'), more(': "Oslo"}'))],
    "twelve calls": [calls(whole(index, f"c{index}")) for index in range(12)],
    "two calls on one index": [calls(whole()), calls(whole(0, "b", ROME))],
    "two calls on one index in one delta": [calls(whole(), whole(0, "b", ROME))],
    "two calls on one index, one id": [calls(whole()), calls(call(type="function", name="get_weather", arguments=ROME))],
    "two functions on one index": [calls(whole()), calls(call(id="b", type="function", name="get_time", arguments="{}"))],
    "another id in each delta": [calls(whole(arguments="")), *[calls(more(piece, id=f"b{n}")) for n, piece in enumerate(PIECES)]],
    "the id in each delta": [calls(whole(arguments="")), *[calls(more(piece, id="a")) for piece in PIECES]],
    "the name in each delta": [calls(whole(arguments="")), *[calls(more(piece, name="get_weather")) for piece in PIECES]],
    "id and name in each delta": [calls(whole(arguments=piece)) for piece in PIECES],
    "name in pieces": [calls(call(id="a", type="function", name="get_", arguments="")), calls(call(name="weather")), calls(more(OSLO))],
    "id in pieces": [calls(call(id="call_", type="function", name="get_weather", arguments="")), calls(more(OSLO, id="1"))],
    "empty name and id in each delta": [calls(whole(arguments="")), *[calls(more(piece, id="", name="")) for piece in PIECES]],
    "null name and id in each delta": [calls(whole(arguments="")), *[calls(more(piece, id=None, name=None)) for piece in PIECES]],
    "id before the name": [calls(call(id="a", type="function")), calls(call(name="get_weather", arguments=OSLO))],
    "name after the arguments": [calls(call(id="a", type="function", arguments=OSLO)), calls(call(name="get_weather"))],
    "no index": [calls(whole(None))],
    "no index in two calls": [calls(whole(None)), calls(whole(None, "b", ROME))],
    "no index in a later delta": [calls(whole(arguments="")), calls(more(OSLO, None))],
    "index as text": [calls(whole("0"))],
    "first index 1": [calls(whole(1))],
    "indices in reverse": [calls(whole(1, "b", ROME)), calls(whole())],
    "a gap in the indices": [calls(whole()), calls(whole(2, "b", ROME))],
    "custom type for a function": [calls({**whole(), "type": "custom"})],
    "custom call for a function": [calls({"index": 0, "id": "a", "type": "custom", "custom": {"name": "get_weather", "input": OSLO}})],
    "arguments as an object": [calls(whole(arguments={"city": "Oslo"}))],
    "null arguments": [calls(whole(arguments=None))],
    "null arguments, then a text": [calls(whole(arguments=None)), calls(more(OSLO))],
    "text, then null arguments": [calls(whole()), calls(more(None))],
    "empty arguments": [calls(whole(arguments=""))],
}
"""Deltas of one answer by what is special about them."""


def chunk(delta, finish_reason=None, index=0, name="delta"):
    return {**HEAD, "choices": [{"index": index, name: delta, "finish_reason": finish_reason}]}


def own_streams():
    for name, deltas in OWN.items():
        reason = "tool_calls" if any("tool_calls" in delta for delta in deltas) else "stop"
        yield name, [*map(chunk, deltas), chunk({}, reason)]
    a, b = {"content": "a"}, {"content": "b"}
    yield "unknown finish reason", [chunk(a), chunk({}, "stop_163586")]
    yield "content filter", [chunk(a), chunk({}, "content_filter")]
    yield "text after the finish reason", [chunk(a), chunk({}, "stop"), chunk(b)]
    yield "arguments after the finish reason", [chunk(calls(whole(arguments='{"a"'))), chunk({}, "tool_calls"), chunk(calls(more(": 1}")))]
    yield "a message in place of a delta", [chunk({"role": "assistant", "content": "a"}, "stop", name="message")]
    yield "a second choice", [chunk(a), chunk({"content": "x"}, index=1), chunk(b), chunk({}, "stop"), chunk({}, "stop", 1)]
    yield "usage in a chunk without choices", [chunk(a), chunk({}, "stop"), {**HEAD, "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}]
    yield "a call that is cut", [chunk(calls(whole(arguments='{"ci'))), chunk({}, "length")]


def recorded_streams():
    """The streams of chat completions in fixtures/streams that have an answer."""
    for row in json.loads((STREAMS / "expected.json").read_text()):
        if row["backend"] not in ("openai-chat", "trtllm-serve", "lmdeploy") or row["outcome"] not in ("completed", "truncated"):
            continue
        text = (STREAMS / row["file"]).read_text(encoding="utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
        data = [line[5:].strip() for line in text.split("\n") if line.startswith("data:")]
        try:
            chunks = [json.loads(line) for line in data if line and line != "[DONE]"]
        except json.JSONDecodeError:
            continue  # One event in several lines.
        if not all("choices" in part for part in chunks) or not any("delta" in c for part in chunks for c in part["choices"]):
            continue
        # openai-python leaves out chunks of another kind of object.
        yield row["file"], [{**HEAD, **part} for part in chunks]


class Server(ThreadingHTTPServer):
    """Answers a request with the stream that its last message names."""

    daemon_threads = True

    def __init__(self, streams):
        super().__init__(("127.0.0.1", 0), Handler)
        self.streams = streams
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send(self, kind, body):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send("application/json", json.dumps({"object": "list", "data": [{"id": "m", "object": "model"}]}).encode())

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        content = body["messages"][-1]["content"]
        events = self.server.streams[content if isinstance(content, str) else content[0]["text"]]
        lines = [f"data: {json.dumps(event)}\n\n" for event in events]
        self.send("text/event-stream", "".join([*lines, "data: [DONE]\n\n"]).encode())


def of_openai(client, name):
    """What openai-python joined, or its error."""
    messages = [{"role": "user", "content": name}]
    try:
        with client.chat.completions.stream(model="m", messages=messages, tools=[FUNCTION]) as stream:
            for _ in stream:
                pass
            snapshot = stream.current_completion_snapshot
    except Exception as error:  # Any of its own errors is what its user gets.
        # A finish reason that ends the helper, with the answer that it joined.
        snapshot = getattr(error, "completion", None)
        if snapshot is None:
            return {"error": type(error).__name__}
    choice = snapshot.to_dict()["choices"][0]
    message = choice["message"]
    joined = [
        {"id": entry.get("id") or "", "type": entry.get("type"), **{k: part.get(k) for k in ("name", "arguments", "input") if k in part}}
        for entry in message.get("tool_calls") or []
        for part in [entry.get("function") or entry.get("custom") or {}]
    ]
    return {
        "content": message.get("content") or "",
        "refusal": message.get("refusal") or "",
        "tool_calls": joined,
        "finish_reason": choice.get("finish_reason"),
    }


def of_sobench(program, url, names):
    """What sobench joined and the departures that it names, from its run log and its result."""
    with tempfile.TemporaryDirectory() as folder:
        rows, log = Path(folder) / "rows.jsonl", Path(folder) / "run.jsonl"
        rows.write_text("".join(json.dumps({"prompt": name, "tools": [FUNCTION], "output_tokens": 16}) + "\n" for name in names))
        flags = f"--backend openai-chat --model m --dataset custom --skip-preflight --disable-tqdm --max-concurrency 1 --num-prompts {len(names)}"
        command = [program, *flags.split(), "--base-url", url, "--dataset-path", str(rows), "--run-log", str(log)]
        ran = subprocess.run(command, capture_output=True, text=True)
        if not log.exists():
            sys.exit(f"sobench failed: {ran.stderr}")
        lines = [json.loads(line) for line in log.read_text().splitlines()]
    prompts = {line["prompt"]["number"]: line["prompt"]["is"] for line in lines if "prompt" in line}
    found = {}
    for line in (line["request"] for line in lines if "request" in line):
        found[name_of(prompts[line["numbers"]["prompt"]])] = line
    return found


def name_of(prompt):
    """The text of a logged prompt."""
    while not isinstance(prompt, str):
        prompt = prompt[-1] if isinstance(prompt, list) else prompt.get("content") or prompt.get("text") or next(iter(prompt.values()))
    return prompt


RAISES = {"missing_index", "unordered_index", "missing_function", "message_for_delta"}
"""Departures after which openai-python raises an error."""


def difference(read, line):
    """Why what sobench joined is neither what openai-python read nor what the departures say; None if it is."""
    departures = line.get("departures", {})
    if "error" in read:
        return None if RAISES & departures.keys() else f"openai-python: {read['error']}"
    for name, key in [("content", "text"), ("refusal", "refusal")]:
        if read[name] != line.get(key, ""):
            return f"{name}: {read[name]!r}, {line.get(key)!r}"
    ours = line.get("tool_calls", [])
    if len(ours) != len(read["tool_calls"]):
        return f"{len(read['tool_calls'])} and {len(ours)} calls"
    for theirs, mine in zip(read["tool_calls"], ours):
        arguments = theirs.get("arguments", theirs.get("input"))
        arguments = arguments or "" if isinstance(arguments, (str, type(None))) else arguments
        said = {"name": [departures.get("repeated_name")], "id": [departures.get("repeated_id"), departures.get("changing_id")]}
        for member in ("id", "name"):
            if (theirs.get(member) or "") not in [mine.get(member, ""), *said[member]]:
                return f"{member}: {theirs.get(member)!r}, {mine.get(member)!r}, departures {departures}"
        if isinstance(arguments, dict):
            if mine.get("form") != "object" or json.loads(mine["arguments"]) != arguments:
                return f"arguments: {arguments!r}, {mine}"
        elif arguments != mine.get("arguments", ""):
            return f"arguments: {arguments!r}, {mine.get('arguments')!r}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("program", help="the built sobench")
    parser.add_argument("--write", action="store_true", help="renew fixtures/joins/openai-python.json")
    arguments = parser.parse_args()
    streams = dict([*own_streams(), *recorded_streams()])
    server = Server(streams)
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
    read = {name: of_openai(client, name) for name in streams}
    if arguments.write:
        rows = [json.dumps({"name": name, "read": read[name], "events": streams[name]}, ensure_ascii=False) for name in streams]
        RECORD.write_text("[\n" + ",\n".join(rows) + "\n]\n")
    joined = of_sobench(arguments.program, server.url, list(streams))
    wrong = 0
    equal = 0
    for name in streams:
        line = joined.get(name)
        why = difference(read[name], line) if line and line["outcome"]["kind"] in ("completed", "truncated", "refused") else f"no answer: {line and line['outcome']}"
        departures = ", ".join(line.get("departures", {})) if line else ""
        wrong += why is not None
        equal += why is None and not departures
        print(f"{'ok ' if why is None else 'NO '} {name}: {why or departures or 'equal'}")
    print(f"openai {openai.__version__}: {len(streams)} streams, {equal} joined alike, {len(streams) - equal - wrong} as the departure says, {wrong} otherwise")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
