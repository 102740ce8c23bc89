//! Grammars that recurse, are ambiguous, empty, endless, huge or ask for files.

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
            "indirectly",
            "root ::= b \"a\" | \"a\"\nb ::= root",
            a(50_000),
            "valid",
        ),
        (
            "hidden behind nothing",
            "root ::= e root \"a\" | \"a\"\ne ::= \"\" | \"b\"",
            a(10_000),
            "valid",
        ),
        ("ambiguous", "root ::= root root | \"a\"", a(200), "valid"),
        (
            "of every length at once",
            "root ::= root root root | root root | \"a\" | \"\"",
            a(100),
            "valid",
        ),
        (
            "without an end",
            "root ::= \"a\" root",
            a(100_000),
            "invalid grammar",
        ),
        (
            "in a circle",
            "root ::= a | \"x\"\na ::= b\nb ::= root | a",
            "x".to_owned(),
            "valid",
        ),
        (
            "nothing but itself",
            "root ::= root",
            String::new(),
            "invalid empty",
        ),
        (
            "counted in counts",
            "root ::= ((((\"a\"{1000}){1000}){1000}){1000}){1000}",
            a(10_000),
            "invalid grammar",
        ),
    ] {
        check(what, &ebnf(grammar), &text, expected);
    }
    check(
        "terminals counted in counts",
        &lark("start: /(((a{1000}){1000}){1000}){1000}/"),
        "a",
        "invalid grammar",
    );
}

#[test]
fn ambiguity_is_bounded_by_steps_and_width_by_items() {
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
fn grammars_of_every_size_are_read_or_refused_by_name() {
    let deep = format!(
        "root ::= {}\"a\"{}",
        "(".repeat(100_000),
        ")".repeat(100_000)
    );
    let nothing: String = (0..5_000)
        .map(|rule| format!("r{rule} ::= r{} r{}\n", rule + 1, rule + 1))
        .collect();
    for (what, grammar, expected) in [
        (
            "empty",
            ebnf(""),
            "unsupported grammar: no start rule in the grammar",
        ),
        (
            "empty, in Lark",
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
            "quantified",
            ebnf(&format!("root ::= \"a\"{}", "*".repeat(100_000))),
            "limit grammar: grammar beyond the limit: quantifiers in a row: 8",
        ),
        (
            "quantified, in Lark",
            lark(&format!("start: \"a\"{}", "?".repeat(100_000))),
            "unsupported grammar: grammar syntax at line 1",
        ),
        (
            "an undefined name",
            lark("start: b"),
            "unsupported grammar: undefined rule in the grammar: b",
        ),
        (
            "a file",
            lark("%import .secrets.KEY\nstart: KEY"),
            "unsupported grammar: unsupported in a grammar: %import .secrets.KEY",
        ),
        (
            "another file",
            lark("%import /etc/passwd.KEY\nstart: KEY"),
            "unsupported grammar",
        ),
        (
            "classes",
            lark(&format!("start: /{}/", "\\w".repeat(100_000))),
            "limit grammar: grammar beyond the limit: classes of Unicode: 5000",
        ),
        (
            "doubling nothing",
            ebnf(&format!("root ::= r0\n{nothing}r5000 ::= \"\"")),
            "invalid grammar",
        ),
    ] {
        check(what, &grammar, "a", expected);
    }
}
