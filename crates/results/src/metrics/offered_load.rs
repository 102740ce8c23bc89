//! Offered load: the scheduled rate, and the rate at which requests were sent.

use serde::Serialize;

use sobench_facts::Sample;

const NS_PER_S: f64 = 1e9;

/// The scheduled and the achieved load. Rates are in requests per second, `None` if no time passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, schemars::JsonSchema, Serialize)]
pub struct OfferedLoad {
    /// Number of sent requests.
    pub sent: usize,
    /// Sent requests divided by the due time of the last of them; `None` if all were due at once.
    pub scheduled_rps: Option<f64>,
    /// Sent requests divided by the send time of the last of them, from the start.
    pub achieved_rps: Option<f64>,
    /// Deviation of the achieved from the scheduled rate in percent; negative if requests were sent
    /// late.
    pub deviation_percent: Option<f64>,
}

impl OfferedLoad {
    /// Computes the load from all requests, including failed ones.
    pub fn new(samples: &[Sample<'_>]) -> Self {
        let timings = || {
            samples
                .iter()
                .map(|sample| sample.request_times())
                .filter(|times| times.sent_ns.is_some())
        };
        let sent = timings().count();
        let over = |last_ns: Option<u64>| {
            last_ns
                .filter(|&ns| ns > 0)
                .map(|ns| sent as f64 / (ns as f64 / NS_PER_S))
        };
        let scheduled_rps = over(timings().map(|times| times.due_ns).max());
        let achieved_rps = over(timings().filter_map(|times| times.sent_ns).max());
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
    use sobench_core::observation::Outcome;
    use sobench_facts::testing::{TestRequest, test_request, with_samples};

    fn check(sent_at: &[(u64, Option<u64>)], expected: [Option<f64>; 3]) {
        let outcome = |sent: Option<u64>| {
            if sent.is_some() {
                Outcome::Completed
            } else {
                Outcome::Cancelled
            }
        };
        let run: Vec<_> = sent_at
            .iter()
            .map(|&(due, sent)| TestRequest {
                due,
                sent,
                outcome: outcome(sent),
                chunks: vec![],
                ..test_request()
            })
            .collect();
        let offered = with_samples(&run, OfferedLoad::new);
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
    fn rates_count_sent_requests() {
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
    fn simultaneous_requests_have_no_scheduled_rate() {
        check(&[(0, Some(0)), (0, Some(0))], [None; 3]);
        check(&[(0, Some(0)), (0, Some(500))], [None, Some(4.0), None]);
        check(&[(0, None)], [None; 3]);
    }
}
