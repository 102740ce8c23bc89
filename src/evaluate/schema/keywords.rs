//! Keywords that we judge ourselves, because the library's reading falls short of the standard's in corners that matter here:
//! `multipleOf` (a fraction beyond binary64 beside an integer divisor) and `pattern` (`\d`, `\w` and `\s` beside look-around, `.`
//! before line terminators other than newline, `\b`, which the library takes as Rust has them).
//!
//! `patternProperties` cannot be replaced alone, since `additionalProperties` reads it too; its corners stay the library's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jsonschema::paths::Location;
use jsonschema::{Keyword, ValidationError};
use serde_json::{Map, Value};

use super::counted::{self, Counted, Node};
use super::decimal::Decimal;
use crate::evaluate::pattern::{self, Dialect, Extent, Matcher};
use crate::verdict::NotScored;

/// Set where a match was given up, which a keyword can only report as a failure; the verdict is not scored then.
pub(super) type GivenUp = Arc<AtomicBool>;

/// Bytes that rewriting the escapes of all patterns for names may go through.
const MAX_REWRITTEN_BYTES: usize = 16 << 20;

/// The most bytes that an escape is rewritten to.
const BYTES_PER_ESCAPE: usize = 200;

type Made<'a> = Result<Box<dyn for<'i> Keyword<'i, Counted>>, ValidationError<'a>>;

/// Makes `pattern`: ECMA-262, matched anywhere in a string.
pub(super) fn pattern(
    given_up: &GivenUp,
) -> impl for<'a> Fn(&'a Map<String, Value>, &'a Value, Location) -> Made<'a> + Send + Sync + 'static {
    let given_up = Arc::clone(given_up);
    move |_: &Map<String, Value>, value: &Value, _: Location| {
        let Some(source) = value.as_str() else { return Err(ValidationError::custom("pattern is not a string")) };
        let matcher = pattern::read(source, Dialect::Ecma).and_then(|pattern| Matcher::new(&pattern, Extent::Search));
        let matcher = matcher.map_err(|why| {
            ValidationError::custom(match why {
                NotScored::Unsupported { what } | NotScored::Limit { what } => format!("{what} in {source:?}"),
                why => why.name().to_owned(),
            })
        })?;
        Ok(Box::new(Pattern { source: source.to_owned(), matcher, given_up: Arc::clone(&given_up) }))
    }
}

/// What matching the names of members against patterns of `patternProperties` may come to.
pub(super) struct NamePatterns {
    /// The longest name, in bytes, that is matched.
    pub longest: usize,
    /// Whether a match may be left unfinished.
    pub may_be_left: bool,
}

/// Reads the patterns of `patternProperties`, which the library compiles in its own way; refuses what that would take too long, and what
/// we cannot read, since nobody knows then what a match takes.
pub(super) fn read_name_patterns(patterns: &[String]) -> Result<NamePatterns, NotScored> {
    let mut names = NamePatterns { longest: usize::MAX, may_be_left: false };
    let mut rewritten = 0;
    for pattern in patterns {
        let read = pattern::read(pattern, Dialect::Ecma).map_err(|why| match why {
            NotScored::Unsupported { what } => {
                NotScored::Unsupported { what: super::clipped(&format!("patternProperties: {what} in {pattern:?}")) }
            }
            NotScored::Limit { what } => NotScored::Limit { what: format!("patternProperties: {what}") },
            why => why,
        })?;
        names.longest = names.longest.min(read.cost().longest_text());
        names.may_be_left |= read.backtracks();
        let escapes = escapes(pattern);
        rewritten += escapes.saturating_mul(pattern.len() + escapes * BYTES_PER_ESCAPE);
    }
    if rewritten > MAX_REWRITTEN_BYTES {
        let what =
            format!("patternProperties with too many classes: rewriting them goes through over {MAX_REWRITTEN_BYTES} bytes");
        return Err(NotScored::Limit { what });
    }
    Ok(names)
}

/// How many escapes the library rewrites one by one, each time going through the whole pattern.
fn escapes(pattern: &str) -> usize {
    let mut rest = pattern.chars();
    let mut count = 0;
    while let Some(character) = rest.next() {
        count += usize::from(character == '\\' && rest.next().is_some_and(|letter| "cdDsSwW".contains(letter)));
    }
    count
}

/// Makes `multipleOf`.
pub(super) fn multiple_of<'a>(_: &'a Map<String, Value>, value: &'a Value, _: Location) -> Made<'a> {
    let Value::Number(divisor) = value else { return Err(ValidationError::custom("multipleOf is not a number")) };
    let decimal = Decimal::read(divisor.as_str());
    match decimal.mantissa() {
        Some(mantissa) if mantissa > 0 => {
            Ok(Box::new(MultipleOf { written: divisor.to_string(), mantissa, exponent: decimal.exponent() }))
        }
        _ => Err(ValidationError::custom(format!("multipleOf is zero or has over 19 digits: {divisor}"))),
    }
}

struct Pattern {
    source: String,
    matcher: Matcher,
    given_up: GivenUp,
}

impl<'i> Keyword<'i, Counted> for Pattern {
    fn validate(&self, instance: Node<'i>) -> Result<(), ValidationError<'i>> {
        if self.is_valid(instance) {
            return Ok(());
        }
        Err(ValidationError::custom(format!("{} does not match {:?}", super::quoted(instance.0), self.source)))
    }

    fn is_valid(&self, instance: Node<'i>) -> bool {
        let Value::String(text) = instance.0 else {
            counted::step(0);
            return true;
        };
        self.matcher.is_match_counting(text, counted::step).unwrap_or_else(|_| {
            self.given_up.store(true, Ordering::Relaxed);
            counted::give_up()
        })
    }
}

struct MultipleOf {
    written: String,
    mantissa: u64,
    exponent: i64,
}

impl<'i> Keyword<'i, Counted> for MultipleOf {
    fn validate(&self, instance: Node<'i>) -> Result<(), ValidationError<'i>> {
        if self.is_valid(instance) {
            return Ok(());
        }
        Err(ValidationError::custom(format!("{} is not a multiple of {}", super::quoted(instance.0), self.written)))
    }

    fn is_valid(&self, instance: Node<'i>) -> bool {
        let Value::Number(number) = instance.0 else {
            counted::step(0);
            return true;
        };
        counted::step(number.as_str().len() / counted::DIGITS_PER_STEP);
        Decimal::read(number.as_str()).is_multiple_of(self.mantissa, self.exponent)
    }
}
