//! The only clock of the client. Knows no request.

#![expect(
    clippy::disallowed_methods,
    reason = "one of the three places that read the clock"
)]

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// From where this process counts, so that an instant fits into one number that threads can share.
static ORIGIN: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);

/// By how much the wall clock may go on otherwise than the monotonic one between two reads of a
/// socket, beside one part in [`SLEW_PARTS`] of the time between them, which is what the kernel
/// steers a clock by that is a little off (500 in a million, see adjtimex(2)), and as much again.
const SAME_PACE: Duration = Duration::from_millis(1);
const SLEW_PARTS: u64 = 1000;

/// Stamps that could not be true, of all sockets of this process.
static REFUSED_STAMPS: AtomicU64 = AtomicU64::new(0);

/// Two clocks that are read this close together are read at the same instant.
const SAME_INSTANT: Duration = Duration::from_micros(10);

/// Tries to read both clocks without being interrupted.
const TRIES: usize = 3;

/// As many where there is time, and the best of them counts.
const READINGS: usize = 64;

/// The end of a wait that is not left to tokio's timer: its tick, its rounding, and a tick to
/// spare.
const LAST_STRETCH: Duration = Duration::from_millis(3);

/// Both clocks at one instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Both {
    process_ns: u64,
    /// Since 1970.
    wall: Duration,
}

/// What is known of a socket when it is read: by it the kernel's stamps are judged, which are by
/// the wall clock, and that can be set at any time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LastRead {
    /// Both clocks at the read before, or when the socket was opened.
    clocks: Option<Both>,
    /// When the last bytes of that read arrived: what comes later in the stream came no earlier.
    arrived_ns: u64,
}

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

/// Both clocks when this process first told another machine the time: from there on such instants
/// count by the monotonic clock, so that a wall clock that is set changes none of them.
static ANCHOR: LazyLock<Both> = LazyLock::new(both_now);

/// Now, in nanoseconds since 1970, for other machines: by the wall clock as it was when they were
/// first told, and evenly from there on.
pub(super) fn unix_ns() -> u64 {
    let anchor = *ANCHOR;
    as_ns(anchor.wall) + (process_ns() - anchor.process_ns)
}

/// The begin at an instant of [`unix_ns`]; `None` where that has passed.
pub(super) fn begin_at_unix_ns(unix_ns: u64) -> Option<Begin> {
    begin_by(*ANCHOR, Duration::from_nanos(unix_ns))
}

/// The begin at an instant of the wall clock, as that is now; `None` where that has passed.
pub(super) fn begin_at(wall: SystemTime) -> Option<Begin> {
    begin_by(both_now(), wall.duration_since(UNIX_EPOCH).ok()?)
}

fn begin_by(clocks: Both, wall: Duration) -> Option<Begin> {
    let process_ns_then = clocks
        .process_ns
        .checked_add(as_ns(wall.checked_sub(clocks.wall)?))?;
    let is_to_come = process_ns_then > process_ns();
    is_to_come.then(|| Begin {
        process_ns: process_ns_then,
        wall: UNIX_EPOCH + wall,
    })
}

/// Both clocks, at one instant as nearly as can be had: of some readings the one that took the
/// least time.
fn both_now() -> Both {
    let read = |_| {
        let before_ns = process_ns();
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let took_ns = process_ns() - before_ns;
        (
            took_ns,
            Both {
                process_ns: before_ns + took_ns / 2,
                wall,
            },
        )
    };
    let first = read(0);
    (1..READINGS)
        .map(read)
        .fold(
            first,
            |best, other| if other.0 < best.0 { other } else { best },
        )
        .1
}

/// An instant so long from now, to wait until.
pub(super) fn instant_in(time: Duration) -> Instant {
    Instant::now() + time
}

/// A begin so long from now.
pub(super) fn begin_in(lead: Duration) -> Begin {
    Begin {
        process_ns: process_ns() + as_ns(lead),
        wall: SystemTime::now() + lead,
    }
}

impl Begin {
    /// Waits until so long before it.
    pub(super) async fn approach(self, by: Duration) {
        let at = instant(self.process_ns);
        tokio::time::sleep_until(at.checked_sub(by).unwrap_or(at)).await;
    }

    /// How far two are from each other.
    #[cfg(test)]
    pub(super) fn apart(self, other: Self) -> Duration {
        Duration::from_nanos(self.process_ns.abs_diff(other.process_ns))
    }
}

impl Clock {
    /// The begin is now.
    pub(super) fn start() -> Self {
        Self {
            begin: Instant::now(),
            begin_ns: process_ns(),
            started: SystemTime::now(),
        }
    }

    /// The begin is an instant that others count from as well; until then it is the begin.
    pub(super) fn start_at(begin: Begin) -> Self {
        Self {
            begin: instant(begin.process_ns),
            begin_ns: begin.process_ns,
            started: begin.wall,
        }
    }

    /// Nanoseconds since the begin of an instant in [`process_ns`]; one before the begin counts as
    /// the begin.
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
    /// Tokio's timer counts whole milliseconds and rounds up: at hundreds of requests a second
    /// every one would go out about a millisecond late. So the last stretch is slept on a thread,
    /// where the kernel's timer is good to some 0.1 ms.
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
                // The runtime is shutting down and starts no threads any more. Even so nobody is
                // sent early.
                tokio::time::sleep_until(instant).await;
            }
        }
    }
}

/// Now, in nanoseconds since this process first asked.
pub fn process_ns() -> u64 {
    as_ns(ORIGIN.elapsed())
}

/// The instant of a [`process_ns`], to wait for.
pub fn instant(process_ns: u64) -> Instant {
    Instant::from_std(*ORIGIN + Duration::from_nanos(process_ns))
}

impl LastRead {
    /// A socket that was just opened.
    pub(crate) fn opening() -> Self {
        Self {
            clocks: both_clocks(),
            arrived_ns: process_ns(),
        }
    }

    /// When the bytes arrived that were just read, in [`process_ns`]: now, less the time for which
    /// they waited. `stamp` is the kernel's, by the wall clock since 1970; without one, or with one
    /// that cannot be true, the bytes arrived just now.
    pub(crate) fn arrived_ns(&mut self, stamp: Option<Duration>) -> u64 {
        let Some((stamp, now)) = stamp.zip(both_clocks()) else {
            return process_ns();
        };
        let arrived = self.judge(stamp, now);
        if arrived.is_none() {
            REFUSED_STAMPS.fetch_add(1, Ordering::Relaxed);
        }
        arrived.unwrap_or(now.process_ns)
    }

    /// The stamp's instant, and from now on what comes later came no earlier; `None` for a stamp
    /// that cannot be true. A read without a stamp to judge changes nothing: what lay in the socket
    /// behind it may have come before it was read.
    fn judge(&mut self, stamp: Duration, now: Both) -> Option<u64> {
        let stamped = self.stamped_ns(stamp, now);
        *self = Self {
            clocks: Some(now),
            arrived_ns: stamped.unwrap_or(now.process_ns),
        };
        stamped
    }

    /// The stamp's instant; `None` where the wall clock was set since the read before, or the
    /// instant is not between that and now.
    fn stamped_ns(&self, stamp: Duration, now: Both) -> Option<u64> {
        let slack_ns = as_ns(SAME_PACE);
        if let Some(before) = self.clocks {
            let went_ns = i128::from(now.process_ns) - i128::from(before.process_ns);
            let by_wall_ns =
                now.wall.as_nanos().cast_signed() - before.wall.as_nanos().cast_signed();
            let allowed_ns = u128::from(slack_ns) + went_ns.unsigned_abs() / u128::from(SLEW_PARTS);
            if (by_wall_ns - went_ns).unsigned_abs() > allowed_ns {
                return None;
            }
        }
        let waited_ns = now.wall.as_nanos().cast_signed() - stamp.as_nanos().cast_signed();
        let most_ns = i128::from(now.process_ns.saturating_sub(self.arrived_ns));
        let slack_ns = i128::from(slack_ns);
        let is_within = -slack_ns <= waited_ns && waited_ns <= most_ns + slack_ns;
        is_within.then(|| now.process_ns - u64::try_from(waited_ns.clamp(0, most_ns)).unwrap_or(0))
    }
}

/// How many stamps could not be true so far, in this process.
pub(super) fn refused_stamps() -> u64 {
    REFUSED_STAMPS.load(Ordering::Relaxed)
}

/// Both clocks at one instant: who is interrupted between two readings tries again. `None` for who
/// has no luck.
fn both_clocks() -> Option<Both> {
    let mut before_ns = process_ns();
    for _ in 0..TRIES {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let after_ns = process_ns();
        if after_ns - before_ns <= as_ns(SAME_INSTANT) {
            return Some(Both {
                process_ns: after_ns,
                wall,
            });
        }
        before_ns = after_ns;
    }
    None
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

    /// In milliseconds: what the clocks said at the read before and say now, when the bytes before
    /// arrived, and the stamp; and the arrival, `None` for a stamp that is refused.
    #[track_caller]
    fn check_stamp(
        before: Option<(u64, u64)>,
        arrived: u64,
        now: (u64, u64),
        stamp: u64,
        expected: Option<u64>,
    ) {
        let ns = |ms: u64| ms * 1_000_000;
        let both = |(process, wall): (u64, u64)| Both {
            process_ns: ns(process),
            wall: Duration::from_millis(wall),
        };
        let last = LastRead {
            clocks: before.map(both),
            arrived_ns: ns(arrived),
        };
        assert_eq!(
            last.stamped_ns(Duration::from_millis(stamp), both(now)),
            expected.map(ns)
        );
    }

    #[test]
    fn stamps_count_where_the_clocks_go_on_alike() {
        let before = Some((1_000, 51_000));
        // The bytes waited for 40 ms, and for none.
        check_stamp(before, 1_000, (2_000, 52_000), 51_960, Some(1_960));
        check_stamp(before, 1_000, (2_000, 52_000), 52_000, Some(2_000));
        check_stamp(None, 1_000, (2_000, 52_000), 51_500, Some(1_500));
        // A client that slept for an hour and finds bytes of half an hour ago; the wall clock was
        // steered by 0.05 % meanwhile.
        check_stamp(
            before,
            1_000,
            (3_601_000, 3_652_800),
            1_852_800,
            Some(1_801_000),
        );
    }

    #[test]
    fn stamps_of_a_clock_that_was_set_do_not_count() {
        let before = Some((1_000, 51_000));
        // Forward by 5 s between packet and read; back by 5 s; by a second only.
        check_stamp(before, 1_000, (2_000, 57_000), 51_999, None);
        check_stamp(before, 1_000, (2_000, 47_000), 51_999, None);
        check_stamp(before, 1_000, (20_000, 71_000), 70_000, None);
        // At the next read it goes on as it is, and counts again.
        check_stamp(
            Some((2_000, 57_000)),
            2_000,
            (3_000, 58_000),
            57_990,
            Some(2_990),
        );
        // From the future, and from before what came before it.
        check_stamp(before, 1_000, (2_000, 52_000), 52_100, None);
        check_stamp(before, 1_900, (2_000, 52_000), 51_500, None);
        check_stamp(None, 1_000, (2_000, 52_000), 0, None);
    }

    #[test]
    fn a_read_without_a_stamp_says_nothing_of_what_lies_behind_it() {
        let mut last = LastRead {
            clocks: None,
            arrived_ns: 0,
        };
        let before = process_ns();
        let read_ns = last.arrived_ns(None);
        assert!(read_ns >= before);
        let ns = |ms: u64| ms * 1_000_000;
        // The next bytes lay there already when that was read.
        let (now, waited_ns) = (
            Both {
                process_ns: read_ns + ns(1),
                wall: Duration::from_secs(52),
            },
            ns(1) + read_ns / 2,
        );
        assert_eq!(
            last.judge(now.wall - Duration::from_nanos(waited_ns), now),
            Some(read_ns - read_ns / 2)
        );
        let later = Both {
            process_ns: now.process_ns + ns(5),
            wall: now.wall + Duration::from_millis(5),
        };
        assert_eq!(
            last.judge(Duration::from_secs(40), later),
            None,
            "no earlier than what came before it"
        );
        assert_eq!(
            last.arrived_ns, later.process_ns,
            "the instant of reading stands in"
        );
    }

    #[test]
    fn a_stamp_that_cannot_be_true_is_counted() {
        let refused = refused_stamps();
        let mut last = LastRead::opening();
        // On a busy machine the two clocks are not read at one instant every time, and then no
        // stamp is judged.
        while last.arrived_ns(Some(Duration::ZERO)) != last.arrived_ns {}
        assert!(refused_stamps() > refused);
    }

    #[test]
    fn clocks_that_share_a_begin_agree() {
        let begin = begin_in(Duration::from_secs(3600));
        let clocks = [Clock::start_at(begin), Clock::start_at(begin)];
        assert_eq!(clocks[0].started(), clocks[1].started());
        assert_eq!(
            clocks[0].since_begin_ns(begin.process_ns + 5),
            clocks[1].since_begin_ns(begin.process_ns + 5)
        );
        assert_eq!(
            (clocks[0].now_ns(), clocks[0].since_begin_ns(process_ns())),
            (0, 0),
            "the begin is yet to come"
        );
    }

    #[test]
    fn a_begin_is_named_by_the_wall_clock_and_waited_for_by_the_other() {
        let clocks = Both {
            process_ns: process_ns() + 1_000_000_000,
            wall: Duration::from_secs(1_800_000_000),
        };
        let begin = begin_by(clocks, Duration::from_secs(1_800_000_060)).unwrap();
        assert_eq!(begin.process_ns, clocks.process_ns + 60_000_000_000);
        assert_eq!(begin.wall, UNIX_EPOCH + Duration::from_secs(1_800_000_060));
        let passed = Both {
            process_ns: 0,
            ..clocks
        };
        process_ns();
        assert_eq!(begin_by(passed, Duration::from_secs(1_799_999_999)), None);
        assert_eq!(begin_by(passed, passed.wall), None, "now is too late");
        assert_eq!(begin_at(UNIX_EPOCH + Duration::from_secs(1)), None);
        let soon_ns = unix_ns() + 60_000_000_000;
        assert_eq!(
            begin_at_unix_ns(soon_ns).map(|begin| begin.wall),
            Some(UNIX_EPOCH + Duration::from_nanos(soon_ns))
        );
        assert_eq!(begin_at_unix_ns(0), None);
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
