//! One request, from handing it to the HTTP client to the end of its answer. Knows no schedule and no constraint.

use std::error::Error as _;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Request, Response, StatusCode};

use super::client::{Client, DEFAULT_REQUEST_TIMEOUT, Limits, describe};
use super::clock::{Clock, as_ns};
use super::stop::Stop;
use crate::backend::{Adapter, Decoder, outcome_of_status};
use crate::observation::{Observation, Outcome, Timing, TransportCause};

/// What all requests of a run share.
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
    pub(super) body: Bytes,
}

/// Sends the request and observes what happens, within the request timeout and until stopped.
pub(super) async fn observe(sender: &Sender, prepared: Prepared) -> Observation {
    let options = sender.client.options();
    let limit = options.request_timeout.unwrap_or(DEFAULT_REQUEST_TIMEOUT);
    let request = sender.client.post(prepared.body, sender.adapter.content_type(), &prepared.label);
    let decoder = sender.adapter.decoder(sender.stream, options.limits.max_event_bytes);
    let timing = Timing { due_ns: as_ns(prepared.due), ..Timing::default() };
    let mut exchange = Exchange { sender, timing, decoder };
    let mut stop = sender.stop.clone();
    exchange.timing.sent_ns = Some(sender.clock.now_ns());
    let broke = tokio::select! {
        biased;
        broke = exchange.run(request) => broke,
        () = stop.cut(options.limits.drain_timeout) => Some(Outcome::Cancelled),
        () = tokio::time::sleep(limit) => Some(Outcome::TimedOut { limit_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX) }),
    };
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

/// A request under way; what has come so far outlives being cut off.
struct Exchange<'a> {
    sender: &'a Sender,
    timing: Timing,
    decoder: Box<dyn Decoder>,
}

impl Exchange<'_> {
    /// Runs to the end; `None` where the answer itself says how it ended.
    async fn run(&mut self, request: Request) -> Option<Outcome> {
        let mut response = match self.sender.client.http().execute(request).await {
            Ok(response) => response,
            Err(error) => return Some(self.broken_off(error)),
        };
        self.timing.headers_ns = Some(self.sender.clock.now_ns());
        if response.status() != StatusCode::OK {
            let body = self.error_body(&mut response).await;
            return Some(outcome_of_status(response.status().as_u16(), body));
        }
        self.timing.streamed = self.sender.stream && is_of_type(&response, self.sender.adapter.stream_media_type());
        if self.sender.stream && !self.timing.streamed {
            // Asked for a stream and got something else: a whole answer if it reads as one, a stream error if it does not.
            self.decoder = self.sender.adapter.decoder(false, self.sender.client.options().limits.max_event_bytes);
        }
        self.read(&mut response).await
    }

    /// The timed path: an instant for each piece that the HTTP client hands over, then the bytes to the decoder.
    ///
    /// A piece is at most one read from the socket and at most one chunk of the transfer coding; events in one piece share its
    /// instant.
    async fn read(&mut self, response: &mut Response) -> Option<Outcome> {
        let max_body_bytes = self.sender.client.options().limits.max_body_bytes;
        let mut received = 0;
        loop {
            let piece = response.chunk().await;
            let at = self.sender.clock.now_ns();
            let fed = match &piece {
                Ok(Some(bytes)) => {
                    received += bytes.len();
                    if received > max_body_bytes {
                        let message = format!("a body larger than {max_body_bytes} bytes");
                        return Some(Outcome::Transport { cause: TransportCause::BodyTooLarge, message });
                    }
                    self.decoder.push(bytes)
                }
                Ok(None) => self.decoder.finish(),
                Err(_) => Default::default(),
            };
            self.timing.chunks_ns.extend(std::iter::repeat_n(at, fed.content_chunks));
            self.timing.first_reasoning_ns = self.timing.first_reasoning_ns.or(fed.reasoning.then_some(at));
            self.timing.first_answer_ns = self.timing.first_answer_ns.or(fed.answer.then_some(at));
            match piece {
                Err(error) => return Some(self.broken_off(error)),
                Ok(_) if !fed.ended => {}
                Ok(piece) => {
                    self.timing.end_ns = Some(at);
                    if piece.is_some() {
                        linger(response, &self.sender.client.options().limits).await;
                    }
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
        while let Ok(Some(bytes)) = response.chunk().await {
            body.extend_from_slice(&bytes);
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

    fn broken_off(&mut self, error: reqwest::Error) -> Outcome {
        self.timing.end_ns = Some(self.sender.clock.now_ns());
        let error = error.without_url();
        Outcome::Transport { cause: transport_cause(&error), message: describe(&error) }
    }
}

/// Reads what follows the terminal event, which is nothing from an orderly server, so that the connection can be used again.
/// One that has more to say, or does not end, loses the connection.
async fn linger(response: &mut Response, limits: &Limits) {
    let drain = async {
        let mut received = 0;
        while let Ok(Some(bytes)) = response.chunk().await {
            received += bytes.len();
            if received > limits.max_event_bytes {
                break;
            }
        }
    };
    // Either way the answer is known already.
    let _ = tokio::time::timeout(limits.linger, drain).await;
}

fn is_of_type(response: &Response, media_type: &str) -> bool {
    let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case(media_type)
}

/// Finds the cause in the chain of sources: by type, never by words.
fn transport_cause(error: &reqwest::Error) -> TransportCause {
    if error.is_connect() {
        return TransportCause::Connect;
    }
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            match error.kind() {
                io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted | io::ErrorKind::BrokenPipe => {
                    return TransportCause::Reset;
                }
                io::ErrorKind::UnexpectedEof => return TransportCause::Closed,
                _ => {}
            }
        }
        if let Some(error) = error.downcast_ref::<hyper::Error>()
            && (error.is_incomplete_message() || error.is_closed() || error.is_canceled())
        {
            return TransportCause::Closed;
        }
        source = error.source();
    }
    TransportCause::Other
}
