//! Recorded request bodies, which are sent as they are but for members that a flag names.

use std::collections::HashMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// The output length of a recorded request without a token limit.
pub const NO_LIMIT: u32 = u32::MAX;

/// Members that limit the tokens of an answer.
const LIMITS: [&str; 3] = ["max_completion_tokens", "max_tokens", "max_output_tokens"];

/// Members with a constraint, beside those that begin with `guided_`.
const CONSTRAINTS: [&str; 6] = [
    "response_format",
    "structured_outputs",
    "json_schema",
    "grammar",
    "regex",
    "ebnf",
];

/// Members whose `format` is a constraint.
const FORMAT_HOLDERS: [&str; 2] = ["text", "output_config"];

/// The token limit of a body whose members have these numbers, with its member.
pub fn limit(number: impl Fn(&str) -> Option<u64>) -> Option<(&'static str, u32)> {
    let limit = |name| Some((name, u32::try_from(number(name)?).ok()?));
    LIMITS.into_iter().find_map(limit)
}

/// A recorded body with its members as written. Their values are not parsed.
pub struct RecordedBody<'b> {
    text: &'b str,
    members: HashMap<String, &'b RawValue>,
}

impl<'b> RecordedBody<'b> {
    /// Parses the text of a body.
    ///
    /// # Errors
    /// It is not an object.
    pub fn parse(text: &'b str) -> serde_json::Result<Self> {
        let members = serde_json::from_str(text)?;
        Ok(Self { text, members })
    }

    /// Whether the body has a member.
    pub fn has(&self, name: &str) -> bool {
        self.members.contains_key(name)
    }

    /// The token limit, with its member.
    pub fn limit(&self) -> Option<(&'static str, u32)> {
        limit(|name| self.members.get(name)?.get().parse().ok())
    }

    /// Whether the body asks for a stream.
    pub fn asks_for_stream(&self) -> bool {
        let stream = self.members.get("stream");
        stream.is_some_and(|value| value.get() == "true")
    }

    /// The text with these members in place of its own, or added at the end. All other bytes stay.
    pub fn with_members(&self, members: &Map<String, Value>) -> String {
        let (body, own) = (self.text, &self.members);
        let end = body.trim_end().len() - 1;
        let mut separator = if own.is_empty() { "" } else { "," };
        let mut added = String::new();
        let mut edits = Vec::new();
        for (name, value) in members {
            if let Some(raw) = own.get(name) {
                let start = raw.get().as_ptr() as usize - body.as_ptr() as usize;
                edits.push((start, start + raw.get().len(), value.to_string()));
            } else {
                added.push_str(&format!(
                    "{separator}{}:{value}",
                    Value::from(name.as_str())
                ));
                separator = ",";
            }
        }
        edits.push((end, end, added));
        edits.sort_by_key(|(start, ..)| *start);
        let (mut text, mut copied) = (String::with_capacity(body.len()), 0);
        for (start, end, new) in edits {
            text.push_str(&body[copied..start]);
            text.push_str(&new);
            copied = end;
        }
        text.push_str(&body[copied..]);
        text
    }
}

/// The body without what a server enforces, as [`crate::tools::ToolSet::without_enforcement`]: the
/// tools stay, because they are part of the prompt.
///
/// # Errors
/// The body is not an object.
pub fn without_constraint(body: &str) -> serde_json::Result<String> {
    let mut members: Map<String, Value> = serde_json::from_str(body)?;
    members.retain(|name, _| !CONSTRAINTS.contains(&&**name) && !name.starts_with("guided_"));
    for holder in FORMAT_HOLDERS {
        if let Some(Value::Object(options)) = members.get_mut(holder) {
            options.remove("format");
            if options.is_empty() {
                members.remove(holder);
            }
        }
    }
    let is_responses = members.contains_key("input");
    let tools = members.get_mut("tools").and_then(Value::as_array_mut);
    for tool in tools.into_iter().flatten().filter_map(Value::as_object_mut) {
        for (kind, enforced) in [("function", "strict"), ("custom", "format")] {
            let is_flat = tool.get("type").is_none_or(|own| own == kind);
            match tool.get_mut(kind).and_then(Value::as_object_mut) {
                Some(inner) => _ = inner.remove(enforced),
                // The responses endpoint is strict by default.
                None if is_flat && is_responses && kind == "function" => {
                    tool.insert("strict".to_owned(), false.into());
                }
                None if is_flat => _ = tool.remove(enforced),
                None => {}
            }
        }
    }
    if let Some(choice) = members.get_mut("tool_choice") {
        free(choice);
    }
    Ok(Value::Object(members).to_string())
}

/// Lets the model decide where a call was required.
fn free(choice: &mut Value) {
    let kind = choice
        .get("type")
        .and_then(Value::as_str)
        .map(str::to_owned);
    match (&mut *choice, kind.as_deref()) {
        (Value::String(mode), _) if mode == "required" => "auto".clone_into(mode),
        (Value::Object(members), Some("any" | "tool")) => {
            members.remove("name");
            members.insert("type".to_owned(), "auto".into());
        }
        (choice, Some("function" | "custom")) => *choice = "auto".into(),
        (Value::Object(members), Some("allowed_tools")) => {
            let inner = members
                .get_mut("allowed_tools")
                .and_then(Value::as_object_mut);
            let mode = match inner {
                Some(inner) => inner.get_mut("mode"),
                None => members.get_mut("mode"),
            };
            mode.into_iter().for_each(|mode| *mode = "auto".into());
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_are_replaced_in_place() {
        let body = "{ \"model\" : \"a\\u0041\",\n\"temperature\":1.0, \"messages\":[{\"model\":\"x\"}] }\n";
        let with = |body: &str, members: Value| {
            RecordedBody::parse(body).map(|body| body.with_members(members.as_object().unwrap()))
        };
        let changed = with(body, json!({"seed": 5, "model": "m"})).unwrap();
        let expected = body
            .replace("\"a\\u0041\"", "\"m\"")
            .replace(" }\n", " ,\"seed\":5}\n");
        assert_eq!(changed, expected);
        assert_eq!(with(body, json!({})).unwrap(), body);
        assert_eq!(with("{}", json!({"a": 1})).unwrap(), "{\"a\":1}");
        assert!(with("[]", json!({})).is_err());
    }

    #[test]
    fn streams_are_asked_for_at_the_top_level() {
        for (body, expected) in [
            (r#"{"stream":true}"#, true),
            (r#"{"stream" : false}"#, false),
            (r#"{"a":{"stream":true}}"#, false),
        ] {
            let found = RecordedBody::parse(body).unwrap().asks_for_stream();
            assert_eq!(found, expected, "{body}");
        }
    }

    #[test]
    fn a_control_body_has_the_tools_and_no_constraint() {
        for (body, expected) in [
            (
                json!({"messages": [], "response_format": {"type": "json_object"}, "guided_regex": "a", "n": 1}),
                json!({"messages": [], "n": 1}),
            ),
            (
                json!({"tools": [{"type": "function", "function": {"name": "f", "strict": true}},
                    {"type": "custom", "custom": {"name": "c", "format": {"type": "text"}}}],
                    "tool_choice": {"type": "function", "function": {"name": "f"}}}),
                json!({"tools": [{"type": "function", "function": {"name": "f"}},
                    {"type": "custom", "custom": {"name": "c"}}], "tool_choice": "auto"}),
            ),
            (
                json!({"input": "", "text": {"format": {}, "verbosity": "low"},
                    "tools": [{"type": "function", "name": "f"}, {"type": "web_search"}],
                    "tool_choice": {"type": "allowed_tools", "mode": "required", "tools": []}}),
                json!({"input": "", "text": {"verbosity": "low"},
                    "tools": [{"type": "function", "name": "f", "strict": false}, {"type": "web_search"}],
                    "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": []}}),
            ),
            (
                json!({"output_config": {"format": {}}, "tools": [{"name": "f", "strict": true, "input_schema": {}}],
                    "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": true}}),
                json!({"tools": [{"name": "f", "input_schema": {}}],
                    "tool_choice": {"type": "auto", "disable_parallel_tool_use": true}}),
            ),
        ] {
            let found = without_constraint(&body.to_string()).unwrap();
            assert_eq!(serde_json::from_str::<Value>(&found).unwrap(), expected);
        }
    }
}
