//! Ollama's native `/api/chat`: `{model, messages, options: {...}, format}`, answered by one JSON
//! object per line.
//!
//! Source: Ollama's API reference, `api/types.go` and `server/routes.go`; not tested against a
//! server. `done: true` ends the answer and has the counts; some versions omit `prompt_eval_count`
//! if the prompt was cached. A message has whole tool calls, whose arguments are an object, and their
//! answer ends with `stop`; there is no field for `tool_choice`. Reasoning is `thinking`. An error after the start of the stream is a
//! line `{"error": "..."}` without a status. Responses of `/api/generate` are read too (`response`
//! instead of `message`), but its requests differ. Image parts need a separate field and are
//! rejected here.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::openai::COMPLETIONS;
use super::{ConstraintDialect, Input, KindSpec, ServerKind};
use crate::body_layout::BodyLayout;
use crate::decode::{Framing, Wire};
use crate::product::{InfoPage, ProductSpec, ServerInfo, text_member};
use crate::wire::{self, Delta, Text, WireError};
use crate::{BodySettings, ThinkingSwitch, Unsendable, body};
use sobench_core::answer::ToolCall;
use sobench_core::case::{Case, Prompt};
use sobench_core::tools::ToolForm;

pub(super) const SPEC: KindSpec = KindSpec {
    name: "ollama",
    path: "/api/chat",
    input: Input::Messages,
    dialects: &[ConstraintDialect::OllamaFormat],
    auto_dialect: |_| ConstraintDialect::OllamaFormat,
    body: BodyLayout {
        nested_in: Some("options"),
        prompt: "messages",
        length: "num_predict",
        has_stream_options: false,
        has_ignore_eos: false,
        renamed: &[("repetition_penalty", "repeat_penalty")],
        ..BodyLayout::COMPLETIONS
    },
    tools: Some(ToolForm::Ollama),
    thinking_switches: &[ThinkingSwitch::Think],
    // `openai/openai.go` has no `max_completion_tokens`; models without a namespace belong to
    // `library`.
    product: Some(ProductSpec {
        owned_by: Some("library"),
        max_tokens_only: true,
        pages: &[InfoPage {
            path: "/api/version",
            read: read_version,
        }],
        ..ProductSpec::new("ollama", "Ollama")
    }),
    encode,
    wire: Wire {
        framing: Framing::Lines,
        stop_ends_calls: true,
        ..Wire::sse(read)
    },
    ..COMPLETIONS
};

fn read_version(page: &Value) -> Option<ServerInfo> {
    Some(ServerInfo {
        version: Some(text_member(page, "version")?),
        ..ServerInfo::default()
    })
}

fn encode(kind: ServerKind, case: &Case, options: &BodySettings) -> Result<Bytes, Unsendable> {
    if let Prompt::Messages(messages) = &case.prompt
        && let Some(message) = messages.iter().find(|message| !message.content.is_string())
    {
        let what = format!(
            "the ollama backend takes text messages, not content parts: {:?}",
            message.role
        );
        return Err(Unsendable::new(what, "write the content as one string"));
    }
    let body = json!({
        "model": options.model_of(case),
        "messages": body::messages(kind, case)?,
        "options": {"num_predict": case.output_len},
    });
    body::finish(kind, body, case, options)
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    message: Option<Message<'a>>,
    response: Option<Text<'a>>,
    thinking: Option<Text<'a>>,
    done: Option<bool>,
    done_reason: Option<Text<'a>>,
    prompt_eval_count: Option<&'a RawValue>,
    eval_count: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: Option<Text<'a>>,
    thinking: Option<Text<'a>>,
    tool_calls: Option<Vec<Call<'a>>>,
}

#[derive(Deserialize)]
struct Call<'a> {
    id: Option<Text<'a>>,
    #[serde(borrow)]
    function: Function<'a>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow)]
    index: Option<&'a RawValue>,
    name: Text<'a>,
    arguments: Option<&'a RawValue>,
}

impl Call<'_> {
    /// Older versions send neither an id nor an index.
    fn read(self, position: usize) -> ToolCall {
        let Function {
            index,
            name,
            arguments,
        } = self.function;
        ToolCall {
            index: wire::number(index).unwrap_or(position as u64),
            id: self.id.map(|id| id.0.into_owned()).unwrap_or_default(),
            name: name.0.into_owned(),
            arguments: arguments.map_or("{}", RawValue::get).to_owned(),
            ..ToolCall::default()
        }
    }
}

fn read(json: &str) -> serde_json::Result<Delta> {
    let chunk: Chunk<'_> = serde_json::from_str(json)?;
    let mut delta = Delta {
        is_answer: chunk.message.is_some() || chunk.response.is_some(),
        is_last: chunk.done == Some(true),
        usage: wire::usage(chunk.prompt_eval_count, chunk.eval_count),
        finish_reason: chunk.done_reason.map(|reason| reason.0.into_owned()),
        error: chunk.error.map(|error| WireError {
            status: wire::nested_status(error),
        }),
        ..Delta::default()
    };
    wire::add(&mut delta.text, chunk.response);
    wire::add(&mut delta.reasoning, chunk.thinking);
    if let Some(message) = chunk.message {
        wire::add(&mut delta.text, message.content);
        wire::add(&mut delta.reasoning, message.thinking);
        let calls = message.tool_calls.into_iter().flatten().enumerate();
        delta.tool_calls = calls.map(|(position, call)| call.read(position)).collect();
    }
    delta.is_content =
        !delta.text.is_empty() || !delta.reasoning.is_empty() || !delta.tool_calls.is_empty();
    Ok(delta)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::decoder;

    /// The calls and the finish reason of a response, streamed or whole.
    fn calls(stream: bool, body: &str) -> (Vec<(u64, String, String)>, Option<String>) {
        let mut decoder = decoder(SPEC.wire, stream, 1 << 12);
        decoder.push(body.as_bytes());
        decoder.finish();
        let decoded = decoder.into_decoded();
        assert_eq!(decoded.error, None);
        let calls = decoded.answer.tool_calls.into_iter();
        (
            calls
                .map(|call| (call.index, call.name, call.arguments))
                .collect(),
            decoded.finish_reason,
        )
    }

    #[test]
    fn whole_tool_calls_are_read_and_end_with_the_finish_reason_of_calls() {
        // Messages of Ollama's API reference.
        let call = r#"{"message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"get_weather","arguments":{"city": "Tokyo"}}}]},"done":false}"#;
        let end =
            r#"{"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}"#;
        let weather = |index, city: &str| {
            let arguments = format!(r#"{{"city": "{city}"}}"#);
            (index, "get_weather".to_owned(), arguments)
        };
        assert_eq!(
            calls(true, &format!("{call}\n{end}\n")),
            (vec![weather(0, "Tokyo")], Some("tool_calls".to_owned()))
        );
        let whole = call.replace("false", r#"true,"done_reason":"stop""#);
        assert_eq!(
            calls(false, &whole),
            (vec![weather(0, "Tokyo")], Some("tool_calls".to_owned()))
        );
        // Newer versions number the calls of an answer.
        let second = call
            .replace("Tokyo", "Paris")
            .replace(r#"{"name"#, r#"{"index":1,"name"#);
        assert_eq!(
            calls(true, &format!("{call}\n{second}\n{end}\n")).0,
            [weather(0, "Tokyo"), weather(1, "Paris")]
        );
        assert_eq!(calls(true, end), (vec![], Some("stop".to_owned())));
    }
}
