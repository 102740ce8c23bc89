//! Every decoding engine behind the server, over all workloads that ship: every answer is right, or the case is refused.

use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::{Value, json};
use sobench::constraint::{AlwaysTrue, Constraint, GrammarDialect};
use sobench::engine::EngineName;
use sobench::evaluate::{EvaluateOptions, Evaluator};
use sobench::server::{EmbeddedOptions, EmbeddedServer};
use sobench::verdict::Verdict;

use super::{Client, merged, shared, text};
use crate::support::in_package;

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
        Workload { name, prompt: "A brief user profile.", constraint: Constraint::JsonSchema(Arc::new(schema)), member }
    };
    let grammar = |name, path, dialect| {
        let text = shipped(path);
        let member = json!({ "grammar": text });
        let constraint = Constraint::Grammar { dialect, text: text.into() };
        Workload { name, prompt: "Generate an SQL query.", constraint, member }
    };
    let (email, choices) = (r"\w+@\w+\.com\n", ["Positive".to_owned(), "Negative".to_owned()]);
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
    match EmbeddedServer::start(EmbeddedOptions { engine, ..EmbeddedOptions::default() }) {
        Ok(server) => Some(server),
        Err(error) if !engine.is_built_in() => {
            assert!(error.what.contains("not in this build"), "{engine:?}: {error}");
            None
        }
        Err(error) => panic!("{engine:?}: {error}"),
    }
}

/// What engines do not read, with some of the words that they have to refuse it in. They answer everything else, without fail.
const REFUSED: [(EngineName, &str, &str); 9] = [
    (EngineName::Guidance, "ebnf", "@@"),
    (EngineName::Xgrammar, "lark", "@@"),
    (EngineName::XgrammarCpp, "lark", "@@"),
    (EngineName::Outlines, "lark", "@@"),
    (EngineName::Outlines, "ebnf", "@@"),
    (EngineName::Outlines, "json-object", "@@"),
    (EngineName::Auto, "zz", "@@"),
    (EngineName::Auto, "zz", "@@"),
    (EngineName::Auto, "zz", "@@"),
];

/// Checks one workload: all of its answers are right, or all of its requests are refused in the same words, which are returned.
async fn check(engine: EngineName, client: &Client, workload: &Workload) -> Option<String> {
    let Workload { name, prompt, constraint, member } = workload;
    let body = merged(&json!({"prompt": prompt, "max_tokens": 1024}), json!({ "structured_outputs": member }));
    let asked = |_| client.post("/v1/completions", body.to_string());
    let mut evaluator = Evaluator::new(EvaluateOptions::default());
    let mut refusals = Vec::new();
    for answer in join_all((0..ANSWERS).map(asked)).await {
        let body: Value = serde_json::from_str(&answer.body).unwrap();
        if answer.status == 400 {
            refusals.push(body["error"]["message"].as_str().unwrap().to_owned());
            continue;
        }
        assert_eq!(answer.status, 200, "{engine:?} {name}: {body}");
        assert_eq!(body["choices"][0]["finish_reason"], "stop", "{engine:?} {name}: {body}");
        let verdict = evaluator.judge(constraint, None, &text(&body));
        assert_eq!(verdict, Verdict::Valid, "{engine:?} {name}: {body}");
    }
    assert!([0, ANSWERS].contains(&refusals.len()), "{engine:?} {name}: {} of {ANSWERS} refused", refusals.len());
    refusals.dedup();
    assert!(refusals.len() <= 1, "{engine:?} {name}: {refusals:?}");
    refusals.pop()
}

#[test]
fn every_engine_answers_every_workload_rightly_or_refuses_it() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for (engine, server) in EngineName::ALL.into_iter().filter_map(|engine| Some((engine, open(engine)?))) {
        let client = Client::of(&server);
        for workload in workloads() {
            let refused = runtime.block_on(check(engine, &client, &workload));
            let row = REFUSED.iter().find(|(refuses, name, _)| (*refuses, *name) == (engine, workload.name));
            match (&refused, row) {
                (None, None) => {}
                // No limit of time or of what still runs: those are no statements about the constraint.
                (Some(words), Some((_, _, expected))) => assert!(
                    words.contains(expected) && !words.contains("longer than") && !words.contains("still run"),
                    "{engine:?} {}: {words}",
                    workload.name
                ),
                _ => panic!("{engine:?} {}: refused with {refused:?}, expected {row:?}", workload.name),
            }
        }
        let stats = server.stats();
        assert_eq!((stats.ended.failed, stats.stuck_masks), (0, 0), "{engine:?}: {stats:?}");
    }
}

#[tokio::test]
async fn a_request_may_name_the_server_s_engine_or_auto() {
    let client = Client::of(shared());
    let asked = json!({"prompt": "p", "max_tokens": 4});
    for (fields, status) in [
        (json!({"guided_regex": "ab", "guided_decoding_backend": "guidance"}), 200),
        (json!({"guided_regex": "ab", "guided_decoding_backend": "auto"}), 200),
        (json!({"guided_regex": "ab", "guided_decoding_backend": "guidance:no-fallback"}), 200),
        (json!({"structured_outputs": {"regex": "ab", "_backend": "guidance"}}), 200),
        (json!({"guided_regex": "ab", "guided_decoding_backend": "xgrammar"}), 400),
        (json!({"structured_outputs": {"regex": "ab", "backend": "outlines"}}), 400),
        (json!({"guided_regex": "ab", "guided_decoding_backend": "guidance:disable-any-whitespace"}), 400),
    ] {
        let answer = client.post("/v1/completions", merged(&asked, fields.clone()).to_string()).await;
        assert_eq!(answer.status, status, "{fields}: {}", answer.body);
        if status == 400 {
            let error: Value = serde_json::from_str(&answer.body).unwrap();
            assert_eq!((&error["error"]["type"], &error["error"]["code"]), (&json!("BadRequestError"), &json!(400)));
        }
    }
    assert_eq!(shared().route(&Constraint::Regex("a".into())), None, "only auto has a choice");
}
