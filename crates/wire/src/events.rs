//! The events of a recorded stream.

use std::borrow::Cow;

use serde_json::Value;

/// A server-sent event.
pub(crate) struct Event {
    /// Empty without one.
    pub(crate) name: String,
    pub(crate) data: String,
}

/// The events of a stream, by the HTML standard; the last one may lack its blank line.
pub(crate) fn events(text: &str) -> Vec<Event> {
    let text = text.trim_start_matches('\u{feff}');
    let text = match text.contains('\r') {
        true => Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n")),
        false => Cow::Borrowed(text),
    };
    let blocks = text.split("\n\n");
    let event = |block: &str| {
        let mut name = String::new();
        let mut data: Option<String> = None;
        for line in block.lines() {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match (field, &mut data) {
                ("event", _) => value.clone_into(&mut name),
                ("data", Some(data)) => *data = format!("{data}\n{value}"),
                ("data", None) => data = Some(value.to_owned()),
                _ => {}
            }
        }
        let data = data?.trim().to_owned();
        Some(Event { name, data })
    };
    blocks.filter_map(event).collect()
}

/// The chunks of a recorded stream of chat completions: its data that is JSON with choices, and
/// errors. `None` if it has no choices.
pub fn chunks(text: &str) -> Option<Vec<Value>> {
    let is_chunk = |chunk: &Value| chunk["choices"].is_array();
    let found: Vec<Value> = events(text)
        .iter()
        .filter_map(|event| serde_json::from_str(&event.data).ok())
        .filter(|chunk: &Value| is_chunk(chunk) || !chunk["error"].is_null())
        .collect();
    found.iter().any(is_chunk).then_some(found)
}
