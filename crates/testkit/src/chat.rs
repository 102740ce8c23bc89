//! A chat server whose replies have reasoning, content and tool calls, streamed or whole as the
//! request asks.

use std::io::Write;

use serde_json::{Value, json};

use crate::scripted::{STREAM_HEAD, ScriptedServer, Then, chunk, models, whole};

/// Pieces into which the arguments of a streamed call are split.
const PIECES: usize = 3;

/// A reply of the server.
#[derive(Clone, Debug)]
pub enum ChatReply {
    Answer(ChatAnswer),
    /// A status and a body.
    Status(&'static str, &'static str),
}

/// An answer, by channel.
#[derive(Clone, Debug)]
pub struct ChatAnswer {
    pub reasoning: String,
    pub content: String,
    pub calls: Vec<ChatCall>,
    pub finish_reason: &'static str,
    /// Tokens of the prompt, if the server counts tokens.
    pub prompt_tokens: Option<u64>,
}

/// A tool call.
#[derive(Clone, Debug)]
pub struct ChatCall {
    pub id: String,
    pub name: String,
    pub arguments: String,
}

impl ChatAnswer {
    /// An answer with content only.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self {
            reasoning: String::new(),
            content: text.into(),
            calls: Vec::new(),
            finish_reason: "stop",
            prompt_tokens: None,
        }
    }

    /// Reasoning, then content.
    pub fn thinking(reasoning: impl Into<String>, content: impl Into<String>) -> Self {
        Self {
            reasoning: reasoning.into(),
            ..Self::from_text(content)
        }
    }

    /// The same answer, cut at the token limit.
    #[must_use]
    pub fn cut(self) -> Self {
        Self {
            finish_reason: "length",
            ..self
        }
    }
}

impl From<ChatAnswer> for ChatReply {
    fn from(answer: ChatAnswer) -> Self {
        Self::Answer(answer)
    }
}

/// A server that lists one model and replies to each generation request as `script` specifies.
pub fn chat_server(script: impl Fn(&Value) -> ChatReply + Send + Sync + 'static) -> ScriptedServer {
    ScriptedServer::new(move |request, stream| {
        let bytes = if request.line.starts_with("GET ") {
            match request.is_model_list() {
                true => models(),
                false => whole("404 Not Found", "text/plain", "no such page"),
            }
            .into_bytes()
        } else {
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            bytes(script(&body), body["stream"] == true)
        };
        // The client may have disconnected.
        match stream.write_all(&bytes) {
            Ok(()) => Then::Keep,
            Err(_) => Then::Close,
        }
    })
}

/// The text of the last message of a request.
pub fn prompt(body: &Value) -> &str {
    let messages = body["messages"].as_array().unwrap();
    messages.last().unwrap()["content"].as_str().unwrap()
}

fn bytes(reply: ChatReply, stream: bool) -> Vec<u8> {
    let answer = match reply {
        ChatReply::Status(status, body) => {
            return whole(status, "application/json", body).into_bytes();
        }
        ChatReply::Answer(answer) => answer,
    };
    if !stream {
        return whole("200 OK", "application/json", &message(&answer)).into_bytes();
    }
    let events: String = deltas(&answer)
        .into_iter()
        .map(|choice| json!({"choices": [choice]}))
        .chain(usage(&answer).map(|usage| json!({"choices": [], "usage": usage})))
        .map(|frame| format!("data: {frame}\n\n"))
        .chain(["data: [DONE]\n\n".to_owned()])
        .collect();
    [
        STREAM_HEAD.as_bytes(),
        &chunk(events.as_bytes()),
        &chunk(b""),
    ]
    .concat()
}

fn message(answer: &ChatAnswer) -> String {
    let calls = answer.calls.iter().map(|call| {
        json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
    });
    let calls: Vec<Value> = calls.collect();
    let mut message = json!({"role": "assistant", "content": answer.content});
    if !answer.reasoning.is_empty() {
        message["reasoning_content"] = answer.reasoning.as_str().into();
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let choice = json!({"index": 0, "message": message, "finish_reason": answer.finish_reason});
    let mut whole = json!({"choices": [choice]});
    if let Some(usage) = usage(answer) {
        whole["usage"] = usage;
    }
    whole.to_string()
}

fn usage(answer: &ChatAnswer) -> Option<Value> {
    let output = deltas(answer).len() as u64;
    let usage = |prompt| json!({"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output});
    answer.prompt_tokens.map(usage)
}

fn deltas(answer: &ChatAnswer) -> Vec<Value> {
    let delta = |delta: Value| json!({"index": 0, "delta": delta, "finish_reason": null});
    let mut deltas = vec![delta(json!({"role": "assistant", "content": ""}))];
    for (name, text) in [
        ("reasoning_content", &answer.reasoning),
        ("content", &answer.content),
    ] {
        deltas.extend(
            pieces(text)
                .into_iter()
                .map(|piece| delta(json!({name: piece}))),
        );
    }
    for (index, call) in answer.calls.iter().enumerate() {
        let function = json!({"name": call.name, "arguments": ""});
        deltas.push(delta(json!({"tool_calls": [
            {"index": index, "id": call.id, "type": "function", "function": function}
        ]})));
        deltas.extend(pieces(&call.arguments).into_iter().map(|piece| {
            delta(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}))
        }));
    }
    deltas.push(json!({"index": 0, "delta": {}, "finish_reason": answer.finish_reason}));
    deltas
}

/// The text in [`PIECES`] pieces; none of an empty one.
fn pieces(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let size = characters.len().div_ceil(PIECES).max(1);
    characters
        .chunks(size)
        .map(|piece| piece.iter().collect())
        .collect()
}
