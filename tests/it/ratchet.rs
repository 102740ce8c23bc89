//! Holds the outcomes of every engine on a small corpus of traps to a baseline: none may get worse, and one that gets better is
//! written down. The corpus is `fixtures/mask/traps.jsonl`, the baseline `fixtures/baselines/mask-outcomes.csv`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use sobench::mask::row::{Row, Spelling};
use sobench::report::mask::outcome::{Class, SchemaOutcome};

use crate::support::{in_package, sobench};

/// Entry and engine, and the name of the outcome.
type Outcomes = BTreeMap<(String, String), String>;

const BASELINE: &str = "fixtures/baselines/mask-outcomes.csv";

/// Set to write the baseline anew from what is measured; the difference is then for a person to look at.
const UPDATE: &str = "UPDATE_BASELINES";

#[test]
fn no_engine_gets_worse_on_the_traps() {
    let measured = measured();
    let path = in_package(BASELINE);
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, written(&measured)).unwrap();
    }
    let baseline = read(&std::fs::read_to_string(&path).unwrap());
    let mut differences = String::new();
    for (key, was) in &baseline {
        let now = measured.get(key).map_or("missing", String::as_str);
        if now != was {
            let verdict = if badness(now) > badness(was) { "WORSE" } else { "better" };
            writeln!(differences, "{verdict}: {} under {}: {was} -> {now}", key.0, key.1).unwrap();
        }
    }
    for key in measured.keys().filter(|key| !baseline.contains_key(*key)) {
        writeln!(differences, "new: {} under {}", key.0, key.1).unwrap();
    }
    assert!(
        differences.is_empty(),
        "{differences}if this is as it should be, run the test with {UPDATE}=1 and commit {BASELINE}"
    );
}

#[test]
fn accepting_what_is_invalid_is_the_worst() {
    let ordered = ["pass", "rejects_valid", "declined_unsupported", "timeout", "crash", "accepts_invalid", "missing"];
    assert!(ordered.is_sorted_by_key(|name| badness(name)), "{:?}", ordered.map(badness));
}

/// Place in the order of outcomes, best first; what nobody knows is worse than all.
fn badness(outcome: &str) -> usize {
    SchemaOutcome::ALL.iter().position(|known| known.name() == outcome).unwrap_or(SchemaOutcome::ALL.len())
}

fn measured() -> Outcomes {
    let folder = tempfile::tempdir().unwrap();
    let rows = folder.path().join("rows.jsonl");
    let corpus = format!("custom:{}", in_package("fixtures/mask/traps.jsonl").display());
    let flags = ["mask", "--corpus", &corpus, "--engine", "guidance,xgrammar,outlines", "--spelling", "maskbench"];
    let ran = sobench(
        &[&flags[..], &["--rows", rows.to_str().unwrap(), "--batch", "1", "--timeout", "300", "--disable-tqdm"]].concat(),
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let rows = std::fs::read_to_string(rows).unwrap();
    let outcome = |line: &str| {
        let row: Row = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let outcome = SchemaOutcome::of(&row, Spelling::Maskbench, &[Spelling::Maskbench]);
        ((row.entry, row.engine.name().to_owned()), outcome.name().to_owned())
    };
    rows.lines().skip(1).map(outcome).collect()
}

fn written(outcomes: &Outcomes) -> String {
    let mut text = "entry,engine,outcome\n".to_owned();
    for ((entry, engine), outcome) in outcomes {
        writeln!(text, "{entry},{engine},{outcome}").unwrap();
    }
    text
}

fn read(text: &str) -> Outcomes {
    let cells = |line: &str| -> Option<((String, String), String)> {
        let mut cells = line.split(',').map(str::to_owned);
        Some(((cells.next()?, cells.next()?), cells.next()?))
    };
    text.lines().skip(1).map(|line| cells(line).unwrap_or_else(|| panic!("not entry,engine,outcome: {line}"))).collect()
}
