//! The parent's side: children that each measure one entry after another, watched over. Knows no
//! engine and no corpus.
//!
//! A child that dies, hangs or says nonsense costs the row it was at; what that row had is kept,
//! another child takes the next entry, and the last entry is always reached. Ctrl-C ends the
//! children and keeps the rows that are whole.

mod child;
mod death;
mod proof;
mod turns;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use child::Child;
use turns::Turns;

use super::assemble::{Assembly, Progress, Turn};
use super::clock::Stopwatch;
use super::corpus::Selected;
use super::plan::WorkerCommand;
use super::protocol::{BROKEN, BatchJob, Event, Job, Ready, Setup, entry_line};
use super::record::BatchRow;
use super::row::{Row, StopCause};
use sobench_core::error::{Error, Result};
use sobench_notices::notice::MaskNotice;
use sobench_shutdown::Shutdown;

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

/// What became of a batch.
pub(super) enum Batched {
    Row(BatchRow),
    /// There is none, for this reason.
    Failed(MaskNotice),
    Interrupted,
}

impl<'a> Supervisor<'a> {
    /// `timeout` is what the engine may take for one entry, and our evaluator too.
    pub(super) fn new(
        command: &'a WorkerCommand,
        setup: Setup,
        timeout: Duration,
        jobs: usize,
        shutdown: &'a Shutdown,
    ) -> Self {
        Self {
            command,
            setup,
            timeout,
            jobs,
            shutdown,
            started: AtomicUsize::new(0),
            probed: Mutex::new(None),
        }
    }

    /// Children that were started to measure entries.
    pub(super) fn started(&self) -> usize {
        self.started.load(Ordering::SeqCst)
    }

    /// Opens the engine in a child to see what it is; `None` where the user stopped the run.
    ///
    /// # Errors
    /// The engine cannot be opened.
    pub(super) fn probe(&self) -> Result<Option<Ready>> {
        Ok(self.open()?.map(|(child, ready)| {
            *self.probed() = Some(child);
            ready
        }))
    }

    fn probed(&self) -> MutexGuard<'_, Option<Box<Child>>> {
        self.probed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Measures every entry, and hands each row to `made` as it is done, in whatever order. Ends
    /// early only where the user stops it.
    ///
    /// # Errors
    /// A child cannot be started, or its engine cannot be opened; and the errors of `made`.
    pub(super) fn run(
        &self,
        entries: &[&Selected],
        made: &mut dyn FnMut(Made) -> Result<()>,
    ) -> Result<()> {
        self.each(entries, &|child, entry| self.row(child, entry), made)
    }

    /// Has children do something with every job, each child with one job after the other, and hands
    /// each result to `made`.
    fn each<J: Sync, T: Send>(
        &self,
        jobs: &[J],
        one: &One<'_, J, T>,
        made: &mut dyn FnMut(T) -> Result<()>,
    ) -> Result<()> {
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
    fn work<J, T>(
        &self,
        jobs: &[J],
        one: &One<'_, J, T>,
        next: &AtomicUsize,
        failed: &AtomicBool,
        rows: &SyncSender<Result<T>>,
    ) {
        let mut idle: Option<Box<Child>> = None;
        while !self.shutdown.is_requested() && !failed.load(Ordering::SeqCst) {
            let Some(job) = jobs.get(next.fetch_add(1, Ordering::SeqCst)) else {
                break;
            };
            let made = match self
                .child_or_new(idle.take())
                .and_then(|child| child.map_or(Ok(None), |child| one(child, job)))
            {
                Ok(Some((made, left))) => {
                    idle = left;
                    Ok(made)
                }
                Ok(None) => break,
                Err(error) => Err(error),
            };
            let is_last = made.is_err();
            // Whoever takes the rows is gone only after an error of its own.
            if rows.send(made).is_err() || is_last {
                break;
            }
        }
    }

    /// Has a child measure an entry. Nothing where the user stopped the run; no child where it did
    /// not survive.
    fn row(&self, child: Box<Child>, entry: &&Selected) -> Result<Option<Worked<Made>>> {
        let watch = Stopwatch::start();
        let mut turns = Turns::new(self.timeout, Turn::Oracle);
        let mut assembly = Assembly::new(entry, self.setup.engine);
        child.send(entry_line(&entry.json));
        let (cause, words, peak_rss_bytes, after_ns) = loop {
            let waited = self.wait(&child, watch, turns.deadline());
            let after_ns = watch.elapsed_ns();
            match waited {
                Waited::Event(event) => match assembly.event(*event) {
                    Progress::GoesOn => {}
                    Progress::Turn(turn) => turns.begin(turn, watch.elapsed()),
                    Progress::Complete => {
                        let (row, peak_rss_bytes) = assembly.complete();
                        return Ok(Some((
                            Made {
                                row,
                                peak_rss_bytes,
                            },
                            Some(child),
                        )));
                    }
                    Progress::Crashed(words) => {
                        child.kill();
                        break (StopCause::Crash, words, None, after_ns);
                    }
                    Progress::Unreadable(words) => {
                        let what = format!(
                            "child process could not read its job, {}: {words}",
                            entry.name
                        );
                        let hint = "this is a fault of sobench, unless the program was replaced while it ran";
                        return Err(Error::internal(what).hint(hint));
                    }
                },
                Waited::Interrupted => return Ok(None),
                Waited::TimedOut => {
                    let peak_rss_bytes = child.peak_rss_bytes();
                    child.kill();
                    let who = if turns.turn() == Turn::Oracle {
                        "our own evaluator "
                    } else {
                        ""
                    };
                    break (
                        StopCause::Timeout,
                        format!("{who}{}", too_long(self.timeout)),
                        peak_rss_bytes,
                        after_ns,
                    );
                }
                Waited::Ended => {
                    let (cause, words) = death::cause(&child.bury());
                    break (cause, words, None, after_ns);
                }
            }
        };
        let row = assembly.stopped(cause, &words, after_ns);
        Ok(Some((
            Made {
                row,
                peak_rss_bytes,
            },
            None,
        )))
    }

    /// Has a fresh child run a batch.
    ///
    /// # Errors
    /// As [`Supervisor::run`].
    pub(super) fn batch(&self, batch: BatchJob) -> Result<Batched> {
        let sequences = batch.sequences;
        let Some((child, _)) = self.open()? else {
            return Ok(Batched::Interrupted);
        };
        let job = serde_json::to_string(&Job::Batch(batch))
            .expect("a batch holds only strings, numbers and JSON values");
        child.send(job);
        let why = match self.wait(&child, Stopwatch::start(), BATCH_TIMEOUT) {
            Waited::Event(event) => match *event {
                Event::Batch(row) => return Ok(Batched::Row(row)),
                Event::Crashed { words } | Event::Unreadable { words } => words,
                _ => BROKEN.to_owned(),
            },
            Waited::Interrupted => return Ok(Batched::Interrupted),
            Waited::TimedOut => too_long(BATCH_TIMEOUT),
            Waited::Ended => death::cause(&child.bury()).1,
        };
        let engine = self.setup.engine.name().to_owned();
        Ok(Batched::Failed(MaskNotice::BatchFailed {
            engine,
            sequences,
            why,
        }))
    }

    /// The child that is idle, or another one. The engine has been opened before, so that a failure
    /// may be the machine's for a moment.
    fn child_or_new(&self, idle: Option<Box<Child>>) -> Result<Option<Box<Child>>> {
        if idle.is_some() {
            return Ok(idle);
        }
        let mut child = self.probed().take();
        if child.is_none() {
            let opened = (1..OPEN_TRIES).find_map(|_| self.open().ok());
            child = opened
                .map_or_else(|| self.open(), Ok)?
                .map(|(child, _)| child);
        }
        self.started
            .fetch_add(usize::from(child.is_some()), Ordering::SeqCst);
        Ok(child)
    }

    /// A new child that has its engine; `None` where the user stopped the run.
    fn open(&self) -> Result<Option<(Box<Child>, Ready)>> {
        let (program, name) = (self.command.program.display(), self.setup.engine.name());
        let child = Child::start(self.command).map_err(|error| {
            Error::environment(format!(
                "cannot start {program} as a child process: {error}"
            ))
        })?;
        child.send(
            serde_json::to_string(&self.setup).expect("a setup holds only strings and numbers"),
        );
        match self.wait(&child, Stopwatch::start(), OPEN_TIMEOUT) {
            Waited::Event(event) => match *event {
                Event::Ready(ready) => Ok(Some((Box::new(child), ready))),
                Event::CannotOpen { what, hint } => Err(Error {
                    hint,
                    ..Error::usage(what)
                }),
                _ => Err(Error::internal(format!(
                    "child process broke the protocol while it opened {name}"
                ))),
            },
            Waited::Interrupted => Ok(None),
            Waited::TimedOut => Err(Error::environment(format!(
                "engine is not open after {} s: {name}",
                OPEN_TIMEOUT.as_secs()
            ))),
            Waited::Ended => {
                let words = death::cause(&child.bury()).1;
                Err(Error::environment(format!(
                    "child process ended before {name} was open: {words}"
                ))
                .hint("give it more memory with --memory-limit-mib"))
            }
        }
    }

    /// Waits for an event until `deadline` on the watch, or until the user stops the run.
    fn wait(&self, child: &Child, watch: Stopwatch, deadline: Duration) -> Waited {
        loop {
            if self.shutdown.is_requested() {
                return Waited::Interrupted;
            }
            let left = deadline.saturating_sub(watch.elapsed());
            match child.next(left.min(LOOK_UP)) {
                Ok(event) => return Waited::Event(event),
                Err(RecvTimeoutError::Disconnected) if self.shutdown.is_requested() => {
                    return Waited::Interrupted;
                }
                Err(RecvTimeoutError::Disconnected) => return Waited::Ended,
                Err(RecvTimeoutError::Timeout) if left.is_zero() => return Waited::TimedOut,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

fn too_long(limit: Duration) -> String {
    format!("took longer than {} s", limit.as_secs_f64())
}

/// What came of waiting.
enum Waited {
    Event(Box<Event>),
    Interrupted,
    TimedOut,
    /// The child has closed its output.
    Ended,
}
