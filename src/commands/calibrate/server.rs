//! Reference server with known timing: streams tokens by a timetable, and records when requests
//! arrived and tokens were sent. Supports only the HTTP that benchmark clients send.
//!
//! It runs in its own process, so that it shares only the machine with the client, and is
//! controlled by JSON lines over its standard streams. It prints its port, replies to a
//! [`Timetable`] with an empty line and to `"log"` with the [`Record`]s since, and ends with its
//! input. A request arrives when the kernel receives its last packet (`SO_TIMESTAMPNS`; where there are no
//! stamps, when it is read, and the record says so). A token leaves during the system
//! call that writes it, so both ends of the call are recorded: a busy machine can stop the server
//! between its clock and the call.

use std::io::{self, BufRead, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep_until;

use super::child::{self, Process};
use super::errors::{Record, first_token};
use sobench_client::{Socket, clock};
use sobench_core::error::{Error, Result};

/// The name of its model.
pub const MODEL: &str = "calibrate";

/// Maximum size of a request in bytes.
const MAX_REQUEST_BYTES: usize = 1 << 20;

/// Size of the accept queue.
const BACKLOG: u32 = 4096;

/// Default output tokens.
const DEFAULT_OUTPUT_LEN: usize = 16;

/// When tokens are due.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timetable {
    pub ttft_ms: f64,
    pub itl_ms: f64,
}

impl Timetable {
    /// When a token is due after the arrival of its request, in milliseconds.
    pub fn due_ms(&self, number: usize) -> f64 {
        self.ttft_ms + self.itl_ms * number as f64
    }
}

/// A command on the server's input.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerCommand {
    /// Clear the records and use this timetable.
    #[serde(rename = "begin")]
    Start(Timetable),
    /// Print the records.
    Log,
}

/// All records since the last start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Log {
    pub records: Vec<Record>,
    /// The instant of [`ServerCommand::Start`].
    pub started_ns: u64,
    /// CPU time of the server since then.
    pub cpu_s: Option<f64>,
}

impl Log {
    /// Seconds from the start to an instant of the server.
    pub fn since_start_s(&self, at_ns: u64) -> f64 {
        at_ns.saturating_sub(self.started_ns) as f64 / 1e9
    }
}

struct State {
    timetable: Mutex<Timetable>,
    records: Mutex<Vec<Record>>,
    /// Instant and CPU time of the last start.
    started: Mutex<(u64, Option<f64>)>,
    next_id: AtomicU64,
}

/// Serves on a free port of this machine until the input ends.
///
/// # Errors
/// No port or thread is available, or the standard streams are closed or have invalid data.
pub fn serve(input: impl BufRead, mut output: impl Write) -> Result<()> {
    let timetable = Timetable {
        ttft_ms: 0.0,
        itl_ms: 0.0,
    };
    let state = Arc::new(State {
        timetable: Mutex::new(timetable),
        records: Mutex::default(),
        started: Mutex::new(now()),
        next_id: AtomicU64::new(0),
    });
    let failed =
        |error: io::Error| Error::environment(format!("the reference server failed: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed)?;
    let listener = runtime.block_on(listen()).map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    let accepting = Arc::clone(&state);
    // The thread ends with the process.
    thread::Builder::new()
        .name("timing".to_owned())
        .spawn(move || runtime.block_on(accept(listener, accepting)))
        .map_err(failed)?;
    writeln!(output, "{port}")
        .and_then(|()| output.flush())
        .map_err(failed)?;
    for line in input.lines() {
        let line = line.map_err(failed)?;
        let command = serde_json::from_str(&line)
            .map_err(|error| Error::internal(format!("invalid command ({error}): {line}")))?;
        let answer = match command {
            ServerCommand::Start(timetable) => state.start(timetable),
            ServerCommand::Log => state.log(),
        };
        writeln!(output, "{answer}")
            .and_then(|()| output.flush())
            .map_err(failed)?;
    }
    Ok(())
}

impl State {
    fn start(&self, timetable: Timetable) -> String {
        *lock(&self.timetable) = timetable;
        lock(&self.records).clear();
        *lock(&self.started) = now();
        String::new()
    }

    fn log(&self) -> String {
        let records = std::mem::take(&mut *lock(&self.records));
        let ((started_ns, before), (_, after)) = (*lock(&self.started), now());
        serde_json::to_string(&Log {
            records,
            started_ns,
            cpu_s: after.zip(before).map(|(after, before)| after - before),
        })
        .expect("numbers are JSON")
    }
}

/// This instant, and the CPU time of this process so far.
fn now() -> (u64, Option<f64>) {
    (clock::process_ns(), child::cpu_s(Process::Own))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while holding one of these.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn listen() -> io::Result<TcpListener> {
    let socket = tokio::net::TcpSocket::new_v4()?;
    socket.bind(([127, 0, 0, 1], 0).into())?;
    socket.listen(BACKLOG)
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    loop {
        // A connection that is closed before it is accepted can be ignored.
        if let Ok((tcp, _)) = listener.accept().await {
            let state = Arc::clone(&state);
            // If the client disconnects, its request is incomplete in the log or missing.
            tokio::spawn(async move { drop(serve_connection(tcp, &state).await) });
        }
    }
}

/// Serves the requests of one connection.
async fn serve_connection(tcp: TcpStream, state: &State) -> io::Result<()> {
    let mut socket = Socket::accepted(tcp)?;
    let mut bytes = Vec::new();
    while let Some(request) = read_request(&mut socket, &mut bytes).await? {
        if request.is_post {
            answer(&mut socket, state, &request).await?;
        } else {
            let models = format!(
                r#"{{"object":"list","data":[{{"id":"{MODEL}","object":"model","owned_by":"calibrate"}}]}}"#
            );
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                models.len()
            );
            socket
                .write_all(format!("{head}{models}").as_bytes())
                .await?;
        }
    }
    Ok(())
}

/// The parts of a request that are used.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    is_post: bool,
    is_chat: bool,
    output_len: usize,
}

/// The next complete request; `None` if the client is gone. `bytes` has the bytes read after the
/// last one.
async fn read_request(socket: &mut Socket, bytes: &mut Vec<u8>) -> io::Result<Option<Request>> {
    loop {
        if let Some((request, used)) = parse(bytes) {
            bytes.drain(..used);
            return Ok(Some(request));
        }
        if bytes.len() > MAX_REQUEST_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if socket.read_buf(bytes).await? == 0 {
            return Ok(None);
        }
    }
}

/// A complete request at the start of the bytes, and its length.
fn parse(bytes: &[u8]) -> Option<(Request, usize)> {
    #[derive(Deserialize)]
    struct Body {
        max_tokens: Option<usize>,
        max_completion_tokens: Option<usize>,
    }
    let head_len = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&bytes[..head_len]).to_ascii_lowercase();
    let length = head
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("content-length:"));
    let length: usize = length.map_or(Some(0), |length| length.trim().parse().ok())?;
    let body = bytes.get(head_len..head_len + length)?;
    let body: Option<Body> = serde_json::from_slice(body).ok();
    let output_len = body
        .and_then(|body| body.max_tokens.or(body.max_completion_tokens))
        .unwrap_or(DEFAULT_OUTPUT_LEN);
    let first = head.lines().next().unwrap_or_default();
    Some((
        Request {
            is_post: first.starts_with("post "),
            is_chat: first.contains("/chat/"),
            output_len: output_len.max(1),
        },
        head_len + length,
    ))
}

/// Streams the tokens. Each is due at a fixed time after the arrival, so that a late token does not
/// delay the rest.
async fn answer(socket: &mut Socket, state: &State, request: &Request) -> io::Result<()> {
    let arrival = socket.arrival();
    let (arrived_ns, is_arrival_stamped) = (arrival.at_ns(), arrival.is_stamped());
    let id = state.next_id.fetch_add(1, Ordering::Relaxed);
    let timetable = *lock(&state.timetable);
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-store\r\ntransfer-encoding: chunked\r\n\r\n";
    socket.write_all(head.as_bytes()).await?;
    let mut written_ns = Vec::with_capacity(request.output_len);
    let mut write_ends_ns = Vec::with_capacity(request.output_len);
    let mut sent = Ok(());
    // Rendered in advance: a server that is busy itself would be the limit of the measurement.
    let last = request.output_len - 1;
    let rendered = |text: &str, is_last: bool| chunk(&event(request, id, text, is_last));
    let first_chunk = rendered(&first_token(id), last == 0);
    let (next_chunk, last_chunk) = (rendered("word ", false), rendered("word ", true));
    for number in 0..request.output_len {
        let chunk = match number {
            0 => &first_chunk,
            _ if number == last => &last_chunk,
            _ => &next_chunk,
        };
        let due_ms = timetable.due_ms(number);
        sleep_until(clock::instant(arrived_ns) + Duration::from_secs_f64(due_ms.max(0.0) / 1e3))
            .await;
        written_ns.push(clock::process_ns());
        sent = socket.write_all(chunk.as_bytes()).await;
        write_ends_ns.push(clock::process_ns());
        if sent.is_err() {
            break;
        }
    }
    // Before the end of the response, so that a client with all answers finds all records.
    let tokens = written_ns.len();
    let ended_ns = clock::process_ns();
    lock(&state.records).push(Record {
        id,
        arrived_ns,
        is_arrival_stamped,
        written_ns,
        write_ends_ns,
        ended_ns,
        end_written_ns: ended_ns,
    });
    sent?;
    let usage = format!(
        r#"{{"id":"cmpl-{id}","object":"text_completion","created":0,"model":"{MODEL}","choices":[],"usage":{{"prompt_tokens":1,"total_tokens":{},"completion_tokens":{tokens}}}}}"#,
        tokens + 1
    );
    let end = format!(
        "{}{}0\r\n\r\n",
        chunk(&format!("data: {usage}\n\n")),
        chunk("data: [DONE]\n\n")
    );
    let sent = socket.write_all(end.as_bytes()).await;
    let end_written_ns = clock::process_ns();
    let mut records = lock(&state.records);
    if let Some(record) = records.iter_mut().rev().find(|record| record.id == id) {
        record.end_written_ns = end_written_ns;
    }
    sent
}

/// An event in vLLM's format.
fn event(request: &Request, id: u64, text: &str, is_last: bool) -> String {
    let finish_reason = if is_last { r#""length""# } else { "null" };
    let (object, content) = if request.is_chat {
        (
            "chat.completion.chunk",
            format!(r#""delta":{{"content":"{text}"}}"#),
        )
    } else {
        ("text_completion", format!(r#""text":"{text}""#))
    };
    format!(
        "data: {{\"id\":\"cmpl-{id}\",\"object\":\"{object}\",\"created\":0,\"model\":\"{MODEL}\",\"choices\":[{{\"index\":0,{content},\
         \"logprobs\":null,\"finish_reason\":{finish_reason},\"stop_reason\":null}}],\"usage\":null}}\n\n"
    )
}

/// A chunk of the chunked transfer coding.
fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_parsed_when_complete() {
        let post = b"POST /v1/completions HTTP/1.1\r\nContent-Length: 16\r\nhost: x\r\n\r\n{\"max_tokens\":3}GET";
        let request = Request {
            is_post: true,
            is_chat: false,
            output_len: 3,
        };
        assert_eq!(parse(post), Some((request, post.len() - 3)));
        for cut in 0..post.len() - 3 {
            assert_eq!(parse(&post[..cut]), None, "cut at {cut}");
        }
        let get = b"GET /v1/models HTTP/1.1\r\n\r\n";
        assert_eq!(
            parse(get),
            Some((
                Request {
                    is_post: false,
                    is_chat: false,
                    output_len: 16
                },
                get.len()
            ))
        );
        let chat = b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 28\r\n\r\n{\"max_completion_tokens\":9 }";
        assert_eq!(
            parse(chat).unwrap().0,
            Request {
                is_post: true,
                is_chat: true,
                output_len: 9
            }
        );
    }
}
