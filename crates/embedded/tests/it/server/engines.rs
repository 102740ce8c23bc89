//! Every decoding engine behind the server, over all workloads that ship: every answer is right, or
//! the case is refused.

use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::{Value, json};
use sobench_core::constraint::{AlwaysTrue, Constraint, GrammarDialect};
use sobench_core::verdict::{Reason, Verdict};
use sobench_embedded::{EmbeddedOptions, EmbeddedServer};
use sobench_engine::EngineName;
use sobench_judge::{EvaluateOptions, Evaluator};
use sobench_testkit::in_package;

use super::{Client, merged, shared, text};

/// Answers a workload and engine.
const ANSWERS: usize = 16;

struct Workload {
    name: &'static str,
    prompt: &'static str,
    constraint: Constraint,
    /// The constraint as `structured_outputs` carries it.
    member: Value,
}

fn shipped(path: &str) -> String {
    std::fs::read_to_string(in_package(path)).unwrap()
}

fn workloads() -> Vec<Workload> {
    let schema = |name, path| {
        let schema: Value = serde_json::from_str(&shipped(path)).unwrap();
        let member = json!({ "json": schema });
        Workload {
            name,
            prompt: "A brief user profile.",
            constraint: Constraint::JsonSchema(Arc::new(schema)),
            member,
        }
    };
    let grammar = |name, path, dialect| {
        let text = shipped(path);
        let member = json!({ "grammar": text });
        let constraint = Constraint::Grammar {
            dialect,
            text: text.into(),
        };
        Workload {
            name,
            prompt: "Generate an SQL query.",
            constraint,
            member,
        }
    };
    let (email, choices) = (
        r"\w+@\w+\.com\n",
        ["Positive".to_owned(), "Negative".to_owned()],
    );
    vec![
        schema("json", "schemas/workloads/structured_schema_1.json"),
        schema("user-profile", "schemas/workloads/user_profile.json"),
        grammar("lark", "grammars/sql.lark", GrammarDialect::Lark),
        grammar("ebnf", "grammars/sql.ebnf", GrammarDialect::Ebnf),
        Workload {
            name: "regex",
            prompt: "Generate an email address. End in .com and new line.",
            constraint: Constraint::Regex(email.into()),
            member: json!({ "regex": email }),
        },
        Workload {
            name: "choice",
            prompt: "Classify this sentiment.",
            member: json!({ "choice": choices }),
            constraint: Constraint::Choice(choices.into()),
        },
        Workload {
            name: "json-object",
            prompt: "Tell me about the weather as JSON.",
            constraint: Constraint::JsonObject(AlwaysTrue),
            member: json!({"json_object": true}),
        },
    ]
}

/// A server of this engine; `None` for one that is not in this build.
fn open(engine: EngineName) -> Option<EmbeddedServer> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    // Of a busy machine nothing is known.
    let compile_timeout_s = 600.0;
    match EmbeddedServer::start(EmbeddedOptions {
        engine,
        compile_timeout_s,
        ..EmbeddedOptions::default()
    }) {
        Ok(server) => Some(server),
        Err(error) if !engine.is_built_in() => {
            assert!(
                error.what.contains("not in this build"),
                "{engine:?}: {error}"
            );
            None
        }
        Err(error) => panic!("{engine:?}: {error}"),
    }
}

/// What else than right answers an engine is known for.
#[derive(Debug)]
enum Known {
    /// It does not read the constraint, and says so in these words among others.
    Refused(&'static str),
    /// It holds this keyword of a schema to less than the standard does; all else in its answers is
    /// right.
    Loose(&'static str),
}

/// Whatever is not named here an engine answers, and without fail.
fn known(engine: EngineName, workload: &str) -> Option<Known> {
    Some(match (engine, workload) {
        (EngineName::Guidance, "ebnf") => Known::Refused("reads Lark grammars, not EBNF"),
        (EngineName::Outlines, "lark" | "ebnf") => {
            Known::Refused("compiles regular expressions only")
        }
        (EngineName::Outlines, "json-object") => Known::Refused("needs a schema"),
        // Its date-time may end without the zone that RFC 3339 asks for.
        (EngineName::Outlines, "user-profile") => Known::Loose("format"),
        _ => return None,
    })
}

/// Holds the answers to one workload to what is known.
async fn check(engine: EngineName, client: &Client, workload: &Workload) {
    let Workload {
        name,
        prompt,
        constraint,
        member,
    } = workload;
    let known = known(engine, name);
    let body = merged(
        &json!({"prompt": prompt, "max_tokens": 1024}),
        json!({ "structured_outputs": member }),
    );
    let asked = |_| client.post("/v1/completions", body.to_string());
    let mut evaluator = Evaluator::new(EvaluateOptions::default());
    for answer in join_all((0..ANSWERS).map(asked)).await {
        let body: Value = serde_json::from_str(&answer.body).unwrap();
        let shown = format!("{engine:?} {name}: {body}");
        if let Some(Known::Refused(words)) = &known {
            assert_eq!(answer.status, 400, "{shown}");
            assert!(
                body["error"]["message"].as_str().unwrap().contains(words),
                "{shown}"
            );
            continue;
        }
        assert_eq!(
            (answer.status, &body["choices"][0]["finish_reason"]),
            (200, &json!("stop")),
            "{shown}"
        );
        match (evaluator.judge_text(constraint, None, &text(&body)), &known) {
            (Verdict::Valid, _) => {}
            (
                Verdict::Invalid {
                    reason: Reason::Schema { keyword, .. },
                },
                Some(Known::Loose(loose)),
            ) if keyword == *loose => {}
            (verdict, _) => panic!("{verdict:?} {shown}"),
        }
    }
}

#[test]
fn every_engine_answers_every_workload_rightly_or_refuses_it() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for (engine, server) in EngineName::ALL
        .into_iter()
        .filter_map(|engine| Some((engine, open(engine)?)))
    {
        let client = Client::of(&server);
        for workload in workloads() {
            runtime.block_on(check(engine, &client, &workload));
        }
        let stats = server.stats();
        assert_eq!(
            (stats.ended.failed, stats.stuck_masks),
            (0, 0),
            "{engine:?}: {stats:?}"
        );
    }
}

#[tokio::test]
async fn a_request_may_name_the_server_s_engine_or_auto() {
    let client = Client::of(shared());
    let asked = json!({"prompt": "p", "max_tokens": 4});
    for (fields, status) in [
        (
            json!({"guided_regex": "ab", "guided_decoding_backend": "guidance"}),
            200,
        ),
        (
            json!({"guided_regex": "ab", "guided_decoding_backend": "auto"}),
            200,
        ),
        (
            json!({"guided_regex": "ab", "guided_decoding_backend": "guidance:no-fallback"}),
            200,
        ),
        (
            json!({"structured_outputs": {"regex": "ab", "_backend": "guidance"}}),
            200,
        ),
        (
            json!({"guided_regex": "ab", "guided_decoding_backend": "xgrammar"}),
            400,
        ),
        (
            json!({"structured_outputs": {"regex": "ab", "backend": "outlines"}}),
            400,
        ),
        (
            json!({"guided_regex": "ab", "guided_decoding_backend": "guidance:disable-any-whitespace"}),
            400,
        ),
    ] {
        let answer = client
            .post(
                "/v1/completions",
                merged(&asked, fields.clone()).to_string(),
            )
            .await;
        assert_eq!(answer.status, status, "{fields}: {}", answer.body);
        if status == 400 {
            let error: Value = serde_json::from_str(&answer.body).unwrap();
            assert_eq!(
                (&error["error"]["type"], &error["error"]["code"]),
                (&json!("BadRequestError"), &json!(400))
            );
        }
    }
    assert_eq!(
        shared().route(&Constraint::Regex("a".into())),
        None,
        "only auto has a choice"
    );
}
