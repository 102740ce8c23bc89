//! What was asked for and what really left: the rate that the schedule wanted, and the rate at
//! which requests were sent. Knows no answer.

use serde::Serialize;

use super::Sample;

const NS_PER_S: f64 = 1e9;

/// The load as it was asked for, as it was scheduled, and as it was offered. Rates are in requests
/// per second, `None` where no time went by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Offered {
    /// Requests that were sent.
    pub sent: usize,
    /// Those requests over the due time of the last of them: the rate asked for, as far as the
    /// schedule came. `None` where all were due at once.
    pub scheduled_rps: Option<f64>,
    /// Those requests over the time at which the last of them was sent, both from the begin.
    pub achieved_rps: Option<f64>,
    /// How far the achieved rate is off the scheduled one, in percent of it: below zero where
    /// requests left late.
    pub deviation_percent: Option<f64>,
}

impl Offered {
    /// Looks at every request, whatever became of it.
    pub fn of(samples: &[Sample<'_>]) -> Self {
        let timings = || {
            samples
                .iter()
                .map(|it| it.moments())
                .filter(|it| it.sent_ns.is_some())
        };
        let sent = timings().count();
        let over = |last_ns: Option<u64>| {
            last_ns
                .filter(|&ns| ns > 0)
                .map(|ns| sent as f64 / (ns as f64 / NS_PER_S))
        };
        let scheduled_rps = over(timings().map(|it| it.due_ns).max());
        let achieved_rps = over(timings().filter_map(|it| it.sent_ns).max());
        let off = |(achieved, scheduled): (f64, f64)| 100.0 * (achieved / scheduled - 1.0);
        Self {
            sent,
            scheduled_rps,
            achieved_rps,
            deviation_percent: achieved_rps.zip(scheduled_rps).map(off),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::testing::{Made, made, with_samples};
    use sobench_core::observation::Outcome;

    fn check(sent_at: &[(u64, Option<u64>)], expected: [Option<f64>; 3]) {
        let fate = |sent: Option<u64>| {
            if sent.is_some() {
                Outcome::Completed
            } else {
                Outcome::Cancelled
            }
        };
        let run: Vec<_> = sent_at
            .iter()
            .map(|&(due, sent)| Made {
                due,
                sent,
                outcome: fate(sent),
                chunks: vec![],
                ..made()
            })
            .collect();
        let offered = with_samples(&run, Offered::of);
        assert_eq!(
            [
                offered.scheduled_rps,
                offered.achieved_rps,
                offered.deviation_percent
            ],
            expected,
            "{sent_at:?}"
        );
        assert_eq!(
            offered.sent,
            sent_at.iter().filter(|(_, sent)| sent.is_some()).count()
        );
    }

    #[test]
    fn rates_are_over_what_was_sent() {
        check(&[], [None; 3]);
        check(
            &[(500, Some(500)), (1000, Some(1000))],
            [Some(2.0), Some(2.0), Some(0.0)],
        );
        check(
            &[(500, Some(500)), (1000, Some(1250))],
            [Some(2.0), Some(1.6), Some(-19.999_999_999_999_996)],
        );
        check(
            &[(500, Some(500)), (9000, None)],
            [Some(2.0), Some(2.0), Some(0.0)],
        );
    }

    #[test]
    fn all_at_once_has_no_scheduled_rate() {
        check(&[(0, Some(0)), (0, Some(0))], [None; 3]);
        check(&[(0, Some(0)), (0, Some(500))], [None, Some(4.0), None]);
        check(&[(0, None)], [None; 3]);
    }
}
