//! The evaluator returns the verdicts of the (constraint, text, verdict) triples in
//! `fixtures/verdicts`.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;

use serde::Deserialize;
use sobench_core::constraint::Constraint;
use sobench_core::verdict::{Reason, Verdict};
use sobench_judge::{Evaluator, JudgeSettings, judge_text};
use sobench_testkit::repository_path;

/// Minimum number of triples, so that missing files fail the test.
const MIN_TRIPLES: usize = 150;

/// A line of a fixture: a constraint, a text, and its verdict.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Triple {
    #[serde(skip)]
    location: String,
    /// Unique over all files.
    id: String,
    constraint: Constraint,
    /// The answer as a server would send it.
    text: String,
    /// `valid`, `invalid` or `not_scored`.
    verdict: String,
    /// Of an invalid answer.
    reason: Option<String>,
    /// The keyword of the first violation of a schema; any if absent.
    keyword: Option<String>,
    /// The violated format of a structural tag; any if absent.
    path: Option<String>,
    /// Where the answer leaves the language; any place if absent.
    byte: Option<u64>,
    /// Of an answer that is not scored.
    why: Option<String>,
    /// A pest grammar that decides in place of the constraint.
    oracle: Option<String>,
    #[serde(rename = "note")]
    _note: Option<String>,
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
            let triple: Triple =
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{location}: {error}"));
            triples.push(Triple { location, ..triple });
        }
    }
    triples
}

/// Whether `verdict` is the expected one.
fn agrees(triple: &Triple, verdict: &Verdict) -> bool {
    let (name, reason, why) = match verdict {
        Verdict::Valid => ("valid", None, None),
        Verdict::Invalid { reason } => ("invalid", Some(reason), None),
        Verdict::NotScored { why } => ("not_scored", None, Some(why.name())),
    };
    let (keyword, path) = match reason {
        Some(Reason::Schema { keyword, .. }) => (Some(keyword), None),
        Some(Reason::StructuralTag { path, .. }) => (None, Some(path)),
        _ => (None, None),
    };
    // A pest oracle reports only the failed rule, not the byte.
    let byte = reason.and_then(reason_byte);
    let byte_agrees = triple.byte == byte || triple.oracle.is_some() && byte.is_some();
    triple.verdict == name
        && triple.reason.as_deref() == reason.map(Reason::name)
        && triple.why.as_deref() == why
        && (triple.keyword.is_none() || triple.keyword.as_ref() == keyword)
        && (triple.path.is_none() || triple.path.as_ref() == path)
        && (triple.byte.is_none() || byte_agrees)
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
fn every_triple_has_the_expected_verdict_and_a_unique_id() {
    let triples = triples();
    assert!(
        triples.len() >= MIN_TRIPLES,
        "only {} triples",
        triples.len()
    );
    let mut evaluator = Evaluator::new(JudgeSettings::default());
    let mut mismatches = Vec::new();
    let mut ids = HashSet::new();
    for triple in &triples {
        let Triple { location, id, .. } = triple;
        assert!(ids.insert(id), "{location}: the id {id} is taken");
        let constraint = Some(&triple.constraint);
        let compiled = evaluator.compile_request(constraint, triple.oracle.as_deref(), None);
        let verdict = judge_text(&compiled, &triple.text);
        if !agrees(triple, &verdict) {
            mismatches.push(format!("{location} {id}: {verdict:?}"));
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
