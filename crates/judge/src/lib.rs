//! Judges an answer by its constraint, as a pure function: no clock, network or environment.
//!
//! The outcome is evaluated first. A rejected, failed, cancelled or unsent request has no answer to
//! judge.
//!
//! Then the text, exactly as sent, is judged by the constraint; with tools, the tool calls and all
//! channels are (`tool_calls.rs`). Each kind of constraint has its own
//! module. Answers that must be JSON are read by `json_reader.rs` into values that refer to the text
//! (`text_values.rs`); a document is built only to explain what is wrong with it. An answer that was cut at the token
//! limit is truncated if more text could have made it valid, and otherwise invalid for the reason
//! that no further text could remove. (A text that is complete
//! exactly at the limit is truncated: the server did not report a stop, and a higher limit might
//! have continued it.)
//!
//! An answer over the limits of size and nesting is invalid, because the server produced it. An
//! answer is not scored, with a reason, if the constraint cannot be judged: a schema that does not
//! compile, an external `$ref`, a limit of the evaluation. It counts neither as correct nor as
//! incorrect.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod accuracy;
pub mod canary;
mod choice;
#[cfg(test)]
mod damaged_tests;
pub mod free_choices;
pub mod function_calls;
mod grammar;
mod json_answer;
mod json_object;
mod json_reader;
pub mod json_scan;
mod pattern;
mod regex;
mod request_marks;
mod schema;
mod stack;
mod structural_tag;
mod text_values;
mod tool_calls;
pub mod vllm_formula;
mod white_space_run;

use std::collections::{HashMap, VecDeque};
use std::mem::{self, Discriminant};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use json_answer::REASONING_TAGS;
pub use json_scan::EXPECTED_VALUE;
pub use schema::{meta_schema_error, unsatisfiable};
pub use white_space_run::is_white_space_run;

use sobench_core::answer::{Answer, Channel};
use sobench_core::constraint::{Constraint, sha256_hex};
use sobench_core::observation::{Observation, Outcome, TransportCause};
use sobench_core::verdict::{ExtraText, NotScored, Reason, Verdict};

use self::json_answer::{Refused, Start};
use self::json_reader::Document;
use self::request_marks::RequestMarks;
use self::tool_calls::ToolCallJudge;

/// Maximum bytes of a valid answer.
pub const MAX_ANSWER_BYTES: usize = 1 << 20;

/// The decoded form of an incomplete character at the end of a truncated answer.
const INCOMPLETE_CHARACTER: char = char::REPLACEMENT_CHARACTER;

/// Maximum number of cached compiled constraints. The oldest one is evicted first.
const MAX_COMPILED: usize = 256;

/// Settings of the evaluation. Part of every report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[schemars(rename = "EvaluateOptions")]
pub struct JudgeSettings {
    /// Whether a string that violates its `format` is invalid, in every draft. On by default,
    /// because decoding engines enforce formats.
    pub assert_formats: bool,
}

impl Default for JudgeSettings {
    fn default() -> Self {
        Self {
            assert_formats: true,
        }
    }
}

/// Compiles constraints, and keeps the compiled ones.
pub struct Evaluator {
    options: JudgeSettings,
    compiled: HashMap<String, Arc<CompiledConstraint>>,
    /// The keys of `compiled`, oldest first.
    insertion_order: VecDeque<String>,
    /// Compiled constraints by address, to save the fingerprint: constraints of many answers are
    /// shared. Holding a constraint keeps its address from another one.
    by_address: FxHashMap<Address, (Constraint, Arc<CompiledConstraint>)>,
    marks: Arc<RequestMarks>,
}

/// The kind of a constraint, and the address of its content.
type Address = (Discriminant<Constraint>, usize);

/// A compiled constraint. That of a request also has the channel that the request asks for, and the
/// marks of all requests.
#[derive(Clone)]
pub struct Compiled {
    inner: Arc<CompiledConstraint>,
    expected: Option<Channel>,
    marks: Option<Arc<RequestMarks>>,
}

struct CompiledConstraint {
    /// `None` if the request has none.
    constraint: Option<Constraint>,
    judge: KindJudge,
}

/// What judges the answers of a kind of constraint.
enum KindJudge {
    Schema(schema::SchemaJudge),
    JsonObject,
    Regex(Box<regex::RegexJudge>),
    Choice(Arc<[String]>),
    Grammar(grammar::GrammarJudge),
    StructuralTag(Box<structural_tag::TagJudge>),
    Tools(Box<ToolCallJudge>),
    /// Answers cannot be scored by this constraint.
    NotScorable(NotScored),
}

/// How a request ended.
#[derive(Clone, Copy, Debug)]
pub struct Ending<'a> {
    pub outcome: &'a Outcome,
    /// As the server sent it. Tool calls are judged by it.
    pub finish_reason: Option<&'a str>,
}

impl Ending<'_> {
    /// The end of a complete answer, without a finish reason.
    pub const COMPLETED: Ending<'static> = Ending {
        outcome: &Outcome::Completed,
        finish_reason: None,
    };

    fn is_cut(self) -> bool {
        *self.outcome == Outcome::Truncated
    }

    /// Why there is no answer to judge.
    fn why_no_answer(self) -> Option<NotScored> {
        Some(match self.outcome {
            Outcome::Completed | Outcome::Truncated => return None,
            Outcome::Rejected { .. } | Outcome::Refused { .. } | Outcome::Unsupported { .. } => {
                NotScored::Refused
            }
            Outcome::Transport {
                cause: TransportCause::Local,
                ..
            } => NotScored::NotSent,
            Outcome::ServerError { .. }
            | Outcome::StreamError { .. }
            | Outcome::Transport { .. }
            | Outcome::TimedOut { .. } => NotScored::Failed,
            Outcome::Cancelled => NotScored::Cancelled,
            Outcome::Abandoned => NotScored::Abandoned,
        })
    }
}

impl<'a> From<&'a Observation> for Ending<'a> {
    fn from(observation: &'a Observation) -> Self {
        Self {
            outcome: &observation.outcome,
            finish_reason: observation.finish_reason.as_deref(),
        }
    }
}

/// Judges an answer: first the outcome of the request, then the text or the tool calls by the
/// constraint. The only way to a verdict.
pub fn judge(constraint: &Compiled, answer: &Answer, ending: Ending<'_>) -> Verdict {
    if let Some(why) = ending.why_no_answer() {
        return Verdict::NotScored { why };
    }
    let text = answer.text();
    if let Some(member) = constraint.mark_of_another_request(&text) {
        return Verdict::Invalid {
            reason: Reason::OtherRequest { member },
        };
    }
    if let KindJudge::Tools(judge) = &constraint.inner.judge {
        return verdict_of(|| judge.judge(answer, ending));
    }
    let verdict = if ending.is_cut() && constraint.not_scorable().is_none() {
        let reason = constraint.final_violation(&text);
        Verdict::Invalid {
            reason: reason.unwrap_or(Reason::Truncated),
        }
    } else {
        constraint.text_verdict(&text)
    };
    match constraint.wrong_channel(answer, ending, &verdict) {
        Some(channel) => Verdict::Invalid {
            reason: Reason::WrongChannel { channel },
        },
        None => verdict,
    }
}

/// As [`judge`], for a text alone, as a complete answer.
pub fn judge_text(constraint: &Compiled, text: &str) -> Verdict {
    let answer = Answer::from_text(text.to_owned());
    judge(constraint, &answer, Ending::COMPLETED)
}

impl Evaluator {
    /// Creates an evaluator with an empty cache.
    pub fn new(options: JudgeSettings) -> Self {
        Self {
            options,
            compiled: HashMap::new(),
            insertion_order: VecDeque::new(),
            by_address: FxHashMap::default(),
            marks: Arc::default(),
        }
    }

    /// An evaluator for another thread, with the same options and requests.
    #[must_use]
    pub fn for_another_thread(&self) -> Self {
        Self {
            marks: Arc::clone(&self.marks),
            ..Self::new(self.options)
        }
    }

    /// Whether any request that was added has a unique member or a nonce. Without one, the order of
    /// adding and judging does not matter.
    pub fn has_marks(&self) -> bool {
        !self.marks.is_empty()
    }

    /// Adds the constraint of a request of the run. An answer with a unique member or a nonce
    /// of another request is then recognised ([`Reason::OtherRequest`]).
    pub fn add_request(&mut self, constraint: &Constraint) {
        if RequestMarks::has_mark(constraint) {
            Arc::make_mut(&mut self.marks).add(constraint);
        }
    }

    /// Compiles a constraint by which answers in any channel are judged, without the marks of other
    /// requests.
    pub fn compile(&mut self, constraint: &Constraint) -> Compiled {
        Compiled {
            inner: self.compiled(Some(constraint), None),
            expected: None,
            marks: None,
        }
    }

    /// Compiles the constraint of a request of the run; `None` if it has none. `oracle` is a pest
    /// grammar that replaces a grammar constraint. `expected` is the channel that the request asks
    /// for; `None` accepts any, and tools have no expected channel.
    pub fn compile_request(
        &mut self,
        constraint: Option<&Constraint>,
        oracle: Option<&str>,
        expected: Option<Channel>,
    ) -> Compiled {
        Compiled {
            inner: self.compiled(constraint, oracle),
            expected,
            marks: self.has_marks().then(|| Arc::clone(&self.marks)),
        }
    }

    fn compiled(
        &mut self,
        constraint: Option<&Constraint>,
        oracle: Option<&str>,
    ) -> Arc<CompiledConstraint> {
        let found = constraint.and_then(|constraint| Some((constraint, address(constraint)?)));
        let Some((constraint, address)) = found.filter(|_| oracle.is_none()) else {
            return self.compiled_by_content(constraint, oracle);
        };
        if let Some((_, compiled)) = self.by_address.get(&address) {
            return Arc::clone(compiled);
        }
        let compiled = self.compiled_by_content(Some(constraint), oracle);
        if self.by_address.len() == MAX_COMPILED {
            self.by_address.clear();
        }
        self.by_address
            .insert(address, (constraint.clone(), Arc::clone(&compiled)));
        compiled
    }

    fn compiled_by_content(
        &mut self,
        constraint: Option<&Constraint>,
        oracle: Option<&str>,
    ) -> Arc<CompiledConstraint> {
        let key = constraint.map_or_else(String::new, |constraint| key(constraint, oracle));
        if let Some(compiled) = self.compiled.get(&key) {
            return Arc::clone(compiled);
        }
        if self.insertion_order.len() == MAX_COMPILED
            && let Some(oldest) = self.insertion_order.pop_front()
        {
            self.compiled.remove(&oldest);
        }
        let judge = match constraint {
            Some(constraint) => KindJudge::new(constraint, oracle, self.options),
            None => KindJudge::NotScorable(NotScored::NoConstraint),
        };
        let compiled = Arc::new(CompiledConstraint {
            constraint: constraint.cloned(),
            judge,
        });
        self.insertion_order.push_back(key.clone());
        self.compiled.insert(key, Arc::clone(&compiled));
        compiled
    }
}

/// The key of a compiled constraint.
fn key(constraint: &Constraint, oracle: Option<&str>) -> String {
    let oracle_key = oracle
        .map(|oracle| sha256_hex(oracle.as_bytes()))
        .unwrap_or_default();
    match constraint.tools() {
        // Thousands of tools take long to fingerprint. The compiled constraint keeps the set alive,
        // so no other set has its address.
        Some(tools) => format!("tools {tools:p}"),
        None => constraint.fingerprint() + &oracle_key,
    }
}

impl Compiled {
    /// The reason why answers cannot be scored. `None` if they can.
    pub fn not_scorable(&self) -> Option<&NotScored> {
        match &self.inner.judge {
            KindJudge::NotScorable(why) => Some(why),
            _ => None,
        }
    }

    /// Whether a text alone is valid, as a complete answer in any channel.
    pub fn accepts(&self, text: &str) -> bool {
        self.text_verdict(text) == Verdict::Valid
    }

    /// Whether some end could make `start`, the start of an answer, valid, or that cannot be decided.
    pub fn may_become_valid(&self, start: &str) -> bool {
        self.final_violation(start).is_none()
    }

    fn mark_of_another_request(&self, text: &str) -> Option<String> {
        let constraint = self.inner.constraint.as_ref()?;
        self.marks.as_ref()?.of_another_request(constraint, text)
    }

    /// Judges the text of a complete answer.
    fn text_verdict(&self, text: &str) -> Verdict {
        match oversize(text).filter(|_| self.not_scorable().is_none()) {
            Some(reason) => Verdict::Invalid { reason },
            None => verdict_of(|| self.inner.judge.judge(text)),
        }
    }

    /// Why `text`, the start of an answer, cannot become valid by any end. `None` if it can,
    /// or if that cannot be decided.
    fn final_violation(&self, text: &str) -> Option<Reason> {
        let text = text.trim_end_matches(INCOMPLETE_CHARACTER);
        if self.not_scorable().is_some() {
            return None;
        }
        let find = || self.inner.judge.final_violation(text);
        oversize(text).or_else(|| catch_panic(find).ok().flatten())
    }

    /// The channel that has the answer where the content is expected and empty. Reasoning has it only
    /// if it starts with a valid answer. A truncated answer might have had content after its
    /// reasoning.
    fn wrong_channel(
        &self,
        answer: &Answer,
        ending: Ending<'_>,
        verdict: &Verdict,
    ) -> Option<Channel> {
        if self.expected != Some(Channel::Content)
            || !answer.content.trim().is_empty()
            || !answer.refusal.is_empty()
            || matches!(verdict, Verdict::NotScored { .. })
        {
            return None;
        }
        if !answer.tool_calls.is_empty() {
            return Some(Channel::ToolCalls);
        }
        let reasoning = answer.reasoning.trim();
        let is_answer = !reasoning.is_empty()
            && !ending.is_cut()
            && *verdict != Verdict::Valid
            && matches!(
                self.text_verdict(reasoning),
                Verdict::Valid
                    | Verdict::Invalid {
                        reason: Reason::ExtraText {
                            kind: ExtraText::ProseAfter | ExtraText::SecondDocument,
                            valid_if_stripped: true,
                            ..
                        }
                    }
            );
        is_answer.then_some(Channel::Reasoning)
    }
}

impl KindJudge {
    /// Compiles a constraint. One that cannot be compiled, or panics, is not scorable.
    fn new(constraint: &Constraint, oracle: Option<&str>, options: JudgeSettings) -> Self {
        catch_panic(|| Self::compile(constraint, oracle, options))
            .and_then(|judge| judge)
            .unwrap_or_else(Self::NotScorable)
    }

    fn compile(
        constraint: &Constraint,
        oracle: Option<&str>,
        options: JudgeSettings,
    ) -> Result<Self, NotScored> {
        match constraint {
            Constraint::JsonSchema(schema) => {
                schema::SchemaJudge::compile(schema, options).map(Self::Schema)
            }
            Constraint::JsonObject(_) => Ok(Self::JsonObject),
            Constraint::Regex(pattern) => {
                regex::RegexJudge::compile(pattern).map(|judge| Self::Regex(Box::new(judge)))
            }
            Constraint::Choice(choices) => Ok(Self::Choice(Arc::clone(choices))),
            Constraint::Grammar { dialect, text } => {
                grammar::GrammarJudge::compile(*dialect, text, oracle).map(Self::Grammar)
            }
            Constraint::StructuralTag(tag) => structural_tag::TagJudge::compile(tag, options)
                .map(|judge| Self::StructuralTag(Box::new(judge))),
            Constraint::Tools(tools) => {
                Ok(Self::Tools(Box::new(ToolCallJudge::new(tools, options))))
            }
        }
    }

    fn judge(&self, text: &str) -> Verdict {
        match self {
            Self::Schema(_) | Self::JsonObject => self.judge_json(text),
            Self::Regex(judge) => judge.judge(text),
            Self::Choice(choices) => choice::judge(choices, text),
            Self::Grammar(judge) => judge.judge(text),
            Self::StructuralTag(judge) => judge.judge(text),
            Self::Tools(_) => Verdict::NotScored {
                why: NotScored::Unsupported {
                    what: "a text without its tool calls".to_owned(),
                },
            },
            Self::NotScorable(why) => Verdict::NotScored { why: why.clone() },
        }
    }

    /// Judges an answer that must be JSON.
    fn judge_json(&self, text: &str) -> Verdict {
        match json_answer::parse_json_answer(text) {
            Ok(document) => self.judge_document(&document),
            Err(refused) => Verdict::Invalid {
                reason: self.json_reason(text, refused),
            },
        }
    }

    fn judge_document(&self, document: &Document<'_>) -> Verdict {
        match self {
            Self::Schema(judge) => judge.judge_document(document),
            _ => json_object::judge(&document.root().to_value()),
        }
    }

    /// The reason, with the verdict on the JSON text without the text around it.
    fn json_reason(&self, text: &str, refused: Refused) -> Reason {
        let Refused { mut reason, inner } = refused;
        if let (
            Reason::ExtraText {
                valid_if_stripped, ..
            },
            Some(inner),
        ) = (&mut reason, inner)
        {
            *valid_if_stripped = json_answer::parse_json_answer(&text[inner])
                .is_ok_and(|document| self.judge_document(&document) == Verdict::Valid);
        }
        reason
    }

    /// Why no continuation of `text` can be valid, if that is certain.
    fn final_violation(&self, text: &str) -> Option<Reason> {
        match self {
            Self::Schema(_) | Self::JsonObject => match json_answer::parse_start(text) {
                Err(refused) => Some(self.json_reason(text, refused)),
                Ok(Start::Nothing) => None,
                Ok(Start::Partial(start)) => match self {
                    Self::Schema(judge) => judge.final_violation(&start),
                    _ => json_object::judge(&start.value).into_reason(),
                },
                Ok(Start::Whole(document)) => self.judge_document(&document).into_reason(),
            },
            Self::Regex(judge) => judge.final_violation(text),
            Self::Choice(choices) => choice::final_violation(choices, text),
            Self::Grammar(judge) => judge.final_violation(text),
            Self::StructuralTag(judge) => judge.final_violation(text),
            Self::Tools(_) | Self::NotScorable(_) => None,
        }
    }
}

/// The address of a constraint's content. `None` for kinds that differ in more than one address.
fn address(constraint: &Constraint) -> Option<Address> {
    let json = constraint.schema().or(constraint.structural_tag());
    let address = json
        .map(|value| Arc::as_ptr(value) as usize)
        .or_else(|| constraint.regex().map(|pattern| pattern.as_ptr() as usize))
        .or_else(|| {
            constraint
                .choices()
                .map(|choices| choices.as_ptr() as usize)
        })?;
    Some((mem::discriminant(constraint), address))
}

/// Why the size of `text` makes it invalid.
fn oversize(text: &str) -> Option<Reason> {
    let bytes = text.len();
    if bytes <= MAX_ANSWER_BYTES {
        return None;
    }
    let white_space = text.bytes().filter(u8::is_ascii_whitespace).count();
    Some(if white_space > bytes / 2 {
        Reason::RunawayWhitespace { bytes }
    } else {
        Reason::TooLong { bytes }
    })
}

/// The verdict of a judge; a panic of its library leaves this case not scored.
fn verdict_of(judge: impl FnOnce() -> Verdict) -> Verdict {
    catch_panic(judge).unwrap_or_else(|why| Verdict::NotScored { why })
}

/// Converts a panic of a library to a reason why this case is not scored.
fn catch_panic<T>(work: impl FnOnce() -> T) -> Result<T, NotScored> {
    panic::catch_unwind(AssertUnwindSafe(work)).map_err(|_| NotScored::Unsupported {
        what: "the validator panicked".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use sobench_core::answer::ToolCall;
    use sobench_core::constraint::{AlwaysTrue, GrammarDialect, UNIQUE_MEMBER_PREFIX};

    fn any_object() -> Constraint {
        Constraint::JsonObject(AlwaysTrue)
    }

    fn schema(schema: serde_json::Value) -> Constraint {
        Constraint::JsonSchema(Arc::new(schema))
    }

    fn evaluator() -> Evaluator {
        Evaluator::new(JudgeSettings::default())
    }

    /// The end of a request without a finish reason.
    fn ending(outcome: &Outcome) -> Ending<'_> {
        Ending {
            outcome,
            finish_reason: None,
        }
    }

    #[test]
    fn the_outcome_is_evaluated_before_the_text() {
        let body = String::new;
        for (outcome, expected, unconstrained) in [
            (Outcome::Completed, "valid", "no_constraint"),
            (Outcome::Truncated, "truncated", "no_constraint"),
            (
                Outcome::Rejected {
                    status: 400,
                    body: body(),
                    advice: None,
                },
                "refused",
                "refused",
            ),
            (
                Outcome::ServerError {
                    status: 500,
                    body: body(),
                    advice: None,
                },
                "failed",
                "failed",
            ),
            (Outcome::StreamError { message: body() }, "failed", "failed"),
            (
                Outcome::Transport {
                    cause: TransportCause::Reset,
                    message: body(),
                },
                "failed",
                "failed",
            ),
            (
                Outcome::Transport {
                    cause: TransportCause::Local,
                    message: body(),
                },
                "not_sent",
                "not_sent",
            ),
            (
                Outcome::TimedOut {
                    limit_ms: 1,
                    limit: Default::default(),
                    stage: None,
                },
                "failed",
                "failed",
            ),
            (Outcome::Cancelled, "cancelled", "cancelled"),
            (Outcome::Abandoned, "abandoned", "abandoned"),
        ] {
            for (constraint, expected) in [(Some(any_object()), expected), (None, unconstrained)] {
                let compiled = evaluator().compile_request(constraint.as_ref(), None, None);
                let answer = Answer::from_text("{}".to_owned());
                let verdict = judge(&compiled, &answer, ending(&outcome));
                let name = match &verdict {
                    Verdict::Valid => "valid",
                    Verdict::Invalid { reason } => reason.name(),
                    Verdict::NotScored { why } => why.name(),
                };
                assert_eq!(name, expected, "{outcome:?}");
            }
        }
    }

    #[test]
    fn an_oracle_replaces_the_grammar() {
        let mut evaluator = evaluator();
        let lark = Constraint::Grammar {
            dialect: GrammarDialect::Lark,
            text: "start: \"a\" \"b\"".into(),
        };
        let oracle = "start = { SOI ~ \"yes\" ~ EOI }";
        let compiled = evaluator.compile_request(Some(&lark), Some(oracle), None);
        assert!(compiled.accepts("yes"));
        assert!(matches!(
            judge_text(&compiled, "ab"),
            Verdict::Invalid {
                reason: Reason::Grammar { .. }
            }
        ));
        let without = evaluator.compile(&lark);
        assert!(!without.accepts("yes"), "cached under a separate key");
    }

    #[test]
    fn formats_are_asserted_unless_disabled() {
        let date_schema = schema(json!({ "format": "date" }));
        let mut lenient = Evaluator::new(JudgeSettings {
            assert_formats: false,
        });
        let date = "\"2023-02-30\"";
        assert!(lenient.compile(&date_schema).accepts(date));
        let strict = evaluator().compile(&date_schema);
        assert!(judge_text(&strict, date).into_reason().is_some());
    }

    #[test]
    fn oversized_answers_are_invalid() {
        let object = evaluator().compile(&any_object());
        for (text, name) in [
            (
                format!("{{}}{}", " ".repeat(MAX_ANSWER_BYTES)),
                "runaway_whitespace",
            ),
            (
                format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_ANSWER_BYTES)),
                "too_long",
            ),
        ] {
            let answer = Answer::from_text(text);
            for outcome in [Outcome::Completed, Outcome::Truncated] {
                let verdict = judge(&object, &answer, ending(&outcome));
                assert_eq!(verdict.into_reason().unwrap().name(), name);
            }
        }
        let fits = format!("{{}}{}", " ".repeat(MAX_ANSWER_BYTES - 2));
        assert!(object.accepts(&fits));
    }

    #[test]
    fn truncated_answers_are_invalid_for_their_final_reason() {
        let person = schema(json!({
            "type": "object",
            "properties": {
                "v": {"$ref": "#/$defs/s"},
                "n": {"type": "integer"},
                "e": {"enum": ["red", "green", 1]},
                "either": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "list": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2},
                "then": {"minimum": 5},
                "sub": {"required": ["x"], "properties": {"x": {"const": 1}}},
            },
            "required": ["v", "n"],
            "minProperties": 2,
            "additionalProperties": false,
            "if": {"properties": {"n": {"const": 1}}},
            "then": {"properties": {"then": {"maximum": 7}}},
            "$defs": {"s": {"type": "string", "maxLength": 3}},
        }));
        let choices = Constraint::Choice(["yes".to_owned(), "no".to_owned()].into());
        let regex = Constraint::Regex("(?=.*x)[a-c]{2,4}\\d+(?<!5)".into());
        let grammar = Constraint::Grammar {
            dialect: GrammarDialect::Lark,
            text: "start: \"ab\"+ \"c\"".into(),
        };
        let mut evaluator = evaluator();
        for (constraint, text, expected) in [
            (&person, r#"{"v": "abcdef", "#, "`maxLength` at /v"),
            (&person, r#"{"v": "abcdef"#, "`maxLength` at /v"),
            (&person, r#"{"v": {"#, "`type` at /v"),
            (&person, r#"{"n": 1.5, "v": "a"#, "`type` at /n"),
            (&person, r#"{"n": "#, ""),
            (&person, r#"{"n": 1.5"#, ""),
            (&person, r#"{"n": "1"#, "`type` at /n"),
            (&person, r#"{"n": t"#, "`type` at /n"),
            (&person, r#"{"e": "gr"#, ""),
            (&person, r#"{"e": "b"#, "`enum` at /e"),
            (&person, r#"{"e": ["#, "`enum` at /e"),
            (&person, r#"{"e": 2"#, "2 is not one of"),
            (&person, r#"{"e": 1"#, ""),
            (&person, r#"{"e": 2,"#, "`enum` at /e"),
            (&person, r#"{"either": 1"#, "`anyOf` at /either"),
            (&person, r#"{"either": n"#, ""),
            (&person, r#"{"either": 1,"#, "`anyOf` at /either"),
            (&person, r#"{"list": [true, 0"#, "`type` at /list/1"),
            (
                &person,
                r#"{"list": [true, false, t"#,
                "`maxItems` at /list",
            ),
            (&person, r#"{"list": [true, f"#, ""),
            (&person, r#"{"other": ""#, "`additionalProperties`"),
            (&person, r#"{"other"#, "`additionalProperties`"),
            (&person, r#"{"oth"#, "no other name starts with \"oth\""),
            (&person, r#"{"the"#, ""),
            (
                &person,
                r#"{"v": "a", "v"#,
                "no other name starts with \"v\"",
            ),
            (&person, r#"{"then": 1, "#, "`minimum` at /then"),
            (&person, r#"{"then": 9, "n"#, ""),
            (&person, r#"{"sub": {"y": 1"#, ""),
            (&person, r#"{"sub": {"y": 1}"#, "`required` at /sub"),
            (&person, r#"{"sub": {"x": 2,"#, "`const` at /sub/x"),
            (&person, r#"["#, "`type`"),
            (&person, r#""{"#, "`type`"),
            (&person, "{\"v\": \"a\tb", "not JSON"),
            (&person, r#"{"v": "a", "n": 2}"#, ""),
            (&person, r#"{"v": "a", "n": 2} Th"#, "text after the JSON"),
            (&person, "{\"v\": \"ab\u{fffd}", ""),
            (&person, "{\"v\": \"abc\u{fffd}", ""),
            (&person, "{\n\n\n   ", ""),
            (&person, "", ""),
            (&any_object(), "[", "`type`"),
            (&any_object(), "{\"a\": {\"a\": 1", ""),
            (&choices, "ye", ""),
            (&choices, "n\u{fffd}", ""),
            (&choices, "Yes", "none of the choices"),
            (&regex, "ab", ""),
            (&regex, "abcab", "does not match"),
            (&regex, "ab1235", ""),
            (&regex, "ab12d", "does not match"),
            (&grammar, "abab", ""),
            (&grammar, "abac", "not in the language from byte 3"),
        ] {
            let compiled =
                evaluator.compile_request(Some(constraint), None, Some(Channel::Content));
            let answer = Answer::from_text(text.to_owned());
            let found = judge(&compiled, &answer, ending(&Outcome::Truncated));
            let reason = found.into_reason().unwrap();
            if expected.is_empty() {
                assert_eq!(reason, Reason::Truncated, "{text:?}");
            } else {
                assert!(reason.to_string().contains(expected), "{text:?}: {reason}");
            }
        }
    }

    #[test]
    fn unfinished_values_are_invalid_where_nothing_can_follow() {
        let object = schema(json!({
            "properties": {
                "host": {"format": "hostname"},
                "ip": {"format": "ipv4"},
                "code": {"type": "string", "pattern": "^[A-Z]{2}\\d+$"},
                "part": {"type": "string", "pattern": "[A-Z]"},
                "age": {"type": "integer", "minimum": 0, "maximum": 120},
                "share": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
                "one": {"const": 10},
                "set": {"uniqueItems": true},
                "either": {"oneOf": [
                    {"properties": {"kind": {"const": "a"}}, "additionalProperties": false},
                    {"properties": {"kind": {"const": "b"}, "b": true}, "additionalProperties": false},
                ]},
                "tree": {"oneOf": [{"type": "null"}, {"items": {"$ref": "#/$defs/small"}}]},
                "map": {"propertyNames": {"pattern": "^x"}},
                "open": {"patternProperties": {"^x": true}, "additionalProperties": false},
            },
            "$defs": {"small": {"maximum": 9}},
        }));
        let long_label = format!(r#"{{"host": "{}"#, "a".repeat(64));
        let object = evaluator().compile(&object);
        for (text, expected) in [
            (&*long_label, "`format` at /host"),
            (&long_label[..long_label.len() - 1], ""),
            (r#"{"ip": "01"#, "`format` at /ip"),
            (r#"{"ip": "25"#, ""),
            (r#"{"code": "AB1x"#, "`pattern` at /code"),
            (r#"{"code": "AB1"#, ""),
            (r#"{"code": ""#, ""),
            (r#"{"part": "abc"#, ""),
            (r#"{"age": 121"#, "`maximum` at /age"),
            (r#"{"age": 120"#, ""),
            (r#"{"age": 12000"#, ""),
            (r#"{"age": -1"#, "`minimum` at /age"),
            (r#"{"age": -"#, ""),
            (r#"{"age": 1.5"#, ""),
            (r#"{"share": 7"#, ""),
            (r#"{"share": -0.1"#, "`exclusiveMinimum` at /share"),
            (r#"{"share": 7e2"#, "`maximum` at /share"),
            (r#"{"one": 1"#, ""),
            (r#"{"one": 11"#, "`const` at /one"),
            (r#"{"set": [1, 1"#, ""),
            (r#"{"set": [1, 1, "#, "`uniqueItems` at /set"),
            (r#"{"either": {"kind": "c"#, "`oneOf` at /either"),
            (r#"{"either": {"kind": "#, ""),
            (r#"{"either": {"c": "#, "`oneOf` at /either"),
            (r#"{"tree": [10, "#, "`oneOf` at /tree"),
            (r#"{"tree": [10"#, ""),
            (r#"{"tree": [-1e1, "#, ""),
            (r#"{"map": {"y"#, ""),
            (r#"{"map": {"y": "#, "`propertyNames` at /map"),
            (r#"{"open": {"y"#, ""),
            (r#"{"open": {"y": "#, "`additionalProperties` at /open"),
        ] {
            let reason = object.final_violation(text);
            let message = reason.map(|reason| reason.to_string()).unwrap_or_default();
            assert!(
                message.contains(expected) && message.is_empty() == expected.is_empty(),
                "{text}: {message:?}"
            );
        }
    }

    #[test]
    fn a_condition_may_change_with_the_rest_of_a_value() {
        let conditional = schema(json!({
            "if": {"properties": {"kind": {"type": "string", "maxLength": 1}}},
            "then": {"$ref": "#/$defs/limits"},
            "$defs": {"limits": {"properties": {"n": {"maximum": 9}}}},
        }));
        let conditional = evaluator().compile(&conditional);
        let start = r#"{"n": 10, "kind": "a"#;
        assert!(conditional.may_become_valid(start));
        assert!(conditional.accepts(&format!("{start}b\"}}")));
    }

    #[test]
    fn the_grammar_judges_starts_also_where_an_oracle_judges_whole_answers() {
        let oracle = Some("start = { \"SELECT \" ~ (\"a\" | \"b\") }");
        let mut evaluator = evaluator();
        let mut check = |grammar: &str, text: &str, expected: &str| {
            let constraint = Constraint::Grammar {
                dialect: GrammarDialect::Lark,
                text: grammar.into(),
            };
            let answer = Answer::from_text(text.to_owned());
            let compiled = evaluator.compile_request(Some(&constraint), oracle, None);
            let verdict = judge(&compiled, &answer, ending(&Outcome::Truncated));
            let reason = verdict.into_reason().unwrap();
            assert_eq!(reason.name(), expected, "{grammar} on {text:?}");
        };
        let sql = "start: \"SELECT \" (\"a\" | \"b\")";
        check(sql, "```sql\nSELECT a", "grammar");
        check(sql, "SELECT c", "grammar");
        check(sql, "SEL", "truncated");
        check(sql, "SELECT a", "truncated");
        check("start: \"SELECT \" \"a\"", "SELECT b", "truncated");
        check("start: missing", "```sql", "truncated");
    }

    #[test]
    fn cut_answers_are_not_judged_where_whole_ones_are_not() {
        let external = schema(json!({"$ref": "https://example.com/schema.json"}));
        let external = evaluator().compile(&external);
        for outcome in [Outcome::Completed, Outcome::Truncated] {
            let answer = Answer::from_text("{\"a\"".to_owned());
            let verdict = judge(&external, &answer, ending(&outcome));
            assert!(
                matches!(
                    verdict,
                    Verdict::NotScored {
                        why: NotScored::Unsupported { .. }
                    }
                ),
                "{verdict:?}"
            );
        }
    }

    #[test]
    fn answers_in_another_channel_are_named() {
        let mut evaluator = evaluator();
        let mut judge = |constraint: &Constraint, answer: &Answer, outcome: &Outcome, expected| {
            let compiled = evaluator.compile_request(Some(constraint), None, expected);
            super::judge(&compiled, answer, ending(outcome))
        };
        let call = Answer {
            tool_calls: vec![ToolCall {
                arguments: "{}".to_owned(),
                ..ToolCall::default()
            }],
            ..Answer::default()
        };
        let thought = |reasoning: &str, content: &str| Answer {
            reasoning: reasoning.to_owned(),
            ..Answer::from_text(content.to_owned())
        };
        let (content, calls) = (Some(Channel::Content), Some(Channel::ToolCalls));
        for (answer, expected, outcome, name) in [
            (call.clone(), content, Outcome::Completed, "wrong_channel"),
            (call.clone(), content, Outcome::Truncated, "wrong_channel"),
            (call.clone(), calls, Outcome::Completed, "valid"),
            (call, None, Outcome::Completed, "valid"),
            (
                thought("{}", ""),
                content,
                Outcome::Completed,
                "wrong_channel",
            ),
            (
                thought("{}", " \n"),
                content,
                Outcome::Completed,
                "wrong_channel",
            ),
            (thought("{}", ""), content, Outcome::Truncated, "truncated"),
            (thought("so {}", ""), content, Outcome::Completed, "empty"),
            (
                thought("{}}]}]}]", ""),
                content,
                Outcome::Completed,
                "wrong_channel",
            ),
            (thought("{}", "{}"), content, Outcome::Completed, "valid"),
        ] {
            let verdict = judge(&any_object(), &answer, &outcome, expected);
            let found = match &verdict {
                Verdict::Invalid { reason } => reason.name(),
                _ => "valid",
            };
            assert_eq!(found, name, "{answer:?}: {verdict:?}");
        }
        let anything = Constraint::Regex(".*".into());
        let verdict = judge(&anything, &thought("hm", ""), &Outcome::Completed, content);
        assert_eq!(verdict, Verdict::Valid, "an empty answer is allowed");
    }

    #[test]
    fn an_answer_of_another_request_is_recognised() {
        let unique = |uuid: &str| {
            let member = format!("{UNIQUE_MEMBER_PREFIX}{uuid}");
            (
                schema(json!({"properties": { &member: {"type": "string"} }})),
                member,
            )
        };
        let (own, own_member) = unique("340ac475-31b5-413e-8d17-87ad24882bb7");
        let (other, other_member) = unique("ab890aed-df15-4768-988e-01f772d9f781");
        let mut evaluator = evaluator();
        for constraint in [&own, &other] {
            evaluator.add_request(constraint);
        }
        let mut judge = |constraint: &Constraint, member: &str, outcome: &Outcome| {
            let answer = Answer::from_text(json!({ member: "x" }).to_string());
            let compiled = evaluator.compile_request(Some(constraint), None, None);
            super::judge(&compiled, &answer, ending(outcome)).into_reason()
        };
        let done = Outcome::Completed;
        assert_eq!(judge(&own, &own_member, &done), None);
        for outcome in [&done, &Outcome::Truncated] {
            let reason = judge(&own, &other_member, outcome).unwrap();
            assert_eq!(reason.name(), "other_request");
            assert!(reason.to_string().contains(&other_member));
        }
        // A made-up member, and one of another run.
        let made_up = format!("{UNIQUE_MEMBER_PREFIX}00000000-31b5-413e-8d17-87ad24882bb7");
        assert_eq!(judge(&own, &made_up, &done), None);
        assert_eq!(judge(&own, UNIQUE_MEMBER_PREFIX, &done), None);
    }

    #[test]
    fn only_documents_that_are_valid_alone_are_valid_if_stripped() {
        let number = schema(json!({"properties": {"a": {"type": "number"}}}));
        let number = evaluator().compile(&number);
        for (text, valid) in [
            ("```json\n{\"a\": 1}\n```", true),
            ("```json\n{\"a\": \"1\"}\n```", false),
            ("{\"a\": 1} {}", true),
            ("Sure: {\"a\": 1, \"a\": 1}", false),
        ] {
            match judge_text(&number, text).into_reason() {
                Some(Reason::ExtraText {
                    valid_if_stripped, ..
                }) => assert_eq!(valid_if_stripped, valid, "{text:?}"),
                reason => panic!("{text:?}: {reason:?}"),
            }
        }
    }

    #[test]
    fn the_cache_is_limited() {
        let mut evaluator = evaluator();
        for number in 0..=MAX_COMPILED + 1 {
            let constant = schema(json!({ "const": number }));
            assert!(evaluator.compile(&constant).accepts(&number.to_string()));
        }
        assert_eq!(
            (evaluator.compiled.len(), evaluator.insertion_order.len()),
            (MAX_COMPILED, MAX_COMPILED)
        );
    }

    #[test]
    fn a_panic_affects_only_its_own_case() {
        let quiet: Result<(), NotScored> =
            catch_panic(|| panic::resume_unwind(Box::new("as a library would")));
        assert!(matches!(quiet, Err(NotScored::Unsupported { .. })));
    }
}
