//! Unsupported constructs: the error is `Unsupported`, names the feature and contains the library's
//! message.

use serde_json::Value;
use sobench_core::constraint::Constraint;
use sobench_engine::{EngineError, EngineName};

use super::{built_in_engines, engines};

/// Engine, constraint as in files, feature, and part of the library's message.
const REFUSED: &[(EngineName, &str, &str, &str)] = &[
    (
        EngineName::Guidance,
        r#"{"json":{"type":"string","not":{"const":"x"}}}"#,
        "not",
        "Unimplemented keys",
    ),
    (
        EngineName::Guidance,
        r#"{"json":{"if":{"required":["a"]},"then":{"required":["b"]}}}"#,
        "if, then",
        "Unimplemented keys",
    ),
    (
        EngineName::Guidance,
        r#"{"json":{"type":"array","uniqueItems":true}}"#,
        "uniqueItems",
        "Unimplemented keys",
    ),
    (
        EngineName::Guidance,
        r#"{"json":{"type":"array","contains":{"const":1}}}"#,
        "contains",
        "Unimplemented keys",
    ),
    (
        EngineName::Guidance,
        r#"{"json":{"oneOf":[{"type":"integer"},{"type":"number"}]}}"#,
        "oneOf",
        "oneOf constraints",
    ),
    (
        EngineName::Guidance,
        r#"{"json":{"type":"string","format":"made-up"}}"#,
        "format made-up",
        "Unknown format",
    ),
    (
        EngineName::Guidance,
        r#"{"json":{"type":"object","properties":{"a":{},"b":{}},"minProperties":2}}"#,
        "minProperties, maxProperties",
        "min/maxProperties only supported",
    ),
    (
        EngineName::Guidance,
        r##"{"json":{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/a","type":"object"}}}}"##,
        "circular $ref with siblings",
        "circular references",
    ),
    (
        EngineName::Guidance,
        r#"{"regex":"(?=a)b"}"#,
        "look-around",
        "look-around",
    ),
    (
        EngineName::Guidance,
        r#"{"regex":"(a)\\1"}"#,
        "back-reference",
        "backreferences",
    ),
    (
        EngineName::Guidance,
        r#"{"structural_tag":{}}"#,
        "structural_tag",
        "no structural tags",
    ),
    (
        EngineName::Guidance,
        r#"{"grammar":{"dialect":"ebnf","text":"root ::= \"a\""}}"#,
        "ebnf grammar",
        "not EBNF",
    ),
    (
        EngineName::Xgrammar,
        r#"{"regex":"(?=a)b"}"#,
        "look-ahead",
        "Lookahead",
    ),
    (
        EngineName::Xgrammar,
        r#"{"regex":"(a)\\1"}"#,
        "back-reference",
        "Backreference",
    ),
    (
        EngineName::Xgrammar,
        r#"{"json":{"type":"array","items":[{}]}}"#,
        "items as an array",
        "boolean or an object",
    ),
    (
        EngineName::XgrammarCpp,
        r#"{"regex":"(?=a)b"}"#,
        "look-ahead",
        "Lookahead",
    ),
    (
        EngineName::Outlines,
        r#"{"json_object":true}"#,
        "json_object",
        "vLLM refuses",
    ),
    (
        EngineName::Outlines,
        r#"{"structural_tag":{}}"#,
        "structural_tag",
        "no structural tags",
    ),
    (
        EngineName::Outlines,
        r#"{"grammar":{"dialect":"lark","text":"start: \"a\""}}"#,
        "lark grammar",
        "regular expressions only",
    ),
    (
        EngineName::Outlines,
        r#"{"json":{"not":{"type":"string"}}}"#,
        "not",
        "not",
    ),
    (
        EngineName::Outlines,
        r#"{"regex":"(a)\\1"}"#,
        "back-reference",
        "",
    ),
    (
        EngineName::Auto,
        r#"{"regex":"(a)\\1"}"#,
        "back-reference",
        "backreferences",
    ),
];

#[test]
fn unsupported_constructs_are_refused_with_the_feature() {
    for engine in engines() {
        for (_, constraint, feature, part) in
            REFUSED.iter().filter(|(name, ..)| *name == engine.name)
        {
            let parsed: Constraint = serde_json::from_str(constraint).unwrap();
            match engine.compiled.engine().compile(&parsed) {
                Err(EngineError::Unsupported {
                    feature: named,
                    message,
                }) => {
                    assert_eq!(named, *feature, "{constraint}");
                    assert!(message.contains(part), "{constraint}: {message}");
                }
                Err(error) => panic!("{:?}, {constraint}: {error:?}", engine.name),
                Ok(_) => panic!("{:?} compiled {constraint}", engine.name),
            }
        }
    }
}

#[test]
fn every_engine_has_a_refusal_in_the_table() {
    for name in built_in_engines() {
        assert!(
            REFUSED.iter().any(|(engine, ..)| *engine == name),
            "{name:?} has no refusal in the table"
        );
    }
    let parses = |text: &str| serde_json::from_str::<Value>(text).is_ok();
    assert!(REFUSED.iter().all(|(_, constraint, ..)| parses(constraint)));
}
