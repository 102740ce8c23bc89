//! The monotonic clock of the in-process measurement, in nanoseconds.

#![expect(
    clippy::disallowed_methods,
    reason = "one of the three places that read the clock"
)]

use std::hint::black_box;
use std::time::{Duration, Instant, SystemTime};

/// The current date and time.
pub(super) fn wall_clock() -> SystemTime {
    SystemTime::now()
}

/// Empty measurements of which [`clock_overhead_ns`] takes the median.
const EMPTY_MEASUREMENTS: usize = 1001;

/// Runs `work` and measures it in nanoseconds. Only the call is between the two readings of the
/// clock.
#[inline]
pub(super) fn measure<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let start = Instant::now();
    let result = work();
    let elapsed = start.elapsed();
    (result, as_ns(elapsed))
}

/// Median duration of an empty measurement.
pub(super) fn clock_overhead_ns() -> u64 {
    let mut costs: Vec<u64> = (0..EMPTY_MEASUREMENTS)
        .map(|_| measure(|| black_box(())).1)
        .collect();
    costs.sort_unstable();
    costs[costs.len() / 2]
}

/// Measures the time since its start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stopwatch(Instant);

impl Stopwatch {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    pub(super) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }

    pub(super) fn elapsed_ns(self) -> u64 {
        as_ns(self.elapsed())
    }
}

fn as_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measure_returns_the_result_and_the_stopwatch_advances() {
        let (result, _) = measure(|| 7);
        assert_eq!(result, 7);
        let watch = Stopwatch::start();
        let earlier = watch.elapsed_ns();
        assert!(watch.elapsed_ns() >= earlier);
        assert_eq!(as_ns(Duration::MAX), u64::MAX);
        clock_overhead_ns();
    }
}
