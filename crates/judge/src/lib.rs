//! Judges an answer by its constraint, as a pure function: no clock, network or environment.
//!
//! The outcome is evaluated first. A rejected, failed, cancelled or unsent request has no answer to
//! judge. An answer that was cut at the token limit is invalid as truncated, regardless of its
//! text. (A text that is complete exactly at the limit also counts as truncated: the server did not
//! report a stop, and a higher limit might have continued it.)
//!
//! Then the text, exactly as sent, is judged by the constraint. Each kind of constraint has its own
//! module; `json_answer.rs` parses answers that must be JSON. An answer that cannot be judged (a
//! schema that does not compile, an external `$ref`, a limit) is not scored, with a reason. It
//! counts neither as correct nor as incorrect.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod choice;
pub mod function_calls;
mod grammar;
mod json_answer;
mod json_object;
mod json_reader;
mod pattern;
mod regex;
mod schema;
mod stack;
pub mod vllm_formula;

use std::collections::{HashMap, VecDeque};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use sobench_core::answer::Answer;
use sobench_core::constraint::{Constraint, sha256_hex};
use sobench_core::observation::{Outcome, TransportCause};
use sobench_core::verdict::{NotScored, Reason, Verdict};

/// Maximum bytes of a judged answer. Longer answers are not scored.
pub const MAX_ANSWER_BYTES: usize = 1 << 20;

/// Maximum number of cached compiled constraints. The oldest one is evicted first.
const MAX_COMPILED: usize = 256;

/// Options of the evaluation. Part of every report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvaluateOptions {
    /// Whether a string that violates its `format` is invalid, in every draft. On by default,
    /// because decoding engines enforce formats.
    pub assert_formats: bool,
}

impl Default for EvaluateOptions {
    fn default() -> Self {
        Self {
            assert_formats: true,
        }
    }
}

/// Judges answers and caches compiled constraints.
pub struct Evaluator {
    options: EvaluateOptions,
    compiled: HashMap<String, Arc<CompiledConstraint>>,
    /// The keys of `compiled`, oldest first.
    insertion_order: VecDeque<String>,
}

/// A compiled constraint.
enum CompiledConstraint {
    Schema(schema::SchemaJudge),
    JsonObject,
    Regex(regex::RegexJudge),
    Choice(Arc<[String]>),
    Grammar(grammar::GrammarJudge),
    /// Answers cannot be scored by this constraint.
    NotScorable(NotScored),
}

impl Evaluator {
    /// Creates an evaluator with an empty cache.
    pub fn new(options: EvaluateOptions) -> Self {
        Self {
            options,
            compiled: HashMap::new(),
            insertion_order: VecDeque::new(),
        }
    }

    /// Judges an answer: first the outcome of the request, then the text by the constraint.
    /// `oracle` is a pest grammar that replaces a grammar constraint.
    pub fn judge(
        &mut self,
        constraint: Option<&Constraint>,
        oracle: Option<&str>,
        outcome: &Outcome,
        answer: &Answer,
    ) -> Verdict {
        let not_scored = |why| Verdict::NotScored { why };
        match outcome {
            Outcome::Rejected { .. } | Outcome::Unsupported { .. } => {
                return not_scored(NotScored::Refused);
            }
            Outcome::ServerError { .. } | Outcome::StreamError { .. } => {
                return not_scored(NotScored::Failed);
            }
            Outcome::Transport {
                cause: TransportCause::Local,
                ..
            } => return not_scored(NotScored::NotSent),
            Outcome::Transport { .. } | Outcome::TimedOut { .. } => {
                return not_scored(NotScored::Failed);
            }
            Outcome::Cancelled => return not_scored(NotScored::Cancelled),
            Outcome::Completed | Outcome::Truncated => {}
        }
        let Some(constraint) = constraint else {
            return not_scored(NotScored::NoConstraint);
        };
        if *outcome == Outcome::Truncated {
            return Verdict::Invalid {
                reason: Reason::Truncated,
            };
        }
        self.judge_text(constraint, oracle, &answer.text())
    }

    /// Judges the text of a complete answer.
    pub fn judge_text(
        &mut self,
        constraint: &Constraint,
        oracle: Option<&str>,
        text: &str,
    ) -> Verdict {
        let judge = self.compiled(constraint, oracle);
        if let CompiledConstraint::NotScorable(why) = &*judge {
            return Verdict::NotScored { why: why.clone() };
        }
        if text.len() > MAX_ANSWER_BYTES {
            return Verdict::NotScored {
                why: NotScored::Limit {
                    what: format!("answer over {MAX_ANSWER_BYTES} bytes"),
                },
            };
        }
        catch_panic(|| judge.judge(text)).unwrap_or_else(|why| Verdict::NotScored { why })
    }

    /// The reason why answers cannot be scored by `constraint`. `None` if they can.
    pub fn not_scorable_reason(
        &mut self,
        constraint: &Constraint,
        oracle: Option<&str>,
    ) -> Option<NotScored> {
        match &*self.compiled(constraint, oracle) {
            CompiledConstraint::NotScorable(why) => Some(why.clone()),
            _ => None,
        }
    }

    fn compiled(
        &mut self,
        constraint: &Constraint,
        oracle: Option<&str>,
    ) -> Arc<CompiledConstraint> {
        let oracle_key = oracle
            .map(|oracle| sha256_hex(oracle.as_bytes()))
            .unwrap_or_default();
        let key = constraint.fingerprint() + &oracle_key;
        if let Some(judge) = self.compiled.get(&key) {
            return Arc::clone(judge);
        }
        if self.insertion_order.len() == MAX_COMPILED
            && let Some(oldest) = self.insertion_order.pop_front()
        {
            self.compiled.remove(&oldest);
        }
        let options = self.options;
        let judge = catch_panic(|| CompiledConstraint::compile(constraint, oracle, options))
            .and_then(|judge| judge);
        let judge = Arc::new(judge.unwrap_or_else(CompiledConstraint::NotScorable));
        self.insertion_order.push_back(key.clone());
        self.compiled.insert(key, Arc::clone(&judge));
        judge
    }
}

impl CompiledConstraint {
    fn compile(
        constraint: &Constraint,
        oracle: Option<&str>,
        options: EvaluateOptions,
    ) -> Result<Self, NotScored> {
        match constraint {
            Constraint::JsonSchema(schema) => {
                schema::SchemaJudge::compile(schema, options).map(Self::Schema)
            }
            Constraint::JsonObject(_) => Ok(Self::JsonObject),
            Constraint::Regex(pattern) => regex::RegexJudge::compile(pattern).map(Self::Regex),
            Constraint::Choice(choices) => Ok(Self::Choice(Arc::clone(choices))),
            Constraint::Grammar { dialect, text } => {
                grammar::GrammarJudge::compile(*dialect, text, oracle).map(Self::Grammar)
            }
            Constraint::StructuralTag(_) => Err(NotScored::Unsupported {
                what: "structural tags are not judged".to_owned(),
            }),
        }
    }

    fn judge(&self, text: &str) -> Verdict {
        match self {
            Self::Schema(judge) => json_answer::parse_json_answer(text)
                .map_or_else(|verdict| verdict, |document| judge.judge(&document)),
            Self::JsonObject => json_answer::parse_json_answer(text)
                .map_or_else(|verdict| verdict, |document| json_object::judge(&document)),
            Self::Regex(judge) => judge.judge(text),
            Self::Choice(choices) => choice::judge(choices, text),
            Self::Grammar(judge) => judge.judge(text),
            Self::NotScorable(why) => Verdict::NotScored { why: why.clone() },
        }
    }
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
    use sobench_core::constraint::{AlwaysTrue, GrammarDialect};

    fn any_object() -> Constraint {
        Constraint::JsonObject(AlwaysTrue)
    }

    fn schema(schema: serde_json::Value) -> Constraint {
        Constraint::JsonSchema(Arc::new(schema))
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
        ] {
            for (constraint, expected) in [(Some(any_object()), expected), (None, unconstrained)] {
                let mut evaluator = Evaluator::new(EvaluateOptions::default());
                let verdict = evaluator.judge(
                    constraint.as_ref(),
                    None,
                    &outcome,
                    &Answer::from_text("{}".to_owned()),
                );
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
        let mut evaluator = Evaluator::new(EvaluateOptions::default());
        let lark = Constraint::Grammar {
            dialect: GrammarDialect::Lark,
            text: "start: \"a\" \"b\"".into(),
        };
        let oracle = "start = { SOI ~ \"yes\" ~ EOI }";
        assert_eq!(
            evaluator.judge_text(&lark, Some(oracle), "yes"),
            Verdict::Valid
        );
        assert!(matches!(
            evaluator.judge_text(&lark, Some(oracle), "ab"),
            Verdict::Invalid {
                reason: Reason::Grammar { .. }
            }
        ));
        assert_ne!(
            evaluator.judge_text(&lark, None, "yes"),
            Verdict::Valid,
            "cached under a separate key"
        );
    }

    #[test]
    fn formats_are_asserted_unless_disabled() {
        let date_schema = schema(json!({ "format": "date" }));
        let mut lenient = Evaluator::new(EvaluateOptions {
            assert_formats: false,
        });
        assert_eq!(
            lenient.judge_text(&date_schema, None, "\"2023-02-30\""),
            Verdict::Valid
        );
        let mut strict = Evaluator::new(EvaluateOptions::default());
        assert!(matches!(
            strict.judge_text(&date_schema, None, "\"2023-02-30\""),
            Verdict::Invalid { .. }
        ));
    }

    #[test]
    fn long_answers_are_not_scored_and_the_cache_is_limited() {
        let mut evaluator = Evaluator::new(EvaluateOptions::default());
        let long = format!("[{}]", " ".repeat(MAX_ANSWER_BYTES));
        assert!(matches!(
            evaluator.judge_text(&any_object(), None, &long),
            Verdict::NotScored {
                why: NotScored::Limit { .. }
            }
        ));
        for number in 0..=MAX_COMPILED + 1 {
            let constant = schema(json!({ "const": number }));
            assert_eq!(
                evaluator.judge_text(&constant, None, &number.to_string()),
                Verdict::Valid
            );
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
