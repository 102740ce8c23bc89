//! Guards an engine against panics and endless compiles: only the request that caused them fails.

use std::any::Any;
use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, available_parallelism};
use std::time::Duration;

use serde_json::Value;

use super::input::Input;
use super::{Engine, EngineError, Grammar, Matcher, Route, TokenId, TokenMask};
use sobench_core::constraint::{Constraint, GrammarDialect};

/// Time limit of one compile. vLLM gives a regex 5 s. JSON Schemas of the benchmarks take
/// milliseconds in llguidance.
pub const COMPILE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum nesting of a JSON Schema, as in vLLM. Compilers recurse, and a stack overflow cannot be
/// caught.
pub const MAX_JSON_DEPTH: usize = 64;

/// Maximum nesting of brackets in a regex or grammar, for the same reason.
pub const MAX_BRACKET_DEPTH: usize = 128;

/// Maximum nesting that references in a JSON Schema, or rules of a grammar, can add up to:
/// compilers follow them by recursion.
pub const MAX_LINKED_DEPTH: usize = 20_000;

/// Maximum bytes of a regex or grammar.
pub const MAX_TEXT_BYTES: usize = 1 << 20;

/// Maximum number of classes such as `\w` and `\p{L}` in a regex or grammar. Each takes about 7 KB
/// in llguidance.
pub const MAX_CLASSES: usize = 20_000;

/// Least and greatest number of compiles that run at the same time; between them it is the number of
/// cores. Timed-out compiles count until they end, because a library cannot be stopped: each takes a
/// core, and up to 1 GB in outlines.
pub const RUNNING_COMPILES: RangeInclusive<usize> = 8..=16;

/// Stack of the compile thread: 13 KB for each level of [`MAX_LINKED_DEPTH`] (llguidance takes less
/// than 4 KB for a reference to a reference). Only used stack takes memory.
const COMPILE_STACK_BYTES: usize = 256 << 20;

/// Engine with a panic guard and a time limit.
pub struct GuardedEngine {
    inner: Arc<dyn Engine>,
    timeout: Duration,
    /// How long a new compile waits until fewer than `max_running` run.
    max_wait: Duration,
    max_running: usize,
    running: Arc<Running>,
    /// Vocabulary size, if a compile includes computing the first mask.
    masked_tokens: Option<usize>,
}

impl GuardedEngine {
    /// Guards `inner`. `timeout` limits one compile.
    pub fn new(inner: Arc<dyn Engine>, timeout: Duration) -> Self {
        Self {
            inner,
            timeout,
            max_wait: timeout,
            max_running: max_running(available_parallelism().map_or(1, usize::from)),
            running: Arc::default(),
            masked_tokens: None,
        }
    }

    /// Guards `inner` for a server with a vocabulary of `tokens` tokens. A compile starts with the
    /// server's validation and ends with the first mask. A constraint without any sentence is
    /// therefore refused while the response status can still be set, and work that a library defers
    /// is done outside of the batching loop.
    pub fn for_server(inner: Arc<dyn Engine>, tokens: usize, timeout: Duration) -> Self {
        Self {
            masked_tokens: Some(tokens),
            ..Self::new(inner, timeout)
        }
    }
}

impl Engine for GuardedEngine {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn version(&self) -> &'static str {
        self.inner.version()
    }

    fn grammar_dialects(&self) -> &'static [GrammarDialect] {
        self.inner.grammar_dialects()
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        self.inner.settings()
    }

    fn check_size(&self, constraint: &Constraint) -> Result<(), EngineError> {
        check_limits(constraint)?;
        catch_panic(|| self.inner.check_size(constraint))
    }

    fn route(&self, constraint: &Constraint) -> Option<Route> {
        // Libraries parse the constraint to route it.
        self.run_with_limits(
            constraint,
            |engine, constraint| Ok(engine.route(constraint)),
        )
        .ok()?
    }

    fn compile(&self, constraint: &Constraint) -> Result<Arc<dyn Grammar>, EngineError> {
        let masked_tokens = self.masked_tokens;
        let compile = move |engine: &dyn Engine, constraint: &Constraint| {
            // The size check can itself take time.
            engine.check_size(constraint)?;
            match masked_tokens {
                Some(tokens) => compile_for_server(engine, constraint, tokens),
                None => engine.compile(constraint),
            }
        };
        Ok(Arc::new(GuardedGrammar(
            self.run_with_limits(constraint, compile)?,
        )))
    }
}

impl GuardedEngine {
    /// Runs `work` on a thread with a large stack and the time limit.
    fn run_with_limits<T: Send + 'static>(
        &self,
        constraint: &Constraint,
        work: impl FnOnce(&dyn Engine, &Constraint) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, EngineError> {
        check_limits(constraint)?;
        let Some(slot) = self.running.start(self.max_running, self.max_wait) else {
            let message = format!(
                "{} compiles still run, no new compile is started",
                self.max_running
            );
            return Err(EngineError::Busy { message });
        };
        let (sender, receiver) = sync_channel(1);
        let (engine, constraint) = (Arc::clone(&self.inner), constraint.clone());
        let spawned = thread::Builder::new()
            .name("compile".into())
            .stack_size(COMPILE_STACK_BYTES)
            .spawn(move || {
                let result = catch_panic(|| work(&*engine, &constraint));
                drop(slot);
                // The receiver is gone if the compile timed out.
                let _ = sender.send(result);
            });
        if let Err(error) = spawned {
            return Err(EngineError::Crashed {
                message: format!("cannot start the compile thread: {error}"),
            });
        }
        receiver.recv_timeout(self.timeout).unwrap_or_else(|error| {
            Err(match error {
                RecvTimeoutError::Timeout => EngineError::TooLarge {
                    message: format!("compile took longer than {} s", self.timeout.as_secs_f64()),
                },
                RecvTimeoutError::Disconnected => EngineError::Crashed {
                    message: "the compile thread died".into(),
                },
            })
        })
    }
}

/// The number of compiles that run at the same time on a machine with this number of cores.
fn max_running(cores: usize) -> usize {
    cores.clamp(*RUNNING_COMPILES.start(), *RUNNING_COMPILES.end())
}

fn compile_for_server(
    engine: &dyn Engine,
    constraint: &Constraint,
    tokens: usize,
) -> Result<Arc<dyn Grammar>, EngineError> {
    engine.validate(constraint)?;
    let grammar = engine.compile(constraint)?;
    let mut mask = TokenMask::new(tokens);
    grammar.matcher()?.mask(&mut mask)?;
    if mask.count() == 0 {
        return Err(EngineError::Invalid {
            message: "the constraint allows no token at the start of an answer".into(),
        });
    }
    Ok(grammar)
}

/// The number of compiles that run, those that timed out included.
#[derive(Default)]
struct Running {
    count: Mutex<usize>,
    ended: Condvar,
}

/// The place of a compile among the running ones. Dropped when the compile ends.
struct Slot(Arc<Running>);

impl Running {
    fn lock(&self) -> MutexGuard<'_, usize> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until fewer than `max` run, for at most `max_wait`. `None` if too many still run.
    fn start(self: &Arc<Self>, max: usize, max_wait: Duration) -> Option<Slot> {
        let (mut count, _) = self
            .ended
            .wait_timeout_while(self.lock(), max_wait, |count| *count >= max)
            .unwrap_or_else(PoisonError::into_inner);
        if *count >= max {
            return None;
        }
        *count += 1;
        Some(Slot(Arc::clone(self)))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        *self.0.lock() -= 1;
        self.0.ended.notify_one();
    }
}

struct GuardedGrammar(Arc<dyn Grammar>);

impl Grammar for GuardedGrammar {
    fn matcher(&self) -> Result<Box<dyn Matcher>, EngineError> {
        catch_panic(|| self.0.matcher()).map(GuardedMatcher::new_boxed)
    }

    fn memory_bytes(&self) -> Option<u64> {
        catch_panic(|| Ok(self.0.memory_bytes())).ok()?
    }
}

/// Matcher that returns the same error on every call after a crash.
struct GuardedMatcher {
    inner: Result<Box<dyn Matcher>, EngineError>,
}

impl GuardedMatcher {
    fn new_boxed(inner: Box<dyn Matcher>) -> Box<dyn Matcher> {
        Box::new(Self { inner: Ok(inner) })
    }

    #[inline]
    fn run<T>(
        &mut self,
        step: impl FnOnce(&mut dyn Matcher) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let inner = match &mut self.inner {
            Ok(inner) => inner,
            Err(error) => return Err(error.clone()),
        };
        match catch_unwind(AssertUnwindSafe(|| step(&mut **inner))) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(self.record_failure(error)),
            Err(panic) => Err(self.record_failure(panic_error(&*panic))),
        }
    }

    /// Cold, to keep the path of successful masks short: they take a few microseconds.
    #[cold]
    fn record_failure(&mut self, error: EngineError) -> EngineError {
        if matches!(error, EngineError::Crashed { .. }) {
            self.inner = Err(error.clone());
        }
        error
    }
}

impl Matcher for GuardedMatcher {
    fn mask(&mut self, mask: &mut TokenMask) -> Result<(), EngineError> {
        self.run(|matcher| matcher.mask(mask))
    }

    fn commit(&mut self, token: TokenId) -> Result<(), EngineError> {
        self.run(|matcher| matcher.commit(token))
    }

    fn is_accepting(&mut self) -> Result<bool, EngineError> {
        self.run(|matcher| matcher.is_accepting())
    }

    fn forced_tokens(&mut self) -> Vec<TokenId> {
        self.run(|matcher| Ok(matcher.forced_tokens()))
            .unwrap_or_default()
    }

    fn rollback(&mut self, tokens: usize) -> Result<(), EngineError> {
        self.run(|matcher| matcher.rollback(tokens))
    }

    fn fork(&self) -> Box<dyn Matcher> {
        let inner = match &self.inner {
            Ok(inner) => catch_panic(|| Ok(inner.fork())),
            Err(error) => Err(error.clone()),
        };
        Box::new(Self { inner })
    }
}

/// Runs library code. A panic becomes [`EngineError::Crashed`] with its message.
fn catch_panic<T>(step: impl FnOnce() -> Result<T, EngineError>) -> Result<T, EngineError> {
    // State that a panic leaves incomplete is never used again: the matcher is dropped, and the
    // grammar is not cached.
    catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|panic| Err(panic_error(&*panic)))
}

fn panic_error(panic: &(dyn Any + Send)) -> EngineError {
    let message = panic
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| panic.downcast_ref::<String>().cloned());
    EngineError::Crashed {
        message: format!(
            "panic: {}",
            message.unwrap_or_else(|| "no message".to_owned())
        ),
    }
}

fn check_limits(constraint: &Constraint) -> Result<(), EngineError> {
    let refuse = |message: String| Err(EngineError::TooLarge { message });
    // A constraint without input is refused by the compile.
    let Ok(input) = Input::new(constraint) else {
        return Ok(());
    };
    let (depth, limit, what) = match input {
        Input::Schema(value) | Input::StructuralTag(value) => {
            (json_depth(value), MAX_JSON_DEPTH, "JSON nesting")
        }
        Input::Regex(text) | Input::Grammar(_, text) if text.len() > MAX_TEXT_BYTES => {
            return refuse(format!(
                "text of {} bytes exceeds the limit of {MAX_TEXT_BYTES} bytes",
                text.len()
            ));
        }
        Input::Regex(text) | Input::Grammar(_, text) if count_classes(text) > MAX_CLASSES => {
            return refuse(format!(
                "text with {} character classes exceeds the limit of {MAX_CLASSES} classes",
                count_classes(text)
            ));
        }
        Input::Regex(text) | Input::Grammar(_, text) => {
            (bracket_depth(text), MAX_BRACKET_DEPTH, "bracket nesting")
        }
        Input::AnyObject | Input::Choice(_) => return Ok(()),
    };
    if depth > limit {
        return refuse(format!(
            "{what} of {depth} levels exceeds the limit of {limit}"
        ));
    }
    let (depth, what) = match input {
        Input::Schema(value) | Input::StructuralTag(value) => (linked_depth(value), "references"),
        Input::Grammar(_, text) => (count_rules(text), "rules"),
        Input::Regex(_) | Input::AnyObject | Input::Choice(_) => return Ok(()),
    };
    if depth > MAX_LINKED_DEPTH {
        return refuse(format!(
            "{what} could nest {depth} levels, the limit is {MAX_LINKED_DEPTH}"
        ));
    }
    Ok(())
}

/// Upper bound of the nesting by references: the sum of the depths of all referenced schemas.
fn linked_depth(root: &Value) -> usize {
    let (mut depth, mut pending) = (json_depth(root), vec![root]);
    let mut seen = HashSet::new();
    while let Some(value) = pending.pop() {
        match value {
            Value::Array(items) => pending.extend(items),
            Value::Object(members) => {
                if let Some(reference) = members.get("$ref").and_then(Value::as_str)
                    && seen.insert(reference)
                {
                    let pointed = reference
                        .strip_prefix('#')
                        .and_then(|pointer| root.pointer(pointer));
                    // Targets that a JSON pointer does not find have at most the depth of the
                    // document.
                    depth += 1 + pointed.map_or(MAX_JSON_DEPTH, json_depth);
                }
                pending.extend(members.values());
            }
            _ => {}
        }
    }
    depth
}

/// Upper bound of the number of classes: the backslash may be escaped itself.
fn count_classes(text: &str) -> usize {
    text.as_bytes()
        .windows(2)
        .filter(|pair| pair[0] == b'\\' && b"wWdDsSpP".contains(&pair[1]))
        .count()
}

/// Upper bound of the number of rules of a grammar: each definition has a colon.
fn count_rules(text: &str) -> usize {
    text.lines().filter(|line| line.contains(':')).count()
}

/// Depth of a JSON value: 0 for a scalar. The JSON reader has limited it, so recursion is safe.
fn json_depth(value: &Value) -> usize {
    let deepest = |children: &mut dyn Iterator<Item = &Value>| {
        1 + children.map(json_depth).max().unwrap_or(0)
    };
    match value {
        Value::Array(items) => deepest(&mut items.iter()),
        Value::Object(members) => deepest(&mut members.values()),
        _ => 0,
    }
}

/// Upper bound of the nesting of brackets: brackets in strings and classes count too.
fn bracket_depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use serde_json::json;

    use super::*;

    /// Panics or hangs, depending on the regex.
    struct FaultyEngine {
        release: Mutex<Receiver<()>>,
    }

    struct FaultyMatcher;

    impl Engine for FaultyEngine {
        fn name(&self) -> &'static str {
            "rogue"
        }
        fn version(&self) -> &'static str {
            "rogue 0"
        }
        fn grammar_dialects(&self) -> &'static [GrammarDialect] {
            &[]
        }
        fn settings(&self) -> Vec<(&'static str, String)> {
            Vec::new()
        }
        fn compile(&self, constraint: &Constraint) -> Result<Arc<dyn Grammar>, EngineError> {
            match constraint {
                Constraint::Regex(text) if &**text == "panic" => panic!("compile of {text}"),
                Constraint::Regex(text) if &**text == "hang" => {
                    let _ = self.release.lock().unwrap().recv();
                    Ok(Arc::new(FaultyGrammar))
                }
                _ => Ok(Arc::new(FaultyGrammar)),
            }
        }
    }

    struct FaultyGrammar;

    impl Grammar for FaultyGrammar {
        fn matcher(&self) -> Result<Box<dyn Matcher>, EngineError> {
            Ok(Box::new(FaultyMatcher))
        }
    }

    impl Matcher for FaultyMatcher {
        fn mask(&mut self, _: &mut TokenMask) -> Result<(), EngineError> {
            panic!("mask")
        }
        fn commit(&mut self, _: TokenId) -> Result<(), EngineError> {
            Ok(())
        }
        fn is_accepting(&mut self) -> Result<bool, EngineError> {
            Ok(true)
        }
        fn forced_tokens(&mut self) -> Vec<TokenId> {
            panic!("forced")
        }
        fn rollback(&mut self, _: usize) -> Result<(), EngineError> {
            Ok(())
        }
        fn fork(&self) -> Box<dyn Matcher> {
            panic!("fork")
        }
    }

    fn rogue(timeout: Duration) -> (GuardedEngine, Sender<()>) {
        let (sender, receiver) = channel();
        (
            GuardedEngine::new(
                Arc::new(FaultyEngine {
                    release: Mutex::new(receiver),
                }),
                timeout,
            ),
            sender,
        )
    }

    fn compile(engine: &GuardedEngine, regex: &str) -> Result<Arc<dyn Grammar>, EngineError> {
        engine.compile(&Constraint::Regex(regex.into()))
    }

    #[test]
    fn a_panic_fails_only_its_own_request() {
        let (engine, _release) = rogue(COMPILE_TIMEOUT);
        let error = compile(&engine, "panic").err().unwrap();
        assert_eq!(
            error,
            EngineError::Crashed {
                message: "panic: compile of panic".into()
            }
        );
        let grammar = compile(&engine, "fine").unwrap();
        let mut matcher = grammar.matcher().unwrap();
        assert_eq!(matcher.is_accepting(), Ok(true));
        let panic_error = EngineError::Crashed {
            message: "panic: mask".into(),
        };
        assert_eq!(
            matcher.mask(&mut TokenMask::new(8)),
            Err(panic_error.clone())
        );
        assert_eq!(
            matcher.is_accepting(),
            Err(panic_error.clone()),
            "a crashed matcher is not called again"
        );
        assert_eq!(matcher.fork().commit(0), Err(panic_error));
        let mut forked = grammar.matcher().unwrap().fork();
        assert_eq!(
            forked.commit(0),
            Err(EngineError::Crashed {
                message: "panic: fork".into()
            })
        );
        assert!(grammar.matcher().unwrap().forced_tokens().is_empty());
    }

    /// An engine with `count` timed-out compiles that still run, of at most 4. The next one has a
    /// minute.
    fn with_timed_out(count: usize, max_wait: Duration) -> (GuardedEngine, Sender<()>) {
        let (mut engine, release) = rogue(Duration::from_millis(1));
        engine.max_wait = Duration::ZERO;
        engine.max_running = 4;
        for _ in 0..count {
            let error = compile(&engine, "hang").err().unwrap();
            assert!(
                matches!(&error, EngineError::TooLarge { message } if message.contains("longer than")),
                "{error}"
            );
        }
        engine.timeout = Duration::from_secs(60);
        engine.max_wait = max_wait;
        (engine, release)
    }

    #[test]
    fn timed_out_compiles_do_not_refuse_other_constraints() {
        let (engine, _release) = with_timed_out(3, Duration::ZERO);
        compile(&engine, "a").unwrap();
        compile(&engine, "b").unwrap();
    }

    #[test]
    fn a_compile_waits_for_the_end_of_timed_out_ones() {
        let (engine, release) = with_timed_out(4, Duration::from_secs(60));
        thread::scope(|scope| {
            let compiled = scope.spawn(|| compile(&engine, "a").is_ok());
            drop(release);
            assert!(compiled.join().unwrap());
        });
        assert!(*engine.running.lock() < 4);
    }

    #[test]
    fn the_number_of_running_compiles_is_limited() {
        let (engine, release) = with_timed_out(4, Duration::ZERO);
        let error = compile(&engine, "a").err().unwrap();
        assert!(
            matches!(&error, EngineError::Busy { message } if message.starts_with("4 compiles still run")),
            "{error}"
        );
        assert_eq!(*engine.running.lock(), 4);
        drop(release);
        while *engine.running.lock() != 0 {
            thread::yield_now();
        }
    }

    #[test]
    fn waiting_compiles_start_one_for_each_that_ends() {
        let (engine, release) = with_timed_out(4, Duration::from_secs(60));
        thread::scope(|scope| {
            let waiting: Vec<_> = (0..6)
                .map(|_| scope.spawn(|| compile(&engine, "hang").is_ok()))
                .collect();
            // Each message ends one compile, and makes room for another.
            for _ in 0..4 + waiting.len() {
                assert!(*engine.running.lock() <= 4);
                release.send(()).unwrap();
            }
            assert!(waiting.into_iter().all(|compile| compile.join().unwrap()));
        });
    }

    #[test]
    fn the_number_of_running_compiles_suits_the_cores() {
        assert_eq!([1, 8, 12, 64].map(max_running), [8, 8, 12, 16]);
    }

    #[test]
    fn nesting_by_references_and_rules_is_limited() {
        let chain = |links: usize| {
            let link = |index: usize| {
                (
                    index.to_string(),
                    json!({ "$ref": format!("#/$defs/{}", index + 1) }),
                )
            };
            let mut links: serde_json::Map<String, Value> = (0..links).map(link).collect();
            links.insert(links.len().to_string(), json!({ "type": "null" }));
            Constraint::JsonSchema(Arc::new(json!({ "$ref": "#/$defs/0", "$defs": links })))
        };
        let rules = |count: usize| {
            let text: String = (0..count)
                .map(|index| format!("r{index} ::= r{}\n", index + 1))
                .collect();
            Constraint::Grammar {
                dialect: GrammarDialect::Ebnf,
                text: text.into(),
            }
        };
        for (constraint, accepted) in [
            (chain(8_000), true),
            (chain(12_000), false),
            (rules(MAX_LINKED_DEPTH), true),
            (rules(MAX_LINKED_DEPTH + 1), false),
            (Constraint::Regex("a".repeat(MAX_TEXT_BYTES).into()), true),
            (
                Constraint::Regex("a".repeat(MAX_TEXT_BYTES + 1).into()),
                false,
            ),
            (Constraint::Regex("\\w".repeat(MAX_CLASSES).into()), true),
            (
                Constraint::Regex("\\w".repeat(MAX_CLASSES + 1).into()),
                false,
            ),
        ] {
            assert_eq!(
                check_limits(&constraint).is_ok(),
                accepted,
                "{:?}",
                check_limits(&constraint)
            );
        }
    }

    #[test]
    fn nesting_is_limited() {
        let (engine, _release) = rogue(COMPILE_TIMEOUT);
        let nested =
            |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({ "not": inner }));
        let deep = |constraint: &Constraint| {
            matches!(
                engine.compile(constraint),
                Err(EngineError::TooLarge { .. })
            )
        };
        assert!(!deep(&Constraint::JsonSchema(Arc::new(nested(
            MAX_JSON_DEPTH - 1
        )))));
        assert!(deep(&Constraint::JsonSchema(Arc::new(nested(
            MAX_JSON_DEPTH
        )))));
        assert!(!deep(&Constraint::Regex(
            "(".repeat(MAX_BRACKET_DEPTH).into()
        )));
        assert!(deep(&Constraint::Regex(
            "(".repeat(MAX_BRACKET_DEPTH + 1).into()
        )));
        let text: Arc<str> = format!("start: {}\"a\"{}", "(".repeat(200), ")".repeat(200)).into();
        assert!(deep(&Constraint::Grammar {
            dialect: GrammarDialect::Lark,
            text
        }));
    }
}
