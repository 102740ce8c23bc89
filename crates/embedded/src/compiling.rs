//! Compiles constraints outside the batching loop. Waiting does not block a thread, and concurrent
//! requests for the same constraint share one compile.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch::{Receiver, Sender, channel};
use tokio::task::spawn_blocking;

use super::faults::Planting;
use super::timetable::{nanoseconds_since, now, timed};

use sobench_core::constraint::Constraint;
use sobench_engine::cache::{CompileCache, MAX_CACHED_GRAMMARS};
use sobench_engine::guarded::GuardedEngine;
use sobench_engine::{Engine, EngineError, Grammar, Matcher};

type Compiled = Result<Arc<dyn Grammar>, EngineError>;

/// The result of a compile. `None` while it runs.
type Outcome = Option<Compiled>;

/// The cache of compiled constraints, and the compiles in progress.
pub(super) struct Compiler {
    cache: Arc<CompileCache>,
    in_progress: Arc<InProgress>,
}

/// Running compiles, by fingerprint.
#[derive(Default)]
struct InProgress(Mutex<HashMap<String, Receiver<Outcome>>>);

impl Compiler {
    /// Adds guard and cache to an engine for a vocabulary of `tokens` tokens. `timeout` limits one
    /// compile and its first mask.
    pub(super) fn new(engine: Arc<dyn Engine>, tokens: usize, timeout: Duration) -> Self {
        let engine = GuardedEngine::for_server(engine, tokens, timeout);
        let cache = Arc::new(CompileCache::new(Arc::new(engine), MAX_CACHED_GRAMMARS));
        Self {
            cache,
            in_progress: Arc::default(),
        }
    }

    pub(super) fn engine(&self) -> &dyn Engine {
        self.cache.engine()
    }

    pub(super) fn hits(&self) -> u64 {
        self.cache.hits()
    }

    pub(super) fn misses(&self) -> u64 {
        self.cache.misses()
    }

    /// Number of distinct constraints that are being compiled, with or without waiting requests.
    pub(super) fn compiling(&self) -> usize {
        self.in_progress.lock().len()
    }

    /// A matcher for the constraint, compiled now if needed, with the faults of compiles. Of several
    /// requests that wait for the same compile, one counts as a cache miss.
    pub(super) async fn matcher(
        &self,
        constraint: &Arc<Constraint>,
        fingerprint: &str,
        planting: &Arc<Planting>,
    ) -> Result<Box<dyn Matcher>, EngineError> {
        if let Some(compiled) = self.cache.get_compiled(fingerprint) {
            return compiled?.matcher();
        }
        let (mut outcome, is_first) = self.join(constraint, fingerprint, planting);
        // A compile ends without an outcome if its runtime is shut down.
        let stopped = || {
            Err(EngineError::Crashed {
                message: "compile: the server stops".into(),
            })
        };
        let compiled = outcome
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|compiled| compiled.clone())
            .unwrap_or_else(stopped);
        // Requests that waited for another's compile read the cache, so that they count as cache
        // hits.
        let found = if is_first {
            None
        } else {
            self.cache.get_compiled(fingerprint)
        };
        found.unwrap_or(compiled)?.matcher()
    }

    /// The outcome of a running compile, or of a new one. The flag is true for a new compile.
    fn join(
        &self,
        constraint: &Arc<Constraint>,
        fingerprint: &str,
        planting: &Arc<Planting>,
    ) -> (Receiver<Outcome>, bool) {
        let mut in_progress = self.in_progress.lock();
        if let Some(outcome) = in_progress.get(fingerprint) {
            return (outcome.clone(), false);
        }
        let (sender, outcome) = channel(None);
        let sender = Arc::new(sender);
        in_progress.insert(fingerprint.to_owned(), outcome.clone());
        drop(in_progress);
        let compile = compile(
            Arc::clone(&self.cache),
            Arc::clone(constraint),
            fingerprint.to_owned(),
            Arc::clone(planting),
            Arc::clone(&sender),
        );
        let (list, fingerprint) = (Arc::clone(&self.in_progress), fingerprint.to_owned());
        // A separate task: if the client disconnects, the compile continues and the next request
        // finds it.
        tokio::spawn(async move {
            let compiled = compile.await;
            list.lock().remove(&fingerprint);
            sender.send_replace(Some(compiled));
        });
        (outcome, true)
    }
}

impl InProgress {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Receiver<Outcome>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn compile(
    cache: Arc<CompileCache>,
    constraint: Arc<Constraint>,
    fingerprint: String,
    planting: Arc<Planting>,
    sender: Arc<Sender<Outcome>>,
) -> Compiled {
    let queued = now();
    let compile = move || {
        let queue_ns = nanoseconds_since(queued);
        let faults = planting.draw_on_compile(&fingerprint);
        // The list of running compiles has a receiver of its own.
        let is_awaited = || sender.receiver_count() > 1;
        let (compiled, compile_ns) = timed(|| {
            planting
                .compiles
                .run(faults, &constraint, &fingerprint, is_awaited, || {
                    cache.compile(&fingerprint, &constraint)
                })
        });
        planting.tally().compiled(queue_ns, compile_ns);
        compiled
    };
    spawn_blocking(compile).await.unwrap_or_else(|error| {
        Err(EngineError::Crashed {
            message: format!("compile: {error}"),
        })
    })
}
