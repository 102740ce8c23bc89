#!/usr/bin/env python3
"""Holds the join of streamed answers to openai-python: serves streams of chat completions on a local port, reads each with
`client.chat.completions.stream()` and with sobench, and compares what they joined. Where sobench joins otherwise, the departure that
it names must say what openai-python read.

Needs Python 3.9 and the package openai (`pip install openai==3.57.0`). The streams are those of fixtures/joins/openai-python.json, which
`cargo test` reads as well; --write renews what openai-python read. Exit codes: 0 all agree; 1 one does not. Run by hand; not part of `cargo test`.

    tests/live/openai_join.py target/debug/sobench [--write]
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import openai

from clients import FUNCTION, ROOT, Server

RECORD = ROOT / "fixtures/joins/openai-python.json"


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
    streams = {row["name"]: row["events"] for row in json.loads(RECORD.read_text())}
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
