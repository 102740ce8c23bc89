//! GitHub action: `deploy/github/gate.sh`, its inputs, its outputs and the pull request comment.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use sobench_testkit::repository_path;
use sobench_testkit::scripted::{ScriptedServer, free_port, models, whole};

use super::{executable, path_with, script};
use crate::support::Ran;

/// Arguments of every run in this file.
const RUN: [&str; 5] = ["--", "--dataset", "choice", "--num-prompts", "60"];

fn gate(folder: &Path, options: &[&str], run: &[&str]) -> (i32, String, String) {
    let ran = script("github/gate.sh", folder, &[options, run].concat(), &[]);
    let at = options
        .iter()
        .position(|option| *option == "--results")
        .map_or("sobench-results", |at| options[at + 1]);
    (
        ran.code,
        ran.stderr,
        fs::read_to_string(folder.join(at).join("comment.md")).unwrap_or_default(),
    )
}

fn title(comment: &str) -> &str {
    comment.lines().next().unwrap_or_default()
}

#[track_caller]
fn assert_parts(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
}

/// Writes `base.json`, and returns the comment.
fn baseline_in(folder: &Path) -> String {
    let (code, stderr, comment) = gate(
        folder,
        &["--write-baseline", "base.json", "--results", "first"],
        &RUN,
    );
    assert_eq!(code, 0, "{stderr}");
    comment
}

#[test]
fn runs_are_compared_with_the_baseline_in_the_comment() {
    let folder = tempfile::tempdir().unwrap();
    let comment = baseline_in(folder.path());
    assert_eq!(title(&comment), "### sobench: the baseline was written");

    let kept = [
        "--baseline",
        "base.json",
        "--fail-on",
        "correct_rate<-5pp",
        "--require",
        "correct_rate>=99.5",
    ];
    let twice = [&kept[..], &["--runs", "2", "--results", "second"]].concat();
    let (code, stderr, comment) = gate(folder.path(), &twice, &RUN);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(title(&comment), "### sobench: passed");
    let answer = comment.lines().nth(2).unwrap_or_default();
    assert!(answer.starts_with("- **enforced?** "), "{comment}");
    assert_parts(
        &comment,
        &[
            "| B runs<br>2 runs |",
            "<details><summary>The last run</summary>",
        ],
    );

    // Another server that fails a fifth of the requests. The gate starts it, and it has a child
    // process.
    let port = free_port().port();
    let server = format!(
        "sleep 1000 & echo $! >child; exec {} serve --port {port} --fault error-500@0.2",
        env!("CARGO_BIN_EXE_sobench")
    );
    let url = format!("http://127.0.0.1:{port}");
    let worse = [
        &kept[..],
        &[
            "--server",
            &server,
            "--server-url",
            &url,
            "--results",
            "third",
        ],
    ]
    .concat();
    let (code, stderr, comment) = gate(folder.path(), &worse, &RUN);
    assert_eq!(code, 1, "{stderr}");
    assert_eq!(title(&comment), "### sobench: failed: a rule was broken");
    assert_parts(&comment, &["gate: B: correct_rate<-5pp"]);
    let child = fs::read_to_string(folder.path().join("child")).unwrap();
    assert!(
        !Command::new("kill")
            .args(["-0", child.trim()])
            .output()
            .unwrap()
            .status
            .success(),
        "the server's child has ended"
    );
    assert!(
        TcpStream::connect(("127.0.0.1", port)).is_err(),
        "and so has the server"
    );
}

/// Undecided is neither passed nor failed, and the later steps follow it.
#[test]
fn undecided_gate_ends_with_its_own_code_after_all_runs() {
    let folder = tempfile::tempdir().unwrap();
    baseline_in(folder.path());
    let rule = [
        "--baseline",
        "base.json",
        "--fail-on",
        "correct_rate<-0.5pp",
    ];
    for (undecided, name, expected) in [
        (&[][..], "none", (5, "### sobench: undecided: ")),
        (&["--undecided", "pass"], "pass", (0, "### sobench: passed")),
        (
            &["--undecided", "fail"],
            "fail",
            (1, "### sobench: failed: "),
        ),
    ] {
        let options = [&rule[..], undecided, &["--results", name]].concat();
        let (code, stderr, comment) = gate(folder.path(), &options, &RUN);
        assert_eq!(code, expected.0, "{stderr}");
        assert!(title(&comment).starts_with(expected.1), "{comment}");
        assert_parts(&comment, &["0.5 pp needs about 600 requests a side"]);
    }
    // A bound that a run does not decide does not end the runs; a broken one has its own code.
    let bound = [
        "--require",
        "p99_e2el_ms<=0.001",
        "--runs",
        "2",
        "--results",
    ];
    let (code, stderr, comment) = gate(folder.path(), &[&bound[..], &["bound"]].concat(), &RUN);
    assert_eq!(code, 5, "{stderr}");
    assert_parts(&comment, &["p99_e2el_ms<=0.001: undecided"]);
    assert!(folder.path().join("bound/runs/002.jsonl").exists());
    let both = [&bound[..], &["both", "--require", "completed>=61"]].concat();
    assert_eq!(gate(folder.path(), &both, &RUN).0, 1);
}

#[test]
fn keys_that_servers_quote_are_not_in_the_comment() {
    const KEY: &str = "sk-0123456789abcdefWXYZ";
    let refusing = ScriptedServer::answering(|request| match request.is_model_list() {
        true => models(),
        false => {
            let key = request.header("authorization").unwrap();
            let body = format!(r#"{{"error":{{"message":"Incorrect API key: {key}"}}}}"#);
            whole("401 Unauthorized", "application/json", &body)
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let prints_its_key = format!("echo listening with {KEY}; exit 1");
    let of_server = [
        "--server",
        &prints_its_key,
        "--server-url",
        "http://127.0.0.1:1",
    ];
    let target = ["--base-url", &refusing.base_url];
    for (results, options, run, expected) in [
        (
            "quoted",
            &[][..],
            [&RUN[..], &target].concat(),
            "Incorrect API key: Bearer ***",
        ),
        (
            "printed",
            &of_server,
            RUN.into(),
            "the server ended before the run did",
        ),
    ] {
        let flags = [&["--results", results], options, &run[..]].concat();
        let ran = script(
            "github/gate.sh",
            folder.path(),
            &flags,
            &[("OPENAI_API_KEY", KEY)],
        );
        assert_eq!(ran.code, 3, "{}", ran.stderr);
        let comment = fs::read_to_string(folder.path().join(results).join("comment.md")).unwrap();
        assert_parts(&comment, &[expected]);
        assert!(!comment.contains(KEY), "{comment}");
    }
}

#[test]
fn absolute_thresholds_need_no_baseline() {
    let folder = tempfile::tempdir().unwrap();
    let (code, stderr, comment) = gate(folder.path(), &["--require", "completed>=61"], &RUN);
    assert_eq!(code, 1, "{stderr}");
    assert!(title(&comment).starts_with("### sobench: failed: a bound was not kept"));
    assert_parts(&comment, &["completed>=61"]);
}

#[test]
fn incomparable_and_failed_runs_do_not_pass() {
    let folder = tempfile::tempdir().unwrap();
    baseline_in(folder.path());
    let fewer = ["--", "--dataset", "choice", "--num-prompts", "20"];
    let (code, _, comment) = gate(
        folder.path(),
        &["--baseline", "base.json", "--results", "second"],
        &fewer,
    );
    assert_eq!(code, 4, "{comment}");
    assert_eq!(
        title(&comment),
        "### sobench: not comparable with the baseline"
    );

    let ends = [
        "--server",
        "echo no such model; exit 1",
        "--results",
        "third",
    ];
    let (code, stderr, comment) = gate(folder.path(), &ends, &RUN);
    assert_eq!(code, 3, "{comment}");
    assert_parts(
        &comment,
        &["the server ended before the run did, with status 1"],
    );
    assert_parts(&stderr, &["no such model"]);

    for (options, expected) in [
        (&["--baseline", "none.json"][..], "no baseline at none.json"),
        (
            &["--fail-on", "correct_rate<-0.5pp"],
            "rules of --fail-on need a baseline",
        ),
        (&["--runs", "0"], "runs is no number"),
        (&["--results", "first"], "first/runs has runs already"),
        (&["--gate"], "no such option: --gate"),
        (&["--baseline", ""], "no value for --baseline"),
    ] {
        let (code, stderr, _) = gate(folder.path(), options, &RUN);
        assert_eq!(code, 2, "{options:?}: {stderr}");
        assert_parts(&stderr, &[expected, "hint: "]);
    }
    let (code, stderr, _) = gate(
        folder.path(),
        &[],
        &[&RUN[..], &["--disable_tqdm"]].concat(),
    );
    assert_eq!(code, 2, "{stderr}");
    assert_parts(&stderr, &["--disable_tqdm is not for the runs of a gate"]);
    for options in [
        ["--results", "/dev/null/x"],
        ["--write-baseline", "/dev/null/x/base.json"],
    ] {
        let (code, stderr, _) = gate(folder.path(), &options, &RUN);
        assert_eq!(code, 3, "{options:?}: {stderr}");
        assert_parts(&stderr, &["no folder can be made", "hint: "]);
    }
}

/// Runs the step of the action with these inputs, the others as they are by default. It writes the
/// files `output` and `summary`.
fn action(folder: &Path, inputs: &[(&str, &str)]) -> Ran {
    let at = |name: &str| folder.join(name).display().to_string();
    let (output, summary) = (at("output"), at("summary"));
    let defaults = [
        ("ACCEPT", ""),
        ("ARGUMENTS", ""),
        ("CONFIG", ""),
        ("BASE_URL", ""),
        ("SERVER_COMMAND", ""),
        ("RUNS", "1"),
        ("BASELINE", ""),
        ("WRITE_BASELINE", ""),
        ("FAIL_ON", ""),
        ("REQUIRE", ""),
        ("UNDECIDED", ""),
        ("RESULTS", "results"),
        ("GITHUB_OUTPUT", &output),
        ("GITHUB_STEP_SUMMARY", &summary),
    ];
    script(
        "github/from-inputs.sh",
        folder,
        &[],
        &[&defaults, inputs].concat(),
    )
}

/// The same file as on the command line: the verdict and each rule are in the comment.
#[test]
fn action_accepts_by_a_file_of_requirements() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let rules = "[[run]]\nname = \"words\"\ndataset = \"choice\"\nnum-prompts = 120\n";
    let rules = format!("{rules}require = [\"correct_rate>=90\"]\n");
    fs::write(at("must.toml"), rules).unwrap();
    let port = free_port().port();
    let bad = format!(
        "{} serve --port {port} --fault ignore-constraint@0.5",
        env!("CARGO_BIN_EXE_sobench")
    );
    let url = format!("http://127.0.0.1:{port}");
    for (server, results, code, answer) in [
        ("", "good", 0, "- **accepted?** yes: rules met: 1 of 1"),
        (
            &bad,
            "bad",
            1,
            "- **accepted?** NO: rules not met: 1 of 1: words",
        ),
    ] {
        fs::remove_file(at("output")).ok();
        let ran = action(
            folder.path(),
            &[
                ("ACCEPT", "must.toml"),
                ("SERVER_COMMAND", server),
                ("BASE_URL", if server.is_empty() { "" } else { &url }),
                ("RESULTS", results),
            ],
        );
        let output = fs::read_to_string(at("output")).unwrap();
        assert_eq!(output, format!("exit-code={code}\n"), "{}", ran.stderr);
        let comment = fs::read_to_string(at(results).join("comment.md")).unwrap();
        assert_parts(&comment, &[answer, "| words | correct"]);
    }
}

#[test]
fn action_inputs_reach_the_gate_and_its_result_reaches_the_job() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("run.toml"), "dataset = \"choice\"\nnum-prompts = 20\n").unwrap();
    let inputs = [
        (
            "ARGUMENTS",
            "--choice\r\n$(touch made),a b\n\n--output-len\n8\n",
        ),
        ("CONFIG", "run.toml"),
        ("WRITE_BASELINE", "new.json"),
        ("REQUIRE", "\ncorrect_rate>=99.5\ncompleted>=21\n"),
        ("UNDECIDED", "pass"),
    ];
    let ran = action(folder.path(), &inputs);
    assert_eq!(
        ran.code, 0,
        "the step itself passes, so that the comment is written: {}",
        ran.stderr
    );
    assert_eq!(
        fs::read_to_string(at("output")).unwrap(),
        "exit-code=1\n",
        "{}",
        ran.stderr
    );
    assert!(ran.has_error("completed>=21") && !ran.has_error("correct_rate>=99.5"));
    assert_eq!(
        fs::read(at("summary")).unwrap(),
        fs::read(at("results/comment.md")).unwrap()
    );
    let log = fs::read_to_string(at("results/runs/001.jsonl")).unwrap();
    assert_parts(&log, &["$(touch made)", "\"a b\""]);
    assert!(!at("made").exists(), "an input is never read as a command");
    assert!(
        at("new.json").exists(),
        "a run with a failed gate can be a baseline"
    );
}

/// Stub of `gh`: stores its arguments in files, and lists comment number 7 if the file `found`
/// exists.
const GH: &str = r#"#!/usr/bin/env bash
here=$(dirname "$0") last=${@: -1}
printf '%s\n' "$*" >>"$here/asked"
case $* in *--paginate*) [ ! -e "$here/found" ] || printf '7\n9\n' ;; *) cp "${last#body=@}" "$here/body" ;; esac
"#;

#[test]
fn pull_request_has_one_comment_that_is_updated() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    executable(&at("gh"), GH);
    let path = path_with(folder.path());
    let post_comment = |text: &str| {
        fs::write(at("comment.md"), text).unwrap();
        let ran = script(
            "github/comment.sh",
            folder.path(),
            &["one/two", "5", "comment.md", "nightly"],
            &[("PATH", &path)],
        );
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let request = fs::read_to_string(at("asked")).unwrap();
        fs::remove_file(at("asked")).unwrap();
        (
            request.lines().last().unwrap().to_owned(),
            fs::read_to_string(at("body")).unwrap(),
        )
    };
    let (request, body) = post_comment("### sobench: passed\n");
    assert!(
        request.starts_with("api --silent --method POST repos/one/two/issues/5/comments "),
        "{request}"
    );
    assert_eq!(body, "<!-- sobench:nightly -->\n### sobench: passed\n");

    fs::write(at("found"), "").unwrap();
    let (request, body) = post_comment(&"ä long line\n".repeat(10_000));
    assert!(
        request.starts_with("api --silent --method PATCH repos/one/two/issues/comments/7 "),
        "{request}"
    );
    assert!(
        body.len() < 65_536 && body.ends_with("(cut here; the whole page is among the results)\n"),
        "{}",
        body.len()
    );

    let refused = script(
        "github/comment.sh",
        folder.path(),
        &["one/two", "x", "comment.md"],
        &[("PATH", &path)],
    );
    assert_eq!(refused.code, 2, "{}", refused.stderr);
}

const CACHE_KEY: &str = "github/cache-key.sh";

/// Paths of the repository that are in the cache key.
fn key_paths() -> Vec<PathBuf> {
    let text = fs::read_to_string(repository_path("deploy").join(CACHE_KEY)).unwrap();
    let (_, rest) = text.split_once("\npaths=(").unwrap();
    let (list, _) = rest.split_once(')').unwrap();
    list.split(' ').map(repository_path).collect()
}

/// Files that the Rust files of a folder include, with symbolic links resolved.
fn included(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            included(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let calls = ["include_str!(", "include_bytes!(", "include!("];
            let after = calls.iter().flat_map(|call| text.split(call).skip(1));
            let names =
                after.filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next());
            found.extend(names.map(|name| folder.join(name).canonicalize().unwrap()));
        }
    }
}

#[test]
fn cache_key_covers_all_files_that_the_build_reads() {
    let manifest = fs::read_to_string(repository_path("Cargo.toml")).unwrap();
    let manifest: toml_edit::DocumentMut = manifest.parse().unwrap();
    let members = manifest["workspace"]["members"].as_array().unwrap();
    let mut needed: Vec<PathBuf> = ["Cargo.toml", "Cargo.lock", "src"]
        .map(repository_path)
        .into();
    for member in members.iter().map(|member| member.as_str().unwrap()) {
        if member != "." {
            needed.push(repository_path(member.trim_end_matches("/*")));
        }
    }
    let before = needed.len();
    for folder in ["src", "crates"] {
        included(&repository_path(folder), &mut needed);
    }
    assert!(needed.len() > before + 10, "included files were found");
    let paths = key_paths();
    let is_covered = |file: &PathBuf| paths.iter().any(|path| file.starts_with(path));
    needed.retain(|file| !is_covered(file));
    assert!(needed.is_empty(), "not in the key: {needed:?}");
}

#[test]
fn cache_key_changes_with_sources_and_image_only() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let key = |image: &str| {
        let variables = [("ImageOS", "ubuntu24"), ("ImageVersion", image)];
        let ran = script(CACHE_KEY, folder.path(), &["."], &variables);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran.stdout
    };
    for path in key_paths() {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let is_file = name.contains('.');
        write(
            &if is_file {
                name
            } else {
                format!("{name}/a/file")
            },
            "1",
        );
    }
    let first = key("1");
    assert_eq!(first.trim().len(), 32, "{first}");
    assert_eq!(key("1"), first);
    write("README.md", "1");
    write("target/debug/sobench", "1");
    assert_eq!(key("1"), first, "files that the build does not read");
    assert_ne!(key("2"), first, "another image");
    for name in [
        "crates/a/file",
        "fixtures/a/file",
        "crates/a/new",
        "Cargo.lock",
        "rust-toolchain.toml",
    ] {
        let earlier = key("1");
        write(name, "2");
        assert_ne!(key("1"), earlier, "{name}");
    }
    fs::remove_dir_all(folder.path().join("crates")).unwrap();
    let ran = script(CACHE_KEY, folder.path(), &["."], &[]);
    assert_ne!(ran.code, 0, "{}", ran.stdout);
}
