//! One timed HTTP exchange, from sending the request to the end of the response.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use reqwest::StatusCode;

use super::client::{Client, DEFAULT_REQUEST_TIMEOUT, Limits};
use super::clock::{Clock, as_ns};
use super::dispatch::unsent;
use super::pooled_connection::{ExchangeError, OutgoingMessage, Response};
use sobench_backend::{Adapter, Decoder, ReadSummary, StreamFault, outcome_of_status};
use sobench_core::channel_timing::ChannelTiming;
use sobench_core::load::CancelAfter;
use sobench_core::observation::{
    Advice, Observation, Outcome, Stage, TimeLimit, Timing, TransportCause,
};
use sobench_core::run_event::AnswerForm;
use sobench_shutdown::Shutdown;

/// State that all requests of a run share.
#[derive(Clone)]
pub(super) struct Sender {
    pub(super) client: Client,
    pub(super) adapter: Arc<dyn Adapter>,
    pub(super) clock: Clock,
    pub(super) shutdown: Shutdown,
}

impl Sender {
    /// A decoder of a stream or of a whole body.
    fn decoder(&self, is_stream: bool) -> Box<dyn Decoder> {
        let settings = self.client.options();
        let mut decoder = self
            .adapter
            .decoder(is_stream, settings.limits.max_event_bytes);
        if settings.keeps_frames {
            decoder.keep_frames();
        }
        decoder
    }
}

/// An encoded request.
pub(super) struct Prepared {
    pub(super) index: usize,
    /// Completes `x-request-id`.
    pub(super) label: String,
    pub(super) due: Duration,
    pub(super) body: Body,
    /// When the connection is closed; `None` to wait for the end of the response.
    pub(super) cancel_after: Option<CancelAfter>,
    /// The number of its session in the run, for a header.
    pub(super) session: Option<usize>,
}

/// The body of a request.
#[derive(Clone)]
pub(super) enum Body {
    Bytes(Bytes, AnswerForm),
    /// Nothing is sent, because this kind of server does not support the constraint; the reason.
    Unsupported(Arc<str>),
}

/// Sends the request and records what happens, within the timeouts and until a shutdown. `thread`
/// is the index of the client thread that this runs on.
pub(super) async fn observe(sender: &Sender, prepared: Prepared, thread: usize) -> Observation {
    let (body, form) = match prepared.body {
        Body::Bytes(body, form) => (body, form),
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
    let ids = (&*prepared.label, prepared.session);
    let message = sender
        .client
        .message(body, sender.adapter.content_type(), ids);
    let decoder = sender.decoder(form == AnswerForm::Streamed);
    let timing = Timing {
        due_ns: as_ns(prepared.due),
        ..Timing::default()
    };
    let last_byte = AtomicU64::new(sender.clock.now_ns());
    let mut exchange = Exchange {
        sender,
        form,
        timing,
        decoder,
        last_byte_ns: &last_byte,
        ends_at_first_token: prepared.cancel_after == Some(CancelAfter::FirstToken),
        is_connected: false,
        error_response: None,
        body_type: None,
    };
    let cancel_time = prepared.cancel_after.and_then(CancelAfter::time);
    let ended_by = {
        let run = pin!(exchange.run(message, thread));
        run_with_limits(run, sender, cancel_time, &last_byte).await
    };
    let stage = exchange.stage();
    let Exchange {
        mut timing,
        decoder,
        error_response,
        body_type,
        ..
    } = exchange;
    let has_ended = timing.end_ns.is_some();
    timing.end_ns.get_or_insert_with(|| sender.clock.now_ns());
    let mut decoded = decoder.into_decoded();
    debug_assert!(timing.is_in_order(), "{timing:?}");
    timing.chunk_tokens = std::mem::take(&mut decoded.chunk_tokens);
    timing.server = decoded.server_times;
    if timing.streamed {
        timing.channels = ChannelTiming::new(&decoded.parts, &timing.chunks_ns);
    }
    let outcome = match (ended_by, error_response) {
        // The status decides, even if the body is incomplete.
        (_, Some(error_response)) => Some(error_response.outcome()),
        (ExchangeEnd::Finished(outcome), None) => outcome,
        // The response was complete, and only the end of the body was awaited.
        (_, None) if has_ended => None,
        (ExchangeEnd::TimedOutBy(limit, after), None) => Some(Outcome::TimedOut {
            limit_ms: as_ms(after),
            limit,
            stage: Some(stage),
        }),
        (ExchangeEnd::Stopped, None) => Some(Outcome::Cancelled),
        (ExchangeEnd::Abandoned, None) => Some(Outcome::Abandoned),
    };
    Observation {
        case_index: prepared.index,
        outcome: outcome.unwrap_or_else(|| with_body_type(decoded.outcome(), body_type, sender)),
        timing,
        answer: decoded.answer,
        finish_reason: decoded.finish_reason,
        usage: decoded.usage,
    }
}

/// Adds the content type to the error if the response was not the requested stream and the error
/// does not say more.
fn with_body_type(outcome: Outcome, body_type: Option<String>, sender: &Sender) -> Outcome {
    match (outcome, body_type) {
        (Outcome::StreamError { message }, Some(body_type))
            if StreamFault::from_message(&message).is_none() =>
        {
            let expected = sender.adapter.stream_media_type();
            Outcome::StreamError {
                message: format!("expected {expected}, got {body_type}: {message}"),
            }
        }
        (outcome, _) => outcome,
    }
}

fn as_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// How an exchange ended.
enum ExchangeEnd {
    Finished(Option<Outcome>),
    Stopped,
    /// The time of a planned cancellation was reached.
    Abandoned,
    TimedOutBy(TimeLimit, Duration),
}

/// Runs the exchange until it ends, a shutdown stops it, `cancel_time` has passed or a timeout
/// expires. `last_byte_ns` is when the last byte of the response arrived. The exchange is polled
/// for every read. The timers are polled once to arm them, and again only when one can have fired:
/// with thousands of streams, none of them is in the processor's cache. The idle timer is not reset
/// for every read: when it fires, it is set again for the time that is left since the last byte.
async fn run_with_limits(
    mut exchange: Pin<&mut impl Future<Output = Option<Outcome>>>,
    sender: &Sender,
    cancel_time: Option<Duration>,
    last_byte_ns: &AtomicU64,
) -> ExchangeEnd {
    let options = sender.client.options();
    let limit = options.request_timeout.unwrap_or(DEFAULT_REQUEST_TIMEOUT);
    let shutdown = &sender.shutdown;
    let mut stop = pin!(shutdown.cut_off(options.limits.drain_timeout));
    let mut request_timer = pin!(tokio::time::sleep(limit));
    let mut idle_timer = pin!(tokio::time::sleep(options.idle_timeout.unwrap_or(limit)));
    let mut cancel_timer = pin!(tokio::time::sleep(cancel_time.unwrap_or(limit)));
    let mut is_armed = false;
    // No timer fires before this instant.
    let mut next_timer_ns = 0;
    poll_fn(|cx| {
        if let Poll::Ready(end) = exchange.as_mut().poll(cx) {
            return Poll::Ready(ExchangeEnd::Finished(end));
        }
        if (!is_armed || shutdown.is_requested()) && stop.as_mut().poll(cx).is_ready() {
            return Poll::Ready(ExchangeEnd::Stopped);
        }
        if sender.clock.now_ns() < next_timer_ns {
            return Poll::Pending;
        }
        if cancel_time.is_some()
            && (!is_armed || cancel_timer.is_elapsed())
            && cancel_timer.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(ExchangeEnd::Abandoned);
        }
        if (!is_armed || request_timer.is_elapsed()) && request_timer.as_mut().poll(cx).is_ready() {
            return Poll::Ready(ExchangeEnd::TimedOutBy(TimeLimit::Request, limit));
        }
        if let Some(idle) = options.idle_timeout
            && (!is_armed || idle_timer.is_elapsed())
        {
            while idle_timer.as_mut().poll(cx).is_ready() {
                let silent_ns = sender
                    .clock
                    .now_ns()
                    .saturating_sub(last_byte_ns.load(Ordering::Relaxed));
                match idle.checked_sub(Duration::from_nanos(silent_ns)) {
                    None | Some(Duration::ZERO) => {
                        return Poll::Ready(ExchangeEnd::TimedOutBy(TimeLimit::Idle, idle));
                    }
                    Some(left) => idle_timer.set(tokio::time::sleep(left)),
                }
            }
        }
        is_armed = true;
        let timers = [
            Some(&request_timer),
            options.idle_timeout.is_some().then_some(&idle_timer),
            cancel_time.is_some().then_some(&cancel_timer),
        ];
        let next_timer = timers.into_iter().flatten().map(|timer| timer.deadline());
        next_timer_ns = next_timer.min().map_or(0, |at| sender.clock.instant_ns(at));
        Poll::Pending
    })
    .await
}

/// An exchange in progress. Its data so far remains available if it is stopped.
struct Exchange<'a> {
    sender: &'a Sender,
    form: AnswerForm,
    timing: Timing,
    decoder: Box<dyn Decoder>,
    /// When the last byte of the response arrived; before that, when the request was sent.
    last_byte_ns: &'a AtomicU64,
    /// Whether the connection is closed after the first content of a stream.
    ends_at_first_token: bool,
    is_connected: bool,
    /// Set if the status is not 200.
    error_response: Option<ErrorResponse>,
    /// The content type, if a stream was requested and the response is none.
    body_type: Option<String>,
}

/// A response with a status other than 200.
struct ErrorResponse {
    status: StatusCode,
    content_encoding: Option<String>,
    advice: Option<Advice>,
    body: Vec<u8>,
    limit: usize,
    /// The timeout that its body exceeded.
    expired_after: Option<Duration>,
}

impl ErrorResponse {
    /// The outcome with the server's message, and a note if it was cut.
    fn outcome(self) -> Outcome {
        let Self {
            status,
            content_encoding,
            advice,
            body,
            limit,
            expired_after,
        } = self;
        if let Some(coding) = content_encoding.filter(|_| !body.is_empty()) {
            let message = StreamFault::Compressed.message(&coding);
            return outcome_of_status(status.as_u16(), message, advice);
        }
        let message = match body.get(..limit) {
            Some(kept) if kept.len() < body.len() => format!(
                "{}... (cut at {limit} bytes)",
                String::from_utf8_lossy(kept)
            ),
            _ => {
                let note = expired_after.map_or_else(String::new, |time| {
                    format!("... (cut after {} s)", time.as_secs_f64())
                });
                format!("{}{note}", String::from_utf8_lossy(&body))
            }
        };
        outcome_of_status(status.as_u16(), message, advice)
    }
}

impl Exchange<'_> {
    /// Runs to the end; `None` if the decoder determines the outcome.
    async fn run(&mut self, message: OutgoingMessage, thread: usize) -> Option<Outcome> {
        let clock = self.sender.clock;
        // If no connection can be made, this is the time of the attempt.
        self.timing.sent_ns = Some(clock.now_ns());
        let connection = self.sender.client.take_connection(thread).await;
        self.is_connected = connection.is_ok();
        let mut sent = || {
            let now_ns = clock.now_ns();
            self.timing.sent_ns = Some(now_ns);
            self.last_byte_ns.store(now_ns, Ordering::Relaxed);
        };
        let response = match connection {
            Ok(connection) => connection.send(message, &mut sent).await,
            Err(error) => Err(ExchangeError::Connect(error)),
        };
        let mut response = match response {
            Ok(response) => response,
            Err(error) => return Some(self.failed(error)),
        };
        let handed_over_ns = clock.since_start_ns(response.handed_over_ns());
        self.timing.send_call_ns = self
            .timing
            .sent_ns
            .map(|sent_ns| handed_over_ns.saturating_sub(sent_ns));
        self.timing.arrival_slack_ns = Some(Vec::new());
        let at_ns = self.arrived(&response);
        self.timing.headers_ns = Some(at_ns);
        let head = response.head();
        if head.status != StatusCode::OK {
            Box::pin(self.read_error_body(response)).await;
            return None;
        }
        if let Some(coding) = &head.content_encoding {
            // Not decoded: decompression would be in the timed path, and the compressing server has
            // already changed when events arrive.
            let message = StreamFault::Compressed.message(coding);
            self.timing.end_ns = Some(self.sender.clock.now_ns());
            return Some(Outcome::StreamError { message });
        }
        let is_stream = self.form == AnswerForm::Streamed;
        self.timing.streamed =
            is_stream && head.is_of_type(self.sender.adapter.stream_media_type());
        if is_stream && !self.timing.streamed {
            // Not the requested stream: decoded as a whole response, or a stream error.
            self.decoder = self.sender.decoder(false);
            let no_type = || "no content type".to_owned();
            self.body_type = Some(
                head.content_type
                    .as_ref()
                    .map_or_else(no_type, |name| format!("{name:?}")),
            );
        }
        self.read(response).await
    }

    /// When the bytes of the last read arrived, since the start. Never before earlier instants: the
    /// kernel's stamps and the client's clock agree only to some microseconds.
    fn arrived(&self, response: &Response) -> u64 {
        let at_ns = self.sender.clock.since_start_ns(response.arrived_ns());
        let at_ns = at_ns.max(self.last_byte_ns.load(Ordering::Relaxed));
        self.last_byte_ns.store(at_ns, Ordering::Relaxed);
        at_ns
    }

    /// Records how much earlier the next chunks can have arrived. If it is unknown for one read, it
    /// is unknown for the request.
    fn add_slack(&mut self, slack_ns: Option<u64>) {
        let next = self.timing.chunks_ns.len();
        match (&mut self.timing.arrival_slack_ns, slack_ns) {
            (_, Some(0)) => {}
            (Some(entries), Some(slack_ns)) => entries.push((next, slack_ns)),
            (entries, _) => *entries = None,
        }
    }

    fn limits(&self) -> &Limits {
        &self.sender.client.options().limits
    }

    /// The timed path: passes the bytes of each read to the decoder without a copy, and stamps the
    /// content with the instant of the read. Events in one read share its instant.
    async fn read(&mut self, mut response: Response) -> Option<Outcome> {
        let max_body_bytes = self.limits().max_body_bytes;
        let mut received = 0;
        loop {
            let mut fed = ReadSummary::default();
            let mut slices = 0;
            let decoder = &mut self.decoder;
            let mut take = |bytes: &[u8]| {
                slices += 1;
                received += bytes.len();
                if received <= max_body_bytes {
                    fed.merge(decoder.push(bytes));
                }
            };
            let piece = response.piece(&mut take).await;
            if let Ok(false) = piece {
                fed.merge(self.decoder.finish());
            }
            let at_ns = self.arrived(&response);
            if fed.content_chunks > 0 {
                self.add_slack(response.arrival_slack_ns(slices));
            }
            self.timing
                .chunks_ns
                .extend(std::iter::repeat_n(at_ns, fed.content_chunks));
            self.timing.first_reasoning_ns = self
                .timing
                .first_reasoning_ns
                .or(fed.reasoning.then_some(at_ns));
            self.timing.first_answer_ns =
                self.timing.first_answer_ns.or(fed.answer.then_some(at_ns));
            self.timing.first_arguments_ns = self
                .timing
                .first_arguments_ns
                .or(fed.arguments.then_some(at_ns));
            match piece {
                Err(error) => return Some(self.failed(error)),
                Ok(_) if received > max_body_bytes => {
                    let message = format!("the response body exceeds {max_body_bytes} bytes");
                    return Some(Outcome::Transport {
                        cause: TransportCause::BodyTooLarge,
                        message,
                    });
                }
                Ok(_) if !fed.ended && self.is_at_planned_end() => {
                    return Some(Outcome::Abandoned);
                }
                Ok(_) if !fed.ended => {}
                Ok(has_more) => {
                    self.timing.end_ns = Some(at_ns);
                    Box::pin(drain_body(response, !has_more, self.limits())).await;
                    return None;
                }
            }
        }
    }

    /// Reads the body of a response with a status other than 200. An incomplete body is kept, as
    /// the status decides.
    async fn read_error_body(&mut self, mut response: Response) {
        let Limits {
            max_error_body_bytes: limit,
            refusal_timeout,
            ..
        } = *self.limits();
        let head = response.head();
        let (status, advice) = (head.status, head.advice.take());
        let content_encoding = head.content_encoding.take();
        let error_response = self.error_response.insert(ErrorResponse {
            status,
            content_encoding,
            advice,
            body: Vec::new(),
            limit,
            expired_after: None,
        });
        let body = &mut error_response.body;
        let whole = async {
            while let Ok(true) = response
                .piece(&mut |bytes| body.extend_from_slice(bytes))
                .await
            {
                self.last_byte_ns
                    .store(self.sender.clock.now_ns(), Ordering::Relaxed);
                if body.len() > limit {
                    break;
                }
            }
        };
        if tokio::time::timeout(refusal_timeout, whole).await.is_err() {
            error_response.expired_after = Some(refusal_timeout);
        }
        self.timing.end_ns = Some(self.sender.clock.now_ns());
        response.keep_connection();
    }

    /// Whether the first content of a stream has arrived, where the plan ends the request.
    fn is_at_planned_end(&self) -> bool {
        self.ends_at_first_token && self.timing.streamed && !self.timing.chunks_ns.is_empty()
    }

    /// The current stage.
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

    fn failed(&mut self, error: ExchangeError) -> Outcome {
        self.timing.end_ns = Some(self.sender.clock.now_ns());
        let mut outcome = error.outcome();
        if let (Outcome::Transport { message, .. }, Some(_)) =
            (&mut outcome, self.timing.headers_ns)
        {
            message.push_str(&format!(", {}", self.stage().phrase()));
        }
        outcome
    }
}

/// Reads to the end of the body after the terminal event, so that the connection can be reused. If
/// the body does not end, the connection is closed.
async fn drain_body(mut response: Response, is_whole: bool, limits: &Limits) {
    // The answer is complete either way.
    if is_whole
        || matches!(
            tokio::time::timeout(limits.linger, is_drained(&mut response, limits)).await,
            Ok(true)
        )
    {
        response.keep_connection();
    }
}

/// Reads to the end of the body; `false` if it is too long for the end of a stream.
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
    use crate::{ClientSettings, Endpoint};
    use sobench_backend::{ServerKind, adapter};

    /// A sender with these options that is never stopped.
    fn sender(options: ClientSettings) -> Sender {
        Sender {
            client: Client::new(options).expect("the address is one"),
            adapter: adapter(ServerKind::Vllm).into(),
            clock: Clock::start(),
            shutdown: Shutdown::new(),
        }
    }

    fn endpoint() -> Endpoint {
        Endpoint {
            base_url: "http://127.0.0.1:9".to_owned(),
            path: "/".to_owned(),
            headers: vec![],
            api_key: None,
            ..Endpoint::default()
        }
    }

    /// The timeout that ends an exchange with a byte every `every_ms`, with an idle timeout of 100
    /// ms and a request timeout of 1 s. Time is tokio's paused clock.
    async fn timeout_of(every_ms: u64) -> String {
        let request_timeout = Some(Duration::from_secs(1));
        let idle_timeout = Some(Duration::from_millis(100));
        let options = ClientSettings {
            request_timeout,
            idle_timeout,
            ..ClientSettings::with_defaults(endpoint())
        };
        let sender = sender(options);
        let last_byte_ns = AtomicU64::new(0);
        let sending = pin!(async {
            loop {
                tokio::time::sleep(Duration::from_millis(every_ms)).await;
                last_byte_ns.store(sender.clock.now_ns(), Ordering::Relaxed);
            }
        });
        match run_with_limits(sending, &sender, None, &last_byte_ns).await {
            ExchangeEnd::TimedOutBy(limit, _) => {
                format!("{limit:?} after {} ms", sender.clock.now_ns() / 1_000_000)
            }
            ExchangeEnd::Finished(_) | ExchangeEnd::Stopped | ExchangeEnd::Abandoned => {
                "not late".to_owned()
            }
        }
    }

    #[tokio::test]
    async fn the_task_of_a_request_is_small() {
        let sender = sender(ClientSettings::with_defaults(endpoint()));
        let prepared = Prepared {
            index: 0,
            label: String::new(),
            due: Duration::ZERO,
            body: Body::Bytes(Bytes::new(), AnswerForm::Streamed),
            cancel_after: None,
            session: None,
        };
        let task = observe(&sender, prepared, 0);
        assert!(size_of_val(&task) <= 4096, "{} bytes", size_of_val(&task));
    }

    #[tokio::test]
    async fn an_endless_error_body_frees_its_slot() {
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
            ..endpoint()
        };
        let limits = Limits {
            refusal_timeout: Duration::from_secs(1),
            ..Limits::default()
        };
        let options = ClientSettings {
            limits,
            max_concurrency: Some(1),
            ..ClientSettings::with_defaults(endpoint)
        };
        let sender = sender(options);
        let body = Body::Bytes(Bytes::from_static(b"{}"), AnswerForm::Streamed);
        let prepared = Prepared {
            index: 0,
            label: String::new(),
            due: Duration::ZERO,
            body,
            cancel_after: None,
            session: None,
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
    async fn the_idle_timeout_counts_from_the_last_byte() {
        for (every_ms, expected) in [
            // A stream that keeps sending ends by the request timeout.
            (60, "Request after 1000 ms"),
            (99, "Request after 1000 ms"),
            (101, "Idle after 100 ms"),
            (5000, "Idle after 100 ms"),
        ] {
            // The timer's tick is a millisecond.
            let ended_by = timeout_of(every_ms)
                .await
                .replace(" 1001 ", " 1000 ")
                .replace(" 101 ", " 100 ");
            assert_eq!(ended_by, expected, "one byte every {every_ms} ms");
        }
    }
}
