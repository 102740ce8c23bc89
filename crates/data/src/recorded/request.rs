//! A recorded request, as the forms of files give it.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::Value;
use serde_json::value::RawValue;
use sobench_core::dates::unix_seconds;
use sobench_core::input::json::message_without_line;

/// The members of a JSON object, as written.
pub(super) type Members<'l> = HashMap<String, &'l RawValue>;

/// What a form reads of a JSON object: `None` if the object has another form.
pub(super) type Read<'l> = Option<Result<Vec<Found<'l>>, String>>;

/// What a part of a file has.
#[derive(Clone, Debug, PartialEq)]
pub enum Found<'l> {
    Request(Request<'l>),
    /// Why a recorded request cannot be sent.
    Skipped(&'static str),
}

/// A recorded request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request<'l> {
    /// The name of the request in the file, such as `custom_id`.
    pub id: Option<String>,
    /// When it was sent, in seconds. Only differences have a meaning.
    pub at: Option<f64>,
    /// The path of its endpoint, if the file states it.
    pub url: Option<String>,
    pub content: Content<'l>,
    /// Why its answer cannot be judged, if the body does not show it.
    pub unjudged: Option<&'static str>,
}

/// What was recorded of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Content<'l> {
    /// The text of a JSON object with one of [`PROMPTS`].
    Body(Cow<'l, str>),
    Lengths(Lengths),
}

/// A request of which only the lengths were recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct Lengths {
    /// Tokens of the prompt.
    pub input: u32,
    /// Tokens of the answer.
    pub output: u32,
    /// Names of the blocks of [`BLOCK_TOKENS`] tokens that the prompt consists of. Empty if unknown.
    pub blocks: Vec<u64>,
}

/// Tokens of a block of [`Lengths::blocks`].
pub const BLOCK_TOKENS: usize = 512;

/// Members that one body of each endpoint has, with the path of that endpoint.
pub const PROMPTS: [(&str, &str); 3] = [
    ("messages", "/v1/chat/completions"),
    ("prompt", "/v1/completions"),
    ("input", "/v1/responses"),
];

impl<'l> Request<'l> {
    /// A request with a body and nothing else.
    pub(super) fn from_body(body: impl Into<Cow<'l, str>>) -> Self {
        Self {
            id: None,
            at: None,
            url: None,
            content: Content::Body(body.into()),
            unjudged: None,
        }
    }
}

/// The members of a JSON object.
///
/// # Errors
/// The text is not JSON, or not an object.
pub(super) fn members(text: &str) -> Result<Members<'_>, String> {
    serde_json::from_str(text).map_err(|error| match error.is_data() {
        true => "not an object".to_owned(),
        false => format!("not JSON: {}", message_without_line(&error)),
    })
}

/// The members of a request body.
///
/// # Errors
/// The text is not an object, or has none of [`PROMPTS`].
pub(super) fn body_members(text: &str) -> Result<Members<'_>, String> {
    let members = members(text)?;
    match is_body(&members) {
        true => Ok(members),
        false => Err("a body without messages, prompt or input".to_owned()),
    }
}

/// Whether an object is a request body.
pub(super) fn is_body(members: &Members<'_>) -> bool {
    PROMPTS.iter().any(|(name, _)| members.contains_key(*name))
}

/// The value of a member; null without it.
pub(super) fn value(members: &Members<'_>, name: &str) -> Value {
    let raw = members.get(name);
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
        .unwrap_or_default()
}

/// A time in seconds. Numbers are seconds, or milliseconds, microseconds or nanoseconds since 1970
/// if they are too large; texts are in RFC 3339.
pub(super) fn seconds(value: &Value) -> Option<f64> {
    let number = match value {
        Value::String(text) => match text.parse() {
            Ok(number) => number,
            Err(_) => return unix_seconds(text),
        },
        value => value.as_f64()?,
    };
    let scale = [(1e17, 1e9), (1e14, 1e6), (1e11, 1e3)];
    let scale = scale.into_iter().find(|(least, _)| number >= *least);
    let seconds = number / scale.map_or(1.0, |(_, scale)| scale);
    (seconds.is_finite() && seconds >= 0.0).then_some(seconds)
}
