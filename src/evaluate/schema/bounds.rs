//! `minimum`, `maximum` and their exclusive forms, by the digits of both numbers: the library goes through binary64 where an integer
//! beyond 64 bits meets a fraction. Knows no other keyword.

use std::cmp::Ordering;

use jsonschema::paths::Location;
use jsonschema::{Keyword, ValidationError};
use serde_json::{Map, Value};

use super::counted::{self, Counted, Node};
use super::decimal::Decimal;
use super::formats::Options;

type Made<'a> = Result<Box<dyn for<'i> Keyword<'i, Counted>>, ValidationError<'a>>;

/// On which side of the bound a number has to be.
#[derive(Clone, Copy)]
enum Side {
    Above,
    Below,
}

struct Bound {
    side: Side,
    exclusive: bool,
    written: String,
    at: Decimal,
}

/// A bound that asks for nothing: Draft 4's `"exclusiveMinimum": false`.
struct Nothing;

/// Adds all four keywords.
pub(super) fn add(options: Options<'_>) -> Options<'_> {
    options
        .with_keyword("minimum", |_: &Map<_, _>, value, _: Location| inclusive(Side::Above, value))
        .with_keyword("maximum", |_: &Map<_, _>, value, _: Location| inclusive(Side::Below, value))
        .with_keyword("exclusiveMinimum", |parent, value, _: Location| exclusive(Side::Above, parent, value))
        .with_keyword("exclusiveMaximum", |parent, value, _: Location| exclusive(Side::Below, parent, value))
}

fn inclusive(side: Side, value: &Value) -> Made<'_> {
    Bound::make(side, false, value)
}

/// From Draft 6 on a bound of its own; in Draft 4 a flag that makes the bound beside it exclusive.
fn exclusive<'a>(side: Side, parent: &'a Map<String, Value>, value: &'a Value) -> Made<'a> {
    let beside = match side {
        Side::Above => "minimum",
        Side::Below => "maximum",
    };
    match (value, parent.get(beside)) {
        (Value::Bool(true), Some(bound)) => Bound::make(side, true, bound),
        (Value::Bool(_), _) => Ok(Box::new(Nothing)),
        (value, _) => Bound::make(side, true, value),
    }
}

impl Bound {
    fn make(side: Side, exclusive: bool, value: &Value) -> Made<'_> {
        let Value::Number(number) = value else { return Err(ValidationError::custom("a bound is not a number")) };
        Ok(Box::new(Self { side, exclusive, written: number.to_string(), at: Decimal::read(number.as_str()) }))
    }

    fn allows(&self, number: &Decimal) -> bool {
        match (number.compare(&self.at), self.side) {
            (Ordering::Equal, _) => !self.exclusive,
            (order, Side::Above) => order == Ordering::Greater,
            (order, Side::Below) => order == Ordering::Less,
        }
    }
}

impl<'i> Keyword<'i, Counted> for Bound {
    fn validate(&self, instance: Node<'i>) -> Result<(), ValidationError<'i>> {
        if self.is_valid(instance) {
            return Ok(());
        }
        let (than, bound) = match self.side {
            Side::Above => ("less than", "minimum"),
            Side::Below => ("greater than", "maximum"),
        };
        let or_equal = if self.exclusive { " or equal to" } else { "" };
        let (number, written) = (super::quoted(instance.0), &self.written);
        Err(ValidationError::custom(format!("{number} is {than}{or_equal} the {bound} of {written}")))
    }

    fn is_valid(&self, instance: Node<'i>) -> bool {
        let Value::Number(number) = instance.0 else {
            counted::step(0);
            return true;
        };
        counted::step(number.as_str().len() / counted::DIGITS_PER_STEP);
        self.allows(&Decimal::read(number.as_str()))
    }
}

impl<'i> Keyword<'i, Counted> for Nothing {
    fn validate(&self, _: Node<'i>) -> Result<(), ValidationError<'i>> {
        Ok(())
    }

    fn is_valid(&self, _: Node<'i>) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::SchemaJudge;
    use crate::evaluate::EvaluateOptions;
    use crate::verdict::{Reason, Verdict};

    fn keyword(schema: &str, number: &str) -> Option<String> {
        let (schema, number): (Value, Value) = (serde_json::from_str(schema).unwrap(), serde_json::from_str(number).unwrap());
        match SchemaJudge::compile(&schema, EvaluateOptions::default()).unwrap().judge(&number) {
            Verdict::Valid => None,
            Verdict::Invalid { reason: Reason::Schema { keyword, .. } } => Some(keyword),
            verdict => panic!("{verdict:?}"),
        }
    }

    #[test]
    fn bounds_are_compared_by_their_digits() {
        for (schema, number, expected) in [
            (r#"{"exclusiveMinimum":-9223372036854775809}"#, "-9223372036854775807.5", None),
            (r#"{"minimum":-9223372036854775809}"#, "-9223372036854775809.5", Some("minimum")),
            (r#"{"maximum":18446744073709551616}"#, "18446744073709551616.5", Some("maximum")),
            (r#"{"maximum":18446744073709551616}"#, "18446744073709551615.5", None),
            (r#"{"exclusiveMaximum":1e400}"#, "10e399", Some("exclusiveMaximum")),
            (r#"{"minimum":0}"#, "-0.0", None),
            (r#"{"exclusiveMinimum":0}"#, "-0.0", Some("exclusiveMinimum")),
            (r#"{"exclusiveMinimum":0}"#, "1e-400", None),
            (r#"{"maximum":-5}"#, "-4.9", Some("maximum")),
            (r#"{"maximum":1}"#, r#""2""#, None),
        ] {
            assert_eq!(keyword(schema, number).as_deref(), expected, "{number} by {schema}");
        }
    }

    #[test]
    fn draft_4_has_flags() {
        for (flag, number, expected) in [
            (json!(true), "5", Some("exclusiveMaximum")),
            (json!(true), "6", Some("exclusiveMaximum")),
            (json!(true), "4", None),
            (json!(false), "5", None),
            (json!(false), "6", Some("maximum")),
        ] {
            let draft = "http://json-schema.org/draft-04/schema#";
            let schema = json!({ "$schema": draft, "maximum": 5, "exclusiveMaximum": flag });
            assert_eq!(keyword(&schema.to_string(), number).as_deref(), expected, "{number} by {schema}");
        }
    }
}
