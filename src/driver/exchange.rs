//! One request, from handing it to the HTTP client to the end of its answer. Knows no schedule and no constraint.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use reqwest::StatusCode;

use super::client::{Client, DEFAULT_REQUEST_TIMEOUT, Limits};
use super::clock::{Clock, as_ns};
use super::dispatch::unsent;
use super::stop::Stop;
use super::way::{Broken, Message, Response};
use crate::backend::{Adapter, Decoder, Fed, outcome_of_status};
use crate::observation::{Observation, Outcome, Timing, TransportCause};

/// What all requests of a run share.
#[derive(Clone)]
pub(super) struct Sender {
    pub(super) client: Client,
    pub(super) adapter: Arc<dyn Adapter>,
    /// Whether the answers were asked for as streams.
    pub(super) stream: bool,
    pub(super) clock: Clock,
    pub(super) stop: Stop,
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

/// Sends the request and observes what happens, within the request timeout and until stopped. `thread` is the number of the
/// client's thread that this runs on.
pub(super) async fn observe(sender: &Sender, prepared: Prepared, thread: usize) -> Observation {
    let body = match prepared.body {
        Body::Bytes(body) => body,
        Body::Unsupported(what) => {
            return unsent(prepared.index, prepared.due, Outcome::Unsupported { what: what.to_string() });
        }
    };
    let options = sender.client.options();
    let limit = options.request_timeout.unwrap_or(DEFAULT_REQUEST_TIMEOUT);
    let message = sender.client.message(body, sender.adapter.content_type(), &prepared.label);
    let decoder = sender.adapter.decoder(sender.stream, options.limits.max_event_bytes);
    let timing = Timing { due_ns: as_ns(prepared.due), ..Timing::default() };
    let mut exchange = Exchange { sender, timing, decoder };
    let broke = unless_cut(exchange.run(message, thread), &sender.stop, options.limits.drain_timeout, limit).await;
    let Exchange { mut timing, decoder, .. } = exchange;
    timing.end_ns.get_or_insert_with(|| sender.clock.now_ns());
    let mut answer = decoder.into_answer();
    debug_assert!(timing.is_in_order(), "{timing:?}");
    timing.chunk_tokens = std::mem::take(&mut answer.chunk_tokens);
    Observation {
        case_index: prepared.index,
        outcome: broke.unwrap_or_else(|| answer.outcome()),
        timing,
        text: answer.text,
        reasoning: answer.reasoning,
        finish_reason: answer.finish_reason,
        usage: answer.usage,
    }
}

/// The exchange's end, unless it is stopped or takes longer than `limit`.
///
/// The exchange is polled for every piece of an answer. The other two only arm their wake-ups at first, and are asked again when
/// they have something to say, which costs next to nothing to see.
async fn unless_cut(
    exchange: impl Future<Output = Option<Outcome>>,
    stop: &Stop,
    drain_timeout: Duration,
    limit: Duration,
) -> Option<Outcome> {
    let mut listener = stop.clone();
    let mut exchange = pin!(exchange);
    let mut cut = pin!(listener.cut(drain_timeout));
    let mut late = pin!(tokio::time::sleep(limit));
    let mut is_armed = false;
    poll_fn(|cx| {
        if let Poll::Ready(end) = exchange.as_mut().poll(cx) {
            return Poll::Ready(end);
        }
        if (!is_armed || stop.is_signalled()) && cut.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Some(Outcome::Cancelled));
        }
        if (!is_armed || late.is_elapsed()) && late.as_mut().poll(cx).is_ready() {
            let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
            return Poll::Ready(Some(Outcome::TimedOut { limit_ms }));
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
}

impl Exchange<'_> {
    /// Runs to the end; `None` where the answer itself says how it ended.
    async fn run(&mut self, message: Message, thread: usize) -> Option<Outcome> {
        let clock = self.sender.clock;
        // Where no connection is to be had, this is when it was tried.
        self.timing.sent_ns = Some(clock.now_ns());
        let response = match self.sender.client.way(thread).await {
            Ok(way) => way.send(message, || self.timing.sent_ns = Some(clock.now_ns())).await,
            Err(error) => Err(Broken::Connect(error)),
        };
        let mut response = match response {
            Ok(response) => response,
            Err(broken) => return Some(self.broken_off(broken)),
        };
        self.timing.headers_ns = Some(self.arrived(&response));
        if response.status() != StatusCode::OK {
            let body = self.error_body(&mut response).await;
            let status = response.status().as_u16();
            response.keep_connection();
            return Some(outcome_of_status(status, body));
        }
        self.timing.streamed = self.sender.stream && response.is_of_type(self.sender.adapter.stream_media_type());
        if self.sender.stream && !self.timing.streamed {
            // Asked for a stream and got something else: a whole answer if it reads as one, a stream error if it does not.
            self.decoder = self.sender.adapter.decoder(false, self.limits().max_event_bytes);
        }
        self.read(response).await
    }

    /// When the bytes came that were read last, since the begin. Never before what came before them: the kernel's stamps and the
    /// client's clock are two clocks, and agree to some microseconds.
    fn arrived(&self, response: &Response) -> u64 {
        let at_ns = self.sender.clock.since_begin_ns(response.arrived_ns());
        let earlier = [self.timing.sent_ns, self.timing.headers_ns, self.timing.last_content_ns()];
        at_ns.max(earlier.into_iter().flatten().max().unwrap_or(0))
    }

    fn limits(&self) -> &Limits {
        &self.sender.client.options().limits
    }

    /// The timed path: the bytes of each piece go to the decoder where they lie, and what they bring has the piece's instant.
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
            self.timing.chunks_ns.extend(std::iter::repeat_n(at, fed.content_chunks));
            self.timing.first_reasoning_ns = self.timing.first_reasoning_ns.or(fed.reasoning.then_some(at));
            self.timing.first_answer_ns = self.timing.first_answer_ns.or(fed.answer.then_some(at));
            match piece {
                Err(broken) => return Some(self.broken_off(broken)),
                Ok(_) if received > max_body_bytes => {
                    let message = format!("a body larger than {max_body_bytes} bytes");
                    return Some(Outcome::Transport { cause: TransportCause::BodyTooLarge, message });
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

    /// The body of an answer that is not 200: the server's own words, and a note where they were cut.
    async fn error_body(&mut self, response: &mut Response) -> String {
        let limit = self.sender.client.options().limits.max_error_body_bytes;
        let mut body = Vec::new();
        // A body that breaks off is kept as far as it came: the status is what counts.
        while let Ok(true) = response.piece(&mut |bytes| body.extend_from_slice(bytes)).await {
            if body.len() > limit {
                break;
            }
        }
        self.timing.end_ns = Some(self.sender.clock.now_ns());
        if body.len() <= limit {
            return String::from_utf8_lossy(&body).into_owned();
        }
        format!("{}... (cut at {limit} bytes)", String::from_utf8_lossy(&body[..limit]))
    }

    fn broken_off(&mut self, broken: Broken) -> Outcome {
        self.timing.end_ns = Some(self.sender.clock.now_ns());
        broken.outcome()
    }
}

/// Reads what follows the terminal event, which is nothing from an orderly server, so that the connection can be used again.
/// One that has more to say, or does not end, loses the connection.
async fn linger(mut response: Response, is_whole: bool, limits: &Limits) {
    // Either way the answer is known already.
    if is_whole || matches!(tokio::time::timeout(limits.linger, is_drained(&mut response, limits)).await, Ok(true)) {
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
