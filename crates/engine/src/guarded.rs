//! A boundary around an engine: a panic or an endless compile costs the request that caused it,
//! never the run. Knows no library.

use std::any::Any;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::{Engine, EngineError, Grammar, Matcher, Route, TokenId, TokenMask};
use sobench_core::constraint::{Constraint, GrammarDialect};

/// How long a compile may take before its request is refused. vLLM gives a regex 5 s; JSON Schemas
/// of the benchmarks take milliseconds in llguidance.
pub const COMPILE_TIMEOUT: Duration = Duration::from_secs(10);

/// Deepest nesting of a JSON Schema that is compiled, as in vLLM. Compilers recurse, and a stack
/// overflow cannot be caught.
pub const MAX_JSON_DEPTH: usize = 64;

/// Deepest nesting of brackets in a regex or grammar that is compiled, for the same reason.
pub const MAX_BRACKET_DEPTH: usize = 128;

/// Deepest nesting that references in a JSON Schema, or rules of a grammar, can add up to:
/// compilers follow them by recursion.
pub const MAX_LINKED_DEPTH: usize = 20_000;

/// Longest regex or grammar that is compiled, in bytes.
pub const MAX_TEXT_BYTES: usize = 1 << 20;

/// Classes such as `\w` and `\p{L}` in a regex or grammar that is compiled: each takes llguidance
/// some 7 KB.
pub const MAX_CLASSES: usize = 20_000;

/// Compiles that ran out of time and still run; a library cannot be stopped, so beyond this many
/// nothing more is compiled.
pub const MAX_ABANDONED_COMPILES: usize = 4;

/// Stack of the thread that compiles: 13 KB for each level of [`MAX_LINKED_DEPTH`] (llguidance
/// takes below 4 for a reference to a reference). Only what is used takes memory.
const COMPILE_STACK_BYTES: usize = 256 << 20;

/// An engine with the boundary around it.
pub struct GuardedEngine {
    inner: Arc<dyn Engine>,
    timeout: Duration,
    abandoned: Arc<AtomicUsize>,
    /// Ids of the vocabulary, where a compile ends with a look at the first mask.
    masked_tokens: Option<usize>,
}

impl GuardedEngine {
    /// Puts the boundary around `inner`; `timeout` bounds one compile.
    pub fn new(inner: Arc<dyn Engine>, timeout: Duration) -> Self {
        Self {
            inner,
            timeout,
            abandoned: Arc::default(),
            masked_tokens: None,
        }
    }

    /// The same for a server with a vocabulary of so many tokens. A compile begins with the
    /// server's check of the request and ends with a look at the first mask: a language without a
    /// single word is refused while there still is a status to refuse it with, and what a library
    /// does late is done off the loop.
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
        check_depth(constraint)?;
        caught(|| self.inner.check_size(constraint))
    }

    fn route(&self, constraint: &Constraint) -> Option<Route> {
        // To say where a constraint goes, libraries read it.
        self.bounded(
            constraint,
            |engine, constraint| Ok(engine.route(constraint)),
        )
        .ok()?
    }

    fn compile(&self, constraint: &Constraint) -> Result<Arc<dyn Grammar>, EngineError> {
        let masked_tokens = self.masked_tokens;
        let compile = move |engine: &dyn Engine, constraint: &Constraint| {
            // Telling how large it would get can itself take a while.
            engine.check_size(constraint)?;
            match masked_tokens {
                Some(tokens) => compile_for_server(engine, constraint, tokens),
                None => engine.compile(constraint),
            }
        };
        Ok(Arc::new(GuardedGrammar(self.bounded(constraint, compile)?)))
    }
}

impl GuardedEngine {
    /// Lets the library read a constraint on a thread with a stack for it, until the time is over.
    fn bounded<T: Send + 'static>(
        &self,
        constraint: &Constraint,
        work: impl FnOnce(&dyn Engine, &Constraint) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, EngineError> {
        check_depth(constraint)?;
        if self.abandoned.load(Ordering::SeqCst) >= MAX_ABANDONED_COMPILES {
            let words = format!(
                "{MAX_ABANDONED_COMPILES} compiles ran out of time and still run; nothing more is compiled"
            );
            return Err(EngineError::Busy { words });
        }
        let (sender, receiver) = sync_channel(1);
        let (engine, constraint) = (Arc::clone(&self.inner), constraint.clone());
        let (abandoned, state) = (
            Arc::clone(&self.abandoned),
            Arc::new(AtomicU8::new(RUNNING)),
        );
        let finish = Arc::clone(&state);
        let spawned = thread::Builder::new()
            .name("compile".into())
            .stack_size(COMPILE_STACK_BYTES)
            .spawn(move || {
                let done = caught(|| work(&*engine, &constraint));
                if finish.swap(FINISHED, Ordering::SeqCst) == ABANDONED {
                    abandoned.fetch_sub(1, Ordering::SeqCst);
                }
                // Nobody listens any more where it was abandoned.
                let _ = sender.send(done);
            });
        if let Err(error) = spawned {
            return Err(EngineError::Crashed {
                words: format!("no thread to compile in: {error}"),
            });
        }
        let done = match receiver.recv_timeout(self.timeout) {
            Err(RecvTimeoutError::Timeout) => {
                self.abandoned.fetch_add(1, Ordering::SeqCst);
                if state.swap(ABANDONED, Ordering::SeqCst) == RUNNING {
                    let words = format!(
                        "compiling took longer than {} s",
                        self.timeout.as_secs_f64()
                    );
                    return Err(EngineError::TooLarge { words });
                }
                // It finished in this very moment.
                self.abandoned.fetch_sub(1, Ordering::SeqCst);
                receiver.recv().map_err(|_| RecvTimeoutError::Disconnected)
            }
            other => other,
        };
        done.unwrap_or_else(|_| {
            Err(EngineError::Crashed {
                words: "the compile thread died".into(),
            })
        })
    }
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
            words: "the constraint allows no token at the start of an answer".into(),
        });
    }
    Ok(grammar)
}

/// Where a compile stands, for the two threads that decide whether it counts as abandoned.
const RUNNING: u8 = 0;
const FINISHED: u8 = 1;
const ABANDONED: u8 = 2;

struct GuardedGrammar(Arc<dyn Grammar>);

impl Grammar for GuardedGrammar {
    fn matcher(&self) -> Result<Box<dyn Matcher>, EngineError> {
        caught(|| self.0.matcher()).map(GuardedMatcher::boxed)
    }

    fn memory_bytes(&self) -> Option<u64> {
        caught(|| Ok(self.0.memory_bytes())).ok()?
    }
}

/// A matcher that, once it has crashed, only ever says so again.
struct GuardedMatcher {
    inner: Result<Box<dyn Matcher>, EngineError>,
}

impl GuardedMatcher {
    fn boxed(inner: Box<dyn Matcher>) -> Box<dyn Matcher> {
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
            Ok(Err(error)) => Err(self.failed(error)),
            Err(panic) => Err(self.failed(crashed(&*panic))),
        }
    }

    /// Out of the way of masks that succeed, which take few microseconds.
    #[cold]
    fn failed(&mut self, error: EngineError) -> EngineError {
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
            Ok(inner) => caught(|| Ok(inner.fork())),
            Err(error) => Err(error.clone()),
        };
        Box::new(Self { inner })
    }
}

/// Runs a library's code; a panic becomes [`EngineError::Crashed`] with the panic's words.
fn caught<T>(step: impl FnOnce() -> Result<T, EngineError>) -> Result<T, EngineError> {
    // What a panic leaves half done is never used again: the matcher is dropped, the grammar not
    // cached.
    catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|panic| Err(crashed(&*panic)))
}

fn crashed(panic: &(dyn Any + Send)) -> EngineError {
    let words = panic
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| panic.downcast_ref::<String>().cloned());
    EngineError::Crashed {
        words: format!(
            "panic: {}",
            words.unwrap_or_else(|| "panic without words".to_owned())
        ),
    }
}

fn check_depth(constraint: &Constraint) -> Result<(), EngineError> {
    let refuse = |words: String| Err(EngineError::TooLarge { words });
    let (depth, limit, what) = match constraint {
        Constraint::JsonSchema(value) | Constraint::StructuralTag(value) => {
            (json_depth(value), MAX_JSON_DEPTH, "JSON nesting")
        }
        Constraint::Regex(text) | Constraint::Grammar { text, .. }
            if text.len() > MAX_TEXT_BYTES =>
        {
            return refuse(format!(
                "a text of {} bytes is longer than the {MAX_TEXT_BYTES} that are compiled",
                text.len()
            ));
        }
        Constraint::Regex(text) | Constraint::Grammar { text, .. }
            if classes(text) > MAX_CLASSES =>
        {
            return refuse(format!(
                "a text with {} classes of characters has more than the {MAX_CLASSES} that are compiled",
                classes(text)
            ));
        }
        Constraint::Regex(text) | Constraint::Grammar { text, .. } => {
            (bracket_depth(text), MAX_BRACKET_DEPTH, "bracket nesting")
        }
        Constraint::JsonObject(_) | Constraint::Choice(_) => return Ok(()),
    };
    if depth > limit {
        return refuse(format!("{what} of {depth} is deeper than {limit}"));
    }
    let (depth, what) = match constraint {
        Constraint::JsonSchema(value) | Constraint::StructuralTag(value) => {
            (linked_depth(value), "references")
        }
        Constraint::Grammar { text, .. } => (rules(text), "rules"),
        _ => (0, ""),
    };
    if depth > MAX_LINKED_DEPTH {
        return refuse(format!(
            "{what} could nest {depth} deep, which is deeper than {MAX_LINKED_DEPTH}"
        ));
    }
    Ok(())
}

/// How deep references could nest at most: every schema that is referred to, one in the other.
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
                    // What cannot be found this way lies somewhere in the document, if anywhere.
                    depth += 1 + pointed.map_or(MAX_JSON_DEPTH, json_depth);
                }
                pending.extend(members.values());
            }
            _ => {}
        }
    }
    depth
}

/// An upper bound of the classes that a text names: what follows a backslash may be escaped itself.
fn classes(text: &str) -> usize {
    text.as_bytes()
        .windows(2)
        .filter(|pair| pair[0] == b'\\' && b"wWdDsSpP".contains(&pair[1]))
        .count()
}

/// An upper bound of the rules of a grammar: a definition has a colon.
fn rules(text: &str) -> usize {
    text.lines().filter(|line| line.contains(':')).count()
}

/// Depth of a JSON value: 0 for a scalar. The reader of the value has bounded it before, so
/// recursion is safe.
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

/// An upper bound of how deep brackets nest: brackets inside strings and classes count too.
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

    /// Panics or hangs, as the regex says.
    struct Rogue {
        release: Mutex<Receiver<()>>,
    }

    struct RogueMatcher;

    impl Engine for Rogue {
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
                    Ok(Arc::new(RogueGrammar))
                }
                _ => Ok(Arc::new(RogueGrammar)),
            }
        }
    }

    struct RogueGrammar;

    impl Grammar for RogueGrammar {
        fn matcher(&self) -> Result<Box<dyn Matcher>, EngineError> {
            Ok(Box::new(RogueMatcher))
        }
    }

    impl Matcher for RogueMatcher {
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
                Arc::new(Rogue {
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
    fn a_panic_costs_its_own_request() {
        let (engine, _release) = rogue(COMPILE_TIMEOUT);
        let error = compile(&engine, "panic").err().unwrap();
        assert_eq!(
            error,
            EngineError::Crashed {
                words: "panic: compile of panic".into()
            }
        );
        let grammar = compile(&engine, "fine").unwrap();
        let mut matcher = grammar.matcher().unwrap();
        assert_eq!(matcher.is_accepting(), Ok(true));
        let crashed = EngineError::Crashed {
            words: "panic: mask".into(),
        };
        assert_eq!(matcher.mask(&mut TokenMask::new(8)), Err(crashed.clone()));
        assert_eq!(
            matcher.is_accepting(),
            Err(crashed.clone()),
            "a crashed matcher is not asked again"
        );
        assert_eq!(matcher.fork().commit(0), Err(crashed));
        let mut forked = grammar.matcher().unwrap().fork();
        assert_eq!(
            forked.commit(0),
            Err(EngineError::Crashed {
                words: "panic: fork".into()
            })
        );
        assert!(grammar.matcher().unwrap().forced_tokens().is_empty());
    }

    #[test]
    fn an_endless_compile_is_refused_and_only_so_many_are_left_running() {
        let (engine, release) = rogue(Duration::from_millis(1));
        for _ in 0..MAX_ABANDONED_COMPILES {
            let error = compile(&engine, "hang").err().unwrap();
            assert!(
                matches!(&error, EngineError::TooLarge { words } if words.contains("longer than")),
                "{error}"
            );
        }
        let error = compile(&engine, "hang").err().unwrap();
        assert!(
            matches!(&error, EngineError::Busy { words } if words.contains("still run")),
            "{error}"
        );
        drop(release);
        while engine.abandoned.load(Ordering::SeqCst) != 0 {
            thread::yield_now();
        }
    }

    #[test]
    fn what_references_and_rules_add_up_to_is_bounded() {
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
        for (constraint, fine) in [
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
                check_depth(&constraint).is_ok(),
                fine,
                "{:?}",
                check_depth(&constraint)
            );
        }
    }

    #[test]
    fn nesting_is_bounded() {
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
