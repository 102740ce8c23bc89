#!/usr/bin/env python3
"""Client libraries against `sobench serve`: each has to read answers, tool calls and structured output of the embedded server without an error.
Its model writes random text; calls of strict tools and answers under a schema are valid, though meaningless.

Needs Python 3.11 with the packages of tests/live/clients.txt. Prints one line for each check; exit codes: 0 all are ok; 1 one failed. Run by hand.

    tests/live/clients_serve.py [--sobench target/release/sobench] [--only CLIENT]
"""

import argparse
import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from typing import Literal

from pydantic import BaseModel

MODEL = "gpt-4o"  # LlamaIndex takes no names but OpenAI's.
SECONDS = 60  # Of one check.
LIMITS = {"temperature": 0, "max_tokens": 200}
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Oslo", "Rome"]}, "days": {"type": "integer", "enum": [1, 2, 3]}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
FUNCTION = {"name": "get_weather", "description": "The weather of a city", "parameters": PARAMETERS, "strict": True}
TOOL = {"type": "function", "function": FUNCTION}
ASK = [{"role": "user", "content": "What is the weather in Oslo?"}]


class Weather(BaseModel):
    """The weather of a city."""

    city: Literal["Oslo", "Rome"]
    sky: Literal["clear", "grey"]


class City(BaseModel):
    """The name of a city."""

    city: Literal["Oslo", "Rome"]


def has_text(text):
    assert isinstance(text, str) and text, f"no text: {text!r}"


def is_call(name, arguments):
    """A call of the tool, whose arguments are a text or are parsed."""
    arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
    assert name == "get_weather" and arguments["city"] in ("Oslo", "Rome") and arguments["days"] in (1, 2, 3), f"{name}({arguments})"


def is_weather(value):
    assert isinstance(value, Weather), f"not parsed: {value!r}"


def openai_chat(url):
    import openai

    client = openai.OpenAI(base_url=url, api_key="none", max_retries=0)
    chat = {"model": MODEL, "messages": ASK, **LIMITS}
    tools = {"tools": [TOOL], "tool_choice": "required"}

    def whole():
        answer = client.chat.completions.create(**chat)
        has_text(answer.choices[0].message.content)
        assert answer.usage.completion_tokens > 0 and answer.choices[0].finish_reason in ("stop", "length")

    def streamed():
        parts = list(client.chat.completions.create(**chat, stream=True, stream_options={"include_usage": True}))
        has_text("".join(part.choices[0].delta.content or "" for part in parts if part.choices))
        assert parts[-1].usage.completion_tokens > 0

    def with_tools():
        for call in client.chat.completions.create(**chat, **tools).choices[0].message.tool_calls:
            is_call(call.function.name, call.function.arguments)

    def one_tool():
        named = {"type": "function", "function": {"name": "get_weather"}}
        (call,) = client.chat.completions.create(**chat, tools=[TOOL], tool_choice=named).choices[0].message.tool_calls
        is_call(call.function.name, call.function.arguments)

    def parse():
        is_weather(client.chat.completions.parse(**chat, response_format=Weather).choices[0].message.parsed)

    def parse_tools():
        tool = openai.pydantic_function_tool(Weather)
        for call in client.chat.completions.parse(**chat, tools=[tool], tool_choice="required").choices[0].message.tool_calls:
            is_weather(call.function.parsed_arguments)

    def helper():
        with client.chat.completions.stream(**chat, response_format=Weather) as stream:
            kinds = {event.type for event in stream}
            is_weather(stream.get_final_completion().choices[0].message.parsed)
        assert {"content.delta", "content.done"} <= kinds, kinds

    def helper_with_tools():
        with client.chat.completions.stream(**chat, **tools) as stream:
            kinds = {event.type for event in stream}
            for call in stream.get_final_completion().choices[0].message.tool_calls:
                is_call(call.function.name, call.function.arguments)
        assert "tool_calls.function.arguments.done" in kinds, kinds

    def second_turn():
        message = client.chat.completions.create(**chat, **tools).choices[0].message
        results = [{"role": "tool", "tool_call_id": call.id, "content": '{"sky": "clear"}'} for call in message.tool_calls]
        # The message goes back as it came, as in OpenAI's guide.
        again = client.chat.completions.create(**chat | {"messages": [*ASK, message, *results]}, tools=[TOOL], tool_choice="none")
        has_text(again.choices[0].message.content)

    return [whole, streamed, with_tools, one_tool, parse, parse_tools, helper, helper_with_tools, second_turn]


def openai_responses(url):
    import openai

    client = openai.OpenAI(base_url=url, api_key="none", max_retries=0)
    ask = {"model": MODEL, "input": ASK[0]["content"], "temperature": 0, "max_output_tokens": 200}
    tools = {"tools": [{"type": "function", **FUNCTION}], "tool_choice": "required"}

    def calls(response):
        found = [item for item in response.output if item.type == "function_call"]
        assert found, response.output
        for call in found:
            is_call(call.name, call.arguments)
        return found

    def create():
        has_text(client.responses.create(**ask).output_text)

    def streamed():
        events = list(client.responses.create(**ask, stream=True))
        has_text("".join(event.delta for event in events if event.type == "response.output_text.delta"))
        assert events[0].type == "response.created" and events[-1].type in ("response.completed", "response.incomplete"), events[-1].type

    def with_tools():
        calls(client.responses.create(**ask, **tools))

    def helper_with_tools():
        with client.responses.stream(**ask, **tools) as stream:
            for _ in stream:
                pass
            calls(stream.get_final_response())

    def parse():
        is_weather(client.responses.parse(**ask, text_format=Weather).output_parsed)

    def helper():
        with client.responses.stream(**ask, text_format=Weather) as stream:
            for _ in stream:
                pass
            is_weather(stream.get_final_response().output_parsed)

    def second_turn():
        first = client.responses.create(**ask, **tools)
        results = [{"type": "function_call_output", "call_id": call.call_id, "output": "clear"} for call in calls(first)]
        again = client.responses.create(**ask | {"input": [*ASK, *first.output, *results]}, tools=tools["tools"], tool_choice="none")
        has_text(again.output_text)

    return [create, streamed, with_tools, helper_with_tools, parse, helper, second_turn]


def anthropic_messages(url):
    import anthropic

    client = anthropic.Anthropic(base_url=url.removesuffix("/v1"), api_key="none", max_retries=0, _strict_response_validation=True)
    ask = {"model": MODEL, "max_tokens": 2000, "messages": ASK, "thinking": {"type": "disabled"}}
    tool = {"name": "get_weather", "description": "The weather of a city", "input_schema": PARAMETERS, "strict": True}

    def calls(message):
        found = [block for block in message.content if block.type == "tool_use"]
        for call in found:
            is_call(call.name, call.input)
        assert bool(found) == (message.stop_reason == "tool_use"), message
        return found

    def streamed(**more):
        with client.messages.stream(**ask | more) as stream:
            text = "".join(stream.text_stream)
            message = stream.get_final_message()
        assert text == "".join(block.text for block in message.content if block.type == "text")
        assert message.usage.input_tokens > 0 and message.usage.output_tokens > 1, message.usage
        return message

    def create():
        message = client.messages.create(**ask, system="Be brief.")
        has_text(message.content[0].text)
        assert message.usage.output_tokens > 0 and message.stop_reason in ("end_turn", "max_tokens"), message

    def events():
        kinds = [event.type for event in client.messages.create(**ask, stream=True)]
        assert kinds[:2] == ["message_start", "content_block_start"] and kinds[-2:] == ["message_delta", "message_stop"], kinds

    def helper():
        has_text(streamed().content[0].text)

    def limits():
        schema = {"output_config": {"format": {"type": "json_schema", "schema": PARAMETERS}}}
        message = client.messages.create(**ask | schema | {"max_tokens": 3})
        assert message.stop_reason == "max_tokens" and message.usage.output_tokens == 3, message
        message = streamed(**schema, stop_sequences=["city"])
        assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "city"), message

    def with_tools(choice, most):
        def check():
            for answer in (client.messages.create, streamed):
                found = calls(answer(**ask | {"tools": [tool], "tool_choice": choice}))
                assert len(found) <= most and (found or choice["type"] in ("auto", "none")), found

        check.__name__ = f"tools_{'_'.join(map(str, choice.values()))}"
        return check

    def second_turn():
        tools = {"tools": [tool], "tool_choice": {"type": "any"}}
        message = streamed(**tools)
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": "clear"} for call in calls(message)]
        turns = [*ASK, {"role": "assistant", "content": message.content}, {"role": "user", "content": results}]
        again = client.messages.create(**ask | {"messages": turns, "tools": [tool], "tool_choice": {"type": "none"}})
        has_text(again.content[0].text)

    def parse():
        is_weather(client.messages.parse(**ask, output_format=Weather).parsed_output)

    def helper_with_schema():
        is_weather(streamed(output_format=Weather).parsed_output)

    def thinking():
        thinks = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "output_format": Weather}
        for message in (client.messages.parse(**ask | thinks), streamed(**thinks)):
            first, _ = message.content
            assert first.type == "thinking" and first.thinking and first.signature, message
            is_weather(message.parsed_output)
        turns = [*ASK, {"role": "assistant", "content": message.content}, *ASK]
        has_text(client.messages.create(**ask | {"messages": turns}).content[0].text)

    def errors():
        broken = {"type": "object", "properties": {"city": {"type": "string", "pattern": "("}}}
        for error, more in (
            (anthropic.BadRequestError, {"output_config": {"format": {"type": "json_schema", "schema": broken}}}),
            (anthropic.BadRequestError, {"tools": [tool], "tool_choice": {"type": "tool", "name": "other"}}),
            (anthropic.BadRequestError, {"extra_headers": {"anthropic-version": "2020-01-01"}}),
            (anthropic.NotFoundError, {"model": "other"}),
        ):
            try:
                client.messages.create(**ask | more)
            except error as refused:
                assert refused.body["type"] == "error" and refused.body["error"]["message"], refused.body
            else:
                raise AssertionError(f"accepted: {more}")

    choices = [
        with_tools({"type": "auto"}, 2),
        with_tools({"type": "any"}, 2),
        with_tools({"type": "any", "disable_parallel_tool_use": True}, 1),
        with_tools({"type": "tool", "name": "get_weather"}, 1),
        with_tools({"type": "none"}, 0),
    ]
    return [create, events, helper, limits, *choices, second_turn, parse, helper_with_schema, thinking, errors]


def litellm(url):
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm

    litellm.suppress_debug_info = True
    litellm.telemetry = False
    ask = {"model": f"openai/{MODEL}", "api_base": url, "api_key": "none", "messages": ASK, "num_retries": 0, "max_retries": 0, **LIMITS}
    tools = {"tools": [TOOL], "tool_choice": "required"}

    def whole():
        has_text(litellm.completion(**ask).choices[0].message.content)

    def streamed_with_tools():
        message = litellm.stream_chunk_builder(list(litellm.completion(**ask, **tools, stream=True))).choices[0].message
        for call in message.tool_calls:
            is_call(call.function.name, call.function.arguments)

    def schema():
        Weather.model_validate_json(litellm.completion(**ask, response_format=Weather).choices[0].message.content)

    return [whole, streamed_with_tools, schema]


def langchain(url):
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model=MODEL, base_url=url, api_key="none", max_retries=0, **LIMITS)
    tools = model.bind_tools([TOOL], tool_choice="required")
    ask = HumanMessage(ASK[0]["content"])

    def invoke():
        has_text(model.invoke([ask]).text)

    def calls_of(message):
        assert message.tool_calls and not message.invalid_tool_calls, message
        for call in message.tool_calls:
            is_call(call["name"], call["args"])

    def bind_tools():
        calls_of(tools.invoke([ask]))

    def streamed_tools():
        whole = None
        for part in tools.stream([ask]):
            whole = part if whole is None else whole + part
        calls_of(whole)

    def structured(method):
        def check():
            is_weather(model.with_structured_output(Weather, method=method).invoke([ask]))

        check.__name__ = f"with_structured_output_{method}"
        return check

    def second_turn():
        message = tools.invoke([ask])
        results = [ToolMessage("clear", tool_call_id=call["id"]) for call in message.tool_calls]
        has_text(model.invoke([ask, message, *results]).text)

    return [invoke, bind_tools, streamed_tools, structured("json_schema"), structured("function_calling"), second_turn]


def pydantic_ai(url):
    from openai import AsyncOpenAI
    from pydantic_ai import Agent, NativeOutput, ToolOutput
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    async def answer(kind, output_type, is_streamed=False):
        async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
            model = kind(MODEL, provider=OpenAIProvider(openai_client=client))
            agent = Agent(model, model_settings=LIMITS, retries=0, output_type=output_type(Weather, strict=True))
            if not is_streamed:
                return (await agent.run(ASK[0]["content"])).output
            async with agent.run_stream(ASK[0]["content"]) as result:
                return await result.get_output()

    def run(*settings):
        is_weather(asyncio.run(answer(*settings)))

    def tool_output():
        run(OpenAIChatModel, ToolOutput)

    def native_output():
        run(OpenAIChatModel, NativeOutput)

    def native_output_of_responses():
        run(OpenAIResponsesModel, NativeOutput)

    def streamed_output():
        run(OpenAIChatModel, ToolOutput, True)

    return [tool_output, native_output, native_output_of_responses, streamed_output]


def smolagents(url):
    from smolagents import ChatMessage, OpenAIModel, Tool
    from smolagents.models import agglomerate_stream_deltas

    class GetWeather(Tool):
        name, description, output_type = "get_weather", "The weather of a city", "string"
        inputs = {
            "city": {"type": "string", "enum": ["Oslo", "Rome"], "description": "City"},
            "days": {"type": "integer", "enum": [1, 2, 3], "description": "Days"},
        }

        def forward(self, city, days):
            return city

    model = OpenAIModel(MODEL, api_base=url, api_key="none", client_kwargs={"max_retries": 0}, **LIMITS)
    ask = [ChatMessage(role="user", content=[{"type": "text", "text": ASK[0]["content"]}])]

    def generate():
        has_text(model.generate(ask).content)

    def calls_of(message):
        assert message.tool_calls, message
        for call in message.tool_calls:
            is_call(call.function.name, call.function.arguments)

    def with_tools():
        calls_of(model.generate(ask, tools_to_call_from=[GetWeather()]))

    def streamed_with_tools():
        calls_of(agglomerate_stream_deltas(list(model.generate_stream(ask, tools_to_call_from=[GetWeather()]))))

    return [generate, with_tools, streamed_with_tools]


def llama_index(url):
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.tools import FunctionTool
    from llama_index.llms.openai import OpenAI

    model = OpenAI(model=MODEL, api_base=url, api_key="none", max_retries=0, strict=True, **LIMITS)
    ask = [ChatMessage(role="user", content=ASK[0]["content"])]
    tool = FunctionTool.from_defaults(lambda city: city, name="get_city", description="A city", fn_schema=City)

    def chat():
        has_text(model.chat(ask).message.content)

    def calls_of(response):
        for call in model.get_tool_calls_from_response(response):
            City.model_validate(call.tool_kwargs)

    def with_tools():
        calls_of(model.chat_with_tools([tool], chat_history=ask, tool_required=True))

    def streamed_with_tools():
        *_, last = model.stream_chat_with_tools([tool], chat_history=ask, tool_required=True)
        calls_of(last)

    def structured():
        is_weather(model.as_structured_llm(Weather).chat(ask).raw)

    return [chat, with_tools, streamed_with_tools, structured]


CLIENTS = {
    "openai-python chat": openai_chat,
    "openai-python responses": openai_responses,
    "anthropic-python": anthropic_messages,
    "litellm": litellm,
    "langchain": langchain,
    "pydantic-ai": pydantic_ai,
    "smolagents": smolagents,
    "llama-index": llama_index,
}


# Flags of the server for one client.
FLAGS = {"anthropic-python": ["--embedded-reasoning-tokens", "20"]}


def too_long(*_):
    raise TimeoutError(f"no end in {SECONDS} s")


def failures(client, url):
    """Runs the checks of a client and prints them; how many failed."""
    failed = 0
    for check in CLIENTS[client](url):
        signal.alarm(SECONDS)
        try:
            check()
            outcome = "ok"
        except Exception as error:  # Any error is what its user gets.
            failed += 1
            outcome = " ".join(f"{type(error).__name__}: {error}".split())
        signal.alarm(0)
        print(f"{client}: {check.__name__.replace('_', ' ')}: {outcome}", flush=True)
    return failed


@contextlib.contextmanager
def served(program, flags):
    """The address of a server, which ends with the block."""
    server = subprocess.Popen([program, "serve", "--port", "0", "--model", MODEL, *flags], stderr=subprocess.PIPE, text=True)
    try:
        yield re.search(r"http://\S+", server.stderr.readline())[0] + "/v1"
    finally:
        server.terminate()
        server.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--sobench", default="target/release/sobench", help="the program")
    parser.add_argument("--only", choices=CLIENTS, help="one client")
    arguments = parser.parse_args()
    signal.signal(signal.SIGALRM, too_long)
    failed = 0
    for client in [arguments.only] if arguments.only else CLIENTS:
        with served(arguments.sobench, FLAGS.get(client, [])) as url:
            failed += failures(client, url)
    print(f"{failed} failed" if failed else "all ok")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
