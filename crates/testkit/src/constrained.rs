//! A server that reads a request's constraint in vLLM's dialects, and does with it what a test
//! says. Knows no preflight.

use std::io::Write;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::net::TcpSocket;

use crate::scripted::{STREAM_HEAD, Scripted, Then, chunk, models, whole};

/// What a server does with a request.
#[derive(Clone)]
pub enum Reply {
    /// An answer that no constraint asked for.
    Prose,
    /// This answer, ended by itself.
    Say(String),
    /// This answer, cut at the token limit, with reasoning before it.
    Cut(String),
    /// A status and a body.
    Status(&'static str, &'static str),
    /// This answer in two pieces, after a chunk with a role and no content, as chat endpoints send
    /// it.
    RoleFirst(String),
    /// This answer, with the account of seven tokens in the chunk that ends it.
    WithUsage(String),
    /// This answer in chunks of one byte, so that characters are split.
    ByteByByte(String),
    /// A 200 stream with this event alone.
    Event(String),
    /// The beginning of what the constraint allows, and then the end of the stream.
    CutOff,
}

/// A server that lists one model and answers each generating request as `script` says.
pub fn answering(script: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Scripted {
    of_version(None, script)
}

/// The same, which tells its version as vLLM does.
pub fn of_version(
    version: Option<&'static str>,
    script: impl Fn(&Value) -> Reply + Send + Sync + 'static,
) -> Scripted {
    Scripted::new(move |request, stream| {
        if request.line.starts_with("GET ") {
            let page = match version {
                _ if request.asks_for_models() => models(),
                Some(version) if request.line.starts_with("GET /version ") => whole(
                    "200 OK",
                    "application/json",
                    &json!({"version": version}).to_string(),
                ),
                _ => whole("404 Not Found", "text/plain", "no such page"),
            };
            return written(stream, page.as_bytes());
        }
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        written(stream, &bytes(&body, script(&body)))
    })
}

fn written(stream: &mut TcpStream, bytes: &[u8]) -> Then {
    // A client that has gone away is not the server's matter.
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
        Reply::Say(text) => vec![choice(&text, json!("stop")).to_string()],
        Reply::Cut(text) => vec![
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
            let text = allowed(body).expect("only constrained requests are cut off");
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

/// What a server was asked to generate.
pub fn posts(server: &Scripted) -> Vec<Value> {
    let asked = server
        .requests()
        .into_iter()
        .filter(|asked| asked.line.starts_with("POST "));
    asked
        .map(|asked| serde_json::from_slice(&asked.body).unwrap())
        .collect()
}

/// The constraint of a request as JSON text, if it has one.
pub fn text_of_constraint(body: &Value) -> Option<String> {
    let fields = body.as_object()?;
    let is_constraint = |name: &str| {
        name.starts_with("guided_") || matches!(name, "structured_outputs" | "response_format")
    };
    fields
        .iter()
        .find(|(name, _)| is_constraint(name))
        .map(|(_, value)| value.to_string())
}

/// A text that the constraint of a request allows; `None` where it has none.
pub fn allowed(body: &Value) -> Option<String> {
    let outputs = &body["structured_outputs"];
    let found = |guided: &str, name: &str| {
        Some(&body[guided])
            .filter(|it| !it.is_null())
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
    text_of_constraint(body).map(|_| r#"{"waves": "high"}"#.to_owned())
}

/// The required members of a flat schema, with the values that it asks for.
fn document(schema: &Value) -> Option<String> {
    let member = |name: &Value| {
        let name = name.as_str()?;
        let member = &schema["properties"][name];
        let asked = member
            .get("const")
            .or_else(|| member["enum"].get(0))
            .cloned();
        let value = asked.unwrap_or_else(|| {
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

/// What SGLang's chat endpoint makes of a request: it reads `response_format`, `regex` and `ebnf`,
/// and drops all else.
pub fn as_sglang(body: &Value) -> Reply {
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
    allowed(&read).map_or(Reply::Prose, Reply::Say)
}

/// A server that answers rightly until a request's constraint holds `poison`.
pub struct Mortal {
    base_url: String,
}

impl Mortal {
    pub fn base_url(&self) -> String {
        self.base_url.clone()
    }
}

/// See [`Mortal`]. When it dies, nobody listens at its port any more, and the last request gets no
/// answer.
pub fn dying_of(poison: &'static str) -> Mortal {
    let own: Arc<Mutex<Option<Scripted>>> = Arc::default();
    let mine = Arc::clone(&own);
    let grave: Mutex<Option<TcpSocket>> = Mutex::default();
    let server = Scripted::new(move |request, stream| {
        // Connections that are still open outlive the listener, but not the server.
        if grave.lock().unwrap().is_some() {
            return Then::Close;
        }
        if request.line.starts_with("GET ") {
            return written(
                stream,
                whole("404 Not Found", "text/plain", "no such page").as_bytes(),
            );
        }
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        if text_of_constraint(&body).is_some_and(|constraint| constraint.contains(poison)) {
            let address = stream.local_addr().unwrap();
            drop(mine.lock().unwrap().take());
            // The listener ends in a thread of its own; the port is free when it has. It is held
            // from then on, by a socket that does not listen, so that no other test's server comes
            // to live there.
            *grave.lock().unwrap() = std::iter::repeat_with(|| {
                std::thread::yield_now();
                let socket = TcpSocket::new_v4().ok()?;
                socket.set_reuseaddr(true).ok()?;
                socket.bind(address).is_ok().then_some(socket)
            })
            .find_map(|bound| bound);
            return Then::Close;
        }
        let reply = allowed(&body).map_or(Reply::Prose, Reply::Say);
        written(stream, &bytes(&body, reply))
    });
    let base_url = server.base_url.clone();
    *own.lock().unwrap() = Some(server);
    Mortal { base_url }
}
