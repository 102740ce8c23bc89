//! Sends requests with a part to a server, one at a time.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;

use super::cause::{Stop, Target, Tried};
use super::failure::{Failure, Seen};
use super::input::{Part, Subject};
use super::target::{EngineServer, compile_limit};
use crate::terminal;
use sobench_backend::{Adapter, BodySettings, ConstraintDialect, Sampling, adapter};
use sobench_client::clock::Stopwatch;
use sobench_client::{Client, ClientSettings, get_path, send_body};
use sobench_core::case::{Case, Prompt};
use sobench_core::constraint::{Constraint, GrammarDialect};
use sobench_core::error::{Error, Result};
use sobench_core::error_message::error_message;
use sobench_core::observation::{Observation, Outcome, TOO_MANY_REQUESTS};
use sobench_core::run_event::AnswerForm;
use sobench_preflight::PreflightSettings;
use sobench_preflight::constraint_probe::PROMPT;
use sobench_shutdown::Shutdown;

/// Requests after which their number is shown.
const PROGRESS_EVERY: usize = 25;

/// Tokens of an answer whose text does not matter.
const FEW_TOKENS: u32 = 16;

/// The most tokens that a request body of the user may ask for.
const MAX_BODY_TOKENS: u64 = 64;

/// Requests without the constraint, whose median is what a slow one is compared with.
const CONTROLS: usize = 3;

/// Requests that decide whether one is slow.
const SLOW_TRIES: usize = 3;

/// A time that is this many limits long needs no second look.
const CLEAR: f64 = 2.0;

/// The start of the message of an embedded engine whose compile took too long.
const COMPILE_LIMIT: &str = "compile took longer";

/// How long a server that hangs has to come back, in time limits of a request, and the time between
/// two looks.
const RECOVERY_FACTOR: u32 = 3;
const RECOVERY_INTERVAL: Duration = Duration::from_millis(500);

/// What may be asked of a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) max_requests: usize,
    /// Time above the request without the constraint from which one is slow.
    pub(super) slow: Duration,
    pub(super) timeout: Duration,
    /// Whether failures that may harm the server are repeated.
    pub(super) may_harm: bool,
    /// Whether the number of requests is shown now and then.
    pub(super) progress: bool,
}

/// A server, and what is sent to it.
pub(super) struct Probe<'a> {
    pub(super) client: Client,
    adapter: Arc<dyn Adapter>,
    settings: &'a PreflightSettings,
    subject: &'a Subject,
    runtime: &'a Runtime,
    shutdown: &'a Shutdown,
    pub(super) limits: Limits,
    pub(super) requests: usize,
    /// Median time of the request without the constraint.
    pub(super) without_ms: f64,
    /// Why the server cannot be asked any more.
    lost: Option<Stop>,
    /// Sent with a list of tools.
    pub(super) tool_choice: &'static str,
    nonce: u64,
    nonces: usize,
    /// The embedded engine, which is started anew after a compile that took too long.
    engine: Option<EngineServer>,
}

impl<'a> Probe<'a> {
    /// Sends requests without the constraint.
    ///
    /// # Errors
    /// One is not answered, so that the constraint cannot be the cause.
    pub(super) fn new(
        client: &Client,
        settings: &'a PreflightSettings,
        subject: &'a Subject,
        (runtime, shutdown): (&'a Runtime, &'a Shutdown),
        limits: Limits,
        engine: Option<EngineServer>,
    ) -> Result<Self> {
        let client = Client::new(ClientSettings {
            request_timeout: Some(limits.timeout),
            idle_timeout: None,
            ..client.options().clone()
        })?;
        let mut probe = Self {
            client,
            adapter: Arc::from(adapter(settings.backend)),
            settings,
            subject,
            runtime,
            shutdown,
            limits,
            requests: 0,
            without_ms: 0.0,
            nonce: RandomState::new().hash_one(0_u8),
            lost: None,
            tool_choice: "auto",
            nonces: 0,
            engine,
        };
        let mut times = Vec::new();
        for _ in 0..CONTROLS {
            let body = probe.without_part()?;
            let observation = probe.exchange(body).map_err(|stop| probe.stopped(&stop))?;
            match seen(&observation) {
                Seen::Answered { ms, .. } => times.push(ms),
                Seen::Failed(failure) => {
                    return Err(Error::environment(format!(
                        "the same request without the constraint fails as well: {failure}"
                    ))
                    .hint("the constraint is not the cause; check --base-url, --backend, --model and the key"));
                }
            }
        }
        times.sort_by(f64::total_cmp);
        probe.without_ms = times[CONTROLS / 2];
        Ok(probe)
    }

    fn stopped(&self, stop: &Stop) -> Error {
        match stop {
            Stop::Interrupted => Error::interrupted("interrupted before there was a result"),
            Stop::Budget => Error::usage(format!(
                "--max-requests is too small: {}",
                self.limits.max_requests
            ))
            .hint("give at least 10"),
            Stop::Lost(why) => Error::environment(why.clone()),
        }
    }

    /// The answer to a prompt, sampled at temperature 1; with a tool, a call of it. A request body of the
    /// user keeps its `tool_choice`.
    ///
    /// # Errors
    /// No more requests may be sent.
    pub(super) fn answer(
        &mut self,
        part: &Part,
        prompt: &str,
        output_len: u32,
        tool: Option<&str>,
    ) -> Tried<Seen> {
        let unique = self.with_nonce(part);
        let mut body = self.body(Some(&unique), prompt, output_len, 1.0)?;
        if let Some(tool) = tool.filter(|_| self.subject.body.is_none()) {
            let mut members: Map<String, Value> = serde_json::from_slice(&body).unwrap_or_default();
            let choice = match members.contains_key("input") {
                true => json!({"type": "function", "name": tool}),
                false => json!({"type": "function", "function": {"name": tool}}),
            };
            members.insert("tool_choice".to_owned(), choice);
            body = Value::Object(members).to_string().into();
        }
        Ok(seen(&self.exchange(body)?))
    }

    /// The body of the final request, as a user would send it.
    ///
    /// # Errors
    /// This kind of server has no field for the constraint.
    pub(super) fn request(&self, part: &Part) -> Tried<Value> {
        let body = self.body(Some(part), PROMPT, FEW_TOKENS, 0.0)?;
        Ok(serde_json::from_slice(&body).unwrap_or_default())
    }

    fn without_part(&self) -> Result<Bytes> {
        self.body(None, PROMPT, FEW_TOKENS, 0.0)
            .map_err(|stop| self.stopped(&stop))
    }

    fn body(
        &self,
        part: Option<&Part>,
        prompt: &str,
        output_len: u32,
        temperature: f64,
    ) -> Tried<Bytes> {
        if let Some((body, pointer)) = &self.subject.body {
            let body = match prompt == PROMPT {
                true => with_few_tokens(body.clone()),
                false => with_prompt(body.clone(), prompt, output_len),
            };
            return Ok(self.body_of_user(body, pointer, part));
        }
        let constraint = match part {
            Some(Part::Schema(schema)) => Some(Constraint::JsonSchema(schema.clone().into())),
            Some(Part::Text(constraint)) => Some(constraint.clone()),
            Some(Part::Tools(_)) | None => None,
        };
        let kind = constraint
            .as_ref()
            .map(sobench_core::constraint::ConstraintKind::from_constraint);
        let case = Case::new(
            "explain",
            Prompt::Text(prompt.into()),
            constraint.map(Into::into),
            output_len,
        );
        let dialects = self.settings.dialects.iter().copied();
        let carries = |dialect: &ConstraintDialect| kind.is_none_or(|kind| dialect.carries(kind));
        let mut dialects_of_kind = dialects.clone().filter(carries);
        let dialect = dialects_of_kind.next().or_else(|| dialects.clone().next());
        let sampling = Sampling {
            temperature: Some(temperature),
            ..Sampling::default()
        };
        let settings: BodySettings = self.settings.request(
            dialect.unwrap_or(ConstraintDialect::ResponseFormat),
            sampling,
        );
        let body = self
            .adapter
            .encode(&case, &settings)
            .map_err(|unsendable| Stop::Lost(unsendable.what))?;
        let Some(Part::Tools(tools)) = part else {
            return Ok(body);
        };
        let mut body: Map<String, Value> = serde_json::from_slice(&body).unwrap_or_default();
        let is_flat = body.contains_key("input");
        body.insert("tools".to_owned(), tools_of(tools, is_flat));
        body.insert("tool_choice".to_owned(), self.tool_choice.into());
        Ok(Value::Object(body).to_string().into())
    }

    /// The body of the user with this part in its place.
    fn body_of_user(&self, body: Map<String, Value>, pointer: &str, part: Option<&Part>) -> Bytes {
        let mut body = Value::Object(body);
        let is_flat = body.get("input").is_some();
        match part {
            None => {
                let member = pointer.split('/').nth(1).unwrap_or_default();
                if let Some(members) = body.as_object_mut() {
                    members.shift_remove(member);
                    if member == "tools" {
                        members.shift_remove("tool_choice");
                        members.shift_remove("parallel_tool_calls");
                    }
                }
            }
            Some(part) => {
                if let Some(place) = body.pointer_mut(pointer) {
                    *place = match part {
                        Part::Schema(schema) => schema.clone(),
                        Part::Tools(tools) => tools_of(tools, is_flat),
                        Part::Text(constraint) => value_of(constraint),
                    };
                }
            }
        }
        if let Some(members) = body.as_object_mut() {
            members.insert("model".to_owned(), self.settings.model.as_str().into());
            members.insert("stream".to_owned(), self.settings.stream.into());
        }
        body.to_string().into()
    }

    fn exchange(&mut self, body: Bytes) -> Tried<Observation> {
        if self.shutdown.is_requested() {
            return Err(Stop::Interrupted);
        }
        if let Some(lost) = &self.lost {
            return Err(lost.clone());
        }
        if self.requests >= self.limits.max_requests {
            return Err(Stop::Budget);
        }
        self.requests += 1;
        if self.limits.progress && self.requests.is_multiple_of(PROGRESS_EVERY) {
            terminal::say(&format!("{} requests", self.requests));
        }
        let sent = send_body(
            &self.client,
            Arc::clone(&self.adapter),
            body,
            AnswerForm::new(self.settings.stream),
            None,
            "explain",
            self.shutdown,
        );
        let observation = self.runtime.block_on(sent);
        match &observation.outcome {
            Outcome::Cancelled => Err(Stop::Interrupted),
            Outcome::Rejected { status, body, .. } if *status == TOO_MANY_REQUESTS => {
                Err(Stop::Lost(format!(
                    "the server limits requests: {}",
                    error_message(body)
                )))
            }
            _ => Ok(observation),
        }
    }

    /// Waits until a small new constraint is answered; an embedded engine is started anew.
    fn recover(&mut self) -> Tried<()> {
        if let Some(engine) = &self.engine {
            let started =
                EngineServer::start(engine.engine, self.limits.slow).and_then(|started| {
                    let mut settings = self.client.options().clone();
                    settings.endpoint.base_url = started.base_url().to_owned();
                    Ok((Client::new(settings)?, started))
                });
            let (client, started) = started.map_err(|error| Stop::Lost(error.to_string()))?;
            (self.client, self.engine) = (client, Some(started));
            return Ok(());
        }
        let limit = self.limits.timeout * RECOVERY_FACTOR;
        let watch = Stopwatch::start();
        let small =
            Part::Schema(json!({"type": "object", "properties": {"ok": {"type": "boolean"}}}));
        while watch.time() < limit {
            let small = match &self.subject.part {
                Part::Schema(_) if self.subject.body.is_none() => Some(self.with_nonce(&small)),
                _ => None,
            };
            let body = self.body(small.as_ref(), PROMPT, FEW_TOKENS, 0.0)?;
            let is_up = self.runtime.block_on(get_path(&self.client, "/v1/models"));
            if is_up.is_some() && matches!(seen(&self.exchange(body)?), Seen::Answered { .. }) {
                return Ok(());
            }
            let pause = async { tokio::time::sleep(RECOVERY_INTERVAL).await };
            self.runtime.block_on(pause);
        }
        Err(Stop::Lost(format!(
            "the server answers no small request within {} s",
            limit.as_secs()
        )))
    }

    /// An embedded engine that refuses a constraint for the time of its compile hangs.
    fn with_compile_limit(&self, found: Seen) -> Seen {
        match found {
            Seen::Failed(Failure::Refused { message, .. })
                if self.engine.is_some() && message.starts_with(COMPILE_LIMIT) =>
            {
                Seen::Failed(Failure::Hangs {
                    limit_s: compile_limit(self.limits.slow).as_secs_f64(),
                })
            }
            other => other,
        }
    }

    /// The part, different from all earlier ones.
    fn with_nonce(&mut self, part: &Part) -> Part {
        self.nonces += 1;
        unique(part, &self.nonce_text())
    }

    fn nonce_text(&self) -> String {
        format!("n{:012x}{:03x}", self.nonce >> 16, self.nonces)
    }

    /// A failure whose words do not quote the nonce.
    fn without_nonce(&self, found: Seen) -> Seen {
        match found {
            Seen::Failed(Failure::Refused { status, message }) => {
                let nonce = self.nonce_text();
                let message = message
                    .replace(&format!("|{nonce}"), "")
                    .replace(&nonce, "");
                Seen::Failed(Failure::Refused { status, message })
            }
            other => other,
        }
    }
}

impl Target for Probe<'_> {
    fn send(&mut self, part: &Part, is_unique: bool) -> Tried<Seen> {
        let mut times = Vec::new();
        loop {
            let sent = match is_unique {
                true => self.with_nonce(part),
                false => part.clone(),
            };
            let body = self.body(Some(&sent), PROMPT, FEW_TOKENS, 0.0)?;
            let found = seen(&self.exchange(body)?);
            let found = self.with_compile_limit(self.without_nonce(found));
            match found {
                Seen::Answered { ms, .. }
                    if ms - self.without_ms >= self.limits.slow.as_secs_f64() * 1e3 =>
                {
                    times.push(ms);
                    let is_clear =
                        ms - self.without_ms >= CLEAR * self.limits.slow.as_secs_f64() * 1e3;
                    if times.len() < SLOW_TRIES && !is_clear && is_unique && self.limits.may_harm {
                        continue;
                    }
                    times.sort_by(f64::total_cmp);
                    return Ok(Seen::Failed(Failure::Slow {
                        ms: times[times.len() / 2],
                        without_ms: self.without_ms,
                    }));
                }
                Seen::Failed(Failure::Hangs { .. } | Failure::Crashes { .. }) => {
                    self.lost = self.recover().err();
                    return Ok(found);
                }
                found => return Ok(found),
            }
        }
    }
}

/// What an observation shows.
fn seen(observation: &Observation) -> Seen {
    let timing = &observation.timing;
    let sent_ns = timing.sent_ns.unwrap_or(timing.due_ns);
    let end_ns = timing
        .first_content_ns()
        .or(timing.end_ns)
        .unwrap_or(sent_ns);
    match &observation.outcome {
        Outcome::Completed
        | Outcome::Truncated
        | Outcome::Refused { .. }
        | Outcome::Abandoned
        | Outcome::Cancelled => Seen::Answered {
            ms: end_ns.saturating_sub(sent_ns) as f64 / 1e6,
            text: match observation.answer.tool_calls.first() {
                Some(call) => call.arguments.clone(),
                None => observation.answer.text().into_owned(),
            },
            is_complete: observation.outcome == Outcome::Completed,
            is_call: !observation.answer.tool_calls.is_empty(),
        },
        Outcome::Rejected { status, body, .. } | Outcome::ServerError { status, body, .. } => {
            Seen::Failed(Failure::Refused {
                status: *status,
                message: error_message(body),
            })
        }
        Outcome::Unsupported { what } => Seen::Failed(Failure::Refused {
            status: 0,
            message: what.clone(),
        }),
        Outcome::StreamError { message } => Seen::Failed(Failure::Refused {
            status: 200,
            message: message.clone(),
        }),
        Outcome::Transport { message, .. } => Seen::Failed(Failure::Crashes {
            message: message.clone(),
        }),
        Outcome::TimedOut { limit_ms, .. } => Seen::Failed(Failure::Hangs {
            limit_s: *limit_ms as f64 / 1e3,
        }),
    }
}

/// Request fields that limit the tokens of an answer.
const TOKEN_LIMITS: [&str; 3] = ["max_tokens", "max_completion_tokens", "max_output_tokens"];

/// A body of the user that asks for few tokens.
fn with_few_tokens(mut body: Map<String, Value>) -> Map<String, Value> {
    for limit in TOKEN_LIMITS {
        if let Some(tokens) = body.get_mut(limit)
            && tokens
                .as_u64()
                .is_some_and(|tokens| tokens > MAX_BODY_TOKENS)
        {
            *tokens = MAX_BODY_TOKENS.into();
        }
    }
    body
}

/// A body of the user with another prompt, so that it asks for a text.
fn with_prompt(mut body: Map<String, Value>, prompt: &str, output_len: u32) -> Map<String, Value> {
    let (field, value) = match () {
        () if body.contains_key("messages") => {
            ("messages", json!([{"role": "user", "content": prompt}]))
        }
        () if body.contains_key("input") => ("input", prompt.into()),
        () => ("prompt", prompt.into()),
    };
    let limits = TOKEN_LIMITS.into_iter();
    let limit = limits.clone().find(|limit| body.contains_key(*limit));
    let default = if field == "input" {
        TOKEN_LIMITS[2]
    } else {
        TOKEN_LIMITS[0]
    };
    body.insert(limit.unwrap_or(default).to_owned(), output_len.into());
    body.insert(field.to_owned(), value);
    body
}

/// Tools in the form of chat completions, or of responses.
fn tools_of(tools: &[Value], is_flat: bool) -> Value {
    let flat = |tool: &Value| match tool.get("function").and_then(Value::as_object) {
        Some(function) => {
            let mut members = Map::from_iter([("type".to_owned(), Value::from("function"))]);
            members.extend(function.clone());
            Value::Object(members)
        }
        None => tool.clone(),
    };
    match is_flat {
        true => tools.iter().map(flat).collect(),
        false => tools.to_vec().into(),
    }
}

/// The value of a constraint in a request field.
fn value_of(constraint: &Constraint) -> Value {
    let written = serde_json::to_value(constraint).unwrap_or_default();
    let value = written
        .as_object()
        .and_then(|members| members.values().next());
    match constraint.grammar() {
        Some((_, text)) => (**text).into(),
        None => value.cloned().unwrap_or_default(),
    }
}

/// A part that differs from all others by a word that says nothing: in a description, a comment, or
/// as one more choice. Structural tags stay as they are.
fn unique(part: &Part, nonce: &str) -> Part {
    let described = |value: &mut Value| {
        if let Some(members) = value.as_object_mut() {
            let before = members.get("description").and_then(Value::as_str);
            // Of the same length where it can be, since servers limit it.
            let kept = before.map_or(0, |before| {
                before.chars().count().saturating_sub(nonce.len())
            });
            let before: String = before.unwrap_or_default().chars().take(kept).collect();
            let text = format!("{before}{nonce}");
            members.insert("description".to_owned(), text.into());
        }
    };
    let mut part = part.clone();
    match &mut part {
        Part::Schema(schema) => described(schema),
        Part::Tools(tools) => {
            if let Some(function) = tools.first_mut().and_then(|tool| tool.get_mut("function")) {
                described(function);
            }
        }
        Part::Text(constraint) => {
            *constraint = match &*constraint {
                Constraint::Regex(pattern) => {
                    Constraint::Regex(format!("{pattern}|{nonce}").into())
                }
                Constraint::Choice(choices) => {
                    Constraint::Choice(choices.iter().cloned().chain([nonce.to_owned()]).collect())
                }
                Constraint::Grammar { dialect, text } => Constraint::Grammar {
                    dialect: *dialect,
                    text: match dialect {
                        GrammarDialect::Lark => format!("{text}\n// {nonce}\n").into(),
                        GrammarDialect::Ebnf => format!("{text}\n# {nonce}\n").into(),
                    },
                },
                other => other.clone(),
            };
        }
    }
    part
}
