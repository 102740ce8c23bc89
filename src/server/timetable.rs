//! When tokens are due. The only clock of the embedded server; knows nothing of what is sent.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::{Instant, sleep_until, timeout};

/// Longest wait for a token that can be imitated: times of a whole answer must fit into a clock.
const LONGEST_STEP: Duration = Duration::from_secs(600);

/// The timing that an embedded server imitates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Timetable {
    ttft: Duration,
    itl: Duration,
}

impl Timetable {
    /// Milliseconds from a request's arrival to its first token at the earliest, and from each token to the next; zero means
    /// as fast as possible. `None` for what is no duration, or longer than ten minutes.
    pub(super) fn new(ttft_ms: f64, itl_ms: f64) -> Option<Self> {
        let duration = |ms: f64| Duration::try_from_secs_f64(ms / 1e3).ok().filter(|step| *step <= LONGEST_STEP);
        Some(Self { ttft: duration(ttft_ms)?, itl: duration(itl_ms)? })
    }

    /// Begins the clock of a request that has arrived just now.
    pub(super) fn arrival(self) -> Pacer {
        Pacer { timetable: self, arrival: Instant::now(), first: None, tokens: 0 }
    }
}

/// The clock of one request.
#[derive(Debug)]
pub(super) struct Pacer {
    timetable: Timetable,
    arrival: Instant,
    /// When the first token was due.
    first: Option<Instant>,
    tokens: u32,
}

impl Pacer {
    /// Waits until the next token is due; lets other requests go on in any case.
    pub(super) async fn next(&mut self) {
        let now = Instant::now();
        let due = self.due(now);
        if due > now {
            sleep_until(due).await;
        } else {
            tokio::task::yield_now().await;
        }
    }

    /// The instant of the next token. The first is due the given time after arrival, or `now` if it was ready only then; all
    /// others by their number from the first, so that a late one does not make the rest late.
    fn due(&mut self, now: Instant) -> Instant {
        let first = *self.first.get_or_insert_with(|| (self.arrival + self.timetable.ttft).max(now));
        let due = first + self.timetable.itl * self.tokens;
        self.tokens = self.tokens.saturating_add(1);
        due
    }
}

/// Waits for a future, but no longer than `limit`.
pub(super) async fn within(limit: Duration, future: impl Future) {
    let _ = timeout(limit, future).await;
}

/// Seconds since 1970, for the `created` members of answers.
pub(super) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Due times in ms after arrival, asked for at the given ms after arrival.
    fn check(ttft_ms: f64, itl_ms: f64, asked: &[u64], due: &[u64]) {
        let mut pacer = Timetable::new(ttft_ms, itl_ms).unwrap().arrival();
        let arrival = pacer.arrival;
        let instants: Vec<u64> = asked
            .iter()
            .map(|ms| u64::try_from((pacer.due(arrival + Duration::from_millis(*ms)) - arrival).as_millis()).unwrap())
            .collect();
        assert_eq!(instants, due);
    }

    #[test]
    fn tokens_are_due_by_their_number() {
        check(50.0, 10.0, &[1, 51, 95, 96], &[50, 60, 70, 80]);
        check(50.0, 10.0, &[120, 121], &[120, 130]);
        check(0.0, 0.0, &[3, 4, 5], &[3, 3, 3]);
    }

    #[test]
    fn only_durations_are_taken() {
        for (ttft_ms, itl_ms) in [(-1.0, 0.0), (0.0, f64::NAN), (f64::INFINITY, 0.0), (0.0, 600_001.0)] {
            assert_eq!(Timetable::new(ttft_ms, itl_ms), None);
        }
    }
}
