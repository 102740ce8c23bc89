//! Tests of the command `sobench-tools mask`: output files, drafts, help.

use std::fs::File;

use serde_json::{Value, json};
use sobench_testkit::repository_path;

use crate::support::{Folder, Ran, program, sobench, tools};

/// A fast measurement.
const SHORT: [&str; 2] = [
    "mask",
    "--limit 1 --engine guidance --batch 0 --cold-only --disable-tqdm",
];

fn mask(extra: &[&str]) -> Ran {
    tools(&[&SHORT[..], extra].concat())
}

#[test]
fn unwritable_files_are_detected_before_the_measurement() {
    for flag in [
        "--save /proc/none/x.html",
        "--save Cargo.toml/x.csv",
        "--csv-tags Cargo.toml/x",
    ] {
        let hint = "\nhint: free disk space, or choose";
        mask(&[flag]).assert_fails(3, &["cannot write the report", hint]);
    }
    let folder = Folder::new();
    let table = "index,entry,engine,mine";
    let (kept, json) = (folder.file("kept.csv", table), folder.path("report.json"));
    let ran = mask(&[
        "--save",
        &json,
        "--save",
        &kept,
        "--filter",
        "no such entry",
    ]);
    ran.assert_fails(2, &["no entry"]);
    assert_eq!(
        folder.read("kept.csv"),
        table,
        "only a report replaces an existing file"
    );
    assert!(
        !std::path::Path::new(&json).exists(),
        "the check leaves no file behind"
    );
}

#[test]
fn help_and_docs_name_limits_and_faults() {
    let page = |name: &str| std::fs::read_to_string(repository_path("docs").join(name)).unwrap();
    let granted = format!("{} MiB", sobench_tools::mask::record::RESERVED_BYTES >> 20);
    assert_eq!(
        tools(&["mask", "--help"]).stdout.matches(&granted).count(),
        1,
        "{granted}"
    );
    assert_eq!(
        page("engines.md")
            .matches(&format!("{granted} more"))
            .count(),
        1,
        "{granted}"
    );
    let (help, page) = (sobench(&["serve", "--help"]).stdout, page("serve.md"));
    for kind in sobench_embedded::Fault::kinds() {
        assert!(
            help.contains(&kind) && page.contains(&format!("`{kind}`")),
            "{kind}"
        );
    }
}

#[test]
fn drafts_of_three_engines_are_restored_and_in_every_output() {
    let folder = Folder::new();
    let [corpus, tokenizer] = ["fixtures/mask/traps.jsonl", "fixtures/tokenizer"]
        .map(|path| repository_path(path).to_str().unwrap().to_owned());
    let run = |drafts: &str, rows: &str, extra: &[&str]| {
        let flags = [
            "mask",
            "--engine guidance,xgrammar,outlines --filter ^(integer|enum-of-values|order-of-members)$",
            "--batch 0 --cold-only --disable-tqdm --corpus",
            &corpus,
            "--tokenizer",
            &tokenizer,
            drafts,
            "--rows",
            &folder.path(rows),
        ];
        tools(&[&flags, extra].concat())
    };
    let (json, csv) = (folder.path("report.json"), folder.path("rows.csv"));
    let ran = run(
        "--drafts 4",
        "rows.jsonl",
        &["--save", &json, "--save", &csv],
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let report = folder.json("report.json");
    for engine in report["engines"].as_array().unwrap() {
        let drafts = &engine["drafts"];
        assert_eq!(drafts["first_differences"], json!([]), "{engine}");
        assert_eq!(drafts["refused_rollbacks"]["rollbacks"], 0);
        assert!(drafts["positions"].as_u64() > Some(0), "{engine}");
        assert!(drafts["leaving"]["drafts"].as_u64() > Some(0), "{engine}");
    }
    let heads = folder.read("rows.csv");
    let heads: Vec<&str> = heads.lines().next().unwrap().split(',').collect();
    assert!(heads.contains(&"drafts_accepted"), "{heads:?}");
    // Shards are merged, and other settings are refused.
    for shard in ["1", "2"] {
        let ran = run("--drafts 4", shard, &["--shard", &format!("{shard}/2")]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    }
    let merged = tools(&[
        "merge",
        &folder.path("1"),
        &folder.path("2"),
        "--format json",
    ]);
    let merged: Value = serde_json::from_str(&merged.stdout).unwrap();
    for name in ["along", "leaving", "positions", "trees", "differences"] {
        for engine in 0..3 {
            let [one, other] =
                [&merged, &report].map(|report| &report["engines"][engine]["drafts"][name]);
            assert_eq!(one, other, "{name}");
        }
    }
    run("--drafts 2", "rows.jsonl", &["--resume"]).assert_fails(2, &["drafts is 4, expected 2"]);
}

#[test]
#[cfg(target_os = "linux")]
fn full_disk_hint_names_flags_of_this_command() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let running = program(&SHORT)
        .stdout(full)
        .stderr(std::process::Stdio::piped())
        .spawn();
    let ran = Ran::from(running.unwrap().wait_with_output().unwrap());
    ran.assert_fails(3, &["use --save to write a file instead"]);
    assert!(!ran.has_error("--save-result"), "{}", ran.stderr);
}

#[test]
fn resume_without_a_rows_file_warns_and_starts_over() {
    let folder = Folder::new();
    let ran = mask(&["--resume --rows", &folder.path("mistyped.jsonl")]);
    ran.assert_exits(0, &["no rows file to resume from"]);
}
