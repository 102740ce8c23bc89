//! Judges an answer by its constraint. Pure: no clock, no network, no environment.
//!
//! What happened comes first: a request that was refused, failed, was cancelled or never sent has
//! no answer to judge, and one that was cut at the token limit is invalid as truncated, whatever
//! its text looks like. (A text that happens to be complete at the very token where it was cut
//! counts as truncated, too: the server did not say that it was done, and a longer limit might have
//! gone on.)
//!
//! Then the text, exactly as sent, is held against the constraint: one kind of constraint a file,
//! and `answer.rs` for what counts as the answer where JSON is due. Whatever cannot be judged (a
//! schema that does not compile, a `$ref` that leads outside, a limit) is not scored, and says why;
//! it is never taken for right or wrong.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod answer;
pub mod call;
mod choice;
mod grammar;
mod json;
mod json_object;
pub mod legacy;
mod pattern;
mod regex;
mod schema;
mod stack;

use std::collections::{HashMap, VecDeque};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use sobench_core::answer::Answer;
use sobench_core::constraint::{Constraint, sha256_hex};
use sobench_core::observation::{Outcome, TransportCause};
use sobench_core::verdict::{NotScored, Reason, Verdict};

/// Bytes of an answer that are judged; a longer one is not scored.
pub const MAX_ANSWER_BYTES: usize = 1 << 20;

/// Compiled constraints that are kept; the oldest one goes first.
const MAX_COMPILED: usize = 256;

/// What is open to choice in judging. Part of every report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvaluateOptions {
    /// Whether a string that breaks its `format` is invalid, in every draft. Decoding engines
    /// promise formats, so: yes by default.
    pub assert_formats: bool,
}

impl Default for EvaluateOptions {
    fn default() -> Self {
        Self {
            assert_formats: true,
        }
    }
}

/// Judges answers, and remembers compiled constraints from one to the next.
pub struct Evaluator {
    options: EvaluateOptions,
    compiled: HashMap<String, Arc<Judge>>,
    /// The keys of `compiled`, oldest first.
    ages: VecDeque<String>,
}

/// A constraint made ready for judging.
enum Judge {
    Schema(schema::SchemaJudge),
    JsonObject,
    Regex(regex::RegexJudge),
    Choice(Arc<[String]>),
    Grammar(grammar::GrammarJudge),
    /// There is no judging by it.
    None(NotScored),
}

impl Evaluator {
    /// An evaluator that has compiled nothing yet.
    pub fn new(options: EvaluateOptions) -> Self {
        Self {
            options,
            compiled: HashMap::new(),
            ages: VecDeque::new(),
        }
    }

    /// Judges an answer: first how the request ended, then the text by the constraint. `oracle` is
    /// a pest grammar that decides in place of a constraint that is a grammar.
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
        if let Judge::None(why) = &*judge {
            return Verdict::NotScored { why: why.clone() };
        }
        if text.len() > MAX_ANSWER_BYTES {
            return Verdict::NotScored {
                why: NotScored::Limit {
                    what: format!("answer over {MAX_ANSWER_BYTES} bytes"),
                },
            };
        }
        contained(|| judge.judge(text)).unwrap_or_else(|why| Verdict::NotScored { why })
    }

    /// Why there would be no verdict by `constraint`, whatever the answer; `None` where it can be
    /// judged by.
    pub fn unusable(&mut self, constraint: &Constraint, oracle: Option<&str>) -> Option<NotScored> {
        match &*self.compiled(constraint, oracle) {
            Judge::None(why) => Some(why.clone()),
            _ => None,
        }
    }

    fn compiled(&mut self, constraint: &Constraint, oracle: Option<&str>) -> Arc<Judge> {
        let oracle_key = oracle
            .map(|oracle| sha256_hex(oracle.as_bytes()))
            .unwrap_or_default();
        let key = constraint.fingerprint() + &oracle_key;
        if let Some(judge) = self.compiled.get(&key) {
            return Arc::clone(judge);
        }
        if self.ages.len() == MAX_COMPILED
            && let Some(oldest) = self.ages.pop_front()
        {
            self.compiled.remove(&oldest);
        }
        let options = self.options;
        let judge =
            contained(|| Judge::compile(constraint, oracle, options)).and_then(|judge| judge);
        let judge = Arc::new(judge.unwrap_or_else(Judge::None));
        self.ages.push_back(key.clone());
        self.compiled.insert(key, Arc::clone(&judge));
        judge
    }
}

impl Judge {
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
                what: "structural tags are not judged yet".to_owned(),
            }),
        }
    }

    fn judge(&self, text: &str) -> Verdict {
        match self {
            Self::Schema(judge) => answer::json_answer(text)
                .map_or_else(|verdict| verdict, |document| judge.judge(&document)),
            Self::JsonObject => answer::json_answer(text)
                .map_or_else(|verdict| verdict, |document| json_object::judge(&document)),
            Self::Regex(judge) => judge.judge(text),
            Self::Choice(choices) => choice::judge(choices, text),
            Self::Grammar(judge) => judge.judge(text),
            Self::None(why) => Verdict::NotScored { why: why.clone() },
        }
    }
}

/// Keeps a library's panic to the case that set it off.
fn contained<T>(work: impl FnOnce() -> T) -> Result<T, NotScored> {
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
    fn what_happened_comes_before_what_was_said() {
        let body = String::new;
        for (outcome, expected, free) in [
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
            for (constraint, expected) in [(Some(any_object()), expected), (None, free)] {
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
    fn the_oracle_decides_where_there_is_one() {
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
            "compiled under a key of its own"
        );
    }

    #[test]
    fn formats_are_asserted_unless_switched_off() {
        let dated = schema(json!({ "format": "date" }));
        let mut lenient = Evaluator::new(EvaluateOptions {
            assert_formats: false,
        });
        assert_eq!(
            lenient.judge_text(&dated, None, "\"2023-02-30\""),
            Verdict::Valid
        );
        let mut strict = Evaluator::new(EvaluateOptions::default());
        assert!(matches!(
            strict.judge_text(&dated, None, "\"2023-02-30\""),
            Verdict::Invalid { .. }
        ));
    }

    #[test]
    fn long_answers_are_not_scored_and_compiled_constraints_are_bounded() {
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
            (evaluator.compiled.len(), evaluator.ages.len()),
            (MAX_COMPILED, MAX_COMPILED)
        );
    }

    #[test]
    fn a_panic_costs_its_own_case() {
        let quiet: Result<(), NotScored> =
            contained(|| panic::resume_unwind(Box::new("as a library would")));
        assert!(matches!(quiet, Err(NotScored::Unsupported { .. })));
    }
}
