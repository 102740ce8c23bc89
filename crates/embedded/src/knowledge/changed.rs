//! Wrong answers: a reference with one changed value.

use serde_json::{Map, Number, Value};

use crate::seeds::Draws;
use sobench_core::schema_part::SchemaPart;
use sobench_core::scorer::SCORE_KEYWORD;

/// The value with one leaf changed, drawn at random. The changed leaf keeps its type and, as far as
/// it is simple, follows its schema. `None` if no leaf can be changed.
pub(super) fn changed(
    value: &Value,
    schema: Option<SchemaPart<'_>>,
    draws: &mut Draws,
) -> Option<Value> {
    let count = leaves(value);
    let first = draws.below(count);
    (0..count).find_map(|offset| {
        let mut left = (first + offset) % count;
        replace(value, schema, &mut left, draws)
    })
}

fn leaves(value: &Value) -> usize {
    match value {
        Value::Object(members) => members.values().map(leaves).sum(),
        Value::Array(items) => items.iter().map(leaves).sum(),
        _ => 1,
    }
}

/// The value with the leaf at this position changed.
fn replace(
    value: &Value,
    schema: Option<SchemaPart<'_>>,
    left: &mut usize,
    draws: &mut Draws,
) -> Option<Value> {
    let taken = schema.map(|schema| schema.for_value(value));
    let is_ignored = |schema: SchemaPart<'_>| {
        let score = schema.keyword(SCORE_KEYWORD);
        score.is_some_and(|score| score == "ignore")
    };
    if [schema, taken].into_iter().flatten().any(is_ignored) {
        return None;
    }
    let schema = taken;
    match value {
        Value::Object(members) => {
            let (name, member) = members.iter().find(|(_, member)| skip(member, left))?;
            let schema = schema.and_then(|schema| schema.member(name));
            let replaced = replace(member, schema, left, draws)?;
            let mut members: Map<String, Value> = members.clone();
            members.insert(name.clone(), replaced);
            Some(Value::Object(members))
        }
        Value::Array(items) => {
            let position = items.iter().position(|item| skip(item, left))?;
            let schema = schema.and_then(|schema| schema.item(position));
            let replaced = replace(&items[position], schema, left, draws)?;
            let mut items = items.clone();
            items[position] = replaced;
            Some(Value::Array(items))
        }
        leaf => changed_leaf(leaf, schema, draws),
    }
}

/// Whether the leaf at this position is in the value. Subtracts the leaves of the value if not.
fn skip(value: &Value, left: &mut usize) -> bool {
    let count = leaves(value);
    if *left < count {
        return true;
    }
    *left -= count;
    false
}

fn changed_leaf(leaf: &Value, schema: Option<SchemaPart<'_>>, draws: &mut Draws) -> Option<Value> {
    let keyword = |name: &str| schema.and_then(|schema| schema.keyword(name));
    if keyword("const").is_some() {
        return None;
    }
    if let Some(values) = keyword("enum").and_then(Value::as_array) {
        let folded = |value: &Value| value.as_str().map(str::to_lowercase);
        let is_other = |value: &&Value| {
            *value != leaf && (folded(value).is_none() || folded(value) != folded(leaf))
        };
        let others: Vec<&Value> = values.iter().filter(is_other).collect();
        let drawn = draws.below(others.len());
        return others.get(drawn).map(|value| (*value).clone());
    }
    match leaf {
        Value::Bool(value) => Some(Value::Bool(!value)),
        Value::Number(number) => {
            let bound = |name: &str| keyword(name).and_then(Value::as_f64);
            let tolerance = keyword(SCORE_KEYWORD).and_then(|score| score.get("number")?.as_f64());
            let step = bound("multipleOf").unwrap_or(1.0);
            // More than twice the tolerance, and a multiple of the step.
            let least = (tolerance.unwrap_or(0.0) * 2.0 / step).floor() + 1.0;
            let delta = step * (least + draws.below(5) as f64);
            let value = number.as_f64()?;
            let allows = |value: &f64| {
                bound("minimum").is_none_or(|least| *value >= least)
                    && bound("maximum").is_none_or(|most| *value <= most)
                    && bound("exclusiveMinimum").is_none_or(|least| *value > least)
                    && bound("exclusiveMaximum").is_none_or(|most| *value < most)
            };
            let least_delta = step * least;
            [
                value + delta,
                value - delta,
                value + least_delta,
                value - least_delta,
            ]
            .into_iter()
            .find(allows)
            .and_then(|changed| number_like(number, changed))
        }
        Value::String(text) => {
            let is_formed = keyword("pattern").or(keyword("format")).is_some();
            changed_text(text, is_formed, draws).map(Value::String)
        }
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A number that is an integer if the other one is.
fn number_like(other: &Number, value: f64) -> Option<Value> {
    if !other.is_f64() && value.fract() == 0.0 && value.abs() < 1e15 {
        return Some(Value::from(value as i64));
    }
    // Steps of binary fractions would add digits.
    let rounded = (value * 1e6).round() / 1e6;
    Number::from_f64(rounded).map(Value::Number)
}

/// A text with another day, if it starts with a date, or with another letter or digit. Of a text
/// with a form, the last one.
pub(super) fn changed_text(text: &str, is_formed: bool, draws: &mut Draws) -> Option<String> {
    if is_date(text) {
        let day: usize = text[8..10].parse().ok()?;
        let days: Vec<usize> = (1..=28).filter(|other| *other != day).collect();
        let day = days[draws.below(days.len())];
        return Some(format!("{}{day:02}{}", &text[..8], &text[10..]));
    }
    let places: Vec<usize> = (0..text.len())
        .filter(|index| text.as_bytes()[*index].is_ascii_alphanumeric())
        .collect();
    let drawn = draws.below(places.len());
    let place = if is_formed {
        places.last()
    } else {
        places.get(drawn)
    };
    let Some(&place) = place else {
        return (!is_formed).then(|| format!("{text}x"));
    };
    let old = text.as_bytes()[place];
    let class: &[u8] = match old {
        b'0'..=b'9' => b"123456789",
        b'a'..=b'f' => b"abcdef",
        b'A'..=b'F' => b"ABCDEF",
        b'g'..=b'z' => b"ghijklmnopqrstuvwxyz",
        _ => b"GHIJKLMNOPQRSTUVWXYZ",
    };
    let others: Vec<u8> = class
        .iter()
        .copied()
        .filter(|other| *other != old)
        .collect();
    let new = others[draws.below(others.len())];
    Some(format!(
        "{}{}{}",
        &text[..place],
        char::from(new),
        &text[place + 1..]
    ))
}

/// Whether a text starts with a date of ISO 8601.
fn is_date(text: &str) -> bool {
    text.len() >= 10
        && text
            .bytes()
            .take(10)
            .enumerate()
            .all(|(index, byte)| match index {
                4 | 7 => byte == b'-',
                _ => byte.is_ascii_digit(),
            })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_leaf_is_changed_within_its_schema() {
        let schema = json!({"type": "object", "additionalProperties": false, "properties": {
            "day": {"type": "string", "format": "date"},
            "kind": {"enum": ["a", "b"]},
            "count": {"type": "integer", "minimum": 0, "maximum": 3},
            "price": {"type": "number", "x-sobench-score": {"number": 0.5}},
            "code": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$"},
            "lines": {"type": "array", "items": {"type": ["string", "null"]}},
            "note": {"type": "string", "x-sobench-score": "ignore"},
            "paid": {"type": "boolean"},
        }});
        let value = json!({"day": "2026-03-31", "kind": "a", "count": 3, "price": 12.5, "code": "AB-100",
            "lines": ["x", null], "note": "n", "paid": true});
        let validator = jsonschema::options()
            .should_validate_formats(true)
            .build(&schema)
            .unwrap();
        let mut names = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let mut draws = Draws::new(seed, "test");
            let changed = changed(&value, Some(SchemaPart::new(&schema)), &mut draws).unwrap();
            assert!(validator.is_valid(&changed), "{changed}");
            let members = value.as_object().unwrap();
            let differing: Vec<&String> = members
                .keys()
                .filter(|name| changed[*name] != value[*name])
                .collect();
            assert_eq!(differing.len(), 1, "{changed}");
            names.insert(differing[0].clone());
            let price = changed["price"].as_f64().unwrap();
            assert!(price == 12.5 || (price - 12.5).abs() > 0.5);
        }
        assert_eq!(
            Vec::from_iter(names),
            ["code", "count", "day", "kind", "lines", "paid", "price"]
        );
    }

    #[test]
    fn values_that_cannot_be_changed_have_no_wrong_answer() {
        let mut draws = Draws::new(1, "test");
        for value in [json!(null), json!({}), json!([[], {}])] {
            assert_eq!(changed(&value, None, &mut draws), None, "{value}");
        }
        assert_eq!(changed_text("日本", false, &mut draws).unwrap(), "日本x");
    }
}
