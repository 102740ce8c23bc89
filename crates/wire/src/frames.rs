//! How the frames of an answer depart from OpenAI's API: from its schema
//! (`schemas/wire/openai.json`), and from the order that its clients expect.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use crate::events::{Event, events};
use sobench_core::departure::{Departure, Departures};

/// Members whose departures have names of their own ([`Departures::of_answer`]).
const NAMED: [&str; 5] = [
    "choices[].delta.tool_calls[].index",
    "choices[].delta.tool_calls[].function.arguments",
    "choices[].delta.tool_calls[].type",
    "choices[].message.tool_calls[].function.arguments",
    "choices[].delta",
];

/// The schema of the API.
#[derive(Deserialize)]
struct Api {
    roots: BTreeMap<String, Value>,
    /// Types of the events of responses.
    events: HashSet<String>,
    #[serde(rename = "$defs")]
    defs: BTreeMap<String, Value>,
}

static API: LazyLock<Api> = LazyLock::new(|| {
    let text = include_str!("../../../schemas/wire/openai.json");
    serde_json::from_str(text).expect("the schema of the API is JSON")
});

/// How frames depart, each with an example. `None` if they are not of OpenAI's API.
pub fn departures(frames: &str) -> Option<Departures> {
    let mut check = Check::default();
    for event in events(frames) {
        check.event(&event);
    }
    check.root.is_some().then(|| check.finish())
}

/// What is known of an answer so far.
#[derive(Default)]
struct Check {
    found: BTreeMap<Departure, BTreeSet<String>>,
    /// The kind of frame; `None` if no frame is of OpenAI's API.
    root: Option<&'static str>,
    is_stream: bool,
    /// The first values of the members that stay the same.
    known: BTreeMap<&'static str, Value>,
    /// Choices that have a role, and those that have ended.
    with_role: HashSet<i64>,
    ended: HashSet<i64>,
    is_done: bool,
    /// Frames with choices, and the usage that is in them.
    frames: usize,
    usages: Vec<String>,
    /// Events of responses so far, with the place that they are about.
    seen: HashSet<String>,
}

impl Check {
    fn event(&mut self, event: &Event) {
        if self.is_done {
            self.add(Departure::FrameAfterDone, &event.data);
            return;
        }
        if event.data == "[DONE]" {
            (self.is_done, self.is_stream) = (true, true);
            return;
        }
        // What is no JSON is an error of the stream.
        let Ok(frame) = serde_json::from_str::<Value>(&event.data) else {
            return;
        };
        let has = |member: &str| frame["choices"][0].get(member).is_some();
        if let Some(kind) = frame["type"].as_str()
            && kind.starts_with("response.")
        {
            self.root = Some("responses");
            self.response_event(&event.name, kind, &frame);
            return;
        }
        let root = match frame["object"].as_str() {
            Some("response") => "responses_whole",
            Some("chat.completion.chunk") => "chat",
            Some("chat.completion") => "chat_whole",
            Some("text_completion") => "completions",
            Some(object) if object.starts_with("transcription") => return,
            _ if !frame["choices"].is_array() => return,
            _ if has("delta") => "chat",
            _ if has("message") => "chat_whole",
            _ if has("text") => "completions",
            _ => self.root.unwrap_or("chat"),
        };
        self.root = Some(root);
        self.walk(&API.roots[root], &frame, "");
        // The first frame of a stream of completions has no finish reason.
        self.is_stream |= root == "chat"
            || (root == "completions" && frame["choices"][0]["finish_reason"].is_null());
        if self.is_stream && (root == "chat" || root == "completions") {
            self.chunk(&frame, root == "chat");
        }
    }

    /// The order and the place of the members of a chunk.
    fn chunk(&mut self, frame: &Value, is_chat: bool) {
        self.is_stream = true;
        for (member, departure) in [
            ("id", Departure::ChangingAnswerId),
            ("model", Departure::ChangingModel),
            ("created", Departure::ChangingCreated),
        ] {
            let Some(value) = frame.get(member) else {
                continue;
            };
            let known = self.known.entry(member).or_insert_with(|| value.clone());
            if known != value {
                let example = format!("{known}, then {value}");
                self.found
                    .entry(departure)
                    .or_insert_with(|| BTreeSet::from([example]));
            }
        }
        let choices = frame["choices"].as_array().into_iter().flatten();
        for choice in choices {
            let index = choice["index"].as_i64().unwrap_or_default();
            if self.ended.contains(&index) {
                self.add(Departure::FrameAfterFinish, &choice.to_string());
            }
            let is_first = self.with_role.insert(index);
            if is_first && is_chat && choice["delta"]["role"].is_null() {
                self.add(Departure::MissingRole, &choice.to_string());
            }
            if choice["finish_reason"].is_string() {
                self.ended.insert(index);
            }
        }
        if frame["choices"][0].is_object() {
            self.frames += 1;
            let usage = Some(&frame["usage"]).filter(|usage| usage.is_object());
            self.usages.extend(usage.map(Value::to_string));
        }
    }

    /// An event of responses: its name, its schema, and what must come before it.
    fn response_event(&mut self, name: &str, kind: &str, frame: &Value) {
        self.is_stream = true;
        let ends = ["completed", "failed", "incomplete"];
        self.is_done |= ends.iter().any(|end| kind == format!("response.{end}"));
        if name != kind {
            self.add(Departure::WrongEventName, &format!("{name:?} for {kind}"));
        }
        if !API.events.contains(kind) {
            self.add(Departure::UnknownEvent, kind);
            return;
        }
        self.walk(&API.roots["responses"], frame, kind);
        let place = |member: &str| frame[member].to_string();
        let item = place("output_index");
        let part = |kind: &str, member: &str| format!("{kind} {item} {}", place(member));
        // The event that this one follows, and what the events after it look for.
        let (before, key) = match kind.strip_prefix("response.").unwrap_or(kind) {
            "created" => (None, kind.to_owned()),
            "in_progress" | "queued" | "completed" | "failed" | "incomplete" => {
                (Some("response.created".to_owned()), kind.to_owned())
            }
            "output_item.added" => (
                Some("response.created".to_owned()),
                format!("output_item.added {item}"),
            ),
            "output_item.done" => (Some(format!("output_item.added {item}")), kind.to_owned()),
            "content_part.added" => (
                Some(format!("output_item.added {item}")),
                part("content_part.added", "content_index"),
            ),
            "content_part.done" | "output_text.delta" | "output_text.done" | "refusal.delta"
            | "refusal.done" => (
                Some(part("content_part.added", "content_index")),
                kind.to_owned(),
            ),
            "reasoning_summary_part.added" => (
                Some(format!("output_item.added {item}")),
                part("reasoning_summary_part.added", "summary_index"),
            ),
            "reasoning_summary_part.done"
            | "reasoning_summary_text.delta"
            | "reasoning_summary_text.done" => (
                Some(part("reasoning_summary_part.added", "summary_index")),
                kind.to_owned(),
            ),
            _ if frame.get("output_index").is_some() => {
                (Some(format!("output_item.added {item}")), kind.to_owned())
            }
            _ => (None, kind.to_owned()),
        };
        if let Some(before) = before.filter(|before| !self.seen.contains(before)) {
            self.add(
                Departure::UnorderedEvents,
                &format!("{kind} before {before}"),
            );
        }
        self.seen.insert(key);
    }

    /// Compares a value with its schema. `path` has no numbers of lists.
    fn walk(&mut self, schema: &Value, value: &Value, path: &str) {
        let schema = resolved(schema);
        if let Some(branches) = schema["anyOf"].as_array() {
            return self.branch(branches, value, path);
        }
        if !is_of_type(&schema["type"], value) {
            if !NAMED.contains(&path) {
                let departure = match value {
                    Value::Null => Departure::NullMember,
                    _ => Departure::WrongType,
                };
                self.add_member(departure, path, value);
            }
            return;
        }
        let values = schema["enum"].as_array();
        let has_name = NAMED.contains(&path) || path == "choices[].finish_reason";
        if values.is_some_and(|values| !values.contains(value)) && !has_name {
            self.add_member(Departure::UnknownValue, path, value);
        }
        if let Some(items) = schema.get("items") {
            let path = format!("{path}[]");
            for item in value.as_array().into_iter().flatten() {
                self.walk(items, item, &path);
            }
        }
        let Value::Object(members) = value else {
            return;
        };
        let within = |member: &str| match path {
            "" => member.to_owned(),
            _ => format!("{path}.{member}"),
        };
        let required = schema["required"].as_array().into_iter().flatten();
        for member in required.filter_map(Value::as_str) {
            let path = within(member);
            if !members.contains_key(member) && !NAMED.contains(&path.as_str()) {
                self.add_member(Departure::MissingMember, &path, value);
            }
        }
        for (member, schema) in schema["properties"].as_object().into_iter().flatten() {
            if let Some(value) = members.get(member) {
                self.walk(schema, value, &within(member));
            }
        }
    }

    /// Follows the branch of the value's `type`. Values of other types are not known here.
    fn branch(&mut self, branches: &[Value], value: &Value, path: &str) {
        let is_null = |branch: &&Value| branch["type"] == "null";
        if value.is_null() && branches.iter().any(|branch| is_null(&branch)) {
            return;
        }
        let mut others = branches.iter().filter(|branch| !is_null(branch));
        let kind = &value["type"];
        let names = |branch: &&Value| {
            let kinds = &resolved(branch)["properties"]["type"]["enum"];
            kinds.as_array().is_some_and(|kinds| kinds.contains(kind))
        };
        let found = match branches.iter().filter(|branch| !is_null(branch)).count() {
            1 => others.next(),
            _ => others.find(names),
        };
        match found {
            Some(branch) => self.walk(branch, value, path),
            None if value.is_null() => self.add_member(Departure::NullMember, path, value),
            None => {}
        }
    }

    fn add_member(&mut self, departure: Departure, path: &str, value: &Value) {
        let text = match departure {
            Departure::MissingMember | Departure::NullMember => path.to_owned(),
            _ => format!("{path}: {value}"),
        };
        self.add(departure, &text);
    }

    fn add(&mut self, departure: Departure, example: &str) {
        let examples = self.found.entry(departure).or_default();
        examples.insert(example.to_owned());
    }

    fn finish(mut self) -> Departures {
        if self.is_stream && !self.is_done {
            self.add(Departure::MissingDone, "");
        }
        // Usage in every frame is what vLLM's `continuous_usage_stats` asks for.
        if let Some(usage) = self.usages.first().cloned()
            && (self.usages.len() < self.frames || self.frames == 1)
        {
            self.add(Departure::UsageWithChoices, &usage);
        }
        let mut departures = Departures::default();
        for (departure, examples) in self.found {
            let examples: Vec<String> = examples.into_iter().collect();
            departures.add(departure, &examples.join(", "));
        }
        departures
    }
}

fn resolved(schema: &Value) -> &Value {
    match schema["$ref"].as_str() {
        Some(name) => resolved(&API.defs[name.trim_start_matches("#/$defs/")]),
        None => schema,
    }
}

/// Whether a value has one of the types; without any, every value has.
fn is_of_type(types: &Value, value: &Value) -> bool {
    let is = |kind: &Value| match kind.as_str().unwrap_or_default() {
        "null" => value.is_null(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    };
    match types {
        Value::Array(types) => types.iter().any(is),
        kind => is(kind),
    }
}
