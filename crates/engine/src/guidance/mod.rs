//! The `llguidance` crate as an [`Engine`].
//!
//! Regexes are Rust's `regex` syntax with Unicode classes, which agrees with Python's `re` on what
//! benchmarks send; look-around and back-references are refused by the library. Its lexer is
//! greedy, so a Lark grammar is not always the plain context-free language that its text describes.

mod matcher;
mod words;

use std::sync::Arc;

use llguidance::api::{GrammarInit, TopLevelGrammar};
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::InferenceCapabilities;
use llguidance::{Matcher as LlMatcher, ParserFactory};
use serde_json::{Value, json};
use toktrie::{TokEnv, TokRxInfo, TokTrie, TokenizerEnv};

use super::{
    Declared, Departure, Engine, EngineError, EnginePolicy, EngineSpec, Grammar, TokenId,
    Vocabulary,
};
use matcher::GuidanceGrammar;
use sobench_core::constraint::{Constraint, GrammarDialect};
use sobench_core::error::{Error, Result as OurResult};
use words::classified;

/// Held to `Cargo.lock` by a test.
const VERSION: &str = "llguidance 1.9.1";

pub(super) const SPEC: EngineSpec = EngineSpec {
    name: "guidance",
    open: Some(|vocabulary, policy| Ok(Arc::new(Guidance::new(vocabulary, policy)?))),
    build_hint: "",
    measured: true,
    departures: &DEPARTURES,
    listed_keywords: &[],
    relaxations: |policy| {
        let relaxed = EnginePolicy {
            guidance_forcing: false,
            ..policy.clone()
        };
        policy
            .guidance_forcing
            .then_some((Departure::CanonicalTokens, relaxed))
            .into_iter()
            .collect()
    },
};

const DEPARTURES: [Declared; 4] = [
    Declared::new(
        Departure::MemberOrder,
        "members come in the order of `properties`, then of `required`, then all others",
        "llguidance, docs/json_schema.md, Property order",
    ),
    Declared::new(
        Departure::OuterWhiteSpace,
        "no white space before the first or after the last byte",
        "llguidance, docs/json_schema.md, Whitespace handling",
    ),
    Declared::new(
        Departure::Escapes,
        "after a backslash only one of nrbtf\\\"u, and \\u only for characters that have no other spelling",
        "llguidance, docs/json_schema.md, json_allowed_escapes; JsonCompileOptions::json_allow_general_unicode_escapes",
    ),
    Declared::new(
        Departure::CanonicalTokens,
        "where the grammar forces bytes, only the tokenizer's own tokens for them are allowed",
        "llguidance, LLGuidanceOptions::no_forcing",
    ),
];

/// The key under which a schema carries options of llguidance.
const OPTIONS_KEY: &str = "x-guidance";

/// The engine: tokenizer tables built once, about 45 MB, and as much again for the slices. Nothing
/// that one compile learns is kept for the next: grammar, lexer and automaton belong to the
/// compiled constraint.
struct Guidance {
    factory: ParserFactory,
    vocabulary: Arc<Vocabulary>,
    policy: EnginePolicy,
}

impl Guidance {
    fn new(vocabulary: Arc<Vocabulary>, policy: &EnginePolicy) -> OurResult<Self> {
        let env: TokEnv = Arc::new(Tokenizer {
            trie: trie(&vocabulary)?,
            vocabulary: Arc::clone(&vocabulary),
        });
        // The library's own default has the slices, under the name of general ones.
        let slices = if policy.guidance_slicer {
            SlicedBiasComputer::json_slices()
        } else {
            Vec::new()
        };
        let mut factory = ParserFactory::new(&env, InferenceCapabilities::default(), &slices)
            .map_err(|error| {
                Error::internal(format!("llguidance does not take the vocabulary: {error}"))
            })?;
        factory.quiet();
        factory.limits_mut().verbose_errors = false;
        Ok(Self {
            factory,
            vocabulary,
            policy: policy.clone(),
        })
    }

    /// A matcher at the start, which shares nothing with any other.
    fn pristine(&self, grammar: TopLevelGrammar) -> Result<LlMatcher, EngineError> {
        let parser = if self.policy.guidance_forcing {
            self.factory.create_parser(grammar)
        } else {
            // Only Lark has a way to write `no_forcing`; the compiled form has it for all.
            let (env, limits) = (
                self.factory.tok_env().clone(),
                self.factory.limits().clone(),
            );
            let compiled = GrammarInit::Serialized(grammar).to_internal(Some(env), limits);
            let (grammar, mut lexer) = compiled.map_err(|error| classified(&error.to_string()))?;
            lexer.no_forcing = true;
            self.factory
                .create_parser_from_init_default(GrammarInit::Internal(grammar, lexer))
        };
        let pristine = LlMatcher::new(parser);
        pristine
            .get_error()
            .map_or(Ok(pristine), |words| Err(classified(&words)))
    }

    /// What llguidance is given for a schema. A schema's own options win, as in vLLM.
    fn with_options(&self, mut schema: Value) -> Value {
        if self.policy.any_whitespace {
            return schema;
        }
        if schema == Value::Bool(true) {
            schema = json!({});
        }
        if let Value::Object(members) = &mut schema {
            let options = members.entry(OPTIONS_KEY).or_insert_with(|| json!({}));
            if let Value::Object(options) = options {
                options
                    .entry("whitespace_flexible")
                    .or_insert(Value::Bool(false));
            }
        }
        schema
    }

    /// What llguidance is given for a constraint.
    fn top_level(&self, constraint: &Constraint) -> Result<TopLevelGrammar, EngineError> {
        Ok(match constraint {
            Constraint::JsonSchema(schema) => {
                TopLevelGrammar::from_json_schema(self.with_options((**schema).clone()))
            }
            Constraint::JsonObject(_) => {
                TopLevelGrammar::from_json_schema(self.with_options(json!({ "type": "object" })))
            }
            // An empty pattern would become `//`, which starts a comment in Lark.
            Constraint::Regex(regex) if regex.is_empty() => {
                TopLevelGrammar::from_lark("start: \"\"".into())
            }
            Constraint::Regex(regex) => TopLevelGrammar::from_regex(regex),
            Constraint::Choice(choices) if choices.is_empty() => {
                return Err(EngineError::empty_choice());
            }
            Constraint::Choice(choices) => {
                let quoted: Vec<String> = choices
                    .iter()
                    .map(|choice| json!(choice).to_string())
                    .collect();
                TopLevelGrammar::from_lark(format!("start: {}", quoted.join(" | ")))
            }
            Constraint::Grammar {
                dialect: GrammarDialect::Lark,
                text,
            } => TopLevelGrammar::from_lark(text.to_string()),
            Constraint::Grammar {
                dialect: GrammarDialect::Ebnf,
                ..
            } => {
                let words = "the llguidance crate reads Lark grammars, not EBNF or GBNF";
                return Err(EngineError::unsupported("ebnf grammar", words));
            }
            Constraint::StructuralTag(_) => {
                return Err(EngineError::unsupported(
                    "structural_tag",
                    "the llguidance crate has no structural tags",
                ));
            }
        })
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
        let EnginePolicy {
            any_whitespace,
            guidance_forcing,
            guidance_slicer,
            ..
        } = self.policy;
        let flags = [
            ("whitespace_flexible", any_whitespace),
            ("no_forcing", !guidance_forcing),
            ("slicer", guidance_slicer),
        ];
        flags
            .map(|(name, value)| (name, value.to_string()))
            .to_vec()
    }

    fn grammar_dialects(&self) -> &'static [GrammarDialect] {
        &[GrammarDialect::Lark]
    }

    /// A language without words is not always found here: the library may see it only at the first
    /// mask.
    fn validate(&self, constraint: &Constraint) -> Result<(), EngineError> {
        self.pristine(self.top_level(constraint)?).map(drop)
    }

    fn compile(&self, constraint: &Constraint) -> Result<Arc<dyn Grammar>, EngineError> {
        let pristine = self.pristine(self.top_level(constraint)?)?;
        Ok(Arc::new(GuidanceGrammar::new(pristine, &self.vocabulary)))
    }
}

fn trie(vocabulary: &Vocabulary) -> OurResult<TokTrie> {
    let mut words: Vec<Vec<u8>> = (0..)
        .take(vocabulary.len())
        .map(|id| vocabulary.bytes(id).to_vec())
        .collect();
    for (id, name) in vocabulary.special() {
        words[*id as usize] = [&[TokTrie::SPECIAL_TOKEN_MARKER], name.as_bytes()].concat();
    }
    let size = u32::try_from(words.len())
        .map_err(|_| Error::internal("vocabulary has more ids than 32 bits"))?;
    Ok(TokTrie::from(
        &TokRxInfo::new(size, vocabulary.eos()),
        &words,
    ))
}

/// The vocabulary as llguidance wants it; canonical, so that text which must come is forced in the
/// tokens a model would use.
struct Tokenizer {
    trie: TokTrie,
    vocabulary: Arc<Vocabulary>,
}

impl TokenizerEnv for Tokenizer {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        self.trie
            .tokenize_with_greedy_fallback(bytes, |text| self.vocabulary.encode(text))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use serde_json::Value;

    use super::*;
    use crate::vocabulary::shared;
    use crate::{Matcher, TokenMask};

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
        Constraint::Grammar {
            dialect: GrammarDialect::Lark,
            text: text.into(),
        }
    }

    fn choice(choices: &[&str]) -> Constraint {
        Constraint::Choice(choices.iter().map(ToString::to_string).collect())
    }

    fn matcher(constraint: &Constraint) -> Box<dyn Matcher> {
        engine()
            .compile(constraint)
            .unwrap_or_else(|error| panic!("{constraint:?}: {error}"))
            .matcher()
            .unwrap()
    }

    fn mask(matcher: &mut dyn Matcher) -> TokenMask {
        let mut mask = TokenMask::new(shared().len());
        matcher.mask(&mut mask).unwrap();
        mask
    }

    const PROFILE: &str = r#"{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","maximum":150},
        "tags":{"type":"array","items":{"enum":["a","b"]},"maxItems":2}},"required":["name"],"additionalProperties":false}"#;
    const CIRCULAR: &str =
        r##"{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/a","type":"object"}}}"##;
    const DEEP: &str = r##"{"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"}],"$defs":{
        "a":{"type":"object","properties":{"x":{"$ref":"#/$defs/a"}}},
        "b":{"type":"object","properties":{"x":{"$ref":"#/$defs/b"}}}}}"##;
    const FEW: &str = r#"{"type":"object","properties":{"a":{},"b":{}},"minProperties":2}"#;
    const PATTERNS: &str =
        r#"{"type":"object","patternProperties":{"^a":{"type":"string"},"b$":{"type":"integer"}}}"#;
    const SQL: &str =
        "start: \"SELECT \" column \" FROM \" /[a-z]+/\ncolumn: \"col_1\" | \"col_2\"";

    /// Takes the text token by token, looking at every mask on the way; `Err` is the text that was
    /// taken.
    fn take(matcher: &mut dyn Matcher, text: &str) -> Result<(), String> {
        let vocabulary = shared();
        let mut taken = Vec::new();
        for token in vocabulary.encode(text) {
            let allowed = mask(matcher);
            assert_eq!(
                allowed.allows(vocabulary.eos()),
                matcher.is_accepting().unwrap(),
                "end allowed after {taken:?}"
            );
            // Not the other way round: where text is forced, the mask has its canonical tokens
            // only, and commit takes others.
            if !allowed.allows(token) {
                return Err(String::from_utf8(taken).unwrap());
            }
            matcher.commit(token).unwrap();
            taken.extend_from_slice(vocabulary.bytes(token));
        }
        let allowed = mask(matcher);
        assert_eq!(
            allowed.allows(vocabulary.eos()),
            matcher.is_accepting().unwrap()
        );
        Ok(())
    }

    #[test]
    fn valid_answers_are_taken_and_may_end() {
        for (constraint, text) in [
            (
                json(PROFILE),
                r#"{"name": "Alan Turing", "age": 41, "tags": ["a", "b"]}"#,
            ),
            (json(PROFILE), r#"{"name":"Zoë \"Z\" 🦀"}"#),
            (json("true"), "[1, null, {\"a\": -0.5e3}]"),
            (
                Constraint::JsonObject(sobench_core::constraint::AlwaysTrue),
                r#"{"a": [true]}"#,
            ),
            (regex(r"\w+@\w+\.com\n"), "alan_turing@enigma.com\n"),
            (regex("(ab|cd){2}/x"), "abcd/x"),
            (regex(""), ""),
            (
                choice(&["Positive", "Negative", "Pos\"\\\n日本"]),
                "Pos\"\\\n日本",
            ),
            (choice(&["a", "ab", "b c"]), "ab"),
            (lark(SQL), "SELECT col_2 FROM users"),
        ] {
            let mut matcher = matcher(&constraint);
            assert_eq!(take(&mut *matcher, text), Ok(()), "{constraint:?}");
            assert_eq!(matcher.is_accepting(), Ok(true), "{text}");
            let eos = shared().eos();
            matcher.commit(eos).unwrap();
            assert_eq!(
                mask(&mut *matcher).iter().collect::<Vec<_>>(),
                [eos],
                "after the end there is only the end"
            );
            assert!(matcher.commit(eos).is_err() && matcher.forced_tokens().is_empty());
        }
    }

    #[test]
    fn invalid_continuations_are_masked_where_they_begin() {
        for (constraint, text, taken) in [
            (json(PROFILE), r#"{"name": 1"#, "{\"name\": "),
            (
                json(PROFILE),
                r#"{"name": "x", "age": 1514"#,
                "{\"name\": \"x\", \"age\": ",
            ),
            (regex("[a-c]+"), "abcd", ""),
            (choice(&["Positive", "Negative"]), "Neutral", ""),
            (lark(SQL), "SELECT col_3", "SELECT col_"),
        ] {
            let stopped = take(&mut *matcher(&constraint), text).unwrap_err();
            assert!(
                text.starts_with(&stopped) && stopped.starts_with(taken.trim_end()),
                "{text}: {stopped:?}"
            );
        }
        for (constraint, text) in [
            (json(PROFILE), r#"{"name": "x", "age": 1"#),
            (regex("[ab]{3}"), "ab"),
            (choice(&["ab"]), "a"),
        ] {
            let mut matcher = matcher(&constraint);
            let _ = take(&mut *matcher, text);
            assert!(
                matcher.commit(shared().eos()).is_err(),
                "{text} is not whole"
            );
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
            assert_eq!(
                mask(&mut *matcher),
                mask(&mut *fork),
                "the end is taken back"
            );
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
        let unsupported = |feature: &str, words: &str| EngineError::Unsupported {
            feature: feature.into(),
            words: words.into(),
        };
        for (constraint, expected) in [
            (
                json(r#"{"type":"string","not":{"const":"x"}}"#),
                unsupported("not", "Unimplemented keys: [\"not\"]"),
            ),
            (
                json(r#"{"oneOf":[{"type":"string"},{"minLength":2,"type":"string"}]}"#),
                unsupported("oneOf", "oneOf constraints"),
            ),
            (
                json(r#"{"type":"string","format":"isbn"}"#),
                unsupported("format isbn", "Unknown format: isbn"),
            ),
            (
                json(DEEP),
                unsupported("deeply nested intersection", "intersection stack level"),
            ),
            (
                json(CIRCULAR),
                unsupported("circular $ref with siblings", "circular references"),
            ),
            (
                json(FEW),
                unsupported("minProperties, maxProperties", "min/maxProperties"),
            ),
            (
                json(PATTERNS),
                unsupported("overlapping patternProperties", "not disjoint"),
            ),
            (
                json(r#"{"$ref":"http://localhost:1/x.json"}"#),
                unsupported("$ref out of the document", "localhost:1/x.json"),
            ),
            (
                json(r#"{"type":"strnig"}"#),
                EngineError::Invalid {
                    words: "Invalid type: strnig".into(),
                },
            ),
            (
                json(r#"{"type":"integer","minimum":2,"maximum":1}"#),
                EngineError::Invalid {
                    words: "Unsatisfiable".into(),
                },
            ),
            (
                regex("[a-"),
                EngineError::Invalid {
                    words: "unclosed character class".into(),
                },
            ),
            (regex("(?=a)b"), unsupported("look-around", "look-around")),
            (
                regex(r"(a)\1"),
                unsupported("back-reference", "backreferences"),
            ),
            (
                lark("start: undefined_rule"),
                EngineError::Invalid {
                    words: "undefined_rule".into(),
                },
            ),
            (
                lark("start: ("),
                EngineError::Invalid {
                    words: "Expected token ')'".into(),
                },
            ),
            (
                choice(&[]),
                EngineError::Invalid {
                    words: "at least one".into(),
                },
            ),
            (
                Constraint::StructuralTag(Arc::new(json!({}))),
                unsupported("structural_tag", "no structural tags"),
            ),
            (
                Constraint::Grammar {
                    dialect: GrammarDialect::Ebnf,
                    text: "root ::= \"a\"".into(),
                },
                unsupported("ebnf grammar", "not EBNF"),
            ),
        ] {
            let error = engine()
                .compile(&constraint)
                .err()
                .unwrap_or_else(|| panic!("{constraint:?} compiled"));
            assert_eq!(
                std::mem::discriminant(&error),
                std::mem::discriminant(&expected),
                "{constraint:?}: {error:?}"
            );
            assert!(
                error.to_string().contains(&expected.to_string()),
                "{constraint:?}: {error}"
            );
            assert!(!error.to_string().contains("<non-verbose/>"));
            if let (
                EngineError::Unsupported { feature, .. },
                EngineError::Unsupported { feature: named, .. },
            ) = (error, expected)
            {
                assert_eq!(feature, named);
            }
        }
    }

    #[test]
    fn a_language_without_words_has_no_mask() {
        let constraint = lark("start: NONE\nNONE: /a/ & /b/");
        let refused = match engine().compile(&constraint) {
            Err(error) => error,
            Ok(grammar) => grammar
                .matcher()
                .unwrap()
                .mask(&mut TokenMask::new(shared().len()))
                .unwrap_err(),
        };
        assert!(
            matches!(&refused, EngineError::Invalid { words } if !words.is_empty()),
            "{refused:?}"
        );
    }

    /// An engine with the default policy changed.
    fn with(change: impl FnOnce(&mut EnginePolicy)) -> Guidance {
        let mut policy = EnginePolicy::default();
        change(&mut policy);
        Guidance::new(shared(), &policy).unwrap()
    }

    /// The masks along a text that is taken whatever they say, the one after it included.
    fn masks(engine: &Guidance, constraint: &Constraint, text: &str) -> Vec<TokenMask> {
        let mut matcher = engine.compile(constraint).unwrap().matcher().unwrap();
        let mut masks = vec![mask(&mut *matcher)];
        for token in shared().encode(text) {
            matcher.commit(token).unwrap();
            masks.push(mask(&mut *matcher));
        }
        masks
    }

    #[test]
    fn white_space_follows_the_policy_unless_the_schema_has_its_own() {
        let compact = with(|policy| policy.any_whitespace = false);
        assert_eq!(
            compact.settings()[0],
            ("whitespace_flexible", "false".into())
        );
        let own = PROFILE.replacen('{', r#"{"x-guidance":{"whitespace_flexible":true},"#, 1);
        let object = || Constraint::JsonObject(sobench_core::constraint::AlwaysTrue);
        for (constraint, spaced, allowed) in [
            (json(PROFILE), r#"{"name": "x"}"#, false),
            (json(PROFILE), r#"{"name":"x"}"#, true),
            (json(&own), r#"{"name": "x"}"#, true),
            (object(), r#"{"name": "x"}"#, false),
            (json("true"), r#"{"name": "x"}"#, false),
            (json("true"), "[1,2]", true),
        ] {
            let mut matcher = compact.compile(&constraint).unwrap().matcher().unwrap();
            assert_eq!(
                take(&mut *matcher, spaced).is_ok(),
                allowed,
                "{constraint:?} {spaced}"
            );
        }
        assert_eq!(
            compact.compile(&json("false")).err().unwrap(),
            engine().compile(&json("false")).err().unwrap()
        );
    }

    #[test]
    fn without_forcing_every_spelling_of_forced_text_is_allowed() {
        let free = with(|policy| policy.guidance_forcing = false);
        assert_eq!(free.settings()[1], ("no_forcing", "true".into()));
        let lark = lark("start: \"\\\"postalCode\\\"\"");
        for constraint in [
            &json(r#"{"const":"postalCode"}"#),
            &regex("\"postalCode\""),
            &choice(&["\"postalCode\""]),
            &lark,
        ] {
            let (forced, free) = (
                &masks(engine(), constraint, "\"")[1],
                &masks(&free, constraint, "\"")[1],
            );
            assert_eq!(forced.count(), 1, "{constraint:?}");
            assert!(
                free.count() > 1 && forced.iter().all(|token| free.allows(token)),
                "{constraint:?}"
            );
            let spells = |token| b"postalCode\"".starts_with(shared().bytes(token));
            assert!(free.iter().all(spells), "{constraint:?}");
        }
    }

    #[test]
    fn the_slicer_changes_no_mask() {
        let whole = with(|policy| policy.guidance_slicer = false);
        assert_eq!(whole.settings()[2], ("slicer", "false".into()));
        for (constraint, text) in [
            (
                json(PROFILE),
                r#"{ "name": "Zoë \"Z\"", "age": 41, "tags": ["a"] }"#,
            ),
            (json("true"), r#"{"a":[1,"two words"]}"#),
            (regex(r"\w+@\w+\.com\n"), "alan@enigma.com\n"),
            (lark(SQL), "SELECT col_2 FROM users"),
        ] {
            assert!(
                masks(&whole, &constraint, text) == masks(engine(), &constraint, text),
                "{constraint:?}"
            );
        }
    }

    #[test]
    fn the_version_is_the_one_that_is_built_in() {
        let (name, version) = VERSION.split_once(' ').unwrap();
        let lock = include_str!("../../../../Cargo.lock");
        assert!(
            lock.contains(&format!("name = \"{name}\"\nversion = \"{version}\"\n")),
            "{VERSION}"
        );
    }
}
