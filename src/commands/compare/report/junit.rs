//! The gate as a test suite for CI, in JUnit's XML: a test for each rule of each side.

use super::labels;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use sobench_core::printable::printable_message;
use sobench_results::compare::Comparison;
use sobench_results::compare::gate::Ruling;

/// A broken rule is a failure; an undecided one, and one that is not counted, is skipped.
pub fn render(comparison: &Comparison) -> String {
    let mut suite = TestSuite::new("sobench gate");
    for against in &comparison.against {
        let side = labels::side(against.other);
        let changes = against.changes.iter().map(|change| {
            (
                change.rule.to_string(),
                change.ruling,
                labels::broken_change(change),
            )
        });
        let limits = against
            .limits
            .iter()
            .map(|limit| (limit.rule.to_string(), limit.ruling, limit.to_string()));
        for (rule, ruling, message) in changes.chain(limits) {
            let mut status = match ruling {
                Ruling::Kept => TestCaseStatus::success(),
                Ruling::Broken | Ruling::Absent => {
                    TestCaseStatus::non_success(NonSuccessKind::Failure)
                }
                _ => TestCaseStatus::skipped(),
            };
            if ruling != Ruling::Kept {
                status.set_message(printable_message(&message));
            }
            let mut test = TestCase::new(rule, status);
            test.set_classname(side.clone());
            suite.add_test_case(test);
        }
    }
    let mut report = Report::new("sobench compare");
    report.add_test_suite(suite);
    report
        .to_string()
        .expect("writing into memory does not fail")
}
