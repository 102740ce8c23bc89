//! The clock of the client: monotonic instants, and the kernel's receive time stamps.

#![expect(
    clippy::disallowed_methods,
    reason = "one of the three places that read the clock"
)]

use std::cell::RefCell;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// Origin of [`process_ns`], so that an instant fits into one atomic integer.
static ORIGIN: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);

/// How far the wall clock may deviate from the monotonic one between two reads of a socket, in
/// addition to one part in [`SLEW_PARTS`] of the time between them: twice the rate at which the
/// kernel slews a clock (500 ppm, see adjtimex(2)).
const MAX_DEVIATION: Duration = Duration::from_millis(1);
const SLEW_PARTS: u64 = 1000;

/// Number of implausible time stamps, over all sockets of this process.
static IMPLAUSIBLE_STAMPS: AtomicU64 = AtomicU64::new(0);

/// Two clocks read within this time count as read at the same instant.
const SAME_INSTANT: Duration = Duration::from_micros(10);

/// Attempts to read both clocks without an interruption.
const QUICK_ATTEMPTS: usize = 3;

/// Readings for a more exact result; the best one is used.
const EXACT_READINGS: usize = 64;

/// The last part of a wait, which does not use tokio's timer: its tick, its rounding and one spare
/// tick.
const THREAD_SLEEP: Duration = Duration::from_millis(3);

/// Time from the arrival of a packet to the wake-up of the thread that waits for it, and from there
/// to the thread's reading of the clock, if nothing else runs. Also the resolution of arrivals: the
/// two clocks are read within [`SAME_INSTANT`].
const WAKE_UP: Duration = Duration::from_micros(20);

/// Measures the time since its start, for what is not a request.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// The time since the start.
    pub fn time(self) -> Duration {
        self.0.elapsed()
    }
}

/// Both clocks at one instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BothClocks {
    process_ns: u64,
    /// Since 1970.
    wall: Duration,
}

/// State of the previous read of a socket. The kernel's stamps are by the wall clock, which can be
/// set at any time, so they are checked against it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LastRead {
    /// Both clocks at the previous read, or when the socket was opened.
    clocks: Option<BothClocks>,
    /// When the last bytes of that read arrived; later bytes arrived no earlier.
    arrived_ns: u64,
}

/// When the bytes of a read arrived, as [`process_ns`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    at_ns: u64,
    is_stamped: bool,
    /// The last bytes of the read before; these arrived no earlier.
    last_ns: u64,
}

impl Arrival {
    /// An arrival without a stamp: now.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn now() -> Self {
        Self {
            at_ns: process_ns(),
            ..Self::default()
        }
    }

    /// When the last of the bytes arrived.
    pub fn at_ns(&self) -> u64 {
        self.at_ns
    }

    /// Whether the instant is the kernel's.
    pub fn is_stamped(&self) -> bool {
        self.is_stamped
    }

    /// How much earlier the first of the bytes can have arrived; `None` if unknown. Called by the
    /// thread that read them, before it waits again. The bytes of one part, which the server wrote
    /// at once, have the stamp of its last packet.
    pub fn slack_ns(&self, parts: usize) -> Option<u64> {
        if parts == 1 && self.is_stamped {
            return Some(0);
        }
        arrival_slack_ns(self.at_ns, self.last_ns)
    }
}

/// How old the last reading of the run delay may be when a thread wakes up. The file is read again
/// then, or when a read needs it: reading it for each wake-up takes more time than the wake-up.
const RUN_DELAY_AGE: Duration = Duration::from_millis(1);

/// When a client thread last waited for packets and woke up.
#[derive(Clone, Copy, Debug, Default)]
struct WakeUp {
    parked_ns: u64,
    woke_ns: u64,
    /// The wake-up before; 0 if there was none.
    before_ns: u64,
    /// Total time for which the thread was able to run and did not, and when it was read.
    run_delay_ns: u64,
    read_ns: u64,
    /// Whether it was read since the last wake-up.
    is_read: bool,
    /// Then: bytes that are unread now arrived no earlier; `None` until the thread has woken up
    /// twice.
    earliest_ns: Option<u64>,
}

/// The wake-ups of this thread, and the file with its run delay.
struct ThreadWakeUps {
    last: WakeUp,
    #[cfg(target_os = "linux")]
    run_delay: std::fs::File,
}

thread_local! {
    static WAKE_UPS: RefCell<Option<ThreadWakeUps>> = const { RefCell::new(None) };
}

/// Monotonic clock that counts nanoseconds since the start of the run; it also knows the start by
/// the wall clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    start: Instant,
    /// The start as a [`process_ns`] value.
    start_ns: u64,
    started: SystemTime,
}

/// A start instant that several clocks share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StartInstant {
    process_ns: u64,
    wall: SystemTime,
}

/// Both clocks at the first call of [`unix_ns`]. Later calls count by the monotonic clock, so that
/// setting the wall clock has no effect.
static ANCHOR: LazyLock<BothClocks> = LazyLock::new(both_now);

/// Now, in nanoseconds since 1970, for other machines: the wall clock at the first call, advanced
/// by the monotonic clock.
pub(super) fn unix_ns() -> u64 {
    let anchor = *ANCHOR;
    as_ns(anchor.wall) + (process_ns() - anchor.process_ns)
}

/// Time since an instant of the wall clock; zero if it has not come.
pub fn since(instant: SystemTime) -> Duration {
    let now = SystemTime::UNIX_EPOCH + Duration::from_nanos(unix_ns());
    now.duration_since(instant).unwrap_or_default()
}

/// The start at an instant of [`unix_ns`]; `None` if it has passed.
pub(super) fn start_at_unix_ns(unix_ns: u64) -> Option<StartInstant> {
    start_by(*ANCHOR, Duration::from_nanos(unix_ns))
}

/// The start at an instant of the current wall clock; `None` if it has passed.
pub(super) fn start_at_wall_time(wall: SystemTime) -> Option<StartInstant> {
    start_by(both_now(), wall.duration_since(UNIX_EPOCH).ok()?)
}

fn start_by(clocks: BothClocks, wall: Duration) -> Option<StartInstant> {
    let process_ns_then = clocks
        .process_ns
        .checked_add(as_ns(wall.checked_sub(clocks.wall)?))?;
    let is_in_future = process_ns_then > process_ns();
    is_in_future.then(|| StartInstant {
        process_ns: process_ns_then,
        wall: UNIX_EPOCH + wall,
    })
}

/// Both clocks at nearly the same instant: the fastest of several readings.
fn both_now() -> BothClocks {
    let read = |_| {
        let before_ns = process_ns();
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let took_ns = process_ns() - before_ns;
        (
            took_ns,
            BothClocks {
                process_ns: before_ns + took_ns / 2,
                wall,
            },
        )
    };
    let first = read(0);
    (1..EXACT_READINGS)
        .map(read)
        .fold(
            first,
            |best, other| if other.0 < best.0 { other } else { best },
        )
        .1
}

/// The instant after this time from now.
pub(super) fn instant_in(time: Duration) -> Instant {
    Instant::now() + time
}

/// A start after this time from now.
pub(super) fn start_in(lead: Duration) -> StartInstant {
    StartInstant {
        process_ns: process_ns() + as_ns(lead),
        wall: SystemTime::now() + lead,
    }
}

impl StartInstant {
    /// Waits until `by` before it.
    pub(super) async fn wait_until_before(self, by: Duration) {
        let at = instant(self.process_ns);
        tokio::time::sleep_until(at.checked_sub(by).unwrap_or(at)).await;
    }

    /// The distance between two instants.
    #[cfg(test)]
    pub(super) fn distance(self, other: Self) -> Duration {
        Duration::from_nanos(self.process_ns.abs_diff(other.process_ns))
    }
}

impl Clock {
    /// A clock that starts now.
    pub(super) fn start() -> Self {
        Self {
            start: Instant::now(),
            start_ns: process_ns(),
            started: SystemTime::now(),
        }
    }

    /// A clock that starts at a shared instant; until then it reads zero.
    pub(super) fn start_at(start: StartInstant) -> Self {
        Self {
            start: instant(start.process_ns),
            start_ns: start.process_ns,
            started: start.wall,
        }
    }

    /// Nanoseconds from the start to a [`process_ns`] value; 0 for one before the start.
    pub(super) fn since_start_ns(&self, process_ns: u64) -> u64 {
        process_ns.saturating_sub(self.start_ns)
    }

    pub(super) fn now_ns(&self) -> u64 {
        as_ns(self.start.elapsed())
    }

    /// Nanoseconds from the start to an instant; 0 for one before the start.
    pub(super) fn instant_ns(&self, at: Instant) -> u64 {
        as_ns(at.saturating_duration_since(self.start))
    }

    pub(super) fn started(&self) -> SystemTime {
        self.started
    }

    /// Sleeps until an absolute instant, so that delays do not accumulate.
    ///
    /// Tokio's timer counts whole milliseconds and rounds up: at hundreds of requests a second
    /// every one would go out about a millisecond late. So the last part is slept on a thread,
    /// where the kernel's timer is accurate to about 0.1 ms.
    pub(super) async fn sleep_until(&self, due: Duration) {
        let Some(instant) = self.start.checked_add(due) else {
            // Out of the clock's range, centuries from now.
            return std::future::pending().await;
        };
        if let Some(early) = instant.checked_sub(THREAD_SLEEP)
            && early > Instant::now()
        {
            tokio::time::sleep_until(early).await;
        }
        let left = instant.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            let slept = tokio::task::spawn_blocking(move || std::thread::sleep(left)).await;
            if slept.is_err() {
                // The runtime is shutting down and starts no more threads. Requests must still not
                // be sent early.
                tokio::time::sleep_until(instant).await;
            }
        }
    }
}

/// The wall clock, for instants that are compared with the start of a run.
pub(super) fn wall_clock() -> SystemTime {
    SystemTime::now()
}

/// Nanoseconds since the first call in this process.
pub fn process_ns() -> u64 {
    as_ns(ORIGIN.elapsed())
}

/// The tokio instant of a [`process_ns`] value.
pub fn instant(process_ns: u64) -> Instant {
    Instant::from_std(*ORIGIN + Duration::from_nanos(process_ns))
}

impl LastRead {
    /// The state of a socket that was just opened.
    pub(crate) fn new() -> Self {
        Self {
            arrived_ns: process_ns(),
            ..Self::accepted()
        }
    }

    /// The state of a socket that was just accepted. Its first bytes can have arrived before.
    pub(crate) fn accepted() -> Self {
        Self {
            clocks: both_clocks(),
            arrived_ns: 0,
        }
    }

    /// When the bytes that were just read arrived: now, less the time they waited in the socket.
    /// `stamp` is the kernel's, by the wall clock since 1970. Without a stamp, or with an
    /// implausible one, the result is now.
    pub(crate) fn arrived(&mut self, stamp: Option<Duration>) -> Arrival {
        let last_ns = self.arrived_ns;
        let (at_ns, is_stamped) = match stamp.zip(both_clocks()) {
            None => (process_ns(), false),
            Some((stamp, now)) => {
                let arrived = self.check_stamp_at(stamp, now);
                if arrived.is_none() {
                    IMPLAUSIBLE_STAMPS.fetch_add(1, Ordering::Relaxed);
                }
                (arrived.unwrap_or(now.process_ns), arrived.is_some())
            }
        };
        Arrival {
            at_ns,
            is_stamped,
            last_ns,
        }
    }

    /// The stamp's instant, which becomes the earliest one for later bytes; `None` for an
    /// implausible stamp. Not called for reads without a stamp: bytes behind it in the socket may
    /// have arrived before that read.
    fn check_stamp_at(&mut self, stamp: Duration, now: BothClocks) -> Option<u64> {
        let stamped = self.stamped_ns(stamp, now);
        *self = Self {
            clocks: Some(now),
            arrived_ns: stamped.unwrap_or(now.process_ns),
        };
        stamped
    }

    /// The stamp's instant; `None` if the wall clock was set since the previous read, or the
    /// instant is not between that read and now.
    fn stamped_ns(&self, stamp: Duration, now: BothClocks) -> Option<u64> {
        let slack_ns = as_ns(MAX_DEVIATION);
        if let Some(before) = self.clocks {
            let elapsed_ns = i128::from(now.process_ns) - i128::from(before.process_ns);
            let wall_elapsed_ns =
                now.wall.as_nanos().cast_signed() - before.wall.as_nanos().cast_signed();
            let allowed_ns =
                u128::from(slack_ns) + elapsed_ns.unsigned_abs() / u128::from(SLEW_PARTS);
            if (wall_elapsed_ns - elapsed_ns).unsigned_abs() > allowed_ns {
                return None;
            }
        }
        let waited_ns = now.wall.as_nanos().cast_signed() - stamp.as_nanos().cast_signed();
        let max_waited_ns = i128::from(now.process_ns.saturating_sub(self.arrived_ns));
        let slack_ns = i128::from(slack_ns);
        let is_within = -slack_ns <= waited_ns && waited_ns <= max_waited_ns + slack_ns;
        is_within
            .then(|| now.process_ns - u64::try_from(waited_ns.clamp(0, max_waited_ns)).unwrap_or(0))
    }
}

/// Records the wake-ups of this thread from now on, with [`thread_parks`] and [`thread_woke`]. Has
/// no effect if the system does not report the run delay of a thread (`CONFIG_SCHED_INFO`).
pub(crate) fn record_wake_ups() {
    #[cfg(target_os = "linux")]
    if let Ok(run_delay) = std::fs::File::open("/proc/thread-self/schedstat") {
        let last = WakeUp::default();
        WAKE_UPS.set(Some(ThreadWakeUps { last, run_delay }));
    }
}

/// This thread is about to wait for packets.
pub(crate) fn thread_parks() {
    with_wake_ups(|wake_ups| wake_ups.last.parked_ns = process_ns());
}

/// This thread has waited for packets.
pub(crate) fn thread_woke() {
    with_wake_ups(|wake_ups| {
        wake_ups.last = wake_ups.last.next(process_ns());
        if wake_ups.last.woke_ns.saturating_sub(wake_ups.last.read_ns) >= as_ns(RUN_DELAY_AGE) {
            wake_ups.read_run_delay();
        }
    });
}

fn with_wake_ups(update: impl FnOnce(&mut ThreadWakeUps)) {
    WAKE_UPS.with_borrow_mut(|wake_ups| {
        if let Some(wake_ups) = wake_ups {
            update(wake_ups);
        }
    });
}

/// How much earlier than `at_ns` the first bytes of a read that this thread has just made can have
/// arrived, if those of the read before arrived at `last_ns`; `None` if unknown.
fn arrival_slack_ns(at_ns: u64, last_ns: u64) -> Option<u64> {
    WAKE_UPS.with_borrow_mut(|wake_ups| {
        let wake_ups = wake_ups.as_mut()?;
        if !wake_ups.last.is_read {
            wake_ups.read_run_delay();
        }
        let earliest_ns = wake_ups.last.earliest_ns?;
        Some(slack_ns(at_ns, earliest_ns, last_ns))
    })
}

impl ThreadWakeUps {
    fn read_run_delay(&mut self) {
        self.last = match self.run_delay_ns() {
            Some(run_delay_ns) => self.last.with_run_delay(process_ns(), run_delay_ns),
            None => WakeUp::default(),
        };
    }

    /// The second number of `schedstat` (see "scheduler statistics" in the kernel's documentation).
    #[cfg(target_os = "linux")]
    fn run_delay_ns(&self) -> Option<u64> {
        use std::os::unix::fs::FileExt as _;
        let mut text = [0; 80];
        let read = self.run_delay.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(&text[..read]).ok()?;
        text.split_ascii_whitespace().nth(1)?.parse().ok()
    }

    #[cfg(not(target_os = "linux"))]
    fn run_delay_ns(&self) -> Option<u64> {
        None
    }
}

impl WakeUp {
    /// The next wake-up.
    fn next(self, woke_ns: u64) -> Self {
        Self {
            woke_ns,
            before_ns: self.woke_ns,
            is_read: false,
            earliest_ns: None,
            ..self
        }
    }

    /// Adds the run delay up to now.
    ///
    /// A packet wakes a sleeping thread at once. From then on the thread is able to run, so a
    /// packet waited for at most the run delay since the last reading, which was before that. If
    /// the thread may not have slept, because packets were there before it waited, they arrived
    /// after it last looked.
    fn with_run_delay(self, read_ns: u64, run_delay_ns: u64) -> Self {
        let delayed_ns = run_delay_ns.saturating_sub(self.run_delay_ns) + as_ns(WAKE_UP);
        let slept = self.woke_ns.saturating_sub(self.parked_ns) > delayed_ns;
        let earliest_ns = match self.before_ns {
            0 => None,
            _ if slept => Some(self.woke_ns - delayed_ns),
            before_ns => Some(before_ns.saturating_sub(as_ns(WAKE_UP))),
        };
        Self {
            run_delay_ns,
            read_ns,
            is_read: true,
            earliest_ns,
            ..self
        }
    }
}

/// How much earlier than `at_ns` the first bytes of a read can have arrived: not before the last
/// bytes of the previous read, and not before the thread was able to run.
///
/// On a busy machine the kernel can hold packets back after it has stamped them. Then they arrived
/// before they could wake the thread.
fn slack_ns(at_ns: u64, earliest_ns: u64, last_ns: u64) -> u64 {
    let was_held_back = at_ns + as_ns(WAKE_UP) < earliest_ns;
    let earliest_ns = if was_held_back {
        last_ns
    } else {
        earliest_ns.max(last_ns)
    };
    let slack_ns = at_ns.saturating_sub(earliest_ns);
    if slack_ns > as_ns(WAKE_UP) {
        slack_ns
    } else {
        0
    }
}

/// Number of implausible stamps so far, in this process.
pub(super) fn implausible_stamps() -> u64 {
    IMPLAUSIBLE_STAMPS.load(Ordering::Relaxed)
}

/// Both clocks at one instant, retried if the thread is interrupted between the readings. `None` if
/// every attempt was interrupted.
fn both_clocks() -> Option<BothClocks> {
    let mut before_ns = process_ns();
    for _ in 0..QUICK_ATTEMPTS {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let after_ns = process_ns();
        if after_ns - before_ns <= as_ns(SAME_INSTANT) {
            return Some(BothClocks {
                process_ns: after_ns,
                wall,
            });
        }
        before_ns = after_ns;
    }
    None
}

/// Nanoseconds, saturating at 584 years.
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

    /// In milliseconds: both clocks at the previous read and now, the arrival of the previous
    /// bytes, and the stamp; then the expected arrival, `None` for a refused stamp.
    #[track_caller]
    fn check_stamp(
        before: Option<(u64, u64)>,
        arrived: u64,
        now: (u64, u64),
        stamp: u64,
        expected: Option<u64>,
    ) {
        let ns = |ms: u64| ms * 1_000_000;
        let both = |(process, wall): (u64, u64)| BothClocks {
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
    fn stamps_count_while_both_clocks_advance_alike() {
        let before = Some((1_000, 51_000));
        // The bytes waited for 40 ms, and for none.
        check_stamp(before, 1_000, (2_000, 52_000), 51_960, Some(1_960));
        check_stamp(before, 1_000, (2_000, 52_000), 52_000, Some(2_000));
        check_stamp(None, 1_000, (2_000, 52_000), 51_500, Some(1_500));
        // A client that slept for an hour and reads bytes of half an hour ago, while the wall clock
        // was slewed by 0.05 %.
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
        // Forward by 5 s between packet and read; back by 5 s; by one second.
        check_stamp(before, 1_000, (2_000, 57_000), 51_999, None);
        check_stamp(before, 1_000, (2_000, 47_000), 51_999, None);
        check_stamp(before, 1_000, (20_000, 71_000), 70_000, None);
        // The next stamp is by the new clock and counts again.
        check_stamp(
            Some((2_000, 57_000)),
            2_000,
            (3_000, 58_000),
            57_990,
            Some(2_990),
        );
        // A stamp in the future, and one before the previous bytes.
        check_stamp(before, 1_000, (2_000, 52_000), 52_100, None);
        check_stamp(before, 1_900, (2_000, 52_000), 51_500, None);
        check_stamp(None, 1_000, (2_000, 52_000), 0, None);
    }

    #[test]
    fn a_read_without_a_stamp_does_not_bound_later_bytes() {
        let mut last = LastRead {
            clocks: None,
            arrived_ns: 0,
        };
        let before = process_ns();
        let read_ns = last.arrived(None).at_ns;
        assert!(read_ns >= before);
        let ns = |ms: u64| ms * 1_000_000;
        // The next bytes were in the socket before that read.
        let (now, waited_ns) = (
            BothClocks {
                process_ns: read_ns + ns(1),
                wall: Duration::from_secs(52),
            },
            ns(1) + read_ns / 2,
        );
        assert_eq!(
            last.check_stamp_at(now.wall - Duration::from_nanos(waited_ns), now),
            Some(read_ns - read_ns / 2)
        );
        let later = BothClocks {
            process_ns: now.process_ns + ns(5),
            wall: now.wall + Duration::from_millis(5),
        };
        assert_eq!(
            last.check_stamp_at(Duration::from_secs(40), later),
            None,
            "no earlier than the previous bytes"
        );
        assert_eq!(
            last.arrived_ns, later.process_ns,
            "the instant of the read is used"
        );
    }

    #[test]
    fn a_packet_waits_at_most_for_the_run_delay() {
        const US: u64 = 1_000;
        let read = |wake_up: WakeUp, run_delay_us: u64| {
            wake_up.with_run_delay(wake_up.woke_ns, run_delay_us * US)
        };
        let first = read(WakeUp::default().next(100 * US), 5);
        assert_eq!(first.earliest_ns, None, "the wait before it is not known");
        let parked = WakeUp {
            parked_ns: 200 * US,
            ..first
        };
        let woken = parked.next(980 * US);
        // Slept until 900 us and waited 60 us for a core.
        assert_eq!(read(woken, 65).earliest_ns, Some((980 - 60 - 20) * US));
        // Waited for a core all the time: the packets may have been there before.
        assert_eq!(read(woken, 800).earliest_ns, Some((100 - 20) * US));
        // A wake-up without a reading: the waits before count as well.
        let parked_again = WakeUp {
            parked_ns: 1_000 * US,
            ..woken
        };
        let woken_again = parked_again.next(1_500 * US);
        assert_eq!(
            read(woken_again, 65).earliest_ns,
            Some((1_500 - 60 - 20) * US)
        );
        assert_eq!(read(woken_again, 800).earliest_ns, Some((980 - 20) * US));
    }

    #[test]
    fn packets_that_were_held_back_can_have_arrived_since_the_last_read() {
        const US: u64 = 1_000;
        for (at_us, earliest_us, last_us, expected_us) in [
            (1_000, 990, 500, 0),
            (1_000, 900, 500, 100),
            (1_000, 900, 950, 50),
            (1_000, 1_010, 500, 0),
            (1_000, 1_100, 500, 500),
        ] {
            let found = slack_ns(at_us * US, earliest_us * US, last_us * US);
            assert_eq!(found, expected_us * US, "{at_us} {earliest_us} {last_us}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn arrivals_have_slack_only_on_threads_that_record_wake_ups() {
        let slack_ns = || LastRead::new().arrived(None).slack_ns(1);
        assert_eq!(slack_ns(), None);
        if !std::path::Path::new("/proc/thread-self/schedstat").exists() {
            return;
        }
        record_wake_ups();
        assert_eq!(slack_ns(), None, "no wake-up yet");
        for _ in 0..2 {
            thread_parks();
            thread_woke();
        }
        assert!(slack_ns().is_some());
    }

    #[test]
    fn an_implausible_stamp_is_counted() {
        let refused = implausible_stamps();
        let mut last = LastRead::new();
        // On a busy machine some attempts to read both clocks at one instant fail, and then no
        // stamp is checked.
        while last.arrived(Some(Duration::ZERO)).at_ns != last.arrived_ns {}
        assert!(implausible_stamps() > refused);
    }

    #[test]
    fn clocks_with_a_shared_start_agree() {
        let start = start_in(Duration::from_secs(3600));
        let clocks = [Clock::start_at(start), Clock::start_at(start)];
        assert_eq!(clocks[0].started(), clocks[1].started());
        assert_eq!(
            clocks[0].since_start_ns(start.process_ns + 5),
            clocks[1].since_start_ns(start.process_ns + 5)
        );
        assert_eq!(
            (clocks[0].now_ns(), clocks[0].since_start_ns(process_ns())),
            (0, 0),
            "the start is in the future"
        );
    }

    #[test]
    fn a_start_by_the_wall_clock_is_waited_for_by_the_monotonic_clock() {
        let clocks = BothClocks {
            process_ns: process_ns() + 1_000_000_000,
            wall: Duration::from_secs(1_800_000_000),
        };
        let start = start_by(clocks, Duration::from_secs(1_800_000_060)).unwrap();
        assert_eq!(start.process_ns, clocks.process_ns + 60_000_000_000);
        assert_eq!(start.wall, UNIX_EPOCH + Duration::from_secs(1_800_000_060));
        let passed = BothClocks {
            process_ns: 0,
            ..clocks
        };
        process_ns();
        assert_eq!(start_by(passed, Duration::from_secs(1_799_999_999)), None);
        assert_eq!(start_by(passed, passed.wall), None, "now is too late");
        assert_eq!(
            start_at_wall_time(UNIX_EPOCH + Duration::from_secs(1)),
            None
        );
        let soon_ns = unix_ns() + 60_000_000_000;
        assert_eq!(
            start_at_unix_ns(soon_ns).map(|start| start.wall),
            Some(UNIX_EPOCH + Duration::from_nanos(soon_ns))
        );
        assert_eq!(start_at_unix_ns(0), None);
    }

    #[tokio::test]
    async fn no_request_is_sent_early() {
        let clock = Clock::start();
        let due = Duration::from_millis(3);
        clock.sleep_until(due).await;
        assert!(clock.now_ns() >= as_ns(due));
        clock.sleep_until(Duration::ZERO).await;
    }
}
