//! The dataset `sessions`: conversations of several turns with tool calls, generated from the seed
//! ([`scenarios`]) or read from a file ([`mod@file`]). Each turn is a request with the whole history.

mod file;
mod scenarios;

use std::path::Path;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sobench_pycompat::random::PythonRandom;

use super::flags::{PathFlags, ShortfallFlags};
use super::registry::{ConstraintScope, DOCUMENT_OUTPUT_LEN, DatasetKind, Inputs, Spec};
use super::{DatasetArgs, DatasetPlan, Row, Rows, RowsKind, SHIPPED, Shortfall};
use sobench_core::case::{Message, Prompt, Turn};
use sobench_core::constraint::{Constraint, sha256_hex};
use sobench_core::error::{Error, Result};
use sobench_core::scorer::Scorer;
use sobench_plan::dataset::{Cell, PromptForm};

/// The most turns of a session.
pub const MAX_TURNS: usize = 1000;
/// The most bytes of messages in the prompts of a run. Each turn has the whole history.
const MAX_PROMPT_BYTES: u64 = 1 << 30;

/// Separates the random stream of sessions from other draws: the ASCII codes of `sess`, above the
/// 64 bits of the seed.
const STREAM: u128 = 0x7365_7373 << 64;

/// Whose answers are in the history of later turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum SessionMode {
    /// The recorded ones, so that every server gets the same prompts
    #[default]
    Recorded,
    /// The model's own, with the scripted results of the tools that it calls
    Live,
}

/// The flags of `sessions`.
#[derive(Args, Clone, Debug, Default)]
pub struct SessionsFlags {
    /// Answers in the history of later turns of a session [default: recorded]
    #[arg(long, value_name = "MODE", value_enum)]
    pub session_mode: Option<SessionMode>,
    /// Factor of the delays between the turns of a session; 0 sends each turn at once [default: 1]
    #[arg(long, value_name = "FACTOR", allow_negative_numbers = true)]
    pub session_delay_scale: Option<f64>,
    /// Do not mark the prompts of sessions by --seed and session. Prefix caches of earlier runs
    /// then help
    #[arg(long)]
    pub no_session_salt: bool,
}

/// The options of `sessions`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionsPlan {
    pub dataset_path: Option<String>,
    pub session_mode: SessionMode,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_delay_scale: Option<f64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_session_salt: bool,
    pub shortfall: Shortfall,
}

/// A session, before it is salted and repeated.
struct Session {
    /// Parents before children; at least one.
    turns: Vec<SessionTurn>,
}

/// A turn of a session.
struct SessionTurn {
    /// The whole history.
    messages: Vec<Message>,
    constraint: Option<Arc<Constraint>>,
    output_len: Option<u32>,
    reference: Option<(String, Scorer)>,
    /// The recorded answer, whose tokens are compared with those of the model.
    answer_text: Option<String>,
    /// Positions of the turns that end before it; empty for the first turn only.
    after: Vec<usize>,
    delay_ms: u64,
    tags: Vec<String>,
    name: String,
}

impl DatasetKind for SessionsPlan {
    const SPEC: Spec = Spec {
        flags: &[
            PathFlags::augment_args,
            ShortfallFlags::augment_args,
            SessionsFlags::augment_args,
        ],
        output_len: DOCUMENT_OUTPUT_LEN,
        replaces_row_lengths: true,
        is_templated: false,
        ..Spec::new("sessions", ConstraintScope::PerRow)
    };

    fn new(flags: &DatasetArgs) -> Result<Self> {
        let scale = flags.sessions.session_delay_scale;
        if let Some(scale) = scale.filter(|scale| !(0.0..=1e6).contains(scale)) {
            return Err(Error::usage(format!("--session-delay-scale is {scale}"))
                .hint("give a factor from 0 to 1000000"));
        }
        Ok(Self {
            dataset_path: flags.path.path(),
            session_mode: flags.sessions.session_mode.unwrap_or_default(),
            session_delay_scale: scale,
            no_session_salt: flags.sessions.no_session_salt,
            shortfall: flags.rows.shortfall.shortfall(),
        })
    }

    /// The turns of as many sessions as the plan has prompts, one session after the other.
    fn rows(&self, plan: &DatasetPlan, inputs: &Inputs<'_>) -> Result<Rows> {
        if plan.prompt_form != PromptForm::Messages {
            return Err(Error::usage("the dataset sessions has chat messages only")
                .hint("use a backend of a chat endpoint, such as --backend openai-chat"));
        }
        if !plan.arms.is_empty() {
            return Err(Error::usage("--arms with the dataset sessions")
                .hint("leave --arms out: a session is sent once"));
        }
        let (sessions, available, source) = match &self.dataset_path {
            Some(path) => {
                let mode = self.session_mode;
                let read = file::read(Path::new(path), mode, plan, inputs)?;
                (read.sessions, read.available, path.as_str())
            }
            None => {
                let mut random = PythonRandom::from_u128(STREAM | u128::from(plan.seed));
                let mut offered = scenarios::OfferedTools::new(plan.seed)?;
                let session = |index| scenarios::session(index, &mut offered, &mut random);
                let sessions = (0..plan.num_prompts).map(session).collect();
                (sessions, plan.num_prompts, SHIPPED)
            }
        };
        let wanted = match self.shortfall {
            Shortfall::RepeatRows => plan.num_prompts,
            Shortfall::FewerRequests => plan.num_prompts.min(sessions.len()),
        };
        let mut rows = Vec::new();
        let mut bytes = 0;
        for index in 0..wanted {
            let session = &sessions[index % sessions.len()];
            let salt = (!self.no_session_salt).then(|| Salt {
                seed: plan.seed,
                repetition: index / sessions.len(),
                session: index,
            });
            for (position, turn) in session.turns.iter().enumerate() {
                bytes += turn.messages.iter().map(message_bytes).sum::<u64>();
                if bytes > MAX_PROMPT_BYTES {
                    return Err(Error::usage(format!(
                        "{}: the prompts of {} sessions have more than {MAX_PROMPT_BYTES} bytes",
                        turn.name,
                        index + 1
                    ))
                    .hint("set --num-prompts to fewer sessions"));
                }
                let place = (index, position, session.turns.len());
                rows.push(self.row(turn, place, salt, inputs));
            }
        }
        Ok(Rows {
            available,
            ..Rows::new(rows, RowsKind::Sessions(self.shortfall), source)
        })
    }

    fn path(&self) -> Option<&str> {
        self.dataset_path.as_deref()
    }
}

impl SessionsPlan {
    fn row(
        &self,
        turn: &SessionTurn,
        (session, position, of): (usize, usize, usize),
        salt: Option<Salt>,
        inputs: &Inputs<'_>,
    ) -> Row {
        // Of a trace, the length of the answer is known, and not its text.
        let reference_tokens = match turn.answer_text.as_deref() {
            Some("") => turn.output_len,
            Some(text) => u32::try_from(inputs.tokenizer.count(text)).ok(),
            None => None,
        };
        let mut messages = turn.messages.clone();
        if let Some(salt) = salt {
            salt.apply(&mut messages);
        }
        let scale = self.session_delay_scale.unwrap_or(1.0);
        let (completion, score) = turn.reference.clone().unzip();
        let mut tags = turn.tags.clone();
        let turn_of_tag = Cell {
            turn: u32::try_from(position + 1).ok(),
            ..Cell::default()
        };
        tags.extend(turn_of_tag.tags());
        Row {
            constraint: turn.constraint.clone(),
            output_len: turn.output_len,
            completion,
            score,
            tags,
            name: turn.name.clone(),
            turn: Some(Arc::new(Turn {
                session: session as u32,
                turn: position as u32 + 1,
                of: of as u32,
                after: turn.after.iter().map(|before| *before as u32 + 1).collect(),
                delay_ms: (turn.delay_ms as f64 * scale) as u64,
                reference_tokens,
                live: self.session_mode == SessionMode::Live && position > 0,
            })),
            ..Row::unconstrained(Prompt::Messages(messages.into()))
        }
    }
}

fn message_bytes(message: &Message) -> u64 {
    let text = match &message.content {
        Value::String(text) => text.len(),
        other => other.to_string().len(),
    };
    let other = message.other.values().map(|value| value.to_string().len());
    (text + other.sum::<usize>()) as u64
}

/// The text of a recorded answer, and of its calls.
fn answer_text(answer: &Message) -> String {
    let mut text = answer.content.as_str().unwrap_or_default().to_owned();
    for call in calls(answer) {
        let function = &call["function"];
        for part in [&function["name"], &function["arguments"]] {
            text.push_str(part.as_str().unwrap_or_default());
        }
    }
    text
}

/// The calls of a message.
fn calls(message: &Message) -> impl Iterator<Item = &Value> {
    let calls = message.other.get("tool_calls").and_then(Value::as_array);
    calls.into_iter().flatten()
}

/// Marks in prompts, as in `agentic_inference.enable_salt` of mlcommons/endpoints: one of the run
/// and the repetition before the system prompt, so that caches of other runs do not help, and one of
/// the session after it.
#[derive(Clone, Copy)]
struct Salt {
    seed: u64,
    repetition: usize,
    session: usize,
}

impl Salt {
    fn apply(self, messages: &mut [Message]) {
        let Some(first) = messages.first_mut() else {
            return;
        };
        let of_run = mark(&format!("{}-{}", self.seed, self.repetition));
        let of_session = mark(&format!("{}-session-{}", self.seed, self.session));
        let is_system = matches!(first.role.as_str(), "system" | "developer");
        match &mut first.content {
            Value::String(text) if is_system => *text = format!("{of_run}{text}\n{of_session}"),
            Value::String(text) => *text = format!("{of_run}{of_session}{text}"),
            Value::Array(parts) => {
                let text = format!("{of_run}{of_session}");
                parts.insert(0, json!({"type": "text", "text": text}));
            }
            _ => {}
        }
    }
}

fn mark(text: &str) -> String {
    format!("[salt: {}] ", &sha256_hex(text.as_bytes())[..8])
}

/// A reference in the form of BFCL's ground truth: each argument has one allowed value.
fn ground_truth(calls: &[(String, Map<String, Value>)]) -> String {
    let call = |(name, arguments): &(String, Map<String, Value>)| {
        let allowed: Map<String, Value> = arguments
            .iter()
            .map(|(name, value)| (name.clone(), json!([allowed(value)])))
            .collect();
        json!({ name: allowed })
    };
    json!({"ground_truth": calls.iter().map(call).collect::<Vec<_>>()}).to_string()
}

/// An allowed value: the members of an object have lists of allowed values too.
fn allowed(value: &Value) -> Value {
    match value {
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (name.clone(), json!([allowed(value)])))
            .collect(),
        Value::Array(items) => items.iter().map(allowed).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests;
