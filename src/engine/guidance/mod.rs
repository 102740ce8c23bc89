//! The `llguidance` crate as an [`Engine`]. Knows tokens and masks, neither HTTP nor models.
//!
//! Regexes are Rust's `regex` syntax with Unicode classes, which agrees with Python's `re` on what benchmarks send; look-around
//! and back-references are refused by the library. Its lexer is greedy, so a Lark grammar is not always the plain context-free
//! language that its text describes.

mod matcher;
mod words;

use std::sync::Arc;

use llguidance::api::TopLevelGrammar;
use llguidance::{Matcher as LlMatcher, ParserFactory};
use serde_json::json;
use toktrie::{TokEnv, TokRxInfo, TokTrie, TokenizerEnv};

use super::{Engine, EngineError, EnginePolicy, Grammar, TokenId, Vocabulary};
use crate::constraint::{Constraint, GrammarDialect};
use crate::error::{Error, Result as OurResult};
use matcher::GuidanceGrammar;
use words::classified;

/// Held to `Cargo.lock` by a test.
const VERSION: &str = "llguidance 1.9.1";

/// The engine: tokenizer tables built once, about 45 MB.
pub(super) struct Guidance {
    factory: ParserFactory,
    vocabulary: Arc<Vocabulary>,
}

impl Guidance {
    pub(super) fn new(vocabulary: Arc<Vocabulary>, _policy: &EnginePolicy) -> OurResult<Self> {
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

    fn settings(&self) -> Vec<(&'static str, String)> {
        Vec::new()
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
        Ok(Arc::new(GuidanceGrammar::new(pristine, self.vocabulary.eos())))
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

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use serde_json::Value;

    use super::*;
    use crate::engine::vocabulary::shared;
    use crate::engine::{Matcher, TokenMask};

    pub(super) fn engine() -> &'static Guidance {
        static ENGINE: OnceLock<Guidance> = OnceLock::new();
        ENGINE.get_or_init(|| Guidance::new(shared(), &EnginePolicy::default()).unwrap())
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
    fn the_version_is_the_one_that_is_built_in() {
        let (name, version) = VERSION.split_once(' ').unwrap();
        let lock = include_str!("../../../Cargo.lock");
        assert!(lock.contains(&format!("name = \"{name}\"\nversion = \"{version}\"\n")), "{VERSION}");
    }
}
