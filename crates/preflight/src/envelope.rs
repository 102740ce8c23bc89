//! Detects answers that follow the envelope of a schema instead of the schema. It reads the request
//! as sent, so it needs no list of dialects.
//!
//! A request has the schema inside other objects: `response_format: {type, json_schema: {name,
//! schema, strict}}`. A server that reads one level too high uses such an object as the schema. It
//! has no keyword that constrains anything, so the model may write any JSON, and tends to write the
//! members of the envelope. To exclude plain JSON mode, the check is strict: every member of the
//! answer is one of the envelope's, and they include the one that leads to the schema (with an
//! object in it), or at least two of them. Conversely, the correct document may be inside a member
//! that was not requested.

use serde_json::{Map, Value};

/// An object of a request that contains the schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The member that leads to the schema.
    path_member: String,
    /// The names of all members.
    names: Vec<String>,
}

/// Maximum depth of the search.
const MAX_DEPTH: usize = 8;

/// Maximum number of members of an answer to check.
const MAX_NAMES: usize = 64;

/// The objects of `request` that contain `schema`, except for the request itself.
pub fn envelopes(request: &Value, schema: &Value) -> Vec<Envelope> {
    let mut found = Vec::new();
    let Value::Object(fields) = request else {
        return found;
    };
    for value in fields.values() {
        find_schema(value, schema, MAX_DEPTH, &mut found);
    }
    found
}

/// The envelope members in a JSON answer, complete or truncated; `None` if it does not follow an
/// envelope.
pub fn envelope_members_in(answer: &str, envelopes: &[Envelope]) -> Option<String> {
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

/// The member of an answer whose value `is_valid`.
pub fn wrapped_in(answer: &str, is_valid: impl Fn(&str) -> bool) -> Option<String> {
    let members: Map<String, Value> = serde_json::from_str(answer).ok()?;
    let valid = |value: &Value| match value {
        // Some servers return the arguments of a call as a JSON string.
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
        let path_member =
            names.contains(&self.path_member) && opens_object(answer, &self.path_member);
        all_known && (path_member || names.len() >= 2)
    }
}

/// Whether `value` contains `schema`; adds every object on the path to `found`.
fn find_schema(value: &Value, schema: &Value, depth: usize, found: &mut Vec<Envelope>) -> bool {
    if value == schema {
        return true;
    }
    match value {
        // Some dialects carry the schema as a JSON string.
        Value::String(text) => {
            serde_json::from_str::<Value>(text).is_ok_and(|parsed| parsed == *schema)
        }
        Value::Object(members) if depth > 0 => {
            let Some((path_member, _)) = members
                .iter()
                .find(|(_, inner)| find_schema(inner, schema, depth - 1, found))
            else {
                return false;
            };
            found.push(Envelope {
                path_member: path_member.clone(),
                names: members.keys().cloned().collect(),
            });
            true
        }
        Value::Array(items) if depth > 0 => items
            .iter()
            .any(|item| find_schema(item, schema, depth - 1, found)),
        _ => false,
    }
}

/// Member names of the outermost object, also of a truncated answer.
pub(super) fn outer_names(answer: &str) -> Vec<String> {
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
                names.extend(last.take().map(str::to_owned));
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

/// Whether the first member of this name is an object.
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
            envelope_members_in(answer, &envelopes).as_deref(),
            expected,
            "{answer}"
        );
    }

    #[test]
    fn answers_that_follow_the_envelope_are_detected() {
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
            // By chance, or with plain JSON mode.
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
    fn documents_inside_a_member_are_detected() {
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
