//! Compares recognisers: shipped grammars with each other, with a PEG oracle and with llguidance,
//! and cases in which a PEG or a lexer accepts less than the grammar.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;
use sobench_core::constraint::{Constraint, GrammarDialect, sha256_hex};
use sobench_grammar::{GrammarError, Membership, PestOracle, Recogniser, compile};
use sobench_testkit::random::Random;
use sobench_testkit::repository_path;

use crate::guidance::{Engine, engine_accepts};

fn shipped(path: &str) -> String {
    fs::read_to_string(repository_path(path)).expect("a shipped file exists")
}

fn ebnf(text: &str) -> Recogniser {
    compile(GrammarDialect::Ebnf, text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn lark(text: &str) -> Recogniser {
    compile(GrammarDialect::Lark, text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The sixteen sentences of the SQL subset.
fn sql_sentences() -> BTreeSet<String> {
    let mut sentences = BTreeSet::new();
    for column in ["col_1 ", "col_2 "] {
        for table in ["table_1 ", "table_2 "] {
            for compared in ["col_1 ", "col_2 "] {
                for number in ["1 ", "2 "] {
                    sentences.insert(format!(
                        "SELECT {column} from {table} where {compared}= {number}"
                    ));
                }
            }
        }
    }
    sentences
}

/// All texts that differ in one deletion, insertion or replacement, and all prefixes.
fn mutations(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for at in 0..=text.len() {
        let (head, tail) = text.split_at(at);
        found.insert(head.to_owned());
        for letter in [" ", "1", "2", "_", "l", "\n"] {
            found.insert(format!("{head}{letter}{tail}"));
            found.insert(format!(
                "{head}{letter}{}",
                tail.get(1..).unwrap_or_default()
            ));
        }
        found.insert(format!("{head}{}", tail.get(1..).unwrap_or_default()));
    }
    found
}

#[test]
fn the_sql_grammar_is_the_one_that_vllm_sends() {
    let text = shipped("grammars/sql.ebnf");
    assert_eq!(
        sha256_hex(text.as_bytes()),
        "bb363e37dd3d311bf22f99db8ba3e5d1f588a4b5b0a58b6b577c765d65ff9cc6"
    );
}

#[test]
fn the_sql_grammars_define_the_same_language() {
    let sentences = sql_sentences();
    assert_eq!(sentences.len(), 16);
    let lark_text = shipped("grammars/sql.lark");
    let (ebnf, lark) = (ebnf(&shipped("grammars/sql.ebnf")), lark(&lark_text));
    let pest = PestOracle::compile(&shipped("grammars/sql.pest")).unwrap();
    let matcher = Engine::new().matcher(&lark_text).unwrap();
    let mut compared = 0;
    for sentence in &sentences {
        for text in mutations(sentence).into_iter().chain([sentence.clone()]) {
            let member = sentences.contains(&text);
            let (by_ebnf, by_lark) = (ebnf.recognise(&text), lark.recognise(&text));
            assert_eq!(by_ebnf == Membership::Member, member, "{text:?}");
            assert_eq!(by_ebnf, by_lark, "{text:?}");
            assert_eq!(
                pest.recognise(&text) == Membership::Member,
                member,
                "pest on {text:?}"
            );
            let is_prefix = sentences.iter().any(|sentence| sentence.starts_with(&text));
            assert_eq!(ebnf.is_prefix(&text), is_prefix, "{text:?}");
            compared += 1;
        }
        assert!(
            engine_accepts(&matcher, sentence),
            "llguidance refuses {sentence:?}"
        );
        assert!(
            !engine_accepts(&matcher, sentence.trim_end()),
            "llguidance accepts a prefix of {sentence:?}"
        );
    }
    assert!(compared > 5_000, "{compared}");
}

#[test]
fn grammar_verdict_fixtures_hold() {
    let (mut valid, mut invalid, mut unsupported) = (0, 0, 0);
    for line in shipped("fixtures/verdicts/grammar.jsonl").lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let id = row["id"].as_str().unwrap();
        let constraint: Constraint = serde_json::from_value(row["constraint"].clone()).unwrap();
        let Constraint::Grammar {
            dialect,
            text: grammar,
        } = constraint
        else {
            panic!("{id} has no grammar constraint");
        };
        let text = row["text"].as_str().unwrap();
        let expected = match (
            row["verdict"].as_str().unwrap(),
            row["reason"].as_str(),
            row["why"].as_str(),
        ) {
            ("valid", None, None) => Membership::Member,
            ("invalid", Some("grammar"), None) => Membership::NotMember {
                byte: usize::try_from(row["byte"].as_u64().unwrap()).unwrap(),
            },
            ("not_scored", None, Some("unsupported")) => {
                let refused = compile(dialect, &grammar);
                assert!(
                    matches!(refused, Err(GrammarError::Unsupported { .. })),
                    "{id}: {refused:?}"
                );
                unsupported += 1;
                continue;
            }
            other => panic!("{id}: {other:?}"),
        };
        let recogniser = compile(dialect, &grammar).unwrap_or_else(|error| panic!("{id}: {error}"));
        assert_eq!(recogniser.recognise(text), expected, "{id}");
        if let Some(oracle) = row["oracle"].as_str() {
            let found = PestOracle::compile(oracle).unwrap().recognise(text);
            assert_eq!(
                found == Membership::Member,
                expected == Membership::Member,
                "oracle of {id}"
            );
        }
        if expected == Membership::Member {
            valid += 1;
        } else {
            invalid += 1;
        }
    }
    assert!(
        valid >= 40 && invalid >= 40 && unsupported >= 10,
        "{valid} {invalid} {unsupported}"
    );
}

#[test]
fn pegs_reject_some_sentences() {
    for (pest, grammar, text) in [
        (
            r#"start = { ("col_1" | "col_10") ~ " from" }"#,
            r#"root ::= ("col_1" | "col_10") " from""#,
            "col_10 from",
        ),
        (
            r#"start = { ("C" | "Cl")+ }"#,
            r#"root ::= ("C" | "Cl")+"#,
            "CCl",
        ),
        (r#"start = { "a"* ~ "a" }"#, r#"root ::= "a"* "a""#, "aaa"),
        (
            r#"start = { ANY* ~ "</think>" ~ ASCII_DIGIT+ }"#,
            r#"root ::= .* "</think>" [0-9]+"#,
            "hm</think>42",
        ),
        (
            r#"start = { "x" ~ " "* ~ " y" }"#,
            r#"root ::= "x" " "* " y""#,
            "x   y",
        ),
        (
            r#"start = { "a" ~ start ~ "a" | "a" }"#,
            r#"root ::= "a" root "a" | "a""#,
            "aaaaa",
        ),
        (
            r#"start = { "-"? ~ "-1" | "2" }"#,
            r#"root ::= "-"? "-1" | "2""#,
            "-1",
        ),
        (
            r#"start = { ident+ ~ "END" } ident = { ASCII_ALPHA }"#,
            "root ::= ident+ \"END\"\nident ::= [a-zA-Z]",
            "fooEND",
        ),
    ] {
        let by_peg = PestOracle::compile(pest).unwrap().recognise(text);
        assert!(
            matches!(by_peg, Membership::NotMember { .. }),
            "{pest} on {text:?}: {by_peg:?}"
        );
        assert_eq!(
            ebnf(grammar).recognise(text),
            Membership::Member,
            "{grammar} on {text:?}"
        );
    }
    let refused = PestOracle::compile(r#"start = { start ~ "+" ~ "1" | "1" }"#).unwrap_err();
    assert!(refused.to_string().contains("left-recursive"), "{refused}");
    assert_eq!(
        ebnf(r#"root ::= root "+" "1" | "1""#).recognise("1+1+1"),
        Membership::Member
    );
}

#[test]
fn greedy_lexers_reject_some_sentences() {
    let engine = Engine::new();
    for (grammar, text) in [
        ("start: ID \"END\"\nID: /[a-zA-Z]+/", "fooEND"),
        ("start: /(.|\\n)*/ \"</think>\" /[0-9]+/", "hm</think>42"),
    ] {
        assert!(
            !engine_accepts(&engine.matcher(grammar).unwrap(), text),
            "{grammar} on {text:?}"
        );
        assert_eq!(
            lark(grammar).recognise(text),
            Membership::Member,
            "{grammar} on {text:?}"
        );
    }
}

/// Matching and other texts for each common terminal.
const TERMINAL_TEXTS: &[&str] = &[
    "",
    "0",
    "42",
    "-1",
    "+7",
    "1.5",
    "1.",
    ".5",
    ".",
    "1e9",
    "1e",
    "-.5E+3",
    "e5",
    "E-2",
    "a",
    "Z",
    "f",
    "g",
    "_x1",
    "x_",
    "1x",
    "word",
    "Wörd",
    "ç",
    " ",
    "\t ",
    " \t\n\r\u{c}",
    "\n",
    "\r",
    "\r\n\n",
    "\"\"",
    "\"a\"",
    "\"a\\\"b\"",
    "\"a\nb\"",
    "\"\\\n\"",
    "\"a",
    "\"é\"",
    "#",
    "# x",
    "# x\n",
    "// y",
    "/ y",
    "/**/",
    "/* * / **/",
    "/* */ */",
    "/*",
    "-- z",
    "- z",
    "ab\u{b}",
];

/// Common terminals that llguidance supports.
const COMMON: &[&str] = &[
    "DIGIT",
    "HEXDIGIT",
    "INT",
    "SIGNED_INT",
    "DECIMAL",
    "_EXP",
    "FLOAT",
    "SIGNED_FLOAT",
    "NUMBER",
    "SIGNED_NUMBER",
    "ESCAPED_STRING",
    "LCASE_LETTER",
    "UCASE_LETTER",
    "LETTER",
    "WORD",
    "CNAME",
    "WS_INLINE",
    "WS",
    "CR",
    "LF",
    "NEWLINE",
    "SH_COMMENT",
    "CPP_COMMENT",
    "C_COMMENT",
    "SQL_COMMENT",
];

#[test]
fn common_terminals_match_llguidance() {
    let engine = Engine::new();
    for name in COMMON {
        let grammar = format!("start: {name}\n%import common.{name}");
        let (matcher, ours) = (engine.matcher(&grammar).unwrap(), lark(&grammar));
        for text in TERMINAL_TEXTS {
            assert_eq!(
                ours.recognise(text) == Membership::Member,
                engine_accepts(&matcher, text),
                "{name} on {text:?}"
            );
        }
    }
}

/// A random grammar over `a` and `b` in both notations.
struct Written {
    ebnf: String,
    lark: String,
}

fn expression(random: &mut Random, rules: u64, depth: u32) -> String {
    let kinds = if depth == 0 { 5 } else { 12 };
    match random.below(kinds) {
        0..2 => "\"a\"".to_owned(),
        2..4 => "\"b\"".to_owned(),
        4 => format!("r{}", random.below(rules)),
        5 | 6 => format!(
            "{} {}",
            expression(random, rules, depth - 1),
            expression(random, rules, depth - 1)
        ),
        7 | 8 => format!(
            "({} | {})",
            expression(random, rules, depth - 1),
            expression(random, rules, depth - 1)
        ),
        9 => format!("({})*", expression(random, rules, depth - 1)),
        10 => format!("({})?", expression(random, rules, depth - 1)),
        _ => {
            let least = random.below(3);
            format!(
                "({}){{{least},{}}}",
                expression(random, rules, depth - 1),
                least + 1 + random.below(3)
            )
        }
    }
}

fn grammar(random: &mut Random) -> Written {
    let rules = 1 + random.below(3);
    let (mut ebnf, mut lark) = ("root ::= r0\n".to_owned(), "start: r0\n".to_owned());
    for rule in 0..rules {
        let body = expression(random, rules, 3);
        ebnf += &format!("r{rule} ::= {body}\n");
        lark += &format!("r{rule}: {body}\n");
    }
    Written { ebnf, lark }
}

/// If each terminal is a single character, llguidance's lexer is unambiguous, and its parser is an
/// independent Earley parser.
#[test]
fn random_grammars_agree_in_both_notations_and_llguidance() {
    let engine = Engine::new();
    let mut random = Random(0x2545_F491_4F6C_DD1D);
    let mut texts = vec![String::new()];
    for index in 0..31 {
        texts.extend([format!("{}a", texts[index]), format!("{}b", texts[index])]);
    }
    let (mut compared, mut sentences) = (0, 0);
    for _ in 0..150 {
        let written = grammar(&mut random);
        let (by_ebnf, by_lark) = (ebnf(&written.ebnf), lark(&written.lark));
        let matcher = engine.matcher(&written.lark);
        for text in &texts {
            let found = by_ebnf.recognise(text);
            assert_eq!(
                found,
                by_lark.recognise(text),
                "{} on {text:?}",
                written.ebnf
            );
            if let Ok(matcher) = &matcher {
                assert_eq!(
                    found == Membership::Member,
                    engine_accepts(matcher, text),
                    "{} on {text:?}",
                    written.lark
                );
                compared += 1;
                sentences += usize::from(found == Membership::Member);
            }
        }
    }
    assert!(compared > 100 * texts.len(), "{compared}");
    assert!(
        sentences > 500 && sentences < compared - 500,
        "{sentences} of {compared}"
    );
}

/// Texts that an engine accepts with ignored text are sentences: its lexer accepts a subset of the
/// language.
#[test]
fn texts_with_ignored_text_that_llguidance_accepts_are_sentences() {
    let engine = Engine::new();
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut texts = vec![String::new()];
    for index in 0..121 {
        texts.extend(['a', 'b', ' '].map(|letter| format!("{}{letter}", texts[index])));
    }
    let mut blank_sentences = 0;
    for _ in 0..60 {
        let grammar = grammar(&mut random).lark + "%ignore \" \"\n";
        let ours = lark(&grammar);
        let Ok(matcher) = engine.matcher(&grammar) else {
            continue;
        };
        for text in texts.iter().filter(|text| engine_accepts(&matcher, text)) {
            assert_eq!(
                ours.recognise(text),
                Membership::Member,
                "{grammar} on {text:?}"
            );
            blank_sentences += usize::from(text.contains(' '));
        }
    }
    assert!(blank_sentences > 500, "{blank_sentences}");
}

/// Matching and other texts for each pattern.
const PATTERN_TEXTS: &[&str] = &[
    "",
    "a",
    "b",
    "ab",
    "ba",
    "aab",
    "abab",
    "aaaa",
    "aaaaa",
    "A",
    "aB",
    "é",
    "ß",
    "\n",
    "a\nb",
    "a b",
    "-",
    "]",
    "/",
    "x/y",
    "0",
    "42",
    "٣",
    "_",
    "k",
    "K",
    "\u{212a}",
    "2024-01-31",
    "ab12",
    "😀",
    "a\u{301}",
    "\\",
    "\"",
];

/// Patterns of all kinds that a terminal may have.
const PATTERNS: &[&str] = &[
    "a*",
    "(a|b)+",
    "a{2,4}b?",
    "(ab){1,}",
    "a{3}",
    "[^a]",
    "[^a-z\\n]+",
    ".",
    "(?s:.)+",
    "(?i)k",
    "(?i:ab)",
    "\\d+",
    "\\w+",
    "\\S+",
    "[\\]\\-\\/]",
    "x\\/y",
    "\\d{4}-\\d{2}-\\d{2}",
    "(a|ab)(b|)",
    "(|a)(|b)",
    "a*?b",
    "\\p{Lowercase}+",
    "[[:alpha:]]+[0-9]*",
    "\\x41|\\u00e9",
    "(?x) a  b # spaced",
    "(a*)*",
    "((a|b)?){0,3}",
    "^ab$",
    "(^a|b$)",
    "[a-c&&[^b]]+",
    "\\\\|\"",
    "(?:a|aa)+b{0}",
];

#[test]
fn terminals_match_their_regular_expressions() {
    let engine = Engine::new();
    let mut read_by_engine = 0;
    for pattern in PATTERNS {
        // A comment in a verbose pattern ends at the line end.
        let end = if pattern.starts_with("(?x)") {
            "\n"
        } else {
            ""
        };
        let whole = regex::Regex::new(&format!("\\A(?:{pattern}{end})\\z")).unwrap();
        let grammar = format!("start: T\nT: /{pattern}/");
        let ours = lark(&grammar);
        let matcher = engine.matcher(&grammar);
        read_by_engine += usize::from(matcher.is_ok());
        for text in PATTERN_TEXTS {
            let member = ours.recognise(text) == Membership::Member;
            assert_eq!(member, whole.is_match(text), "{pattern} on {text:?}");
            if let Ok(matcher) = &matcher {
                assert_eq!(
                    member,
                    engine_accepts(matcher, text),
                    "{pattern} on {text:?} by the engine"
                );
            }
        }
    }
    assert!(read_by_engine >= 28, "{read_by_engine}");
}
