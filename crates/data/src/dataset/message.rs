//! Chat messages as rows have them.

use serde_json::Value;

use sobench_core::case::Message;

/// Reads a list of `{role, content}`, where `content` is a text or a list of content parts, which
/// are objects.
///
/// # Errors
/// What is wrong, without the row's name.
pub(super) fn messages(field: &str, value: &Value) -> Result<Vec<Message>, String> {
    let items = value.as_array().filter(|items| !items.is_empty());
    let items = items.ok_or_else(|| format!("{field} has to be a list of at least one message"))?;
    items
        .iter()
        .enumerate()
        .map(|(index, item)| message(item).map_err(|words| format!("{field}[{index}]: {words}")))
        .collect()
}

fn message(value: &Value) -> Result<Message, String> {
    let members = value.as_object().ok_or("a message has to be an object")?;
    if let Some(unknown) = members
        .keys()
        .find(|name| !matches!(name.as_str(), "role" | "content"))
    {
        return Err(format!(
            "a message has role and content, and no {unknown:?}"
        ));
    }
    let role = members
        .get("role")
        .and_then(Value::as_str)
        .filter(|role| !role.is_empty());
    let role = role.ok_or("role has to be a text")?.to_owned();
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
        Err("content has to be a text or a list of content parts".to_owned())
    }
}
