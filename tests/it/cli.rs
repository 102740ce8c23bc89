//! The `bench` command: a complete run, the control arm, errors and exit codes.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use sobench_embedded::{EmbeddedOptions, EmbeddedServer, Fault};
use sobench_testkit::repository_path;
use sobench_testkit::scripted::{ScriptedServer, models, refusing_url, whole};

use crate::support::{Ran, cache, sobench, sobench_result};

fn quality<'a>(result: &'a Value, key: &str) -> &'a Value {
    &result["sobench"]["quality"][key]
}

/// Output on one line, because the wrapping of sentences depends on the length of paths and
/// addresses.
fn unwrapped(ran: &Ran) -> String {
    ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[track_caller]
pub(crate) fn assert_fails(ran: &Ran, code: i32, expected: &[&str]) {
    assert!(ran.stdout.is_empty(), "{}", ran.stdout);
    assert_exits(ran, code, expected);
}

/// The same, with or without a report.
pub(crate) fn assert_exits(ran: &Ran, code: i32, expected: &[&str]) {
    assert_eq!(ran.code, code, "{}", ran.stderr);
    for text in expected {
        assert!(
            ran.stderr.contains(text),
            "{text:?} is not in:\n{}",
            ran.stderr
        );
    }
}

#[test]
fn run_sends_judges_and_reports() {
    let (ran, result) = sobench_result(&[
        "--dataset",
        "json",
        "--guided-decoding-ratio",
        "1.0",
        "--num-prompts",
        "40",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(
        result["correct_rate(%)"].as_f64(),
        Some(100.0),
        "{}",
        ran.stdout
    );
    assert_eq!(result["completed"].as_u64(), Some(40));
    assert!(
        ran.stdout
            .contains("============ Serving Benchmark Result ============"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout.contains("synthetic"),
        "an embedded run reports its synthetic model:\n{}",
        ran.stdout
    );
}

#[test]
fn control_arm_reports_the_rate_without_constraints() {
    let (ran, result) = sobench_result(&["--guided-decoding-ratio", "0.5", "--num-prompts", "60"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(quality(&result, "constrained").as_u64(), Some(30));
    assert_eq!(result["correct_rate(%)"].as_f64(), Some(100.0));
    let control = quality(&result, "control_rate")["percent"]
        .as_f64()
        .expect("the control arm was judged");
    assert!(
        control < 50.0,
        "{control} % of the unconstrained answers are valid"
    );
}

#[test]
fn every_shipped_workload_runs_on_the_embedded_engine() {
    for dataset in ["json-unique", "grammar", "regex", "choice"] {
        let (ran, result) = sobench_result(&["--dataset", dataset, "--num-prompts", "20"]);
        assert_eq!(ran.code, 0, "{dataset}: {}", ran.stderr);
        assert_eq!(result["completed"].as_u64(), Some(20), "{dataset}");
        let correct = result["correct_rate(%)"]
            .as_f64()
            .expect("constrained requests were judged");
        assert!(correct >= 95.0, "{dataset}: {correct} %\n{}", ran.stdout);
    }
}

#[test]
fn both_endpoints_work_with_and_without_streaming() {
    for extra in [
        &["--backend", "openai-chat"][..],
        &["--disable-stream"],
        &["--backend", "openai-chat", "--disable-stream"],
    ] {
        let mut arguments = vec!["--dataset", "regex", "--num-prompts", "10"];
        arguments.extend_from_slice(extra);
        let (ran, result) = sobench_result(&arguments);
        assert_eq!(
            (ran.code, result["completed"].as_u64()),
            (0, Some(10)),
            "{extra:?}: {}",
            ran.stderr
        );
    }
}

#[test]
fn dialects_carry_supported_constraints_and_reject_others() {
    for dialect in ["structured-outputs", "guided", "response-format"] {
        let (_, result) = sobench_result(&["--constraint-dialect", dialect, "--num-prompts", "10"]);
        assert_eq!(result["correct_rate(%)"].as_f64(), Some(100.0), "{dialect}");
    }
    let ran = sobench(&[
        "--constraint-dialect",
        "response-format",
        "--dataset",
        "regex",
        "--num-prompts",
        "10",
    ]);
    assert_fails(&ran, 2, &["regex", "response-format", "hint: "]);
}

#[test]
fn same_seed_gives_the_same_dataset() {
    let run = || {
        sobench_result(&[
            "--dataset",
            "json-unique",
            "--guided-decoding-ratio",
            "0.5",
            "--num-prompts",
            "12",
            "--seed",
            "5",
        ])
        .1
    };
    let (first, second) = (run(), run());
    assert_eq!(
        first["sobench"]["dataset"]["sha256"],
        second["sobench"]["dataset"]["sha256"]
    );
    let other = sobench_result(&[
        "--dataset",
        "json-unique",
        "--guided-decoding-ratio",
        "0.5",
        "--num-prompts",
        "12",
        "--seed",
        "6",
    ])
    .1;
    assert_ne!(
        first["sobench"]["dataset"]["sha256"],
        other["sobench"]["dataset"]["sha256"]
    );
}

#[test]
fn custom_rows_run_and_errors_name_the_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    std::fs::write(
        &path,
        "{\"prompt\": \"a or b?\", \"choice\": [\"a\", \"b\"]}\n{\"prompt\": \"hello\"}\n",
    )
    .unwrap();
    let path = path.to_str().unwrap();
    let (ran, result) = sobench_result(&[
        "--dataset",
        "custom",
        "--dataset-path",
        path,
        "--num-prompts",
        "4",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(quality(&result, "constrained").as_u64(), Some(2));
    assert!(
        ran.stdout.contains("2 rows are repeated to make 4 prompts"),
        "cycled rows are reported:\n{}",
        ran.stdout
    );

    std::fs::write(path, "{\"prompt\": \"fine\"}\n{\"prompt\": 3}\n").unwrap();
    assert_fails(
        &sobench(&["--dataset", "custom", "--dataset-path", path]),
        2,
        &["rows.jsonl", "2", "hint: "],
    );
}

#[test]
fn user_schemas_and_grammars_are_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("schema.json");
    std::fs::write(
        &path,
        r#"{"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3}"#,
    )
    .unwrap();
    let (ran, result) = sobench_result(&[
        "--json-schema-path",
        path.to_str().unwrap(),
        "--num-prompts",
        "10",
    ]);
    assert_eq!(
        (ran.code, result["correct_rate(%)"].as_f64()),
        (0, Some(100.0)),
        "{}",
        ran.stdout
    );

    let lark = repository_path("grammars/sql.lark");
    let (ran, result) = sobench_result(&[
        "--dataset",
        "grammar",
        "--grammar-path",
        lark.to_str().unwrap(),
        "--num-prompts",
        "10",
    ]);
    assert_eq!(
        (ran.code, result["correct_rate(%)"].as_f64()),
        (0, Some(100.0)),
        "{}",
        ran.stdout
    );
    assert_eq!(
        result["sobench"]["dataset"]["grammar_converted_from"],
        Value::Null
    );

    let ebnf = repository_path("grammars/sql.ebnf");
    let (ran, result) = sobench_result(&[
        "--dataset",
        "grammar",
        "--grammar-path",
        ebnf.to_str().unwrap(),
        "--num-prompts",
        "10",
    ]);
    assert_eq!(
        (ran.code, result["correct_rate(%)"].as_f64()),
        (0, Some(100.0)),
        "{}",
        ran.stdout
    );
    assert_eq!(
        result["sobench"]["dataset"]["grammar_converted_from"],
        "ebnf"
    );
    let page = unwrapped(&ran);
    assert!(
        page.contains("sql.ebnf is ebnf and is converted to lark")
            && page.contains("converted from ebnf"),
        "{page}"
    );
}

#[test]
fn invalid_flags_exit_with_2_and_a_hint() {
    assert_fails(
        &sobench(&["--dataset", "jsom"]),
        2,
        &["jsom", "json-unique", "custom"],
    );
    assert_fails(&sobench(&["--num-promts", "3"]), 2, &["--num-prompts"]);
    assert_fails(
        &sobench(&["--guided-decoding-ratio", "1.5"]),
        2,
        &["1.5", "hint: "],
    );
    assert_fails(
        &sobench(&["--request-rate", "0"]),
        2,
        &["--request-rate", "hint: "],
    );
    assert_fails(
        &sobench(&["--regex", "a+"]),
        2,
        &["--regex", "--dataset regex"],
    );
    assert_fails(
        &sobench(&["--json-schema-path", "no-such.json"]),
        2,
        &["no-such.json", "hint: "],
    );
    assert_fails(
        &sobench(&["--guided-decoding-backend", "lm-format-enforcer"]),
        2,
        &["lm-format-enforcer", "--base-url"],
    );
}

#[test]
fn schema_that_the_engine_refuses_is_a_result() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("schema.json");
    std::fs::write(&path, r#"{"type": "array", "uniqueItems": true}"#).unwrap();
    let ran = sobench(&[
        "--json-schema-path",
        path.to_str().unwrap(),
        "--num-prompts",
        "10",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let first = ran.stdout.lines().next().unwrap();
    assert!(
        first.starts_with(
            "0 of 10 valid: the server refused the constraint (400: keyword uniqueItems)"
        ),
        "{first}"
    );
}

#[test]
fn unreachable_server_exits_with_3() {
    assert_fails(
        &sobench(&["--base-url", &refusing_url(), "--num-prompts", "3"]),
        3,
        &["127.0.0.1", "hint: "],
    );
}

#[test]
fn failed_trial_request_shows_the_error_of_the_server() {
    let server = ScriptedServer::answering(|request| match request.is_model_list() {
        true => models(),
        false => whole(
            "500 Internal Server Error",
            "text/html",
            "<h1>out of cheese</h1>",
        ),
    });
    let ran = sobench(&["--base-url", &server.base_url, "--num-prompts", "3"]);
    assert_exits(&ran, 3, &["500", "out of cheese", "hint: "]);
    assert!(ran.stdout.starts_with("0 of 3 "), "{}", ran.stdout);
}

#[test]
fn run_without_successful_requests_reports_and_exits_with_3() {
    let was_requested = std::sync::atomic::AtomicBool::new(false);
    let server = ScriptedServer::answering(move |request| {
        if request.is_model_list() {
            return models();
        }
        if request.line.starts_with("POST ")
            && !was_requested.swap(true, std::sync::atomic::Ordering::SeqCst)
        {
            let event = r#"data: {"choices":[{"index":0,"text":"{}","finish_reason":"stop"}]}"#;
            return whole(
                "200 OK",
                "text/event-stream",
                &format!("{event}\n\ndata: [DONE]\n\n"),
            );
        }
        whole(
            "503 Service Unavailable",
            "application/json",
            r#"{"error":{"message":"overloaded","code":503}}"#,
        )
    });
    let (ran, result) = sobench_result(&["--base-url", &server.base_url, "--num-prompts", "3"]);
    let posted = server
        .requests()
        .into_iter()
        .find(|request| request.line.starts_with("POST "))
        .expect("the trial request was sent");
    let body = String::from_utf8(posted.body).unwrap();
    assert!(
        body.contains("\"structured_outputs\"") || body.contains("\"response_format\""),
        "{body}"
    );
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert_eq!(
        result["sobench"]["outcomes"]["server_error"].as_u64(),
        Some(3),
        "{}",
        ran.stdout
    );
    assert_eq!(result["correct_rate(%)"].as_f64(), Some(0.0));
    assert!(
        ran.stderr.contains("every request failed"),
        "{}",
        ran.stderr
    );
}

/// Sends the signal when the run log has requests, so that the test does not depend on speed.
#[test]
#[cfg(unix)]
fn sigint_gives_a_partial_report_and_exit_130() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("run.jsonl");
    let mut program = Command::new(env!("CARGO_BIN_EXE_sobench"))
        .arg("--run-log")
        .arg(&log)
        .args([
            "--num-prompts",
            "400",
            "--max-concurrency",
            "2",
            "--embedded-itl-ms",
            "20",
            "--dataset",
            "choice",
        ])
        .env("XDG_CACHE_HOME", cache())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stderr = BufReader::new(program.stderr.take().unwrap()).lines();
    let has_requests =
        || std::fs::read_to_string(&log).is_ok_and(|text| text.contains("{\"request\""));
    while !has_requests() {
        assert_eq!(program.try_wait().unwrap(), None, "it ended too early");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(
        Command::new("kill")
            .args(["-INT", &program.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    let stderr_lines: Vec<String> = stderr.map(Result::unwrap).collect();
    let mut stdout = String::new();
    program
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut stdout)
        .unwrap();
    assert_eq!(
        program.wait().unwrap().code(),
        Some(130),
        "{stderr_lines:?}"
    );
    assert!(
        stdout.contains("Serving Benchmark Result") && stdout.contains("partial"),
        "{stdout}"
    );
    assert!(
        stdout.contains("Cancelled requests:"),
        "unsent requests are cancelled, not failed:\n{stdout}"
    );
    assert!(
        stderr_lines.iter().any(|line| line.contains("interrupted")),
        "{stderr_lines:?}"
    );
    let progress: Vec<&String> = stderr_lines
        .iter()
        .filter(|line| line.contains("requests ended"))
        .collect();
    assert_eq!(progress.len(), 1, "one line at the end: {stderr_lines:?}");
}

#[test]
fn request_settings_are_in_the_result() {
    let (ran, result) = sobench_result(&[
        "--num-prompts",
        "4",
        "--temperature",
        "0.7",
        "--extra-body",
        r#"{"seed": 3}"#,
        "--disable-stream",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let request = &result["sobench"]["request"];
    assert_eq!(
        (request["temperature"].as_f64(), request["stream"].as_bool()),
        (Some(0.7), Some(false))
    );
    assert_eq!(request["extra_body"]["seed"].as_u64(), Some(3));
    assert!(
        request["top_p"].is_null(),
        "options without a value are not sent"
    );
    let ran = sobench(&["--extra-body", r#"{"max_tokens": 1}"#, "--num-prompts", "4"]);
    assert_fails(&ran, 2, &["max_tokens", "--output-len"]);
    let ran = sobench(&[
        "--extra-body",
        r#"{"structured_outputs": {"regex": "a"}}"#,
        "--num-prompts",
        "4",
    ]);
    assert_fails(&ran, 2, &["second constraint", "hint: "]);
}

#[test]
fn results_do_not_overwrite_each_other_and_invalid_paths_fail_early() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    for seed in ["0", "1", "2"] {
        let ran = sobench(&[
            "--num-prompts",
            "2",
            "--seed",
            seed,
            "--save-result",
            "--result-dir",
            path,
            "--disable-tqdm",
        ]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    }
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        6,
        "three results, each with its log"
    );
    let file = folder.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let ran = sobench(&[
        "--num-prompts",
        "2",
        "--save-result",
        "--result-dir",
        file.to_str().unwrap(),
    ]);
    assert_fails(&ran, 3, &["cannot write the result", "hint: "]);
    let ran = sobench(&[
        "--num-prompts",
        "2",
        "--save-result",
        "--result-dir",
        path,
        "--result-filename",
        "",
    ]);
    assert_fails(&ran, 2, &["not the name of a file", "hint: "]);
}

#[test]
#[cfg(unix)]
fn closed_output_pipe_does_not_panic() {
    let mut program = Command::new(env!("CARGO_BIN_EXE_sobench"))
        .args(["--num-prompts", "3"])
        .env("XDG_CACHE_HOME", cache())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop((program.stdout.take(), program.stderr.take()));
    assert_eq!(program.wait().unwrap().code(), Some(0));
}

#[test]
fn extreme_caps_and_rates_do_not_panic() {
    let (ran, result) = sobench_result(&[
        "--num-prompts",
        "3",
        "--max-concurrency",
        "18446744073709551615",
    ]);
    assert_eq!(
        (ran.code, result["completed"].as_u64()),
        (0, Some(3)),
        "{}",
        ran.stderr
    );
    assert_fails(
        &sobench(&["--num-prompts", "3", "--request-rate", "1e-300"]),
        2,
        &["--request-rate", "hint: "],
    );
}

#[test]
fn invalid_user_constraint_fails_before_the_first_request() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let server = ScriptedServer::answering(|_| models());
    for (arguments, [error, text]) in [
        (
            vec![
                "--dataset".into(),
                "regex".into(),
                "--regex".into(),
                "[a-".into(),
            ],
            ["judged", "regex"],
        ),
        (
            vec![
                "--json-schema-path".into(),
                file("s.json", r#"{"type": "objct"}"#),
            ],
            ["s.json: broken JSON Schema", "objct"],
        ),
        (
            vec![
                "--dataset".into(),
                "grammar".into(),
                "--grammar-path".into(),
                file("g.lark", "start: foo"),
            ],
            ["judged", "foo"],
        ),
    ] {
        let mut all = vec!["--base-url".to_owned(), server.base_url.clone()];
        all.extend(arguments);
        assert_fails(&sobench(&all), 2, &[error, text, "hint: "]);
    }
    assert!(
        server
            .requests()
            .iter()
            .all(|request| request.line.starts_with("GET ")),
        "no request is sent"
    );
}

#[test]
fn ignored_constraint_is_detected() {
    let server = ScriptedServer::answering(|request| match request.is_model_list() {
        true => models(),
        false => {
            let event = r#"data: {"choices":[{"index":0,"text":"I would rather chat.","finish_reason":"stop"}]}"#;
            whole(
                "200 OK",
                "text/event-stream",
                &format!("{event}\n\ndata: [DONE]\n\n"),
            )
        }
    });
    let arguments = [
        "--base-url",
        &server.base_url,
        "--num-prompts",
        "20",
        "--guided-decoding-ratio",
        "0.5",
        "--disable-tqdm",
    ];
    let refused = sobench(&arguments);
    assert_fails(
        &refused,
        3,
        &[
            "does not apply the constraint",
            "json in structured-outputs",
            "--allow-unenforced",
        ],
    );
    let ran = sobench(&[&arguments[..], &["--allow-unenforced"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(
        ran.stdout.contains("constraint not enforced: json"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout
            .contains("the constraint has no visible effect: 10 of 10 complete answers break it, 10 of 10 without"),
        "{}",
        ran.stdout
    );
    let without_preflight = sobench(&[&arguments[..], &["--skip-preflight"]].concat());
    assert!(
        without_preflight.code == 0
            && !without_preflight.stdout.contains("constraint not enforced"),
        "{}",
        without_preflight.stdout
    );
}

#[test]
fn test_request_is_repeated_while_the_model_loads() {
    let loading_for = |loading: usize| {
        let posts = AtomicUsize::new(0);
        ScriptedServer::answering(move |request| {
            if request.is_model_list() {
                return models();
            }
            if request.line.starts_with("GET ") {
                return whole("404 Not Found", "text/plain", "");
            }
            if posts.fetch_add(1, Ordering::Relaxed) < loading {
                let body = r#"{"error":{"message":"Loading model"}}"#;
                return whole("503 Service Unavailable", "application/json", body);
            }
            let event =
                r#"data: {"choices":[{"index":0,"text":"Positive","finish_reason":"stop"}]}"#;
            let events = format!("{event}\n\ndata: [DONE]\n\n");
            whole("200 OK", "text/event-stream", &events)
        })
    };
    let run = |server: &ScriptedServer, wait: &[&str]| {
        let flags = [
            "--dataset",
            "choice",
            "--num-prompts",
            "4",
            "--skip-preflight",
        ];
        let server = ["--base-url", &server.base_url, "--disable-tqdm"];
        sobench(&[&server[..], &flags, wait].concat())
    };
    let wait = ["--ready-check-timeout-sec", "600"];
    let server = loading_for(1);
    let ran = run(&server, &wait);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let posts: Vec<bool> = server
        .requests()
        .iter()
        .filter(|request| request.line.starts_with("POST "))
        .map(|request| String::from_utf8_lossy(&request.body).contains("structured_outputs"))
        .collect();
    // The test request, the same again, the trial request and the run.
    assert_eq!(posts, [false, false, true, true, true, true, true]);
    let server = loading_for(2);
    let test = [
        "preflight",
        "--backend",
        "openai-completions",
        "--kind",
        "choice",
    ];
    let ran = sobench(&[&test[..], &["--base-url", &server.base_url], &wait].concat());
    assert!(
        ran.code != 3 && !ran.stdout.contains("Loading model"),
        "{} {} {}",
        ran.code,
        ran.stdout,
        ran.stderr
    );
    let ran = run(&loading_for(usize::MAX), &[]);
    let page = unwrapped(&ran);
    assert!(
        ran.code == 3
            && page.contains("HTTP 503: Loading model")
            && page.contains("--ready-check-timeout-sec waits for it"),
        "{}: {page}",
        ran.code
    );
}

/// An embedded server, as `sobench serve` starts one.
fn embedded_server(faults: &[&str]) -> EmbeddedServer {
    let faults = faults
        .iter()
        .map(|fault| Fault::parse(fault).unwrap())
        .collect();
    EmbeddedServer::start(EmbeddedOptions {
        faults,
        ..EmbeddedOptions::default()
    })
    .unwrap()
}

#[test]
fn synthetic_model_of_a_separate_server_is_reported() {
    let server = embedded_server(&[]);
    let (ran, result) = sobench_result(&["--base-url", server.base_url(), "--num-prompts", "4"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let page = unwrapped(&ran);
    assert!(
        page.contains("answers come from sobench serve, which runs a synthetic model"),
        "{page}"
    );
    let about = &result["sobench"];
    assert_eq!(
        (&about["embedded"], &about["engine"]["name"]),
        (&true.into(), &"guidance".into())
    );
    assert!(
        about["engine"]["version"]
            .as_str()
            .unwrap()
            .starts_with("llguidance ")
            && about["engine"]["settings"].is_object()
    );
    assert!(
        !ran.stdout.contains("the trial answer names"),
        "{}",
        ran.stdout
    );
}

#[test]
fn answers_of_another_model_give_a_notice() {
    let server = embedded_server(&["wrong-model"]);
    for flags in [
        &[][..],
        &["--backend", "openai-chat"],
        &["--disable-stream"],
    ] {
        let ran = sobench(
            &[
                &[
                    "--base-url",
                    server.base_url(),
                    "--num-prompts",
                    "2",
                    "--skip-preflight",
                ],
                flags,
            ]
            .concat(),
        );
        let page = unwrapped(&ran);
        assert!(
            ran.code == 0
                && page
                    .contains("names the model sobench-synthetic-other; the requested model is sobench-synthetic"),
            "{page}"
        );
    }
}

#[test]
fn overload_is_not_reported_as_a_rejected_constraint() {
    let server = embedded_server(&["error-429"]);
    let ran = sobench(&["--base-url", server.base_url(), "--num-prompts", "2"]);
    assert_exits(
        &ran,
        3,
        &["429", "lower --request-rate or --max-concurrency"],
    );
    assert!(
        !ran.stderr.contains("another --constraint-dialect"),
        "{}",
        ran.stderr
    );
    // The first request is answered. Of the others some are not, the same ones in every run.
    let server = embedded_server(&["error-429@0.5"]);
    let flags = [
        "--base-url",
        server.base_url(),
        "--num-prompts",
        "40",
        "--skip-preflight",
        "--request-id-prefix",
        "c-",
    ];
    let (ran, result) = sobench_result(&flags);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let refused = quality(&result, "refused").as_u64();
    assert!(
        refused > Some(0) && quality(&result, "overloaded").as_u64() == refused,
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("refused for load"), "{}", ran.stdout);
}
