//! A test server that reads a request's constraint in vLLM's dialects and replies as the test
//! specifies.

use std::io::Write;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::net::TcpSocket;

use crate::scripted::{STREAM_HEAD, ScriptedServer, Then, chunk, models, whole};

/// Reply of the server to a request.
#[derive(Clone)]
pub enum Reply {
    /// Prose that violates every constraint.
    Prose,
    /// This answer, complete.
    Text(String),
    /// This answer, cut at the token limit, after reasoning.
    Truncated(String),
    /// A status and a body.
    Status(&'static str, &'static str),
    /// This answer in two chunks, after a chunk with a role and no content, as chat endpoints send
    /// it.
    RoleFirst(String),
    /// This answer, with a usage of seven tokens in the final chunk.
    WithUsage(String),
    /// This answer in chunks of one byte, so that characters are split.
    ByteByByte(String),
    /// A 200 stream with only this event.
    Event(String),
    /// A prefix of a conforming answer, then the end of the stream.
    CutOff,
}

/// A server that lists one model and replies to each generation request as `script` specifies.
pub fn answering(script: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> ScriptedServer {
    constrained_server_with_version(None, script)
}

/// The same, with a `/version` endpoint as in vLLM.
pub fn constrained_server_with_version(
    version: Option<&'static str>,
    script: impl Fn(&Value) -> Reply + Send + Sync + 'static,
) -> ScriptedServer {
    serving(version, models(), script)
}

/// The same as [`answering`], with this owner of its model.
pub fn answering_as(
    owner: &str,
    script: impl Fn(&Value) -> Reply + Send + Sync + 'static,
) -> ScriptedServer {
    let model = json!({"id": "tiny", "object": "model", "owned_by": owner});
    let list = json!({"object": "list", "data": [model]}).to_string();
    serving(None, whole("200 OK", "application/json", &list), script)
}

fn serving(
    version: Option<&'static str>,
    models: String,
    script: impl Fn(&Value) -> Reply + Send + Sync + 'static,
) -> ScriptedServer {
    ScriptedServer::new(move |request, stream| {
        if request.line.starts_with("GET ") {
            let page = match version {
                _ if request.is_model_list() => models.clone(),
                Some(version) if request.line.starts_with("GET /version ") => whole(
                    "200 OK",
                    "application/json",
                    &json!({"version": version}).to_string(),
                ),
                _ => whole("404 Not Found", "text/plain", "no such page"),
            };
            return respond(stream, page.as_bytes());
        }
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        respond(stream, &bytes(&body, script(&body)))
    })
}

fn respond(stream: &mut TcpStream, bytes: &[u8]) -> Then {
    // The client may have disconnected.
    if stream.write_all(bytes).is_ok() {
        Then::Keep
    } else {
        Then::Close
    }
}

fn bytes(body: &Value, reply: Reply) -> Vec<u8> {
    let is_chat = body.get("messages").is_some();
    let choice = |text: &str, finish: Value| match is_chat {
        true => {
            json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]})
        }
        false => json!({"choices": [{"index": 0, "text": text, "finish_reason": finish}]}),
    };
    let thought = json!({"choices": [{"index": 0, "delta": {"reasoning_content": "hm"}}]});
    let events = match reply {
        Reply::Status(status, body) => return whole(status, "application/json", body).into_bytes(),
        Reply::Prose => vec![
            choice("The waves are high", Value::Null).to_string(),
            choice(" today.", json!("stop")).to_string(),
        ],
        Reply::Text(text) => vec![choice(&text, json!("stop")).to_string()],
        Reply::Truncated(text) => vec![
            thought.to_string(),
            choice(&text, json!("length")).to_string(),
        ],
        Reply::RoleFirst(text) => {
            let role = json!({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": null}]});
            let (head, tail) = text.split_at(1);
            vec![
                role.to_string(),
                choice(head, Value::Null).to_string(),
                choice(tail, json!("stop")).to_string(),
            ]
        }
        Reply::WithUsage(text) => {
            let mut last = choice(&text, json!("stop"));
            last["usage"] = json!({"prompt_tokens": 3, "completion_tokens": 7, "total_tokens": 10});
            vec![last.to_string()]
        }
        Reply::ByteByByte(text) => {
            let event = format!("data: {}\n\ndata: [DONE]\n\n", choice(&text, json!("stop")));
            let bytes = event.bytes().flat_map(|byte| chunk(&[byte]));
            return STREAM_HEAD.bytes().chain(bytes).chain(chunk(b"")).collect();
        }
        Reply::Event(event) => vec![event],
        Reply::CutOff => {
            let text = allowed(body).expect("only constrained requests get an incomplete stream");
            return stream(
                &[choice(&text[..text.len() - 2], Value::Null).to_string()],
                false,
            );
        }
    };
    stream(&events, true)
}

fn stream(events: &[String], done: bool) -> Vec<u8> {
    let mut text: String = events
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .collect();
    if done {
        text.push_str("data: [DONE]\n\n");
    }
    [STREAM_HEAD.as_bytes(), &chunk(text.as_bytes()), &chunk(b"")].concat()
}

/// Bodies of the generation requests that a server received.
pub fn posts(server: &ScriptedServer) -> Vec<Value> {
    let requests = server
        .requests()
        .into_iter()
        .filter(|request| request.line.starts_with("POST "));
    requests
        .map(|request| serde_json::from_slice(&request.body).unwrap())
        .collect()
}

/// The constraint of a request as JSON text; `None` if there is none.
pub fn constraint_text(body: &Value) -> Option<String> {
    let fields = body.as_object()?;
    let is_constraint = |name: &str| {
        name.starts_with("guided_") || matches!(name, "structured_outputs" | "response_format")
    };
    fields
        .iter()
        .find(|(name, _)| is_constraint(name))
        .map(|(_, value)| value.to_string())
}

/// An answer that conforms to the constraint of a request; `None` if there is none.
pub fn allowed(body: &Value) -> Option<String> {
    let outputs = &body["structured_outputs"];
    let found = |guided: &str, name: &str| {
        Some(&body[guided])
            .filter(|value| !value.is_null())
            .or(outputs.get(name))
            .cloned()
    };
    if let Some(schema) = found("guided_json", "json")
        .or_else(|| body.pointer("/response_format/json_schema/schema").cloned())
    {
        return document(&schema);
    }
    if let Some(choices) = found("guided_choice", "choice") {
        return choices[0].as_str().map(str::to_owned);
    }
    if let Some(regex) = found("guided_regex", "regex") {
        return regex
            .as_str()?
            .trim_matches(['(', ')'])
            .split('|')
            .next()
            .map(str::to_owned);
    }
    if let Some(grammar) = found("guided_grammar", "grammar") {
        return grammar.as_str()?.split('"').nth(1).map(str::to_owned);
    }
    constraint_text(body).map(|_| r#"{"waves": "high"}"#.to_owned())
}

/// The required members of a flat schema, with conforming values.
fn document(schema: &Value) -> Option<String> {
    let member = |name: &Value| {
        let name = name.as_str()?;
        let member = &schema["properties"][name];
        let fixed = member
            .get("const")
            .or_else(|| member["enum"].get(0))
            .cloned();
        let value = fixed.unwrap_or_else(|| {
            json!(if name == "email" {
                "alan@enigma.com"
            } else {
                "Alan"
            })
        });
        Some((name.to_owned(), value))
    };
    let members: Option<serde_json::Map<String, Value>> =
        schema["required"].as_array()?.iter().map(member).collect();
    Some(Value::Object(members?).to_string())
}

/// The reply of SGLang's chat endpoint: it reads `response_format`, `regex` and `ebnf`, and ignores
/// other constraint fields.
pub fn sglang_reply(body: &Value) -> Reply {
    let member = |name: &str| body[name].clone();
    let response_format = if body["response_format"]["type"] == "regex_schema" {
        Value::Null
    } else {
        member("response_format")
    };
    let read = json!({"guided_regex": member("regex"), "guided_grammar": member("ebnf"), "response_format": response_format});
    let mut read = read.as_object().cloned().unwrap();
    read.retain(|_, value| !value.is_null());
    let read = Value::Object(read);
    allowed(&read).map_or(Reply::Prose, Reply::Text)
}

/// A server that conforms to constraints until one contains `trigger`, and then stops.
pub struct CrashingServer {
    base_url: String,
}

impl CrashingServer {
    pub fn base_url(&self) -> String {
        self.base_url.clone()
    }
}

/// See [`CrashingServer`]. After the crash, its port refuses connections, and the last request gets
/// no response.
pub fn crashing_server(trigger: &'static str) -> CrashingServer {
    let server_slot: Arc<Mutex<Option<ScriptedServer>>> = Arc::default();
    let shared_slot = Arc::clone(&server_slot);
    let held_port: Mutex<Option<TcpSocket>> = Mutex::default();
    let server = ScriptedServer::new(move |request, stream| {
        // Open connections outlive the listener, but must not outlive the server.
        if held_port.lock().unwrap().is_some() {
            return Then::Close;
        }
        if request.line.starts_with("GET ") {
            return respond(
                stream,
                whole("404 Not Found", "text/plain", "no such page").as_bytes(),
            );
        }
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        if constraint_text(&body).is_some_and(|constraint| constraint.contains(trigger)) {
            let address = stream.local_addr().unwrap();
            drop(shared_slot.lock().unwrap().take());
            // The listener ends in its own thread and then frees the port. From then on a socket
            // that does not listen holds the port, so that no other test can bind it.
            *held_port.lock().unwrap() = std::iter::repeat_with(|| {
                std::thread::yield_now();
                let socket = TcpSocket::new_v4().ok()?;
                socket.set_reuseaddr(true).ok()?;
                socket.bind(address).is_ok().then_some(socket)
            })
            .find_map(|bound| bound);
            return Then::Close;
        }
        let reply = allowed(&body).map_or(Reply::Prose, Reply::Text);
        respond(stream, &bytes(&body, reply))
    });
    let base_url = server.base_url.clone();
    *server_slot.lock().unwrap() = Some(server);
    CrashingServer { base_url }
}
