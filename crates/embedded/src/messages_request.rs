//! Parses requests to the messages endpoint.
//!
//! Source: Anthropic's reference, "Create a Message", and its client anthropic-sdk-python 0.105.2
//! (`types/message_create_params.py`). As in vLLM, the variables of chat templates are read too.

use std::sync::Arc;

use axum::http::HeaderMap;
use serde_json::{Map, Value, json};

use super::constraint_fields::{self, Rules};
use super::endpoint::Endpoint;
use super::failure::Failure;
use super::request::{
    self, GenerationRequest, RequestedUsage, Thinking, content_text, flag, integer, offered,
    present, refuse_unimplemented, sampling, stops, tokens, wrong,
};
use super::tools;
use sobench_core::tools::{ToolForm, ToolSet, chat_choice};

const VERSION_HEADER: &str = "anthropic-version";

const VERSIONS: [&str; 3] = ["2023-06-01", "2023-01-01", "2026-10-21"];

/// The smallest `budget_tokens`, as in Anthropic's API.
const LEAST_BUDGET: u32 = 1024;

/// Members that are accepted only when empty. `output_format` is the former name of
/// `output_config.format`.
const EMPTY: &[&str] = &[
    "output_format",
    "mcp_servers",
    "container",
    "context_management",
];

/// Checks the version of the API.
///
/// # Errors
/// Status 400 without the header, or for another version.
pub(super) fn check_version(headers: &HeaderMap) -> Result<(), Failure> {
    let version = headers.get(VERSION_HEADER).map(|value| value.as_bytes());
    match version {
        Some(version) if VERSIONS.map(str::as_bytes).contains(&version) => Ok(()),
        _ => Err(wrong(VERSION_HEADER, "a header with the value 2023-06-01")),
    }
}

/// Parses the members of a request.
///
/// # Errors
/// Status 400 that names the field.
pub(super) fn parse(
    fields: &Map<String, Value>,
    rules: &Rules<'_>,
) -> Result<GenerationRequest, Failure> {
    refuse_unimplemented(fields, &[], EMPTY)?;
    if present(fields, "model").is_none() {
        return Err(wrong("model", "a string"));
    }
    let max_tokens = tokens(fields, "max_tokens", 1)?;
    let max_tokens = max_tokens.ok_or_else(|| wrong("max_tokens", "an integer from 1"))?;
    let tools = tools(fields)?;
    let constraint = constraint_fields::read(fields, Endpoint::Messages, rules)?;
    if present(fields, "stop_sequences").is_some_and(|stops| !stops.is_array()) {
        return Err(wrong("stop_sequences", "a list of strings"));
    }
    Ok(GenerationRequest {
        prompt: offered(tools.as_deref()) + &prompt(fields)?,
        constraint: constraint.map(Arc::new),
        thinking: thinking(fields, max_tokens)?,
        tools,
        max_tokens: Some(max_tokens),
        stream: flag(fields, "stream")?,
        // The end of an answer always has the usage.
        usage: RequestedUsage {
            at_the_end: true,
            in_every_chunk: false,
        },
        sampling: sampling(fields)?,
        seed: integer(fields, "seed", i64::MIN..=i64::MAX)?,
        ignore_eos: false,
        stop: stops(fields, "stop_sequences")?,
        min_tokens: 0,
    })
}

/// Without `thinking` the model thinks, as in vLLM, unless the variables of its template forbid it.
fn thinking(fields: &Map<String, Value>, max_tokens: u32) -> Result<Thinking, Failure> {
    let Some(thinking) = present(fields, "thinking") else {
        return request::thinking(fields);
    };
    let kind = thinking.get("type").and_then(Value::as_str);
    if kind == Some("enabled") {
        let budget = thinking.get("budget_tokens").and_then(Value::as_u64);
        let range = u64::from(LEAST_BUDGET)..u64::from(max_tokens);
        if !budget.is_some_and(|budget| range.contains(&budget)) {
            let must_be =
                format!("enabled with budget_tokens from {LEAST_BUDGET} and below max_tokens");
            return Err(wrong("thinking", &must_be));
        }
    }
    Ok(Thinking {
        is_on: match kind {
            Some("enabled" | "adaptive") => true,
            Some("disabled") => false,
            _ => {
                let must_be = "an object of the type enabled, adaptive or disabled";
                return Err(wrong("thinking", must_be));
            }
        },
        is_included: thinking
            .get("display")
            .is_none_or(|shown| shown != "omitted"),
    })
}

/// The tools and the choice, which are converted to the form of chat completions.
fn tools(fields: &Map<String, Value>) -> Result<Option<Arc<ToolSet>>, Failure> {
    let mut chat = Map::new();
    match present(fields, "tools") {
        None => {}
        Some(Value::Array(tools)) => {
            let tools: Result<Value, Failure> = tools.iter().map(chat_tool).collect();
            chat.insert("tools".to_owned(), tools?);
        }
        Some(_) => return Err(wrong("tools", "a list")),
    }
    if let Some(choice) = present(fields, "tool_choice") {
        let must_be = || {
            wrong(
                "tool_choice",
                "an object of the type auto, any, tool or none",
            )
        };
        let members = choice.as_object().ok_or_else(must_be)?;
        let choice = chat_choice(choice).ok_or_else(must_be)?;
        if chat.is_empty() {
            return Err(wrong("tool_choice", "absent in a request without tools"));
        }
        chat.insert("tool_choice".to_owned(), choice);
        let is_single = flag(members, "disable_parallel_tool_use")?;
        if members.contains_key("disable_parallel_tool_use") {
            chat.insert("parallel_tool_calls".to_owned(), (!is_single).into());
        }
    }
    tools::read(&chat, ToolForm::Chat)
}

/// Members that have no effect here, such as `cache_control`, are dropped.
fn chat_tool(tool: &Value) -> Result<Value, Failure> {
    let kind = tool.get("type").filter(|kind| !kind.is_null());
    if let Some(kind) = kind.filter(|kind| *kind != "custom") {
        let message = format!("the embedded server does not implement tools of type {kind}");
        return Err(Failure::bad_request(message).about("tools"));
    }
    let schema = tool.get("input_schema").filter(|schema| schema.is_object());
    let schema = schema.ok_or_else(|| wrong("tools", "objects with an object as input_schema"))?;
    let mut function = json!({ "parameters": schema });
    for name in ["name", "description", "strict"] {
        if let Some(member) = tool.get(name) {
            function[name] = member.clone();
        }
    }
    Ok(json!({"type": "function", "function": function}))
}

/// Converts the system prompt and the messages to lines like those of a chat.
fn prompt(fields: &Map<String, Value>) -> Result<String, Failure> {
    let mut text = String::new();
    if let Some(system) = present(fields, "system") {
        let system = content_text(Some(system), "system")?;
        text = ["system: ", &system, "\n"].concat();
    }
    let messages = fields.get("messages").and_then(Value::as_array);
    let messages = messages.filter(|messages| !messages.is_empty());
    for message in messages.ok_or_else(|| wrong("messages", "a list that is not empty"))? {
        text.push_str(&message_lines(message)?);
    }
    text.push_str("assistant:");
    Ok(text)
}

/// The results of calls have lines of their own.
fn message_lines(message: &Value) -> Result<String, Failure> {
    let must_be = |what| wrong("messages", what);
    let role = message.get("role").and_then(Value::as_str);
    let role = role
        .filter(|role| ["user", "assistant"].contains(role))
        .ok_or_else(|| must_be("objects with the role user or assistant"))?;
    let blocks = match message.get("content") {
        Some(Value::String(text)) => return Ok(format!("{role}: {text}\n")),
        Some(Value::Array(blocks)) => blocks,
        _ => return Err(must_be("objects with a content: text or a list of blocks")),
    };
    let (mut text, mut results) = (String::new(), String::new());
    for block in blocks {
        let member = |name: &str| block.get(name).and_then(Value::as_str);
        let required = |name: &str| {
            let must_be = || must_be("objects whose blocks have the members of their type");
            member(name).ok_or_else(must_be)
        };
        match (required("type")?, role) {
            ("text", _) => text.push_str(required("text")?),
            ("thinking" | "redacted_thinking", "assistant") => {}
            ("tool_use", "assistant") => {
                required("id")?;
                let input = block.get("input").filter(|input| input.is_object());
                let input = input.ok_or_else(|| must_be("objects whose calls have an input"))?;
                text.push_str(&format!(" {} {input}", required("name")?));
            }
            ("tool_result", "user") => {
                required("tool_use_id")?;
                let result = content_text(block.get("content"), "messages")?;
                results.push_str(&format!("tool: {result}\n"));
            }
            (other, role) => {
                let message = format!(
                    "the embedded server does not implement blocks of type {other} in a message \
                     of the role {role}"
                );
                return Err(Failure::bad_request(message).about("messages"));
            }
        }
    }
    if !text.is_empty() || results.is_empty() {
        results.push_str(&format!("{role}: {text}\n"));
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;
    use crate::testing::RULES;
    use sobench_core::tools::ToolChoice;

    fn read(more: &Value) -> Result<GenerationRequest, Failure> {
        let mut fields = json!({"model": "m", "max_tokens": 2000,
            "messages": [{"role": "user", "content": "Hi"}]});
        let more = more.as_object().unwrap().clone();
        fields.as_object_mut().unwrap().extend(more);
        parse(fields.as_object().unwrap(), &RULES)
    }

    fn tool(name: &str) -> Value {
        json!({"name": name, "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}})
    }

    #[test]
    fn messages_become_lines() {
        let request = read(&json!({
            "system": [{"type": "text", "text": "Be brief."}],
            "messages": [
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "Hm", "signature": "s"}, {"type": "text", "text": "So"},
                    {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "5"}]}]},
            ],
            "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}},
            "stream": true, "temperature": 0.5, "top_k": 3, "stop_sequences": ["x"], "metadata": {"user_id": "u"},
        }))
        .unwrap();
        assert_eq!(
            request.prompt,
            "system: Be brief.\nuser: Hi\nassistant: So f {\"a\":1}\ntool: 5\nassistant:"
        );
        assert_eq!(request.constraint.unwrap().kind(), "json");
        assert_eq!((request.max_tokens, request.stream), (Some(2000), true));
        assert_eq!(
            (request.stop, request.sampling.top_k),
            (vec!["x".to_owned()], 3)
        );
    }

    #[test]
    fn choices_have_the_meaning_of_chat_completions() {
        let read = |choice: Value| {
            let request = read(&json!({"tools": [tool("f"), tool("g")], "tool_choice": choice}));
            let tools = request.unwrap().tools.unwrap();
            (tools.choice.clone(), tools.parallel_tool_calls)
        };
        let single = json!({"type": "any", "disable_parallel_tool_use": true});
        let named = json!({"type": "tool", "name": "g"});
        assert_eq!(read(Value::Null), (ToolChoice::Auto, None));
        assert_eq!(read(json!({"type": "auto"})), (ToolChoice::Auto, None));
        assert_eq!(read(single), (ToolChoice::Required, Some(false)));
        assert_eq!(read(named), (ToolChoice::Named("g".into()), None));
        assert_eq!(read(json!({"type": "none"})), (ToolChoice::None, None));
    }

    #[test]
    fn thinking_is_switched_on_and_off() {
        let read = |fields: Value| {
            let Thinking { is_on, is_included } = read(&fields).unwrap().thinking;
            (is_on, is_included)
        };
        let omitted = json!({"type": "enabled", "budget_tokens": 1024, "display": "omitted"});
        assert_eq!(read(json!({})), (true, true));
        assert_eq!(
            read(json!({"thinking": {"type": "disabled"}})),
            (false, true)
        );
        assert_eq!(
            read(json!({"thinking": {"type": "adaptive"}})),
            (true, true)
        );
        assert_eq!(read(json!({"thinking": omitted})), (true, false));
        let variables = json!({"chat_template_kwargs": {"enable_thinking": false}});
        assert_eq!(read(variables), (false, true));
    }

    /// Names of fields, each with members that are wrong in it.
    const WRONG: &str = r#"
        model {"model": null}
        max_tokens {"max_tokens": null}
        max_tokens {"max_tokens": -1}
        messages {"messages": []}
        messages {"messages": [{"role": "system", "content": "x"}]}
        messages {"messages": [{"role": "user"}]}
        messages {"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}
        messages {"messages": [{"role": "user", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]}]}
        messages {"messages": [{"role": "user", "content": [{"type": "tool_result", "content": "x"}]}]}
        messages {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": "{}"}]}]}
        system {"system": 1}
        stream {"stream": "yes"}
        stop_sequences {"stop_sequences": "x"}
        stop_sequences {"stop_sequences": [1]}
        top_p {"top_p": 2}
        thinking {"thinking": {"type": "enabled", "budget_tokens": 1023}}
        thinking {"thinking": {"type": "enabled", "budget_tokens": 2000}}
        thinking {"thinking": {"type": "on"}}
        output_config {"output_config": {"format": {"type": "json_object"}}}
        output_config {"output_config": {"format": {"type": "json_schema"}}}
        output_config {"output_config": 1}
        output_format {"output_format": {"type": "json_schema"}}
        tools {"tools": {}}
        tools {"tools": [{"name": "f"}]}
        tools {"tools": [{"name": "f", "input_schema": {"type": "array"}}]}
        tools {"tools": [{"type": "bash_20250124", "name": "bash"}]}
        tools {"tools": [{"name": "f", "input_schema": {}}, {"name": "f", "input_schema": {}}]}
        tool_choice {"tool_choice": {"type": "auto"}}
        tool_choice {"tools": [], "tool_choice": {"type": "any"}}
        tool_choice {"tools": [{"name": "f", "input_schema": {}}], "tool_choice": "auto"}
        tool_choice {"tools": [{"name": "f", "input_schema": {}}], "tool_choice": {"type": "tool", "name": "g"}}
        tool_choice {"tools": [{"name": "f", "input_schema": {}}], "tool_choice": {"type": "tool"}}
        disable_parallel_tool_use {"tools": [], "tool_choice": {"type": "any", "disable_parallel_tool_use": 1}}"#;

    #[test]
    fn errors_name_the_refused_field() {
        for line in WRONG.trim().lines() {
            let (field, members) = line.trim().split_once(' ').unwrap();
            let failure = read(&serde_json::from_str(members).unwrap()).unwrap_err();
            assert_eq!(
                (failure.status.as_u16(), failure.param),
                (400, Some(field)),
                "{line}"
            );
        }
    }

    #[test]
    fn the_version_is_required() {
        let check = |version: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(VERSION_HEADER, HeaderValue::from_static(version));
            check_version(&headers)
        };
        assert_eq!((check("2023-06-01"), check("2023-01-01")), (Ok(()), Ok(())));
        for failure in [check("2024-01-01"), check_version(&HeaderMap::new())] {
            let failure = failure.unwrap_err();
            assert_eq!(failure.status.as_u16(), 400);
            assert!(failure.message.contains(VERSION_HEADER));
        }
    }
}
