//! The flags of thresholds that a run must meet.

use crate::commands::flags::values::Described;
use sobench_core::error::Result;
use sobench_results::compare::gate::Undecided;
use sobench_results::compare::rules::LimitRule;

/// The values of `--undecided`: the verdict on undecided rules.
pub(crate) const UNDECIDED: [Described<Undecided>; 2] = [
    Described(Undecided::Pass, "pass", ""),
    Described(Undecided::Fail, "fail", ""),
];

/// Parses the thresholds of `--require`.
///
/// # Errors
/// One of them is invalid.
pub(crate) fn limits(rules: &[String]) -> Result<Vec<LimitRule>> {
    rules.iter().map(|rule| LimitRule::parse(rule)).collect()
}
