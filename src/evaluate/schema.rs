//! JSON Schema, through the `jsonschema` crate. Knows values and schemas; how a text becomes a value is `answer.rs`'s matter.
//!
//! The draft is the one that `$schema` names, else 2020-12. `format` is asserted in every draft unless switched off; formats that no
//! draft defines are passed over, as every draft asks. `pattern` follows ECMA-262 and is not anchored. Numbers are compared by
//! their digits. A `$ref` leads into the document or to a published meta-schema; nothing is ever fetched.

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, Retrieve, Uri, ValidationError, Validator};
use serde_json::Value;

use super::EvaluateOptions;
use crate::verdict::{NotScored, Reason, Verdict};

/// Objects and arrays inside one another that a schema may have. With [`super::json::MAX_NESTING`] it bounds the recursion of a
/// validation; see [`super::deep`].
const MAX_SCHEMA_NESTING: usize = 128;

/// Backtracking steps after which one `pattern` with look-around or back-references is given up on one string.
const MAX_PATTERN_STEPS: usize = 1_000_000;

/// Bytes that one compiled `pattern` may take.
const MAX_PATTERN_BYTES: usize = 32 << 20;

/// Characters of a violation's message; longer ones are cut, and end in an ellipsis.
const MAX_MESSAGE_CHARS: usize = 160;

/// Characters of an instance that are still quoted in a message; a longer one is called "the value".
const MAX_QUOTED_CHARS: usize = 60;

/// A compiled schema.
pub(super) struct SchemaJudge {
    validator: Validator,
}

impl SchemaJudge {
    /// Compiles `schema`; where that is impossible, says why there will be no verdict.
    pub(super) fn compile(schema: &Value, options: EvaluateOptions) -> Result<Self, NotScored> {
        if nesting(schema) > MAX_SCHEMA_NESTING {
            return Err(NotScored::Limit { what: format!("schema nesting over {MAX_SCHEMA_NESTING}") });
        }
        let patterns = PatternOptions::fancy_regex()
            .backtrack_limit(MAX_PATTERN_STEPS)
            .size_limit(MAX_PATTERN_BYTES)
            .dfa_size_limit(MAX_PATTERN_BYTES);
        let validator = jsonschema::options()
            .should_validate_formats(options.assert_formats)
            .should_ignore_unknown_formats(true)
            .with_retriever(NothingOutside)
            .with_pattern_options(patterns)
            .build(schema)
            .map_err(|error| NotScored::Unsupported { what: unusable(&error) })?;
        Ok(Self { validator })
    }

    /// Holds `document` against the schema; an invalid one is explained by its first violation in document order.
    pub(super) fn judge(&self, document: &Value) -> Verdict {
        let mut undecided = None;
        let mut first: Option<(OrderKey, ValidationError<'_>)> = None;
        for error in self.validator.iter_errors(document) {
            match error.kind() {
                ValidationErrorKind::BacktrackLimitExceeded { .. } => {
                    undecided = Some(NotScored::Limit { what: format!("pattern over {MAX_PATTERN_STEPS} backtracking steps") });
                }
                ValidationErrorKind::RegexEngineFailure { message } => {
                    undecided = Some(NotScored::Unsupported { what: clipped(message) });
                }
                _ => {
                    let key = order_key(document, &error);
                    if first.as_ref().is_none_or(|(earliest, _)| key < *earliest) {
                        first = Some((key, error));
                    }
                }
            }
        }
        // The validator reports a violation beside an unfinished match only where it holds whichever way the match would end.
        match (first, undecided) {
            (Some((_, error)), _) => Verdict::Invalid { reason: violation(&error) },
            (None, Some(why)) => Verdict::NotScored { why },
            (None, None) => Verdict::Valid,
        }
    }
}

/// Refuses to leave the document: a schema never makes us open a socket or a file.
struct NothingOutside;

impl Retrieve for NothingOutside {
    fn retrieve(&self, uri: &Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err(format!("{uri} is outside the document").into())
    }
}

/// Why a schema cannot be judged by, in one line.
fn unusable(error: &ValidationError<'_>) -> String {
    let ValidationErrorKind::Referencing(cause) = error.kind() else {
        let place = error.instance_path().as_str();
        let place = if place.is_empty() { "the schema".to_owned() } else { format!("schema at {place}") };
        return format!("{place}: {}", short_message(error));
    };
    match cause {
        jsonschema::ReferencingError::Unretrievable { uri, .. } => clipped(&format!("$ref to {uri} is outside the document")),
        jsonschema::ReferencingError::UnknownSpecification { specification } => {
            clipped(&format!("$schema names no published draft: {specification}"))
        }
        cause => clipped(&format!("$ref: {cause}")),
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
    let long = match error.instance().as_ref() {
        Value::Array(_) | Value::Object(_) => true,
        scalar => scalar.to_string().chars().count() > MAX_QUOTED_CHARS,
    };
    if long { clipped(&error.masked_with("the value").to_string()) } else { clipped(&error.to_string()) }
}

fn clipped(message: &str) -> String {
    match message.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.to_owned(),
    }
}

/// Where a violation stands in the document (positions of members and items, outermost first), then in the schema, then its words:
/// enough to choose the same one on every run.
type OrderKey = (Vec<usize>, String, String);

fn order_key(document: &Value, error: &ValidationError<'_>) -> OrderKey {
    let mut place = Vec::new();
    let mut here = Some(document);
    for token in error.instance_path().as_str().split('/').skip(1) {
        let (position, next) = match here {
            Some(Value::Array(items)) => {
                let position = token.parse().unwrap_or(usize::MAX);
                (position, items.get(position))
            }
            Some(Value::Object(members)) => {
                let name = token.replace("~1", "/").replace("~0", "~");
                (members.keys().position(|key| *key == name).unwrap_or(usize::MAX), members.get(&name))
            }
            _ => (usize::MAX, None),
        };
        place.push(position);
        here = next;
    }
    (place, error.schema_path().as_str().to_owned(), error.masked().to_string())
}

/// How deep containers lie inside one another; counted without recursion.
fn nesting(value: &Value) -> usize {
    let mut deepest = 0;
    let mut pending = vec![(value, 0)];
    while let Some((value, depth)) = pending.pop() {
        deepest = deepest.max(depth);
        match value {
            Value::Array(items) => pending.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(members) => pending.extend(members.values().map(|member| (member, depth + 1))),
            _ => {}
        }
    }
    deepest
}
