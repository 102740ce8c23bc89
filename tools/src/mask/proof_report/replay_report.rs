//! The report of replayed witnesses.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::mask::prove::witness::{Witness, WitnessStatus};
use sobench_core::printable::printable;
use sobench_render::{Block, Document};

/// Maximum length of a reason on a line.
const MAX_CHARS: usize = 100;

/// Number of witnesses by status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub holds: usize,
    pub gone: usize,
    pub unknown: usize,
    pub not_reached: usize,
}

impl Tally {
    /// Counts the statuses.
    pub fn new(statuses: &[Option<WitnessStatus>]) -> Self {
        let mut tally = Self::default();
        for status in statuses {
            match status {
                Some(WitnessStatus::Holds) => tally.holds += 1,
                Some(WitnessStatus::Gone { .. }) => tally.gone += 1,
                Some(WitnessStatus::Unknown { .. }) => tally.unknown += 1,
                None => tally.not_reached += 1,
            }
        }
        tally
    }
}

/// One line per witness, and the totals.
pub fn document(witnesses: &[Witness], statuses: &[Option<WitnessStatus>]) -> Document {
    let mut lines = String::new();
    for (number, (witness, status)) in witnesses.iter().zip(statuses).enumerate() {
        let (word, why) = status_and_reason(status.as_ref());
        let why = if why.is_empty() {
            witness.why.as_str()
        } else {
            why
        };
        let (engine, proof) = (witness.engine.name(), witness.finding.proof.name());
        let _ = writeln!(
            lines,
            "{:>4} {word:<11} {engine} {proof}: {}",
            number + 1,
            printable(why, MAX_CHARS)
        );
    }
    let Tally {
        holds,
        gone,
        unknown,
        not_reached,
    } = Tally::new(statuses);
    let left = if not_reached > 0 {
        format!(", {not_reached} not reached")
    } else {
        String::new()
    };
    let mut document = Document::new("sobench-tools mask --replay");
    document.push(Block::Preformatted(lines));
    document.gap();
    document.paragraph(format!(
        "{} witnesses: {holds} hold, {gone} gone, {unknown} unknown{left}",
        witnesses.len()
    ));
    document
}

/// The report as JSON.
pub fn json(witnesses: &[Witness], statuses: &[Option<WitnessStatus>]) -> Value {
    let lines = witnesses.iter().zip(statuses).map(|(witness, status)| {
        let (word, why) = status_and_reason(status.as_ref());
        json!({"engine": witness.engine, "proof": witness.finding.proof, "found_with": witness.found_with, "entry": witness.entry,
               "standing": word, "why": why})
    });
    let tally = Tally::new(statuses);
    json!({"format": "sobench-replay", "format_version": 1, "holds": tally.holds, "gone": tally.gone, "unknown": tally.unknown,
           "not_reached": tally.not_reached, "witnesses": lines.collect::<Vec<_>>()})
}

fn status_and_reason(status: Option<&WitnessStatus>) -> (&'static str, &str) {
    match status {
        Some(WitnessStatus::Holds) => ("holds", ""),
        Some(WitnessStatus::Gone { why }) => ("gone", why),
        Some(WitnessStatus::Unknown { why }) => ("unknown", why),
        None => ("not reached", ""),
    }
}
