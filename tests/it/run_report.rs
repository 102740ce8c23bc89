//! What the report of a run says of servers that misbehave: lost constraints, errors of several
//! causes, refusals, drift, bursts, repeated answers, and a control arm that was cut.

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};
use sobench_testkit::scripted::{STREAM_HEAD, ScriptedServer, Then, chunk, models};

use crate::support::{Ran, check_result, sobench, sobench_result};

/// A generating request: its number from 0, where the first is the trial request, and how many are
/// in flight with it.
struct Asked<'b> {
    number: usize,
    in_flight: usize,
    body: &'b Value,
}

impl Asked<'_> {
    fn is_constrained(&self) -> bool {
        self.body.get("structured_outputs").is_some()
    }
}

/// A part of a stream: events sent at once, after a pause.
struct Part {
    pause: Duration,
    events: String,
}

fn at_once(events: String) -> Vec<Part> {
    vec![Part {
        pause: Duration::ZERO,
        events,
    }]
}

/// A chat server that streams these parts.
fn server(reply: impl Fn(&Asked<'_>) -> Vec<Part> + Send + Sync + 'static) -> ScriptedServer {
    let (asked, in_flight) = (AtomicUsize::new(0), AtomicUsize::new(0));
    ScriptedServer::new(move |request, to| {
        let written = if request.line.starts_with("GET ") {
            to.write_all(models().as_bytes())
        } else {
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            let parts = reply(&Asked {
                number: asked.fetch_add(1, Ordering::SeqCst),
                in_flight: in_flight.fetch_add(1, Ordering::SeqCst) + 1,
                body: &body,
            });
            let written = stream(to, &parts);
            in_flight.fetch_sub(1, Ordering::SeqCst);
            written
        };
        if written.is_ok() {
            Then::Keep
        } else {
            Then::Close
        }
    })
}

fn stream(to: &mut TcpStream, parts: &[Part]) -> std::io::Result<()> {
    to.write_all(STREAM_HEAD.as_bytes())?;
    for part in parts {
        sleep(part.pause);
        to.write_all(&chunk(part.events.as_bytes()))?;
    }
    to.write_all(&chunk(b""))
}

fn event(delta: &Value, finish_reason: Option<&str>) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish_reason});
    format!("data: {}\n\n", json!({"choices": [choice]}))
}

/// A complete answer with this finish reason.
fn answer(text: &str, finish_reason: Option<&str>) -> String {
    let content = event(&json!({"content": text}), None);
    let end = finish_reason.map(|reason| event(&json!({}), Some(reason)));
    format!("{content}{}data: [DONE]\n\n", end.unwrap_or_default())
}

/// The flags of every run.
fn to_server(server: &ScriptedServer) -> [&str; 7] {
    [
        "--backend",
        "openai-chat",
        "--base-url",
        &server.base_url,
        "--constraint-dialect",
        "structured-outputs",
        "--skip-preflight",
    ]
}

/// Runs the dataset `choice` on the server; the result keeps its contract.
fn run(server: &ScriptedServer, flags: &[&str]) -> (Ran, Value) {
    let arguments = [
        &to_server(server)[..],
        flags,
        if flags.contains(&"--dataset") || flags.contains(&"--mix") {
            &[][..]
        } else {
            &["--dataset", "choice"]
        },
    ]
    .concat();
    let (ran, result) = sobench_result(&arguments);
    assert_eq!(ran.code, 0, "{}\n{}", ran.stdout, ran.stderr);
    check_result(&result).unwrap_or_else(|error| panic!("{error}"));
    (ran, result)
}

/// The text without line breaks.
fn unwrapped(ran: &Ran) -> String {
    ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn check_says(ran: &Ran, text: &str) {
    assert!(unwrapped(ran).contains(text), "{text}\n{}", ran.stdout);
}

#[test]
fn constraints_lost_under_load_are_not_blamed_on_a_request() {
    let server = server(|asked| {
        let text = if asked.in_flight <= 8 {
            "Positive"
        } else {
            "Certainly!"
        };
        vec![Part {
            pause: Duration::from_secs(1),
            events: answer(text, Some("stop")),
        }]
    });
    let rising = [
        "--num-prompts",
        "60",
        "--ramp-up-strategy",
        "linear",
        "--ramp-up-start-rps",
        "2",
        "--ramp-up-end-rps",
        "30",
    ];
    let (ran, result) = run(&server, &rising);
    let loss = &result["sobench"]["validity"]["loss"];
    let explained_by = loss["explained_by"].as_str().unwrap_or_default();
    assert!(
        ["in_flight", "in_flight_at_start"].contains(&explained_by),
        "{}",
        result["sobench"]["validity"]
    );
    check_says(&ran, "requests in flight");
    check_says(
        &ran,
        "Validity of ended answers by requests in flight when sent",
    );
}

/// A run and the report of its log, on a server whose answer to request `number` has these names.
fn named(names: fn(usize) -> Value) -> [String; 2] {
    let server = server(move |asked| {
        let mut event = names(asked.number);
        event["choices"] =
            json!([{"index": 0, "delta": {"content": "Positive"}, "finish_reason": "stop"}]);
        at_once(format!("data: {event}\n\ndata: [DONE]\n\n"))
    });
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("run.jsonl");
    let log = log.to_str().unwrap();
    let flags = ["--num-prompts", "6", "--max-concurrency", "1"];
    let (ran, _) = run(&server, &[&flags[..], &["--run-log", log]].concat());
    let reported = sobench(&["report", log, "--detail", "full"]);
    assert_eq!(reported.code, 0, "{}", reported.stderr);
    [unwrapped(&ran), unwrapped(&reported)]
}

#[test]
fn a_model_that_changes_during_the_run_is_named_once() {
    // Request 0 is the trial.
    let restarted = |number: usize| {
        let build = if number < 4 { "b1" } else { "b2" };
        json!({"model": if number < 4 { "tiny" } else { "large" }, "system_fingerprint": build})
    };
    for page in named(restarted) {
        for (what, from, to) in [
            ("model", "tiny", "large"),
            ("system_fingerprint", "b1", "b2"),
        ] {
            let notice = format!(
                "the server's {what} changed at request choice-3: from {from} to {to} (3 of 6 answers)"
            );
            assert_eq!(page.matches(&notice).count(), 1, "{notice}\n{page}");
        }
    }
    let balanced = |number: usize| json!({"system_fingerprint": (["b1", "b2"][number % 2])});
    for page in named(balanced) {
        let notice = "the server's system_fingerprint is not always the same: answers come from 2 of them, the second from request choice-1 on: \
                      b2 (3), b1 (3)";
        assert!(page.contains(notice), "{page}");
        assert!(!page.contains("the server's model"), "{page}");
    }
    for page in named(|_| json!({"model": "tiny", "system_fingerprint": "b1"})) {
        assert!(!page.contains("the server's system_fingerprint"), "{page}");
    }
}

#[test]
fn constraints_lost_at_one_time_are_reported_with_the_request() {
    let server = server(|asked| {
        let text = if asked.number <= 10 {
            "Positive"
        } else {
            "Sure"
        };
        at_once(answer(text, Some("stop")))
    });
    let (ran, result) = run(&server, &["--num-prompts", "24", "--max-concurrency", "1"]);
    let loss = &result["sobench"]["validity"]["loss"];
    assert_eq!(loss["explained_by"], "time", "{loss}");
    check_says(
        &ran,
        "constraints were no longer enforced from request choice-10 on: all 10 answers",
    );
}

#[test]
fn every_cause_of_errors_is_listed_with_its_count() {
    let server = server(|asked| {
        let message = match asked.number {
            number if number % 16 == 0 || number % 4 == 3 => {
                return at_once(answer("Positive", Some("stop")));
            }
            number if number % 4 == 0 => {
                format!("CUDA out of memory. Tried to allocate {number}.50 MiB")
            }
            number if number % 4 == 1 => "the tokenizer process died".to_owned(),
            number => format!("request chatcmpl-{number:08x}77 was aborted"),
        };
        let error = json!({"error": {"message": message, "code": 500}});
        at_once(format!(
            "{}data: {error}\n\n",
            event(&json!({"content": "Pos"}), None)
        ))
    });
    let (ran, result) = run(&server, &["--num-prompts", "15", "--max-concurrency", "1"]);
    let errors = &result["sobench"]["errors"];
    let counts: Vec<u64> = errors["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| group["count"].as_u64().unwrap())
        .collect();
    assert_eq!(counts, [4, 4, 3], "{errors}");
    for text in [
        "CUDA out of memory",
        "tokenizer process died",
        "was aborted",
    ] {
        assert!(errors.to_string().contains(text), "{text}: {errors}");
    }
    check_says(&ran, "Errors by message");
    let flags = [
        "--dataset",
        "choice",
        "--num-prompts",
        "15",
        "--max-concurrency",
        "1",
        "--no-run-log",
    ];
    let summary = sobench(&[&to_server(&server)[..], &flags].concat());
    check_says(&summary, "the tokenizer process died");
}

#[test]
fn refusals_are_refused_and_not_invalid_json() {
    let server = server(|asked| {
        if asked.number.is_multiple_of(2) {
            return at_once(answer("Positive", Some("stop")));
        }
        let refusal = event(&json!({"refusal": "I cannot help with that."}), None);
        let end = event(&json!({}), Some("stop"));
        at_once(format!("{refusal}{end}data: [DONE]\n\n"))
    });
    let (ran, result) = run(&server, &["--num-prompts", "10", "--max-concurrency", "1"]);
    let own = &result["sobench"];
    assert_eq!(own["outcomes"]["refused"], 5, "{own}");
    assert_eq!(own["quality"]["refused"], 5);
    assert_eq!(own["quality"]["reasons"], json!([]));
    check_says(&ran, "the model refused: I cannot");
}

#[test]
fn answers_without_a_reason_and_whole_cut_answers_have_rows() {
    let server = server(|asked| {
        at_once(match asked.number % 3 {
            0 => answer("Positive", Some("stop")),
            1 => answer("Negative", None),
            _ => answer("Positive", Some("length")),
        })
    });
    let (ran, result) = run(&server, &["--num-prompts", "12", "--max-concurrency", "1"]);
    let metrics = &result["sobench"]["metrics"];
    assert_eq!(metrics["no_finish_reason_rate"]["hits"], 4);
    assert_eq!(metrics["whole_truncated_rate"]["hits"], 4);
    let compliance = &metrics["compliance"];
    assert_eq!(
        (&compliance["hits"], &compliance["of"]),
        (&json!(8), &json!(8))
    );
    for row in ["no finish reason", "whole though cut"] {
        check_says(&ran, row);
    }
}

#[test]
fn latency_that_rises_over_the_run_is_reported() {
    let server = server(|asked| {
        vec![Part {
            pause: Duration::from_millis(30 + 15 * asked.number as u64),
            events: answer("Positive", Some("stop")),
        }]
    });
    let (ran, result) = run(&server, &["--num-prompts", "24", "--max-concurrency", "1"]);
    let drift = &result["sobench"]["drift"];
    let ttft = drift
        .as_array()
        .unwrap()
        .iter()
        .find(|drift| drift["metric"] == "ttft_ms");
    assert_eq!(ttft.unwrap()["is_drift"], true, "{drift}");
    check_says(&ran, "latency is not steady over the run (TTFT from ");
}

#[test]
fn chunks_in_bursts_are_reported() {
    let server = server(|_| {
        let letter = |letter: char| event(&json!({"content": letter.to_string()}), None);
        let burst = |text: &str| Part {
            pause: Duration::from_millis(60),
            events: text.chars().map(letter).collect(),
        };
        let mut end = burst("");
        end.events = format!("{}data: [DONE]\n\n", event(&json!({}), Some("stop")));
        vec![burst("Pos"), burst("iti"), burst("ve"), end]
    });
    let (ran, result) = run(&server, &["--num-prompts", "4", "--max-concurrency", "1"]);
    let bursts = &result["sobench"]["bursts"];
    assert_eq!(bursts["is_bursty"], true, "{bursts}");
    check_says(&ran, "chunks arrive in bursts");
}

#[test]
fn repeated_answers_are_worth_one() {
    let positive = |_: &Asked<'_>| at_once(answer("Positive", Some("stop")));
    let server = server(positive);
    let (_, result) = run(&server, &["--num-prompts", "20"]);
    let own = &result["sobench"];
    let rate = &own["quality"]["correct_rate"];
    assert_eq!((&rate["of"], &rate["effective"]), (&json!(20), &json!(1.0)));
    assert!(rate["low_percent"].as_f64().unwrap() < 21.0, "{rate}");
    assert_eq!(own["repetition"]["distinct_answers"], 1);
    let flags = ["--dataset", "choice", "--num-prompts", "20", "--no-run-log"];
    let summary = sobench(&[&to_server(&server)[..], &flags].concat());
    let first: Vec<&str> = summary.stdout.lines().take(3).collect();
    assert!(
        first.iter().any(|line| line
            .starts_with("all 20 requests are the same: 1 distinct answer (20 count as 1.0")),
        "{}{}",
        summary.stdout,
        summary.stderr
    );
    let varied = ["--num-prompts", "20", "--prompt-variants", "5"];
    let (_, result) = run(&server, &varied);
    let own = &result["sobench"];
    assert_eq!(own["repetition"]["distinct_requests"], 5);
    assert_eq!(own["quality"]["correct_rate"]["effective"], 5.0);
    let refused = sobench(&["--dataset", "choice", "--prompt-variants", "0"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
}

#[test]
fn a_control_arm_that_was_cut_says_nothing() {
    let server = server(|asked| {
        at_once(if asked.is_constrained() {
            answer("Positive", Some("stop"))
        } else {
            answer("The sentiment of this sentence", Some("length"))
        })
    });
    let flags = ["--num-prompts", "20", "--guided-decoding-ratio", "0.5"];
    let (ran, result) = run(&server, &flags);
    let control = &result["sobench"]["control"];
    assert_eq!(
        (&control["truncated"], &control["ended"]),
        (&json!(10), &Value::Null)
    );
    // Its start is already none of the choices.
    assert_eq!(control["reasons"][0]["name"], "choice");
    check_says(&ran, "so that none could be valid");
}

#[test]
fn first_arguments_of_a_tool_call_have_a_latency() {
    let server = server(|_| {
        let call = |function: Value| {
            let calls = json!({"tool_calls": [{"index": 0, "function": function}]});
            event(&calls, None)
        };
        let name = call(json!({"name": "answer", "arguments": ""}));
        let arguments = call(json!({"arguments": "{}"}));
        let end = event(&json!({}), Some("tool_calls"));
        vec![
            Part {
                pause: Duration::ZERO,
                events: name,
            },
            Part {
                pause: Duration::from_millis(300),
                events: format!("{arguments}{end}data: [DONE]\n\n"),
            },
        ]
    });
    let flags = ["--num-prompts", "4", "--max-concurrency", "1"];
    let (ran, result) = run(&server, &flags);
    let metrics = &result["sobench"]["metrics"];
    let mean = |name: &str| metrics[name]["mean"].as_f64().unwrap();
    assert!(
        mean("ttft_arguments_ms") >= mean("ttft_ms") + 100.0,
        "{metrics}"
    );
    check_says(&ran, "TTFT of the arguments");
}

#[test]
fn a_dropped_constraint_is_named_without_preflight() {
    let server = server(|_| at_once(answer("Sure, it is positive.", Some("stop"))));
    let (ran, _) = run(&server, &["--num-prompts", "8"]);
    check_says(
        &ran,
        "the server may ignore the field of structured-outputs; preflight was skipped",
    );
}

#[test]
fn kinds_of_a_mix_and_a_short_peak() {
    let (ran, result) = sobench_result(&[
        "--mix",
        "choice:0.5,regex:0.5",
        "--num-prompts",
        "20",
        "--skip-preflight",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    check_says(&ran, "By kind of constraint");
    let (peak, mean) = (
        &result["max_output_tokens_per_s"],
        result["output_throughput"].as_f64().unwrap(),
    );
    assert!(
        peak.is_null() || peak.as_f64().unwrap() >= mean,
        "{peak} {mean}"
    );
    assert!(
        !unwrapped(&ran).contains("below the mean"),
        "{}",
        ran.stdout
    );
}
