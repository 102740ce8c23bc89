//! Output files: ours may be written again, those of others stay, and a failed write changes
//! nothing.

use std::fs;
use std::path::Path;

use crate::support::{Ran, choice_server, ran, through_shell};

const FOREIGN: &str = "{\"type\": \"object\"}\n";

/// Runs a command line in a folder, with a limit of file sizes in blocks of 512 bytes.
fn run(folder: &Path, words: &str, blocks: &str) -> Ran {
    let limited = format!("ulimit -f {blocks} && exec \"$@\"");
    let words: Vec<&str> = words.split_whitespace().collect();
    ran(through_shell(&limited, &words).current_dir(folder))
}

const RUN: &str = "--dataset choice --num-prompts 3 --disable-tqdm --skip-preflight --base-url";

#[test]
fn outputs_of_ours_may_be_written_again() {
    let (folder, server) = (tempfile::tempdir().unwrap(), choice_server());
    let run_of = format!("{RUN} {}", server.base_url);
    let commands = [
        "--save r.html --save r.md --save r.csv --save r.xml --run-log r.jsonl --save-failures --plot-timeline \
         --plot-dataset-stats --save-result --result-filename r.json",
        "--no-run-log --save-result --result-format vllm-serve --result-filename v.json",
        "--no-run-log --save-result --result-format vllm-structured --result-filename s.json",
        "--no-run-log --repeat 2 --save c.json --save c.md --save c.html --save c.txt",
    ]
    .map(|flags| format!("{run_of} {flags}"));
    let formats = ["txt", "json", "jsonl", "csv", "md", "html", "xml"];
    let reports = formats.map(|ending| format!("report r.jsonl --save report.{ending}"));
    let others = [
        "report r.jsonl --detail full --save full.txt",
        "score r.jsonl --save scores.jsonl",
        "score r.jsonl r.jsonl --save scores2.jsonl",
        "compare r.jsonl --write-baseline base.json",
        "preflight --kind choice --save p.json",
        "preflight --features --keyword enum --samples 1 --save f.json",
        "mask --corpus shipped --limit 1 --engine guidance --save m.json --save m.csv --csv-tags t.csv --save m.html",
        "man --output-dir pages",
    ];
    let commands = commands
        .into_iter()
        .chain(reports)
        .chain(others.map(str::to_owned));
    for command in commands {
        for _ in 0..2 {
            let ran = run(folder.path(), &command, "unlimited");
            assert_ne!(ran.code, 2, "{command}: {}", ran.stderr);
        }
    }
    let parts = fs::read_dir(folder.path()).unwrap();
    let mut names = parts.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(
        names.all(|name| !name.starts_with('.')),
        "no unfinished files stay"
    );
}

#[test]
fn files_of_others_stay() {
    let (folder, server) = (tempfile::tempdir().unwrap(), choice_server());
    let run_of = format!("{RUN} {}", server.base_url);
    let at = |name: &str| folder.path().join(name);
    for (flags, file) in [
        ("--save f.html --no-run-log", "f.html"),
        ("--run-log f", "f"),
        ("--save-result --result-filename f.json", "f.json"),
        ("--save-result --result-filename f.json", "f.jsonl"),
        (
            "--save-failures --no-run-log --result-filename f.json",
            "f.failures.jsonl",
        ),
        ("--repeat 2 --run-log f{repeat}.jsonl", "f2.jsonl"),
        ("--repeat 2 --no-run-log --save f.md", "f.md"),
    ] {
        fs::write(at(file), FOREIGN).unwrap();
        let ran = run(folder.path(), &format!("{run_of} {flags}"), "unlimited");
        assert_eq!(ran.code, 2, "{flags}: {}", ran.stderr);
        let expected = format!("would overwrite a file that sobench did not write: {file}\nhint: ");
        assert!(
            ran.stderr.replace("./", "").contains(&expected),
            "{}",
            ran.stderr
        );
        assert_eq!(fs::read_to_string(at(file)).unwrap(), FOREIGN);
        let names = fs::read_dir(folder.path()).unwrap();
        assert_eq!(names.count(), 1, "{flags}: nothing else is written");
        let ran = run(
            folder.path(),
            &format!("{run_of} {flags} --force"),
            "unlimited",
        );
        assert_eq!(ran.code, 0, "{flags}: {}", ran.stderr);
        for entry in fs::read_dir(folder.path()).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }
}

#[test]
fn a_hint_never_turns_an_input_into_an_output() {
    let folder = tempfile::tempdir().unwrap();
    for (typed, suggested) in [
        ("preflight --json-schema-path f", None),
        ("mask --json-schema f", None),
        ("preflight --sav f", Some("try --save")),
    ] {
        let ran = run(folder.path(), typed, "unlimited");
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        match suggested {
            Some(hint) => assert!(ran.stderr.contains(hint), "{}", ran.stderr),
            None => assert!(!ran.stderr.contains("try --save\n"), "{}", ran.stderr),
        }
    }
}

/// A file size limit is like a full disk.
#[test]
fn a_full_disk_leaves_the_old_files() {
    let (folder, server) = (tempfile::tempdir().unwrap(), choice_server());
    let run_of = format!("{RUN} {}", server.base_url);
    let ran = run(
        folder.path(),
        &format!("{run_of} --run-log r.jsonl"),
        "unlimited",
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for (command, file) in [
        ("compare r.jsonl --write-baseline base.json", "base.json"),
        ("report r.jsonl --save r.html", "r.html"),
        ("preflight --save p.json", "p.json"),
        (
            "mask --corpus shipped --limit 1 --engine guidance --save m.html",
            "m.html",
        ),
        (
            &format!("{run_of} --no-run-log --save-result --result-filename s.json"),
            "s.json",
        ),
        (
            &format!("{run_of} --no-run-log --append-result --result-filename a.json"),
            "a.json",
        ),
        (
            &format!("{run_of} --no-run-log --repeat 2 --save c.json"),
            "c.json",
        ),
    ] {
        let ran = run(folder.path(), command, "unlimited");
        assert!(ran.code <= 1, "{command}: {}", ran.stderr);
        let before = fs::read(folder.path().join(file)).unwrap();
        // The size of an appended file counts from its start.
        let blocks = if file == "a.json" {
            before.len() / 512 + 1
        } else {
            1
        };
        let ran = run(folder.path(), command, &blocks.to_string());
        ran.assert_exits(3, &["File too large"]);
        let after = fs::read(folder.path().join(file)).unwrap();
        assert!(after == before, "{command}: {file} changed");
        let mut names = fs::read_dir(folder.path()).unwrap();
        let is_part = |name: &str| name.starts_with('.');
        assert!(
            names.all(|entry| !is_part(entry.unwrap().file_name().to_str().unwrap())),
            "{command}"
        );
    }
}

#[test]
fn a_single_run_fills_the_placeholders_of_its_log() {
    let (folder, server) = (tempfile::tempdir().unwrap(), choice_server());
    let run_of = format!("{RUN} {}", server.base_url);
    let flags = "--guided-decoding-backend guidance --run-log logs/{dataset}-{server}-{engine}-{repeat}.jsonl";
    let ran = run(folder.path(), &format!("{run_of} {flags}"), "unlimited");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    // The server selects its engine: server and engine are its address.
    let address = server
        .base_url
        .trim_start_matches("http://")
        .replace(':', "-");
    let log = format!("logs/choice-{address}-{address}-1.jsonl");
    assert!(folder.path().join(&log).exists(), "{log}: {}", ran.stderr);
    let not_a_placeholder = format!("{run_of} --run-log {{serve}}.jsonl");
    let ran = run(folder.path(), &not_a_placeholder, "unlimited");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}
