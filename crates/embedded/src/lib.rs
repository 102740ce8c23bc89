//! The embedded OpenAI-compatible server: routes, a synthetic model, a timetable.
//!
//! Masks come from a real decoding engine over a real vocabulary; only the model behind them is
//! synthetic, and every answer says so where the API has room. It runs on threads of its own, so
//! that a client in the same process is a client like any other.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod accounts;
mod app;
mod batching;
mod compiling;
mod constraint_fields;
mod events;
mod failure;
mod faults;
mod generation;
mod listening;
mod model;
mod request;
mod routes;
mod seeds;
mod stats;
mod stopping;
mod timetable;
mod tokens;
mod wire;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use app::App;
use batching::{Batching, STEP_TIMEOUT};
use compiling::Compiler;
use listening::{Connection, Listening};
use sobench_core::constraint::{Constraint, GrammarDialect};
use sobench_core::error::{Error, Result};
use sobench_engine::vocabulary::VocabularySource;
use sobench_engine::{
    self as engine, Engine, EngineName, EnginePolicy, Route, Vocabulary, guarded,
};
use timetable::{Timetable, within};

pub use constraint_fields::GuidedFields;
pub use faults::{Fault, FaultKind};
pub use stats::{Answers, Ended, ServerStats, Times};

/// The id of the model that the embedded server offers unless told otherwise.
pub const SYNTHETIC_MODEL: &str = "sobench-synthetic";

/// What `/version` says: made to be taken for nobody else's server.
pub const VERSION: &str = concat!("sobench-embedded ", env!("CARGO_PKG_VERSION"));

/// Sequences in a batch unless told otherwise; vLLM's `max_num_seqs`.
pub const DEFAULT_MAX_BATCH: usize = 256;

/// Most sequences that a batch may be allowed.
pub const MOST_BATCH: usize = 16_384;

/// Constraints that are compiled at the same time; more wait their turn.
const COMPILE_THREADS: usize = 4;

/// How long answers in the making may go on when the server is stopped.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// What an embedded server is to be like.
#[derive(Clone, Debug, PartialEq)]
pub struct EmbeddedOptions {
    pub engine: EngineName,
    pub policy: EnginePolicy,
    /// What the engine masks and the model speaks.
    pub vocabulary: VocabularySource,
    /// The token that ends an answer, where the vocabulary's files do not say.
    pub eos_token: Option<String>,
    /// Answers depend on it: the same requests to a fresh server of the same seed get the same
    /// answers.
    pub seed: u64,
    /// Milliseconds from a request's arrival to its first token at the earliest; 0 for as fast as
    /// possible.
    pub ttft_ms: f64,
    /// Milliseconds from token to token; 0 for as fast as possible.
    pub itl_ms: f64,
    /// Least milliseconds of a step of the batch: the synthetic model's time, while which masks are
    /// computed; 0 for none.
    pub step_ms: f64,
    /// Sequences that run at one time, from 1 to [`MOST_BATCH`]; more wait in a queue.
    pub max_batch: usize,
    /// Seconds that one compile may take, above 0; a constraint that takes longer is refused.
    pub compile_timeout_s: f64,
    /// The model id that `/v1/models` offers and requests must name.
    pub model: String,
    /// Where to listen; `None` for a free loopback port.
    pub bind: Option<SocketAddr>,
    pub guided_fields: GuidedFields,
    /// What goes wrong on purpose.
    pub faults: Vec<Fault>,
    /// The model writes the text that a prompt has between these marks, as far as masks let it, and
    /// goes its own way from there; `None` for a model that always does.
    pub repeats_between: Option<[&'static str; 2]>,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self {
            engine: EngineName::default(),
            policy: EnginePolicy::default(),
            vocabulary: VocabularySource::Cl100k,
            eos_token: None,
            seed: 0,
            ttft_ms: 0.0,
            itl_ms: 0.0,
            step_ms: 0.0,
            max_batch: DEFAULT_MAX_BATCH,
            compile_timeout_s: guarded::COMPILE_TIMEOUT.as_secs_f64(),
            model: SYNTHETIC_MODEL.to_owned(),
            bind: None,
            guided_fields: GuidedFields::default(),
            faults: Vec::new(),
            repeats_between: None,
        }
    }
}

/// A running server. Dropping it stops it: no new connection is taken, answers in the making have
/// two seconds to end.
pub struct EmbeddedServer {
    address: SocketAddr,
    base_url: String,
    app: Arc<App>,
    stop: Option<oneshot::Sender<()>>,
    /// Says that the server has ended, by dropping the other end.
    ended: oneshot::Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl EmbeddedServer {
    /// Starts a server and returns when it takes connections. Loads the vocabulary and the engine,
    /// which takes about half a second; blocks, so call it from outside an async runtime or from a
    /// blocking thread.
    ///
    /// # Errors
    /// Times that are no durations of at most ten minutes, a batch of none; an address that cannot
    /// be had; an engine that is not built in; no threads.
    pub fn start(options: EmbeddedOptions) -> Result<Self> {
        let batching = batching(&options)?;
        let listener = listening::bind(options.bind)?;
        let vocabulary = Arc::new(
            options
                .vocabulary
                .load_with_eos(options.eos_token.as_deref())?,
        );
        let engine = engine::open_bare(options.engine, &vocabulary, &options.policy)?;
        Self::run(options, batching, listener, vocabulary, engine)
    }

    /// Where clients on this machine reach it, e.g. `http://127.0.0.1:40123`.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The decoding library and its version, e.g. `llguidance 1.9.1`.
    pub fn engine_label(&self) -> String {
        self.app.engine().version().to_owned()
    }

    /// What it is doing and has done: what `/sobench/stats` answers.
    pub fn stats(&self) -> ServerStats {
        self.app.stats()
    }

    /// Where `auto` sends a constraint, and why; `None` for an engine that has no choice. Converts
    /// schemas, so not for threads that serve.
    pub fn route(&self, constraint: &Constraint) -> Option<Route> {
        self.app.engine().route(constraint)
    }

    /// The grammar notation to send; `None` where the engine reads no grammars.
    pub fn grammar_dialect(&self) -> Option<GrammarDialect> {
        self.grammar_dialects().first().copied()
    }

    /// The grammar notations that the engine reads, the one that it is sent first.
    pub fn grammar_dialects(&self) -> &'static [GrammarDialect] {
        self.app.engine().grammar_dialects()
    }

    /// Serves until `stop` resolves, e.g. with Ctrl-C, then stops as if dropped. Blocks, so call it
    /// from outside an async runtime.
    ///
    /// # Errors
    /// The server ended by itself; the system gives no runtime to wait in.
    pub fn wait(mut self, stop: impl Future<Output = ()>) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime
            .map_err(|error| Error::environment(format!("no runtime to wait in: {error}")))?;
        runtime.block_on(async {
            tokio::select! {
                () = stop => Ok(()),
                _ = &mut self.ended => Err(Error::internal("the embedded server ended by itself")),
            }
        })
    }

    /// Puts the parts together; the engine is a bare one.
    fn run(
        options: EmbeddedOptions,
        batching: Batching,
        listener: TcpListener,
        vocabulary: Arc<Vocabulary>,
        engine: Arc<dyn Engine>,
    ) -> Result<Self> {
        let compile_timeout = compile_timeout(options.compile_timeout_s)?;
        let failed = |what: &'static str| {
            move |error: std::io::Error| Error::environment(format!("{what}: {error}"))
        };
        let address = listener
            .local_addr()
            .map_err(failed("embedded server's port has no address"))?;
        let runtime = runtime().map_err(failed("embedded server got no threads"))?;
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
            runtime.block_on(serve(listener, resettable, served, stopped));
            // A compile that hangs must not hold up the end.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new()
            .name("embedded-server".into())
            .spawn(run)
            .map_err(failed("embedded server got no thread"))?;
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
            // It may have stopped by itself.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn compile_timeout(seconds: f64) -> Result<Duration> {
    let timeout = Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|timeout| !timeout.is_zero());
    timeout.ok_or_else(|| {
        Error::usage(format!(
            "embedded server cannot keep this limit of a compile: {seconds} s"
        ))
        .hint("give --embedded-compile-timeout-s seconds from 0.001 to 86400")
    })
}

fn batching(options: &EmbeddedOptions) -> Result<Batching> {
    let EmbeddedOptions {
        ttft_ms,
        itl_ms,
        step_ms,
        max_batch,
        ..
    } = *options;
    let timetable = Timetable::new(ttft_ms, itl_ms, step_ms).ok_or_else(|| {
        Error::usage(format!("embedded server cannot keep these times: {ttft_ms} ms, {itl_ms} ms, {step_ms} ms"))
            .hint("give --embedded-ttft-ms, --embedded-itl-ms and --embedded-step-ms milliseconds from 0 to 600000")
    })?;
    if !(1..=MOST_BATCH).contains(&max_batch) {
        return Err(Error::usage(format!(
            "embedded server cannot run a batch of so many sequences: {max_batch}"
        ))
        .hint(format!(
            "give --embedded-max-batch a number from 1 to {MOST_BATCH}"
        )));
    }
    Ok(Batching {
        max_batch,
        threads: machine_threads(),
        timetable,
        step_timeout: STEP_TIMEOUT,
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
    // The socket was made and set up a moment ago, so this fails only without a runtime.
    let Ok(listening) = Listening::new(listener, resettable) else {
        return;
    };
    let router = routes::router(app).into_make_service_with_connect_info::<Connection>();
    let (stop_taking, told) = oneshot::channel();
    let server = axum::serve(listening, router).with_graceful_shutdown(async {
        let _ = told.await;
    });
    let server = tokio::spawn(async move { server.await });
    let _ = stopped.await;
    let _ = stop_taking.send(());
    within(STOP_GRACE, server).await;
}

#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
