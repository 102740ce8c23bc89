//! Spans of OpenTelemetry with the attributes of its conventions for generative AI (1.37 to 1.41):
//! OTLP JSON (`resourceSpans`), or a span as an object, as the console exporter of Python writes it.
//! Attributes of the span and of its events are read.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::request::{Found, Members, Read, Request, seconds};

const INPUT: &str = "gen_ai.input.messages";
const INSTRUCTIONS: &str = "gen_ai.system_instructions";
const TOOLS: &str = "gen_ai.tool.definitions";
const PREFIX: &str = "gen_ai.request.";

/// Operations that are requests to a model.
const OPERATIONS: [&str; 3] = ["chat", "text_completion", "generate_content"];

/// Attributes of a request after [`PREFIX`], with the member of a body.
const PARAMETERS: [(&str, &str); 8] = [
    ("max_tokens", "max_tokens"),
    ("temperature", "temperature"),
    ("top_p", "top_p"),
    ("top_k", "top_k"),
    ("seed", "seed"),
    ("frequency_penalty", "frequency_penalty"),
    ("presence_penalty", "presence_penalty"),
    ("stop_sequences", "stop"),
];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpans {
    #[serde(default)]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Deserialize)]
struct ScopeSpans {
    #[serde(default)]
    spans: Vec<Span>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Span {
    #[serde(default)]
    attributes: Value,
    #[serde(default)]
    events: Value,
    #[serde(default)]
    context: Value,
    #[serde(default, alias = "span_id")]
    span_id: Value,
    #[serde(default, alias = "start_time", alias = "startTime")]
    start_time_unix_nano: Value,
}

pub(super) fn read<'l>(text: &'l str, members: &Members<'l>) -> Read<'l> {
    let has = |name: &str| members.contains_key(name);
    let is_span = has("attributes") && ["context", "span_id", "spanId"].into_iter().any(has);
    let spans = match members.get("resourceSpans") {
        Some(raw) => serde_json::from_str(raw.get()).map(|resources: Vec<ResourceSpans>| {
            let scopes = resources.into_iter().flat_map(|part| part.scope_spans);
            scopes.flat_map(|scope| scope.spans).collect()
        }),
        None if is_span => serde_json::from_str(text).map(|span| vec![span]),
        None => return None,
    };
    let spans: Result<Vec<Span>, _> = spans.map_err(|error| format!("a span: {error}"));
    Some(spans.map(|spans| spans.iter().filter_map(request).collect()))
}

/// The request of a span; `None` if the span is of something else.
fn request(span: &Span) -> Option<Found<'static>> {
    let mut attributes = attributes(&span.attributes);
    for event in span.events.as_array().into_iter().flatten() {
        attributes.extend(self::attributes(&event["attributes"]));
    }
    let operation = attributes.get("gen_ai.operation.name");
    let operation = operation.and_then(Value::as_str);
    let Some(messages) = json_of(attributes.get(INPUT)) else {
        let is_request = operation.is_some_and(|name| OPERATIONS.contains(&name));
        return is_request.then_some(Found::Skipped(
            "a span without gen_ai.input.messages, which the instrumentation has to record",
        ));
    };
    if operation.is_some_and(|name| !OPERATIONS.contains(&name)) {
        return None;
    }
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let id = text(&span.span_id).or_else(|| text(&span.context["span_id"]));
    let asks_for_json = attributes.get("gen_ai.output.type") == Some(&json!("json"));
    Some(Found::Request(Request {
        id,
        at: seconds(&span.start_time_unix_nano),
        unjudged: asks_for_json.then_some("spans have no JSON Schema"),
        ..Request::from_body(body(&attributes, &messages))
    }))
}

/// A body of the chat endpoint.
fn body(attributes: &Map<String, Value>, messages: &Value) -> String {
    let mut chat = Vec::new();
    if let Some(parts) = json_of(attributes.get(INSTRUCTIONS)) {
        chat.push(json!({"role": "system", "content": text(&parts)}));
    }
    for message in messages.as_array().into_iter().flatten() {
        chat.extend(chat_messages(message));
    }
    let model = attributes.get("gen_ai.request.model");
    let mut body = Map::from_iter([
        (
            "model".to_owned(),
            model.cloned().unwrap_or_else(|| "".into()),
        ),
        ("messages".to_owned(), chat.into()),
    ]);
    if let Some(Value::Array(tools)) = json_of(attributes.get(TOOLS)) {
        body.insert("tools".to_owned(), tools.into_iter().map(tool).collect());
    }
    for (attribute, member) in PARAMETERS {
        if let Some(value) = attributes.get(&format!("{PREFIX}{attribute}")) {
            body.insert(member.to_owned(), value.clone());
        }
    }
    if attributes.get("gen_ai.request.stream") != Some(&Value::Bool(false)) {
        body.insert("stream".to_owned(), true.into());
        body.insert("stream_options".to_owned(), json!({"include_usage": true}));
    }
    Value::from(body).to_string()
}

/// The messages of the chat endpoint that a message of a span stands for: a message with parts, or
/// in older instrumentations a message of the chat endpoint itself.
fn chat_messages(message: &Value) -> Vec<Value> {
    let Some(parts) = message["parts"].as_array() else {
        return vec![message.clone()];
    };
    let is_kind = |part: &&Value, kind: &str| part["type"] == kind;
    let responses = parts
        .iter()
        .filter(|part| is_kind(part, "tool_call_response"));
    let mut found: Vec<Value> = responses
        .map(|part| {
            let result = ["response", "result"]
                .into_iter()
                .find_map(|name| part.get(name));
            json!({"role": "tool", "tool_call_id": part["id"], "content": result.map(as_text)})
        })
        .collect();
    let calls = parts.iter().filter(|part| is_kind(part, "tool_call"));
    let calls: Vec<Value> = calls
        .map(|part| {
            let function = json!({"name": part["name"], "arguments": as_text(&part["arguments"])});
            json!({"id": part["id"], "type": "function", "function": function})
        })
        .collect();
    if found.is_empty() {
        let mut chat = json!({"role": message["role"], "content": text(&message["parts"])});
        if !calls.is_empty() {
            chat["tool_calls"] = calls.into();
        }
        found.push(chat);
    }
    found
}

/// The text of all text parts.
fn text(parts: &Value) -> String {
    let parts = parts.as_array().into_iter().flatten();
    let texts = parts.filter(|part| part["type"] == "text");
    let texts = texts.filter_map(|part| part["content"].as_str());
    texts.collect::<Vec<_>>().join("\n")
}

/// A text, or the JSON of another value.
fn as_text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// A tool of the chat endpoint.
fn tool(mut tool: Value) -> Value {
    match tool.as_object_mut() {
        Some(members) if !members.contains_key("function") => {
            let kind = members.remove("type").unwrap_or_else(|| "function".into());
            json!({"type": kind, "function": tool})
        }
        _ => tool,
    }
}

/// A structured attribute, which may be the text of a JSON value.
fn json_of(attribute: Option<&Value>) -> Option<Value> {
    match attribute? {
        Value::String(text) => serde_json::from_str(text).ok(),
        value => Some(value.clone()),
    }
}

/// Attributes by name: an object, or the list of OTLP.
fn attributes(value: &Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members.clone(),
        Value::Array(pairs) => pairs
            .iter()
            .filter_map(|pair| Some((pair["key"].as_str()?.to_owned(), plain(&pair["value"]))))
            .collect(),
        _ => Map::new(),
    }
}

/// The value of OTLP's `AnyValue`.
fn plain(value: &Value) -> Value {
    let Some((kind, inner)) = value.as_object().and_then(|members| members.iter().next()) else {
        return Value::Null;
    };
    match (kind.as_str(), inner) {
        ("arrayValue", list) => {
            let items = list["values"].as_array().into_iter().flatten();
            items.map(plain).collect()
        }
        ("kvlistValue", list) => attributes(&list["values"]).into(),
        ("intValue", Value::String(number)) => serde_json::from_str(number).unwrap_or_default(),
        (_, inner) => inner.clone(),
    }
}
