//! The rows of the dataset `suite`: the evaluator and a second validator agree with the label of
//! every example.

use std::collections::HashSet;
use std::fs;

use serde_json::{Value, json};
use sobench_core::constraint::{Constraint, ConstraintKind};
use sobench_core::verdict::Verdict;
use sobench_judge::{Evaluator, JudgeSettings, judge_text};
use sobench_testkit::repository_path;

use crate::suite::second::boon_verdict;

struct Row {
    name: String,
    constraint: Constraint,
    oracle: Option<String>,
    examples: Vec<Example>,
}

struct Example {
    text: String,
    valid: bool,
}

fn rows() -> Vec<Row> {
    let file = fs::read_to_string(repository_path("schemas/workloads/suite-1.jsonl")).unwrap();
    file.lines()
        .map(|line| {
            let row: Value = serde_json::from_str(line).unwrap();
            let kind = ConstraintKind::ALL
                .map(ConstraintKind::name)
                .into_iter()
                .find(|kind| row.get(kind).is_some());
            let kind = kind.unwrap();
            let example = |instance: &Value| Example {
                text: match instance.get("text") {
                    Some(text) => text.as_str().unwrap().to_owned(),
                    None => instance["data"].to_string(),
                },
                valid: instance["valid"].as_bool().unwrap(),
            };
            Row {
                name: row["name"].as_str().unwrap().to_owned(),
                constraint: serde_json::from_value(json!({ kind: row[kind] })).unwrap(),
                oracle: row["grammar_oracle"].as_str().map(str::to_owned),
                examples: row["instances"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(example)
                    .collect(),
            }
        })
        .collect()
}

/// Whether the text is valid; panics if it cannot be judged.
fn judged(row: &Row, oracle: Option<&str>, text: &str) -> bool {
    let mut evaluator = Evaluator::new(JudgeSettings::default());
    let constraint = evaluator.compile_request(Some(&row.constraint), oracle, None);
    match judge_text(&constraint, text) {
        Verdict::Valid => true,
        Verdict::Invalid { .. } => false,
        Verdict::NotScored { why } => panic!("{}: {text:?}: {why}", row.name),
    }
}

/// A validator that shares no code with the verdict: `boon` for schemas, the crate `regex` without
/// our parser, a comparison of strings, and for grammars the recogniser in place of the oracle.
fn second_opinion(row: &Row, text: &str) -> bool {
    match &row.constraint {
        Constraint::JsonSchema(schema) => {
            let document = serde_json::from_str(text).unwrap();
            boon_verdict(schema, &document).unwrap_or_else(|why| panic!("{}: {why}", row.name))
        }
        Constraint::Regex(pattern) => regex::Regex::new(&format!(r"\A(?:{pattern})\z"))
            .unwrap()
            .is_match(text),
        Constraint::Choice(choices) => choices.iter().any(|choice| choice == text),
        Constraint::Grammar { .. } => judged(row, None, text),
        other => panic!("{}: {}", row.name, other.kind()),
    }
}

#[test]
fn two_validators_agree_with_every_example() {
    let mut wrong = Vec::new();
    let mut compared = 0;
    for row in rows() {
        for Example { text, valid } in &row.examples {
            let found = (
                judged(&row, row.oracle.as_deref(), text),
                second_opinion(&row, text),
            );
            if found != (*valid, *valid) {
                wrong.push(format!("{}: {text:?} is {valid}: {found:?}", row.name));
            }
            compared += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 600, "{compared}");
}

#[test]
fn every_row_has_enough_distinct_examples() {
    for row in rows() {
        let count = |valid| {
            row.examples
                .iter()
                .filter(|example| example.valid == valid)
                .count()
        };
        let sentences = match &row.constraint {
            Constraint::Choice(choices) => choices.len(),
            _ => usize::MAX,
        };
        assert!(count(true) >= 3.min(sentences), "{}", row.name);
        assert!(count(false) >= 5, "{}", row.name);
        let texts: HashSet<&String> = row.examples.iter().map(|example| &example.text).collect();
        assert_eq!(texts.len(), row.examples.len(), "{}", row.name);
        assert!(row.examples[0].valid, "{}: the reference answer", row.name);
    }
}
