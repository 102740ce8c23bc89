//! Compares the outcomes of every engine on a small corpus of difficult schemas with a baseline: a
//! worse outcome fails, a better one must be recorded. The corpus is `fixtures/mask/traps.jsonl`,
//! the baseline `fixtures/baselines/mask-outcomes.csv`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use sobench_testkit::repository_path;
use sobench_tools::mask::report::outcome::{InstanceClass, OutcomeClass, SchemaOutcome};
use sobench_tools::mask::row::{Row, Spelling};

use crate::support::tools;

/// Outcomes of the instances in order, by entry and engine; one outcome if the schema was declined
/// or stopped.
type Outcomes = BTreeMap<(String, String), Vec<String>>;

const BASELINE: &str = "fixtures/baselines/mask-outcomes.csv";

/// If set, writes the measured outcomes as the new baseline, for review of the diff.
const UPDATE: &str = "SOBENCH_UPDATE";

#[test]
fn engine_outcomes_do_not_get_worse() {
    let measured = measured();
    let path = repository_path(BASELINE);
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, written(&measured)).unwrap();
    }
    let baseline = read(&std::fs::read_to_string(&path).unwrap());
    let mut differences = String::new();
    for (key, was) in &baseline {
        let now = measured
            .get(key)
            .cloned()
            .unwrap_or_else(|| vec!["missing".to_owned()]);
        if now != *was {
            let verdict = if is_worse(was, &now) {
                "WORSE"
            } else {
                "better"
            };
            writeln!(
                differences,
                "{verdict}: {} under {}: {} -> {}",
                key.0,
                key.1,
                was.join(" "),
                now.join(" ")
            )
            .unwrap();
        }
    }
    for key in measured.keys().filter(|key| !baseline.contains_key(*key)) {
        writeln!(differences, "new: {} under {}", key.0, key.1).unwrap();
    }
    assert!(
        differences.is_empty(),
        "{differences}if these changes are intended, run the test with {UPDATE}=1 and commit {BASELINE}"
    );
}

/// Whether any instance got worse. If one side is the outcome of a whole schema, compares the worst
/// outcomes.
fn is_worse(was: &[String], now: &[String]) -> bool {
    let worst = |names: &[String]| names.iter().map(|name| severity(name)).max();
    match was.len() == now.len() {
        true => was
            .iter()
            .zip(now)
            .any(|(was, now)| severity(now) > severity(was)),
        false => worst(now) > worst(was),
    }
}

#[test]
fn accepting_invalid_instances_is_worst() {
    let ordered = [
        "pass",
        "rejects_valid",
        "declined_unsupported",
        "timeout",
        "crash",
        "accepts_invalid",
        "missing",
    ];
    assert!(
        ordered.is_sorted_by_key(|name| severity(name)),
        "{:?}",
        ordered.map(severity)
    );
    let names = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    for (was, now, worse) in [
        (
            "accepts_invalid pass",
            "accepts_invalid rejects_valid",
            true,
        ),
        ("accepts_invalid pass", "pass pass", false),
        ("declined_unsupported", "pass rejects_valid", false),
        ("pass rejects_valid", "declined_unsupported", true),
        ("pass", "missing", true),
    ] {
        assert_eq!(is_worse(&names(was), &names(now)), worse, "{was} -> {now}");
    }
}

/// Position in the order of outcomes, best first; unknown outcomes are the worst.
fn severity(outcome: &str) -> usize {
    SchemaOutcome::ALL
        .iter()
        .position(|known| known.name() == outcome)
        .unwrap_or(SchemaOutcome::ALL.len())
}

fn measured() -> Outcomes {
    let folder = tempfile::tempdir().unwrap();
    let rows = folder.path().join("rows.jsonl");
    let corpus = format!(
        "custom:{}",
        repository_path("fixtures/mask/traps.jsonl").display()
    );
    let flags = [
        "mask",
        "--corpus",
        &corpus,
        "--engine guidance,xgrammar,outlines --spelling maskbench",
    ];
    let ran = tools(
        &[
            &flags[..],
            &[
                "--rows",
                rows.to_str().unwrap(),
                "--batch 1 --timeout 300 --disable-tqdm",
            ],
        ]
        .concat(),
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let rows = std::fs::read_to_string(rows).unwrap();
    let outcome = |line: &str| {
        let row: Row = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let outcomes = if row.declined.is_some() || row.stopped.is_some() {
            vec![
                SchemaOutcome::from_row(&row, Spelling::Maskbench, &[Spelling::Maskbench])
                    .name()
                    .to_owned(),
            ]
        } else {
            row.instances
                .iter()
                .map(|instance| {
                    InstanceClass::from_outcome(&instance.outcome)
                        .name()
                        .to_owned()
                })
                .collect()
        };
        ((row.entry, row.engine.name().to_owned()), outcomes)
    };
    rows.lines().skip(1).map(outcome).collect()
}

fn written(outcomes: &Outcomes) -> String {
    let mut text = "entry,engine,outcomes\n".to_owned();
    for ((entry, engine), outcomes) in outcomes {
        writeln!(text, "{entry},{engine},{}", outcomes.join(" ")).unwrap();
    }
    text
}

fn read(text: &str) -> Outcomes {
    let cells = |line: &str| -> Option<((String, String), Vec<String>)> {
        let mut cells = line.split(',').map(str::to_owned);
        let key = (cells.next()?, cells.next()?);
        Some((key, cells.next()?.split(' ').map(str::to_owned).collect()))
    };
    text.lines()
        .skip(1)
        .map(|line| cells(line).unwrap_or_else(|| panic!("not entry,engine,outcomes: {line}")))
        .collect()
}
