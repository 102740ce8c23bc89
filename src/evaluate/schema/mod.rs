//! JSON Schema, through the `jsonschema` crate. Knows values and schemas; how a text becomes a value is `answer.rs`'s matter.
//!
//! The draft is the one that `$schema` names, else 2020-12. `format` is asserted in every draft unless switched off
//! (`formats.rs`); names that no draft defines are passed over, as every draft asks. `pattern` follows ECMA-262 and is not
//! anchored. Numbers are compared by their digits (`bounds.rs`, `decimal.rs`). A `$ref` leads into the document or to the
//! meta-schemas of its own draft; nothing is ever fetched.
//!
//! Known to fall short: `patternProperties` with look-around reads `\d`, `\w` and `\s` as Unicode's, and its `.` takes line
//! terminators other than newline; a divisor of over 19 digits in `multipleOf` is not judged by; the violation is called
//! `contains` for `minContains` and `maxContains`, and `required` for `dependentRequired` (the schema path tells them apart).

mod bounds;
mod compiled;
mod counted;
mod decimal;
mod formats;
mod keywords;
mod outside;
mod shape;
mod size;
mod survey;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde_json::{Map, Value};

use self::compiled::Compiled;
use self::counted::{Budget, Ended, Node};
use self::shape::Demand;
use self::size::Size;
use super::{EvaluateOptions, stack};
use crate::verdict::{NotScored, Reason, Verdict};

/// Objects and arrays inside one another that a schema may have: compiling one recurses.
const MAX_SCHEMA_NESTING: usize = 128;

/// Values of any kind in a schema. The largest of 1,452 schemas of MaskBench has 2,885.
const MAX_SCHEMA_VALUES: usize = 250_000;

/// Bytes of the strings, names and numbers of a schema.
const MAX_SCHEMA_BYTES: usize = 8 << 20;

/// Schemas of a schema that refer to others: the validator takes time by their square where they lead to each other in a long row.
const MAX_REFERENCES: usize = 20_000;

/// Looks at a document that one validation may take (`counted.rs`): seconds of work at most. A megabyte of one-digit numbers, each under
/// `type`, `minimum` and `maximum`, stays below.
const MAX_STEPS: u64 = 20_000_000;

/// Looks that finding the first violation in document order may take. All violations are collected for that, at some 500 bytes each.
const MAX_EXPLAINING_STEPS: u64 = 200_000;

/// Looks that naming the first violation that is met may take, where there are too many to put in order.
const MAX_MEETING_STEPS: u64 = 1_000_000;

/// Schemas in place that all `unevaluatedProperties` and `unevaluatedItems` of a schema have to ask together.
const MAX_UNEVALUATED: u64 = 50_000;

/// Schemas gone through without a look that cost as much as one.
const SCHEMAS_PER_STEP: u64 = 8;

/// Steps that matching a member's name against one of `patternProperties` counts for.
const STEPS_PER_NAME_PATTERN: u64 = 4;

/// Bytes of stack that one step of a validation is given; a test of deep schemas on deep documents holds that they are enough.
const STACK_BYTES_PER_STEP: usize = 4096;

/// Bytes that a violation takes, besides those of the names on the way to it, which it repeats.
const VIOLATION_BYTES: usize = 512;

/// Characters of a violation's message; longer ones are cut, and end in an ellipsis.
const MAX_MESSAGE_CHARS: usize = 160;

/// Characters of an instance that are still quoted in a message; a longer one is called "the value".
const MAX_QUOTED_CHARS: usize = 60;

/// Stands for the keyword where too much is broken to find the first of it.
const UNNAMED: &str = "unnamed";

/// A compiled schema.
pub(super) struct SchemaJudge {
    compiled: Compiled,
    given_up: keywords::GivenUp,
    /// Schemas that may lie in one another at every level of a document.
    in_place: usize,
    budget: Budget,
}

impl SchemaJudge {
    /// Compiles `schema`; where that is impossible, says why there will be no verdict.
    pub(super) fn compile(schema: &Value, options: EvaluateOptions) -> Result<Self, NotScored> {
        refuse_large(&Size::of(schema, MAX_SCHEMA_VALUES))?;
        let demand = stack::with_room(compiled::STACK_BYTES, || Demand::of(schema))??;
        if demand.references > MAX_REFERENCES {
            return Err(NotScored::Limit { what: format!("schema of over {MAX_REFERENCES} references") });
        }
        if demand.unevaluated > MAX_UNEVALUATED {
            let what = format!("schema with over {MAX_UNEVALUATED} schemas to ask for what is unevaluated");
            return Err(NotScored::Limit { what });
        }
        if let Some(circle) = &demand.circle {
            let what = format!(
                "$ref that leads back to itself without going into the document, which JSON Schema leaves undefined: {circle}"
            );
            return Err(NotScored::Unsupported { what: clipped(&what) });
        }
        let names = keywords::read_name_patterns(&demand.name_patterns)?;
        let given_up = Arc::new(AtomicBool::new(false));
        let compiled = Compiled::new(schema, options, &given_up, &demand)?;
        let budget = Budget {
            steps: MAX_STEPS,
            each: 1 + demand.between_looks / SCHEMAS_PER_STEP,
            member: demand.most_name_patterns as u64 * STEPS_PER_NAME_PATTERN,
            backtracks: names.may_be_left,
            name_bytes: names.longest,
        };
        Ok(Self { compiled, given_up, in_place: demand.in_place, budget })
    }

    /// Holds `document` against the schema; an invalid one is explained by its first violation in document order.
    ///
    /// Validation recurses, at worst through every schema in place at every level of the document, so it is given a stack for that.
    pub(super) fn judge(&self, document: &Value) -> Verdict {
        let size = Size::of(document, usize::MAX);
        let steps = (size.nesting + 1).saturating_mul(self.in_place + 2);
        stack::with_room(steps.saturating_mul(STACK_BYTES_PER_STEP), || self.judge_here(document, &size))
            .unwrap_or_else(|why| Verdict::NotScored { why })
    }

    fn judge_here(&self, document: &Value, size: &Size) -> Verdict {
        self.given_up.store(false, Ordering::Relaxed);
        let valid = self.budget.spend(|| self.compiled.validator().is_valid(Node(document)));
        // A `pattern` that was given up may have made or hidden any violation.
        if self.given_up.load(Ordering::Relaxed) {
            return Verdict::NotScored { why: pattern_limit() };
        }
        match valid {
            Ok(true) => Verdict::Valid,
            Ok(false) => self.explain(document, size),
            Err(Ended::Name) => {
                let what = format!("name over {} bytes under patternProperties that look around", self.budget.name_bytes);
                Verdict::NotScored { why: NotScored::Limit { what } }
            }
            Err(_) => Verdict::NotScored { why: NotScored::Limit { what: format!("validation over {MAX_STEPS} steps") } },
        }
    }

    /// Names the first violation in document order; where there are too many to look at all of them, the first that is met. What is
    /// given up on the way, or takes too many steps, does not undo that there is one.
    fn explain(&self, document: &Value, size: &Size) -> Verdict {
        let each = self.budget.each.saturating_mul(1 + (size.path_bytes / VIOLATION_BYTES) as u64);
        self.look(Budget { steps: MAX_EXPLAINING_STEPS, each, ..self.budget }, || self.first_by_place(document))
            .or_else(|| self.look(Budget { steps: MAX_MEETING_STEPS, ..self.budget }, || self.first_met(document)))
            .unwrap_or_else(|| self.unnamed())
    }

    /// A verdict within a budget, if nothing was given up for it.
    fn look(&self, budget: Budget, verdict: impl FnOnce() -> Verdict) -> Option<Verdict> {
        self.given_up.store(false, Ordering::Relaxed);
        budget.spend(verdict).ok().filter(|_| !self.given_up.load(Ordering::Relaxed))
    }

    fn unnamed(&self) -> Verdict {
        // The library calls invalid what it left unfinished, too.
        if self.budget.backtracks {
            let what = format!("{MAX_MEETING_STEPS} steps to tell a violation from an unfinished match of patternProperties");
            return Verdict::NotScored { why: NotScored::Limit { what } };
        }
        let message = format!("breaks the schema; where is not found within {MAX_MEETING_STEPS} steps");
        let reason =
            Reason::Schema { keyword: UNNAMED.to_owned(), instance_path: String::new(), schema_path: String::new(), message };
        Verdict::Invalid { reason }
    }

    fn first_met(&self, document: &Value) -> Verdict {
        let Err(error) = self.compiled.validator().validate(Node(document)) else { return Verdict::Valid };
        match undecided(&error) {
            Some(why) => Verdict::NotScored { why },
            None => Verdict::Invalid { reason: violation(&error) },
        }
    }

    fn first_by_place(&self, document: &Value) -> Verdict {
        let mut unfinished = None;
        let mut first: Option<(OrderKey, ValidationError<'_>)> = None;
        let mut places = Places { document, members: HashMap::new() };
        for error in self.compiled.validator().iter_errors(Node(document)) {
            // The library reports a violation beside an unfinished match of `patternProperties` only where it holds whichever way the
            // match would end.
            if let Some(why) = undecided(&error) {
                unfinished = Some(why);
                continue;
            }
            let key = places.order_key(&error);
            if first.as_ref().is_none_or(|(earliest, _)| key < *earliest) {
                first = Some((key, error));
            }
        }
        match (first, unfinished) {
            (Some((_, error)), _) => Verdict::Invalid { reason: violation(&error) },
            (None, Some(why)) => Verdict::NotScored { why },
            (None, None) => Verdict::Valid,
        }
    }
}

fn refuse_large(size: &Size) -> Result<(), NotScored> {
    let limit = |what: String| Err(NotScored::Limit { what });
    if size.values > MAX_SCHEMA_VALUES {
        return limit(format!("schema of over {MAX_SCHEMA_VALUES} values"));
    }
    if size.bytes > MAX_SCHEMA_BYTES {
        return limit(format!("schema over {MAX_SCHEMA_BYTES} bytes"));
    }
    if size.nesting > MAX_SCHEMA_NESTING {
        return limit(format!("schema nesting over {MAX_SCHEMA_NESTING}"));
    }
    Ok(())
}

/// Why an error is no violation.
fn undecided(error: &ValidationError<'_>) -> Option<NotScored> {
    match error.kind() {
        ValidationErrorKind::BacktrackLimitExceeded { .. } => Some(pattern_limit()),
        ValidationErrorKind::RegexEngineFailure { message } => Some(NotScored::Unsupported { what: clipped(message) }),
        _ => None,
    }
}

fn pattern_limit() -> NotScored {
    NotScored::Limit { what: "pattern over its limit of backtracking steps".to_owned() }
}

fn violation(error: &ValidationError<'_>) -> Reason {
    let keyword = match error.kind() {
        // The schema `false` has no keyword.
        ValidationErrorKind::FalseSchema => "false",
        kind => kind.keyword(),
    };
    Reason::Schema {
        keyword: keyword.to_owned(),
        instance_path: error.instance_path().as_str().to_owned(),
        schema_path: error.schema_path().as_str().to_owned(),
        message: short_message(error),
    }
}

/// The validator's message, without a long instance in it.
fn short_message(error: &ValidationError<'_>) -> String {
    if is_quotable(error.instance()) { clipped(&error.to_string()) } else { clipped(&error.masked_with("the value").to_string()) }
}

fn is_quotable(instance: &Value) -> bool {
    match instance {
        Value::Array(_) | Value::Object(_) => false,
        scalar => scalar.to_string().chars().count() <= MAX_QUOTED_CHARS,
    }
}

/// An instance as messages of our own name it.
fn quoted(instance: &Value) -> String {
    if is_quotable(instance) { instance.to_string() } else { "the value".to_owned() }
}

fn clipped(message: &str) -> String {
    match message.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.to_owned(),
    }
}

/// Where a violation stands in the document (positions of members and items, outermost first), then in the schema, then its
/// words: enough to choose the same one on every run.
type OrderKey = (Vec<usize>, String, String);

/// Where members stand in the objects of a document, looked up once for each object: a document can have 100,000 violations in one.
struct Places<'a> {
    document: &'a Value,
    /// By the address of the object.
    members: HashMap<usize, HashMap<&'a str, usize>>,
}

impl<'a> Places<'a> {
    fn order_key(&mut self, error: &ValidationError<'_>) -> OrderKey {
        let mut place = Vec::new();
        let mut here = Some(self.document);
        for token in error.instance_path().as_str().split('/').skip(1) {
            let (position, next) = match here {
                Some(Value::Array(items)) => {
                    let position = token.parse().unwrap_or(usize::MAX);
                    (position, items.get(position))
                }
                Some(Value::Object(members)) => {
                    let name = token.replace("~1", "/").replace("~0", "~");
                    (self.position(members, &name), members.get(&name))
                }
                _ => (usize::MAX, None),
            };
            place.push(position);
            here = next;
        }
        (place, error.schema_path().as_str().to_owned(), error.masked().to_string())
    }

    fn position(&mut self, members: &'a Map<String, Value>, name: &str) -> usize {
        let positions = self.members.entry(std::ptr::from_ref(members) as usize);
        let positions = positions.or_insert_with(|| members.keys().map(String::as_str).zip(0..).collect());
        positions.get(name).copied().unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn judge(schema: &Value, document: &Value) -> Verdict {
        SchemaJudge::compile(schema, EvaluateOptions::default()).unwrap().judge(document)
    }

    fn reason(schema: &Value, document: &Value) -> (String, String, String, String) {
        match judge(schema, document) {
            Verdict::Invalid { reason: Reason::Schema { keyword, instance_path, schema_path, message } } => {
                (keyword, instance_path, schema_path, message)
            }
            verdict => panic!("{verdict:?}"),
        }
    }

    #[test]
    fn the_first_violation_by_document_order_is_named() {
        let schema = json!({
            "properties": { "a": { "type": "string" }, "b": { "items": { "multipleOf": 2, "pattern": "^x" } } },
            "additionalProperties": { "$ref": "#/$defs/short" },
            "$defs": { "short": { "maxLength": 1 } },
        });
        for (document, keyword, instance_path, schema_path) in [
            (json!({ "b": [2, 3, "y"], "a": 1 }), "multipleOf", "/b/1", "/properties/b/items/multipleOf"),
            (json!({ "b": [2, "y", 3], "a": 1 }), "pattern", "/b/1", "/properties/b/items/pattern"),
            (json!({ "a": 1, "b": [3] }), "type", "/a", "/properties/a/type"),
            (json!({ "x/y~": "long", "a": 1 }), "maxLength", "/x~1y~0", "/$defs/short/maxLength"),
        ] {
            let (found, at, rule, _) = reason(&schema, &document);
            assert_eq!((found.as_str(), at.as_str(), rule.as_str()), (keyword, instance_path, schema_path), "{document}");
        }
    }

    #[test]
    fn messages_are_short_and_do_not_repeat_long_values() {
        let long = "x".repeat(10_000);
        for schema in [json!({ "type": "integer" }), json!({ "pattern": "^y" }), json!({ "enum": ["z".repeat(1000)] })] {
            let (_, _, _, message) = reason(&schema, &json!(long));
            assert!(message.starts_with("the value ") && message.chars().count() <= MAX_MESSAGE_CHARS + 1, "{message}");
        }
        let (_, _, _, message) = reason(&json!({ "multipleOf": 2 }), &json!(3));
        assert_eq!(message, "3 is not a multiple of 2");
    }

    #[test]
    fn a_match_that_is_given_up_is_no_verdict() {
        let slow = "(?=(a+)+$)(a|aa)+\\1b";
        for schema in [
            json!({ "pattern": slow }),
            json!({ "not": { "pattern": slow } }),
            json!({ "anyOf": [{ "pattern": slow }, { "type": "integer" }] }),
        ] {
            let verdict = judge(&schema, &json!("a".repeat(40)));
            assert!(matches!(verdict, Verdict::NotScored { why: NotScored::Limit { .. } }), "{schema}: {verdict:?}");
        }
        let judge = SchemaJudge::compile(&json!({ "pattern": slow }), EvaluateOptions::default()).unwrap();
        assert!(matches!(judge.judge(&json!("a".repeat(40))), Verdict::NotScored { .. }));
        assert!(matches!(judge.judge(&json!("c")), Verdict::Invalid { .. }), "the next answer is judged afresh");
    }

    #[test]
    fn formats_of_later_drafts_are_asserted_in_earlier_ones() {
        for draft in ["http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-07/schema#"] {
            for (format, wrong) in [("uuid", "1234"), ("date", "2023-02-30"), ("duration", "PT"), ("regex", "(")] {
                let schema = json!({ "$schema": draft, "format": format });
                assert_eq!(reason(&schema, &json!(wrong)).0, "format", "{schema}");
            }
        }
    }

    #[test]
    fn deep_schemas_on_deep_documents_do_not_exhaust_the_stack() {
        let mut schema = json!({ "items": { "$ref": "#" } });
        for _ in 0..60 {
            schema = json!({ "allOf": [schema] });
        }
        let mut document = json!(1);
        for _ in 0..super::super::json::MAX_NESTING {
            document = json!([document]);
        }
        assert_eq!(judge(&schema, &document), Verdict::Valid);
        let refused =
            SchemaJudge::compile(&json!({ "allOf": [{ "not": schema }, {}], "not": nested_not(70) }), EvaluateOptions::default());
        assert!(matches!(refused, Err(NotScored::Limit { .. })));
    }

    fn nested_not(depth: usize) -> Value {
        (0..depth).fold(json!({}), |schema, _| json!({ "allOf": [schema] }))
    }

    #[test]
    fn schemas_that_cannot_be_judged_by_say_why() {
        for (schema, why) in [
            (json!({ "$ref": "https://example.com/a.json" }), "$ref to https://example.com/a.json is outside the document"),
            (json!({ "$schema": "urn:x" }), "$schema names no published draft: urn:x"),
            (json!({ "properties": { "a": { "pattern": "(" } } }), "a group is not closed"),
            (json!({ "multipleOf": 0 }), "multipleOf"),
        ] {
            let Err(NotScored::Unsupported { what }) = SchemaJudge::compile(&schema, EvaluateOptions::default()) else {
                panic!("{schema} compiles");
            };
            assert!(what.contains(why), "{what}");
        }
    }
}
