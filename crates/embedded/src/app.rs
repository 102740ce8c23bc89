//! State shared by all requests, and the way of a request into the batch.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::EmbeddedSettings;
use super::answer_outcome::OutcomeRecorder;
use super::answer_parts::AnswerPlan;
use super::batching::{Batcher, Batching, Delivery, MAX_STUCK_STEPS, Progress, Submission, Tokens};
use super::channels::ChannelParser;
use super::compile_faults::CompileFaults;
use super::compiling::Compiler;
use super::constraint_fields::Rules;
use super::deltas::DeltaSettings;
use super::drafts::Drafter;
use super::endpoint::Endpoint;
use super::events::Events;
use super::failure::Failure;
use super::faults::{FaultKind, Planting, RequestFaults, RequestTraits};
use super::generation::{FinishReason, Generation, Limits, Piece};
use super::knowledge::{Knowledge, KnownAnswers, answer_text};
use super::mask_faults::MaskFaults;
use super::model::LanguageModel;
use super::prefix_cache::PrefixCache;
use super::process_stats::ProcessStats;
use super::reasoning::ReasoningParser;
use super::request::{self, GenerationRequest};
use super::seeds::{Draws, Seeds};
use super::stats::{ServerStats, Tally};
use super::stop_strings::StopStrings;
use super::timetable::{Pacer, unix_seconds};
use super::tools::CallParser;
use super::wire::Head;
use sobench_core::case::Case;
use sobench_core::constraint::Constraint;
use sobench_core::error::Result as OurResult;
use sobench_engine::{Engine, Matcher, Vocabulary};

/// Limit on concurrent requests, running and queued. Further requests get status 503.
const MAX_LIVE_REQUESTS: usize = 16_384;

/// Limit on the tokens of prompt and answer together. Larger requests get status 400.
const CONTEXT_TOKENS: u32 = 131_072;

/// Default `max_tokens` of a completions request, as in OpenAI's API.
const DEFAULT_COMPLETION_TOKENS: u32 = 16;

/// State shared by all requests.
pub(super) struct App {
    pub(super) vocabulary: Arc<Vocabulary>,
    pub(super) options: EmbeddedSettings,
    batching: Batching,
    language: Arc<LanguageModel>,
    compiler: Compiler,
    batcher: Batcher,
    tally: Arc<Tally>,
    planting: Arc<Planting>,
    seeds: Seeds,
    known: KnownAnswers,
    prefixes: PrefixCache,
    slots: Arc<Semaphore>,
    /// When the server started, in seconds since 1970.
    started_unix_s: u64,
    /// Number of requests so far, for ids.
    serial: AtomicU64,
}

/// A valid request. Its constraint may still fail to compile.
pub(super) struct ParsedRequest {
    endpoint: Endpoint,
    pub(super) request: GenerationRequest,
    plan: AnswerPlan,
    prompt_tokens: u32,
    max_tokens: u32,
    seed: u64,
    pub(super) faults: RequestFaults,
}

/// A running answer and its event writer.
pub(super) struct StartedAnswer {
    pub(super) tokens: Tokens,
    pub(super) events: Events,
}

impl App {
    /// # Errors
    /// The batch's threads cannot be started.
    pub(super) fn new(
        vocabulary: Arc<Vocabulary>,
        compiler: Compiler,
        batching: Batching,
        options: EmbeddedSettings,
        runtime: &Handle,
    ) -> OurResult<Self> {
        let tally = Arc::<Tally>::default();
        let planting = Arc::new(Planting::new(&options.faults, Arc::clone(&tally)));
        Ok(Self {
            language: Arc::new(LanguageModel::new(Arc::clone(&vocabulary))),
            batcher: Batcher::start(
                batching.clone(),
                Arc::clone(&tally),
                Arc::clone(&planting),
                runtime,
            )?,
            planting,
            seeds: Seeds::new(options.seed),
            known: KnownAnswers::default(),
            prefixes: PrefixCache::default(),
            slots: Arc::new(Semaphore::new(MAX_LIVE_REQUESTS)),
            started_unix_s: unix_seconds(),
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

    /// Starts the clock of a request that has just arrived.
    pub(super) fn start_clock(&self) -> Pacer {
        self.batching.timetable.start(self.batching.clock.now())
    }

    /// Records the outcome of a request.
    pub(super) fn outcome_recorder(&self) -> OutcomeRecorder {
        OutcomeRecorder::new(Arc::clone(&self.tally))
    }

    /// Reserves a slot for a request.
    pub(super) fn acquire_slot(&self) -> Result<OwnedSemaphorePermit, Failure> {
        let permit = Arc::clone(&self.slots).try_acquire_owned();
        permit.map_err(|_| {
            Failure::busy(format!(
                "the limit of {MAX_LIVE_REQUESTS} concurrent requests is reached"
            ))
        })
    }

    /// The rules for constraints of requests.
    fn rules(&self) -> Rules<'_> {
        Rules {
            engine: self.engine().name(),
            any_whitespace: self.options.policy.any_whitespace,
            guided_fields: self.options.guided_fields,
        }
    }

    /// The settings of the engine, and those of the batch that change what it costs.
    pub(super) fn settings(&self) -> Vec<(String, String)> {
        let engine = self.engine().settings().into_iter();
        let speculate = Some(self.batching.speculate).filter(|tokens| *tokens > 0);
        let batch = [
            ("speculate", speculate.map(|tokens| tokens.to_string())),
            (
                "kv_tokens",
                self.options.kv_tokens.map(|tokens| tokens.to_string()),
            ),
        ];
        let batch = batch
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        engine
            .chain(batch)
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    pub(super) fn stats(&self) -> ServerStats {
        let engine = self.engine();
        let mut stats = ServerStats {
            engine: engine.name().to_owned(),
            engine_version: engine.version().to_owned(),
            settings: self.settings(),
            max_batch: self.batching.max_batch,
            cache_hits: self.compiler.hits(),
            cache_misses: self.compiler.misses(),
            compiling: self.compiler.compiling(),
            stuck_masks: self.batcher.stuck(),
            speculate: self.batching.speculate,
            process: ProcessStats::read(self.started_unix_s),
            ..ServerStats::default()
        };
        self.tally.fill(&mut stats);
        stats
    }

    /// Parses a request, and draws its seed and faults.
    ///
    /// # Errors
    /// Status 400 or 404 for an invalid request, 503 if too many different requests have been
    /// counted.
    pub(super) fn read(
        &self,
        endpoint: Endpoint,
        body: &[u8],
        request_id: Option<&str>,
    ) -> Result<ParsedRequest, Failure> {
        let request = request::parse(endpoint, body, &self.options.model, &self.rules())?;
        let (prompt_tokens, max_tokens) = self.token_limits(endpoint, &request)?;
        let tools = request.tools.clone().map(Constraint::Tools);
        let fingerprint = [request.constraint.as_deref(), tools.as_ref()]
            .into_iter()
            .flatten()
            .map(Constraint::fingerprint)
            .collect::<String>();
        let seed = self
            .seeds
            .draw(&request.prompt, &fingerprint, request.seed, request_id)?;
        let mut plan = AnswerPlan::new(&request, endpoint, self.options.reasoning_tokens, seed);
        plan.known = self.known.get(&request);
        let traits = RequestTraits {
            has_drafts: self.batching.speculate > 0,
            prompt_tokens,
            ..plan.traits(&request)
        };
        let faults = self.planting.draw(seed, &traits);
        plan.apply(&request, seed, &faults);
        Ok(ParsedRequest {
            endpoint,
            request,
            plan,
            prompt_tokens,
            max_tokens,
            seed,
            faults,
        })
    }

    /// Plans the answer to the request of a case by its reference. False without a reference that
    /// the model can write.
    ///
    /// # Errors
    /// Those of `encode`.
    pub(super) fn learn(
        &self,
        knowledge: Knowledge,
        index: usize,
        case: &Case,
        path: &str,
        encode: &mut impl FnMut(&Case) -> OurResult<Bytes>,
    ) -> OurResult<bool> {
        let item = case
            .item
            .unwrap_or(u32::try_from(index).unwrap_or(u32::MAX));
        let seed = self.options.seed;
        let mut draws = Draws::new(seed, &format!("answer to item {item}"));
        let is_right = knowledge.knows(seed, item, case.arm);
        let (Some(endpoint), Some(text)) = (
            Endpoint::from_path(path),
            answer_text(case, is_right, &mut draws),
        ) else {
            return Ok(false);
        };
        // A request that the server refuses has no answer.
        let body = encode(case)?;
        if let Ok(request) = request::parse(endpoint, &body, &self.options.model, &self.rules()) {
            self.known.add(&request, text);
        }
        Ok(true)
    }

    /// Limit on the tokens of prompt and answer together. As in vLLM, one request fits into the
    /// cache.
    pub(super) fn context_tokens(&self) -> u32 {
        self.batching
            .kv_tokens
            .map_or(CONTEXT_TOKENS, |tokens| tokens.min(CONTEXT_TOKENS))
    }

    /// Whether answers get no more tokens.
    pub(super) fn is_dead(&self) -> bool {
        self.batcher.is_dead()
    }

    /// State of the faults of compiles.
    pub(super) fn compile_faults(&self) -> &CompileFaults {
        &self.planting.compiles
    }

    /// The tokens of the prompt, and the token limit of the answer.
    fn token_limits(
        &self,
        endpoint: Endpoint,
        request: &GenerationRequest,
    ) -> Result<(u32, u32), Failure> {
        let prompt_tokens =
            u32::try_from(self.vocabulary.count(&request.prompt)).unwrap_or(u32::MAX);
        let context = self.context_tokens();
        let room = context.saturating_sub(prompt_tokens);
        let max_tokens = request.max_tokens.unwrap_or(match endpoint {
            Endpoint::Completions => DEFAULT_COMPLETION_TOKENS.min(room),
            Endpoint::Chat | Endpoint::Responses | Endpoint::Messages => room,
        });
        if max_tokens == 0 || max_tokens > room {
            let message = format!(
                "the context is {context} tokens; the prompt has {prompt_tokens} and {max_tokens} were requested for the answer"
            );
            return Err(Failure::bad_request(message).about("max_tokens"));
        }
        if request.min_tokens > max_tokens {
            let message = format!(
                "min_tokens must be at most max_tokens: {} > {max_tokens}",
                request.min_tokens
            );
            return Err(Failure::bad_request(message).about("min_tokens"));
        }
        Ok((prompt_tokens, max_tokens))
    }

    /// A matcher for a constraint of a request. `field` is the member that has it, if errors do not
    /// name it.
    ///
    /// # Errors
    /// The engine refuses the constraint, or status 503 if too many masks hang.
    pub(super) async fn matcher(
        &self,
        constraint: &Arc<Constraint>,
        field: Option<&'static str>,
    ) -> Result<Box<dyn Matcher>, Failure> {
        if self.batcher.stuck() >= MAX_STUCK_STEPS {
            return Err(Failure::busy(format!(
                "{MAX_STUCK_STEPS} masks timed out and are still running"
            )));
        }
        let fingerprint = constraint.fingerprint();
        let matcher = self
            .compiler
            .matcher(constraint, &fingerprint, &self.planting);
        matcher.await.map_err(|error| Failure {
            param: field,
            ..Failure::from(error)
        })
    }

    /// Compiles the constraints and puts the request into the batch.
    ///
    /// # Errors
    /// The engine refuses a constraint, or status 503 if too many masks hang.
    pub(super) async fn start(
        &self,
        parsed: ParsedRequest,
        pacer: Pacer,
    ) -> Result<StartedAnswer, Failure> {
        let ParsedRequest {
            endpoint,
            request,
            plan,
            prompt_tokens,
            max_tokens,
            seed,
            mut faults,
        } = parsed;
        let mut head = self.head(endpoint, prompt_tokens);
        if self.options.prefix_cache {
            head.cached_tokens = Some(self.prefixes.add(&request.prompt, prompt_tokens));
        }
        let delta_options = self.delta_options(&head, &plan, &request);
        let is_empty = faults.has(FaultKind::Empty);
        if faults.has(FaultKind::IgnoreConstraint) && !is_empty {
            faults.inject(FaultKind::IgnoreConstraint);
        }
        let parts = self.parts(plan, &request, &mut faults, max_tokens).await?;
        self.tally.add_prompt_tokens(prompt_tokens);
        let tokens = if faults.inject(FaultKind::Empty) {
            Tokens::finished(Progress {
                piece: Piece {
                    finish: Some(FinishReason::Stop),
                    ..Piece::default()
                },
                tokens: 1,
            })
        } else {
            let writer = self
                .language
                .writer(&request.prompt, request.sampling, seed, max_tokens);
            let vocabulary = Arc::clone(&self.vocabulary);
            let stop_strings = StopStrings::new(&request.stop);
            let limits = Limits {
                max_tokens,
                min_tokens: request.min_tokens,
                ignore_eos: request.ignore_eos,
                stop_strings,
            };
            let speculate = self.batching.speculate;
            let drafter = (speculate > 0)
                .then(|| Drafter::new(vocabulary.encode(&request.prompt), speculate));
            let mask_faults = MaskFaults::new(
                faults.take_batch_faults(),
                self.planting.plants(FaultKind::SwapMasks),
            );
            let generation =
                Generation::from_parts(vocabulary, writer, parts, limits, drafter, mask_faults);
            let delivery = if request.stream {
                Delivery::Pieces
            } else {
                Delivery::AtEnd
            };
            self.batcher.submit(Submission {
                generation,
                pacer,
                delivery,
                prompt_tokens,
                seed,
            })
        };
        let counts_reasoning = self.options.reasoning_tokens > 0;
        Ok(StartedAnswer {
            tokens,
            events: Events::new(head, request.usage, faults, delta_options, counts_reasoning),
        })
    }

    fn delta_options(
        &self,
        head: &Head,
        plan: &AnswerPlan,
        request: &GenerationRequest,
    ) -> DeltaSettings {
        let style = self.options.reasoning_style;
        let tools = request.tools.as_ref();
        let parser = |tools: &Arc<_>| CallParser::new(self.options.tool_style, Arc::clone(tools));
        let number = head.id.rsplit(['-', '_']).next().unwrap_or_default();
        let prefix = match head.endpoint {
            Endpoint::Messages => "toolu",
            _ => "call",
        };
        DeltaSettings {
            parser: ChannelParser {
                reasoning: plan.reasoning.map(|_| ReasoningParser::new(style)),
                calls: tools.map(parser),
            },
            id_prefix: format!("{prefix}_{number}"),
            includes_reasoning: request.thinking.is_included,
            end_mark: style.spec().end_mark,
            wrong_tool: plan.wrong_tool(request.tools.as_deref()),
        }
    }

    fn head(&self, endpoint: Endpoint, prompt_tokens: u32) -> Head {
        let prefix = match endpoint {
            Endpoint::Completions => "cmpl-",
            Endpoint::Chat => "chatcmpl-",
            Endpoint::Responses => "resp_",
            Endpoint::Messages => "msg_",
        };
        let id = format!(
            "{prefix}{:016x}",
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
            cached_tokens: None,
        }
    }
}
