//! Tests of the command `sobench mask`: rejected flags, messages, output files.

use crate::support::{Ran, assert_follows, sobench};

/// A fast measurement.
const SHORT: [&str; 2] = [
    "mask",
    "--limit 1 --engine guidance --batch 0 --cold-only --disable-tqdm",
];

fn mask(extra: &[&str]) -> Ran {
    sobench(&[&SHORT[..], extra].concat())
}

#[track_caller]
fn assert_refused(ran: &Ran, code: i32, expected: &[&str]) {
    assert_eq!(ran.code, code, "{}", ran.stderr);
    assert!(
        ran.stdout.is_empty(),
        "it was rejected before the measurement:\n{}",
        ran.stdout
    );
    for expected_text in expected {
        assert!(
            ran.stderr.contains(expected_text),
            "{expected_text:?} is not in:\n{}",
            ran.stderr
        );
    }
}

#[test]
fn unwritable_files_are_detected_before_the_measurement() {
    for flags in [
        ["--html /nonexist/x.html"],
        ["--csv ."],
        ["--json src"],
        ["--csv-tags Cargo.toml/x"],
    ] {
        assert_refused(
            &mask(&flags),
            3,
            &[
                "cannot write the report",
                "hint: name a file in an existing",
            ],
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let (kept, json) = (
        folder.path().join("kept.csv"),
        folder.path().join("report.json"),
    );
    let table = "index,entry,engine,mine";
    std::fs::write(&kept, table).unwrap();
    let ran = mask(&[
        "--json",
        json.to_str().unwrap(),
        "--csv",
        kept.to_str().unwrap(),
        "--filter",
        "no such entry",
    ]);
    assert_refused(&ran, 2, &["no entry"]);
    assert_eq!(
        std::fs::read_to_string(&kept).unwrap(),
        table,
        "an existing file is only replaced by a report"
    );
    assert!(!json.exists(), "the check leaves no file behind");
}

#[test]
fn help_states_the_reserved_memory_of_a_child_process() {
    let granted = format!("{} MiB", sobench_mask::record::RESERVED_BYTES >> 20);
    let help = sobench(&["mask", "--help"]).stdout;
    assert!(help.contains(&granted), "{granted} is not in:\n{help}");
    let page =
        std::fs::read_to_string(sobench_testkit::repository_path("docs/engines.md")).unwrap();
    assert!(
        page.contains(&format!("{granted} more")),
        "{granted} is not in docs/engines.md"
    );
}

#[test]
fn drafts_of_three_engines_are_restored_and_in_every_output() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (corpus, tokenizer) = (
        sobench_testkit::repository_path("fixtures/mask/traps.jsonl"),
        sobench_testkit::repository_path("fixtures/tokenizer"),
    );
    let (json, csv, html) = (path("report.json"), path("rows.csv"), path("report.html"));
    let run = |rows: &str, extra: &[&str]| {
        let flags = [
            "mask",
            "--corpus",
            corpus.to_str().unwrap(),
            "--tokenizer",
            tokenizer.to_str().unwrap(),
            "--engine guidance,xgrammar,outlines --filter ^(integer|enum-of-values|order-of-members)$",
            "--batch 0 --cold-only --drafts 4 --disable-tqdm --rows",
            rows,
        ];
        let ran = sobench(&[&flags, extra].concat());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran
    };
    let rows = path("rows.jsonl");
    let outputs = ["--json", &json, "--csv", &csv, "--html", &html];
    let ran = run(&rows, &outputs);
    let table = ran.stdout.split("Drafts of 4 tokens").nth(1).unwrap();
    let table = table.split("Memory (unit").next().unwrap();
    for line in table.lines().skip(1) {
        assert!(line.chars().count() <= 100, "{line}");
    }
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    let report: serde_json::Value = serde_json::from_str(&read(&json)).unwrap();
    assert_follows("mask", &report);
    for row in read(&rows).lines().skip(1) {
        assert_follows("mask-row", &serde_json::from_str(row).unwrap());
    }
    for engine in report["engines"].as_array().unwrap() {
        let drafts = &engine["drafts"];
        assert_eq!(
            drafts["first_differences"],
            serde_json::json!([]),
            "{engine}"
        );
        assert_eq!(drafts["refused_rollbacks"]["rollbacks"], 0);
        assert!(drafts["positions"].as_u64() > Some(0), "{engine}");
        assert!(drafts["leaving"]["drafts"].as_u64() > Some(0), "{engine}");
    }
    assert!(
        read(&csv)
            .lines()
            .next()
            .unwrap()
            .contains("drafts_accepted")
    );
    assert!(read(&html).contains("Drafts of 4 tokens"));
    // Shards are merged, and other settings are refused.
    for shard in ["1", "2"] {
        run(&path(shard), &["--shard", &format!("{shard}/2")]);
    }
    let merged = sobench(&["merge", &path("1"), &path("2"), "--format json"]);
    assert_eq!(merged.code, 0, "{}", merged.stderr);
    let merged: serde_json::Value = serde_json::from_str(&merged.stdout).unwrap();
    for name in ["along", "leaving", "positions", "trees", "differences"] {
        for engine in 0..3 {
            assert_eq!(
                merged["engines"][engine]["drafts"][name],
                report["engines"][engine]["drafts"][name],
                "{name}"
            );
        }
    }
    let other = sobench(&[
        "mask",
        "--corpus",
        corpus.to_str().unwrap(),
        "--tokenizer",
        tokenizer.to_str().unwrap(),
        "--engine guidance,xgrammar,outlines --filter ^(integer|enum-of-values|order-of-members)$",
        "--cold-only --drafts 2 --rows",
        &rows,
        "--resume",
    ]);
    assert_refused(&other, 2, &["drafts is 4, expected 2"]);
}

#[test]
fn every_fault_kind_is_in_help_and_docs() {
    let help = sobench(&["serve", "--help"]).stdout;
    let page = std::fs::read_to_string(sobench_testkit::repository_path("docs/serve.md")).unwrap();
    for kind in sobench_embedded::Fault::kinds() {
        assert!(
            help.contains(&kind) && page.contains(&format!("`{kind}`")),
            "{kind}"
        );
    }
}

#[test]
#[cfg(target_os = "linux")]
fn full_disk_hint_names_flags_of_this_command() {
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let ran = std::process::Command::new(env!("CARGO_BIN_EXE_sobench"))
        .args(SHORT)
        .stdout(full)
        .output()
        .unwrap();
    let stderr = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(3), "{stderr}");
    assert!(
        stderr.contains("use --json, --csv or --html to write a file instead")
            && !stderr.contains("--save-result"),
        "{stderr}"
    );
}

#[test]
fn resume_without_a_rows_file_warns_and_starts_over() {
    let folder = tempfile::tempdir().unwrap();
    let rows = folder.path().join("mistyped.jsonl");
    let ran = mask(&["--rows", rows.to_str().unwrap(), "--resume"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("no rows file to resume from")
            && ran.stdout.contains("no rows file to resume from"),
        "{}",
        ran.stderr
    );
}
