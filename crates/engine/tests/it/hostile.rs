//! Engines with constraints that are known to explode: each is refused or compiled within the
//! limits, and the engine remains usable.

use serde_json::{Map, Value, json};
use sobench_core::constraint::Constraint;
use sobench_engine::{EngineError, EngineName, EnginePolicy, TokenMask};

use crate::engines::small;
use inputs::{chain, doubling, ebnf, lark, numbered, regex, schema};

#[path = "../../../judge/tests/it/hostile/inputs.rs"]
mod inputs;

/// Constraints that would overflow a stack or exhaust the memory without a limit.
fn hostile_constraints() -> Vec<(&'static str, Constraint)> {
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
            "a chain of references",
            schema(chain(3_000, json!({ "type": "null" }))),
        ),
        (
            "a very long chain of references",
            schema(chain(50_000, json!({ "type": "null" }))),
        ),
        (
            "a chain of nested objects",
            schema(json!({ "$ref": "#/$defs/p0", "$defs": nested })),
        ),
        ("a reference to itself", schema(json!({ "$ref": "#" }))),
        (
            "a cycle in anyOf",
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
        ("an invalid schema", schema(json!(5))),
        (
            "deep",
            schema((0..100).fold(json!({}), |inner, _| json!({ "items": inner }))),
        ),
        (
            "a file reference",
            schema(json!({ "$ref": "file:///etc/passwd" })),
        ),
        (
            "a huge minimum",
            schema(serde_json::from_str("{\"minLength\":1e400}").unwrap()),
        ),
        (
            "a tiny divisor",
            schema(serde_json::from_str("{\"type\":\"number\",\"multipleOf\":1e-300}").unwrap()),
        ),
        ("look-around", regex("(?=a)a(?!b)")),
        ("a back-reference", regex("(a*)\\1b")),
        (
            "nested repetitions",
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
            "a chain of rules",
            ebnf(&format!(
                "root ::= r0\n{}r30000 ::= \"z\"",
                rules(30_000, " ::= ")
            )),
        ),
        (
            "a chain of Lark rules",
            lark(&format!("start: r0\n{}r30000: \"z\"", rules(30_000, ": "))),
        ),
        ("left-recursive", lark("start: start \"a\" | \"a\"")),
        ("cyclic rules", lark("start: a | \"x\"\na: b\nb: start | a")),
        ("infinite sentences", lark("start: \"a\" start")),
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

fn assert_survives(name: EngineName) {
    let engine = sobench_engine::open(name, small(), &EnginePolicy::default()).unwrap();
    for (description, constraint) in hostile_constraints() {
        engine.route(&constraint);
        let compiled = engine.compile(&constraint);
        let first = compiled.and_then(|grammar| {
            let mut mask = TokenMask::new(small().len());
            grammar.matcher()?.mask(&mut mask)
        });
        if let Err(error) = first {
            assert!(
                !error.to_string().is_empty(),
                "{name:?} refuses {description} without a message"
            );
            assert!(
                !matches!(error, EngineError::Busy { .. }),
                "{name:?} is still busy before {description}"
            );
        }
    }
    let usable = engine.compile(&schema(
        json!({ "type": "object", "properties": { "a": { "type": "integer" } } }),
    ));
    assert!(usable.is_ok(), "{name:?}: {:?}", usable.err());
}

#[test]
fn guidance_survives() {
    assert_survives(EngineName::Guidance);
}

#[test]
fn xgrammar_survives() {
    assert_survives(EngineName::Xgrammar);
}

#[test]
fn outlines_survives() {
    assert_survives(EngineName::Outlines);
}

#[test]
fn auto_survives() {
    assert_survives(EngineName::Auto);
}
