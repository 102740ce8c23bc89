//! Finds answers that were made for the envelope of a schema instead of for the schema. Pure: reads
//! the request as it was sent, so that it needs no list of dialects.
//!
//! In a request a schema lies in objects: `response_format: {type, json_schema: {name, schema,
//! strict}}`. A server that looks one level too high takes such an object for the schema. It holds
//! no keyword of JSON Schema that would bind anything, so the model is free to write any JSON, and
//! tends to write the envelope's own members. The proof asked for here is strict, since plain JSON
//! mode must not pass for it: every member of the answer is one of the envelope's, and among them
//! is the one that leads to the schema (with an object in it), or two of them at least. The other
//! way round, the right document may come inside a member that nobody asked for.

use serde_json::{Map, Value};

/// An object of a request in which the schema lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The member that leads to the schema.
    leads: String,
    /// Every member's name.
    names: Vec<String>,
}

/// How deep a request is searched.
const MAX_DEPTH: usize = 8;

/// Most members of an answer that are looked at.
const MAX_NAMES: usize = 64;

/// The objects of `request` in which `schema` lies, the request itself not among them.
pub fn envelopes(request: &Value, schema: &Value) -> Vec<Envelope> {
    let mut found = Vec::new();
    let Value::Object(fields) = request else {
        return found;
    };
    for value in fields.values() {
        leads_to(value, schema, MAX_DEPTH, &mut found);
    }
    found
}

/// Whether a JSON answer, whole or cut, has the members of an envelope; says which.
pub fn taken_for_schema(answer: &str, envelopes: &[Envelope]) -> Option<String> {
    let names = outer_names(answer);
    let envelope = envelopes
        .iter()
        .find(|envelope| envelope.fits(answer, &names))?;
    let known: Vec<&str> = names
        .iter()
        .filter(|name| envelope.names.contains(name))
        .map(String::as_str)
        .collect();
    Some(known.join(", "))
}

/// The member of an answer in which what `is_valid` lies, where the answer itself is something
/// else.
pub fn wrapped_in(answer: &str, mut is_valid: impl FnMut(&str) -> bool) -> Option<String> {
    let members: Map<String, Value> = serde_json::from_str(answer).ok()?;
    let mut valid = |value: &Value| match value {
        // Some servers hand over the arguments of a call as a string of JSON.
        Value::String(text) => is_valid(text),
        other => is_valid(&other.to_string()),
    };
    members
        .iter()
        .take(MAX_NAMES)
        .find(|(_, value)| valid(value))
        .map(|(name, _)| name.clone())
}

impl Envelope {
    fn fits(&self, answer: &str, names: &[String]) -> bool {
        let all_known = !names.is_empty() && names.iter().all(|name| self.names.contains(name));
        let leads = names.contains(&self.leads) && opens_object(answer, &self.leads);
        all_known && (leads || names.len() >= 2)
    }
}

/// Whether `schema` lies in `value`; notes every object on the way.
fn leads_to(value: &Value, schema: &Value, depth: usize, found: &mut Vec<Envelope>) -> bool {
    if value == schema {
        return true;
    }
    match value {
        // Some dialects carry the schema as a string of JSON.
        Value::String(text) => {
            serde_json::from_str::<Value>(text).is_ok_and(|parsed| parsed == *schema)
        }
        Value::Object(members) if depth > 0 => {
            let Some((leads, _)) = members
                .iter()
                .find(|(_, inner)| leads_to(inner, schema, depth - 1, found))
            else {
                return false;
            };
            found.push(Envelope {
                leads: leads.clone(),
                names: members.keys().cloned().collect(),
            });
            true
        }
        Value::Array(items) if depth > 0 => items
            .iter()
            .any(|item| leads_to(item, schema, depth - 1, found)),
        _ => false,
    }
}

/// Names of the outermost object's members, also of an answer that was cut.
fn outer_names(answer: &str) -> Vec<String> {
    let mut names = Vec::new();
    let (mut depth, mut start, mut escaped) = (0_usize, None, false);
    let mut last: Option<&str> = None;
    for (at, byte) in answer.bytes().enumerate() {
        if let Some(from) = start {
            if byte == b'"' && !escaped {
                last = answer.get(from..at);
                start = None;
            }
            escaped = byte == b'\\' && !escaped;
            continue;
        }
        match byte {
            b'"' => start = Some(at + 1),
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b':' if depth == 1 && names.len() < MAX_NAMES => {
                names.extend(last.take().map(str::to_owned))
            }
            _ => {}
        }
    }
    if answer.trim_start().starts_with('{') {
        names
    } else {
        Vec::new()
    }
}

/// Whether the first member of this name holds an object.
fn opens_object(answer: &str, name: &str) -> bool {
    let Some((_, rest)) = answer.split_once(&format!("\"{name}\"")) else {
        return false;
    };
    rest.trim_start()
        .strip_prefix(':')
        .is_some_and(|value| value.trim_start().starts_with('{'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({"type": "object", "properties": {"qz": {"const": "kv"}}})
    }

    fn check(request: &Value, answer: &str, expected: Option<&str>) {
        let envelopes = envelopes(request, &schema());
        assert_eq!(
            taken_for_schema(answer, &envelopes).as_deref(),
            expected,
            "{answer}"
        );
    }

    #[test]
    fn answers_made_for_the_envelope_are_found_whole_or_cut() {
        let request = json!({
            "model": "m",
            "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema(), "strict": true}},
        });
        for (answer, expected) in [
            (
                r#"{"name": "x", "schema": {"type": "object"}, "strict": true}"#,
                Some("name, schema, strict"),
            ),
            (
                r#"{"name": "x", "schema": {"type": "obj"#,
                Some("name, schema"),
            ),
            (r#"{"schema": {}}"#, Some("schema")),
            (
                r#"{"type": "json_schema", "json_schema": {"#,
                Some("type, json_schema"),
            ),
            (
                r#"{"name": "a \" b", "strict": false}"#,
                Some("name, strict"),
            ),
            // By chance, or by plain JSON mode.
            (r#"{"name": "Alan"}"#, None),
            (r#"{"name": "Alan", "age": 7}"#, None),
            (r#"{"schema": "x"}"#, None),
            (r#"{"type": "sentence", "name": "x"}"#, None),
            (r#"[{"schema": {}}]"#, None),
            ("The schema is strict: it says so.", None),
            ("{}", None),
            ("", None),
        ] {
            check(&request, answer, expected);
        }
    }

    #[test]
    fn envelopes_are_read_from_the_request() {
        check(
            &json!({"structured_outputs": {"json": schema()}}),
            r#"{"json": {}}"#,
            Some("json"),
        );
        check(
            &json!({"grammar": {"type": "json", "value": schema()}}),
            r#"{"type": "json", "value": "#,
            Some("type, value"),
        );
        check(
            &json!({"guided_json": schema()}),
            r#"{"guided_json": {}}"#,
            None,
        );
        let text = schema().to_string();
        check(
            &json!({"sampling_params": {"json_schema": text}}),
            r#"{"json_schema": {}}"#,
            Some("json_schema"),
        );
        let tools = json!({"tools": [{"type": "function", "function": {"name": "f", "parameters": schema()}}]});
        check(
            &tools,
            r#"{"name": "f", "parameters": {}}"#,
            Some("name, parameters"),
        );
        check(&json!({"model": "m"}), r#"{"model": {}}"#, None);
        check(&json!("text"), "{}", None);
    }

    #[test]
    fn documents_inside_a_member_are_found() {
        let is_valid = |text: &str| text == r#"{"qz":"kv"}"#;
        for (answer, expected) in [
            (r#"{"answer": {"qz": "kv"}}"#, Some("answer")),
            (
                r#"{"name": "f", "arguments": "{\"qz\":\"kv\"}"}"#,
                Some("arguments"),
            ),
            (r#"{"qz": "kv"}"#, None),
            (r#"[{"qz": "kv"}]"#, None),
            ("prose", None),
        ] {
            assert_eq!(
                wrapped_in(answer, is_valid).as_deref(),
                expected,
                "{answer}"
            );
        }
    }
}
