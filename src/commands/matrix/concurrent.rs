//! Executes the runs of one round: a single run, or several concurrent ones with a thread each.

use std::sync::{Arc, OnceLock};
use std::thread::{self, Builder, ScopedJoinHandle};

use super::aggregate::RunSamples;
use super::run_order::Step;
use crate::commands::bench::options::RunPlan;
use crate::commands::bench::run::{self, ConcurrentRuns, Finished, RunContext, ServerHistory};
use crate::terminal::{self, ProgressPrefix};
use sobench_client::{Participant, participants};
use sobench_core::error::{Error, Result};
use sobench_shutdown::Shutdown;

/// The stack of the main thread, which executes single runs. Schemas and grammars nest deeply.
const STACK_BYTES: usize = 8 << 20;

/// A run that is ready to execute.
pub(super) struct PreparedRun {
    pub(super) step: Step,
    /// The name of the contender.
    pub(super) name: String,
    pub(super) plan: RunPlan,
    pub(super) past: ServerHistory,
}

/// The outcome of a run.
pub(super) struct RunOutcome {
    pub(super) finished: Result<Finished>,
    /// `None` if the run did not reach its end.
    pub(super) samples: Option<Result<RunSamples>>,
    /// Warnings and notices of the run, in order.
    pub(super) notes: Vec<String>,
    /// Whether its closing lines need a label, because they follow those of concurrent runs.
    pub(super) needs_label: bool,
}

/// Executes one run.
pub(super) fn run_alone(
    run: &PreparedRun,
    prefix: ProgressPrefix,
    shutdown: &Shutdown,
) -> RunOutcome {
    let setting = RunContext {
        history: run.past.clone(),
        shutdown: shutdown.clone(),
        listens: false,
        concurrent: None,
        prefix: Some(prefix),
    };
    execute(run, &setting)
}

/// Executes several concurrent runs. Preparation and judging are sequential, and a shutdown stops
/// all of them.
pub(super) fn run_concurrently(
    prepared: &[PreparedRun],
    prefix: &ProgressPrefix,
    shutdown: &Shutdown,
) -> Vec<RunOutcome> {
    let progress = Arc::new(OnceLock::new());
    let setting = |(seat, run): (Participant, &PreparedRun)| {
        let others = prepared
            .iter()
            .filter(|other| other.name != run.name)
            .map(|other| other.name.clone())
            .collect();
        let concurrent = ConcurrentRuns {
            seat,
            progress: Arc::clone(&progress),
            others,
        };
        RunContext {
            history: run.past.clone(),
            shutdown: shutdown.clone(),
            listens: false,
            concurrent: Some(concurrent),
            prefix: Some(prefix.clone()),
        }
    };
    let settings: Vec<RunContext> = participants(prepared.len())
        .into_iter()
        .zip(prepared)
        .map(setting)
        .collect();
    thread::scope(|scope| {
        let mut runs = Vec::with_capacity(prepared.len());
        for (setting, run) in settings.into_iter().zip(prepared) {
            let thread = Builder::new()
                .name(format!("run-{}", run.step.contender))
                .stack_size(STACK_BYTES);
            // The thread owns the setting: when the run ends for any reason, the others stop
            // waiting for it.
            runs.push(thread.spawn_scoped(scope, move || execute(run, &setting)));
        }
        runs.into_iter().map(join).collect()
    })
}

fn join(run: std::io::Result<ScopedJoinHandle<'_, RunOutcome>>) -> RunOutcome {
    let failed = |error: Error| RunOutcome {
        finished: Err(error),
        samples: None,
        notes: Vec::new(),
        needs_label: true,
    };
    match run.map(ScopedJoinHandle::join) {
        Ok(Ok(outcome)) => RunOutcome {
            needs_label: true,
            ..outcome
        },
        Ok(Err(_)) => failed(Error::internal("a run panicked")),
        Err(error) => failed(Error::environment(format!(
            "cannot start a thread for a run: {error}"
        ))),
    }
}

fn execute(run: &PreparedRun, setting: &RunContext) -> RunOutcome {
    let mut samples = None;
    let (finished, notes) = terminal::collect_notes(|| {
        run::run_in_context(&run.plan, setting, &mut |log| {
            samples = Some(RunSamples::new(log, &run.past));
        })
    });
    RunOutcome {
        finished,
        samples,
        notes,
        needs_label: false,
    }
}
