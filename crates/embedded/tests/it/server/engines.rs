//! Tests of every decoding engine with all shipped workloads: every answer is valid, or the request
//! is refused.

use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::{Value, json};
use sobench_core::constraint::{AlwaysTrue, Constraint, GrammarDialect};
use sobench_core::verdict::{Reason, Verdict};
use sobench_embedded::{EmbeddedServer, EmbeddedSettings};
use sobench_engine::EngineName;
use sobench_judge::{Evaluator, JudgeSettings, judge_text};
use sobench_testkit::repository_path;

use super::{Client, merged, shared, text};

/// Answers per workload and engine.
const ANSWERS: usize = 16;

pub(super) struct Workload {
    pub(super) name: &'static str,
    pub(super) prompt: &'static str,
    constraint: Constraint,
    /// The constraint as a member of `structured_outputs`.
    pub(super) member: Value,
}

fn shipped(path: &str) -> String {
    std::fs::read_to_string(repository_path(path)).unwrap()
}

pub(super) fn workloads() -> Vec<Workload> {
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

/// A server with this engine. `None` if the engine is not in this build.
fn open(engine: EngineName) -> Option<EmbeddedServer> {
    open_with(engine, EmbeddedSettings::default())
}

/// As [`open`], with other options.
pub(super) fn open_with(engine: EngineName, options: EmbeddedSettings) -> Option<EmbeddedServer> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    // Allows for a busy machine.
    let compile_timeout_s = 600.0;
    match EmbeddedServer::start(EmbeddedSettings {
        engine,
        compile_timeout_s,
        ..options
    }) {
        Ok(server) => Some(server),
        Err(error) if !engine.is_built_in() => {
            assert_eq!(
                error.what,
                "decoding engine is not in this build: xgrammar-cpp"
            );
            None
        }
        Err(error) => panic!("{engine:?}: {error}"),
    }
}

/// A known limitation of an engine.
#[derive(Debug)]
enum Limitation {
    /// It refuses the constraint with a message that contains this text.
    Refused(&'static str),
    /// It does not fully enforce this keyword. Its answers are valid otherwise.
    Loose(&'static str),
}

/// The limitation of an engine for a workload. Without one, all answers are valid.
fn limitation(engine: EngineName, workload: &str) -> Option<Limitation> {
    Some(match (engine, workload) {
        (EngineName::Guidance, "ebnf") => Limitation::Refused("reads Lark grammars, not EBNF"),
        (EngineName::Outlines, "lark" | "ebnf") => {
            Limitation::Refused("compiles regular expressions only")
        }
        (EngineName::Outlines, "json-object") => Limitation::Refused("needs a schema"),
        // Its date-time does not require the time zone of RFC 3339.
        (EngineName::Outlines, "user-profile") => Limitation::Loose("format"),
        _ => return None,
    })
}

/// Checks the answers to one workload against the known limitation.
async fn check(engine: EngineName, client: &Client, workload: &Workload) {
    let Workload {
        name,
        prompt,
        constraint,
        member,
    } = workload;
    let limitation = limitation(engine, name);
    let body = merged(
        &json!({"prompt": prompt, "max_tokens": 1024}),
        json!({ "structured_outputs": member }),
    );
    let send = |_| client.post("/v1/completions", body.to_string());
    let mut evaluator = Evaluator::new(JudgeSettings::default());
    for answer in join_all((0..ANSWERS).map(send)).await {
        let body: Value = serde_json::from_str(&answer.body).unwrap();
        let shown = format!("{engine:?} {name}: {body}");
        if let Some(Limitation::Refused(message)) = &limitation {
            assert_eq!(answer.status, 400, "{shown}");
            assert!(
                body["error"]["message"].as_str().unwrap().contains(message),
                "{shown}"
            );
            continue;
        }
        assert_eq!(
            (answer.status, &body["choices"][0]["finish_reason"]),
            (200, &json!("stop")),
            "{shown}"
        );
        let verdict = judge_text(&evaluator.compile(constraint), &text(&body));
        match (verdict, &limitation) {
            (Verdict::Valid, _) => {}
            (
                Verdict::Invalid {
                    reason: Reason::Schema { keyword, .. },
                },
                Some(Limitation::Loose(loose)),
            ) if keyword == *loose => {}
            (verdict, _) => panic!("{verdict:?} {shown}"),
        }
    }
}

#[test]
fn every_engine_answers_or_refuses_every_workload() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for (engine, server) in EngineName::ALL
        .into_iter()
        .filter_map(|engine| Some((engine, open(engine)?)))
    {
        let client = Client::new(&server);
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
async fn requests_may_name_the_servers_engine_or_auto() {
    let client = Client::new(shared());
    let request = json!({"prompt": "p", "max_tokens": 4});
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
            json!({"guided_regex": "ab", "guided_decoding_backend": "guidance:no-fallback"}),
            400,
        ),
    ] {
        let answer = client
            .post(
                "/v1/completions",
                merged(&request, fields.clone()).to_string(),
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
        "only auto selects an engine"
    );
}
