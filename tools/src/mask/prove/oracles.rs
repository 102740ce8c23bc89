//! The oracles of a proof: the evaluator and, for JSON Schema, the validator `boon`. For structural
//! tags, the second oracle is a reader of its own, which checks JSON with `boon`.
//!
//! A proof needs their agreement. Nothing is proved if they disagree, if one has no verdict, or if
//! only the interpretation of `format` decides (asserted or annotation, which JSON Schema leaves
//! open).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use boon::{Compiler, SchemaIndex, Schemas, UrlLoader};
use serde_json::Value;

use super::syntax::{has_dialect_classes, is_in_every_dialect};
use super::tag_reader::{JsonPart, TagReader};
use sobench_core::constraint::Constraint;
use sobench_core::verdict::{Reason, Verdict};
use sobench_judge::{Evaluator, JudgeSettings, judge_text};

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
    /// For structural tags; `None` also if it does not know one of the formats.
    tag_reader: Option<TagReader>,
}

impl Oracles {
    pub(super) fn new(constraint: Arc<Constraint>) -> Self {
        let evaluator = |assert_formats| Evaluator::new(JudgeSettings { assert_formats });
        let boon = constraint.schema().and_then(|schema| {
            BoonValidator::new(schema, true).zip(BoonValidator::new(schema, false))
        });
        Self {
            tag_reader: constraint
                .structural_tag()
                .and_then(|tag| TagReader::new(tag)),
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
        if self.constraint.structural_tag().is_some() {
            return self.judge_tag(text);
        }
        let pattern = self.constraint.regex();
        if pattern.is_some_and(has_dialect_classes) && !is_in_every_dialect(text.as_bytes()) {
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
        match verdict(&mut self.strict, &self.constraint, text) {
            Verdict::Valid if boon(true) != Some(false) => Judgement::Matches,
            Verdict::Invalid { .. } => match verdict(&mut self.lenient, &self.constraint, text) {
                Verdict::Invalid { reason } if is_open(&reason) => Judgement::Undecided,
                Verdict::Invalid { reason } if boon(false) != Some(true) => Judgement::Violates {
                    rule: rule(&reason),
                },
                _ => Judgement::Undecided,
            },
            _ => Judgement::Undecided,
        }
    }

    fn judge_tag(&mut self, text: &str) -> Judgement {
        let reader = self.tag_reader.as_ref();
        let Some(reading) = reader.and_then(|reader| reader.read(text.as_bytes())) else {
            return Judgement::Undecided;
        };
        match verdict(&mut self.strict, &self.constraint, text) {
            Verdict::Valid if reading.surely_matches => Judgement::Matches,
            Verdict::Invalid { .. } if !reading.may_match => {
                match verdict(&mut self.lenient, &self.constraint, text) {
                    Verdict::Invalid { reason } if !is_open(&reason) => Judgement::Violates {
                        rule: self.rule_of_tag(&reason, reading.refused.as_ref(), text),
                    },
                    _ => Judgement::Undecided,
                }
            }
            _ => Judgement::Undecided,
        }
    }

    /// The keyword that a JSON value violates, if that is why the text does not follow the tag.
    fn rule_of_tag(&mut self, reason: &Reason, refused: Option<&JsonPart>, text: &str) -> String {
        if let (Reason::StructuralTag { byte, .. }, Some(part)) = (reason, refused) {
            let value = text[part.range.clone()].trim_ascii();
            let is_there = text[..*byte].trim_ascii_end().len() <= part.range.start
                && part.range.contains(byte);
            let schema = Constraint::JsonSchema(Arc::new(part.schema.clone()));
            if is_there
                && let Some(reason) = verdict(&mut self.lenient, &schema, value).into_reason()
            {
                return rule(&reason);
            }
        }
        rule(reason)
    }

    /// The JSON values of a text: the text itself for JSON constraints, or those in a tag.
    pub(super) fn json_parts(&self, text: &str) -> Vec<JsonPart> {
        let whole = |schema: Value| {
            vec![JsonPart {
                range: 0..text.len(),
                schema,
            }]
        };
        if self.constraint.is_json() {
            let schema = self.constraint.schema();
            return whole(schema.map_or(Value::Bool(true), |schema| Value::clone(schema)));
        }
        let reader = self.tag_reader.as_ref();
        let reading = reader.and_then(|reader| reader.read(text.as_bytes()));
        reading.map_or_else(Vec::new, |reading| reading.parts)
    }
}

fn verdict(evaluator: &mut Evaluator, constraint: &Constraint, text: &str) -> Verdict {
    judge_text(&evaluator.compile(constraint), text)
}

/// Whether the meaning of the text is open. Of repeated members, `boon` sees only the last and
/// judges another text. Lone surrogates follow the grammar of RFC 8259, which leaves their meaning
/// open (8.2). The limits of answers are no part of the constraint.
fn is_open(reason: &Reason) -> bool {
    matches!(
        reason,
        Reason::DuplicateKey { .. }
            | Reason::LoneSurrogate { .. }
            | Reason::TooLong { .. }
            | Reason::TooDeep { .. }
            | Reason::RunawayWhitespace { .. }
    )
}

fn rule(reason: &Reason) -> String {
    match reason {
        Reason::Schema { keyword, .. } => keyword.clone(),
        reason => reason.name().to_owned(),
    }
}

/// A schema compiled by `boon`.
pub(super) struct BoonValidator {
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
    pub(super) fn new(schema: &Value, assert_formats: bool) -> Option<Self> {
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
    pub(super) fn accepts(&self, value: &Value) -> Option<bool> {
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
    fn dialect_dependent_classes_prove_nothing_beyond_ascii() {
        let violates = Judgement::Violates {
            rule: "regex".into(),
        };
        for (pattern, text, expected) in [
            (r"\d{2}", "42", Judgement::Matches),
            (r"\d{2}", "4x", violates.clone()),
            (r"\d{2}", "4٧", Judgement::Undecided),
            (r"[^\W]", "é", Judgement::Undecided),
            ("[0-9]{2}", "4٧", violates),
            (".", "٧", Judgement::Matches),
        ] {
            let mut oracles = Oracles::new(Arc::new(Constraint::Regex(pattern.into())));
            assert_eq!(oracles.judge(text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn tags_are_decided_where_evaluator_and_reader_agree() {
        let tag = json!({"format": {"type": "triggered_tags", "triggers": ["<f="], "tags": [
            {"begin": "<f=a>", "content": {"type": "json_schema", "json_schema": {"type": "object", "properties": {"when": {"format": "date"}, "n": {"type": "integer"}}, "required": ["n"]}}, "end": "</f>"}]}});
        let mut oracles = Oracles::new(Arc::new(Constraint::StructuralTag(Arc::new(tag))));
        let violates = |rule: &str| Judgement::Violates { rule: rule.into() };
        for (text, expected) in [
            ("text", Judgement::Matches),
            ("<f=a> {\"n\": 1.0} </f>", Judgement::Matches),
            ("<f=a>{\"n\": \"\"}</f>", violates("type")),
            ("and <f=a>{}</f>", violates("required")),
            ("<f=b>", violates("structural_tag")),
            ("<f=a>{\"n\": 1}", violates("structural_tag")),
            (
                "<f=a>{\"n\": 1, \"when\": \"soon\"}</f>",
                Judgement::Undecided,
            ),
            ("<f=a>{\"n\": 1, \"n\": 2}</f>", Judgement::Undecided),
        ] {
            assert_eq!(oracles.judge(text), expected, "{text}");
        }
        assert_eq!(oracles.json_parts("<f=a>{\"n\":1} </f>")[0].range, 5..13);
        let unknown = json!({"format": {"type": "any_tokens"}});
        let mut oracles = Oracles::new(Arc::new(Constraint::StructuralTag(Arc::new(unknown))));
        assert_eq!(oracles.judge("text"), Judgement::Undecided);
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
