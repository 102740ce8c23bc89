//! The pipeline: resolve the server, load the cases, try one, drive, judge, count, report. Knows no
//! wire format and no formula.
//!
//! What the run sees goes to its log, and what it says at its end is made from that ([`again`]), so
//! that `sobench report` can say the same later.

mod beside;
mod cold;
mod explain;
mod extent;
mod files;
mod first_use;
mod judge;
pub(crate) mod lora;
mod named_model;
mod place;
mod preflight;
mod record;
mod result_file;
mod room;
mod sending;
mod setting;
mod start;
mod warmup;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use self::beside::{Probe, profiled, spec_decode};
pub use self::first_use::FirstUse;
use self::first_use::first_use;
use self::judge::Judging;
use self::preflight::Settling;
use self::room::room_notices;
use self::sending::Sending;
use self::setting::stopped_early;
pub use self::setting::{Company, Past, Setting, report_stage};
use crate::commands::bench::options::{OutputPlan, RunPlan};
use crate::commands::bench::session::Session;
use crate::commands::output::CommandOutput;
use crate::terminal::{self, Mode};
use sobench_backend::{self as backend, Adapter};
use sobench_client::{Beginning, Coordination, Ran};
use sobench_core::case::Case;
use sobench_core::error::{Error, Result};
use sobench_core::output_format::OutputFormat;
use sobench_core::run_event::Tripped;
use sobench_core::schedule::{Schedule, due_times};
use sobench_core::shard::Shard;
use sobench_core::{dates, exit_codes};
use sobench_data::dataset::{self, Dataset, DatasetPlan};
use sobench_data::tokenizer::Tokenizer;
use sobench_judge::Evaluator;
use sobench_notices::enforcement::Enforcement;
use sobench_notices::notice::{BenchNotice, Notice};
use sobench_report::{Report, client_sentence, format, from_log};
use sobench_results::compare;
use sobench_results::metrics::client::ClientVerdict;
use sobench_results::metrics::probe::Probed;
use sobench_results::metrics::spec_decode::SpecDecode;
use sobench_results::record::RunRecord;
use sobench_results::runlog::write::{Secrets, Sink, Writing, event_channel};
use sobench_results::runlog::{Footer, Keep, RunLog};
use sobench_shutdown::{Shutdown, unless_left};

/// Answers that waited to be written may take this much memory before the reader is told.
const MUCH_WAITING_BYTES: usize = 64 << 20;

/// A run that is over, with everything that is said about it.
pub struct Finished {
    pub report: Report,
    /// What stdout gets.
    pub console: String,
    /// Where the result was saved, if it was asked for; a failure to save costs neither report nor
    /// console.
    pub saved: Result<Option<PathBuf>>,
    /// Lines on the other files that were written, and why others were not.
    pub written: Vec<String>,
    pub write_failures: Vec<Error>,
    /// Where the run is logged; `None` where no log was wanted or none could be begun.
    pub run_log: Option<PathBuf>,
    /// Why the log is not whole.
    pub log_failure: Option<Error>,
    pub interrupted: bool,
    /// Why the run gave up on the server, if it did.
    pub broken_off: Option<String>,
    /// What the first use of the run's constraint cost, where the setting made it known as such.
    pub first_use: Option<FirstUse>,
    /// Whether a client that stood in the way is a failure (`--strict-client`).
    pub strict_client: bool,
    /// What is said of the bounds that the run does not keep (`--require`), and whether it keeps
    /// enough of them.
    pub bounds: (Vec<String>, bool),
}

impl Finished {
    /// By [`exit_codes::TABLE`]: interrupted; result or log could not be written, the run gave up
    /// or no request got an answer; the client stood in the way and must not, or a bound is not
    /// kept; else done.
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
            _ if self.nothing_answered() || self.broken_off.is_some() => exit_codes::COULD_NOT,
            _ if self.strict_client && self.distrust().is_some() => exit_codes::NOT_KEPT,
            Self {
                bounds: (_, false), ..
            } => exit_codes::NOT_KEPT,
            _ => exit_codes::DONE,
        }
    }

    /// What stderr gets after the report.
    pub fn closing_lines(&self) -> Vec<String> {
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
        match (&self.run_log, &self.log_failure) {
            (Some(path), None) => lines.push(format!("run log: {}", path.display())),
            (_, Some(error)) => lines.push(format!(
                "error: the run log is not whole, the report above is: {error}"
            )),
            (None, None) => {}
        }
        lines.extend(
            self.distrust()
                .map(|sentence| format!("warning: {sentence}")),
        );
        lines.extend(self.bounds.0.iter().cloned());
        if self.interrupted {
            lines.push("interrupted: the report covers what was done, and is partial".to_owned());
        } else if let Some(sentence) = &self.broken_off {
            let hint = if self.report.partial {
                "the report covers what was done, and is partial; what was not sent is cancelled"
            } else {
                "nothing was left to be sent by then, and the report is of the whole run"
            };
            lines.push(format!("error: {sentence}\nhint: {hint}"));
        } else if self.nothing_answered() {
            lines.push("error: every request failed\nhint: the table of requests without an answer, above, says why".to_owned());
        }
        lines
    }

    /// What speaks against the client, if anything does.
    pub fn distrust(&self) -> Option<String> {
        let part = self.report.client.as_ref()?;
        (part.verdict == ClientVerdict::DoNotTrust).then(|| client_sentence(part))
    }

    /// Whether no request at all got an answer.
    pub fn nothing_answered(&self) -> bool {
        self.report.metrics.overall.completed == 0
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
/// Whatever keeps the run from beginning: wrong input, no server, a failing trial run; or a result
/// that cannot be saved.
pub fn run(plan: &RunPlan, shutdown: &Shutdown) -> Result<Finished> {
    let setting = Setting {
        past: Past::default(),
        shutdown: shutdown.clone(),
        listens: true,
        company: None,
    };
    run_in(plan, &setting, &mut |_| {})
}

/// Runs a benchmark in a setting of its own, and shows every request with its verdict before they
/// are forgotten.
///
/// # Errors
/// As [`run`].
pub fn run_in(
    plan: &RunPlan,
    setting: &Setting,
    look: &mut dyn FnMut(&RunLog),
) -> Result<Finished> {
    let runtime = Runtime::new()
        .map_err(|error| Error::environment(format!("no threads to run on: {error}")))?;
    setting.wait_for_turn(&runtime)?;
    for warning in plan.warnings() {
        terminal::warn(&warning.to_string());
    }
    if plan.output.save {
        result_file::make_room(&plan.output)?;
    }
    place::make_room(&plan.output.run_log)?;
    files::make_room(&plan.output)?;
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
    let mut session = Session::open(plan, &runtime, &setting.shutdown)?;
    let mut dataset = load(
        &plan.settings.dataset,
        plan.part(),
        &session,
        &tokenizer,
        &runtime,
        setting,
    )?;
    if let Some(lora) = &plan.settings.request.lora {
        dataset.notices.push(lora::assign(
            &mut dataset.cases,
            lora,
            plan.settings.dataset.seed,
        ));
    }
    if let Some(every) = plan.settings.load.cold_schema_every {
        let injected = cold::inject(&mut dataset.cases, every)?;
        dataset.notices.push(
            BenchNotice::ColdSchemas {
                requests: injected,
                every,
            }
            .into(),
        );
    }
    for notice in session.notices.iter().chain(&dataset.notices) {
        terminal::say(&notice.to_string());
    }
    if plan.settings.constraint.explain {
        explain::routes(&session, &dataset.cases)
            .iter()
            .for_each(|line| terminal::say(line));
    }
    let mut evaluator = Evaluator::new(plan.settings.evaluate);
    let unjudged = judge::look_ahead(plan.settings.dataset.name(), &dataset.cases, &mut evaluator)?;
    unjudged
        .iter()
        .for_each(|notice| terminal::warn(&notice.to_string()));
    let mut driven = drive(plan, setting, &mut session, &dataset, &tokenizer, &runtime)?;
    setting.wait_for_all(&runtime);
    // The log has the cases from here on.
    drop(dataset);
    let gathered = driven.gathered.take();
    let judging = Judging {
        evaluator,
        tokenizer,
        runtime: &runtime,
        shutdown: &setting.shutdown,
    };
    let finished = finish(plan, driven, judging, look);
    start::part(gathered, setting, &runtime);
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
    let mut log = RunLog::from_source(sink.source(), Keep::AsSaved)?;
    if log.requests.len() != footer.requests {
        let (found, came) = (log.requests.len(), footer.requests);
        return Err(Error::internal(format!(
            "{found} requests are in the run log of a run that came to {came}"
        )));
    }
    log.footer = Some(footer.clone());
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
    let mut console = Vec::new();
    let (saved, written) = from_log::with_view(&log, &report, |view| {
        let saved = if plan.output.save {
            result_file::save(&plan.output, view, own_log.as_deref()).map(Some)
        } else {
            Ok(None)
        };
        format::write(view, OutputFormat::Text, plan.output.forms, &mut console)?;
        let saved_at = saved.as_ref().ok().and_then(Option::as_deref);
        let written = files::write_all(&plan.output, view, saved_at);
        Ok((saved, written))
    })?;
    // Only now: answers are read from the log where it is.
    if let Ok(Some(result)) = &saved {
        place::follow(&plan.output, &mut sink, result);
    }
    Ok(Finished {
        console: String::from_utf8(console)
            .map_err(|_| Error::internal("a report that is no text"))?,
        bounds: bounds(&plan.output, &report),
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

/// Checks the report against the bounds that the user set.
fn bounds(output: &OutputPlan, report: &Report) -> (Vec<String>, bool) {
    let rulings = compare::bounds(&report.record, &report.metrics, &output.require);
    compare::gate::bounds(&rulings, output.undecided)
}

/// What is known once everything is ready to be sent.
struct Before {
    trials: usize,
    /// Fingerprints of the constraints that the server was sent before the run.
    known: HashSet<String>,
    warmups: usize,
    enforcement: Enforcement,
    /// What happened before the run that the reader has to know.
    notices: Vec<Notice>,
}

/// What came of sending.
struct Driven {
    /// How the run ended.
    footer: Footer,
    /// The log, with every request.
    sink: Sink,
    first_use: Option<FirstUse>,
    /// Where the shards found each other, where they did.
    gathered: Option<Coordination>,
}

fn load(
    plan: &DatasetPlan,
    part: Shard,
    session: &Session,
    tokenizer: &Arc<Tokenizer>,
    runtime: &Runtime,
    setting: &Setting,
) -> Result<Dataset> {
    let plan = DatasetPlan {
        grammar_dialect: session.grammar_dialect,
        grammar_spelling: session.grammar_spelling,
        ..plan.clone()
    };
    let tokenizer = Arc::clone(tokenizer);
    let loading = unless_left(
        "a run",
        move || dataset::load(&plan, &tokenizer),
        setting.shutdown.drain_requested(),
    );
    let loaded = runtime.block_on(loading)?;
    let dataset = loaded.unwrap_or_else(|| Err(stopped_early()))?;
    let cases = dataset.cases.len();
    if part.share(cases) == 0 {
        return Err(Error::usage(format!(
            "{cases} requests are in the dataset, none for --shard {part}"
        ))
        .hint("take fewer shards, so that each has a request at least"));
    }
    Ok(dataset)
}

fn drive(
    plan: &RunPlan,
    setting: &Setting,
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
        due: setting.due(due, traffic.until),
        until: traffic.until,
        part,
    };
    let (shutdown, listener) = setting.listen()?;
    let settling = Settling {
        settings: &plan.settings,
        session,
        adapter: &adapter,
        shutdown: &shutdown,
    };
    let candidates = settling.candidates(cases)?;
    let mut notices = room_notices(
        plan.own_cap(),
        session,
        part.share(cases.len()),
        setting.runs(),
    );
    notices
        .iter()
        .for_each(|notice| terminal::warn(&notice.to_string()));
    let first = candidates
        .first()
        .ok_or_else(|| Error::internal("a run without a request to send"))?;
    let (tried_first, first_use) =
        runtime.block_on(first_use(&settling.sending(first), &setting.past, cases))?;
    let first = first.dialect;
    let settled = runtime.block_on(settling.settle(candidates, cases))?;
    notices.extend(settled.notices);
    // In a dialect that was given up, the constraint may never have come to use.
    let first_use = first_use.filter(|_| settled.request.dialect == first);
    notices.extend(first_use.map(FirstUse::notice));
    if settled.request.dialect != session.dialect {
        session.speak(&plan.settings.constraint, settled.request.dialect);
    }
    let company = setting.company.as_ref();
    let error_limits = traffic.error_limits;
    let sending = Sending {
        session,
        adapter,
        request: &settled.request,
        shutdown,
        error_limits,
        company,
    };
    let trial = settled.trial;
    notices.extend(setting.notice());
    setting.meet(runtime);
    let warmups = warmup::cases(cases, traffic.warmups, plan.settings.dataset.seed);
    let (warmups, failed) = runtime.block_on(sending.warm_up(&warmups, part))?;
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
    let known = &trial.constraints | &setting.past.sent;
    let before = Before {
        trials: trial.requests + tried_first,
        known,
        warmups,
        enforcement: settled.enforcement,
        notices,
    };
    let record = record::record(plan, session, dataset, &schedule, tokenizer, before);
    let drafted_before = runtime.block_on(spec_decode(session));
    let mut gathered = start::gather(&plan.start, &record, &sending.shutdown, runtime)?;
    let beginning = start::beginning(&plan.start, gathered.as_mut());
    let (ran, probed, sink, mut notices) =
        logged(plan, &sending, &schedule, cases, beginning, record, runtime)?;
    let (clock, unmeasured) = start::measured_again(gathered.as_mut(), runtime);
    notices.extend(unmeasured);
    let drafted = runtime.block_on(spec_decode(session));
    let drafted = drafted_before
        .zip(drafted)
        .and_then(|(before, after)| SpecDecode::between(&before, &after));
    notices.extend(runtime.block_on(profiled(
        plan.settings.request.profile,
        session,
        "/stop_profile",
    )));
    // A run that tripped was not asked to end before.
    let interrupted = sending.shutdown.is_requested() && ran.tripped.is_none();
    drop(listener);
    let broken_off = ran
        .tripped
        .as_ref()
        .map(|tripped| broken_off(&secrets(plan), tripped, cases));
    notices.extend(
        ran.cost
            .refused_stamps
            .map(|count| BenchNotice::ReceiveStampsRefused { count }.into()),
    );
    notices.extend(extent::notice(
        plan.settings.dataset.name(),
        schedule.until,
        part.share(cases.len()),
        ran.cases,
    ));
    let footer = Footer {
        requests: ran.cases,
        duration_ns: ran.duration_ns,
        cost: record::cost(&ran.cost, session.is_embedded()),
        probe: probed,
        spec_decode: drafted,
        engine: session.engine(),
        interrupted,
        broken_off,
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

/// Sends what is measured, and has it written down on a thread of its own meanwhile.
fn logged(
    plan: &RunPlan,
    sending: &Sending<'_>,
    schedule: &Schedule,
    cases: &[Case],
    beginning: Beginning<'_>,
    record: RunRecord,
    runtime: &Runtime,
) -> Result<(Ran, Option<Probed>, Sink, Vec<Notice>)> {
    // One is enough beside a load, however many clients carry it.
    let rate = plan
        .settings
        .load
        .probe_request_rate
        .filter(|_| schedule.part.number == 1);
    let probe = rate.map(|rate| Probe::new(sending, rate)).transpose()?;
    let secrets = secrets(plan);
    let warning = Mutex::new(None);
    let open = |record: &RunRecord| {
        let opened = place::open(&plan.output, record);
        opened
            .replaced
            .iter()
            .for_each(|words| terminal::say(words));
        opened
            .warning
            .iter()
            .for_each(|warning| terminal::warn(&warning.to_string()));
        *warning.lock().unwrap_or_else(PoisonError::into_inner) = opened.warning;
        opened.sink
    };
    let (events, receiver) = event_channel();
    let case_of = |index: usize| extent::asked(cases, index);
    let writing = Writing {
        record,
        open: &open,
        spell: dates::timestamp,
        case_of: &case_of,
        secrets: &secrets,
        failed: &|error| {
            terminal::say(&format!(
                "error: {error}\nthe run goes on, and its log in memory"
            ))
        },
    };
    let (ran, written) = thread::scope(|scope| {
        let writer = scope.spawn(|| writing.write(receiver));
        let mode = Mode::detect(plan.output.progress);
        let ran = runtime.block_on(async {
            let (over, ends) = oneshot::channel();
            let probing = probe.map(|probe| tokio::spawn(probe.until(ends)));
            let ran = sending
                .measure(cases, schedule, beginning, mode, events)
                .await;
            drop(over);
            let probed = match probing {
                Some(probing) => probing.await.ok(),
                None => None,
            };
            ran.map(|ran| (ran, probed))
        });
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
    let (ran, latencies_ms) = ran?;
    let probed = rate
        .zip(latencies_ms)
        .map(|(rate, latencies_ms)| Probed::of(rate, &latencies_ms));
    Ok((
        ran,
        probed,
        sink,
        warning.into_iter().chain(waited).collect(),
    ))
}

/// What must not reach a file.
fn secrets(plan: &RunPlan) -> Secrets {
    plan.endpoint().map_or_else(Secrets::default, |endpoint| {
        Secrets::new(endpoint.secrets())
    })
}

/// Why the run gave up, in words; a server's own are among them.
fn broken_off(secrets: &Secrets, tripped: &Tripped, cases: &[Case]) -> String {
    let id = extent::asked(cases, tripped.index).map_or_else(String::new, |(_, id)| id);
    tripped.sentence(&id, |words| {
        secrets.redacted(words).unwrap_or_else(|| words.to_owned())
    })
}
