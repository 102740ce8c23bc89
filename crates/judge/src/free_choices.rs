//! Free choices in a JSON answer: what the schema leaves open, and engines and models decide. Equal
//! documents in other spellings are equally valid, but differ in length and may differ in accuracy.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use sobench_core::answer::Answer;
use sobench_core::constraint::Constraint;
use sobench_core::observation::Outcome;
use sobench_core::schema_part::SchemaPart;

/// White space between the tokens of the JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhiteSpace {
    /// None.
    Compact,
    /// One space after each comma and colon, and no other white space, as Python writes.
    Spaced,
    /// Line feeds.
    Lines,
    /// Another combination; the model chooses.
    Mixed,
}

impl WhiteSpace {
    pub const ALL: [Self; 4] = [Self::Compact, Self::Spaced, Self::Lines, Self::Mixed];
}

/// The order of the members of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberOrder {
    /// The order in the schema.
    AsDeclared,
    Alphabetical,
    /// Another order; the model chooses.
    Other,
}

/// How non-ASCII characters are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NonAscii {
    /// Unescaped.
    Raw,
    /// At least one is escaped as `\u` and four digits.
    Escaped,
}

/// A length, and that of the same document in the compact spelling: no white space, and no escape
/// that is not needed. Order of members and digits of numbers are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct SpelledLength {
    pub written: usize,
    pub compact: usize,
}

/// The free choices of one JSON answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct FreeChoices {
    /// Of the members that `properties` declares. `None` if no object has two of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member_order: Option<MemberOrder>,
    /// Within the document.
    pub white_space: WhiteSpace,
    /// Whether there is white space before or after the document.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outer_white_space: bool,
    /// `None` without non-ASCII characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub non_ascii: Option<NonAscii>,
    pub bytes: SpelledLength,
    /// `None` without a counter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<SpelledLength>,
}

impl FreeChoices {
    /// The choices of a complete answer to a request for JSON; `None` for others.
    pub fn of_answer(
        constraint: Option<&Constraint>,
        outcome: &Outcome,
        answer: &Answer,
    ) -> Option<Self> {
        let schema = constraint
            .filter(|constraint| constraint.is_json())?
            .schema();
        (*outcome == Outcome::Completed)
            .then(|| Self::new(&answer.text(), schema.map(|schema| &**schema), None))
            .flatten()
    }

    /// Reads the choices of an answer that is one JSON object or array, with white space around it or
    /// without; `None` for others. `count_tokens` counts the tokens of a text.
    pub fn new(
        answer: &str,
        schema: Option<&Value>,
        count_tokens: Option<&dyn Fn(&str) -> usize>,
    ) -> Option<Self> {
        let value: Value = serde_json::from_str(answer).ok()?;
        if !(value.is_object() || value.is_array()) {
            return None;
        }
        let compact = value.to_string();
        let document = answer.trim_ascii();
        let mut order = SeenOrder::default();
        order.read(&value, schema.map(SchemaPart::new));
        Some(Self {
            member_order: order.conclusion(),
            white_space: white_space(document),
            outer_white_space: document.len() < answer.len(),
            non_ascii: non_ascii(document),
            bytes: SpelledLength {
                written: answer.len(),
                compact: compact.len(),
            },
            tokens: count_tokens.map(|count| SpelledLength {
                written: count(answer),
                compact: count(&compact),
            }),
        })
    }
}

/// The order of members in the objects so far.
#[derive(Debug, Default)]
struct SeenOrder {
    objects: usize,
    undeclared: usize,
    unsorted: usize,
}

impl SeenOrder {
    fn read(&mut self, value: &Value, schema: Option<SchemaPart<'_>>) {
        let schema = schema.map(|schema| schema.for_value(value));
        match value {
            Value::Object(members) => {
                if let Some(schema) = schema {
                    self.read_members(members, schema);
                }
                for (name, member) in members {
                    let declared = schema.and_then(|schema| {
                        let others = || schema.here.get("additionalProperties");
                        schema
                            .member(name)
                            .or_else(|| others().map(|part| schema.at(part)))
                    });
                    self.read(member, declared);
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.read(item, schema.and_then(|schema| schema.item(index)));
                }
            }
            _ => {}
        }
    }

    fn read_members(&mut self, members: &Map<String, Value>, schema: SchemaPart<'_>) {
        let declared: Vec<&String> = schema.names().collect();
        let written: Vec<&String> = members
            .keys()
            .filter(|name| declared.contains(name))
            .collect();
        if written.len() < 2 {
            return;
        }
        let present: HashSet<&String> = written.iter().copied().collect();
        let in_order = declared.into_iter().filter(|name| present.contains(name));
        self.objects += 1;
        self.undeclared += usize::from(!in_order.eq(written.iter().copied()));
        self.unsorted += usize::from(!written.is_sorted());
    }

    fn conclusion(&self) -> Option<MemberOrder> {
        match *self {
            Self { objects: 0, .. } => None,
            Self { undeclared: 0, .. } => Some(MemberOrder::AsDeclared),
            Self { unsorted: 0, .. } => Some(MemberOrder::Alphabetical),
            _ => Some(MemberOrder::Other),
        }
    }
}

/// Classifies the white space outside of strings.
fn white_space(document: &str) -> WhiteSpace {
    let (mut in_string, mut escaped, mut previous) = (false, false, ' ');
    let (mut lines, mut spaces, mut separators, mut elsewhere) = (false, 0, 0, false);
    for character in document.chars() {
        if in_string {
            in_string = character != '"' || escaped;
            escaped = character == '\\' && !escaped;
        } else {
            match character {
                '"' => in_string = true,
                ',' | ':' => separators += 1,
                ' ' if matches!(previous, ',' | ':') => spaces += 1,
                '\n' | '\r' => lines = true,
                other if other.is_whitespace() => elsewhere = true,
                _ => {}
            }
        }
        previous = character;
    }
    match (lines, elsewhere) {
        (true, _) => WhiteSpace::Lines,
        (false, false) if spaces == 0 => WhiteSpace::Compact,
        (false, false) if spaces == separators => WhiteSpace::Spaced,
        _ => WhiteSpace::Mixed,
    }
}

/// How the non-ASCII characters of a JSON text are written.
fn non_ascii(document: &str) -> Option<NonAscii> {
    let mut rest = document;
    while let Some(start) = rest.find('\\') {
        rest = &rest[start + 1..];
        let digits = rest.strip_prefix('u').and_then(|digits| digits.get(..4));
        let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        if code.is_some_and(|code| code > 0x7f) {
            return Some(NonAscii::Escaped);
        }
        // The escaped character may be a backslash.
        rest = rest.get(1..).unwrap_or_default();
    }
    (!document.is_ascii()).then_some(NonAscii::Raw)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({"type": "object", "properties": {
            "m": {"type": "string"},
            "z": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/pair"}]},
            "b": {"type": "array", "items": {"$ref": "#/$defs/pair"}},
        }, "$defs": {"pair": {"type": "object", "properties": {"y": {}, "x": {}}}}})
    }

    fn choices(answer: &str) -> FreeChoices {
        FreeChoices::new(answer, Some(&schema()), None).unwrap()
    }

    #[test]
    fn member_order_covers_nested_objects_and_declared_members() {
        for (answer, expected) in [
            (
                r#"{"m":"","z":{"y":1,"x":2},"b":[]}"#,
                Some(MemberOrder::AsDeclared),
            ),
            (
                r#"{"m":"","b":[{"y":1,"x":2}]}"#,
                Some(MemberOrder::AsDeclared),
            ),
            (
                r#"{"b":[{"x":2,"y":1}],"m":""}"#,
                Some(MemberOrder::Alphabetical),
            ),
            (r#"{"z":{"y":1,"x":2},"m":""}"#, Some(MemberOrder::Other)),
            (r#"{"z":null,"m":"","b":[]}"#, Some(MemberOrder::Other)),
            (r#"{"q":1,"a":2,"m":""}"#, None),
            (r#"[{"b":1,"a":2}]"#, None),
        ] {
            assert_eq!(choices(answer).member_order, expected, "{answer}");
        }
        let without = FreeChoices::new(r#"{"b":1,"a":2}"#, None, None).unwrap();
        assert_eq!(without.member_order, None);
    }

    #[test]
    fn white_space_and_escapes_are_read_from_the_text() {
        for (answer, white_space, outer, non_ascii) in [
            (r#"{"m":"1, 2: 3"}"#, WhiteSpace::Compact, false, None),
            (
                "\n{\"m\": \"a\\\" : b\", \"q\": 1} ",
                WhiteSpace::Spaced,
                true,
                None,
            ),
            (
                "{\n  \"m\": \"ü\"\n}",
                WhiteSpace::Lines,
                false,
                Some(NonAscii::Raw),
            ),
            (r#"{ "m": "1"}"#, WhiteSpace::Mixed, false, None),
            (
                r#"{"m":"\u00fc ü"}"#,
                WhiteSpace::Compact,
                false,
                Some(NonAscii::Escaped),
            ),
            (
                r#"{"m":"\ud83d\ude00"}"#,
                WhiteSpace::Compact,
                false,
                Some(NonAscii::Escaped),
            ),
            (
                r#"{"m":"\\u00fc \u0007"}"#,
                WhiteSpace::Compact,
                false,
                None,
            ),
        ] {
            let found = choices(answer);
            assert_eq!(
                (found.white_space, found.outer_white_space, found.non_ascii),
                (white_space, outer, non_ascii),
                "{answer}"
            );
        }
    }

    #[test]
    fn lengths_are_compared_with_the_compact_spelling() {
        let count = |text: &str| text.split(' ').count();
        let found = FreeChoices::new(" {\"a\": 1.50, \"b\": \"\\u00fc\\/\"}", None, Some(&count));
        let found = found.unwrap();
        let compact = r#"{"a":1.50,"b":"ü/"}"#;
        let bytes = SpelledLength {
            written: 29,
            compact: compact.len(),
        };
        assert_eq!(found.bytes, bytes);
        assert_eq!(
            found.tokens,
            Some(SpelledLength {
                written: 5,
                compact: 1
            })
        );
        for other in ["", "7", "\"a\"", "{} {}", "{\"a\":"] {
            assert_eq!(FreeChoices::new(other, None, None), None, "{other}");
        }
    }

    #[test]
    fn other_constraints_and_cut_answers_have_no_choices() {
        let answer = Answer {
            content: "{}".to_owned(),
            ..Answer::default()
        };
        let regex = Constraint::Regex("{}".into());
        assert_eq!(
            FreeChoices::of_answer(Some(&regex), &Outcome::Completed, &answer),
            None
        );
        assert_eq!(
            FreeChoices::of_answer(None, &Outcome::Completed, &answer),
            None
        );
        let object = Constraint::JsonObject(sobench_core::constraint::AlwaysTrue);
        assert_eq!(
            FreeChoices::of_answer(Some(&object), &Outcome::Truncated, &answer),
            None
        );
        assert!(FreeChoices::of_answer(Some(&object), &Outcome::Completed, &answer).is_some());
    }
}
