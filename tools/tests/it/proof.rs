//! Tests of `sobench-tools mask --prove` and `--replay`.

use serde_json::{Value, json};
use sobench_testkit::repository_path;

use crate::support::{Folder, Ran, assert_follows, tools};

/// Two engines on a corpus of known errors, over a small vocabulary.
fn prove(filter: &str, extra: &[&str]) -> Ran {
    let [corpus, tokenizer] = ["fixtures/mask/traps.jsonl", "fixtures/tokenizer"]
        .map(|path| repository_path(path).to_str().unwrap().to_owned());
    let flags = [
        "mask",
        "--prove --budget 300 --disable-tqdm --engine guidance,xgrammar --corpus",
        &corpus,
        "--tokenizer",
        &tokenizer,
        "--filter",
        filter,
    ];
    let ran = tools(&[&flags, extra].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    ran
}

/// A report without fields that differ between runs.
fn without_run_specific_fields(mut report: Value) -> Value {
    for name in [
        "date",
        "wall_ns",
        "shrink_ns",
        "resumed_entries",
        "decisions_per_s",
        "record",
    ] {
        report.as_object_mut().unwrap().remove(name);
    }
    // The size of a shrunk witness depends on the machine's speed.
    for cluster in report["clusters"].as_array_mut().unwrap() {
        for name in ["witness", "keywords", "place"] {
            cluster.as_object_mut().unwrap().remove(name);
        }
    }
    report
}

#[test]
fn proved_errors_have_replayable_witnesses() {
    let folder = Folder::new();
    let [report, witnesses, issues] = ["r.json", "w.jsonl", "issues"].map(|name| folder.path(name));
    let files = [
        "--save",
        &report,
        "--witnesses",
        &witnesses,
        "--issues",
        &issues,
    ];
    prove("^string-length$", &files);
    // xgrammar accepts raw control characters in strings of bounded length, and refuses every
    // escape there.
    let report = folder.json("r.json");
    assert_follows("proof", &report);
    let [guidance, xgrammar] = [0, 1].map(|engine: usize| &report["engines"][engine]);
    let schemas = (&xgrammar["engine"], &xgrammar["wrong_schemas"]);
    assert_eq!(schemas, (&json!("xgrammar"), &json!(1)));
    assert!(
        xgrammar["counts"]["P4"]["wrong"].as_u64() > Some(0),
        "{xgrammar}"
    );
    assert_eq!(guidance["counts"]["P3"]["wrong"], 0);

    let lines = folder.read("w.jsonl");
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(lines.len() >= 3, "{lines:?}");
    for line in &lines {
        assert_follows("witness", line);
    }
    let texts = std::fs::read_dir(&issues).unwrap();
    assert_eq!(texts.count(), lines.len());

    // One that holds, one that another engine does not have, and one that cannot be read.
    let loose = lines
        .iter()
        .find(|line| line["finding"]["proof"] == "P3" && line["engine"] == "xgrammar");
    let loose = loose.expect("xgrammar is too loose there");
    let mut gone = loose.clone();
    gone["engine"] = "guidance".into();
    let mut unknown = gone.clone();
    unknown["constraint"] = json!({"regex": "("});
    let replayed = folder.lines("replayed.jsonl", &[loose.clone(), gone, unknown]);
    for (path, code, expected) in [
        (&witnesses, 0, vec!["holds"; lines.len()]),
        (&replayed, 3, vec!["holds", "gone", "unknown"]),
    ] {
        let ran = tools(&["mask", "--format json --replay", path]);
        assert_eq!(ran.code, code, "{}", ran.stderr);
        let found: Value = serde_json::from_str(&ran.stdout).unwrap();
        let found = found["witnesses"].as_array().unwrap().iter();
        let standings: Vec<&Value> = found.map(|witness| &witness["standing"]).collect();
        assert_eq!(standings, expected);
    }
}

#[test]
fn same_seed_gives_same_proofs_and_resume_continues() {
    let folder = Folder::new();
    let filter = "^(integer|enum-of-values|order-of-members|regex-classes|grammar-brackets-ebnf)$";
    let report = folder.path("report.json");
    let rows = folder.path("rows.jsonl");
    let run = |flags: &str, files: &[&str]| {
        prove(filter, &[&[flags, "--save", &report], files].concat());
        folder.json("report.json")
    };
    let first = run("--seed 3 --jobs 1", &["--rows", &rows]);
    assert!(first["decisions_per_s"].as_f64() > Some(0.0));
    let first = without_run_specific_fields(first);
    assert_eq!(
        first,
        without_run_specific_fields(run("--seed 3 --jobs 2", &[]))
    );
    assert_ne!(first["engines"], run("--seed 4", &[])["engines"]);
    // A header, and a row for each of five entries and two engines.
    let kept = folder.read("rows.jsonl");
    let kept: Vec<&str> = kept.lines().collect();
    assert_eq!(kept.len(), 11);
    folder.file("rows.jsonl", kept[..5].join("\n") + "\n");
    let resumed = run("--seed 3 --jobs 1 --resume", &["--rows", &rows]);
    assert_eq!(folder.read("rows.jsonl").lines().count(), 11);
    // The time of an earlier run is unknown.
    let found = (&resumed["resumed_entries"], &resumed["decisions_per_s"]);
    assert_eq!(found, (&json!(2), &Value::Null));
    assert_eq!(first, without_run_specific_fields(resumed));
}

#[test]
fn merged_proof_shards_equal_a_single_run() {
    let folder = Folder::new();
    let path = |name: &str| folder.path(name);
    let filter = "^(integer|enum-of-values|order-of-members)$";
    prove(filter, &["--seed 3 --save", &path("whole.json")]);
    for shard in ["1", "2"] {
        prove(
            filter,
            &[
                "--seed 3 --shard",
                &format!("{shard}/2"),
                "--rows",
                &path(shard),
            ],
        );
    }
    let merged = tools(&[
        "merge",
        &path("2"),
        &path("1"),
        "--save",
        &path("merged.jsonl"),
    ]);
    merged.assert_exits(0, &["--resume"]);
    let files = [
        "--seed 3 --resume --rows",
        &path("merged.jsonl"),
        "--save",
        &path("merged.json"),
    ];
    prove(filter, &files);
    let merged = folder.json("merged.json");
    assert_eq!(merged["resumed_entries"], 3);
    let whole = folder.json("whole.json");
    assert_eq!(
        without_run_specific_fields(merged),
        without_run_specific_fields(whole)
    );
}

#[test]
fn invalid_flag_combinations_are_rejected() {
    let missing = "/nonexist/w.jsonl";
    let folder = Folder::new();
    let empty = folder.file("empty.jsonl", "{\"a\":1}\n");
    for (flags, code, expected) in [
        (
            &["--prove --engine auto"][..],
            2,
            "--prove does not support the engine auto",
        ),
        (
            &["--prove --save x.html"],
            2,
            "--save has no format for this name: x.html",
        ),
        (&["--prove --format csv"], 2, "--format csv"),
        (&["--prove --witnesses /proc/none/w"], 3, "cannot write"),
        (&["--witnesses w"], 2, "--prove"),
        (
            &["--seed 1"],
            2,
            "--seed has no effect without --sample or --prove: 1",
        ),
        (&["--replay", missing], 2, missing),
        (&["--replay", &empty], 2, "is not a witness"),
        (
            &["--replay", missing, "--witnesses w"],
            2,
            "cannot be used with --witnesses",
        ),
    ] {
        tools(&[&["mask"], flags].concat()).assert_fails(code, &[expected]);
    }
}
