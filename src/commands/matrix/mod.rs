//! Comparisons of engines, servers, datasets and loads: executes ordinary runs in balanced order,
//! concurrently if possible, and aggregates them in one table.

mod aggregate;
mod concurrent;
pub mod dry_run;
pub mod findings;
mod launch;
pub mod notes;
pub mod options;
mod pairs;
mod progress;
mod run_order;
mod sweep;
pub mod verdicts;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::rc::Rc;

use tokio::runtime::Runtime;

use self::aggregate::Aggregate;
use self::concurrent::{PreparedRun, RunOutcome, run_alone, run_concurrently};
use self::launch::{LaunchedGroup, LaunchedServer};
use self::notes::Notes;
use self::progress::{MatrixProgress, RunCount};
use self::run_order::{Dimensions, Sequence, Step, SweepGroup, rounds, sweep_groups, sweep_turn};
use self::sweep::Search;
use crate::commands::bench::dry_run::DryRun;
use crate::commands::bench::options::RunLogPlan;
use crate::commands::bench::run::{self, ServerHistory, report_shutdown_stage};
use crate::commands::matrix::options::{
    ContenderPlan, ContenderServer, MatrixPlan, Order, PlannedRun,
};
use crate::commands::output::{CommandOutput, check_writable, paths};
use crate::terminal;
use sobench_core::case::Arm;
use sobench_core::error::{Error, ErrorKind, Result};
use sobench_core::exit_codes::{ENVIRONMENT, INTERRUPTED, SUCCESS};
use sobench_core::output_files::create_parent_folder;
use sobench_plan::record::EngineChoice;
use sobench_report::contenders::{Load, MatrixRun, render, render_text};
use sobench_runlog::write::cannot_write;
use sobench_shutdown::{Shutdown, Stage};

/// Executes the runs and prints the comparison.
///
/// # Errors
/// A file cannot be written; the user stopped the command before the first run ended. A failed run
/// is a row of the table.
pub fn command(plan: &MatrixPlan, shutdown: &Shutdown) -> Result<CommandOutput> {
    check_writable(paths(&plan.files))?;
    check_inputs(plan)?;
    let rounds = rounds(&dimensions(plan));
    for step in rounds.iter().flatten() {
        create_log_folder(plan, step)?;
    }
    let runtime = Runtime::new()
        .map_err(|error| Error::environment(format!("cannot start threads: {error}")))?;
    let group = LaunchedGroup::default();
    let launched = group.clone();
    let _listener = shutdown.listen(move |stage| {
        report_shutdown_stage(stage);
        if stage == Stage::Aborting {
            launched.terminate();
        }
    })?;
    let mut runner = MatrixRunner {
        plan: Rc::new(plan.clone()),
        runtime: &runtime,
        shutdown,
        group,
        server: None,
        sent: HashMap::new(),
        skipped: HashSet::new(),
        aggregate: Aggregate::default(),
        notes: Notes::default(),
        progress: MatrixProgress::default(),
    };
    let mut all: usize = rounds.iter().map(Vec::len).sum();
    let mut before = 0;
    if plan.sweep.is_some() {
        before = runner.run_sweeps();
        all = before;
    }
    for round in rounds.iter().filter(|_| plan.sweep.is_none()) {
        if shutdown.is_requested() {
            break;
        }
        runner.run_round(round, before, RunCount::Exactly(all));
        before += round.len();
    }
    let MatrixRunner {
        plan,
        server,
        aggregate,
        notes,
        progress,
        ..
    } = runner;
    // Stops the server first.
    drop(server);
    for line in notes.lines(all).into_iter().chain(progress.log_lines()) {
        terminal::say(&line);
    }
    finish(&plan, &aggregate, shutdown.is_requested())
}

/// Executes the runs of a comparison.
struct MatrixRunner<'a> {
    /// `--sweep` adds loads to it.
    plan: Rc<MatrixPlan>,
    runtime: &'a Runtime,
    shutdown: &'a Shutdown,
    group: LaunchedGroup,
    /// The running server, with the repeat and the contender that it was started for.
    server: Option<(usize, usize, LaunchedServer)>,
    /// Fingerprints of the constraints that each server has received; see [`MatrixRunner::past`].
    sent: HashMap<usize, HashSet<String>>,
    /// Contenders that failed on a dataset, or on all (`None`).
    skipped: HashSet<(usize, Option<usize>)>,
    aggregate: Aggregate,
    notes: Notes,
    progress: MatrixProgress,
}

impl MatrixRunner<'_> {
    /// Executes the searches of `--sweep`. Returns the number of runs.
    fn run_sweeps(&mut self) -> usize {
        let plan = Rc::clone(&self.plan);
        let dimensions = dimensions(&plan);
        let mut before = 0;
        for repeat in 0..plan.repeats {
            for group in sweep_groups(&dimensions, repeat) {
                if !self.shutdown.is_requested() {
                    self.sweep_group(&dimensions, &group, repeat, &mut before);
                }
            }
        }
        before
    }

    /// Executes the searches of a group in turns: one run of each search that has not ended.
    fn sweep_group(
        &mut self,
        dimensions: &Dimensions<'_>,
        group: &SweepGroup,
        repeat: usize,
        before: &mut usize,
    ) {
        let start = match self.plan.loads[0] {
            Load::RequestRate(rate) => Some(rate),
            Load::AsGiven | Load::MaxConcurrency(_) => None,
        };
        let key = |step: &Step| (step.contender, step.arm == Arm::Control);
        let mut searches: HashMap<(usize, bool), Search> = HashMap::new();
        for turn in 0..sweep::MAX_RUNS {
            for mut round in sweep_turn(dimensions, group, repeat, turn) {
                if self.shutdown.is_requested() {
                    break;
                }
                round.retain_mut(|step| {
                    let search = searches
                        .entry(key(step))
                        .or_insert_with(|| Search::new(start));
                    let Some(load) = search.next() else {
                        return false;
                    };
                    let plan = Rc::make_mut(&mut self.plan);
                    let planned = plan.load_index(load).and_then(|index| {
                        step.load = index;
                        create_log_folder(plan, step)
                    });
                    planned
                        .map_err(|error| search.fail(error.to_string()))
                        .is_ok()
                });
                if round.is_empty() {
                    continue;
                }
                let all = RunCount::AtMost(self.plan.most_sweep_runs());
                self.run_round(&round, *before, all);
                *before += round.len();
                for step in &round {
                    let Some(search) = searches.get_mut(&key(step)) else {
                        continue;
                    };
                    match self.aggregate.sweep_step(&self.plan, step) {
                        Ok(outcome) => search.record(outcome),
                        Err(reason) => search.fail(reason),
                    }
                }
            }
            // The searches of a group have the same rates, so that equal capacities have equal
            // brackets.
            let measured = searches.values().filter_map(Search::measured_start);
            if let Some(rate) = measured.reduce(f64::min) {
                searches
                    .values_mut()
                    .for_each(|search| search.start_at(rate));
            }
        }
        for ((contender, is_control), search) in searches {
            let arm = match is_control {
                true => Arm::Control,
                false => Arm::Constrained,
            };
            let sweep = search.into_sweep(repeat);
            self.aggregate
                .add_sweep(group.dataset, contender, arm, sweep);
        }
    }

    /// Executes the runs of one round, which follow `before` of `all` runs.
    fn run_round(&mut self, round: &[Step], before: usize, all: RunCount) {
        let is_skipped = |step: &Step| {
            [None, Some(step.dataset)]
                .iter()
                .any(|dataset| self.skipped.contains(&(step.contender, *dataset)))
        };
        let left: Vec<(usize, Step)> = round
            .iter()
            .copied()
            .enumerate()
            .filter(|(_, step)| !is_skipped(step) && !self.aggregate.leaves_out(&self.plan, step))
            .collect();
        let labels: Vec<String> = left
            .iter()
            .map(|(_, step)| run_label(&self.plan, step))
            .collect();
        let prefix = self.progress.prefix(before, round.len(), all, &labels);
        let mut numbers = Vec::new();
        let mut prepared = Vec::new();
        for (index, step) in left {
            let number = before + index + 1;
            match self.prepare(&step) {
                Ok(run) => {
                    numbers.push(number);
                    prepared.push(run);
                }
                Err(error) => self.record_error(&step, &error),
            }
        }
        let outcomes = match &prepared[..] {
            [run] => vec![run_alone(run, prefix, self.shutdown)],
            runs => run_concurrently(runs, &prefix, self.shutdown),
        };
        for ((number, run), outcome) in numbers.into_iter().zip(prepared).zip(outcomes) {
            if outcome.needs_label {
                terminal::say(&format!("{}:", run_label(&self.plan, &run.step)));
            }
            self.notes.add(number, &outcome.notes);
            self.record_outcome(&run.step, outcome);
        }
    }

    /// Prepares a run. If its server does not start, the contender is skipped from then on.
    fn prepare(&mut self, step: &Step) -> Result<PreparedRun> {
        let matrix = Rc::clone(&self.plan);
        let contender = &matrix.contenders[step.contender];
        let port = self.start_server(contender, step).inspect_err(|_| {
            self.skipped.insert((step.contender, None));
        })?;
        let planned = contender.run(step.dataset, step.load, step.arm);
        let planned = planned.ok_or_else(|| Error::internal("a run without a plan"))?;
        let mut plan = port.map_or_else(|| planned.clone(), |port| planned.at_port(port));
        if let Some(run_log) = self.plan.run_log(step) {
            plan.output.run_log = run_log;
        }
        plan.settings
            .report
            .label
            .get_or_insert_with(|| run_label(&self.plan, step));
        Ok(PreparedRun {
            step: *step,
            name: contender.name.clone(),
            plan,
            past: self.past(step),
        })
    }

    /// The constraints that the server has received. Contenders with the same server share them.
    fn past(&self, step: &Step) -> ServerHistory {
        let (sent, is_whole) = match self.plan.contenders[step.contender].server {
            // The server is started for the run.
            ContenderServer::Embedded => (None, true),
            ContenderServer::Launched { .. } => (self.sent.get(&self.server_index(step)), true),
            _ => (self.sent.get(&self.server_index(step)), false),
        };
        let sent = sent.cloned().unwrap_or_default();
        ServerHistory { sent, is_whole }
    }

    /// The index of the first contender with the same server.
    fn server_index(&self, step: &Step) -> usize {
        let contenders = &self.plan.contenders;
        let address = contenders[step.contender]
            .address()
            .filter(|_| contenders[step.contender].server == ContenderServer::Running);
        contenders
            .iter()
            .position(|contender| address.is_some() && contender.address() == address)
            .unwrap_or(step.contender)
    }

    /// Adds the outcome of a run to the comparison. If the run failed, the contender is skipped on
    /// this dataset, or on all if its server exited.
    fn record_outcome(&mut self, step: &Step, outcome: RunOutcome) {
        let matrix = Rc::clone(&self.plan);
        let contender = &matrix.contenders[step.contender];
        let finished = match outcome.finished {
            Ok(finished) => finished,
            Err(error) => {
                self.skip(step, Some(step.dataset));
                return self.record_error(step, &error);
            }
        };
        let report = &finished.report;
        self.progress
            .add_log(finished.complete_log(), report.to_explain.as_ref());
        let lines = [finished.lines_without_log(), finished.problem_lines()].concat();
        lines.iter().for_each(|line| terminal::say(line));
        let entry = self.entry(step, &finished);
        let failure = failure(contender, &finished);
        if finished.interrupted {
            self.shutdown.drain();
        }
        let server = self.server.as_mut();
        let status = server.and_then(|(.., server)| server.status());
        let exited = status.map(|status| format!("the server exited during its runs ({status})"));
        let dataset = exited.is_none().then_some(step.dataset);
        let error = match (failure.or(exited), outcome.samples) {
            (Some(_), _) if finished.interrupted => Error::interrupted("the run"),
            (Some(reason), _) => Error::environment(reason),
            (None, Some(Err(error))) => error,
            (None, Some(Ok(samples))) => {
                self.sent
                    .entry(self.server_index(step))
                    .or_default()
                    .extend(samples.sent.iter().cloned());
                return self.aggregate.add_run(step, samples, &finished, entry);
            }
            (None, None) => Error::internal("a run without samples"),
        };
        self.aggregate.add_failure(step, &error, entry);
        self.skip(step, dataset);
    }

    /// Skips the contender on a dataset, or on all. In a sweep only the search of the run ends,
    /// because a server that fails at one rate may answer at others.
    fn skip(&mut self, step: &Step, dataset: Option<usize>) {
        if dataset.is_none() || self.plan.sweep.is_none() {
            self.skipped.insert((step.contender, dataset));
        }
    }

    /// Starts the contender's server if it is launched and does not run yet. Returns its port.
    fn start_server(&mut self, contender: &ContenderPlan, step: &Step) -> Result<Option<u16>> {
        let ContenderServer::Launched {
            command,
            ready_timeout,
        } = &contender.server
        else {
            return Ok(None);
        };
        if let Some((repeat, owner, server)) = &self.server
            && (*repeat, *owner) == (step.repeat, step.contender)
        {
            return Ok(Some(server.port));
        }
        // Stops the previous server first, so that its memory is free.
        self.server = None;
        let first = contender
            .runs
            .first()
            .ok_or_else(|| Error::internal("a contender without runs"))?;
        let folder = first
            .plan
            .output
            .save
            .then(|| first.plan.output.directory.clone().unwrap_or_default());
        let mut server =
            LaunchedServer::start(command, &contender.name, folder.as_deref(), &self.group)?;
        terminal::say(&format!(
            "started a server for {}; its log is {}",
            contender.name,
            server.log.display()
        ));
        let client = first.plan.at_port(server.port).plain_client()?;
        server.wait_ready(self.runtime, &client, *ready_timeout, self.shutdown)?;
        let port = server.port;
        self.sent.remove(&self.server_index(step));
        self.server = Some((step.repeat, step.contender, server));
        Ok(Some(port))
    }

    fn record_error(&mut self, step: &Step, error: &Error) {
        terminal::say(&format!("{}: error: {error}", run_label(&self.plan, step)));
        if error.kind == ErrorKind::Interrupted {
            self.shutdown.drain();
        }
        self.aggregate
            .add_failure(step, error, aggregate::planned_entry(&self.plan, step));
    }

    /// The entry of a finished run in the comparison.
    fn entry(&self, step: &Step, finished: &run::Finished) -> MatrixRun {
        let shown = |path: &PathBuf| path.display().to_string();
        MatrixRun {
            run_log: finished.run_log.as_ref().map(shown),
            result: finished
                .saved
                .as_ref()
                .ok()
                .and_then(Option::as_ref)
                .map(shown),
            ..aggregate::planned_entry(&self.plan, step)
        }
    }
}

/// Why a finished run is excluded from the figures.
fn failure(contender: &ContenderPlan, finished: &run::Finished) -> Option<String> {
    if finished.interrupted {
        return Some("interrupted".to_owned());
    }
    if let Some(failure) = finished.failure() {
        return Some(failure);
    }
    match &finished.report.record.server.engine_choice {
        EngineChoice::Declared(engine) if contender.server == ContenderServer::PerRequest => {
            Some(format!(
                "the server selects its engine itself and ignores {engine} in the request: start a server for each engine with --launch, or \
             name running servers with --target"
            ))
        }
        _ => None,
    }
}

fn finish(plan: &MatrixPlan, aggregate: &Aggregate, stopped: bool) -> Result<CommandOutput> {
    if stopped && aggregate.is_empty() {
        return Err(
            Error::interrupted("stopped before the first run was complete")
                .hint("run sobench report on the run log for a partial report"),
        );
    }
    let paired = plan.paired.as_ref().zip(aggregate.sides(plan));
    let mut output = match paired {
        Some((gate, sides)) => pairs::page(sides, gate, plan.detail(), &plan.files)?,
        None => {
            let comparison = aggregate::comparison(plan, aggregate, stopped);
            let mut output = CommandOutput {
                stdout: render_text(&comparison, plan.detail()),
                ..CommandOutput::default()
            };
            output.save(&plan.files, |format| render(&comparison, format))?;
            output
        }
    };
    if output.exit_code == SUCCESS {
        output.exit_code = aggregate.threshold;
    }
    let failed = aggregate.has_failed_run();
    if failed || aggregate.has_write_failure {
        output.exit_code = ENVIRONMENT;
    }
    if stopped {
        output
            .lines
            .push("interrupted: the table covers the complete runs".to_owned());
        output.exit_code = INTERRUPTED;
    } else if failed {
        output
            .lines
            .push("error: some runs failed\nhint: see the reasons below the table".to_owned());
    }
    Ok(output)
}

fn dimensions(plan: &MatrixPlan) -> Dimensions<'_> {
    Dimensions {
        contenders: plan.contenders.len(),
        datasets: plan.datasets.len(),
        loads: plan.loads.len(),
        repeats: plan.repeats,
        arms: &plan.arms,
        sequence: match (&plan.order, plan.is_launched()) {
            (Order::Interleaved(_), _) => Sequence::Concurrent,
            (Order::Blocks(_), true) => Sequence::ContenderByContender,
            (Order::Blocks(_), false) => Sequence::Alternating,
        },
    }
}

/// The label of a run.
fn run_label(plan: &MatrixPlan, step: &Step) -> String {
    let load = match plan.has_several_loads() {
        false => String::new(),
        true => format!(", {}", plan.loads[step.load]),
    };
    let repeat = match plan.repeats {
        1 => String::new(),
        repeats => format!(", repeat {} of {repeats}", step.repeat + 1),
    };
    let (contender, dataset) = (
        &plan.contenders[step.contender].name,
        &plan.datasets[step.dataset],
    );
    format!("{contender}, {dataset}, {}{load}{repeat}", step.arm.name())
}

fn create_log_folder(plan: &MatrixPlan, step: &Step) -> Result<()> {
    match plan.run_log(step) {
        Some(RunLogPlan::At(path)) => {
            plan.refuse_foreign(&path, "--run-log")?;
            create_parent_folder(&path).map_err(|error| cannot_write(&path, &error))
        }
        _ => Ok(()),
    }
}

/// Reads the input files of each dataset, and checks its constraint, before the first run. An error
/// of one contender only, or of a missing resource such as the Hub, fails the runs that need it.
fn check_inputs(plan: &MatrixPlan) -> Result<()> {
    let check = |run: &PlannedRun| DryRun::new(&run.plan)?.check_constraint();
    for dataset in 0..plan.datasets.len() {
        let runs = plan.contenders.iter().filter_map(|contender| {
            let mut runs = contender.runs.iter();
            runs.find(|run| run.dataset == dataset)
        });
        let mut first_error = None;
        for run in runs {
            match check(run) {
                Err(error) if error.kind == ErrorKind::Usage => {
                    _ = first_error.get_or_insert(error);
                }
                Ok(()) | Err(_) => {
                    first_error = None;
                    break;
                }
            }
        }
        first_error.map_or(Ok(()), Err)?;
    }
    Ok(())
}
