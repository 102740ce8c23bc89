//! The embedded server, compatible with OpenAI's API and Anthropic's messages, with real masks over
//! a synthetic model.
//!
//! A real decoding engine computes the masks over a real vocabulary. Only the model is synthetic,
//! and every answer says so where the API allows it. The server has its own threads, so that a
//! client in the same process uses it like any other server.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod answer_outcome;
mod answer_parts;
mod app;
mod batching;
mod channels;
mod compile_faults;
mod compiling;
mod constraint_fields;
mod deltas;
mod drafts;
mod endpoint;
mod event_writer;
mod events;
mod failure;
mod faults;
mod generation;
mod knowledge;
mod listening;
mod mask_faults;
mod messages_request;
mod messages_wire;
mod model;
mod prefix_cache;
mod process_stats;
mod prometheus;
mod reasoning;
mod request;
mod responses_request;
mod responses_wire;
mod routes;
mod seeds;
mod stats;
mod stop_strings;
mod timetable;
mod tools;
mod wire;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use app::App;
use batching::{Batching, STEP_TIMEOUT};
use compiling::Compiler;
use listening::{Connection, Listening};
use sobench_core::case::Case;
use sobench_core::constraint::{Constraint, GrammarDialect};
use sobench_core::error::{Error, Result};
use sobench_core::speed::Speed;
use sobench_engine::vocabulary::VocabularySource;
use sobench_engine::{
    self as engine, Engine, EngineName, EnginePolicy, Route, Vocabulary, guarded,
};
use timetable::{Clock, Timetable, within};

pub use constraint_fields::GuidedFields;
pub use faults::{Fault, FaultKind, FaultShare};
pub use knowledge::Knowledge;
pub use process_stats::ProcessStats;
pub use reasoning::{ReasoningSpec, ReasoningStyle};
pub use stats::{AnswerCounts, DraftStats, SequenceCounts, ServerStats, TimeSummary};
pub use tools::{StyleSpec, ToolStyle};

/// The default model id of the embedded server.
pub const SYNTHETIC_MODEL: &str = "sobench-synthetic";

/// The version in `/version`. It cannot be confused with that of another server.
pub const VERSION: &str = concat!("sobench-embedded ", env!("CARGO_PKG_VERSION"));

/// Default limit on the sequences of a batch: vLLM's `max_num_seqs`, which is 1024 on GPUs with
/// 70 GiB or more, except A100.
pub const DEFAULT_MAX_BATCH: usize = 256;

/// The most drafted tokens of one step of a sequence.
pub const MAX_SPECULATE: usize = 16;

/// The smallest limit on the tokens of prompts and answers of the running sequences.
pub const MIN_KV_TOKENS: u32 = 64;

/// Number of constraints that are compiled at the same time. More wait in a queue.
const COMPILE_THREADS: usize = 4;

/// Time that running answers have to complete when the server stops.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// Options of an embedded server.
#[derive(Clone, Debug, PartialEq)]
pub struct EmbeddedSettings {
    pub engine: EngineName,
    pub policy: EnginePolicy,
    /// The vocabulary of the engine and the model.
    pub vocabulary: VocabularySource,
    /// The end-of-sequence token, if the files of the vocabulary do not declare it.
    pub eos_token: Option<String>,
    /// Seed of the answers. The same requests to a new server with the same seed get the same
    /// answers.
    pub seed: u64,
    /// The times of the synthetic model, during which masks are computed.
    pub speed: Speed,
    /// Number of concurrently running sequences, at least 1. More wait in a queue.
    pub max_batch: usize,
    /// Time limit of one compile, in seconds, from 0.001 to 86400. A constraint that takes longer is
    /// refused.
    pub compile_timeout_s: f64,
    /// The model id in `/v1/models`. Requests must use it.
    pub model: String,
    /// Address to listen on. `None` selects a free loopback port.
    pub bind: Option<SocketAddr>,
    pub guided_fields: GuidedFields,
    /// Faults to inject.
    pub faults: Vec<Fault>,
    /// How the model writes tool calls.
    pub tool_style: ToolStyle,
    /// Tokens of reasoning before each answer, about. 0 for a model that does not reason.
    pub reasoning_tokens: u32,
    /// The marks around the reasoning.
    pub reasoning_style: ReasoningStyle,
    /// If set, the model first writes the text that a prompt has between these marks, as far as the
    /// masks allow, and then continues with generated text.
    pub repeats_between: Option<[&'static str; 2]>,
    /// Drafted tokens of one step of a sequence (n-gram speculative decoding), from 0 to
    /// [`MAX_SPECULATE`].
    pub speculate: usize,
    /// Limit on the tokens of prompts and answers of the running sequences, at least
    /// [`MIN_KV_TOKENS`]. Sequences that do not fit are preempted. It also limits the tokens of one
    /// request.
    pub kv_tokens: Option<u32>,
    /// Whether usage has the tokens of prompts that a prefix cache would have.
    pub prefix_cache: bool,
    /// How often the model knows the references that [`EmbeddedServer::learn`] is given.
    pub knowledge: Option<Knowledge>,
}

impl Default for EmbeddedSettings {
    fn default() -> Self {
        Self {
            engine: EngineName::default(),
            policy: EnginePolicy::default(),
            vocabulary: VocabularySource::Cl100k,
            eos_token: None,
            seed: 0,
            speed: Speed::default(),
            max_batch: DEFAULT_MAX_BATCH,
            compile_timeout_s: guarded::COMPILE_TIMEOUT.as_secs_f64(),
            model: SYNTHETIC_MODEL.to_owned(),
            bind: None,
            guided_fields: GuidedFields::default(),
            faults: Vec::new(),
            tool_style: ToolStyle::default(),
            reasoning_tokens: 0,
            reasoning_style: ReasoningStyle::default(),
            repeats_between: None,
            speculate: 0,
            kv_tokens: None,
            prefix_cache: false,
            knowledge: None,
        }
    }
}

/// A running server. Dropping it stops it: it accepts no new connections, and running answers have
/// two seconds to complete.
pub struct EmbeddedServer {
    address: SocketAddr,
    base_url: String,
    app: Arc<App>,
    stop: Option<oneshot::Sender<()>>,
    /// The server drops the sender when it has ended.
    ended: oneshot::Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl EmbeddedServer {
    /// Starts a server and returns when it accepts connections. Loads the vocabulary and the
    /// engine, which takes about half a second. Blocks: call it outside an async runtime or on a
    /// blocking thread.
    ///
    /// # Errors
    /// A time of the model is not from 0 to ten minutes, the address is not available, the engine is
    /// not in this build, or threads cannot be started.
    pub fn start(options: EmbeddedSettings) -> Result<Self> {
        let batching = batching(&options)?;
        let listener = listening::bind(options.bind)?;
        let vocabulary = Arc::new(
            options
                .vocabulary
                .load_with_eos(options.eos_token.as_deref())?,
        );
        let engine = engine::open_unguarded(options.engine, &vocabulary, &options.policy)?;
        Self::run(options, batching, listener, vocabulary, engine)
    }

    /// The URL for clients on this machine, e.g. `http://127.0.0.1:40123`.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// The address of the listening socket.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The speed of the synthetic model.
    pub fn speed(&self) -> Speed {
        self.app.options.speed
    }

    /// The decoding library and its version, e.g. `llguidance 1.9.1`.
    pub fn engine_label(&self) -> String {
        self.app.engine().version().to_owned()
    }

    /// The current statistics, as in `/sobench/stats`.
    pub fn stats(&self) -> ServerStats {
        self.app.stats()
    }

    /// The engine that `auto` selects for a constraint, and the reason. `None` for other engines.
    /// Converts schemas, so it must not run on a serving thread.
    pub fn route(&self, constraint: &Constraint) -> Option<Route> {
        self.app.engine().route(constraint)
    }

    /// The preferred grammar notation. `None` if the engine reads no grammars.
    pub fn grammar_dialect(&self) -> Option<GrammarDialect> {
        self.grammar_dialects().first().copied()
    }

    /// The grammar notations that the engine reads, the preferred one first.
    pub fn grammar_dialects(&self) -> &'static [GrammarDialect] {
        self.app.engine().grammar_dialects()
    }

    /// Gives the model the references of a run's cases, so that it answers them right or wrong as
    /// [`EmbeddedSettings::knowledge`] says; without it, nothing happens. `path` and `encode` give the
    /// endpoint and the body of the request of a case. Equal requests have equal answers.
    ///
    /// # Errors
    /// Usage error if no case has a reference that the model can write; errors of `encode`.
    pub fn learn(
        &self,
        cases: &[Case],
        path: &str,
        mut encode: impl FnMut(&Case) -> Result<Bytes>,
    ) -> Result<()> {
        let Some(knowledge) = self.app.options.knowledge else {
            return Ok(());
        };
        let mut known = 0;
        for (index, case) in cases.iter().enumerate() {
            known += usize::from(self.app.learn(knowledge, index, case, path, &mut encode)?);
        }
        if known == 0 {
            return Err(knowledge::no_references(cases));
        }
        Ok(())
    }

    /// Serves until `stop` resolves, e.g. on Ctrl-C, and then stops as if dropped. Blocks: call it
    /// outside an async runtime.
    ///
    /// # Errors
    /// The server ended by an injected fault or unexpectedly, or the runtime cannot be created.
    pub fn wait(mut self, stop: impl Future<Output = ()>) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime
            .map_err(|error| Error::environment(format!("cannot create a runtime: {error}")))?;
        runtime.block_on(async {
            tokio::select! {
                () = stop => Ok(()),
                _ = &mut self.ended => Err(self.end_error()),
            }
        })
    }

    fn end_error(&self) -> Error {
        if self.app.compile_faults().is_dead() {
            Error::environment("the embedded server died: an injected fault, die-on-large")
                .hint("start it without that fault")
        } else {
            Error::internal("the embedded server ended unexpectedly")
        }
    }

    /// Builds and starts the server around an engine without guard or cache.
    fn run(
        options: EmbeddedSettings,
        batching: Batching,
        listener: TcpListener,
        vocabulary: Arc<Vocabulary>,
        engine: Arc<dyn Engine>,
    ) -> Result<Self> {
        let compile_timeout = Duration::from_secs_f64(options.compile_timeout_s);
        let failed = |problem: &'static str| {
            move |error: std::io::Error| Error::environment(format!("{problem}: {error}"))
        };
        let address = listener
            .local_addr()
            .map_err(failed("cannot read the port of the embedded server"))?;
        let runtime =
            runtime().map_err(failed("cannot start the threads of the embedded server"))?;
        let compiler = Compiler::new(engine, vocabulary.len(), compile_timeout);
        let resettable = options
            .faults
            .iter()
            .any(|fault| fault.kind == FaultKind::Reset);
        let app = Arc::new(App::new(
            vocabulary,
            compiler,
            batching,
            options,
            runtime.handle(),
        )?);
        let (stop, stopped) = oneshot::channel();
        let (end, ended) = oneshot::channel::<()>();
        let served = Arc::clone(&app);
        let run = move || {
            let _end = end;
            runtime.block_on(serve(listener, resettable, Arc::clone(&served), stopped));
            // Do not wait for a compile that hangs.
            runtime.shutdown_background();
            served.compile_faults().stop();
        };
        let thread = thread::Builder::new()
            .name("embedded-server".into())
            .spawn(run)
            .map_err(failed("cannot start the thread of the embedded server"))?;
        let base_url = listening::base_url(address);
        Ok(Self {
            address,
            base_url,
            app,
            stop: Some(stop),
            ended,
            thread: Some(thread),
        })
    }
}

impl Drop for EmbeddedServer {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // The server may have ended already.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn batching(options: &EmbeddedSettings) -> Result<Batching> {
    let EmbeddedSettings {
        speed,
        max_batch,
        speculate,
        kv_tokens,
        ..
    } = *options;
    let timetable = Timetable::new(&speed).ok_or_else(|| {
        Error::usage(format!("invalid timing of the embedded server: {speed}"))
            .hint("set --embedded-ttft-ms, --embedded-itl-ms and --embedded-step-ms to numbers from 0 to 600000")
    })?;
    Ok(Batching {
        max_batch,
        threads: machine_threads(),
        timetable,
        clock: Clock::System,
        step_timeout: STEP_TIMEOUT,
        speculate,
        kv_tokens,
    })
}

fn machine_threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(machine_threads())
        .max_blocking_threads(COMPILE_THREADS)
        .thread_name("embedded")
        .enable_all()
        .build()
}

async fn serve(
    listener: TcpListener,
    resettable: bool,
    app: Arc<App>,
    stopped: oneshot::Receiver<()>,
) {
    // The socket was set up just before, so this fails only without a runtime.
    let Ok(listening) = Listening::new(listener, resettable) else {
        return;
    };
    let router =
        routes::router(Arc::clone(&app)).into_make_service_with_connect_info::<Connection>();
    let (stop_accepting, accepting_stopped) = oneshot::channel();
    let server = axum::serve(listening, router).with_graceful_shutdown(async {
        let _ = accepting_stopped.await;
    });
    let server = tokio::spawn(async move { server.await });
    tokio::select! {
        _ = stopped => {}
        () = app.compile_faults().death() => {
            // The end of the runtime closes the connections.
            server.abort();
            return;
        }
    }
    let _ = stop_accepting.send(());
    within(STOP_GRACE, server).await;
}

#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
