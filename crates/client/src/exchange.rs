//! One request, from handing it to the HTTP client to the end of its answer. Knows no schedule and
//! no constraint.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use reqwest::StatusCode;

use super::client::{Client, DEFAULT_REQUEST_TIMEOUT, Limits};
use super::clock::{Clock, as_ns};
use super::dispatch::unsent;
use super::way::{Broken, Message, Response};
use sobench_backend::{Adapter, Decoder, Fed, outcome_of_status};
use sobench_core::observation::{
    Advice, Observation, Outcome, Stage, TimeLimit, Timing, TransportCause,
};
use sobench_shutdown::Shutdown;

/// What all requests of a run share.
#[derive(Clone)]
pub(super) struct Sender {
    pub(super) client: Client,
    pub(super) adapter: Arc<dyn Adapter>,
    /// Whether the answers were asked for as streams.
    pub(super) stream: bool,
    pub(super) clock: Clock,
    pub(super) shutdown: Shutdown,
}

/// A request that is ready to go.
pub(super) struct Prepared {
    pub(super) index: usize,
    /// Completes `x-request-id`.
    pub(super) label: String,
    pub(super) due: Duration,
    pub(super) body: Body,
}

/// What there is to send.
#[derive(Clone)]
pub(super) enum Body {
    Bytes(Bytes),
    /// Nothing: this kind of server has no field for the constraint, in these words.
    Unsupported(Arc<str>),
}

/// Sends the request and observes what happens, within the time limits and until stopped. `thread`
/// is the number of the client's thread that this runs on.
pub(super) async fn observe(sender: &Sender, prepared: Prepared, thread: usize) -> Observation {
    let body = match prepared.body {
        Body::Bytes(body) => body,
        Body::Unsupported(what) => {
            return unsent(
                prepared.index,
                prepared.due,
                Outcome::Unsupported {
                    what: what.to_string(),
                },
            );
        }
    };
    let message = sender
        .client
        .message(body, sender.adapter.content_type(), &prepared.label);
    let decoder = sender.adapter.decoder(
        sender.stream,
        sender.client.options().limits.max_event_bytes,
    );
    let timing = Timing {
        due_ns: as_ns(prepared.due),
        ..Timing::default()
    };
    let heard = AtomicU64::new(sender.clock.now_ns());
    let mut exchange = Exchange {
        sender,
        timing,
        decoder,
        heard_ns: &heard,
        is_connected: false,
        refused: None,
        body_type: None,
    };
    let cut = unless_cut(exchange.run(message, thread), sender, &heard).await;
    let stage = exchange.stage();
    let Exchange {
        mut timing,
        decoder,
        refused,
        body_type,
        ..
    } = exchange;
    let has_ended = timing.end_ns.is_some();
    timing.end_ns.get_or_insert_with(|| sender.clock.now_ns());
    let mut decoded = decoder.into_decoded();
    debug_assert!(timing.is_in_order(), "{timing:?}");
    timing.chunk_tokens = std::mem::take(&mut decoded.chunk_tokens);
    let broke = match (cut, refused) {
        // The status says how it ended, however little of the body came.
        (_, Some(refused)) => Some(refused.outcome()),
        (Cut::Not(broke), None) => broke,
        // It had ended, and only its connection was waited for.
        (_, None) if has_ended => None,
        (Cut::Late(limit, after), None) => Some(Outcome::TimedOut {
            limit_ms: as_ms(after),
            limit,
            stage: Some(stage),
        }),
        (Cut::Stopped, None) => Some(Outcome::Cancelled),
    };
    Observation {
        case_index: prepared.index,
        outcome: broke.unwrap_or_else(|| of_type(decoded.outcome(), body_type, sender)),
        timing,
        answer: decoded.answer,
        finish_reason: decoded.finish_reason,
        usage: decoded.usage,
    }
}

/// Where something else came than the stream that was asked for, and cannot be read, what it was
/// called is half of why.
fn of_type(outcome: Outcome, body_type: Option<String>, sender: &Sender) -> Outcome {
    match (outcome, body_type) {
        (Outcome::StreamError { message }, Some(body_type)) => {
            let asked = sender.adapter.stream_media_type();
            Outcome::StreamError {
                message: format!("{body_type} came where {asked} was asked for: {message}"),
            }
        }
        (outcome, _) => outcome,
    }
}

fn as_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Whether an exchange came to its own end, which may be an outcome.
enum Cut {
    Not(Option<Outcome>),
    Stopped,
    Late(TimeLimit, Duration),
}

/// The exchange's end, unless it is stopped or a time limit runs out. `heard_ns` is when a byte of
/// the answer came last.
///
/// The exchange is polled for every piece of an answer. The others only arm their wake-ups at
/// first, and are asked again when they have something to say, which costs next to nothing to see.
/// The idle limit's is not put off for every piece: when it rings, it is set again for what is left
/// since the latest.
async fn unless_cut(
    exchange: impl Future<Output = Option<Outcome>>,
    sender: &Sender,
    heard_ns: &AtomicU64,
) -> Cut {
    let options = sender.client.options();
    let limit = options.request_timeout.unwrap_or(DEFAULT_REQUEST_TIMEOUT);
    let shutdown = &sender.shutdown;
    let mut exchange = pin!(exchange);
    let mut cut = pin!(shutdown.cut_off(options.limits.drain_timeout));
    let mut late = pin!(tokio::time::sleep(limit));
    let mut quiet = pin!(tokio::time::sleep(options.idle_timeout.unwrap_or(limit)));
    let mut is_armed = false;
    poll_fn(|cx| {
        if let Poll::Ready(end) = exchange.as_mut().poll(cx) {
            return Poll::Ready(Cut::Not(end));
        }
        if (!is_armed || shutdown.is_requested()) && cut.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Cut::Stopped);
        }
        if (!is_armed || late.is_elapsed()) && late.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Cut::Late(TimeLimit::Request, limit));
        }
        if let Some(idle) = options.idle_timeout
            && (!is_armed || quiet.is_elapsed())
        {
            while quiet.as_mut().poll(cx).is_ready() {
                let silent_ns = sender
                    .clock
                    .now_ns()
                    .saturating_sub(heard_ns.load(Ordering::Relaxed));
                match idle.checked_sub(Duration::from_nanos(silent_ns)) {
                    None | Some(Duration::ZERO) => {
                        return Poll::Ready(Cut::Late(TimeLimit::Idle, idle));
                    }
                    Some(left) => quiet.set(tokio::time::sleep(left)),
                }
            }
        }
        is_armed = true;
        Poll::Pending
    })
    .await
}

/// A request under way; what has come so far outlives being cut off.
struct Exchange<'a> {
    sender: &'a Sender,
    timing: Timing,
    decoder: Box<dyn Decoder>,
    /// When a byte of the answer came last; before that, when the request was sent.
    heard_ns: &'a AtomicU64,
    is_connected: bool,
    /// Set where the status is not 200.
    refused: Option<Refused>,
    /// What came, in words of its own account, where a stream was asked for and did not come.
    body_type: Option<String>,
}

/// An answer that is none: what there is of it.
struct Refused {
    status: StatusCode,
    advice: Option<Advice>,
    body: Vec<u8>,
    limit: usize,
    /// The time that its body had, and did not end in.
    late: Option<Duration>,
}

impl Refused {
    /// The server's own words, and a note where they were cut.
    fn outcome(self) -> Outcome {
        let Self {
            status,
            advice,
            body,
            limit,
            late,
        } = self;
        let words = match body.get(..limit) {
            Some(kept) if kept.len() < body.len() => format!(
                "{}... (cut at {limit} bytes)",
                String::from_utf8_lossy(kept)
            ),
            _ => {
                let cut = late.map_or_else(String::new, |time| {
                    format!("... (cut after {} s)", time.as_secs_f64())
                });
                format!("{}{cut}", String::from_utf8_lossy(&body))
            }
        };
        outcome_of_status(status.as_u16(), words, advice)
    }
}

impl Exchange<'_> {
    /// Runs to the end; `None` where the answer itself says how it ended.
    async fn run(&mut self, message: Message, thread: usize) -> Option<Outcome> {
        let clock = self.sender.clock;
        // Where no connection is to be had, this is when it was tried.
        self.timing.sent_ns = Some(clock.now_ns());
        let way = self.sender.client.way(thread).await;
        self.is_connected = way.is_ok();
        let mut sent = || {
            let now_ns = clock.now_ns();
            self.timing.sent_ns = Some(now_ns);
            self.heard_ns.store(now_ns, Ordering::Relaxed);
        };
        let response = match way {
            Ok(way) => way.send(message, &mut sent).await,
            Err(error) => Err(Broken::Connect(error)),
        };
        let mut response = match response {
            Ok(response) => response,
            Err(broken) => return Some(self.broken_off(broken)),
        };
        let at_ns = self.arrived(&response);
        self.timing.headers_ns = Some(at_ns);
        self.heard_ns.store(at_ns, Ordering::Relaxed);
        let head = response.head();
        if head.status != StatusCode::OK {
            self.read_refusal(response).await;
            return None;
        }
        self.timing.streamed =
            self.sender.stream && head.is_of_type(self.sender.adapter.stream_media_type());
        if self.sender.stream && !self.timing.streamed {
            // Asked for a stream and got something else: a whole answer if it reads as one, a
            // stream error if it does not.
            self.decoder = self
                .sender
                .adapter
                .decoder(false, self.limits().max_event_bytes);
            let of_no_type = || "something without a content type".to_owned();
            self.body_type = Some(
                head.content_type
                    .as_ref()
                    .map_or_else(of_no_type, |name| format!("{name:?}")),
            );
        }
        self.read(response).await
    }

    /// When the bytes came that were read last, since the begin. Never before what came before
    /// them: the kernel's stamps and the client's clock are two clocks, and agree to some
    /// microseconds.
    fn arrived(&self, response: &Response) -> u64 {
        let at_ns = self.sender.clock.since_begin_ns(response.arrived_ns());
        let earlier = [
            self.timing.sent_ns,
            self.timing.headers_ns,
            self.timing.last_content_ns(),
        ];
        at_ns.max(earlier.into_iter().flatten().max().unwrap_or(0))
    }

    fn limits(&self) -> &Limits {
        &self.sender.client.options().limits
    }

    /// The timed path: the bytes of each piece go to the decoder where they lie, and what they
    /// bring has the piece's instant.
    ///
    /// A piece is at most one read from the socket; events in one piece share its instant.
    async fn read(&mut self, mut response: Response) -> Option<Outcome> {
        let max_body_bytes = self.limits().max_body_bytes;
        let mut received = 0;
        loop {
            let mut fed = Fed::default();
            let decoder = &mut self.decoder;
            let mut take = |bytes: &[u8]| {
                received += bytes.len();
                if received <= max_body_bytes {
                    fed.merge(decoder.push(bytes));
                }
            };
            let piece = response.piece(&mut take).await;
            if let Ok(false) = piece {
                fed.merge(self.decoder.finish());
            }
            let at = self.arrived(&response);
            self.heard_ns.store(at, Ordering::Relaxed);
            self.timing
                .chunks_ns
                .extend(std::iter::repeat_n(at, fed.content_chunks));
            self.timing.first_reasoning_ns = self
                .timing
                .first_reasoning_ns
                .or(fed.reasoning.then_some(at));
            self.timing.first_answer_ns = self.timing.first_answer_ns.or(fed.answer.then_some(at));
            match piece {
                Err(broken) => return Some(self.broken_off(broken)),
                Ok(_) if received > max_body_bytes => {
                    let message = format!("a body larger than {max_body_bytes} bytes");
                    return Some(Outcome::Transport {
                        cause: TransportCause::BodyTooLarge,
                        message,
                    });
                }
                Ok(_) if !fed.ended => {}
                Ok(has_more) => {
                    self.timing.end_ns = Some(at);
                    linger(response, !has_more, self.limits()).await;
                    return None;
                }
            }
        }
    }

    /// Reads the body of an answer that is not 200. One that breaks off, or takes too long, is kept
    /// as far as it came: the status is what counts.
    async fn read_refusal(&mut self, mut response: Response) {
        let Limits {
            max_error_body_bytes: limit,
            refusal_timeout,
            ..
        } = *self.limits();
        let head = response.head();
        let (status, advice) = (head.status, head.advice.take());
        let refused = self.refused.insert(Refused {
            status,
            advice,
            body: Vec::new(),
            limit,
            late: None,
        });
        let body = &mut refused.body;
        let whole = async {
            while let Ok(true) = response
                .piece(&mut |bytes| body.extend_from_slice(bytes))
                .await
            {
                self.heard_ns
                    .store(self.sender.clock.now_ns(), Ordering::Relaxed);
                if body.len() > limit {
                    break;
                }
            }
        };
        if tokio::time::timeout(refusal_timeout, whole).await.is_err() {
            refused.late = Some(refusal_timeout);
        }
        self.timing.end_ns = Some(self.sender.clock.now_ns());
        response.keep_connection();
    }

    /// How far it has come.
    fn stage(&self) -> Stage {
        match (
            self.timing.headers_ns,
            self.timing.streamed,
            self.timing.chunks_ns.is_empty(),
        ) {
            (None, _, _) if !self.is_connected => Stage::Connecting,
            (None, _, _) => Stage::BeforeHeaders,
            (Some(_), false, _) => Stage::MidBody,
            (Some(_), true, true) => Stage::BeforeFirstToken,
            (Some(_), true, false) => Stage::MidStream,
        }
    }

    fn broken_off(&mut self, broken: Broken) -> Outcome {
        self.timing.end_ns = Some(self.sender.clock.now_ns());
        broken.outcome()
    }
}

/// Reads what follows the terminal event, which is nothing from an orderly server, so that the
/// connection can be used again. One that has more to say, or does not end, loses the connection.
async fn linger(mut response: Response, is_whole: bool, limits: &Limits) {
    // Either way the answer is known already.
    if is_whole
        || matches!(
            tokio::time::timeout(limits.linger, is_drained(&mut response, limits)).await,
            Ok(true)
        )
    {
        response.keep_connection();
    }
}

/// Reads to the end of the body; `false` where it is longer than any end of a stream.
async fn is_drained(response: &mut Response, limits: &Limits) -> bool {
    let mut received = 0;
    while let Ok(true) = response.piece(&mut |bytes| received += bytes.len()).await {
        if received > limits.max_event_bytes {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DriverOptions, Endpoint};
    use sobench_backend::{ServerKind, adapter};

    /// Who sends to a server with these options, and is never stopped.
    fn sender(options: DriverOptions) -> Sender {
        Sender {
            client: Client::new(options).expect("the address is one"),
            adapter: adapter(ServerKind::Vllm).into(),
            stream: true,
            clock: Clock::start(),
            shutdown: Shutdown::new(),
        }
    }

    /// How an exchange is cut that hears a byte every so many milliseconds, under an idle limit of
    /// 100 ms and one of 1 s on all. Time is tokio's own here, and stands still while anybody
    /// works.
    async fn cut_of(every_ms: u64) -> String {
        let endpoint = Endpoint {
            base_url: "http://127.0.0.1:9".to_owned(),
            path: "/".to_owned(),
            headers: vec![],
            api_key: None,
            insecure: false,
        };
        let request_timeout = Some(Duration::from_secs(1));
        let idle_timeout = Some(Duration::from_millis(100));
        let options = DriverOptions {
            request_timeout,
            idle_timeout,
            ..DriverOptions::plain(endpoint)
        };
        let sender = sender(options);
        let heard_ns = AtomicU64::new(0);
        let talking = async {
            loop {
                tokio::time::sleep(Duration::from_millis(every_ms)).await;
                heard_ns.store(sender.clock.now_ns(), Ordering::Relaxed);
            }
        };
        match unless_cut(talking, &sender, &heard_ns).await {
            Cut::Late(limit, _) => {
                format!("{limit:?} after {} ms", sender.clock.now_ns() / 1_000_000)
            }
            Cut::Not(_) | Cut::Stopped => "not late".to_owned(),
        }
    }

    #[tokio::test]
    async fn a_refusal_whose_body_does_not_end_gives_its_slot_back() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let base_url = format!("http://{}", listener.local_addr().unwrap());
        let (gone, is_gone) = std::sync::mpsc::channel::<()>();
        let server = std::thread::spawn(move || {
            use std::io::{Read as _, Write as _};
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]).unwrap();
            stream
                .write_all(b"HTTP/1.1 503 Full\r\ncontent-length: 99\r\n\r\nfull")
                .unwrap();
            let _ = is_gone.recv();
        });
        let endpoint = Endpoint {
            base_url,
            path: "/".to_owned(),
            headers: vec![],
            api_key: None,
            insecure: false,
        };
        let limits = Limits {
            refusal_timeout: Duration::from_secs(1),
            ..Limits::default()
        };
        let options = DriverOptions {
            limits,
            max_concurrency: Some(1),
            ..DriverOptions::plain(endpoint)
        };
        let sender = sender(options);
        let body = Body::Bytes(Bytes::from_static(b"{}"));
        let prepared = Prepared {
            index: 0,
            label: String::new(),
            due: Duration::ZERO,
            body,
        };
        let seen = observe(&sender, prepared, 0).await;
        let expected = Outcome::ServerError {
            status: 503,
            body: "full... (cut after 1 s)".to_owned(),
            advice: None,
        };
        assert_eq!(seen.outcome, expected);
        drop(gone);
        server.join().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn the_idle_limit_counts_from_the_latest_byte() {
        for (every_ms, expected) in [
            // Whoever keeps talking is cut by the other limit.
            (60, "Request after 1000 ms"),
            (99, "Request after 1000 ms"),
            (101, "Idle after 100 ms"),
            (5000, "Idle after 100 ms"),
        ] {
            // The timer's tick is a millisecond.
            let cut = cut_of(every_ms)
                .await
                .replace(" 1001 ", " 1000 ")
                .replace(" 101 ", " 100 ");
            assert_eq!(cut, expected, "a byte every {every_ms} ms");
        }
    }
}
