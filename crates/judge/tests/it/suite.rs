//! Our JSON Schema verdicts beside the JSON-Schema-Test-Suite: every test of it that is judged
//! otherwise is a line of a baseline, with who is right, and none may get worse. A part of the
//! suite ships and runs always; the whole runs where a variable names its folder.

pub(crate) mod corpus;
mod second;
mod table;

use std::collections::BTreeMap;
use std::path::PathBuf;

use sobench_core::constraint::Constraint;
use sobench_core::verdict::{NotScored, Reason, Verdict};
use sobench_judge::{EvaluateOptions, Evaluator};
use sobench_testkit::in_package;

use corpus::{Draft, Group};
use table::{Row, Table};

/// Names the folder of a whole suite.
const FOLDER: &str = "SOBENCH_JSON_SCHEMA_TEST_SUITE";

/// The tests that we judge otherwise: draft, file, group, test; outcome; what we say; who is right;
/// why.
const BASELINE: &str = "fixtures/baselines/json-schema-suite.csv";

/// Tests by draft and part, and how many of them have which outcome.
const COUNTS: &str = "fixtures/baselines/json-schema-suite-counts.csv";

/// Part of the suite, a file a draft.
const SHIPPED: &str = "fixtures/json-schema-test-suite";

/// What our verdict is beside the suite's, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Agrees,
    NotScored,
    InvalidForValid,
    ValidForInvalid,
}

impl Standing {
    const ALL: [Self; 4] = [
        Self::Agrees,
        Self::NotScored,
        Self::InvalidForValid,
        Self::ValidForInvalid,
    ];

    fn of(verdict: &Verdict, valid: bool) -> Self {
        match (verdict, valid) {
            (Verdict::NotScored { .. }, _) => Self::NotScored,
            (Verdict::Valid, true) | (Verdict::Invalid { .. }, false) => Self::Agrees,
            (Verdict::Invalid { .. }, true) => Self::InvalidForValid,
            (Verdict::Valid, false) => Self::ValidForInvalid,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::NotScored => "not_scored",
            Self::InvalidForValid => "invalid_for_valid",
            Self::ValidForInvalid => "valid_for_invalid",
        }
    }
}

/// Place in the order of outcomes, best first; what nobody knows is worse than all.
fn badness(outcome: &str) -> usize {
    Standing::ALL
        .iter()
        .position(|known| known.name() == outcome)
        .unwrap_or(Standing::ALL.len())
}

/// What a verdict says, in one line.
fn said(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Valid => "valid".to_owned(),
        Verdict::Invalid {
            reason:
                Reason::Schema {
                    keyword,
                    instance_path,
                    ..
                },
        } => {
            format!(
                "breaks {keyword} at {}",
                if instance_path.is_empty() {
                    "the document"
                } else {
                    instance_path
                }
            )
        }
        Verdict::Invalid { reason } => reason.to_string(),
        Verdict::NotScored {
            why: NotScored::Limit { what },
        } => format!("limit: {what}"),
        Verdict::NotScored { why } => why.to_string(),
    }
}

/// Every test of `groups` with its standing and our words.
fn judged(groups: &[Group]) -> Vec<(&Group, [String; 4], Standing, String)> {
    let mut rows = Vec::new();
    for group in groups {
        let mut evaluator = Evaluator::new(EvaluateOptions {
            assert_formats: group.asserts_formats(),
        });
        let constraint = Constraint::JsonSchema(group.schema().into());
        for test in &group.tests {
            let verdict = evaluator.judge_text(&constraint, None, &test.data.to_string());
            let key = [
                group.draft.folder(),
                &group.file,
                &group.description,
                &test.description,
            ]
            .map(str::to_owned);
            rows.push((
                group,
                key,
                Standing::of(&verdict, test.valid),
                said(&verdict),
            ));
        }
    }
    rows
}

fn disagreements(judged: &[(&Group, [String; 4], Standing, String)]) -> Table {
    let otherwise = judged
        .iter()
        .filter(|(_, _, standing, _)| *standing != Standing::Agrees);
    otherwise
        .map(|(_, key, standing, says)| (key.to_vec(), Row::new(standing.name(), says)))
        .collect()
}

fn counts(judged: &[(&Group, [String; 4], Standing, String)]) -> String {
    let mut counts: BTreeMap<(&str, &str), [usize; 4]> = BTreeMap::new();
    for (group, _, standing, _) in judged {
        counts
            .entry((group.draft.folder(), group.part()))
            .or_default()[*standing as usize] += 1;
    }
    let mut text =
        "draft,part,tests,agrees,not_scored,invalid_for_valid,valid_for_invalid\n".to_owned();
    for ((draft, part), counts) in counts {
        let cells = counts.map(|count| count.to_string()).join(",");
        text += &format!("{draft},{part},{},{cells}\n", counts.iter().sum::<usize>());
    }
    text
}

#[test]
fn the_shipped_part_of_the_suite_is_judged_as_the_baseline_says() {
    let groups: Vec<Group> = Draft::ALL
        .iter()
        .flat_map(|draft| corpus::shipped(&in_package(SHIPPED), *draft))
        .collect();
    let judged = judged(&groups);
    for draft in Draft::ALL {
        let tests = judged
            .iter()
            .filter(|(group, ..)| group.draft == draft)
            .count();
        assert!(tests >= 60, "{tests} of {}", draft.folder());
    }
    let known = table::read(&in_package(BASELINE));
    let expected: Table = judged
        .iter()
        .filter_map(|(_, key, ..)| known.get_key_value(&key[..]))
        .map(|(key, row)| (key.clone(), row.clone()))
        .collect();
    table::hold(&disagreements(&judged), &expected, badness, BASELINE);
}

#[test]
#[ignore = "needs the whole suite: SOBENCH_JSON_SCHEMA_TEST_SUITE names its folder"]
fn the_whole_suite_is_judged_as_the_baseline_says() {
    let folder = PathBuf::from(
        std::env::var_os(FOLDER).unwrap_or_else(|| panic!("{FOLDER} names no folder")),
    );
    let groups: Vec<Group> = Draft::ALL
        .iter()
        .flat_map(|draft| corpus::of_suite(&folder, *draft))
        .collect();
    let judged = judged(&groups);
    assert!(judged.len() > 5_000, "{} tests", judged.len());
    let measured = table::keep(
        &in_package(BASELINE),
        "draft,file,group,test,outcome,says,right,why",
        disagreements(&judged),
    );
    if table::updating() {
        std::fs::write(in_package(COUNTS), counts(&judged)).unwrap();
    }
    table::hold(
        &measured,
        &table::read(&in_package(BASELINE)),
        badness,
        BASELINE,
    );
    assert_eq!(
        counts(&judged),
        std::fs::read_to_string(in_package(COUNTS)).unwrap(),
        "{COUNTS}"
    );
}

#[test]
fn calling_invalid_answers_valid_is_the_worst() {
    let ordered = [
        "agrees",
        "not_scored",
        "invalid_for_valid",
        "valid_for_invalid",
        "unheard of",
    ];
    assert!(
        ordered.is_sorted_by_key(|name| badness(name)),
        "{:?}",
        ordered.map(badness)
    );
    let not_scored = Verdict::NotScored {
        why: NotScored::Refused,
    };
    let invalid = Verdict::Invalid {
        reason: Reason::Empty,
    };
    for (verdict, valid, expected) in [
        (&Verdict::Valid, true, Standing::Agrees),
        (&Verdict::Valid, false, Standing::ValidForInvalid),
        (&invalid, true, Standing::InvalidForValid),
        (&invalid, false, Standing::Agrees),
        (&not_scored, true, Standing::NotScored),
        (&not_scored, false, Standing::NotScored),
    ] {
        assert_eq!(
            Standing::of(verdict, valid),
            expected,
            "{verdict:?} beside {valid}"
        );
    }
}
