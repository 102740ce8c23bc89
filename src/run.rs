//! The pipeline: resolve the server, load the cases, try one, drive, judge, count, report. Knows no wire format and no formula.

mod judge;
mod record;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::backend::{self, Adapter, RequestOptions};
use crate::case::Case;
use crate::dataset::{self, Dataset, DatasetPlan};
use crate::driver::schedule::due_times;
use crate::driver::{self, Event, RunOutcome, Stop, Stopper};
use crate::error::{Error, Result};
use crate::observation::{Observation, Outcome};
use crate::plan::RunPlan;
use crate::progress::{self, Mode, Progress};
use crate::report::{Report, text};
use crate::session::Session;
use crate::tokenizer::Tokenizer;

/// How many distinct constraints the trial run tries before it gives up on a server that refuses them.
const MAX_TRIALS: usize = 5;

/// How much of a server's body an error quotes.
const MAX_QUOTED_CHARS: usize = 2000;

/// A run that is over, with everything that is said about it.
pub struct Finished {
    pub report: Report,
    /// What stdout gets.
    pub console: String,
    /// Where the result was saved, if it was asked for; a failure to save costs neither report nor console.
    pub saved: Result<Option<PathBuf>>,
    pub interrupted: bool,
}

impl Finished {
    /// 130 if interrupted, 3 if the result could not be saved or no request got an answer, else 0.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self { interrupted: true, .. } => 130,
            Self { saved: Err(error), .. } => error.exit_code(),
            _ if self.nothing_answered() => 3,
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
        if self.interrupted {
            lines.push("interrupted: the report covers what was done, and is partial".to_owned());
        } else if self.nothing_answered() {
            lines.push("error: every request failed\nhint: the table of failures above has the server's own words".to_owned());
        }
        lines
    }

    fn nothing_answered(&self) -> bool {
        self.report.metrics.overall.completed == 0
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
        record::make_directory(plan)?;
    }
    let runtime = Runtime::new().map_err(|error| Error::environment(format!("no threads to run on: {error}")))?;
    let tokenizer = plan.tokenizer.as_deref().map_or_else(|| Ok(Tokenizer::embedded()), Tokenizer::open)?;
    let session = Session::open(plan, &runtime)?;
    let dataset = load(plan, &session, &tokenizer)?;
    for notice in session.notices.iter().chain(&dataset.notices) {
        progress::say(notice);
    }
    let driven = drive(plan, &session, &dataset, &runtime)?;
    let judged = judge::judge(plan, &dataset.cases, &driven.outcome.observations, &tokenizer);
    let samples = judge::samples(&dataset.cases, &driven.outcome.observations, &judged);
    let report = record::report(plan, &session, &dataset, &driven, &tokenizer, &samples);
    let saved = if plan.output.save { record::save(plan, &report).map(Some) } else { Ok(None) };
    Ok(Finished { console: text::render(&report), report, saved, interrupted: driven.interrupted })
}

/// What came of sending.
struct Driven {
    outcome: RunOutcome,
    trials: usize,
    interrupted: bool,
    /// Names of constraints that the trial run saw refused.
    notices: Vec<String>,
}

fn load(plan: &RunPlan, session: &Session, tokenizer: &Tokenizer) -> Result<Dataset> {
    let plan = DatasetPlan { grammar_dialect: session.grammar_dialect, ..plan.dataset.clone() };
    dataset::load(&plan, tokenizer)
}

fn drive(plan: &RunPlan, session: &Session, dataset: &Dataset, runtime: &Runtime) -> Result<Driven> {
    let request = session.request_options(plan);
    backend::check(plan.backend, &dataset.cases, &request)?;
    let adapter: Arc<dyn Adapter> = Arc::from(backend::adapter(plan.backend));
    let traffic = &plan.traffic;
    let due = due_times(dataset.cases.len(), traffic.rate, traffic.burstiness, plan.dataset.seed);
    runtime.block_on(async {
        let (stopper, stop) = driver::stop();
        let watcher = tokio::spawn(watch_ctrl_c(stopper));
        let sending = Sending { session, adapter, request: &request, stop };
        let (trials, notices) = sending.try_out(&dataset.cases).await?;
        sending.warm_up(&dataset.cases, traffic.warmups).await?;
        let outcome = sending.measure(&dataset.cases, &due, Mode::detect(plan.output.progress)).await?;
        let interrupted = sending.stop.state() != driver::StopState::Running;
        watcher.abort();
        Ok(Driven { outcome, trials, interrupted, notices })
    })
}

/// The first Ctrl-C stops sending and lets requests under way end, the second cuts them off.
async fn watch_ctrl_c(stopper: Stopper) {
    while tokio::signal::ctrl_c().await.is_ok() {
        match stopper.signal() {
            driver::StopState::Draining => {
                progress::say("stopping: requests under way may end; press Ctrl-C again to cut them off");
            }
            _ => progress::say("stopping now"),
        }
    }
}

/// Everything that sending one of the run's requests takes.
struct Sending<'a> {
    session: &'a Session,
    adapter: Arc<dyn Adapter>,
    request: &'a RequestOptions,
    stop: Stop,
}

impl Sending<'_> {
    /// Sends the first request alone. Where the server refuses it and the dataset has other constraints, those are tried too, a
    /// few: one schema that an engine cannot do is a result, not the end of the run.
    async fn try_out(&self, cases: &[Case]) -> Result<(usize, Vec<String>)> {
        let mut notices = Vec::new();
        let candidates = distinct_constraints(cases);
        for (trials, case) in candidates.iter().enumerate() {
            let seen = self.send(case, &format!("trial-{trials}")).await?;
            let refused = matches!(seen.outcome, Outcome::Rejected { status: 400 | 422, .. });
            if seen.outcome.is_answer() {
                return Ok((trials + 1, notices));
            }
            if !refused || trials + 1 == candidates.len() {
                return Err(self.trial_error(case, &seen.outcome));
            }
            notices.push(format!("the trial run's request {} was refused; another one was tried", case.id));
        }
        Err(Error::internal("a dataset without cases"))
    }

    /// vLLM's warm-ups: copies of the first request.
    async fn warm_up(&self, cases: &[Case], count: usize) -> Result<()> {
        let Some(first) = cases.first() else { return Ok(()) };
        for number in 0..count {
            if self.stop.state() != driver::StopState::Running {
                break;
            }
            self.send(first, &format!("warmup-{number}")).await?;
        }
        Ok(())
    }

    async fn measure(&self, cases: &[Case], due: &[Duration], mode: Mode) -> Result<RunOutcome> {
        let progress = Progress::new(mode, cases.len());
        let show = |event: Event<'_>| {
            if let Event::Ended(observation) = event {
                progress.ended(observation.outcome.is_answer());
            }
        };
        let adapter = Arc::clone(&self.adapter);
        let outcome = driver::run(&self.session.client, adapter, self.request, cases, due, self.stop.clone(), show).await;
        progress.finish();
        outcome
    }

    async fn send(&self, case: &Case, label: &str) -> Result<Observation> {
        let adapter = Arc::clone(&self.adapter);
        driver::send_one(&self.session.client, adapter, self.request, case, label, self.stop.clone()).await
    }

    fn trial_error(&self, case: &Case, outcome: &Outcome) -> Error {
        let place = format!("{}{}", self.session.base_url.trim_end_matches('/'), self.session.path);
        let words = |status: &u16, body: &str| format!("the trial run failed at {place}: {status} {}", quoted(body));
        match outcome {
            Outcome::Rejected { status, body } => Error::environment(words(status, body)).hint(refusal_hint(*status, case)),
            Outcome::ServerError { status, body } => Error::environment(words(status, body))
                .hint("the server failed on the first request: its log has more; nothing was measured"),
            Outcome::StreamError { message } => Error::environment(format!("the trial run failed at {place}: {message}"))
                .hint("the stream is not what this kind of server sends: check --backend and --endpoint"),
            Outcome::Transport { message, .. } => Error::environment(format!("the trial run failed at {place}: {message}"))
                .hint("is the server up? --ready-check-timeout-sec waits for it"),
            Outcome::TimedOut { limit_ms } => {
                Error::environment(format!("the trial run took longer than {limit_ms} ms at {place}"))
                    .hint("raise --request-timeout, or look at what the server does")
            }
            Outcome::Cancelled => Error::interrupted("stopped during the trial run").hint("nothing was measured"),
            Outcome::Completed | Outcome::Truncated => Error::internal("an answered trial run is no failure"),
        }
    }
}

fn refusal_hint(status: u16, case: &Case) -> String {
    match (status, &case.constraint) {
        (401 | 403, _) => "set OPENAI_API_KEY, or give the header with --header".to_owned(),
        (404, _) => "check --model against /v1/models, and --endpoint and --backend against the server".to_owned(),
        (_, Some(constraint)) => format!(
            "the server refuses the request as it was sent; if it is the {} constraint, try another --constraint-dialect or \
             --guided-decoding-backend, or a constraint that the engine supports",
            constraint.kind()
        ),
        _ => "the server refuses the request as it was sent: its words say why".to_owned(),
    }
}

/// The first case, and after it the first of each other constraint, a few in all.
fn distinct_constraints(cases: &[Case]) -> Vec<&Case> {
    let mut found: Vec<&Case> = Vec::new();
    for case in cases {
        if found.len() < MAX_TRIALS && found.iter().all(|other| other.constraint != case.constraint) {
            found.push(case);
        }
    }
    found
}

fn quoted(body: &str) -> String {
    let text = body.trim();
    match text.char_indices().nth(MAX_QUOTED_CHARS) {
        None if text.is_empty() => "(no body)".to_owned(),
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Arm, Prompt};
    use crate::constraint::Constraint;

    fn case(id: usize, regex: &str) -> Case {
        Case {
            id: format!("regex-{id}"),
            prompt: Prompt::Text("?".into()),
            prompt_tokens: None,
            constraint: Some(Arc::new(Constraint::Regex(regex.into()))),
            arm: Arm::Constrained,
            output_len: 8,
            completion: None,
            tags: Vec::new(),
            grammar_oracle: None,
        }
    }

    #[test]
    fn the_trial_run_tries_each_constraint_once_and_not_too_many() {
        let tried = |regexes: &[&str]| {
            let cases: Vec<Case> = regexes.iter().enumerate().map(|(id, regex)| case(id, regex)).collect();
            distinct_constraints(&cases).iter().map(|case| case.id.clone()).collect::<Vec<_>>()
        };
        assert_eq!(tried(&["a", "a", "b", "a", "c"]), ["regex-0", "regex-2", "regex-4"]);
        assert_eq!(tried(&["a", "b", "c", "d", "e", "f", "g"]).len(), MAX_TRIALS);
        assert!(tried(&[]).is_empty());
    }

    #[test]
    fn quotes_are_cut_at_a_character() {
        assert_eq!(quoted("  \n"), "(no body)");
        assert_eq!(quoted(" no "), "no");
        let long = quoted(&"\u{e4}".repeat(MAX_QUOTED_CHARS + 1));
        assert!(long.ends_with("...") && long.chars().count() == MAX_QUOTED_CHARS + 3);
    }

    #[test]
    fn hints_name_the_likely_cause() {
        for (status, word) in [(401, "OPENAI_API_KEY"), (404, "--model"), (400, "regex"), (422, "regex")] {
            assert!(refusal_hint(status, &case(0, "a")).contains(word), "{status}");
        }
    }
}
