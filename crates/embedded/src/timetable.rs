//! When tokens are due, and how long things take. The only clock of the embedded server; knows
//! nothing of what is sent.

#![expect(
    clippy::disallowed_methods,
    reason = "one of the three places that read the clock"
)]

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Longest wait for a token, and longest step, that can be imitated: times of a whole answer must
/// fit into a clock.
const LONGEST_STEP: Duration = Duration::from_secs(600);

/// The timing that an embedded server imitates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Timetable {
    ttft: Duration,
    itl: Duration,
    step: Duration,
}

impl Timetable {
    /// Milliseconds from a request's arrival to its first token at the earliest, from each token to
    /// the next, and of one step of the whole batch; zero means as fast as possible. `None` for
    /// what is no duration, or longer than ten minutes.
    pub(super) fn new(ttft_ms: f64, itl_ms: f64, step_ms: f64) -> Option<Self> {
        let duration = |ms: f64| {
            Duration::try_from_secs_f64(ms / 1e3)
                .ok()
                .filter(|step| *step <= LONGEST_STEP)
        };
        Some(Self {
            ttft: duration(ttft_ms)?,
            itl: duration(itl_ms)?,
            step: duration(step_ms)?,
        })
    }

    /// Begins the clock of a request that has arrived just now.
    pub(super) fn arrival(self) -> Pacer {
        Pacer {
            timetable: self,
            arrival: now(),
            first: None,
            tokens: 0,
        }
    }

    /// Waits until a step that began at `began` has taken its time; what was computed since then
    /// counts.
    pub(super) fn finish_step(self, began: Instant) {
        let rest = self.step.saturating_sub(began.elapsed());
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
    /// When the first token was due.
    first: Option<Instant>,
    tokens: u32,
}

impl Pacer {
    /// The instant of the next token, to be asked for once a token. The first is due the given time
    /// after arrival, or `now` if it was ready only then; all others by their number from the
    /// first, so that a late one does not make the rest late.
    pub(super) fn due(&mut self, now: Instant) -> Instant {
        let first = *self
            .first
            .get_or_insert_with(|| (self.arrival + self.timetable.ttft).max(now));
        let due = first + self.timetable.itl * self.tokens;
        self.tokens = self.tokens.saturating_add(1);
        due
    }
}

/// This instant.
pub(super) fn now() -> Instant {
    Instant::now()
}

/// What `work` gives, and the nanoseconds it took.
pub(super) fn timed<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let began = now();
    let result = work();
    (result, nanoseconds_since(began))
}

/// Nanoseconds from `began` to now.
pub(super) fn nanoseconds_since(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Waits for a future, but no longer than `limit`.
pub(super) async fn within(limit: Duration, future: impl Future) {
    let _ = tokio::time::timeout(limit, future).await;
}

/// Waits.
pub(super) async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Seconds since 1970, for the `created` members of answers.
pub(super) fn unix_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Due times in ms after arrival, asked for at the given ms after arrival.
    fn check(ttft_ms: f64, itl_ms: f64, asked: &[u64], due: &[u64]) {
        let mut pacer = Timetable::new(ttft_ms, itl_ms, 0.0).unwrap().arrival();
        let arrival = pacer.arrival;
        let instants: Vec<u64> = asked
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
    fn only_durations_are_taken() {
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
