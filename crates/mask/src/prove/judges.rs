//! Whether a text matches its constraint, by every oracle there is: our evaluator, and for JSON
//! Schema the validator `boon`. Knows no engine.
//!
//! A proof needs all of them. Where they disagree, where one has no verdict, and where only the
//! reading of `format` decides (asserted, or an annotation, as JSON Schema leaves open), nothing is
//! proved.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use boon::{Compiler, SchemaIndex, Schemas, UrlLoader};
use serde_json::Value;

use sobench_core::constraint::Constraint;
use sobench_core::verdict::{Reason, Verdict};
use sobench_judge::{EvaluateOptions, Evaluator};

/// What all oracles say of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    /// It matches, whichever way `format` is read.
    Matches,
    /// It breaks the constraint, whichever way `format` is read: by this keyword of its schema, or
    /// for this reason.
    Breaks { how: String },
    /// They do not agree, or do not say.
    Open,
}

/// All oracles for one constraint.
pub(super) struct Judges {
    constraint: Arc<Constraint>,
    /// With formats asserted.
    strict: Evaluator,
    /// With formats as annotations.
    lenient: Evaluator,
    /// `None` where there is no second validator, or it cannot read the schema.
    second: Option<(Second, Second)>,
}

impl Judges {
    pub(super) fn new(constraint: Arc<Constraint>) -> Self {
        let evaluator = |assert_formats| Evaluator::new(EvaluateOptions { assert_formats });
        let second = match &*constraint {
            Constraint::JsonSchema(schema) => {
                Second::new(schema, true).zip(Second::new(schema, false))
            }
            _ => None,
        };
        Self {
            constraint,
            strict: evaluator(true),
            lenient: evaluator(false),
            second,
        }
    }

    /// As [`Judges::judge`]; what ends inside a character is no text, and matches nothing.
    pub(super) fn judge_bytes(&mut self, bytes: &[u8]) -> Judged {
        std::str::from_utf8(bytes).map_or(
            Judged::Breaks {
                how: "not_text".to_owned(),
            },
            |text| self.judge(text),
        )
    }

    /// Judges a whole text.
    pub(super) fn judge(&mut self, text: &str) -> Judged {
        let value = self
            .second
            .as_ref()
            .and_then(|_| serde_json::from_str::<Value>(text).ok());
        let second = |strict: bool| match (&self.second, &value) {
            (Some((asserting, annotating)), Some(value)) => {
                if strict { asserting } else { annotating }.takes(value)
            }
            // What is no JSON is nothing to it; what it cannot say, it does not gainsay.
            _ => None,
        };
        match self.strict.judge_text(&self.constraint, None, text) {
            Verdict::Valid if second(true) != Some(false) => Judged::Matches,
            Verdict::Invalid { .. } => {
                match self.lenient.judge_text(&self.constraint, None, text) {
                    // Of two members of one name the second oracle sees the last alone, and says
                    // what it says of another text. Half a surrogate pair is spelt as RFC 8259 has
                    // it, which leaves open what it stands for (8.2).
                    Verdict::Invalid {
                        reason: Reason::DuplicateKey { .. } | Reason::LoneSurrogate { .. },
                    } => Judged::Open,
                    Verdict::Invalid { reason } if second(false) != Some(true) => {
                        Judged::Breaks { how: how(&reason) }
                    }
                    _ => Judged::Open,
                }
            }
            _ => Judged::Open,
        }
    }
}

fn how(reason: &Reason) -> String {
    match reason {
        Reason::Schema { keyword, .. } => keyword.clone(),
        reason => reason.name().to_owned(),
    }
}

/// A schema as the second validator compiled it.
struct Second {
    schemas: Schemas,
    index: SchemaIndex,
}

/// Refuses every schema from outside, as our evaluator does.
struct NothingOutside;

impl UrlLoader for NothingOutside {
    fn load(&self, url: &str) -> Result<Value, Box<dyn std::error::Error>> {
        Err(format!("{url} is outside the document").into())
    }
}

impl Second {
    /// `None` where it cannot read the schema. It recurses as deep as the schema does, on a stack
    /// that the worker made large enough.
    fn new(schema: &Value, assert_formats: bool) -> Option<Self> {
        const PLACE: &str = "https://example.invalid/schema.json";
        let compile = || {
            let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
            compiler.use_loader(Box::new(NothingOutside));
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

    /// `None` where it gives out.
    fn takes(&self, value: &Value) -> Option<bool> {
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
    fn only_what_all_agree_on_is_said() {
        let schema = json!({"type": "object", "properties": {"when": {"format": "date"}, "n": {"type": "integer"}}});
        let mut judges = Judges::new(Arc::new(Constraint::JsonSchema(Arc::new(schema))));
        assert!(judges.second.is_some());
        for (text, expected) in [
            (r#"{"when": "2026-01-01", "n": 1.0}"#, Judged::Matches),
            (r#"{"n": 1.5}"#, Judged::Breaks { how: "type".into() }),
            (
                r#"{"n": 1"#,
                Judged::Breaks {
                    how: "not_json".into(),
                },
            ),
            (r#"{"when": "yesterday"}"#, Judged::Open),
            (r#"{"n": "x", "n": 1}"#, Judged::Open),
            (r#"{"n": 1, "m": "\ud800"}"#, Judged::Open),
        ] {
            assert_eq!(judges.judge(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_schema_has_one_oracle() {
        let mut judges = Judges::new(Arc::new(Constraint::Regex("a+".into())));
        assert!(judges.second.is_none());
        assert_eq!(judges.judge("aa"), Judged::Matches);
        assert_eq!(
            judges.judge(""),
            Judged::Breaks {
                how: "empty".into()
            }
        );
    }
}
