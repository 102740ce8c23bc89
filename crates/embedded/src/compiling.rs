//! Compiles constraints off the loop: waits without holding a thread, one compile for all who ask
//! for the same. Knows neither HTTP nor tokens' texts.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch::{Receiver, channel};
use tokio::task::spawn_blocking;

use sobench_core::constraint::Constraint;
use sobench_engine::cache::{CACHED_GRAMMARS, CompileCache};
use sobench_engine::guarded::GuardedEngine;
use sobench_engine::{Engine, EngineError, EngineName, Grammar, Matcher};

type Compiled = Result<Arc<dyn Grammar>, EngineError>;

/// Of a compile; `None` while it runs.
type Outcome = Option<Compiled>;

/// The cache, and what is being compiled for it.
pub(super) struct Compiler {
    cache: Arc<CompileCache>,
    under_way: Arc<UnderWay>,
    routes: Arc<Routes>,
}

/// Constraints by the engine that `auto` sent them to.
#[derive(Default)]
struct Routes(Mutex<BTreeMap<&'static str, u64>>);

/// Compiles that have begun and not ended, by fingerprint.
#[derive(Default)]
struct UnderWay(Mutex<HashMap<String, Receiver<Outcome>>>);

impl Compiler {
    /// Puts the boundary and the cache around a bare engine for a vocabulary of so many tokens.
    /// `timeout` bounds one compile and its first mask.
    pub(super) fn new(bare: Arc<dyn Engine>, tokens: usize, timeout: Duration) -> Self {
        let engine = GuardedEngine::for_server(bare, tokens, timeout);
        let cache = Arc::new(CompileCache::new(Arc::new(engine), CACHED_GRAMMARS));
        Self {
            cache,
            under_way: Arc::default(),
            routes: Arc::default(),
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

    /// Different constraints that are being compiled, whether somebody still waits for them or not.
    pub(super) fn compiling(&self) -> usize {
        self.under_way.lock().len()
    }

    /// Constraints that were compiled, by the engine that `auto` sent them to.
    pub(super) fn routes(&self) -> Vec<(String, u64)> {
        let routes = self.routes.0.lock().unwrap_or_else(PoisonError::into_inner);
        routes
            .iter()
            .map(|(name, count)| ((*name).to_owned(), *count))
            .collect()
    }

    /// A matcher for the constraint, compiled now if need be. Of those who wait for the same
    /// compile one counts as a miss.
    pub(super) async fn matcher(
        &self,
        constraint: &Arc<Constraint>,
        fingerprint: &str,
    ) -> Result<Box<dyn Matcher>, EngineError> {
        if let Some(compiled) = self.cache.ready(fingerprint) {
            return compiled?.matcher();
        }
        let (mut outcome, led) = self.join(constraint, fingerprint);
        // A compile that ends without an outcome is one whose runtime has gone.
        let died = || {
            Err(EngineError::Crashed {
                words: "compile: the server stops".into(),
            })
        };
        let compiled = outcome
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|compiled| compiled.clone())
            .unwrap_or_else(died);
        // Who has waited for another's compile looks the result up, so that it counts as found.
        let found = if led {
            None
        } else {
            self.cache.ready(fingerprint)
        };
        found.unwrap_or(compiled)?.matcher()
    }

    /// Where a compile's outcome will be, and whether it was begun for this one who asks.
    fn join(&self, constraint: &Arc<Constraint>, fingerprint: &str) -> (Receiver<Outcome>, bool) {
        let mut under_way = self.under_way.lock();
        if let Some(outcome) = under_way.get(fingerprint) {
            return (outcome.clone(), false);
        }
        let (sender, outcome) = channel(None);
        under_way.insert(fingerprint.to_owned(), outcome.clone());
        drop(under_way);
        let compile = compile(
            Arc::clone(&self.cache),
            Arc::clone(constraint),
            fingerprint.to_owned(),
        );
        let count = count_route(
            Arc::clone(&self.routes),
            Arc::clone(&self.cache),
            Arc::clone(constraint),
        );
        let (list, fingerprint) = (Arc::clone(&self.under_way), fingerprint.to_owned());
        // A task of its own: whoever asks may go away, and the next to ask must find it, not begin
        // another.
        tokio::spawn(async move {
            let compiled = compile.await;
            list.lock().remove(&fingerprint);
            sender.send_replace(Some(compiled));
            // After the answer could begin: nobody waits for a count.
            count.await;
        });
        (outcome, true)
    }
}

impl UnderWay {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Receiver<Outcome>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts where `auto` sent a constraint. It converts schemas to say so, which is no work for a
/// thread that serves.
async fn count_route(routes: Arc<Routes>, cache: Arc<CompileCache>, constraint: Arc<Constraint>) {
    if cache.engine().name() != EngineName::Auto.name() {
        return;
    }
    let route = spawn_blocking(move || cache.engine().route(&constraint)).await;
    // A library that panics here has routed nothing.
    let name = route
        .ok()
        .flatten()
        .map_or("none", |route| route.engine.name());
    *routes
        .0
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .entry(name)
        .or_default() += 1;
}

async fn compile(
    cache: Arc<CompileCache>,
    constraint: Arc<Constraint>,
    fingerprint: String,
) -> Compiled {
    spawn_blocking(move || cache.compile(&fingerprint, &constraint))
        .await
        .unwrap_or_else(|error| {
            Err(EngineError::Crashed {
                words: format!("compile: {error}"),
            })
        })
}
