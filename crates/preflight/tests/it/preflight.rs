//! Tests of the preflight library: it detects every way in which a server loses a constraint, and
//! passes a server that enforces.

use std::time::Duration;

use sobench_backend::{ConstraintDialect, Product, ServerKind};
use sobench_client::{Client, ClientSettings, Endpoint};
use sobench_core::constraint::{ConstraintKind, GrammarDialect};
use sobench_core::error::Result;
use sobench_embedded::{EmbeddedServer, EmbeddedSettings, Fault, GuidedFields};
use sobench_engine::EngineName;
use sobench_preflight::{
    self as preflight, Cause, Class, Extent, Preflight, PreflightSettings, ProbeKind, ToolQuestion,
};
use sobench_shutdown::Shutdown;
use sobench_testkit::constrained::{
    Reply, allowed, answering, constraint_text, crashing_server, posts,
};
use sobench_testkit::scripted::refusing_url;

use ConstraintDialect::{Guided, ResponseFormat, StructuredOutputs};

/// Settings for [`run_preflight`], with the dialects of vLLM.
pub(crate) fn options() -> PreflightSettings {
    PreflightSettings {
        backend: ServerKind::Vllm,
        model: "tiny".to_owned(),
        kinds: ProbeKind::of_text()
            .filter(|kind| *kind != ProbeKind::Text(ConstraintKind::StructuralTag))
            .collect(),
        dialects: vec![StructuredOutputs, Guided, ResponseFormat],
        notation: GrammarDialect::Ebnf,
        seed: 1,
        output_len: 64,
        stream: true,
        guided_decoding_backend: None,
        extra_body: None,
        // Never expires in a test.
        timeout: Duration::from_secs(600),
        all_dialects: true,
        extent: Extent::Whole,
        max_tokens_only: false,
        templated_prompt: None,
        tool_questions: ToolQuestion::ALL.to_vec(),
    }
}

async fn try_preflight(base_url: &str, options: &PreflightSettings) -> Result<Preflight> {
    let endpoint = Endpoint {
        base_url: base_url.to_owned(),
        path: options.backend.default_path().to_owned(),
        kind: options.backend,
        ..Endpoint::default()
    };
    let client = Client::new(ClientSettings::with_defaults(endpoint))?;
    preflight::run(&client, options, &Shutdown::new(), |_| {}).await
}

pub(crate) async fn run_preflight(base_url: &str, options: &PreflightSettings) -> Preflight {
    try_preflight(base_url, options)
        .await
        .unwrap_or_else(|error| panic!("{error}"))
}

fn class(found: &Preflight, kind: ProbeKind, dialect: ConstraintDialect) -> Class {
    found
        .verdict_for(kind, dialect)
        .unwrap_or_else(|| panic!("{kind} was not tested in {dialect}"))
        .finding
        .class
}

/// Checks that every sent cell has this class and cause.
#[track_caller]
fn all_are(found: &Preflight, class: Class, cause: Option<Cause>, message: &str) {
    for cell in found
        .cells
        .iter()
        .filter(|cell| cell.finding.class != Class::NotCarried)
    {
        let finding = &cell.finding;
        assert_eq!(
            (finding.class, finding.cause),
            (class, cause),
            "{} in {}: {finding:?}",
            cell.label(),
            cell.dialect
        );
        assert!(finding.reason.contains(message), "{finding:?}");
    }
}

async fn embedded(options: EmbeddedSettings) -> EmbeddedServer {
    tokio::task::spawn_blocking(move || EmbeddedServer::start(options).unwrap())
        .await
        .unwrap()
}

async fn stop(server: EmbeddedServer) {
    tokio::task::spawn_blocking(move || drop(server))
        .await
        .unwrap();
}

/// The preflight of an embedded server with these faults.
async fn found_with(faults: &[&str], guided_fields: GuidedFields) -> Preflight {
    let faults = faults
        .iter()
        .map(|fault| Fault::parse(fault).unwrap())
        .collect();
    let server = embedded(EmbeddedSettings {
        faults,
        guided_fields,
        ..EmbeddedSettings::default()
    })
    .await;
    let options = PreflightSettings {
        model: "sobench-synthetic".to_owned(),
        notation: GrammarDialect::Lark,
        ..options()
    };
    let found = run_preflight(server.base_url(), &options).await;
    stop(server).await;
    found
}

#[tokio::test]
async fn a_healthy_server_enforces_what_its_engine_supports() {
    for (engine, refused) in [
        (
            EngineName::Guidance,
            &[ProbeKind::Text(ConstraintKind::StructuralTag)][..],
        ),
        (EngineName::Xgrammar, &[]),
        (
            EngineName::Outlines,
            &[
                ProbeKind::Text(ConstraintKind::JsonObject),
                ProbeKind::GRAMMAR,
                ProbeKind::Text(ConstraintKind::StructuralTag),
            ],
        ),
    ] {
        let server = embedded(EmbeddedSettings {
            engine,
            ..EmbeddedSettings::default()
        })
        .await;
        for backend in [ServerKind::Vllm, ServerKind::OpenaiChat] {
            for stream in [true, false] {
                let model = "sobench-synthetic".to_owned();
                let options = PreflightSettings {
                    backend,
                    stream,
                    model,
                    kinds: ProbeKind::of_text().collect(),
                    ..options()
                };
                let found = run_preflight(server.base_url(), &options).await;
                for cell in &found.cells {
                    let of_response_format = matches!(
                        cell.kind,
                        ProbeKind::JSON_SCHEMA
                            | ProbeKind::Text(ConstraintKind::JsonObject)
                            | ProbeKind::Text(ConstraintKind::StructuralTag)
                    );
                    let verdict = class(&found, cell.kind, cell.dialect);
                    let expected = match cell.dialect {
                        ResponseFormat if !of_response_format => Class::NotCarried,
                        _ if refused.contains(&cell.kind) => Class::Rejected,
                        _ => Class::Enforced,
                    };
                    assert_eq!(
                        verdict, expected,
                        "{engine:?} {backend} stream {stream}: {cell:?}"
                    );
                }
                assert_eq!(found.facts.product, Some(Product::EMBEDDED));
                assert_eq!(
                    found.facts.engine.as_deref(),
                    Some(server.engine_label().as_str())
                );
                assert_eq!(found.recommendation().unwrap().dialect, StructuredOutputs);
                assert!(
                    found.spelling.is_some() && !found.cells.iter().any(|cell| cell.asked_again),
                    "{found:?}"
                );
            }
        }
        stop(server).await;
    }
}

#[tokio::test]
async fn dropped_constraints_are_ignored_and_a_working_dialect_is_recommended() {
    let dropped = found_with(&["ignore-constraint"], GuidedFields::Honour).await;
    all_are(&dropped, Class::Ignored, None, "");
    assert_eq!((dropped.recommendation(), dropped.passed()), (None, false));

    let guided = found_with(&[], GuidedFields::Ignore).await;
    for kind in [
        ProbeKind::JSON_SCHEMA,
        ProbeKind::Text(ConstraintKind::Regex),
        ProbeKind::Text(ConstraintKind::Choice),
        ProbeKind::GRAMMAR,
    ] {
        assert_eq!(class(&guided, kind, Guided), Class::Ignored, "{kind}");
        assert_eq!(
            class(&guided, kind, StructuredOutputs),
            Class::Enforced,
            "{kind}"
        );
    }
    // It has no guided field and is sent as response_format.
    assert_eq!(
        class(&guided, ProbeKind::Text(ConstraintKind::JsonObject), Guided),
        Class::Enforced
    );
    assert_eq!(
        guided.recommendation().unwrap().flags(),
        "--constraint-dialect structured-outputs"
    );
    assert!(guided.passed());
}

#[tokio::test]
async fn injected_faults_are_not_attributed_to_the_constraint() {
    let fenced = found_with(&["extra-text"], GuidedFields::Honour).await;
    for kind in [
        ProbeKind::JSON_SCHEMA,
        ProbeKind::Text(ConstraintKind::Regex),
        ProbeKind::Text(ConstraintKind::Choice),
        ProbeKind::GRAMMAR,
    ] {
        assert_eq!(
            class(&fenced, kind, StructuredOutputs),
            Class::Partial,
            "{kind}"
        );
    }
    let empty = found_with(&["empty"], GuidedFields::Honour).await;
    all_are(&empty, Class::Unproven, None, "empty answer");
    for (fault, cause) in [
        ("error-500", Cause::ServerError),
        ("truncate", Cause::StreamError),
    ] {
        let found = found_with(&[fault], GuidedFields::Honour).await;
        all_are(&found, Class::Broken, Some(cause), "");
        assert!(found.control.failure.is_some(), "{fault}");
        assert!(
            found
                .notices
                .iter()
                .any(|notice| notice.to_string().contains("fails without a constraint")),
            "{:?}",
            found.notices
        );
    }
}

#[tokio::test]
async fn an_envelope_used_as_the_schema_is_detected() {
    let server = answering(|body| match body.get("response_format") {
        Some(_) => Reply::Text(
            r#"{"name": "weather", "schema": {"type": "object"}, "strict": true}"#.to_owned(),
        ),
        None => Reply::Prose,
    });
    let options = PreflightSettings {
        kinds: vec![ProbeKind::JSON_SCHEMA],
        ..options()
    };
    let found = run_preflight(&server.base_url, &options).await;
    assert_eq!(
        class(&found, ProbeKind::JSON_SCHEMA, ResponseFormat),
        Class::WrongWrapper
    );
    assert_eq!(
        class(&found, ProbeKind::JSON_SCHEMA, StructuredOutputs),
        Class::Ignored
    );
    assert_eq!(
        found
            .verdict_for(ProbeKind::JSON_SCHEMA, ResponseFormat)
            .unwrap()
            .finding
            .reason,
        "the answer has the members of the schema's envelope (name, schema, strict), not those of the schema"
    );
}

#[tokio::test]
async fn failures_of_constrained_requests_have_distinct_classes() {
    let error = |code: u16| {
        Reply::Event(format!(
            r#"{{"error":{{"message":"no grammar for you","type":"x","param":null,"code":{code}}}}}"#
        ))
    };
    for (reply, class, cause, status, message) in [
        (
            error(400),
            Class::Rejected,
            None,
            Some(400),
            "no grammar for you",
        ),
        (
            error(500),
            Class::Broken,
            Some(Cause::ServerError),
            Some(500),
            "no grammar for you",
        ),
        (
            Reply::Status("400 Bad Request", "not supported"),
            Class::Rejected,
            None,
            Some(400),
            "not supported",
        ),
        (
            Reply::Status("500 Internal Server Error", "it broke"),
            Class::Broken,
            Some(Cause::ServerError),
            Some(500),
            "it broke",
        ),
        (
            Reply::Status("429 Too Many Requests", "later"),
            Class::Broken,
            Some(Cause::Overloaded),
            Some(429),
            "later",
        ),
        (
            Reply::Event("Invalid grammar. 1(9): Expected".to_owned()),
            Class::Broken,
            Some(Cause::StreamError),
            None,
            "Invalid grammar",
        ),
        (
            Reply::CutOff,
            Class::Broken,
            Some(Cause::StreamError),
            None,
            "the answer until then follows the constraint",
        ),
    ] {
        let server = answering(move |body| {
            if constraint_text(body).is_some() {
                reply.clone()
            } else {
                Reply::Prose
            }
        });
        let kinds = vec![
            ProbeKind::JSON_SCHEMA,
            ProbeKind::Text(ConstraintKind::Regex),
            ProbeKind::Text(ConstraintKind::Choice),
            ProbeKind::GRAMMAR,
        ];
        let found =
            run_preflight(&server.base_url, &PreflightSettings { kinds, ..options() }).await;
        all_are(&found, class, cause, message);
        let cells = found
            .cells
            .iter()
            .filter(|cell| cell.finding.class != Class::NotCarried);
        assert!(
            cells.clone().count() > 0 && cells.clone().all(|cell| cell.finding.status == status)
        );
        assert_eq!(
            found.control.failure, None,
            "without a constraint it answers"
        );
        assert!(!found.passed());
    }
}

#[tokio::test]
async fn endless_white_space_is_reported() {
    for starts_with_document in [false, true] {
        check_white_space(starts_with_document).await;
    }
}

/// Checks answers of an opening brace, or of a complete document, and white space.
async fn check_white_space(starts_with_document: bool) {
    let server = answering(move |body| match constraint_text(body) {
        Some(constraint) if constraint.contains("properties") => {
            let document = allowed(body).filter(|_| starts_with_document);
            let start = document.unwrap_or_else(|| "{".to_owned());
            Reply::Truncated(format!("{start}{}", "\n ".repeat(60)))
        }
        Some(_) => Reply::Text(allowed(body).unwrap_or_else(|| "{}".to_owned())),
        None => Reply::Prose,
    });
    let found = run_preflight(&server.base_url, &options()).await;
    for dialect in [StructuredOutputs, Guided, ResponseFormat] {
        let json = found.verdict_for(ProbeKind::JSON_SCHEMA, dialect).unwrap();
        assert_eq!(
            (json.finding.class, json.finding.cause),
            (Class::Broken, Some(Cause::WhiteSpaceRunAway)),
            "{dialect}"
        );
    }
    assert_eq!(
        class(
            &found,
            ProbeKind::Text(ConstraintKind::Regex),
            StructuredOutputs
        ),
        Class::Enforced
    );
    assert!(
        found
            .notices
            .iter()
            .any(|notice| notice.to_string().contains("disable_any_whitespace")),
        "{:?}",
        found.notices
    );
}

#[tokio::test]
async fn a_truncated_answer_is_tested_again_with_a_higher_limit() {
    let server = answering(|body| match body["max_tokens"].as_u64() {
        Some(64) if constraint_text(body).is_some() => Reply::Truncated(String::new()),
        _ => allowed(body).map_or(Reply::Prose, Reply::Text),
    });
    let kinds = vec![
        ProbeKind::JSON_SCHEMA,
        ProbeKind::Text(ConstraintKind::Choice),
    ];
    let found = run_preflight(
        &server.base_url,
        &PreflightSettings {
            kinds,
            dialects: vec![StructuredOutputs],
            ..options()
        },
    )
    .await;
    all_are(&found, Class::Enforced, None, "");
    assert!(found.cells.iter().all(|cell| cell.asked_again));
    assert_eq!(
        (found.requests, posts(&server).len()),
        (6, 6),
        "the control, each probe twice, and the formatting probe"
    );
}

#[tokio::test]
async fn the_second_notation_is_tested_only_if_the_first_is_refused() {
    let lark_only = answering(|body| match constraint_text(body) {
        Some(constraint) if constraint.contains("::=") => {
            Reply::Status("400 Bad Request", "lark only")
        }
        _ => allowed(body).map_or(Reply::Prose, Reply::Text),
    });
    let options = PreflightSettings {
        kinds: vec![ProbeKind::GRAMMAR],
        dialects: vec![StructuredOutputs],
        ..options()
    };
    let found = run_preflight(&lark_only.base_url, &options).await;
    assert_eq!(
        found
            .cells
            .iter()
            .map(|cell| cell.finding.class)
            .collect::<Vec<_>>(),
        [Class::Rejected, Class::Enforced]
    );
    let best = found.recommendation().unwrap();
    assert_eq!(
        (best.notation, found.passed()),
        (Some(GrammarDialect::Lark), true)
    );

    let both = answering(|body| allowed(body).map_or(Reply::Prose, Reply::Text));
    let found = run_preflight(&both.base_url, &options).await;
    assert_eq!(
        (found.cells.len(), found.recommendation().unwrap().notation),
        (1, None)
    );
    assert_eq!(posts(&both).len(), 2, "the control and one probe");
}

#[tokio::test]
async fn the_request_that_crashes_a_server_is_reported() {
    let server = crashing_server("::=");
    let kinds = vec![ProbeKind::Text(ConstraintKind::Choice), ProbeKind::GRAMMAR];
    let options = PreflightSettings {
        kinds,
        dialects: vec![StructuredOutputs, Guided],
        ..options()
    };
    let found = run_preflight(&server.base_url(), &options).await;
    let classes: Vec<Class> = found.cells.iter().map(|cell| cell.finding.class).collect();
    assert_eq!(
        classes,
        [
            Class::Enforced,
            Class::Broken,
            Class::NotSent,
            Class::NotSent
        ]
    );
    assert!(
        found.notices.iter().any(|notice| notice
            .to_string()
            .contains("grammar (ebnf) in structured-outputs")),
        "{:?}",
        found.notices
    );
}

#[tokio::test]
async fn probes_are_reproducible_and_distinct() {
    let bodies = |seed| async move {
        let server = answering(|_| Reply::Prose);
        run_preflight(&server.base_url, &PreflightSettings { seed, ..options() }).await;
        posts(&server)
    };
    let (first, again, other) = (bodies(3).await, bodies(3).await, bodies(4).await);
    assert!(first == again && first != other);
    let constraints: Vec<String> = first.iter().filter_map(constraint_text).collect();
    let drawn: Vec<&String> = constraints
        .iter()
        .filter(|word| !word.contains("json_object"))
        .collect();
    assert!(
        drawn.len() > 5
            && drawn
                .iter()
                .enumerate()
                .all(|(place, word)| !drawn[..place].contains(word)),
        "{drawn:?}"
    );
}

#[tokio::test]
async fn a_server_that_refuses_everything_is_an_error_that_quotes_it() {
    for (status, hint) in [
        ("401 Unauthorized", "OPENAI_API_KEY"),
        ("404 Not Found", "--model"),
        ("400 Bad", "--extra-body"),
    ] {
        let server = answering(move |_| Reply::Status(status, "words of the server"));
        let error = try_preflight(&server.base_url, &options())
            .await
            .unwrap_err();
        assert!(
            error.exit_code() == 3 && error.what.contains("words of the server"),
            "{error}"
        );
        assert!(error.hint.unwrap().contains(hint), "{status}");
        assert_eq!(server.requests().len(), 1, "no further request");
    }
    assert_eq!(
        try_preflight(&refusing_url(), &options())
            .await
            .unwrap_err()
            .exit_code(),
        3
    );
}
