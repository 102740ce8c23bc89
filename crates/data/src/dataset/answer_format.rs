//! The parts of prompts that say how to write the answer, for datasets with and without them.

use serde_json::{Value, json};

use crate::tokenizer::python_json::dumps;

/// A task, its schema, and the format of the answer. `rules` are further sentences, each after a
/// blank.
pub(super) fn with_schema(task: &str, schema: &Value, rules: &str) -> String {
    format!(
        "{task}\n\nAnswer with one JSON document that is valid by the JSON Schema below, and nothing \
         else.{rules}\n{}",
        dumps(schema)
    )
}

/// A task that is answered by one of these choices alone.
pub(super) fn with_choices(task: &str, choices: &[String]) -> String {
    format!(
        "{task}\n\nAnswer with one of these, and nothing else: {}",
        choices.join(", ")
    )
}

/// A task that is answered in prose. The end is where the scorers of numbers and choices look.
pub(super) fn in_prose(task: &str, answer: &str) -> String {
    format!("{task}\n\nEnd with \"The answer is\" and {answer}.")
}

/// The schema of an object with the member `answer` only.
pub(super) fn answer_schema(kind: &str) -> Value {
    json!({
        "type": "object",
        "properties": {"answer": {"type": kind}},
        "required": ["answer"],
        "additionalProperties": false,
    })
}
