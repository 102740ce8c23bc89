//! What the port promises, on the real vocabulary. Knows the engine through its traits only.

use std::sync::OnceLock;

use serde_json::Value;

use super::*;
use crate::vocabulary::shared;
use crate::{Matcher, TokenId, TokenMask};
use sobench_core::constraint::AlwaysTrue;

fn engine() -> &'static Xgrammar {
    static ENGINE: OnceLock<Xgrammar> = OnceLock::new();
    ENGINE.get_or_init(|| Xgrammar::new(shared(), &EnginePolicy::default()).unwrap())
}

pub(super) fn json(text: &str) -> Constraint {
    Constraint::JsonSchema(Arc::new(serde_json::from_str::<Value>(text).unwrap()))
}

pub(super) fn regex(text: &str) -> Constraint {
    Constraint::Regex(text.into())
}

pub(super) fn ebnf(text: &str) -> Constraint {
    Constraint::Grammar {
        dialect: GrammarDialect::Ebnf,
        text: text.into(),
    }
}

pub(super) fn lark(text: &str) -> Constraint {
    Constraint::Grammar {
        dialect: GrammarDialect::Lark,
        text: text.into(),
    }
}

pub(super) fn choice(choices: &[&str]) -> Constraint {
    Constraint::Choice(choices.iter().map(ToString::to_string).collect())
}

pub(super) fn tag(text: &str) -> Constraint {
    Constraint::StructuralTag(Arc::new(serde_json::from_str::<Value>(text).unwrap()))
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
const SQL: &str = "root ::= \"SELECT \" column \" FROM \" [a-z]+\ncolumn ::= \"col_1\" | \"col_2\"";
const SQL_LARK: &str =
    "start: \"SELECT \" column \" FROM \" /[a-z]+/\ncolumn: \"col_1\" | \"col_2\"";
const TAG: &str = r#"{"structures":[{"begin":"<f>","schema":{"type":"integer"},"end":"</f>"}],"triggers":["<f"]}"#;

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
        assert_eq!(
            matcher.fork().commit(token).is_ok(),
            allowed.allows(token),
            "mask and commit agree after {taken:?}"
        );
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
        (json(PROFILE), "{\n\t\"name\":\"Zoë \\\"Z\\\" 🦀\"}"),
        (json("true"), "[1, null, {\"a\": -0.5e+3}]"),
        (Constraint::JsonObject(AlwaysTrue), r#"{"a": [true]}"#),
        (regex(r"\w+@\w+\.com\n"), "alan_turing@enigma.com\n"),
        (regex("(ab|cd){2}/x"), "abcd/x"),
        (regex(""), ""),
        (
            choice(&["Positive", "Negative", "Pos\"\\\n\t\u{1}\u{7f}日本"]),
            "Pos\"\\\n\t\u{1}\u{7f}日本",
        ),
        (choice(&["a", "ab", "b c"]), "ab"),
        (ebnf(SQL), "SELECT col_2 FROM users"),
        (lark(SQL_LARK), "SELECT col_2 FROM users"),
        (tag(TAG), "It is <f>12</f>."),
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
        assert_eq!(matcher.is_accepting(), Ok(true));
        assert!(
            matcher.commit(eos).is_err()
                && matcher.commit(0).is_err()
                && matcher.forced_tokens().is_empty()
        );
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
        (json(PROFILE), r#"{"age": 1"#, "{\""),
        (regex("[a-c]+"), "abcd", ""),
        (choice(&["Positive", "Negative"]), "Neutral", ""),
        (ebnf(SQL), "SELECT col_3", "SELECT col_"),
        (lark(SQL_LARK), "SELECT col_3", "SELECT col_"),
        (tag(TAG), "It is <f>x", "It is <f"),
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
fn whitespace_and_strictness_are_the_policy_s() {
    let schema = json(r#"{"type":"object","properties":{"a":{"type":"integer"}}}"#);
    let takes = |policy: &EnginePolicy, text: &str| {
        let grammar = Xgrammar::new(shared(), policy)
            .unwrap()
            .compile(&schema)
            .unwrap();
        take(&mut *grammar.matcher().unwrap(), text).is_ok()
    };
    let strict = EnginePolicy::default();
    let open = EnginePolicy {
        xgrammar_strict: false,
        ..EnginePolicy::default()
    };
    let spelt = EnginePolicy {
        any_whitespace: false,
        ..EnginePolicy::default()
    };
    for (text, expected) in [
        ("{\"a\": 1}", [true, true, true]),
        ("{\"a\":1}", [true, true, false]),
        ("{ \"a\" : 1}", [true, true, false]),
        ("{\"a\": 1, \"b\": 2}", [false, true, false]),
    ] {
        assert_eq!(
            [&strict, &open, &spelt].map(|policy| takes(policy, text)),
            expected,
            "{text}"
        );
    }
    let settings = Xgrammar::new(shared(), &open).unwrap().settings();
    assert!(
        settings.contains(&("strict_mode", "false".into()))
            && settings.contains(&("whitespace", "any".into()))
    );
}

#[test]
fn forks_and_rollbacks_leave_the_mask_as_it_was() {
    let vocabulary = shared();
    for (constraint, head, tail) in [
        (json(PROFILE), r#"{"name": "A"#, "lan\", \"age\": 4}"),
        (regex(r"\w+@\w+\.com\n"), "alan", "@enigma.com\n"),
        (ebnf(SQL), "SELECT col_1", " FROM users"),
        (tag(TAG), "It is <f", ">1</f>"),
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
        assert!(matcher.rollback(1000).is_err() && matcher.rollback(usize::MAX).is_err());
        take(&mut *matcher, tail).unwrap();
    }
}

#[test]
fn commit_takes_what_the_mask_allows_and_nothing_else() {
    let vocabulary = shared();
    for (constraint, head) in [
        (json(PROFILE), r#"{"name": "A\u00"#),
        (json(PROFILE), r#"{"name": "A", "tags": ["#),
        (json("{}"), "[1"),
        (regex(r"(\w+ ){1,3}[^a]?"), "is "),
        (ebnf(SQL), "SELECT "),
        (tag(TAG), "a <f>1"),
    ] {
        let mut matcher = matcher(&constraint);
        take(&mut *matcher, head).unwrap();
        let before = mask(&mut *matcher);
        // Every token would take minutes without optimisation.
        for token in (0..vocabulary.len() as TokenId + 2)
            .step_by(37)
            .chain(vocabulary.special().iter().map(|(id, _)| *id))
        {
            assert_eq!(
                matcher.fork().commit(token).is_ok(),
                before.allows(token),
                "{constraint:?}: {token}"
            );
        }
        assert_eq!(mask(&mut *matcher), before);
        assert!(
            before
                .iter()
                .all(|token| (token as usize) < vocabulary.len()),
            "no bits past the vocabulary"
        );
    }
}

#[test]
fn forced_tokens_spell_what_must_come() {
    let forced = |constraint: &Constraint, head: &str| {
        let mut matcher = matcher(constraint);
        take(&mut *matcher, head).unwrap();
        let tokens = matcher.forced_tokens();
        for &token in &tokens {
            assert!(mask(&mut *matcher).allows(token));
            matcher.commit(token).unwrap();
        }
        String::from_utf8(shared().decode(&tokens)).unwrap()
    };
    assert_eq!(
        forced(&ebnf("root ::= \"a rather long sentence\""), ""),
        "a rather",
        "the last two tokens are open"
    );
    assert_eq!(forced(&json(r#"{"type":"integer"}"#), "1"), "");
    // Both characters begin with the same bytes.
    assert_eq!(forced(&choice(&["日", "旦"]), ""), "");
}

#[test]
fn a_token_budget_is_part_of_the_mask() {
    let mut matcher = matcher(&lark(
        "start: head tail?\nhead[max_tokens=2]: /[a-z ]+/\ntail: \"!\"",
    ));
    take(&mut *matcher, "one two").unwrap();
    let allowed = mask(&mut *matcher);
    assert_eq!(
        allowed.allows(shared().eos()),
        matcher.is_accepting().unwrap()
    );
    assert!(!allowed.allows(shared().encode(" three")[0]));
}

#[test]
fn refusals_carry_the_library_s_words() {
    let unsupported = |feature: &str, words: &str| EngineError::Unsupported {
        feature: feature.into(),
        words: words.into(),
    };
    let invalid = |words: &str| EngineError::Invalid {
        words: words.into(),
    };
    for (constraint, expected) in [
        (
            json(r#"{"type":"array","items":[{}]}"#),
            unsupported("items as an array", "items must be a boolean or an object"),
        ),
        (
            json(r#"{"type":"strnig"}"#),
            invalid("Unsupported type \"strnig\""),
        ),
        (
            json(r#"{"type":"integer","minimum":2,"maximum":1}"#),
            invalid("minimum greater than maximum"),
        ),
        (json("false"), invalid("cannot accept any value")),
        (
            json(r##"{"$ref":"#/$defs/x"}"##),
            invalid("Cannot find field $defs"),
        ),
        (regex("[a-"), invalid("Unclosed '['")),
        (
            regex("(?=a)b"),
            unsupported("look-ahead", "Lookahead is not supported"),
        ),
        (
            regex(r"(a)\1"),
            unsupported("back-reference", "Backreference is not supported"),
        ),
        (
            regex(r"\bx"),
            unsupported("word boundary", "Word boundary is not supported"),
        ),
        (
            regex(r"\p{L}"),
            unsupported("unicode property", "Unicode character class"),
        ),
        (ebnf("root ::= undefined_rule"), invalid("undefined_rule")),
        (ebnf("root ::= ("), invalid("")),
        (lark("start: undefined_rule"), invalid("undefined_rule")),
        (
            lark("start: a\n%extend a: \"x\""),
            unsupported("directive %extend", "not supported"),
        ),
        (choice(&[]), invalid("at least one")),
        (tag("{}"), invalid("must have a format field")),
    ] {
        for error in [
            engine().compile(&constraint).err(),
            engine().validate(&constraint).err(),
        ] {
            let error = error.unwrap_or_else(|| panic!("{constraint:?} was taken"));
            assert_eq!(
                std::mem::discriminant(&error),
                std::mem::discriminant(&expected),
                "{constraint:?}: {error:?}"
            );
            assert!(
                error.to_string().contains(&expected.to_string()),
                "{constraint:?}: {error}"
            );
            if let (
                EngineError::Unsupported { feature, .. },
                EngineError::Unsupported { feature: named, .. },
            ) = (error, &expected)
            {
                assert_eq!(&feature, named);
            }
        }
    }
}

#[test]
fn what_the_library_ignores_is_compiled_and_only_a_server_s_check_turns_it_away() {
    for (schema, text, listed) in [
        (
            r#"{"type":"array","items":{"type":"integer"},"uniqueItems":true}"#,
            "[1, 1]",
            true,
        ),
        (
            r#"{"allOf":[{"type":"string"},{"maxLength":2}]}"#,
            "{\"a\": 1}",
            true,
        ),
        (
            r#"{"type":"string","pattern":"^[a-z]+$","maxLength":2}"#,
            "\"abcd\"",
            true,
        ),
        (r#"{"not":{"type":"string"}}"#, "\"x\"", false),
        (
            r#"{"oneOf":[{"type":"integer"},{"type":"number"}]}"#,
            "3",
            false,
        ),
        (r#"{"minimum":5}"#, "1", false),
    ] {
        let constraint = json(schema);
        assert_eq!(take(&mut *matcher(&constraint), text), Ok(()), "{schema}");
        let refused = matches!(
            engine().validate(&constraint),
            Err(EngineError::Unsupported { .. })
        );
        assert_eq!(refused, listed, "{schema}");
    }
}

#[test]
fn a_grammar_says_how_large_it_is_without_the_vocabulary() {
    let bytes = |constraint: &Constraint| {
        engine()
            .compile(constraint)
            .unwrap()
            .memory_bytes()
            .unwrap()
    };
    let (small, large) = (bytes(&ebnf("root ::= \"a\"")), bytes(&json(PROFILE)));
    assert!(small < 10_000 && large > small, "{small} {large}");
}

#[test]
fn the_version_is_the_one_that_is_built_in() {
    let (name, version) = VERSION
        .strip_suffix(", port")
        .unwrap()
        .split_once(' ')
        .unwrap();
    let lock = include_str!("../../../../Cargo.lock");
    assert!(
        lock.contains(&format!("name = \"{name}\"\nversion = \"{version}\"\n")),
        "{VERSION}"
    );
}
