//! The evaluator returns the verdicts of the (constraint, text, verdict) triples in
//! `fixtures/verdicts`.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use sobench_core::constraint::Constraint;
use sobench_core::verdict::{NotScored, Reason, Verdict};
use sobench_judge::{EvaluateOptions, Evaluator};
use sobench_testkit::repository_path;

/// Minimum number of triples, so that missing files fail the test.
const MIN_TRIPLES: usize = 150;

struct Triple {
    location: String,
    row: Value,
}

fn triples() -> Vec<Triple> {
    let folder = fs::read_dir(repository_path("fixtures/verdicts"))
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
            let location = format!("{}:{}", file.display(), index + 1);
            let row =
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{location}: {error}"));
            triples.push(Triple { location, row });
        }
    }
    triples
}

/// Whether `verdict` is the expected one of `row`.
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
            // A pest oracle reports only the failed rule, not the byte.
            let exact = row.get("byte").filter(|_| row.get("oracle").is_none());
            let byte_agrees = exact.is_none_or(|expected| expected.as_u64() == reason_byte(reason));
            let path_agrees = match (row.get("path"), reason) {
                (None, _) => true,
                (Some(expected), Reason::StructuralTag { path, .. }) => expected == path,
                (Some(_), _) => false,
            };
            row["verdict"] == "invalid"
                && row["reason"] == reason.name()
                && path_agrees
                && keyword_agrees
                && byte_agrees
        }
    }
}

/// The byte of a reason, if it has one.
fn reason_byte(reason: &Reason) -> Option<u64> {
    match reason {
        Reason::Grammar { byte }
        | Reason::StructuralTag { byte, .. }
        | Reason::NotJson { byte, .. }
        | Reason::ExtraText { byte, .. }
        | Reason::LoneSurrogate { byte } => Some(*byte as u64),
        _ => None,
    }
}

#[test]
fn every_triple_has_the_expected_verdict() {
    let triples = triples();
    assert!(
        triples.len() >= MIN_TRIPLES,
        "only {} triples",
        triples.len()
    );
    let mut evaluator = Evaluator::new(EvaluateOptions::default());
    let mut mismatches = Vec::new();
    for Triple { location, row } in &triples {
        let constraint: Constraint = serde_json::from_value(row["constraint"].clone())
            .unwrap_or_else(|error| panic!("{location}: {error}"));
        let verdict = evaluator.judge_text(
            &constraint,
            row["oracle"].as_str(),
            row["text"].as_str().unwrap(),
        );
        if !agrees(row, &verdict) {
            mismatches.push(format!("{location} {}: {verdict:?}", row["id"]));
        }
    }
    assert!(
        mismatches.is_empty(),
        "{} of {} are judged differently:\n{}",
        mismatches.len(),
        triples.len(),
        mismatches.join("\n")
    );
}

#[test]
fn every_triple_matches_the_contract_and_has_a_unique_id() {
    let contract: Value = serde_json::from_str(
        &fs::read_to_string(repository_path(
            "schemas/contracts/verdict-triple.schema.json",
        ))
        .unwrap(),
    )
    .unwrap();
    let contract = jsonschema::validator_for(&contract).unwrap();
    let mut ids = HashSet::new();
    for Triple { location, row } in triples() {
        if let Err(error) = contract.validate(&row) {
            panic!("{location}: {} at {}", error, error.instance_path());
        }
        assert!(
            ids.insert(row["id"].as_str().unwrap().to_owned()),
            "{location}: the id {} is taken",
            row["id"]
        );
    }
}
