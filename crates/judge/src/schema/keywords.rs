//! Keywords with custom implementations, because the library deviates from the standard in relevant
//! cases: `multipleOf` (a fraction beyond binary64 with an integer divisor), `minimum`, `maximum`
//! and their exclusive forms (an integer beyond 64 bits compared with a fraction) and `pattern`
//! (`\d`, `\w` and `\s` next to look-around, `.` before line terminators other than newline, and
//! `\b`, for which the library uses Rust's definitions).
//!
//! `patternProperties` cannot be replaced separately, because `additionalProperties` reads it too,
//! so it keeps the library's behaviour.

use std::cmp::Ordering;
use std::sync::{Arc, OnceLock};

use jsonschema::json::Node as _;
use jsonschema::paths::Location;
use jsonschema::{Keyword, ValidationError};
use serde_json::{Map, Value};

use super::decimal::{self, Decimal};
use super::formats::Options;
use super::open_scalar;
use super::step_budget::{self, CountedJson, Node, NumberText, View};
use super::unfinished_number::UnfinishedNumber;
use crate::pattern::{self, Dialect, Extent, Matcher, PrefixMatcher};
use sobench_core::verdict::NotScored;

/// Maximum bytes that rewriting the escapes of all name patterns may process.
const MAX_REWRITTEN_BYTES: usize = 16 << 20;

/// Maximum bytes of a rewritten escape.
const BYTES_PER_ESCAPE: usize = 200;

type KeywordResult<'a> = Result<Box<dyn for<'i> Keyword<'i, CountedJson>>, ValidationError<'a>>;

/// Registers all keywords of this file.
pub(super) fn register(options: Options<'_>) -> Options<'_> {
    options
        .with_keyword("pattern", |_: &Map<_, _>, value, _: Location| {
            pattern(value)
        })
        .with_keyword("multipleOf", |_: &Map<_, _>, value, _: Location| {
            multiple_of(value)
        })
        .with_keyword("minimum", |parent, value, _: Location| {
            bound(Ordering::Greater, false, parent, value)
        })
        .with_keyword("maximum", |parent, value, _: Location| {
            bound(Ordering::Less, false, parent, value)
        })
        .with_keyword("exclusiveMinimum", |parent, value, _: Location| {
            exclusive(Ordering::Greater, "minimum", parent, value)
        })
        .with_keyword("exclusiveMaximum", |parent, value, _: Location| {
            exclusive(Ordering::Less, "maximum", parent, value)
        })
}

/// A keyword: a test of a value, and the message of its failure, generated from the quoted value.
struct Check<T, M> {
    test: T,
    message: M,
}

impl<'i, T, M> Keyword<'i, CountedJson> for Check<T, M>
where
    T: Fn(Node<'_>) -> bool + Send + Sync,
    M: Fn(&str) -> String + Send + Sync,
{
    fn validate(&self, instance: Node<'i>) -> Result<(), ValidationError<'i>> {
        if (self.test)(instance) {
            return Ok(());
        }
        Err(ValidationError::custom((self.message)(
            &super::quote_or_describe(&instance.to_value()),
        )))
    }

    fn is_valid(&self, instance: Node<'i>) -> bool {
        (self.test)(instance)
    }
}

fn pattern(value: &Value) -> KeywordResult<'_> {
    let Some(source) = value.as_str() else {
        return Err(ValidationError::custom("pattern is not a string"));
    };
    let parsed = pattern::parse(source, Dialect::Ecma)
        .and_then(|pattern| Ok((Matcher::new(&pattern, Extent::Search)?, pattern)));
    let (matcher, parsed) = parsed.map_err(|why| {
        ValidationError::custom(match why {
            NotScored::Unsupported { what } | NotScored::Limit { what } => {
                format!("{what} in {source:?}")
            }
            why => why.name().to_owned(),
        })
    })?;
    let source = source.to_owned();
    // Compiled for the first string that is cut.
    let starts = OnceLock::new();
    let test = move |value: Node<'_>| {
        let View::String(text) = value.view() else {
            step_budget::count_read(0);
            return true;
        };
        if open_scalar::is_open(value) {
            step_budget::count_read(text.len());
            let starts = starts.get_or_init(|| PrefixMatcher::search(&parsed));
            return starts
                .as_ref()
                .is_none_or(|starts| starts.may_continue(text));
        }
        // A keyword can report an aborted match only as a failure.
        matcher
            .is_match_counting(text, step_budget::count_read)
            .unwrap_or_else(|_| step_budget::abort())
    };
    Ok(Box::new(Check {
        test,
        message: move |value: &str| format!("{value} does not match {source:?}"),
    }))
}

/// Keyword for numbers, which `test` gets as written. Other values pass. `start_test` decides
/// whether a number that is cut may pass.
fn number_keyword<'a>(
    test: impl Fn(&str) -> bool + Send + Sync + 'static,
    start_test: impl Fn(&UnfinishedNumber) -> bool + Send + Sync + 'static,
    message: impl Fn(&str) -> String + Send + Sync + 'static,
) -> KeywordResult<'a> {
    let test = move |value: Node<'_>| {
        let View::Number(NumberText(text)) = value.view() else {
            step_budget::count_read(0);
            return true;
        };
        if let Some(may_pass) = open_scalar::number(value, &start_test) {
            return may_pass;
        }
        step_budget::count_read(text.len() / step_budget::DIGITS_PER_STEP);
        test(text)
    };
    Ok(Box::new(Check { test, message }))
}

fn multiple_of(value: &Value) -> KeywordResult<'_> {
    let Value::Number(divisor) = value else {
        return Err(ValidationError::custom("multipleOf is not a number"));
    };
    let decimal = Decimal::parse(divisor.as_str());
    let Some(mantissa) = decimal.mantissa().filter(|mantissa| *mantissa > 0) else {
        return Err(ValidationError::custom(format!(
            "multipleOf is zero or has over 19 digits: {divisor}"
        )));
    };
    let divisor = divisor.to_string();
    let message = move |value: &str| format!("{value} is not a multiple of {divisor}");
    number_keyword(
        move |number| Decimal::parse(number).is_multiple_of(mantissa, decimal.exponent()),
        |_| true,
        message,
    )
}

/// From Draft 6 on, a separate bound. In Draft 4, a flag that makes the bound `inclusive_key`
/// exclusive.
fn exclusive<'a>(
    side: Ordering,
    inclusive_key: &str,
    parent: &'a Map<String, Value>,
    value: &'a Value,
) -> KeywordResult<'a> {
    match (value, parent.get(inclusive_key)) {
        (Value::Bool(true), Some(inclusive)) => bound(side, true, parent, inclusive),
        (Value::Bool(_), _) => number_keyword(|_| true, |_| true, str::to_owned),
        (value, _) => bound(side, true, parent, value),
    }
}

/// Numbers must be on this side of `value`.
fn bound<'a>(
    side: Ordering,
    exclusive: bool,
    parent: &Map<String, Value>,
    value: &'a Value,
) -> KeywordResult<'a> {
    let Value::Number(bound_text) = value else {
        return Err(ValidationError::custom("a bound is not a number"));
    };
    let limit = Arc::new(decimal::Bound::new(bound_text.as_str()));
    let start_limit = Arc::clone(&limit);
    let is_integer = parent.get("type").is_some_and(|kind| kind == "integer");
    let bound_text = bound_text.to_string();
    let (relation, bound) = if side == Ordering::Greater {
        ("less than", "minimum")
    } else {
        ("greater than", "maximum")
    };
    let or_equal = if exclusive { " or equal to" } else { "" };
    let test = move |number: &str| match limit.compare(number) {
        Ordering::Equal => !exclusive,
        order => order == side,
    };
    let start_test = move |number: &UnfinishedNumber| {
        number.may_satisfy(side, &start_limit, exclusive, is_integer)
    };
    number_keyword(test, start_test, move |value| {
        format!("{value} is {relation}{or_equal} the {bound} of {bound_text}")
    })
}

/// Limits of matching member names against patterns of `patternProperties`.
pub(super) struct NamePatternLimits {
    /// Maximum bytes of a name.
    pub max_name_bytes: usize,
    /// Whether a match may be aborted.
    pub may_abort: bool,
}

/// Checks the patterns of `patternProperties`, which the library compiles. Refuses patterns that
/// would take too long to compile, and patterns that this crate cannot parse, because the cost of
/// their matches is unknown.
pub(super) fn check_name_patterns(patterns: &[String]) -> Result<NamePatternLimits, NotScored> {
    let mut names = NamePatternLimits {
        max_name_bytes: usize::MAX,
        may_abort: false,
    };
    let mut rewritten = 0;
    for pattern in patterns {
        let parsed = pattern::parse(pattern, Dialect::Ecma).map_err(|why| match why {
            NotScored::Unsupported { what } => NotScored::Unsupported {
                what: super::truncate_message(&format!("patternProperties: {what} in {pattern:?}")),
            },
            NotScored::Limit { what } => NotScored::Limit {
                what: format!("patternProperties: {what}"),
            },
            why => why,
        })?;
        names.max_name_bytes = names.max_name_bytes.min(parsed.cost().max_text_bytes());
        names.may_abort |= parsed.needs_backtracking();
        let escape_count = count_escapes(pattern);
        rewritten += escape_count.saturating_mul(pattern.len() + escape_count * BYTES_PER_ESCAPE);
    }
    if rewritten > MAX_REWRITTEN_BYTES {
        let what = format!(
            "patternProperties with too many classes: rewriting them processes over {MAX_REWRITTEN_BYTES} bytes"
        );
        return Err(NotScored::Limit { what });
    }
    Ok(names)
}

/// Number of escapes that the library rewrites, each in a pass over the whole pattern.
fn count_escapes(pattern: &str) -> usize {
    let mut rest = pattern.chars();
    let mut count = 0;
    while let Some(character) = rest.next() {
        count += usize::from(
            character == '\\' && rest.next().is_some_and(|letter| "cdDsSwW".contains(letter)),
        );
    }
    count
}

#[cfg(test)]
mod tests {
    use super::super::SchemaJudge;
    use crate::JudgeSettings;
    use sobench_core::verdict::{Reason, Verdict};

    #[test]
    fn bounds_are_exact_and_draft_4_flags_are_supported() {
        let draft_4 = |flag: bool| {
            format!(
                r#"{{"$schema":"http://json-schema.org/draft-04/schema#","maximum":5,"exclusiveMaximum":{flag}}}"#
            )
        };
        let (with_flag, without) = (draft_4(true), draft_4(false));
        for (schema, number, expected) in [
            (
                r#"{"exclusiveMinimum":-9223372036854775809}"#,
                "-9223372036854775807.5",
                None,
            ),
            (
                r#"{"minimum":-9223372036854775809}"#,
                "-9223372036854775809.5",
                Some("minimum"),
            ),
            (
                r#"{"maximum":18446744073709551616}"#,
                "18446744073709551616.5",
                Some("maximum"),
            ),
            (
                r#"{"maximum":18446744073709551616}"#,
                "18446744073709551615.5",
                None,
            ),
            (
                r#"{"exclusiveMaximum":1e400}"#,
                "10e399",
                Some("exclusiveMaximum"),
            ),
            (r#"{"minimum":0}"#, "-0.0", None),
            (
                r#"{"exclusiveMinimum":0}"#,
                "-0.0",
                Some("exclusiveMinimum"),
            ),
            (r#"{"exclusiveMinimum":0}"#, "1e-400", None),
            (r#"{"maximum":-5}"#, "-4.9", Some("maximum")),
            (r#"{"maximum":1}"#, r#""2""#, None),
            (&with_flag, "5", Some("exclusiveMaximum")),
            (&with_flag, "6", Some("exclusiveMaximum")),
            (&with_flag, "4", None),
            (&without, "5", None),
            (&without, "6", Some("maximum")),
        ] {
            let (rule, value) = (
                serde_json::from_str(schema).unwrap(),
                serde_json::from_str(number).unwrap(),
            );
            let found = match SchemaJudge::compile(&rule, JudgeSettings::default())
                .unwrap()
                .judge(&value)
            {
                Verdict::Valid => None,
                Verdict::Invalid {
                    reason: Reason::Schema { keyword, .. },
                } => Some(keyword),
                verdict => panic!("{verdict:?}"),
            };
            assert_eq!(found.as_deref(), expected, "{number} by {schema}");
        }
    }
}
