//! How the frames of an answer depart from its API, OpenAI's or Anthropic's: from its schema
//! (`schemas/wire`), and from the order that its clients expect.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::Value;

use crate::events::{Event, Stream};
use crate::messages::Order;
use crate::schema::API;
use sobench_core::departure::{Departure, Departures};

/// Members whose departures have names of their own ([`Departures::of_answer`]).
const NAMED: [&str; 5] = [
    "choices[].delta.tool_calls[].index",
    "choices[].delta.tool_calls[].function.arguments",
    "choices[].delta.tool_calls[].type",
    "choices[].message.tool_calls[].function.arguments",
    "choices[].delta",
];

/// A place in a frame.
struct Place<'a> {
    parent: Option<&'a Place<'a>>,
    /// A member; `[]` for the items of a list.
    name: &'a str,
}

impl<'a> Place<'a> {
    fn root(name: &'a str) -> Self {
        Self { parent: None, name }
    }

    /// The path, without numbers of lists.
    fn path(&self) -> String {
        let parent = self.parent.map(Place::path).unwrap_or_default();
        match (parent.as_str(), self.name) {
            ("", name) => name.to_owned(),
            (parent, "[]") => format!("{parent}[]"),
            (parent, name) => format!("{parent}.{name}"),
        }
    }
}

/// Whether only a stream of messages has events of this type. Others have errors and pings, too.
fn is_of_messages(kind: &str) -> bool {
    API.messages.contains(kind) && !matches!(kind, "error" | "ping")
}

impl Stream {
    /// How the frames depart, each with an example. `None` if they are of neither API.
    pub fn departures(&self) -> Option<Departures> {
        let mut check = Check::default();
        self.events.iter().for_each(|event| check.event(event));
        check.root.is_some().then(|| check.finish())
    }
}

/// What is known of an answer so far.
#[derive(Default)]
struct Check {
    found: BTreeMap<Departure, BTreeSet<String>>,
    /// The kind of frame; `None` if no frame is of a known API.
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
    messages: Order,
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
        let Some(frame) = &event.frame else {
            return;
        };
        let has = |member: &str| frame["choices"][0].get(member).is_some();
        if let Some(kind) = frame["type"].as_str()
            && kind.starts_with("response.")
        {
            self.root = Some("responses");
            self.response_event(&event.name, kind, frame);
            return;
        }
        if let Some(kind) = frame["type"].as_str()
            && (self.root == Some("messages") || is_of_messages(kind))
        {
            self.root = Some("messages");
            self.message_event(&event.name, kind, frame);
            return;
        }
        let root = match frame["object"].as_str() {
            _ if frame["type"] == "message" && frame["content"].is_array() => "messages_whole",
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
        self.walk(API.root(root), frame, &Place::root(""));
        // The first frame of a stream of completions has no finish reason.
        self.is_stream |= root == "chat"
            || (root == "completions" && frame["choices"][0]["finish_reason"].is_null());
        if self.is_stream && (root == "chat" || root == "completions") {
            self.chunk(frame, root == "chat");
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
        if !self.is_known_event(name, kind) {
            return;
        }
        self.walk(API.root("responses"), frame, &Place::root(kind));
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

    /// An event of messages: its name, its schema, and its order.
    fn message_event(&mut self, name: &str, kind: &str, frame: &Value) {
        self.is_stream = true;
        if !self.is_known_event(name, kind) {
            return;
        }
        let problem = self.messages.add(kind, frame);
        problem
            .iter()
            .for_each(|problem| self.add(Departure::UnorderedEvents, problem));
        self.is_done |= kind == "message_stop";
        if is_of_messages(kind) {
            self.walk(API.root("messages"), frame, &Place::root(kind));
        }
    }

    /// Whether the API has an event of this type. Its name is its type.
    fn is_known_event(&mut self, name: &str, kind: &str) -> bool {
        if name != kind {
            self.add(Departure::WrongEventName, &format!("{name:?} for {kind}"));
        }
        let is_known = API.events.contains(kind) || API.messages.contains(kind);
        if !is_known {
            self.add(Departure::UnknownEvent, kind);
        }
        is_known
    }

    /// Compares a value with its schema.
    fn walk(&mut self, node: usize, value: &Value, place: &Place<'_>) {
        let node = API.node(node);
        if !node.takes(value) {
            let departure = match value {
                Value::Null => Departure::NullMember,
                _ => Departure::WrongType,
            };
            self.add_member(departure, &place.path(), value);
            return;
        }
        if !node.branches.is_empty() {
            // Values of other types are not known here.
            let kind = &value["type"];
            let branch = match &node.branches[..] {
                [(_, only)] => Some(only),
                all => all
                    .iter()
                    .find(|(kinds, _)| kinds.contains(kind))
                    .map(|(_, node)| node),
            };
            if let Some(branch) = branch.filter(|_| !value.is_null()) {
                self.walk(*branch, value, place);
            }
            return;
        }
        if !node.values.is_empty() && !node.values.contains(value) {
            self.add_member(Departure::UnknownValue, &place.path(), value);
        }
        if let (Some(items), Value::Array(values)) = (node.items, value) {
            let place = Place {
                parent: Some(place),
                name: "[]",
            };
            for item in values {
                self.walk(items, item, &place);
            }
        }
        let Value::Object(members) = value else {
            return;
        };
        let within = |name| Place {
            parent: Some(place),
            name,
        };
        for member in &node.required {
            if !members.contains_key(member) {
                let path = within(member).path();
                self.add_member(Departure::MissingMember, &path, value);
            }
        }
        for (member, node) in &node.properties {
            if let Some(value) = members.get(member) {
                self.walk(*node, value, &within(member));
            }
        }
    }

    fn add_member(&mut self, departure: Departure, path: &str, value: &Value) {
        let is_reason = departure == Departure::UnknownValue && path == "choices[].finish_reason";
        if NAMED.contains(&path) || is_reason {
            return;
        }
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
