//! The pipeline of a run: prepare, choose, measure, close, judge, report.
//!
//! Requests go to the run log, and the report is made from the log ([`from_log`]), so that `sobench
//! report` prints the same later.

mod announce;
pub(crate) mod cancellation;
mod choose;
mod close;
mod cold_schemas;
mod connection_limits;
mod context;
mod duration;
mod early_answers;
mod explain;
mod files;
mod first_use;
pub(super) mod judge;
pub(crate) mod lora;
mod measure;
pub(super) mod prepare;
mod ready;
mod record;
mod refused_part;
mod result_file;
mod run_log_file;
mod sending;
mod side_check;
mod side_checks;
mod start;
mod token_limit;
mod warmup;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::runtime::Runtime;

use self::choose::RequestChoice;
use self::close::close;
pub use self::context::{ConcurrentRuns, RunContext, ServerHistory, report_shutdown_stage};
pub use self::first_use::FirstUse;
use self::judge::Judging;
use self::measure::Measurement;
use self::prepare::{Prepared, prepare};
use self::record::record;
use self::sending::Sending;
use self::side_check::{CheckedRun, Findings};
use self::side_checks::requested;
use self::warmup::WarmUps;
use crate::commands::bench::options::{OutputPlan, RunPlan};
use crate::commands::output::CommandOutput;
use crate::terminal;
use sobench_backend::{self as backend, Adapter};
use sobench_client::Coordination;
use sobench_core::error::{Error, Result};
use sobench_core::exit_codes;
use sobench_core::output_format::OutputFormat;
use sobench_report::view::{Requirements, View};
use sobench_report::{Report, client_reasons, format, from_log};
use sobench_results::compare;
use sobench_results::metrics::client_overhead::ClientVerdict;
use sobench_results::metrics::registry::totals;
use sobench_runlog::write::Sink;
use sobench_runlog::{Footer, RunLog};
use sobench_shutdown::Shutdown;

/// A finished run, with its report and its messages.
pub struct Finished {
    pub report: Report,
    /// For stdout.
    pub console: String,
    /// Path of the result, where requested; an error does not affect the report.
    pub saved: Result<Option<PathBuf>>,
    /// Lines on the other files that were written, and the errors of the others.
    pub written: Vec<String>,
    pub write_failures: Vec<Error>,
    /// Path of the run log; `None` without one.
    pub run_log: Option<PathBuf>,
    /// Why the log is incomplete.
    pub log_failure: Option<Error>,
    pub interrupted: bool,
    /// Why the run stopped on errors, if it did.
    pub broken_off: Option<String>,
    /// Cost of the first use of the run's constraint, where it was measured.
    pub first_use: Option<FirstUse>,
    /// The outcome of `--require`.
    pub requirements: Option<Requirements>,
}

impl Finished {
    /// See [`exit_codes::TABLE`], in this order: interrupted; result or log not written; stopped on
    /// errors, no answers or no server; client overhead or a requirement fails; done.
    pub fn exit_code(&self) -> u8 {
        let unwritten = self.saved.as_ref().err().or(self.log_failure.as_ref());
        match unwritten.or(self.write_failures.first()) {
            _ if self.interrupted => exit_codes::INTERRUPTED,
            Some(error) => error.exit_code(),
            None if self.nothing_measured()
                || self.broken_off.is_some()
                || self.report.metrics.issues.is_mostly_unreachable() =>
            {
                exit_codes::ENVIRONMENT
            }
            None if self.is_strict() && self.distrust().is_some() => exit_codes::CHECK_FAILED,
            None => {
                let verdict = self.requirements.as_ref().map(|required| required.verdict);
                verdict.map_or(exit_codes::SUCCESS, |verdict| verdict.exit_code())
            }
        }
    }

    /// Lines for stderr after the report.
    pub fn closing_lines(&self) -> Vec<String> {
        let log = self.complete_log();
        let log = log.map(|path| format!("run log: {}", path.display()));
        let distrust = self.distrust();
        let distrust = distrust.map(|reasons| format!("warning: not trusted: {reasons}"));
        let mut lines = self.lines_without_log();
        lines.extend(log.into_iter().chain(distrust).chain(self.problem_lines()));
        lines
    }

    /// The path of the run log, if it is complete.
    pub fn complete_log(&self) -> Option<&Path> {
        let path = self.run_log.as_deref();
        path.filter(|_| self.log_failure.is_none())
    }

    /// Lines on the files of the run other than its log.
    pub fn lines_without_log(&self) -> Vec<String> {
        let saved = match &self.saved {
            Ok(path) => (path.as_ref()).map(|path| format!("result saved: {}", path.display())),
            Err(error) => Some(format!("error: {error}")),
        };
        let failures = self.write_failures.iter();
        let failures = failures.map(|error| format!("error: {error}"));
        let written = self.written.iter().cloned();
        saved.into_iter().chain(written).chain(failures).collect()
    }

    /// Lines on what is wrong with the run, without [`Finished::distrust`].
    pub fn problem_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        lines.extend(self.log_failure.as_ref().map(|error| {
            format!("error: the run log is incomplete, the report above is complete: {error}")
        }));
        let requirements = self.requirements.iter();
        lines.extend(requirements.flat_map(|required| required.notes.iter().cloned()));
        if self.interrupted {
            lines.push("interrupted: the report is partial".to_owned());
        } else if let Some(sentence) = &self.broken_off {
            let hint = if self.report.partial {
                "the report is partial; unsent requests are cancelled"
            } else {
                "all requests had been sent, and the report is complete"
            };
            lines.push(format!("error: {sentence}\nhint: {hint}"));
        } else if self.nothing_measured() {
            lines.push(
                "error: every request failed\nhint: see the reasons in the report above".to_owned(),
            );
        } else if self.report.metrics.issues.is_mostly_unreachable() {
            let issues = &self.report.metrics.issues;
            lines.push(format!(
                "error: the server was not reachable for {} of {} requests\nhint: check its log; the figures are those of the others",
                issues.unreachable, issues.with_result
            ));
        }
        lines
    }

    /// Why figures are not trusted, if some are not. Of a run that is too short to judge the client, the
    /// report says so, and nothing else matters but `--strict-client`.
    pub fn distrust(&self) -> Option<String> {
        let part = self.report.client.as_ref()?;
        let is_doubted = part.verdict == ClientVerdict::DoNotTrust;
        let counts = self.is_strict() || !part.is_too_short();
        (is_doubted && counts).then(|| client_reasons(part, 3))
    }

    /// Whether figures that are not trusted are a failure (`--strict-client`).
    fn is_strict(&self) -> bool {
        self.report.record.settings.load.strict_client
    }

    /// Why the run measured nothing, or stopped on errors.
    pub fn failure(&self) -> Option<String> {
        if let Some(sentence) = &self.broken_off {
            return Some(sentence.clone());
        }
        if !self.nothing_measured() {
            return None;
        }
        let first = self.report.metrics.failures.first();
        let cause = first.and_then(|group| {
            let message = &group.examples.first()?.message;
            Some(format!("every request failed, {}: {message}", group.name))
        });
        Some(cause.unwrap_or_else(|| "every request failed".to_owned()))
    }

    /// Whether no request has an answer, for other reasons than a refused constraint.
    pub fn nothing_measured(&self) -> bool {
        self.report.metrics.values.count(&totals::COMPLETED) == 0
            && self.report.constraint_refusal().is_none()
    }
}

impl From<Finished> for CommandOutput {
    fn from(finished: Finished) -> Self {
        Self {
            exit_code: finished.exit_code(),
            lines: finished.closing_lines(),
            stdout: finished.console,
            ..Self::default()
        }
    }
}

/// Runs a benchmark from plan to report.
///
/// # Errors
/// The run cannot start (wrong input, no server, a failing trial run), or the result cannot be
/// saved.
pub fn run(plan: &RunPlan, shutdown: &Shutdown) -> Result<Finished> {
    let context = RunContext {
        history: ServerHistory::default(),
        shutdown: shutdown.clone(),
        listens: true,
        concurrent: None,
        prefix: None,
    };
    run_in_context(plan, &context, &mut |_| {})
}

/// Runs a benchmark in a context, and shows its judged log to `look`.
///
/// # Errors
/// As [`run`].
pub fn run_in_context(
    plan: &RunPlan,
    context: &RunContext,
    look: &mut dyn FnMut(&RunLog),
) -> Result<Finished> {
    if context.listens && plan.output.progress && terminal::is_interactive() {
        terminal::say(&announce::line(plan));
    }
    let runtime = Runtime::new()
        .map_err(|error| Error::environment(format!("cannot start threads: {error}")))?;
    context.wait_for_turn(&runtime)?;
    let mut prepared = prepare(plan, context, &runtime)?;
    let mut driven = drive(plan, context, &mut prepared, &runtime)?;
    context.wait_for_all(&runtime);
    // The log has the cases now.
    drop(prepared.dataset);
    let gathered = driven.gathered.take();
    let judging = Judging {
        evaluator: prepared.evaluator,
        tokenizer: prepared.tokenizer,
        runtime: &runtime,
        shutdown: &context.shutdown,
    };
    let finished = finish(&plan.output, driven, judging, look);
    start::part(gathered, context, &runtime);
    finished
}

/// Reads the log back, judges, reports, and completes the log.
fn finish(
    output: &OutputPlan,
    driven: Driven,
    judging: Judging<'_>,
    look: &mut dyn FnMut(&RunLog),
) -> Result<Finished> {
    let (footer, mut sink) = (driven.footer, driven.sink);
    let mut log = RunLog::from_source(sink.source(), &())?;
    if log.requests.len() != footer.requests {
        let (found, ended) = (log.requests.len(), footer.requests);
        return Err(Error::internal(format!(
            "the run log has {found} requests, the run ended with {ended}"
        )));
    }
    log.set_footer(footer.clone());
    let log = judging.judge(log, sink.path().map(ToOwned::to_owned))?;
    look(&log);
    let report = from_log::report(&log)?;
    let judged = log
        .requests
        .iter()
        .map(|request| (request.case_index(), request.judged()));
    if let Some(error) = sink.finish(judged, &footer) {
        terminal::say(&format!("error: {error}"));
    }
    let own_log = sink.path().map(ToOwned::to_owned);
    let requirements = requirements(output, &report);
    let mut console = Vec::new();
    let (saved, written) = from_log::with_view(&log, &report, |view| {
        let saved = if output.save {
            result_file::save(output, view, own_log.as_deref()).map(Some)
        } else {
            Ok(None)
        };
        let saved_at = saved.as_ref().ok().and_then(Option::as_deref);
        let run_log =
            run_log_file::final_path(output, &sink, saved_at).filter(|_| sink.failure().is_none());
        let shown = View {
            run_log: run_log.as_deref(),
            requirements: requirements.as_ref(),
            ..*view
        };
        format::write(&shown, OutputFormat::Text, output.forms, &mut console)?;
        let written = files::write_all(output, view, saved_at);
        Ok((saved, written))
    })?;
    // After the last answer was read from the log.
    if let Ok(Some(result)) = &saved {
        run_log_file::rename_after_result(output, &mut sink, result);
    }
    Ok(Finished {
        console: String::from_utf8(console)
            .map_err(|_| Error::internal("the report is not UTF-8"))?,
        requirements,
        report,
        written: written.lines,
        write_failures: written.failures,
        saved,
        run_log: sink.path().map(ToOwned::to_owned),
        log_failure: sink.failure().cloned(),
        interrupted: footer.interrupted,
        broken_off: footer.broken_off,
        first_use: driven.first_use,
    })
}

/// Checks the report against `--require`; `None` without it.
fn requirements(output: &OutputPlan, report: &Report) -> Option<Requirements> {
    if output.require.is_empty() {
        return None;
    }
    let rulings = compare::check_limits(
        &report.record,
        &report.metrics,
        report.client.as_ref(),
        &output.require,
    );
    let (notes, verdict) = compare::gate::failed_limits(&rulings, output.undecided);
    Some(Requirements {
        rules: output.require.len(),
        notes,
        verdict,
    })
}

/// The results of sending.
struct Driven {
    /// The footer of the log.
    footer: Footer,
    /// The log, with every request.
    sink: Sink,
    first_use: Option<FirstUse>,
    /// The connection of the shards, where there are several.
    gathered: Option<Coordination>,
}

/// Chooses the request, warms the server up, sends the measured requests, and closes the run.
fn drive(
    plan: &RunPlan,
    context: &RunContext,
    prepared: &mut Prepared,
    runtime: &Runtime,
) -> Result<Driven> {
    let (settings, cases) = (&plan.settings, &prepared.dataset.cases);
    let adapter: Arc<dyn Adapter> = Arc::from(backend::adapter(settings.backend));
    let (shutdown, _listener) = context.listen()?;
    let choice = RequestChoice {
        settings,
        session: &prepared.session,
        adapter: &adapter,
        shutdown: &shutdown,
        templated_prompt: choose::templated_prompt(settings.backend, &prepared.tokenizer),
    };
    let chosen = runtime.block_on(choice.choose(&plan.target, context, cases))?;
    let early = choice.early_answers(&chosen, cases);
    prepared.session.adopt(&chosen.request);
    let sending = Sending {
        session: &prepared.session,
        adapter,
        request: &chosen.request,
        shutdown,
    };
    context.meet(runtime);
    let (load, seed) = (&settings.load, settings.dataset.seed);
    let warm_ups = runtime.block_on(WarmUps::send(&sending, cases, load.warmups, seed))?;
    if let Some(refusal) = &chosen.trial.refusal {
        terminal::warn(refusal);
    }
    let warmed_up = warm_ups.sent;
    let found = Findings::default();
    let mut measurement = Measurement {
        run: CheckedRun { sending, found },
        cases,
        schedule: &prepared.schedule,
        error_limits: load.error_limits,
        context,
        early,
        checks: requested(plan, cases, &chosen, warm_ups),
    };
    let notices = runtime.block_on(measurement.before())?;
    let record = record(plan, prepared, &chosen, warmed_up, notices);
    let shutdown = &measurement.run.sending.shutdown;
    let mut gathered = start::gather(&plan.start, &record, shutdown, runtime)?;
    let start = start::start(&plan.start, gathered.as_mut());
    let measured = measurement.measure(record, start, &plan.output, runtime)?;
    let dataset = settings.dataset.source.name();
    let (footer, sink) = close(&mut measurement, measured, &mut gathered, dataset, runtime)?;
    Ok(Driven {
        footer,
        sink,
        first_use: chosen.first_use,
        gathered,
    })
}
