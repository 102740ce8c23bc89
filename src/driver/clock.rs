//! The only clock of the client. Knows no request.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// The end of a wait that is not left to tokio's timer: its tick, its rounding, and a tick to spare.
const LAST_STRETCH: Duration = Duration::from_millis(3);

/// Nanoseconds since the begin, by a monotonic clock; and the begin by the wall clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    begin: Instant,
    started: SystemTime,
}

impl Clock {
    /// The begin is now.
    pub(super) fn start() -> Self {
        Self { begin: Instant::now(), started: SystemTime::now() }
    }

    pub(super) fn now_ns(&self) -> u64 {
        as_ns(self.begin.elapsed())
    }

    pub(super) fn started(&self) -> SystemTime {
        self.started
    }

    /// Sleeps until an absolute instant, so that lateness does not add up.
    ///
    /// Tokio's timer counts whole milliseconds and rounds up: at hundreds of requests a second every one would go out about a
    /// millisecond late. So the last stretch is slept on a thread, where the kernel's timer is good to some 0.1 ms.
    pub(super) async fn sleep_until(&self, due: Duration) {
        let Some(instant) = self.begin.checked_add(due) else {
            // Beyond what the clock can count, centuries from now.
            return std::future::pending().await;
        };
        if let Some(early) = instant.checked_sub(LAST_STRETCH)
            && early > Instant::now()
        {
            tokio::time::sleep_until(early).await;
        }
        let left = instant.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            let slept = tokio::task::spawn_blocking(move || std::thread::sleep(left)).await;
            if slept.is_err() {
                // The runtime is shutting down and starts no threads any more. Even so nobody is sent early.
                tokio::time::sleep_until(instant).await;
            }
        }
    }
}

/// Nanoseconds; a duration of more than 584 years counts as that.
pub(super) fn as_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_saturate() {
        assert_eq!(as_ns(Duration::from_micros(3)), 3_000);
        assert_eq!(as_ns(Duration::MAX), u64::MAX);
    }

    #[tokio::test]
    async fn nobody_is_sent_early() {
        let clock = Clock::start();
        let due = Duration::from_millis(3);
        clock.sleep_until(due).await;
        assert!(clock.now_ns() >= as_ns(due));
        clock.sleep_until(Duration::ZERO).await;
    }
}
