//! Effects of other benchmarks' flags that need a server or a run. `flags_table.rs` has the table
//! of all flags.

use serde_json::{Value, json};
use sobench_testkit::repository_path;
use sobench_testkit::scripted::{Request, ScriptedServer, models, whole};

use crate::cli::assert_fails;
use crate::support::{check_result, sobench, sobench_result};

#[test]
fn flags_without_effect_give_one_warning_line_and_notices() {
    let rows: Vec<csv::StringRecord> =
        csv::Reader::from_path(repository_path("fixtures/flags.csv"))
            .unwrap()
            .records()
            .map(Result::unwrap)
            .collect();
    let mut arguments = vec!["--num-prompts", "2", "--no-run-log"];
    let mut expected: Vec<String> = Vec::new();
    let mut unused: Vec<&str> = Vec::new();
    for row in &rows {
        let [_, flag, status, with, value, meaning] = std::array::from_fn(|column| &row[column]);
        if status == "notice" && with.is_empty() && !arguments.contains(&flag) {
            arguments.push(flag);
            arguments.extend(value.split_whitespace());
            expected.push(format!("{flag} has no effect: {meaning}"));
            unused.push(flag);
        }
    }
    let (ran, result) = sobench_result(&arguments);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let line = ran
        .stderr
        .lines()
        .find(|line| line.starts_with("warning: flags without effect: "))
        .unwrap_or_else(|| panic!("{}", ran.stderr));
    for flag in unused {
        assert!(line.contains(flag), "{flag}: {line}");
    }
    for notice in expected {
        assert!(!ran.stderr.contains(&notice), "{notice}");
        assert!(
            result["sobench"]["notices"]
                .as_array()
                .unwrap()
                .contains(&json!(notice)),
            "{notice}"
        );
    }
}

/// A server that answers completions, and has an endpoint to start profiling.
fn completions() -> ScriptedServer {
    let event = r#"data: {"choices":[{"index":0,"text":"Positive","finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}"#;
    ScriptedServer::answering(move |request| match request.line.as_str() {
        _ if request.is_model_list() => models(),
        "POST /start_profile HTTP/1.1" => whole("200 OK", "text/plain", ""),
        "POST /stop_profile HTTP/1.1" => whole("404 Not Found", "text/plain", "no such path"),
        _ => whole(
            "200 OK",
            "text/event-stream",
            &format!("{event}\n\ndata: [DONE]\n\n"),
        ),
    })
}

fn bodies(server: &ScriptedServer) -> Vec<(Request, Value)> {
    let requests = server
        .requests()
        .into_iter()
        .filter(|request| request.line.starts_with("POST /v1/completions"));
    requests
        .map(|request| {
            (
                request.clone(),
                serde_json::from_slice(&request.body).unwrap(),
            )
        })
        .collect()
}

const CHOICES: [&str; 7] = [
    "--dataset",
    "choice",
    "--num-prompts",
    "4",
    "--skip-preflight",
    "--max-concurrency",
    "1",
];

#[test]
fn lora_modules_are_assigned_in_turn() {
    let server = completions();
    let lora = [
        "--base-url",
        &server.base_url,
        "--lora-modules",
        "a",
        "b",
        "--lora-assignment",
        "round-robin",
        "--logprobs",
        "2",
    ];
    let (ran, result) = sobench_result(&[&CHOICES[..], &lora, &["--save-detailed"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let requests: Vec<Value> = bodies(&server)
        .into_iter()
        .skip(1)
        .map(|(_, body)| body)
        .collect();
    assert_eq!(
        requests
            .iter()
            .map(|body| body["model"].as_str().unwrap())
            .collect::<Vec<_>>(),
        ["a", "b", "a", "b"]
    );
    assert!(requests.iter().all(|body| body["logprobs"] == 2));
    assert_eq!(
        (&result["model_id"], &result["outputs"][1]["tags"]),
        (&json!("tiny"), &json!(["lora:b"]))
    );
    let notices = result["sobench"]["notices"].to_string();
    assert!(
        notices.contains("LoRA modules are assigned in turn: a, b"),
        "{notices}"
    );
    let dry = sobench(&[&CHOICES[..], &lora, &["--dry-run"]].concat());
    assert!(
        dry.stdout.contains("\"model\": \"a\"") || dry.stdout.contains("\"model\":\"a\""),
        "{}",
        dry.stdout
    );
}

#[test]
fn profiling_starts_and_stops_with_the_run() {
    let server = completions();
    let (ran, result) = sobench_result(
        &[
            &CHOICES[..],
            &[
                "--base-url",
                &server.base_url,
                "--profile",
                "--num-warmups",
                "1",
            ],
        ]
        .concat(),
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let posts: Vec<String> = server
        .requests()
        .into_iter()
        .filter(|request| request.line.starts_with("POST"))
        .map(|request| request.line)
        .collect();
    let position = |path: &str| posts.iter().position(|line| line.contains(path)).unwrap();
    assert_eq!(
        (
            position("/start_profile"),
            position("/stop_profile"),
            posts.len()
        ),
        (2, 7, 8),
        "start after trial and warm-up, stop after the run"
    );
    let notice = "the server did not start its profiler (POST /stop_profile: 404 no such path)";
    assert!(
        ran.stderr.contains(notice) && result["sobench"]["notices"].to_string().contains(notice),
        "{}",
        ran.stderr
    );
    assert!(
        !ran.stderr.contains("POST /start_profile"),
        "{}",
        ran.stderr
    );
}

#[test]
fn speculative_decoding_metrics_use_vllm_keys() {
    let event = r#"data: {"choices":[{"index":0,"text":"Positive","finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}"#;
    let server = ScriptedServer::answering(move |request| match request.line.as_str() {
        _ if request.is_model_list() => models(),
        "GET /metrics HTTP/1.1" => {
            // Every earlier request was a draft of two tokens, of which the first was accepted.
            let counts = [("drafts", 1), ("draft_tokens", 2), ("accepted_tokens", 1)];
            let line = |(name, each): (&str, usize)| {
                format!(
                    "vllm:spec_decode_num_{name}_total{{engine=\"0\"}} {}.0\n",
                    each * request.number
                )
            };
            whole("200 OK", "text/plain", &counts.map(line).concat())
        }
        _ => whole(
            "200 OK",
            "text/event-stream",
            &format!("{event}\n\ndata: [DONE]\n\n"),
        ),
    });
    let (ran, result) = sobench_result(&[&CHOICES[..], &["--base-url", &server.base_url]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(check_result(&result), Ok(()));
    let field = |key: &str| result[format!("spec_decode_{key}")].as_f64();
    assert_eq!(
        (field("acceptance_rate"), field("acceptance_length")),
        (Some(50.0), Some(2.0))
    );
    assert!(
        field("num_drafts") >= Some(4.0)
            && field("draft_tokens") == field("num_drafts").map(|drafts| 2.0 * drafts),
        "{result}"
    );
    assert!(
        ran.stdout.contains("Acceptance rate (%):"),
        "{}",
        ran.stdout
    );
}

#[test]
fn probe_requests_are_sent_during_the_run() {
    let server = completions();
    let probe = [
        "--base-url",
        &server.base_url,
        "--probe-request-rate",
        "100",
    ];
    let (ran, result) = sobench_result(&[&CHOICES[..], &probe].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let probes: Vec<Value> = bodies(&server)
        .into_iter()
        .map(|request| request.1)
        .filter(|body| body["prompt"] == "Hi")
        .collect();
    assert!(
        !probes.is_empty()
            && probes
                .iter()
                .all(|body| body["max_tokens"] == 1 && body.get("structured_outputs").is_none())
    );
    assert_eq!(
        result["probe_completed"].as_u64(),
        Some(probes.len() as u64)
    );
    assert_eq!(
        (
            result["probe_failed"].as_u64(),
            result["completed"].as_u64()
        ),
        (Some(0), Some(4))
    );
    let field = |key: &str| result[key].as_f64().unwrap();
    assert!(
        field("probe_median_e2el_ms") > 0.0
            && field("probe_p99_e2el_ms") <= field("probe_max_e2el_ms")
    );
    assert!(
        ran.stdout.contains("Probe requests completed:"),
        "{}",
        ran.stdout
    );
    // The synthetic model ends at once; an answer without text is an answer.
    let (_, embedded) = sobench_result(&[
        "--dataset",
        "choice",
        "--num-prompts",
        "4",
        "--probe-request-rate",
        "100",
    ]);
    assert_eq!(embedded["probe_failed"].as_u64(), Some(0));
    assert!(
        embedded["probe_completed"].as_u64() > Some(0)
            && embedded["probe_max_e2el_ms"].as_f64() > Some(0.0)
    );
    let keys: Vec<&String> = result.as_object().unwrap().keys().collect();
    let position = |key: &str| keys.iter().position(|candidate| *candidate == key).unwrap();
    assert_eq!(
        position("probe_completed"),
        position("max_concurrent_requests") + 1,
        "the position in vLLM's file"
    );
}

#[test]
fn chat_template_variables_are_sent_to_the_server() {
    let kwargs = ["--chat-template-kwargs", r#"{"enable_thinking": false}"#];
    let event =
        r#"data: {"choices":[{"index":0,"delta":{"content":"Positive"},"finish_reason":"stop"}]}"#;
    let server = ScriptedServer::answering(move |request| {
        if request.is_model_list() {
            models()
        } else {
            whole(
                "200 OK",
                "text/event-stream",
                &format!("{event}\n\ndata: [DONE]\n\n"),
            )
        }
    });
    let chat = [
        "--base-url",
        &server.base_url,
        "--endpoint-type",
        "openai-chat",
        "--constraint-dialect",
        "structured-outputs",
    ];
    let ran = sobench(&[&CHOICES[..], &chat, &kwargs, &["--no-run-log"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let requests = server
        .requests()
        .into_iter()
        .filter(|request| request.line.starts_with("POST /v1/chat/completions"));
    let requests: Vec<Value> = requests
        .map(|request| serde_json::from_slice(&request.body).unwrap())
        .collect();
    assert!(
        !requests.is_empty()
            && requests
                .iter()
                .all(|body| body["chat_template_kwargs"] == json!({"enable_thinking": false}))
    );
    assert_fails(
        &sobench(&["--chat-template-kwargs", "[]"]),
        2,
        &["--chat-template-kwargs is not a JSON object", "hint: "],
    );
}

#[test]
fn plots_are_written_beside_the_result() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let arguments = [
        "--num-prompts",
        "6",
        "--disable-tqdm",
        "--result-dir",
        path,
        "--plot-timeline",
        "--plot-dataset-stats",
    ];
    let ran = sobench(
        &[
            &arguments[..],
            &[
                "--result-filename",
                "r.json",
                "--save-result",
                "--timeline-itl-thresholds",
                "1,2",
            ],
        ]
        .concat(),
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let timeline = std::fs::read_to_string(folder.path().join("r.timeline.html")).unwrap();
    assert!(
        timeline.contains("6 of 6 requests") && timeline.contains("gaps above 2 ms"),
        "{timeline}"
    );
    let lengths = std::fs::read_to_string(folder.path().join("r.dataset_stats.html")).unwrap();
    assert!(
        lengths.contains("prompt tokens") && lengths.contains("<svg"),
        "{lengths}"
    );
    assert!(!timeline.contains("<script") && !lengths.contains("<script"));
    let unsaved = sobench(&[&arguments[..], &["--no-run-log"]].concat());
    assert_eq!(unsaved.code, 0, "{}", unsaved.stderr);
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        6,
        "result, log, and two pages for each run"
    );
}

#[test]
fn goodput_may_require_validity() {
    let arguments = [
        "--num-prompts",
        "20",
        "--no-guided-decoding",
        "--dataset",
        "regex",
        "--no-run-log",
    ];
    let (_, all) = sobench_result(&[&arguments[..], &["--goodput", "e2el:600000"]].concat());
    let (ran, valid) =
        sobench_result(&[&arguments[..], &["--goodput", "e2el:600000", "valid"]].concat());
    let field = |result: &Value, key: &str| {
        result["sobench"]["overall"]["throughput"][key]
            .as_f64()
            .unwrap()
    };
    assert!(
        field(&all, "request_goodput") > field(&all, "valid_goodput"),
        "not all unconstrained answers are valid"
    );
    assert!((field(&valid, "request_goodput") - field(&valid, "valid_goodput")).abs() < 1e-12);
    let unwrapped = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        unwrapped.contains("with E2EL at most 600000 ms, a valid answer;"),
        "{}",
        ran.stdout
    );
}
