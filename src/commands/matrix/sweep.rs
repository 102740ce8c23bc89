//! The search of `--sweep` for the highest sustained request rate: next rate from the outcomes so
//! far.
//!
//! The rate doubles until a run falls short of the objectives, or halves until one meets them. The
//! interval between the two is then bisected.
//!
//! The search follows the observed figures. Some runs are undecided: they have too few requests to
//! show on which side of the capacity their rate is. The reported bracket has decided ends only, so
//! one more rate is tried beyond an end that is undecided. All rates that were certainly sustained
//! are therefore below all that were certainly not, even if a server does better at a higher rate.

pub(super) mod backlog;

use self::backlog::Backlog;
use sobench_report::contenders::Load;
use sobench_report::contenders::capacity::{Sweep, SweepEnd, SweepStep};
use sobench_statistics::Rate;

/// The largest number of runs of a search, including the run that measures where to start.
pub(super) const MAX_RUNS: usize = 8;

/// Requests in flight in the run that measures where to start.
pub(super) const START_CONCURRENCY: usize = 8;

/// The search ends if the bracket is at most this share of its lower end.
const RESOLUTION: f64 = 0.05;

/// The reason of a run that the user stopped.
const INTERRUPTED: &str = "interrupted";

/// Whether the rate of a run is sustained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    /// By the observed figures.
    pub(super) is_sustained: bool,
    /// Whether more requests could give the other result.
    pub(super) is_undecided: bool,
}

impl Decision {
    /// A rate is sustained if the share of good requests reaches `required_percent`, and the
    /// answers keep up with the requests. A run without a `backlog` is judged by the share alone.
    pub(super) fn new(share: Rate, required_percent: f64, backlog: Option<&Backlog>) -> Self {
        let is_behind = backlog.is_some_and(Backlog::is_behind);
        let is_unclear = backlog.is_some_and(Backlog::is_unclear);
        let is_missed = share.high_percent < required_percent || (is_behind && !is_unclear);
        let is_met = share.low_percent >= required_percent && !is_behind && !is_unclear;
        Self {
            is_sustained: share.percent >= required_percent && !is_behind,
            is_undecided: !is_missed && !is_met,
        }
    }
}

/// The search of one contender, dataset, arm and repeat.
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
                if let Some(beyond) = self.beyond_undecided(sustained, missed) {
                    return Some(Load::RequestRate(beyond));
                }
                let middle = rounded(f64::midpoint(sustained, missed));
                if self.is_narrow() || middle <= sustained || middle >= missed {
                    return None;
                }
                middle
            }
        };
        Some(Load::RequestRate(rate))
    }

    /// The rate beyond an end of the bracket that no decided run bounds.
    fn beyond_undecided(&self, sustained: f64, missed: f64) -> Option<f64> {
        let was_tried =
            |is_beyond: &dyn Fn(f64) -> bool| self.rate_steps().any(|(rate, _)| is_beyond(rate));
        let (low, high) = self.decided();
        if high.is_none() && !was_tried(&|rate| rate > missed) {
            return Some(2.0 * missed);
        }
        (low.is_none() && !was_tried(&|rate| rate < sustained)).then_some(sustained / 2.0)
    }

    /// The runs at a rate.
    fn rate_steps(&self) -> impl Iterator<Item = (f64, &SweepStep)> {
        self.steps.iter().filter_map(|step| match step.load {
            Load::RequestRate(rate) => Some((rate, step)),
            Load::AsGiven | Load::MaxConcurrency(_) => None,
        })
    }

    /// The highest rate that is certainly sustained, and the lowest that is certainly not.
    fn decided(&self) -> (Option<f64>, Option<f64>) {
        let rates = |is_sustained: bool| {
            self.rate_steps()
                .filter(move |(_, step)| step.is_sustained == is_sustained && !step.is_undecided)
                .map(|(rate, _)| rate)
        };
        (rates(true).reduce(f64::max), rates(false).reduce(f64::min))
    }

    fn is_narrow(&self) -> bool {
        let bracket = self.sustained.zip(self.missed);
        bracket.is_some_and(|(sustained, missed)| missed - sustained <= RESOLUTION * sustained)
    }

    /// Adds the outcome of the run with the load of [`Search::next`].
    pub(super) fn record(&mut self, step: SweepStep) {
        if let Load::RequestRate(rate) = step.load {
            // An undecided run may be contradicted by a run beyond it.
            if step.is_sustained {
                self.sustained = Some(self.sustained.map_or(rate, |known| known.max(rate)));
                self.missed = self.missed.filter(|missed| *missed > rate);
            } else {
                self.missed = Some(self.missed.map_or(rate, |known| known.min(rate)));
                self.sustained = self.sustained.filter(|sustained| *sustained < rate);
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
        let (low_rps, high_rps) = self.decided();
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
            low_rps,
            high_rps,
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
    use sobench_testkit::random::Random;

    fn step(load: Load, is_sustained: bool) -> SweepStep {
        SweepStep {
            load,
            requests: 100,
            is_sustained,
            achieved_rps: Some(17.0),
            ..SweepStep::default()
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
        for start in [0.001, 14.0, 3.3e6] {
            for outcomes in 0..1_u32 << (2 * MAX_RUNS) {
                let mut search = Search::new(Some(start));
                while let Some(load) = search.next() {
                    assert!(load.size() > 0.0 && load.size().is_finite());
                    let run = search.steps.len();
                    assert!(run < MAX_RUNS);
                    search.record(SweepStep {
                        is_undecided: outcomes >> (MAX_RUNS + run) & 1 == 1,
                        ..step(load, outcomes >> run & 1 == 1)
                    });
                }
                let found = search.into_sweep(0);
                let (sustained, missed) = (found.sustained_rps, found.missed_rps);
                assert!(sustained.or(missed).is_some());
                let is_below = |low: Option<f64>, high: Option<f64>| {
                    low.zip(high).is_none_or(|(low, high)| low < high)
                };
                assert!(is_below(sustained, missed) && is_below(found.low_rps, found.high_rps));
                assert!(
                    found.low_rps <= sustained
                        && missed.is_none_or(|missed| {
                            found.high_rps.is_none_or(|high| missed <= high)
                        }),
                    "decided ends are outside the observed ones: {found:?}"
                );
            }
        }
    }

    #[test]
    fn undecided_runs_do_not_narrow_the_bracket() {
        let searched = |is_undecided: fn(f64) -> bool| {
            let mut search = Search::new(Some(8.0));
            while let Some(load) = search.next() {
                search.record(SweepStep {
                    is_undecided: is_undecided(load.size()),
                    ..step(load, load.size() <= 11.0)
                });
            }
            search.into_sweep(0)
        };
        let ends = |sweep: &Sweep| {
            let observed = (sweep.sustained_rps, sweep.missed_rps);
            (observed, (sweep.low_rps, sweep.high_rps))
        };
        let found = searched(|rate| (10.0..20.0).contains(&rate));
        assert_eq!(rates(&found), [8.0, 16.0, 32.0, 12.0, 10.0, 11.0, 11.5]);
        assert_eq!(
            ends(&found),
            ((Some(11.0), Some(11.5)), (Some(8.0), Some(32.0)))
        );
        let never = searched(|_| true);
        assert_eq!(
            rates(&never)[..4],
            [8.0, 16.0, 32.0, 4.0],
            "one beyond each end"
        );
        assert_eq!(ends(&never).1, (None, None));
        // The measurement of the start has no rate.
        let mut started = Search::new(None);
        started.record(step(started.next().unwrap(), true));
        assert_eq!(started.into_sweep(0).low_rps, None);
    }

    /// Due and end times in ns of requests at Poisson times, by a server with this many slots and a
    /// fixed service time. Requests wait for the first free slot.
    fn simulated(
        slots: usize,
        service_s: f64,
        rate: f64,
        requests: usize,
        random: &mut Random,
    ) -> Vec<(u64, Option<u64>)> {
        let nanoseconds = |seconds: f64| (seconds * 1e9) as u64;
        let mut free_at = vec![0.0_f64; slots];
        let mut due = 0.0;
        (0..requests)
            .map(|_| {
                let uniform = (random.below(1 << 53) as f64 + 1.0) / (1_u64 << 53) as f64;
                due -= uniform.ln() / rate;
                let slot = free_at.iter_mut().min_by(|one, two| one.total_cmp(two));
                let slot = slot.unwrap();
                *slot = slot.max(due) + service_s;
                (nanoseconds(due), Some(nanoseconds(*slot)))
            })
            .collect()
    }

    /// The search with a simulated server, at an objective for the latency.
    fn simulated_sweep(slots: usize, service_s: f64, objective_s: f64, seed: u64) -> Sweep {
        const REQUIRED_PERCENT: f64 = 99.0;
        let mut random = Random(seed);
        let start = rounded(0.7 * slots as f64 / service_s);
        let mut search = Search::new(Some(start));
        while let Some(load) = search.next() {
            let requests = (30.0 * load.size()).max(400.0) as usize;
            let times = simulated(slots, service_s, load.size(), requests, &mut random);
            let is_good = |&&(due, end): &&(u64, Option<u64>)| {
                (end.unwrap() - due) as f64 <= 1e9 * objective_s
            };
            let share = Rate::new(times.iter().filter(is_good).count(), requests).unwrap();
            let backlog = Backlog::new(times);
            let decision = Decision::new(share, REQUIRED_PERCENT, backlog.as_ref());
            search.record(SweepStep {
                is_undecided: decision.is_undecided,
                ..step(load, decision.is_sustained)
            });
        }
        search.into_sweep(0)
    }

    #[test]
    fn a_sweep_finds_the_theoretical_capacity_of_a_simulated_server() {
        // Slots divided by the service time.
        for (slots, service_s, capacity) in [(8, 0.5, 16.0), (1, 0.02, 50.0), (64, 1.0, 64.0)] {
            let mut narrow = 0;
            for seed in 1..=20 {
                // All latencies of the runs are within the objective: only the backlog shows that
                // the rate is above the capacity.
                let found = simulated_sweep(slots, service_s, 3600.0, seed);
                let (low, high) = (found.low_rps.unwrap(), found.high_rps.unwrap());
                assert!(
                    low <= 1.1 * capacity && capacity <= high,
                    "{capacity} req/s, seed {seed}: {low} to {high}"
                );
                assert!(
                    low >= 0.7 * capacity && high <= 1.4 * capacity,
                    "{capacity} req/s, seed {seed}: {low} to {high}"
                );
                narrow += usize::from(high <= 1.25 * low);
            }
            assert!(narrow >= 15, "{narrow} of 20 brackets are narrow");
        }
    }

    #[test]
    fn a_strict_objective_lowers_the_capacity_of_a_simulated_server() {
        for seed in 1..=20 {
            // 16 req/s without an objective. Here a request may wait for 25 ms.
            let found = simulated_sweep(8, 0.5, 0.525, seed);
            let (low, high) = (found.low_rps.unwrap(), found.high_rps.unwrap());
            assert!(
                low >= 2.0 && high <= 12.0 && low < high,
                "seed {seed}: {low} to {high}"
            );
        }
    }

    #[test]
    fn an_undecided_run_may_be_contradicted() {
        let mut search = Search::new(Some(8.0));
        let mut record = |is_sustained, is_undecided| {
            let load = search.next().unwrap();
            search.record(SweepStep {
                is_undecided,
                ..step(load, is_sustained)
            });
            load.size()
        };
        assert_eq!(record(false, true), 8.0);
        assert_eq!(record(true, false), 4.0);
        assert_eq!(record(true, false), 16.0, "no decided run is above 4");
        assert_eq!(record(false, false), 32.0);
        assert_eq!(search.next(), Some(Load::RequestRate(24.0)));
    }

    #[test]
    fn the_interval_of_the_share_decides() {
        let share = |hits, of| Rate::new(hits, of).unwrap();
        let decide = |hits, of| Decision::new(share(hits, of), 99.0, None);
        let decision = |is_sustained, is_undecided| Decision {
            is_sustained,
            is_undecided,
        };
        assert_eq!(decide(100, 100), decision(true, true), "96.3 to 100 %");
        assert_eq!(decide(400, 400), decision(true, false), "99.05 to 100 %");
        assert_eq!(decide(394, 400), decision(false, true), "96.8 to 99.3 %");
        assert_eq!(decide(380, 400), decision(false, false), "92.4 to 96.7 %");
    }

    #[test]
    fn a_backlog_overrides_the_share() {
        // 10 requests per second, and 8 or 10 answers.
        let backlog = |requests: u64, service_ms: u64| {
            let times = |index: u64| {
                (
                    100_000_000 * index,
                    Some((index + 1) * service_ms * 1_000_000),
                )
            };
            Backlog::new((0..requests).map(times).collect())
        };
        let decide = |good: usize, backlog: Option<Backlog>| {
            let share = Rate::new(good, 400).unwrap();
            let found = Decision::new(share, 99.0, backlog.as_ref());
            (found.is_sustained, found.is_undecided)
        };
        assert_eq!(decide(400, backlog(400, 100)), (true, false));
        assert_eq!(decide(400, backlog(400, 125)), (false, false));
        assert_eq!(
            decide(400, backlog(40, 125)),
            (true, true),
            "too few requests to tell growth from chance"
        );
        assert_eq!(
            decide(300, backlog(40, 125)),
            (false, false),
            "the share is enough"
        );
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
