//! Due times of tokens, and measured times. Contains the only clock of the embedded server.

#![expect(
    clippy::disallowed_methods,
    reason = "one of the three places that read the clock"
)]

#[cfg(test)]
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sobench_core::speed::Speed;

/// Longest time between tokens, and longest step. Bounds the due times of a whole answer.
const MAX_STEP: Duration = Duration::from_secs(600);

/// The timing that an embedded server simulates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Timetable {
    ttft: Duration,
    itl: Duration,
    step: Duration,
    /// Time of a step for each of its sequences.
    sequence: Duration,
    /// Time of a step for each prompt token in it.
    prompt_token: Duration,
}

impl Timetable {
    /// The times of a speed. Times that are given replace those of the profile. `None` if a number
    /// is not a duration of at most ten minutes.
    pub(super) fn new(speed: &Speed) -> Option<Self> {
        let duration = |ms: f64| {
            Duration::try_from_secs_f64(ms / 1e3)
                .ok()
                .filter(|step| *step <= MAX_STEP)
        };
        let Speed {
            profile,
            ttft_ms,
            itl_ms,
            step_ms,
        } = *speed;
        let profile = profile.spec();
        let (profile_step_ms, sequence_ms) = match (itl_ms, step_ms) {
            (None, None) => (profile.step_ms, profile.sequence_ms),
            _ => (0.0, 0.0),
        };
        let prompt_token_ms = match ttft_ms {
            None => 1e3 / profile.prefill_tokens_per_s,
            Some(_) => 0.0,
        };
        Some(Self {
            ttft: duration(ttft_ms.unwrap_or_default())?,
            itl: duration(itl_ms.unwrap_or_default())?,
            step: duration(step_ms.unwrap_or(profile_step_ms))?,
            sequence: duration(sequence_ms)?,
            prompt_token: duration(prompt_token_ms)?,
        })
    }

    /// Starts the clock of a request that arrived at this instant.
    pub(super) fn start(self, arrival: Instant) -> Pacer {
        Pacer {
            timetable: self,
            arrival,
            first: None,
            tokens: 0,
        }
    }

    /// The model's time for a step with this number of sequences and of prompt tokens.
    pub(super) fn step_time(self, sequences: usize, prompt_tokens: u32) -> Duration {
        let sequences = u32::try_from(sequences).unwrap_or(u32::MAX);
        self.step + self.sequence * sequences + self.prompt_token * prompt_tokens
    }

    /// Whether prompts take time.
    pub(super) fn has_prefill(self) -> bool {
        !self.prompt_token.is_zero()
    }
}

/// The clock of the batching loop.
#[derive(Clone, Debug)]
pub(super) enum Clock {
    System,
    /// Advances only by explicit calls, so that times are exact.
    #[cfg(test)]
    Manual(Arc<ManualClock>),
}

impl Clock {
    pub(super) fn now(&self) -> Instant {
        match self {
            Self::System => now(),
            #[cfg(test)]
            Self::Manual(clock) => clock.now(),
        }
    }

    /// Waits until `end`.
    pub(super) fn wait_until(&self, end: Instant) {
        let rest = end.saturating_duration_since(self.now());
        if rest.is_zero() {
            return;
        }
        match self {
            Self::System => thread::sleep(rest),
            #[cfg(test)]
            Self::Manual(clock) => clock.advance(rest),
        }
    }
}

/// A clock that a test advances.
#[cfg(test)]
#[derive(Debug)]
pub(super) struct ManualClock {
    start: Instant,
    passed: Mutex<Duration>,
}

#[cfg(test)]
impl ManualClock {
    pub(super) fn start() -> Arc<Self> {
        Arc::new(Self {
            start: now(),
            passed: Mutex::default(),
        })
    }

    pub(super) fn passed(&self) -> Duration {
        *self.passed.lock().unwrap()
    }

    pub(super) fn advance(&self, time: Duration) {
        *self.passed.lock().unwrap() += time;
    }

    fn now(&self) -> Instant {
        self.start + self.passed()
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
    /// The time since the request arrived.
    pub(super) fn since_arrival(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.arrival)
    }

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
    nanoseconds(start.elapsed())
}

/// A duration in nanoseconds.
pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
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
    use sobench_core::speed::SpeedProfile;

    /// Due times in ms after arrival, for tokens that are ready at the given times.
    fn check(ttft_ms: f64, itl_ms: f64, ready: &[u64], due: &[u64]) {
        let speed = Speed {
            ttft_ms: Some(ttft_ms),
            itl_ms: Some(itl_ms),
            ..Speed::default()
        };
        let arrival = now();
        let mut pacer = Timetable::new(&speed).unwrap().start(arrival);
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
            let speed = Speed {
                ttft_ms: Some(ttft_ms),
                itl_ms: Some(itl_ms),
                step_ms: Some(step_ms),
                ..Speed::default()
            };
            assert_eq!(Timetable::new(&speed), None);
        }
    }

    /// The times of one step in ms: with one sequence, and with 10 and prompts of 4,500 tokens.
    fn steps(speed: Speed) -> [f64; 2] {
        let timetable = Timetable::new(&speed).unwrap();
        [(1, 0), (10, 4500)].map(|(sequences, prompt_tokens)| {
            let ms = timetable.step_time(sequences, prompt_tokens).as_secs_f64() * 1e3;
            (ms * 100.0).round() / 100.0
        })
    }

    #[test]
    fn given_times_replace_those_of_the_profile() {
        let h100 = Speed::from(SpeedProfile::H100For8b);
        assert_eq!(steps(Speed::default()), [0.0, 0.0]);
        assert_eq!(steps(h100), [7.58, 108.3]);
        assert_eq!(
            steps(Speed {
                step_ms: Some(5.0),
                ..h100
            }),
            [5.0, 105.0]
        );
        assert_eq!(
            steps(Speed {
                itl_ms: Some(3.0),
                ..h100
            }),
            [0.0, 100.0],
            "tokens are paced by their due times"
        );
        assert_eq!(
            steps(Speed {
                ttft_ms: Some(0.0),
                ..h100
            }),
            [7.58, 8.3]
        );
    }
}
