//! `sobench mask` as its user meets it: what it refuses, what it says, where it writes.

use crate::support::{Ran, sobench};

/// A measurement that is over at once.
const SHORT: [&str; 9] = [
    "mask",
    "--limit",
    "1",
    "--engine",
    "guidance",
    "--batch",
    "0",
    "--cold-only",
    "--disable-tqdm",
];

fn mask(extra: &[&str]) -> Ran {
    sobench(&[&SHORT[..], extra].concat())
}

#[track_caller]
fn assert_refused(ran: &Ran, code: i32, words: &[&str]) {
    assert_eq!(ran.code, code, "{}", ran.stderr);
    assert!(
        ran.stdout.is_empty(),
        "it was refused before anything was measured:\n{}",
        ran.stdout
    );
    for word in words {
        assert!(
            ran.stderr.contains(word),
            "{word:?} is not in:\n{}",
            ran.stderr
        );
    }
}

#[test]
fn files_that_cannot_be_written_are_found_before_the_measurement() {
    for flags in [
        ["--html", "/nonexist/x.html"],
        ["--csv", "."],
        ["--json", "src"],
        ["--csv-tags", "Cargo.toml/x"],
    ] {
        assert_refused(
            &mask(&flags),
            3,
            &["cannot write the report", "hint: name a file in a folder"],
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let (kept, json) = (
        folder.path().join("kept.csv"),
        folder.path().join("report.json"),
    );
    std::fs::write(&kept, "mine").unwrap();
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
        "mine",
        "what is there is replaced by a report, and by nothing less"
    );
    assert!(!json.exists(), "trying a place leaves nothing there");
}

#[test]
fn no_report_replaces_another() {
    for (flags, words) in [
        (
            &["--html", "-"][..],
            "--html takes the name of a file, and not -",
        ),
        (
            &["--json", "same.out", "--html", "./same.out"],
            "--json and --html name the same file: ./same.out",
        ),
        (
            &["--csv", "a/b", "--rows", "a//b"],
            "--csv and --rows name the same file",
        ),
    ] {
        assert_refused(&mask(flags), 2, &[words, "hint: "]);
    }
}

#[test]
fn help_states_what_a_child_process_is_granted_beside_its_limit() {
    let granted = format!("{} MiB", sobench_mask::record::RESERVED_BYTES >> 20);
    let help = sobench(&["mask", "--help"]).stdout;
    assert!(help.contains(&granted), "{granted} is not in:\n{help}");
    let page = std::fs::read_to_string(sobench_testkit::in_package("docs/engines.md")).unwrap();
    assert!(
        page.contains(&format!("{granted} more")),
        "{granted} is not in docs/engines.md"
    );
}

#[test]
fn numbers_below_nothing_are_named_with_their_flag() {
    for (flags, words) in [
        (["--timeout", "-1"], "--timeout is not a time: -1"),
        (["--memory-limit-mib", "-1"], "'-1' for '--memory-limit-mib"),
        (["--jobs", "-1"], "'-1' for '--jobs"),
        (["--limit", "-1"], "'-1' for '--limit"),
        (["--batch", "-1"], "'-1' for '--batch"),
    ] {
        let ran = sobench(&[&["mask"][..], &flags].concat());
        assert_refused(&ran, 2, &[words]);
    }
    assert_refused(
        &sobench(&["mask", "--limit", "0"]),
        2,
        &["--limit leaves nothing to measure: 0"],
    );
}

#[test]
fn engines_of_servers_are_refused_with_what_this_command_has() {
    for command in ["mask", "serve"] {
        let flag = if command == "mask" {
            "--engine"
        } else {
            "--guided-decoding-backend"
        };
        let ran = sobench(&[command, flag, "lm-format-enforcer"]);
        assert_refused(
            &ran,
            2,
            &[
                "only inside a server",
                "hint: built in are guidance,",
                "with sobench --base-url",
            ],
        );
    }
}

#[test]
fn every_fault_is_in_the_help_and_in_the_docs() {
    let help = sobench(&["serve", "--help"]).stdout;
    let page = std::fs::read_to_string(sobench_testkit::in_package("docs/serve.md")).unwrap();
    for kind in sobench_embedded::Fault::kinds() {
        assert!(
            help.contains(&kind) && page.contains(&format!("`{kind}`")),
            "{kind}"
        );
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_told_with_flags_that_this_command_has() {
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
        stderr.contains("keep it with --json, --csv or --html")
            && !stderr.contains("--save-result"),
        "{stderr}"
    );
}

#[test]
fn a_resume_without_a_rows_file_says_that_it_began_anew() {
    let folder = tempfile::tempdir().unwrap();
    let rows = folder.path().join("mistyped.jsonl");
    let ran = mask(&["--rows", rows.to_str().unwrap(), "--resume"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("no rows file to go on with")
            && ran.stdout.contains("no rows file to go on with"),
        "{}",
        ran.stderr
    );
}
