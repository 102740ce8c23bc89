//! Sends the measured requests, with the side checks beside them, and writes the run log.

use std::sync::{Arc, OnceLock};
use std::thread;

use tokio::runtime::Runtime;

use super::context::RunContext;
use super::early_answers::EarlyAnswers;
use super::side_check::{CheckedRun, SideCheck};
use super::{duration, run_log_file};
use crate::commands::bench::options::OutputPlan;
use crate::terminal::{self, Mode, Progress, ProgressLabels};
use sobench_client::{ConsecutiveErrors, RunControl, RunStart, RunTotals};
use sobench_core::case::Case;
use sobench_core::dates;
use sobench_core::error::{Error, Result};
use sobench_core::load::ErrorLimits;
use sobench_core::observation::Outcome;
use sobench_core::run_event::RunEvent;
use sobench_core::schedule::{Schedule, Until};
use sobench_notices::notice::{BenchNotice, Notice};
use sobench_plan::record::{Engine, RunRecord};
use sobench_runlog::write::{EventSender, LogWriter, Sink, event_channel};

/// Consecutive errors at which a warning is printed.
const MANY_ERRORS: usize = 100;

/// Memory of answers that wait to be logged, above which a notice is added.
const MUCH_WAITING_BYTES: usize = 64 << 20;

/// The measured requests of a run, and what is done beside them.
pub(super) struct Measurement<'a> {
    pub(super) run: CheckedRun<'a>,
    pub(super) cases: &'a [Case],
    pub(super) schedule: &'a Schedule,
    pub(super) error_limits: ErrorLimits,
    pub(super) context: &'a RunContext,
    /// May stop the run.
    pub(super) early: Option<EarlyAnswers<'a>>,
    pub(super) checks: Vec<Box<dyn SideCheck + 'a>>,
}

/// The results of the measured requests.
pub(super) struct Measured {
    pub(super) totals: RunTotals,
    pub(super) engine: Option<Engine>,
    /// The log, with every request.
    pub(super) sink: Sink,
}

impl Measurement<'_> {
    /// Takes the first step of the side checks. Returns their notices.
    ///
    /// # Errors
    /// A request of a check cannot be sent.
    pub(super) async fn before(&mut self) -> Result<Vec<Notice>> {
        for check in &mut self.checks {
            check.before(&mut self.run).await?;
        }
        Ok(std::mem::take(&mut self.run.found.notices))
    }

    /// Sends the measured requests, and those that are sent again after them. Writes the log on
    /// another thread.
    ///
    /// # Errors
    /// As for [`sobench_client::run`]; a side check fails.
    pub(super) fn measure(
        &mut self,
        record: RunRecord,
        start: RunStart<'_>,
        output: &OutputPlan,
        runtime: &Runtime,
    ) -> Result<Measured> {
        let warning = OnceLock::new();
        let open = |record: &RunRecord| {
            let opened = run_log_file::open(output, record);
            if let Some(message) = &opened.replaced {
                terminal::say(message);
            }
            if let Some(notice) = opened.warning {
                terminal::warn(&notice);
                warning.get_or_init(|| notice);
            }
            opened.sink
        };
        let cases = self.cases;
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
        let mode = Mode::detect(output.progress);
        let (log, events) = event_channel();
        let (ran, written) = thread::scope(|scope| {
            let writer = scope.spawn(|| writing.write(events));
            let ran = runtime.block_on(self.send_beside_checks(start, mode, &log));
            // Ends the writer.
            drop(log);
            (ran, writer.join())
        });
        let (sink, waited_bytes) =
            written.map_err(|_| Error::internal("the run log's writer panicked"))?;
        let behind = (waited_bytes > MUCH_WAITING_BYTES).then(|| {
            let waiting_mib = waited_bytes >> 20;
            BenchNotice::RunLogBehind { waiting_mib }.into()
        });
        let (totals, engine) = ran?;
        let of_log = warning.into_inner().into_iter().chain(behind);
        self.run.found.notices.splice(..0, of_log);
        Ok(Measured {
            totals,
            engine,
            sink,
        })
    }

    async fn send_beside_checks(
        &mut self,
        start: RunStart<'_>,
        mode: Mode,
        log: &EventSender,
    ) -> Result<(RunTotals, Option<Engine>)> {
        let sending = &self.run.sending;
        let mut checks = self.checks.iter_mut();
        let totals = match checks.try_for_each(|check| check.start(sending, log)) {
            Ok(()) => self.send(start, mode, log).await,
            Err(error) => Err(error),
        };
        // What the server did for the measured requests only.
        let engine = self.run.sending.session.engine();
        for check in self.checks.iter_mut().rev() {
            check.after(&mut self.run, log).await?;
        }
        Ok((totals?, engine))
    }

    /// Sends the measured requests. Each goes to the log when it ends.
    async fn send(
        &mut self,
        start: RunStart<'_>,
        mode: Mode,
        log: &EventSender,
    ) -> Result<RunTotals> {
        let concurrent = self.context.concurrent.as_ref();
        let own = OnceLock::new();
        let progress = concurrent
            .map_or(&own, |concurrent| &*concurrent.progress)
            .get_or_init(|| self.new_progress(mode));
        let is_unlimited = self.error_limits.max_consecutive_errors.is_none();
        let mut errors = is_unlimited.then(ConsecutiveErrors::default);
        let (sending, checks, early) = (&self.run.sending, &mut self.checks, &mut self.early);
        let on_event = |event: RunEvent| {
            match &event {
                RunEvent::Started { .. }
                | RunEvent::Repeated(_)
                | RunEvent::ServerSampled { .. } => {}
                // Not logged.
                RunEvent::Sent { .. } => return,
                RunEvent::ErrorLimitReached(_) => {
                    terminal::say("stopping: too many errors; requests in flight may end");
                }
                RunEvent::Ended(observation) => {
                    let is_refused =
                        |early: &mut EarlyAnswers<'_>| early.is_refused_by(observation);
                    if early.as_mut().is_some_and(is_refused) {
                        terminal::say(
                            "stopping: the constraint is not enforced; requests in flight may end",
                        );
                        sending.shutdown.drain();
                    }
                    warn_about_errors(&mut errors, &observation.outcome);
                    progress.ended(observation.outcome.is_answer());
                }
            }
            for check in checks.iter_mut() {
                check.on_event(&event);
            }
            log.send(event);
        };
        let control = RunControl {
            shutdown: sending.shutdown.clone(),
            error_limits: self.error_limits,
            start: concurrent.map_or(start, |concurrent| {
                RunStart::WithParticipants(&concurrent.seat)
            }),
        };
        let ran = sobench_client::run(
            &sending.session.client,
            Arc::clone(&sending.adapter),
            sending.request,
            self.cases,
            self.schedule,
            control,
            on_event,
        )
        .await;
        // Concurrent runs share their progress.
        if let Some(own) = own.get() {
            own.finish();
        }
        ran
    }

    fn new_progress(&self, mode: Mode) -> Progress {
        let labels = ProgressLabels {
            unit: "requests",
            failed: "without an answer",
        };
        let Schedule { part, units, .. } = self.schedule;
        let requests = units.share(*part, self.cases.len()) * self.context.runs();
        let is_known = !matches!(self.schedule.until, Until::Cycling(_));
        let progress = Progress::new(mode, is_known.then_some(requests), labels);
        match &self.context.prefix {
            Some(prefix) => progress.of_several(prefix.clone()),
            None => progress,
        }
    }
}

/// Warns once about consecutive errors without `--max-consecutive-errors`. Failures are results
/// too, and a server may recover, so the run goes on. `errors` is `None` after the warning.
fn warn_about_errors(errors: &mut Option<ConsecutiveErrors>, outcome: &Outcome) {
    // A refused constraint is a result.
    if outcome.content_refusal().is_some() {
        return;
    }
    let is_many = |errors: &mut ConsecutiveErrors| errors.ended(outcome) >= MANY_ERRORS;
    if errors.as_mut().is_some_and(is_many) {
        *errors = None;
        terminal::warn(&format!(
            "{MANY_ERRORS} consecutive requests failed ({}); Ctrl-C ends the run with a report, \
             --max-consecutive-errors stops it automatically",
            outcome.name()
        ));
    }
}
