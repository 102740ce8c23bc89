//! Output formats of one report, made from the log of a run with failures: they agree with each
//! other.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use sobench_embedded::{EmbeddedOptions, EmbeddedServer, Fault};

use crate::cli::assert_fails;
use crate::support::{Ran, cache, sobench};

const REQUESTS: usize = 60;

/// A run against a server with injected faults, its log and its result.
struct FaultyRun {
    folder: tempfile::TempDir,
    log: PathBuf,
    result: Value,
}

fn faulty_run(arguments: &[&str]) -> FaultyRun {
    let faults = ["extra-text@0.3", "error-500@0.1", "truncate@0.1"]
        .map(|fault| Fault::parse(fault).unwrap());
    let server = EmbeddedServer::start(EmbeddedOptions {
        faults: faults.to_vec(),
        ..EmbeddedOptions::default()
    })
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap().to_owned();
    let count = REQUESTS.to_string();
    let mut all = vec![
        "--base-url",
        server.base_url(),
        "--num-prompts",
        &count,
        "--skip-preflight",
        "--disable-tqdm",
    ];
    all.extend([
        "--max-concurrency",
        "8",
        "--save-result",
        "--result-dir",
        &path,
        "--result-filename",
        "run.json",
    ]);
    all.extend_from_slice(arguments);
    let ran = sobench(&all);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let result =
        serde_json::from_str(&std::fs::read_to_string(folder.path().join("run.json")).unwrap())
            .unwrap();
    FaultyRun {
        log: folder.path().join("run.jsonl"),
        folder,
        result,
    }
}

fn report(log: &Path, arguments: &[&str]) -> Ran {
    let mut all = vec!["report", log.to_str().unwrap()];
    all.extend_from_slice(arguments);
    sobench(&all)
}

fn count(result: &Value, key: &str) -> usize {
    usize::try_from(result["sobench"]["quality"][key].as_u64().unwrap()).unwrap()
}

#[test]
fn csv_markdown_and_junit_agree_with_the_result() {
    let run = faulty_run(&["--guided-decoding-ratio", "0.8"]);
    let (constrained, valid) = (
        count(&run.result, "constrained"),
        count(&run.result, "valid"),
    );
    assert!(
        0 < valid && valid < constrained,
        "the injected faults are visible: {valid} of {constrained}"
    );

    let table = report(&run.log, &["--format", "csv"]);
    let lines: Vec<&str> = table
        .stdout
        .split("\r\n")
        .filter(|line| !line.is_empty())
        .collect();
    assert_eq!(lines.len(), 1 + REQUESTS, "{}", table.stdout);
    assert!(
        lines[0].starts_with(
            &sobench_report::csv::column_names()
                .collect::<Vec<_>>()
                .join(",")
        ),
        "{}",
        lines[0]
    );
    let is_right = |line: &&&str| line.contains(",constrained,json,") && line.contains(",valid,");
    assert_eq!(lines.iter().filter(is_right).count(), valid);

    let tests = report(&run.log, &["--format", "junit"]).stdout;
    let (failures, errors) = (
        tests.matches("<failure ").count(),
        tests.matches("<error ").count(),
    );
    assert_eq!(tests.matches("<testcase ").count(), REQUESTS);
    assert!(tests.contains(&format!("tests=\"{REQUESTS}\"")), "{tests}");
    assert!(
        tests.contains(&format!("errors=\"{errors}\" failures=\"{failures}\"")),
        "{tests}"
    );
    assert_eq!(errors as u64, run.result["failed"].as_u64().unwrap());
    let refused_or_failed = count(&run.result, "refused") + count(&run.result, "failed");
    assert_eq!(failures, constrained - valid - refused_or_failed);
    assert!(
        tests.contains("type=\"extra_text\"") && tests.contains("{&quot;"),
        "answers are read from the log"
    );

    let comment = report(&run.log, &["--format", "markdown"]).stdout;
    assert!(
        comment.contains(&format!("| {valid}/{constrained} |"))
            && comment.contains("TTFT, control"),
        "{comment}"
    );
    let whole = report(&run.log, &["--format", "junit", "--junit-per", "dataset"]).stdout;
    assert!(
        whole.contains("tests=\"1\" skipped=\"0\" errors=\"0\" failures=\"1\"")
            && whole.contains("extra_text: "),
        "{whole}"
    );

    let page = report(&run.log, &["--format", "html"]).stdout;
    assert_eq!(
        page.matches("<details class=\"case").count(),
        failures + errors
    );
    assert_eq!(
        page.matches("curl -sS -N &#39;http://127.0.0.1:").count(),
        failures + errors,
        "each with its text"
    );
    assert!(
        page.contains("<mark>")
            && page.contains("concurrent requests")
            && page.contains(&format!("{valid}/{constrained}"))
    );
    for reference in ["<script", "<link", "@import", "url(", "src=", "href="] {
        assert!(
            !page.contains(reference),
            "the page references another file: {reference}"
        );
    }
}

#[test]
fn output_file_never_overwrites_the_log() {
    let run = faulty_run(&[]);
    let path = run.folder.path().join("new/report.csv");
    let ran = report(
        &run.log,
        &["--format", "csv", "--output", path.to_str().unwrap()],
    );
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{}", ran.stderr);
    assert!(
        ran.stderr
            .contains(&format!("csv written: {}", path.display())),
        "{}",
        ran.stderr
    );
    let printed = report(&run.log, &["--format", "csv"]).stdout;
    assert_eq!(std::fs::read_to_string(&path).unwrap(), printed);
    let before = std::fs::read(&run.log).unwrap();
    assert_fails(
        &report(&run.log, &["--output", run.log.to_str().unwrap()]),
        2,
        &["--output would overwrite an input file", "hint: "],
    );
    assert_eq!(std::fs::read(&run.log).unwrap(), before);
    assert_fails(
        &report(&run.log, &["--output", run.folder.path().to_str().unwrap()]),
        3,
        &["cannot write the report"],
    );
}

#[test]
fn run_and_report_write_the_same_files() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let files = ["html", "markdown", "csv", "junit"].map(|form| (form, at(&format!("new/{form}"))));
    let mut arguments: Vec<String> = vec!["--save-failures".into(), "--plot".into()];
    arguments.extend(
        files
            .iter()
            .flat_map(|(form, path)| [format!("--{form}"), path.clone()]),
    );
    let run = faulty_run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    for (form, path) in &files {
        let printed = report(&run.log, &["--format", form]).stdout;
        assert!(
            !printed.is_empty() && std::fs::read_to_string(path).unwrap() == printed,
            "{form}"
        );
    }
    let text = report(&run.log, &["--plot"]).stdout;
    assert!(
        text.contains("\nOver time, ") && text.contains('█') && !text.contains('\u{1b}'),
        "{text}"
    );
    assert!(!report(&run.log, &[]).stdout.contains("Over time"));

    let kept = std::fs::read_to_string(run.folder.path().join("run.failures.jsonl")).unwrap();
    let failures: Vec<Value> = kept
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(failures.len(), REQUESTS - count(&run.result, "valid"));
    let extra = failures
        .iter()
        .find(|output| output["failing_as"] == "extra_text")
        .unwrap();
    assert!(
        extra["answer"].as_str().unwrap().contains('{') && extra["constraint"]["json"].is_object(),
        "{extra}"
    );
    assert!(
        extra["curl"].as_str().unwrap().starts_with("curl ") && extra["prompt"]["text"].is_string(),
        "{extra}"
    );
}

#[test]
fn append_result_adds_a_line_and_keeps_the_logs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let common = [
        "--num-prompts",
        "3",
        "--disable-tqdm",
        "--append-result",
        "--result-dir",
        path,
        "--result-filename",
        "all.jsonl",
    ];
    std::fs::write(folder.path().join("all.jsonl"), "{\"left\": \"open\"}").unwrap();
    for seed in ["1", "2"] {
        let ran = sobench(&[&common[..], &["--seed", seed]].concat());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    }
    let file = std::fs::read_to_string(folder.path().join("all.jsonl")).unwrap();
    let lines: Vec<Value> = file
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 3, "{file}");
    assert_eq!(
        (
            lines[1]["sobench"]["seed"].as_u64(),
            lines[2]["sobench"]["seed"].as_u64()
        ),
        (Some(1), Some(2))
    );
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        3,
        "the file and two logs"
    );
}

#[test]
fn pytorch_records_are_written_beside_the_result() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    for (switch, files) in [("", 2), ("0", 4)] {
        let output = Command::new(env!("CARGO_BIN_EXE_sobench"))
            .args([
                "--num-prompts",
                "3",
                "--disable-tqdm",
                "--save-result",
                "--result-dir",
                path,
                "--result-filename",
                "r.json",
            ])
            .env("SAVE_TO_PYTORCH_BENCHMARK_FORMAT", switch)
            .env("XDG_CACHE_HOME", cache())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            files,
            "{switch:?}: result, log, the log before it, records"
        );
    }
    let records: Value = serde_json::from_str(
        &std::fs::read_to_string(folder.path().join("r.pytorch.json")).unwrap(),
    )
    .unwrap();
    assert_eq!(records[0]["metric"]["name"], "median_ttft_ms");
    assert!(
        records[0]["metric"]["benchmark_values"][0]
            .as_f64()
            .unwrap()
            > 0.0
    );
}

#[test]
fn invalid_output_paths_fail_before_the_first_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one").to_str().unwrap().to_owned();
    let run = ["--num-prompts", "3", "--disable-tqdm", "--no-run-log"];
    assert_fails(
        &sobench(&[&run[..], &["--csv", &path, "--html", &path]].concat()),
        2,
        &["--csv and --html name the same file"],
    );
    assert_fails(
        &sobench(&[&run[..], &["--csv", folder.path().to_str().unwrap()]].concat()),
        3,
        &["cannot write the report"],
    );
    assert_fails(
        &sobench(&[&run[..2], &["--repeat", "2", "--html", &path]].concat()),
        2,
        &["names one report for several runs"],
    );
    assert_fails(
        &sobench(&[&run[..], &["--junit-per", "dataset"]].concat()),
        2,
        &["--junit"],
    );
}
