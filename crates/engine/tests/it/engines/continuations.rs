//! Wrong continuations of valid prefixes: tokens that start with a wrong character are masked.

use super::engines;
use super::workloads::{workload, workloads};

/// Workload, prefix of a valid document, and characters that cannot follow.
const WRONG: [(&str, &str, &str); 33] = [
    ("brief profile", "", "[\"a1}"),
    ("brief profile", r#"{"name": "Ada""#, ":]\"1"),
    (
        "brief profile",
        r#"{"name":"Ada","email":"a","age":"#,
        "\"t{",
    ),
    (
        "nested profile",
        r#"{"userId":"u","personalInfo":"#,
        "[\"1n",
    ),
    (
        "nested profile",
        r#"{"userId":"u","personalInfo":{"firstName":"A","lastName":"L"},"address":{"street":"","city":"","state":"","postalCode":""#,
        "-a\" ",
    ),
    (
        "nested profile",
        r#"{"userId":"u","personalInfo":{"firstName":"A","lastName":"L","phoneNumbers":[{"type":""#,
        "afx\"",
    ),
    ("sql in lark", "", "sF C"),
    ("sql in lark", "SELECT col_", "3 0_a"),
    (
        "sql in lark",
        "SELECT col_1  from table_1  where col_2 = 2 ",
        "1 ;c",
    ),
    ("sql in ebnf", "", "sF C"),
    ("sql in ebnf", "SELECT col_", "3 0_a"),
    (
        "sql in ebnf",
        "SELECT col_1  from table_1  where col_2 = 2 ",
        "1 ;c",
    ),
    ("e-mail regex", "", "@. -"),
    ("e-mail regex", "alan", ". -\n"),
    ("e-mail regex", "alan@enigma.", "dx@1 "),
    ("e-mail regex", "alan@enigma.com", ".@\\ "),
    ("sentiment choice", "", "pnQ \""),
    ("sentiment choice", "Posit", "aIe \n"),
    ("nested choice", "", "YN\"x "),
    ("nested choice", "yes", ".;x\n "),
    ("any object", "", "[\"1t"),
    ("any object", "{", "[1a]"),
    ("any object", r#"{"a""#, ",}1]"),
    ("any object", r#"{"a":"#, "},Ta"),
    ("recursive tree", r#"{"value":1,"children":"#, "{\"1n"),
    ("recursive tree", r#"{"value":1,"children":["#, "[\"1,"),
    ("recursive tree", r#"{"value":1,"#, "}{1,"),
    ("enum of 50", "", "a[{1'"),
    ("enum of 50", "\"li", "\"bnq "),
    ("bounded strings and arrays", r#"{"code":"a"#, "\""),
    (
        "bounded strings and arrays",
        r#"{"code":"ab","tags":["four"#,
        "aZ0",
    ),
    ("bounded strings and arrays", r#"{"code":"#, "[{1n"),
    (
        "bounded strings and arrays",
        r#"{"code":"ab","tags":["#,
        "]1{,",
    ),
];

/// Minimum number of wrong continuations of each workload.
const MIN_CONTINUATIONS: usize = 10;

#[test]
fn wrong_continuations_are_masked() {
    let mut failures = Vec::new();
    for engine in engines() {
        let vocabulary = engine.vocabulary;
        for (name, prefix, wrong) in WRONG {
            let Some(mut matcher) = engine.matcher(workload(name)) else {
                continue;
            };
            for token in vocabulary.encode(prefix) {
                matcher.commit(token).unwrap_or_else(|error| {
                    panic!("{:?}, {name}, {prefix:?}: {error}", engine.name)
                });
            }
            for token in engine.mask(&mut *matcher).iter() {
                if wrong
                    .bytes()
                    .any(|byte| vocabulary.bytes(token).first() == Some(&byte))
                {
                    let text = String::from_utf8_lossy(vocabulary.bytes(token));
                    failures.push(format!(
                        "{:?}, {name}, {prefix:?} is continued with {text:?}",
                        engine.name
                    ));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_workload_has_wrong_continuations() {
    for workload in workloads() {
        let count: usize = WRONG
            .iter()
            .filter(|(name, ..)| *name == workload.name)
            .map(|(.., wrong)| wrong.len())
            .sum();
        assert!(count >= MIN_CONTINUATIONS, "{}: {count}", workload.name);
    }
}
