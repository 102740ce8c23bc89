//! Sending the run's requests: first alone, as a trial, then as warm-ups, then measured. Knows no
//! verdict and no report.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use super::named_model::Overhearing;
use super::setting::Company;
use crate::commands::bench::session::Session;
use crate::terminal::{self, Mode, Progress, Words};
use sobench_backend::{Adapter, RequestOptions, ServerKind, unsupported};
use sobench_client::{self as driver, Beginning, InARow, Outside, Ran};
use sobench_core::case::{Arm, Case};
use sobench_core::constraint::{Constraint, GrammarDialect};
use sobench_core::error::{Error, Result};
use sobench_core::load::ErrorLimits;
use sobench_core::observation::{Advice, Observation, Outcome, TransportCause, failure_words};
use sobench_core::printable::printable_body;
use sobench_core::run_event::RunEvent;
use sobench_core::schedule::{Schedule, Until};
use sobench_core::shard::Shard;
use sobench_notices::notice::{BenchNotice, Notice};
use sobench_results::runlog::write::EventSender;
use sobench_shutdown::Shutdown;

/// How many distinct constraints the trial run tries before it gives up on a server that refuses
/// them.
const MAX_TRIALS: usize = 5;

/// How much of a server's body an error quotes.
const MAX_QUOTED_CHARS: usize = 2000;

/// The user is told when so many requests in a row ended in an error.
const MANY_ERRORS: usize = 100;

/// Everything that sending one of the run's requests takes.
pub(super) struct Sending<'a> {
    pub(super) session: &'a Session,
    pub(super) adapter: Arc<dyn Adapter>,
    pub(super) request: &'a RequestOptions,
    pub(super) shutdown: Shutdown,
    /// For the measured requests.
    pub(super) error_limits: ErrorLimits,
    /// Other runs that go on at the same time.
    pub(super) company: Option<&'a Company>,
}

/// A trial run in which every constraint that was tried was refused.
pub(super) struct Refused {
    /// Requests that it took.
    pub(super) requests: usize,
    /// The server's words, for the user.
    pub(super) error: Error,
}

/// How a trial run ended that did not fail.
pub(super) type Tried<'a> = std::result::Result<Trial<'a>, Refused>;

/// What the trial run found out.
pub(super) struct Trial<'a> {
    /// Requests that it took.
    pub(super) requests: usize,
    /// The case that the server answered.
    pub(super) answered: &'a Case,
    /// Fingerprints of the constraints that were sent.
    pub(super) constraints: HashSet<String>,
    pub(super) notices: Vec<Notice>,
}

impl Sending<'_> {
    /// Sends the first request alone. Where the server refuses it and the dataset has other
    /// constraints, those are tried too, a few: one schema that an engine cannot do is a result,
    /// not the end of the run.
    pub(super) async fn try_out<'c>(&self, cases: &'c [Case]) -> Result<Tried<'c>> {
        let mut notices = Vec::new();
        let mut constraints = HashSet::new();
        let overhearing = Arc::new(Overhearing::new(Arc::clone(&self.adapter)));
        let candidates = distinct_constraints(self.adapter.kind(), cases);
        for (before, case) in candidates.iter().enumerate() {
            let adapter = Arc::clone(&overhearing) as Arc<dyn Adapter>;
            let seen = self
                .send_by(adapter, case, &format!("trial-{before}"))
                .await?;
            let sent = case
                .constraint
                .as_ref()
                .filter(|_| case.arm == Arm::Constrained);
            constraints.extend(sent.map(|constraint| constraint.fingerprint()));
            if seen.outcome.is_answer() {
                notices.extend(overhearing.notice(&self.request.model));
                return Ok(Ok(Trial {
                    requests: before + 1,
                    answered: case,
                    constraints,
                    notices,
                }));
            }
            let error = self.trial_error(case, &seen.outcome);
            match seen.outcome {
                Outcome::Rejected {
                    status: 400 | 422, ..
                } if before + 1 < candidates.len() => {}
                Outcome::Rejected {
                    status: 400 | 422, ..
                } => {
                    return Ok(Err(Refused {
                        requests: before + 1,
                        error,
                    }));
                }
                _ => return Err(error),
            }
            notices.push(
                BenchNotice::TrialRefused {
                    request: case.id.clone(),
                }
                .into(),
            );
        }
        Err(Error::internal("a dataset without cases"))
    }

    /// Sends a part of the warm-ups, as many at once as the run may have under way. Returns how
    /// many were sent, and how many of them got no answer.
    pub(super) async fn warm_up(&self, cases: &[Case], part: Shard) -> Result<(usize, usize)> {
        let adapter = Arc::clone(&self.adapter);
        let seen = driver::warm_up(
            &self.session.client,
            adapter,
            self.request,
            cases,
            part,
            &self.shutdown,
        )
        .await?;
        let sent = seen.iter().filter(|it| it.timing.sent_ns.is_some()).count();
        let answered = seen.iter().filter(|it| it.outcome.is_answer()).count();
        Ok((sent, sent - answered))
    }

    /// The requests that are measured; each goes to the log when it has ended.
    pub(super) async fn measure(
        &self,
        cases: &[Case],
        schedule: &Schedule,
        beginning: Beginning<'_>,
        mode: Mode,
        log: EventSender,
    ) -> Result<Ran> {
        let words = Words {
            unit: "requests",
            failed: "without an answer",
        };
        let runs = self.company.map_or(1, Company::runs);
        let begun = || match schedule.until {
            Until::Cycling(_) => Progress::new(mode, None, words),
            Until::LastCase | Until::Time(_) => {
                Progress::new(mode, schedule.part.share(cases.len()) * runs, words)
            }
        };
        let own = OnceLock::new();
        let progress = self
            .company
            .map_or(&own, |company| &*company.progress)
            .get_or_init(begun);
        let mut patience = Patience::new(self.error_limits);
        let on_event = |event: RunEvent| {
            match &event {
                RunEvent::Started { .. } => {}
                // One for every request, and of no use to the log.
                RunEvent::Sent { .. } => return,
                RunEvent::Tripped(_) => {
                    terminal::say("stopping: too many errors; requests under way may end")
                }
                RunEvent::Ended(observation) => {
                    patience.ended(&observation.outcome);
                    progress.ended(observation.outcome.is_answer());
                }
            }
            log.send(event);
        };
        let adapter = Arc::clone(&self.adapter);
        let beginning = self
            .company
            .map_or(beginning, |company| Beginning::With(&company.seat));
        let outside = Outside {
            shutdown: self.shutdown.clone(),
            error_limits: self.error_limits,
            beginning,
        };
        let ran = driver::run(
            &self.session.client,
            adapter,
            self.request,
            cases,
            schedule,
            outside,
            on_event,
        )
        .await;
        // Where there are others, it is theirs as well.
        if let Some(own) = own.get() {
            own.finish();
        }
        ran
    }

    /// Sends one case alone.
    pub(super) async fn send(&self, case: &Case, label: &str) -> Result<Observation> {
        self.send_by(Arc::clone(&self.adapter), case, label).await
    }

    async fn send_by(
        &self,
        adapter: Arc<dyn Adapter>,
        case: &Case,
        label: &str,
    ) -> Result<Observation> {
        driver::send_one(
            &self.session.client,
            adapter,
            self.request,
            case,
            label,
            &self.shutdown,
        )
        .await
    }

    fn trial_error(&self, case: &Case, outcome: &Outcome) -> Error {
        let place = format!(
            "{}{}",
            self.session.base_url.trim_end_matches('/'),
            self.session.path
        );
        let failed =
            |why: &str| Error::environment(format!("the trial run failed at {place}: {why}"));
        let refused = |status: &u16, body: &str| {
            failed(&format!(
                "{status} {}",
                printable_body(body, MAX_QUOTED_CHARS)
            ))
        };
        if let Some(hint) = moved_hint(outcome) {
            return failed(&printable_body(&failure_words(outcome), MAX_QUOTED_CHARS)).hint(hint);
        }
        match outcome {
            Outcome::Rejected { status, body, .. } => {
                refused(status, body).hint(refusal_hint(*status, case, self.session.is_embedded()))
            }
            Outcome::ServerError { status, body, .. } => refused(status, body).hint(
                "the server failed on the first request: its log has more; nothing was measured",
            ),
            Outcome::StreamError { message } => failed(message).hint(
                "the stream is not what this kind of server sends: check --backend and --endpoint",
            ),
            Outcome::Transport { cause, message } => {
                failed(message).hint(no_exchange_hint(*cause, message))
            }
            Outcome::TimedOut { limit, .. } => failed(&failure_words(outcome)).hint(format!(
                "raise {}, or look at what the server does",
                limit.flag()
            )),
            Outcome::Cancelled => {
                Error::interrupted("stopped during the trial run").hint("nothing was measured")
            }
            Outcome::Unsupported { what } => {
                Error::internal(format!("a trial that cannot be sent: {what}"))
            }
            Outcome::Completed | Outcome::Truncated => {
                Error::internal("an answered trial run is no failure")
            }
        }
    }
}

/// What to do where the server is another one's signpost.
fn moved_hint(outcome: &Outcome) -> Option<&'static str> {
    let (Outcome::Rejected { advice, .. } | Outcome::ServerError { advice, .. }) = outcome else {
        return None;
    };
    matches!(advice, Some(Advice::Location(_)))
        .then_some("give the address that it points to as --base-url; it gets no request and no key from here otherwise")
}

/// What to do where there was no exchange; its words may say it already.
fn no_exchange_hint(cause: TransportCause, message: &str) -> &'static str {
    match cause {
        _ if driver::names_a_remedy(message) => {
            "the words above say what to do; nothing was measured"
        }
        TransportCause::Connect => "is the server up? --ready-check-timeout-sec waits for it",
        TransportCause::Local => {
            "the server was not asked: this machine has too little for the run, and the words above say of what"
        }
        TransportCause::Reset | TransportCause::Closed => {
            "somebody took the request and ended the connection: the server's log may say why; nothing was measured"
        }
        TransportCause::BodyTooLarge | TransportCause::Other => {
            "what answers there is no server of this kind: check --base-url, --endpoint and --backend"
        }
    }
}

/// Says once that nothing but errors comes, where nobody said how many are too many: what fails is
/// a result as well, and a server may come back, so that only the user can tell.
struct Patience {
    /// `None` where there is nothing to be said any more.
    errors: Option<InARow>,
}

impl Patience {
    fn new(limits: ErrorLimits) -> Self {
        Self {
            errors: limits
                .max_consecutive_errors
                .is_none()
                .then(InARow::default),
        }
    }

    fn ended(&mut self, outcome: &Outcome) {
        if self
            .errors
            .as_mut()
            .is_some_and(|errors| errors.ended(outcome) >= MANY_ERRORS)
        {
            self.errors = None;
            terminal::warn(&format!(
                "{MANY_ERRORS} requests ended in an error one after the other ({}); Ctrl-C ends the run with a report, and \
                 --max-consecutive-errors would have done so",
                outcome.name()
            ));
        }
    }
}

fn refusal_hint(status: u16, case: &Case, embedded: bool) -> String {
    match (status, &case.constraint) {
        (401 | 403, _) => "set OPENAI_API_KEY, or give the header with --header".to_owned(),
        (429, _) => "the server has too much to do, or a limit on how fast it may be asked: wait, then lower --request-rate or \
             --max-concurrency"
            .to_owned(),
        (404, _) => "check --model against /v1/models, and --endpoint and --backend against the server".to_owned(),
        (_, Some(constraint))
            if embedded && matches!(&**constraint, Constraint::Grammar { dialect: GrammarDialect::Ebnf, .. }) =>
        {
            "the embedded engine guidance reads Lark only: --grammar-dialect lark converts the grammar, xgrammar reads EBNF"
                .to_owned()
        }
        (_, Some(constraint)) => format!(
            "the server refuses the request as it was sent; if it is the {} constraint, try another --constraint-dialect or \
             --guided-decoding-backend, or a constraint that the engine supports",
            constraint.kind()
        ),
        _ => "the server refuses the request as it was sent: its words say why".to_owned(),
    }
}

/// The first case, and after it the first of each other constraint, a few in all.
fn distinct_constraints(kind: ServerKind, cases: &[Case]) -> Vec<&Case> {
    let mut found: Vec<&Case> = Vec::new();
    for case in cases
        .iter()
        .filter(|case| unsupported(kind, case).is_none())
    {
        if found.len() < MAX_TRIALS
            && found
                .iter()
                .all(|other| other.constraint != case.constraint)
        {
            found.push(case);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_core::case::Prompt;

    fn case(id: usize, regex: &str) -> Case {
        Case::new(
            format!("regex-{id}"),
            Prompt::Text("?".into()),
            Some(Arc::new(Constraint::Regex(regex.into()))),
            8,
        )
    }

    #[test]
    fn the_trial_run_tries_each_constraint_once_and_not_too_many() {
        let tried = |regexes: &[&str]| {
            let cases: Vec<Case> = regexes
                .iter()
                .enumerate()
                .map(|(id, regex)| case(id, regex))
                .collect();
            distinct_constraints(ServerKind::Vllm, &cases)
                .iter()
                .map(|case| case.id.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            tried(&["a", "a", "b", "a", "c"]),
            ["regex-0", "regex-2", "regex-4"]
        );
        assert_eq!(
            tried(&["a", "b", "c", "d", "e", "f", "g"]).len(),
            MAX_TRIALS
        );
        assert!(tried(&[]).is_empty());
    }

    #[test]
    fn hints_go_by_the_cause_of_a_failed_exchange() {
        use TransportCause::{Closed, Connect, Local, Other, Reset};
        for (cause, message, word) in [
            (
                Connect,
                "error trying to connect: refused",
                "--ready-check-timeout-sec",
            ),
            (
                Connect,
                "error trying to connect: no address: check the name in --base-url, or this machine's DNS",
                "above",
            ),
            (Local, "sobench may open no more files", "this machine"),
            (Reset, "reset by peer", "log"),
            (Closed, "closed", "log"),
            (
                Other,
                "what answers there speaks no HTTP/1.1: is the address one of https://?",
                "above",
            ),
            (Other, "odd", "--backend"),
        ] {
            let hint = no_exchange_hint(cause, message);
            assert!(hint.contains(word), "{cause:?} {message}: {hint}");
            assert_eq!(
                hint.contains("is the server up"),
                word.starts_with("--ready"),
                "{hint}"
            );
        }
    }

    #[test]
    fn hints_name_the_likely_cause() {
        for (status, word) in [
            (401, "OPENAI_API_KEY"),
            (404, "--model"),
            (400, "regex"),
            (422, "regex"),
            (429, "--request-rate"),
        ] {
            assert!(
                refusal_hint(status, &case(0, "a"), false).contains(word),
                "{status}"
            );
            assert_eq!(
                refusal_hint(status, &case(0, "a"), false).contains("--constraint-dialect"),
                matches!(status, 400 | 422)
            );
        }
    }
}
