//! The flags of bounds that a run has to keep.

use crate::commands::flags::values::Described;
use sobench_core::error::Result;
use sobench_results::compare::gate::Undecided;
use sobench_results::compare::rules::Limit;

/// What a bound counts as where the samples are too few, as it is typed.
pub(crate) const UNDECIDED: [Described<Undecided>; 2] = [
    Described(Undecided::Pass, "pass", ""),
    Described(Undecided::Fail, "fail", ""),
];

/// The bounds of `--require`.
///
/// # Errors
/// One of them is none.
pub(crate) fn limits(rules: &[String]) -> Result<Vec<Limit>> {
    rules.iter().map(|rule| Limit::parse(rule)).collect()
}
