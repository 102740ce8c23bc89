//! What all requests share, and how a request becomes a sequence in the batch. Knows neither routes
//! nor sockets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::EmbeddedOptions;
use super::accounts::Account;
use super::batching::{Batcher, Batching, Delivery, MAX_STUCK_STEPS, Progress, Tokens};
use super::compiling::Compiler;
use super::constraint_fields::Rules;
use super::events::Events;
use super::failure::Failure;
use super::faults::{FaultKind, Planted};
use super::generation::{FinishReason, Generation, Limits, Piece};
use super::model::LanguageModel;
use super::request::{self, Endpoint, GenerationRequest};
use super::seeds::Seeds;
use super::stats::{ServerStats, Tally};
use super::stopping::Stopping;
use super::timetable::{Pacer, unix_seconds};
use super::wire::Head;
use sobench_core::error::Result as OurResult;
use sobench_engine::{Engine, Vocabulary};

/// Answers in the making and in the queue at one time. One more is answered 503.
const MAX_LIVE_REQUESTS: usize = 16_384;

/// Tokens of prompt and answer together. More are answered 400.
pub(super) const CONTEXT_TOKENS: u32 = 32_768;

/// `max_tokens` of a completions request that names none, as in OpenAI's API.
const DEFAULT_COMPLETION_TOKENS: u32 = 16;

/// What all requests share.
pub(super) struct App {
    pub(super) vocabulary: Arc<Vocabulary>,
    pub(super) options: EmbeddedOptions,
    batching: Batching,
    language: Arc<LanguageModel>,
    compiler: Compiler,
    batcher: Batcher,
    tally: Arc<Tally>,
    seeds: Seeds,
    live: Arc<Semaphore>,
    /// Requests so far, for ids.
    serial: AtomicU64,
}

/// A request that makes sense, though its constraint may not compile.
pub(super) struct Asked {
    endpoint: Endpoint,
    pub(super) request: GenerationRequest,
    fingerprint: String,
    prompt_tokens: u32,
    max_tokens: u32,
    seed: u64,
    pub(super) planted: Planted,
}

/// An answer that is under way, and how it is written.
pub(super) struct Begun {
    pub(super) tokens: Tokens,
    pub(super) events: Events,
}

impl App {
    /// # Errors
    /// The system gives no threads.
    pub(super) fn new(
        vocabulary: Arc<Vocabulary>,
        compiler: Compiler,
        batching: Batching,
        options: EmbeddedOptions,
        runtime: &Handle,
    ) -> OurResult<Self> {
        let tally = Arc::<Tally>::default();
        Ok(Self {
            language: Arc::new(LanguageModel::new(Arc::clone(&vocabulary))),
            batcher: Batcher::start(batching, Arc::clone(&tally), runtime)?,
            seeds: Seeds::new(options.seed),
            live: Arc::new(Semaphore::new(MAX_LIVE_REQUESTS)),
            serial: AtomicU64::new(0),
            vocabulary,
            options,
            batching,
            compiler,
            tally,
        })
    }

    pub(super) fn engine(&self) -> &dyn Engine {
        self.compiler.engine()
    }

    /// The clock of a request that has arrived just now.
    pub(super) fn arrival(&self) -> Pacer {
        self.batching.timetable.arrival()
    }

    /// The account of a request that has arrived just now.
    pub(super) fn account(&self) -> Account {
        Account::open(Arc::clone(&self.tally))
    }

    /// A place among the requests that are being answered.
    pub(super) fn place(&self) -> Result<OwnedSemaphorePermit, Failure> {
        let permit = Arc::clone(&self.live).try_acquire_owned();
        permit.map_err(|_| {
            Failure::busy(format!(
                "{MAX_LIVE_REQUESTS} requests are being answered already"
            ))
        })
    }

    /// What constraints are taken.
    fn rules(&self) -> Rules<'_> {
        Rules {
            engine: self.engine().name(),
            any_whitespace: self.options.policy.any_whitespace,
            guided_fields: self.options.guided_fields,
        }
    }

    pub(super) fn stats(&self) -> ServerStats {
        let engine = self.engine();
        let mut stats = ServerStats {
            engine: engine.name().to_owned(),
            engine_version: engine.version().to_owned(),
            settings: engine
                .settings()
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            max_batch: self.batching.max_batch,
            threads: self.batching.threads,
            step_ms: self.options.step_ms,
            cache_hits: self.compiler.hits(),
            cache_misses: self.compiler.misses(),
            compiling: self.compiler.compiling(),
            stuck_masks: self.batcher.stuck(),
            routes: self.compiler.routes(),
            ..ServerStats::default()
        };
        self.tally.fill(&mut stats);
        stats
    }

    /// Reads a request, and draws what is drawn for it.
    ///
    /// # Errors
    /// A 400 or 404 that says what is wrong with it; a 503 where too many different requests have
    /// been counted.
    pub(super) fn read(
        &self,
        endpoint: Endpoint,
        body: &[u8],
        request_id: Option<&str>,
    ) -> Result<Asked, Failure> {
        let request = request::parse(endpoint, body, &self.options.model, &self.rules())?;
        self.tally.unread(&request.unread);
        let (prompt_tokens, max_tokens) = self.room(endpoint, &request)?;
        let fingerprint = request
            .constraint
            .as_ref()
            .map(|constraint| constraint.fingerprint())
            .unwrap_or_default();
        let seed = self
            .seeds
            .draw(&request.prompt, &fingerprint, request.seed, request_id)?;
        let planted = Planted::new(&self.options.faults, seed, Arc::clone(&self.tally));
        Ok(Asked {
            endpoint,
            request,
            fingerprint,
            prompt_tokens,
            max_tokens,
            seed,
            planted,
        })
    }

    /// Tokens of a prompt, and of the answer that there is room for and that was asked for.
    fn room(&self, endpoint: Endpoint, request: &GenerationRequest) -> Result<(u32, u32), Failure> {
        let prompt_tokens =
            u32::try_from(self.vocabulary.count(&request.prompt)).unwrap_or(u32::MAX);
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
        if request.min_tokens > max_tokens {
            let message = format!(
                "min_tokens must be at most max_tokens, which is {max_tokens}; got {}",
                request.min_tokens
            );
            return Err(Failure::bad_request(message).about("min_tokens"));
        }
        Ok((prompt_tokens, max_tokens))
    }

    /// Puts a request into the batch, once its constraint is compiled.
    ///
    /// # Errors
    /// What the engine says against the constraint; a 503 where too many masks hang.
    pub(super) async fn begin(&self, asked: Asked, pacer: Pacer) -> Result<Begun, Failure> {
        let Asked {
            endpoint,
            request,
            fingerprint,
            prompt_tokens,
            max_tokens,
            seed,
            mut planted,
        } = asked;
        let constraint = request
            .constraint
            .as_ref()
            .filter(|_| !planted.has(FaultKind::IgnoreConstraint));
        let matcher = match constraint {
            Some(_) if self.batcher.stuck() >= MAX_STUCK_STEPS => {
                return Err(Failure::busy(format!(
                    "{MAX_STUCK_STEPS} masks ran out of time and still run"
                )));
            }
            Some(constraint) => Some(self.compiler.matcher(constraint, &fingerprint).await?),
            None => None,
        };
        let head = self.head(endpoint, prompt_tokens);
        self.tally.prompted(prompt_tokens);
        let tokens = if planted.strikes(FaultKind::Empty) {
            Tokens::already(Progress {
                piece: Piece {
                    text: String::new(),
                    finish: Some(FinishReason::Stop),
                    stop: None,
                },
                tokens: 1,
            })
        } else {
            if request.constraint.is_some() {
                planted.strikes(FaultKind::IgnoreConstraint);
            }
            let mut writer =
                self.language
                    .writer(&request.prompt, request.sampling, seed, max_tokens);
            if let Some(text) = self
                .options
                .repeats_between
                .and_then(|marks| between(&request.prompt, marks))
            {
                writer.repeat(text);
            }
            let vocabulary = Arc::clone(&self.vocabulary);
            let stopping = Stopping::new(&request.stop, request.is_stop_kept);
            let limits = Limits {
                max_tokens,
                min_tokens: request.min_tokens,
                ignore_eos: request.ignore_eos,
                stopping,
            };
            let generation = Generation::new(vocabulary, writer, matcher, limits);
            let delivery = if request.stream {
                Delivery::Pieces
            } else {
                Delivery::Whole
            };
            self.batcher.begin(generation, pacer, delivery)
        };
        Ok(Begun {
            tokens,
            events: Events::new(head, request.usage, planted),
        })
    }

    fn head(&self, endpoint: Endpoint, prompt_tokens: u32) -> Head {
        let prefix = match endpoint {
            Endpoint::Completions => "cmpl",
            Endpoint::Chat => "chatcmpl",
        };
        let id = format!(
            "{prefix}-{:016x}",
            self.serial.fetch_add(1, Ordering::Relaxed)
        );
        let fingerprint = format!("{} synthetic, {}", super::VERSION, self.engine().version());
        Head {
            endpoint,
            id,
            created: unix_seconds(),
            model: self.options.model.clone(),
            fingerprint,
            prompt_tokens,
        }
    }
}

/// What stands between the first of the first mark and the last of the second.
fn between<'t>(text: &'t str, [before, after]: [&str; 2]) -> Option<&'t str> {
    let (_, rest) = text.split_once(before)?;
    rest.rsplit_once(after).map(|(inside, _)| inside)
}
