//! Concurrent runs: start several runs of this process at the same instant, each on its own thread.
//!
//! Each run is a [`Participant`] and takes the same steps: it prepares in its turn, waits for the
//! others, starts with them, waits until all have ended, and finishes in its turn. A dropped
//! participant is no longer waited for, so a failed run does not block the others.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;

use super::clock::{StartInstant, start_at_wall_time, start_in};
use super::coordinate::Coordination;
use sobench_core::error::{Error, Result};
use sobench_core::load::ErrorLimits;
use sobench_core::shard::ClockOffset;
use sobench_shutdown::Shutdown;

/// From the instant at which all are ready to the start: time for every thread to wake up.
const LEAD: Duration = Duration::from_millis(20);

/// Offset between requests of several runs that are due at the same time. The kernel's timer is
/// accurate to about 0.1 ms; with twice that, the requests are usually sent in the intended order.
pub const STAGGER: Duration = Duration::from_micros(200);

/// Step count of a dropped participant.
const DROPPED: u32 = u32::MAX;

/// Run control: shutdown, error limits and start.
#[derive(Debug)]
pub struct RunControl<'a> {
    /// The run also drains this when it exceeds its error limits.
    pub shutdown: Shutdown,
    pub error_limits: ErrorLimits,
    pub start: RunStart<'a>,
}

/// When a run starts.
#[derive(Debug, Default)]
pub enum RunStart<'a> {
    /// As soon as it is ready.
    #[default]
    Immediately,
    /// With other runs of this process.
    WithParticipants(&'a Participant),
    /// At an instant of the wall clock.
    At(SystemTime),
    /// With the other shards of the load.
    Coordinated(&'a mut Coordination),
}

/// How long before a given start instant connections are opened: short enough that a server does
/// not close them again.
const PRECONNECT_TIME: Duration = Duration::from_secs(2);

impl RunStart<'_> {
    /// Waits for the other participants or shards and opens connections. Returns the start instant,
    /// unless it is now, and the clock offset from shard 1, if measured.
    ///
    /// # Errors
    /// The start instant has passed, another shard is missing, or the user stopped the run.
    pub(super) async fn prepare(
        &mut self,
        open: impl Future<Output = ()>,
        shutdown: &Shutdown,
    ) -> Result<(Option<StartInstant>, Option<ClockOffset>)> {
        match self {
            Self::Immediately => {
                open.await;
                Ok((None, None))
            }
            Self::WithParticipants(participant) => {
                open.await;
                Ok((Some(participant.start().await), None))
            }
            Self::At(start) => {
                let start = start_at_wall_time(*start).ok_or_else(|| passed(*start))?;
                tokio::select! {
                    () = start.wait_until_before(PRECONNECT_TIME) => {}
                    () = shutdown.drain_requested() => {
                        return Err(Error::interrupted("stopped while waiting for --start-at").hint("start the run again; no request was sent"));
                    }
                }
                open.await;
                Ok((Some(start), None))
            }
            Self::Coordinated(coordination) => {
                let start = coordination.start(shutdown).await?;
                open.await;
                Ok((Some(start), coordination.clock()))
            }
        }
    }

    /// The number of other runs of this process.
    pub(super) fn other_runs(&self) -> usize {
        match self {
            Self::WithParticipants(participant) => participant.other_runs(),
            Self::Immediately | Self::At(_) | Self::Coordinated(_) => 0,
        }
    }
}

/// The error for a start instant that has passed.
fn passed(start: SystemTime) -> Error {
    let unix_s = start
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs_f64();
    Error::environment(format!(
        "--start-at passed before the run was ready (seconds since 1970): {unix_s}"
    ))
    .hint(
        "give a later time; loading the dataset, the trial request and the warm-ups come before the start",
    )
}

/// One of several concurrent runs.
#[derive(Debug)]
pub struct Participant {
    index: usize,
    state: Arc<watch::Sender<SharedState>>,
}

#[derive(Debug)]
struct SharedState {
    /// Steps that each has taken.
    steps: Vec<u32>,
    /// The start, by the instant at which the last one took the latest step.
    start: StartInstant,
}

impl From<Shutdown> for RunControl<'_> {
    fn from(shutdown: Shutdown) -> Self {
        Self {
            shutdown,
            error_limits: ErrorLimits::default(),
            start: RunStart::Immediately,
        }
    }
}

/// One participant for each of `count` runs.
pub fn participants(count: usize) -> Vec<Participant> {
    let state = Arc::new(watch::Sender::new(SharedState {
        steps: vec![0; count],
        start: start_in(Duration::ZERO),
    }));
    (0..count)
        .map(|index| Participant {
            index,
            state: Arc::clone(&state),
        })
        .collect()
}

impl Participant {
    /// Its index, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The number of participants, including dropped ones.
    pub fn count(&self) -> usize {
        self.state.borrow().steps.len()
    }

    /// The number of other participants that are not dropped.
    pub(super) fn other_runs(&self) -> usize {
        self.state
            .borrow()
            .steps
            .iter()
            .filter(|steps| **steps != DROPPED)
            .count()
            .saturating_sub(1)
    }

    /// Waits until every earlier participant has taken its next step or is dropped.
    pub async fn wait_for_turn(&self) {
        self.wait_until_steps(|steps| {
            steps[..self.index]
                .iter()
                .all(|before| *before > steps[self.index])
        })
        .await;
    }

    /// Takes the next step and waits until every other participant has.
    pub async fn wait_for_all(&self) {
        self.step(|steps| steps + 1);
        self.wait_until_steps(|steps| steps.iter().all(|other| *other >= steps[self.index]))
            .await;
    }

    /// Waits for the others and returns a start instant in the future, the same for all.
    pub(super) async fn start(&self) -> StartInstant {
        self.wait_for_all().await;
        // The value cannot change before this participant takes its next step.
        self.state.borrow().start
    }

    fn step(&self, further: impl Fn(u32) -> u32) {
        self.state.send_modify(|state| {
            let last = |steps: &[u32]| steps.iter().copied().min();
            let before = last(&state.steps);
            state.steps[self.index] = further(state.steps[self.index]);
            if last(&state.steps) > before {
                state.start = start_in(LEAD);
            }
        });
    }

    async fn wait_until_steps(&self, is_reached: impl Fn(&[u32]) -> bool) {
        let waited = self
            .state
            .subscribe()
            .wait_for(|state| is_reached(&state.steps))
            .await
            .map(|_| ());
        waited.expect("this side holds a sender");
    }

    /// The due times of this run, if all runs have the same schedule: for each request another run
    /// goes first, and the others follow [`STAGGER`] apart. Requests that are due at the start stay
    /// there, in a burst; the order is kept, and requests due by `end` remain so.
    pub fn stagger(&self, due: &[Duration], end: Option<Duration>) -> Vec<Duration> {
        let count = self.count();
        let mut latest = Duration::ZERO;
        let later = |(index, due): (usize, &Duration)| {
            let ahead = (self.index + index) % count;
            let phase = STAGGER.saturating_mul(u32::try_from(ahead).unwrap_or(u32::MAX));
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

impl Drop for Participant {
    fn drop(&mut self) {
        self.step(|_| DROPPED);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::runtime::Builder;

    use super::*;

    /// Runs that record their steps, each on its own thread and runtime.
    fn recorded_steps(
        count: usize,
        fails: Option<usize>,
    ) -> (Vec<(usize, &'static str)>, Vec<StartInstant>) {
        let (steps_taken, starts) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
        let run = |participant: Participant| {
            let index = participant.index();
            let note = |what: &'static str| steps_taken.lock().unwrap().push((index, what));
            Builder::new_current_thread()
                .build()
                .unwrap()
                .block_on(async {
                    participant.wait_for_turn().await;
                    note("ready");
                    if fails == Some(index) {
                        return;
                    }
                    participant.wait_for_all().await;
                    note("warm");
                    let start = participant.start().await;
                    starts.lock().unwrap().push(start);
                    note("sent");
                    participant.wait_for_all().await;
                    participant.wait_for_turn().await;
                    note("done");
                });
        };
        std::thread::scope(|scope| {
            for participant in participants(count) {
                let run = &run;
                scope.spawn(move || run(participant));
            }
        });
        (
            steps_taken.into_inner().unwrap(),
            starts.into_inner().unwrap(),
        )
    }

    fn places(steps_taken: &[(usize, &'static str)], what: &str) -> Vec<usize> {
        steps_taken
            .iter()
            .filter(|(_, name)| *name == what)
            .map(|(index, _)| *index)
            .collect()
    }

    #[test]
    fn runs_prepare_in_turn_start_together_and_finish_in_turn() {
        for fails in [None, Some(0), Some(2), Some(3)] {
            let (steps_taken, starts) = recorded_steps(4, fails);
            let left: Vec<usize> = (0..4).filter(|index| fails != Some(*index)).collect();
            assert_eq!(places(&steps_taken, "ready"), [0, 1, 2, 3]);
            assert_eq!(places(&steps_taken, "done"), left, "without {fails:?}");
            let first = |what: &str| {
                steps_taken
                    .iter()
                    .position(|(_, name)| *name == what)
                    .unwrap()
            };
            let last = |what: &str| {
                steps_taken
                    .iter()
                    .rposition(|(_, name)| *name == what)
                    .unwrap()
            };
            assert!(
                last("ready") < first("warm")
                    && last("warm") < first("sent")
                    && last("sent") < first("done"),
                "{steps_taken:?}"
            );
            assert!(
                starts.len() == left.len() && starts.iter().all(|start| *start == starts[0]),
                "{starts:?}"
            );
        }
    }

    #[test]
    fn the_first_run_alternates_by_request() {
        let ms = Duration::from_millis;
        let due = [ms(0), ms(10), ms(15), ms(20), ms(30)];
        let all: Vec<Vec<Duration>> = participants(3)
            .iter()
            .map(|participant| participant.stagger(&due, None))
            .collect();
        assert!(
            all.iter().all(|one| one[0].is_zero() && one.is_sorted()),
            "{all:?}"
        );
        let order = |request: usize| {
            let mut places = [0, 1, 2];
            places.sort_by_key(|index| all[*index][request]);
            places
        };
        assert_eq!(
            [order(1), order(2), order(3), order(4)],
            [[2, 0, 1], [1, 2, 0], [0, 1, 2], [2, 0, 1]]
        );
        for (index, due) in due.iter().enumerate().skip(1) {
            assert!(
                all.iter()
                    .all(|one| one[index] >= *due && one[index] <= *due + 2 * STAGGER)
            );
        }
        let together = participants(3)[1].stagger(&[ms(10), ms(10), ms(10)], None);
        assert_eq!(
            together,
            [ms(10) + STAGGER, ms(10) + 2 * STAGGER, ms(10) + 2 * STAGGER],
            "nothing overtakes"
        );
        let two = participants(2);
        assert_eq!(
            two[1].stagger(&[ms(2), ms(5), ms(6)], Some(ms(5))),
            [ms(2) + STAGGER, ms(5), ms(6) + STAGGER],
            "still within the time"
        );
        assert_eq!(two[0].stagger(&[ms(2), ms(5)], Some(ms(5))), [ms(2), ms(5)]);
        assert_eq!(
            participants(1)[0].stagger(&due, None),
            due,
            "alone nothing changes"
        );
    }
}
