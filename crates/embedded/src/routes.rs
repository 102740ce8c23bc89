//! The HTTP routes, and the response of an answer's updates.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::rejection::BytesRejection;
use axum::extract::{ConnectInfo, DefaultBodyLimit, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use bytes::Bytes;
use futures_util::stream;
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;

use super::answer_outcome::{AnswerOutcome, OutcomeRecorder};
use super::app::{App, StartedAnswer};
use super::batching::{Tokens, Update};
use super::endpoint::Endpoint;
use super::events::{Events, NextAction, injected_failure};
use super::failure::Failure;
use super::faults::{FaultKind, RequestFaults};
use super::listening::Connection;
use super::messages_request;
use super::prometheus;
use super::request;
use super::stats::ServerStats;
use super::timetable::{Pacer, pause, unix_seconds};

/// The largest request body. Larger ones get status 413.
const MAX_BODY_BYTES: usize = 4 << 20;

/// Time from the last sent byte to an injected reset.
const RESET_DELAY: Duration = Duration::from_millis(50);

/// A request body, or the reason why it could not be read.
type ReadBody = Result<Bytes, BytesRejection>;

/// All routes.
pub(super) fn router(app: Arc<App>) -> Router {
    let answers = |endpoint: Endpoint| {
        post(move |app, peer, headers: HeaderMap, body| async move {
            let answered = answer(app, peer, endpoint, &headers, body).await;
            answered.unwrap_or_else(|failure| failure.respond(endpoint))
        })
    };
    Router::new()
        .route("/health", get(health))
        .route("/version", get(version))
        .route("/metrics", get(metrics))
        .route("/sobench/stats", get(stats))
        .route("/v1/models", get(models))
        .route("/v1/completions", answers(Endpoint::Completions))
        .route("/v1/chat/completions", answers(Endpoint::Chat))
        .route("/v1/responses", answers(Endpoint::Responses))
        .route("/v1/messages", answers(Endpoint::Messages))
        .route("/tokenize", post(tokenize))
        .fallback(|| async { Failure::not_found("Not Found") })
        .method_not_allowed_fallback(|| async {
            Failure::new(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed")
        })
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(app)
}

/// As in vLLM, 503 if the engine has died.
async fn health(State(app): State<Arc<App>>) -> StatusCode {
    if app.is_dead() {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::OK
    }
}

async fn version(State(app): State<Arc<App>>) -> Json<serde_json::Value> {
    let engine = app.engine();
    Json(json!({
        "version": super::VERSION,
        "engine": engine.name(),
        "engine_version": engine.version(),
        "settings": app.settings().into_iter().collect::<std::collections::BTreeMap<_, _>>(),
        "speed": app.options.speed,
    }))
}

async fn stats(State(app): State<Arc<App>>) -> Json<ServerStats> {
    Json(app.stats())
}

async fn metrics(State(app): State<Arc<App>>) -> Response {
    let content_type = [(
        header::CONTENT_TYPE,
        "text/plain; version=0.0.4; charset=utf-8",
    )];
    (
        content_type,
        prometheus::render(&app.stats(), &app.options.model),
    )
        .into_response()
}

async fn models(State(app): State<Arc<App>>) -> Json<serde_json::Value> {
    let model = &app.options.model;
    Json(json!({"object": "list", "data": [{
        "id": model, "object": "model", "created": unix_seconds(), "owned_by": "sobench", "root": model, "parent": null,
        "max_model_len": app.context_tokens(),
    }]}))
}

/// The tokens of a prompt, or of messages in the server's simple template, as in vLLM.
async fn tokenize(
    State(app): State<Arc<App>>,
    body: ReadBody,
) -> Result<Json<serde_json::Value>, Failure> {
    let fields = request::read_fields(&read_body(body)?, &app.options.model)?;
    let text = if fields.contains_key("messages") {
        request::messages(&fields)?
    } else {
        request::prompt(&fields)?
    };
    let tokens = app.vocabulary.encode(&text);
    let context = app.context_tokens();
    Ok(Json(
        json!({"count": tokens.len(), "max_model_len": context, "tokens": tokens}),
    ))
}

async fn answer(
    State(app): State<Arc<App>>,
    ConnectInfo(connection): ConnectInfo<Connection>,
    endpoint: Endpoint,
    headers: &HeaderMap,
    body: ReadBody,
) -> Result<Response, Failure> {
    let pacer = app.start_clock();
    let mut outcome = app.outcome_recorder();
    let started = start(&app, endpoint, headers, body, pacer).await;
    if !matches!(started, Ok(Ok(_))) {
        outcome.set(AnswerOutcome::Refused);
    }
    let (started, permit, is_stream) = match started? {
        Ok(started) => started,
        Err(refused) => return Ok(refused),
    };
    let StartedAnswer { tokens, events } = started;
    let answer = Answer {
        tokens,
        events,
        next_action: NextAction::Continue,
        delayed: None,
        connection,
        outcome,
        _permit: permit,
    };
    if is_stream {
        Ok(answer.stream())
    } else {
        answer.complete().await
    }
}

/// A started answer, or the response of a fault injected before it.
type StartedOrRefused = Result<(StartedAnswer, OwnedSemaphorePermit, bool), Response>;

async fn start(
    app: &App,
    endpoint: Endpoint,
    headers: &HeaderMap,
    body: ReadBody,
    pacer: Pacer,
) -> Result<StartedOrRefused, Failure> {
    let permit = app.acquire_slot()?;
    if endpoint == Endpoint::Messages {
        messages_request::check_version(headers)?;
    }
    let request_id = headers.get("x-request-id").and_then(|id| id.to_str().ok());
    let mut parsed = app.read(endpoint, &read_body(body)?, request_id)?;
    if let Some(refused) = injected_refusal(&mut parsed.faults, endpoint).await {
        return Ok(Err(refused));
    }
    let is_stream = parsed.request.stream;
    Ok(Ok((app.start(parsed, pacer).await?, permit, is_stream)))
}

fn read_body(body: ReadBody) -> Result<Bytes, Failure> {
    body.map_err(|rejection| Failure::new(rejection.status(), rejection.body_text()))
}

/// The response of faults that are injected before the answer, if any.
async fn injected_refusal(faults: &mut RequestFaults, endpoint: Endpoint) -> Option<Response> {
    if let Some(time) = faults.inject_pause(FaultKind::SlowHeader) {
        pause(time).await;
    }
    if faults.inject(FaultKind::Hang) {
        // Until the client disconnects.
        std::future::pending::<()>().await;
    }
    if faults.inject(FaultKind::Error429) {
        let retry: [(HeaderName, &str); 1] = [(header::RETRY_AFTER, "1")];
        let failure = Failure::new(StatusCode::TOO_MANY_REQUESTS, injected_failure().message);
        return Some((retry, failure.respond(endpoint)).into_response());
    }
    let is_failed = faults.inject(FaultKind::Error500);
    is_failed.then(|| injected_failure().respond(endpoint))
}

/// A running answer.
struct Answer {
    tokens: Tokens,
    events: Events,
    /// The action after the last update.
    next_action: NextAction,
    /// An update that is delayed by an injected pause.
    delayed: Option<(Duration, Update)>,
    connection: Connection,
    outcome: OutcomeRecorder,
    /// Released when the answer has ended or its client has disconnected.
    _permit: OwnedSemaphorePermit,
}

impl Answer {
    fn stream(self) -> Response {
        let frames = stream::unfold(self, |mut answer| async {
            let frame = answer.next_frame().await?;
            Some((frame, answer))
        });
        (
            [(header::CONTENT_TYPE, "text/event-stream; charset=utf-8")],
            Body::from_stream(frames),
        )
            .into_response()
    }

    /// The events of all available updates, at least one. An error aborts the connection.
    async fn next_frame(&mut self) -> Option<io::Result<Bytes>> {
        let mut bytes = Vec::new();
        while bytes.is_empty() {
            match self.next_action {
                NextAction::Continue => {}
                NextAction::End | NextAction::Abort => return None,
                NextAction::Reset => return Some(Err(self.reset().await)),
            }
            let mut next = match self.delayed.take() {
                Some((time, update)) => {
                    pause(time).await;
                    Some(update)
                }
                None => {
                    let update = self.tokens.next().await?;
                    self.unless_delayed(update)
                }
            };
            while let Some(update) = next {
                self.next_action = self.events.write(update, &mut bytes);
                self.record_outcome();
                next = if self.next_action == NextAction::Continue {
                    self.tokens.ready()
                } else {
                    None
                };
                next = next.and_then(|update| self.unless_delayed(update));
            }
        }
        Some(Ok(bytes.into()))
    }

    fn unless_delayed(&mut self, update: Update) -> Option<Update> {
        let Some(time) = self.events.pause_before(&update) else {
            return Some(update);
        };
        self.delayed = Some((time, update));
        None
    }

    /// The complete answer in one body.
    async fn complete(mut self) -> Result<Response, Failure> {
        let Some(update) = self.tokens.next().await else {
            return Err(Failure::internal("the answer ended before its start"));
        };
        if let Some(time) = self.events.pause_before(&update) {
            pause(time).await;
        }
        let encoded = self
            .events
            .complete(update)
            .inspect_err(|_| self.outcome.set(AnswerOutcome::Refused));
        let (body, next_action) = encoded?;
        self.next_action = next_action;
        self.record_outcome();
        let content_type = [(header::CONTENT_TYPE, "application/json")];
        if next_action != NextAction::Reset {
            return Ok((content_type, body).into_response());
        }
        let parts = stream::unfold((self, Some(body)), |(mut answer, body)| async move {
            let part = match body {
                Some(body) => Ok(Bytes::from(body)),
                None => Err(answer.reset().await),
            };
            Some((part, (answer, None)))
        });
        Ok((content_type, Body::from_stream(parts)).into_response())
    }

    /// Records the outcome after the last update.
    fn record_outcome(&mut self) {
        match self.next_action {
            NextAction::Continue => {}
            NextAction::End => self.outcome.set(AnswerOutcome::Complete),
            NextAction::Abort | NextAction::Reset => self.outcome.set(AnswerOutcome::Aborted),
        }
    }

    /// Resets the connection. Waits first, since a reset discards data that the client has not
    /// read.
    async fn reset(&mut self) -> io::Error {
        pause(RESET_DELAY).await;
        self.next_action = NextAction::End;
        self.connection.end_with_reset();
        io::Error::from(io::ErrorKind::ConnectionReset)
    }
}
