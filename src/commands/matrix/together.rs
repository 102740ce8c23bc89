//! Makes the runs of one turn: one by itself, or several at once, each on a thread of its own.
//! Knows no table.

use std::sync::{Arc, OnceLock};
use std::thread::{self, Builder, ScopedJoinHandle};

use super::gather::Seen;
use super::order::Step;
use crate::commands::bench::options::RunPlan;
use crate::commands::bench::run;
use crate::commands::bench::run::{Company, Finished, Past, Setting};
use sobench_client as driver;
use sobench_core::error::{Error, Result};
use sobench_shutdown::Shutdown;

/// As much stack as the main thread has, on which runs by themselves go: schemas and grammars nest.
const STACK_BYTES: usize = 8 << 20;

/// A run that can be made.
pub(super) struct Ready {
    pub(super) step: Step,
    /// The contender.
    pub(super) name: String,
    pub(super) plan: RunPlan,
    pub(super) past: Past,
}

/// What came of it.
pub(super) struct Outcome {
    pub(super) finished: Result<Finished>,
    /// `None` where it did not come to its end.
    pub(super) seen: Option<Seen>,
    /// Whether lines on it need its name, since they come after those of others.
    pub(super) shows_name: bool,
}

/// Makes one run.
pub(super) fn alone(ready: &Ready, shutdown: &Shutdown) -> Outcome {
    let setting = Setting {
        past: ready.past.clone(),
        shutdown: shutdown.clone(),
        listens: false,
        company: None,
    };
    make(ready, &setting)
}

/// Makes several runs at once. They get ready and are judged one after the other, and are stopped
/// together.
pub(super) fn together(ready: &[Ready], shutdown: &Shutdown) -> Vec<Outcome> {
    let progress = Arc::new(OnceLock::new());
    let setting = |(seat, run): (driver::Seat, &Ready)| {
        let others = ready
            .iter()
            .filter(|other| other.name != run.name)
            .map(|other| other.name.clone())
            .collect();
        let company = Company {
            seat,
            progress: Arc::clone(&progress),
            others,
        };
        Setting {
            past: run.past.clone(),
            shutdown: shutdown.clone(),
            listens: false,
            company: Some(company),
        }
    };
    let settings: Vec<Setting> = driver::seats(ready.len())
        .into_iter()
        .zip(ready)
        .map(setting)
        .collect();
    thread::scope(|scope| {
        let mut runs = Vec::with_capacity(ready.len());
        for (setting, run) in settings.into_iter().zip(ready) {
            let thread = Builder::new()
                .name(format!("run-{}", run.step.contender))
                .stack_size(STACK_BYTES);
            // The setting goes with it: when the run is over, however it ends, nobody waits for it
            // any more.
            runs.push(thread.spawn_scoped(scope, move || make(run, &setting)));
        }
        runs.into_iter().map(ended).collect()
    })
}

fn ended(run: std::io::Result<ScopedJoinHandle<'_, Outcome>>) -> Outcome {
    let failed = |error: Error| Outcome {
        finished: Err(error),
        seen: None,
        shows_name: true,
    };
    match run.map(ScopedJoinHandle::join) {
        Ok(Ok(outcome)) => Outcome {
            shows_name: true,
            ..outcome
        },
        Ok(Err(_)) => failed(Error::internal("a run panicked")),
        Err(error) => failed(Error::environment(format!("no thread for a run: {error}"))),
    }
}

fn make(ready: &Ready, setting: &Setting) -> Outcome {
    let mut seen = None;
    let finished = run::run_in(&ready.plan, setting, &mut |log| {
        seen = Some(Seen::of(log, &ready.past))
    });
    Outcome {
        finished,
        seen,
        shows_name: false,
    }
}
