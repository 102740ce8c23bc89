//! Compiles each constraint once. Knows neither the libraries nor who asks.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::{Engine, EngineError, Grammar};
use sobench_core::constraint::Constraint;

/// Compiled constraints that are kept; the one that nobody asked for longest makes room. A compiled
/// JSON Schema takes about a megabyte.
pub const CACHED_GRAMMARS: usize = 128;

/// Bytes that compiled constraints may take together, as far as their libraries can say; the newest
/// is kept whatever it takes.
pub const CACHED_BYTES: u64 = 1 << 30;

type Compiled = Result<Arc<dyn Grammar>, EngineError>;

/// Compiled constraints by fingerprint. Requests that ask for the same one at the same time wait
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
    /// Counts look-ups, to know which slot was asked for longest ago.
    tick: u64,
}

struct Slot {
    compiled: Arc<OnceLock<Compiled>>,
    asked: u64,
    /// Known once it is compiled.
    bytes: u64,
}

impl CompileCache {
    /// A cache of at most `capacity` compiled constraints (at least one).
    pub fn new(engine: Arc<dyn Engine>, capacity: usize) -> Self {
        let capacity = capacity.max(1);
        Self {
            engine,
            capacity,
            capacity_bytes: CACHED_BYTES,
            entries: Mutex::default(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// The engine behind the cache.
    pub fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    /// Look-ups that found their constraint, compiled or being compiled.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// Look-ups that had to compile.
    pub fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }

    /// The compiled constraint if it is there already; never blocks on a compile, and a miss is not
    /// counted.
    pub fn ready(&self, fingerprint: &str) -> Option<Compiled> {
        let mut entries = self.lock();
        entries.tick += 1;
        let tick = entries.tick;
        let slot = entries.slots.get_mut(fingerprint)?;
        let compiled = slot.compiled.get()?.clone();
        slot.asked = tick;
        self.hits.fetch_add(1, Ordering::Relaxed);
        Some(compiled)
    }

    /// The compiled constraint, compiled now if need be; blocks. A refusal is remembered like a
    /// grammar; a crash is not, nor is that too much else was going on.
    ///
    /// # Errors
    /// What [`Engine::compile`] says.
    pub fn compile(&self, fingerprint: &str, constraint: &Constraint) -> Compiled {
        let compiled = self.slot(fingerprint);
        let mut is_new = false;
        let make = || {
            is_new = true;
            self.engine.compile(constraint)
        };
        let result = compiled.get_or_init(make).clone();
        let dropped = match &result {
            Err(EngineError::Crashed { .. } | EngineError::Busy { .. }) => {
                self.forget(fingerprint, &compiled)
            }
            // A library may take longer to say how large a grammar is than a look-up takes.
            Ok(grammar) if is_new => {
                self.make_room(fingerprint, grammar.memory_bytes().unwrap_or(0))
            }
            Ok(_) | Err(_) => Vec::new(),
        };
        // Freed only now that nobody waits for the lock: a large grammar takes its time.
        drop(dropped);
        result
    }

    fn forget(&self, fingerprint: &str, compiled: &Arc<OnceLock<Compiled>>) -> Vec<Slot> {
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

    /// Writes down what a grammar takes, and takes out others, those asked for longest ago first,
    /// until all fit.
    fn make_room(&self, fingerprint: &str, bytes: u64) -> Vec<Slot> {
        let mut entries = self.lock();
        let Some(slot) = entries.slots.get_mut(fingerprint) else {
            return Vec::new();
        };
        slot.bytes = bytes;
        let mut dropped = Vec::new();
        while entries.slots.values().map(|slot| slot.bytes).sum::<u64>() > self.capacity_bytes {
            let others = entries
                .slots
                .iter()
                .filter(|(key, slot)| *key != fingerprint && slot.bytes > 0);
            let Some(oldest) = others
                .min_by_key(|(_, slot)| slot.asked)
                .map(|(key, _)| key.clone())
            else {
                break;
            };
            dropped.extend(entries.slots.remove(&oldest));
        }
        dropped
    }

    fn slot(&self, fingerprint: &str) -> Arc<OnceLock<Compiled>> {
        let mut entries = self.lock();
        entries.tick += 1;
        let tick = entries.tick;
        if let Some(slot) = entries.slots.get_mut(fingerprint) {
            slot.asked = tick;
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Arc::clone(&slot.compiled);
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        if entries.slots.len() >= self.capacity
            && let Some(oldest) = entries
                .slots
                .iter()
                .min_by_key(|(_, slot)| slot.asked)
                .map(|(key, _)| key.clone())
        {
            entries.slots.remove(&oldest);
        }
        let compiled = Arc::new(OnceLock::new());
        entries.slots.insert(
            fingerprint.to_owned(),
            Slot {
                compiled: Arc::clone(&compiled),
                asked: tick,
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

    /// Counts compiles; a regex of `crash` crashes.
    #[derive(Default)]
    struct Counting {
        compiles: AtomicU64,
        /// How often a grammar was asked for its size.
        sizes: Arc<AtomicU64>,
    }

    /// Says that it takes so many bytes.
    struct Nothing {
        bytes: u64,
        sizes: Arc<AtomicU64>,
    }

    impl Grammar for Nothing {
        fn memory_bytes(&self) -> Option<u64> {
            self.sizes.fetch_add(1, Ordering::SeqCst);
            Some(self.bytes)
        }

        fn matcher(&self) -> Result<Box<dyn Matcher>, EngineError> {
            Err(EngineError::Invalid {
                words: "no matcher".into(),
            })
        }
    }

    impl Engine for Counting {
        fn name(&self) -> &'static str {
            "counting"
        }
        fn version(&self) -> &'static str {
            "counting 0"
        }
        fn compile(&self, constraint: &Constraint) -> Compiled {
            self.compiles.fetch_add(1, Ordering::SeqCst);
            let nothing = |bytes| {
                Ok(Arc::new(Nothing {
                    bytes,
                    sizes: Arc::clone(&self.sizes),
                }) as Arc<dyn Grammar>)
            };
            match constraint {
                Constraint::Regex(regex) if &**regex == "crash" => Err(EngineError::Crashed {
                    words: "boom".into(),
                }),
                Constraint::Regex(regex) if &**regex == "(" => Err(EngineError::Invalid {
                    words: "open".into(),
                }),
                Constraint::Regex(regex) if &**regex == "busy" => Err(EngineError::Busy {
                    words: "later".into(),
                }),
                Constraint::Regex(regex) => nothing(regex.len() as u64),
                _ => nothing(0),
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
    fn counts_hits_and_forgets_what_was_asked_for_longest_ago() {
        let cache = CompileCache::new(Arc::new(Counting::default()), 2);
        for regex in ["a", "b", "a", "c", "a", "b"] {
            assert!(look_up(&cache, regex).is_ok());
        }
        assert_eq!(
            (cache.hits(), cache.misses()),
            (2, 4),
            "c makes room by dropping b"
        );
        assert!(cache.ready("b").is_some() && cache.ready("c").is_none());
        assert_eq!(cache.hits(), 3);
    }

    #[test]
    fn remembers_a_refusal_and_tries_a_crash_again() {
        for (regex, misses) in [("(", 1), ("crash", 2), ("busy", 2)] {
            let cache = CompileCache::new(Arc::new(Counting::default()), 2);
            assert!(look_up(&cache, regex).is_err() && look_up(&cache, regex).is_err());
            assert_eq!(cache.misses(), misses, "{regex}");
        }
    }

    #[test]
    fn what_takes_too_much_makes_the_oldest_go() {
        let mut cache = CompileCache::new(Arc::new(Counting::default()), 8);
        cache.capacity_bytes = 10;
        for regex in ["aaaa", "bbbb", "aaaa", "cccc"] {
            look_up(&cache, regex).unwrap();
        }
        assert!(
            cache.ready("bbbb").is_none()
                && cache.ready("aaaa").is_some()
                && cache.ready("cccc").is_some()
        );
        look_up(&cache, "larger than all of it").unwrap();
        assert!(
            cache.ready("larger than all of it").is_some()
                && cache.ready("aaaa").is_none()
                && cache.ready("cccc").is_none()
        );
    }

    #[test]
    fn compiles_once_for_all_who_wait() {
        let engine = Arc::new(Counting::default());
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
            "only who compiled asks how large it is"
        );
    }
}
