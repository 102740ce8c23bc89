#!/usr/bin/env python3
"""Writes `schemas/wire/anthropic.json`: what Anthropic's client says of its events and messages, as JSON Schema.

    python3 -m venv venv && venv/bin/pip install anthropic && venv/bin/python tests/live/wire_schema_anthropic.py > schemas/wire/anthropic.json

Only types, required members and values are kept. Members that no server of open models sends are left out.
"""

import json

import anthropic
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

BLOCKS = ["TextBlock", "ThinkingBlock", "RedactedThinkingBlock", "ToolUseBlock"]
DELTAS = ["TextDelta", "InputJSONDelta", "ThinkingDelta", "SignatureDelta", "CitationsDelta"]
ANY = {"citations", "citation", "container", "input", "stop_details", "cache_creation", "server_tool_use", "output_tokens_details", "model"}
ANY |= {"inference_geo", "service_tier", "caller", "diagnostics", "cache_miss_reason", "context_management"}
"""Members that may be anything."""


def slim(schema):
    """The types, required members and values of a schema."""
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}
    branches = schema.get("anyOf") or schema.get("oneOf")
    if branches:
        others = [branch for branch in branches if branch.get("type") != "null"]
        is_null = len(others) < len(branches)
        names = [branch.get("$ref", "").rsplit("/", 1)[-1] for branch in others]
        kept = [branch for branch, name in zip(others, names) if not {*names} & {*BLOCKS, *DELTAS} or name in [*BLOCKS, *DELTAS]]
        if len(kept) == 1:
            found = slim(kept[0])
            if is_null and "type" in found:
                values = {"enum": [*found["enum"], None]} if "enum" in found else {}
                return {**found, "type": sorted({found["type"], "null"}), **values}
            return {"anyOf": [found, {"type": "null"}]} if is_null else found
        return {"anyOf": [slim(branch) for branch in kept] + [{"type": "null"}] * is_null}
    found = {"type": schema["type"]} if "type" in schema else {}
    values = schema.get("enum") or ([schema["const"]] if "const" in schema else None)
    if values:
        found["enum"] = values
    if schema.get("required"):
        found["required"] = sorted(schema["required"])
    if schema.get("properties"):
        found["properties"] = {name: {} if name in ANY else slim(part) for name, part in schema["properties"].items()}
    if "items" in schema:
        found["items"] = slim(schema["items"])
    return found


def refs(schema):
    if isinstance(schema, dict):
        yield from [schema["$ref"].rsplit("/", 1)[1]] if "$ref" in schema else []
        for part in schema.values():
            yield from refs(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from refs(part)


def main():
    defs, roots = {}, {}
    for kind, source in (("messages", RawMessageStreamEvent), ("messages_whole", Message)):
        schema = TypeAdapter(source).json_schema()
        defs |= {name: slim(part) for name, part in schema.pop("$defs").items()}
        defs[kind] = slim(schema)
        roots[kind] = {"$ref": f"#/$defs/{kind}"}
    used, left = set(), list(roots)
    while left:
        name = left.pop()
        if name not in used:
            used.add(name)
            left += refs(defs[name])
    events = sorted({part["properties"]["type"]["enum"][0] for name, part in defs.items() if name.startswith("Raw") and "enum" in part["properties"].get("type", {})})
    head = {"source": f"anthropic-sdk-python {anthropic.__version__} (MIT)", "roots": roots, "events": [*events, "error", "ping"]}
    # One definition a line.
    body = ",\n".join(f" {json.dumps(name)}: {json.dumps(defs[name])}" for name in sorted(used))
    print(json.dumps(head)[:-1] + ', "$defs": {\n' + body + "\n}}")


if __name__ == "__main__":
    main()
