//! The oracles of a proof: the evaluator and, for JSON Schema, the validator `boon`.
//!
//! A proof needs their agreement. Nothing is proved if they disagree, if one has no verdict, or if
//! only the interpretation of `format` decides (asserted or annotation, which JSON Schema leaves
//! open).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use boon::{Compiler, SchemaIndex, Schemas, UrlLoader};
use serde_json::Value;

use sobench_core::constraint::Constraint;
use sobench_core::verdict::{Reason, Verdict};
use sobench_judge::{EvaluateOptions, Evaluator};

/// The common judgement of all oracles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    /// The text matches, with and without asserted formats.
    Matches,
    /// The text violates the constraint, with and without asserted formats: this keyword of its
    /// schema, or this other rule.
    Violates { rule: String },
    /// The oracles disagree or have no verdict.
    Undecided,
}

/// All oracles for one constraint.
pub(super) struct Oracles {
    constraint: Arc<Constraint>,
    /// With formats asserted.
    strict: Evaluator,
    /// With formats as annotations.
    lenient: Evaluator,
    /// `None` for other constraints, or if `boon` cannot read the schema.
    boon: Option<(BoonValidator, BoonValidator)>,
}

impl Oracles {
    pub(super) fn new(constraint: Arc<Constraint>) -> Self {
        let evaluator = |assert_formats| Evaluator::new(EvaluateOptions { assert_formats });
        let boon = match &*constraint {
            Constraint::JsonSchema(schema) => {
                BoonValidator::new(schema, true).zip(BoonValidator::new(schema, false))
            }
            _ => None,
        };
        Self {
            constraint,
            strict: evaluator(true),
            lenient: evaluator(false),
            boon,
        }
    }

    /// As [`Oracles::judge`]; bytes that are not UTF-8 match nothing.
    pub(super) fn judge_bytes(&mut self, bytes: &[u8]) -> Judgement {
        std::str::from_utf8(bytes).map_or(
            Judgement::Violates {
                rule: "not_text".to_owned(),
            },
            |text| self.judge(text),
        )
    }

    /// Judges a complete text.
    pub(super) fn judge(&mut self, text: &str) -> Judgement {
        // The evaluator and xgrammar differ on purpose about the JSON in a structural tag.
        if matches!(*self.constraint, Constraint::StructuralTag(_)) {
            return Judgement::Undecided;
        }
        let value = self
            .boon
            .as_ref()
            .and_then(|_| serde_json::from_str::<Value>(text).ok());
        let boon = |strict: bool| match (&self.boon, &value) {
            (Some((asserting, annotating)), Some(value)) => {
                if strict { asserting } else { annotating }.accepts(value)
            }
            // `boon` has no verdict on invalid JSON.
            _ => None,
        };
        match self.strict.judge_text(&self.constraint, None, text) {
            Verdict::Valid if boon(true) != Some(false) => Judgement::Matches,
            Verdict::Invalid { .. } => {
                match self.lenient.judge_text(&self.constraint, None, text) {
                    // Of repeated members, `boon` sees only the last and judges another text. Lone
                    // surrogates follow the grammar of RFC 8259, which leaves their meaning open
                    // (8.2). The limits of answers are no part of the constraint.
                    Verdict::Invalid {
                        reason:
                            Reason::DuplicateKey { .. }
                            | Reason::LoneSurrogate { .. }
                            | Reason::TooLong { .. }
                            | Reason::TooDeep { .. }
                            | Reason::RunawayWhitespace { .. },
                    } => Judgement::Undecided,
                    Verdict::Invalid { reason } if boon(false) != Some(true) => {
                        Judgement::Violates {
                            rule: rule(&reason),
                        }
                    }
                    _ => Judgement::Undecided,
                }
            }
            _ => Judgement::Undecided,
        }
    }
}

fn rule(reason: &Reason) -> String {
    match reason {
        Reason::Schema { keyword, .. } => keyword.clone(),
        reason => reason.name().to_owned(),
    }
}

/// A schema compiled by `boon`.
struct BoonValidator {
    schemas: Schemas,
    index: SchemaIndex,
}

/// Rejects all external schemas, as the evaluator does.
struct NoRemoteSchemas;

impl UrlLoader for NoRemoteSchemas {
    fn load(&self, url: &str) -> Result<Value, Box<dyn std::error::Error>> {
        Err(format!("{url} is outside the document").into())
    }
}

impl BoonValidator {
    /// `None` if it cannot read the schema. It recurses as deep as the schema; the worker's stack
    /// is large enough.
    fn new(schema: &Value, assert_formats: bool) -> Option<Self> {
        const PLACE: &str = "https://example.invalid/schema.json";
        let compile = || {
            let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
            compiler.use_loader(Box::new(NoRemoteSchemas));
            compiler.set_default_draft(boon::Draft::V2020_12);
            if assert_formats {
                compiler.enable_format_assertions();
            }
            compiler.add_resource(PLACE, schema.clone()).ok()?;
            let index = compiler.compile(PLACE, &mut schemas).ok()?;
            Some(Self { schemas, index })
        };
        catch_unwind(AssertUnwindSafe(compile)).ok().flatten()
    }

    /// `None` if it panics.
    fn accepts(&self, value: &Value) -> Option<bool> {
        catch_unwind(AssertUnwindSafe(|| {
            self.schemas.validate(value, self.index).is_ok()
        }))
        .ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn oracles_decide_only_when_they_agree() {
        let schema = json!({"type": "object", "properties": {"when": {"format": "date"}, "n": {"type": "integer"}}});
        let mut oracles = Oracles::new(Arc::new(Constraint::JsonSchema(Arc::new(schema))));
        assert!(oracles.boon.is_some());
        for (text, expected) in [
            (r#"{"when": "2026-01-01", "n": 1.0}"#, Judgement::Matches),
            (
                r#"{"n": 1.5}"#,
                Judgement::Violates {
                    rule: "type".into(),
                },
            ),
            (
                r#"{"n": 1"#,
                Judgement::Violates {
                    rule: "not_json".into(),
                },
            ),
            (r#"{"when": "yesterday"}"#, Judgement::Undecided),
            (r#"{"n": "x", "n": 1}"#, Judgement::Undecided),
            (r#"{"n": 1, "m": "\ud800"}"#, Judgement::Undecided),
        ] {
            assert_eq!(oracles.judge(text), expected, "{text}");
        }
    }

    #[test]
    fn other_constraints_have_a_single_oracle() {
        let mut oracles = Oracles::new(Arc::new(Constraint::Regex("a+".into())));
        assert!(oracles.boon.is_none());
        assert_eq!(oracles.judge("aa"), Judgement::Matches);
        assert_eq!(
            oracles.judge(""),
            Judgement::Violates {
                rule: "empty".into()
            }
        );
    }
}
