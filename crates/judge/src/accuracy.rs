//! Accuracy: whether an answer is right, by comparison with the reference of its request. Each
//! scorer is a rule; no model judges.
//!
//! A scorer that finds the answer in JSON more often than in prose would make an effect of the
//! constraint that it measures. An answer in which a scorer finds nothing to compare is therefore
//! *unparsed*, and not wrong.

mod leaves;
mod spans;
#[cfg(feature = "sql")]
mod sql;
#[cfg(not(feature = "sql"))]
#[path = "accuracy/without_sql.rs"]
mod sql;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{function_calls, json_answer};
use sobench_core::answer::Answer;
use sobench_core::constraint::Constraint;
use sobench_core::observation::Outcome;
pub use sobench_core::scorer::Scorer;

pub use self::leaves::Leaves;

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    Right,
    Wrong,
    /// The answer has nothing that the scorer can compare.
    Unparsed,
    /// The answer was cut at the token limit: it is never right.
    Truncated,
    /// The request was refused or failed.
    NoAnswer,
}

impl Grade {
    /// All grades, in the order of tables.
    pub const ALL: [Self; 5] = [
        Self::Right,
        Self::Wrong,
        Self::Unparsed,
        Self::Truncated,
        Self::NoAnswer,
    ];

    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Right => "right",
            Self::Wrong => "wrong",
            Self::Unparsed => "unparsed",
            Self::Truncated => "truncated",
            Self::NoAnswer => "no_answer",
        }
    }

    fn from_equality(is_equal: bool) -> Self {
        if is_equal { Self::Right } else { Self::Wrong }
    }
}

/// The accuracy of one answer.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Accuracy {
    pub grade: Grade,
    /// The leaves of the answer, of [`Scorer::Leaf`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaves: Option<Leaves>,
}

/// What an answer is compared with.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    scorer: Scorer,
    value: Value,
    /// The schema of the request, which may declare how leaves are compared.
    schema: Option<Arc<Value>>,
    choices: Arc<[String]>,
    /// The calls of a right answer, of [`Scorer::Calls`].
    calls: Vec<Value>,
    /// The constraint of the request, of [`Scorer::Calls`]: it has the functions.
    functions: Option<Constraint>,
    /// The database of [`Scorer::Sql`], with the right rows.
    database: Option<sql::Database>,
}

impl Reference {
    /// Reads a reference: JSON for `exact`, `leaf`, `calls` and `sql`, which may also be JSON in a
    /// string; a text or a number for the others.
    ///
    /// # Errors
    /// What is wrong with it, as half a sentence.
    pub fn new(
        scorer: Scorer,
        reference: &Value,
        constraint: Option<&Constraint>,
    ) -> Result<Self, String> {
        let schema = constraint.and_then(Constraint::schema).cloned();
        let choices = constraint.and_then(Constraint::choices);
        let choices = choices.cloned().unwrap_or_default();
        let (mut calls, mut database) = (Vec::new(), None);
        let value = match (scorer, reference) {
            (Scorer::Exact | Scorer::Leaf, Value::String(text)) => {
                serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?
            }
            (Scorer::Exact | Scorer::Leaf, value) => value.clone(),
            (Scorer::Number, value) => {
                let text = text_of(value).ok_or("neither a text nor a number")?;
                let number = spans::last_number(&text).ok_or("no number in it")?;
                number.into()
            }
            (Scorer::Calls, value) => {
                let text = match value {
                    Value::String(text) => text.clone(),
                    value => value.to_string(),
                };
                calls = function_calls::expected_calls(&text)
                    .ok_or("not an object with the list `ground_truth`")?;
                text.into()
            }
            (Scorer::Sql, value) => {
                let value = match value {
                    Value::String(text) => {
                        &serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?
                    }
                    value => value,
                };
                database = Some(sql::Database::new(value)?);
                value.clone()
            }
            (Scorer::Choice, value) => {
                let text = text_of(value).ok_or("not a text")?;
                if !choices.is_empty() && !choices.contains(&text) {
                    return Err(format!("not one of the choices: {text:?}"));
                }
                text.into()
            }
        };
        if scorer == Scorer::Leaf
            && let Some(schema) = &schema
        {
            leaves::check_declarations(schema)?;
        }
        Ok(Self {
            scorer,
            value,
            schema,
            choices,
            calls,
            database,
            functions: constraint.filter(|_| scorer == Scorer::Calls).cloned(),
        })
    }

    pub fn scorer(&self) -> Scorer {
        self.scorer
    }

    /// The value that answers are compared with.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Grades the answer to a request; `None` for requests that have no result: cancelled ones, and
    /// those that failed in the client.
    pub fn grade_answer(&self, outcome: &Outcome, answer: &Answer) -> Option<Accuracy> {
        let without_comparison = |grade| Accuracy {
            grade,
            leaves: None,
        };
        match outcome {
            outcome if !outcome.has_result() => None,
            Outcome::Truncated => Some(without_comparison(Grade::Truncated)),
            Outcome::Completed if self.scorer == Scorer::Calls => {
                Some(without_comparison(self.calls_grade(answer)))
            }
            Outcome::Completed => Some(self.grade(&answer.text())),
            _ => Some(without_comparison(Grade::NoAnswer)),
        }
    }

    /// The grade of the calls of an answer: tool calls if the request offers tools, else JSON in
    /// the text. An answer without calls where some are expected is unparsed.
    fn calls_grade(&self, answer: &Answer) -> Grade {
        let functions = self.functions.as_ref();
        let has_calls = match functions.and_then(Constraint::tools) {
            Some(_) => !answer.tool_calls.is_empty(),
            None => function_calls::has_calls(&answer.text()),
        };
        if !has_calls && !self.calls.is_empty() {
            return Grade::Unparsed;
        }
        Grade::from_equality(function_calls::makes_calls(&self.calls, functions, answer))
    }

    /// Compares the text of an answer.
    pub fn grade(&self, answer: &str) -> Accuracy {
        let grade = match self.scorer {
            Scorer::Leaf => return self.leaf_accuracy(answer),
            Scorer::Exact => json_in(answer)
                .map(|answer| Grade::from_equality(leaves::is_equal(&self.value, &answer))),
            Scorer::Calls => Some(self.calls_grade(&Answer::from_text(answer.to_owned()))),
            Scorer::Sql => {
                let database = self.database.as_ref();
                let is_right = database.and_then(|database| database.is_right(answer));
                is_right.map(Grade::from_equality)
            }
            Scorer::Number => spans::last_number(answer)
                .map(|answer| Grade::from_equality(self.value.as_f64() == Some(answer))),
            Scorer::Choice if self.choices.is_empty() => {
                let reference = self.value.as_str().unwrap_or_default();
                is_open_choice(answer, reference).map(Grade::from_equality)
            }
            Scorer::Choice => {
                let reference = self.value.as_str().unwrap_or_default();
                let known = self.choices.iter().map(String::as_str);
                let choices: Vec<&str> = known.chain([reference]).collect();
                spans::last_choice(answer, &choices)
                    .map(|choice| Grade::from_equality(choice == reference))
            }
        };
        Accuracy {
            grade: grade.unwrap_or(Grade::Unparsed),
            leaves: None,
        }
    }

    fn leaf_accuracy(&self, answer: &str) -> Accuracy {
        let answer = json_in(answer);
        let leaves = Leaves::new(&self.value, answer.as_ref(), self.schema.as_deref());
        let grade = match answer {
            None => Grade::Unparsed,
            Some(_) => Grade::from_equality(leaves.are_all_right()),
        };
        Accuracy {
            grade,
            leaves: Some(leaves),
        }
    }
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Whether an answer is the reference, where the other choices are not known: the text of JSON, the
/// text after the last "answer is" or "answer:", or a single word. Otherwise the reference counts
/// wherever it is. `None` if the answer has none of these.
fn is_open_choice(answer: &str, reference: &str) -> Option<bool> {
    let in_json = json_in(answer).and_then(|value| match value {
        Value::String(text) => Some(text),
        Value::Object(members) => {
            let only = members.values().next().filter(|_| members.len() == 1);
            text_of(members.get("answer").or(only)?)
        }
        _ => None,
    });
    match in_json {
        Some(text) => Some(text.trim() == reference),
        None => spans::starts_stated_answer(answer, reference)
            .or_else(|| spans::last_choice(answer, &[reference]).map(|_| true))
            .or_else(|| (answer.split_whitespace().count() == 1).then_some(false)),
    }
}

/// The JSON of an answer: the whole text, or else the document that other text surrounds.
fn json_in(answer: &str) -> Option<Value> {
    match json_answer::parse_json_answer(answer) {
        Ok(document) => Some(document.root().to_value()),
        Err(refused) => serde_json::from_str(&answer[refused.inner?]).ok(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sobench_core::observation::TransportCause;

    use super::*;

    #[test]
    fn names_of_grades_are_those_of_files() {
        for grade in Grade::ALL {
            assert_eq!(json!(grade), grade.name());
        }
    }

    fn grade(scorer: Scorer, reference: &Value, answer: &str) -> Grade {
        let reference = Reference::new(scorer, reference, None).unwrap();
        reference.grade(answer).grade
    }

    #[test]
    fn exact_is_equal_json_with_or_without_other_text() {
        let reference = json!({"a": 1, "b": ["x", null]});
        for (answer, expected) in [
            (r#"{"b":["x",null],"a":1.0}"#, Grade::Right),
            (
                "Sure:\n```json\n{\"a\": 1, \"b\": [\"x\", null]}\n```",
                Grade::Right,
            ),
            (r#"{"a": 1, "b": ["X", null]}"#, Grade::Wrong),
            (r#"{"a": 1, "b": ["x", null], "c": 1}"#, Grade::Wrong),
            (r#"{"a": 1, "b": [null, "x"]}"#, Grade::Wrong),
            ("a is 1", Grade::Unparsed),
            (r#"{"a": 1, "b": ["x""#, Grade::Unparsed),
            ("", Grade::Unparsed),
        ] {
            assert_eq!(
                grade(Scorer::Exact, &reference, answer),
                expected,
                "{answer}"
            );
            let as_text = json!(reference.to_string());
            assert_eq!(grade(Scorer::Exact, &as_text, answer), expected, "{answer}");
        }
    }

    #[test]
    fn the_last_number_is_the_answer() {
        for (reference, answer, expected) in [
            (json!(42), "6 times 7 is 42.", Grade::Right),
            (
                json!("6 * 7 = 42\n#### 42"),
                "{\"answer\": 42}",
                Grade::Right,
            ),
            (json!("1,234.5"), "It costs $1,234.50", Grade::Right),
            (json!(-3), "x = -3", Grade::Right),
            (json!(42), "42 of 43", Grade::Wrong),
            (json!(42), "forty-two", Grade::Unparsed),
        ] {
            assert_eq!(
                grade(Scorer::Number, &reference, answer),
                expected,
                "{answer}"
            );
        }
    }

    #[test]
    fn the_choice_is_the_answer_or_the_last_one_in_it() {
        let constraint = Constraint::Choice(["A", "B", "AB"].map(String::from).into());
        let reference = Reference::new(Scorer::Choice, &json!("B"), Some(&constraint)).unwrap();
        for (answer, expected) in [
            ("B", Grade::Right),
            (" \"B\". ", Grade::Right),
            ("Not A, so the answer is (B).", Grade::Right),
            ("{\"answer\": \"B\"}", Grade::Right),
            ("AB", Grade::Wrong),
            ("B? No: A", Grade::Wrong),
            ("Bananas", Grade::Unparsed),
            ("", Grade::Unparsed),
        ] {
            assert_eq!(reference.grade(answer).grade, expected, "{answer}");
        }
    }

    #[test]
    fn a_text_without_known_choices_is_read_where_the_answer_is_stated() {
        for (answer, expected) in [
            ("ayn", Grade::Right),
            ("{\"answer\": \"ayn\"}", Grade::Right),
            ("```json\n{\"answer\": \"ayn\"}\n```", Grade::Right),
            ("It ends in a, y, n. The answer is **ayn**.", Grade::Right),
            ("Answer: \"ayn\"", Grade::Right),
            ("I think of ayn", Grade::Right),
            ("{\"answer\": \"any\"}", Grade::Wrong),
            ("First ayn. The answer is any.", Grade::Wrong),
            ("The answer is ayna.", Grade::Wrong),
            ("any", Grade::Wrong),
            ("The letters are hard to tell.", Grade::Unparsed),
            ("The answer is", Grade::Unparsed),
            ("", Grade::Unparsed),
        ] {
            assert_eq!(
                grade(Scorer::Choice, &json!("ayn"), answer),
                expected,
                "{answer}"
            );
        }
    }

    #[test]
    fn calls_are_right_wrong_or_missing() {
        use sobench_core::answer::ToolCall;
        let tools = r#"{"tools":{"tools":[{"type":"function","function":{"name":"area"}}]}}"#;
        let tools: Constraint = serde_json::from_str(tools).unwrap();
        let expected = json!({"ground_truth": [{"area": {"base": [10]}}]});
        let none = json!({"ground_truth": []});
        let called = |base: u32| Answer {
            tool_calls: vec![ToolCall {
                name: "area".to_owned(),
                arguments: json!({ "base": base }).to_string(),
                ..ToolCall::default()
            }],
            ..Answer::default()
        };
        let text = |text: &str| Answer::from_text(text.to_owned());
        let json_call = r#"{"name": "area", "arguments": {"base": 10}}"#;
        for (constraint, reference, answer, grade) in [
            (Some(&tools), &expected, called(10), Grade::Right),
            (Some(&tools), &expected, called(11), Grade::Wrong),
            (Some(&tools), &expected, text("10"), Grade::Unparsed),
            (Some(&tools), &none, text("no call"), Grade::Right),
            (Some(&tools), &none, called(10), Grade::Wrong),
            (None, &expected, text(json_call), Grade::Right),
            (None, &expected, text("[]"), Grade::Unparsed),
            (None, &expected, text("{\"a\": 1}"), Grade::Unparsed),
            (None, &expected, text("I cannot"), Grade::Unparsed),
            (None, &expected, text("{\"name\": \"area\"}"), Grade::Wrong),
        ] {
            let reference = Reference::new(Scorer::Calls, reference, constraint).unwrap();
            let found = reference.grade_answer(&Outcome::Completed, &answer);
            assert_eq!(found.map(|found| found.grade), Some(grade), "{answer:?}");
        }
    }

    #[test]
    fn only_complete_answers_are_compared() {
        let answer = Answer::from_text("42".to_owned());
        let reference = Reference::new(Scorer::Number, &json!("42"), None).unwrap();
        let grade = |outcome| {
            let found = reference.grade_answer(&outcome, &answer);
            found.map(|found| found.grade)
        };
        let rejected = Outcome::Rejected {
            status: 400,
            body: String::new(),
            advice: None,
        };
        let local = Outcome::Transport {
            cause: TransportCause::Local,
            message: String::new(),
        };
        assert_eq!(grade(Outcome::Completed), Some(Grade::Right));
        assert_eq!(grade(Outcome::Truncated), Some(Grade::Truncated));
        assert_eq!(grade(rejected), Some(Grade::NoAnswer));
        assert_eq!([grade(local), grade(Outcome::Cancelled)], [None, None]);
    }

    #[test]
    fn references_that_cannot_be_compared_are_errors() {
        let choices = Constraint::Choice([String::from("A")].into());
        let schema = json!({"properties": {"a": {"x-sobench-score": "fuzzy"}}});
        let schema = Constraint::JsonSchema(Arc::new(schema));
        for (scorer, reference, constraint, expected) in [
            (Scorer::Exact, json!("{"), None, "not JSON"),
            (Scorer::Number, json!("none"), None, "no number"),
            (Scorer::Number, json!([1]), None, "neither a text nor"),
            (Scorer::Choice, json!("B"), Some(&choices), "not one of"),
            (Scorer::Leaf, json!({}), Some(&schema), "x-sobench-score"),
            (Scorer::Calls, json!([]), None, "ground_truth"),
        ] {
            let error = Reference::new(scorer, &reference, constraint).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
