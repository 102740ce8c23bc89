//! Compares the JSON Schema verdicts with the JSON-Schema-Test-Suite. Each different verdict is a
//! line of a baseline, which states which side is correct. A part of the suite is shipped and
//! always tested; the whole suite is tested if an environment variable names its folder.

pub(crate) mod corpus;
pub(crate) mod second;
mod table;

use std::collections::BTreeMap;
use std::path::PathBuf;

use sobench_core::constraint::Constraint;
use sobench_core::verdict::{NotScored, Reason, Verdict};
use sobench_judge::{Evaluator, JudgeSettings, judge_text};
use sobench_testkit::repository_path;

use corpus::{Draft, Group};
use table::{Row, Table};

/// Variable with the folder of the whole suite.
const FOLDER: &str = "SOBENCH_JSON_SCHEMA_TEST_SUITE";

/// Tests with a different verdict: draft, file, group, test, outcome, verdict, correct side,
/// reason.
const BASELINE: &str = "fixtures/baselines/json-schema-suite.csv";

/// Number of tests by draft, part and outcome.
const COUNTS: &str = "fixtures/baselines/json-schema-suite-counts.csv";

/// Shipped part of the suite, one file per draft.
const SHIPPED: &str = "fixtures/json-schema-test-suite";

/// Comparison of a verdict with the suite, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Agreement {
    Agrees,
    NotScored,
    InvalidForValid,
    ValidForInvalid,
}

impl Agreement {
    const ALL: [Self; 4] = [
        Self::Agrees,
        Self::NotScored,
        Self::InvalidForValid,
        Self::ValidForInvalid,
    ];

    fn compare(verdict: &Verdict, valid: bool) -> Self {
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

/// Rank of an outcome, best first. Unknown outcomes are last.
fn severity(outcome: &str) -> usize {
    Agreement::ALL
        .iter()
        .position(|known| known.name() == outcome)
        .unwrap_or(Agreement::ALL.len())
}

/// A verdict in one line.
fn verdict_text(verdict: &Verdict) -> String {
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

/// All tests of `groups` with their agreement and verdict.
fn judged(groups: &[Group]) -> Vec<(&Group, [String; 4], Agreement, String)> {
    let mut rows = Vec::new();
    for group in groups {
        let mut evaluator = Evaluator::new(JudgeSettings {
            assert_formats: group.asserts_formats(),
        });
        let constraint = evaluator.compile(&Constraint::JsonSchema(group.schema().into()));
        for test in &group.tests {
            let verdict = judge_text(&constraint, &test.data.to_string());
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
                Agreement::compare(&verdict, test.valid),
                verdict_text(&verdict),
            ));
        }
    }
    rows
}

fn disagreements(judged: &[(&Group, [String; 4], Agreement, String)]) -> Table {
    let different = judged
        .iter()
        .filter(|(_, _, agreement, _)| *agreement != Agreement::Agrees);
    different
        .map(|(_, key, agreement, says)| (key.to_vec(), Row::new(agreement.name(), says)))
        .collect()
}

fn counts(judged: &[(&Group, [String; 4], Agreement, String)]) -> String {
    let mut counts: BTreeMap<(&str, &str), [usize; 4]> = BTreeMap::new();
    for (group, _, agreement, _) in judged {
        counts
            .entry((group.draft.folder(), group.part()))
            .or_default()[*agreement as usize] += 1;
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
fn the_shipped_suite_matches_the_baseline() {
    let groups: Vec<Group> = Draft::ALL
        .iter()
        .flat_map(|draft| corpus::shipped(&repository_path(SHIPPED), *draft))
        .collect();
    let judged = judged(&groups);
    for draft in Draft::ALL {
        let tests = judged
            .iter()
            .filter(|(group, ..)| group.draft == draft)
            .count();
        assert!(tests >= 60, "{tests} of {}", draft.folder());
    }
    let known = table::read(&repository_path(BASELINE));
    let expected: Table = judged
        .iter()
        .filter_map(|(_, key, ..)| known.get_key_value(&key[..]))
        .map(|(key, row)| (key.clone(), row.clone()))
        .collect();
    table::assert_matches(&disagreements(&judged), &expected, severity, BASELINE);
}

#[test]
#[ignore = "needs the whole suite in the folder SOBENCH_JSON_SCHEMA_TEST_SUITE"]
fn the_whole_suite_matches_the_baseline() {
    let folder =
        PathBuf::from(std::env::var_os(FOLDER).unwrap_or_else(|| panic!("{FOLDER} is not set")));
    let groups: Vec<Group> = Draft::ALL
        .iter()
        .flat_map(|draft| corpus::whole_suite(&folder, *draft))
        .collect();
    let judged = judged(&groups);
    assert!(judged.len() > 5_000, "{} tests", judged.len());
    let measured = table::update(
        &repository_path(BASELINE),
        "draft,file,group,test,outcome,says,right,why",
        disagreements(&judged),
    );
    if table::is_update() {
        std::fs::write(repository_path(COUNTS), counts(&judged)).unwrap();
    }
    table::assert_matches(
        &measured,
        &table::read(&repository_path(BASELINE)),
        severity,
        BASELINE,
    );
    assert_eq!(
        counts(&judged),
        std::fs::read_to_string(repository_path(COUNTS)).unwrap(),
        "{COUNTS}"
    );
}

#[test]
fn valid_for_invalid_is_the_worst_outcome() {
    let ordered = [
        "agrees",
        "not_scored",
        "invalid_for_valid",
        "valid_for_invalid",
        "unknown",
    ];
    assert!(
        ordered.is_sorted_by_key(|name| severity(name)),
        "{:?}",
        ordered.map(severity)
    );
    let not_scored = Verdict::NotScored {
        why: NotScored::Refused,
    };
    let invalid = Verdict::Invalid {
        reason: Reason::Empty,
    };
    for (verdict, valid, expected) in [
        (&Verdict::Valid, true, Agreement::Agrees),
        (&Verdict::Valid, false, Agreement::ValidForInvalid),
        (&invalid, true, Agreement::InvalidForValid),
        (&invalid, false, Agreement::Agrees),
        (&not_scored, true, Agreement::NotScored),
        (&not_scored, false, Agreement::NotScored),
    ] {
        assert_eq!(
            Agreement::compare(verdict, valid),
            expected,
            "{verdict:?}, expected valid: {valid}"
        );
    }
}
