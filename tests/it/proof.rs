//! Tests of `sobench mask --prove` and `--replay`.

use std::path::Path;

use serde_json::Value;
use sobench_testkit::repository_path;

use crate::support::{Ran, assert_follows, sobench};

/// Two engines on a corpus of known errors, over a small vocabulary.
fn prove(filter: &str, seed: &str, extra: &[&str]) -> Ran {
    let (corpus, tokenizer) = (
        repository_path("fixtures/mask/traps.jsonl"),
        repository_path("fixtures/tokenizer"),
    );
    let flags = [
        "mask",
        "--prove --corpus",
        corpus.to_str().unwrap(),
        "--tokenizer",
        tokenizer.to_str().unwrap(),
        "--filter",
        filter,
        "--seed",
        seed,
        "--budget 300 --disable-tqdm",
    ];
    let engines: &[&str] = if extra.contains(&"--engine") {
        &[]
    } else {
        &["--engine guidance,xgrammar"]
    };
    sobench(&[&flags, engines, extra].concat())
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// A report without fields that differ between runs.
fn without_run_specific_fields(path: &Path) -> Value {
    let mut report = json(path);
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
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (report, witnesses, issues) =
        (path("report.json"), path("witnesses.jsonl"), path("issues"));
    let ran = prove(
        "^string-length$",
        "0",
        &[
            "--json",
            &report,
            "--witnesses",
            &witnesses,
            "--issues",
            &issues,
        ],
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    // xgrammar accepts raw control characters in strings of bounded length, and refuses every
    // escape there.
    for expected in [
        "Proven errors in masks",
        "xgrammar P4 too loose",
        "xgrammar P3 too loose",
        "Declared departures",
    ] {
        assert!(
            ran.stdout.contains(expected),
            "{expected} is not in:\n{}",
            ran.stdout
        );
    }
    let report = json(Path::new(&report));
    assert_follows("proof", &report);
    let xgrammar = &report["engines"][1];
    assert_eq!(
        (&xgrammar["engine"], &xgrammar["wrong_schemas"]),
        (&"xgrammar".into(), &1.into())
    );
    assert!(
        xgrammar["counts"]["P4"]["wrong"].as_u64().unwrap() > 0,
        "{xgrammar}"
    );
    assert_eq!(report["engines"][0]["counts"]["P3"]["wrong"], 0);

    let lines = std::fs::read_to_string(&witnesses).unwrap();
    assert!(lines.lines().count() >= 3, "{lines}");
    lines
        .lines()
        .for_each(|line| assert_follows("witness", &serde_json::from_str(line).unwrap()));
    let texts: Vec<_> = std::fs::read_dir(&issues)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(texts.len(), lines.lines().count());
    for text in texts {
        let text = std::fs::read_to_string(text).unwrap();
        assert!(
            text.starts_with("# ") && text.contains("sobench mask --replay"),
            "{text}"
        );
    }

    let replayed = sobench(&["mask", "--replay", &witnesses]);
    assert_eq!(replayed.code, 0, "{}{}", replayed.stdout, replayed.stderr);
    assert!(
        replayed.stdout.contains(" hold, 0 gone, 0 unknown"),
        "{}",
        replayed.stdout
    );
}

#[test]
fn replay_reports_holds_gone_and_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("witnesses.jsonl");
    let ran = prove(
        "^string-length$",
        "0",
        &["--witnesses", path.to_str().unwrap(), "--engine xgrammar"],
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let lines = std::fs::read_to_string(&path).unwrap();
    let loose = lines
        .lines()
        .find(|line| line.contains("\"proof\":\"P3\""))
        .expect("xgrammar is too loose there");
    let mut gone: Value = serde_json::from_str(loose).unwrap();
    gone["engine"] = "guidance".into();
    let mut unknown = gone.clone();
    unknown["constraint"] = serde_json::json!({"regex": "("});
    std::fs::write(&path, format!("{loose}\n\n{gone}\n{unknown}\n")).unwrap();
    let ran = sobench(&["mask", "--replay", path.to_str().unwrap(), "--format json"]);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    let replayed: Value = serde_json::from_str(&ran.stdout).unwrap();
    let standings: Vec<&str> = replayed["witnesses"]
        .as_array()
        .unwrap()
        .iter()
        .map(|witness| witness["standing"].as_str().unwrap())
        .collect();
    assert_eq!(standings, ["holds", "gone", "unknown"], "{replayed}");
}

#[test]
fn same_seed_gives_same_proofs_and_resume_continues() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let filter = "^(integer|enum-of-values|order-of-members|regex-classes|grammar-brackets-ebnf)$";
    let run = |name: &str, seed: &str, extra: &[&str]| {
        let ran = prove(
            filter,
            seed,
            &[&["--json", &path(name)][..], extra].concat(),
        );
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        without_run_specific_fields(Path::new(&path(name)))
    };
    let rows = path("rows.jsonl");
    let first = run("a", "3", &["--jobs 1 --rows", &rows]);
    assert_eq!(first, run("b", "3", &["--jobs 2"]));
    assert_ne!(first["engines"], run("c", "4", &[])["engines"]);
    let kept: Vec<String> = std::fs::read_to_string(&rows)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    assert_eq!(
        kept.len(),
        11,
        "a header, and a row for each of five entries and two engines"
    );
    std::fs::write(&rows, kept[..5].join("\n") + "\n").unwrap();
    assert_eq!(
        first,
        run("d", "3", &["--jobs 1 --rows", &rows, "--resume"])
    );
    assert_eq!(std::fs::read_to_string(&rows).unwrap().lines().count(), 11);
    // The time of an earlier run is unknown.
    let report = json(Path::new(&path("d")));
    assert_eq!(
        (&report["resumed_entries"], &report["decisions_per_s"]),
        (&2.into(), &Value::Null)
    );
    assert!(
        json(Path::new(&path("a")))["decisions_per_s"]
            .as_f64()
            .unwrap()
            > 0.0
    );
}

#[test]
fn merged_proof_shards_equal_a_single_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let filter = "^(integer|enum-of-values|order-of-members)$";
    let run = |extra: &[&str]| {
        let ran = prove(filter, "3", extra);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran
    };
    run(&["--json", &path("whole.json")]);
    for shard in ["1", "2"] {
        run(&["--shard", &format!("{shard}/2"), "--rows", &path(shard)]);
    }
    let merged = sobench(&["merge", &path("2"), &path("1"), "--output", &path("merged")]);
    assert_eq!(merged.code, 0, "{}", merged.stderr);
    assert!(merged.stderr.contains("--resume"), "{}", merged.stderr);
    let resumed = run(&[
        "--rows",
        &path("merged"),
        "--resume",
        "--json",
        &path("merged.json"),
    ]);
    assert!(
        resumed.stdout.contains("3 entries from an earlier run"),
        "{}",
        resumed.stdout
    );
    assert_eq!(
        without_run_specific_fields(Path::new(&path("merged.json"))),
        without_run_specific_fields(Path::new(&path("whole.json")))
    );
}

#[test]
fn invalid_flag_combinations_are_rejected() {
    let missing = "/nonexist/w.jsonl";
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.jsonl");
    std::fs::write(&empty, "{\"a\":1}\n").unwrap();
    for (flags, code, expected) in [
        (
            &["--prove --engine auto"][..],
            2,
            "--prove does not support the engine auto",
        ),
        (
            &["--prove --html x.html"],
            2,
            "unsupported output for proofs: --html",
        ),
        (&["--prove --format csv"], 2, "--format csv"),
        (&["--prove --witnesses /nonexist/w"], 3, "cannot write"),
        (&["--witnesses w"], 2, "--prove"),
        (
            &["--seed 1"],
            2,
            "--seed has no effect without --sample or --prove: 1",
        ),
        (&["--replay", missing], 2, missing),
        (
            &["--replay", empty.to_str().unwrap()],
            2,
            "is not a witness",
        ),
        (
            &["--replay", missing, "--witnesses w"],
            2,
            "cannot be used with --witnesses",
        ),
    ] {
        let ran = sobench(&[&["mask"], flags].concat());
        assert_eq!(ran.code, code, "{flags:?}: {}", ran.stderr);
        assert!(
            ran.stderr.contains(expected),
            "{expected:?} is not in:\n{}",
            ran.stderr
        );
    }
}
