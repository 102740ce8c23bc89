//! Parses the chat messages of rows.

use serde_json::Value;

use sobench_core::case::Message;

/// Reads a list of `{role, content}`. `content` is a text or a list of content parts, which are
/// objects.
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
    if let Some(unknown) = members
        .keys()
        .find(|name| !matches!(name.as_str(), "role" | "content"))
    {
        return Err(format!("a message has only role and content: {unknown:?}"));
    }
    let role = members
        .get("role")
        .and_then(Value::as_str)
        .filter(|role| !role.is_empty());
    let role = role.ok_or("role must be a string")?.to_owned();
    let content = members.get("content").unwrap_or(&Value::Null);
    let is_content = match content {
        Value::String(_) => true,
        Value::Array(parts) => !parts.is_empty() && parts.iter().all(Value::is_object),
        _ => false,
    };
    if is_content {
        Ok(Message {
            role,
            content: content.clone(),
        })
    } else {
        Err("content must be a string or a list of content parts".to_owned())
    }
}
