//! The flags of thresholds that a run must meet.

use crate::commands::flags::values::Described;
use sobench_core::error::{Error, Result};
use sobench_results::compare::gate::Undecided;
use sobench_results::compare::rules::{ChangeRule, LimitRule};

/// The values of `--undecided`: the verdict on undecided rules.
pub(crate) const UNDECIDED: [Described<Undecided>; 2] = [
    Described(Undecided::Pass, "pass", ""),
    Described(Undecided::Fail, "fail", ""),
];

/// The rules of `--require`: thresholds of one side, and changes between two sides.
#[derive(Default)]
pub(crate) struct Requirements {
    pub(crate) limits: Vec<LimitRule>,
    pub(crate) changes: Vec<ChangeRule>,
}

/// Parses the rules of `--require`.
///
/// # Errors
/// One of them is invalid.
pub(crate) fn requirements(rules: &[String]) -> Result<Requirements> {
    let mut parsed = Requirements::default();
    for rule in rules {
        match ChangeRule::parse_lost(rule)? {
            Some(change) => parsed.changes.push(change),
            None => parsed.limits.push(LimitRule::parse(rule)?),
        }
    }
    Ok(parsed)
}

/// Parses the thresholds of `--require` for a single side.
///
/// # Errors
/// One of them is invalid, or needs two sides.
pub(crate) fn limits(rules: &[String]) -> Result<Vec<LimitRule>> {
    let parsed = requirements(rules)?;
    match parsed.changes.first() {
        None => Ok(parsed.limits),
        Some(rule) => Err(Error::usage(format!("--require {rule} needs two servers"))
            .hint("add --matrix-order paired with two servers, or use it in sobench compare")),
    }
}
