//! Server kinds: how a case becomes a request and bytes become deltas.
//!
//! A server kind ([`ServerKind`], `--backend`) says which endpoint and message shapes are spoken; a
//! constraint dialect ([`ConstraintDialect`], `--constraint-dialect`) says which request fields
//! carry the constraint. Both are registries: one file with a `SPEC` for each, one line in the list
//! of `kind/mod.rs` or `dialect/mod.rs`.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod answer;
#[cfg(test)]
mod bodies;
mod body;
mod check;
mod decode;
pub mod dialect;
mod error_message;
pub mod identify;
mod kind;
mod likeness;
mod lists;
mod ndjson;
mod product;
mod shape;
pub mod sse;
mod wire;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use answer::{Broken, Decoded, Decoder, Fed, outcome_of_status};
pub use check::{check, unsupported};
pub use decode::{DEFAULT_MAX_EVENT_BYTES, QUOTED_BYTES};
pub use dialect::ConstraintDialect;
pub use error_message::error_message;
pub use kind::{Input, ServerKind};
pub use product::{Info, Product, text_member};

use sobench_core::case::Case;
use sobench_core::error::Error;

/// The media type of most request bodies.
const JSON: &str = "application/json";

/// What every request of a run has in common.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestOptions {
    /// The model's name as the server knows it (`--served-model-name`, else `--model`).
    pub model: String,
    /// Whether the answer is asked for as a stream of events.
    pub stream: bool,
    pub sampling: Sampling,
    /// Sent only if true. A server may then go on past the end of what the constraint allows.
    pub ignore_eos: bool,
    pub dialect: ConstraintDialect,
    /// `--guided-decoding-backend`: sent in the `guided` dialect only, as no other dialect has a
    /// field for it.
    pub guided_decoding_backend: Option<String>,
    /// `--extra-body`: merged over everything else, see [`check`] for what it must not touch.
    pub extra_body: Option<Map<String, Value>>,
}

impl RequestOptions {
    /// The model that a case asks for.
    pub fn model_of<'a>(&'a self, case: &'a Case) -> &'a str {
        case.model.as_deref().unwrap_or(&self.model)
    }
}

/// Sampling parameters; only what was given is sent, so that the server's own defaults hold
/// otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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

/// One kind of server's wire format; what is not written otherwise is as the kind's `SPEC` says.
pub trait Adapter: Send + Sync {
    /// The kind it speaks for.
    fn kind(&self) -> ServerKind;

    /// The whole request body, of [`Self::content_type`].
    fn encode(&self, case: &Case, options: &RequestOptions) -> Result<Bytes, Unsendable> {
        (self.kind().spec().encode)(self.kind(), case, options)
    }

    /// A fresh decoder for one answer: of an event stream, or of one whole body. `max_event_bytes`
    /// bounds one event of a stream; a whole body is bounded by whoever reads it.
    fn decoder(&self, stream: bool, max_event_bytes: usize) -> Box<dyn Decoder> {
        decode::decoder(self.kind().spec().wire, stream, max_event_bytes)
    }

    /// What request bodies are.
    fn content_type(&self) -> &'static str {
        JSON
    }

    /// The media type, without parameters, by which a stream of this kind is known. Anything else
    /// is read as one whole body.
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

/// Why a case cannot be put on the wire as asked. Found by [`check`] before anything is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsendable {
    /// What does not fit, without the case's id; lower case, no full stop.
    pub what: String,
    /// What to do about it.
    pub hint: String,
}

impl Unsendable {
    fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            hint: hint.into(),
        }
    }

    /// The error for people, naming the case.
    pub fn into_error(self, case: &Case) -> Error {
        Error::usage(format!("{}: case {:?}", self.what, case.id)).hint(self.hint)
    }
}
