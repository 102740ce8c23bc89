//! The routes, and how a request becomes a stream of tokens. Knows no clock and nothing about the model but that it writes.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use bytes::Bytes;
use futures_util::stream;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;

use super::EmbeddedOptions;
use super::failure::Failure;
use super::generation::Generation;
use super::model::LanguageModel;
use super::request::{self, Endpoint, GenerationRequest};
use super::seeds::Seeds;
use super::timetable::{Pacer, Timetable, unix_seconds};
use super::wire::{self, DONE, Head};
use crate::constraint::Constraint;
use crate::engine::cache::{CACHED_GRAMMARS, CompileCache};
use crate::engine::{Engine, EngineError, Matcher, Vocabulary};

/// Largest request body. A larger one is answered 413.
const MAX_BODY_BYTES: usize = 4 << 20;

/// Answers in the making at one time. One more is answered 503.
const MAX_LIVE_REQUESTS: usize = 16_384;

/// Tokens of prompt and answer together. More are answered 400.
const CONTEXT_TOKENS: u32 = 32_768;

/// `max_tokens` of a completions request that names none, as in OpenAI's API.
const DEFAULT_COMPLETION_TOKENS: u32 = 16;

/// What all requests share.
pub(super) struct App {
    vocabulary: Arc<Vocabulary>,
    language: Arc<LanguageModel>,
    cache: Arc<CompileCache>,
    timetable: Timetable,
    seeds: Seeds,
    live: Arc<Semaphore>,
    model: String,
    fingerprint: String,
    /// Requests so far, for ids.
    serial: AtomicU64,
}

impl App {
    pub(super) fn new(
        vocabulary: Arc<Vocabulary>,
        engine: Arc<dyn Engine>,
        timetable: Timetable,
        options: EmbeddedOptions,
    ) -> Self {
        Self {
            language: Arc::new(LanguageModel::new(Arc::clone(&vocabulary))),
            fingerprint: format!("{} synthetic, {}", super::VERSION, engine.version()),
            cache: Arc::new(CompileCache::new(engine, CACHED_GRAMMARS)),
            seeds: Seeds::new(options.seed),
            live: Arc::new(Semaphore::new(MAX_LIVE_REQUESTS)),
            model: options.model,
            serial: AtomicU64::new(0),
            vocabulary,
            timetable,
        }
    }

    fn head(&self, endpoint: Endpoint, prompt_tokens: u32) -> Head {
        let prefix = match endpoint {
            Endpoint::Completions => "cmpl",
            Endpoint::Chat => "chatcmpl",
        };
        let id = format!("{prefix}-{:016x}", self.serial.fetch_add(1, Ordering::Relaxed));
        let (model, fingerprint) = (self.model.clone(), self.fingerprint.clone());
        Head { endpoint, id, created: unix_seconds(), model, fingerprint, prompt_tokens }
    }

    /// A matcher for the constraint; a compile that is needed runs off the async threads.
    async fn matcher(&self, constraint: &Arc<Constraint>, fingerprint: String) -> Result<Box<dyn Matcher>, Failure> {
        let compiled = match self.cache.ready(&fingerprint) {
            Some(compiled) => compiled,
            None => {
                let (cache, constraint) = (Arc::clone(&self.cache), Arc::clone(constraint));
                spawn_blocking(move || cache.compile(&fingerprint, &constraint))
                    .await
                    .unwrap_or_else(|error| Err(EngineError::Crashed { words: format!("compile: {error}") }))
            }
        };
        Ok(compiled?.matcher()?)
    }
}

/// All routes.
pub(super) fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/health", get(|| async { StatusCode::OK }))
        .route("/version", get(version))
        .route("/v1/models", get(models))
        .route("/v1/completions", post(completions))
        .route("/v1/chat/completions", post(chat))
        .fallback(|| async { Failure::not_found("Not Found", None) })
        .method_not_allowed_fallback(|| async {
            Failure { status: StatusCode::METHOD_NOT_ALLOWED, message: "Method Not Allowed".into(), param: None }
        })
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(app)
}

async fn version(State(app): State<Arc<App>>) -> Json<serde_json::Value> {
    let engine = app.cache.engine();
    Json(json!({
        "version": super::VERSION,
        "engine": engine.name(),
        "engine_version": engine.version(),
        "grammar_dialects": engine.grammar_dialects(),
        "vocabulary": app.vocabulary.name(),
        "model": "synthetic",
    }))
}

async fn models(State(app): State<Arc<App>>) -> Json<serde_json::Value> {
    Json(json!({"object": "list", "data": [{
        "id": app.model, "object": "model", "created": unix_seconds(), "owned_by": "sobench", "root": app.model, "parent": null,
        "max_model_len": CONTEXT_TOKENS,
    }]}))
}

async fn completions(state: State<Arc<App>>, headers: HeaderMap, body: Result<Bytes, BytesRejection>) -> Response {
    answer(state, Endpoint::Completions, &headers, body).await.unwrap_or_else(IntoResponse::into_response)
}

async fn chat(state: State<Arc<App>>, headers: HeaderMap, body: Result<Bytes, BytesRejection>) -> Response {
    answer(state, Endpoint::Chat, &headers, body).await.unwrap_or_else(IntoResponse::into_response)
}

async fn answer(
    State(app): State<Arc<App>>,
    endpoint: Endpoint,
    headers: &HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Failure> {
    let pacer = app.timetable.arrival();
    let permit = Arc::clone(&app.live).try_acquire_owned();
    let permit = permit.map_err(|_| Failure::busy(format!("{MAX_LIVE_REQUESTS} requests are being answered already")))?;
    let body = body.map_err(|rejection| Failure { status: rejection.status(), message: rejection.body_text(), param: None })?;
    let request = request::parse(endpoint, &body, &app.model, app.cache.engine().name())?;
    let answer = begin(&app, endpoint, request, headers, pacer, permit).await?;
    if !answer.stream {
        return answer.whole().await;
    }
    let events = stream::unfold(Some(answer), |answer| async {
        let mut answer = answer?;
        let (event, last) = answer.next_event().await;
        Some((Ok::<_, Infallible>(event), (!last).then_some(answer)))
    });
    Ok(([(header::CONTENT_TYPE, "text/event-stream; charset=utf-8")], Body::from_stream(events)).into_response())
}

/// Everything that can be refused is refused here, before the status is sent.
async fn begin(
    app: &App,
    endpoint: Endpoint,
    request: GenerationRequest,
    headers: &HeaderMap,
    pacer: Pacer,
    permit: OwnedSemaphorePermit,
) -> Result<Answer, Failure> {
    let prompt_tokens = u32::try_from(app.vocabulary.count(&request.prompt)).unwrap_or(u32::MAX);
    let room = CONTEXT_TOKENS.saturating_sub(prompt_tokens);
    let max_tokens = request.max_tokens.unwrap_or(match endpoint {
        Endpoint::Completions => DEFAULT_COMPLETION_TOKENS.min(room),
        Endpoint::Chat => room,
    });
    if max_tokens == 0 || max_tokens > room {
        let message = format!(
            "the context is {CONTEXT_TOKENS} tokens; the prompt has {prompt_tokens} and {max_tokens} were asked for as an answer"
        );
        return Err(Failure::bad_request(message).about("max_tokens"));
    }
    let fingerprint = request.constraint.as_ref().map(|constraint| constraint.fingerprint()).unwrap_or_default();
    let request_id = headers.get("x-request-id").and_then(|id| id.to_str().ok());
    let seed = app.seeds.draw(&request.prompt, &fingerprint, request.seed, request_id)?;
    let matcher = match &request.constraint {
        Some(constraint) => Some(app.matcher(constraint, fingerprint).await?),
        None => None,
    };
    let writer = app.language.writer(&request.prompt, request.sampling, seed, max_tokens);
    Ok(Answer {
        generation: Generation::new(Arc::clone(&app.vocabulary), writer, matcher, max_tokens, request.ignore_eos),
        head: app.head(endpoint, prompt_tokens),
        opened: false,
        stream: request.stream,
        include_usage: request.include_usage,
        continuous_usage: request.continuous_usage,
        pacer,
        _permit: permit,
    })
}

/// An answer on its way out.
struct Answer {
    generation: Generation,
    head: Head,
    pacer: Pacer,
    opened: bool,
    stream: bool,
    include_usage: bool,
    continuous_usage: bool,
    /// Given back when the answer has ended or its client has gone.
    _permit: OwnedSemaphorePermit,
}

impl Answer {
    /// Generates up to the next text to send, and returns its bytes and whether they are the last.
    async fn next_event(&mut self) -> (Bytes, bool) {
        let mut bytes = Vec::new();
        loop {
            self.pacer.next().await;
            let piece = match self.generation.step() {
                Ok(piece) => piece,
                Err(error) => {
                    bytes.extend(wire::event(&Failure::from(error).body()));
                    bytes.extend_from_slice(DONE);
                    return (bytes.into(), true);
                }
            };
            if piece.text.is_empty() && piece.finish.is_none() {
                continue;
            }
            if !self.opened {
                // With the first token, as vLLM does: its headers go out before, its role chunk does not.
                self.opened = true;
                bytes.extend(self.head.opening(self.continuous_usage).unwrap_or_default());
            }
            let tokens = self.generation.tokens();
            bytes.extend(self.head.chunk(&piece, tokens, self.continuous_usage));
            if piece.finish.is_some() {
                if self.include_usage {
                    bytes.extend(self.head.usage_chunk(tokens));
                }
                bytes.extend_from_slice(DONE);
            }
            return (bytes.into(), piece.finish.is_some());
        }
    }

    /// The whole answer in one body.
    async fn whole(mut self) -> Result<Response, Failure> {
        let mut text = String::new();
        loop {
            self.pacer.next().await;
            let piece = self.generation.step()?;
            text.push_str(&piece.text);
            if let Some(finish) = piece.finish {
                let body = self.head.whole(&text, finish, self.generation.tokens());
                return Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response());
            }
        }
    }
}
