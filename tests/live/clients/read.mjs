// Reads streams of chat completions with a client of Node: names as JSON lines on stdin, what it read as JSON lines on stdout.
// node read.mjs openai|ai URL
import { createInterface } from "node:readline";

const [client, url] = process.argv.slice(2);
const parameters = { type: "object" };

async function openai(name) {
  const { default: OpenAI } = await import("openai");
  const api = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });
  const tools = [{ type: "function", function: { name: "get_weather", parameters } }];
  const stream = api.chat.completions.stream({ model: "m", messages: [{ role: "user", content: name }], tools });
  const { message, finish_reason } = (await stream.finalChatCompletion()).choices[0];
  const calls = (message.tool_calls ?? []).map((call) => [call.id, call.function?.name ?? call.custom?.name, call.function?.arguments ?? call.custom?.input]);
  return { content: message.content, calls, finish_reason };
}

async function ai(name) {
  const { streamText, tool, jsonSchema } = await import("ai");
  const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
  const model = createOpenAICompatible({ name: "local", baseURL: `${url}/v1`, apiKey: "none" })("m");
  const tools = { get_weather: tool({ description: "Weather", inputSchema: jsonSchema(parameters) }) };
  let failure;
  const stream = streamText({ model, prompt: name, tools, maxRetries: 0, onError: ({ error }) => (failure ??= error) });
  let content = "";
  const calls = [];
  let finish_reason;
  for await (const part of stream.fullStream) {
    if (part.type === "text-delta") content += part.text;
    if (part.type === "tool-call") calls.push([part.toolCallId, part.toolName, part.input]);
    if (part.type === "finish-step") finish_reason = part.finishReason;
  }
  if (failure) throw failure;
  return { content, calls, finish_reason };
}

const read = { openai, ai }[client];
for await (const line of createInterface({ input: process.stdin })) {
  let found;
  try {
    found = await read(JSON.parse(line));
  } catch (error) {
    found = { error: error?.name ?? typeof error };
  }
  console.log(JSON.stringify(found));
}
