//! Promise: the evaluator says what the (constraint, text, verdict) triples of `fixtures/verdicts`
//! say.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use sobench_core::constraint::Constraint;
use sobench_core::verdict::{NotScored, Reason, Verdict};
use sobench_judge::{EvaluateOptions, Evaluator};
use sobench_testkit::in_package;

/// Triples that there must be at least, so that a file that is not found or not read cannot pass
/// for a success.
const LEAST_TRIPLES: usize = 150;

struct Triple {
    place: String,
    row: Value,
}

fn triples() -> Vec<Triple> {
    let folder = fs::read_dir(in_package("fixtures/verdicts"))
        .expect("the fixtures are part of the package");
    let mut files: Vec<PathBuf> = folder
        .map(|entry| entry.expect("the folder can be listed").path())
        .collect();
    files.retain(|file| {
        file.extension()
            .is_some_and(|extension| extension == "jsonl")
    });
    files.sort();
    let mut triples = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("a fixture is UTF-8 text");
        for (index, line) in text.lines().enumerate() {
            let place = format!("{}:{}", file.display(), index + 1);
            let row = serde_json::from_str(line).unwrap_or_else(|error| panic!("{place}: {error}"));
            triples.push(Triple { place, row });
        }
    }
    triples
}

/// Whether `verdict` is the one that `row` asks for.
fn agrees(row: &Value, verdict: &Verdict) -> bool {
    match verdict {
        Verdict::Valid => row["verdict"] == "valid",
        Verdict::NotScored {
            why: why @ (NotScored::Unsupported { .. } | NotScored::Limit { .. }),
        } => row["verdict"] == "not_scored" && row["why"] == why.name(),
        Verdict::NotScored { .. } => false,
        Verdict::Invalid { reason } => {
            let keyword_agrees = match (row.get("keyword"), reason) {
                (None, _) => true,
                (Some(expected), Reason::Schema { keyword, .. }) => expected == keyword,
                (Some(_), _) => false,
            };
            // A pest oracle knows only in which rule it failed, not where the language was left.
            let exact = row.get("byte").filter(|_| row.get("oracle").is_none());
            let byte_agrees = exact.is_none_or(|expected| expected.as_u64() == byte_of(reason));
            row["verdict"] == "invalid"
                && row["reason"] == reason.name()
                && keyword_agrees
                && byte_agrees
        }
    }
}

/// The place that a reason names, if it names one.
fn byte_of(reason: &Reason) -> Option<u64> {
    match reason {
        Reason::Grammar { byte }
        | Reason::NotJson { byte, .. }
        | Reason::ExtraText { byte }
        | Reason::LoneSurrogate { byte } => Some(*byte as u64),
        _ => None,
    }
}

#[test]
fn every_triple_is_judged_as_it_says() {
    let triples = triples();
    assert!(
        triples.len() >= LEAST_TRIPLES,
        "only {} triples",
        triples.len()
    );
    let mut evaluator = Evaluator::new(EvaluateOptions::default());
    let mut wrong = Vec::new();
    for Triple { place, row } in &triples {
        let constraint: Constraint = serde_json::from_value(row["constraint"].clone())
            .unwrap_or_else(|error| panic!("{place}: {error}"));
        let verdict = evaluator.judge_text(
            &constraint,
            row["oracle"].as_str(),
            row["text"].as_str().unwrap(),
        );
        if !agrees(row, &verdict) {
            wrong.push(format!("{place} {}: {verdict:?}", row["id"]));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} are judged differently:\n{}",
        wrong.len(),
        triples.len(),
        wrong.join("\n")
    );
}

#[test]
fn every_triple_keeps_the_contract_and_has_a_name_of_its_own() {
    let contract: Value = serde_json::from_str(
        &fs::read_to_string(in_package("schemas/contracts/verdict-triple.schema.json")).unwrap(),
    )
    .unwrap();
    let contract = jsonschema::validator_for(&contract).unwrap();
    let mut ids = HashSet::new();
    for Triple { place, row } in triples() {
        if let Err(error) = contract.validate(&row) {
            panic!("{place}: {} at {}", error, error.instance_path());
        }
        assert!(
            ids.insert(row["id"].as_str().unwrap().to_owned()),
            "{place}: the id {} is taken",
            row["id"]
        );
    }
}
