//! Our JSON Schema verdicts beside those of a second validator, the crate `boon`: on entries of our
//! own, always; on a folder of MaskBench where a variable names one, with a baseline that says of
//! every disagreement who is right. Knows the public API of both.

use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::{fs, thread};

use boon::{Compiler, Schemas, UrlLoader};
use serde_json::Value;
use sobench_core::constraint::Constraint;
use sobench_core::verdict::Verdict;
use sobench_judge::{EvaluateOptions, Evaluator};
use sobench_testkit::in_package;

use super::corpus::Draft;
use super::table::{self, Row, Table};

/// Names a folder of MaskBench's files: `{"schema": .., "tests": [{"valid": .., "data": ..}]}`.
const FOLDER: &str = "SOBENCH_MASKBENCH_SAMPLE";

/// Entry and test; who differs; what each says; who is right; why.
const BASELINE: &str = "fixtures/baselines/json-schema-suite-second.csv";

/// Likewise for the entries that ship.
const SHIPPED_BASELINE: &str = "fixtures/baselines/json-schema-suite-second-shipped.csv";

/// Characters of the second validator's words that are kept.
const MAX_WORDS_CHARS: usize = 120;

/// Stack for the second validator, which recurses without a limit.
const STACK_BYTES: usize = 256 << 20;

/// A document with what its author says of it.
struct Claim {
    name: Vec<String>,
    schema: Value,
    text: String,
    valid: bool,
}

/// Refuses every schema from outside, as we do.
struct NothingOutside;

impl UrlLoader for NothingOutside {
    fn load(&self, url: &str) -> Result<Value, Box<dyn std::error::Error>> {
        Err(format!("{url} is outside the document").into())
    }
}

/// What `boon` says: valid or not, or why it says nothing.
pub(crate) fn boon_says(schema: &Value, document: &Value) -> Result<bool, String> {
    const PLACE: &str = "https://example.invalid/schema.json";
    let judge = || {
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        compiler.use_loader(Box::new(NothingOutside));
        compiler.set_default_draft(boon::Draft::V2020_12);
        compiler.enable_format_assertions();
        compiler
            .add_resource(PLACE, schema.clone())
            .map_err(|error| error.to_string())?;
        let compiled = compiler
            .compile(PLACE, &mut schemas)
            .map_err(|error| format!("{error:#}"))?;
        Ok(schemas.validate(document, compiled).is_ok())
    };
    panic::catch_unwind(AssertUnwindSafe(judge)).unwrap_or_else(|_| Err("it panicked".to_owned()))
}

/// Where the three do not agree, who differs; best first in [`badness`].
fn differing(ours: &Verdict, boons: Option<bool>, claimed: bool) -> Option<&'static str> {
    let ours = match ours {
        Verdict::Valid => true,
        Verdict::Invalid { .. } => false,
        Verdict::NotScored { .. } => return Some("not_scored"),
    };
    match boons {
        Some(boons) if ours == boons && ours == claimed => None,
        Some(boons) if ours == boons => Some("author_alone"),
        Some(_) if ours == claimed => Some("boon_alone"),
        None if ours == claimed => Some("boon_says_nothing"),
        _ => Some("sobench_alone"),
    }
}

/// Place in the order of outcomes, best first; what nobody knows is worse than all.
fn badness(outcome: &str) -> usize {
    let known = [
        "boon_says_nothing",
        "boon_alone",
        "author_alone",
        "not_scored",
        "sobench_alone",
    ];
    known
        .iter()
        .position(|name| *name == outcome)
        .unwrap_or(known.len())
}

/// Every disagreement about `claims`.
fn disagreements(claims: &[Claim]) -> Table {
    let mut evaluator = Evaluator::new(EvaluateOptions::default());
    let mut table = Table::new();
    for claim in claims {
        let ours = evaluator.judge_text(
            &Constraint::JsonSchema(claim.schema.clone().into()),
            None,
            &claim.text,
        );
        let document = serde_json::from_str(&claim.text);
        let boons = match &document {
            Ok(document) => boon_says(&claim.schema, document),
            Err(_) => Ok(false),
        };
        if let Some(outcome) = differing(&ours, boons.clone().ok(), claim.valid) {
            let word = |valid| if valid { "valid" } else { "invalid" };
            let boons = boons.map_or_else(|why| cause(&why), |valid| word(valid).to_owned());
            let says = format!(
                "sobench: {}; boon: {boons}; author: {}",
                super::said(&ours),
                word(claim.valid)
            );
            let before = table.insert(claim.name.clone(), Row::new(outcome, &says));
            assert!(
                before.is_none(),
                "two claims have the name {:?}",
                claim.name
            );
        }
    }
    table
}

/// Its last line is the one that names the cause.
fn cause(why: &str) -> String {
    why.lines()
        .last()
        .unwrap_or_default()
        .trim_start_matches([' ', '-'])
        .chars()
        .take(MAX_WORDS_CHARS)
        .collect()
}

/// Runs `work` with room for validators that recurse.
fn with_room<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let worker = thread::Builder::new()
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, work)
            .unwrap();
        worker
            .join()
            .unwrap_or_else(|panic| panic::resume_unwind(panic))
    })
}

/// The texts of the shipped schemas of features.
fn of_features() -> Vec<Claim> {
    let mut claims = Vec::new();
    for line in fs::read_to_string(in_package("schemas/features.jsonl"))
        .unwrap()
        .lines()
    {
        let feature: Value = serde_json::from_str(line).unwrap();
        for (member, valid) in [("valid", true), ("violating", false)] {
            for (index, text) in feature[member].as_array().unwrap().iter().enumerate() {
                let name = vec![
                    feature["id"].as_str().unwrap().to_owned(),
                    format!("{member} {index}"),
                ];
                claims.push(Claim {
                    name,
                    schema: feature["schema"].clone(),
                    text: text.as_str().unwrap().to_owned(),
                    valid,
                });
            }
        }
    }
    claims
}

/// The traps that are set for engines.
fn of_traps() -> Vec<Claim> {
    let mut claims = Vec::new();
    for line in fs::read_to_string(in_package("fixtures/mask/traps.jsonl"))
        .unwrap()
        .lines()
    {
        let entry: Value = serde_json::from_str(line).unwrap();
        let Some(schema) = entry["constraint"].get("json") else {
            continue;
        };
        for (index, instance) in entry["instances"].as_array().unwrap().iter().enumerate() {
            let name = vec![
                entry["name"].as_str().unwrap().to_owned(),
                index.to_string(),
            ];
            let text = instance["text"].as_str().unwrap().to_owned();
            claims.push(Claim {
                name,
                schema: schema.clone(),
                text,
                valid: instance["valid"].as_bool().unwrap(),
            });
        }
    }
    claims
}

/// MaskBench's entries in `folder`.
fn of_maskbench(folder: &Path) -> Vec<Claim> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "json")
    });
    paths.sort();
    let mut claims = Vec::new();
    for path in paths {
        let entry: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let name = path.file_stem().unwrap().to_str().unwrap();
        for (index, test) in entry["tests"].as_array().unwrap().iter().enumerate() {
            claims.push(Claim {
                name: vec![name.to_owned(), index.to_string()],
                schema: entry["schema"].clone(),
                text: test["data"].to_string(),
                valid: test["valid"].as_bool().unwrap(),
            });
        }
    }
    claims
}

/// Holds the disagreements about `claims` to the baseline in `file`.
fn held(claims: &[Claim], file: &str) {
    let measured = with_room(|| disagreements(claims));
    let measured = table::keep(
        &in_package(file),
        "entry,test,outcome,says,right,why",
        measured,
    );
    table::hold(&measured, &table::read(&in_package(file)), badness, file);
}

#[test]
fn a_second_validator_agrees_on_the_shipped_entries_but_for_the_baseline() {
    let claims: Vec<Claim> = of_features().into_iter().chain(of_traps()).collect();
    assert!(claims.len() > 400, "{} documents", claims.len());
    held(&claims, SHIPPED_BASELINE);
}

#[test]
#[ignore = "needs MaskBench's files: SOBENCH_MASKBENCH_SAMPLE names their folder"]
fn a_second_validator_agrees_on_maskbench_but_for_the_baseline() {
    let folder = PathBuf::from(
        std::env::var_os(FOLDER).unwrap_or_else(|| panic!("{FOLDER} names no folder")),
    );
    let claims = of_maskbench(&folder);
    assert!(claims.len() > 1_000, "{} documents", claims.len());
    held(&claims, BASELINE);
}

#[test]
fn who_differs_is_told_apart() {
    let not_scored = Verdict::NotScored {
        why: sobench_core::verdict::NotScored::Refused,
    };
    for (ours, boons, claimed, expected) in [
        (&Verdict::Valid, Some(true), true, None),
        (&Verdict::Valid, Some(true), false, Some("author_alone")),
        (&Verdict::Valid, Some(false), true, Some("boon_alone")),
        (&Verdict::Valid, Some(false), false, Some("sobench_alone")),
        (&Verdict::Valid, None, true, Some("boon_says_nothing")),
        (&Verdict::Valid, None, false, Some("sobench_alone")),
        (&not_scored, Some(true), true, Some("not_scored")),
    ] {
        assert_eq!(
            differing(ours, boons, claimed),
            expected,
            "{ours:?} {boons:?} {claimed}"
        );
    }
    assert!(
        badness("boon_alone") < badness("sobench_alone")
            && badness("sobench_alone") < badness("unheard of")
    );
}

#[test]
fn the_second_validator_reads_every_draft() {
    for draft in Draft::ALL {
        let schema = serde_json::json!({ "$schema": draft.uri(), "type": "integer" });
        assert_eq!(
            boon_says(&schema, &Value::from(1)),
            Ok(true),
            "{}",
            draft.folder()
        );
        assert_eq!(
            boon_says(&schema, &Value::from("1")),
            Ok(false),
            "{}",
            draft.folder()
        );
    }
    let outward = serde_json::json!({ "$ref": "https://example.com/other.json" });
    assert!(
        boon_says(&outward, &Value::Null)
            .unwrap_err()
            .contains("outside the document")
    );
}
