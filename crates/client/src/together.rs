//! Several runs that begin at one instant, each on a thread of its own: where they wait for each
//! other. Knows no request.
//!
//! Each run has a [`Seat`] and goes through the same steps: it gets ready in its turn, meets the
//! others, begins with them, meets them again when all have ended, and is done in its turn. A seat
//! that is dropped is waited for no longer, so that a run that fails holds nobody up.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;

use super::clock::{Begin, begin_at, begin_in};
use super::coordinate::Coordination;
use sobench_core::error::{Error, Result};
use sobench_core::load::ErrorLimits;
use sobench_core::shard::ClockOffset;
use sobench_shutdown::Shutdown;

/// From the instant at which everybody has come to the begin: time for every thread to wake up.
const LEAD: Duration = Duration::from_millis(20);

/// How far off the shared begin requests of several runs that are due together go out, one after
/// the other. A kernel's timer is good to some 0.1 ms; with twice that between them they go out in
/// the order that is meant, more often than not.
pub const PHASE: Duration = Duration::from_micros(200);

/// The steps of a run that has gone.
const GONE: u32 = u32::MAX;

/// What a run heeds from outside.
#[derive(Debug)]
pub struct Outside<'a> {
    /// Drained by the run itself when it passes its error limits.
    pub shutdown: Shutdown,
    pub error_limits: ErrorLimits,
    pub beginning: Beginning<'a>,
}

/// When a run begins.
#[derive(Debug, Default)]
pub enum Beginning<'a> {
    /// As soon as it is ready.
    #[default]
    AtOnce,
    /// With other runs of this process.
    With(&'a Seat),
    /// At an instant of the wall clock.
    At(SystemTime),
    /// When the other shards of its load do.
    Agreed(&'a mut Coordination),
}

/// What there is before a begin at a given instant to open connections: not so much that a server
/// closes them again.
const OPENING: Duration = Duration::from_secs(2);

impl Beginning<'_> {
    /// Waits for whoever else begins, and has connections opened. Returns the begin, where it is
    /// another one than now, and what the machine's clock was found to be off shard 1's.
    ///
    /// # Errors
    /// The begin has passed; another shard is missing; the user stopped it.
    pub(super) async fn prepare(
        &mut self,
        open: impl Future<Output = ()>,
        shutdown: &Shutdown,
    ) -> Result<(Option<Begin>, Option<ClockOffset>)> {
        match self {
            Self::AtOnce => {
                open.await;
                Ok((None, None))
            }
            Self::With(seat) => {
                open.await;
                Ok((Some(seat.begin().await), None))
            }
            Self::At(start) => {
                let begin = begin_at(*start).ok_or_else(|| passed(*start))?;
                tokio::select! {
                    () = begin.approach(OPENING) => {}
                    () = shutdown.drain_requested() => {
                        return Err(Error::interrupted("stopped before the begin of --start-at").hint("nothing was measured"));
                    }
                }
                open.await;
                Ok((Some(begin), None))
            }
            Self::Agreed(coordination) => {
                let begin = coordination.begin(shutdown).await?;
                open.await;
                Ok((Some(begin), coordination.clock()))
            }
        }
    }

    /// How many other runs of this process go on.
    pub(super) fn others(&self) -> usize {
        match self {
            Self::With(seat) => seat.others(),
            Self::AtOnce | Self::At(_) | Self::Agreed(_) => 0,
        }
    }
}

/// Who is not ready when the run is to begin is late for all of it.
fn passed(start: SystemTime) -> Error {
    let unix_s = start
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs_f64();
    Error::environment(format!(
        "the begin of --start-at passed before the run was ready (seconds since 1970): {unix_s}"
    ))
    .hint(
        "name a later one: loading the dataset, the trial request and the warm-ups come before it",
    )
}

/// One run's place among those that go on at the same time.
#[derive(Debug)]
pub struct Seat {
    place: usize,
    table: Arc<watch::Sender<Table>>,
}

#[derive(Debug)]
struct Table {
    /// How far each has come.
    steps: Vec<u32>,
    /// The begin, by the instant at which the last one came to the latest step.
    begin: Begin,
}

impl From<Shutdown> for Outside<'_> {
    fn from(shutdown: Shutdown) -> Self {
        Self {
            shutdown,
            error_limits: ErrorLimits::default(),
            beginning: Beginning::AtOnce,
        }
    }
}

/// A seat for each of so many runs.
pub fn seats(count: usize) -> Vec<Seat> {
    let table = Arc::new(watch::Sender::new(Table {
        steps: vec![0; count],
        begin: begin_in(Duration::ZERO),
    }));
    (0..count)
        .map(|place| Seat {
            place,
            table: Arc::clone(&table),
        })
        .collect()
}

impl Seat {
    /// Its number, from 0.
    pub fn place(&self) -> usize {
        self.place
    }

    /// How many seats there are, those of runs that have gone included.
    pub fn count(&self) -> usize {
        self.table.borrow().steps.len()
    }

    /// How many other runs have not gone.
    pub(super) fn others(&self) -> usize {
        self.table
            .borrow()
            .steps
            .iter()
            .filter(|steps| **steps != GONE)
            .count()
            .saturating_sub(1)
    }

    /// Waits until everybody before it has gone a step further, or altogether.
    pub async fn turn(&self) {
        self.until(|steps| {
            steps[..self.place]
                .iter()
                .all(|before| *before > steps[self.place])
        })
        .await;
    }

    /// Goes a step further, and waits until everybody who is left has.
    pub async fn meet(&self) {
        self.go(|steps| steps + 1);
        self.until(|steps| steps.iter().all(|other| *other >= steps[self.place]))
            .await;
    }

    /// Meets the others; all of them are told the same instant, which is still to come.
    pub(super) async fn begin(&self) -> Begin {
        self.meet().await;
        // Nobody can have met again before this one goes a step further.
        self.table.borrow().begin
    }

    fn go(&self, further: impl Fn(u32) -> u32) {
        self.table.send_modify(|table| {
            let last = |steps: &[u32]| steps.iter().copied().min();
            let before = last(&table.steps);
            table.steps[self.place] = further(table.steps[self.place]);
            if last(&table.steps) > before {
                table.begin = begin_in(LEAD);
            }
        });
    }

    async fn until(&self, is_reached: impl Fn(&[u32]) -> bool) {
        let waited = self
            .table
            .subscribe()
            .wait_for(|table| is_reached(&table.steps))
            .await
            .map(|_| ());
        waited.expect("this side holds a sender");
    }

    /// The due times of this run, when they are the same for all: request by request another one
    /// goes first, and the others follow it [`PHASE`] apart. What is due at the very begin stays
    /// so, where a burst leaves as fast as it can; nothing overtakes, and what is due by `end`
    /// still is.
    pub fn in_turn(&self, due: &[Duration], end: Option<Duration>) -> Vec<Duration> {
        let count = self.count();
        let mut latest = Duration::ZERO;
        let later = |(index, due): (usize, &Duration)| {
            let ahead = (self.place + index) % count;
            let phase = PHASE.saturating_mul(u32::try_from(ahead).unwrap_or(u32::MAX));
            let shifted = if due.is_zero() {
                *due
            } else {
                due.saturating_add(phase)
            };
            let within = end
                .filter(|end| due <= end)
                .map_or(shifted, |end| shifted.min(end));
            latest = latest.max(within);
            latest
        };
        due.iter().enumerate().map(later).collect()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.go(|_| GONE);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::runtime::Builder;

    use super::*;

    /// Runs that each note what they do, on threads and runtimes of their own.
    fn noted(count: usize, fails: Option<usize>) -> (Vec<(usize, &'static str)>, Vec<Begin>) {
        let (notes, begins) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
        let run = |seat: Seat| {
            let place = seat.place();
            let note = |what: &'static str| notes.lock().unwrap().push((place, what));
            Builder::new_current_thread()
                .build()
                .unwrap()
                .block_on(async {
                    seat.turn().await;
                    note("ready");
                    if fails == Some(place) {
                        return;
                    }
                    seat.meet().await;
                    note("warm");
                    let begin = seat.begin().await;
                    begins.lock().unwrap().push(begin);
                    note("sent");
                    seat.meet().await;
                    seat.turn().await;
                    note("done");
                });
        };
        std::thread::scope(|scope| {
            for seat in seats(count) {
                let run = &run;
                scope.spawn(move || run(seat));
            }
        });
        (notes.into_inner().unwrap(), begins.into_inner().unwrap())
    }

    fn places(notes: &[(usize, &'static str)], what: &str) -> Vec<usize> {
        notes
            .iter()
            .filter(|(_, it)| *it == what)
            .map(|(place, _)| *place)
            .collect()
    }

    #[test]
    fn runs_get_ready_in_turn_begin_together_and_end_in_turn() {
        for fails in [None, Some(0), Some(2), Some(3)] {
            let (notes, begins) = noted(4, fails);
            let left: Vec<usize> = (0..4).filter(|place| fails != Some(*place)).collect();
            assert_eq!(places(&notes, "ready"), [0, 1, 2, 3]);
            assert_eq!(places(&notes, "done"), left, "without {fails:?}");
            let first = |what: &str| notes.iter().position(|(_, it)| *it == what).unwrap();
            let last = |what: &str| notes.iter().rposition(|(_, it)| *it == what).unwrap();
            assert!(
                last("ready") < first("warm")
                    && last("warm") < first("sent")
                    && last("sent") < first("done"),
                "{notes:?}"
            );
            assert!(
                begins.len() == left.len() && begins.iter().all(|begin| *begin == begins[0]),
                "{begins:?}"
            );
        }
    }

    #[test]
    fn another_one_goes_first_at_every_request() {
        let ms = Duration::from_millis;
        let due = [ms(0), ms(10), ms(15), ms(20), ms(30)];
        let all: Vec<Vec<Duration>> = seats(3)
            .iter()
            .map(|seat| seat.in_turn(&due, None))
            .collect();
        assert!(
            all.iter().all(|one| one[0].is_zero() && one.is_sorted()),
            "{all:?}"
        );
        let order = |index: usize| {
            let mut places = [0, 1, 2];
            places.sort_by_key(|place| all[*place][index]);
            places
        };
        assert_eq!(
            [order(1), order(2), order(3), order(4)],
            [[2, 0, 1], [1, 2, 0], [0, 1, 2], [2, 0, 1]]
        );
        for (index, due) in due.iter().enumerate().skip(1) {
            assert!(
                all.iter()
                    .all(|one| one[index] >= *due && one[index] <= *due + 2 * PHASE)
            );
        }
        let together = seats(3)[1].in_turn(&[ms(10), ms(10), ms(10)], None);
        assert_eq!(
            together,
            [ms(10) + PHASE, ms(10) + 2 * PHASE, ms(10) + 2 * PHASE],
            "nothing overtakes"
        );
        let two = seats(2);
        assert_eq!(
            two[1].in_turn(&[ms(2), ms(5), ms(6)], Some(ms(5))),
            [ms(2) + PHASE, ms(5), ms(6) + PHASE],
            "still within the time"
        );
        assert_eq!(two[0].in_turn(&[ms(2), ms(5)], Some(ms(5))), [ms(2), ms(5)]);
        assert_eq!(
            seats(1)[0].in_turn(&due, None),
            due,
            "alone nothing changes"
        );
    }
}
