//! The embedded OpenAI-compatible server: routes, a synthetic model, a timetable.
//!
//! Masks come from a real decoding engine over a real vocabulary; only the model behind them is synthetic, and every answer says
//! so where the API has room. It runs on threads of its own, so that a client in the same process is a client like any other.

mod constraint_fields;
mod failure;
mod generation;
mod model;
mod request;
mod routes;
mod seeds;
mod timetable;
mod wire;

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::serve::ListenerExt;
use tokio::sync::oneshot;

use crate::engine::{self, EngineName, EnginePolicy, Vocabulary};
use crate::error::{Error, Result};
use routes::App;
use timetable::{Timetable, within};

/// The id of the model that the embedded server offers unless told otherwise.
pub const SYNTHETIC_MODEL: &str = "sobench-synthetic";

/// What `/version` says: made to be taken for nobody else's server.
pub const VERSION: &str = concat!("sobench-embedded ", env!("CARGO_PKG_VERSION"));

/// Threads that may wait for a compile at the same time; more requests wait their turn.
const COMPILE_THREADS: usize = 4;

/// How long answers in the making may go on when the server is stopped.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// What an embedded server is to be like.
#[derive(Clone, Debug, PartialEq)]
pub struct EmbeddedOptions {
    pub engine: EngineName,
    /// Answers depend on it: the same requests to a fresh server of the same seed get the same answers.
    pub seed: u64,
    /// Milliseconds from a request's arrival to its first token at the earliest; 0 for as fast as possible.
    pub ttft_ms: f64,
    /// Milliseconds from token to token; 0 for as fast as possible.
    pub itl_ms: f64,
    /// The model id that `/v1/models` offers and requests must name.
    pub model: String,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self { engine: EngineName::Guidance, seed: 0, ttft_ms: 0.0, itl_ms: 0.0, model: SYNTHETIC_MODEL.to_owned() }
    }
}

/// A running server on a free loopback port. Dropping it stops it: no new connection is taken, answers in the making have two
/// seconds to end.
pub struct EmbeddedServer {
    base_url: String,
    engine_label: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl EmbeddedServer {
    /// Starts a server and returns when it takes connections. Loads the vocabulary and the engine, which takes about half a
    /// second; blocks, so call it from outside an async runtime or from a blocking thread.
    ///
    /// # Errors
    /// Times that are no durations of at most ten minutes; no loopback port, no threads.
    pub fn start(options: EmbeddedOptions) -> Result<Self> {
        let timetable = Timetable::new(options.ttft_ms, options.itl_ms).ok_or_else(|| {
            let times = format!("embedded server cannot keep these times: {} ms, {} ms", options.ttft_ms, options.itl_ms);
            Error::usage(times).hint("give --embedded-ttft-ms and --embedded-itl-ms milliseconds from 0 to 600000")
        })?;
        let vocabulary = Arc::new(Vocabulary::cl100k()?);
        let engine = engine::open(options.engine, &vocabulary, &EnginePolicy::default())?;
        let engine_label = engine.version().to_owned();
        let failed = |what: &'static str| move |error: std::io::Error| Error::environment(format!("{what}: {error}"));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed("embedded server found no loopback port"))?;
        listener.set_nonblocking(true).map_err(failed("embedded server cannot use its port"))?;
        let address = listener.local_addr().map_err(failed("embedded server's port has no address"))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(thread::available_parallelism().map_or(1, usize::from))
            .max_blocking_threads(COMPILE_THREADS)
            .thread_name("embedded")
            .enable_all()
            .build()
            .map_err(failed("embedded server got no threads"))?;
        let app = Arc::new(App::new(vocabulary, engine, timetable, options));
        let (stop, stopped) = oneshot::channel();
        let run = move || {
            runtime.block_on(serve(listener, app, stopped));
            // A compile that hangs must not hold up the end.
            runtime.shutdown_background();
        };
        let thread =
            thread::Builder::new().name("embedded-server".into()).spawn(run).map_err(failed("embedded server got no thread"))?;
        Ok(Self { base_url: format!("http://{address}"), engine_label, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens, e.g. `http://127.0.0.1:40123`.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// The decoding library and its version, e.g. `llguidance 1.9.1`.
    pub fn engine_label(&self) -> String {
        self.engine_label.clone()
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

async fn serve(listener: TcpListener, app: Arc<App>, stopped: oneshot::Receiver<()>) {
    // The socket was made and set up a moment ago, so this fails only without a runtime.
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    // Small writes, one a token, must not wait for each other.
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    let (stop_taking, told) = oneshot::channel();
    let server = axum::serve(listener, routes::router(app)).with_graceful_shutdown(async {
        let _ = told.await;
    });
    let server = tokio::spawn(async move { server.await });
    let _ = stopped.await;
    let _ = stop_taking.send(());
    within(STOP_GRACE, server).await;
}
