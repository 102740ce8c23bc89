//! References that could lead past a bound: resolved in one way where the schema is measured, in
//! another where it is compiled. And those that only seem to lead in a circle.

use serde_json::{Map, Value, json};

use super::check;
use super::inputs::{chain, doubling, schema};

const DRAFT_4: &str = "http://json-schema.org/draft-04/schema#";
const DRAFT_7: &str = "http://json-schema.org/draft-07/schema#";
const DRAFT_2019: &str = "https://json-schema.org/draft/2019-09/schema";
const DRAFT_2020: &str = "https://json-schema.org/draft/2020-12/schema";

const OVER: &str = "limit validation over 20000000 steps";
const TOO_MANY: &str = "limit schema of over 300000 schemas, counted for each way to refer to them";

/// Definitions `a0` to `a{count}`, made for each number.
fn definitions(count: usize, definition: impl Fn(usize) -> Value) -> Map<String, Value> {
    (0..=count)
        .map(|index| (format!("a{index}"), definition(index)))
        .collect()
}

/// As [`doubling`], with members that should change nothing in every definition but the last.
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
fn ids_and_drafts_hide_no_multiplication() {
    let below = |index: usize| format!("#/definitions/a{}", index - 1);
    let twice = |one: Value| json!([one, one]);
    let beside = definitions(60, |index| match index {
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
            "id where no draft has it",
            doubling_beside("allOf", json!({}), &json!({ "id": "x" })),
        ),
        (
            "$id beside $ref",
            json!({ "$schema": DRAFT_7, "definitions": beside, "$ref": "#/definitions/a60" }),
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
            "names alike elsewhere",
            json!({ "$id": "http://far/", "$defs": { "alike": { "$defs": alike },
                "near": { "$id": "http://near/", "$defs": near, "$ref": "a60" } }, "$ref": "http://near/" }),
        ),
    ] {
        check(what, &schema(value), "1", OVER);
    }
    let mut asking = doubling_beside(
        "allOf",
        json!({ "properties": { "a": {} } }),
        &json!({ "id": "x" }),
    );
    asking["unevaluatedProperties"] = json!(false);
    check(
        "unevaluatedProperties",
        &schema(asking),
        "{\"b\":1}",
        "limit schema with over 50000 schemas to ask",
    );
    let dynamic = definitions(60, |index| match index {
        0 => json!({ "$anchor": "a0", "properties": { "a": {} } }),
        _ => {
            json!({ "$anchor": format!("a{index}"), "allOf": twice(json!({ "$dynamicRef": format!("#a{}", index - 1) })) })
        }
    });
    let asking = json!({ "$schema": DRAFT_2019, "$defs": dynamic, "$dynamicRef": "#a60", "unevaluatedProperties": false });
    check(
        "by keywords of a later draft",
        &schema(asking),
        "{\"b\":1}",
        "limit schema with over 50000 schemas to ask",
    );
}

#[test]
fn keywords_that_do_not_look_hide_no_multiplication() {
    for members in [
        json!({ "uniqueItems": false }),
        json!({ "minimum": 1 }),
        json!({ "minContains": 1 }),
        json!({ "additionalProperties": true }),
        json!({ "format": "unheard-of" }),
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
                OVER,
            );
        }
    }
    let mut older = doubling_beside("anyOf", json!(false), &json!({ "prefixItems": [{}] }));
    older["allOf"] = json!([{ "$ref": older["$ref"].take() }]);
    older.as_object_mut().unwrap().remove("$ref");
    older["$schema"] = json!(DRAFT_7);
    check("a keyword of a later draft", &schema(older), "1", OVER);
}

#[test]
fn long_rows_of_references_have_room() {
    let value = chain(20_000 - 1, json!({ "type": "array" }));
    check("as long as may be", &schema(value), "[[]]", "valid");
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
        OVER,
    );
    let mut asking = chain(10_000, json!({ "properties": { "a": {} } }));
    asking["unevaluatedProperties"] = json!(false);
    check(
        "asked what is evaluated",
        &schema(asking),
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
fn resources_that_refer_to_each_other_are_compiled_once_or_refused() {
    let resource = |index: usize| format!("http://x/a{index}");
    let among = |count: usize| {
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
        &schema(json!({ "$defs": among(3), "$ref": resource(0) })),
        text,
        "invalid type",
    );
    check(
        "many",
        &schema(json!({ "$defs": among(11), "$ref": resource(0) })),
        text,
        TOO_MANY,
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
        "each two before it",
        &schema(json!({ "$defs": backward, "$ref": resource(34) })),
        "1",
        TOO_MANY,
    );
    let row = |count: usize| {
        definitions(count, |index| match index {
            0 => json!({ "$id": resource(0), "type": "null" }),
            _ => json!({ "$id": resource(index), "$ref": resource(index - 1) }),
        })
    };
    check(
        "a row",
        &schema(json!({ "$defs": row(500), "$ref": resource(500) })),
        "1",
        "invalid type",
    );
    check(
        "a long row",
        &schema(json!({ "$defs": row(9_000), "$ref": resource(9_000) })),
        "1",
        TOO_MANY,
    );
}

#[test]
fn schemas_that_only_seem_to_lead_in_a_circle_are_judged() {
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
            "$recursiveRef where it is none",
            json!({ "type": "object", "$recursiveRef": "#" }),
        ),
    ] {
        check(what, &schema(value.clone()), "{}", "valid");
        check(what, &schema(value), "1", "invalid type");
    }
}

#[test]
fn references_that_cannot_be_followed_refuse_the_schema() {
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
