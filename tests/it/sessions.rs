//! Sessions: turns follow each other, recorded prompts do not depend on the server, and shards divide
//! sessions.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sobench_core::observation::Outcome;
use sobench_runlog::RunLog;
use sobench_testkit::scripted::{Request, ScriptedServer, models, whole};

use crate::support::{Folder, Ran, sobench};

const LOAD: [&str; 2] = [
    "--dataset sessions --backend openai-chat --session-delay-scale 0 --skip-preflight",
    "--disable-tqdm --num-warmups 0 --session-header x-session-id --request-id-prefix r-",
];

/// Answers each chat with `text`.
fn chat(request: &Request, text: &str) -> String {
    if request.is_model_list() {
        return models();
    }
    if request.line.starts_with("GET") {
        return whole("404 Not Found", "text/plain", "");
    }
    let event = |value: Value| format!("data: {value}\n\n");
    let events = [
        event(
            json!({"choices": [{"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": null}]}),
        ),
        event(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})),
        event(json!({"choices": [], "usage": {
            "prompt_tokens": 90, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 64},
        }})),
        "data: [DONE]\n\n".to_owned(),
    ];
    whole("200 OK", "text/event-stream", &events.concat())
}

/// The messages of each request of the run by its id, with the session of its header.
fn received(server: &ScriptedServer) -> BTreeMap<usize, (String, Value)> {
    let requests = server.requests().into_iter();
    let of_run = requests.filter_map(|request| {
        let index = request
            .header("x-request-id")?
            .strip_prefix("r-")?
            .parse()
            .ok()?;
        let session = request.header("x-session-id")?.to_owned();
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        Some((index, (session, body["messages"].clone())))
    });
    of_run.collect()
}

fn run(server: &ScriptedServer, more: &[&str]) -> Ran {
    let ran = sobench(&[&LOAD[..], &["--base-url", &server.base_url], more].concat());
    assert!(ran.code <= 1, "{}", ran.stderr);
    ran
}

/// A text without its marks.
fn without_salt(value: &Value) -> String {
    let text = value.to_string();
    let mut parts = text.split("[salt: ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once("] ").unwrap().1)
}

#[test]
fn sessions_run_on_the_embedded_server() {
    let folder = Folder::new();
    let log = folder.path("run.jsonl");
    let ran = sobench(&[
        "--dataset sessions --num-prompts 12 --max-concurrency 4 --session-delay-scale 0",
        "--detail full --run-log",
        &log,
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for text in [
        "sessions? 12 of 12 finished (100.0 %)",
        "full load until",
        "Turns of sessions",
        "turn:2",
    ] {
        assert!(ran.stdout.contains(text), "{text}: {}", ran.stdout);
    }
    let log = RunLog::read(log.as_ref()).unwrap();
    let mut ends: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for request in log.requests.iter() {
        let turn = request.turn().unwrap();
        let times = request.request_times();
        let place = (turn.session, turn.turn);
        ends.insert(place, times.end_ns.unwrap());
        if turn.turn > 1 {
            assert_eq!(
                times.due_ns,
                ends[&(turn.session, turn.turn - 1)],
                "{place:?}"
            );
            // A report has no tools, which come before the messages.
            let has_tools = request.constraint().unwrap().tools().is_some();
            assert!(!has_tools || request.cached_tokens() > Some(0), "{place:?}");
        }
    }
    assert_eq!(log.record.dataset.session_turns.len(), 12);
}

#[test]
fn recorded_prompts_are_equal_on_two_servers_but_for_the_salt() {
    let one = ScriptedServer::answering(|request| chat(request, "{}"));
    let two = ScriptedServer::answering(|request| chat(request, "no"));
    let file = sobench_testkit::repository_path("fixtures/datasets/sessions.jsonl");
    let path = ["--dataset-path", file.to_str().unwrap(), "--num-prompts 2"];
    run(&one, &[&path[..], &["--seed 1"]].concat());
    run(&two, &[&path[..], &["--seed 2"]].concat());
    let (one, two) = (received(&one), received(&two));
    assert_eq!((one.len(), two.len()), (5, 5));
    for (index, (session, messages)) in &one {
        assert_eq!(session, &two[index].0);
        assert_ne!(messages, &two[index].1);
        assert_eq!(without_salt(messages), without_salt(&two[index].1));
    }
    let sessions: Vec<&str> = one.values().map(|(session, _)| session.as_str()).collect();
    assert_eq!(
        sessions,
        [
            "r-session-0",
            "r-session-0",
            "r-session-0",
            "r-session-1",
            "r-session-1"
        ]
    );
}

#[test]
fn live_prompts_have_the_answers_of_the_server() {
    let server = ScriptedServer::answering(|request| chat(request, "I do not know."));
    let file = sobench_testkit::repository_path("fixtures/datasets/sessions.jsonl");
    let path = ["--dataset-path", file.to_str().unwrap(), "--num-prompts 3"];
    let ran = run(&server, &[&path[..], &["--session-mode live"]].concat());
    let found = received(&server);
    let messages = &found[&1].1;
    let roles: Vec<&str> = messages
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["user", "assistant", "user"], "{}", ran.stderr);
    assert_eq!(messages[1]["content"], "I do not know.");
    assert_eq!(
        messages[2]["content"],
        "Result of get_weather: 4 degrees, rain"
    );
}

#[test]
fn branches_of_live_sessions_have_the_answers_of_their_parents() {
    let last = |request: &Request| -> String {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let messages = body["messages"].as_array();
        let last = messages.and_then(|messages| messages.last()?["content"].as_str());
        last.unwrap_or_default().to_owned()
    };
    let server =
        ScriptedServer::answering(move |request| chat(request, &format!("re: {}", last(request))));
    let folder = Folder::new();
    // The session starts one without its history, waits for it, and starts two with its history.
    let file = folder.file(
        "branches.jsonl",
        r#"{"session_id":"root","turns":[{"text":"plan","spawns":["sub"]},{"text":"join","forks":["left","right"]}]}
{"session_id":"sub","turns":[{"text":"work"},{"text":"more"}]}
{"session_id":"left","turns":[{"text":"l"}]}
{"session_id":"right","turns":[{"text":"r"}]}
"#,
    );
    let ran = run(
        &server,
        &[
            "--num-prompts 1 --session-mode live --no-session-salt --dataset-path",
            &file,
        ],
    );
    assert!(ran.stdout.contains("1 of 1 finished"), "{}", ran.stdout);
    let texts = |messages: &Value| -> Vec<String> {
        let messages = messages.as_array().unwrap().iter();
        messages
            .map(|message| message["content"].as_str().unwrap().to_owned())
            .collect()
    };
    let found = received(&server);
    let found: Vec<Vec<String>> = found
        .values()
        .map(|(_, messages)| texts(messages))
        .collect();
    let joined = ["plan", "re: plan", "join", "re: join"];
    let expected: [&[&str]; 6] = [
        &["plan"],
        &["work"],
        &["work", "re: work", "more"],
        &joined[..3],
        &[&joined[..], &["l"]].concat(),
        &[&joined[..], &["r"]].concat(),
    ];
    assert_eq!(found, expected);
    // In the order of arrival, the turn that waits comes after the session for which it waits.
    let sent = server.requests().into_iter();
    let sent: Vec<String> = sent
        .filter(|request| request.header("x-session-id").is_some())
        .map(|request| last(&request))
        .collect();
    let place = |text: &str| sent.iter().position(|sent| sent == text).unwrap();
    assert!(place("more") < place("join"), "{sent:?}");
}

#[test]
fn a_turn_without_an_answer_ends_its_session() {
    let folder = Folder::new();
    let log = folder.path("run.jsonl");
    let server = ScriptedServer::answering(|request| {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        match body["messages"].as_array().map_or(0, Vec::len) {
            4.. => whole("500 Internal Server Error", "text/plain", "broken"),
            _ => chat(request, "{}"),
        }
    });
    let more = ["--num-prompts 4 --max-concurrency 2 --run-log", &log];
    let ran = run(&server, &more);
    assert!(
        ran.stdout.contains("0 of 4 finished (0.0 %)"),
        "{}",
        ran.stdout
    );
    let log = RunLog::read(log.as_ref()).unwrap();
    for request in log.requests.iter() {
        let is_expected = match request.turn().unwrap().turn {
            1 => request.outcome().is_answer(),
            2 => matches!(request.outcome(), Outcome::ServerError { .. }),
            _ => *request.outcome() == Outcome::Cancelled,
        };
        assert!(is_expected, "{} {:?}", request.id(), request.outcome());
    }
}

#[test]
fn shards_divide_sessions_and_are_merged() {
    let folder = Folder::new();
    let alone = ScriptedServer::answering(|request| chat(request, "{}"));
    let together = ScriptedServer::answering(|request| chat(request, "{}"));
    run(&alone, &["--num-prompts 9 --max-concurrency 4"]);
    let logs = [1, 2].map(|number| {
        let log = folder.path(&format!("shard-{number}.jsonl"));
        let shard = format!("--shard {number}/2");
        let more = [
            "--num-prompts 9 --max-concurrency 4",
            &shard,
            "--run-log",
            &log,
        ];
        run(&together, &more);
        log
    });
    let (alone, together) = (received(&alone), received(&together));
    assert_eq!(alone, together);
    let merged = folder.path("merged.jsonl");
    let ran = sobench(&["merge", &logs[0], &logs[1], "--save", &merged]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(
        ran.stdout.contains("sessions? 9 of 9 finished"),
        "{}",
        ran.stdout
    );
    let merged = RunLog::read(merged.as_ref()).unwrap();
    assert_eq!(merged.requests.len(), alone.len());
}
