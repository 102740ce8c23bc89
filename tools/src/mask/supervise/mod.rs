//! The supervisor in the parent process: starts child processes, distributes jobs and enforces time
//! limits.
//!
//! A child that dies, hangs or violates the protocol costs the row it was working on. The data of
//! that row so far is kept, and another child takes the next entry, so every entry is reached. A
//! shutdown request ends the children and keeps all complete rows.

mod proof;
mod time_budget;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use time_budget::TimeBudget;

use super::clock::Stopwatch;
use super::corpus::Selected;
use super::protocol::{BROKEN, BatchJob, Event, Job, Ready, Setup, entry_line};
use super::record::BatchRow;
use super::row::{Row, StopCause};
use super::row_builder::{Progress, RowBuilder, TimeOwner};
use sobench_core::error::{Error, Result};
use sobench_notices::notice::MaskNotice;
use sobench_process::child::{ChildExit, WorkerCommand};
use sobench_process::exit_cause;
use sobench_shutdown::Shutdown;

/// Time limit for opening an engine.
pub(super) const OPEN_TIMEOUT: Duration = Duration::from_secs(120);

/// Attempts to open an engine during a run.
const OPEN_TRIES: u32 = 3;

/// Time limit of a batch, including compilation.
const BATCH_TIMEOUT: Duration = Duration::from_secs(180);

/// A child process of a measurement.
type Child = sobench_process::child::Child<Event>;

/// Interval at which waits check for a shutdown request.
const SHUTDOWN_POLL: Duration = Duration::from_millis(50);

/// Child processes of one engine with their common settings.
pub(super) struct Supervisor<'a> {
    command: &'a WorkerCommand,
    setup: Setup,
    timeout: Duration,
    jobs: usize,
    shutdown: &'a Shutdown,
    started: AtomicUsize,
    /// The child of [`Supervisor::probe`], kept for the first entry.
    probed: Mutex<Option<Box<Child>>>,
}

/// A row and the peak resident memory of its child.
pub(super) struct MeasuredRow {
    pub(super) row: Row,
    pub(super) peak_rss_bytes: Option<u64>,
}

/// The result of a job, and the child if it can take another job.
type JobOutcome<T> = (T, Option<Box<Child>>);

/// Runs one job in a child; `None` on a shutdown request.
type RunJob<'a, J, T> = dyn Fn(Box<Child>, &J) -> Result<Option<JobOutcome<T>>> + Sync + 'a;

/// The result of a batch.
pub(super) enum Batched {
    Row(BatchRow),
    /// The batch failed.
    Failed(MaskNotice),
    Interrupted,
}

impl<'a> Supervisor<'a> {
    /// `timeout` limits the engine per entry, and separately the evaluator.
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

    /// Number of children that were started for entries.
    pub(super) fn started(&self) -> usize {
        self.started.load(Ordering::SeqCst)
    }

    /// Opens the engine in a child and returns its description; `None` on a shutdown request.
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

    /// Measures every entry and passes each row to `on_result` in order of completion. Stops early
    /// on a shutdown request.
    ///
    /// # Errors
    /// A child cannot be started, its engine cannot be opened, or `on_result` fails.
    pub(super) fn run(
        &self,
        entries: &[&Selected],
        on_result: &mut dyn FnMut(MeasuredRow) -> Result<()>,
    ) -> Result<()> {
        self.run_each(
            entries,
            &|child, entry| self.measure_row(child, entry),
            on_result,
        )
    }

    /// Runs every job in child processes, one job per child at a time, and passes each result to
    /// `on_result`.
    fn run_each<J: Sync, T: Send>(
        &self,
        jobs: &[J],
        run_job: &RunJob<'_, J, T>,
        on_result: &mut dyn FnMut(T) -> Result<()>,
    ) -> Result<()> {
        let next = AtomicUsize::new(0);
        let failed = AtomicBool::new(false);
        thread::scope(|scope| {
            let (sender, results) = sync_channel(self.jobs * 2);
            let workers = self.jobs.min(jobs.len());
            for _ in 0..workers {
                let (sender, next, failed) = (sender.clone(), &next, &failed);
                scope.spawn(move || self.run_worker(jobs, run_job, next, failed, &sender));
            }
            drop(sender);
            let mut result = Ok(());
            for result_of_job in results {
                let handled = result_of_job.and_then(&mut *on_result);
                if handled.is_err() {
                    failed.store(true, Ordering::SeqCst);
                }
                result = result.and(handled);
            }
            result
        })
    }

    /// Runs jobs in one child at a time until there are none left.
    fn run_worker<J, T>(
        &self,
        jobs: &[J],
        run_job: &RunJob<'_, J, T>,
        next: &AtomicUsize,
        failed: &AtomicBool,
        results: &SyncSender<Result<T>>,
    ) {
        let mut idle: Option<Box<Child>> = None;
        while !self.shutdown.is_requested() && !failed.load(Ordering::SeqCst) {
            let Some(job) = jobs.get(next.fetch_add(1, Ordering::SeqCst)) else {
                break;
            };
            let result = match self
                .child_or_new(idle.take())
                .and_then(|child| child.map_or(Ok(None), |child| run_job(child, job)))
            {
                Ok(Some((result, left))) => {
                    idle = left;
                    Ok(result)
                }
                Ok(None) => break,
                Err(error) => Err(error),
            };
            let is_last = result.is_err();
            // The receiver is closed only after an error of its own.
            if results.send(result).is_err() || is_last {
                break;
            }
        }
    }

    /// Measures an entry in a child. `None` on a shutdown request; no child if it did not survive.
    fn measure_row(
        &self,
        child: Box<Child>,
        entry: &&Selected,
    ) -> Result<Option<JobOutcome<MeasuredRow>>> {
        let watch = Stopwatch::start();
        let mut budget = TimeBudget::new(self.timeout, TimeOwner::Oracle);
        let mut builder = RowBuilder::new(entry, self.setup.engine);
        child.send(entry_line(&entry.json));
        let (cause, message, peak_rss_bytes, after_ns) = loop {
            let waited = self.wait(&child, watch, budget.deadline());
            let after_ns = watch.elapsed_ns();
            match waited {
                WaitResult::Event(event) => match builder.event(*event) {
                    Progress::Continue => {}
                    Progress::TimeOwner(owner) => budget.switch_to(owner, watch.elapsed()),
                    Progress::Complete => {
                        let (row, peak_rss_bytes) = builder.complete();
                        return Ok(Some((
                            MeasuredRow {
                                row,
                                peak_rss_bytes,
                            },
                            Some(child),
                        )));
                    }
                    Progress::Crashed(message) => {
                        child.kill();
                        break (StopCause::Crash, message, None, after_ns);
                    }
                    Progress::Unreadable(message) => {
                        let what = format!(
                            "child process could not parse its job, {}: {message}",
                            entry.name
                        );
                        let hint = "report this bug, unless the sobench executable was replaced during the run";
                        return Err(Error::internal(what).hint(hint));
                    }
                },
                WaitResult::Interrupted => return Ok(None),
                WaitResult::TimedOut => {
                    let peak_rss_bytes = child.peak_rss_bytes();
                    child.kill();
                    let prefix = if budget.current() == TimeOwner::Oracle {
                        "evaluator "
                    } else {
                        ""
                    };
                    break (
                        StopCause::Timeout,
                        format!("{prefix}{}", timeout_message(self.timeout)),
                        peak_rss_bytes,
                        after_ns,
                    );
                }
                WaitResult::Ended => {
                    let (cause, message) = classify(&child.wait_then_kill());
                    break (cause, message, None, after_ns);
                }
            }
        };
        let row = builder.stopped(cause, &message, after_ns);
        Ok(Some((
            MeasuredRow {
                row,
                peak_rss_bytes,
            },
            None,
        )))
    }

    /// Runs a batch in a new child.
    ///
    /// # Errors
    /// As [`Supervisor::run`].
    pub(super) fn run_batch(&self, batch: BatchJob) -> Result<Batched> {
        let sequences = batch.sequences;
        let Some((child, _)) = self.open()? else {
            return Ok(Batched::Interrupted);
        };
        let job = serde_json::to_string(&Job::Batch(batch))
            .expect("a batch holds only strings, numbers and JSON values");
        child.send(job);
        let why = match self.wait(&child, Stopwatch::start(), BATCH_TIMEOUT) {
            WaitResult::Event(event) => match *event {
                Event::Batch(row) => return Ok(Batched::Row(row)),
                Event::Crashed { message } | Event::Unreadable { message } => message,
                _ => BROKEN.to_owned(),
            },
            WaitResult::Interrupted => return Ok(Batched::Interrupted),
            WaitResult::TimedOut => timeout_message(BATCH_TIMEOUT),
            WaitResult::Ended => classify(&child.wait_then_kill()).1,
        };
        let engine = self.setup.engine.name().to_owned();
        Ok(Batched::Failed(MaskNotice::BatchFailed {
            engine,
            sequences,
            why,
        }))
    }

    /// The idle child or a new one. The engine was opened before, so a failure may be temporary and
    /// is retried.
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

    /// A new child with an open engine; `None` on a shutdown request.
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
            WaitResult::Event(event) => match *event {
                Event::Ready(ready) => Ok(Some((Box::new(child), ready))),
                Event::CannotOpen { what, hint } => Err(Error {
                    hint,
                    ..Error::usage(what)
                }),
                _ => Err(Error::internal(format!(
                    "child process broke the protocol while it opened {name}"
                ))),
            },
            WaitResult::Interrupted => Ok(None),
            WaitResult::TimedOut => Err(Error::environment(format!(
                "engine did not open within {} s: {name}",
                OPEN_TIMEOUT.as_secs()
            ))),
            WaitResult::Ended => {
                let message = classify(&child.wait_then_kill()).1;
                Err(Error::environment(format!(
                    "child process ended before {name} was open: {message}"
                ))
                .hint("raise --memory-limit-mib"))
            }
        }
    }

    /// Waits for an event until `deadline` on the stopwatch, or until a shutdown request.
    fn wait(&self, child: &Child, watch: Stopwatch, deadline: Duration) -> WaitResult {
        loop {
            if self.shutdown.is_requested() {
                return WaitResult::Interrupted;
            }
            let left = deadline.saturating_sub(watch.elapsed());
            match child.next(left.min(SHUTDOWN_POLL)) {
                Ok(Some(event)) => return WaitResult::Event(event),
                Ok(None) => {
                    let message = BROKEN.to_owned();
                    return WaitResult::Event(Box::new(Event::Crashed { message }));
                }
                Err(RecvTimeoutError::Disconnected) if self.shutdown.is_requested() => {
                    return WaitResult::Interrupted;
                }
                Err(RecvTimeoutError::Disconnected) => return WaitResult::Ended,
                Err(RecvTimeoutError::Timeout) if left.is_zero() => return WaitResult::TimedOut,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

/// Why a child exited, and a message.
fn classify(exit: &ChildExit) -> (StopCause, String) {
    match exit_cause::classify(exit) {
        (true, message) => (StopCause::OutOfMemory, message),
        (false, message) => (StopCause::Crash, message),
    }
}

fn timeout_message(limit: Duration) -> String {
    format!("took longer than {} s", limit.as_secs_f64())
}

/// The result of waiting for an event.
enum WaitResult {
    Event(Box<Event>),
    Interrupted,
    TimedOut,
    /// The child closed its output.
    Ended,
}
