//! The only clock of the client. Knows no request.

use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// From where this process counts, so that an instant fits into one number that threads can share.
static ORIGIN: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);

/// Bytes that waited longer than this for the client, by the wall clock, did not: the wall clock was set.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// Two clocks that are read this close together are read at the same instant.
const SAME_INSTANT: Duration = Duration::from_micros(10);

/// Tries to read both clocks without being interrupted.
const TRIES: usize = 3;

/// The end of a wait that is not left to tokio's timer: its tick, its rounding, and a tick to spare.
const LAST_STRETCH: Duration = Duration::from_millis(3);

/// Nanoseconds since the begin, by a monotonic clock; and the begin by the wall clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    begin: Instant,
    /// The same begin in [`process_ns`].
    begin_ns: u64,
    started: SystemTime,
}

/// An instant from which several clocks count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Begin {
    process_ns: u64,
    wall: SystemTime,
}

/// A begin so long from now.
pub(super) fn begin_in(lead: Duration) -> Begin {
    Begin { process_ns: process_ns() + as_ns(lead), wall: SystemTime::now() + lead }
}

impl Clock {
    /// The begin is now.
    pub(super) fn start() -> Self {
        Self { begin: Instant::now(), begin_ns: process_ns(), started: SystemTime::now() }
    }

    /// The begin is an instant that others count from as well; until then it is the begin.
    pub(super) fn start_at(begin: Begin) -> Self {
        Self { begin: instant(begin.process_ns), begin_ns: begin.process_ns, started: begin.wall }
    }

    /// Nanoseconds since the begin of an instant in [`process_ns`]; one before the begin counts as the begin.
    pub(super) fn since_begin_ns(&self, process_ns: u64) -> u64 {
        process_ns.saturating_sub(self.begin_ns)
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

/// Now, in nanoseconds since this process first asked.
pub(crate) fn process_ns() -> u64 {
    as_ns(ORIGIN.elapsed())
}

/// The instant of a [`process_ns`], to wait for.
pub(crate) fn instant(process_ns: u64) -> Instant {
    Instant::from_std(*ORIGIN + Duration::from_nanos(process_ns))
}

/// When bytes arrived, in [`process_ns`]: now, less the time for which they waited. `stamp` is the kernel's, by the wall clock
/// since 1970; without one the bytes arrived just now.
pub(crate) fn arrived_ns(stamp: Option<Duration>) -> u64 {
    let Some(stamp) = stamp else { return process_ns() };
    let (now_ns, wall) = both_clocks();
    let waited = wall.checked_sub(stamp).filter(|waited| *waited <= MAX_WAIT).unwrap_or_default();
    now_ns.saturating_sub(as_ns(waited))
}

/// Both clocks at one instant: who is interrupted between two readings tries again.
fn both_clocks() -> (u64, Duration) {
    let mut before_ns = process_ns();
    for _ in 0..TRIES {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let after_ns = process_ns();
        if after_ns - before_ns <= as_ns(SAME_INSTANT) {
            return (after_ns, wall);
        }
        before_ns = after_ns;
    }
    // No luck: a wall clock of zero says that nothing waited.
    (process_ns(), Duration::ZERO)
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

    #[test]
    fn arrivals_count_back_from_now_and_absurd_stamps_do_not_count() {
        let wall = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let before = process_ns();
        let second = Duration::from_secs(1);
        // A second ago, which may be before this process began to count.
        assert!(arrived_ns(Some(wall() - second)) <= process_ns().saturating_sub(as_ns(second) / 2));
        for stamp in [None, Some(wall() + second), Some(wall() - 2 * MAX_WAIT), Some(Duration::ZERO)] {
            assert!(arrived_ns(stamp) >= before, "{stamp:?}");
        }
    }

    #[test]
    fn clocks_that_share_a_begin_agree() {
        let begin = begin_in(Duration::from_secs(3600));
        let clocks = [Clock::start_at(begin), Clock::start_at(begin)];
        assert_eq!(clocks[0].started(), clocks[1].started());
        assert_eq!(clocks[0].since_begin_ns(begin.process_ns + 5), clocks[1].since_begin_ns(begin.process_ns + 5));
        assert_eq!((clocks[0].now_ns(), clocks[0].since_begin_ns(process_ns())), (0, 0), "the begin is yet to come");
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
