//! Compares two JSON documents leaf by leaf.
//!
//! A leaf is a value without members or items: a string, number, boolean, null, or an empty object
//! or array. Leaves have the same path in both documents; items of an array are compared by their
//! position, or in any order if the schema declares a set.
//!
//! A schema declares how a value is compared by the member `x-sobench-score`: `exact`,
//! `case_insensitive`, `date`, `set` (an array), `ignore`, or `{"number": TOLERANCE}`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use sobench_core::schema_part::SchemaPart;
use sobench_core::scorer::SCORE_KEYWORD as KEYWORD;

/// The leaves of a reference and an answer.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, schemars::JsonSchema, Serialize, Deserialize,
)]
pub struct Leaves {
    pub right: usize,
    /// At the path of the reference with another value.
    pub wrong: usize,
    /// Of the wrong ones, those of another JSON type.
    pub wrong_type: usize,
    /// In the reference only.
    pub omitted: usize,
    /// In the answer only.
    pub invented: usize,
}

/// How a value is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rule {
    Exact,
    CaseInsensitive,
    /// The same day; a time of day is ignored.
    Date,
    /// Items of an array in any order.
    Set,
    Ignore,
    /// A difference up to this.
    Number(f64),
}

impl Rule {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::String(name) => match name.as_str() {
                "exact" => Some(Self::Exact),
                "case_insensitive" => Some(Self::CaseInsensitive),
                "date" => Some(Self::Date),
                "set" => Some(Self::Set),
                "ignore" => Some(Self::Ignore),
                _ => None,
            },
            Value::Object(members) if members.len() == 1 => {
                let tolerance = members.get("number")?.as_f64()?;
                (tolerance >= 0.0).then_some(Self::Number(tolerance))
            }
            _ => None,
        }
    }
}

/// Checks the declarations of a schema.
///
/// # Errors
/// An unknown declaration, as half a sentence.
pub(super) fn check_declarations(schema: &Value) -> Result<(), String> {
    match schema {
        Value::Object(members) => members.iter().try_for_each(|(name, value)| {
            if name == KEYWORD && Rule::from_value(value).is_none() {
                return Err(format!(
                    "the schema has an unknown {KEYWORD}: {value}; use exact, case_insensitive, \
                     date, set, ignore or {{\"number\": TOLERANCE}}"
                ));
            }
            check_declarations(value)
        }),
        Value::Array(items) => items.iter().try_for_each(check_declarations),
        _ => Ok(()),
    }
}

/// The part of a schema that a value takes.
fn taken<'a>(schema: Option<SchemaPart<'a>>, value: &Value) -> Option<SchemaPart<'a>> {
    schema.map(|schema| schema.for_value(value))
}

/// The rule that a schema declares for a value: beside its alternatives, or in the one that the
/// value takes.
fn declared_rule(schema: Option<SchemaPart<'_>>, value: &Value) -> Option<Rule> {
    let declared = |part: SchemaPart<'_>| part.keyword(KEYWORD).and_then(Rule::from_value);
    declared(schema?).or_else(|| taken(schema, value).and_then(declared))
}

impl Leaves {
    /// Compares an answer; `None` is an answer without JSON, which omits every leaf.
    pub(super) fn new(reference: &Value, answer: Option<&Value>, schema: Option<&Value>) -> Self {
        let mut leaves = Self::default();
        leaves.compare(reference, answer, schema.map(SchemaPart::new));
        leaves
    }

    /// Leaves of the reference.
    pub fn expected(&self) -> usize {
        self.right + self.wrong + self.omitted
    }

    pub fn are_all_right(&self) -> bool {
        self.wrong + self.omitted + self.invented == 0
    }

    /// Adds those of another answer.
    pub fn add(&mut self, other: &Self) {
        self.right += other.right;
        self.wrong += other.wrong;
        self.wrong_type += other.wrong_type;
        self.omitted += other.omitted;
        self.invented += other.invented;
    }

    fn compare(
        &mut self,
        reference: &Value,
        answer: Option<&Value>,
        schema: Option<SchemaPart<'_>>,
    ) {
        let rule = declared_rule(schema, reference).unwrap_or(Rule::Exact);
        let schema = taken(schema, reference);
        let Some(answer) = answer.filter(|_| rule != Rule::Ignore) else {
            if rule != Rule::Ignore {
                self.omitted += count(reference, schema);
            }
            return;
        };
        match (reference, answer) {
            (Value::Object(expected), Value::Object(found)) if !expected.is_empty() => {
                let member = |name: &str| schema.and_then(|schema| schema.member(name));
                for (name, value) in expected {
                    self.compare(value, found.get(name), member(name));
                }
                for (name, value) in found {
                    if !expected.contains_key(name) {
                        self.invented += count(value, member(name));
                    }
                }
            }
            (Value::Array(expected), Value::Array(found)) if rule == Rule::Set => {
                self.compare_set(expected, found);
            }
            (Value::Array(expected), Value::Array(found)) if !expected.is_empty() => {
                let item = |index| schema.and_then(|schema| schema.item(index));
                for (index, value) in expected.iter().enumerate() {
                    self.compare(value, found.get(index), item(index));
                }
                for (index, value) in found.iter().enumerate().skip(expected.len()) {
                    self.invented += count(value, item(index));
                }
            }
            (Value::Object(_) | Value::Array(_), _) if !is_leaf(reference) => {
                self.omitted += count(reference, schema);
                self.invented += count(answer, None);
            }
            _ if is_equal_by(rule, reference, answer) => self.right += 1,
            _ => {
                self.wrong += 1;
                let is_same = std::mem::discriminant(reference) == std::mem::discriminant(answer);
                self.wrong_type += usize::from(!is_same);
            }
        }
    }

    fn compare_set(&mut self, expected: &[Value], found: &[Value]) {
        let mut rest: Vec<&Value> = found.iter().collect();
        for value in expected {
            match rest.iter().position(|other| is_equal(value, other)) {
                Some(position) => {
                    rest.swap_remove(position);
                    self.right += 1;
                }
                None => self.omitted += 1,
            }
        }
        self.invented += rest.len();
    }
}

fn is_leaf(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => true,
    }
}

/// The number of leaves that are not ignored; an item of a set is one.
fn count(value: &Value, schema: Option<SchemaPart<'_>>) -> usize {
    let rule = declared_rule(schema, value);
    let schema = taken(schema, value);
    match value {
        _ if rule == Some(Rule::Ignore) => 0,
        _ if is_leaf(value) => usize::from(rule != Some(Rule::Set)),
        Value::Array(items) if rule == Some(Rule::Set) => items.len(),
        Value::Array(items) => {
            let item = |index| schema.and_then(|schema| schema.item(index));
            let counts = items.iter().enumerate();
            counts.map(|(index, value)| count(value, item(index))).sum()
        }
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| count(value, schema.and_then(|schema| schema.member(name))))
            .sum(),
        _ => 1,
    }
}

fn is_equal_by(rule: Rule, one: &Value, other: &Value) -> bool {
    match (rule, one, other) {
        (Rule::CaseInsensitive, Value::String(one), Value::String(other)) => {
            one.trim().to_lowercase() == other.trim().to_lowercase()
        }
        (Rule::Date, Value::String(one), Value::String(other)) => {
            one == other || day(one).is_some_and(|one| day(other) == Some(one))
        }
        (Rule::Number(tolerance), Value::Number(one), Value::Number(other)) => {
            let difference = one
                .as_f64()
                .zip(other.as_f64())
                .map(|(one, other)| one - other);
            difference.is_some_and(|difference| difference.abs() <= tolerance)
        }
        _ => is_equal(one, other),
    }
}

/// The day of a date or of a date and time of ISO 8601.
fn day(text: &str) -> Option<&str> {
    let day = text.trim().get(..10)?;
    let rest = &text.trim()[10..];
    let has_form = day.bytes().enumerate().all(|(index, byte)| match index {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    });
    (has_form && (rest.is_empty() || rest.starts_with(['T', 't', ' ']))).then_some(day)
}

/// Whether two documents are equal: members in any order, numbers by value.
pub(super) fn is_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || one.as_f64().is_some_and(|one| other.as_f64() == Some(one))
        }
        (Value::Array(one), Value::Array(other)) => {
            let mut pairs = one.iter().zip(other);
            one.len() == other.len() && pairs.all(|(one, other)| is_equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let is_member = |(name, value): (&String, &Value)| {
                other.get(name).is_some_and(|other| is_equal(value, other))
            };
            one.len() == other.len() && one.iter().all(is_member)
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Right, wrong, of them of another type, omitted, invented.
    fn leaves(reference: &Value, answer: &Value, schema: Option<&Value>) -> [usize; 5] {
        let found = Leaves::new(reference, Some(answer), schema);
        [
            found.right,
            found.wrong,
            found.wrong_type,
            found.omitted,
            found.invented,
        ]
    }

    #[test]
    fn leaves_are_right_wrong_omitted_or_invented() {
        let reference = json!({"a": {"b": 1, "c": "x"}, "d": [1, 2], "e": null, "f": []});
        for (answer, expected) in [
            (reference.clone(), [6, 0, 0, 0, 0]),
            (
                json!({"f": [], "a": {"c": "y", "b": 1.0}, "d": [1, 2], "e": null}),
                [5, 1, 0, 0, 0],
            ),
            (
                json!({"a": {"b": "1"}, "d": [1, 2, 3], "e": null, "f": []}),
                [4, 1, 1, 1, 1],
            ),
            (
                json!({"a": 5, "d": [1, 2], "e": null, "f": []}),
                [4, 0, 0, 2, 1],
            ),
            (json!({"d": [2, 1], "g": {"h": [1, 2]}}), [0, 2, 0, 4, 2]),
            (json!([]), [0, 0, 0, 6, 1]),
        ] {
            let found = leaves(&reference, &answer, None);
            assert_eq!(found, expected, "{answer}");
            assert_eq!(found[0] + found[1] + found[3], 6, "{answer}");
        }
    }

    #[test]
    fn a_schema_declares_how_leaves_are_compared() {
        let schema = json!({
            "properties": {
                "name": {"x-sobench-score": "case_insensitive"},
                "on": {"$ref": "#/$defs/day"},
                "total": {"x-sobench-score": {"number": 0.01}},
                "tags": {"type": "array", "x-sobench-score": "set"},
                "note": {"x-sobench-score": "ignore"},
                "rows": {"items": {"properties": {"on": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/day"}]}}}},
                "memo": {"$ref": "#/$defs/text", "x-sobench-score": "ignore"},
            },
            "$defs": {"day": {"type": "string", "x-sobench-score": "date"}, "text": {"type": "string"}},
        });
        check_declarations(&schema).unwrap();
        let reference = json!({
            "name": "Ada Lovelace", "on": "2025-03-01", "total": 10.0, "tags": ["a", "b", "b"],
            "note": "x", "rows": [{"on": "2025-01-02"}], "memo": "x",
        });
        let answer = json!({
            "name": "ada lovelace ", "on": "2025-03-01T10:00:00Z", "total": 10.009,
            "tags": ["b", "a", "c"], "note": "other", "rows": [{"on": "2025-01-02T12:00:00Z"}], "memo": "y",
        });
        assert_eq!(leaves(&reference, &answer, Some(&schema)), [6, 0, 0, 1, 1]);
        assert_eq!(
            leaves(&reference, &json!({}), Some(&schema)),
            [0, 0, 0, 7, 0]
        );
        assert_eq!(
            leaves(&reference, &reference, Some(&schema)),
            [7, 0, 0, 0, 0]
        );
        assert!(
            check_declarations(&json!({"items": [{"x-sobench-score": {"number": -1}}]})).is_err()
        );
    }
}
