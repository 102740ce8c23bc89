//! Holds the join of streamed answers to what openai-python read from the same streams
//! (`tests/live/openai_join.py`). Where they differ, the departure says what openai-python read.

use serde::Deserialize;
use serde_json::Value;
use sobench_backend::{ServerKind, adapter};
use sobench_core::answer::CallForm;
use sobench_core::departure::{Departure, Departures};
use sobench_core::observation::{Observation, Timing};

#[derive(Deserialize)]
struct Stream {
    name: String,
    read: Read,
    events: Vec<Value>,
}

/// What openai-python read.
#[derive(Deserialize)]
#[serde(untagged)]
enum Read {
    Error {
        error: String,
    },
    Answer {
        content: String,
        refusal: String,
        tool_calls: Vec<ReadCall>,
        finish_reason: Option<String>,
    },
}

#[derive(Deserialize)]
struct ReadCall {
    id: String,
    #[serde(rename = "type")]
    kind: String,
    name: String,
    #[serde(alias = "input")]
    arguments: Value,
}

#[test]
fn streams_are_joined_as_openai_python_joins_them() {
    let text = include_str!("../../../../../fixtures/joins/openai-python.json");
    let streams: Vec<Stream> = serde_json::from_str(text).unwrap();
    assert!(streams.len() >= 40, "{}", streams.len());
    for Stream { name, read, events } in streams {
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
            refusal,
            tool_calls,
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
        assert_eq!(
            (&content, &refusal),
            (&answer.content, &answer.refusal),
            "{name}"
        );
        assert_eq!(finish_reason, observation.finish_reason, "{name}");
        assert_eq!(tool_calls.len(), answer.tool_calls.len(), "{name}");
        for (theirs, ours) in tool_calls.iter().zip(&answer.tool_calls) {
            // Ids and names that are repeated as a whole are the same; openai-python runs them
            // together.
            let repeated = |departure: Departure| {
                let mut all = answer.departures.iter();
                all.find_map(|(known, example)| (known == departure).then_some(example))
            };
            assert!(
                theirs.name == ours.name
                    || Some(&*theirs.name) == repeated(Departure::RepeatedName),
                "{name}: {}, {found:?}",
                theirs.name
            );
            assert!(
                theirs.id == ours.id || Some(&*theirs.id) == repeated(Departure::RepeatedId),
                "{name}: {}, {found:?}",
                theirs.id
            );
            match &theirs.arguments {
                Value::Null => assert!(found.has(Departure::NullArguments), "{name}"),
                Value::String(text) => assert_eq!(*text, ours.arguments, "{name}"),
                other => {
                    assert_eq!(ours.form, CallForm::Object, "{name}");
                    assert_eq!(other.to_string(), ours.arguments, "{name}");
                }
            }
            assert_eq!(
                theirs.kind == "custom",
                ours.form == CallForm::Custom,
                "{name}"
            );
        }
    }
}
