//! Planted faults, one a row: what preflight says of a server that has it, and what a run against
//! it says.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use sobench_testkit::constrained::{Reply, allowed, answering, text_of_constraint};
use sobench_testkit::scripted::Scripted;

use crate::support::{Ran, sobench, sobench_result};

/// Requests of a run, and how many of them are constrained at the share below: the first one is
/// not.
const PROMPTS: usize = 20;
const SHARE: &str = "0.3";
const OF_SHARE: usize = 6;

/// The constrained request from which on a server of its own ignores constraints, counted from 0.
const IGNORED_FROM: usize = 12;

/// One fault.
struct Planted {
    name: &'static str,
    server: fn() -> Scripted,
    /// What is asked by preflight.
    kind: &'static str,
    backend: &'static str,
    dialect: &'static str,
    /// What preflight says.
    class: &'static str,
    cause: Option<&'static str>,
    /// Flags of the run beside server, backend, dialect and number.
    run: &'static [&'static str],
    /// What the run's console says.
    words: &'static [&'static str],
    /// Members of the run's result, by JSON pointer.
    result: &'static [(&'static str, &'static str)],
}

const SANE: Planted = Planted {
    name: "none",
    server: || answering(right),
    kind: "choice",
    backend: "vllm",
    dialect: "structured-outputs",
    class: "enforced",
    cause: None,
    run: &["--dataset", "choice"],
    words: &["seen to be enforced before the run"],
    result: &[
        ("/correct_rate(%)", "100.0"),
        ("/sobench/enforcement/state", "\"enforced\""),
    ],
};

fn right(body: &Value) -> Reply {
    allowed(body).map_or(Reply::Prose, Reply::Say)
}

/// A server that does this with constrained requests, and answers the others.
fn only_constrained(reply: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Scripted {
    answering(move |body| {
        if text_of_constraint(body).is_some() {
            reply(body)
        } else {
            Reply::Prose
        }
    })
}

/// Answers that the constraint did not make.
fn dropping() -> Vec<Planted> {
    vec![
        Planted {
            name: "constraint ignored",
            server: || answering(|_| Reply::Prose),
            class: "ignored",
            run: &["--dataset", "choice", "--allow-unenforced"],
            words: &[
                "CONSTRAINT NOT ENFORCED: choice in structured-outputs is ignored",
                "choice, sent as structured-outputs, NOT ENFORCED",
                "20 of 20 constrained answers that ended by themselves break their constraint",
            ],
            result: &[
                ("/correct_rate(%)", "0.0"),
                ("/sobench/enforcement/state", "\"not_enforced\""),
            ],
            ..SANE
        },
        Planted {
            name: "ignored from the k-th request on",
            server: || {
                let before = AtomicUsize::new(0);
                only_constrained(move |body| match before.fetch_add(1, Ordering::SeqCst) {
                    ..IGNORED_FROM => right(body),
                    _ => Reply::Prose,
                })
            },
            run: &["--dataset", "choice", "--max-concurrency", "1"],
            // One constrained request was the trial run's, one preflight's.
            words: &[
                "although the server was seen to enforce such constraints",
                "constraints stopped holding with request choice-10: all of the 10 answers sent before",
            ],
            result: &[
                ("/sobench/enforcement/state", "\"enforced\""),
                ("/sobench/quality/compliance/percent", "50.0"),
                (
                    "/sobench/quality/lost_from",
                    r#"{"case_id":"choice-10","valid_before":10,"invalid_after":10}"#,
                ),
            ],
            ..SANE
        },
        Planted {
            name: "wrong wrapper",
            server: || {
                only_constrained(|_| {
                    Reply::Say(
                        json!({"name": "w", "schema": {"type": "object"}, "strict": true})
                            .to_string(),
                    )
                })
            },
            kind: "json",
            dialect: "response-format",
            class: "wrong_wrapper",
            run: &["--dataset", "json", "--allow-unenforced"],
            words: &[
                "CONSTRAINT NOT ENFORCED: json in response-format is taken for its own envelope",
            ],
            result: &[
                ("/correct_rate(%)", "0.0"),
                ("/sobench/quality/reasons/0/name", "\"schema\""),
            ],
            ..SANE
        },
        Planted {
            name: "white space run-away",
            server: || only_constrained(|_| Reply::Cut(format!("{{{}", "\n ".repeat(60)))),
            kind: "json",
            class: "broken",
            cause: Some("white_space_run_away"),
            run: &["--dataset", "json"],
            words: &[
                "broken: white space to the token limit",
                "white space without end: 20 of 20 answers",
            ],
            result: &[
                ("/sobench/quality/white_space_runs", "20"),
                ("/sobench/enforcement/state", "\"unproven\""),
            ],
            ..SANE
        },
    ]
}

/// Failures of constrained requests alone.
fn failing() -> Vec<Planted> {
    vec![
        Planted {
            name: "200 with an error event",
            server: || {
                only_constrained(|_| {
                    Reply::Event(
                        json!({"error": {"message": "no grammar for you", "code": 400}})
                            .to_string(),
                    )
                })
            },
            class: "rejected",
            run: &["--dataset", "choice", "--guided-decoding-ratio", SHARE],
            words: &[
                "preflight could not prove the constraint: choice in structured-outputs: rejected:",
                "no grammar for you",
            ],
            result: &[
                ("/sobench/outcomes/rejected", "6"),
                ("/sobench/enforcement/state", "\"unproven\""),
            ],
            ..SANE
        },
        Planted {
            name: "EOF mid-answer",
            server: || only_constrained(|_| Reply::CutOff),
            class: "broken",
            cause: Some("stream_error"),
            run: &["--dataset", "choice", "--guided-decoding-ratio", SHARE],
            words: &[
                "preflight could not prove the constraint: choice in structured-outputs: broken",
            ],
            result: &[
                ("/sobench/outcomes/stream_error", "6"),
                ("/sobench/enforcement/state", "\"unproven\""),
            ],
            ..SANE
        },
        Planted {
            name: "500 only for constrained requests",
            server: || only_constrained(|_| Reply::Status("500 Internal Server Error", "it broke")),
            class: "broken",
            cause: Some("server_error"),
            run: &["--dataset", "choice", "--guided-decoding-ratio", SHARE],
            words: &[
                "preflight could not prove the constraint: choice in structured-outputs: broken: it broke",
            ],
            result: &[
                ("/sobench/outcomes/server_error", "6"),
                ("/sobench/quality/correct_rate/percent", "0.0"),
            ],
            ..SANE
        },
    ]
}

/// Streams that are right, and easily misread.
fn peculiar() -> Vec<Planted> {
    vec![
        SANE,
        Planted {
            name: "role-only first chunk",
            server: || answering(|body| allowed(body).map_or(Reply::Prose, Reply::RoleFirst)),
            backend: "openai-chat",
            run: &["--dataset", "choice", "--save-detailed"],
            // Two chunks with content, so one gap: the role is no token.
            result: &[
                ("/correct_rate(%)", "100.0"),
                ("/sobench/overall/latency/itl_ms/n", "20"),
            ],
            ..SANE
        },
        Planted {
            name: "usage in the last choice chunk",
            server: || answering(|body| allowed(body).map_or(Reply::Prose, Reply::WithUsage)),
            result: &[
                ("/correct_rate(%)", "100.0"),
                ("/total_output_tokens", "140"),
                ("/sobench/overall/tokens/output_sources/server", "20"),
            ],
            ..SANE
        },
        Planted {
            name: "UTF-8 split",
            server: || answering(|body| allowed(body).map_or(Reply::Prose, Reply::ByteByByte)),
            kind: "json",
            run: &["--dataset", "choice", "--choice", "Größe,Weiß"],
            ..SANE
        },
    ]
}

/// The flags that preflight and the run share.
fn arguments<'a>(server: &'a Scripted, fault: &'a Planted) -> [&'a str; 6] {
    [
        "--base-url",
        &server.base_url,
        "--backend",
        fault.backend,
        "--constraint-dialect",
        fault.dialect,
    ]
}

fn preflight(fault: &Planted) -> Value {
    let server = (fault.server)();
    let command = [
        "preflight",
        "--kind",
        fault.kind,
        "--format",
        "json",
        "--disable-tqdm",
    ];
    let ran = sobench(&[&command[..], &arguments(&server, fault)].concat());
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stderr))
}

fn run_against(fault: &Planted) -> (Ran, Value) {
    let server = (fault.server)();
    sobench_result(
        &[
            &arguments(&server, fault)[..],
            &["--num-prompts", &PROMPTS.to_string()],
            fault.run,
        ]
        .concat(),
    )
}

#[test]
fn preflight_and_the_run_find_every_planted_fault() {
    assert_eq!(OF_SHARE, 6, "as the rows have it");
    for fault in dropping().into_iter().chain(failing()).chain(peculiar()) {
        let name = fault.name;
        let found = preflight(&fault);
        let cell = &found["cells"][0];
        assert_eq!(
            (&cell["class"], &cell["cause"]),
            (&json!(fault.class), &json!(fault.cause)),
            "{name}: {cell}"
        );
        assert_eq!(
            found["control"]["failure"],
            Value::Null,
            "{name}: without a constraint it answers"
        );
        if name == "UTF-8 split" {
            assert!(
                found["spelling"]["answer"]
                    .as_str()
                    .is_some_and(|answer| answer.contains('ü')),
                "{name}: {found}"
            );
        }
        let (ran, result) = run_against(&fault);
        for words in fault.words {
            let page: String = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(
                page.contains(words),
                "{name}: {words:?} is not in\n{}",
                ran.stdout
            );
        }
        for (pointer, expected) in fault.result {
            let expected: Value = serde_json::from_str(expected).unwrap();
            assert_eq!(
                result.pointer(pointer),
                Some(&expected),
                "{name} {pointer}: {}",
                result["sobench"]
            );
        }
        assert_eq!(ran.code, 0, "{name}: {}", ran.stderr);
        assert_eq!(
            result["sobench"]["enforcement"]["findings"][0]["class"], cell["class"],
            "{name}"
        );
    }
}
