//! Whether constraints are enforced, against servers that lose them in ways that are easy to miss:
//! in part, in another channel, behind a silent model, or behind a model that does not break them
//! anyway.

use serde_json::{Value, json};
use sobench_testkit::constrained::{
    Reply, allowed, answering, answering_as, constraint_text, crashing_server, posts,
};
use sobench_testkit::scripted::{STREAM_HEAD, ScriptedServer, Then, chunk, whole};
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{Ran, sobench, sobench_result};

const CHOICE: [&str; 4] = ["--dataset", "choice", "--num-prompts", "12"];

fn run_against(server: &ScriptedServer, arguments: &[&str]) -> (Ran, Value) {
    sobench_result(&[&["--base-url", &server.base_url], arguments].concat())
}

/// The report with single spaces.
fn page(ran: &Ran) -> String {
    ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The cells of `sobench preflight` as kind, dialect and class.
fn cells(server: &ScriptedServer, arguments: &[&str]) -> (Vec<[String; 3]>, Value) {
    let command = ["preflight", "--disable-tqdm", "--format", "json"];
    let ran = sobench(&[&command[..], &["--base-url", &server.base_url], arguments].concat());
    let found: Value =
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stderr));
    let cells = found["cells"].as_array().unwrap().iter().map(|cell| {
        ["kind", "constraint_dialect", "class"].map(|name| cell[name].as_str().unwrap().to_owned())
    });
    (cells.collect(), found)
}

fn is_preflight(body: &Value) -> bool {
    let prompt = body["prompt"].as_str().unwrap_or_default();
    prompt.contains("weather at sea")
}

#[test]
fn a_constraint_that_is_enforced_in_part_stops_the_run_unless_allowed() {
    let server = answering(|body| match allowed(body) {
        Some(text) => Reply::Text(format!("Here it is: {text}")),
        None => Reply::Prose,
    });
    let ran = sobench(&[&["--base-url", &server.base_url], &CHOICE[..]].concat());
    assert!(
        ran.code == 3 && ran.stderr.contains("choice in structured-outputs: partial"),
        "{}",
        ran.stderr
    );
    let (ran, result) = run_against(&server, &[&CHOICE[..], &["--allow-unenforced"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(
        page(&ran)
            .contains("CONSTRAINT NOT ENFORCED: choice in structured-outputs is enforced only in"),
        "{}",
        ran.stdout
    );
    assert_eq!(result["sobench"]["enforcement"]["state"], "not_enforced");
}

#[test]
fn a_dropped_constraint_is_found_behind_a_model_that_ignores_the_plain_prompt() {
    let server = answering(|body| match body["prompt"].as_str() {
        Some(prompt) if prompt.starts_with("Write one short sentence") => {
            Reply::Text(String::new())
        }
        _ => Reply::Prose,
    });
    let (cells, found) = cells(&server, &["--kind", "json,choice"]);
    assert!(
        cells.iter().all(|[kind, dialect, class]| class == "ignored"
            || (kind == "choice" && dialect == "response-format" && class == "not_carried")),
        "{cells:?}"
    );
    let prompt = found["record"]["prompt"].as_str().unwrap();
    assert!(prompt.starts_with("From the log of a ship"), "{prompt}");
    let ran = sobench(&[&["--base-url", &server.base_url], &CHOICE[..]].concat());
    assert!(
        ran.code == 3 && ran.stderr.contains("choice in structured-outputs: ignored"),
        "{}",
        ran.stderr
    );
}

/// A server that calls itself vLLM and answers as the script says. It has `/tokenize`, which gives
/// one token for each letter.
fn vllm(script: impl Fn(&Value) -> String + Send + Sync + 'static) -> ScriptedServer {
    ScriptedServer::new(move |request, stream| {
        let page = |body: Value| whole("200 OK", "application/json", &body.to_string());
        let bytes = if request.line.starts_with("GET /v1/models ") {
            page(json!({"data": [{"id": "tiny", "owned_by": "vllm"}]})).into_bytes()
        } else if request.line.starts_with("GET /version ") {
            page(json!({"version": "0.32.0"})).into_bytes()
        } else if request.line.starts_with("GET ") {
            whole("404 Not Found", "text/plain", "no such page").into_bytes()
        } else {
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            if request.line.starts_with("POST /tokenize ") {
                let text = body["prompt"].as_str().unwrap();
                let tokens: Vec<u32> = text.chars().map(u32::from).collect();
                page(json!({"tokens": tokens})).into_bytes()
            } else {
                let choice = json!({"index": 0, "text": script(&body), "finish_reason": "stop"});
                let event = json!({"choices": [choice]});
                let events = format!("data: {event}\n\ndata: [DONE]\n\n");
                [
                    STREAM_HEAD.as_bytes(),
                    &chunk(events.as_bytes()),
                    &chunk(b""),
                ]
                .concat()
            }
        };
        match stream.write_all(&bytes) {
            Ok(()) => Then::Keep,
            // The client may have disconnected.
            Err(_) => Then::Close,
        }
    })
}

#[test]
fn a_model_that_ends_at_once_is_made_to_speak_by_min_tokens() {
    let server = vllm(|body| match body["min_tokens"].as_u64() {
        Some(_) => "north-west, and the waves are high".to_owned(),
        None => String::new(),
    });
    let (cells, _) = cells(
        &server,
        &["--kind", "choice", "--constraint-dialect", "guided"],
    );
    assert_eq!(cells[0][2], "ignored", "{cells:?}");
}

#[test]
fn unproven_constraints_are_checked_in_the_first_answers_of_the_run() {
    // The model says nothing about the weather, with and without a constraint.
    let server = answering(|body| match body {
        body if is_preflight(body) => Reply::Text(String::new()),
        _ => Reply::Prose,
    });
    let arguments = ["--dataset", "choice", "--num-prompts", "40"];
    let arguments = [&arguments[..], &["--max-concurrency", "1"]].concat();
    let (ran, result) = run_against(&server, &arguments);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(
        ran.stderr
            .contains("8 of the first 8 constrained answers break their constraint")
            && ran.stderr.contains("--allow-unenforced"),
        "{}",
        ran.stderr
    );
    let own = &result["sobench"];
    assert_eq!(own["enforcement"]["state"], "not_enforced");
    assert_eq!(own["enforcement"]["early"]["broken"], 8);
    assert_eq!(own["partial"], true, "{own}");

    let allowed = [&arguments[..], &["--allow-unenforced"]].concat();
    let (ran, result) = run_against(&server, &allowed);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(result["completed"], 40);
    assert!(
        page(&ran).contains("CONSTRAINT NOT ENFORCED: 8 of the first 8 constrained answers"),
        "{}",
        ran.stdout
    );
    // A short run ends before eight answers.
    let (ran, _) = run_against(&server, &["--dataset", "choice", "--num-prompts", "4"]);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
}

#[test]
fn unproven_constraints_that_are_enforced_do_not_stop_the_run() {
    let server = answering(|body| match body {
        body if is_preflight(body) => Reply::Text(String::new()),
        body => allowed(body).map_or(Reply::Prose, Reply::Text),
    });
    let (ran, result) = run_against(&server, &CHOICE);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(result["sobench"]["enforcement"]["state"], "unproven");
}

/// A stream with one delta of a chat answer.
fn delta(delta: &Value, finish: &str) -> Reply {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
    Reply::Event(json!({"choices": [choice]}).to_string())
}

fn tool_call(arguments: &str) -> Value {
    let function = json!({"name": "answer", "arguments": arguments});
    json!({"tool_calls": [{"index": 0, "id": "call-0", "function": function}]})
}

/// A document that satisfies the schema of the forced tool call of a request.
fn arguments_of(body: &Value) -> Option<String> {
    let function = &body["tools"][0]["function"];
    let schema = function["parameters"].clone();
    (!schema.is_null()).then(|| allowed(&json!({"guided_json": schema})).unwrap())
}

#[test]
fn json_in_a_tool_call_that_was_not_requested_is_the_wrong_channel() {
    let server = answering(|body| match body.get("response_format") {
        Some(_) => delta(&tool_call(&allowed(body).unwrap()), "tool_calls"),
        None => Reply::Prose,
    });
    let flags = [
        "--backend",
        "openai-chat",
        "--constraint-dialect",
        "response-format",
    ];
    let (found, _) = cells(&server, &[&flags[..], &["--kind", "json"]].concat());
    assert_eq!(found[0][2], "wrong_channel", "{found:?}");
    let ran = sobench(&[&["--base-url", &server.base_url], &flags[..]].concat());
    assert!(
        ran.code == 3
            && ran
                .stderr
                .contains("json in response-format: wrong channel"),
        "{}",
        ran.stderr
    );
}

#[test]
fn tool_calls_are_tested_with_and_without_strict() {
    let server = answering(|body| match arguments_of(body) {
        Some(arguments) if body["tools"][0]["function"]["strict"] == true => {
            delta(&tool_call(&arguments), "tool_calls")
        }
        Some(_) => delta(&tool_call(r#"{"waves": "high"}"#), "tool_calls"),
        None => Reply::Prose,
    });
    let (found, _) = cells(&server, &["--backend", "openai-chat", "--kind", "json"]);
    let class = |dialect: &str| {
        let cell = found.iter().find(|cell| cell[1] == dialect);
        cell.unwrap_or_else(|| panic!("{found:?}"))[2].clone()
    };
    assert_eq!(class("tool-call"), "enforced");
    assert_eq!(class("tool-call-non-strict"), "ignored");
}

#[test]
fn a_tool_call_that_is_cut_inside_its_envelope_is_tested_again() {
    let server = answering(|body| match arguments_of(body) {
        Some(arguments) if body["max_completion_tokens"] == 64 => {
            let cut = &arguments[..arguments.len() - 3];
            let text = format!(r#"{{"name": "answer", "arguments": {cut}"#);
            delta(&json!({"content": text}), "length")
        }
        Some(arguments) => delta(&tool_call(&arguments), "tool_calls"),
        None => Reply::Prose,
    });
    let flags = ["--backend", "openai-chat", "--kind", "json"];
    let dialect = ["--constraint-dialect", "tool-call"];
    let (found, file) = cells(&server, &[&flags[..], &dialect[..]].concat());
    assert_eq!(found[0][2], "enforced", "{file}");
    assert_eq!(file["cells"][0]["asked_again"], true);
}

fn features(server: &ScriptedServer, keywords: &str) -> Value {
    let command = [
        "preflight",
        "--features",
        "--disable-tqdm",
        "--format",
        "json",
    ];
    let target = ["--base-url", &server.base_url, "--keyword", keywords];
    let ran = sobench(&[&command[..], &target[..]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let file: Value = serde_json::from_str(&ran.stdout).unwrap();
    file["servers"][0]["found"].clone()
}

#[test]
fn a_keyword_is_enforced_only_if_the_model_yields_without_it() {
    // With the keyword, answers are valid in both cases.
    let answer = |yields: bool| {
        move |body: &Value| match constraint_text(body) {
            Some(schema) if schema.contains("green") => Reply::Text(r#"{"v": "red"}"#.to_owned()),
            Some(schema) if !schema.contains("const") && yields => {
                Reply::Text(r#"{"v": "mauve"}"#.to_owned())
            }
            Some(schema) if !schema.contains("const") => Reply::Text(r#"{"v": "red"}"#.to_owned()),
            Some(_) => Reply::Text(allowed(body).unwrap()),
            None => Reply::Prose,
        }
    };
    let stubborn = answering(answer(false));
    let found = features(&stubborn, "enum");
    assert_eq!(found[0]["id"], "enum");
    assert_eq!(found[0]["verdict"], "no_violation_seen", "{found}");
    assert_eq!(
        (&found[0]["yielded"], &found[0]["controls"]),
        (&json!(0), &json!(8))
    );
    let yielding = answering(answer(true));
    let found = features(&yielding, "enum");
    assert_eq!(found[0]["verdict"], "enforced", "{found}");
    // Four of the eight controls have the schema without `enum`.
    assert_eq!(
        (&found[0]["yielded"], &found[0]["controls"]),
        (&json!(4), &json!(8))
    );
    let page = sobench(&[
        "preflight",
        "--features",
        "--base-url",
        &stubborn.base_url,
        "--keyword",
        "enum",
    ]);
    assert!(
        page.stdout.contains("no violation seen (weak temptation)")
            && page.stdout.contains("0 of 8 controls break it"),
        "{}",
        page.stdout
    );
}

#[test]
fn answers_are_biased_towards_the_tokens_of_a_violation() {
    // The model breaks the keyword only if its tokens are made more likely.
    let server = vllm(|body| match body.get("logit_bias") {
        Some(bias) if bias.get(u32::from('p').to_string()).is_some() => {
            r#"{"v": "purple"}"#.to_owned()
        }
        _ => allowed(body).unwrap_or_else(|| "No.".to_owned()),
    });
    let found = features(&server, "enum-beside-type,enum");
    let of = |id: &str| {
        let found = found.as_array().unwrap().iter();
        found
            .clone()
            .find(|found| found["id"] == id)
            .unwrap()
            .clone()
    };
    assert_eq!(of("enum")["verdict"], "under_enforced", "{found}");
    let biased = posts(&server).into_iter();
    let biased: Vec<Value> = biased
        .filter(|body| body.get("logit_bias").is_some())
        .collect();
    assert!(!biased.is_empty());
    assert!(biased.iter().all(|body| {
        body["logit_bias"]
            .as_object()
            .unwrap()
            .values()
            .all(|bias| *bias == 4.0)
    }));
}

#[test]
fn schemas_that_nothing_satisfies_have_to_be_refused() {
    let accepting = answering(|body| match constraint_text(body) {
        Some(schema) if schema.contains("absent") || schema.contains("schemas.invalid") => {
            Reply::Status("400 Bad Request", "unresolvable reference")
        }
        Some(schema) if schema.contains("maximum") => Reply::Text(r#"{"v": 4}"#.to_owned()),
        Some(_) => allowed(body).map_or(Reply::Prose, Reply::Text),
        None => Reply::Prose,
    });
    let found = features(&accepting, "ref-missing,ref-remote,minimum-above-maximum");
    let verdicts: Vec<(&str, &str)> = found
        .as_array()
        .unwrap()
        .iter()
        .map(|found| {
            (
                found["id"].as_str().unwrap(),
                found["verdict"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        verdicts,
        [
            ("minimum-above-maximum", "under_enforced"),
            ("ref-missing", "rejected"),
            ("ref-remote", "rejected")
        ]
    );
}

#[test]
fn tools_are_sent_in_a_run_without_constraints() {
    let server = answering(|_| Reply::Prose);
    let tools =
        r#"{"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "auto"}"#;
    let flags = [
        "--backend",
        "openai-chat",
        "--num-prompts",
        "2",
        "--extra-body",
    ];
    let (ran, _) = run_against(
        &server,
        &[&flags[..], &[tools, "--no-guided-decoding"]].concat(),
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(
        posts(&server)
            .iter()
            .all(|body| body["tool_choice"] == "auto")
    );
    let format = r#"{"response_format": {"type": "json_object"}}"#;
    let refused = [&flags[..], &[format, "--no-guided-decoding"]].concat();
    let ran = sobench(&[&["--base-url", &server.base_url], &refused[..]].concat());
    assert!(
        ran.code == 2 && ran.stderr.contains("or remove --no-guided-decoding"),
        "{}",
        ran.stderr
    );
}

/// A server that refuses every constraint in the words of guidance.
fn refusing() -> ScriptedServer {
    answering(|body| match constraint_text(body) {
        Some(_) => Reply::Status(
            "400 Bad Request",
            r#"{"error":{"message":"Grammar error: Unimplemented keys: [\"multipleOf\"]","code":400}}"#,
        ),
        None => Reply::Prose,
    })
}

#[test]
fn a_refused_constraint_is_a_result() {
    let schema = json!({"type": "number", "multipleOf": 0.5});
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("schema.json");
    std::fs::write(&path, schema.to_string()).unwrap();
    let flags = [
        "--dataset",
        "json",
        "--json-schema-path",
        path.to_str().unwrap(),
        "--num-prompts",
        "12",
    ];
    let server = refusing();
    let ran = sobench(&[&["--base-url", &server.base_url], &flags[..]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(
        ran.stdout
            .contains("0 of 12 valid: the server refused the constraint (400: keyword multipleOf)"),
        "{}",
        ran.stdout
    );
    let (_, result) = run_against(&server, &flags);
    assert_eq!(result["sobench"]["outcomes"]["rejected"], 12);
    assert_eq!(result["correct_rate(%)"].as_f64(), Some(0.0));

    let (ran, result) = run_against(
        &server,
        &[&flags[..], &["--guided-decoding-ratio", "0.5"]].concat(),
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(result["completed"].as_u64(), Some(6), "{}", ran.stdout);

    let (ran, _) = run_against(
        &server,
        &[&flags[..], &["--require", "coverage>=100%"]].concat(),
    );
    assert_eq!(ran.code, 1, "{}", ran.stderr);
}

/// The first line of the report of a run that started with a trial request without a constraint.
#[test]
fn the_first_line_names_a_refusal_that_the_trial_request_did_not_meet() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("schema.json");
    std::fs::write(&path, r#"{"type": "number", "multipleOf": 0.5}"#).unwrap();
    let log = folder.path().join("run.jsonl");
    let flags = [
        "--json-schema-path",
        path.to_str().unwrap(),
        "--num-prompts",
        "12",
        "--guided-decoding-ratio",
        "0.5",
        "--skip-preflight",
        "--run-log",
        log.to_str().unwrap(),
    ];
    let mut starts_with_control = false;
    for seed in ["0", "1", "2", "3"] {
        let server = refusing();
        let run = ["--base-url", &server.base_url, "--seed", seed];
        let ran = sobench(&[&run, &flags[..]].concat());
        let trial = &posts(&server)[0];
        starts_with_control |= constraint_text(trial).is_none();
        let line = "0 of 6 valid: the server refused the constraint (400: keyword multipleOf)";
        let report = sobench(&["report", log.to_str().unwrap()]);
        for ran in [ran, report] {
            assert!(
                ran.code == 0 && ran.stdout.starts_with(line),
                "{}{}",
                ran.stdout,
                ran.stderr
            );
        }
    }
    assert!(starts_with_control, "no trial request of a control");
}

/// A server that answers the first request, and refuses later constraints with this status. Later
/// requests without a constraint get a status of their own.
fn refusing_after_the_trial(status: &'static str, control: &'static str) -> ScriptedServer {
    let answered = AtomicBool::new(false);
    answering(move |body| match constraint_text(body) {
        _ if !answered.swap(true, Ordering::SeqCst) => Reply::Prose,
        None if control.starts_with("200") => Reply::Prose,
        None => Reply::Status(control, "no"),
        Some(_) => Reply::Status(status, r#"{"error":{"message":"too large a grammar"}}"#),
    })
}

#[test]
fn constraints_that_are_refused_after_the_trial_request_are_a_result() {
    let run = |server: &ScriptedServer, more: &[&str]| {
        let base = ["--base-url", &server.base_url, "--skip-preflight"];
        sobench(&[&base, &CHOICE[..], more].concat())
    };
    let line = "0 of 12 valid: the server refused the constraint (400: too large a grammar)";
    let ran = run(&refusing_after_the_trial("400 Bad Request", "200 OK"), &[]);
    assert!(
        ran.code == 0 && ran.stdout.starts_with(line),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
    assert!(
        !ran.stdout.contains("and answers without it"),
        "{}",
        ran.stdout
    );
    for status in [
        "401 Unauthorized",
        "404 Not Found",
        "429 Too Many Requests",
        "500 Internal Server Error",
    ] {
        let ran = run(&refusing_after_the_trial(status, "200 OK"), &[]);
        assert!(
            ran.code == 3 && !ran.stdout.contains("refused the constraint"),
            "{status}: {}{}",
            ran.stdout,
            ran.stderr
        );
    }
    let server = refusing_after_the_trial("400 Bad Request", "400 Bad Request");
    let both = run(&server, &["--guided-decoding-ratio", "0.5", "--seed", "1"]);
    assert!(
        both.code == 3 && !both.stdout.contains("refused the constraint"),
        "requests without the constraint are refused too: {}{}",
        both.stdout,
        both.stderr
    );
}

#[test]
fn a_run_without_any_answer_ends_with_figures_and_exit_3() {
    for (status, body, reason) in [
        ("400 Bad Request", "no", "400: no"),
        ("500 Internal Server Error", "no", "500: no"),
        ("429 Too Many Requests", "slow", "429: slow"),
        ("200 OK", "[]", "expected text/event-stream"),
    ] {
        let server = answering(move |_| Reply::Status(status, body));
        let (ran, result) = run_against(&server, &CHOICE);
        assert_eq!(ran.code, 3, "{status}: {}", ran.stderr);
        assert!(
            ran.stderr
                .contains("none of 2 trial requests has an answer")
                && ran.stderr.contains("every request failed"),
            "{status}: {}",
            ran.stderr
        );
        // The constraint is not the cause: the request fails without it too.
        assert!(
            !ran.stderr.contains("--constraint-dialect"),
            "{}",
            ran.stderr
        );
        assert!(page(&ran).contains(reason), "{status}: {}", ran.stdout);
        assert_eq!(result["failed"].as_u64(), Some(12), "{status}");
    }
}

#[test]
fn a_wrong_address_or_key_ends_the_run_before_its_requests() {
    for (status, hint) in [
        ("401 Unauthorized", "OPENAI_API_KEY"),
        ("403 Forbidden", "OPENAI_API_KEY"),
        ("404 Not Found", "--endpoint"),
        ("405 Method Not Allowed", "--endpoint"),
    ] {
        let server = answering(move |_| Reply::Status(status, "no"));
        let ran = sobench(&[&["--base-url", &server.base_url], &CHOICE[..]].concat());
        assert!(
            ran.code == 3
                && ran.stderr.contains("the trial run failed at")
                && ran.stderr.contains(hint),
            "{status}: {}",
            ran.stderr
        );
        assert!(
            ran.stdout.is_empty() && posts(&server).len() == 2,
            "{status}"
        );
    }
}

/// Rows with a schema each; the constant of the schema is the name of the row.
fn rows_file(names: &[&str]) -> tempfile::NamedTempFile {
    let rows = tempfile::NamedTempFile::new().unwrap();
    let lines: String = names
        .iter()
        .map(|name| {
            let member = json!({"type": "string", "const": name, "maxLength": name.len()});
            let schema = json!({"type": "object", "properties": {"a": member}, "required": ["a"]});
            format!("{}\n", json!({"prompt": "?", "json": schema}))
        })
        .collect();
    std::fs::write(rows.path(), lines).unwrap();
    rows
}

#[test]
fn a_row_that_fails_costs_only_its_own_request_wherever_it_is() {
    let faults: [Reply; 4] = [
        Reply::Status("500 Internal Server Error", "no"),
        Reply::Status("400 Bad Request", "no"),
        Reply::Status("403 Forbidden", "blocked"),
        Reply::Status("200 OK", "{"),
    ];
    for fault in faults {
        for names in [["bad", "x", "y", "z"], ["x", "y", "z", "bad"]] {
            let fault = fault.clone();
            let server = answering(move |body| match constraint_text(body) {
                Some(text) if text.contains("bad") => fault.clone(),
                _ => allowed(body).map_or(Reply::Prose, Reply::Text),
            });
            let rows = rows_file(&names);
            let path = rows.path().to_str().unwrap();
            let flags = [
                "--dataset",
                "custom",
                "--dataset-path",
                path,
                "--num-prompts",
                "4",
            ];
            let (ran, result) = run_against(&server, &flags);
            assert_eq!(ran.code, 0, "{}", ran.stderr);
            assert_eq!(result["completed"].as_u64(), Some(3), "{}", ran.stdout);
            assert_eq!(
                result["correct_rate(%)"].as_f64(),
                Some(75.0),
                "{}",
                ran.stdout
            );
        }
    }
}

#[test]
fn a_server_that_a_row_ends_is_named_with_the_row() {
    let server = crashing_server("bad");
    let rows = rows_file(&["bad", "x"]);
    let path = rows.path().to_str().unwrap();
    let ran = sobench(&[
        "--base-url",
        &server.base_url(),
        "--model",
        "tiny",
        "--dataset",
        "custom",
        "--dataset-path",
        path,
        "--num-prompts",
        "2",
    ]);
    assert!(
        ran.code == 3
            && ran
                .stderr
                .contains("took the request custom-0 and no other one since"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_server_that_is_gone_for_half_of_the_run_gives_exit_3() {
    for (names, code) in [(["x", "y", "bad", "z"], 0), (["x", "bad", "y", "z"], 3)] {
        let server = crashing_server("bad");
        let rows = rows_file(&names);
        let path = rows.path().to_str().unwrap();
        let ran = sobench(&[
            "--base-url",
            &server.base_url(),
            "--model",
            "tiny",
            "--skip-preflight",
            "--dataset",
            "custom",
            "--dataset-path",
            path,
            "--num-prompts",
            "4",
            "--max-concurrency",
            "1",
        ]);
        assert_eq!(ran.code, code, "{names:?}: {}{}", ran.stdout, ran.stderr);
        assert_eq!(
            ran.stderr.contains("not reachable for 2 of 4 requests"),
            code == 3,
            "{}",
            ran.stderr
        );
    }
}

/// Whether a value has a `maxLength` of at least 2,000 somewhere.
fn has_large_length(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(has_large_length),
        Value::Object(members) => {
            let length = members.get("maxLength").and_then(Value::as_u64);
            length.is_some_and(|length| length >= 2000) || members.values().any(has_large_length)
        }
        _ => false,
    }
}

/// A server of chat completions that refuses requests with a large `maxLength`, or all tools, with
/// a message that names nothing.
fn refusing_parts(refuses_all_tools: bool) -> ScriptedServer {
    answering(move |body| {
        if has_large_length(body) || (refuses_all_tools && body.get("tools").is_some()) {
            Reply::Status(
                "400 Bad Request",
                r#"{"error": {"message": "cannot compile"}}"#,
            )
        } else {
            Reply::Prose
        }
    })
}

#[test]
fn a_refused_part_of_a_constraint_is_found_and_named() {
    let tool = |name: &str, parameters: Value| json!({"type": "function", "function": {"name": name, "parameters": parameters}});
    let text = |length: u64| json!({"type": "string", "minLength": 1, "maxLength": length});
    let nested = json!({
        "type": "object",
        "properties": {
            "url": text(200),
            "parts": {"type": "array", "items": {"type": "object", "properties": {"query": text(5000)}}},
        },
        "required": ["url"],
    });
    let small = json!({"type": "object", "properties": {"city": text(20)}});
    let tools = json!([
        tool("get_city", small.clone()),
        tool("get_time", json!({"type": "object", "properties": {}})),
        tool("read_site", nested.clone()),
        tool("get_town", small),
    ]);
    let with_tools = json!({"prompt": "?", "tools": tools, "tool_choice": "required"});
    let with_schema = json!({"prompt": "?", "json": nested});
    for (row, refuses_all_tools, found, headline) in [
        (
            &with_tools,
            false,
            "it refuses the tool read_site, for the keyword maxLength (5000; up to 1999 is accepted) at parts/query",
            "(400: tool read_site, keyword maxLength)",
        ),
        (
            &with_schema,
            false,
            "it refuses the keyword maxLength (5000; up to 1999 is accepted) at parts/query",
            "(400: keyword maxLength)",
        ),
        (&with_tools, true, "", "(400: cannot compile)"),
    ] {
        let rows = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(rows.path(), format!("{row}\n")).unwrap();
        let path = rows.path().to_str().unwrap();
        let flags = [
            "--dataset",
            "custom",
            "--dataset-path",
            path,
            "--num-prompts",
            "2",
        ];
        let chat = ["--backend", "openai-chat", "--skip-preflight"];
        let server = refusing_parts(refuses_all_tools);
        let server = ["--base-url", &server.base_url];
        let ran = sobench(&[&server, &flags[..], &chat].concat());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert!(ran.stderr.contains(found), "{}", ran.stderr);
        assert_eq!(ran.stderr.contains("it refuses"), !found.is_empty());
        assert!(
            !ran.stderr.contains("--enable-auto-tool-choice"),
            "{}",
            ran.stderr
        );
        let (page, line) = (
            page(&ran),
            format!("0 of 2 valid: the server refused the constraint {headline}"),
        );
        assert!(page.starts_with(&line), "{page}");
    }
}

/// A server whose completions ignore constraints, and whose chat completions enforce them.
fn enforcing_in_chat() -> ScriptedServer {
    answering(|body| match allowed(body) {
        Some(text) if body.get("messages").is_some() => Reply::Text(text),
        _ => Reply::Prose,
    })
}

#[test]
fn a_constraint_that_only_the_other_endpoint_enforces_is_reported_with_its_backend() {
    let expected = "another endpoint of the server, /v1/chat/completions, enforces choice in structured-outputs: use --backend openai-chat";
    let server = enforcing_in_chat();
    let ran = sobench(&[&["--base-url", &server.base_url], &CHOICE[..]].concat());
    assert!(
        ran.code == 3 && ran.stderr.contains(&format!("hint: {expected}")),
        "{}",
        ran.stderr
    );
    let (_, found) = cells(&server, &["--kind", "choice"]);
    assert_eq!(found["notices"][0], expected, "{found}");
    let chat = ["--backend", "openai-chat"];
    let ran = sobench(&[&["--base-url", &server.base_url], &CHOICE[..], &chat].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);

    // If no endpoint enforces it, none is named.
    let neither = answering(|_| Reply::Prose);
    let (_, found) = cells(&neither, &["--kind", "choice"]);
    assert!(
        !found["notices"].to_string().contains("--backend"),
        "{found}"
    );
}

#[test]
fn an_identified_server_is_asked_in_its_own_dialect_first_and_only() {
    let serving = |owner, enforces: bool| {
        answering_as(owner, move |body| match allowed(body) {
            Some(text) if enforces && body.get("structured_outputs").is_some() => Reply::Text(text),
            _ => Reply::Prose,
        })
    };
    let dialects = |server: &ScriptedServer, more: &[&str]| {
        let flags = ["--backend", "openai-chat", "--kind", "json,regex,choice"];
        let (cells, _) = cells(server, &[&flags[..], more].concat());
        let mut dialects: Vec<String> = cells.into_iter().map(|[_, dialect, _]| dialect).collect();
        dialects.dedup();
        dialects
    };
    let server = serving("vllm", true);
    assert_eq!(dialects(&server, &[]), ["structured-outputs"]);
    assert_eq!(
        posts(&server).len(),
        5,
        "control, three kinds, JSON formatting"
    );
    assert_eq!(dialects(&server, &["--all-dialects"]).len(), 10);
    // Its other dialects are tried, and then those of other servers.
    let tried = dialects(&serving("vllm", false), &[]);
    assert_eq!(
        tried[..3],
        ["structured-outputs", "guided", "response-format"]
    );
    assert_eq!(tried.len(), 10, "{tried:?}");
    assert_eq!(dialects(&serving("unknown", true), &[]).len(), 10);
}
