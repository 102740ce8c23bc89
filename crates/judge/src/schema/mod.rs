//! Judges a value by a JSON Schema, with the `jsonschema` crate.
//!
//! The draft is the one that `$schema` names, else 2020-12. `format` is asserted in every draft
//! unless switched off (`formats.rs`); names that no draft defines are passed over, as every draft
//! asks. `pattern` follows ECMA-262 and is not anchored. Numbers are compared by their digits
//! (`decimal.rs`). A `$ref` leads into the document or to the meta-schemas of its own draft;
//! nothing is ever fetched.
//!
//! No schema takes the program's memory, stack or time: `survey.rs` bounds the compile,
//! `counted.rs` the validation.
//!
//! Known to fall short: `patternProperties` with look-around reads `\d`, `\w` and `\s` as
//! Unicode's, and its `.` takes line terminators other than newline; a divisor of over 19 digits in
//! `multipleOf` is not judged by; the violation is called `contains` for `minContains` and
//! `maxContains`, and `required` for `dependentRequired` (the schema path tells them apart).

mod counted;
mod decimal;
mod formats;
mod keywords;
mod size;
mod survey;

use std::collections::HashSet;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ReferencingError, Retrieve, Uri, ValidationError, Validator};
use serde_json::Value;

use self::counted::{Budget, Counted, Ended, Node};
use self::size::Size;
use self::survey::Cost;
use super::{EvaluateOptions, stack};
use sobench_core::verdict::{NotScored, Reason, Verdict};

/// Objects and arrays inside one another that a schema may have: compiling one recurses.
const MAX_SCHEMA_NESTING: usize = 128;

/// Values of any kind in a schema. The largest of 1,452 schemas of MaskBench has 2,885.
const MAX_SCHEMA_VALUES: usize = 250_000;

/// Bytes of the strings, names and numbers of a schema.
const MAX_SCHEMA_BYTES: usize = 8 << 20;

/// References in a schema: the validator takes time by their square where they lead to each other
/// in a long row.
const MAX_REFERENCES: usize = 20_000;

/// Looks at a document that one validation may take (`counted.rs`): seconds of work at most. A
/// megabyte of one-digit numbers, each under `type`, `minimum` and `maximum`, stays below.
const MAX_STEPS: u64 = 20_000_000;

/// Looks that finding the first violation in document order may take. All violations are collected
/// for that, at some 500 bytes each.
const MAX_EXPLAINING_STEPS: u64 = 200_000;

/// Looks that naming the first violation that is met may take, where there are too many to put in
/// order.
const MAX_MEETING_STEPS: u64 = 1_000_000;

/// Schemas gone through without a look that cost as much as one.
const SCHEMAS_PER_STEP: u64 = 8;

/// Steps that matching a member's name against one of `patternProperties` counts for.
const STEPS_PER_NAME_PATTERN: u64 = 4;

/// Bytes of stack for compiling a schema of the largest nesting.
const COMPILE_STACK_BYTES: usize = 16 << 20;

/// Bytes of stack for each schema that the validator compiles: it drops a row of them by recursion,
/// wherever references lead.
const STACK_BYTES_PER_PART: usize = 2048;

/// Bytes of stack for each schema in place that `unevaluatedProperties` asks: it is compiled by
/// recursion through references, too.
const STACK_BYTES_PER_ASKED: usize = 16 << 10;

/// Backtracking steps after which one name under `patternProperties` with look-around or
/// back-references is given up.
const MAX_PATTERN_STEPS: usize = 50_000;

/// Bytes that one compiled pattern of `patternProperties` may take.
const MAX_PATTERN_BYTES: usize = 32 << 20;

/// Bytes of stack that one step of a validation is given; a test of deep schemas on deep documents
/// holds that they are enough.
const STACK_BYTES_PER_STEP: usize = 4096;

/// Bytes that a violation takes, besides those of the names on the way to it, which it repeats.
const VIOLATION_BYTES: usize = 512;

/// Characters of a violation's message; longer ones are cut, and end in an ellipsis.
const MAX_MESSAGE_CHARS: usize = 160;

/// Characters of an instance that are still quoted in a message; a longer one is called "the
/// value".
const MAX_QUOTED_CHARS: usize = 60;

/// Stands for the keyword where too much is broken to find the first of it.
const UNNAMED: &str = "unnamed";

/// A compiled schema.
pub(super) struct SchemaJudge {
    /// Taken by dropping only.
    validator: Option<Validator<Counted>>,
    drop_stack_bytes: usize,
    /// Schemas that may lie in one another at every level of a document.
    in_place: usize,
    budget: Budget,
}

impl SchemaJudge {
    /// Compiles `schema`; where that is impossible, says why there will be no verdict.
    pub(super) fn compile(schema: &Value, options: EvaluateOptions) -> Result<Self, NotScored> {
        refuse_large(&Size::of(schema, MAX_SCHEMA_VALUES))?;
        let cost = stack::with_room(COMPILE_STACK_BYTES, || Cost::of(schema))??;
        let names = keywords::read_name_patterns(&cost.name_patterns)?;
        let drop_stack_bytes = cost.parts.saturating_mul(STACK_BYTES_PER_PART);
        let asked = cost
            .in_place
            .min(usize::try_from(cost.unevaluated).unwrap_or(usize::MAX));
        let room = COMPILE_STACK_BYTES
            .saturating_add(drop_stack_bytes)
            .saturating_add(asked.saturating_mul(STACK_BYTES_PER_ASKED));
        let validator = stack::with_room(room, || build(schema, options))??;
        let budget = Budget {
            steps: MAX_STEPS,
            each: 1 + cost.between_looks / SCHEMAS_PER_STEP,
            member: cost.most_name_patterns as u64 * STEPS_PER_NAME_PATTERN,
            backtracks: names.may_be_left,
            name_bytes: names.longest,
        };
        Ok(Self {
            validator: Some(validator),
            drop_stack_bytes,
            in_place: cost.in_place,
            budget,
        })
    }

    fn validator(&self) -> &Validator<Counted> {
        self.validator
            .as_ref()
            .expect("it is taken by dropping only")
    }

    /// Holds `document` against the schema; an invalid one is explained by its first violation in
    /// document order.
    ///
    /// Validation recurses, at worst through every schema in place at every level of the document,
    /// so it is given a stack for that.
    pub(super) fn judge(&self, document: &Value) -> Verdict {
        let size = Size::of(document, usize::MAX);
        let steps = (size.nesting + 1).saturating_mul(self.in_place + 2);
        stack::with_room(steps.saturating_mul(STACK_BYTES_PER_STEP), || {
            self.judge_here(document, &size)
        })
        .unwrap_or_else(|why| Verdict::NotScored { why })
    }

    fn judge_here(&self, document: &Value, size: &Size) -> Verdict {
        let limit = |what| Verdict::NotScored {
            why: NotScored::Limit { what },
        };
        match self
            .budget
            .spend(|| self.validator().is_valid(Node(document)))
        {
            Ok(true) => Verdict::Valid,
            Ok(false) => self.explain(document, size),
            // A `pattern` that was given up may have made or hidden any violation.
            Err(Ended::GivenUp) => Verdict::NotScored {
                why: pattern_limit(),
            },
            Err(Ended::Name) => limit(format!(
                "name over {} bytes under patternProperties that look around",
                self.budget.name_bytes
            )),
            Err(Ended::Steps) => limit(format!("validation over {MAX_STEPS} steps")),
        }
    }

    /// Names the first violation in document order; where there are too many to look at all of
    /// them, the first that is met. What is given up on the way, or takes too many steps, does not
    /// undo that there is one.
    fn explain(&self, document: &Value, size: &Size) -> Verdict {
        let each = self
            .budget
            .each
            .saturating_mul(1 + (size.path_bytes / VIOLATION_BYTES) as u64);
        let by_place = Budget {
            steps: MAX_EXPLAINING_STEPS,
            each,
            ..self.budget
        };
        let met = Budget {
            steps: MAX_MEETING_STEPS,
            ..self.budget
        };
        by_place
            .spend(|| self.first_by_place(document))
            .or_else(|_| met.spend(|| self.first_met(document)))
            .unwrap_or_else(|_| self.unnamed())
    }

    fn unnamed(&self) -> Verdict {
        // The library calls invalid what it left unfinished, too.
        if self.budget.backtracks {
            let what = format!(
                "{MAX_MEETING_STEPS} steps to tell a violation from an unfinished match of patternProperties"
            );
            return Verdict::NotScored {
                why: NotScored::Limit { what },
            };
        }
        let message =
            format!("breaks the schema; where is not found within {MAX_MEETING_STEPS} steps");
        let reason = Reason::Schema {
            keyword: UNNAMED.to_owned(),
            instance_path: String::new(),
            schema_path: String::new(),
            message,
        };
        Verdict::Invalid { reason }
    }

    fn first_met(&self, document: &Value) -> Verdict {
        let Err(error) = self.validator().validate(Node(document)) else {
            return Verdict::Valid;
        };
        match undecided(&error) {
            Some(why) => Verdict::NotScored { why },
            None => Verdict::Invalid {
                reason: violation(&error),
            },
        }
    }

    fn first_by_place(&self, document: &Value) -> Verdict {
        // The library reports a violation beside an unfinished match of `patternProperties` only
        // where it holds whichever way the match would end.
        let errors = self.validator().iter_errors(Node(document));
        let (unfinished, violations): (Vec<_>, Vec<_>) =
            errors.partition(|error| undecided(error).is_some());
        match (
            first(document, violations),
            unfinished.last().and_then(undecided),
        ) {
            (Some(error), _) => Verdict::Invalid {
                reason: violation(&error),
            },
            (None, Some(why)) => Verdict::NotScored { why },
            (None, None) => Verdict::Valid,
        }
    }
}

impl Drop for SchemaJudge {
    fn drop(&mut self) {
        let mut validator = self.validator.take();
        if stack::with_room(self.drop_stack_bytes, || drop(validator.take())).is_err() {
            // Without a thread to drop it on, a leak is better than an overflow of this one's
            // stack.
            std::mem::forget(validator);
        }
    }
}

/// Refuses to leave the document: a schema never makes us open a socket or a file.
struct NothingOutside;

impl Retrieve for NothingOutside {
    fn retrieve(
        &self,
        uri: &Uri<String>,
    ) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err(format!("{uri} is outside the document").into())
    }
}

fn build(schema: &Value, options: EvaluateOptions) -> Result<Validator<Counted>, NotScored> {
    let patterns = PatternOptions::fancy_regex()
        .backtrack_limit(MAX_PATTERN_STEPS)
        .size_limit(MAX_PATTERN_BYTES)
        .dfa_size_limit(MAX_PATTERN_BYTES);
    let validator_options = jsonschema::options_for::<Counted>()
        .should_validate_formats(options.assert_formats)
        .should_ignore_unknown_formats(true)
        .with_retriever(NothingOutside)
        .with_pattern_options(patterns);
    let mut validator_options = keywords::add(validator_options);
    if options.assert_formats {
        validator_options = formats::add_later(validator_options, schema);
    }
    validator_options.build(schema).map_err(|error| {
        let what = match error.kind() {
            // The survey has refused those that can be reached. The registry meets the others in
            // any order, so none is named.
            ValidationErrorKind::Referencing(ReferencingError::Unretrievable { .. }) => {
                "a $ref in an unused part of the schema leads outside the document".to_owned()
            }
            _ => unusable(&error),
        };
        NotScored::Unsupported { what }
    })
}

/// Why a schema cannot be judged by, in one line.
fn unusable(error: &ValidationError<'_>) -> String {
    let ValidationErrorKind::Referencing(cause) = error.kind() else {
        let place = error.instance_path().as_str();
        let place = if place.is_empty() {
            "the schema".to_owned()
        } else {
            format!("schema at {place}")
        };
        return format!("{place}: {}", short_message(error));
    };
    clipped(&match cause {
        ReferencingError::Unretrievable { uri, .. } => {
            format!("$ref to {uri} is outside the document")
        }
        ReferencingError::UnknownSpecification { specification } => {
            format!("$schema names no published draft: {specification}")
        }
        cause => format!("$ref: {cause}"),
    })
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
    if size.references > MAX_REFERENCES {
        return limit(format!("schema of over {MAX_REFERENCES} references"));
    }
    Ok(())
}

/// Why an error is no violation.
fn undecided(error: &ValidationError<'_>) -> Option<NotScored> {
    match error.kind() {
        ValidationErrorKind::BacktrackLimitExceeded { .. } => Some(pattern_limit()),
        ValidationErrorKind::RegexEngineFailure { message } => Some(NotScored::Unsupported {
            what: clipped(message),
        }),
        _ => None,
    }
}

fn pattern_limit() -> NotScored {
    NotScored::Limit {
        what: "pattern over its limit of backtracking steps".to_owned(),
    }
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
    if is_quotable(error.instance()) {
        clipped(&error.to_string())
    } else {
        clipped(&error.masked_with("the value").to_string())
    }
}

fn is_quotable(instance: &Value) -> bool {
    match instance {
        Value::Array(_) | Value::Object(_) => false,
        scalar => scalar.to_string().chars().count() <= MAX_QUOTED_CHARS,
    }
}

/// An instance as messages of our own name it.
fn quoted(instance: &Value) -> String {
    if is_quotable(instance) {
        instance.to_string()
    } else {
        "the value".to_owned()
    }
}

fn clipped(message: &str) -> String {
    match message.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.to_owned(),
    }
}

/// The violation that comes first in the document, then in the schema, then by its message: the
/// same one on every run.
fn first<'i>(
    document: &Value,
    mut errors: Vec<ValidationError<'i>>,
) -> Option<ValidationError<'i>> {
    let (mut here, mut path) = (document, String::new());
    let length = |error: &ValidationError<'_>| error.instance_path().as_str().len();
    while errors.iter().all(|error| length(error) > path.len()) {
        let next = |error: &ValidationError<'_>| {
            error.instance_path().as_str()[path.len()..]
                .split('/')
                .nth(1)
                .map(str::to_owned)
        };
        let tokens: HashSet<String> = errors.iter().filter_map(next).collect();
        let Some((token, child)) = children(here).find(|(token, _)| tokens.contains(token)) else {
            break;
        };
        errors.retain(|error| next(error).as_ref() == Some(&token));
        path = path + "/" + &token;
        here = child;
    }
    errors.into_iter().min_by_key(|error| {
        (
            length(error),
            error.schema_path().as_str().to_owned(),
            error.masked().to_string(),
        )
    })
}

/// The children of a value in the order of the document, each with its token of a JSON pointer.
fn children(value: &Value) -> Box<dyn Iterator<Item = (String, &Value)> + '_> {
    match value {
        Value::Array(items) => Box::new(
            items
                .iter()
                .enumerate()
                .map(|(index, item)| (index.to_string(), item)),
        ),
        Value::Object(members) => Box::new(
            members
                .iter()
                .map(|(name, member)| (name.replace('~', "~0").replace('/', "~1"), member)),
        ),
        _ => Box::new(std::iter::empty()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn judge(schema: &Value, document: &Value) -> Verdict {
        SchemaJudge::compile(schema, EvaluateOptions::default())
            .unwrap()
            .judge(document)
    }

    fn reason(schema: &Value, document: &Value) -> (String, String, String, String) {
        match judge(schema, document) {
            Verdict::Invalid {
                reason:
                    Reason::Schema {
                        keyword,
                        instance_path,
                        schema_path,
                        message,
                    },
            } => (keyword, instance_path, schema_path, message),
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
            (
                json!({ "b": [2, 3, "y"], "a": 1 }),
                "multipleOf",
                "/b/1",
                "/properties/b/items/multipleOf",
            ),
            (
                json!({ "b": [2, "y", 3], "a": 1 }),
                "pattern",
                "/b/1",
                "/properties/b/items/pattern",
            ),
            (
                json!({ "a": 1, "b": [3] }),
                "type",
                "/a",
                "/properties/a/type",
            ),
            (
                json!({ "x/y~": "long", "a": 1 }),
                "maxLength",
                "/x~1y~0",
                "/$defs/short/maxLength",
            ),
        ] {
            let (found, at, rule, _) = reason(&schema, &document);
            assert_eq!(
                (found.as_str(), at.as_str(), rule.as_str()),
                (keyword, instance_path, schema_path),
                "{document}"
            );
        }
    }

    #[test]
    fn messages_are_short_and_do_not_repeat_long_values() {
        let long = "x".repeat(10_000);
        for schema in [
            json!({ "type": "integer" }),
            json!({ "pattern": "^y" }),
            json!({ "enum": ["z".repeat(1000)] }),
        ] {
            let (_, _, _, message) = reason(&schema, &json!(long));
            assert!(
                message.starts_with("the value ")
                    && message.chars().count() <= MAX_MESSAGE_CHARS + 1,
                "{message}"
            );
        }
        let (_, _, _, message) = reason(&json!({ "multipleOf": 2 }), &json!(3));
        assert_eq!(message, "3 is not a multiple of 2");
    }

    #[test]
    fn a_match_that_is_given_up_is_no_verdict_and_the_next_answer_is_judged_afresh() {
        let slow = json!({ "pattern": "(?=(a+)+$)(a|aa)+\\1b" });
        for schema in [json!({ "anyOf": [slow, { "type": "integer" }] }), slow] {
            let judge = SchemaJudge::compile(&schema, EvaluateOptions::default()).unwrap();
            let verdict = judge.judge(&json!("a".repeat(40)));
            assert!(
                matches!(
                    verdict,
                    Verdict::NotScored {
                        why: NotScored::Limit { .. }
                    }
                ),
                "{schema}: {verdict:?}"
            );
            assert!(matches!(judge.judge(&json!("c")), Verdict::Invalid { .. }));
        }
    }

    #[test]
    fn formats_of_later_drafts_are_asserted_in_earlier_ones() {
        for draft in [
            "http://json-schema.org/draft-04/schema#",
            "http://json-schema.org/draft-07/schema#",
        ] {
            for (format, wrong) in [
                ("uuid", "1234"),
                ("date", "2023-02-30"),
                ("duration", "PT"),
                ("regex", "("),
            ] {
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
        let refused = SchemaJudge::compile(
            &json!({ "allOf": [{ "not": schema }, {}], "not": nested_not(70) }),
            EvaluateOptions::default(),
        );
        assert!(matches!(refused, Err(NotScored::Limit { .. })));
    }

    fn nested_not(depth: usize) -> Value {
        (0..depth).fold(json!({}), |schema, _| json!({ "allOf": [schema] }))
    }

    #[test]
    fn schemas_that_cannot_be_judged_by_say_why() {
        for (schema, why) in [
            (
                json!({ "$ref": "https://example.com/a.json" }),
                "$ref to https://example.com/a.json is outside the document",
            ),
            // The registry meets references in any order; the first of the document is named.
            (
                json!({ "properties": { "a": { "$schema": "a.json" }, "b": { "$ref": "d.json#/x" }, "c": { "$ref": "c.json#/x" } } }),
                "$ref to d.json is outside",
            ),
            (
                json!({ "$defs": { "a": { "$ref": "a.json" }, "b": { "$ref": "b.json" } } }),
                "a $ref in an unused part of the schema",
            ),
            (
                json!({ "$schema": "urn:x" }),
                "$schema names no published draft: urn:x",
            ),
            (
                json!({ "properties": { "a": { "pattern": "(" } } }),
                "a group is not closed",
            ),
            (json!({ "multipleOf": 0 }), "multipleOf"),
        ] {
            let Err(NotScored::Unsupported { what }) =
                SchemaJudge::compile(&schema, EvaluateOptions::default())
            else {
                panic!("{schema} compiles");
            };
            assert!(what.contains(why), "{what}");
        }
    }
}
