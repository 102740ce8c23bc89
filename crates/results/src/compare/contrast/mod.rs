//! The difference of two sides in one figure. Rates so far; times and throughput are still measured
//! in `measure`.
//!
//! A gate makes two errors, each with its own level. All its rules together are *broken* by chance
//! with at most [`BROKEN_BY_CHANCE`], an equal part for each rule that can be broken (Bonferroni).
//! Each rule is *kept* although the change exceeds its threshold with at most [`KEPT_BY_CHANCE`],
//! uncorrected: a gate passes only if all rules are kept, so that the error of all is at most that
//! of one (intersection-union: Berger, "Multiparameter hypothesis testing and acceptance sampling",
//! Technometrics 24, 1982).

mod rates;

pub use rates::{Contrast, Hits, Unseen, rate};

use super::bootstrap::SideId;
use super::pairing::Pairing;
use super::side::Side;
use crate::metrics::registry::Figure;

/// Maximum share of gates that fail by chance if nothing changed.
pub const BROKEN_BY_CHANCE: f64 = 0.01;

/// Maximum share of rules that are kept by chance if the change is at their threshold.
pub const KEPT_BY_CHANCE: f64 = 0.05;

/// Minimum number of requests, and of pairs, for an interval of a difference of rates.
pub const MIN_JUDGED: usize = 10;

/// The level of a two-sided interval whose ends decide whether a rule is kept.
pub const KEPT_LEVEL: f64 = 1.0 - 2.0 * KEPT_BY_CHANCE;

/// The level of a two-sided interval whose ends decide whether one of this many rules is broken.
pub fn broken_level(rules: usize) -> f64 {
    1.0 - 2.0 * BROKEN_BY_CHANCE / rules.max(1) as f64
}

/// Which of several tests hold, so that the chance that any of them holds by chance is `error`, and
/// the level at which the last of them is decided: intervals of this level exclude 0 for those tests
/// and no other. `holds` says whether a test holds at a level, and at every lower one (Holm, "A simple
/// sequentially rejective multiple test procedure", 1979).
pub fn holm<T>(tests: &[T], error: f64, holds: impl Fn(&T, f64) -> bool) -> (Vec<bool>, f64) {
    let mut held = vec![false; tests.len()];
    loop {
        let open = held.iter().filter(|held| !**held).count();
        let level = 1.0 - error / open.max(1) as f64;
        let mut found = tests.iter().zip(&held);
        match found.position(|(test, held)| !held && holds(test, level)) {
            Some(index) => held[index] = true,
            None => return (held, level),
        }
    }
}

/// The difference of a rate over the requests of both sides; `None` if a side has none that counts.
/// The unit is the case, if the requests are not paired the place in the run.
pub fn contrast(rate: Figure, a: &Side, b: &Side, pairing: &Pairing) -> Option<Contrast> {
    let hits = |side: &Side, which: SideId| {
        let mut hits = Hits::default();
        let mut cases = pairing.case_numbers(which).iter();
        for requests in side.run_requests()? {
            let run = requests.in_rate(rate).enumerate().map(|(place, hit)| {
                let case = cases.next().map_or(place, |case| *case as usize);
                hit.map(|hit| (case, hit))
            });
            hits.add_run(run.flatten());
        }
        Some(hits)
    };
    let (a, b) = (hits(a, SideId::A)?, hits(b, SideId::B)?);
    let paired = (*pairing != Pairing::None)
        .then(|| Contrast::paired(&a, &b, |case| case as u64))
        .flatten();
    paired
        .filter(|paired| {
            paired
                .pairs()
                .is_some_and(|pairs| pairs.clusters >= MIN_JUDGED)
        })
        .or_else(|| Contrast::unpaired(&a, &b))
}
