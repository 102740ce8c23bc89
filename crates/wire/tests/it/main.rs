//! Each client's function reads what the real client read (`tests/live/clients.py`).

mod messages;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use sobench_wire::{CLIENTS, Read};

#[derive(Deserialize)]
struct Stream {
    name: String,
    read: BTreeMap<String, Recorded>,
    events: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Recorded {
    Error {
        #[allow(dead_code)]
        error: String,
    },
    Answer {
        content: String,
        calls: Vec<(String, String, Value)>,
    },
}

#[test]
fn functions_read_what_the_clients_read() {
    let text = include_str!("../../../../fixtures/joins/clients.json");
    let streams: Vec<Stream> = serde_json::from_str(text).unwrap();
    assert!(streams.len() >= 190, "{}", streams.len());
    let mut wrong = Vec::new();
    for client in &CLIENTS {
        for stream in &streams {
            let found = client.read(&stream.events, Some(&["get_weather"]));
            let is_same = match (&stream.read[client.name], &found) {
                (Recorded::Error { .. }, Err(_)) => true,
                (
                    Recorded::Answer { content, calls },
                    Ok(Read {
                        content: ours,
                        calls: found,
                    }),
                ) => {
                    let found = found
                        .iter()
                        .map(|call| (call.id.clone(), call.name.clone(), call.arguments.clone()));
                    content == ours && *calls == found.collect::<Vec<_>>()
                }
                _ => false,
            };
            if !is_same {
                wrong.push(format!("{}: {}: {found:?}", client.name, stream.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
}

/// The departures of the frames of a file.
fn departures_of(path: &Path) -> String {
    shown(&fs::read_to_string(path).expect("the fixture is text"))
}

fn shown(text: &str) -> String {
    let Some(found) = sobench_wire::Stream::new(text).departures() else {
        return "of no known API".to_owned();
    };
    let found = found.iter().map(|(departure, example)| match example {
        "" => departure.name().to_owned(),
        example => format!("{}: {example}", departure.name()),
    });
    found.collect::<Vec<_>>().join("\n  ")
}

fn streams(folder: &str, least: usize) -> Vec<PathBuf> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let entries = fs::read_dir(fixtures.join(folder)).expect("the folder exists");
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|name| name == "sse"));
    paths.sort();
    assert!(paths.len() >= least, "{folder}");
    paths
}

/// Streams of OpenAI, recorded by the tests of openai-python (`.inline-snapshot/external`, Apache-2.0).
#[test]
fn openai_does_not_depart() {
    for path in streams("wire/openai", 10) {
        assert_eq!(departures_of(&path), "", "{}", path.display());
    }
}

/// Departures of recorded streams of servers, and of streams that are made.
#[test]
fn departures_of_recorded_streams() {
    let shown: Vec<String> = streams("streams", 10)
        .iter()
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            format!("{name}\n  {}", departures_of(path))
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n"));
}

/// A change to a stream that departs in no way, and the departures that it makes.
const SHAPES: [(&str, &str, &str, &str); 26] = [
    ("no id", r#""id":"c","#, "", "missing_member: id"),
    (
        "no created",
        r#""created":1,"#,
        "",
        "missing_member: created",
    ),
    ("no model", r#""model":"m","#, "", "missing_member: model"),
    (
        "no object",
        r#""object":"chat.completion.chunk","#,
        "",
        "missing_member: object",
    ),
    (
        "no index of the choice",
        r#""index":0,"delta""#,
        r#""delta""#,
        "missing_member: choices[].index",
    ),
    (
        "no finish reason",
        r#","finish_reason":null"#,
        "",
        "missing_member: choices[].finish_reason",
    ),
    (
        "null id",
        r#""id":"c","#,
        r#""id":null,"#,
        "null_member: id",
    ),
    (
        "null calls",
        r#""content":"H""#,
        r#""content":"H","tool_calls":null"#,
        "null_member: choices[].delta.tool_calls",
    ),
    (
        "null role",
        r#""role":"assistant""#,
        r#""role":null"#,
        "null_member: choices[].delta.role\n  missing_role: {\"index\":0,\"delta\":{\"role\":null,\"content\":\"\"},\"finish_reason\":null}",
    ),
    (
        "null usage details",
        r#""total_tokens":4"#,
        r#""total_tokens":4,"prompt_tokens_details":null"#,
        "null_member: usage.prompt_tokens_details",
    ),
    (
        "created is a text",
        r#""created":1,"#,
        r#""created":"1","#,
        "wrong_type: created: \"1\"",
    ),
    (
        "created is a fraction",
        r#""created":1,"#,
        r#""created":1.5,"#,
        "wrong_type: created: 1.5",
    ),
    (
        "content is a list",
        r#""content":"H""#,
        r#""content":["H"]"#,
        "wrong_type: choices[].delta.content: [\"H\"]",
    ),
    (
        "usage is a number",
        r#"{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}"#,
        "4",
        "wrong_type: usage: 4",
    ),
    (
        "tokens are a text",
        r#""prompt_tokens":3"#,
        r#""prompt_tokens":"3""#,
        "wrong_type: usage.prompt_tokens: \"3\"",
    ),
    (
        "another object",
        "chat.completion.chunk",
        "chunk",
        "unknown_value: object: \"chunk\"",
    ),
    (
        "another role",
        r#""role":"assistant""#,
        r#""role":"model""#,
        "unknown_value: choices[].delta.role: \"model\"",
    ),
    (
        "no role",
        r#""role":"assistant","#,
        "",
        "missing_role: {\"index\":0,\"delta\":{\"content\":\"\"},\"finish_reason\":null}",
    ),
    (
        "no total",
        r#","total_tokens":4"#,
        "",
        "missing_member: usage.total_tokens",
    ),
    (
        "another id later",
        r#""id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[]"#,
        r#""id":"d","object":"chat.completion.chunk","created":1,"model":"m","choices":[]"#,
        "changing_answer_id: \"c\", then \"d\"",
    ),
    (
        "another model later",
        r#""model":"m","choices":[]"#,
        r#""model":"n","choices":[]"#,
        "changing_model: \"m\", then \"n\"",
    ),
    (
        "another time later",
        r#""created":1,"model":"m","choices":[]"#,
        r#""created":2,"model":"m","choices":[]"#,
        "changing_created: 1, then 2",
    ),
    (
        "usage in the last chunk",
        r#""finish_reason":"stop"}]}"#,
        r#""finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}"#,
        "usage_with_choices: {\"prompt_tokens\":3,\"completion_tokens\":1,\"total_tokens\":4}",
    ),
    ("no [DONE]", "data: [DONE]\n\n", "", "missing_done"),
    (
        "[DONE] twice",
        "data: [DONE]\n\n",
        "data: [DONE]\n\ndata: [DONE]\n\n",
        "frame_after_done: [DONE]",
    ),
    (
        "comments and another line end",
        "data: [DONE]\n\n",
        ": ping\r\n\r\ndata: [DONE]\r\n\r\n",
        "",
    ),
];

#[test]
fn each_made_shape_is_named() {
    let chunk = |rest: &str| {
        format!(
            "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":{rest}}}\n\n"
        )
    };
    let stream = [
        chunk(r#"[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]"#),
        chunk(r#"[{"index":0,"delta":{"content":"H"},"finish_reason":null}]"#),
        chunk(r#"[{"index":0,"delta":{},"finish_reason":"stop"}]"#),
        chunk(r#"[],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}"#),
        "data: [DONE]\n\n".to_owned(),
    ]
    .concat();
    assert_eq!(shown(&stream), "");
    for (name, old, new, expected) in SHAPES {
        let changed = stream.replace(old, new);
        assert_ne!(changed, stream, "{name}");
        assert_eq!(shown(&changed), expected, "{name}");
    }
}

/// Events of responses: their names, their types and their order.
#[test]
fn events_of_responses_are_checked() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/streams/responses.sse");
    let stream = fs::read_to_string(path).unwrap();
    let added = |text: &str| {
        let (before, now) = (shown(&stream), shown(text));
        let new = now.lines().filter(|line| !before.contains(*line));
        new.map(str::trim).collect::<Vec<_>>().join("\n")
    };
    let without = |event: &str| -> String {
        let blocks = stream.split_inclusive("\n\n");
        blocks
            .filter(|block| !block.contains(&format!("\"type\":\"{event}\"")))
            .collect()
    };
    assert!(added(&without("response.created")).contains("unordered_events: "));
    assert!(
        added(&without("response.content_part.added"))
            .contains("unordered_events: response.content_part.done before content_part.added 0 0")
    );
    assert!(added(&without("response.completed")).contains("missing_done"));
    assert!(
        added(&stream.replace("event: response.completed", "event: done"))
            .contains("wrong_event_name: \"done\" for response.completed")
    );
    let twice = format!("{stream}event: response.completed\ndata: {{}}\n\n");
    assert!(added(&twice).contains("frame_after_done: {}"));
    let item = |item: &str| {
        let added = format!(
            r#"{{"type":"response.output_item.added","sequence_number":0,"output_index":0,"item":{item}}}"#
        );
        shown(&format!(
            "event: response.output_item.added\ndata: {added}\n\n"
        ))
    };
    assert!(item("null").contains("null_member: response.output_item.added.item"));
    let phase = r#"{"type":"message","id":"a","role":"assistant","status":"in_progress","content":[],"phase":"final_answer"}"#;
    assert!(!item(phase).contains("phase"), "{}", item(phase));
    let other = phase.replace("final_answer", "last");
    assert!(item(&other).contains("unknown_value: response.output_item.added.item.phase"));
    let unknown = stream.replace("response.output_text.delta", "response.words");
    assert!(added(&unknown).contains("unknown_event: response.words"));
}
