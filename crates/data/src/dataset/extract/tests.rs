//! Tests of `extract`: references are valid, stated by the text and right by their scorer.

use std::collections::{BTreeMap, HashMap, HashSet};

use boon::{Compiler, Schemas};

use super::*;
use crate::dataset::tests::{plan, rows, tokenizer};
use crate::dataset::{DatasetName, Source, load};
use crate::tokenizer::Tokenizer;
use sobench_core::case::Arm;
use sobench_judge::accuracy::{Grade, Reference};
use sobench_judge::{Evaluator, JudgeSettings};

fn made(difficulty: Option<Difficulty>, seed: u64, num_prompts: usize) -> Vec<Row> {
    let plan = DatasetPlan {
        source: Source::Extract(ExtractPlan {
            extract_difficulty: difficulty,
        }),
        num_prompts,
        seed,
        ..plan(DatasetName::Extract)
    };
    rows(&plan, &tokenizer()).unwrap().rows
}

fn text(row: &Row) -> &str {
    let Some(Prompt::Text(question)) = &row.question else {
        panic!("expected a question")
    };
    question.split_once("Text:\n").unwrap().1
}

fn reference(row: &Row) -> Value {
    serde_json::from_str(row.completion.as_deref().unwrap()).unwrap()
}

/// Two validators that share no code find every reference valid, and the scorer finds it right.
#[test]
fn references_are_valid_and_right_for_hundreds_of_seeds() {
    let mut evaluator = Evaluator::new(JudgeSettings::default());
    let mut compiled: HashMap<String, (Schemas, boon::SchemaIndex)> = HashMap::new();
    for seed in 0..300 {
        for row in made(None, seed, 12) {
            let constraint = row.constraint.as_deref().unwrap();
            let Constraint::JsonSchema(schema) = constraint else {
                panic!("expected a schema")
            };
            let answer = row.completion.as_deref().unwrap();
            assert!(evaluator.compile(constraint).accepts(answer), "{answer}");
            let (schemas, index) = compiled.entry(schema.to_string()).or_insert_with(|| {
                let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
                compiler.enable_format_assertions();
                compiler
                    .add_resource("file:///schema.json", Value::clone(schema))
                    .unwrap();
                let index = compiler
                    .compile("file:///schema.json", &mut schemas)
                    .unwrap();
                (schemas, index)
            });
            let document = reference(&row);
            assert!(schemas.validate(&document, *index).is_ok(), "{answer}");
            let scored = Reference::new(Scorer::Leaf, &answer.into(), Some(constraint)).unwrap();
            assert_eq!(scored.grade(answer).grade, Grade::Right);
        }
    }
}

/// Whether the text has the value, in one of its spellings.
fn is_stated(text: &str, value: &Value) -> bool {
    match value {
        Value::String(value) => {
            let spelled = date(value).is_some_and(|date| {
                date.spellings()
                    .iter()
                    .any(|spelling| text.contains(spelling))
            });
            let currency = draws::CURRENCIES
                .iter()
                .find(|currency| currency.code == value)
                .is_some_and(|currency| {
                    text.contains(currency.symbol) || text.contains(currency.name)
                });
            spelled || currency || text.contains(value.as_str())
        }
        Value::Number(number) => {
            let cents = (number.as_f64().unwrap() * 100.0).round() as u64;
            let plain = format!("{}.{:02}", cents / 100, cents % 100);
            let is_integer = number.is_u64() && text.contains(&number.to_string());
            is_integer || text.contains(&plain) || text.contains(&draws::grouped(cents))
        }
        // The prose says it in words, checked below.
        Value::Bool(_) | Value::Null => true,
        Value::Array(items) => items.iter().all(|item| is_stated(text, item)),
        Value::Object(members) => members.values().all(|member| is_stated(text, member)),
    }
}

fn date(text: &str) -> Option<draws::Date> {
    let mut parts = text.split('-').map(str::parse::<u64>);
    let (year, month, day) = (
        parts.next()?.ok()?,
        parts.next()?.ok()?,
        parts.next()?.ok()?,
    );
    (text.len() == 10 && (1..=12).contains(&month)).then_some(draws::Date { year, month, day })
}

#[test]
fn texts_state_every_value_and_not_the_missing_ones() {
    // A word that the text has only with the fact of this member.
    let words = [
        ("due_on", "pay by|payment is due|due date"),
        ("purchase_order", "purchase order"),
        ("discount_percent", "discount"),
        ("shipping", "Shipping"),
        ("error_code", "error code"),
        ("version", "version"),
        ("workaround", "advice"),
        ("died_on", " died on |day of death"),
        ("children", "child"),
    ];
    let mut missing = BTreeMap::new();
    for seed in 0..200 {
        for row in made(None, seed, 24) {
            let (text, reference) = (text(&row), reference(&row));
            assert!(is_stated(text, &reference), "{reference}\n{text}");
            let Some(Constraint::JsonSchema(schema)) = row.constraint.as_deref() else {
                panic!("expected a schema")
            };
            let properties = schema["properties"].as_object().unwrap();
            for (member, alternatives) in words {
                if !properties.contains_key(member) {
                    continue;
                }
                let is_missing = reference.get(member).is_none_or(Value::is_null);
                let is_named = alternatives.split('|').any(|word| text.contains(word));
                assert_eq!(is_missing, !is_named, "{member}: {text}");
                *missing.entry((member, is_missing)).or_insert(0) += 1;
            }
            if let Some(paid) = reference.get("paid").and_then(Value::as_bool) {
                assert_eq!(
                    paid,
                    !text.contains("not paid") && !text.contains("not been paid")
                );
            }
        }
    }
    // Each fact is stated often and missing often.
    assert_eq!(missing.len(), 2 * words.len());
    assert!(missing.values().all(|count| *count > 50), "{missing:?}");
}

#[test]
fn documents_are_varied_and_shares_are_equal() {
    for difficulty in Difficulty::ALL.map(Some).into_iter().chain([None]) {
        let rows = made(difficulty, 0, 1_000);
        let distinct: HashSet<&str> = rows.iter().map(text).collect();
        assert!(distinct.len() >= 995, "{difficulty:?}: {}", distinct.len());
        let mut shares: BTreeMap<String, usize> = BTreeMap::new();
        for row in &rows {
            *shares.entry(row.tags.join(" ")).or_default() += 1;
        }
        let (fewest, most) = (shares.values().min(), shares.values().max());
        assert!(most.unwrap() - fewest.unwrap() <= 1, "{shares:?}");
        assert_eq!(shares.len(), if difficulty.is_none() { 12 } else { 4 });
    }
}

#[test]
fn the_seed_determines_documents_and_longer_runs_start_alike() {
    let rows = made(None, 7, 30);
    assert_eq!(made(None, 7, 30), rows);
    assert_eq!(made(None, 7, 60)[..30], rows);
    assert_ne!(made(None, 8, 30), rows);
}

/// A model with 135 million parameters can do the easy ones: short texts and answers. References of
/// all fit twice into the limit.
#[test]
fn texts_and_references_are_short_enough() {
    let tokenizer = Tokenizer::embedded();
    let tokens = |row: &Row| {
        let Prompt::Text(prompt) = &row.prompt else {
            panic!("expected a text")
        };
        let answer = row.completion.as_deref().unwrap();
        (tokenizer.count(prompt), tokenizer.count(answer))
    };
    for row in made(Some(Difficulty::Easy), 1, 400) {
        let (prompt, answer) = tokens(&row);
        assert!(prompt <= 300 && answer <= 50, "{prompt} {answer}: {row:?}");
        assert!((2..=4).contains(&reference(&row).as_object().unwrap().len()));
    }
    for row in made(Some(Difficulty::Hard), 1, 400) {
        let (prompt, answer) = tokens(&row);
        assert!(prompt <= 1_500, "{prompt}");
        assert!(
            2 * answer <= DOCUMENT_OUTPUT_LEN as usize,
            "{answer}: {row:?}"
        );
    }
}

#[test]
fn only_arms_that_show_the_schema_have_it_in_the_prompt() {
    let plan = DatasetPlan {
        arms: Arm::ALL.to_vec(),
        num_prompts: 4,
        ..plan(DatasetName::Extract)
    };
    let cases = load(&plan, &tokenizer()).unwrap().cases;
    assert_eq!(cases.len(), 4 * Arm::ALL.len());
    for case in cases {
        let Prompt::Text(prompt) = &case.prompt else {
            panic!("expected a text")
        };
        assert_eq!(prompt.contains("JSON"), case.arm.shows_schema());
        assert!(!prompt.contains("x-sobench-score"));
        assert_eq!(case.score, Some(Scorer::Leaf));
        assert!(case.constraint.is_some() && case.completion.is_some());
    }
}
