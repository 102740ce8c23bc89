//! Samples of lm-evaluation-harness (`samples_*.jsonl` of `--log_samples`, read in 0.4.9): the answer
//! in `resps`, the prompt in `arguments`, and the row of the task in `doc`, which may have a
//! constraint.

use serde_json::{Map, Value};

use sobench_data::dataset::custom::CONSTRAINTS;

pub(super) fn is_sample(members: &Map<String, Value>) -> bool {
    members.contains_key("doc_id") && members.contains_key("resps")
}

/// The sample as a row.
///
/// # Errors
/// It has no text: the task compares likelihoods.
pub(super) fn row(sample: &Map<String, Value>) -> Result<Map<String, Value>, String> {
    let text = first_text(&sample["resps"]).ok_or("`resps` has no text")?;
    let mut row = Map::from_iter([
        ("id".to_owned(), sample["doc_id"].to_string().into()),
        ("text".to_owned(), text.into()),
    ]);
    let prompt = sample.get("arguments").and_then(first_text);
    row.extend(prompt.map(|prompt| ("prompt".to_owned(), prompt.into())));
    let doc = sample.get("doc").and_then(Value::as_object);
    let constraints = doc.into_iter().flatten();
    row.extend(
        constraints
            .filter(|(name, _)| CONSTRAINTS.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), parsed(value))),
    );
    Ok(row)
}

/// The first text of nested lists and objects.
fn first_text(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => Some(text),
        Value::Array(items) => items.first().and_then(first_text),
        Value::Object(members) => members.values().next().and_then(first_text),
        _ => None,
    }
}

/// The value of a text that is JSON, such as a schema of JSONSchemaBench.
fn parsed(value: &Value) -> Value {
    let text = value.as_str().filter(|text| text.starts_with('{'));
    text.and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_else(|| value.clone())
}
