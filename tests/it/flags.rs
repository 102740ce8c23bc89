//! `fixtures/flags.csv`, the frozen table of every flag of five benchmarks, held against the parser and the plan: what is said to be
//! implemented changes what is run, what is said to change nothing is taken with a word, what is said to be refused is refused for that
//! reason. And what the flags do that only a server sees.

use std::ffi::OsString;

use serde_json::{Value, json};
use sobench::cli::{Cli, Command};
use sobench::commands::bench::options::RunPlan;
use sobench::commands::bench::options::compat_flags::{FOREIGN, Fate};
use sobench::error::Error;

use crate::cli::assert_fails;
use crate::scripted::{Request, Scripted, models, whole};
use crate::support::{in_package, sobench, sobench_result};

/// The benchmarks whose flags are in the table.
const TOOLS: [&str; 5] = [
    "benchmark_serving_guided.py",
    "benchmark_serving_structured_output.py",
    "benchmark_serving.py",
    "vllm bench serve",
    "aphrodite serving.py",
];

/// A line of the table.
struct Row {
    tool: String,
    flag: String,
    status: String,
    /// Arguments that the flag goes with.
    with: Vec<String>,
    /// An example; ` / ` stands between two, of a flag that the others cannot do without.
    value: String,
    meaning: String,
}

/// The fields of a line of CSV, by RFC 4180 without line ends in fields.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut quoted) = (vec![String::new()], false);
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        let field = fields.last_mut().unwrap();
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => field.push(characters.next().unwrap()),
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            other => field.push(other),
        }
    }
    fields
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn table() -> Vec<Row> {
    let text = std::fs::read_to_string(in_package("fixtures/flags.csv")).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("tool,flag,status,with,value,meaning"));
    let row = |line: &str| {
        let [tool, flag, status, with, value, meaning] = fields(line).try_into().unwrap_or_else(|_| panic!("six fields: {line}"));
        Row { tool, flag, status, with: words(&with), value, meaning }
    };
    lines.map(row).collect()
}

/// The plan of these arguments, or why there is none: the parser's words, or the plan's.
fn plan(arguments: &[String]) -> Result<RunPlan, Result<Error, String>> {
    let all = std::iter::once("sobench").chain(arguments.iter().map(String::as_str)).map(OsString::from);
    let cli = Cli::parse_arguments(all).map_err(|error| Err(error.to_string()))?;
    let Command::Bench(arguments) = cli.into_command() else { panic!("{arguments:?}") };
    RunPlan::new(&arguments, None).map_err(Ok)
}

fn planned(arguments: &[String]) -> String {
    format!("{:?}", plan(arguments).unwrap_or_else(|error| panic!("{arguments:?}: {error:?}")))
}

fn with_flag(row: &Row, flag: &str, value: &str) -> Vec<String> {
    [row.with.clone(), vec![flag.to_owned()], words(value)].concat()
}

/// `--num_prompts` for `--num-prompts`.
fn with_underscores(flag: &str) -> String {
    format!("--{}", flag.trim_start_matches("--").replace('-', "_"))
}

#[test]
fn every_flag_of_the_table_is_what_the_table_says() {
    for row in table() {
        let place = format!("{} {}", row.tool, row.flag);
        assert!(!row.meaning.is_empty(), "{place}");
        let values: Vec<&str> = row.value.split(" / ").collect();
        let spellings = [row.flag.clone(), with_underscores(&row.flag)];
        match row.status.as_str() {
            "implemented" => {
                let plans = spellings.map(|flag| planned(&with_flag(&row, &flag, values[0])));
                assert_eq!(plans[0], plans[1], "{place}");
                let other = match values[..] {
                    [_] => planned(&row.with),
                    [_, second] => planned(&with_flag(&row, &row.flag, second)),
                    _ => panic!("{place}: one value, or two"),
                };
                assert_ne!(plans[0], other, "{place} is taken, and changes nothing");
            }
            "notice" => {
                let expected = format!("{} changes nothing here: {}", row.flag, row.meaning);
                for flag in spellings {
                    let warnings = plan(&with_flag(&row, &flag, values[0])).unwrap().warnings();
                    assert!(warnings.len() == 1 && warnings[0].to_string() == expected, "{place}: {warnings:?}");
                }
            }
            "refused" => {
                for flag in spellings {
                    let error = plan(&with_flag(&row, &flag, values[0])).expect_err(&place).expect("the parser knows the flag");
                    let whole = format!("{}: {}", row.meaning, row.flag);
                    assert!([&whole, &row.meaning].contains(&&error.what) && error.exit_code() == 2, "{place}: {}", error.what);
                    assert!(error.hint.is_some(), "{place}");
                }
            }
            other => panic!("{place} is {other}"),
        }
    }
}

#[test]
fn the_table_has_each_flag_once_and_leaves_out_none_that_is_turned_down() {
    let rows = table();
    for (place, row) in rows.iter().enumerate() {
        assert!(TOOLS.contains(&row.tool.as_str()), "{}", row.tool);
        let again = rows[..place].iter().any(|it| (&it.tool, &it.flag) == (&row.tool, &row.flag));
        assert!(!again, "{} {} is there twice", row.tool, row.flag);
    }
    for tool in TOOLS {
        assert!(rows.iter().filter(|row| row.tool == tool).count() > 20, "{tool}");
    }
    for foreign in FOREIGN {
        let (status, meaning) = match foreign.fate {
            Fate::Notice(words) => ("notice", words),
            Fate::Refused { reason, .. } => ("refused", reason),
        };
        let flag = format!("--{}", foreign.name);
        let of_flag: Vec<&Row> = rows.iter().filter(|row| row.flag == flag).collect();
        assert!(!of_flag.is_empty(), "{flag} is no flag of any tool");
        assert!(of_flag.iter().all(|row| (row.status.as_str(), row.meaning.as_str()) == (status, meaning)), "{flag}");
    }
}

#[test]
fn a_beginning_of_a_name_is_no_flag() {
    let error = plan(&words("--num-prom 3")).unwrap_err().unwrap_err();
    assert!(error.contains("--num-prompts"), "the whole name is suggested: {error}");
}

#[test]
fn what_changes_nothing_is_said_by_the_run_and_kept_in_its_result() {
    let rows: Vec<Row> = table().into_iter().filter(|row| row.status == "notice" && row.with.is_empty()).collect();
    let mut arguments: Vec<String> = words("--num-prompts 2 --no-run-log");
    let mut expected: Vec<String> = Vec::new();
    for row in rows {
        if !arguments.contains(&row.flag) {
            arguments.push(row.flag.clone());
            arguments.extend(words(&row.value));
            expected.push(format!("{} changes nothing here: {}", row.flag, row.meaning));
        }
    }
    let (ran, result) = sobench_result(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for notice in expected {
        assert!(ran.stderr.contains(&notice), "{notice}");
        assert!(result["sobench"]["notices"].as_array().unwrap().contains(&json!(notice)), "{notice}");
    }
}

#[test]
fn what_cannot_be_is_refused_with_its_reason() {
    let server = "--base-url http://127.0.0.1:1";
    for (arguments, what) in [
        ("--best-of 2", "an answer that is chosen from several has no latency of its own: --best-of 2"),
        ("--lora-modules a", "no server is named, and the embedded engine takes no --lora-modules"),
        ("--profile", "no server is named, and the embedded engine takes no --profile"),
        ("--backend tgi --base-url http://127.0.0.1:1 --lora-modules a", "--lora-modules has no field on --backend tgi"),
        ("--backend ollama --base-url http://127.0.0.1:1 --logprobs 1", "--logprobs has no field on --backend ollama"),
        ("--logprobs 1 --extra-body {\"logprobs\":2}", "--logprobs sets logprobs, which --extra-body sets as well"),
        ("--probe-request-rate -1", "--probe-request-rate is no rate: -1"),
        (
            "--backend openai-audio --base-url http://127.0.0.1:1 --probe-request-rate 1",
            "--probe-request-rate has no field on --backend openai-audio",
        ),
        (
            "--plot-timeline --timeline-itl-thresholds 50,25",
            "--timeline-itl-thresholds is not two times, the shorter first: [50.0, 25.0]",
        ),
        ("--goodput valid valid", "--goodput names valid twice"),
    ] {
        let error = plan(&words(arguments)).expect_err(arguments).unwrap();
        assert_eq!((error.what.as_str(), error.exit_code()), (what, 2));
        assert!(error.hint.is_some(), "{arguments}");
    }
    for alone in ["--lora-assignment round-robin", "--timeline-itl-thresholds 1,2"] {
        let error = plan(&words(&format!("{server} {alone}"))).unwrap_err().unwrap_err();
        assert!(error.contains("required"), "{error}");
    }
}

/// A server that answers everything in the completions' shape, and knows a path to profile by.
fn completions() -> Scripted {
    let event = r#"data: {"choices":[{"index":0,"text":"Positive","finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}"#;
    Scripted::answering(move |request| match request.line.as_str() {
        _ if request.asks_for_models() => models(),
        "POST /start_profile HTTP/1.1" => whole("200 OK", "text/plain", ""),
        "POST /stop_profile HTTP/1.1" => whole("404 Not Found", "text/plain", "no such path"),
        _ => whole("200 OK", "text/event-stream", &format!("{event}\n\ndata: [DONE]\n\n")),
    })
}

fn bodies(server: &Scripted) -> Vec<(Request, Value)> {
    let asked = server.requests().into_iter().filter(|request| request.line.starts_with("POST /v1/completions"));
    asked.map(|request| (request.clone(), serde_json::from_slice(&request.body).unwrap())).collect()
}

const CHOICES: [&str; 7] = ["--dataset", "choice", "--num-prompts", "4", "--skip-preflight", "--max-concurrency", "1"];

#[test]
fn lora_modules_take_their_turns() {
    let server = completions();
    let lora =
        ["--base-url", &server.base_url, "--lora-modules", "a", "b", "--lora-assignment", "round-robin", "--logprobs", "2"];
    let (ran, result) = sobench_result(&[&CHOICES[..], &lora, &["--save-detailed"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let asked: Vec<Value> = bodies(&server).into_iter().skip(1).map(|(_, body)| body).collect();
    assert_eq!(asked.iter().map(|body| body["model"].as_str().unwrap()).collect::<Vec<_>>(), ["a", "b", "a", "b"]);
    assert!(asked.iter().all(|body| body["logprobs"] == 2));
    assert_eq!((&result["model_id"], &result["outputs"][1]["tags"]), (&json!("tiny"), &json!(["lora:b"])));
    let notices = result["sobench"]["notices"].to_string();
    assert!(notices.contains("requests ask for LoRA modules, dealt out in turn: a, b"), "{notices}");
    let dry = sobench(&[&CHOICES[..], &lora, &["--dry-run"]].concat());
    assert!(dry.stdout.contains("\"model\": \"a\"") || dry.stdout.contains("\"model\":\"a\""), "{}", dry.stdout);
}

#[test]
fn the_server_is_told_when_to_profile() {
    let server = completions();
    let (ran, result) =
        sobench_result(&[&CHOICES[..], &["--base-url", &server.base_url, "--profile", "--num-warmups", "1"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let posts: Vec<String> = server.requests().into_iter().filter(|it| it.line.starts_with("POST")).map(|it| it.line).collect();
    let place = |path: &str| posts.iter().position(|line| line.contains(path)).unwrap();
    assert_eq!(
        (place("/start_profile"), place("/stop_profile"), posts.len()),
        (2, 7, 8),
        "after trial and warm-up, and after the run"
    );
    let words = "the server took no order to profile (POST /stop_profile: 404 no such path)";
    assert!(ran.stderr.contains(words) && result["sobench"]["notices"].to_string().contains(words), "{}", ran.stderr);
    assert!(!ran.stderr.contains("POST /start_profile"), "{}", ran.stderr);
}

#[test]
fn what_speculation_did_is_told_under_vllms_keys() {
    let event = r#"data: {"choices":[{"index":0,"text":"Positive","finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}"#;
    let server = Scripted::answering(move |request| match request.line.as_str() {
        _ if request.asks_for_models() => models(),
        "GET /metrics HTTP/1.1" => {
            // Every request before this one was a draft of two tokens, of which the first was accepted.
            let counts = [("drafts", 1), ("draft_tokens", 2), ("accepted_tokens", 1)];
            let line = |(name, each): (&str, usize)| {
                format!("vllm:spec_decode_num_{name}_total{{engine=\"0\"}} {}.0\n", each * request.number)
            };
            whole("200 OK", "text/plain", &counts.map(line).concat())
        }
        _ => whole("200 OK", "text/event-stream", &format!("{event}\n\ndata: [DONE]\n\n")),
    });
    let (ran, result) = sobench_result(&[&CHOICES[..], &["--base-url", &server.base_url]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(crate::contracts::check(&result), Ok(()));
    let of = |key: &str| result[format!("spec_decode_{key}")].as_f64();
    assert_eq!((of("acceptance_rate"), of("acceptance_length")), (Some(50.0), Some(2.0)));
    assert!(of("num_drafts") >= Some(4.0) && of("draft_tokens") == of("num_drafts").map(|it| 2.0 * it), "{result}");
    assert!(ran.stdout.contains("Acceptance rate (%):"), "{}", ran.stdout);
}

#[test]
fn a_small_request_goes_out_beside_the_run() {
    let server = completions();
    let probe = ["--base-url", &server.base_url, "--probe-request-rate", "100"];
    let (ran, result) = sobench_result(&[&CHOICES[..], &probe].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let small: Vec<Value> = bodies(&server).into_iter().map(|it| it.1).filter(|body| body["prompt"] == "Hi").collect();
    assert!(!small.is_empty() && small.iter().all(|body| body["max_tokens"] == 1 && body.get("structured_outputs").is_none()));
    assert_eq!(result["probe_completed"].as_u64(), Some(small.len() as u64));
    assert_eq!((result["probe_failed"].as_u64(), result["completed"].as_u64()), (Some(0), Some(4)));
    let of = |key: &str| result[key].as_f64().unwrap();
    assert!(of("probe_median_e2el_ms") > 0.0 && of("probe_p99_e2el_ms") <= of("probe_max_e2el_ms"));
    assert!(ran.stdout.contains("Probe requests completed:"), "{}", ran.stdout);
    // The synthetic model ends at once: an answer without text is an answer.
    let (_, embedded) = sobench_result(&["--dataset", "choice", "--num-prompts", "4", "--probe-request-rate", "100"]);
    assert_eq!(embedded["probe_failed"].as_u64(), Some(0));
    assert!(embedded["probe_completed"].as_u64() > Some(0) && embedded["probe_max_e2el_ms"].as_f64() > Some(0.0));
    let keys: Vec<&String> = result.as_object().unwrap().keys().collect();
    let place = |key: &str| keys.iter().position(|it| *it == key).unwrap();
    assert_eq!(place("probe_completed"), place("max_concurrent_requests") + 1, "where vLLM has it");
}

#[test]
fn a_template_gets_its_variables_where_it_is() {
    let kwargs = ["--chat-template-kwargs", r#"{"enable_thinking": false}"#];
    let event = r#"data: {"choices":[{"index":0,"delta":{"content":"Positive"},"finish_reason":"stop"}]}"#;
    let server = Scripted::answering(move |request| {
        if request.asks_for_models() {
            models()
        } else {
            whole("200 OK", "text/event-stream", &format!("{event}\n\ndata: [DONE]\n\n"))
        }
    });
    let chat = ["--base-url", &server.base_url, "--endpoint-type", "openai-chat", "--constraint-dialect", "structured-outputs"];
    let ran = sobench(&[&CHOICES[..], &chat, &kwargs, &["--no-run-log"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let asked = server.requests().into_iter().filter(|it| it.line.starts_with("POST /v1/chat/completions"));
    let asked: Vec<Value> = asked.map(|it| serde_json::from_slice(&it.body).unwrap()).collect();
    assert!(!asked.is_empty() && asked.iter().all(|body| body["chat_template_kwargs"] == json!({"enable_thinking": false})));
    let untemplated = plan(&words("--chat-template-kwargs {\"a\":1}")).unwrap().warnings();
    assert_eq!(untemplated.len(), 1, "{untemplated:?}");
    assert_fails(&sobench(&["--chat-template-kwargs", "[]"]), 2, &["--chat-template-kwargs is not a JSON object", "hint: "]);
}

#[test]
fn pages_of_the_run_stand_beside_its_result() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let arguments = ["--num-prompts", "6", "--disable-tqdm", "--result-dir", path, "--plot-timeline", "--plot-dataset-stats"];
    let ran = sobench(
        &[&arguments[..], &["--result-filename", "r.json", "--save-result", "--timeline-itl-thresholds", "1,2"]].concat(),
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let timeline = std::fs::read_to_string(folder.path().join("r.timeline.html")).unwrap();
    assert!(timeline.contains("6 of 6 requests") && timeline.contains("gaps above 2 ms"), "{timeline}");
    let lengths = std::fs::read_to_string(folder.path().join("r.dataset_stats.html")).unwrap();
    assert!(lengths.contains("tokens of the prompt") && lengths.contains("<svg"), "{lengths}");
    assert!(!timeline.contains("<script") && !lengths.contains("<script"));
    let unsaved = sobench(&[&arguments[..], &["--no-run-log"]].concat());
    assert_eq!(unsaved.code, 0, "{}", unsaved.stderr);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 6, "result, log, and two pages twice");
}

#[test]
fn a_good_answer_may_have_to_be_valid() {
    let arguments = ["--num-prompts", "20", "--no-guided-decoding", "--dataset", "regex", "--no-run-log"];
    let (_, all) = sobench_result(&[&arguments[..], &["--goodput", "e2el:600000"]].concat());
    let (ran, valid) = sobench_result(&[&arguments[..], &["--goodput", "e2el:600000", "valid"]].concat());
    let of = |result: &Value, key: &str| result["sobench"]["overall"]["throughput"][key].as_f64().unwrap();
    assert!(of(&all, "request_goodput") > of(&all, "valid_goodput"), "answers without the constraint are not all valid");
    assert!((of(&valid, "request_goodput") - of(&valid, "valid_goodput")).abs() < 1e-12);
    let unwrapped = words(&ran.stdout).join(" ");
    assert!(unwrapped.contains("with E2EL at most 600000 ms, a valid answer;"), "{}", ran.stdout);
}
