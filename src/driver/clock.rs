//! The only clock of the client. Knows no request.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

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

    /// Sleeps until an absolute instant, so that lateness does not add up. Tokio's timer counts whole milliseconds and rounds
    /// up: a request may go out up to a millisecond late, which its schedule lag shows.
    pub(super) async fn sleep_until(&self, due: Duration) {
        match self.begin.checked_add(due) {
            Some(instant) if instant > Instant::now() => tokio::time::sleep_until(instant).await,
            // Due already: no trip through the timer, which would cost a tick.
            Some(_) => {}
            // Beyond what the clock can count, centuries from now.
            None => std::future::pending().await,
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
