//! The `llguidance` crate as an [`Engine`]. Knows tokens and masks, neither HTTP nor models.
//!
//! Regexes are Rust's `regex` syntax with Unicode classes, which agrees with Python's `re` on what benchmarks send; look-around
//! and back-references are refused by the library. Its lexer is greedy, so a Lark grammar is not always the plain context-free
//! language that its text describes.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use llguidance::api::TopLevelGrammar;
use llguidance::{Matcher as LlMatcher, ParserFactory};
use serde_json::json;
use toktrie::{TokEnv, TokRxInfo, TokTrie, TokenizerEnv};

use super::{Engine, EngineError, Grammar, Matcher, TokenId, TokenMask, Vocabulary};
use crate::constraint::{Constraint, GrammarDialect};
use crate::error::{Error, Result as OurResult};

/// Held to `Cargo.lock` by a test.
const VERSION: &str = "llguidance 1.9.1";

/// Copies of a grammar's lexer. Matchers of one copy share its automaton, which grows as it is used, behind one lock: sharing
/// keeps masks warm, several copies keep threads from waiting for each other.
const LEXER_COPIES: usize = 2;

/// Matchers that a lexer copy serves before a fresh one takes its place, so that its automaton cannot grow for ever.
const MATCHERS_PER_LEXER: usize = 4096;

/// The engine: tokenizer tables built once, about 45 MB.
pub(super) struct Guidance {
    factory: ParserFactory,
    vocabulary: Arc<Vocabulary>,
}

impl Guidance {
    pub(super) fn new(vocabulary: Arc<Vocabulary>) -> OurResult<Self> {
        let env: TokEnv = Arc::new(Tokenizer { trie: trie(&vocabulary)?, vocabulary: Arc::clone(&vocabulary) });
        let mut factory = ParserFactory::new_simple(&env)
            .map_err(|error| Error::internal(format!("llguidance does not take the vocabulary: {error}")))?;
        factory.quiet();
        factory.limits_mut().verbose_errors = false;
        Ok(Self { factory, vocabulary })
    }
}

impl Engine for Guidance {
    fn name(&self) -> &'static str {
        "guidance"
    }

    fn version(&self) -> &'static str {
        VERSION
    }

    fn grammar_dialects(&self) -> &'static [GrammarDialect] {
        &[GrammarDialect::Lark]
    }

    fn compile(&self, constraint: &Constraint) -> Result<Arc<dyn Grammar>, EngineError> {
        let grammar = top_level(constraint)?;
        let mut pristine = LlMatcher::new(self.factory.create_parser(grammar));
        if let Some(words) = pristine.get_error() {
            return Err(classified(&words));
        }
        // The first mask is part of compiling: it finds a language without words, and warms every copy made from here.
        pristine.compute_mask_or_eos().map_err(|error| classified(&error.to_string()))?;
        let copies = std::array::from_fn(|_| Mutex::new(None));
        let core = Core { pristine: Mutex::new(pristine), copies, turn: AtomicUsize::new(0), eos: self.vocabulary.eos() };
        Ok(Arc::new(GuidanceGrammar(Arc::new(core))))
    }
}

/// What llguidance is given for a constraint.
fn top_level(constraint: &Constraint) -> Result<TopLevelGrammar, EngineError> {
    let unsupported = |feature: &str, words: &str| Err(EngineError::Unsupported { feature: feature.into(), words: words.into() });
    Ok(match constraint {
        Constraint::JsonSchema(schema) => TopLevelGrammar::from_json_schema((**schema).clone()),
        Constraint::JsonObject(_) => TopLevelGrammar::from_json_schema(json!({ "type": "object" })),
        // An empty pattern would become `//`, which starts a comment in Lark.
        Constraint::Regex(regex) if regex.is_empty() => TopLevelGrammar::from_lark("start: \"\"".into()),
        Constraint::Regex(regex) => TopLevelGrammar::from_regex(regex),
        Constraint::Choice(choices) if choices.is_empty() => {
            return Err(EngineError::Invalid { words: "choice must name at least one string".into() });
        }
        Constraint::Choice(choices) => {
            let quoted: Vec<String> = choices.iter().map(|choice| json!(choice).to_string()).collect();
            TopLevelGrammar::from_lark(format!("start: {}", quoted.join(" | ")))
        }
        Constraint::Grammar { dialect: GrammarDialect::Lark, text } => TopLevelGrammar::from_lark(text.to_string()),
        Constraint::Grammar { dialect: GrammarDialect::Ebnf, .. } => {
            return unsupported("ebnf grammar", "the llguidance crate reads Lark grammars, not EBNF or GBNF");
        }
        Constraint::StructuralTag(_) => {
            return unsupported("structural_tag", "the llguidance crate has no structural tags");
        }
    })
}

/// Sorts the library's messages. They are all it gives: its errors are text.
fn classified(raw: &str) -> EngineError {
    let words = ["\n<non-verbose/>", "\n<backtrace>"].iter().fold(raw, |text, mark| text.split(mark).next().unwrap_or(text));
    let words = words.trim().to_owned();
    let feature = if let Some((_, keys)) = words.split_once("Unimplemented keys: ") {
        Some(keys.lines().next().unwrap_or(keys).trim_matches(['[', ']']).replace('"', ""))
    } else if words.contains("oneOf constraints are not supported") {
        Some("oneOf".into())
    } else if let Some((_, format)) = words.split_once("Unknown format: ") {
        Some(format!("format {}", format.lines().next().unwrap_or(format)))
    } else if words.contains("min/maxProperties only supported") {
        Some("minProperties, maxProperties".into())
    } else if words.contains("look-around") {
        Some("look-around".into())
    } else if words.contains("backreferences are not supported") {
        Some("back-reference".into())
    } else {
        None
    };
    let large = ["fuel", "too large", "too complex", "limit", "too many"];
    match feature {
        Some(feature) => EngineError::Unsupported { feature, words },
        None if words.contains("panic: ") => EngineError::Crashed { words },
        None if large.iter().any(|mark| words.to_lowercase().contains(mark)) => EngineError::TooLarge { words },
        None => EngineError::Invalid { words },
    }
}

fn trie(vocabulary: &Vocabulary) -> OurResult<TokTrie> {
    let mut words: Vec<Vec<u8>> = (0..).take(vocabulary.len()).map(|id| vocabulary.bytes(id).to_vec()).collect();
    for (id, name) in vocabulary.special() {
        words[*id as usize] = [&[TokTrie::SPECIAL_TOKEN_MARKER], name.as_bytes()].concat();
    }
    let size = u32::try_from(words.len()).map_err(|_| Error::internal("vocabulary has more ids than 32 bits"))?;
    Ok(TokTrie::from(&TokRxInfo::new(size, vocabulary.eos()), &words))
}

/// The vocabulary as llguidance wants it; canonical, so that text which must come is forced in the tokens a model would use.
struct Tokenizer {
    trie: TokTrie,
    vocabulary: Arc<Vocabulary>,
}

impl TokenizerEnv for Tokenizer {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        self.trie.tokenize_with_greedy_fallback(bytes, |text| self.vocabulary.encode(text))
    }
}

struct GuidanceGrammar(Arc<Core>);

/// A compiled grammar: one matcher that never takes a step, and copies of it whose lexers are in use.
struct Core {
    pristine: Mutex<LlMatcher>,
    copies: [Mutex<Option<LexerCopy>>; LEXER_COPIES],
    turn: AtomicUsize,
    eos: TokenId,
}

#[derive(Clone)]
struct LexerCopy {
    matcher: LlMatcher,
    health: Arc<Health>,
}

#[derive(Default)]
struct Health {
    crashed: AtomicBool,
    served: AtomicUsize,
}

impl Core {
    fn fresh(&self) -> LexerCopy {
        let pristine = self.pristine.lock().unwrap_or_else(PoisonError::into_inner);
        LexerCopy { matcher: pristine.deep_clone(), health: Arc::default() }
    }

    /// A matcher at the start, sharing the lexer of one of the copies.
    fn start(&self) -> LexerCopy {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % LEXER_COPIES;
        let mut slot = self.copies[turn].lock().unwrap_or_else(PoisonError::into_inner);
        let spent = slot.as_ref().is_none_or(|copy| {
            copy.health.crashed.load(Ordering::SeqCst) || copy.health.served.load(Ordering::Relaxed) >= MATCHERS_PER_LEXER
        });
        if spent {
            *slot = Some(self.fresh());
        }
        let copy = slot.as_ref().expect("it was filled a line above");
        copy.health.served.fetch_add(1, Ordering::Relaxed);
        copy.clone()
    }
}

impl Grammar for GuidanceGrammar {
    fn matcher(&self) -> Result<Box<dyn Matcher>, EngineError> {
        Ok(Box::new(GuidanceMatcher { core: Arc::clone(&self.0), copy: self.0.start(), tokens: Vec::new(), ended: false }))
    }
}

struct GuidanceMatcher {
    core: Arc<Core>,
    copy: LexerCopy,
    /// What was committed, without the end token: to start again on a fresh lexer when a neighbour crashed ours.
    tokens: Vec<TokenId>,
    ended: bool,
}

impl GuidanceMatcher {
    /// Runs a step. If another matcher's panic has poisoned the shared lexer, moves to a fresh one and runs the step again.
    fn run<T, E: Display>(&mut self, step: impl Fn(&mut LlMatcher) -> Result<T, E>) -> Result<T, EngineError> {
        let error = match step(&mut self.copy.matcher) {
            Ok(value) => return Ok(value),
            Err(error) => error.to_string(),
        };
        if !error.contains("PoisonError") {
            let error = classified(&error);
            if matches!(error, EngineError::Crashed { .. }) {
                self.copy.health.crashed.store(true, Ordering::SeqCst);
            }
            return Err(error);
        }
        self.copy.health.crashed.store(true, Ordering::SeqCst);
        self.copy = self.core.start();
        self.copy.matcher.consume_tokens(&self.tokens).map_err(|error| classified(&error.to_string()))?;
        step(&mut self.copy.matcher).map_err(|error| classified(&error.to_string()))
    }
}

impl Matcher for GuidanceMatcher {
    fn mask(&mut self, mask: &mut TokenMask) -> Result<(), EngineError> {
        if self.ended {
            mask.only(self.core.eos);
            return Ok(());
        }
        mask.replace(self.run(LlMatcher::compute_mask_or_eos)?.into());
        Ok(())
    }

    fn commit(&mut self, token: TokenId) -> Result<(), EngineError> {
        let taken = if self.ended {
            false
        } else if token == self.core.eos {
            // Kept here and not told to the library, which would take some ends into its history and others not.
            self.ended = self.is_accepting()?;
            self.ended
        } else if self.run(|matcher| matcher.try_consume_tokens(&[token]))? == 1 {
            self.tokens.push(token);
            true
        } else {
            false
        };
        if taken { Ok(()) } else { Err(EngineError::Invalid { words: format!("token {token} may not come here") }) }
    }

    fn is_accepting(&mut self) -> Result<bool, EngineError> {
        if self.ended { Ok(true) } else { self.run(LlMatcher::is_accepting) }
    }

    fn forced_tokens(&mut self) -> Vec<TokenId> {
        if self.ended {
            Vec::new()
        } else {
            self.run(|matcher| Ok::<_, EngineError>(matcher.compute_ff_tokens())).unwrap_or_default()
        }
    }

    fn rollback(&mut self, tokens: usize) -> Result<(), EngineError> {
        let held = self.tokens.len() + usize::from(self.ended);
        if tokens > held {
            return Err(EngineError::Invalid { words: format!("cannot take back {tokens} tokens of {held}") });
        }
        let inner = tokens - usize::from(self.ended && tokens > 0);
        self.run(|matcher| matcher.rollback(inner))?;
        self.tokens.truncate(self.tokens.len() - inner);
        self.ended &= tokens == 0;
        Ok(())
    }

    fn fork(&self) -> Box<dyn Matcher> {
        let (core, copy, tokens) = (Arc::clone(&self.core), self.copy.clone(), self.tokens.clone());
        Box::new(Self { core, copy, tokens, ended: self.ended })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use serde_json::Value;

    use super::*;
    use crate::engine::vocabulary::shared;

    fn engine() -> &'static Guidance {
        static ENGINE: OnceLock<Guidance> = OnceLock::new();
        ENGINE.get_or_init(|| Guidance::new(shared()).unwrap())
    }

    fn json(text: &str) -> Constraint {
        Constraint::JsonSchema(Arc::new(serde_json::from_str::<Value>(text).unwrap()))
    }

    fn regex(text: &str) -> Constraint {
        Constraint::Regex(text.into())
    }

    fn lark(text: &str) -> Constraint {
        Constraint::Grammar { dialect: GrammarDialect::Lark, text: text.into() }
    }

    fn choice(choices: &[&str]) -> Constraint {
        Constraint::Choice(choices.iter().map(ToString::to_string).collect())
    }

    fn matcher(constraint: &Constraint) -> Box<dyn Matcher> {
        engine().compile(constraint).unwrap_or_else(|error| panic!("{constraint:?}: {error}")).matcher().unwrap()
    }

    fn mask(matcher: &mut dyn Matcher) -> TokenMask {
        let mut mask = TokenMask::new(shared().len());
        matcher.mask(&mut mask).unwrap();
        mask
    }

    const PROFILE: &str = r#"{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","maximum":150},
        "tags":{"type":"array","items":{"enum":["a","b"]},"maxItems":2}},"required":["name"],"additionalProperties":false}"#;
    const SQL: &str = "start: \"SELECT \" column \" FROM \" /[a-z]+/\ncolumn: \"col_1\" | \"col_2\"";

    /// Takes the text token by token, looking at every mask on the way; `Err` is the text that was taken.
    fn take(matcher: &mut dyn Matcher, text: &str) -> Result<(), String> {
        let vocabulary = shared();
        let mut taken = Vec::new();
        for token in vocabulary.encode(text) {
            let allowed = mask(matcher);
            assert_eq!(allowed.allows(vocabulary.eos()), matcher.is_accepting().unwrap(), "end allowed after {taken:?}");
            // Not the other way round: where text is forced, the mask has its canonical tokens only, and commit takes others.
            if !allowed.allows(token) {
                return Err(String::from_utf8(taken).unwrap());
            }
            matcher.commit(token).unwrap();
            taken.extend_from_slice(vocabulary.bytes(token));
        }
        let allowed = mask(matcher);
        assert_eq!(allowed.allows(vocabulary.eos()), matcher.is_accepting().unwrap());
        Ok(())
    }

    #[test]
    fn valid_answers_are_taken_and_may_end() {
        for (constraint, text) in [
            (json(PROFILE), r#"{"name": "Alan Turing", "age": 41, "tags": ["a", "b"]}"#),
            (json(PROFILE), r#"{"name":"Zoë \"Z\" 🦀"}"#),
            (json("true"), "[1, null, {\"a\": -0.5e3}]"),
            (Constraint::JsonObject(crate::constraint::AlwaysTrue), r#"{"a": [true]}"#),
            (regex(r"\w+@\w+\.com\n"), "alan_turing@enigma.com\n"),
            (regex("(ab|cd){2}/x"), "abcd/x"),
            (regex(""), ""),
            (choice(&["Positive", "Negative", "Pos\"\\\n日本"]), "Pos\"\\\n日本"),
            (choice(&["a", "ab", "b c"]), "ab"),
            (lark(SQL), "SELECT col_2 FROM users"),
        ] {
            let mut matcher = matcher(&constraint);
            assert_eq!(take(&mut *matcher, text), Ok(()), "{constraint:?}");
            assert_eq!(matcher.is_accepting(), Ok(true), "{text}");
            let eos = shared().eos();
            matcher.commit(eos).unwrap();
            assert_eq!(mask(&mut *matcher).iter().collect::<Vec<_>>(), [eos], "after the end there is only the end");
            assert!(matcher.commit(eos).is_err() && matcher.forced_tokens().is_empty());
        }
    }

    #[test]
    fn invalid_continuations_are_masked_where_they_begin() {
        for (constraint, text, taken) in [
            (json(PROFILE), r#"{"name": 1"#, "{\"name\": "),
            (json(PROFILE), r#"{"name": "x", "age": 1514"#, "{\"name\": \"x\", \"age\": "),
            (regex("[a-c]+"), "abcd", ""),
            (choice(&["Positive", "Negative"]), "Neutral", ""),
            (lark(SQL), "SELECT col_3", "SELECT col_"),
        ] {
            let stopped = take(&mut *matcher(&constraint), text).unwrap_err();
            assert!(text.starts_with(&stopped) && stopped.starts_with(taken.trim_end()), "{text}: {stopped:?}");
        }
        for (constraint, text) in [(json(PROFILE), r#"{"name": "x", "age": 1"#), (regex("[ab]{3}"), "ab"), (choice(&["ab"]), "a")]
        {
            let mut matcher = matcher(&constraint);
            let _ = take(&mut *matcher, text);
            assert!(matcher.commit(shared().eos()).is_err(), "{text} is not whole");
        }
    }

    #[test]
    fn forks_and_rollbacks_leave_the_mask_as_it_was() {
        let vocabulary = shared();
        for (constraint, head, tail) in [
            (json(PROFILE), r#"{"name": "A"#, "lan\", \"age\": 4}"),
            (regex(r"\w+@\w+\.com\n"), "alan", "@enigma.com\n"),
            (lark(SQL), "SELECT col_1", " FROM users"),
        ] {
            let mut matcher = matcher(&constraint);
            take(&mut *matcher, head).unwrap();
            let before = mask(&mut *matcher);
            let mut fork = matcher.fork();
            assert_eq!(mask(&mut *fork), before);
            take(&mut *fork, tail).unwrap();
            assert_eq!(mask(&mut *matcher), before, "a fork goes its own way");
            take(&mut *matcher, tail).unwrap();
            assert_eq!(mask(&mut *matcher), mask(&mut *fork));
            matcher.commit(vocabulary.eos()).unwrap();
            let taken = vocabulary.encode(tail).len() + 1;
            matcher.rollback(1).unwrap();
            assert_eq!(mask(&mut *matcher), mask(&mut *fork), "the end is taken back");
            matcher.commit(vocabulary.eos()).unwrap();
            matcher.rollback(taken).unwrap();
            assert_eq!(mask(&mut *matcher), before);
            matcher.rollback(0).unwrap();
            assert!(matcher.rollback(1000).is_err());
            take(&mut *matcher, tail).unwrap();
        }
    }

    #[test]
    fn forced_tokens_are_the_only_ones_allowed() {
        let mut matcher = matcher(&lark("start: \"a rather long sentence\""));
        let forced = matcher.forced_tokens();
        assert!(!forced.is_empty());
        for token in forced {
            assert_eq!(mask(&mut *matcher).iter().collect::<Vec<_>>(), [token]);
            matcher.commit(token).unwrap();
        }
    }

    #[test]
    fn refusals_carry_the_library_s_words() {
        let unsupported = |feature: &str, words: &str| EngineError::Unsupported { feature: feature.into(), words: words.into() };
        for (constraint, expected) in [
            (json(r#"{"type":"string","not":{"const":"x"}}"#), unsupported("not", "Unimplemented keys: [\"not\"]")),
            (json(r#"{"oneOf":[{"type":"string"},{"minLength":2,"type":"string"}]}"#), unsupported("oneOf", "oneOf constraints")),
            (json(r#"{"type":"string","format":"isbn"}"#), unsupported("format isbn", "Unknown format: isbn")),
            (json(r#"{"type":"strnig"}"#), EngineError::Invalid { words: "Invalid type: strnig".into() }),
            (json(r#"{"type":"integer","minimum":2,"maximum":1}"#), EngineError::Invalid { words: "Unsatisfiable".into() }),
            (regex("[a-"), EngineError::Invalid { words: "unclosed character class".into() }),
            (regex("(?=a)b"), unsupported("look-around", "look-around")),
            (regex(r"(a)\1"), unsupported("back-reference", "backreferences")),
            (lark("start: undefined_rule"), EngineError::Invalid { words: "undefined_rule".into() }),
            (lark("start: ("), EngineError::Invalid { words: "Expected token ')'".into() }),
            (choice(&[]), EngineError::Invalid { words: "at least one".into() }),
            (Constraint::StructuralTag(Arc::new(json!({}))), unsupported("structural_tag", "no structural tags")),
            (
                Constraint::Grammar { dialect: GrammarDialect::Ebnf, text: "root ::= \"a\"".into() },
                unsupported("ebnf grammar", "not EBNF"),
            ),
        ] {
            let error = engine().compile(&constraint).err().unwrap_or_else(|| panic!("{constraint:?} compiled"));
            assert_eq!(std::mem::discriminant(&error), std::mem::discriminant(&expected), "{constraint:?}: {error:?}");
            assert!(error.to_string().contains(&expected.to_string()), "{constraint:?}: {error}");
            assert!(!error.to_string().contains("<non-verbose/>"));
            if let (EngineError::Unsupported { feature, .. }, EngineError::Unsupported { feature: named, .. }) = (error, expected)
            {
                assert_eq!(feature, named);
            }
        }
    }

    #[test]
    fn limits_are_told_apart_from_mistakes() {
        let large = "initial lexer configuration (grammar) too big (limit for this grammar: 1000000)";
        for (words, large) in
            [(large, true), ("schema too large", true), ("Too many items (limit 2000)", true), ("Invalid type: x", false)]
        {
            assert_eq!(matches!(classified(words), EngineError::TooLarge { .. }), large, "{words}");
        }
        assert_eq!(classified("panic: x\n<backtrace>\n1\n</backtrace>"), EngineError::Crashed { words: "panic: x".into() });
    }

    #[test]
    fn a_neighbour_that_crashes_the_shared_lexer_does_no_harm() {
        let grammar = engine().compile(&regex("[ab]{8}")).unwrap();
        let core = |grammar: &Arc<dyn Grammar>| (0..LEXER_COPIES).map(|_| grammar.matcher().unwrap()).collect::<Vec<_>>();
        let mut neighbours = core(&grammar);
        neighbours.iter_mut().for_each(|matcher| take(&mut **matcher, "ab").unwrap());
        let before = mask(&mut *neighbours[0]);
        let mut rogue = GuidanceMatcher::crashing(&regex("[ab]{8}"));
        let error = rogue.run(LlMatcher::test_trigger_lexer_error).unwrap_err();
        assert!(matches!(&error, EngineError::Crashed { words } if words.contains("synthetic error")), "{error:?}");
        let mut victim = rogue.sibling();
        assert_eq!(take(&mut *victim, "ab"), Ok(()));
        assert_eq!(mask(&mut *victim), before);
    }

    impl GuidanceMatcher {
        fn crashing(constraint: &Constraint) -> Self {
            let mut pristine = LlMatcher::new(engine().factory.create_parser(top_level(constraint).unwrap()));
            pristine.compute_mask_or_eos().unwrap();
            let copies = std::array::from_fn(|_| Mutex::new(None));
            let core = Core { pristine: Mutex::new(pristine), copies, turn: AtomicUsize::new(0), eos: shared().eos() };
            let core = Arc::new(core);
            Self { copy: core.start(), core, tokens: Vec::new(), ended: false }
        }

        /// A matcher that shares this one's lexer, made before or after the crash.
        fn sibling(&self) -> Box<dyn Matcher> {
            let copy = LexerCopy { matcher: self.core.fresh().matcher, health: Arc::clone(&self.copy.health) };
            Box::new(Self { core: Arc::clone(&self.core), copy, tokens: Vec::new(), ended: false })
        }
    }

    #[test]
    fn the_version_is_the_one_that_is_built_in() {
        let (name, version) = VERSION.split_once(' ').unwrap();
        let lock = include_str!("../../Cargo.lock");
        assert!(lock.contains(&format!("name = \"{name}\"\nversion = \"{version}\"\n")), "{VERSION}");
    }
}
