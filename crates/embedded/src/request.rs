//! Parses OpenAI's completion and chat requests with vLLM's additional fields.
//!
//! Fields that would change the answer and are not implemented are refused unless their value has
//! no effect. Unknown fields are ignored, as in vLLM.

use std::ops::RangeInclusive;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::constraint_fields::{self, Rules};
use super::endpoint::Endpoint;
use super::failure::Failure;
use super::messages_request;
use super::model::Sampling;
use super::responses_request;
use super::tools;
use sobench_core::constraint::Constraint;
use sobench_core::tools::{ToolForm, ToolInput, ToolSet};

/// Whether the model thinks first, and whether its thoughts are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Thinking {
    pub(super) is_on: bool,
    pub(super) is_included: bool,
}

/// The usage that a stream must include.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestedUsage {
    pub(super) at_the_end: bool,
    pub(super) in_every_chunk: bool,
}

/// A valid request. Its constraint may still fail to compile.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct GenerationRequest {
    /// The text that the model continues. Messages are converted by a simple template.
    pub(super) prompt: String,
    pub(super) constraint: Option<Arc<Constraint>>,
    pub(super) tools: Option<Arc<ToolSet>>,
    pub(super) thinking: Thinking,
    pub(super) max_tokens: Option<u32>,
    pub(super) stream: bool,
    pub(super) usage: RequestedUsage,
    pub(super) sampling: Sampling,
    pub(super) seed: Option<i64>,
    pub(super) ignore_eos: bool,
    /// Texts that end the answer. None is empty.
    pub(super) stop: Vec<String>,
    pub(super) min_tokens: u32,
}

/// Limit on the stop strings of one request.
const MAX_STOPS: usize = 64;

/// Limit on the bytes of a stop string.
const MAX_STOP_BYTES: usize = 1024;

/// Fields accepted only with the value that has no effect.
const NEUTRAL: &[(&str, f64)] = &[
    ("n", 1.0),
    ("best_of", 1.0),
    ("presence_penalty", 0.0),
    ("frequency_penalty", 0.0),
    ("repetition_penalty", 1.0),
    ("length_penalty", 1.0),
    ("logprobs", 0.0),
    ("top_logprobs", 0.0),
    ("prompt_logprobs", 0.0),
];

/// Fields accepted only when empty: null, false, "", or an empty list or object.
const EMPTY: &[&str] = &[
    "echo",
    "suffix",
    "stop_token_ids",
    "include_stop_str_in_output",
    "functions",
    "use_beam_search",
    "logit_bias",
    "bad_words",
    "allowed_token_ids",
    "chat_template",
    "continue_final_message",
    "truncate_prompt_tokens",
    "prompt_embeds",
    "return_token_ids",
    "return_tokens_as_token_ids",
];

/// Parses a request body. `model` is the only available model. `rules` are the accepted
/// constraints.
///
/// # Errors
/// Status 400 that names the field, or 404 for another model.
pub(super) fn parse(
    endpoint: Endpoint,
    body: &[u8],
    model: &str,
    rules: &Rules<'_>,
) -> Result<GenerationRequest, Failure> {
    let fields = read_fields(body, model)?;
    match endpoint {
        Endpoint::Responses => return responses_request::parse(&fields, rules),
        Endpoint::Messages => return messages_request::parse(&fields, rules),
        Endpoint::Completions | Endpoint::Chat => {}
    }
    refuse_unimplemented(&fields, NEUTRAL, EMPTY)?;
    if endpoint == Endpoint::Completions {
        refuse_tools(&fields)?;
    }
    let tools = tools::read(&fields, ToolForm::Chat)?;
    let stream = flag(&fields, "stream")?;
    let usage = match present(&fields, "stream_options") {
        None => RequestedUsage::default(),
        Some(Value::Object(_)) if !stream => {
            return Err(
                Failure::bad_request("stream_options can only be set when stream is true")
                    .about("stream_options"),
            );
        }
        Some(Value::Object(options)) => {
            let (at_the_end, in_chunks) = (
                flag(options, "include_usage")?,
                flag(options, "continuous_usage_stats")?,
            );
            RequestedUsage {
                at_the_end,
                in_every_chunk: at_the_end && in_chunks,
            }
        }
        Some(_) => return Err(wrong("stream_options", "an object")),
    };
    Ok(GenerationRequest {
        prompt: match endpoint {
            Endpoint::Completions => prompt(&fields)?,
            _ => offered(tools.as_deref()) + &messages(&fields)?,
        },
        tools,
        thinking: match endpoint {
            Endpoint::Completions => Thinking::OFF,
            _ => thinking(&fields)?,
        },
        constraint: constraint_fields::read(&fields, endpoint, rules)?.map(Arc::new),
        max_tokens: max_tokens(&fields, endpoint)?,
        stream,
        usage,
        sampling: sampling(&fields)?,
        seed: integer(&fields, "seed", i64::MIN..=i64::MAX)?,
        ignore_eos: flag(&fields, "ignore_eos")?,
        stop: stops(&fields, "stop")?,
        min_tokens: tokens(&fields, "min_tokens", 0)?.unwrap_or(0),
    })
}

/// The members of a JSON object that names no other model.
///
/// # Errors
/// Status 400, or 404 for another model.
pub(super) fn read_fields(body: &[u8], model: &str) -> Result<Map<String, Value>, Failure> {
    let body: Value = serde_json::from_slice(body)
        .map_err(|error| Failure::bad_request(format!("request body is not JSON: {error}")))?;
    let Value::Object(fields) = body else {
        return Err(Failure::bad_request("request body must be a JSON object"));
    };
    if let Some(name) = present(&fields, "model").filter(|name| *name != model) {
        let name = name
            .as_str()
            .map_or_else(|| name.to_string(), str::to_owned);
        let message =
            format!("The model `{name}` does not exist. The embedded server has `{model}`.");
        return Err(Failure::not_found(message).about("model"));
    }
    Ok(fields)
}

/// Tools need a chat.
fn refuse_tools(fields: &Map<String, Value>) -> Result<(), Failure> {
    let is_empty = |tools: &Value| tools.as_array().is_some_and(Vec::is_empty);
    if present(fields, "tools").is_none_or(is_empty) {
        return Ok(());
    }
    let message = "the embedded server takes no tools at /v1/completions";
    Err(Failure::bad_request(message).about("tools"))
}

impl Thinking {
    const OFF: Self = Self {
        is_on: false,
        is_included: true,
    };
}

/// Whether the model thinks, with the fields of vLLM: `reasoning_effort`, `include_reasoning`, and
/// the variables of chat templates (`enable_thinking` of Qwen3, `thinking` of DeepSeek and
/// Granite).
pub(super) fn thinking(fields: &Map<String, Value>) -> Result<Thinking, Failure> {
    let variables = match present(fields, "chat_template_kwargs") {
        None => None,
        Some(Value::Object(variables)) => Some(variables),
        Some(_) => return Err(wrong("chat_template_kwargs", "an object")),
    };
    let is_off = |name: &str| {
        variables.is_some_and(|variables| variables.get(name) == Some(&Value::Bool(false)))
    };
    Ok(Thinking {
        is_on: !is_off("enable_thinking")
            && !is_off("thinking")
            && thinks_with(present(fields, "reasoning_effort"), "reasoning_effort")?,
        is_included: present(fields, "include_reasoning").map_or(Ok(true), |value| {
            value
                .as_bool()
                .ok_or_else(|| wrong("include_reasoning", "true or false"))
        })?,
    })
}

/// Whether the model thinks with this effort. Efforts above `none` are equal.
pub(super) fn thinks_with(effort: Option<&Value>, name: &'static str) -> Result<bool, Failure> {
    const EFFORTS: [&str; 6] = ["none", "minimal", "low", "medium", "high", "xhigh"];
    match effort.map(Value::as_str) {
        None => Ok(true),
        Some(Some("none")) => Ok(false),
        Some(Some(effort)) if EFFORTS.contains(&effort) => Ok(true),
        Some(_) => Err(wrong(name, "none, minimal, low, medium, high or xhigh")),
    }
}

/// The tools as the start of a prompt. What the server enforces is not part of it, so that a
/// constrained request and its control have the same prompt.
pub(super) fn offered(tools: Option<&ToolSet>) -> String {
    let mut text = String::new();
    for tool in tools.into_iter().flat_map(|tools| &tools.tools) {
        text.push_str("tool: ");
        text.push_str(&tool.name);
        let mut add = |more: &str| {
            text.push(' ');
            text.push_str(more);
        };
        tool.description.as_deref().into_iter().for_each(&mut add);
        if let ToolInput::Function {
            parameters: Some(parameters),
            ..
        } = &tool.input
        {
            add(&parameters.to_string());
        }
        text.push('\n');
    }
    text
}

/// Refuses the fields of both lists, unless their value has no effect.
pub(super) fn refuse_unimplemented(
    fields: &Map<String, Value>,
    neutral: &[(&'static str, f64)],
    empty: &[&'static str],
) -> Result<(), Failure> {
    let given = |name: &str| present(fields, name).filter(|value| **value != false);
    let not_neutral = |(name, neutral): &(&str, f64)| {
        given(name).is_some_and(|value| value.as_f64() != Some(*neutral))
    };
    let not_empty = |name: &&&str| {
        given(name).is_some_and(|value| match value {
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            Value::Object(members) => !members.is_empty(),
            _ => true,
        })
    };
    let neutral = neutral
        .iter()
        .find(|field| not_neutral(field))
        .map(|(name, _)| *name);
    match neutral.or_else(|| empty.iter().find(not_empty).copied()) {
        Some(name) => Err(Failure::bad_request(format!(
            "the embedded server does not implement {name}"
        ))
        .about(name)),
        None => Ok(()),
    }
}

/// The stop strings: one string or a list. Empty ones are dropped.
pub(super) fn stops(
    fields: &Map<String, Value>,
    name: &'static str,
) -> Result<Vec<String>, Failure> {
    let must_be = || wrong(name, "a string or a list of strings");
    let stops: Vec<String> = match present(fields, name) {
        None => Vec::new(),
        Some(Value::String(stop)) => vec![stop.clone()],
        Some(Value::Array(stops)) => stops
            .iter()
            .map(|stop| stop.as_str().map(str::to_owned).ok_or_else(must_be))
            .collect::<Result<_, _>>()?,
        Some(_) => return Err(must_be()),
    };
    if stops.len() > MAX_STOPS || stops.iter().any(|stop| stop.len() > MAX_STOP_BYTES) {
        return Err(wrong(
            name,
            &format!("at most {MAX_STOPS} strings of at most {MAX_STOP_BYTES} bytes"),
        ));
    }
    Ok(stops.into_iter().filter(|stop| !stop.is_empty()).collect())
}

/// The prompt of a completions request.
pub(super) fn prompt(fields: &Map<String, Value>) -> Result<String, Failure> {
    match fields.get("prompt") {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Array(items)) => match items.as_slice() {
            [Value::String(text)] => Ok(text.clone()),
            _ => Err(Failure::bad_request(
                "prompt must be one string; the embedded server takes no batches or token ids",
            )
            .about("prompt")),
        },
        _ => Err(wrong("prompt", "a string")),
    }
}

/// Roles of messages.
const ROLES: [&str; 6] = [
    "developer",
    "system",
    "user",
    "assistant",
    "tool",
    "function",
];

/// Converts messages to `role: content` lines, since the synthetic model has no template.
pub(super) fn messages(fields: &Map<String, Value>) -> Result<String, Failure> {
    let messages = fields
        .get("messages")
        .and_then(Value::as_array)
        .filter(|messages| !messages.is_empty());
    let mut text = String::new();
    for message in messages.ok_or_else(|| wrong("messages", "a list that is not empty"))? {
        let role = message
            .get("role")
            .and_then(Value::as_str)
            .filter(|role| ROLES.contains(role))
            .ok_or_else(|| wrong("messages", "objects with a role of the API"))?;
        text.push_str(role);
        text.push_str(": ");
        text.push_str(&content_text(message.get("content"), "messages")?);
        match message.get("tool_calls").filter(|calls| !calls.is_null()) {
            None => {}
            Some(Value::Array(calls)) => {
                for call in calls {
                    text.push_str(&call_text(call)?);
                }
            }
            Some(_) => return Err(wrong("messages", "objects with a list of tool_calls")),
        }
        text.push('\n');
    }
    text.push_str("assistant:");
    Ok(text)
}

/// The text of a message: a string, or a list of parts with text.
pub(super) fn content_text(
    content: Option<&Value>,
    field: &'static str,
) -> Result<String, Failure> {
    match content {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(content)) => Ok(content.clone()),
        Some(Value::Array(parts)) => {
            let text = |part: &Value| {
                let text = part.get("text").and_then(Value::as_str).map(str::to_owned);
                text.ok_or_else(|| wrong(field, "text, or parts with text; no images or audio"))
            };
            parts.iter().map(text).collect()
        }
        Some(_) => Err(wrong(field, "objects with text")),
    }
}

/// An earlier call as text.
fn call_text(call: &Value) -> Result<String, Failure> {
    let function = call.get("function").or_else(|| call.get("custom"));
    let member = |name: &str| function?.get(name)?.as_str();
    let name = member("name");
    let input = member("arguments").or_else(|| member("input"));
    match (name, input) {
        (Some(name), Some(input)) => Ok(format!(" {name} {input}")),
        _ => Err(wrong(
            "messages",
            "objects whose tool_calls have a name and arguments",
        )),
    }
}

fn max_tokens(fields: &Map<String, Value>, endpoint: Endpoint) -> Result<Option<u32>, Failure> {
    let newer = if endpoint != Endpoint::Completions {
        tokens(fields, "max_completion_tokens", 1)?
    } else {
        None
    };
    newer.map_or_else(
        || tokens(fields, "max_tokens", 1),
        |tokens| Ok(Some(tokens)),
    )
}

/// A number of tokens, at least `least`.
pub(super) fn tokens(
    fields: &Map<String, Value>,
    name: &'static str,
    least: i64,
) -> Result<Option<u32>, Failure> {
    let tokens = integer(fields, name, least..=i64::from(u32::MAX))?;
    Ok(tokens.and_then(|tokens| u32::try_from(tokens).ok()))
}

pub(super) fn sampling(fields: &Map<String, Value>) -> Result<Sampling, Failure> {
    let default = Sampling::default();
    // vLLM writes "all" as -1 or 0.
    let top_k = integer(fields, "top_k", -1..=i64::from(u32::MAX))?
        .unwrap_or(0)
        .max(0);
    Ok(Sampling {
        temperature: number(fields, "temperature", 0.0..=100.0)?.unwrap_or(default.temperature),
        top_p: number(fields, "top_p", 0.0..=1.0)?.unwrap_or(default.top_p),
        min_p: number(fields, "min_p", 0.0..=1.0)?.unwrap_or(default.min_p),
        top_k: usize::try_from(top_k).unwrap_or(usize::MAX),
    })
}

fn number(
    fields: &Map<String, Value>,
    name: &'static str,
    range: RangeInclusive<f64>,
) -> Result<Option<f32>, Failure> {
    let Some(value) = present(fields, name) else {
        return Ok(None);
    };
    match value.as_f64() {
        Some(number) if range.contains(&number) => Ok(Some(number as f32)),
        _ => Err(wrong(
            name,
            &format!("a number from {} to {}", range.start(), range.end()),
        )),
    }
}

pub(super) fn integer(
    fields: &Map<String, Value>,
    name: &'static str,
    range: RangeInclusive<i64>,
) -> Result<Option<i64>, Failure> {
    let Some(value) = present(fields, name) else {
        return Ok(None);
    };
    match value.as_i64() {
        Some(number) if range.contains(&number) => Ok(Some(number)),
        _ => Err(wrong(
            name,
            &format!("an integer from {} to {}", range.start(), range.end()),
        )),
    }
}

/// A boolean member, false if absent.
pub(super) fn flag(fields: &Map<String, Value>, name: &'static str) -> Result<bool, Failure> {
    present(fields, name).map_or(Ok(false), |value| {
        value.as_bool().ok_or_else(|| wrong(name, "true or false"))
    })
}

/// A member that is present and not null.
pub(super) fn present<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    fields.get(name).filter(|value| !value.is_null())
}

/// The error for an invalid field.
pub(super) fn wrong(name: &'static str, must_be: &str) -> Failure {
    Failure::bad_request(format!("{name} must be {must_be}")).about(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::RULES;

    fn completion(fields: &str) -> Result<GenerationRequest, Failure> {
        parse(
            Endpoint::Completions,
            format!("{{\"prompt\": \"p\"{fields}}}").as_bytes(),
            "m",
            &RULES,
        )
    }

    fn chat(fields: &str) -> Result<GenerationRequest, Failure> {
        parse(
            Endpoint::Chat,
            format!("{{{fields}}}").as_bytes(),
            "m",
            &RULES,
        )
    }

    #[test]
    fn parses_the_fields_of_clients() {
        let request = completion(
            r#", "model": "m", "max_tokens": 128, "temperature": 0.5, "top_k": -1, "logprobs": null, "repetition_penalty": 1.0,
            "stream": true, "stream_options": {"include_usage": true}, "ignore_eos": true, "seed": 7, "unknown_field": [1],
            "structured_outputs": {"regex": "a"}"#,
        )
        .unwrap();
        assert_eq!(
            (request.prompt.as_str(), request.max_tokens, request.seed),
            ("p", Some(128), Some(7))
        );
        assert!(
            request.stream
                && request.usage.at_the_end
                && !request.usage.in_every_chunk
                && request.ignore_eos
        );
        assert_eq!(
            request.sampling,
            Sampling {
                temperature: 0.5,
                ..Sampling::default()
            }
        );
        assert_eq!(
            request.constraint.as_deref(),
            Some(&Constraint::Regex("a".into()))
        );
        let stopped = completion(
            r#", "stop": ["", "x"], "min_tokens": 3, "n": 1, "logprobs": null, "include_stop_str_in_output": false"#,
        );
        let stopped = stopped.unwrap();
        assert_eq!(
            (&stopped.stop[..], stopped.min_tokens),
            (&["x".to_owned()][..], 3)
        );
        assert_eq!(completion(r#", "stop": "ab""#).unwrap().stop, ["ab"]);
        let plain = completion("").unwrap();
        assert_eq!(
            (plain.max_tokens, plain.stream, plain.constraint),
            (None, false, None)
        );
        let list = parse(
            Endpoint::Completions,
            br#"{"prompt": ["one"]}"#,
            "m",
            &RULES,
        )
        .unwrap();
        assert_eq!(list.prompt, "one");
    }

    #[test]
    fn messages_become_lines() {
        let request = chat(
            r#""messages": [{"role": "system", "content": "Be brief."}, {"role": "user",
            "content": [{"type": "text", "text": "Hi"}]}], "max_tokens": 5, "max_completion_tokens": 9"#,
        )
        .unwrap();
        assert_eq!(request.prompt, "system: Be brief.\nuser: Hi\nassistant:");
        assert_eq!(request.max_tokens, Some(9));
    }

    #[test]
    fn errors_name_the_refused_field() {
        for (fields, param) in [
            (r#", "n": 2"#, "n"),
            (r#", "logprobs": 5"#, "logprobs"),
            (r#", "frequency_penalty": 0.5"#, "frequency_penalty"),
            (r#", "stop": 7"#, "stop"),
            (r#", "stop": ["x", 7]"#, "stop"),
            (r#", "min_tokens": -1"#, "min_tokens"),
            (r#", "stop_token_ids": [7]"#, "stop_token_ids"),
            (r#", "return_token_ids": true"#, "return_token_ids"),
            (
                r#", "include_stop_str_in_output": true"#,
                "include_stop_str_in_output",
            ),
            (r#", "max_tokens": 0"#, "max_tokens"),
            (r#", "max_tokens": 1.5"#, "max_tokens"),
            (r#", "temperature": "hot""#, "temperature"),
            (r#", "top_p": 2"#, "top_p"),
            (r#", "stream": "yes""#, "stream"),
            (
                r#", "stream_options": {"include_usage": true}"#,
                "stream_options",
            ),
            (r#", "model": "gpt-4""#, "model"),
        ] {
            let failure = completion(fields).unwrap_err();
            assert_eq!(failure.param, Some(param), "{fields}: {failure:?}");
            assert_eq!(
                failure.status.as_u16(),
                if param == "model" { 404 } else { 400 }
            );
        }
        for fields in [
            "",
            r#""messages": []"#,
            r#""messages": [{"content": "x"}]"#,
            r#""messages": [{"role": "wizard", "content": "x"}]"#,
            r#""messages": [{"role": "user", "content": 1}]"#,
        ] {
            assert_eq!(
                chat(fields).unwrap_err().param,
                Some("messages"),
                "{fields}"
            );
        }
        for body in [
            "",
            "[1]",
            "{\"prompt\": \"p\",",
            "{}",
            r#"{"prompt": [1, 2]}"#,
            r#"{"prompt": ["a", "b"]}"#,
        ] {
            let failure = parse(Endpoint::Completions, body.as_bytes(), "m", &RULES).unwrap_err();
            assert_eq!(failure.status.as_u16(), 400, "{body}");
        }
    }
}
