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

use crate::support::{Folder, Ran, custom_result, sobench, sobench_result};

const CHOICE: &str = "--dataset choice --num-prompts 12";

/// The result of a run against a server.
fn saved(server: &ScriptedServer, arguments: &[&str]) -> (Ran, Value) {
    let (ran, result) = sobench_result(&[&["--base-url", &server.base_url], arguments].concat());
    (ran, result["sobench"].clone())
}

fn run(server: &ScriptedServer, flags: &str) -> Ran {
    sobench(&["--base-url", &server.base_url, flags])
}

/// The cells of `sobench preflight` as kind, dialect and class, and the file.
fn cells(server: &ScriptedServer, flags: &str) -> (Vec<[String; 3]>, Value) {
    let ran = sobench(&[
        "preflight",
        "--disable-tqdm --format json --base-url",
        &server.base_url,
        flags,
    ]);
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
    run(&server, CHOICE).assert_exits(3, &["choice in structured-outputs: partial"]);
    let (ran, own) = saved(&server, &[CHOICE, "--allow-unenforced"]);
    let headline = "CONSTRAINT NOT ENFORCED: choice in structured-outputs is enforced only in part";
    ran.assert_headline(0, "enforced? NO: ");
    assert!(ran.stdout.contains(headline), "{}", ran.stdout);
    assert_eq!(own["enforcement"]["state"], "not_enforced");
}

#[test]
fn a_dropped_constraint_is_found_behind_a_model_that_ignores_the_plain_prompt() {
    let server = answering(|body| match body["prompt"].as_str() {
        Some(prompt) if prompt.starts_with("Write one short sentence") => {
            Reply::Text(String::new())
        }
        _ => Reply::Prose,
    });
    let (cells, found) = cells(&server, "--kind json,choice");
    for [kind, dialect, class] in &cells {
        let is_carried = (kind.as_str(), dialect.as_str()) != ("choice", "response-format");
        assert_eq!(
            class,
            if is_carried { "ignored" } else { "not_carried" },
            "{cells:?}"
        );
    }
    let prompt = found["record"]["prompt"].as_str().unwrap();
    assert!(prompt.starts_with("From the log of a ship"), "{prompt}");
    run(&server, CHOICE).assert_exits(3, &["choice in structured-outputs: ignored"]);
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
    let (cells, _) = cells(&server, "--kind choice --constraint-dialect guided");
    assert_eq!(cells[0][2], "ignored", "{cells:?}");
}

#[test]
fn unproven_constraints_are_checked_in_the_first_answers_of_the_run() {
    // The model says nothing about the weather, with and without a constraint.
    let server = answering(|body| match body {
        body if is_preflight(body) => Reply::Text(String::new()),
        _ => Reply::Prose,
    });
    let flags = "--dataset choice --num-prompts 40 --max-concurrency 1";
    let (ran, own) = saved(&server, &[flags]);
    let error = "8 of the first 8 constrained answers break their constraint";
    ran.assert_exits(3, &[error, "--allow-unenforced"]);
    assert_eq!(own["enforcement"]["state"], "not_enforced");
    assert_eq!(
        (&own["enforcement"]["early"]["broken"], &own["partial"]),
        (&json!(8), &json!(true))
    );
    let (ran, own) = saved(&server, &[flags, "--allow-unenforced"]);
    ran.assert_headline(0, "enforced? NO: ");
    let alarm = "CONSTRAINT NOT ENFORCED: 8 of the first 8 constrained answers";
    assert!(ran.stdout.contains(alarm), "{}", ran.stdout);
    assert_eq!(own["outcomes"]["completed"], 40);
    // A short run ends before eight answers.
    run(&server, "--dataset choice --num-prompts 4").assert_exits(3, &[]);
}

#[test]
fn unproven_constraints_that_are_enforced_do_not_stop_the_run() {
    let server = answering(|body| match body {
        body if is_preflight(body) => Reply::Text(String::new()),
        body => allowed(body).map_or(Reply::Prose, Reply::Text),
    });
    let (ran, own) = saved(&server, &[CHOICE]);
    assert_eq!(
        (ran.code, &own["enforcement"]["state"]),
        (0, &json!("unproven"))
    );
}

/// What `preflight --features` finds about keywords.
fn features(server: &ScriptedServer, keywords: &str) -> Vec<Value> {
    let flags = "--features --disable-tqdm --format json --keyword";
    let ran = sobench(&["preflight", flags, keywords, "--base-url", &server.base_url]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let file: Value = serde_json::from_str(&ran.stdout).unwrap();
    file["servers"][0]["found"].as_array().unwrap().clone()
}

#[test]
fn a_keyword_is_enforced_only_if_the_model_yields_without_it() {
    // With the keyword, answers are valid in both cases. Four of the eight controls have the schema
    // without `enum`.
    for (free, yielded, verdict) in [("red", 0, "no_violation_seen"), ("mauve", 4, "enforced")] {
        let server = answering(move |body| match constraint_text(body) {
            Some(schema) if schema.contains("green") => Reply::Text(r#"{"v": "red"}"#.to_owned()),
            Some(schema) if schema.contains("const") => Reply::Text(allowed(body).unwrap()),
            Some(_) => Reply::Text(json!({ "v": free }).to_string()),
            None => Reply::Prose,
        });
        let found = features(&server, "enum").remove(0);
        let counts = ["verdict", "yielded", "controls"].map(|name| &found[name]);
        assert_eq!(
            counts,
            [&json!(verdict), &json!(yielded), &json!(8)],
            "{found}"
        );
    }
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
    let of_enum = found.iter().find(|found| found["id"] == "enum").unwrap();
    assert_eq!(of_enum["verdict"], "under_enforced", "{of_enum}");
    let posts = posts(&server);
    let biases: Vec<&Value> = posts
        .iter()
        .filter_map(|body| body.get("logit_bias"))
        .collect();
    assert!(!biases.is_empty());
    for bias in biases {
        assert!(
            bias.as_object().unwrap().values().all(|bias| *bias == 4.0),
            "{bias}"
        );
    }
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

const REFUSED: &str = "enforced? NO: the server refused the constraint (400: keyword multipleOf)";

#[test]
fn a_refused_constraint_is_a_result() {
    let folder = Folder::new();
    let path = folder.file("schema.json", r#"{"type": "number", "multipleOf": 0.5}"#);
    let server = refusing();
    let saved = |more| {
        saved(
            &server,
            &["--num-prompts 12 --json-schema-path", &path, more],
        )
    };
    let (_, own) = saved("--dataset json");
    let rate = &own["metrics"]["correct_rate"]["percent"];
    assert_eq!(
        (&own["outcomes"]["rejected"], rate),
        (&json!(12), &json!(0.0))
    );
    let (ran, own) = saved("--guided-decoding-ratio 0.5");
    assert_eq!((ran.code, &own["outcomes"]["completed"]), (0, &json!(6)));
    let (ran, _) = saved("--require coverage>=100%");
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let flags = ["--num-prompts 12 --json-schema-path", &path];
    let ran = sobench(&[&flags[..], &["--base-url", &server.base_url]].concat());
    ran.assert_headline(0, REFUSED);
}

/// Of a run that started with a trial request without a constraint, too.
#[test]
fn the_first_line_names_a_refusal_that_the_trial_request_did_not_meet() {
    let folder = Folder::new();
    let path = folder.file("schema.json", r#"{"type": "number", "multipleOf": 0.5}"#);
    let log = folder.path("run.jsonl");
    let mut starts_with_control = false;
    for seed in 0..4 {
        let server = refusing();
        let flags =
            format!("--num-prompts 12 --guided-decoding-ratio 0.5 --skip-preflight --seed {seed}");
        let files = ["--json-schema-path", &path, "--run-log", &log];
        let ran = sobench(&[&files[..], &[&flags, "--base-url", &server.base_url]].concat());
        starts_with_control |= constraint_text(&posts(&server)[0]).is_none();
        for ran in [ran, sobench(&["report", &log])] {
            ran.assert_headline(0, REFUSED);
        }
        let whole = sobench(&["report", &log, "--detail full"]).stdout;
        assert!(
            whole.contains("1 constraint refused: 1 for `multipleOf`"),
            "{whole}"
        );
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
    let run = |server: &ScriptedServer, more: &str| {
        run(server, &format!("{CHOICE} --skip-preflight {more}"))
    };
    let refused = refusing_after_the_trial("400 Bad Request", "200 OK");
    let headline = "enforced? NO: the server refused the constraint (400: too large a grammar);";
    run(&refused, "").assert_headline(0, headline);
    for status in ["401 Unauthorized", "404 Not Found", "429 Slow", "500 Oops"] {
        let ran = run(&refusing_after_the_trial(status, "200 OK"), "");
        assert_eq!(
            (
                ran.code,
                ran.page().matches("refused the constraint").count()
            ),
            (3, 0),
            "{status}"
        );
    }
    // Requests without the constraint are refused too.
    let server = refusing_after_the_trial("400 Bad Request", "400 Bad Request");
    let both = run(&server, "--guided-decoding-ratio 0.5 --seed 1");
    assert_eq!(
        (
            both.code,
            both.page().matches("refused the constraint").count()
        ),
        (3, 0)
    );
}

#[test]
fn a_run_without_any_answer_ends_with_figures_and_exit_3() {
    for (status, body, outcome) in [
        ("400 Bad Request", "no", "rejected"),
        ("500 Internal Server Error", "no", "server_error"),
        ("429 Too Many Requests", "slow", "rejected"),
        ("200 OK", "[]", "stream_error"),
    ] {
        let server = answering(move |_| Reply::Status(status, body));
        let (ran, own) = saved(&server, &[CHOICE]);
        ran.assert_exits(
            3,
            &[
                "none of 2 trial requests has an answer",
                "every request failed",
            ],
        );
        // The constraint is not the cause: the request fails without it too.
        assert!(!ran.has_error("--constraint-dialect"), "{}", ran.stderr);
        assert_eq!(own["outcomes"][outcome], 12, "{status}");
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
        run(&server, CHOICE).assert_fails(3, &["the trial run failed at", hint]);
        assert_eq!(posts(&server).len(), 2, "{status}");
    }
}

/// Rows with a schema each; the constant of the schema is the name of the row.
fn rows(names: &[&str]) -> Vec<Value> {
    let row = |name: &&str| {
        let member = json!({"type": "string", "const": name, "maxLength": name.len()});
        let schema = json!({"type": "object", "properties": {"a": member}, "required": ["a"]});
        json!({"prompt": "?", "json": schema})
    };
    names.iter().map(row).collect()
}

#[test]
fn a_row_that_fails_costs_only_its_own_request_wherever_it_is() {
    for fault in [
        Reply::Status("500 Internal Server Error", "no"),
        Reply::Status("403 Forbidden", "blocked"),
        Reply::Status("200 OK", "{"),
    ] {
        for names in [["bad", "x", "y", "z"], ["x", "y", "z", "bad"]] {
            let fault = fault.clone();
            let server = answering(move |body| match constraint_text(body) {
                Some(text) if text.contains("bad") => fault.clone(),
                _ => allowed(body).map_or(Reply::Prose, Reply::Text),
            });
            let (_, result) = custom_result(&server.base_url, &rows(&names), &[]);
            let found = (&result["completed"], &result["correct_rate(%)"]);
            assert_eq!(found, (&json!(3), &json!(75.0)), "{names:?}");
        }
    }
}

/// Runs rows against a server that ends at the row `bad`.
fn run_against_mortal(names: &[&str], more: &str) -> Ran {
    let server = crashing_server("bad");
    let folder = Folder::new();
    let path = folder.lines("rows.jsonl", &rows(names));
    let run = format!(
        "--model tiny --num-prompts {} --max-concurrency 1 {more}",
        names.len()
    );
    let dataset = ["--dataset custom --dataset-path", &path];
    sobench(&[&[&run, "--base-url", &server.base_url()], &dataset[..]].concat())
}

#[test]
fn a_server_that_a_row_ends_is_named_with_the_row() {
    let ran = run_against_mortal(&["bad", "x"], "");
    ran.assert_exits(3, &["took the request custom-0 and no other one since"]);
}

#[test]
fn a_server_that_is_gone_for_half_of_the_run_gives_exit_3() {
    let ran = run_against_mortal(&["x", "y", "bad", "z"], "--skip-preflight");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let ran = run_against_mortal(&["x", "bad", "y", "z"], "--skip-preflight");
    ran.assert_exits(3, &["not reachable for 2 of 4 requests"]);
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
        let server = refusing_parts(refuses_all_tools);
        let folder = Folder::new();
        let path = folder.lines("rows.jsonl", std::slice::from_ref(row));
        let flags = "--num-prompts 2 --backend openai-chat --skip-preflight --base-url";
        let dataset = ["--dataset custom --dataset-path", &path];
        let ran = sobench(&[&[flags, &server.base_url], &dataset[..]].concat());
        assert_eq!(
            ran.stderr.matches("it refuses").count(),
            usize::from(!found.is_empty())
        );
        ran.assert_exits(0, &[found]);
        let line = format!("enforced? NO: the server refused the constraint {headline}");
        ran.assert_headline(0, &line);
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
    run(&server, CHOICE).assert_exits(3, &[&format!("hint: {expected}")]);
    let (_, found) = cells(&server, "--kind choice");
    assert_eq!(found["notices"][0], expected);
    let chat = run(&server, &format!("{CHOICE} --backend openai-chat"));
    assert_eq!(chat.code, 0, "{}", chat.stderr);
    // If no endpoint enforces it, none is named.
    let (_, found) = cells(&answering(|_| Reply::Prose), "--kind choice");
    let notices = found["notices"].as_array().unwrap();
    assert!(!notices.contains(&json!(expected)), "{found}");
}

#[test]
fn an_identified_server_is_asked_in_its_own_dialect_first_and_only() {
    let serving = |owner, enforces: bool| {
        answering_as(owner, move |body| match allowed(body) {
            Some(text) if enforces && body.get("structured_outputs").is_some() => Reply::Text(text),
            _ => Reply::Prose,
        })
    };
    let dialects = |server: &ScriptedServer, more: &str| {
        let flags = format!("--backend openai-chat --kind json,regex,choice {more}");
        let (cells, _) = cells(server, &flags);
        let mut dialects: Vec<String> = cells.into_iter().map(|[_, dialect, _]| dialect).collect();
        dialects.dedup();
        dialects
    };
    let server = serving("vllm", true);
    assert_eq!(dialects(&server, ""), ["structured-outputs"]);
    assert_eq!(
        posts(&server).len(),
        5,
        "control, three kinds, JSON formatting"
    );
    assert_eq!(dialects(&server, "--all-dialects").len(), 10);
    // Its other dialects are tried, and then those of other servers.
    let tried = dialects(&serving("vllm", false), "");
    assert_eq!(
        tried[..3],
        ["structured-outputs", "guided", "response-format"]
    );
    assert_eq!(tried.len(), 10, "{tried:?}");
    assert_eq!(dialects(&serving("unknown", true), "").len(), 10);
}
