//! Schemas that would exhaust memory or stack fail only their own request.

use std::io::Write as _;
use std::process::Command;

use serde_json::{Map, Value, json};

use crate::support::cache;

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
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let fine = json!({ "type": "object", "properties": { "a": { "type": "integer" } }, "required": ["a"] });
    // A chain of 12,000 references, and 2^40 empty schemas in 40 definitions.
    let row = definitions(12_000, json!({ "type": "null" }), |below| below);
    let doubling = definitions(40, json!({}), |below| json!({ "allOf": [below, below] }));
    for schema in [fine.clone(), row, doubling, fine] {
        writeln!(file, "{}", json!({ "prompt": "go on", "json": schema })).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new("sh")
        .args([
            "-c",
            "ulimit -v 8000000; exec \"$0\" \"$@\"",
            env!("CARGO_BIN_EXE_sobench"),
        ])
        .args([
            "--dataset custom --num-prompts 4 --guided-decoding-backend guidance",
            "--disable-tqdm",
        ])
        .arg("--dataset-path")
        .arg(file.path())
        .args(["--save-result --result-filename result.json --result-dir"])
        .arg(folder.path())
        .env("NO_PROXY", "127.0.0.1")
        .env("XDG_CACHE_HOME", cache())
        .output()
        .unwrap();
    let printed = format!(
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(0), "{printed}");
    let text = std::fs::read_to_string(folder.path().join("result.json")).unwrap();
    let own = &serde_json::from_str::<Value>(&text).unwrap()["sobench"];
    let count = |name: &str| own["outcomes"][name].as_u64().unwrap_or(0);
    assert_eq!(
        (count("rejected"), count("completed") + count("truncated")),
        (1, 3),
        "{printed}"
    );
}
