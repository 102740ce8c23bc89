//! Engine `guidance`: the `llguidance` crate.
//!
//! Regexes use Rust's `regex` syntax with Unicode classes, which agrees with Python's `re` on the
//! patterns of benchmarks. The library refuses look-around and back-references. Its lexer is
//! greedy, so a Lark grammar is not always the context-free language that its text describes.

mod errors;
mod matcher;

use std::sync::Arc;

use llguidance::api::{GrammarInit, TopLevelGrammar};
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::InferenceCapabilities;
use llguidance::{Matcher as LlMatcher, ParserFactory};
use serde_json::{Value, json};
use toktrie::{TokEnv, TokRxInfo, TokTrie, TokenizerEnv};

use super::input::Input;
use super::{
    DeclaredDeparture, Departure, Engine, EngineError, EnginePolicy, EngineSpec, Grammar, TokenId,
    Vocabulary,
};
use errors::classify;
use matcher::GuidanceGrammar;
use sobench_core::constraint::{Constraint, GrammarDialect};
use sobench_core::error::{Error, Result as SobenchResult};

/// A test compares it with `Cargo.lock`.
const VERSION: &str = "llguidance 1.9.1";

pub(super) const SPEC: EngineSpec = EngineSpec {
    name: "guidance",
    open: Some(|vocabulary, policy| Ok(Arc::new(Guidance::new(vocabulary, policy)?))),
    build_hint: "",
    measured_by_default: true,
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

const DEPARTURES: [DeclaredDeparture; 4] = [
    DeclaredDeparture::new(
        Departure::MemberOrder,
        "members come in the order of `properties`, then of `required`, then all others",
        "llguidance, docs/json_schema.md, Property order",
    ),
    DeclaredDeparture::new(
        Departure::OuterWhiteSpace,
        "no white space before the first or after the last byte",
        "llguidance, docs/json_schema.md, Whitespace handling",
    ),
    DeclaredDeparture::new(
        Departure::Escapes,
        "after a backslash only one of nrbtf\\\"u, and \\u only for characters that have no other spelling",
        "llguidance, docs/json_schema.md, json_allowed_escapes; JsonCompileOptions::json_allow_general_unicode_escapes",
    ),
    DeclaredDeparture::new(
        Departure::CanonicalTokens,
        "where the grammar forces bytes, only the tokenizer's own tokens for them are allowed",
        "llguidance, LLGuidanceOptions::no_forcing",
    ),
];

/// Schema key of llguidance's options.
const OPTIONS_KEY: &str = "x-guidance";

/// The engine. The tokenizer tables are built once and take about 45 MB, and the slices as much
/// again. Compiles share no state: grammar, lexer and automaton belong to the compiled constraint.
struct Guidance {
    factory: ParserFactory,
    vocabulary: Arc<Vocabulary>,
    policy: EnginePolicy,
}

impl Guidance {
    fn new(vocabulary: Arc<Vocabulary>, policy: &EnginePolicy) -> SobenchResult<Self> {
        let env: TokEnv = Arc::new(Tokenizer {
            trie: trie(&vocabulary)?,
            vocabulary: Arc::clone(&vocabulary),
        });
        // The default of the library is the JSON slices, under the name of general ones.
        let slices = if policy.guidance_slicer {
            SlicedBiasComputer::json_slices()
        } else {
            Vec::new()
        };
        let mut factory = ParserFactory::new(&env, InferenceCapabilities::default(), &slices)
            .map_err(|error| {
                Error::internal(format!("llguidance rejects the vocabulary: {error}"))
            })?;
        factory.quiet();
        factory.limits_mut().verbose_errors = false;
        Ok(Self {
            factory,
            vocabulary,
            policy: policy.clone(),
        })
    }

    /// Creates a matcher in the start state that shares no lexer with other matchers.
    fn start_matcher(&self, grammar: TopLevelGrammar) -> Result<LlMatcher, EngineError> {
        let parser = if self.policy.guidance_forcing {
            self.factory.create_parser(grammar)
        } else {
            // Only Lark can express `no_forcing`. The compiled form has it for all kinds.
            let (env, limits) = (
                self.factory.tok_env().clone(),
                self.factory.limits().clone(),
            );
            let compiled = GrammarInit::Serialized(grammar).to_internal(Some(env), limits);
            let (grammar, mut lexer) = compiled.map_err(|error| classify(&error.to_string()))?;
            lexer.no_forcing = true;
            self.factory
                .create_parser_from_init_default(GrammarInit::Internal(grammar, lexer))
        };
        let start_matcher = LlMatcher::new(parser);
        start_matcher
            .get_error()
            .map_or(Ok(start_matcher), |message| Err(classify(&message)))
    }

    /// The schema with the policy's options added. Options in the schema take precedence, as in
    /// vLLM.
    fn with_policy_options(&self, mut schema: Value) -> Value {
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

    /// Converts a constraint to llguidance's input.
    fn llguidance_input(&self, constraint: &Constraint) -> Result<TopLevelGrammar, EngineError> {
        Ok(match Input::new(constraint)? {
            Input::Schema(schema) => {
                TopLevelGrammar::from_json_schema(self.with_policy_options(schema.clone()))
            }
            Input::AnyObject => TopLevelGrammar::from_json_schema(
                self.with_policy_options(json!({ "type": "object" })),
            ),
            // An empty pattern would become `//`, which starts a comment in Lark.
            Input::Regex("") => TopLevelGrammar::from_lark("start: \"\"".into()),
            Input::Regex(regex) => TopLevelGrammar::from_regex(regex),
            Input::Choice(choices) => {
                let quoted: Vec<String> = choices
                    .iter()
                    .map(|choice| json!(choice).to_string())
                    .collect();
                TopLevelGrammar::from_lark(format!("start: {}", quoted.join(" | ")))
            }
            Input::Grammar(GrammarDialect::Lark, text) => {
                TopLevelGrammar::from_lark(text.to_owned())
            }
            Input::Grammar(GrammarDialect::Ebnf, _) => {
                let message = "the llguidance crate reads Lark grammars, not EBNF or GBNF";
                return Err(EngineError::unsupported("ebnf grammar", message));
            }
            Input::StructuralTag(_) => {
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

    /// A grammar without sentences is not always found here: the library may detect it only at the
    /// first mask.
    fn validate(&self, constraint: &Constraint) -> Result<(), EngineError> {
        self.start_matcher(self.llguidance_input(constraint)?)
            .map(drop)
    }

    fn compile(&self, constraint: &Constraint) -> Result<Arc<dyn Grammar>, EngineError> {
        let start_matcher = self.start_matcher(self.llguidance_input(constraint)?)?;
        Ok(Arc::new(GuidanceGrammar::new(
            start_matcher,
            &self.vocabulary,
        )))
    }
}

fn trie(vocabulary: &Vocabulary) -> SobenchResult<TokTrie> {
    let mut token_bytes: Vec<Vec<u8>> = (0..)
        .take(vocabulary.len())
        .map(|id| vocabulary.bytes(id).to_vec())
        .collect();
    for (id, name) in vocabulary.special() {
        token_bytes[*id as usize] = [&[TokTrie::SPECIAL_TOKEN_MARKER], name.as_bytes()].concat();
    }
    let size = u32::try_from(token_bytes.len())
        .map_err(|_| Error::internal("vocabulary ids do not fit in 32 bits"))?;
    Ok(TokTrie::from(
        &TokRxInfo::new(size, vocabulary.eos()),
        &token_bytes,
    ))
}

/// Tokenizer for llguidance. It is canonical: forced text is tokenized as a model would write it.
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

    /// Commits the text token by token and checks every mask. `Err` is the text that was accepted.
    fn commit_text(matcher: &mut dyn Matcher, text: &str) -> Result<(), String> {
        let vocabulary = shared();
        let mut accepted = Vec::new();
        for token in vocabulary.encode(text) {
            let allowed = mask(matcher);
            assert_eq!(
                allowed.allows(vocabulary.eos()),
                matcher.is_accepting().unwrap(),
                "end allowed after {accepted:?}"
            );
            // The converse does not hold: for forced text, the mask has only the canonical tokens,
            // and commit accepts others.
            if !allowed.allows(token) {
                return Err(String::from_utf8(accepted).unwrap());
            }
            matcher.commit(token).unwrap();
            accepted.extend_from_slice(vocabulary.bytes(token));
        }
        let allowed = mask(matcher);
        assert_eq!(
            allowed.allows(vocabulary.eos()),
            matcher.is_accepting().unwrap()
        );
        Ok(())
    }

    #[test]
    fn valid_answers_are_accepted_and_may_end() {
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
            assert_eq!(commit_text(&mut *matcher, text), Ok(()), "{constraint:?}");
            assert_eq!(matcher.is_accepting(), Ok(true), "{text}");
            let eos = shared().eos();
            matcher.commit(eos).unwrap();
            assert_eq!(
                mask(&mut *matcher).iter().collect::<Vec<_>>(),
                [eos],
                "after the end, only the end token is allowed"
            );
            assert!(matcher.commit(eos).is_err() && matcher.forced_tokens().is_empty());
        }
    }

    #[test]
    fn invalid_continuations_are_masked() {
        for (constraint, text, accepted) in [
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
            let accepted_text = commit_text(&mut *matcher(&constraint), text).unwrap_err();
            assert!(
                text.starts_with(&accepted_text) && accepted_text.starts_with(accepted.trim_end()),
                "{text}: {accepted_text:?}"
            );
        }
        for (constraint, text) in [
            (json(PROFILE), r#"{"name": "x", "age": 1"#),
            (regex("[ab]{3}"), "ab"),
            (choice(&["ab"]), "a"),
        ] {
            let mut matcher = matcher(&constraint);
            let _ = commit_text(&mut *matcher, text);
            assert!(
                matcher.commit(shared().eos()).is_err(),
                "{text} is incomplete"
            );
        }
    }

    #[test]
    fn forks_and_rollbacks_preserve_the_mask() {
        let vocabulary = shared();
        for (constraint, head, tail) in [
            (json(PROFILE), r#"{"name": "A"#, "lan\", \"age\": 4}"),
            (regex(r"\w+@\w+\.com\n"), "alan", "@enigma.com\n"),
            (lark(SQL), "SELECT col_1", " FROM users"),
        ] {
            let mut matcher = matcher(&constraint);
            commit_text(&mut *matcher, head).unwrap();
            let before = mask(&mut *matcher);
            let mut fork = matcher.fork();
            assert_eq!(mask(&mut *fork), before);
            commit_text(&mut *fork, tail).unwrap();
            assert_eq!(mask(&mut *matcher), before, "a fork is independent");
            commit_text(&mut *matcher, tail).unwrap();
            assert_eq!(mask(&mut *matcher), mask(&mut *fork));
            matcher.commit(vocabulary.eos()).unwrap();
            let accepted = vocabulary.encode(tail).len() + 1;
            matcher.rollback(1).unwrap();
            assert_eq!(
                mask(&mut *matcher),
                mask(&mut *fork),
                "the end is rolled back"
            );
            matcher.commit(vocabulary.eos()).unwrap();
            matcher.rollback(accepted).unwrap();
            assert_eq!(mask(&mut *matcher), before);
            matcher.rollback(0).unwrap();
            assert!(matcher.rollback(1000).is_err());
            commit_text(&mut *matcher, tail).unwrap();
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
    fn refusals_carry_the_library_s_message() {
        let unsupported = |feature: &str, message: &str| EngineError::Unsupported {
            feature: feature.into(),
            message: message.into(),
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
                    message: "Invalid type: strnig".into(),
                },
            ),
            (
                json(r#"{"type":"integer","minimum":2,"maximum":1}"#),
                EngineError::Invalid {
                    message: "Unsatisfiable".into(),
                },
            ),
            (
                regex("[a-"),
                EngineError::Invalid {
                    message: "unclosed character class".into(),
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
                    message: "undefined_rule".into(),
                },
            ),
            (
                lark("start: ("),
                EngineError::Invalid {
                    message: "Expected token ')'".into(),
                },
            ),
            (
                choice(&[]),
                EngineError::Invalid {
                    message: "at least one".into(),
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
    fn a_grammar_without_sentences_is_refused() {
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
            matches!(&refused, EngineError::Invalid { message } if !message.is_empty()),
            "{refused:?}"
        );
    }

    /// Creates an engine with a changed default policy.
    fn engine_with_policy(change: impl FnOnce(&mut EnginePolicy)) -> Guidance {
        let mut policy = EnginePolicy::default();
        change(&mut policy);
        Guidance::new(shared(), &policy).unwrap()
    }

    /// The masks before each token of a text and after the last one. The text is committed
    /// regardless of the masks.
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
    fn white_space_follows_the_policy_unless_the_schema_sets_it() {
        let compact = engine_with_policy(|policy| policy.any_whitespace = false);
        assert_eq!(
            compact.settings()[0],
            ("whitespace_flexible", "false".into())
        );
        let schema_with_option =
            PROFILE.replacen('{', r#"{"x-guidance":{"whitespace_flexible":true},"#, 1);
        let object = || Constraint::JsonObject(sobench_core::constraint::AlwaysTrue);
        for (constraint, spaced, allowed) in [
            (json(PROFILE), r#"{"name": "x"}"#, false),
            (json(PROFILE), r#"{"name":"x"}"#, true),
            (json(&schema_with_option), r#"{"name": "x"}"#, true),
            (object(), r#"{"name": "x"}"#, false),
            (json("true"), r#"{"name": "x"}"#, false),
            (json("true"), "[1,2]", true),
        ] {
            let mut matcher = compact.compile(&constraint).unwrap().matcher().unwrap();
            assert_eq!(
                commit_text(&mut *matcher, spaced).is_ok(),
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
        let free = engine_with_policy(|policy| policy.guidance_forcing = false);
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
        let whole = engine_with_policy(|policy| policy.guidance_slicer = false);
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
    fn the_version_matches_the_lock_file() {
        let (name, version) = VERSION.split_once(' ').unwrap();
        let lock = include_str!("../../../../Cargo.lock");
        assert!(
            lock.contains(&format!("name = \"{name}\"\nversion = \"{version}\"\n")),
            "{VERSION}"
        );
    }
}
