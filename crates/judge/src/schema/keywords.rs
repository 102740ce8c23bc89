//! Keywords that we judge ourselves, because the library's reading falls short of the standard's in
//! corners that matter here: `multipleOf` (a fraction beyond binary64 beside an integer divisor),
//! `minimum`, `maximum` and their exclusive forms (an integer beyond 64 bits beside a fraction) and
//! `pattern` (`\d`, `\w` and `\s` beside look-around, `.` before line terminators other than
//! newline, `\b`, which the library takes as Rust has them).
//!
//! `patternProperties` cannot be replaced alone, since `additionalProperties` reads it too; its
//! corners stay the library's.

use std::cmp::Ordering;

use jsonschema::paths::Location;
use jsonschema::{Keyword, ValidationError};
use serde_json::{Map, Value};

use super::counted::{self, Counted, Node};
use super::decimal::Decimal;
use super::formats::Options;
use crate::pattern::{self, Dialect, Extent, Matcher};
use sobench_core::verdict::NotScored;

/// Bytes that rewriting the escapes of all patterns for names may go through.
const MAX_REWRITTEN_BYTES: usize = 16 << 20;

/// The most bytes that an escape is rewritten to.
const BYTES_PER_ESCAPE: usize = 200;

type Made<'a> = Result<Box<dyn for<'i> Keyword<'i, Counted>>, ValidationError<'a>>;

/// Adds all keywords of this file.
pub(super) fn add(options: Options<'_>) -> Options<'_> {
    options
        .with_keyword("pattern", |_: &Map<_, _>, value, _: Location| {
            pattern(value)
        })
        .with_keyword("multipleOf", |_: &Map<_, _>, value, _: Location| {
            multiple_of(value)
        })
        .with_keyword("minimum", |_: &Map<_, _>, value, _: Location| {
            bound(Ordering::Greater, false, value)
        })
        .with_keyword("maximum", |_: &Map<_, _>, value, _: Location| {
            bound(Ordering::Less, false, value)
        })
        .with_keyword("exclusiveMinimum", |parent, value, _: Location| {
            exclusive(Ordering::Greater, "minimum", parent, value)
        })
        .with_keyword("exclusiveMaximum", |parent, value, _: Location| {
            exclusive(Ordering::Less, "maximum", parent, value)
        })
}

/// A keyword: a test of a value, and the message where it fails, made from the value as messages
/// quote it.
struct Check<T, M> {
    test: T,
    message: M,
}

impl<'i, T, M> Keyword<'i, Counted> for Check<T, M>
where
    T: Fn(&Value) -> bool + Send + Sync,
    M: Fn(&str) -> String + Send + Sync,
{
    fn validate(&self, instance: Node<'i>) -> Result<(), ValidationError<'i>> {
        if (self.test)(instance.0) {
            return Ok(());
        }
        Err(ValidationError::custom((self.message)(&super::quoted(
            instance.0,
        ))))
    }

    fn is_valid(&self, instance: Node<'i>) -> bool {
        (self.test)(instance.0)
    }
}

fn pattern(value: &Value) -> Made<'_> {
    let Some(source) = value.as_str() else {
        return Err(ValidationError::custom("pattern is not a string"));
    };
    let matcher = pattern::read(source, Dialect::Ecma)
        .and_then(|pattern| Matcher::new(&pattern, Extent::Search));
    let matcher = matcher.map_err(|why| {
        ValidationError::custom(match why {
            NotScored::Unsupported { what } | NotScored::Limit { what } => {
                format!("{what} in {source:?}")
            }
            why => why.name().to_owned(),
        })
    })?;
    let source = source.to_owned();
    let test = move |value: &Value| {
        let Value::String(text) = value else {
            counted::step(0);
            return true;
        };
        // A keyword can report a match that was given up only as a failure.
        matcher
            .is_match_counting(text, counted::step)
            .unwrap_or_else(|_| counted::give_up())
    };
    Ok(Box::new(Check {
        test,
        message: move |value: &str| format!("{value} does not match {source:?}"),
    }))
}

/// A keyword of numbers; other values pass.
fn of_numbers<'a>(
    test: impl Fn(&Decimal) -> bool + Send + Sync + 'static,
    message: impl Fn(&str) -> String + Send + Sync + 'static,
) -> Made<'a> {
    let test = move |value: &Value| {
        let text = value.as_number().map_or("", |number| number.as_str());
        counted::step(text.len() / counted::DIGITS_PER_STEP);
        text.is_empty() || test(&Decimal::read(text))
    };
    Ok(Box::new(Check { test, message }))
}

fn multiple_of(value: &Value) -> Made<'_> {
    let Value::Number(divisor) = value else {
        return Err(ValidationError::custom("multipleOf is not a number"));
    };
    let decimal = Decimal::read(divisor.as_str());
    let Some(mantissa) = decimal.mantissa().filter(|mantissa| *mantissa > 0) else {
        return Err(ValidationError::custom(format!(
            "multipleOf is zero or has over 19 digits: {divisor}"
        )));
    };
    let divisor = divisor.to_string();
    let message = move |value: &str| format!("{value} is not a multiple of {divisor}");
    of_numbers(
        move |number| number.is_multiple_of(mantissa, decimal.exponent()),
        message,
    )
}

/// From Draft 6 on a bound of its own; in Draft 4 a flag that makes the bound `beside` it
/// exclusive.
fn exclusive<'a>(
    side: Ordering,
    beside: &str,
    parent: &'a Map<String, Value>,
    value: &'a Value,
) -> Made<'a> {
    match (value, parent.get(beside)) {
        (Value::Bool(true), Some(inclusive)) => bound(side, true, inclusive),
        (Value::Bool(_), _) => of_numbers(|_| true, str::to_owned),
        (value, _) => bound(side, true, value),
    }
}

/// Numbers have to lie on this side of `value`.
fn bound(side: Ordering, exclusive: bool, value: &Value) -> Made<'_> {
    let Value::Number(written) = value else {
        return Err(ValidationError::custom("a bound is not a number"));
    };
    let (at, written) = (Decimal::read(written.as_str()), written.to_string());
    let (than, bound) = if side == Ordering::Greater {
        ("less than", "minimum")
    } else {
        ("greater than", "maximum")
    };
    let or_equal = if exclusive { " or equal to" } else { "" };
    let test = move |number: &Decimal| match number.compare(&at) {
        Ordering::Equal => !exclusive,
        order => order == side,
    };
    of_numbers(test, move |value| {
        format!("{value} is {than}{or_equal} the {bound} of {written}")
    })
}

/// What matching the names of members against patterns of `patternProperties` may come to.
pub(super) struct NamePatterns {
    /// The longest name, in bytes, that is matched.
    pub longest: usize,
    /// Whether a match may be left unfinished.
    pub may_be_left: bool,
}

/// Reads the patterns of `patternProperties`, which the library compiles in its own way. Refuses
/// those that would take it too long, and those that we cannot read, since the cost of a match is
/// unknown then.
pub(super) fn read_name_patterns(patterns: &[String]) -> Result<NamePatterns, NotScored> {
    let mut names = NamePatterns {
        longest: usize::MAX,
        may_be_left: false,
    };
    let mut rewritten = 0;
    for pattern in patterns {
        let read = pattern::read(pattern, Dialect::Ecma).map_err(|why| match why {
            NotScored::Unsupported { what } => NotScored::Unsupported {
                what: super::clipped(&format!("patternProperties: {what} in {pattern:?}")),
            },
            NotScored::Limit { what } => NotScored::Limit {
                what: format!("patternProperties: {what}"),
            },
            why => why,
        })?;
        names.longest = names.longest.min(read.cost().longest_text());
        names.may_be_left |= read.backtracks();
        let escapes = escapes(pattern);
        rewritten += escapes.saturating_mul(pattern.len() + escapes * BYTES_PER_ESCAPE);
    }
    if rewritten > MAX_REWRITTEN_BYTES {
        let what = format!(
            "patternProperties with too many classes: rewriting them goes through over {MAX_REWRITTEN_BYTES} bytes"
        );
        return Err(NotScored::Limit { what });
    }
    Ok(names)
}

/// How many escapes the library rewrites one by one, each time going through the whole pattern.
fn escapes(pattern: &str) -> usize {
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
    use crate::EvaluateOptions;
    use sobench_core::verdict::{Reason, Verdict};

    #[test]
    fn bounds_are_compared_by_their_digits_and_draft_4_has_flags() {
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
            let found = match SchemaJudge::compile(&rule, EvaluateOptions::default())
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
