//! Engines under what they are known to explode on: each refuses or compiles within its boundary,
//! and goes on to the next.

use serde_json::{Map, Value, json};
use sobench_core::constraint::Constraint;
use sobench_engine::{self as engine, EngineError, EngineName, EnginePolicy, TokenMask};

use crate::engines::small;
use inputs::{chain, doubling, ebnf, lark, numbered, regex, schema};

#[path = "../../../judge/tests/it/hostile/inputs.rs"]
mod inputs;

/// What would overflow a stack, or fill the memory, without a bound.
fn hostile() -> Vec<(&'static str, Constraint)> {
    let link = |index: usize| {
        let inner =
            json!({ "type": "array", "items": { "$ref": format!("#/$defs/p{}", index + 1) } });
        json!({ "type": "object", "properties": { "x": { "type": "object", "properties": { "y": inner } } } })
    };
    let mut nested: Map<String, Value> = numbered(6_000, link);
    nested.insert("p6000".to_owned(), json!({ "type": "null" }));
    let rules = |count: usize, define: &str| -> String {
        (0..count)
            .map(|rule| format!("r{rule}{define}r{} | \"{}\"\n", rule + 1, rule % 10))
            .collect()
    };
    vec![
        (
            "a row of references",
            schema(chain(3_000, json!({ "type": "null" }))),
        ),
        (
            "a row too long for a stack",
            schema(chain(50_000, json!({ "type": "null" }))),
        ),
        (
            "a row of nested objects",
            schema(json!({ "$ref": "#/$defs/p0", "$defs": nested })),
        ),
        ("a reference to itself", schema(json!({ "$ref": "#" }))),
        (
            "a circle in anyOf",
            schema(json!({ "anyOf": [{ "$ref": "#" }, { "type": "null" }] })),
        ),
        (
            "2^40 in anyOf",
            schema(doubling(40, "anyOf", json!({ "type": "null" }))),
        ),
        ("2^40 in allOf", schema(doubling(40, "allOf", json!({})))),
        (
            "contradictory",
            schema(json!({ "type": "string", "const": 5 })),
        ),
        ("false", schema(json!(false))),
        ("no schema", schema(json!(5))),
        (
            "deep",
            schema((0..100).fold(json!({}), |inner, _| json!({ "items": inner }))),
        ),
        ("a file", schema(json!({ "$ref": "file:///etc/passwd" }))),
        (
            "a huge minimum",
            schema(serde_json::from_str("{\"minLength\":1e400}").unwrap()),
        ),
        (
            "a divisor near nothing",
            schema(serde_json::from_str("{\"type\":\"number\",\"multipleOf\":1e-300}").unwrap()),
        ),
        ("look-around", regex("(?=a)a(?!b)")),
        ("a back-reference", regex("(a*)\\1b")),
        (
            "counts in counts",
            regex("((((a{100}){100}){100}){100}){100}"),
        ),
        (
            "a megabyte of alternatives",
            regex(
                &(0..130_000)
                    .map(|at| format!("word{at}"))
                    .collect::<Vec<_>>()
                    .join("|"),
            ),
        ),
        (
            "deep brackets",
            regex(&format!("{}a{}", "(".repeat(30_000), ")".repeat(30_000))),
        ),
        ("an invalid regex", regex("(a")),
        (
            "a row of rules",
            ebnf(&format!(
                "root ::= r0\n{}r30000 ::= \"z\"",
                rules(30_000, " ::= ")
            )),
        ),
        (
            "a row of rules, in Lark",
            lark(&format!("start: r0\n{}r30000: \"z\"", rules(30_000, ": "))),
        ),
        ("left-recursive", lark("start: start \"a\" | \"a\"")),
        (
            "rules in a circle",
            lark("start: a | \"x\"\na: b\nb: start | a"),
        ),
        ("without an end", lark("start: \"a\" start")),
        ("empty", lark("")),
        (
            "5 MB",
            lark(&format!("start: {}", "\"a\" ".repeat(1_250_000))),
        ),
        (
            "an import of a file",
            lark("%import .secrets.KEY\nstart: KEY"),
        ),
    ]
}

fn survives(name: EngineName) {
    let engine = engine::open(name, small(), &EnginePolicy::default()).unwrap();
    for (what, constraint) in hostile() {
        engine.route(&constraint);
        let compiled = engine.compile(&constraint);
        let first = compiled.and_then(|grammar| {
            let mut mask = TokenMask::new(small().len());
            grammar.matcher()?.mask(&mut mask)
        });
        if let Err(error) = first {
            assert!(
                !error.to_string().is_empty(),
                "{name:?} refuses {what} without a word"
            );
            assert!(
                !matches!(error, EngineError::Busy { .. }),
                "{name:?} is still at work before {what}"
            );
        }
    }
    let fine = engine.compile(&schema(
        json!({ "type": "object", "properties": { "a": { "type": "integer" } } }),
    ));
    assert!(fine.is_ok(), "{name:?}: {:?}", fine.err());
}

#[test]
fn guidance_survives() {
    survives(EngineName::Guidance);
}

#[test]
fn xgrammar_survives() {
    survives(EngineName::Xgrammar);
}

#[test]
fn outlines_survives() {
    survives(EngineName::Outlines);
}

#[test]
fn auto_survives() {
    survives(EngineName::Auto);
}
