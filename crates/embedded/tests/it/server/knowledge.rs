//! Planted knowledge over HTTP: right and wrong answers as planted, under the masks of each engine.

use std::sync::Arc;

use serde_json::{Value, json};
use sobench_backend::{BodySettings, ConstraintDialect, Sampling, ServerKind, adapter};
use sobench_core::case::{Arm, Case, Prompt};
use sobench_core::constraint::Constraint;
use sobench_core::error::Error;
use sobench_core::scorer::Scorer;
use sobench_embedded::{EmbeddedServer, EmbeddedSettings, Knowledge, SYNTHETIC_MODEL};
use sobench_engine::EngineName;
use sobench_judge::accuracy::{Grade, Reference};

use super::{Client, start_with, stop};

const ITEMS: u32 = 24;

const SEED: u64 = 11;

const KNOWLEDGE: Knowledge = Knowledge {
    free: 0.3,
    prompt: 0.5,
    constrained: 0.7,
    correlation: 0.5,
};

/// A reference, its scorer and its constraint.
fn item(number: u32) -> (Value, Scorer, Constraint) {
    let order = json!({"type": "object", "additionalProperties": false,
    "required": ["id", "date", "lines", "paid"], "properties": {
        "id": {"type": "string", "pattern": "^[A-Z]-[0-9]{2}$"},
        "date": {"type": "string", "format": "date"},
        "lines": {"type": "array", "items": {"type": "object", "additionalProperties": false,
            "required": ["name", "count"], "properties": {
                "name": {"type": "string"}, "count": {"type": "integer"}}}},
        "paid": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
    }});
    let schema = |schema: Value| Constraint::JsonSchema(Arc::new(schema));
    let answer = json!({"type": "object", "additionalProperties": false, "required": ["answer"],
        "properties": {"answer": {"type": "integer"}}});
    match number % 3 {
        // The members are not in the order of the schema.
        0 => (
            json!({"paid": true, "id": format!("A-{number:02}"), "date": "2026-11-24",
                "lines": [{"count": 3, "name": "Käse, mild"}, {"name": "bread", "count": number}]}),
            Scorer::Leaf,
            schema(order),
        ),
        1 => (json!(number * 7), Scorer::Number, schema(answer)),
        _ => (
            json!("blue"),
            Scorer::Choice,
            Constraint::Choice(["red", "green", "blue"].map(String::from).into()),
        ),
    }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for number in 0..ITEMS {
        let (reference, scorer, constraint) = item(number);
        let constraint = Arc::new(constraint);
        for arm in [
            Arm::Free,
            Arm::Control,
            Arm::Constrained,
            Arm::ConstraintOnly,
        ] {
            let shown = if arm.shows_schema() {
                "with"
            } else {
                "without"
            };
            let prompt = format!("Answer item {number} {shown} the schema.");
            let reference = match &reference {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            cases.push(Case {
                arm,
                item: Some(number),
                score: Some(scorer),
                completion: Some(reference),
                ..Case::new(
                    format!("item-{number}"),
                    Prompt::Text(prompt.into()),
                    Some(Arc::clone(&constraint)),
                    400,
                )
            });
        }
    }
    cases
}

fn body(kind: ServerKind, case: &Case) -> Vec<u8> {
    let options = BodySettings {
        model: SYNTHETIC_MODEL.to_owned(),
        stream: false,
        sampling: Sampling::default(),
        ignore_eos: false,
        dialect: ConstraintDialect::StructuredOutputs,
        guided_decoding_backend: None,
        extra_body: None,
        thinking: None,
        max_tokens_only: false,
    };
    adapter(kind).encode(case, &options).unwrap().to_vec()
}

async fn check_engine(engine: EngineName) {
    let server = start_with(EmbeddedSettings {
        engine,
        seed: SEED,
        knowledge: Some(KNOWLEDGE),
        ..EmbeddedSettings::default()
    })
    .await;
    let kind = ServerKind::OpenaiChat;
    let cases = cases();
    server
        .learn(&cases, kind.default_path(), |case| {
            Ok(body(kind, case).into())
        })
        .unwrap();
    let client = Client::new(&server);
    let mut right = 0;
    for case in &cases {
        let answer = client.post(kind.default_path(), body(kind, case)).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let answer: Value = serde_json::from_str(&answer.body).unwrap();
        let text = answer["choices"][0]["message"]["content"].as_str().unwrap();
        let number = case.item.unwrap();
        let (reference, scorer, constraint) = item(number);
        let reference = Reference::new(scorer, &reference, Some(&constraint)).unwrap();
        let expected = if KNOWLEDGE.knows(SEED, number, case.arm) {
            Grade::Right
        } else {
            Grade::Wrong
        };
        assert_eq!(
            reference.grade(text).grade,
            expected,
            "{engine} {:?} {text}",
            case.arm
        );
        right += usize::from(expected == Grade::Right);
    }
    assert!((20..cases.len() - 20).contains(&right), "{right}");
    stop(server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_right_as_planted_with_every_engine() {
    for engine in [
        EngineName::Guidance,
        EngineName::Xgrammar,
        EngineName::Outlines,
    ] {
        check_engine(engine).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cases_without_references_are_refused_with_a_hint() {
    let server = start_with(EmbeddedSettings {
        knowledge: Some(KNOWLEDGE),
        ..EmbeddedSettings::default()
    })
    .await;
    let case = Case::new("c", Prompt::Text("p".into()), None, 10);
    let learn = |server: &EmbeddedServer, case: &Case| -> Result<(), Error> {
        let kind = ServerKind::OpenaiChat;
        server.learn(std::slice::from_ref(case), kind.default_path(), |case| {
            Ok(body(kind, case).into())
        })
    };
    let error = learn(&server, &case).unwrap_err();
    assert!(
        error.what.contains("--embedded-knows") && error.hint.is_some(),
        "{error}"
    );
    stop(server).await;
    let plain = start_with(EmbeddedSettings::default()).await;
    learn(&plain, &case).unwrap();
    stop(plain).await;
}
