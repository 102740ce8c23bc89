//! Due times of tokens, and measured times. Contains the only clock of the embedded server.

#![expect(
    clippy::disallowed_methods,
    reason = "one of the three places that read the clock"
)]

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Longest time between tokens, and longest step. Bounds the due times of a whole answer.
const MAX_STEP: Duration = Duration::from_secs(600);

/// The timing that an embedded server simulates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Timetable {
    ttft: Duration,
    itl: Duration,
    step: Duration,
}

impl Timetable {
    /// Minimum time from arrival to the first token, time between tokens, and time of a batch step,
    /// in milliseconds. Zero means as fast as possible. `None` if a number is not a duration of at
    /// most ten minutes.
    pub(super) fn new(ttft_ms: f64, itl_ms: f64, step_ms: f64) -> Option<Self> {
        let duration = |ms: f64| {
            Duration::try_from_secs_f64(ms / 1e3)
                .ok()
                .filter(|step| *step <= MAX_STEP)
        };
        Some(Self {
            ttft: duration(ttft_ms)?,
            itl: duration(itl_ms)?,
            step: duration(step_ms)?,
        })
    }

    /// Starts the clock of a request that has just arrived.
    pub(super) fn start(self) -> Pacer {
        Pacer {
            timetable: self,
            arrival: now(),
            first: None,
            tokens: 0,
        }
    }

    /// Waits until the step that started at `start` has lasted for the step time.
    pub(super) fn finish_step(self, start: Instant) {
        let rest = self.step.saturating_sub(start.elapsed());
        if !rest.is_zero() {
            thread::sleep(rest);
        }
    }
}

/// The clock of one request.
#[derive(Debug)]
pub(super) struct Pacer {
    timetable: Timetable,
    arrival: Instant,
    /// Due time of the first token.
    first: Option<Instant>,
    tokens: u32,
}

impl Pacer {
    /// Due time of the next token. Call it once per token. The first token is due at the given time
    /// after arrival, or `now` if it is ready later. The others are due by their distance from the
    /// first, so that a late token does not delay the rest.
    pub(super) fn due(&mut self, now: Instant) -> Instant {
        let first = *self
            .first
            .get_or_insert_with(|| (self.arrival + self.timetable.ttft).max(now));
        let due = first + self.timetable.itl * self.tokens;
        self.tokens = self.tokens.saturating_add(1);
        due
    }
}

/// The current instant.
pub(super) fn now() -> Instant {
    Instant::now()
}

/// The result of `work`, and its duration in nanoseconds.
pub(super) fn timed<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let start = now();
    let result = work();
    (result, nanoseconds_since(start))
}

/// Nanoseconds since `start`.
pub(super) fn nanoseconds_since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Waits for a future for at most `limit`.
pub(super) async fn within(limit: Duration, future: impl Future) {
    let _ = tokio::time::timeout(limit, future).await;
}

/// Sleeps.
pub(super) async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Seconds since 1970, for the `created` member of answers.
pub(super) fn unix_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Due times in ms after arrival, for tokens that are ready at the given times.
    fn check(ttft_ms: f64, itl_ms: f64, ready: &[u64], due: &[u64]) {
        let mut pacer = Timetable::new(ttft_ms, itl_ms, 0.0).unwrap().start();
        let arrival = pacer.arrival;
        let instants: Vec<u64> = ready
            .iter()
            .map(|ms| {
                u64::try_from(
                    (pacer.due(arrival + Duration::from_millis(*ms)) - arrival).as_millis(),
                )
                .unwrap()
            })
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
    fn invalid_times_are_refused() {
        for (ttft_ms, itl_ms, step_ms) in [
            (-1.0, 0.0, 0.0),
            (0.0, f64::NAN, 0.0),
            (f64::INFINITY, 0.0, 0.0),
            (0.0, 600_001.0, 0.0),
            (0.0, 0.0, -0.5),
        ] {
            assert_eq!(Timetable::new(ttft_ms, itl_ms, step_ms), None);
        }
    }
}
