//! Holds the join of streamed answers to what openai-python read from the same streams
//! (`tests/live/clients.py`). Where they differ, the departure says what openai-python read.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use sobench_backend::{ServerKind, adapter};
use sobench_core::answer::CallForm;
use sobench_core::departure::{Departure, Departures};
use sobench_core::observation::{Observation, Timing};

#[derive(Deserialize)]
struct Stream {
    name: String,
    read: BTreeMap<String, Read>,
    events: Vec<Value>,
}

/// What a client read.
#[derive(Deserialize)]
#[serde(untagged)]
enum Read {
    Error {
        error: String,
    },
    Answer {
        content: String,
        /// Id, name and arguments.
        calls: Vec<(String, String, Value)>,
        finish_reason: Option<String>,
    },
}

#[test]
fn streams_are_joined_as_openai_python_joins_them() {
    let text = include_str!("../../../../../fixtures/joins/clients.json");
    let streams: Vec<Stream> = serde_json::from_str(text).unwrap();
    assert!(streams.len() >= 40, "{}", streams.len());
    for Stream {
        name,
        mut read,
        events,
    } in streams
    {
        let read = read.remove("openai-python").unwrap();
        let mut decoder = adapter(ServerKind::OpenaiChat).decoder(true, 1 << 16);
        for event in &events {
            decoder.push(format!("data: {event}\n\n").as_bytes());
        }
        decoder.push(b"data: [DONE]\n\n");
        let decoded = decoder.into_decoded();
        let observation = Observation {
            case_index: 0,
            outcome: decoded.outcome(),
            timing: Timing::default(),
            answer: decoded.answer,
            finish_reason: decoded.finish_reason,
            usage: None,
        };
        let found = Departures::of_answer(&observation, None);
        let Read::Answer {
            content,
            calls,
            finish_reason,
        } = read
        else {
            let Read::Error { error } = read else {
                unreachable!()
            };
            let raises = found.iter().any(|(departure, _)| departure.raises());
            assert!(raises, "{name}: {error}, {found:?}");
            continue;
        };
        let answer = &observation.answer;
        assert_eq!(content, answer.content, "{name}");
        assert_eq!(finish_reason, observation.finish_reason, "{name}");
        assert_eq!(calls.len(), answer.tool_calls.len(), "{name}");
        for ((id, called, arguments), ours) in calls.iter().zip(&answer.tool_calls) {
            // Ids and names that are repeated as a whole are the same; openai-python runs them
            // together.
            let repeated = |departure: Departure| {
                let mut all = answer.departures.iter();
                all.find_map(|(known, example)| (known == departure).then_some(example))
            };
            assert!(
                *called == ours.name || Some(&**called) == repeated(Departure::RepeatedName),
                "{name}: {called}, {found:?}"
            );
            assert!(
                *id == ours.id
                    || Some(&**id) == repeated(Departure::RepeatedId)
                    || Some(&**id) == repeated(Departure::ChangingId),
                "{name}: {id}, {found:?}"
            );
            match arguments {
                Value::Null => assert!(found.has(Departure::NullArguments), "{name}"),
                Value::String(text) => assert_eq!(*text, ours.arguments, "{name}"),
                other => {
                    assert_eq!(ours.form, CallForm::Object, "{name}");
                    assert_eq!(other.to_string(), ours.arguments, "{name}");
                }
            }
        }
    }
}
