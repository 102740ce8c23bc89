//! Grammars that are recursive, ambiguous, empty, infinite, huge or import files.

use super::check;
use super::inputs::{ebnf, lark};

#[test]
fn grammars_of_every_shape_are_decided() {
    let a = |count: usize| "a".repeat(count);
    for (what, grammar, text, expected) in [
        (
            "left-recursive",
            "root ::= root \"a\" | \"a\"",
            a(50_000),
            "valid",
        ),
        (
            "indirectly left-recursive",
            "root ::= b \"a\" | \"a\"\nb ::= root",
            a(50_000),
            "valid",
        ),
        (
            "left-recursive after an empty rule",
            "root ::= e root \"a\" | \"a\"\ne ::= \"\" | \"b\"",
            a(10_000),
            "valid",
        ),
        ("ambiguous", "root ::= root root | \"a\"", a(200), "valid"),
        (
            "ambiguous with every length",
            "root ::= root root root | root root | \"a\" | \"\"",
            a(100),
            "valid",
        ),
        (
            "infinite sentences",
            "root ::= \"a\" root",
            a(100_000),
            "invalid grammar",
        ),
        (
            "cyclic",
            "root ::= a | \"x\"\na ::= b\nb ::= root | a",
            "x".to_owned(),
            "valid",
        ),
        (
            "only recursive",
            "root ::= root",
            String::new(),
            "invalid empty",
        ),
        (
            "nested repetitions",
            "root ::= ((((\"a\"{1000}){1000}){1000}){1000}){1000}",
            a(10_000),
            "invalid grammar",
        ),
    ] {
        check(what, &ebnf(grammar), &text, expected);
    }
    check(
        "nested repetitions in a terminal",
        &lark("start: /(((a{1000}){1000}){1000}){1000}/"),
        "a",
        "invalid grammar",
    );
}

#[test]
fn steps_and_chart_items_are_limited() {
    let optional = format!("root ::= {}", "\"a\"? ".repeat(20_000));
    check(
        "steps",
        &ebnf("root ::= root root root | root root | \"a\" | \"\""),
        &"a".repeat(3_000),
        "limit steps of the recogniser: 50000000",
    );
    check(
        "items",
        &ebnf(&optional),
        &"a".repeat(1_000),
        "limit items of the chart: 4000000",
    );
}

#[test]
fn grammars_of_every_size_are_judged_or_refused_with_the_limit() {
    let deep = format!(
        "root ::= {}\"a\"{}",
        "(".repeat(100_000),
        ")".repeat(100_000)
    );
    let empty_rules: String = (0..5_000)
        .map(|rule| format!("r{rule} ::= r{} r{}\n", rule + 1, rule + 1))
        .collect();
    for (what, grammar, expected) in [
        (
            "empty",
            ebnf(""),
            "unsupported grammar: no start rule in the grammar",
        ),
        (
            "empty Lark grammar",
            lark(""),
            "unsupported grammar: no start rule in the grammar",
        ),
        (
            "5 MB",
            ebnf(&format!("root ::= {}", "\"a\" ".repeat(1_250_000))),
            "limit grammar: grammar beyond the limit: bytes",
        ),
        (
            "deep",
            ebnf(&deep),
            "limit grammar: grammar beyond the limit: nested groups: 128",
        ),
        (
            "repeated quantifiers",
            ebnf(&format!("root ::= \"a\"{}", "*".repeat(100_000))),
            "limit grammar: grammar beyond the limit: quantifiers in a row: 8",
        ),
        (
            "repeated quantifiers in Lark",
            lark(&format!("start: \"a\"{}", "?".repeat(100_000))),
            "unsupported grammar: grammar syntax at line 1",
        ),
        (
            "an undefined name",
            lark("start: b"),
            "unsupported grammar: undefined rule in the grammar: b",
        ),
        (
            "a file import",
            lark("%import .secrets.KEY\nstart: KEY"),
            "unsupported grammar: unsupported in a grammar: %import .secrets.KEY",
        ),
        (
            "another file import",
            lark("%import /etc/passwd.KEY\nstart: KEY"),
            "unsupported grammar",
        ),
        (
            "classes",
            lark(&format!("start: /{}/", "\\w".repeat(100_000))),
            "limit grammar: grammar beyond the limit: Unicode classes: 5000",
        ),
        (
            "doubled empty rules",
            ebnf(&format!("root ::= r0\n{empty_rules}r5000 ::= \"\"")),
            "invalid grammar",
        ),
    ] {
        check(what, &grammar, "a", expected);
    }
}
