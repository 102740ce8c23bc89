//! Cache of compiled constraints.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::{Engine, EngineError, Grammar};
use sobench_core::constraint::Constraint;

/// Maximum number of cached constraints. The least recently used one is evicted. A compiled JSON
/// Schema takes about 1 MB.
pub const MAX_CACHED_GRAMMARS: usize = 128;

/// Maximum total bytes of cached constraints, as far as the libraries report sizes. The newest one
/// is kept even if it is larger.
pub const MAX_CACHED_BYTES: u64 = 1 << 30;

type Compiled = Result<Arc<dyn Grammar>, EngineError>;

/// Cache of compiled constraints by fingerprint. Concurrent requests with the same constraint wait
/// for one compile.
pub struct CompileCache {
    engine: Arc<dyn Engine>,
    capacity: usize,
    capacity_bytes: u64,
    entries: Mutex<Entries>,
    hits: AtomicU64,
    misses: AtomicU64,
}

#[derive(Default)]
struct Entries {
    slots: HashMap<String, Slot>,
    /// Number of look-ups so far, the clock for eviction.
    tick: u64,
}

struct Slot {
    compiled: Arc<OnceLock<Compiled>>,
    last_used: u64,
    /// 0 until the constraint is compiled.
    bytes: u64,
}

impl CompileCache {
    /// Creates a cache of at most `capacity` compiled constraints (at least one).
    pub fn new(engine: Arc<dyn Engine>, capacity: usize) -> Self {
        let capacity = capacity.max(1);
        Self {
            engine,
            capacity,
            capacity_bytes: MAX_CACHED_BYTES,
            entries: Mutex::default(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// The engine behind the cache.
    pub fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    /// Number of look-ups that found their constraint, compiled or being compiled.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// Number of look-ups that had to compile.
    pub fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }

    /// Returns the constraint if it is already compiled. Never blocks on a compile, and does not
    /// count a miss.
    pub fn get_compiled(&self, fingerprint: &str) -> Option<Compiled> {
        let mut entries = self.lock();
        entries.tick += 1;
        let tick = entries.tick;
        let slot = entries.slots.get_mut(fingerprint)?;
        let compiled = slot.compiled.get()?.clone();
        slot.last_used = tick;
        self.hits.fetch_add(1, Ordering::Relaxed);
        Some(compiled)
    }

    /// Returns the compiled constraint, compiling it if necessary. Blocks. Refusals are cached.
    /// Crashes and [`EngineError::Busy`] are not.
    ///
    /// # Errors
    /// As [`Engine::compile`].
    pub fn compile(&self, fingerprint: &str, constraint: &Constraint) -> Compiled {
        let compiled = self.slot(fingerprint);
        let mut is_new = false;
        let make = || {
            is_new = true;
            self.engine.compile(constraint)
        };
        let result = compiled.get_or_init(make).clone();
        let evicted = match &result {
            Err(EngineError::Crashed { .. } | EngineError::Busy { .. }) => {
                self.remove_uncacheable(fingerprint, &compiled)
            }
            // Asking the library for the size can take longer than a look-up.
            Ok(grammar) if is_new => {
                self.evict_to_fit(fingerprint, grammar.memory_bytes().unwrap_or(0))
            }
            Ok(_) | Err(_) => Vec::new(),
        };
        // Freed outside of the lock: dropping a large grammar takes time.
        drop(evicted);
        result
    }

    fn remove_uncacheable(
        &self,
        fingerprint: &str,
        compiled: &Arc<OnceLock<Compiled>>,
    ) -> Vec<Slot> {
        let mut entries = self.lock();
        let same = entries
            .slots
            .get(fingerprint)
            .is_some_and(|slot| Arc::ptr_eq(&slot.compiled, compiled));
        if same {
            entries.slots.remove(fingerprint).into_iter().collect()
        } else {
            Vec::new()
        }
    }

    /// Records the size of a grammar and evicts the least recently used others until all fit.
    fn evict_to_fit(&self, fingerprint: &str, bytes: u64) -> Vec<Slot> {
        let mut entries = self.lock();
        let Some(slot) = entries.slots.get_mut(fingerprint) else {
            return Vec::new();
        };
        slot.bytes = bytes;
        let mut evicted = Vec::new();
        while entries.slots.values().map(|slot| slot.bytes).sum::<u64>() > self.capacity_bytes {
            let others = entries
                .slots
                .iter()
                .filter(|(key, slot)| *key != fingerprint && slot.bytes > 0);
            let Some(oldest) = others
                .min_by_key(|(_, slot)| slot.last_used)
                .map(|(key, _)| key.clone())
            else {
                break;
            };
            evicted.extend(entries.slots.remove(&oldest));
        }
        evicted
    }

    fn slot(&self, fingerprint: &str) -> Arc<OnceLock<Compiled>> {
        let mut entries = self.lock();
        entries.tick += 1;
        let tick = entries.tick;
        if let Some(slot) = entries.slots.get_mut(fingerprint) {
            slot.last_used = tick;
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Arc::clone(&slot.compiled);
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        if entries.slots.len() >= self.capacity
            && let Some(oldest) = entries
                .slots
                .iter()
                .min_by_key(|(_, slot)| slot.last_used)
                .map(|(key, _)| key.clone())
        {
            entries.slots.remove(&oldest);
        }
        let compiled = Arc::new(OnceLock::new());
        entries.slots.insert(
            fingerprint.to_owned(),
            Slot {
                compiled: Arc::clone(&compiled),
                last_used: tick,
                bytes: 0,
            },
        );
        compiled
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;
    use crate::Matcher;
    use sobench_core::constraint::GrammarDialect;

    /// Counts compiles. The regex `crash` crashes.
    #[derive(Default)]
    struct CountingEngine {
        compiles: AtomicU64,
        /// Number of size queries.
        sizes: Arc<AtomicU64>,
    }

    /// Reports a size of `bytes`.
    struct SizedGrammar {
        bytes: u64,
        sizes: Arc<AtomicU64>,
    }

    impl Grammar for SizedGrammar {
        fn memory_bytes(&self) -> Option<u64> {
            self.sizes.fetch_add(1, Ordering::SeqCst);
            Some(self.bytes)
        }

        fn matcher(&self) -> Result<Box<dyn Matcher>, EngineError> {
            Err(EngineError::Invalid {
                message: "no matcher".into(),
            })
        }
    }

    impl Engine for CountingEngine {
        fn name(&self) -> &'static str {
            "counting"
        }
        fn version(&self) -> &'static str {
            "counting 0"
        }
        fn compile(&self, constraint: &Constraint) -> Compiled {
            self.compiles.fetch_add(1, Ordering::SeqCst);
            let sized_grammar = |bytes| {
                Ok(Arc::new(SizedGrammar {
                    bytes,
                    sizes: Arc::clone(&self.sizes),
                }) as Arc<dyn Grammar>)
            };
            match constraint {
                Constraint::Regex(regex) if &**regex == "crash" => Err(EngineError::Crashed {
                    message: "boom".into(),
                }),
                Constraint::Regex(regex) if &**regex == "(" => Err(EngineError::Invalid {
                    message: "open".into(),
                }),
                Constraint::Regex(regex) if &**regex == "busy" => Err(EngineError::Busy {
                    message: "later".into(),
                }),
                Constraint::Regex(regex) => sized_grammar(regex.len() as u64),
                _ => sized_grammar(0),
            }
        }
        fn grammar_dialects(&self) -> &'static [GrammarDialect] {
            &[]
        }
        fn settings(&self) -> Vec<(&'static str, String)> {
            Vec::new()
        }
    }

    fn look_up(cache: &CompileCache, regex: &str) -> Compiled {
        cache.compile(regex, &Constraint::Regex(regex.into()))
    }

    #[test]
    fn hits_are_counted_and_the_least_recently_used_is_evicted() {
        let cache = CompileCache::new(Arc::new(CountingEngine::default()), 2);
        for regex in ["a", "b", "a", "c", "a", "b"] {
            assert!(look_up(&cache, regex).is_ok());
        }
        assert_eq!((cache.hits(), cache.misses()), (2, 4), "c evicts b");
        assert!(cache.get_compiled("b").is_some() && cache.get_compiled("c").is_none());
        assert_eq!(cache.hits(), 3);
    }

    #[test]
    fn refusals_are_cached_and_crashes_are_not() {
        for (regex, misses) in [("(", 1), ("crash", 2), ("busy", 2)] {
            let cache = CompileCache::new(Arc::new(CountingEngine::default()), 2);
            assert!(look_up(&cache, regex).is_err() && look_up(&cache, regex).is_err());
            assert_eq!(cache.misses(), misses, "{regex}");
        }
    }

    #[test]
    fn the_byte_limit_evicts_the_least_recently_used() {
        let mut cache = CompileCache::new(Arc::new(CountingEngine::default()), 8);
        cache.capacity_bytes = 10;
        for regex in ["aaaa", "bbbb", "aaaa", "cccc"] {
            look_up(&cache, regex).unwrap();
        }
        assert!(
            cache.get_compiled("bbbb").is_none()
                && cache.get_compiled("aaaa").is_some()
                && cache.get_compiled("cccc").is_some()
        );
        look_up(&cache, "larger than all of it").unwrap();
        assert!(
            cache.get_compiled("larger than all of it").is_some()
                && cache.get_compiled("aaaa").is_none()
                && cache.get_compiled("cccc").is_none()
        );
    }

    #[test]
    fn concurrent_look_ups_share_one_compile() {
        let engine = Arc::new(CountingEngine::default());
        let cache = CompileCache::new(Arc::clone(&engine) as Arc<dyn Engine>, 2);
        let barrier = Barrier::new(8);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    barrier.wait();
                    assert!(look_up(&cache, "a").is_ok());
                });
            }
        });
        assert_eq!(
            (
                engine.compiles.load(Ordering::SeqCst),
                cache.misses(),
                cache.hits()
            ),
            (1, 1, 7)
        );
        assert_eq!(
            engine.sizes.load(Ordering::SeqCst),
            1,
            "only the compiling thread queries the size"
        );
    }
}
