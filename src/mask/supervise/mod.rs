//! The parent's side: children that each measure one entry after another, watched over. Knows no engine and no corpus.
//!
//! A child that dies, hangs or says nonsense costs the row it was at; what that row had is kept, another child takes the next
//! entry, and the last entry is always reached. Ctrl-C ends the children and keeps the rows that are whole.

mod child;
mod death;
mod proof;
mod turns;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use child::{Child, Next};
pub(super) use proof::Answered;
use turns::Turns;

use super::assemble::{Assembly, Progress, Turn};
use super::clock::Stopwatch;
use super::corpus::Selected;
use super::plan::WorkerCommand;
use super::protocol::{BatchJob, Event, Job, Ready, Setup, entry_line};
use super::record::BatchRow;
use super::row::{Row, StopCause};
use crate::engine::EngineName;
use crate::error::{Error, Result};
use crate::shutdown::Shutdown;

/// How long a child may take to open its engine.
pub(super) const OPEN_TIMEOUT: Duration = Duration::from_secs(120);

/// How often opening is tried in the middle of a run.
const OPEN_TRIES: u32 = 3;

/// How long a batch may take: its own limit of steps and seconds, and compiling for it.
const BATCH_TIMEOUT: Duration = Duration::from_secs(180);

/// How often a wait looks up whether the user has stopped the run.
const LOOK_UP: Duration = Duration::from_millis(50);

/// Children of one engine, and what holds for each of them.
pub(super) struct Supervisor<'a> {
    command: &'a WorkerCommand,
    setup: Setup,
    timeout: Duration,
    jobs: usize,
    shutdown: &'a Shutdown,
    started: AtomicUsize,
    /// The child that was opened to see what the engine is, until the first entry is its job.
    probed: Mutex<Option<Box<Child>>>,
}

/// A row, and the most resident memory of the child that made it.
pub(super) struct Made {
    pub(super) row: Row,
    pub(super) peak_rss_bytes: Option<u64>,
}

/// What came of a job, and the child that did it if it can do another.
type Worked<T> = (T, Option<Box<Child>>);

/// Has a child do one job; nothing where the user stopped the run.
type One<'a, J, T> = dyn Fn(Box<Child>, &J) -> Result<Option<Worked<T>>> + Sync + 'a;

/// What became of a child's opening.
enum Opened {
    Ready(Box<Child>, Ready),
    Interrupted,
}

/// What became of a batch.
pub(super) enum Batched {
    Row(BatchRow),
    /// There is none, for this reason.
    Failed(String),
    Interrupted,
}

impl<'a> Supervisor<'a> {
    /// `timeout` is what the engine may take for one entry, and our evaluator too.
    pub(super) fn new(command: &'a WorkerCommand, setup: Setup, timeout: Duration, jobs: usize, shutdown: &'a Shutdown) -> Self {
        Self { command, setup, timeout, jobs, shutdown, started: AtomicUsize::new(0), probed: Mutex::new(None) }
    }

    /// Children that were started to measure entries.
    pub(super) fn started(&self) -> usize {
        self.started.load(Ordering::SeqCst)
    }

    fn engine(&self) -> EngineName {
        self.setup.engine
    }

    fn is_stopped(&self) -> bool {
        self.shutdown.is_requested()
    }

    /// Opens the engine in a child to see what it is; `None` where the user stopped the run.
    ///
    /// # Errors
    /// The engine cannot be opened.
    pub(super) fn probe(&self) -> Result<Option<Ready>> {
        match self.open()? {
            Opened::Ready(child, ready) => {
                *self.probed() = Some(child);
                Ok(Some(ready))
            }
            Opened::Interrupted => Ok(None),
        }
    }

    fn probed(&self) -> MutexGuard<'_, Option<Box<Child>>> {
        self.probed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Measures every entry, and hands each row to `made` as it is done, in whatever order. Ends early only where the user stops it.
    ///
    /// # Errors
    /// A child cannot be started, or its engine cannot be opened; and the errors of `made`.
    pub(super) fn run(&self, entries: &[&Selected], made: &mut dyn FnMut(Made) -> Result<()>) -> Result<()> {
        self.each(entries, &|child, entry| self.row(child, entry), made)
    }

    /// Has children do something with every job, each child with one job after the other, and hands each result to `made`.
    fn each<J: Sync, T: Send>(&self, jobs: &[J], one: &One<'_, J, T>, made: &mut dyn FnMut(T) -> Result<()>) -> Result<()> {
        let next = AtomicUsize::new(0);
        let failed = AtomicBool::new(false);
        thread::scope(|scope| {
            let (sender, rows) = sync_channel(self.jobs * 2);
            let workers = self.jobs.min(jobs.len());
            for _ in 0..workers {
                let (sender, next, failed) = (sender.clone(), &next, &failed);
                scope.spawn(move || self.work(jobs, one, next, failed, &sender));
            }
            drop(sender);
            let mut result = Ok(());
            for row in rows {
                let taken = row.and_then(&mut *made);
                if taken.is_err() {
                    failed.store(true, Ordering::SeqCst);
                }
                result = result.and(taken);
            }
            result
        })
    }

    /// One child's share, and that of those who take its place.
    fn work<J, T>(&self, jobs: &[J], one: &One<'_, J, T>, next: &AtomicUsize, failed: &AtomicBool, rows: &SyncSender<Result<T>>) {
        let mut idle: Option<Box<Child>> = None;
        while !self.is_stopped() && !failed.load(Ordering::SeqCst) {
            let Some(job) = jobs.get(next.fetch_add(1, Ordering::SeqCst)) else { break };
            let child = match idle.take().map_or_else(|| self.reopen(), |child| Ok(Some(child))) {
                Ok(Some(child)) => child,
                Ok(None) => break,
                Err(error) => {
                    // Whoever takes the rows is gone only after an error of its own.
                    let _ = rows.send(Err(error));
                    break;
                }
            };
            let (made, left) = match one(child, job) {
                Ok(Some((made, left))) => (Ok(made), left),
                Ok(None) => break,
                Err(error) => (Err(error), None),
            };
            idle = left;
            if rows.send(made).is_err() {
                break;
            }
        }
    }

    /// Has a child measure an entry. Nothing where the user stopped the run; no child where it did not survive.
    fn row(&self, child: Box<Child>, entry: &&Selected) -> Result<Option<Worked<Made>>> {
        let watch = Stopwatch::start();
        let mut turns = Turns::new(self.timeout);
        let mut assembly = Assembly::new(entry, self.engine());
        child.send(entry_line(&entry.json));
        let (cause, words, after_ns) = loop {
            let progress = match self.wait(&child, watch, turns.deadline()) {
                Waited::Event(event) => assembly.event(*event),
                Waited::Garbage => Progress::Nonsense,
                Waited::Interrupted => return Ok(None),
                Waited::TimedOut => {
                    let peak_rss_bytes = child.peak_rss_bytes();
                    child.kill();
                    let who = match assembly.turn() {
                        Turn::Oracle => "our own evaluator ",
                        Turn::Engine => "",
                    };
                    let words = format!("{who}took longer than {} s", self.timeout.as_secs_f64());
                    let row = assembly.stopped(StopCause::Timeout, &words, watch.elapsed_ns());
                    return Ok(Some((Made { row, peak_rss_bytes }, None)));
                }
                Waited::Ended if self.is_stopped() => return Ok(None),
                Waited::Ended => {
                    let after_ns = watch.elapsed_ns();
                    let (cause, words) = death::cause(&child.bury());
                    break (cause, words, after_ns);
                }
            };
            match progress {
                Progress::GoesOn => {}
                Progress::Turn(turn) => turns.begin(turn, watch.elapsed()),
                Progress::Complete => {
                    let (row, peak_rss_bytes) = assembly.complete();
                    return Ok(Some((Made { row, peak_rss_bytes }, Some(child))));
                }
                Progress::Crashed { words } => {
                    let after_ns = watch.elapsed_ns();
                    child.bury();
                    break (StopCause::Crash, words, after_ns);
                }
                Progress::Unreadable { words } => {
                    let what = format!("child process could not read its job, {}: {words}", entry.name);
                    return Err(
                        Error::internal(what).hint("this is a fault of sobench, unless the program was replaced while it ran")
                    );
                }
                Progress::Nonsense => {
                    child.kill();
                    break (StopCause::Crash, "the child process broke the protocol".to_owned(), watch.elapsed_ns());
                }
            }
        };
        let row = assembly.stopped(cause, &words, after_ns);
        Ok(Some((Made { row, peak_rss_bytes: None }, None)))
    }

    /// Has a fresh child run a batch.
    ///
    /// # Errors
    /// As [`Supervisor::run`].
    pub(super) fn batch(&self, batch: BatchJob) -> Result<Batched> {
        let sequences = batch.sequences;
        let child = match self.open()? {
            Opened::Ready(child, _) => *child,
            Opened::Interrupted => return Ok(Batched::Interrupted),
        };
        let job = serde_json::to_string(&Job::Batch(batch)).expect("a batch holds only strings, numbers and JSON values");
        child.send(job);
        let watch = Stopwatch::start();
        let failed = |words: &str| {
            let name = self.engine().name();
            Ok(Batched::Failed(format!("no figures of {name} for {sequences} sequences at once: {words}")))
        };
        match self.wait(&child, watch, BATCH_TIMEOUT) {
            Waited::Event(event) => match *event {
                Event::Batch(row) => Ok(Batched::Row(row)),
                Event::Crashed { words } | Event::Unreadable { words } => failed(&words),
                _ => failed("the child process broke the protocol"),
            },
            Waited::Garbage => failed("the child process broke the protocol"),
            Waited::Interrupted => Ok(Batched::Interrupted),
            Waited::TimedOut => failed(&format!("took longer than {} s", BATCH_TIMEOUT.as_secs())),
            Waited::Ended => failed(&death::cause(&child.bury()).1),
        }
    }

    /// A child in the place of one that is gone, or the first one. The engine has been opened before, so that a failure may be the
    /// machine's for a moment.
    fn reopen(&self) -> Result<Option<Box<Child>>> {
        if let Some(child) = self.probed().take() {
            self.started.fetch_add(1, Ordering::SeqCst);
            return Ok(Some(child));
        }
        let mut tries = 1..=OPEN_TRIES;
        loop {
            let last = tries.next() == Some(OPEN_TRIES);
            match self.open() {
                Ok(Opened::Ready(child, _)) => {
                    self.started.fetch_add(1, Ordering::SeqCst);
                    return Ok(Some(child));
                }
                Ok(Opened::Interrupted) => return Ok(None),
                Err(error) if last => return Err(error),
                Err(_) => {}
            }
        }
    }

    fn open(&self) -> Result<Opened> {
        let program = self.command.program.display();
        let name = self.engine().name();
        let child = Child::start(self.command)
            .map_err(|error| Error::environment(format!("cannot start {program} as a child process: {error}")))?;
        child.send(serde_json::to_string(&self.setup).expect("a setup holds only strings and numbers"));
        let too_slow = || Error::environment(format!("engine is not open after {} s: {name}", OPEN_TIMEOUT.as_secs()));
        let broken = || Err(Error::internal(format!("child process broke the protocol while it opened {name}")));
        match self.wait(&child, Stopwatch::start(), OPEN_TIMEOUT) {
            Waited::Event(event) => match *event {
                Event::Ready(ready) => Ok(Opened::Ready(Box::new(child), ready)),
                Event::CannotOpen { what, hint } => {
                    let error = Error::usage(what);
                    Err(match hint {
                        Some(hint) => error.hint(hint),
                        None => error,
                    })
                }
                _ => broken(),
            },
            Waited::Garbage => broken(),
            Waited::Interrupted => Ok(Opened::Interrupted),
            Waited::TimedOut => Err(too_slow()),
            Waited::Ended if self.is_stopped() => Ok(Opened::Interrupted),
            Waited::Ended => {
                let words = death::cause(&child.bury()).1;
                Err(Error::environment(format!("child process ended before {name} was open: {words}"))
                    .hint("give it more memory with --memory-limit-mib"))
            }
        }
    }

    /// Waits for an event until `deadline` on the watch, or until the user stops the run.
    fn wait(&self, child: &Child, watch: Stopwatch, deadline: Duration) -> Waited {
        loop {
            if self.is_stopped() {
                return Waited::Interrupted;
            }
            let left = deadline.saturating_sub(watch.elapsed());
            match child.next(left.min(LOOK_UP)) {
                Next::Event(event) => return Waited::Event(event),
                Next::Garbage => return Waited::Garbage,
                Next::Ended => return Waited::Ended,
                Next::Nothing if left.is_zero() => return Waited::TimedOut,
                Next::Nothing => {}
            }
        }
    }
}

/// What came of waiting.
enum Waited {
    Event(Box<Event>),
    Interrupted,
    TimedOut,
    Garbage,
    Ended,
}
