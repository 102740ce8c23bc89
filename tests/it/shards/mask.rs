//! A corpus dealt out to several measurements of engines: the rows of the shards, merged, are those
//! of one measurement.

use serde_json::Value;
use sobench_testkit::in_package;

use crate::cli::assert_fails;
use crate::support::{Ran, sobench};

fn mask(more: &[&str]) -> Ran {
    let corpus = format!(
        "custom:{}",
        in_package("fixtures/mask/traps.jsonl").display()
    );
    let fixed = [
        "mask",
        "--corpus",
        &corpus,
        "--engine",
        "guidance",
        "--limit",
        "7",
        "--cold-only",
        "--batch",
        "0",
    ];
    sobench(&[&fixed[..], &["--jobs", "1", "--disable-tqdm"], more].concat())
}

/// The rows of a file without what they cost, in its order.
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
fn a_corpus_in_shards_is_measured_once_and_merges() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let whole = mask(&["--rows", &at("whole")]);
    assert_eq!(whole.code, 0, "{}", whole.stderr);
    for number in 1..=3 {
        let ran = mask(&[
            "--shard",
            &format!("{number}/3"),
            "--rows",
            &at(&format!("shard-{number}")),
        ]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let said = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            said.contains(&format!(
                "shard {number} of 3: every figure is of this part"
            )),
            "{said}"
        );
    }
    let shards = [at("shard-3"), at("shard-1"), at("shard-2")];
    let merge = |more: &[&str]| {
        sobench(&[&["merge", &shards[0], &shards[1], &shards[2]][..], more].concat())
    };
    let merged = merge(&["--output", &at("merged")]);
    assert_eq!(merged.code, 0, "{}", merged.stderr);
    let mut expected = outcomes(&at("whole"));
    expected.sort_by_key(|row| row["index"].as_u64());
    let found = outcomes(&at("merged"));
    assert_eq!(
        (found.len(), &found),
        (7, &expected),
        "the rows of the whole, in its order"
    );
    assert!(
        merged.stdout.contains("Outcomes of schemas"),
        "{}",
        merged.stdout
    );
    // A measurement of the whole has nothing left to do.
    let resumed = mask(&["--rows", &at("merged"), "--resume"]);
    assert!(
        resumed.code == 0 && resumed.stderr.contains("7 of 7 rows are there already"),
        "{}",
        resumed.stderr
    );
    let json: Value = serde_json::from_str(&merge(&["--format", "json"]).stdout).unwrap();
    assert_eq!(
        (
            json["about"]["selected"].as_u64(),
            json["about"].get("shard")
        ),
        (Some(7), None)
    );
    let schema: Value =
        serde_json::from_str(include_str!("../../../schemas/contracts/mask.schema.json")).unwrap();
    let part: Value = serde_json::from_str(
        &mask(&["--shard", "1/3", "--rows", &at("again"), "--format", "json"]).stdout,
    )
    .unwrap();
    for report in [&json, &part] {
        let errors: Vec<String> = jsonschema::draft202012::new(&schema)
            .unwrap()
            .iter_errors(report)
            .map(|it| it.to_string())
            .collect();
        assert!(errors.is_empty(), "{errors:?}");
    }
    assert_eq!(
        (
            part["about"]["selected"].as_u64(),
            part["about"]["shard"]["number"].as_u64()
        ),
        (Some(3), Some(1))
    );
    assert_fails(
        &merge(&["--output", &at("whole")]),
        2,
        &["rows file exists already"],
    );
    assert_fails(
        &merge(&["--format", "junit"]),
        2,
        &["a measurement of engines has no such report: --format junit"],
    );
    assert_fails(
        &sobench(&["merge", &shards[0], &shards[1]]),
        2,
        &["of 3 shards the file of shard 2 is missing"],
    );
}

#[test]
fn what_a_shard_of_a_corpus_cannot_be_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let rows = folder.path().join("rows").to_str().unwrap().to_owned();
    for (arguments, words) in [
        (
            &["--shard", "1/2"][..],
            "a shard without rows cannot be merged with the others: --shard 1/2",
        ),
        (
            &["--shard", "9/9", "--rows", &rows],
            "7 entries are selected, none for --shard 9/9",
        ),
        (
            &["--shard", "0/2", "--rows", &rows],
            "--shard is no shard from 1/2 to 2/2: 0/2",
        ),
        (
            &["--replay", "none", "--shard", "1/2"],
            "witnesses are not dealt out: --shard 1/2",
        ),
    ] {
        assert_fails(&mask(arguments), 2, &[words, "hint: "]);
    }
}
