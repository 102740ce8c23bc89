#!/usr/bin/env python3
"""What client libraries read from streams of chat completions: serves the streams below, those of chat servers in fixtures/streams,
and others of the record, on a local port, and reads each with the streaming API of every client. `cargo test` holds one function of crates/wire for each client, and
the join of sobench, to what is recorded in fixtures/joins/clients.json.

Needs Python 3.11 with the packages of tests/live/clients.txt (it says how to install them), Node 22 with the packages of tests/live/clients/package.json (`npm install`), and
Cargo, which builds tests/live/clients/rig.
Exit codes: 0 the clients read what is recorded; 1 one does not, and it is named. --write records what they read. Run by hand; not part of
`cargo test`.

    tests/live/clients.py [--write] [--only CLIENT]
"""

import argparse
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STREAMS = ROOT / "fixtures/streams"
RECORD = ROOT / "fixtures/joins/clients.json"
FOLDER = ROOT / "tests/live/clients"
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
    """The streams; the first delta has the role, unless the stream is about it."""
    for name, events in streams_without_role():
        choices = events[0]["choices"] or events[1]["choices"]
        delta = choices[0].get("delta")
        if delta and "role" not in delta and name != "no role":
            choices[0]["delta"] = {"role": "assistant", **delta}
        yield name, events


def streams_without_role():
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
    yield "two calls that take turns on one index", [
        chunk(calls(whole(arguments='{"city"'))), chunk(calls(whole(0, "b", '{"city"'))), chunk(calls(more(': "Oslo"}'))), chunk({}, "tool_calls"),
    ]
    yield "content beside a call", [chunk({"content": "Hm", **calls(whole())}), chunk({}, "tool_calls")]
    yield "empty content with a call", [chunk({"role": "assistant", "content": ""}), chunk({"content": "", **calls(whole())}), chunk({}, "tool_calls")]
    yield "an empty list of calls", [chunk({"content": "a", "tool_calls": []}), chunk({"content": "b", "tool_calls": []}), chunk({}, "stop")]
    yield "null calls", [chunk({"content": "a", "tool_calls": None}), chunk({"content": "b", "tool_calls": None}), chunk({}, "stop")]
    yield "the role in each chunk", [chunk({"role": "assistant", "content": "a"}), chunk({"role": "assistant", "content": "b"}), chunk({}, "stop")]
    yield "no role", [chunk({"content": "a"}), chunk(calls(whole())), chunk({}, "tool_calls")]
    yield "the finish reason with the call", [chunk(ROLE), chunk(calls(whole()), "tool_calls")]
    yield "stop after a call", [chunk(ROLE), chunk(calls(whole())), chunk({}, "stop")]
    yield "two finish reasons", [chunk(ROLE), chunk(calls(whole())), chunk({}, "tool_calls"), chunk({}, "stop")]
    yield "no finish reason", [chunk(ROLE), chunk(calls(whole()))]
    yield "a first chunk without choices", [{**HEAD, "choices": []}, chunk(ROLE), chunk(a), chunk({}, "stop")]
    yield "null usage in each chunk", [{**chunk(a), "usage": None}, {**chunk({}, "stop"), "usage": None}]
    yield "usage in the last choice", [chunk(a), {**chunk({}, "stop"), "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}]
    yield "the id changes", [chunk(a), {**chunk(b), "id": "d"}, {**chunk({}, "stop"), "id": "e"}]
    yield "empty object as arguments", [chunk(calls(whole(arguments="{}"))), chunk({}, "tool_calls")]
    yield "no arguments", [chunk(calls(call(id="a", type="function", name="get_weather"))), chunk({}, "tool_calls")]
    yield "arguments, then an empty piece", [chunk(calls(whole())), chunk(calls(more(""))), chunk({}, "tool_calls")]
    yield "no id", [chunk(calls(call(type="function", name="get_weather", arguments=OSLO))), chunk({}, "tool_calls")]
    yield "an empty id", [chunk(calls(whole(call_id=""))), chunk({}, "tool_calls")]
    yield "no type", [chunk(calls(call(id="a", name="get_weather", arguments=OSLO))), chunk({}, "tool_calls")]
    yield "whole calls without index and id", [chunk(calls(call(None, type="function", name="get_weather", arguments=OSLO), call(None, type="function", name="get_weather", arguments=ROME))), chunk({}, "tool_calls")]
    yield "arguments that do not parse", [chunk(calls(whole(arguments='{"city": Oslo'))), chunk({}, "tool_calls")]
    yield "a delta that is null", [chunk(a), chunk(None), chunk({}, "stop")]
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


def text(value):
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def answer(content, found, finish_reason):
    """What a client read: calls are id, name and arguments, a text or what it parsed."""
    return {"content": content or "", "calls": [[call_id or "", name or "", arguments] for call_id, name, arguments in found], "finish_reason": finish_reason}


def messages(name):
    return [{"role": "user", "content": name}]


def openai_python(url):
    """`client.chat.completions.stream()`."""
    import openai

    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)

    def read(name):
        try:
            with client.chat.completions.stream(model="m", messages=messages(name), tools=[FUNCTION]) as stream:
                for _ in stream:
                    pass
                snapshot = stream.current_completion_snapshot
        except Exception as error:
            # A finish reason that ends the helper, with the answer that it joined.
            snapshot = getattr(error, "completion", None)
            if snapshot is None:
                raise
        choice = snapshot.to_dict()["choices"][0]
        message = choice["message"]
        found = [
            (entry.get("id"), part.get("name"), part.get("arguments", part.get("input")))
            for entry in message.get("tool_calls") or []
            for part in [entry.get("function") or entry.get("custom") or {}]
        ]
        return answer(message.get("content"), found, choice.get("finish_reason"))

    return read


def openai_python_loop(url):
    """The loop of OpenAI's guide to function calling: `final_tool_calls[index].function.arguments += ...`."""
    import openai

    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)

    def read(name):
        content, finish_reason, final = "", None, {}
        for part in client.chat.completions.create(model="m", messages=messages(name), tools=[FUNCTION], stream=True):
            if not part.choices:
                continue
            choice = part.choices[0]
            finish_reason = choice.finish_reason or finish_reason
            content += choice.delta.content or ""
            for entry in choice.delta.tool_calls or []:
                if entry.index not in final:
                    final[entry.index] = entry
                else:
                    final[entry.index].function.arguments += entry.function.arguments
        return answer(content, [(entry.id, entry.function.name, entry.function.arguments) for entry in final.values()], finish_reason)

    return read


def litellm(url):
    """`litellm.completion(stream=True)`, joined with `litellm.stream_chunk_builder`."""
    import litellm

    litellm.suppress_debug_info = True
    litellm.telemetry = False

    def read(name):
        stream = litellm.completion(
            model="openai/m", api_base=f"{url}/v1", api_key="none", messages=messages(name), tools=[FUNCTION], stream=True, num_retries=0, max_retries=0
        )
        choice = litellm.stream_chunk_builder(list(stream), messages=messages(name)).choices[0]
        found = []
        for entry in choice.message.tool_calls or []:
            part = getattr(entry, "function", None) or entry.custom
            found.append((entry.id, part.name, getattr(part, "arguments", None) or getattr(part, "input", None)))
        return answer(choice.message.content, found, choice.finish_reason)

    return read


def langchain(url):
    """`ChatOpenAI.stream`, the sum of its chunks; invalid calls have their text."""
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model="m", base_url=f"{url}/v1", api_key="none", max_retries=0).bind_tools([FUNCTION])

    def read(name):
        whole = None
        for part in model.stream(name):
            whole = part if whole is None else whole + part
        found = [(entry["id"], entry["name"], entry["args"]) for entry in [*whole.tool_calls, *whole.invalid_tool_calls]]
        return answer(whole.text, found, whole.response_metadata.get("finish_reason"))

    return read


def smolagents(url):
    """`OpenAIModel.generate_stream`, joined with `agglomerate_stream_deltas`."""
    from smolagents import ChatMessage, OpenAIModel, Tool
    from smolagents.models import agglomerate_stream_deltas

    class GetWeather(Tool):
        name, description, output_type = "get_weather", "Weather", "string"
        inputs = {"city": {"type": "string", "description": "City"}}

        def forward(self, city):
            return city

    model = OpenAIModel("m", api_base=f"{url}/v1", api_key="none", client_kwargs={"max_retries": 0})

    def read(name):
        message = ChatMessage(role="user", content=[{"type": "text", "text": name}])
        joined = agglomerate_stream_deltas(list(model.generate_stream([message], tools_to_call_from=[GetWeather()])))
        return answer(joined.content, [(entry.id, entry.function.name, entry.function.arguments) for entry in joined.tool_calls or []], None)

    return read


def pydantic_ai(url):
    """The parts of a streamed response of `OpenAIChatModel`."""
    import asyncio

    from pydantic_ai.direct import model_request_stream
    from pydantic_ai.messages import ModelRequest, TextPart, ToolCallPart
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.tools import ToolDefinition

    tools = [ToolDefinition(name="get_weather", parameters_json_schema={"type": "object"})]

    async def stream(name):
        from openai import AsyncOpenAI

        model = OpenAIChatModel("m", provider=OpenAIProvider(openai_client=AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)))
        parameters = ModelRequestParameters(function_tools=tools, allow_text_output=True)
        async with model_request_stream(model, [ModelRequest.user_text_prompt(name)], model_request_parameters=parameters) as response:
            async for _ in response:
                pass
            return response.get()

    def read(name):
        response = asyncio.run(stream(name))
        content = "".join(part.content for part in response.parts if isinstance(part, TextPart))
        found = [(part.tool_call_id, part.tool_name, part.args) for part in response.parts if isinstance(part, ToolCallPart)]
        return answer(content, found, response.finish_reason)

    return read


def llama_index(url):
    """`llama_index.llms.openai.OpenAI.stream_chat`, the last of its responses. The name of the model must be one of OpenAI's."""
    from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
    from llama_index.llms.openai import OpenAI

    model = OpenAI(model="gpt-4o", api_base=f"{url}/v1", api_key="none", max_retries=0)

    def read(name):
        *_, last = model.stream_chat([ChatMessage(role="user", content=name)], tools=[FUNCTION])
        blocks = [block for block in last.message.blocks if isinstance(block, ToolCallBlock)]
        found = [(block.tool_call_id, block.tool_name, block.tool_kwargs) for block in blocks]
        return answer(last.message.content, found, None)

    return read


def instructor(url):
    """`create_partial` in mode TOOLS, the last of its objects. It gives the arguments alone: the content, the id and the name are those of the chunks."""
    import instructor
    import openai
    from pydantic import ConfigDict, create_model

    api = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
    model = create_model("get_weather", __config__=ConfigDict(extra="allow"))
    create, chunks = api.chat.completions.create, []

    def noted(**request):
        for part in create(**request):
            chunks.append(part)
            yield part

    api.chat.completions.create = noted
    client = instructor.from_openai(api, mode=instructor.Mode.TOOLS)

    def read(name):
        chunks.clear()
        objects = list(client.create_partial(response_model=model, messages=messages(name), model="m", max_retries=0))
        deltas = [getattr(part.choices[0], "delta", None) for part in chunks if part.choices]
        deltas = [delta for delta in deltas if delta]
        entries = [delta.tool_calls[0] for delta in deltas if delta.tool_calls]
        call_ids = [entry.id for entry in entries if entry and entry.id]
        names = [entry.function.name for entry in entries if entry and entry.function and entry.function.name]
        found = [(call_ids[0] if call_ids else "", names[0] if names else "", last.model_dump()) for last in objects[-1:]]
        return answer("".join(delta.content or "" for delta in deltas), found, None)

    return read


def program(*command):
    """A client that a program of tests/live/clients reads with: names as JSON lines on stdin."""

    def start(url):
        environment = {"CARGO_TARGET_DIR": str(ROOT / "target/clients"), **os.environ}
        process = subprocess.Popen([*command, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

        def read(name):
            process.stdin.write(json.dumps(name) + "\n")
            process.stdin.flush()
            found = json.loads(process.stdout.readline())
            if "error" in found:
                raise ProgramError(found["error"])
            return answer(found["content"], found["calls"], found.get("finish_reason"))

        return read

    return start


class ProgramError(Exception):
    """An error of a client of a program, with its name."""


CLIENTS = {
    "openai-python": openai_python,
    "openai-python-loop": openai_python_loop,
    "openai-node": program("node", FOLDER / "read.mjs", "openai"),
    "litellm": litellm,
    "langchain": langchain,
    "smolagents": smolagents,
    "pydantic-ai": pydantic_ai,
    "llama-index": llama_index,
    "ai-sdk": program("node", FOLDER / "read.mjs", "ai"),
    "instructor": instructor,
    "rig": program("cargo", "run", "--quiet", "--locked", "--manifest-path", FOLDER / "rig/Cargo.toml", "--"),
}


def without_new_ids(found, events):
    """Without ids that a client makes up where the stream has none."""
    deltas = [choice.get("delta") or {} for part in events for choice in part["choices"]]
    ids = "".join(entry.get("id") or "" for delta in deltas for entry in delta.get("tool_calls") or [] if isinstance(entry, dict))
    for entry in found["calls"]:
        entry[0] = entry[0] if entry[0] in ids or len(entry[0]) < 10 else ""
    return found


def read_by(client, url, streams):
    """What a client reads from each stream; an error is its name."""
    read = CLIENTS[client](url)
    found = {}
    for name in streams:
        try:
            found[name] = without_new_ids(read(name), streams[name])
        except ProgramError as error:
            found[name] = {"error": str(error)}
        except Exception as error:  # Any error is what its user gets.
            found[name] = {"error": type(error).__name__}
    return found


def is_same(one, other):
    """Errors are equal by any name: the name depends on how a library bundles its classes."""
    return one == other or ("error" in (one or {}) and "error" in other)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--write", action="store_true", help="renew fixtures/joins/clients.json")
    parser.add_argument("--only", choices=CLIENTS, help="one client")
    arguments = parser.parse_args()
    known = json.loads(RECORD.read_text()) if RECORD.exists() else []
    streams = {row["name"]: row["events"] for row in known} | dict([*own_streams(), *recorded_streams()])
    server = Server(streams)
    clients = [arguments.only] if arguments.only else list(CLIENTS)
    rows = {row["name"]: row for row in known}
    differences = 0
    for client in clients:
        for name, found in read_by(client, server.url, streams).items():
            row = rows.setdefault(name, {"name": name, "read": {}, "events": streams[name]})
            if arguments.write:
                row["events"] = streams[name]
                row["read"][client] = found
            elif not is_same(row["read"].get(client), found):
                differences += 1
                print(f"{client}: {name}: reads {found}, recorded is {row['read'].get(client)}")
    if arguments.write:
        lines = [json.dumps(rows[name], ensure_ascii=False, separators=(",", ":")) for name in streams]
        RECORD.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    print(f"{len(streams)} streams, {len(clients)} clients, {differences} differences")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
