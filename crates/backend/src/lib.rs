//! Server kinds and constraint dialects: request bodies and decoders of responses.
//!
//! A server kind ([`ServerKind`], `--backend`) defines the endpoint and the message formats. A
//! constraint dialect ([`ConstraintDialect`], `--constraint-dialect`) defines the request fields
//! that carry the constraint. Both are registries: one file with a `SPEC` for each, and one line in
//! the list of `kind/mod.rs` or `dialect/mod.rs`.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod answer;
#[cfg(test)]
mod bodies_tests;
mod body;
mod body_layout;
mod check;
mod decode;
pub mod dialect;
mod event_numbers;
mod event_template;
pub mod identify;
mod kind;
mod lists;
mod ndjson;
mod product;
mod refused_keyword;
pub mod server_metrics;
pub mod sse;
mod stream_fault;
mod thinking;
mod wire;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use answer::{
    AnswerError, Decoded, Decoder, ReadSummary, outcome_of_finish_reason, outcome_of_status,
};
pub use check::{check, unsupported};
pub use decode::{DEFAULT_MAX_EVENT_BYTES, QUOTED_BYTES};
pub use dialect::ConstraintDialect;
pub use kind::{Credentials, Input, ServerKind};
pub use product::{Product, ServerInfo, text_member};
pub use refused_keyword::refused_keyword;
pub use stream_fault::StreamFault;
pub use thinking::ThinkingSwitch;

#[cfg(doc)]
use sobench_core::case::Arm;
use sobench_core::case::{Case, Prompt};
use sobench_core::error::Error;
use sobench_core::run_event::AnswerForm;

/// The media type of most request bodies.
const JSON: &str = "application/json";

/// Options that all requests of a run share.
#[derive(Clone, Debug, PartialEq)]
pub struct BodySettings {
    /// The model's name on the server (`--served-model-name`, else `--model`).
    pub model: String,
    /// Whether streaming is requested.
    pub stream: bool,
    pub sampling: Sampling,
    /// Sent only if true. A server may then continue after the constraint is complete.
    pub ignore_eos: bool,
    pub dialect: ConstraintDialect,
    /// `--guided-decoding-backend`: sent in the `guided` dialect only, as other dialects have no
    /// field for it.
    pub guided_decoding_backend: Option<String>,
    /// The field that turns thinking on in [`Arm::ThinkConstraint`] and off in other arms; `None`
    /// leaves it to the server.
    pub thinking: Option<ThinkingSwitch>,
    /// Whether the token limit of chat completions is sent as `max_tokens`, because the server does
    /// not read `max_completion_tokens`.
    pub max_tokens_only: bool,
    /// `--extra-body`: merged over everything else; see `check` for the fields that it must not
    /// set.
    pub extra_body: Option<Map<String, Value>>,
}

impl BodySettings {
    /// Whether the answer to a case is a stream.
    pub fn form(&self, case: &Case) -> AnswerForm {
        AnswerForm::new(self.stream && case.prompt.allows_stream())
    }

    /// The model that a case requests.
    pub fn model_of<'a>(&'a self, case: &'a Case) -> &'a str {
        case.model.as_deref().unwrap_or(&self.model)
    }
}

/// Sampling parameters. Only those that were given are sent, so that the server's defaults apply
/// otherwise.
#[derive(Clone, Debug, Default, PartialEq, schemars::JsonSchema, Serialize, Deserialize)]
pub struct Sampling {
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub top_k: Option<i64>,
    pub min_p: Option<f64>,
    pub frequency_penalty: Option<f64>,
    pub presence_penalty: Option<f64>,
    pub repetition_penalty: Option<f64>,
    pub seed: Option<i64>,
}

/// The wire format of one server kind. The default methods follow the kind's `SPEC`.
pub trait Adapter: Send + Sync {
    /// The server kind.
    fn kind(&self) -> ServerKind;

    /// The request body, of type [`Self::content_type`].
    fn encode(&self, case: &Case, options: &BodySettings) -> Result<Bytes, Unsendable> {
        match &case.prompt {
            Prompt::Body(text) => body::recorded(self.kind(), text, case, options),
            _ => (self.kind().spec().encode)(self.kind(), case, options),
        }
    }

    /// A new decoder for one response: an event stream or one whole body. `max_event_bytes` limits
    /// one event of a stream; the caller limits a whole body.
    fn decoder(&self, stream: bool, max_event_bytes: usize) -> Box<dyn Decoder> {
        decode::decoder(self.kind().spec().wire, stream, max_event_bytes)
    }

    /// The media type of request bodies.
    fn content_type(&self) -> &'static str {
        JSON
    }

    /// The media type of streams of this kind, without parameters. Responses of other types are
    /// read as one whole body.
    fn stream_media_type(&self) -> &'static str {
        self.kind().spec().wire.framing.media_type()
    }
}

impl Adapter for ServerKind {
    fn kind(&self) -> ServerKind {
        *self
    }
}

/// The adapter of a server kind.
pub fn adapter(kind: ServerKind) -> Box<dyn Adapter> {
    (kind.spec().adapter)(kind)
}

/// Why a case cannot be sent as requested. `check` finds it before any request is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsendable {
    /// The error message without the case's id; lower case, no full stop.
    pub what: String,
    /// A hint for the user.
    pub hint: String,
}

impl Unsendable {
    fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            hint: hint.into(),
        }
    }

    /// The error with the case's id.
    pub fn into_error(self, case: &Case) -> Error {
        Error::usage(format!("{}: case {:?}", self.what, case.id)).hint(self.hint)
    }
}
