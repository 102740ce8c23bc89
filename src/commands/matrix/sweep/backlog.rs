//! Whether the answers of an open-loop run keep up with its requests.
//!
//! Below its capacity, a server has about the same number of unfinished requests at all times (the
//! arrival rate times the mean latency: Little, "A Proof for the Queuing Formula L = λW", 1961).
//! Above it the number grows until the last request is due, even if the first requests meet every
//! objective. The number at the end of the schedule is therefore compared with the number soon
//! after its start. The last answers end after the schedule and do not matter.

use sobench_statistics::percentile;

/// Growth up to this share of the requests is no growth.
const TOLERANCE: f64 = 0.05;

/// Growth within this many standard deviations is chance.
const DEVIATIONS: f64 = 3.0;

/// The earliest and latest first count, as shares of the schedule. Between the two it is after this
/// number of latencies, when most of the first requests have ended.
const FIRST_COUNT: [f64; 2] = [0.2, 0.5];
const LATENCIES: f64 = 3.0;

/// Unfinished requests at two times of the schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Backlog {
    at_start: usize,
    at_end: usize,
    /// Requests that were due between the two.
    due: usize,
    /// Whether the first count is before the number of requests in flight was steady.
    is_short: bool,
}

impl Backlog {
    /// From the times in ns when each request was due and ended; `None` for an end that was not
    /// seen. Returns `None` if all requests were due at once.
    pub(crate) fn new(mut requests: Vec<(u64, Option<u64>)>) -> Option<Self> {
        requests.sort_unstable();
        let (first, last) = (requests.first()?.0, requests.last()?.0);
        let span = (last - first) as f64;
        if span == 0.0 {
            return None;
        }
        let due = |until: u64| requests.partition_point(|(due, _)| *due <= until);
        let unfinished = |at: u64| {
            let of_due = requests[..due(at)].iter();
            of_due
                .filter(|(_, end)| end.is_none_or(|end| end > at))
                .count()
        };
        let [earliest, latest] = FIRST_COUNT.map(|share| share * span);
        let mut latencies: Vec<f64> = requests[..due(first + earliest as u64)]
            .iter()
            .map(|(due, end): &(u64, Option<u64>)| {
                end.map_or(f64::INFINITY, |end| end.saturating_sub(*due) as f64)
            })
            .collect();
        latencies.sort_by(f64::total_cmp);
        let steady_after = LATENCIES * percentile(&latencies, 50.0)?;
        let start = first + steady_after.clamp(earliest, latest) as u64;
        Some(Self {
            at_start: unfinished(start),
            at_end: unfinished(last),
            due: requests.len() - due(start),
            is_short: steady_after > latest,
        })
    }

    /// The growth, as a share of the requests; negative if the number fell.
    pub(crate) fn growth(&self) -> f64 {
        (self.at_end as f64 - self.at_start as f64) / self.due as f64
    }

    /// Whether the answers fall behind: the growth is neither small nor chance. Both numbers are
    /// taken as Poisson variables, as below the capacity.
    pub(crate) fn is_behind(&self) -> bool {
        let deviation = ((self.at_start + self.at_end) as f64).sqrt();
        self.growth() > TOLERANCE && self.growth() * self.due as f64 > DEVIATIONS * deviation
    }

    /// Whether the run is too short to distinguish growth from chance or from its start.
    pub(crate) fn is_unclear(&self) -> bool {
        self.growth() > TOLERANCE && (self.is_short || !self.is_behind())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests with a due time every 100 ms, and these latencies in ms by request.
    fn backlog(requests: u64, latency_ms: impl Fn(u64) -> u64) -> Backlog {
        let times = |index: u64| {
            let due = 100 * index;
            (due * 1_000_000, Some((due + latency_ms(index)) * 1_000_000))
        };
        Backlog::new((0..requests).map(times).collect()).unwrap()
    }

    /// Latencies of a queue whose server needs this many ms for each request.
    fn queue(service_ms: u64) -> impl Fn(u64) -> u64 {
        move |index| (index + 1) * service_ms - index * 100
    }

    #[test]
    fn constant_latencies_are_no_backlog() {
        // 40 requests in flight, and 4 s of answers after the last request.
        let found = backlog(400, |_| 4_000);
        assert_eq!((found.growth(), found.is_behind()), (0.0, false));
        assert!(!found.is_unclear());
        // Long and short answers in turn.
        let mixed = backlog(400, |index| 500 + 1_500 * (index % 5));
        assert!(mixed.growth().abs() < 0.02 && !mixed.is_unclear());
    }

    #[test]
    fn a_queue_that_grows_is_a_backlog() {
        // 10 requests and 8 answers per second.
        let behind = backlog(400, queue(125));
        assert!((behind.growth() - 0.2).abs() < 0.01, "{behind:?}");
        assert!(behind.is_behind() && !behind.is_unclear());
        // 10 requests and 9.7 answers per second: within the tolerance.
        let close = backlog(400, queue(103));
        assert!(!close.is_behind() && !close.is_unclear());
    }

    #[test]
    fn few_requests_leave_a_backlog_unclear() {
        let few = backlog(40, queue(125));
        assert!(few.growth() > 0.15);
        assert!(!few.is_behind() && few.is_unclear());
    }

    #[test]
    fn a_schedule_of_a_few_latencies_is_unclear() {
        // The number in flight rises until the first answers end.
        let rising = backlog(400, |_| 30_000);
        assert!(rising.growth() > TOLERANCE && rising.is_unclear());
        let unfinished = Backlog::new((0..9).map(|due| (due, None)).collect()).unwrap();
        assert!(unfinished.is_unclear());
    }

    #[test]
    fn simultaneous_requests_have_no_backlog() {
        assert_eq!(Backlog::new(vec![]), None);
        assert_eq!(Backlog::new(vec![(5, Some(9)), (5, Some(10))]), None);
        assert!(Backlog::new(vec![(5, Some(9)), (6, Some(10))]).is_some());
    }
}
