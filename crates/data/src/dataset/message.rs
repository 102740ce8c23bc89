//! Parses the chat messages of rows.

use serde_json::Value;

use sobench_core::case::Message;

/// Reads a list of messages: `{role, content}` and other members, which are sent unchanged.
/// `content` is a text or a list of content parts, which are objects. A message with `tool_calls`
/// may have none.
///
/// # Errors
/// A description of the problem, without the row's name.
pub(super) fn messages(field: &str, value: &Value) -> Result<Vec<Message>, String> {
    let items = value.as_array().filter(|items| !items.is_empty());
    let items = items.ok_or_else(|| format!("{field} must be a list of at least one message"))?;
    items
        .iter()
        .enumerate()
        .map(|(index, item)| message(item).map_err(|error| format!("{field}[{index}]: {error}")))
        .collect()
}

fn message(value: &Value) -> Result<Message, String> {
    let members = value.as_object().ok_or("a message must be an object")?;
    let role = members
        .get("role")
        .and_then(Value::as_str)
        .filter(|role| !role.is_empty());
    let role = role.ok_or("role must be a string")?.to_owned();
    let content = members.get("content").unwrap_or(&Value::Null);
    let is_content = match content {
        Value::String(_) => true,
        Value::Array(parts) => !parts.is_empty() && parts.iter().all(Value::is_object),
        Value::Null => members.contains_key("tool_calls"),
        _ => false,
    };
    if !is_content {
        return Err("content must be a string or a list of content parts".to_owned());
    }
    if let Some(calls) = members.get("tool_calls") {
        check_calls(calls)?;
    }
    let is_text = |name: &str| members.get(name).is_some_and(Value::is_string);
    if role == "tool" && !is_text("tool_call_id") {
        return Err("a message of the role tool needs a tool_call_id".to_owned());
    }
    let other = members
        .iter()
        .filter(|(name, _)| !matches!(name.as_str(), "role" | "content"));
    Ok(Message {
        role,
        content: content.clone(),
        other: other
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
    })
}

/// Checks the calls of a message of the assistant: each has an id and a function or a custom tool.
fn check_calls(calls: &Value) -> Result<(), String> {
    let is_text = |value: &Value, name: &str| value.get(name).is_some_and(Value::is_string);
    let is_call = |call: &Value| {
        let is_function = call
            .get("function")
            .is_some_and(|function| is_text(function, "name") && is_text(function, "arguments"));
        let is_custom = call
            .get("custom")
            .is_some_and(|custom| is_text(custom, "name") && is_text(custom, "input"));
        is_text(call, "id") && (is_function || is_custom)
    };
    let calls = calls.as_array().ok_or("tool_calls must be a list")?;
    match calls.iter().position(|call| !is_call(call)) {
        Some(index) => Err(format!(
            "tool_calls[{index}] must be {{id, type, function: {{name, arguments}}}}, with arguments as a string"
        )),
        None => Ok(()),
    }
}
