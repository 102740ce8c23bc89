//! What a run heeds besides its plan: what its server knows already, and other runs that go on at the same time. Knows no request.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::driver::{self, PHASE, Seat, Stop, StopState, Stopper};
use crate::error::{Error, Result};
use crate::load::ErrorLimits;
use crate::notice::{BenchNotice, Notice};
use crate::schedule::Until;
use crate::shutdown::Wishes;
use crate::terminal::Progress;

/// What a run heeds besides its plan.
#[derive(Default)]
pub struct Setting {
    pub past: Past,
    /// The user's wish to end, where somebody heeds it for several runs; without one, the run listens for itself while it sends.
    pub stop: Option<Stop>,
    pub company: Option<Company>,
}

/// What the server was sent before, as fingerprints of constraints.
#[derive(Clone, Debug)]
pub enum Past {
    /// At least these; it may have been sent others by others.
    Partly(HashSet<String>),
    /// These and no others: it is ours, and has done nothing else since it was started.
    Wholly(HashSet<String>),
}

/// Other runs that go on at the same time, each on a thread of its own.
pub struct Company {
    pub seat: Seat,
    /// The one progress that all of them are counted in.
    pub progress: Arc<OnceLock<Progress>>,
    /// The names of the others.
    pub others: Vec<String>,
}

/// What a run is stopped by.
pub(super) struct Listening {
    pub(super) stop: Stop,
    /// For the run itself, which may give up.
    pub(super) stopper: Stopper,
    /// Who hears the user's wish, or that of all runs.
    pub(super) watcher: JoinHandle<()>,
}

/// How many errors a run puts up with, and what it is stopped by then.
pub(super) type Breaking = (ErrorLimits, Stopper);

impl Default for Past {
    fn default() -> Self {
        Self::Partly(HashSet::new())
    }
}

impl Past {
    /// Whether the server is known never to have been sent this.
    pub(super) fn excludes(&self, fingerprint: &str) -> bool {
        matches!(self, Self::Wholly(known) if !known.contains(fingerprint))
    }

    /// What it is known to have been sent.
    pub(super) fn constraints(&self) -> &HashSet<String> {
        match self {
            Self::Partly(known) | Self::Wholly(known) => known,
        }
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
        match self.wish().state() {
            StopState::Running => Ok(()),
            StopState::Draining | StopState::Now => Err(stopped_early()),
        }
    }

    /// The wish to end that is everybody's; one that nobody will have where the run is by itself.
    pub(super) fn wish(&self) -> Stop {
        self.stop.clone().unwrap_or_else(Stop::never)
    }

    /// Waits until everybody is ready.
    pub(super) fn meet(&self, runtime: &Runtime) {
        if let Some(company) = &self.company {
            runtime.block_on(company.seat.meet());
        }
    }

    /// Waits until everybody has sent and heard everything, and then for the turn to judge and to report: that takes CPU time, which
    /// those who still measure are not to miss.
    pub(super) fn wait_for_all(&self, runtime: &Runtime) {
        if let Some(company) = &self.company {
            self.meet(runtime);
            if let Some(progress) = company.progress.get() {
                progress.finish();
            }
            runtime.block_on(company.seat.turn());
        }
    }

    /// The stop of this run alone, and who signals it.
    pub(super) fn listen(&self, runtime: &Runtime) -> Listening {
        let (stopper, stop) = driver::stop();
        let _on_it = runtime.enter();
        let watcher = match &self.stop {
            Some(of_all) => runtime.spawn(stopper.clone().follow(of_all.clone())),
            None => runtime.spawn(super::watch_wishes(stopper.clone(), Wishes::listen())),
        };
        Listening { stop, stopper, watcher }
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
        Some(BenchNotice::ConcurrentRuns { others: company.others.clone(), apart_us }.into())
    }
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
