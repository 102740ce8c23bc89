//! Accuracy with arms of spelling, and with queries.

use std::fs;

use serde_json::{Value, json};

use crate::support::{sobench, sobench_result};

#[test]
fn the_arm_compact_has_no_white_space_and_the_arm_flexible_may_have_some() {
    let (ran, result) = sobench_result(&[
        "--dataset extract --extract-difficulty easy --guided-decoding-backend guidance",
        "--arms compact,flexible --num-prompts 12",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let shares = result["sobench"]["free_choices"]["arms"]
        .as_array()
        .unwrap();
    let of_arm = |name: &str| shares.iter().find(|arm| arm["arm"] == name).unwrap();
    let compact = |name: &str| of_arm(name)["compact"]["hits"].as_u64().unwrap();
    assert_eq!(compact("compact"), 12);
    assert!(compact("flexible") < 12, "{}", of_arm("flexible"));
    let effects = result["sobench"]["accuracy"]["effects"].as_array().unwrap();
    let kinds: Vec<&Value> = effects.iter().map(|effect| &effect["kind"]).collect();
    assert_eq!(kinds, ["compact"]);
}

/// The arguments of a run over one row with a query.
fn query_row(folder: &std::path::Path) -> Vec<String> {
    let row = json!({
        "prompt": "Which dishes cost more than 3?",
        "json": {"type": "object", "properties": {"sql": {"type": "string"}}, "required": ["sql"]},
        "reference": {
            "database": "CREATE TABLE dish (name TEXT, price REAL); INSERT INTO dish VALUES ('soup', 4.5), ('tea', 2);",
            "query": "SELECT name FROM dish WHERE price > 3",
        },
        "score": "sql",
    });
    let path = folder.join("rows.jsonl");
    fs::write(&path, format!("{row}\n")).unwrap();
    let path = path.to_str().unwrap();
    [
        "--dataset custom --dataset-path",
        path,
        "--num-prompts 4 --arms",
    ]
    .into_iter()
    .chain([
        "prompt,prompt+constraint",
        "--embedded-knows 1,1,1 --no-run-log",
    ])
    .map(str::to_owned)
    .collect()
}

#[test]
#[cfg(not(feature = "sql"))]
fn a_build_without_sqlite_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let ran = sobench(&query_row(folder.path()));
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    for text in [
        "error: ",
        "the scorer sql cannot read the reference",
        "--features sql",
        "hint: ",
    ] {
        assert!(ran.stderr.contains(text), "{text}\n{}", ran.stderr);
    }
}

#[test]
#[cfg(feature = "sql")]
fn queries_are_run() {
    let folder = tempfile::tempdir().unwrap();
    let ran = sobench(&query_row(folder.path()));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("100.0"), "{}", ran.stdout);
}
