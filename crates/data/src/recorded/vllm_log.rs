//! vLLM's log with `--enable-log-requests`: the prompt and the sampling parameters of each request,
//! and in newer versions its body.
//!
//! The lines (`RequestLogger` of vLLM, read in versions of 0.6 to November 2026), after a level and
//! a time:
//! - up to 0.11: `Received request ID: prompt: 'TEXT', params: SamplingParams(...), ...`
//! - then, at the level DEBUG: `Request ID details: prompt: 'TEXT', prompt_token_ids: [...], ...`,
//!   and at INFO: `Received request ID: params: SamplingParams(...), ...`
//! - in newer versions also, at DEBUG: `Request ID JSON body: {...}`, without its last character
//!   unless `--max-log-len` is given

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::python;
use super::request::{Found, Request, body_members};
use sobench_core::dates::log_seconds;

pub(super) const NAME: &str = "lines of a vLLM log";

/// Parameters of the engine that are members of a request body, too.
const PARAMETERS: [&str; 18] = [
    "n",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "stop",
    "stop_token_ids",
    "bad_words",
    "include_stop_str_in_output",
    "ignore_eos",
    "max_tokens",
    "min_tokens",
    "logprobs",
    "skip_special_tokens",
];

/// Parameters with a constraint, before 0.12 and after.
const CONSTRAINTS: [&str; 2] = ["structured_outputs", "guided_decoding"];

/// The most prompts whose parameters were not logged yet.
const MAX_WAITING: usize = 10_000;

/// Reads lines in their order.
#[derive(Default)]
pub(super) struct VllmLog {
    /// Prompts by the id of their request.
    waiting: HashMap<String, Value>,
    /// Whether the log has bodies. Then other lines are of the same requests.
    has_bodies: bool,
}

impl VllmLog {
    pub(super) fn read(&mut self, line: &str) -> Option<Found<'static>> {
        let (_, line_of_request) = line.split_once("equest ")?;
        let at = log_seconds(line);
        if let Some((id, body)) = of_request(line_of_request, " JSON body: ") {
            let body = [body.to_owned(), format!("{body}}}")]
                .into_iter()
                .find(|body| body_members(body).is_ok())?;
            self.has_bodies = true;
            let id = Some(id.to_owned()).filter(|id| id != "N/A");
            return Some(Found::Request(Request {
                id,
                at,
                ..Request::from_body(body)
            }));
        }
        if self.has_bodies {
            return None;
        }
        if let Some((id, details)) = of_request(line_of_request, " details: prompt: ") {
            let (prompt, rest) = python::value(details)?;
            let ids = rest.strip_prefix(", prompt_token_ids: ");
            let prompt = match prompt {
                Value::Null => python::value(ids?)?.0,
                prompt => prompt,
            };
            if self.waiting.len() == MAX_WAITING {
                self.waiting.clear();
            }
            self.waiting.insert(id.to_owned(), prompt);
            return None;
        }
        let (_, received) = line.split_once("Received request ")?;
        let (id, mut rest) = received.split_once(": ")?;
        let mut prompt = self.waiting.remove(id);
        if let Some(text) = rest.strip_prefix("prompt: ") {
            let (value, after) = python::value(text)?;
            prompt = Some(value);
            rest = after.strip_prefix(", ")?;
        }
        let parameters = rest.strip_prefix("params: ")?;
        if !parameters.starts_with("SamplingParams(") {
            return Some(Found::Skipped("not a request for sampled text"));
        }
        let (parameters, _) = python::value(parameters)?;
        let Some(prompt) = prompt.filter(|prompt| !prompt.is_null()) else {
            return Some(Found::Skipped(
                "the prompt is not in the log, which needs VLLM_LOGGING_LEVEL=DEBUG",
            ));
        };
        Some(Found::Request(Request {
            id: Some(id.to_owned()),
            at,
            ..Request::from_body(body(id, prompt, &parameters))
        }))
    }
}

/// The id at the start of a text, before these words, and the text after them.
fn of_request<'l>(text: &'l str, words: &str) -> Option<(&'l str, &'l str)> {
    let (id, rest) = text.split_once(words)?;
    (!id.contains(' ')).then_some((id, rest))
}

/// A body of the completions endpoint. The prompt of a chat is already templated.
fn body(id: &str, prompt: Value, parameters: &Value) -> String {
    let mut body = Map::from_iter([
        ("model".to_owned(), "".into()),
        ("prompt".to_owned(), prompt),
    ]);
    if !id.starts_with("cmpl-") {
        // The template has added them.
        body.insert("add_special_tokens".to_owned(), false.into());
    }
    let is_set =
        |value: &&Value| !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty());
    for name in PARAMETERS {
        if let Some(value) = parameters.get(name).filter(is_set) {
            body.insert(name.to_owned(), value.clone());
        }
    }
    let mut constraints = CONSTRAINTS.iter().map(|name| &parameters[name]);
    if let Some(Value::Object(constraint)) = constraints.find(|value| value.is_object()) {
        let is_member = |name: &str, value: &Value| {
            !name.starts_with('_')
                && name != "backend"
                && !value.is_null()
                && value != &Value::Bool(false)
        };
        let members = constraint
            .iter()
            .filter(|(name, value)| is_member(name, value));
        let members: Map<String, Value> = members
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        body.insert("structured_outputs".to_owned(), members.into());
    }
    // Whether the answer was streamed is not logged.
    body.insert("stream".to_owned(), true.into());
    body.insert(
        "stream_options".to_owned(),
        serde_json::json!({"include_usage": true}),
    );
    Value::from(body).to_string()
}
