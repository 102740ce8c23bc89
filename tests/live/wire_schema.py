#!/usr/bin/env python3
"""Writes `schemas/wire/openai.json`: what OpenAI's API says of the frames of answers, as JSON Schema.

    git clone https://github.com/openai/openai-openapi && git -C openai-openapi checkout COMMIT
    tests/live/wire_schema.py openai-openapi/openapi.yaml COMMIT > schemas/wire/openai.json

Only types, required members and values are kept. Members that repeat the request, items of hosted tools and log probabilities are left
out: no server of open models sends them. Needs PyYAML.
"""

import json
import sys

import yaml

ROOTS = {
    "chat": "CreateChatCompletionStreamResponse",
    "chat_whole": "CreateChatCompletionResponse",
    "completions": "CreateCompletionResponse",
    "responses": "ResponseStreamEvent",
    "responses_whole": "Response",
}
"""The schema of each kind of frame."""

EVENTS = (
    "response.created response.in_progress response.queued response.completed response.failed response.incomplete error "
    "response.output_item.added response.output_item.done response.content_part.added response.content_part.done "
    "response.output_text.delta response.output_text.done response.refusal.delta response.refusal.done "
    "response.function_call_arguments.delta response.function_call_arguments.done response.custom_tool_call_input.delta "
    "response.custom_tool_call_input.done response.reasoning_text.delta response.reasoning_text.done "
    "response.reasoning_summary_part.added response.reasoning_summary_part.done response.reasoning_summary_text.delta "
    "response.reasoning_summary_text.done"
).split()

ITEMS = ["OutputMessage", "FunctionToolCall", "ReasoningItem", "CustomToolCall"]

ANY = {"logprobs", "top_logprobs", "annotations", "tools", "tool_choice", "instructions", "metadata", "reasoning", "conversation"}
ANY |= {"moderation", "prompt", "prompt_cache_options", "audio", "annotation", "caller", "context_management", "agent", "service_tier"}
"""Members of objects that may be anything."""


class Vendor:
    def __init__(self, schemas):
        self.schemas, self.defs = schemas, {}

    def ref(self, name):
        if name not in self.defs:
            self.defs[name] = None  # Recursion.
            self.defs[name] = self.slim(self.schemas[name])
        return {"$ref": f"#/$defs/{name}"}

    def merged(self, schema):
        """The schema with its `$ref` or `allOf` written out."""
        if "$ref" in schema:
            return self.merged(self.schemas[schema["$ref"].rsplit("/", 1)[1]])
        found = {key: value for key, value in schema.items() if key != "allOf"}
        found["properties"], found["required"] = dict(schema.get("properties", {})), list(schema.get("required", []))
        for part in map(self.merged, schema.get("allOf", [])):
            found["properties"] |= part.get("properties", {})
            found["required"] += part.get("required", [])
            found.setdefault("type", part.get("type"))
        return found

    def variant(self, schema):
        """The value of `type` by which a branch of `anyOf` is chosen."""
        kind = self.merged(schema).get("properties", {}).get("type", {})
        return kind.get("const") or (kind.get("enum") or [None])[0]

    def slim(self, schema):
        if schema.get("$ref", "").endswith("/ResponseTextParam"):  # It repeats the request.
            return {}
        if "$ref" in schema:
            return self.nullable(self.ref(schema["$ref"].rsplit("/", 1)[1]), schema.get("nullable", False))
        if "allOf" in schema:
            schema = self.merged(schema)
        branches = schema.get("anyOf") or schema.get("oneOf")
        if branches:
            is_null = any(branch.get("type") == "null" for branch in branches)
            others = [branch for branch in branches if branch.get("type") != "null"]
            if len(others) == 1:
                return self.nullable(self.slim(others[0]), is_null)
            kept = [branch for branch in others if self.keeps(branch)]
            if not all(map(self.variant, others)):
                return {}
            return {"anyOf": [self.slim(branch) for branch in kept] + [{"type": "null"}] * is_null}
        found = {"type": schema["type"]} if isinstance(schema.get("type"), str) else {}
        values = schema.get("enum") or ([schema["const"]] if "const" in schema else None)
        if values and schema.get("type") == "string":
            found["enum"] = values
        if schema.get("required"):
            found["required"] = sorted(set(schema["required"]))
        if schema.get("properties"):
            found["properties"] = {name: {} if name in ANY else self.slim(part) for name, part in schema["properties"].items()}
        if isinstance(schema.get("items"), dict):
            found["items"] = self.slim(schema["items"])
        return self.nullable(found, schema.get("nullable", False))

    def keeps(self, branch):
        name = branch.get("$ref", "").rsplit("/", 1)[-1]
        if name.startswith("Response") and name.endswith("Event"):
            return self.variant(branch) in EVENTS
        return name in ITEMS or name not in self.items

    def nullable(self, schema, is_null):
        if not is_null:
            return schema
        if "type" in schema:
            kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
            values = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
            return {**schema, "type": sorted({*kinds, "null"}), **values}
        return {"anyOf": [schema, {"type": "null"}]} if schema else {}

    @property
    def items(self):
        """Names of the items of an answer."""
        return {branch["$ref"].rsplit("/", 1)[1] for branch in self.schemas["OutputItem"].get("oneOf") or self.schemas["OutputItem"]["anyOf"]}


def main():
    path, commit = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        schemas = yaml.load(file, Loader=yaml.CSafeLoader)["components"]["schemas"]
    vendor = Vendor(schemas)
    roots = {kind: vendor.ref(name) for kind, name in ROOTS.items()}
    # What OpenAI sends: no usage until the end of a response, no usage and finish reason until the end of a stream of completions.
    vendor.defs["Response"]["properties"]["usage"] = vendor.nullable(vendor.defs["Response"]["properties"]["usage"], True)
    completion = vendor.defs["CreateCompletionResponse"]["properties"]
    completion["usage"] = vendor.nullable(completion["usage"], True)
    choice = completion["choices"]["items"]["properties"]
    choice["finish_reason"] = vendor.nullable(choice["finish_reason"], True)
    names = sorted(vendor.variant(branch) for branch in schemas["ResponseStreamEvent"].get("oneOf") or schemas["ResponseStreamEvent"]["anyOf"])
    written = {"source": f"https://github.com/openai/openai-openapi, commit {commit} (MIT)", "roots": roots, "events": names, "$defs": vendor.defs}
    # One definition a line.
    body = ",\n".join(f" {json.dumps(name)}: {json.dumps(part)}" for name, part in sorted(vendor.defs.items()))
    head = json.dumps({key: value for key, value in written.items() if key != "$defs"})
    print(head[:-1] + ', "$defs": {\n' + body + "\n}}")


if __name__ == "__main__":
    main()
