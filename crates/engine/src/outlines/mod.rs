//! The `outlines-core` crate as an [`Engine`].
//!
//! A constraint becomes a regex, the regex an automaton, and the automaton an index: for every
//! state the tokens that lead on. A mask is then a look-up, and all cost is compiling and memory.
//! Regexes are those of Rust's `regex` syntax. The automaton matches as Perl does, the first
//! alternative that fits: of the choices `a` and `ab`, in this order, the second can never be
//! written.

mod matcher;
mod python;
mod size;
mod text;
mod words;

use std::sync::Arc;

use outlines_core::index::Index;
use outlines_core::json_schema::{WHITESPACE, regex_from_value};

use super::{
    Declared, Departure, Engine, EngineError, EnginePolicy, EngineSpec, Grammar, Vocabulary,
};
use matcher::OutlinesGrammar;
use sobench_core::constraint::{Constraint, GrammarDialect};
use sobench_core::error::{Error, Result as OurResult};
use words::classified;

/// Held to `Cargo.lock` by a test.
const VERSION: &str = "outlines-core 0.2.14";

/// Levels of references more than the policy's that are tried to undo the departure.
const DEEPER: usize = 3;

pub(super) const SPEC: EngineSpec = EngineSpec {
    name: "outlines",
    open: Some(|vocabulary, policy| Ok(Arc::new(Outlines::new(vocabulary, policy)?))),
    build_hint: "",
    measured: true,
    departures: &DEPARTURES,
    listed_keywords: &KEYWORDS,
    // One level more after the other: the regex grows with each, until it is none that is compiled.
    relaxations: |policy| {
        let deeper = (1..=DEEPER).map(|more| policy.outlines_references + more);
        let deeper = deeper.map(|references| EnginePolicy {
            outlines_references: references,
            ..policy.clone()
        });
        deeper
            .map(|policy| (Departure::References, policy))
            .collect()
    },
};

const DEPARTURES: [Declared; 6] = [
    Declared::new(
        Departure::WhiteSpace,
        "at most one space between two tokens, and none before the first and after the last",
        "outlines-core, json_schema::types::WHITESPACE",
    ),
    Declared::new(
        Departure::Escapes,
        "no \\u escapes",
        "outlines-core, json_schema::types::STRING_INNER",
    ),
    Declared::new(
        Departure::Characters,
        "in strings no character that has only a \\u escape, and none from U+007F to U+009F",
        "outlines-core, json_schema::types::STRING_INNER",
    ),
    Declared::new(
        Departure::Numbers,
        "an integer has neither point nor exponent, and an exponent has a sign",
        "outlines-core, json_schema::types::INTEGER and NUMBER",
    ),
    Declared::new(
        Departure::UnlistedKeyword,
        "only the keywords that are listed have an effect",
        "outlines-core, json_schema, Supported constraints",
    ),
    Declared::new(
        Departure::References,
        "references are followed to a depth of 3, and what refers on is left out",
        "outlines-core, json_schema, Recursion",
    ),
];

const KEYWORDS: [&str; 19] = [
    "type",
    "enum",
    "const",
    "properties",
    "required",
    "additionalProperties",
    "minProperties",
    "maxProperties",
    "items",
    "prefixItems",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "allOf",
    "anyOf",
    "oneOf",
];

/// The engine: the library's own table of the vocabulary, about 15 MB for 100,000 tokens.
struct Outlines {
    tokens: outlines_core::vocabulary::Vocabulary,
    vocabulary: Arc<Vocabulary>,
    /// Regex of the white space that JSON may have between its tokens.
    whitespace: &'static str,
    /// References within one another that are followed.
    references: usize,
}

impl Outlines {
    /// # Errors
    /// An internal error if the library does not take a token.
    fn new(vocabulary: Arc<Vocabulary>, policy: &EnginePolicy) -> OurResult<Self> {
        let mut tokens = outlines_core::vocabulary::Vocabulary::new(vocabulary.eos());
        for id in (0..)
            .take(vocabulary.len())
            .filter(|&id| id != vocabulary.eos())
        {
            let bytes = vocabulary.bytes(id);
            if !bytes.is_empty() {
                tokens.try_insert(bytes, id).map_err(|error| {
                    Error::internal(format!("outlines-core does not take token {id}: {error}"))
                })?;
            }
        }
        let whitespace = if policy.any_whitespace {
            WHITESPACE
        } else {
            ""
        };
        Ok(Self {
            tokens,
            vocabulary,
            whitespace,
            references: policy.outlines_references,
        })
    }

    /// The regex that the library is given for a constraint, or makes of it.
    fn regex(&self, constraint: &Constraint) -> Result<String, EngineError> {
        let unsupported =
            |feature: &str, words: &str| Err(EngineError::unsupported(feature, words));
        match constraint {
            Constraint::JsonSchema(schema) => {
                regex_from_value(schema, Some(self.whitespace), Some(self.references))
                    .map_err(|error| classified(&error))
            }
            Constraint::Regex(regex) => Ok(regex.to_string()),
            Constraint::Choice(choices) if choices.is_empty() => Err(EngineError::empty_choice()),
            // In the order of the request, as vLLM writes it.
            Constraint::Choice(choices) => {
                let choices: Vec<String> =
                    choices.iter().map(|choice| regex::escape(choice)).collect();
                Ok(format!("({})", choices.join("|")))
            }
            Constraint::JsonObject(_) => unsupported(
                "json_object",
                "outlines-core needs a schema; vLLM refuses json_object for outlines",
            ),
            Constraint::Grammar { dialect, .. } => unsupported(
                &format!("{dialect} grammar"),
                "outlines-core compiles regular expressions only; vLLM refuses grammars for outlines",
            ),
            Constraint::StructuralTag(_) => unsupported(
                "structural_tag",
                "outlines-core has no structural tags; vLLM refuses them for outlines",
            ),
        }
    }

    /// The regex, unless the schema would make one of a length that is not compiled.
    fn bounded_regex(&self, constraint: &Constraint) -> Result<String, EngineError> {
        if let Constraint::JsonSchema(schema) = constraint {
            text::regex_bytes(schema, self.whitespace, self.references)?;
        }
        self.regex(constraint)
    }
}

impl Engine for Outlines {
    fn name(&self) -> &'static str {
        "outlines"
    }

    fn version(&self) -> &'static str {
        VERSION
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        vec![(
            "whitespace",
            if self.whitespace.is_empty() {
                "none".into()
            } else {
                self.whitespace.to_owned()
            },
        )]
    }

    fn grammar_dialects(&self) -> &'static [GrammarDialect] {
        &[]
    }

    /// vLLM's check (0.33): a schema must become a regex, and the regex must be of a kind that the
    /// automaton takes. No index is built, so a later compile may still refuse.
    fn validate(&self, constraint: &Constraint) -> Result<(), EngineError> {
        python::check(&self.bounded_regex(constraint)?)
    }

    /// Builds the automaton under limits and counts the index before it is built.
    fn check_size(&self, constraint: &Constraint) -> Result<(), EngineError> {
        size::index_size(
            &self.bounded_regex(constraint)?,
            &self.vocabulary,
            &size::LIMITS,
        )
        .map(|_| ())
    }

    fn check_quick(&self, constraint: &Constraint) -> Result<(), EngineError> {
        size::index_size(
            &self.bounded_regex(constraint)?,
            &self.vocabulary,
            &size::QUICK,
        )
        .map(|_| ())
    }

    fn compile(&self, constraint: &Constraint) -> Result<Arc<dyn Grammar>, EngineError> {
        let regex = self.regex(constraint)?;
        let index = Index::new(&regex, &self.tokens).map_err(|error| classified(&error))?;
        Ok(Arc::new(OutlinesGrammar::new(
            index,
            self.vocabulary.eos(),
            self.vocabulary.len(),
        )))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use serde_json::{Value, json};

    use super::*;
    use crate::vocabulary::shared;
    use crate::{Matcher, TokenMask};
    use sobench_core::constraint::AlwaysTrue;

    pub(super) fn engine() -> &'static Outlines {
        static ENGINE: OnceLock<Outlines> = OnceLock::new();
        ENGINE.get_or_init(|| Outlines::new(shared(), &EnginePolicy::default()).unwrap())
    }

    fn json(text: &str) -> Constraint {
        Constraint::JsonSchema(Arc::new(serde_json::from_str::<Value>(text).unwrap()))
    }

    fn regex(text: &str) -> Constraint {
        Constraint::Regex(text.into())
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
        let mut mask = TokenMask::default();
        matcher.mask(&mut mask).unwrap();
        mask
    }

    const PROFILE: &str = r#"{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"},
        "tags":{"type":"array","items":{"enum":["a","b"]},"maxItems":2}},"required":["name"],"additionalProperties":false}"#;

    /// Takes the text token by token, holding mask, commit and end against each other; `Err` is the
    /// text that was taken.
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
            assert_eq!(
                matcher.commit(token).is_ok(),
                allowed.allows(token),
                "{token} after {taken:?}"
            );
            if !allowed.allows(token) {
                assert_eq!(mask(matcher), allowed, "a refused token leaves no trace");
                return Err(String::from_utf8(taken).unwrap());
            }
            taken.extend_from_slice(vocabulary.bytes(token));
        }
        assert_eq!(
            mask(matcher).allows(vocabulary.eos()),
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
            (
                json(r#"{"type":"string","minLength":1,"maxLength":5}"#),
                r#""a\nb""#,
            ),
            (json(r#"{"type":"string"}"#), r#""\/""#),
            (regex(r"\w+@\w+\.com\n"), "alan_turing@enigma.com\n"),
            (regex("(ab|cd){2}/x"), "abcd/x"),
            (regex(""), ""),
            (
                choice(&["Positive", "Negative", "Pos\"\\\n日本"]),
                "Pos\"\\\n日本",
            ),
            (choice(&["a.b", "b c"]), "a.b"),
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
            assert_eq!(matcher.is_accepting(), Ok(true));
        }
    }

    #[test]
    fn invalid_continuations_are_masked_where_they_begin() {
        for (constraint, text, taken) in [
            (json(PROFILE), r#"{"name": 1"#, "{\"name\":"),
            (
                json(PROFILE),
                r#"{"name": "x", "b": 1"#,
                "{\"name\": \"x\",",
            ),
            (
                json(r#"{"type":"string","maxLength":5}"#),
                "\"a\tb\"",
                "\"a",
            ),
            (json(r#"{"type":"string"}"#), r#""\u0041""#, "\""),
            (json(r#"{"type":"integer"}"#), "1.0", "1"),
            (regex("[a-c]+"), "abcd", ""),
            (regex("a.c"), "axdc", "ax"),
            (choice(&["Positive", "Negative"]), "Neutral", ""),
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
            take(&mut *matcher, text).unwrap();
            assert!(
                matcher.commit(shared().eos()).is_err(),
                "{text} is not whole"
            );
            assert_eq!(matcher.is_accepting(), Ok(false));
        }
    }

    /// What the library gets wrong, as it is measured: alternatives are tried in order, and the
    /// first that ends wins.
    #[test]
    fn an_alternative_hides_the_longer_ones_after_it() {
        for (constraint, text, end_allowed) in [
            (choice(&["a", "ab"]), "a", true),
            (choice(&["ab", "a"]), "ab", true),
            (
                json(r#"{"anyOf":[{"type":"integer"},{"type":"number"}]}"#),
                "1",
                true,
            ),
        ] {
            let mut matcher = matcher(&constraint);
            assert_eq!(
                (take(&mut *matcher, text), matcher.is_accepting()),
                (Ok(()), Ok(end_allowed)),
                "{text}"
            );
        }
        assert_eq!(
            take(&mut *matcher(&choice(&["a", "ab"])), "ab"),
            Err(String::new())
        );
        assert_eq!(
            take(
                &mut *matcher(&json(r#"{"anyOf":[{"type":"integer"},{"type":"number"}]}"#)),
                "1.5"
            ),
            Err("1".into())
        );
    }

    #[test]
    fn forks_and_rollbacks_leave_the_mask_as_it_was() {
        let vocabulary = shared();
        for (constraint, head, tail) in [
            (json(PROFILE), r#"{"name": "A"#, "lan\", \"age\": 4}"),
            (regex(r"\w+@\w+\.com\n"), "alan", "@enigma.com\n"),
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
            matcher.rollback(1).unwrap();
            assert_eq!(
                mask(&mut *matcher),
                mask(&mut *fork),
                "the end is taken back"
            );
            matcher.commit(vocabulary.eos()).unwrap();
            matcher.rollback(vocabulary.encode(tail).len() + 1).unwrap();
            assert_eq!(mask(&mut *matcher), before);
            matcher.rollback(0).unwrap();
            assert!(matcher.rollback(1000).is_err());
            take(&mut *matcher, tail).unwrap();
        }
    }

    #[test]
    fn forced_tokens_are_the_only_ones_allowed_and_never_the_end() {
        // No ordinary token but one begins with such a byte.
        let mut matcher = matcher(&regex("\u{7f}{3}\n\u{7f}"));
        let forced = matcher.forced_tokens();
        assert!(!forced.is_empty());
        for token in forced {
            assert_eq!(mask(&mut *matcher).iter().collect::<Vec<_>>(), [token]);
            matcher.commit(token).unwrap();
        }
        for text in ["", "a"] {
            let mut matcher = super::tests::matcher(&regex(text));
            take(&mut *matcher, text).unwrap();
            assert!(matcher.forced_tokens().is_empty());
        }
    }

    #[test]
    fn white_space_is_the_library_s_or_none() {
        let schema =
            json(r#"{"type":"object","properties":{"a":{"type":"null"}},"required":["a"]}"#);
        let bare = Outlines::new(
            shared(),
            &EnginePolicy {
                any_whitespace: false,
                ..EnginePolicy::default()
            },
        )
        .unwrap();
        assert_eq!(
            (
                engine().settings()[0].1.as_str(),
                bare.settings()[0].1.as_str()
            ),
            ("[ ]?", "none")
        );
        for (text, spaced, compact) in [
            ("{\"a\":null}", true, true),
            ("{ \"a\": null}", true, false),
            ("{\n\"a\":null}", false, false),
        ] {
            assert_eq!(take(&mut *matcher(&schema), text).is_ok(), spaced, "{text}");
            assert_eq!(
                take(
                    &mut *bare.compile(&schema).unwrap().matcher().unwrap(),
                    text
                )
                .is_ok(),
                compact,
                "{text}"
            );
        }
    }

    fn unsupported(feature: &str, words: &str) -> EngineError {
        EngineError::Unsupported {
            feature: feature.into(),
            words: words.into(),
        }
    }

    fn invalid(words: &str) -> EngineError {
        EngineError::Invalid {
            words: words.into(),
        }
    }

    fn check(
        constraint: &Constraint,
        step: &str,
        result: Result<(), EngineError>,
        expected: &EngineError,
    ) {
        let error = result
            .err()
            .unwrap_or_else(|| panic!("{constraint:?} passes {step}"));
        assert_eq!(
            std::mem::discriminant(&error),
            std::mem::discriminant(expected),
            "{constraint:?}: {error:?}"
        );
        assert!(
            error.to_string().contains(&expected.to_string()),
            "{constraint:?}: {error}"
        );
        if let (
            EngineError::Unsupported { feature, .. },
            EngineError::Unsupported { feature: named, .. },
        ) = (&error, expected)
        {
            assert_eq!(feature, named, "{constraint:?}");
        }
    }

    #[test]
    fn refusals_carry_the_library_s_words() {
        let structure = "Unsupported JSON Schema structure";
        for (constraint, expected) in [
            (
                json(r#"{"allOf":[{"type":"string"},{"maxLength":2}]}"#),
                unsupported("maxLength", structure),
            ),
            (
                json(r#"{"not":{"type":"string"}}"#),
                unsupported("not", structure),
            ),
            (json(r#"{"minimum":5}"#), unsupported("minimum", structure)),
            (json("true"), unsupported("boolean schema", structure)),
            (
                json(r#"{"type":"array","items":[{"type":"null"}]}"#),
                unsupported("list in place of a schema", structure),
            ),
            (
                json(r#"{"type":"string","format":"isbn"}"#),
                unsupported("format isbn", "Format isbn is not supported"),
            ),
            (
                json(r##"{"anyOf":[{"type":"null"},{"$ref":"#"}]}"##),
                unsupported("recursive $ref", "recusion limit"),
            ),
            (
                json(r#"{"$ref":"http://x/y#/z"}"#),
                unsupported("external $ref", "External references"),
            ),
            (
                json(r##"{"$ref":"#/$defs/x"}"##),
                invalid("Invalid reference path"),
            ),
            (
                json(r#"{"type":"strnig"}"#),
                invalid("Unsupported type: strnig"),
            ),
            (
                json(r#"{"type":"string","minLength":2,"maxLength":1}"#),
                invalid("maxLength must be greater"),
            ),
            (json(r#"{"anyOf":{}}"#), invalid("must be an array")),
            (
                Constraint::JsonObject(AlwaysTrue),
                unsupported("json_object", "vLLM refuses"),
            ),
            (
                Constraint::StructuralTag(Arc::new(json!({}))),
                unsupported("structural_tag", "no structural tags"),
            ),
            (
                Constraint::Grammar {
                    dialect: GrammarDialect::Lark,
                    text: "start: \"a\"".into(),
                },
                unsupported("lark grammar", "vLLM"),
            ),
            (choice(&[]), invalid("at least one")),
            (regex("[a-"), invalid("")),
            (regex("(?=a)b"), unsupported("look-around", "")),
            (regex(r"(a)\1"), unsupported("back-reference", "")),
            (regex(r"a\bb"), unsupported("word boundary", "")),
            (regex("^a"), unsupported("leading anchor", "start")),
        ] {
            check(
                &constraint,
                "validate",
                engine().validate(&constraint),
                &expected,
            );
            check(
                &constraint,
                "compile",
                engine().compile(&constraint).map(|_| ()),
                &expected,
            );
        }
        // What only the library sees, and what only vLLM refuses.
        for (constraint, validated) in [
            (regex(r"(a\bb)"), true),
            (regex("a^b"), true),
            (regex(r"\pLx"), false),
        ] {
            assert_eq!(
                engine().validate(&constraint).is_ok(),
                validated,
                "{constraint:?}"
            );
            assert_eq!(
                engine().compile(&constraint).is_ok(),
                !validated,
                "{constraint:?}"
            );
        }
    }

    #[test]
    fn bombs_are_refused_before_they_are_compiled() {
        let large = EngineError::TooLarge {
            words: String::new(),
        };
        for constraint in [
            json(r#"{"type":"string","maxLength":100000}"#),
            json(r#"{"type":"object","depth":1000000}"#),
            regex("(((a{1000}){1000}){1000}){1000}"),
            regex(&"x".repeat(1 << 21)),
        ] {
            check(
                &constraint,
                "check_size",
                engine().check_size(&constraint),
                &large,
            );
        }
        for constraint in [json(PROFILE), regex(r"\w+@\w+\.com\n"), choice(&["a", "b"])] {
            assert_eq!(engine().check_size(&constraint), Ok(()), "{constraint:?}");
        }
        check(
            &regex("(?=a)b"),
            "check_size",
            engine().check_size(&regex("(?=a)b")),
            &unsupported("look-around", ""),
        );
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
