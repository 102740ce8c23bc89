//! Sharded corpora of `sobench-tools mask`: the merged rows of the shards equal those of one measurement.

use serde_json::Value;
use sobench_testkit::repository_path;

use crate::support::{Ran, tools};

fn mask(more: &[&str]) -> Ran {
    let corpus = format!(
        "custom:{}",
        repository_path("fixtures/mask/traps.jsonl").display()
    );
    let fixed = [
        "mask",
        "--corpus",
        &corpus,
        "--engine guidance --limit 7 --cold-only --batch 0",
    ];
    tools(&[&fixed[..], &["--jobs 1 --disable-tqdm"], more].concat())
}

/// The rows of a file in order, without costs.
fn outcomes(path: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text.lines().skip(1).map(|line| {
        let mut row: Value = serde_json::from_str(line).unwrap();
        let members = row.as_object_mut().unwrap();
        ["compile", "times"]
            .iter()
            .for_each(|name| drop(members.remove(*name)));
        if let Some(declined) = members.get_mut("declined").and_then(Value::as_object_mut) {
            declined.remove("after_ns");
        }
        row
    });
    rows.collect()
}

#[test]
fn sharded_corpus_is_measured_once_and_merged() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let whole = mask(&["--rows", &at("whole.jsonl")]);
    assert_eq!(whole.code, 0, "{}", whole.stderr);
    for number in 1..=3 {
        let ran = mask(&[
            "--shard",
            &format!("{number}/3"),
            "--rows",
            &at(&format!("shard-{number}")),
        ]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let page = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            page.contains(&format!(
                "shard {number} of 3: the figures include only the entries of this shard"
            )),
            "{page}"
        );
    }
    let shards = [at("shard-3"), at("shard-1"), at("shard-2")];
    let merge =
        |more: &[&str]| tools(&[&["merge", &shards[0], &shards[1], &shards[2]][..], more].concat());
    let merged = merge(&["--save", &at("merged.jsonl")]);
    assert_eq!(merged.code, 0, "{}", merged.stderr);
    let mut expected = outcomes(&at("whole.jsonl"));
    expected.sort_by_key(|row| row["index"].as_u64());
    let found = outcomes(&at("merged.jsonl"));
    assert_eq!(
        (found.len(), &found),
        (7, &expected),
        "the rows of the whole measurement in order"
    );
    assert!(
        merged.stdout.contains("Outcomes of schemas"),
        "{}",
        merged.stdout
    );
    // Resuming the whole measurement has nothing left to do.
    let resumed = mask(&["--rows", &at("merged.jsonl"), "--resume"]);
    assert!(
        resumed.code == 0 && resumed.stderr.contains("resuming: 7 of 7 rows are done"),
        "{}",
        resumed.stderr
    );
    let json: Value = serde_json::from_str(&merge(&["--format json"]).stdout).unwrap();
    assert_eq!(
        (
            json["record"]["selected"].as_u64(),
            json["record"].get("shard")
        ),
        (Some(7), None)
    );
    let schema: Value =
        serde_json::from_str(include_str!("../../../schemas/contracts/mask.schema.json")).unwrap();
    let part: Value =
        serde_json::from_str(&mask(&["--shard 1/3 --rows", &at("again"), "--format json"]).stdout)
            .unwrap();
    for report in [&json, &part] {
        let errors: Vec<String> = jsonschema::draft202012::new(&schema)
            .unwrap()
            .iter_errors(report)
            .map(|value| value.to_string())
            .collect();
        assert!(errors.is_empty(), "{errors:?}");
    }
    assert_eq!(
        (
            part["record"]["selected"].as_u64(),
            part["record"]["shard"]["number"].as_u64()
        ),
        (Some(3), Some(1))
    );
    merge(&["--save", &at("whole.jsonl")]).assert_fails(2, &["rows file already exists"]);
    merge(&["--format junit"]).assert_fails(2, &["invalid value for --format: junit"]);
    tools(&["merge", &shards[0], &shards[1]])
        .assert_fails(2, &["missing of 3 shards: the file of shard 2"]);
}

#[test]
fn invalid_corpus_shards_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let rows = folder.path().join("rows").to_str().unwrap().to_owned();
    for (arguments, expected) in [
        (
            &["--shard 1/2"][..],
            "--shard requires --rows, to merge the shards: 1/2",
        ),
        (
            &["--shard 9/9 --rows", &rows],
            "no entry for --shard 9/9, of 7 selected entries",
        ),
        (
            &["--shard 0/2 --rows", &rows],
            "--shard is not a shard from 1/2 to 2/2: 0/2",
        ),
        (
            &["--replay none --shard 1/2"],
            "--shard cannot be used with --replay: 1/2",
        ),
    ] {
        mask(arguments).assert_fails(2, &[expected, "hint: "]);
    }
}
