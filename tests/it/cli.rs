//! The program as its user meets it: the main command, the control arm, errors and exit codes.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use serde_json::Value;
use sobench_embedded::{EmbeddedOptions, EmbeddedServer, Fault};
use sobench_testkit::in_package;
use sobench_testkit::scripted::{Scripted, models, nobody, whole};

use crate::support::{Ran, cache, sobench, sobench_result};

fn quality<'a>(result: &'a Value, key: &str) -> &'a Value {
    &result["sobench"]["quality"][key]
}

/// What was printed, on one line: where sentences are wrapped depends on how long paths and
/// addresses are.
fn unwrapped(ran: &Ran) -> String {
    ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[track_caller]
pub(crate) fn assert_fails(ran: &Ran, code: i32, words: &[&str]) {
    assert_eq!(ran.code, code, "{}", ran.stderr);
    assert!(ran.stdout.is_empty(), "{}", ran.stdout);
    for word in words {
        assert!(
            ran.stderr.contains(word),
            "{word:?} is not in:\n{}",
            ran.stderr
        );
    }
}

#[test]
fn the_main_command_answers_judges_and_reports() {
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
        "an embedded run says that its model is synthetic:\n{}",
        ran.stdout
    );
}

#[test]
fn the_control_arm_shows_what_the_constraint_is_worth() {
    let (ran, result) = sobench_result(&["--guided-decoding-ratio", "0.5", "--num-prompts", "60"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(quality(&result, "constrained").as_u64(), Some(30));
    assert_eq!(result["correct_rate(%)"].as_f64(), Some(100.0));
    let control = quality(&result, "control_rate")["percent"]
        .as_f64()
        .expect("the control arm was judged");
    assert!(
        control < 50.0,
        "unconstrained answers came out valid in {control} % of the cases"
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
fn both_endpoints_and_whole_answers_work() {
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
fn each_dialect_carries_what_it_can() {
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
fn the_same_seed_asks_the_same() {
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
fn custom_rows_run_and_a_bad_row_names_its_line() {
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
        ran.stdout.contains("cycle"),
        "cycling rows is said:\n{}",
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
fn own_schemas_and_grammars_are_taken() {
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

    let lark = in_package("grammars/sql.lark");
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

    let ebnf = in_package("grammars/sql.ebnf");
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
        page.contains("sql.ebnf is ebnf, and was converted to lark")
            && page.contains("converted from ebnf"),
        "{page}"
    );
}

#[test]
fn wrong_flags_end_with_exit_2_and_say_what_to_do() {
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
fn a_schema_the_engine_refuses_stops_at_the_trial_run_with_its_words() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("schema.json");
    std::fs::write(&path, r#"{"type": "array", "uniqueItems": true}"#).unwrap();
    let ran = sobench(&[
        "--json-schema-path",
        path.to_str().unwrap(),
        "--num-prompts",
        "10",
    ]);
    assert_fails(&ran, 3, &["400", "uniqueItems", "hint: "]);
}

#[test]
fn a_server_that_is_not_there_ends_with_exit_3() {
    assert_fails(
        &sobench(&["--base-url", &nobody(), "--num-prompts", "3"]),
        3,
        &["127.0.0.1", "hint: "],
    );
}

#[test]
fn a_failing_trial_run_shows_the_servers_own_words() {
    let server = Scripted::answering(|asked| match asked.asks_for_models() {
        true => models(),
        false => whole(
            "500 Internal Server Error",
            "text/html",
            "<h1>out of cheese</h1>",
        ),
    });
    assert_fails(
        &sobench(&["--base-url", &server.base_url, "--num-prompts", "3"]),
        3,
        &["500", "out of cheese", "hint: "],
    );
}

#[test]
fn a_run_whose_every_request_fails_reports_and_ends_with_exit_3() {
    let asked_before = std::sync::atomic::AtomicBool::new(false);
    let server = Scripted::answering(move |asked| {
        if asked.asks_for_models() {
            return models();
        }
        if asked.line.starts_with("POST ")
            && !asked_before.swap(true, std::sync::atomic::Ordering::SeqCst)
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
        .expect("the trial run came");
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

/// The signal is sent when the program itself says that some requests have ended, so nothing here
/// depends on how fast it is.
#[test]
#[cfg(unix)]
fn ctrl_c_ends_with_a_partial_report_and_exit_130() {
    let mut program = Command::new(env!("CARGO_BIN_EXE_sobench"))
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
    let mut stderr = BufReader::new(program.stderr.take().unwrap()).lines();
    let going = stderr.find(|line| line.as_ref().unwrap().contains("requests ended"));
    assert!(
        going.is_some(),
        "progress is shown in lines where there is no terminal"
    );
    assert!(
        Command::new("kill")
            .args(["-INT", &program.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    let said: Vec<String> = stderr.map(Result::unwrap).collect();
    let mut stdout = String::new();
    program
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut stdout)
        .unwrap();
    assert_eq!(program.wait().unwrap().code(), Some(130), "{said:?}");
    assert!(
        stdout.contains("Serving Benchmark Result") && stdout.contains("partial"),
        "{stdout}"
    );
    assert!(
        stdout.contains("Cancelled requests:"),
        "what was not sent did not fail:\n{stdout}"
    );
    assert!(
        said.iter().any(|line| line.contains("interrupted")),
        "{said:?}"
    );
}

#[test]
fn what_requests_carry_is_in_the_result() {
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
        "what was not given was not sent"
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
fn results_never_replace_each_other_and_bad_places_are_found_before_the_run() {
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
    assert_fails(&ran, 3, &["cannot be written", "hint: "]);
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
fn a_reader_that_goes_away_is_no_panic() {
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
fn absurd_caps_and_rates_are_no_panic() {
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
fn a_broken_constraint_of_ones_own_is_found_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let server = Scripted::answering(|_| models());
    for (arguments, word) in [
        (
            vec![
                "--dataset".into(),
                "regex".into(),
                "--regex".into(),
                "[a-".into(),
            ],
            "regex",
        ),
        (
            vec![
                "--json-schema-path".into(),
                file("s.json", r#"{"type": "objct"}"#),
            ],
            "objct",
        ),
        (
            vec![
                "--dataset".into(),
                "grammar".into(),
                "--grammar-path".into(),
                file("g.lark", "start: foo"),
            ],
            "foo",
        ),
    ] {
        let mut all = vec!["--base-url".to_owned(), server.base_url.clone()];
        all.extend(arguments);
        assert_fails(&sobench(&all), 2, &["judged", word, "hint: "]);
    }
    assert!(
        server
            .requests()
            .iter()
            .all(|request| request.line.starts_with("GET ")),
        "nothing is generated"
    );
}

#[test]
fn a_server_that_ignores_the_constraint_is_noticed() {
    let server = Scripted::answering(|asked| match asked.asks_for_models() {
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
            .contains("no effect of the constraint is visible: 0/10"),
        "{}",
        ran.stdout
    );
    let unasked = sobench(&[&arguments[..], &["--skip-preflight"]].concat());
    assert!(
        unasked.code == 0 && !unasked.stdout.contains("constraint not enforced"),
        "{}",
        unasked.stdout
    );
}

/// A server that somebody else started, as `sobench serve` does.
fn served(faults: &[&str]) -> EmbeddedServer {
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
fn a_synthetic_model_is_named_so_whoever_started_it() {
    let server = served(&[]);
    let (ran, result) = sobench_result(&["--base-url", server.base_url(), "--num-prompts", "4"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let page = unwrapped(&ran);
    assert!(
        page.contains("answers come from a server that sobench serve runs: its model is synthetic"),
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
        !ran.stdout.contains("the trial's answer says"),
        "{}",
        ran.stdout
    );
}

#[test]
fn answers_of_another_model_are_noticed() {
    let server = served(&["wrong-model"]);
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
                    .contains("from the model sobench-synthetic-other, and sobench-synthetic was"),
            "{page}"
        );
    }
}

#[test]
fn an_overloaded_server_is_no_verdict_on_the_constraint() {
    let server = served(&["error-429"]);
    let ran = sobench(&["--base-url", server.base_url(), "--num-prompts", "2"]);
    assert_fails(
        &ran,
        3,
        &["429", "lower --request-rate or --max-concurrency"],
    );
    assert!(
        !ran.stderr.contains("another --constraint-dialect"),
        "{}",
        ran.stderr
    );
    // The first of these requests is answered; of the rest some are not, the same ones in every
    // run.
    let server = served(&["error-429@0.5"]);
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
