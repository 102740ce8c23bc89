//! A chat server with tools: a model that does what the prompt asks, and a server that enforces
//! what the request demands, except for one fault.

use serde_json::{Value, json};

use crate::chat::{ChatAnswer, ChatCall, ChatReply, chat_server, prompt};
use crate::scripted::ScriptedServer;

/// What the server does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolFault {
    /// Reads `tool_choice` as `auto`.
    DropChoice,
    /// Does not enforce schemas, also with `strict`.
    DropStrict,
    /// Ignores `parallel_tool_calls: false`.
    DropLimit,
    /// Calls under `none`.
    CallUnderNone,
    /// Leaves calls as text in the content.
    Leak,
    /// Leaves calls as text in the content of streams.
    LeakInStreams,
    /// Joins several calls into one.
    Merge,
    /// Ends calls in the middle of the arguments.
    Cut,
    /// The same, in answers of at most this number of tokens.
    CutAtTokens(u64),
    /// Gives all calls the same id.
    DuplicateId,
    /// Ends answers with calls with the finish reason `stop`.
    Stop,
    /// Writes white space in place of arguments, up to the token limit.
    WhiteSpace,
    /// Writes the arguments of required calls as content.
    ArgumentsInContent,
    /// The model never calls by itself.
    SilentModel,
    /// The model writes only values that the schemas or the descriptions allow.
    CautiousModel,
    /// The model calls also where it is asked for plain words.
    EagerModel,
    /// Refuses `allowed_tools`.
    RejectAllowedTools,
    /// Fails if the request has tools.
    Fail,
    /// Leaves the tools out of the prompt.
    DropTools,
}

/// A tool of a request.
struct Tool {
    name: String,
    /// Its only member.
    member: String,
    /// The values that the schema or the description allows.
    allowed: Vec<String>,
    is_closed: bool,
    strict: bool,
}

/// The server.
pub fn tool_server(fault: Option<ToolFault>) -> ScriptedServer {
    chat_server(move |body| match reply(body, fault) {
        ChatReply::Answer(answer) => ChatReply::Answer(ChatAnswer {
            prompt_tokens: Some(prompt_tokens(body, fault)),
            ..answer
        }),
        status => status,
    })
}

/// Bytes stand for tokens.
fn prompt_tokens(body: &Value, fault: Option<ToolFault>) -> u64 {
    let bytes = |member: &str| body[member].to_string().len() as u64;
    match fault {
        Some(ToolFault::DropTools) => bytes("messages"),
        _ => bytes("messages") + bytes("tools"),
    }
}

fn reply(body: &Value, fault: Option<ToolFault>) -> ChatReply {
    let is = |other: ToolFault| fault == Some(other);
    let Some(tools) = tools(body) else {
        return ChatAnswer::from_text("The waves are high today.").into();
    };
    let choice = &body["tool_choice"];
    if is(ToolFault::Fail) {
        return ChatReply::Status("500 Internal Server Error", "it broke");
    }
    if is(ToolFault::RejectAllowedTools) && choice["type"] == "allowed_tools" {
        return ChatReply::Status(
            "400 Bad Request",
            r#"{"error": {"message": "unknown tool_choice"}}"#,
        );
    }
    let calls = calls(body, &tools, fault);
    if calls.is_empty() {
        return ChatAnswer::from_text("The waves are high today.").into();
    }
    let is_leaking =
        is(ToolFault::Leak) || (is(ToolFault::LeakInStreams) && body["stream"] == true);
    if is_leaking {
        let text: String = calls
            .iter()
            .map(|(name, arguments)| {
                format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {arguments}}}\n</tool_call>")
            })
            .collect();
        return ChatAnswer::from_text(text).into();
    }
    if is(ToolFault::ArgumentsInContent) && *choice != "auto" {
        return ChatAnswer::from_text(calls[0].1.clone()).into();
    }
    answer(body, calls, fault).into()
}

fn answer(body: &Value, mut calls: Vec<(String, String)>, fault: Option<ToolFault>) -> ChatAnswer {
    let is = |other: ToolFault| fault == Some(other);
    if is(ToolFault::Merge) && calls.len() > 1 {
        let arguments = calls
            .iter()
            .map(|(_, arguments)| arguments.as_str())
            .collect();
        calls = vec![(calls[0].0.clone(), arguments)];
    }
    let limit = body["max_completion_tokens"].as_u64().unwrap_or(u64::MAX);
    let is_cut = match fault {
        Some(ToolFault::Cut) => true,
        Some(ToolFault::CutAtTokens(tokens)) => limit <= tokens,
        _ => false,
    };
    let mut finish_reason = if is(ToolFault::Stop) {
        "stop"
    } else {
        "tool_calls"
    };
    if is_cut || is(ToolFault::WhiteSpace) {
        finish_reason = "length";
    }
    let calls = calls
        .into_iter()
        .enumerate()
        .map(|(index, (name, mut arguments))| {
            if is_cut {
                arguments.truncate(arguments.len() / 2);
            }
            if is(ToolFault::WhiteSpace) {
                arguments = format!("{{{}", " \n".repeat(60));
            }
            let id = if is(ToolFault::DuplicateId) {
                "call".to_owned()
            } else {
                format!("call-{index}")
            };
            ChatCall {
                id,
                name,
                arguments,
            }
        });
    ChatAnswer {
        calls: calls.collect(),
        finish_reason,
        ..ChatAnswer::from_text("")
    }
}

/// Names and arguments of the calls.
fn calls(body: &Value, tools: &[Tool], fault: Option<ToolFault>) -> Vec<(String, String)> {
    let is = |other: ToolFault| fault == Some(other);
    let prompt = prompt(body);
    let wanted: Vec<&Tool> = tools
        .iter()
        .filter(|tool| prompt.contains(&tool.name))
        .collect();
    let by_itself = match () {
        () if is(ToolFault::SilentModel) => Vec::new(),
        () if is(ToolFault::EagerModel) && wanted.is_empty() => vec![&tools[0]],
        () => wanted,
    };
    let choice = &body["tool_choice"];
    let named = choice
        .pointer("/function/name")
        .or_else(|| choice.pointer("/allowed_tools/tools/0/function/name"));
    let named = named.and_then(|name| tools.iter().find(|tool| *name == tool.name.as_str()));
    let (mut called, is_forced) = match (named, choice.as_str()) {
        _ if is(ToolFault::DropChoice) => (by_itself, false),
        (Some(tool), _) => (vec![tool], true),
        (None, Some("none")) if is(ToolFault::CallUnderNone) => (by_itself, false),
        (None, Some("none")) => (Vec::new(), false),
        (None, Some("required")) if by_itself.is_empty() => (vec![&tools[0]], true),
        _ => (by_itself, false),
    };
    if body["parallel_tool_calls"] == false && !is(ToolFault::DropLimit) {
        called.truncate(1);
    }
    let arguments = |tool: &Tool| {
        let is_enforced =
            tool.is_closed && (tool.strict || is_forced) && !is(ToolFault::DropStrict);
        let value = match requested(prompt, tool) {
            Some(value) if !is_enforced && !is(ToolFault::CautiousModel) => value,
            _ => tool.allowed[0].clone(),
        };
        json!({&tool.member: value}).to_string()
    };
    called
        .into_iter()
        .map(|tool| (tool.name.clone(), arguments(tool)))
        .collect()
}

/// The value that the prompt requests for a tool.
fn requested(prompt: &str, tool: &Tool) -> Option<String> {
    let (_, after) = prompt.split_once(&format!("{} set to exactly \"", tool.member))?;
    Some(after.split_once('"')?.0.to_owned())
}

/// The functions of a request; `None` if it has no tools, or others than those with one text.
fn tools(body: &Value) -> Option<Vec<Tool>> {
    body["tools"].as_array()?.iter().map(tool).collect()
}

fn tool(value: &Value) -> Option<Tool> {
    let function = &value["function"];
    let properties = function["parameters"]["properties"].as_object()?;
    let (member, schema) = properties.iter().next()?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let allowed = match (&schema["const"], schema["enum"].as_array()) {
        (Value::String(value), _) => vec![value.clone()],
        (_, Some(values)) => values.iter().map(text).collect::<Option<Vec<_>>>()?,
        _ => {
            let description = schema["description"].as_str()?;
            vec![description.split([' ', ';']).next()?.to_owned()]
        }
    };
    Some(Tool {
        name: text(&function["name"])?,
        member: member.clone(),
        allowed,
        is_closed: schema.get("description").is_none(),
        strict: function["strict"] == true,
    })
}
