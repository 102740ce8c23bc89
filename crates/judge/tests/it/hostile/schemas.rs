//! Schemas that are recursive, multiply, refer to other documents or are invalid.

use std::net::TcpListener;

use serde_json::{Value, json};

use super::inputs::{chain, doubling, numbered, schema};
use super::{check, items, members};

/// Parses a schema from text, for numbers that `json!` cannot represent.
fn parse_schema(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn recursion_through_a_document_is_judged_and_in_place_recursion_is_refused() {
    let draft_2019 = "https://json-schema.org/draft/2019-09/schema";
    let undefined = "unsupported $ref refers back to itself without descending into the document";
    for (what, value, text, expected) in [
        (
            "self reference",
            json!({ "properties": { "a": { "$ref": "#" } }, "additionalProperties": false }),
            "{\"a\":{\"a\":{}}}",
            "valid",
        ),
        (
            "mutual",
            json!({ "$ref": "#/$defs/a", "$defs": { "a": { "items": { "$ref": "#/$defs/b" } },
            "b": { "type": "array", "items": { "$ref": "#/$defs/a" } } } }),
            "[[[1]]]",
            "invalid type",
        ),
        (
            "$dynamicRef",
            json!({ "$dynamicAnchor": "n", "type": "array", "items": { "$dynamicRef": "#n" } }),
            "[[[]]]",
            "valid",
        ),
        (
            "$recursiveRef",
            json!({ "$schema": draft_2019, "$recursiveAnchor": true, "type": "array", "items": { "$recursiveRef": "#" } }),
            "[[1]]",
            "invalid type",
        ),
        ("direct cycle", json!({ "$ref": "#" }), "1", undefined),
        (
            "cycle of two",
            json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "$ref": "#/$defs/a" } } }),
            "1",
            undefined,
        ),
        (
            "in allOf",
            json!({ "allOf": [{ "$ref": "#" }] }),
            "1",
            undefined,
        ),
        (
            "in anyOf",
            json!({ "anyOf": [{ "$ref": "#" }, { "type": "null" }] }),
            "1",
            undefined,
        ),
        ("in not", json!({ "not": { "$ref": "#" } }), "1", undefined),
        ("in if", json!({ "if": { "$ref": "#" } }), "1", undefined),
        (
            "dynamic cycle",
            json!({ "$dynamicAnchor": "n", "allOf": [{ "$dynamicRef": "#n" }] }),
            "1",
            undefined,
        ),
        (
            "unreachable cycle",
            json!({ "$defs": { "a": { "$ref": "#/$defs/a" } } }),
            "1",
            "valid",
        ),
        (
            "through an address",
            json!({ "$id": "https://example.com/x/a.json", "if": { "$ref": "a.json" } }),
            "1",
            undefined,
        ),
        (
            "through escapes",
            json!({ "$ref": "#/a%25b~1c", "a%b/c": { "$ref": "#/a%25b~1c" } }),
            "1",
            undefined,
        ),
        (
            "in a constant",
            json!({ "const": { "$ref": "#" } }),
            "{\"$ref\":\"#\"}",
            "valid",
        ),
        (
            "meta-schema",
            json!({ "$ref": "https://json-schema.org/draft/2020-12/schema" }),
            "{\"type\":1}",
            "invalid",
        ),
        (
            "a tree made strict",
            json!({ "$id": "urn:strict", "$dynamicAnchor": "node", "$ref": "urn:tree", "$defs": { "tree": {
                "$id": "urn:tree", "$dynamicAnchor": "node", "items": { "$dynamicRef": "#node" } } } }),
            "[[1]]",
            "valid",
        ),
    ] {
        check(what, &schema(value), text, expected);
    }
}

#[test]
fn multiplying_schemas_reach_the_step_limit() {
    let step_limit = "limit validation over 20000000 steps";
    for keyword in ["anyOf", "oneOf", "allOf"] {
        for leaf in [
            json!({ "type": "null" }),
            json!({}),
            json!(true),
            json!(false),
        ] {
            check(
                &format!("{keyword} of {leaf}"),
                &schema(doubling(60, keyword, leaf)),
                "1",
                step_limit,
            );
        }
    }
    check(
        "few doublings",
        &schema(doubling(10, "allOf", json!({ "type": "null" }))),
        "null",
        "valid",
    );
    let mut unevaluated = doubling(40, "allOf", json!({ "properties": { "a": {} } }));
    unevaluated["unevaluatedProperties"] = json!(false);
    check(
        "unevaluatedProperties",
        &schema(unevaluated),
        "{\"b\":1}",
        "limit schema with over 50000 subschemas to evaluate",
    );
    let nested = (0..60).fold(
        json!({ "properties": { "a": { "type": "null" } } }),
        |inner, _| json!({ "anyOf": [inner], "unevaluatedProperties": false }),
    );
    check(
        "unevaluatedProperties in anyOf",
        &schema(nested),
        "{\"a\":1,\"b\":2}",
        "invalid anyOf",
    );
    // At every level of the document two branches, each of which descends to the next level.
    let deep = format!("{}{{}}{}", "{\"a\":".repeat(100), "}".repeat(100));
    for (keyword, expected) in [
        ("anyOf", "invalid"),
        ("oneOf", "invalid"),
        ("allOf", "invalid required"),
    ] {
        let branches = json!({ "properties": { "a": { keyword: [{ "$ref": "#" }, { "$ref": "#" }] } }, "required": ["a"] });
        check(keyword, &schema(branches), &deep, expected);
    }
    let branch =
        |kind: u64| json!({ "properties": { "left": { "$ref": "#" }, "kind": { "const": kind } } });
    let tree = json!({ "anyOf": [branch(1), branch(2), branch(3)] });
    check(
        "unions of trees",
        &schema(tree),
        &format!("{}{{}}{}", "{\"left\":".repeat(60), "}".repeat(60)),
        "valid",
    );
}

#[test]
fn schemas_of_every_size_are_judged_or_refused_with_the_limit() {
    let deep = |levels: usize| {
        (0..levels).fold(json!({}), |inner, _| {
            Value::Object([("items".to_owned(), inner)].into_iter().collect())
        })
    };
    for (what, value, expected) in [
        ("120 levels", deep(120), "valid"),
        ("3,000 levels", deep(3_000), "limit schema nesting over 128"),
        (
            "50 MB",
            json!({ "description": "x".repeat(50 << 20) }),
            "limit schema over 8388608 bytes",
        ),
        (
            "a million values",
            json!({ "enum": vec![0; 1_000_000] }),
            "limit schema of over 250000 values",
        ),
        (
            "many properties",
            json!({ "properties": numbered(20_000, |_| json!({ "type": "string" })) }),
            "valid",
        ),
        (
            "a chain of references",
            chain(5_000, json!({ "type": "array" })),
            "valid",
        ),
        (
            "too long a chain",
            chain(20_001, json!({})),
            "limit schema of over 20000 references",
        ),
        (
            "many patterns",
            json!({ "properties": numbered(500, |index| json!({ "pattern": format!("^\\w{{1,99}}{index}$") })) }),
            "valid",
        ),
    ] {
        check(what, &schema(value), "[[]]", expected);
    }
}

#[test]
fn nesting_of_10_000_is_refused_by_the_parser() {
    let text = format!("{}{{}}{}", "{\"not\":".repeat(10_000), "}".repeat(10_000));
    assert!(
        serde_json::from_str::<Value>(&text)
            .unwrap_err()
            .to_string()
            .contains("recursion limit")
    );
}

#[test]
fn work_inside_one_keyword_is_counted() {
    let step_limit = "limit validation over 20000000 steps";
    let objects = json!(
        (0..10_000)
            .map(|index| json!({ "a": [index] }))
            .collect::<Vec<_>>()
    );
    let names = json!(
        (0..10_000)
            .map(|index| format!("v{index}"))
            .collect::<Vec<_>>()
    );
    for (what, value, text, expected) in [
        (
            "enum",
            json!({ "items": { "enum": objects } }),
            items(20_000, |_| "{\"a\":[9999]}".into()),
            step_limit,
        ),
        (
            "required",
            json!({ "items": { "required": names } }),
            items(20_000, |_| "{}".into()),
            "invalid required",
        ),
        (
            "violations of members",
            json!({ "additionalProperties": { "type": "null" } }),
            members(80_000, |at| format!("\"{at}\":1")),
            "invalid type",
        ),
        (
            "violations of items",
            json!({ "items": { "anyOf": [{ "type": "null" }, { "const": 3 }] } }),
            items(300_000, |_| "1".into()),
            "invalid anyOf",
        ),
        (
            "patternProperties",
            json!({ "patternProperties": numbered(3_000, |_| json!({})) }),
            members(2_000, |at| format!("\"{at}\":1")),
            step_limit,
        ),
        (
            "name patterns with look-around",
            json!({ "patternProperties": { "(?:(?=.*b)a)*c": {} } }),
            format!("{{\"{}b\":1}}", "a".repeat(100_000)),
            "limit name over 16384 bytes under patternProperties",
        ),
        (
            "many slow patterns",
            json!({ "items": { "pattern": "(?=(a+)+$)(a|aa)+\\1b" } }),
            items(20_000, |_| format!("\"{}\"", "a".repeat(40))),
            "limit pattern over its limit of backtracking steps",
        ),
    ] {
        check(what, &schema(value), &text, expected);
    }
}

#[test]
fn long_names_cost_more_steps() {
    let step_limit = "limit validation over 20000000 steps";
    let long = "n".repeat(1_000_000);
    let each = |schema: Value, times: usize| json!({ "allOf": vec![schema; times] });
    let one = format!("{{\"{long}\":1}}");
    let mut equal = each(json!({ "$ref": "#/$defs/a" }), 15_000);
    equal["$defs"] = json!({ "a": { "const": { long.clone(): 1 } } });
    for (what, value, text, expected) in [
        (
            "repeated in violations",
            json!({ "additionalProperties": each(json!({ "type": "null" }), 40_000) }),
            one.clone(),
            "invalid type",
        ),
        (
            "read by many keywords",
            each(json!({ "additionalProperties": false }), 20_000),
            one.clone(),
            "invalid false",
        ),
        (
            "read by many matching keywords",
            each(json!({ "propertyNames": { "minLength": 1 } }), 20_000),
            one.clone(),
            step_limit,
        ),
        (
            "looked up",
            json!({ "items": { "dependentSchemas": { long: {} } } }),
            items(9_000, |_| "{\"a\":1}".into()),
            step_limit,
        ),
        (
            "unique",
            each(json!({ "uniqueItems": true }), 20_000),
            format!("[{one}]"),
            step_limit,
        ),
        ("equal", equal, one, step_limit),
    ] {
        check(what, &schema(value), &text, expected);
    }
}

#[test]
fn name_patterns_are_limited() {
    let slow = "(?=(a+)+$)(a|aa)+\\1b";
    let name = "a".repeat(40);
    let unfinished =
        json!({ "patternProperties": { slow: { "type": "null" } }, "additionalProperties": false });
    for (what, value, text, expected) in [
        (
            "64 KiB",
            json!({ "patternProperties": { "\\d".repeat(100_000): {} } }),
            "{\"a\":1}".into(),
            "limit patternProperties: regex over",
        ),
        (
            "classes",
            json!({ "patternProperties": { "\\s".repeat(2_000): {} } }),
            "{\"a\":1}".into(),
            "limit patternProperties with too many classes",
        ),
        (
            "a few classes",
            json!({ "patternProperties": { "\\d".repeat(100): false } }),
            "{\"a\":1}".into(),
            "valid",
        ),
        (
            "an unsupported pattern",
            json!({ "patternProperties": { "(?:(a)|\\1b)*(?=c)": {} } }),
            "{\"a\":1}".into(),
            "unsupported patternProperties: regex: ",
        ),
        (
            "unfinished",
            unfinished.clone(),
            format!("{{\"{name}\":1}}"),
            "limit pattern over its limit of backtracking steps",
        ),
        (
            "too many unfinished matches to find a violation",
            json!({ "allOf": vec![unfinished; 20_000] }),
            format!("{{\"{name}\":1}}"),
            "limit 1000000 steps to distinguish a violation from an unfinished match",
        ),
        (
            "a violation next to an aborted match",
            json!({ "items": { "type": "integer" }, "allOf": [{ "items": { "pattern": slow } }] }),
            format!("[\"{name}\"]"),
            "invalid type",
        ),
    ] {
        check(what, &schema(value), &text, expected);
    }
}

#[test]
fn catastrophic_patterns_take_linear_time_or_reach_the_step_limit() {
    for (pattern, text, expected) in [
        ("^(a+)+$", "a".repeat(50_000) + "b", "invalid pattern"),
        ("^(a|a?)+$", "a".repeat(50_000) + "b", "invalid pattern"),
        ("(.*a){12}b", "a".repeat(5_000), "invalid pattern"),
        (
            "(?=(a+)+$)(a|aa)+\\1b",
            "a".repeat(40),
            "limit pattern over its limit",
        ),
        (
            "(?=.*b)c",
            "a".repeat(100_000) + "b",
            "limit pattern over its limit",
        ),
        ("(a{1000}){1000}{1000}", "a".to_owned(), "unsupported"),
        (
            "((a{1000}){1000}){1000}",
            "a".to_owned(),
            "unsupported schema at /pattern: regex compiles to over 33554432 bytes",
        ),
        ("(", "a".to_owned(), "unsupported"),
        (
            &format!("(?=a){}", "\\b".repeat(10_000)),
            "a".to_owned(),
            "unsupported schema at /pattern: regex with over 1000 look-arounds",
        ),
    ] {
        check(
            pattern,
            &schema(json!({ "pattern": pattern })),
            &json!(text).to_string(),
            expected,
        );
        if !expected.starts_with("limit") {
            continue;
        }
        check(
            pattern,
            &schema(json!({ "not": { "pattern": pattern } })),
            &json!(text).to_string(),
            expected,
        );
    }
}

#[test]
fn nothing_outside_the_document_is_fetched() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "{}").unwrap();
    let path = file.path().display();
    for (value, expected) in [
        (
            json!({ "$ref": format!("{server}/a.json") }),
            format!("unsupported $ref to {server}/a.json is outside the document"),
        ),
        (
            json!({ "$ref": format!("file://{path}") }),
            format!("unsupported $ref to file://{path} is outside the document"),
        ),
        (
            json!({ "$ref": "other.json#/a" }),
            "unsupported $ref to other.json".to_owned(),
        ),
        (
            json!({ "$id": format!("{server}/a.json"), "$ref": "b.json" }),
            format!("unsupported $ref to {server}/b.json is outside"),
        ),
        (
            json!({ "$dynamicRef": format!("{server}/a.json#x") }),
            format!("unsupported $ref to {server}/a.json is outside"),
        ),
        (
            json!({ "$schema": format!("{server}/a.json") }),
            "unsupported $schema names no published draft".to_owned(),
        ),
        (
            json!({ "properties": { "a": { "$ref": format!("{server}/a.json") } } }),
            format!("unsupported $ref to {server}"),
        ),
    ] {
        check("outside", &schema(value), "{}", &expected);
    }
    let accepted = listener.accept().map(|_| ()).unwrap_err();
    assert_eq!(
        accepted.kind(),
        std::io::ErrorKind::WouldBlock,
        "the server received no connection"
    );
}

#[test]
fn invalid_schemas_are_refused_with_a_reason() {
    let (draft_4, draft_7) = (
        "http://json-schema.org/draft-04/schema#",
        "http://json-schema.org/draft-07/schema#",
    );
    let with_equal_ids = |key: &str| json!({ "$defs": { "a": { key: "urn:x", "type": "null" }, "b": { key: "urn:x", "type": "null" } } });
    for (value, text, expected) in [
        (
            json!({ "$ref": "#/$defs/none" }),
            "1",
            "unsupported $ref: Pointer '/$defs/none' does not exist",
        ),
        (
            json!({ "$ref": "#none" }),
            "1",
            "unsupported $ref: Anchor 'none' does not exist",
        ),
        (
            json!({ "$ref": "http://[::1" }),
            "1",
            "unsupported $ref: Invalid URI reference",
        ),
        (json!({ "$ref": 5 }), "1", "unsupported schema at /$ref"),
        (json!({ "type": "string", "const": 5 }), "5", "invalid type"),
        (
            json!({ "allOf": [{ "type": "null" }, { "type": "string" }] }),
            "null",
            "invalid type",
        ),
        (
            json!({ "minimum": 5, "maximum": 4 }),
            "5",
            "invalid maximum",
        ),
        (json!(true), "5", "valid"),
        (json!(false), "5", "invalid false"),
        (json!(5), "5", "unsupported the schema: 5 is not of types"),
        (
            json!(null),
            "5",
            "unsupported the schema: null is not of types",
        ),
        (json!([]), "5", "unsupported the schema"),
        (json!("x"), "5", "unsupported the schema"),
        (json!({ "type": 5 }), "5", "unsupported schema at /type"),
        (
            json!({ "type": "integre" }),
            "5",
            "unsupported schema at /type",
        ),
        (
            json!({ "$schema": draft_7, "prefixItems": [{ "type": "null" }] }),
            "[5]",
            "valid",
        ),
        (
            json!({ "$schema": draft_4, "exclusiveMinimum": 3 }),
            "5",
            "unsupported schema at /exclusiveMinimum",
        ),
        (
            json!({ "exclusiveMinimum": true, "minimum": 3 }),
            "5",
            "unsupported schema at /exclusiveMinimum",
        ),
        (
            json!({ "$id": "http://[::1" }),
            "5",
            "unsupported $ref: Invalid URI reference",
        ),
        (
            json!({ "$id": "https://json-schema.org/draft/2020-12/schema", "type": "null" }),
            "5",
            "invalid type",
        ),
        (with_equal_ids("$id"), "5", "valid"),
        (with_equal_ids("$comment"), "5", "valid"),
        (
            json!({ "$defs": { "a": { "$anchor": "x" }, "b": { "$anchor": "x" } }, "$ref": "#x" }),
            "5",
            "valid",
        ),
    ] {
        let what = value.to_string();
        check(&what, &schema(value), text, expected);
    }
}

#[test]
fn numbers_of_every_size_are_compared_exactly_and_quickly() {
    for (value, text, expected) in [
        ("{\"multipleOf\":1e-300}", "1e300", "valid"),
        ("{\"multipleOf\":1e999999999}", "1e999999999", "valid"),
        ("{\"multipleOf\":3}", "1e999999999", "invalid multipleOf"),
        (
            "{\"minLength\":1e400}",
            "\"a\"",
            "unsupported schema at /minLength",
        ),
        ("{\"minimum\":1e400}", "1e399", "invalid minimum"),
        ("{\"minimum\":1e999999999}", "1", "invalid minimum"),
        ("{\"maximum\":5}", "1e999999999", "invalid maximum"),
        (
            "{\"type\":\"integer\",\"maximum\":5}",
            "1e-999999999",
            "invalid type",
        ),
        ("{\"const\":1e999999999}", "10e999999998", "valid"),
        ("{\"enum\":[5,6]}", "1e999999999", "invalid enum"),
        (
            "{\"contains\":{},\"minContains\":1e20}",
            "[1]",
            "invalid contains",
        ),
    ] {
        check(value, &schema(parse_schema(value)), text, expected);
    }
    assert!(
        serde_json::from_str::<Value>("{\"const\":\"\\ud800\"}").is_err(),
        "a lone surrogate is refused by the parser"
    );
}
