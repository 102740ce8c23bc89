//! Backends, servers, datasets and loads side by side: makes ordinary runs, at once where that is
//! possible and else one after the other, in balanced order, and puts what came of them into one
//! table. Knows no wire format and no formula.

pub mod dry_run;
mod gather;
mod launch;
pub mod options;
mod order;
pub mod report;
mod together;
#[cfg(unix)]
mod watchdog;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use tokio::runtime::Runtime;

use self::gather::Gathered;
use self::launch::{Launched, LaunchedGroup};
use self::order::{Extent, Sequence, Step, turns};
use self::together::{Outcome, Ready, alone, together};
use crate::commands::bench::run;
use crate::commands::bench::run::{Past, report_stage};
use crate::commands::matrix::options::{ContenderPlan, How, MatrixOptions, Order};
use crate::commands::matrix::report::{MatrixRun, render};
use crate::commands::output::CommandOutput;
use crate::terminal;
use sobench_core::error::{Error, Kind, Result};
use sobench_core::exit_codes::{COULD_NOT, INTERRUPTED, NOT_KEPT};
use sobench_core::output_files::try_file;
use sobench_core::output_format::OutputFormat;
use sobench_results::record::EngineChoice;
use sobench_shutdown::{Shutdown, Stage};

/// Makes the runs and the table.
///
/// # Errors
/// A wrong file name; the user stopped it before there was anything to report. A run that fails is
/// a row of the table.
pub fn command(plan: &MatrixOptions, shutdown: &Shutdown) -> Result<CommandOutput> {
    plan.files
        .iter()
        .try_for_each(|(path, _)| make_room(path))?;
    let runtime = Runtime::new()
        .map_err(|error| Error::environment(format!("no threads to run on: {error}")))?;
    let group = LaunchedGroup::default();
    let launched = group.clone();
    let _listener = shutdown.listen(move |stage| {
        report_stage(stage);
        if stage == Stage::Aborting {
            launched.ask_to_end();
        }
    })?;
    let mut running = Running {
        plan,
        runtime: &runtime,
        shutdown,
        group,
        server: None,
        sent: HashMap::new(),
        given_up: HashSet::new(),
        gathered: Gathered::default(),
    };
    let turns = turns(&extent(plan));
    let all: usize = turns.iter().map(Vec::len).sum();
    let mut before = 0;
    for turn in &turns {
        if shutdown.is_requested() {
            break;
        }
        running.make(turn, before, all);
        before += turn.len();
    }
    let Running {
        server, gathered, ..
    } = running;
    // Ends it before anything else is done.
    drop(server);
    finish(plan, &gathered, shutdown.is_requested())
}

/// What making the runs takes.
struct Running<'a> {
    plan: &'a MatrixOptions,
    runtime: &'a Runtime,
    shutdown: &'a Shutdown,
    group: LaunchedGroup,
    /// The server that was started for a contender in a repeat.
    server: Option<(usize, usize, Launched)>,
    /// The constraints that runs have sent to each server, as fingerprints; see [`Running::past`].
    sent: HashMap<usize, HashSet<String>>,
    /// Contenders that failed on a dataset, or altogether.
    given_up: HashSet<(usize, Option<usize>)>,
    gathered: Gathered,
}

impl Running<'_> {
    /// Makes the runs of one turn, of which `before` come before in the order of `all`.
    fn make(&mut self, turn: &[Step], before: usize, all: usize) {
        let is_given_up = |step: &Step| {
            [None, Some(step.dataset)]
                .iter()
                .any(|extent| self.given_up.contains(&(step.contender, *extent)))
        };
        let left: Vec<(usize, Step)> = turn
            .iter()
            .copied()
            .enumerate()
            .filter(|(_, step)| !is_given_up(step))
            .collect();
        let beside = if left.len() > 1 { ", at once" } else { "" };
        let mut ready = Vec::new();
        for (place, step) in left {
            terminal::say(&format!(
                "[{}/{all}] {}{beside}",
                before + place + 1,
                words(self.plan, &step)
            ));
            match self.ready(&step) {
                Ok(run) => ready.push(run),
                Err(error) => self.fail(&step, &error),
            }
        }
        let outcomes = match &ready[..] {
            [one] => vec![alone(one, self.shutdown)],
            several => together(several, self.shutdown),
        };
        for (run, outcome) in ready.into_iter().zip(outcomes) {
            if outcome.shows_name {
                terminal::say(&format!("{}:", words(self.plan, &run.step)));
            }
            self.take(&run.step, outcome);
        }
    }

    /// Everything that a run takes. Where its server does not start, the contender is given up.
    fn ready(&mut self, step: &Step) -> Result<Ready> {
        let contender = &self.plan.contenders[step.contender];
        let port = self.port(contender, step).inspect_err(|_| {
            self.given_up.insert((step.contender, None));
        })?;
        let planned = contender.run(step.dataset, step.load, step.treatment);
        let planned = planned.ok_or_else(|| Error::internal("a run that nobody has planned"))?;
        let mut plan = port.map_or_else(|| planned.clone(), |port| planned.at_port(port));
        plan.settings
            .report
            .label
            .get_or_insert_with(|| words(self.plan, step));
        Ok(Ready {
            step: *step,
            name: contender.name.clone(),
            plan,
            past: self.past(step),
        })
    }

    /// What is known of what the server was sent before. Those that name one server share its past.
    fn past(&self, step: &Step) -> Past {
        let sent = self
            .sent
            .get(&self.server_of(step))
            .cloned()
            .unwrap_or_default();
        match self.plan.contenders[step.contender].how {
            // It is started for the run.
            How::Embedded => Past {
                sent: HashSet::new(),
                is_whole: true,
            },
            How::Launched { .. } => Past {
                sent,
                is_whole: true,
            },
            How::Running | How::PerRequest => Past {
                sent,
                is_whole: false,
            },
        }
    }

    /// A number for the server: that of the first contender that names it.
    fn server_of(&self, step: &Step) -> usize {
        let contenders = &self.plan.contenders;
        let address = contenders[step.contender]
            .address()
            .filter(|_| contenders[step.contender].how == How::Running);
        contenders
            .iter()
            .position(|it| address.is_some() && it.address() == address)
            .unwrap_or(step.contender)
    }

    /// Takes in what came of a run. Where it failed, the contender is given up on this dataset, or
    /// altogether.
    fn take(&mut self, step: &Step, outcome: Outcome) {
        let contender = &self.plan.contenders[step.contender];
        let finished = match outcome.finished {
            Ok(finished) => finished,
            Err(error) => {
                self.given_up.insert((step.contender, Some(step.dataset)));
                return self.fail(step, &error);
            }
        };
        finished
            .closing_lines()
            .iter()
            .for_each(|line| terminal::say(line));
        let about = self.about(step, &finished);
        let failure = failure(contender, &finished);
        if finished.interrupted {
            self.shutdown.drain();
        }
        let died = match &mut self.server {
            Some((.., server)) => server
                .status()
                .map(|status| format!("the server ended during its runs ({status})")),
            None => None,
        };
        let extent = if died.is_some() {
            None
        } else {
            Some(step.dataset)
        };
        match (failure.or(died), outcome.seen) {
            (Some(_), _) if finished.interrupted => {
                self.gathered
                    .failed(step, &Error::interrupted("the run"), about)
            }
            (Some(reason), _) => self
                .gathered
                .failed(step, &Error::environment(reason), about),
            (None, Some(seen)) => {
                self.sent
                    .entry(self.server_of(step))
                    .or_default()
                    .extend(seen.sent.iter().cloned());
                return self.gathered.ran(step, seen, &finished, about);
            }
            (None, None) => {
                self.gathered
                    .failed(step, &Error::internal("a run that nobody looked at"), about)
            }
        }
        self.given_up.insert((step.contender, extent));
    }

    /// Starts the contender's server, if it has one that is to be started and does not run yet; the
    /// port of the one that runs.
    fn port(&mut self, contender: &ContenderPlan, step: &Step) -> Result<Option<u16>> {
        let How::Launched {
            command,
            ready_timeout,
        } = &contender.how
        else {
            return Ok(None);
        };
        if let Some((repeat, owner, server)) = &self.server
            && (*repeat, *owner) == (step.repeat, step.contender)
        {
            return Ok(Some(server.port));
        }
        // The one before is to be gone when the next one asks for its memory.
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
        let mut server = Launched::start(command, &contender.name, folder.as_deref(), &self.group)?;
        terminal::say(&format!(
            "started a server for {}, which prints to {}",
            contender.name,
            server.log.display()
        ));
        let client = first.plan.at_port(server.port).plain_client()?;
        server.wait_ready(self.runtime, &client, *ready_timeout, self.shutdown)?;
        let port = server.port;
        self.sent.remove(&self.server_of(step));
        self.server = Some((step.repeat, step.contender, server));
        Ok(Some(port))
    }

    fn fail(&mut self, step: &Step, error: &Error) {
        terminal::say(&format!("error: {error}"));
        if error.kind == Kind::Interrupted {
            self.shutdown.drain();
        }
        self.gathered
            .failed(step, error, gather::run_about(self.plan, step));
    }

    fn about(&self, step: &Step, finished: &run::Finished) -> MatrixRun {
        let shown = |path: &PathBuf| path.display().to_string();
        MatrixRun {
            run_log: finished.run_log.as_ref().map(shown),
            result: finished
                .saved
                .as_ref()
                .ok()
                .and_then(Option::as_ref)
                .map(shown),
            ..gather::run_about(self.plan, step)
        }
    }
}

/// Why a run that came to its end is in no figure.
fn failure(contender: &ContenderPlan, finished: &run::Finished) -> Option<String> {
    if finished.interrupted {
        return Some("interrupted".to_owned());
    }
    if let Some(sentence) = &finished.broken_off {
        return Some(sentence.clone());
    }
    if finished.nothing_answered() {
        let why = finished.report.metrics.failures.first();
        let words = why
            .and_then(|group| Some(format!("{}: {}", group.name, group.excerpts.first()?.words)));
        return Some(words.map_or_else(
            || "every request failed".to_owned(),
            |words| format!("every request failed, {words}"),
        ));
    }
    match &finished.report.record.server.engine_choice {
        EngineChoice::Declared(engine) if contender.how == How::PerRequest => Some(format!(
            "the server decides its engine, not the request, so that {engine} was not chosen: start a server for each with --launch, or name \
             those that run with --target"
        )),
        _ => None,
    }
}

fn finish(plan: &MatrixOptions, gathered: &Gathered, stopped: bool) -> Result<CommandOutput> {
    if stopped && gathered.is_empty() {
        return Err(Error::interrupted(
            "stopped before a run was whole, and only whole runs are compared",
        )
        .hint("what was done is in the log of its run: sobench report"));
    }
    let comparison = gather::comparison(plan, gathered, stopped);
    let mut output = CommandOutput {
        stdout: render(&comparison, OutputFormat::Text)?,
        ..CommandOutput::default()
    };
    let failed = comparison.runs.iter().any(|run| run.failure.is_some());
    if gathered.is_missed {
        output.exit_code = NOT_KEPT;
    }
    for (path, format) in &plan.files {
        match std::fs::write(path, render(&comparison, *format)?) {
            Ok(()) => output
                .lines
                .push(format!("comparison saved: {}", path.display())),
            Err(error) => {
                output.lines.push(format!(
                    "error: the comparison cannot be written ({error}): {}",
                    path.display()
                ));
                output.exit_code = COULD_NOT;
            }
        }
    }
    if failed || gathered.is_lost {
        output.exit_code = COULD_NOT;
    }
    if stopped {
        output
            .lines
            .push("interrupted: the table covers the runs that were done".to_owned());
        output.exit_code = INTERRUPTED;
    } else if failed {
        output
            .lines
            .push("error: not everything could be run; the table says what and why".to_owned());
    }
    Ok(output)
}

fn extent(plan: &MatrixOptions) -> Extent<'_> {
    Extent {
        contenders: plan.contenders.len(),
        datasets: plan.datasets.len(),
        loads: plan.loads.len(),
        repeats: plan.repeats,
        treatments: &plan.treatments,
        sequence: match (&plan.order, plan.is_launched()) {
            (Order::Interleaved(_), _) => Sequence::AtOnce,
            (Order::Blocks(_), true) => Sequence::OneAtATime,
            (Order::Blocks(_), false) => Sequence::InTurn,
        },
    }
}

/// A run in words.
fn words(plan: &MatrixOptions, step: &Step) -> String {
    let load = match plan.loads.len() {
        1 => String::new(),
        _ => format!(", {}", plan.loads[step.load]),
    };
    let repeat = match plan.repeats {
        1 => String::new(),
        repeats => format!(", repeat {} of {repeats}", step.repeat + 1),
    };
    let (contender, dataset) = (
        &plan.contenders[step.contender].name,
        &plan.datasets[step.dataset],
    );
    format!(
        "{contender}, {dataset}, {}{load}{repeat}",
        step.treatment.name()
    )
}

/// Sees that the file can be made, before anything is sent.
fn make_room(path: &Path) -> Result<()> {
    let cannot = |error: std::io::Error| {
        Error::environment(format!(
            "the comparison cannot be written ({error}): {}",
            path.display()
        ))
        .hint("give --save-comparison a place that can be written to")
    };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(cannot)?;
    }
    try_file(path).map_err(cannot)
}
