//! Schemas that would exhaust memory or stack fail only their own request.

use serde_json::{Map, Value, json};

use crate::support::{Folder, ran, through_shell};

/// `leaf` behind `count` definitions, each of which refers to the one before.
fn definitions(count: usize, leaf: Value, define: impl Fn(Value) -> Value) -> Value {
    let mut definitions = Map::from_iter([("a0".to_owned(), leaf)]);
    for index in 1..=count {
        definitions.insert(
            format!("a{index}"),
            define(json!({ "$ref": format!("#/$defs/a{}", index - 1) })),
        );
    }
    json!({ "$defs": definitions, "$ref": format!("#/$defs/a{count}") })
}

/// Limits the address space to 8 GB.
#[test]
fn hostile_schema_fails_only_its_own_request() {
    let fine = json!({ "type": "object", "properties": { "a": { "type": "integer" } }, "required": ["a"] });
    // A chain of 12,000 references, and 2^40 empty schemas in 40 definitions.
    let row = definitions(12_000, json!({ "type": "null" }), |below| below);
    let doubling = definitions(40, json!({}), |below| json!({ "allOf": [below, below] }));
    let rows = [fine.clone(), row, doubling, fine];
    let rows = rows.map(|schema| json!({ "prompt": "go on", "json": schema }));
    let folder = Folder::new();
    let path = folder.lines("rows.jsonl", &rows);
    let ran = ran(&mut through_shell(
        "ulimit -v 8000000; exec \"$@\"",
        &[
            "--dataset custom --num-prompts 4 --guided-decoding-backend guidance --disable-tqdm",
            "--dataset-path",
            &path,
            "--save-result --result-filename result.json --result-dir",
            &folder.path(""),
        ],
    ));
    assert_eq!(ran.code, 0, "{}\n{}", ran.stdout, ran.stderr);
    let outcomes = &folder.json("result.json")["sobench"]["outcomes"];
    let count = |name: &str| outcomes[name].as_u64().unwrap_or(0);
    assert_eq!(
        (count("rejected"), count("completed") + count("truncated")),
        (1, 3),
        "{outcomes}"
    );
}
