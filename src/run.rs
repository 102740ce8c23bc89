//! The pipeline: resolve the server, load the cases, try one, drive, judge, count, report. Knows no wire format and no formula.

mod cold;
mod explain;
mod extent;
mod judge;
mod named_model;
mod preflight;
mod record;
mod sending;
mod warmup;

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::runtime::Runtime;

use self::preflight::Settling;
pub(crate) use self::record::date;
use self::sending::Sending;
use crate::backend::{self, Adapter};
use crate::case::Case;
use crate::dataset::{self, Dataset, DatasetPlan};
use crate::driver::schedule::{Schedule, due_times};
use crate::driver::{self, RunOutcome, StopState, Stopper};
use crate::ending::Ending;
use crate::error::{Error, Result};
use crate::evaluate::Evaluator;
use crate::metrics::client::ClientVerdict;
use crate::plan::RunPlan;
use crate::progress::{self, Mode};
use crate::report::{Enforcement, Report, client_sentence, text};
use crate::session::Session;
use crate::tokenizer::Tokenizer;

/// A run that is over, with everything that is said about it.
pub struct Finished {
    pub report: Report,
    /// What stdout gets.
    pub console: String,
    /// Where the result was saved, if it was asked for; a failure to save costs neither report nor console.
    pub saved: Result<Option<PathBuf>>,
    pub interrupted: bool,
    /// Whether a client that stood in the way is a failure (`--strict-client`).
    pub strict_client: bool,
}

impl Finished {
    /// 130 if interrupted, 3 if the result could not be saved or no request got an answer, 1 if the client stood in the way and must
    /// not, else 0.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self { interrupted: true, .. } => 130,
            Self { saved: Err(error), .. } => error.exit_code(),
            _ if self.nothing_answered() => 3,
            _ if self.strict_client && self.distrust().is_some() => 1,
            _ => 0,
        }
    }

    /// What stderr gets after the report.
    pub fn closing_lines(&self) -> Vec<String> {
        let mut lines = match &self.saved {
            Ok(None) => Vec::new(),
            Ok(Some(path)) => vec![format!("result saved: {}", path.display())],
            Err(error) => vec![format!("error: {error}")],
        };
        lines.extend(self.distrust().map(|sentence| format!("warning: {sentence}")));
        if self.interrupted {
            lines.push("interrupted: the report covers what was done, and is partial".to_owned());
        } else if self.nothing_answered() {
            lines.push("error: every request failed\nhint: the table of requests without an answer, above, says why".to_owned());
        }
        lines
    }

    /// What speaks against the client, if anything does.
    fn distrust(&self) -> Option<String> {
        let part = self.report.client.as_ref()?;
        (part.verdict == ClientVerdict::DoNotTrust).then(|| client_sentence(part))
    }

    fn nothing_answered(&self) -> bool {
        self.report.metrics.overall.completed == 0
    }
}

impl From<Finished> for Ending {
    fn from(finished: Finished) -> Self {
        Self { exit_code: finished.exit_code(), lines: finished.closing_lines(), stdout: finished.console }
    }
}

/// Runs a benchmark from plan to report.
///
/// # Errors
/// Whatever keeps the run from beginning: wrong input, no server, a failing trial run; or a result that cannot be saved.
pub fn run(plan: &RunPlan) -> Result<Finished> {
    for warning in plan.warnings() {
        progress::warn(&warning);
    }
    if plan.output.save {
        record::make_room(plan)?;
    }
    let runtime = Runtime::new().map_err(|error| Error::environment(format!("no threads to run on: {error}")))?;
    let tokenizer = plan.tokenizer.as_deref().map_or_else(|| Ok(Tokenizer::embedded()), Tokenizer::open)?;
    let mut session = Session::open(plan, &runtime)?;
    let mut dataset = load(plan, &session, &tokenizer)?;
    if let Some(every) = plan.traffic.cold_schema_every {
        let injected = cold::inject(&mut dataset.cases, every)?;
        dataset.notices.push(format!(
            "{injected} requests carry a schema that no server has seen (--cold-schema-every {every}); the dataset's hash is without them"
        ));
    }
    for notice in session.notices.iter().chain(&dataset.notices) {
        progress::say(notice);
    }
    if plan.constraint.explain {
        explain::routes(&session, &dataset.cases).iter().for_each(|line| progress::say(line));
    }
    let mut evaluator = Evaluator::new(plan.evaluate);
    let unjudged = judge::look_ahead(plan, &dataset.cases, &mut evaluator)?;
    unjudged.iter().for_each(|notice| progress::warn(notice));
    let driven = drive(plan, &mut session, &dataset, &runtime)?;
    let judged = judge::judge(&driven.cases, &driven.outcome.observations, &mut evaluator, &tokenizer, plan.metrics.answers);
    let samples = judge::samples(&driven.cases, &driven.outcome.observations, &judged);
    let report = record::report(plan, &session, &dataset, &driven, &tokenizer, &samples);
    let saved = if plan.output.save { record::save(plan, &report).map(Some) } else { Ok(None) };
    Ok(Finished {
        console: text::render(&report),
        report,
        saved,
        interrupted: driven.interrupted,
        strict_client: plan.traffic.strict_client,
    })
}

/// What came of sending.
struct Driven<'a> {
    /// The cases that the run came to, one for each observation.
    cases: Cow<'a, [Case]>,
    schedule: Schedule,
    outcome: RunOutcome,
    trials: usize,
    /// Fingerprints of the constraints that the server was sent before the run.
    known: HashSet<String>,
    warmups: usize,
    interrupted: bool,
    enforcement: Enforcement,
    /// What happened before the run that the reader has to know.
    notices: Vec<String>,
}

fn load(plan: &RunPlan, session: &Session, tokenizer: &Tokenizer) -> Result<Dataset> {
    let plan = DatasetPlan {
        grammar_dialect: session.grammar_dialect,
        grammar_spelling: session.grammar_spelling,
        ..plan.dataset.clone()
    };
    dataset::load(&plan, tokenizer)
}

fn drive<'a>(plan: &RunPlan, session: &mut Session, dataset: &'a Dataset, runtime: &Runtime) -> Result<Driven<'a>> {
    let cases = &dataset.cases;
    let adapter: Arc<dyn Adapter> = Arc::from(backend::adapter(plan.backend));
    let traffic = &plan.traffic;
    let due = due_times(cases.len(), traffic.pace, traffic.burstiness, plan.dataset.seed);
    let schedule = Schedule { due, until: traffic.until };
    let (stopper, stop) = driver::stop();
    let settling = Settling { plan, session, adapter: &adapter, stop: &stop };
    let candidates = settling.candidates(cases)?;
    let mut notices: Vec<String> = room_notice(traffic.max_concurrency, cases.len()).into_iter().collect();
    notices.iter().for_each(|notice| progress::warn(notice));
    let watcher = runtime.spawn(watch_ctrl_c(stopper));
    let settled = runtime.block_on(settling.settle(candidates, cases))?;
    notices.extend(settled.notices);
    if settled.request.dialect != session.dialect {
        session.speak(plan, settled.request.dialect);
    }
    let sending = Sending { session, adapter, request: &settled.request, stop };
    runtime.block_on(async {
        let trial = settled.trial;
        let warmups = sending.warm_up(&warmup::cases(cases, traffic.warmups, plan.dataset.seed)).await?;
        notices.extend(trial.notices);
        notices.extend((warmups.failed > 0).then(|| format!("{} of {} warm-ups got no answer", warmups.failed, warmups.sent)));
        let outcome = sending.measure(cases, &schedule, Mode::detect(plan.output.progress)).await?;
        let interrupted = sending.stop.state() != StopState::Running;
        watcher.abort();
        let count = outcome.observations.len();
        notices.extend(extent::notice(plan.dataset.name, schedule.until, cases.len(), count));
        let cases = extent::asked(cases, count);
        let (trials, known, warmups, enforcement) = (trial.requests, trial.constraints, warmups.sent, settled.enforcement);
        Ok(Driven { cases, schedule, outcome, trials, known, warmups, interrupted, enforcement, notices })
    })
}

/// Makes room for the connections, and says where the system does not give enough.
fn room_notice(max_concurrency: Option<usize>, requests: usize) -> Option<String> {
    let connections = max_concurrency.map_or(requests, |most| most.min(requests));
    driver::make_room(connections).map(|limit| {
        format!(
            "the system allows {limit} open files, too few for {connections} requests at once: those past it fail here, not in the \
             server; lower --max-concurrency or raise the limit (ulimit -n)"
        )
    })
}

/// The first Ctrl-C stops sending and lets requests under way end, the second cuts them off.
async fn watch_ctrl_c(stopper: Stopper) {
    while tokio::signal::ctrl_c().await.is_ok() {
        match stopper.signal() {
            StopState::Draining => {
                progress::say("stopping: requests under way may end; press Ctrl-C again to cut them off");
            }
            _ => progress::say("stopping now"),
        }
    }
}
