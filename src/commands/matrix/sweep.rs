//! The search of `--sweep` for the highest sustained request rate: next rate from the outcomes so
//! far.
//!
//! The rate doubles until a run falls short of the objectives, or halves until one meets them. The
//! interval between the two is then bisected. All rates that were sustained are therefore below all
//! that were not, even if a server does better at a higher rate.

use crate::commands::matrix::report::Load;
use crate::commands::matrix::report::capacity::{Sweep, SweepEnd, SweepStep};

/// The largest number of runs of a search, including the run that measures where to start.
pub(super) const MAX_RUNS: usize = 8;

/// Requests in flight in the run that measures where to start.
pub(super) const START_CONCURRENCY: usize = 8;

/// The search ends if the bracket is at most this share of its lower end.
const RESOLUTION: f64 = 0.05;

/// The reason of a run that the user stopped.
const INTERRUPTED: &str = "interrupted";

/// The search of one contender, dataset, treatment and repeat.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Search {
    /// The first rate; `None` until it is measured.
    start: Option<f64>,
    sustained: Option<f64>,
    missed: Option<f64>,
    failure: Option<String>,
    steps: Vec<SweepStep>,
}

impl Search {
    /// Without a first rate, the first run measures it.
    pub(super) fn new(start: Option<f64>) -> Self {
        Self {
            start,
            sustained: None,
            missed: None,
            failure: None,
            steps: Vec::new(),
        }
    }

    /// The load of the next run; `None` if the search has ended, or needs [`Search::start_at`].
    pub(super) fn next(&self) -> Option<Load> {
        if self.failure.is_some() || self.steps.len() >= MAX_RUNS {
            return None;
        }
        let Some(start) = self.start else {
            return self
                .steps
                .is_empty()
                .then_some(Load::MaxConcurrency(START_CONCURRENCY));
        };
        let rate = match (self.sustained, self.missed) {
            (None, None) => start,
            (Some(sustained), None) => 2.0 * sustained,
            (None, Some(missed)) => missed / 2.0,
            (Some(sustained), Some(missed)) => {
                let middle = rounded(f64::midpoint(sustained, missed));
                if self.is_narrow() || middle <= sustained || middle >= missed {
                    return None;
                }
                middle
            }
        };
        Some(Load::RequestRate(rate))
    }

    fn is_narrow(&self) -> bool {
        let bracket = self.sustained.zip(self.missed);
        bracket.is_some_and(|(sustained, missed)| missed - sustained <= RESOLUTION * sustained)
    }

    /// Adds the outcome of the run with the load of [`Search::next`].
    pub(super) fn record(&mut self, step: SweepStep) {
        if let Load::RequestRate(rate) = step.load {
            if step.is_sustained {
                self.sustained = Some(rate);
            } else {
                self.missed = Some(rate);
            }
        }
        self.steps.push(step);
    }

    /// Ends the search, because its run failed.
    pub(super) fn fail(&mut self, reason: String) {
        self.failure = Some(reason);
    }

    /// Answers per second of the run that measures where to start.
    pub(super) fn measured_start(&self) -> Option<f64> {
        match self.steps.first()? {
            SweepStep {
                load: Load::MaxConcurrency(_),
                achieved_rps,
                ..
            } => achieved_rps.filter(|rate| *rate > 0.0),
            _ => None,
        }
    }

    /// Sets the first rate after it was measured.
    pub(super) fn start_at(&mut self, rate: f64) {
        self.start.get_or_insert(rounded(rate));
    }

    /// The result. A search that could go on was stopped by the user.
    pub(super) fn into_sweep(self, repeat: usize) -> Sweep {
        let is_complete = self.start.is_some() && self.next().is_none();
        let end = match self.failure {
            Some(reason) if reason != INTERRUPTED => SweepEnd::Failed { reason },
            None if is_complete && !self.is_narrow() && self.steps.len() >= MAX_RUNS => {
                SweepEnd::RunLimit
            }
            None if is_complete => SweepEnd::Narrow,
            Some(_) | None => SweepEnd::Stopped,
        };
        Sweep {
            repeat: repeat + 1,
            sustained_rps: self.sustained,
            missed_rps: self.missed,
            end,
            steps: self.steps,
        }
    }
}

/// A rate with three significant digits, for readable names.
fn rounded(rate: f64) -> f64 {
    let unit = 10_f64.powi(2 - rate.log10().floor() as i32);
    let rounded = (rate * unit).round() / unit;
    if rounded > 0.0 && rounded.is_finite() {
        rounded
    } else {
        rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(load: Load, is_sustained: bool) -> SweepStep {
        SweepStep {
            load,
            requests: 100,
            share: None,
            is_sustained,
            achieved_rps: Some(17.0),
            output_tokens_per_s: None,
            is_distrusted: false,
        }
    }

    fn searched(start: f64, is_sustained: impl Fn(f64) -> bool) -> Sweep {
        let mut search = Search::new(Some(start));
        while let Some(load) = search.next() {
            search.record(step(load, is_sustained(load.size())));
        }
        search.into_sweep(0)
    }

    fn rates(sweep: &Sweep) -> Vec<f64> {
        sweep.steps.iter().map(|step| step.load.size()).collect()
    }

    #[test]
    fn rates_double_and_then_bisect() {
        let found = searched(4.0, |rate| rate <= 21.0);
        assert_eq!(
            rates(&found),
            [4.0, 8.0, 16.0, 32.0, 24.0, 20.0, 22.0, 21.0]
        );
        assert_eq!(
            (found.sustained_rps, found.missed_rps, found.end),
            (Some(21.0), Some(22.0), SweepEnd::Narrow)
        );
    }

    #[test]
    fn rates_halve_if_the_first_falls_short() {
        let found = searched(32.0, |rate| rate <= 9.0);
        assert_eq!(rates(&found)[..4], [32.0, 16.0, 8.0, 12.0]);
        assert_eq!(
            (found.sustained_rps, found.missed_rps, found.end),
            (Some(9.0), Some(9.25), SweepEnd::Narrow)
        );
    }

    #[test]
    fn a_search_ends_whether_all_or_no_rates_are_sustained() {
        let always = searched(1.0, |_| true);
        assert_eq!(
            (always.sustained_rps, always.missed_rps, always.end),
            (Some(128.0), None, SweepEnd::RunLimit)
        );
        let never = searched(1.0, |_| false);
        assert_eq!(
            (never.sustained_rps, never.missed_rps, never.steps.len()),
            (None, Some(1.0 / 128.0), MAX_RUNS)
        );
    }

    #[test]
    fn a_search_ends_with_a_bracket_for_any_outcomes() {
        for start in [0.001, 0.37, 1.0, 14.0, 9999.0, 3.3e6] {
            for outcomes in 0..1_u32 << MAX_RUNS {
                let mut search = Search::new(Some(start));
                while let Some(load) = search.next() {
                    assert!(load.size() > 0.0 && load.size().is_finite());
                    let run = search.steps.len();
                    assert!(run < MAX_RUNS);
                    search.record(step(load, outcomes >> run & 1 == 1));
                }
                let found = search.into_sweep(0);
                let (high, low) = (found.missed_rps, found.sustained_rps);
                assert!(low.or(high).is_some());
                assert!(found.steps.iter().all(|step| if step.is_sustained {
                    high.is_none_or(|high| step.load.size() < high)
                } else {
                    low.is_none_or(|low| step.load.size() > low)
                }));
            }
        }
    }

    #[test]
    fn the_first_run_measures_where_to_start() {
        let mut search = Search::new(None);
        let load = search.next().unwrap();
        assert_eq!(load, Load::MaxConcurrency(START_CONCURRENCY));
        search.record(step(load, true));
        assert_eq!((search.next(), search.measured_start()), (None, Some(17.0)));
        search.start_at(16.666);
        assert_eq!(search.next(), Some(Load::RequestRate(16.7)));
        let mut runs = 1;
        while let Some(load) = search.next() {
            search.record(step(load, true));
            runs += 1;
        }
        assert_eq!(runs, MAX_RUNS, "the measurement is one of the runs");
    }

    #[test]
    fn a_failed_run_ends_the_search_with_the_bracket_so_far() {
        let mut search = Search::new(Some(2.0));
        search.record(step(Load::RequestRate(2.0), true));
        assert_eq!(search.clone().into_sweep(0).end, SweepEnd::Stopped);
        let mut interrupted = search.clone();
        interrupted.fail("interrupted".to_owned());
        assert_eq!(interrupted.into_sweep(0).end, SweepEnd::Stopped);
        search.fail("gone".to_owned());
        assert_eq!(search.next(), None);
        let found = search.into_sweep(1);
        let reason = "gone".to_owned();
        assert_eq!(
            (
                found.repeat,
                found.sustained_rps,
                found.missed_rps,
                found.end
            ),
            (2, Some(2.0), None, SweepEnd::Failed { reason })
        );
    }
}
