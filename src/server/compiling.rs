//! Compiles constraints off the loop: waits without holding a thread, one compile for all who ask for the same. Knows neither
//! HTTP nor tokens' texts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

use crate::constraint::{Constraint, GrammarDialect};
use crate::engine::cache::{CACHED_GRAMMARS, CompileCache};
use crate::engine::guarded::GuardedEngine;
use crate::engine::{Engine, EngineError, Grammar, Matcher, Route, TokenMask};

type Compiled = Result<Arc<dyn Grammar>, EngineError>;

/// The cache, and what is being compiled for it.
pub(super) struct Compiler {
    cache: Arc<CompileCache>,
    under_way: Mutex<HashMap<String, Arc<OnceCell<Compiled>>>>,
}

impl Compiler {
    /// Puts the boundary and the cache around a bare engine for a vocabulary of so many tokens. `timeout` bounds one compile and
    /// its first mask.
    pub(super) fn new(bare: Arc<dyn Engine>, tokens: usize, timeout: Duration) -> Self {
        let engine = GuardedEngine::new(Arc::new(FirstMask { inner: bare, tokens }), timeout);
        Self { cache: Arc::new(CompileCache::new(Arc::new(engine), CACHED_GRAMMARS)), under_way: Mutex::default() }
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

    /// Different constraints that are not compiled yet and somebody waits for.
    pub(super) fn compiling(&self) -> usize {
        self.lock().len()
    }

    /// A matcher for the constraint, compiled now if need be. Of those who wait for the same compile one counts as a miss.
    pub(super) async fn matcher(&self, constraint: &Arc<Constraint>, fingerprint: &str) -> Result<Box<dyn Matcher>, EngineError> {
        if let Some(compiled) = self.cache.ready(fingerprint) {
            return compiled?.matcher();
        }
        let under_way = self.join(fingerprint);
        let mut led = false;
        let init = || {
            led = true;
            self.compile(constraint, fingerprint)
        };
        let compiled = under_way.cell.get_or_init(init).await.clone();
        // Who has waited for another's compile looks the result up, so that it counts as found.
        let found = if led { None } else { self.cache.ready(fingerprint) };
        found.unwrap_or(compiled)?.matcher()
    }

    fn join<'a>(&'a self, fingerprint: &'a str) -> UnderWay<'a> {
        let cell = Arc::clone(self.lock().entry(fingerprint.to_owned()).or_default());
        UnderWay { compiler: self, fingerprint, cell }
    }

    async fn compile(&self, constraint: &Arc<Constraint>, fingerprint: &str) -> Compiled {
        let (cache, constraint, fingerprint) = (Arc::clone(&self.cache), Arc::clone(constraint), fingerprint.to_owned());
        spawn_blocking(move || cache.compile(&fingerprint, &constraint))
            .await
            .unwrap_or_else(|error| Err(EngineError::Crashed { words: format!("compile: {error}") }))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<OnceCell<Compiled>>>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One who waits for a compile. The last to go, or the first to go when it is done, takes it off the list, whether it waited to
/// the end or not.
struct UnderWay<'a> {
    compiler: &'a Compiler,
    fingerprint: &'a str,
    cell: Arc<OnceCell<Compiled>>,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut under_way = self.compiler.lock();
        let listed = under_way.get(self.fingerprint).is_some_and(|cell| Arc::ptr_eq(cell, &self.cell));
        // The list holds one, this is the other.
        let alone = Arc::strong_count(&self.cell) == 2;
        if listed && (alone || self.cell.initialized()) {
            under_way.remove(self.fingerprint);
        }
    }
}

/// An engine whose compiles end with a look at the first mask: a language without a single word is refused while there still is a
/// status to refuse it with, and what a library does late is done off the loop.
struct FirstMask {
    inner: Arc<dyn Engine>,
    tokens: usize,
}

impl Engine for FirstMask {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn version(&self) -> &'static str {
        self.inner.version()
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        self.inner.settings()
    }

    fn route(&self, constraint: &Constraint) -> Option<Route> {
        self.inner.route(constraint)
    }

    fn grammar_dialects(&self) -> &'static [GrammarDialect] {
        self.inner.grammar_dialects()
    }

    fn check_size(&self, constraint: &Constraint) -> Result<(), EngineError> {
        self.inner.check_size(constraint)
    }

    fn compile(&self, constraint: &Constraint) -> Compiled {
        self.inner.validate(constraint)?;
        let grammar = self.inner.compile(constraint)?;
        let mut mask = TokenMask::new(self.tokens);
        grammar.matcher()?.mask(&mut mask)?;
        if mask.count() == 0 {
            return Err(EngineError::Invalid { words: "the constraint allows no token at the start of an answer".into() });
        }
        Ok(grammar)
    }
}
