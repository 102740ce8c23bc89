//! Each client's function reads what the real client read (`tests/live/clients.py`).

use std::collections::BTreeMap;

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
