//! The pipeline of a run: connect, load the cases, try one, send, judge, report.
//!
//! Requests go to the run log, and the report is made from the log ([`from_log`]), so that `sobench
//! report` prints the same later.

pub(crate) mod cancellation;
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
mod parity;
mod preflight;
mod probe;
mod ready;
mod record;
mod recovery;
mod refused_part;
mod result_file;
mod run_log_file;
mod sending;
mod server_metrics;
mod start;
mod token_limit;
mod warmup;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use self::connection_limits::connection_limit_notices;
use self::context::stopped_early;
pub use self::context::{ConcurrentRuns, RunContext, ServerHistory, report_shutdown_stage};
use self::early_answers::EarlyAnswers;
pub use self::first_use::FirstUse;
use self::first_use::first_use;
use self::judge::Judging;
use self::parity::ParityCheck;
use self::preflight::RequestChoice;
use self::probe::{Probe, profiled};
use self::recovery::RecoveryCheck;
use self::sending::Sending;
use self::server_metrics::{OpenPage, PageReadings};
use crate::commands::bench::options::{OutputPlan, RunPlan};
use crate::commands::bench::session::Session;
use crate::commands::output::CommandOutput;
use crate::terminal::{self, InputUnit, Mode};
use sobench_backend::{self as backend, Adapter};
use sobench_client::{Coordination, RunStart, RunTotals};
use sobench_core::case::{Arm, Case};
use sobench_core::error::{Error, Result};
use sobench_core::output_format::OutputFormat;
use sobench_core::run_event::ErrorLimitReached;
use sobench_core::schedule::{Schedule, due_times};
use sobench_core::{dates, exit_codes};
use sobench_data::dataset::{self, Dataset, DatasetPlan, Inputs};
use sobench_data::hub::HubSettings;
use sobench_data::tokenizer::Tokenizer;
use sobench_judge::Evaluator;
use sobench_notices::enforcement::Enforcement;
use sobench_notices::notice::{BenchNotice, Notice};
use sobench_plan::record::{Engine, RunRecord};
use sobench_report::view::{Requirements, View};
use sobench_report::{Report, client_reasons, format, from_log};
use sobench_results::compare;
use sobench_results::metrics::client_overhead::ClientVerdict;
use sobench_results::metrics::registry::totals;
use sobench_runlog::probe::ProbeResults;
use sobench_runlog::write::{LogWriter, Sink, event_channel};
use sobench_runlog::{Footer, RunLog};
use sobench_shutdown::{Shutdown, run_abandonable};

/// Memory of answers that wait to be logged, above which a notice is added.
const MUCH_WAITING_BYTES: usize = 64 << 20;

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
    /// Whether figures that are not trusted are a failure (`--strict-client`).
    pub strict_client: bool,
    /// The outcome of `--require`.
    pub requirements: Option<Requirements>,
}

impl Finished {
    /// See [`exit_codes::TABLE`], in this order: interrupted; result or log not written; stopped on
    /// errors, no answers or no server; client overhead or a requirement fails; done.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self {
                interrupted: true, ..
            } => exit_codes::INTERRUPTED,
            Self {
                saved: Err(error), ..
            }
            | Self {
                log_failure: Some(error),
                ..
            } => error.exit_code(),
            _ if !self.write_failures.is_empty() => self.write_failures[0].exit_code(),
            _ if self.nothing_measured()
                || self.broken_off.is_some()
                || self.report.metrics.issues.is_mostly_unreachable() =>
            {
                exit_codes::ENVIRONMENT
            }
            _ if self.strict_client && self.distrust().is_some() => exit_codes::CHECK_FAILED,
            Self {
                requirements: Some(requirements),
                ..
            } => requirements.verdict.exit_code(),
            _ => exit_codes::SUCCESS,
        }
    }

    /// Lines for stderr after the report.
    pub fn closing_lines(&self) -> Vec<String> {
        let mut lines = self.lines_without_log();
        let log = self.complete_log();
        lines.extend(log.map(|path| format!("run log: {}", path.display())));
        lines.extend(
            self.distrust()
                .map(|reasons| format!("warning: not trusted: {reasons}")),
        );
        lines.extend(self.problem_lines());
        lines
    }

    /// The path of the run log, if it is complete.
    pub fn complete_log(&self) -> Option<&Path> {
        let path = self.run_log.as_deref();
        path.filter(|_| self.log_failure.is_none())
    }

    /// Lines on the files of the run other than its log.
    pub fn lines_without_log(&self) -> Vec<String> {
        let mut lines = match &self.saved {
            Ok(None) => Vec::new(),
            Ok(Some(path)) => vec![format!("result saved: {}", path.display())],
            Err(error) => vec![format!("error: {error}")],
        };
        lines.extend(self.written.iter().cloned());
        lines.extend(
            self.write_failures
                .iter()
                .map(|error| format!("error: {error}")),
        );
        lines
    }

    /// Lines on what is wrong with the run, without [`Finished::distrust`].
    pub fn problem_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        lines.extend(self.log_failure.as_ref().map(|error| {
            format!("error: the run log is incomplete, the report above is complete: {error}")
        }));
        lines.extend(
            self.requirements
                .iter()
                .flat_map(|requirements| requirements.notes.iter().cloned()),
        );
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

    /// Why figures are not trusted, if some are not.
    pub fn distrust(&self) -> Option<String> {
        let part = self.report.client.as_ref()?;
        (part.verdict == ClientVerdict::DoNotTrust).then(|| client_reasons(part, 3))
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
    let runtime = Runtime::new()
        .map_err(|error| Error::environment(format!("cannot start threads: {error}")))?;
    context.wait_for_turn(&runtime)?;
    for line in plan.warning_lines() {
        terminal::warn(&line);
    }
    if plan.output.save {
        result_file::check_writable(&plan.output)?;
    }
    run_log_file::check_writable(&plan.output)?;
    files::check_writable(&plan.output)?;
    let tokenizer = plan
        .settings
        .tokenizer
        .as_deref()
        .map_or_else(|| Ok(Tokenizer::embedded()), Tokenizer::open)?;
    let tokenizer = Arc::new(
        tokenizer.with_template_variables(
            plan.settings
                .request
                .template_variables
                .clone()
                .unwrap_or_default(),
        ),
    );
    let mut session = Session::open(plan, &runtime, &context.shutdown)?;
    let mut dataset = load(plan, &session, &tokenizer, &runtime, context)?;
    if let Some(lora) = &plan.settings.request.lora {
        dataset.notices.push(lora::assign(
            &mut dataset.cases,
            lora,
            plan.settings.dataset.seed,
        ));
    }
    if let Some(cancellation) = plan.settings.load.cancellation {
        cancellation::plan(&mut dataset.cases, cancellation, plan.settings.dataset.seed);
    }
    if let Some(every) = plan.settings.load.cold_schema_every {
        let injected = cold_schemas::inject(&mut dataset.cases, every)?;
        dataset.notices.push(
            BenchNotice::ColdSchemas {
                requests: injected,
                every,
            }
            .into(),
        );
    }
    for notice in session.notices.iter().chain(&dataset.notices) {
        terminal::note(&notice.to_string());
    }
    if plan.settings.constraint.explain {
        explain::routes(&session, &dataset.cases)
            .iter()
            .for_each(|line| terminal::say(line));
    }
    let mut evaluator = Evaluator::new(plan.settings.evaluate);
    let unjudged = judge::look_ahead(
        plan.settings.dataset.source.name(),
        &dataset.cases,
        &mut evaluator,
        &context.preparation(plan.output.progress, InputUnit::Constraints),
    )?;
    unjudged
        .iter()
        .for_each(|notice| terminal::warn(&notice.to_string()));
    let mut driven = drive(plan, context, &mut session, &dataset, &tokenizer, &runtime)?;
    context.wait_for_all(&runtime);
    // The log has the cases now.
    drop(dataset);
    let gathered = driven.gathered.take();
    let judging = Judging {
        evaluator,
        tokenizer,
        runtime: &runtime,
        shutdown: &context.shutdown,
    };
    let finished = finish(plan, driven, judging, look);
    start::part(gathered, context, &runtime);
    finished
}

/// Reads the log back, judges, reports, and completes the log.
fn finish(
    plan: &RunPlan,
    driven: Driven,
    judging: Judging<'_>,
    look: &mut dyn FnMut(&RunLog),
) -> Result<Finished> {
    let Driven {
        footer,
        mut sink,
        first_use,
        ..
    } = driven;
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
    let requirements = requirements(&plan.output, &report);
    let mut console = Vec::new();
    let (saved, written) = from_log::with_view(&log, &report, |view| {
        let saved = if plan.output.save {
            result_file::save(&plan.output, view, own_log.as_deref()).map(Some)
        } else {
            Ok(None)
        };
        let saved_at = saved.as_ref().ok().and_then(Option::as_deref);
        let run_log = run_log_file::final_path(&plan.output, &sink, saved_at)
            .filter(|_| sink.failure().is_none());
        let shown = View {
            run_log: run_log.as_deref(),
            requirements: requirements.as_ref(),
            ..*view
        };
        format::write(&shown, OutputFormat::Text, plan.output.forms, &mut console)?;
        let written = files::write_all(&plan.output, view, saved_at);
        Ok((saved, written))
    })?;
    // After the last answer was read from the log.
    if let Ok(Some(result)) = &saved {
        run_log_file::rename_after_result(&plan.output, &mut sink, result);
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
        first_use,
        strict_client: plan.settings.load.strict_client,
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

/// The results of the preparation.
struct Before {
    trials: usize,
    /// Fingerprints of the constraints that the server was sent before the run.
    known: HashSet<String>,
    warmups: usize,
    enforcement: Enforcement,
    /// Notices from before the run.
    notices: Vec<Notice>,
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

fn load(
    plan: &RunPlan,
    session: &Session,
    tokenizer: &Arc<Tokenizer>,
    runtime: &Runtime,
    context: &RunContext,
) -> Result<Dataset> {
    let part = plan.part();
    let progress = context.preparation(plan.output.progress, InputUnit::Bytes);
    let plan = DatasetPlan {
        grammar_dialect: session.grammar_dialect,
        grammar_spelling: session.grammar_spelling,
        ..plan.settings.dataset.clone()
    };
    let tokenizer = Arc::clone(tokenizer);
    let load = move || {
        let inputs = Inputs {
            tokenizer: &tokenizer,
            hub: &HubSettings::from_env(),
            progress: &progress,
        };
        dataset::load_with(&plan, &inputs)
    };
    let loading = run_abandonable("a run", load, context.shutdown.drain_requested());
    let loaded = runtime.block_on(loading)?;
    let dataset = loaded.unwrap_or_else(|| Err(stopped_early()))?;
    let cases = dataset.cases.len();
    if part.share(cases) == 0 {
        return Err(Error::usage(format!(
            "--shard {part} has no requests: the dataset has {cases}"
        ))
        .hint("use fewer shards"));
    }
    Ok(dataset)
}

fn drive(
    plan: &RunPlan,
    context: &RunContext,
    session: &mut Session,
    dataset: &Dataset,
    tokenizer: &Tokenizer,
    runtime: &Runtime,
) -> Result<Driven> {
    let cases = &dataset.cases;
    let adapter: Arc<dyn Adapter> = Arc::from(backend::adapter(plan.settings.backend));
    let traffic = &plan.settings.load;
    let due = due_times(
        cases.len(),
        traffic.pace,
        traffic.burstiness,
        plan.settings.dataset.seed,
    );
    let part = plan.part();
    let schedule = Schedule {
        due: context.due(due, traffic.until),
        until: traffic.until,
        part,
    };
    let (shutdown, listener) = context.listen()?;
    let choice = RequestChoice {
        settings: &plan.settings,
        session,
        adapter: &adapter,
        shutdown: &shutdown,
        templated_prompt: preflight::templated_prompt(plan.settings.backend, tokenizer),
    };
    let unenforced = choice.unenforced();
    let candidates = choice.candidates(cases)?;
    let mut notices = connection_limit_notices(
        plan.own_cap(),
        session,
        part.share(cases.len()),
        context.runs(),
    );
    notices
        .iter()
        .for_each(|notice| terminal::warn(&notice.to_string()));
    let first = candidates
        .first()
        .ok_or_else(|| Error::internal("a run without requests"))?;
    session.learn(cases, adapter.as_ref(), first)?;
    let sending = choice.sending(first);
    let loading = ready::wait_for_answer(&sending, &plan.target, cases);
    let ready_requests = runtime.block_on(loading)?;
    let (tried_first, first_use) =
        runtime.block_on(first_use(&choice.sending(first), &context.history, cases))?;
    let first = first.dialect;
    let chosen = runtime.block_on(choice.choose(candidates, cases))?;
    notices.extend(chosen.notices);
    // A dropped dialect may never have applied the constraint.
    let first_use = first_use.filter(|_| chosen.request.dialect == first);
    notices.extend(first_use.map(FirstUse::notice));
    session.max_tokens_only = chosen.request.max_tokens_only;
    if chosen.request.dialect != session.dialect {
        session.set_dialect(&plan.settings.constraint, chosen.request.dialect);
    }
    let concurrent = context.concurrent.as_ref();
    let error_limits = traffic.error_limits;
    let mut sending = Sending {
        session,
        adapter,
        request: &chosen.request,
        shutdown,
        error_limits,
        concurrent,
        prefix: context.prefix.as_ref(),
        early: EarlyAnswers::new(
            &chosen.enforcement,
            unenforced,
            cases,
            Some(chosen.request.dialect.expected_channel()),
            plan.settings.evaluate,
        )
        .map(Mutex::new),
    };
    let trial = chosen.trial;
    notices.extend(context.notice());
    context.meet(runtime);
    let warmups = warmup::cases(cases, traffic.warmups, plan.settings.dataset.seed);
    let (warmups, failed) = runtime.block_on(sending.warm_up(&warmups, part))?;
    if let Some(notice) = &trial.refusal {
        terminal::warn(&notice.to_string());
    }
    notices.extend(trial.refusal.clone());
    notices.extend(trial.notices);
    notices.extend(runtime.block_on(profiled(
        plan.settings.request.profile,
        session,
        "/start_profile",
    )));
    notices.extend((failed > 0).then(|| {
        BenchNotice::WarmupsFailed {
            failed,
            sent: warmups,
        }
        .into()
    }));
    let known = &trial.constraints | &context.history.sent;
    let recovery_check = match traffic.cancellation.filter(|_| part.number == 1) {
        Some(_) => {
            let mut model = trial.case.clone();
            if trial.refusal.is_some() {
                model.arm = Arm::Free;
            }
            let start = RecoveryCheck::start(&sending, model, plan.settings.dataset.seed);
            Some(runtime.block_on(start)?)
        }
        None => None,
    };
    let opening = OpenPage::open(&plan.server_metrics, plan.settings.backend, session);
    let (page, unreadable) = runtime.block_on(opening)?;
    let first_warning = unreadable.as_ref().map(ToString::to_string);
    if let Some(warning) = &first_warning {
        terminal::warn(warning);
    }
    notices.extend(unreadable.filter(|_| page.is_none()));
    let before = Before {
        trials: trial.requests + tried_first + ready_requests,
        known,
        warmups,
        enforcement: chosen.enforcement,
        notices,
    };
    let record = record::record(plan, session, dataset, &schedule, tokenizer, before);
    let mut gathered = start::gather(&plan.start, &record, &sending.shutdown, runtime)?;
    let start_signal = start::start(&plan.start, gathered.as_mut());
    let Logged {
        ran,
        probed,
        readings,
        engine,
        sink,
        mut notices,
    } = logged(
        plan,
        &sending,
        &schedule,
        cases,
        Prepared {
            start: start_signal,
            record,
            page,
        },
        runtime,
    )?;
    let (clock, unmeasured) = start::measured_again(gathered.as_mut(), runtime);
    notices.extend(unmeasured);
    for notice in &readings.notices {
        let warning = notice.to_string();
        if first_warning.as_ref() != Some(&warning) {
            terminal::warn(&warning);
        }
    }
    notices.extend(readings.notices);
    // An error limit is not an interruption, and neither is a constraint that is not enforced.
    let has_given_up = ran.tripped.is_some()
        || sending
            .early_answers()
            .is_some_and(|early| early.has_stopped());
    let interrupted = sending.shutdown.is_requested() && !has_given_up;
    if has_given_up {
        sending.shutdown = sending.shutdown.from_now();
    }
    let recovery = match recovery_check {
        Some(check) => runtime.block_on(check.finish(&sending))?,
        None => None,
    };
    let warning = recovery.as_ref().and_then(recovery::notice);
    if let Some(warning) = &warning {
        terminal::warn(&warning.to_string());
    }
    notices.extend(warning);
    drop(listener);
    let early = sending.early_answers();
    let broken_off = ran
        .tripped
        .as_ref()
        .map(|tripped| broken_off(tripped, cases))
        .or_else(|| early.as_ref()?.refusal());
    let early_breach = early.as_ref().and_then(|early| early.breach());
    notices.extend(
        ran.usage
            .implausible_stamps
            .map(|count| BenchNotice::ReceiveStampsRefused { count }.into()),
    );
    notices.extend(duration::notice(
        plan.settings.dataset.source.name(),
        schedule.until,
        part.share(cases.len()),
        ran.cases,
    ));
    let footer = Footer {
        requests: ran.cases,
        duration_ns: ran.duration_ns,
        cost: record::cost(&ran.usage, session.is_embedded()),
        probe: probed,
        recovery,
        spec_decode: readings.spec_decode,
        engine,
        interrupted,
        broken_off,
        early_breach,
        notices,
        clock,
    };
    Ok(Driven {
        footer,
        sink,
        first_use,
        gathered,
    })
}

/// What is known before the first measured request.
struct Prepared<'s> {
    start: RunStart<'s>,
    record: RunRecord,
    page: Option<OpenPage>,
}

/// The results of the measured requests.
struct Logged {
    ran: RunTotals,
    probed: Option<ProbeResults>,
    /// Readings of the server's metrics page.
    readings: PageReadings,
    engine: Option<Engine>,
    sink: Sink,
    notices: Vec<Notice>,
}

/// Sends the measured requests, and those that are sent again after them. Writes the log on another
/// thread.
fn logged(
    plan: &RunPlan,
    sending: &Sending<'_>,
    schedule: &Schedule,
    cases: &[Case],
    prepared: Prepared<'_>,
    runtime: &Runtime,
) -> Result<Logged> {
    let Prepared {
        start: start_signal,
        record,
        page,
    } = prepared;
    // One probe is enough, also for several clients.
    let rate = plan
        .settings
        .load
        .probe_request_rate
        .filter(|_| schedule.part.number == 1);
    let probe = rate.map(|rate| Probe::new(sending, rate)).transpose()?;
    let warning = Mutex::new(None);
    let open = |record: &RunRecord| {
        let opened = run_log_file::open(&plan.output, record);
        opened
            .replaced
            .iter()
            .for_each(|message| terminal::say(message));
        opened
            .warning
            .iter()
            .for_each(|warning| terminal::warn(&warning.to_string()));
        *warning.lock().unwrap_or_else(PoisonError::into_inner) = opened.warning;
        opened.sink
    };
    let (events, receiver) = event_channel();
    let case_of = |index: usize| duration::asked(cases, index);
    let writing = LogWriter {
        record,
        open: &open,
        format_time: dates::timestamp,
        case_of: &case_of,
        on_failure: &|error| {
            terminal::say(&format!(
                "error: {error}\nthe run goes on with its log in memory"
            ));
        },
    };
    let session = sending.session;
    let mut parity = plan.settings.request.stream_parity.map(ParityCheck::new);
    let (ran, written) = thread::scope(|scope| {
        let writer = scope.spawn(|| writing.write(receiver));
        let mode = Mode::detect(plan.output.progress);
        let ran = runtime.block_on(async {
            let (over, ends) = oneshot::channel();
            let probing = probe.map(|probe| tokio::spawn(probe.until(ends)));
            let reading = page.map(|page| page.start(&events));
            let ran = sending
                .measure(
                    cases,
                    schedule,
                    start_signal,
                    mode,
                    &events,
                    parity.as_mut(),
                )
                .await;
            drop(over);
            let probed = match probing {
                Some(probing) => probing.await.ok(),
                None => None,
            };
            // What the server did for the measured requests only.
            let engine = session.engine();
            let readings = match reading {
                Some(reading) => reading.finish().await,
                None => PageReadings::default(),
            };
            let ran = ran?;
            let profile = plan.settings.request.profile;
            let stopped = profiled(profile, session, "/stop_profile").await;
            if let Some(parity) = &parity {
                parity.run(sending, cases, &events).await?;
            }
            Ok::<_, Error>((ran, probed, readings, engine, stopped))
        });
        // Ends the writer.
        drop(events);
        (ran, writer.join())
    });
    let (sink, waited_bytes) =
        written.map_err(|_| Error::internal("the run log's writer panicked"))?;
    let waited = (waited_bytes > MUCH_WAITING_BYTES).then(|| {
        BenchNotice::RunLogBehind {
            waiting_mib: waited_bytes >> 20,
        }
        .into()
    });
    let warning = warning.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (ran, latencies_ms, readings, engine, stopped) = ran?;
    let probed = rate
        .zip(latencies_ms)
        .map(|(rate, latencies_ms)| ProbeResults::new(rate, &latencies_ms));
    Ok(Logged {
        ran,
        probed,
        readings,
        engine,
        sink,
        notices: warning.into_iter().chain(waited).chain(stopped).collect(),
    })
}

/// Why the run stopped on errors, if it did.
fn broken_off(tripped: &ErrorLimitReached, cases: &[Case]) -> String {
    let id = duration::asked(cases, tripped.index).map_or_else(String::new, |(_, id)| id);
    tripped.message(&id)
}
