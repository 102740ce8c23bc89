//! The text of a right or a wrong answer, in the form of its arm.

use std::io;
use std::sync::Arc;

use serde::Serialize;
use serde_json::ser::Formatter;
use serde_json::{Number, Value};

use super::changed::{changed, changed_text};
use super::document::{document_with, in_schema_order};
use crate::seeds::Draws;
use sobench_core::case::{Arm, Case};
use sobench_core::constraint::Constraint;
use sobench_core::schema_part::SchemaPart;
use sobench_core::scorer::Scorer;

/// A query with another result than any that is asked for.
const WRONG_QUERY: &str = "SELECT 'not this'";

/// Prose that contains the answer for [`Arm::Free`], the answer alone for the other arms.
fn form(answer: &str, arm: Arm, is_json: bool) -> String {
    match (arm, is_json) {
        (Arm::Free, true) => format!("Here is the answer:\n```json\n{answer}\n```"),
        (Arm::Free, false) => format!("The answer is {answer}."),
        _ => answer.to_owned(),
    }
}

/// The text that the model writes for a case: the reference, or a wrong answer of the same form.
/// `None` without a reference that can be written, and for expected calls.
///
/// A case whose prompt or request has the schema gets JSON, or the text alone. [`Arm::Free`] gets
/// prose that contains the answer.
pub(crate) fn answer_text(case: &Case, is_right: bool, draws: &mut Draws) -> Option<String> {
    let reference = case.completion.as_deref()?;
    let constraint = case.constraint.as_deref();
    let schema = constraint.and_then(Constraint::schema).map(Arc::as_ref);
    match case.score? {
        Scorer::Calls => None,
        Scorer::Exact | Scorer::Leaf => {
            let part = schema.map(SchemaPart::new);
            let reference: Value = serde_json::from_str(reference).ok()?;
            let value = if is_right {
                reference
            } else {
                changed(&reference, part, draws)?
            };
            Some(form(
                &spelled(&in_schema_order(&value, part)),
                case.arm,
                true,
            ))
        }
        Scorer::Sql => {
            let reference: Value = serde_json::from_str(reference).ok()?;
            let query = match is_right {
                true => reference.get("query")?.as_str()?,
                false => WRONG_QUERY,
            };
            Some(short_answer(
                &Value::from(query),
                schema,
                constraint,
                case.arm,
            ))
        }
        Scorer::Number => {
            let right = last_number(reference)?;
            let number = if is_right {
                right
            } else {
                plus(&right, 1 + i64::try_from(draws.below(9)).unwrap_or(0))?
            };
            Some(short_answer(
                &Value::Number(number),
                schema,
                constraint,
                case.arm,
            ))
        }
        Scorer::Choice => {
            let choice = if is_right {
                reference.to_owned()
            } else {
                other_choice(reference, constraint, draws)?
            };
            Some(short_answer(
                &Value::from(choice),
                schema,
                constraint,
                case.arm,
            ))
        }
    }
}

/// A number or a choice: in a document of the schema, alone under another constraint, or in prose.
fn short_answer(
    answer: &Value,
    schema: Option<&Value>,
    constraint: Option<&Constraint>,
    arm: Arm,
) -> String {
    let document = schema
        .filter(|_| arm != Arm::Free)
        .and_then(|schema| document_with(answer, schema));
    let bare = match answer {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match document {
        Some(document) => spelled(&document),
        None if constraint.is_some() => form(&bare, arm, false),
        None => form(&bare, Arm::Free, false),
    }
}

fn other_choice(
    reference: &str,
    constraint: Option<&Constraint>,
    draws: &mut Draws,
) -> Option<String> {
    let choices = constraint.and_then(Constraint::choices);
    let choices = choices.into_iter().flat_map(|choices| choices.iter());
    let schema = constraint.and_then(Constraint::schema);
    let listed = schema.and_then(|schema| listed(schema, reference));
    let others: Vec<&str> = choices
        .map(String::as_str)
        .chain(listed.into_iter().flatten().filter_map(Value::as_str))
        .filter(|choice| *choice != reference)
        .collect();
    match others.len() {
        0 => changed_text(reference, false, draws),
        count => Some(others[draws.below(count)].to_owned()),
    }
}

/// The `enum` of a schema that lists this text.
fn listed<'a>(schema: &'a Value, text: &str) -> Option<&'a Vec<Value>> {
    match schema {
        Value::Object(members) => {
            let own = members.get("enum").and_then(Value::as_array);
            own.filter(|values| values.iter().any(|value| value == text))
                .or_else(|| members.values().find_map(|member| listed(member, text)))
        }
        Value::Array(items) => items.iter().find_map(|item| listed(item, text)),
        _ => None,
    }
}

/// The last number of a text, without separators of thousands.
fn last_number(text: &str) -> Option<Number> {
    let is_part = |character: char| character.is_ascii_digit() || ".,-".contains(character);
    text.split(|character| !is_part(character))
        .rev()
        .find_map(|part| {
            let digits = part.replace(',', "");
            let digits = digits.trim_end_matches(['.', '-']);
            // The minus in `5-3` separates.
            let start = digits.rfind('-').filter(|start| *start > 0);
            start
                .map_or(digits, |start| &digits[start + 1..])
                .parse()
                .ok()
        })
}

fn plus(number: &Number, difference: i64) -> Option<Number> {
    match number.as_i64() {
        Some(number) => number.checked_add(difference).map(Number::from),
        None => Number::from_f64(number.as_f64()? + difference as f64),
    }
}

/// JSON with a space after each comma and colon, as Python writes it. Engines that allow no space
/// get the same text without it.
fn spelled(value: &Value) -> String {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, Spaced);
    // Neither a vector nor a value can fail.
    let written = value.serialize(&mut serializer).ok();
    written
        .and_then(|()| String::from_utf8(bytes).ok())
        .unwrap_or_else(|| value.to_string())
}

struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first {
            Ok(())
        } else {
            writer.write_all(b", ")
        }
    }

    fn begin_object_key<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first {
            Ok(())
        } else {
            writer.write_all(b", ")
        }
    }

    fn begin_object_value<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use sobench_core::case::Prompt;
    use sobench_judge::accuracy::{Grade, Reference};

    use super::*;

    fn case(scorer: Scorer, reference: &Value, constraint: Option<Constraint>, arm: Arm) -> Case {
        let text = match reference {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        Case {
            score: Some(scorer),
            completion: Some(text),
            arm,
            ..Case::new("c", Prompt::Text("p".into()), constraint.map(Arc::new), 100)
        }
    }

    #[test]
    fn right_and_wrong_answers_are_graded_as_such_in_every_arm() {
        let schema = |schema: Value| Constraint::JsonSchema(Arc::new(schema));
        let order = json!({"id": "A-17", "lines": [{"sku": "x", "count": 2}], "total": 9.5});
        for (scorer, reference, constraint) in [
            (Scorer::Exact, order.clone(), None),
            (
                Scorer::Leaf,
                order,
                Some(schema(
                    json!({"type": "object", "properties": {"total": {"type": "number",
                    "x-sobench-score": {"number": 0.01}}}}),
                )),
            ),
            (Scorer::Number, json!("6 * 7 = 42\n#### 1,042"), None),
            (
                Scorer::Number,
                json!("-3"),
                Some(schema(
                    json!({"properties": {"answer": {"type": "integer"}}}),
                )),
            ),
            (
                Scorer::Choice,
                json!("B"),
                Some(Constraint::Choice(["A", "B", "C"].map(String::from).into())),
            ),
            (
                Scorer::Choice,
                json!("B"),
                Some(schema(
                    json!({"properties": {"answer": {"enum": ["A", "B"]}}}),
                )),
            ),
            (Scorer::Choice, json!("yes"), None),
        ] {
            for arm in Arm::ALL {
                let case = case(scorer, &reference, constraint.clone(), arm);
                let rule = Reference::new(scorer, &reference, constraint.as_ref()).unwrap();
                for seed in 0..20 {
                    let mut draws = Draws::new(seed, "test");
                    let text = answer_text(&case, true, &mut draws).unwrap();
                    assert_eq!(
                        rule.grade(&text).grade,
                        Grade::Right,
                        "{scorer:?} {arm:?} {text}"
                    );
                    let text = answer_text(&case, false, &mut draws).unwrap();
                    let grade = rule.grade(&text).grade;
                    assert_eq!(grade, Grade::Wrong, "{scorer:?} {arm:?} {text}");
                }
            }
        }
    }

    #[test]
    fn free_answers_are_prose_and_others_have_the_form_of_the_schema() {
        let mut draws = Draws::new(1, "test");
        let mut text = |arm| {
            let schema = json!({"properties": {"b": {}, "a": {}}});
            let constraint = Constraint::JsonSchema(Arc::new(schema));
            let reference = json!({"a": [1, 2], "b": "x"});
            answer_text(
                &case(Scorer::Exact, &reference, Some(constraint), arm),
                true,
                &mut draws,
            )
        };
        let json = r#"{"b": "x", "a": [1, 2]}"#;
        assert_eq!(text(Arm::Control).as_deref(), Some(json));
        assert_eq!(text(Arm::ConstraintOnly).as_deref(), Some(json));
        assert_eq!(
            text(Arm::Free).unwrap(),
            format!("Here is the answer:\n```json\n{json}\n```")
        );
    }

    #[test]
    fn cases_without_a_reference_have_no_text() {
        let mut draws = Draws::new(1, "test");
        let known = case(Scorer::Number, &json!("7"), None, Arm::Free);
        for case in [
            Case {
                score: None,
                ..known.clone()
            },
            Case {
                completion: None,
                ..known.clone()
            },
            Case {
                score: Some(Scorer::Calls),
                ..known.clone()
            },
            Case {
                completion: Some("none".to_owned()),
                ..known
            },
        ] {
            assert_eq!(answer_text(&case, true, &mut draws), None);
        }
    }
}
