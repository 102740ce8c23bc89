//! References that could bypass a limit because the cost estimate and the compiler resolve them
//! differently, and references that only seem cyclic.

use serde_json::{Map, Value, json};

use super::check;
use super::inputs::{chain, doubling, schema};

const DRAFT_4: &str = "http://json-schema.org/draft-04/schema#";
const DRAFT_7: &str = "http://json-schema.org/draft-07/schema#";
const DRAFT_2019: &str = "https://json-schema.org/draft/2019-09/schema";
const DRAFT_2020: &str = "https://json-schema.org/draft/2020-12/schema";

const STEP_LIMIT: &str = "limit validation over 20000000 steps";
const SCHEMA_LIMIT: &str =
    "limit schema with over 300000 subschemas, counted once per reference path";

/// Definitions `a0` to `a{count}`, one for each index.
fn definitions(count: usize, definition: impl Fn(usize) -> Value) -> Map<String, Value> {
    (0..=count)
        .map(|index| (format!("a{index}"), definition(index)))
        .collect()
}

/// As [`doubling`], with additional members that should have no effect in every definition but the
/// last.
fn doubling_beside(keyword: &str, leaf: Value, members: &Value) -> Value {
    let mut schema = doubling(60, keyword, leaf);
    for (_, definition) in schema["$defs"].as_object_mut().unwrap().iter_mut().skip(1) {
        definition
            .as_object_mut()
            .unwrap()
            .extend(members.as_object().unwrap().clone());
    }
    schema
}

#[test]
fn ids_and_drafts_do_not_bypass_the_step_limit() {
    let below = |index: usize| format!("#/definitions/a{}", index - 1);
    let twice = |one: Value| json!([one, one]);
    let with_id = definitions(60, |index| match index {
        0 => json!({}),
        _ => {
            json!({ "allOf": twice(json!({ "$id": format!("http://x/{index}"), "$ref": below(index) })) })
        }
    });
    let mut embedded = doubling(60, "allOf", json!({}));
    embedded.as_object_mut().unwrap().remove("$ref");
    embedded["$id"] = json!("http://embedded/");
    let switching = definitions(60, |index| match index {
        0 => json!({}),
        _ => {
            json!({ "allOf": [{ "$schema": DRAFT_2020, "$ref": below(index), "allOf": [{ "$ref": below(index) }] }] })
        }
    });
    let near = definitions(60, |index| match index {
        0 => json!({ "$id": "http://near/a0" }),
        _ => {
            json!({ "$id": format!("http://near/a{index}"), "allOf": twice(json!({ "$ref": format!("a{}", index - 1) })) })
        }
    });
    let alike = definitions(60, |index| json!({ "$id": format!("a{index}") }));
    for (what, value) in [
        (
            "id in a draft without it",
            doubling_beside("allOf", json!({}), &json!({ "id": "x" })),
        ),
        (
            "$id beside $ref",
            json!({ "$schema": DRAFT_7, "definitions": with_id, "$ref": "#/definitions/a60" }),
        ),
        (
            "a pointer into a resource",
            json!({ "$defs": { "e": embedded }, "$ref": "#/$defs/e/$defs/a60" }),
        ),
        (
            "$schema of another draft",
            json!({ "$schema": DRAFT_7, "definitions": switching, "$ref": "#/definitions/a60" }),
        ),
        (
            "equal names in another resource",
            json!({ "$id": "http://far/", "$defs": { "alike": { "$defs": alike },
                "near": { "$id": "http://near/", "$defs": near, "$ref": "a60" } }, "$ref": "http://near/" }),
        ),
    ] {
        check(what, &schema(value), "1", STEP_LIMIT);
    }
    let mut unevaluated = doubling_beside(
        "allOf",
        json!({ "properties": { "a": {} } }),
        &json!({ "id": "x" }),
    );
    unevaluated["unevaluatedProperties"] = json!(false);
    check(
        "unevaluatedProperties",
        &schema(unevaluated),
        "{\"b\":1}",
        "limit schema with over 50000 subschemas to evaluate",
    );
    let dynamic = definitions(60, |index| match index {
        0 => json!({ "$anchor": "a0", "properties": { "a": {} } }),
        _ => {
            json!({ "$anchor": format!("a{index}"), "allOf": twice(json!({ "$dynamicRef": format!("#a{}", index - 1) })) })
        }
    });
    let unevaluated = json!({ "$schema": DRAFT_2019, "$defs": dynamic, "$dynamicRef": "#a60", "unevaluatedProperties": false });
    check(
        "keywords of a later draft with unevaluatedProperties",
        &schema(unevaluated),
        "{\"b\":1}",
        "limit schema with over 50000 subschemas to evaluate",
    );
}

#[test]
fn keywords_without_a_read_do_not_bypass_the_step_limit() {
    for members in [
        json!({ "uniqueItems": false }),
        json!({ "minimum": 1 }),
        json!({ "minContains": 1 }),
        json!({ "additionalProperties": true }),
        json!({ "format": "unknown-format" }),
        json!({ "multipleOf": 2 }),
        json!({ "items": true }),
        json!({ "required": [] }),
        json!({ "patternProperties": {} }),
        json!({ "contentEncoding": "x" }),
    ] {
        for (keyword, leaf) in [("anyOf", json!(false)), ("allOf", json!(true))] {
            check(
                &members.to_string(),
                &schema(doubling_beside(keyword, leaf, &members)),
                "1",
                STEP_LIMIT,
            );
        }
    }
    let mut draft_7 = doubling_beside("anyOf", json!(false), &json!({ "prefixItems": [{}] }));
    draft_7["allOf"] = json!([{ "$ref": draft_7["$ref"].take() }]);
    draft_7.as_object_mut().unwrap().remove("$ref");
    draft_7["$schema"] = json!(DRAFT_7);
    check(
        "a keyword of a later draft",
        &schema(draft_7),
        "1",
        STEP_LIMIT,
    );
}

#[test]
fn long_chains_of_references_do_not_overflow_the_stack() {
    let value = chain(20_000 - 1, json!({ "type": "array" }));
    check("maximum length", &schema(value), "[[]]", "valid");
    let mut value = chain(10_000, json!({ "type": "array" }));
    for definition in value["$defs"].as_object_mut().unwrap().values_mut() {
        definition["id"] = json!("x");
    }
    check("with id", &schema(value), "{}", "invalid type");
    let five = |index: usize| vec![json!({ "$ref": format!("#/$defs/a{}", index - 1) }); 5];
    let wide = definitions(3_999, |index| {
        if index == 0 {
            json!({})
        } else {
            json!({ "id": "x", "allOf": five(index) })
        }
    });
    check(
        "five each",
        &schema(json!({ "$defs": wide, "$ref": "#/$defs/a3999" })),
        "1",
        STEP_LIMIT,
    );
    let mut unevaluated = chain(10_000, json!({ "properties": { "a": {} } }));
    unevaluated["unevaluatedProperties"] = json!(false);
    check(
        "with unevaluatedProperties",
        &schema(unevaluated),
        "{\"b\":1}",
        "invalid unevaluatedProperties",
    );
    let items = definitions(10_000, |index| match index {
        0 => json!({ "type": "string" }),
        _ => json!({ "items": { "$ref": format!("#/$defs/a{}", index - 1) } }),
    });
    check(
        "through items",
        &schema(json!({ "$defs": items, "$ref": "#/$defs/a10000" })),
        "[[[]]]",
        "valid",
    );
}

#[test]
fn mutual_resources_are_compiled_once_or_refused() {
    let resource = |index: usize| format!("http://x/a{index}");
    let mutual = |count: usize| {
        definitions(count, |index| {
            let others = (0..=count).filter(|other| *other != index);
            let members: Map<String, Value> = others
                .map(|other| (format!("p{other}"), json!({ "$ref": resource(other) })))
                .collect();
            json!({ "$id": resource(index), "type": "object", "properties": members })
        })
    };
    let text = "{\"p1\":{\"p0\":{\"p1\":1}}}";
    check(
        "few",
        &schema(json!({ "$defs": mutual(3), "$ref": resource(0) })),
        text,
        "invalid type",
    );
    check(
        "many",
        &schema(json!({ "$defs": mutual(11), "$ref": resource(0) })),
        text,
        SCHEMA_LIMIT,
    );
    let backward = definitions(34, |index| {
        let before = index.saturating_sub(2)..index;
        let before: Vec<Value> = before
            .map(|other| json!({ "$ref": resource(other) }))
            .collect();
        if index == 0 {
            json!({ "$id": resource(0) })
        } else {
            json!({ "$id": resource(index), "type": "null", "allOf": before })
        }
    });
    check(
        "each refers to the two before it",
        &schema(json!({ "$defs": backward, "$ref": resource(34) })),
        "1",
        SCHEMA_LIMIT,
    );
    let chain_of_resources = |count: usize| {
        definitions(count, |index| match index {
            0 => json!({ "$id": resource(0), "type": "null" }),
            _ => json!({ "$id": resource(index), "$ref": resource(index - 1) }),
        })
    };
    check(
        "a chain",
        &schema(json!({ "$defs": chain_of_resources(500), "$ref": resource(500) })),
        "1",
        "invalid type",
    );
    check(
        "a long chain",
        &schema(json!({ "$defs": chain_of_resources(9_000), "$ref": resource(9_000) })),
        "1",
        SCHEMA_LIMIT,
    );
}

#[test]
fn schemas_that_only_seem_cyclic_are_judged() {
    let id = "https://example.com/node";
    for (what, value) in [
        (
            "an id that ends like an anchor",
            json!({ "$id": id, "$defs": { "n": { "$anchor": "node", "type": "object" } }, "allOf": [{ "$ref": "#node" }] }),
        ),
        (
            "another version of the same name",
            json!({ "$id": "https://example.com/v2/item.json", "allOf": [{ "$ref": "../v1/item.json" }],
                "$defs": { "old": { "$id": "https://example.com/v1/item.json", "type": "object" } } }),
        ),
        (
            "dependentSchemas before it was a keyword",
            json!({ "$schema": DRAFT_7, "type": "object", "dependentSchemas": { "a": { "$ref": "#" } } }),
        ),
        (
            "then without if",
            json!({ "type": "object", "then": { "$ref": "#" } }),
        ),
        (
            "else without if",
            json!({ "type": "object", "else": { "$ref": "#" } }),
        ),
        (
            "if before it was a keyword",
            json!({ "$schema": DRAFT_4, "type": "object", "if": { "$ref": "#" } }),
        ),
        (
            "beside a reference that hides it",
            json!({ "$schema": DRAFT_7, "definitions": { "a": { "type": "object" } },
            "allOf": [{ "$ref": "#/definitions/a", "not": { "$ref": "#" } }] }),
        ),
        (
            "$recursiveRef in a draft without it",
            json!({ "type": "object", "$recursiveRef": "#" }),
        ),
    ] {
        check(what, &schema(value.clone()), "{}", "valid");
        check(what, &schema(value), "1", "invalid type");
    }
}

#[test]
fn unresolvable_references_refuse_the_schema() {
    for (value, expected) in [
        (
            json!({ "items": { "$ref": "" } }),
            "unsupported $ref is empty",
        ),
        (
            json!({ "items": { "$ref": "#/items/0" } }),
            "unsupported $ref: Pointer '/items/0' does not exist",
        ),
        (
            json!({ "$id": "http://x/a", "items": { "$ref": "b#/c" } }),
            "unsupported $ref to http://x/b",
        ),
        (
            json!({ "$schema": DRAFT_7, "definitions": { "a": { "$id": "#b" } }, "$ref": "#c" }),
            "unsupported $ref: Anchor 'c'",
        ),
    ] {
        check(&value.to_string(), &schema(value), "[1]", expected);
    }
}
