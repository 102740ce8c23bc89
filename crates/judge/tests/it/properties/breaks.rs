//! Breaks one keyword of a shape, and nothing else, in a value that keeps it. Knows which keyword a
//! validator then names, and where.

use serde_json::{Value, json};

use super::shape::{Range, Record, Rest, Shape, number, same};
use crate::suite::corpus::Draft;

/// A value with one thing wrong in it.
#[derive(Debug)]
pub(super) struct Break {
    pub(super) value: Value,
    /// Where, as a JSON pointer.
    pub(super) path: String,
    /// What the broken keyword may be called.
    pub(super) keywords: &'static [&'static str],
}

impl Break {
    fn here(value: Value, keywords: &'static [&'static str]) -> Self {
        Self {
            value,
            path: String::new(),
            keywords,
        }
    }

    /// The same, of the value of which this one is the part called `token`.
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

/// Every break of `value`, which keeps `shape`.
pub(super) fn breaks(shape: &Shape, value: &Value, draft: Draft) -> Vec<Break> {
    match shape {
        Shape::Anything => Vec::new(),
        Shape::Null | Shape::Boolean => vec![
            Break::here(json!("null"), TYPE),
            Break::here(json!(0), TYPE),
        ],
        Shape::Text { least, most } => {
            let mut found = vec![
                Break::here(json!(7), TYPE),
                Break::here(Value::from("😀".repeat(most + 1)), &["maxLength"]),
            ];
            if *least > 0 {
                found.push(Break::here(
                    Value::from("é".repeat(least - 1)),
                    &["minLength"],
                ));
            }
            found
        }
        Shape::TextBut { least } => vec![
            Break::here(json!([]), TYPE),
            Break::here(Value::from("~".repeat(*least)), NOT),
        ],
        Shape::NoText => vec![Break::here(json!(""), NOT)],
        Shape::Matching(samples) => {
            let bad = samples
                .bad
                .iter()
                .map(|text| Break::here(Value::from(*text), &["pattern"]));
            bad.chain([Break::here(json!({}), TYPE)]).collect()
        }
        Shape::Format(samples) => {
            let bad = samples
                .bad
                .iter()
                .map(|text| Break::here(Value::from(*text), &["format"]));
            bad.chain([Break::here(Value::Null, TYPE)]).collect()
        }
        Shape::Number(range) => of_range(range),
        Shape::Beside(at) => vec![Break::here(number(*at, 0), &["oneOf"])],
        Shape::Choice { values, .. } => {
            let others = [json!(null), json!("~~"), json!([[]]), json!(99_999)].into_iter();
            let others = others.filter(|other| !values.iter().any(|value| same(value, other)));
            others.map(|other| Break::here(other, CONSTANT)).collect()
        }
        Shape::Many { .. } | Shape::Distinct | Shape::Tuple { .. } | Shape::Nulls { .. } => {
            of_list(shape, value, draft)
        }
        Shape::Record(record) => of_record(record, value, draft),
        Shape::Either { parts, exactly } => of_either(parts, *exactly, value, draft),
        Shape::Apart(of) | Shape::Named { of, .. } => breaks(of, value, draft),
        Shape::Chain { value: part, .. } => of_chain(part, value, draft),
    }
}

fn of_range(range: &Range) -> Vec<Break> {
    let mut found = vec![Break::here(json!("1"), TYPE)];
    let within = |n: i128| {
        range.lowest().is_none_or(|low| low <= n) && range.highest().is_none_or(|high| n <= high)
    };
    if range.step != 1 {
        let beside = [range.inner + 1, range.inner - 1]
            .into_iter()
            .find(|n| within(*n));
        found.extend(beside.map(|n| Break::here(number(n, range.scale), &["multipleOf"])));
    } else if range.integer && within(range.inner + 1) {
        found.push(Break::here(number(range.inner * 10 + 5, 1), TYPE));
    }
    // The nearest multiple beyond the bound.
    if let Some(low) = range.lowest() {
        let n = (low - 1).div_euclid(range.step) * range.step;
        found.push(Break::here(
            number(n, range.scale),
            &["minimum", "exclusiveMinimum"],
        ));
    }
    if let Some(high) = range.highest() {
        let n = (high.div_euclid(range.step) + 1) * range.step;
        found.push(Break::here(
            number(n, range.scale),
            &["maximum", "exclusiveMaximum"],
        ));
    }
    found
}

fn of_list(shape: &Shape, value: &Value, draft: Draft) -> Vec<Break> {
    let items = value.as_array().expect("a list has items");
    let with = |index: usize, item: Value| {
        let mut items = items.clone();
        items[index] = item;
        Value::Array(items)
    };
    let inside = |index: usize, part: &Shape| {
        let found = breaks(part, &items[index], draft).into_iter();
        found
            .map(move |inner| inner.inside(&index.to_string(), |item| with(index, item)))
            .collect::<Vec<_>>()
    };
    let mut found = vec![Break::here(json!({ "0": items }), TYPE)];
    if matches!(shape, Shape::Nulls { .. }) && draft == Draft::Draft4 {
        // What stands for `contains` there breaks for what is no list, too.
        found.clear();
    }
    match shape {
        Shape::Many { of, least, most } => {
            found.extend((0..items.len()).flat_map(|index| inside(index, of)));
            if *least > 0 {
                found.push(Break::here(items[..least - 1].into(), &["minItems"]));
            }
            if let Some(first) = items.first() {
                found.push(Break::here(
                    Value::Array(vec![first.clone(); most + 1]),
                    &["maxItems"],
                ));
            }
        }
        Shape::Distinct => {
            if let Some(first) = items.first() {
                let twice = items.iter().chain([first]).cloned().collect();
                found.push(Break::here(twice, &["uniqueItems"]));
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
                // 2020-12's `items` is a schema for each item, `additionalItems` a keyword about
                // all of them.
                let path = if draft >= Draft::Draft202012 {
                    format!("/{}", parts.len())
                } else {
                    String::new()
                };
                found.push(Break {
                    path,
                    ..Break::here(longer, CLOSED_LIST)
                });
            }
        }
        Shape::Nulls { most, .. } => {
            let none = items
                .iter()
                .filter(|item| !item.is_null())
                .cloned()
                .collect();
            found.push(Break::here(none, CONTAINS));
            if draft >= Draft::Draft201909 {
                found.push(Break::here(
                    items
                        .iter()
                        .cloned()
                        .chain(vec![Value::Null; most + 1])
                        .collect(),
                    CONTAINS,
                ));
            }
        }
        _ => unreachable!("only lists come here"),
    }
    found
}

fn with_bad_item(items: &[Value]) -> Break {
    let mut items = items.to_vec();
    items[0] = json!("1");
    Break {
        path: "/0".to_owned(),
        ..Break::here(Value::Array(items), TYPE)
    }
}

fn of_record(record: &Record, value: &Value, draft: Draft) -> Vec<Break> {
    let members = value.as_object().expect("a record has members");
    let with = |name: &str, member: Value| {
        let mut members = members.clone();
        members.insert(name.to_owned(), member);
        Value::Object(members)
    };
    let mut found = vec![Break::here(json!([members]), TYPE)];
    for (name, member) in members {
        let named = record.members.iter().find(|known| known.name == name);
        let part = match (named, &record.rest) {
            (Some(known), _) => &known.shape,
            (None, Rest::Only(shape) | Rest::Prefixed(shape)) => shape,
            (None, _) => continue,
        };
        found.extend(
            breaks(part, member, draft)
                .into_iter()
                .map(|inner| inner.inside(name, |member| with(name, member))),
        );
        if named.is_some_and(|known| known.required) {
            let others = members.iter().filter(|(other, _)| *other != name);
            found.push(Break::here(
                others
                    .map(|(name, member)| (name.clone(), member.clone()))
                    .collect(),
                &["required"],
            ));
        }
    }
    if matches!(record.rest, Rest::Nothing | Rest::Prefixed(_)) && record.most.is_none() {
        found.push(Break::here(with("unheard of", json!(1)), CLOSED_RECORD));
    }
    if record.name_most.is_some() && draft > Draft::Draft4 {
        found.push(Break::here(
            with("a name that is too long", json!(1)),
            &["propertyNames"],
        ));
    }
    if let Some((first, second)) = record.dependent.filter(|_| record.least == 0) {
        let (first, second) = (record.members[first].name, record.members[second].name);
        if members.contains_key(first) {
            let mut without = members.clone();
            without.remove(second);
            found.push(Break::here(
                Value::Object(without),
                &["required", "dependencies", "dependentRequired"],
            ));
        }
    }
    if record.least > 0 {
        found.push(Break::here(json!({}), &["minProperties"]));
    }
    if let Some(most) = record.most {
        let more = (0..=most).map(|index| (format!("more {index}"), json!(index)));
        found.push(Break::here(
            members.clone().into_iter().chain(more).collect(),
            &["maxProperties"],
        ));
    }
    found
}

/// No part takes it any more, since the parts have types of their own, and the type stays.
fn of_either(parts: &[Shape], exactly: bool, value: &Value, draft: Draft) -> Vec<Break> {
    let keywords: &[&str] = if exactly { &["oneOf"] } else { &["anyOf"] };
    let kind = |value: &Value| std::mem::discriminant(value);
    let of_kind = |part: &&Shape| match part {
        Shape::Null => value.is_null(),
        Shape::Boolean => value.is_boolean(),
        Shape::Text { .. } => value.is_string(),
        Shape::Number(_) => value.is_number(),
        Shape::Many { .. } => value.is_array(),
        _ => value.is_object(),
    };
    let part = parts
        .iter()
        .find(of_kind)
        .expect("the value keeps one of the parts");
    let found = breaks(part, value, draft)
        .into_iter()
        .filter(|inner| kind(&inner.value) == kind(value));
    found
        .map(|inner| Break::here(inner.value, keywords))
        .collect()
}

fn of_chain(part: &Shape, value: &Value, draft: Draft) -> Vec<Break> {
    let members = value.as_object().expect("a link has members");
    let with = |name: &str, member: Value| {
        let mut members = members.clone();
        members.insert(name.to_owned(), member);
        Value::Object(members)
    };
    let inner = breaks(part, &members["value"], draft).into_iter();
    let mut found: Vec<Break> = inner
        .map(|inner| inner.inside("value", |member| with("value", member)))
        .collect();
    if let Some(next) = members.get("next") {
        found.extend(
            of_chain(part, next, draft)
                .into_iter()
                .map(|inner| inner.inside("next", |member| with("next", member))),
        );
        let headless = json!({ "next": next });
        found.push(Break::here(headless, &["required"]));
    }
    found.push(Break::here(with("nxt", Value::Null), CLOSED_RECORD));
    found
}
