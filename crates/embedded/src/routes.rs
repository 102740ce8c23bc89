//! The routes, and how an answer's updates become a response. Knows neither clocks nor engines but
//! by name.

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

use super::accounts::{Account, AnswerEnd};
use super::app::{App, Begun, CONTEXT_TOKENS};
use super::batching::{Tokens, Update};
use super::events::{Events, Then, planted_failure};
use super::failure::Failure;
use super::faults::{FaultKind, Planted};
use super::listening::Connection;
use super::request::{self, Endpoint};
use super::stats::ServerStats;
use super::timetable::{Pacer, pause, unix_seconds};
use super::tokens;

/// Largest request body. A larger one is answered 413.
const MAX_BODY_BYTES: usize = 4 << 20;

/// From the last byte that was sent to a planted reset.
const RESET_DELAY: Duration = Duration::from_millis(50);

/// A body, or why it could not be read.
type ReadBody = Result<Bytes, BytesRejection>;

/// All routes.
pub(super) fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/health", get(|| async { StatusCode::OK }))
        .route(
            "/ping",
            get(|| async { StatusCode::OK }).post(|| async { StatusCode::OK }),
        )
        .route("/version", get(version))
        .route("/metrics", get(metrics))
        .route("/sobench/stats", get(stats))
        .route("/v1/models", get(models))
        .route("/v1/completions", post(completions))
        .route("/v1/chat/completions", post(chat))
        .route("/tokenize", post(tokenize))
        .route("/detokenize", post(detokenize))
        .fallback(|| async { Failure::not_found("Not Found") })
        .method_not_allowed_fallback(|| async {
            Failure::new(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed")
        })
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(app)
}

async fn version(State(app): State<Arc<App>>) -> Json<serde_json::Value> {
    let engine = app.engine();
    Json(json!({
        "version": super::VERSION,
        "engine": engine.name(),
        "engine_version": engine.version(),
        "settings": engine.settings().into_iter().collect::<std::collections::BTreeMap<_, _>>(),
        "grammar_dialects": engine.grammar_dialects(),
        "vocabulary": app.vocabulary.name(),
        "model": "synthetic",
        "faults": app.options.faults.iter().map(ToString::to_string).collect::<Vec<_>>(),
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
    (content_type, app.stats().prometheus(&app.options.model)).into_response()
}

async fn models(State(app): State<Arc<App>>) -> Json<serde_json::Value> {
    let model = &app.options.model;
    Json(json!({"object": "list", "data": [{
        "id": model, "object": "model", "created": unix_seconds(), "owned_by": "sobench", "root": model, "parent": null,
        "max_model_len": CONTEXT_TOKENS,
    }]}))
}

async fn tokenize(
    State(app): State<Arc<App>>,
    body: ReadBody,
) -> Result<Json<serde_json::Value>, Failure> {
    let fields = request::read_fields(&whole(body)?, &app.options.model)?;
    tokens::tokenize(&fields, &app.vocabulary, CONTEXT_TOKENS).map(Json)
}

async fn detokenize(
    State(app): State<Arc<App>>,
    body: ReadBody,
) -> Result<Json<serde_json::Value>, Failure> {
    let fields = request::read_fields(&whole(body)?, &app.options.model)?;
    tokens::detokenize(&fields, &app.vocabulary).map(Json)
}

async fn completions(
    app: State<Arc<App>>,
    peer: ConnectInfo<Connection>,
    headers: HeaderMap,
    body: ReadBody,
) -> Response {
    answer(app, peer, Endpoint::Completions, &headers, body)
        .await
        .unwrap_or_else(IntoResponse::into_response)
}

async fn chat(
    app: State<Arc<App>>,
    peer: ConnectInfo<Connection>,
    headers: HeaderMap,
    body: ReadBody,
) -> Response {
    answer(app, peer, Endpoint::Chat, &headers, body)
        .await
        .unwrap_or_else(IntoResponse::into_response)
}

async fn answer(
    State(app): State<Arc<App>>,
    ConnectInfo(connection): ConnectInfo<Connection>,
    endpoint: Endpoint,
    headers: &HeaderMap,
    body: ReadBody,
) -> Result<Response, Failure> {
    let pacer = app.arrival();
    let mut account = app.account();
    let begun = begin(&app, endpoint, headers, body, pacer).await;
    if !matches!(begun, Ok(Ok(_))) {
        account.close(AnswerEnd::Refused);
    }
    let (begun, permit, is_stream) = match begun? {
        Ok(begun) => begun,
        Err(refused) => return Ok(refused),
    };
    let Begun { tokens, events } = begun;
    let answer = Answer {
        tokens,
        events,
        then: Then::GoOn,
        held: None,
        connection,
        account,
        _permit: permit,
    };
    if is_stream {
        Ok(answer.stream())
    } else {
        answer.whole().await
    }
}

/// An answer that has begun, or the response of a fault that struck before.
type BegunOrRefused = Result<(Begun, OwnedSemaphorePermit, bool), Response>;

async fn begin(
    app: &App,
    endpoint: Endpoint,
    headers: &HeaderMap,
    body: ReadBody,
    pacer: Pacer,
) -> Result<BegunOrRefused, Failure> {
    let permit = app.place()?;
    let request_id = headers.get("x-request-id").and_then(|id| id.to_str().ok());
    let mut asked = app.read(endpoint, &whole(body)?, request_id)?;
    if let Some(refused) = refused_by_fault(&mut asked.planted).await {
        return Ok(Err(refused));
    }
    let is_stream = asked.request.stream;
    Ok(Ok((app.begin(asked, pacer).await?, permit, is_stream)))
}

fn whole(body: ReadBody) -> Result<Bytes, Failure> {
    body.map_err(|rejection| Failure::new(rejection.status(), rejection.body_text()))
}

/// What comes of faults that strike before there is an answer, if any do.
async fn refused_by_fault(planted: &mut Planted) -> Option<Response> {
    if let Some(time) = planted.slow_header() {
        pause(time).await;
    }
    if planted.strikes(FaultKind::Hang) {
        // Until the client has had enough.
        std::future::pending::<()>().await;
    }
    let failure = |status: StatusCode| Failure::new(status, planted_failure().message);
    if planted.strikes(FaultKind::Error429) {
        let retry: [(HeaderName, &str); 1] = [(header::RETRY_AFTER, "1")];
        return Some((retry, failure(StatusCode::TOO_MANY_REQUESTS)).into_response());
    }
    if planted.strikes(FaultKind::Error503) {
        return Some(
            (
                StatusCode::SERVICE_UNAVAILABLE,
                "upstream connect error: a planted fault\n",
            )
                .into_response(),
        );
    }
    [
        (FaultKind::Error400, StatusCode::BAD_REQUEST),
        (FaultKind::Error500, StatusCode::INTERNAL_SERVER_ERROR),
    ]
    .into_iter()
    .find_map(|(kind, status)| {
        planted
            .strikes(kind)
            .then(|| failure(status).into_response())
    })
}

/// An answer on its way out.
struct Answer {
    tokens: Tokens,
    events: Events,
    /// What the last update left to do.
    then: Then,
    /// An update that is there and has to wait for the end of a planted pause.
    held: Option<(Duration, Update)>,
    connection: Connection,
    account: Account,
    /// Given back when the answer has ended or its client has gone.
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

    /// The events of all updates that are there, at least one; an error breaks the connection.
    async fn next_frame(&mut self) -> Option<io::Result<Bytes>> {
        let mut bytes = Vec::new();
        while bytes.is_empty() {
            match self.then {
                Then::GoOn => {}
                Then::End | Then::BreakOff => return None,
                Then::Reset => return Some(Err(self.reset().await)),
            }
            let mut next = match self.held.take() {
                Some((time, update)) => {
                    pause(time).await;
                    Some(update)
                }
                None => {
                    let update = self.tokens.next().await?;
                    self.unless_held(update)
                }
            };
            while let Some(update) = next {
                self.then = self.events.write(update, &mut bytes);
                self.note_end();
                next = if self.then == Then::GoOn {
                    self.tokens.ready()
                } else {
                    None
                };
                next = next.and_then(|update| self.unless_held(update));
            }
        }
        Some(Ok(bytes.into()))
    }

    fn unless_held(&mut self, update: Update) -> Option<Update> {
        let Some(time) = self.events.pause_before(&update) else {
            return Some(update);
        };
        self.held = Some((time, update));
        None
    }

    /// The whole answer in one body.
    async fn whole(mut self) -> Result<Response, Failure> {
        let Some(update) = self.tokens.next().await else {
            return Err(Failure::internal("the answer ended before it began"));
        };
        if let Some(time) = self.events.pause_before(&update) {
            pause(time).await;
        }
        let written = self
            .events
            .whole(update)
            .inspect_err(|_| self.account.close(AnswerEnd::Refused));
        let (body, then) = written?;
        self.then = then;
        self.note_end();
        let content_type = [(header::CONTENT_TYPE, "application/json")];
        if then != Then::Reset {
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

    /// Tells the account what the last update came to.
    fn note_end(&mut self) {
        match self.then {
            Then::GoOn => {}
            Then::End => self.account.close(AnswerEnd::Whole),
            Then::BreakOff | Then::Reset => self.account.close(AnswerEnd::Broken),
        }
    }

    /// Makes the connection break. What was sent before has some time to be read: a reset throws
    /// away what was not.
    async fn reset(&mut self) -> io::Error {
        pause(RESET_DELAY).await;
        self.then = Then::End;
        self.connection.end_with_reset();
        io::Error::from(io::ErrorKind::ConnectionReset)
    }
}
