//! What came of checking witnesses again. Pure: standings in, text or JSON out.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::mask::prove::witness::{Standing, Witness};
use crate::printable::printable;

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
    pub fn of(standings: &[Option<Standing>]) -> Self {
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
pub fn text(witnesses: &[Witness], standings: &[Option<Standing>]) -> String {
    let mut page = String::new();
    for (number, (witness, standing)) in witnesses.iter().zip(standings).enumerate() {
        let (word, why) = said(standing.as_ref());
        let why = if why.is_empty() { witness.why.clone() } else { why };
        let _ = writeln!(
            page,
            "{:>4} {word:<11} {} {}: {}",
            number + 1,
            witness.engine.name(),
            witness.finding.proof.name(),
            printable(&why, MAX_CHARS)
        );
    }
    let tally = Tally::of(standings);
    let _ = write!(page, "\n{} witnesses: {} hold, {} gone, {} unknown", witnesses.len(), tally.holds, tally.gone, tally.unknown);
    let left = if tally.not_reached > 0 { format!(", {} not reached", tally.not_reached) } else { String::new() };
    page.push_str(&left);
    page.push('\n');
    page
}

/// The same for programs.
pub fn json(witnesses: &[Witness], standings: &[Option<Standing>]) -> Value {
    let lines = witnesses.iter().zip(standings).map(|(witness, standing)| {
        let (word, why) = said(standing.as_ref());
        json!({"engine": witness.engine, "proof": witness.finding.proof, "found_with": witness.found_with, "entry": witness.entry,
               "standing": word, "why": why})
    });
    let tally = Tally::of(standings);
    json!({"format": "sobench-replay", "format_version": 1, "holds": tally.holds, "gone": tally.gone, "unknown": tally.unknown,
           "not_reached": tally.not_reached, "witnesses": lines.collect::<Vec<_>>()})
}

fn said(standing: Option<&Standing>) -> (&'static str, String) {
    match standing {
        Some(Standing::Holds) => ("holds", String::new()),
        Some(Standing::Gone { why }) => ("gone", why.clone()),
        Some(Standing::Unknown { why }) => ("unknown", why.clone()),
        None => ("not reached", String::new()),
    }
}
