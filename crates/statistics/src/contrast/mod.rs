//! The difference of two groups: one method for each design.
//!
//! | what | design | method |
//! |---|---|---|
//! | rates | the same cases on both sides | Newcombe's interval of paired shares, McNemar's test ([`RateContrast::paired`], [`PairedSample`](crate::paired::PairedSample)) |
//! | rates | different cases | Newcombe's interval of independent shares ([`RateContrast::unpaired`]) |
//! | times, throughput | at least [`MIN_RUNS`] runs a side | Student's interval of the logarithms of the runs' figures ([`RunRatio`]) |
//! | means | files without requests | standard errors (Welch), in `sobench_results::compare::measure` |
//! | times | requests of one run | percentile bootstrap of requests or pairs ([`Difference`]; of clusters: [`crate::bootstrap`]), never a claim about servers |
//!
//! Several sentences of a page are decided by [`holm`]. A gate makes two errors, each with its own
//! level. All its rules together are *broken* by chance with at most [`BROKEN_BY_CHANCE`], an equal
//! part for each rule that can be broken (Bonferroni). Each rule is *kept* although the change exceeds
//! its threshold with at most [`KEPT_BY_CHANCE`], uncorrected: a gate passes only if all rules are
//! kept, so that the error of all is at most that of one (intersection-union: Berger,
//! "Multiparameter hypothesis testing and acceptance sampling", Technometrics 24, 1982).

mod one_run;
mod rates;
mod runs;

pub use one_run::{Difference, MIN_VALUES, Method};
pub use rates::{Hits, RateContrast, Share, rate};
pub use runs::{MIN_RUNS, RunRatio};

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
