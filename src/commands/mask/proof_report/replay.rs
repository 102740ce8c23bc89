//! The report of witnesses that were checked again. Pure.

use std::fmt::Write as _;

use serde_json::{Value, json};

use sobench_core::printable::printable;
use sobench_mask::prove::witness::{Standing, Witness};
use sobench_render::{Block, Document};

/// Characters of a line's part that came from outside.
const MAX_CHARS: usize = 100;

/// How many hold, are gone, cannot be told, and were not reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub holds: usize,
    pub gone: usize,
    pub unknown: usize,
    pub not_reached: usize,
}

impl Tally {
    /// Counts.
    pub fn new(standings: &[Option<Standing>]) -> Self {
        let mut tally = Self::default();
        for standing in standings {
            match standing {
                Some(Standing::Holds) => tally.holds += 1,
                Some(Standing::Gone { .. }) => tally.gone += 1,
                Some(Standing::Unknown { .. }) => tally.unknown += 1,
                None => tally.not_reached += 1,
            }
        }
        tally
    }
}

/// A line for each witness, and the sum.
pub fn document(witnesses: &[Witness], standings: &[Option<Standing>]) -> Document {
    let mut lines = String::new();
    for (number, (witness, standing)) in witnesses.iter().zip(standings).enumerate() {
        let (word, why) = word_and_reason(standing.as_ref());
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
    } = Tally::new(standings);
    let left = if not_reached > 0 {
        format!(", {not_reached} not reached")
    } else {
        String::new()
    };
    let mut document = Document::new("sobench mask --replay");
    document.push(Block::Preformatted(lines));
    document.gap();
    document.paragraph(format!(
        "{} witnesses: {holds} hold, {gone} gone, {unknown} unknown{left}",
        witnesses.len()
    ));
    document
}

/// The same for programs.
pub fn json(witnesses: &[Witness], standings: &[Option<Standing>]) -> Value {
    let lines = witnesses.iter().zip(standings).map(|(witness, standing)| {
        let (word, why) = word_and_reason(standing.as_ref());
        json!({"engine": witness.engine, "proof": witness.finding.proof, "found_with": witness.found_with, "entry": witness.entry,
               "standing": word, "why": why})
    });
    let tally = Tally::new(standings);
    json!({"format": "sobench-replay", "format_version": 1, "holds": tally.holds, "gone": tally.gone, "unknown": tally.unknown,
           "not_reached": tally.not_reached, "witnesses": lines.collect::<Vec<_>>()})
}

fn word_and_reason(standing: Option<&Standing>) -> (&'static str, &str) {
    match standing {
        Some(Standing::Holds) => ("holds", ""),
        Some(Standing::Gone { why }) => ("gone", why),
        Some(Standing::Unknown { why }) => ("unknown", why),
        None => ("not reached", ""),
    }
}
