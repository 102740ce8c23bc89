//! Violates exactly one keyword of a shape in a valid value, with the keyword and location that a
//! validator should report.

use serde_json::{Value, json};

use super::shape::{Range, Record, Rest, Shape, json_equal, number};
use crate::suite::corpus::Draft;

/// A value with one violation.
#[derive(Debug)]
pub(super) struct Violation {
    pub(super) value: Value,
    /// Location as a JSON pointer.
    pub(super) path: String,
    /// Possible names of the violated keyword.
    pub(super) keywords: &'static [&'static str],
}

impl Violation {
    fn at_root(value: Value, keywords: &'static [&'static str]) -> Self {
        Self {
            value,
            path: String::new(),
            keywords,
        }
    }

    /// Moves the violation into a value that contains this one at `token`.
    fn inside(mut self, token: &str, whole: impl FnOnce(Value) -> Value) -> Self {
        self.path = format!(
            "/{}{}",
            token.replace('~', "~0").replace('/', "~1"),
            self.path
        );
        self.value = whole(self.value);
        self
    }
}

const TYPE: &[&str] = &["type"];
const NOT: &[&str] = &["not"];
const CONSTANT: &[&str] = &["const", "enum"];
const CONTAINS: &[&str] = &["contains", "not"];
const CLOSED_LIST: &[&str] = &["items", "additionalItems", "false"];
const CLOSED_RECORD: &[&str] = &["additionalProperties", "false"];

/// All single violations of `value`, which matches `shape`.
pub(super) fn violations(shape: &Shape, value: &Value, draft: Draft) -> Vec<Violation> {
    match shape {
        Shape::Anything => Vec::new(),
        Shape::Null | Shape::Boolean => vec![
            Violation::at_root(json!("null"), TYPE),
            Violation::at_root(json!(0), TYPE),
        ],
        Shape::Text { least, most } => {
            let mut found = vec![
                Violation::at_root(json!(7), TYPE),
                Violation::at_root(Value::from("😀".repeat(most + 1)), &["maxLength"]),
            ];
            if *least > 0 {
                found.push(Violation::at_root(
                    Value::from("é".repeat(least - 1)),
                    &["minLength"],
                ));
            }
            found
        }
        Shape::TextExcept { least } => vec![
            Violation::at_root(json!([]), TYPE),
            Violation::at_root(Value::from("~".repeat(*least)), NOT),
        ],
        Shape::NotString => vec![Violation::at_root(json!(""), NOT)],
        Shape::Matching(samples) => {
            let bad = samples
                .bad
                .iter()
                .map(|text| Violation::at_root(Value::from(*text), &["pattern"]));
            bad.chain([Violation::at_root(json!({}), TYPE)]).collect()
        }
        Shape::Format(samples) => {
            let bad = samples
                .bad
                .iter()
                .map(|text| Violation::at_root(Value::from(*text), &["format"]));
            bad.chain([Violation::at_root(Value::Null, TYPE)]).collect()
        }
        Shape::Number(range) => range_violations(range),
        Shape::NotEqual(at) => vec![Violation::at_root(number(*at, 0), &["oneOf"])],
        Shape::Choice { values, .. } => {
            let others = [json!(null), json!("~~"), json!([[]]), json!(99_999)].into_iter();
            let others =
                others.filter(|other| !values.iter().any(|value| json_equal(value, other)));
            others
                .map(|other| Violation::at_root(other, CONSTANT))
                .collect()
        }
        Shape::List { .. } | Shape::Distinct | Shape::Tuple { .. } | Shape::CountedNulls { .. } => {
            list_violations(shape, value, draft)
        }
        Shape::Record(record) => record_violations(record, value, draft),
        Shape::Either { parts, exactly } => either_violations(parts, *exactly, value, draft),
        Shape::SeparateKeywords(of) | Shape::Named { of, .. } => violations(of, value, draft),
        Shape::Chain { value: part, .. } => chain_violations(part, value, draft),
    }
}

fn range_violations(range: &Range) -> Vec<Violation> {
    let mut found = vec![Violation::at_root(json!("1"), TYPE)];
    let within = |n: i128| {
        range.lowest().is_none_or(|low| low <= n) && range.highest().is_none_or(|high| n <= high)
    };
    if range.step != 1 {
        let not_multiple = [range.inner + 1, range.inner - 1]
            .into_iter()
            .find(|n| within(*n));
        found.extend(
            not_multiple.map(|n| Violation::at_root(number(n, range.scale), &["multipleOf"])),
        );
    } else if range.integer && within(range.inner + 1) {
        found.push(Violation::at_root(number(range.inner * 10 + 5, 1), TYPE));
    }
    // The nearest multiple outside of the bound.
    if let Some(low) = range.lowest() {
        let n = (low - 1).div_euclid(range.step) * range.step;
        found.push(Violation::at_root(
            number(n, range.scale),
            &["minimum", "exclusiveMinimum"],
        ));
    }
    if let Some(high) = range.highest() {
        let n = (high.div_euclid(range.step) + 1) * range.step;
        found.push(Violation::at_root(
            number(n, range.scale),
            &["maximum", "exclusiveMaximum"],
        ));
    }
    found
}

fn list_violations(shape: &Shape, value: &Value, draft: Draft) -> Vec<Violation> {
    let items = value.as_array().expect("a list has items");
    let with = |index: usize, item: Value| {
        let mut items = items.clone();
        items[index] = item;
        Value::Array(items)
    };
    let inside = |index: usize, part: &Shape| {
        let found = violations(part, &items[index], draft).into_iter();
        found
            .map(move |inner| inner.inside(&index.to_string(), |item| with(index, item)))
            .collect::<Vec<_>>()
    };
    let mut found = vec![Violation::at_root(json!({ "0": items }), TYPE)];
    if matches!(shape, Shape::CountedNulls { .. }) && draft == Draft::Draft4 {
        // In Draft 4, the replacement of `contains` also fails for values that are not lists.
        found.clear();
    }
    match shape {
        Shape::List { of, least, most } => {
            found.extend((0..items.len()).flat_map(|index| inside(index, of)));
            if *least > 0 {
                found.push(Violation::at_root(items[..least - 1].into(), &["minItems"]));
            }
            if let Some(first) = items.first() {
                found.push(Violation::at_root(
                    Value::Array(vec![first.clone(); most + 1]),
                    &["maxItems"],
                ));
            }
        }
        Shape::Distinct => {
            if let Some(first) = items.first() {
                let twice = items.iter().chain([first]).cloned().collect();
                found.push(Violation::at_root(twice, &["uniqueItems"]));
                found.push(with_bad_item(items));
            }
        }
        Shape::Tuple { parts, rest } => {
            for (index, _) in items.iter().enumerate() {
                match (parts.get(index), rest) {
                    (Some(part), _) => found.extend(inside(index, part)),
                    (None, Rest::Only(part)) => found.extend(inside(index, part)),
                    _ => {}
                }
            }
            if matches!(rest, Rest::Nothing) && items.len() == parts.len() {
                let longer = items.iter().cloned().chain([json!(1)]).collect();
                // In 2020-12, `items` is a schema for each item; `additionalItems` is a keyword of
                // the whole array.
                let path = if draft >= Draft::Draft202012 {
                    format!("/{}", parts.len())
                } else {
                    String::new()
                };
                found.push(Violation {
                    path,
                    ..Violation::at_root(longer, CLOSED_LIST)
                });
            }
        }
        Shape::CountedNulls { most, .. } => {
            let none = items
                .iter()
                .filter(|item| !item.is_null())
                .cloned()
                .collect();
            found.push(Violation::at_root(none, CONTAINS));
            if draft >= Draft::Draft201909 {
                found.push(Violation::at_root(
                    items
                        .iter()
                        .cloned()
                        .chain(vec![Value::Null; most + 1])
                        .collect(),
                    CONTAINS,
                ));
            }
        }
        _ => unreachable!("only called for lists"),
    }
    found
}

fn with_bad_item(items: &[Value]) -> Violation {
    let mut items = items.to_vec();
    items[0] = json!("1");
    Violation {
        path: "/0".to_owned(),
        ..Violation::at_root(Value::Array(items), TYPE)
    }
}

fn record_violations(record: &Record, value: &Value, draft: Draft) -> Vec<Violation> {
    let members = value.as_object().expect("a record has members");
    let with = |name: &str, member: Value| {
        let mut members = members.clone();
        members.insert(name.to_owned(), member);
        Value::Object(members)
    };
    let mut found = vec![Violation::at_root(json!([members]), TYPE)];
    for (name, member) in members {
        let named = record.members.iter().find(|known| known.name == name);
        let part = match (named, &record.rest) {
            (Some(known), _) => &known.shape,
            (None, Rest::Only(shape) | Rest::Prefixed(shape)) => shape,
            (None, _) => continue,
        };
        found.extend(
            violations(part, member, draft)
                .into_iter()
                .map(|inner| inner.inside(name, |member| with(name, member))),
        );
        if named.is_some_and(|known| known.required) {
            let others = members.iter().filter(|(other, _)| *other != name);
            found.push(Violation::at_root(
                others
                    .map(|(name, member)| (name.clone(), member.clone()))
                    .collect(),
                &["required"],
            ));
        }
    }
    if matches!(record.rest, Rest::Nothing | Rest::Prefixed(_)) && record.most.is_none() {
        found.push(Violation::at_root(with("unknown", json!(1)), CLOSED_RECORD));
    }
    if record.name_most.is_some() && draft > Draft::Draft4 {
        found.push(Violation::at_root(
            with("a name that is too long", json!(1)),
            &["propertyNames"],
        ));
    }
    if let Some((first, second)) = record.dependent.filter(|_| record.least == 0) {
        let (first, second) = (record.members[first].name, record.members[second].name);
        if members.contains_key(first) {
            let mut without = members.clone();
            without.remove(second);
            found.push(Violation::at_root(
                Value::Object(without),
                &["required", "dependencies", "dependentRequired"],
            ));
        }
    }
    if record.least > 0 {
        found.push(Violation::at_root(json!({}), &["minProperties"]));
    }
    if let Some(most) = record.most {
        let more = (0..=most).map(|index| (format!("more {index}"), json!(index)));
        found.push(Violation::at_root(
            members.clone().into_iter().chain(more).collect(),
            &["maxProperties"],
        ));
    }
    found
}

/// Violates all alternatives: they have different types, and the type is kept.
fn either_violations(
    parts: &[Shape],
    exactly: bool,
    value: &Value,
    draft: Draft,
) -> Vec<Violation> {
    let keywords: &[&str] = if exactly { &["oneOf"] } else { &["anyOf"] };
    let kind = |value: &Value| std::mem::discriminant(value);
    let of_kind = |part: &&Shape| match part {
        Shape::Null => value.is_null(),
        Shape::Boolean => value.is_boolean(),
        Shape::Text { .. } => value.is_string(),
        Shape::Number(_) => value.is_number(),
        Shape::List { .. } => value.is_array(),
        _ => value.is_object(),
    };
    let part = parts
        .iter()
        .find(of_kind)
        .expect("the value matches one of the parts");
    let found = violations(part, value, draft)
        .into_iter()
        .filter(|inner| kind(&inner.value) == kind(value));
    found
        .map(|inner| Violation::at_root(inner.value, keywords))
        .collect()
}

fn chain_violations(part: &Shape, value: &Value, draft: Draft) -> Vec<Violation> {
    let members = value.as_object().expect("a link has members");
    let with = |name: &str, member: Value| {
        let mut members = members.clone();
        members.insert(name.to_owned(), member);
        Value::Object(members)
    };
    let inner = violations(part, &members["value"], draft).into_iter();
    let mut found: Vec<Violation> = inner
        .map(|inner| inner.inside("value", |member| with("value", member)))
        .collect();
    if let Some(next) = members.get("next") {
        found.extend(
            chain_violations(part, next, draft)
                .into_iter()
                .map(|inner| inner.inside("next", |member| with("next", member))),
        );
        let without_value = json!({ "next": next });
        found.push(Violation::at_root(without_value, &["required"]));
    }
    found.push(Violation::at_root(with("nxt", Value::Null), CLOSED_RECORD));
    found
}
