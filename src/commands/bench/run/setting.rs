//! Run context: constraints the server has already compiled, the shutdown token, and concurrent
//! runs.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::terminal::{self, Progress};
use sobench_client::{PHASE, Seat};
use sobench_core::error::{Error, Result};
use sobench_core::schedule::Until;
use sobench_notices::notice::{BenchNotice, Notice};
use sobench_shutdown::{Listener, Shutdown, Stage};

/// Run context.
pub struct Setting {
    pub past: Past,
    pub shutdown: Shutdown,
    /// Whether the run listens for signals itself, from when it sends. In a matrix the matrix does,
    /// for all its runs.
    pub listens: bool,
    pub company: Option<Company>,
}

/// What the server was sent before the run.
#[derive(Clone, Debug, Default)]
pub struct Past {
    /// Fingerprints of constraints.
    pub sent: HashSet<String>,
    /// Whether it was sent no others: it is ours, and has done nothing else since it was started.
    pub is_whole: bool,
}

/// Other runs that go on at the same time, each on a thread of its own.
pub struct Company {
    pub seat: Seat,
    /// The one progress that all of them are counted in.
    pub progress: Arc<OnceLock<Progress>>,
    /// The names of the others.
    pub others: Vec<String>,
}

impl Past {
    /// Whether the server is known never to have been sent this.
    pub(super) fn excludes(&self, fingerprint: &str) -> bool {
        self.is_whole && !self.sent.contains(fingerprint)
    }
}

impl Setting {
    /// Waits for the turn to get ready, which is at once where there is nobody else.
    ///
    /// # Errors
    /// The user stopped it meanwhile.
    pub(super) fn wait_for_turn(&self, runtime: &Runtime) -> Result<()> {
        if let Some(company) = &self.company {
            runtime.block_on(company.seat.turn());
        }
        if self.shutdown.is_requested() {
            Err(stopped_early())
        } else {
            Ok(())
        }
    }

    /// Waits until everybody is ready.
    pub(super) fn meet(&self, runtime: &Runtime) {
        if let Some(company) = &self.company {
            runtime.block_on(company.seat.meet());
        }
    }

    /// Waits until everybody has sent and heard everything, and then for the turn to judge and to
    /// report: that takes CPU time, which those who still measure are not to miss.
    pub(super) fn wait_for_all(&self, runtime: &Runtime) {
        if let Some(company) = &self.company {
            self.meet(runtime);
            if let Some(progress) = company.progress.get() {
                progress.finish();
            }
            runtime.block_on(company.seat.turn());
        }
    }

    /// The token of a part of the run that can drain, and what reports its signals.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn listen(&self) -> Result<(Shutdown, Option<Listener>)> {
        if !self.listens {
            return Ok((self.shutdown.child(), None));
        }
        let shutdown = self.shutdown.from_now();
        let listener = shutdown.listen(report_stage)?;
        Ok((shutdown, Some(listener)))
    }

    /// The run's due times, so that of several runs another one goes first at every request.
    pub(super) fn due(&self, due: Vec<Duration>, until: Until) -> Vec<Duration> {
        match &self.company {
            Some(company) => company.seat.in_turn(&due, until.time()),
            None => due,
        }
    }

    /// How many runs go on at once.
    pub(super) fn runs(&self) -> usize {
        self.company.as_ref().map_or(1, Company::runs)
    }

    /// What the reader of the run has to know.
    pub(super) fn notice(&self) -> Option<Notice> {
        let company = self.company.as_ref()?;
        let apart_us = PHASE.as_micros() as u64;
        Some(
            BenchNotice::ConcurrentRuns {
                others: company.others.clone(),
                apart_us,
            }
            .into(),
        )
    }
}

/// Reports a signal to a user whose requests are in flight.
pub fn report_stage(stage: Stage) {
    terminal::say(match stage {
        Stage::Draining => {
            "stopping: requests under way may end; press Ctrl-C again to cut them off"
        }
        Stage::Running | Stage::Aborting => "stopping now",
    });
}

/// Why a run does not begin.
pub(super) fn stopped_early() -> Error {
    Error::interrupted("stopped before it began").hint("nothing was measured")
}

impl Company {
    /// How many runs go on at once, this one included.
    pub(super) fn runs(&self) -> usize {
        self.others.len() + 1
    }
}
