//! The events of a recorded stream.

use std::borrow::Cow;

use serde_json::Value;

/// A recorded answer.
pub struct Stream {
    pub(crate) events: Vec<Event>,
}

/// A server-sent event.
pub(crate) struct Event {
    /// Empty without one.
    pub(crate) name: String,
    pub(crate) data: String,
    /// The data as JSON, if it is.
    pub(crate) frame: Option<Value>,
}

impl Stream {
    /// Reads events, by the HTML standard; the last one may lack its blank line.
    pub fn new(text: &str) -> Self {
        let text = text.trim_start_matches('\u{feff}');
        let text = match text.contains('\r') {
            true => Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n")),
            false => Cow::Borrowed(text),
        };
        let events = text.split("\n\n").filter_map(Event::new).collect();
        Self { events }
    }

    /// The chunks of chat completions: frames with choices, and errors. `None` if no frame has
    /// choices.
    pub fn into_chunks(self) -> Option<Vec<Value>> {
        let is_chunk = |frame: &Value| frame["choices"].is_array();
        let frames = self.events.into_iter().filter_map(|event| event.frame);
        let found: Vec<Value> = frames
            .filter(|frame| is_chunk(frame) || !frame["error"].is_null())
            .collect();
        found.iter().any(is_chunk).then_some(found)
    }
}

impl Event {
    /// The event of some lines; `None` without data.
    fn new(lines: &str) -> Option<Self> {
        let mut name = String::new();
        let mut data: Option<String> = None;
        for line in lines.lines() {
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
        let frame = serde_json::from_str(&data).ok();
        Some(Self { name, data, frame })
    }
}
