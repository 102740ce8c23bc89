//! Compares the JSON Schema verdicts with a second validator, the crate `boon`: always on shipped
//! entries, and on a folder of MaskBench if an environment variable names it. A baseline states for
//! every disagreement which side is correct.

use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::{fs, thread};

use boon::{Compiler, Schemas, UrlLoader};
use serde_json::Value;
use sobench_core::constraint::Constraint;
use sobench_core::verdict::Verdict;
use sobench_judge::{Evaluator, JudgeSettings, judge_text};
use sobench_testkit::repository_path;

use super::corpus::Draft;
use super::table::{self, Row, Table};

/// Variable with a folder of MaskBench files: `{"schema": .., "tests": [{"valid": .., "data":
/// ..}]}`.
const FOLDER: &str = "SOBENCH_MASKBENCH_SAMPLE";

/// Columns: entry, test, differing side, verdicts, correct side, reason.
const BASELINE: &str = "fixtures/baselines/json-schema-suite-second.csv";

/// The same for the shipped entries.
const SHIPPED_BASELINE: &str = "fixtures/baselines/json-schema-suite-second-shipped.csv";

/// Maximum characters of the second validator's message.
const MAX_MESSAGE_CHARS: usize = 120;

/// Stack of the second validator, which recurses without a limit.
const STACK_BYTES: usize = 256 << 20;

/// A document with the verdict of its author.
struct Claim {
    name: Vec<String>,
    schema: Value,
    text: String,
    valid: bool,
}

/// Refuses external schemas.
struct NoExternalSchemas;

impl UrlLoader for NoExternalSchemas {
    fn load(&self, url: &str) -> Result<Value, Box<dyn std::error::Error>> {
        Err(format!("{url} is outside the document").into())
    }
}

/// Verdict of `boon`, or the reason why it has none.
pub(crate) fn boon_verdict(schema: &Value, document: &Value) -> Result<bool, String> {
    const SCHEMA_URL: &str = "https://example.invalid/schema.json";
    let judge = || {
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        compiler.use_loader(Box::new(NoExternalSchemas));
        compiler.set_default_draft(boon::Draft::V2020_12);
        compiler.enable_format_assertions();
        compiler
            .add_resource(SCHEMA_URL, schema.clone())
            .map_err(|error| error.to_string())?;
        let compiled = compiler
            .compile(SCHEMA_URL, &mut schemas)
            .map_err(|error| format!("{error:#}"))?;
        Ok(schemas.validate(document, compiled).is_ok())
    };
    panic::catch_unwind(AssertUnwindSafe(judge)).unwrap_or_else(|_| Err("it panicked".to_owned()))
}

/// The side that differs from the others, if any. Ordered by [`severity`].
fn differing_side(
    sobench_result: &Verdict,
    boon_result: Option<bool>,
    claimed: bool,
) -> Option<&'static str> {
    let sobench_result = match sobench_result {
        Verdict::Valid => true,
        Verdict::Invalid { .. } => false,
        Verdict::NotScored { .. } => return Some("not_scored"),
    };
    match boon_result {
        Some(boon_result) if sobench_result == boon_result && sobench_result == claimed => None,
        Some(boon_result) if sobench_result == boon_result => Some("author_alone"),
        Some(_) if sobench_result == claimed => Some("boon_alone"),
        None if sobench_result == claimed => Some("boon_says_nothing"),
        _ => Some("sobench_alone"),
    }
}

/// Rank of an outcome, best first. Unknown outcomes are last.
fn severity(outcome: &str) -> usize {
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

/// All disagreements about `claims`.
fn disagreements(claims: &[Claim]) -> Table {
    let mut evaluator = Evaluator::new(JudgeSettings::default());
    let mut table = Table::new();
    for claim in claims {
        let constraint = Constraint::JsonSchema(claim.schema.clone().into());
        let sobench_result = judge_text(&evaluator.compile(&constraint), &claim.text);
        let document = serde_json::from_str(&claim.text);
        let boon_result = match &document {
            Ok(document) => boon_verdict(&claim.schema, document),
            Err(_) => Ok(false),
        };
        if let Some(outcome) =
            differing_side(&sobench_result, boon_result.clone().ok(), claim.valid)
        {
            let name = |valid| if valid { "valid" } else { "invalid" };
            let boon_result =
                boon_result.map_or_else(|why| cause(&why), |valid| name(valid).to_owned());
            let says = format!(
                "sobench: {}; boon: {boon_result}; author: {}",
                super::verdict_text(&sobench_result),
                name(claim.valid)
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

/// The cause is in the last line.
fn cause(why: &str) -> String {
    why.lines()
        .last()
        .unwrap_or_default()
        .trim_start_matches([' ', '-'])
        .chars()
        .take(MAX_MESSAGE_CHARS)
        .collect()
}

/// Runs `work` with a large stack.
fn with_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
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

/// Claims of the shipped feature schemas.
fn feature_claims() -> Vec<Claim> {
    let mut claims = Vec::new();
    for line in fs::read_to_string(repository_path("schemas/features.jsonl"))
        .unwrap()
        .lines()
    {
        let feature: Value = serde_json::from_str(line).unwrap();
        // No validator can judge by a reference that does not resolve.
        if feature["keyword"] == "$ref" && feature["valid"] == serde_json::json!([]) {
            continue;
        }
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

/// Claims of the shipped traps for engines.
fn trap_claims() -> Vec<Claim> {
    let mut claims = Vec::new();
    for line in fs::read_to_string(repository_path("fixtures/mask/traps.jsonl"))
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

/// Claims of MaskBench's entries in `folder`.
fn maskbench_claims(folder: &Path) -> Vec<Claim> {
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

/// Compares the disagreements about `claims` with the baseline in `file`.
fn assert_baseline(claims: &[Claim], file: &str) {
    let measured = with_stack(|| disagreements(claims));
    let measured = table::update(
        &repository_path(file),
        "entry,test,outcome,says,right,why",
        measured,
    );
    table::assert_matches(
        &measured,
        &table::read(&repository_path(file)),
        severity,
        file,
    );
}

#[test]
fn the_second_validator_agrees_on_shipped_entries_except_for_the_baseline() {
    let claims: Vec<Claim> = feature_claims().into_iter().chain(trap_claims()).collect();
    assert!(claims.len() > 400, "{} documents", claims.len());
    assert_baseline(&claims, SHIPPED_BASELINE);
}

#[test]
#[ignore = "needs the MaskBench files in the folder SOBENCH_MASKBENCH_SAMPLE"]
fn the_second_validator_agrees_on_maskbench_except_for_the_baseline() {
    let folder =
        PathBuf::from(std::env::var_os(FOLDER).unwrap_or_else(|| panic!("{FOLDER} is not set")));
    let claims = maskbench_claims(&folder);
    assert!(claims.len() > 1_000, "{} documents", claims.len());
    assert_baseline(&claims, BASELINE);
}

#[test]
fn the_differing_side_is_determined() {
    let not_scored = Verdict::NotScored {
        why: sobench_core::verdict::NotScored::Refused,
    };
    for (sobench_result, boon_result, claimed, expected) in [
        (&Verdict::Valid, Some(true), true, None),
        (&Verdict::Valid, Some(true), false, Some("author_alone")),
        (&Verdict::Valid, Some(false), true, Some("boon_alone")),
        (&Verdict::Valid, Some(false), false, Some("sobench_alone")),
        (&Verdict::Valid, None, true, Some("boon_says_nothing")),
        (&Verdict::Valid, None, false, Some("sobench_alone")),
        (&not_scored, Some(true), true, Some("not_scored")),
    ] {
        assert_eq!(
            differing_side(sobench_result, boon_result, claimed),
            expected,
            "{sobench_result:?} {boon_result:?} {claimed}"
        );
    }
    assert!(
        severity("boon_alone") < severity("sobench_alone")
            && severity("sobench_alone") < severity("unknown")
    );
}

#[test]
fn the_second_validator_supports_every_draft() {
    for draft in Draft::ALL {
        let schema = serde_json::json!({ "$schema": draft.uri(), "type": "integer" });
        assert_eq!(
            boon_verdict(&schema, &Value::from(1)),
            Ok(true),
            "{}",
            draft.folder()
        );
        assert_eq!(
            boon_verdict(&schema, &Value::from("1")),
            Ok(false),
            "{}",
            draft.folder()
        );
    }
    let external = serde_json::json!({ "$ref": "https://example.com/other.json" });
    assert!(
        boon_verdict(&external, &Value::Null)
            .unwrap_err()
            .contains("outside the document")
    );
}
