//! Ollama's own `/api/chat`: `{model, messages, options: {...}, format}`, answered by one JSON
//! object a line.
//!
//! Source: Ollama's API reference, `api/types.go` and `server/routes.go`; read, not run. `done:
//! true` ends the answer and brings the counts; `prompt_eval_count` is missing where the prompt was
//! cached, in some versions. Reasoning is `thinking`. An error after the stream began is a line
//! `{"error": "words"}` and stands for no status. `/api/generate` is read too (`response` in place
//! of `message`), but its body has a prompt where this one has messages. Image parts have a field
//! of their own there and are refused here.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::openai::COMPLETIONS;
use super::{ConstraintDialect, Input, KindSpec, ServerKind};
use crate::decode::{Framing, Wire};
use crate::product::{Info, InfoPage, ProductSpec, text_member};
use crate::shape::Shape;
use crate::wire::{self, Delta, Text, WireError};
use crate::{RequestOptions, Unsendable, body};
use sobench_core::case::{Case, Prompt};

pub(super) const SPEC: KindSpec = KindSpec {
    name: "ollama",
    path: "/api/chat",
    input: Input::Messages,
    dialects: &[ConstraintDialect::OllamaFormat],
    auto_dialect: |_| ConstraintDialect::OllamaFormat,
    body: Shape {
        nest: Some("options"),
        prompt: "messages",
        length: "num_predict",
        asks_usage: false,
        ignores_eos: false,
        renamed: &[("repetition_penalty", "repeat_penalty")],
        ..Shape::COMPLETIONS
    },
    error_messages: &["/error"],
    product: Some(ProductSpec {
        pages: &[InfoPage {
            path: "/api/version",
            read: read_version,
        }],
        ..ProductSpec::new("ollama", "Ollama")
    }),
    encode,
    wire: Wire {
        framing: Framing::Lines,
        ..Wire::sse(read)
    },
    ..COMPLETIONS
};

fn read_version(page: &Value) -> Option<Info> {
    Some(Info {
        version: Some(text_member(page, "version")?),
        ..Info::default()
    })
}

fn encode(kind: ServerKind, case: &Case, options: &RequestOptions) -> Result<Bytes, Unsendable> {
    if let Prompt::Messages(messages) = &case.prompt
        && let Some(message) = messages.iter().find(|message| !message.content.is_string())
    {
        let what = format!(
            "the ollama backend takes messages of text, not of parts: {:?}",
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
    }
    delta.is_content = !delta.text.is_empty() || !delta.reasoning.is_empty();
    Ok(delta)
}
