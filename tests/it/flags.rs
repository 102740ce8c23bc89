//! What the flags of other benchmarks do that only a server, or a run, shows. `flags_table.rs` has
//! the table of them all.

use serde_json::{Value, json};
use sobench_testkit::in_package;
use sobench_testkit::scripted::{Request, Scripted, models, whole};

use crate::cli::assert_fails;
use crate::support::{check_result, sobench, sobench_result};

#[test]
fn what_changes_nothing_is_said_by_the_run_and_kept_in_its_result() {
    let rows: Vec<csv::StringRecord> = csv::Reader::from_path(in_package("fixtures/flags.csv"))
        .unwrap()
        .records()
        .map(Result::unwrap)
        .collect();
    let mut arguments = vec!["--num-prompts", "2", "--no-run-log"];
    let mut expected: Vec<String> = Vec::new();
    for row in &rows {
        let [_, flag, status, with, value, meaning] = std::array::from_fn(|column| &row[column]);
        if status == "notice" && with.is_empty() && !arguments.contains(&flag) {
            arguments.push(flag);
            arguments.extend(value.split_whitespace());
            expected.push(format!("{flag} changes nothing here: {meaning}"));
        }
    }
    let (ran, result) = sobench_result(&arguments);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for notice in expected {
        assert!(ran.stderr.contains(&notice), "{notice}");
        assert!(
            result["sobench"]["notices"]
                .as_array()
                .unwrap()
                .contains(&json!(notice)),
            "{notice}"
        );
    }
}

/// A server that answers everything in the completions' shape, and knows a path to profile by.
fn completions() -> Scripted {
    let event = r#"data: {"choices":[{"index":0,"text":"Positive","finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}"#;
    Scripted::answering(move |request| match request.line.as_str() {
        _ if request.asks_for_models() => models(),
        "POST /start_profile HTTP/1.1" => whole("200 OK", "text/plain", ""),
        "POST /stop_profile HTTP/1.1" => whole("404 Not Found", "text/plain", "no such path"),
        _ => whole(
            "200 OK",
            "text/event-stream",
            &format!("{event}\n\ndata: [DONE]\n\n"),
        ),
    })
}

fn bodies(server: &Scripted) -> Vec<(Request, Value)> {
    let asked = server
        .requests()
        .into_iter()
        .filter(|request| request.line.starts_with("POST /v1/completions"));
    asked
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
fn lora_modules_take_their_turns() {
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
    let asked: Vec<Value> = bodies(&server)
        .into_iter()
        .skip(1)
        .map(|(_, body)| body)
        .collect();
    assert_eq!(
        asked
            .iter()
            .map(|body| body["model"].as_str().unwrap())
            .collect::<Vec<_>>(),
        ["a", "b", "a", "b"]
    );
    assert!(asked.iter().all(|body| body["logprobs"] == 2));
    assert_eq!(
        (&result["model_id"], &result["outputs"][1]["tags"]),
        (&json!("tiny"), &json!(["lora:b"]))
    );
    let notices = result["sobench"]["notices"].to_string();
    assert!(
        notices.contains("requests ask for LoRA modules, dealt out in turn: a, b"),
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
fn the_server_is_told_when_to_profile() {
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
        .filter(|it| it.line.starts_with("POST"))
        .map(|it| it.line)
        .collect();
    let place = |path: &str| posts.iter().position(|line| line.contains(path)).unwrap();
    assert_eq!(
        (place("/start_profile"), place("/stop_profile"), posts.len()),
        (2, 7, 8),
        "after trial and warm-up, and after the run"
    );
    let words = "the server took no order to profile (POST /stop_profile: 404 no such path)";
    assert!(
        ran.stderr.contains(words) && result["sobench"]["notices"].to_string().contains(words),
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
fn what_speculation_did_is_told_under_vllms_keys() {
    let event = r#"data: {"choices":[{"index":0,"text":"Positive","finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}"#;
    let server = Scripted::answering(move |request| match request.line.as_str() {
        _ if request.asks_for_models() => models(),
        "GET /metrics HTTP/1.1" => {
            // Every request before this one was a draft of two tokens, of which the first was
            // accepted.
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
    let of = |key: &str| result[format!("spec_decode_{key}")].as_f64();
    assert_eq!(
        (of("acceptance_rate"), of("acceptance_length")),
        (Some(50.0), Some(2.0))
    );
    assert!(
        of("num_drafts") >= Some(4.0) && of("draft_tokens") == of("num_drafts").map(|it| 2.0 * it),
        "{result}"
    );
    assert!(
        ran.stdout.contains("Acceptance rate (%):"),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_small_request_goes_out_beside_the_run() {
    let server = completions();
    let probe = [
        "--base-url",
        &server.base_url,
        "--probe-request-rate",
        "100",
    ];
    let (ran, result) = sobench_result(&[&CHOICES[..], &probe].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let small: Vec<Value> = bodies(&server)
        .into_iter()
        .map(|it| it.1)
        .filter(|body| body["prompt"] == "Hi")
        .collect();
    assert!(
        !small.is_empty()
            && small
                .iter()
                .all(|body| body["max_tokens"] == 1 && body.get("structured_outputs").is_none())
    );
    assert_eq!(result["probe_completed"].as_u64(), Some(small.len() as u64));
    assert_eq!(
        (
            result["probe_failed"].as_u64(),
            result["completed"].as_u64()
        ),
        (Some(0), Some(4))
    );
    let of = |key: &str| result[key].as_f64().unwrap();
    assert!(of("probe_median_e2el_ms") > 0.0 && of("probe_p99_e2el_ms") <= of("probe_max_e2el_ms"));
    assert!(
        ran.stdout.contains("Probe requests completed:"),
        "{}",
        ran.stdout
    );
    // The synthetic model ends at once: an answer without text is an answer.
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
    let place = |key: &str| keys.iter().position(|it| *it == key).unwrap();
    assert_eq!(
        place("probe_completed"),
        place("max_concurrent_requests") + 1,
        "where vLLM has it"
    );
}

#[test]
fn a_template_gets_its_variables_where_it_is() {
    let kwargs = ["--chat-template-kwargs", r#"{"enable_thinking": false}"#];
    let event =
        r#"data: {"choices":[{"index":0,"delta":{"content":"Positive"},"finish_reason":"stop"}]}"#;
    let server = Scripted::answering(move |request| {
        if request.asks_for_models() {
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
    let asked = server
        .requests()
        .into_iter()
        .filter(|it| it.line.starts_with("POST /v1/chat/completions"));
    let asked: Vec<Value> = asked
        .map(|it| serde_json::from_slice(&it.body).unwrap())
        .collect();
    assert!(
        !asked.is_empty()
            && asked
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
fn pages_of_the_run_stand_beside_its_result() {
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
        lengths.contains("tokens of the prompt") && lengths.contains("<svg"),
        "{lengths}"
    );
    assert!(!timeline.contains("<script") && !lengths.contains("<script"));
    let unsaved = sobench(&[&arguments[..], &["--no-run-log"]].concat());
    assert_eq!(unsaved.code, 0, "{}", unsaved.stderr);
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        6,
        "result, log, and two pages twice"
    );
}

#[test]
fn a_good_answer_may_have_to_be_valid() {
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
    let of = |result: &Value, key: &str| {
        result["sobench"]["overall"]["throughput"][key]
            .as_f64()
            .unwrap()
    };
    assert!(
        of(&all, "request_goodput") > of(&all, "valid_goodput"),
        "answers without the constraint are not all valid"
    );
    assert!((of(&valid, "request_goodput") - of(&valid, "valid_goodput")).abs() < 1e-12);
    let unwrapped = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        unwrapped.contains("with E2EL at most 600000 ms, a valid answer;"),
        "{}",
        ran.stdout
    );
}
