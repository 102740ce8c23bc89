//! Run context: constraints the server has already compiled, the shutdown token, and concurrent
//! runs.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::terminal::{self, InputProgress, InputUnit, Mode, Progress, ProgressPrefix};
use sobench_client::{Participant, STAGGER};
use sobench_core::error::{Error, Result};
use sobench_core::schedule::Until;
use sobench_notices::notice::{BenchNotice, Notice};
use sobench_shutdown::{Listener, Shutdown, Stage};

/// Run context.
pub struct RunContext {
    pub history: ServerHistory,
    pub shutdown: Shutdown,
    /// Whether the run handles signals itself once it sends. In a matrix, the matrix does.
    pub listens: bool,
    pub concurrent: Option<ConcurrentRuns>,
    /// The place of the run in a matrix.
    pub prefix: Option<ProgressPrefix>,
}

/// Constraints that the server has compiled before the run.
#[derive(Clone, Debug, Default)]
pub struct ServerHistory {
    /// Fingerprints of constraints.
    pub sent: HashSet<String>,
    /// Whether the list is complete: the server is embedded and had no other requests.
    pub is_whole: bool,
}

/// Concurrent runs, each on its own thread.
pub struct ConcurrentRuns {
    pub seat: Participant,
    /// The progress of all of them.
    pub progress: Arc<OnceLock<Progress>>,
    /// The names of the other runs.
    pub others: Vec<String>,
}

impl ServerHistory {
    /// Whether the server has certainly not compiled this constraint.
    pub(super) fn excludes(&self, fingerprint: &str) -> bool {
        self.is_whole && !self.sent.contains(fingerprint)
    }
}

impl RunContext {
    /// Waits for the turn of this run to prepare.
    ///
    /// # Errors
    /// The user stopped it.
    pub(super) fn wait_for_turn(&self, runtime: &Runtime) -> Result<()> {
        if let Some(concurrent) = &self.concurrent {
            runtime.block_on(concurrent.seat.wait_for_turn());
        }
        if self.shutdown.is_requested() {
            Err(stopped_early())
        } else {
            Ok(())
        }
    }

    /// Waits until all runs are ready.
    pub(super) fn meet(&self, runtime: &Runtime) {
        if let Some(concurrent) = &self.concurrent {
            runtime.block_on(concurrent.seat.wait_for_all());
        }
    }

    /// Waits until all runs have finished sending, then for the turn to judge and report. Judging
    /// takes CPU time that would disturb runs that still measure.
    pub(super) fn wait_for_all(&self, runtime: &Runtime) {
        if let Some(concurrent) = &self.concurrent {
            self.meet(runtime);
            if let Some(progress) = concurrent.progress.get() {
                progress.finish();
            }
            runtime.block_on(concurrent.seat.wait_for_turn());
        }
    }

    /// The shutdown token of a part of the run that can drain, and its signal listener.
    ///
    /// # Errors
    /// The listener thread cannot be started.
    pub(super) fn listen(&self) -> Result<(Shutdown, Option<Listener>)> {
        if !self.listens {
            return Ok((self.shutdown.child(), None));
        }
        let shutdown = self.shutdown.from_now();
        let listener = shutdown.listen(report_shutdown_stage)?;
        Ok((shutdown, Some(listener)))
    }

    /// The due times of this run. Concurrent runs alternate in going first.
    pub(super) fn due(&self, due: Vec<Duration>, until: Until) -> Vec<Duration> {
        match &self.concurrent {
            Some(concurrent) => concurrent.seat.stagger(&due, until.time()),
            None => due,
        }
    }

    /// The progress of the preparation, if it is `wanted`: lines in a matrix, which has a bar of its
    /// own.
    pub(super) fn preparation(&self, wanted: bool, unit: InputUnit) -> InputProgress {
        let mode = match Mode::detect(wanted) {
            Mode::Bar if self.prefix.is_some() || self.concurrent.is_some() => Mode::Lines,
            mode => mode,
        };
        InputProgress::new(mode, 0, unit)
    }

    /// The number of concurrent runs, including this one.
    pub(super) fn runs(&self) -> usize {
        1 + self
            .concurrent
            .as_ref()
            .map_or(0, |concurrent| concurrent.others.len())
    }

    /// The notice on concurrent runs.
    pub(super) fn notice(&self) -> Option<Notice> {
        let concurrent = self.concurrent.as_ref()?;
        let apart_us = STAGGER.as_micros() as u64;
        Some(
            BenchNotice::ConcurrentRuns {
                others: concurrent.others.clone(),
                apart_us,
            }
            .into(),
        )
    }
}

/// Reports a signal to a user whose requests are in flight.
pub fn report_shutdown_stage(stage: Stage) {
    terminal::say(match stage {
        Stage::Draining => {
            "stopping: requests in flight may end; press Ctrl-C again to cut them off"
        }
        Stage::Running | Stage::Aborting => "stopping now",
    });
}

/// The error of a run that was stopped before its start.
pub(super) fn stopped_early() -> Error {
    Error::interrupted("stopped before the start of the run").hint("nothing was measured")
}
