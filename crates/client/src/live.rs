//! Turns of live sessions: the body of a turn is made from the model's own answers when the turns
//! before it have ended.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::exchange::Body;
use sobench_backend::{Adapter, BodySettings};
use sobench_core::answer::Answer;
use sobench_core::case::{Case, Message, Prompt};

/// What encodes the bodies.
pub(super) struct Encoder {
    pub(super) adapter: Arc<dyn Adapter>,
    pub(super) request: BodySettings,
}

/// A turn whose body is made from an answer.
pub(super) struct LiveTurn {
    /// As planned, with the recorded history.
    pub(super) case: Case,
    /// The position in the session of the turn whose history it continues.
    pub(super) base: u32,
    /// The planned messages of that turn.
    pub(super) base_messages: Arc<[Message]>,
    pub(super) encoder: Arc<Encoder>,
}

impl LiveTurn {
    /// The turn at a position, if its planned messages continue those of a turn before it.
    pub(super) fn new(
        case: &Case,
        session: &[Case],
        encoder: impl FnOnce() -> Arc<Encoder>,
    ) -> Option<Self> {
        let turn = case.turn.as_deref().filter(|turn| turn.live)?;
        let planned = messages(case)?;
        let before = turn.after.iter().filter_map(|number| {
            let base = number.checked_sub(1)?;
            let messages = messages(session.get(base as usize)?)?;
            planned
                .starts_with(messages)
                .then(|| (base, Arc::clone(messages)))
        });
        let (base, base_messages) = before.max_by_key(|(_, messages)| messages.len())?;
        Some(Self {
            case: case.clone(),
            base,
            base_messages,
            encoder: encoder(),
        })
    }

    /// The messages of the turn, and its body. `sent` has the messages of the turn that it continues,
    /// if they are not the planned ones.
    pub(super) fn body(
        &self,
        sent: Option<&Arc<[Message]>>,
        answer: &Answer,
    ) -> (Arc<[Message]>, Body) {
        let planned = messages(&self.case).map_or(&[][..], |messages| &messages[..]);
        let next = planned.get(self.base_messages.len()..).unwrap_or_default();
        let mut all = sent.unwrap_or(&self.base_messages).to_vec();
        all.extend(continuation(answer, next));
        let all: Arc<[Message]> = all.into();
        let case = Case {
            prompt: Prompt::Messages(Arc::clone(&all)),
            ..self.case.clone()
        };
        let Encoder { adapter, request } = &*self.encoder;
        let body = match adapter.encode(&case, request) {
            Ok(body) => Body::Bytes(body, request.form(&case)),
            Err(unsendable) => Body::Unsupported(unsendable.what.into()),
        };
        (all, body)
    }
}

fn messages(case: &Case) -> Option<&Arc<[Message]>> {
    match &case.prompt {
        Prompt::Messages(messages) => Some(messages),
        _ => None,
    }
}

/// The model's answer, the scripted results of its calls by the name of the tool, and the other planned
/// messages. `planned` starts with the recorded answer.
fn continuation(answer: &Answer, planned: &[Message]) -> Vec<Message> {
    let (recorded, next) = match planned.split_first() {
        Some((first, next)) if first.role == "assistant" => (Some(first), next),
        _ => (None, planned),
    };
    let calls = recorded.and_then(|recorded| recorded.other.get("tool_calls")?.as_array());
    let name_of = |id: &Value| -> Option<&str> {
        let mut calls = calls.into_iter().flatten();
        calls.find(|call| call["id"] == *id)?["function"]["name"].as_str()
    };
    let mut scripted: HashMap<&str, Vec<&Message>> = HashMap::new();
    let mut others = Vec::new();
    for message in next {
        match message
            .other
            .get("tool_call_id")
            .filter(|_| message.role == "tool")
        {
            Some(id) => {
                let name = name_of(id).unwrap_or_default();
                scripted.entry(name).or_default().push(message);
            }
            None => others.push(message.clone()),
        }
    }
    let mut all = vec![own_message(answer)];
    for (number, call) in answer.tool_calls.iter().enumerate() {
        let results = scripted.get_mut(call.name.as_str());
        let found = results
            .filter(|results| !results.is_empty())
            .map(|results| results.remove(0));
        let content = found.map_or_else(
            || json!(format!("no scripted result for the tool {}", call.name)),
            |message| message.content.clone(),
        );
        all.push(Message::tool_result(call_id(&call.id, number), content));
    }
    // The model did not call the tools, and the user has nothing to say: the results are the next
    // message.
    if answer.tool_calls.is_empty() && others.is_empty() {
        let results = next.iter().filter_map(|message| {
            let name = name_of(message.other.get("tool_call_id")?)?;
            let text = message.content.as_str()?;
            Some(format!("Result of {name}: {text}"))
        });
        let results: Vec<String> = results.collect();
        others.push(Message::new("user", results.join("\n")));
    }
    all.extend(others);
    all
}

fn own_message(answer: &Answer) -> Message {
    let calls = answer.tool_calls.iter().enumerate().map(|(number, call)| {
        Message::call(
            &call_id(&call.id, number),
            call.name.as_str(),
            &call.arguments,
        )
    });
    Message::calling(answer.content.as_str(), calls)
}

/// The id of a call; some servers send none.
fn call_id(id: &str, number: usize) -> String {
    if id.is_empty() {
        format!("call_{number}")
    } else {
        id.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_core::answer::ToolCall;

    fn message(value: Value) -> Message {
        serde_json::from_value(value).unwrap()
    }

    fn planned() -> Vec<Message> {
        vec![
            message(json!({"role": "assistant", "content": null, "tool_calls": [
                {"id": "r1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}},
            ]})),
            message(json!({"role": "tool", "content": "found", "tool_call_id": "r1"})),
        ]
    }

    fn call(id: &str, name: &str) -> ToolCall {
        ToolCall {
            id: id.to_owned(),
            name: name.to_owned(),
            arguments: "{}".to_owned(),
            ..ToolCall::default()
        }
    }

    fn texts(answer: &Answer) -> Vec<(String, Value, Value)> {
        let members = |message: Message| {
            let id = message
                .other
                .get("tool_call_id")
                .cloned()
                .unwrap_or_default();
            (message.role, message.content, id)
        };
        continuation(answer, &planned())
            .into_iter()
            .map(members)
            .collect()
    }

    #[test]
    fn own_calls_get_the_scripted_results_by_name() {
        let answer = Answer {
            tool_calls: vec![call("a", "other"), call("", "look_up")],
            ..Answer::default()
        };
        let found = texts(&answer);
        let expected = [
            ("assistant".to_owned(), Value::Null, Value::Null),
            (
                "tool".to_owned(),
                json!("no scripted result for the tool other"),
                json!("a"),
            ),
            ("tool".to_owned(), json!("found"), json!("call_1")),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn results_of_calls_that_the_model_does_not_make_are_the_next_message() {
        let found = texts(&Answer::from_text("Hm.".to_owned()));
        let expected = [
            ("assistant".to_owned(), json!("Hm."), Value::Null),
            (
                "user".to_owned(),
                json!("Result of look_up: found"),
                Value::Null,
            ),
        ];
        assert_eq!(found, expected);
    }
}
