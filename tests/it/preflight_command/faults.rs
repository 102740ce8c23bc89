//! Server faults, one per row: the result of preflight and of a run.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use sobench_testkit::constrained::{Reply, allowed, answering, constraint_text};
use sobench_testkit::scripted::ScriptedServer;

use crate::support::{Ran, sobench, sobench_result};

/// Requests of a run, and the number of constrained ones at this ratio. The first request is
/// unconstrained.
const PROMPTS: usize = 20;
const RATIO: &str = "0.3";
const CONSTRAINED: usize = 6;

/// Number of the first constrained request, from 0, of which the server ignores the constraint.
const IGNORED_FROM: usize = 12;

/// A fault and its expected results.
struct FaultRow {
    name: &'static str,
    server: fn() -> ScriptedServer,
    /// Constraint kind in preflight.
    kind: &'static str,
    backend: &'static str,
    dialect: &'static str,
    /// Expected class in preflight.
    class: &'static str,
    cause: Option<&'static str>,
    /// Flags of the run in addition to server, backend, dialect and number of requests.
    run: &'static [&'static str],
    /// Texts on the run's console.
    console: &'static [&'static str],
    /// Members of the run's result by JSON pointer.
    result: &'static [(&'static str, &'static str)],
}

const NO_FAULT: FaultRow = FaultRow {
    name: "none",
    server: || answering(correct_reply),
    kind: "choice",
    backend: "vllm",
    dialect: "structured-outputs",
    class: "enforced",
    cause: None,
    run: &["--dataset choice"],
    console: &["enforced in preflight"],
    result: &[
        ("/correct_rate(%)", "100.0"),
        ("/sobench/enforcement/state", "\"enforced\""),
    ],
};

fn correct_reply(body: &Value) -> Reply {
    allowed(body).map_or(Reply::Prose, Reply::Text)
}

/// A server that replies so to constrained requests, and with prose to others.
fn only_constrained(reply: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> ScriptedServer {
    answering(move |body| {
        if constraint_text(body).is_some() {
            reply(body)
        } else {
            Reply::Prose
        }
    })
}

/// Answers that ignore the constraint.
fn ignored_constraints() -> Vec<FaultRow> {
    vec![
        FaultRow {
            name: "constraint ignored",
            server: || answering(|_| Reply::Prose),
            class: "ignored",
            run: &["--dataset choice --allow-unenforced"],
            console: &[
                "CONSTRAINT NOT ENFORCED: choice in structured-outputs is ignored",
                "choice, sent as structured-outputs, NOT ENFORCED",
                "20 of 20 constrained answers that ended normally violate their constraint",
            ],
            result: &[
                ("/correct_rate(%)", "0.0"),
                ("/sobench/enforcement/state", "\"not_enforced\""),
            ],
            ..NO_FAULT
        },
        FaultRow {
            name: "ignored from the k-th request on",
            server: || {
                let before = AtomicUsize::new(0);
                only_constrained(move |body| match before.fetch_add(1, Ordering::SeqCst) {
                    ..IGNORED_FROM => correct_reply(body),
                    _ => Reply::Prose,
                })
            },
            run: &["--dataset choice --max-concurrency 1"],
            // One constrained request is the trial request, one is preflight's.
            console: &[
                "although preflight showed that the server enforces such constraints",
                "constraints were no longer enforced from request choice-10 on: all 10 answers sent before",
            ],
            result: &[
                ("/sobench/enforcement/state", "\"enforced\""),
                ("/sobench/metrics/compliance/percent", "50.0"),
                (
                    "/sobench/quality/lost_from",
                    r#"{"case_id":"choice-10","valid_before":10,"invalid_after":10}"#,
                ),
            ],
            ..NO_FAULT
        },
        FaultRow {
            name: "wrong wrapper",
            server: || {
                only_constrained(|_| {
                    Reply::Text(
                        json!({"name": "w", "schema": {"type": "object"}, "strict": true})
                            .to_string(),
                    )
                })
            },
            kind: "json",
            dialect: "response-format",
            class: "wrong_wrapper",
            run: &["--dataset json --allow-unenforced"],
            console: &[
                "CONSTRAINT NOT ENFORCED: json in response-format is used as its own envelope",
            ],
            result: &[
                ("/correct_rate(%)", "0.0"),
                ("/sobench/quality/reasons/0/name", "\"schema\""),
            ],
            ..NO_FAULT
        },
        FaultRow {
            name: "white space run-away",
            server: || only_constrained(|_| Reply::Truncated(format!("{{{}", "\n ".repeat(60)))),
            kind: "json",
            class: "broken",
            cause: Some("white_space_run_away"),
            run: &["--dataset json"],
            console: &["broken", "endless white space: 20 of 20 answers"],
            result: &[
                ("/sobench/metrics/white_space_rate/hits", "20"),
                ("/sobench/enforcement/state", "\"unproven\""),
            ],
            ..NO_FAULT
        },
    ]
}

/// Failures of constrained requests only.
fn constrained_failures() -> Vec<FaultRow> {
    vec![
        FaultRow {
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
            run: &["--dataset choice --guided-decoding-ratio", RATIO],
            console: &[
                "preflight cannot prove that the constraint is enforced: choice in structured-outputs: rejected:",
                "no grammar for you",
            ],
            result: &[
                ("/sobench/outcomes/rejected", "6"),
                ("/sobench/enforcement/state", "\"unproven\""),
            ],
            ..NO_FAULT
        },
        FaultRow {
            name: "EOF mid-answer",
            server: || only_constrained(|_| Reply::CutOff),
            class: "broken",
            cause: Some("stream_error"),
            run: &["--dataset choice --guided-decoding-ratio", RATIO],
            console: &[
                "a constrained request of preflight failed: choice in structured-outputs: broken",
            ],
            result: &[
                ("/sobench/outcomes/stream_error", "6"),
                ("/sobench/enforcement/state", "\"unproven\""),
            ],
            ..NO_FAULT
        },
        FaultRow {
            name: "500 only for constrained requests",
            server: || only_constrained(|_| Reply::Status("500 Internal Server Error", "it broke")),
            class: "broken",
            cause: Some("server_error"),
            run: &["--dataset choice --guided-decoding-ratio", RATIO],
            console: &[
                "a constrained request of preflight failed: choice in structured-outputs: broken: it broke",
            ],
            result: &[
                ("/sobench/outcomes/server_error", "6"),
                ("/sobench/metrics/correct_rate/percent", "0.0"),
            ],
            ..NO_FAULT
        },
    ]
}

/// Valid streams of unusual form.
fn unusual_streams() -> Vec<FaultRow> {
    vec![
        NO_FAULT,
        FaultRow {
            name: "role-only first chunk",
            server: || answering(|body| allowed(body).map_or(Reply::Prose, Reply::RoleFirst)),
            backend: "openai-chat",
            run: &["--dataset choice --save-detailed"],
            // Two chunks with content give one gap: the role is not a token.
            result: &[
                ("/correct_rate(%)", "100.0"),
                ("/sobench/metrics/itl_ms/n", "20"),
            ],
            ..NO_FAULT
        },
        FaultRow {
            name: "usage in the last choice chunk",
            server: || answering(|body| allowed(body).map_or(Reply::Prose, Reply::WithUsage)),
            result: &[
                ("/correct_rate(%)", "100.0"),
                ("/total_output_tokens", "140"),
                ("/sobench/token_sources/output/server", "20"),
            ],
            ..NO_FAULT
        },
        FaultRow {
            name: "UTF-8 split",
            server: || answering(|body| allowed(body).map_or(Reply::Prose, Reply::ByteByByte)),
            kind: "json",
            run: &["--dataset choice --choice Größe,Weiß"],
            ..NO_FAULT
        },
    ]
}

/// Flags that preflight and the run share.
fn arguments<'a>(server: &'a ScriptedServer, fault: &'a FaultRow) -> [&'a str; 6] {
    [
        "--base-url",
        &server.base_url,
        "--backend",
        fault.backend,
        "--constraint-dialect",
        fault.dialect,
    ]
}

fn preflight(fault: &FaultRow) -> Value {
    let server = (fault.server)();
    let command = [
        "preflight",
        "--kind",
        fault.kind,
        "--format json --disable-tqdm",
    ];
    let ran = sobench(&[&command[..], &arguments(&server, fault)].concat());
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stderr))
}

fn run_against(fault: &FaultRow) -> (Ran, Value) {
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
fn preflight_and_run_detect_every_fault() {
    assert_eq!(CONSTRAINED, 6, "as the rows have it");
    for fault in ignored_constraints()
        .into_iter()
        .chain(constrained_failures())
        .chain(unusual_streams())
    {
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
            "{name}: unconstrained requests are answered"
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
        for console in fault.console {
            let page: String = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(
                page.contains(console),
                "{name}: {console:?} is not in\n{}",
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
