//! Tests of the port on the real vocabulary.

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
        assert_eq!(
            matcher.fork().commit(token).is_ok(),
            allowed.allows(token),
            "mask and commit agree after {accepted:?}"
        );
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
        assert_eq!(commit_text(&mut *matcher, text), Ok(()), "{constraint:?}");
        assert_eq!(matcher.is_accepting(), Ok(true), "{text}");
        let eos = shared().eos();
        matcher.commit(eos).unwrap();
        assert_eq!(
            mask(&mut *matcher).iter().collect::<Vec<_>>(),
            [eos],
            "after the end, only the end token is allowed"
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
fn invalid_continuations_are_masked() {
    for (constraint, text, accepted) in [
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
fn white_space_and_strictness_follow_the_policy() {
    let schema = json(r#"{"type":"object","properties":{"a":{"type":"integer"}}}"#);
    let accepts = |policy: &EnginePolicy, text: &str| {
        let grammar = Xgrammar::new(shared(), policy)
            .unwrap()
            .compile(&schema)
            .unwrap();
        commit_text(&mut *grammar.matcher().unwrap(), text).is_ok()
    };
    let strict = EnginePolicy::default();
    let open = EnginePolicy {
        xgrammar_strict: false,
        ..EnginePolicy::default()
    };
    let compact = EnginePolicy {
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
            [&strict, &open, &compact].map(|policy| accepts(policy, text)),
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
fn forks_and_rollbacks_preserve_the_mask() {
    let vocabulary = shared();
    for (constraint, head, tail) in [
        (json(PROFILE), r#"{"name": "A"#, "lan\", \"age\": 4}"),
        (regex(r"\w+@\w+\.com\n"), "alan", "@enigma.com\n"),
        (ebnf(SQL), "SELECT col_1", " FROM users"),
        (tag(TAG), "It is <f", ">1</f>"),
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
        assert!(matcher.rollback(1000).is_err() && matcher.rollback(usize::MAX).is_err());
        commit_text(&mut *matcher, tail).unwrap();
    }
}

#[test]
fn commit_accepts_exactly_the_tokens_of_the_mask() {
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
        commit_text(&mut *matcher, head).unwrap();
        let before = mask(&mut *matcher);
        // All tokens would take minutes without optimization.
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
fn forced_tokens_encode_the_forced_text() {
    let forced = |constraint: &Constraint, head: &str| {
        let mut matcher = matcher(constraint);
        commit_text(&mut *matcher, head).unwrap();
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
        "the last two tokens are not forced"
    );
    assert_eq!(forced(&json(r#"{"type":"integer"}"#), "1"), "");
    // Both characters start with the same bytes.
    assert_eq!(forced(&choice(&["日", "旦"]), ""), "");
}

#[test]
fn the_token_limit_of_a_rule_is_part_of_the_mask() {
    let mut matcher = matcher(&lark(
        "start: head tail?\nhead[max_tokens=2]: /[a-z ]+/\ntail: \"!\"",
    ));
    commit_text(&mut *matcher, "one two").unwrap();
    let allowed = mask(&mut *matcher);
    assert_eq!(
        allowed.allows(shared().eos()),
        matcher.is_accepting().unwrap()
    );
    assert!(!allowed.allows(shared().encode(" three")[0]));
}

#[test]
fn refusals_carry_the_library_s_message() {
    let unsupported = |feature: &str, message: &str| EngineError::Unsupported {
        feature: feature.into(),
        message: message.into(),
    };
    let invalid = |message: &str| EngineError::Invalid {
        message: message.into(),
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
            let error = error.unwrap_or_else(|| panic!("{constraint:?} was accepted"));
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
fn ignored_keywords_compile_and_only_validation_refuses_them() {
    for (schema, text, is_listed) in [
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
        assert_eq!(
            commit_text(&mut *matcher(&constraint), text),
            Ok(()),
            "{schema}"
        );
        let refused = matches!(
            engine().validate(&constraint),
            Err(EngineError::Unsupported { .. })
        );
        assert_eq!(refused, is_listed, "{schema}");
    }
}

#[test]
fn the_size_of_a_grammar_excludes_the_vocabulary() {
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
fn the_version_matches_the_lock_file() {
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
