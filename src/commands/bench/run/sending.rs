//! Sends single requests of a run, first the trial request.

use std::collections::HashSet;
use std::sync::Arc;

use super::refused_part;
use crate::commands::bench::session::{DEFAULT_ADDRESS_HINT, Session};
use sobench_backend::{Adapter, BodySettings, ServerKind, StreamFault, unsupported};
use sobench_core::case::{Arm, Case};
use sobench_core::constraint::Constraint;
use sobench_core::error::{Error, Result};
use sobench_core::error_message::error_message;
use sobench_core::observation::{
    Advice, MAX_STATED_TOKENS, Observation, Outcome, Stage, TransportCause, failure_message,
};
use sobench_core::printable::{NAME_CHARS, printable, printable_body, printable_message};
use sobench_notices::notice::{BenchNotice, Notice};
use sobench_shutdown::Shutdown;

/// Distinct constraints that the trial run tries before it gives up.
const MAX_TRIALS: usize = 5;

/// The inputs of sending.
pub(super) struct Sending<'a> {
    pub(super) session: &'a Session,
    pub(super) adapter: Arc<dyn Adapter>,
    pub(super) request: &'a BodySettings,
    pub(super) shutdown: Shutdown,
}

/// The result of the trial run.
pub(super) struct Trial<'a> {
    /// Requests sent.
    pub(super) requests: usize,
    /// The case that has an answer, or the first one without.
    pub(super) case: &'a Case,
    /// The answer's tokens, where they are more than its request allows.
    pub(super) excess_tokens: Option<u64>,
    /// Whether the server answered a request, with or without its constraint.
    pub(super) has_answer: bool,
    /// Whether a refusal names `max_completion_tokens`.
    pub(super) is_token_limit_refused: bool,
    /// The refusal of the constraints, if the server answers only without them.
    pub(super) refusal: Option<Notice>,
    /// Fingerprints of the constraints that were sent.
    pub(super) constraints: HashSet<String>,
    pub(super) notices: Vec<Notice>,
}

/// Whether the request of a case has a constraint.
pub(super) fn is_constrained(case: &Case) -> bool {
    case.arm.sends_constraint() && case.constraint.is_some()
}

impl Sending<'_> {
    /// Sends the first request alone. Where it has no answer, a few other constraints are tried, and
    /// then the first one without its constraint. A request that a server refuses or fails on is a
    /// result, not an error.
    ///
    /// # Errors
    /// No request can have an answer: no response, a wrong address or a wrong key ([`is_unusable`]).
    pub(super) async fn try_out<'c>(&self, cases: &'c [Case]) -> Result<Trial<'c>> {
        let mut constraints = HashSet::new();
        let mut failed: Vec<(&'c Case, Observation)> = Vec::new();
        for case in distinct_constraints(self.adapter.kind(), cases) {
            let label = format!("trial-{}", failed.len());
            let seen = self.send(case, &label).await?;
            let sent = case.constraint.as_ref().filter(|_| is_constrained(case));
            constraints.extend(sent.map(|constraint| constraint.fingerprint()));
            if is_response_of_model(&seen.outcome) {
                let others = failed.iter().map(|(case, seen)| {
                    let reason = failure_message(&seen.outcome);
                    BenchNotice::trial_refused(case.id.clone(), &reason).into()
                });
                return Ok(Trial {
                    requests: failed.len() + 1,
                    case,
                    excess_tokens: excess_tokens(case.output_len, &seen),
                    has_answer: true,
                    is_token_limit_refused: false,
                    refusal: None,
                    constraints,
                    notices: others.chain(self.other_model(case, &seen)).collect(),
                });
            }
            if ends_trial(&seen.outcome) {
                let error = self.trial_error(case, &seen.outcome);
                return Err(match failed.last() {
                    Some((before, _)) => error.hint(format!(
                        "the server took the request {} and no other one since: check its log",
                        before.id
                    )),
                    None => error,
                });
            }
            failed.push((case, seen));
        }
        self.try_control(&failed, constraints).await
    }

    /// Sends a request without its constraint after requests that failed.
    async fn try_control<'c>(
        &self,
        failed: &[(&'c Case, Observation)],
        constraints: HashSet<String>,
    ) -> Result<Trial<'c>> {
        let is_sent = |(case, _): &&(&Case, Observation)| is_constrained(case);
        let Some((case, first)) = failed.iter().find(is_sent).or(failed.first()) else {
            return Err(Error::internal("a dataset without cases"));
        };
        let control = is_constrained(case).then(|| self.without_constraint(case));
        let answered = match &control {
            Some(control) => Some(self.send(control, "trial-control").await?),
            None => None,
        };
        let answer = answered.as_ref();
        let other_model = answer.and_then(|seen| self.other_model(case, seen));
        let trial = Trial {
            requests: failed.len() + usize::from(answer.is_some()),
            case,
            excess_tokens: answer.and_then(|seen| excess_tokens(case.output_len, seen)),
            has_answer: answer.is_some_and(|seen| is_response_of_model(&seen.outcome)),
            is_token_limit_refused: failed
                .iter()
                .any(|(_, seen)| names_token_limit(&seen.outcome)),
            refusal: None,
            constraints,
            notices: other_model.into_iter().collect(),
        };
        let reason = failure_message(&first.outcome);
        if trial.has_answer {
            let Some((status, body)) = first.outcome.content_refusal() else {
                let failed = BenchNotice::trial_refused(case.id.clone(), &reason);
                return Ok(Trial {
                    notices: [failed.into()].into_iter().chain(trial.notices).collect(),
                    ..trial
                });
            };
            let message = error_message(body);
            let (requests, part) = refused_part::find(self, case, &message).await?;
            let (id, constraint) = (case.id.clone(), case.constraint.as_deref());
            let notice =
                BenchNotice::constraint_refused(id, constraint, status, &message, true, part);
            return Ok(Trial {
                requests: trial.requests + requests,
                refusal: Some(notice.into()),
                ..trial
            });
        }
        let mut seen = failed.iter().map(|(_, seen)| seen).chain(&answered);
        // Without the constraint there is no answer either, so that it is not the cause.
        let error = self.trial_error(control.as_ref().unwrap_or(case), &first.outcome);
        if seen.all(is_unusable) {
            return Err(error);
        }
        let notice = Notice::from(BenchNotice::TrialFailed {
            requests: trial.requests,
            request: case.id.clone(),
            reason: printable_message(&reason),
            advice: error.hint.unwrap_or_default(),
        });
        Ok(Trial {
            notices: [notice].into_iter().chain(trial.notices).collect(),
            ..trial
        })
    }

    /// The request of a case without what a server may refuse. If the request names an engine, that
    /// may be refused, and then no constraint is measured.
    fn without_constraint(&self, case: &Case) -> Case {
        let has_tools = case
            .constraint
            .as_deref()
            .is_some_and(|constraint| constraint.tools().is_some());
        match &self.request.guided_decoding_backend {
            Some(_) => Case {
                constraint: Some(Arc::new(Constraint::Choice(vec!["yes".to_owned()].into()))),
                ..case.clone()
            },
            None => Case {
                // The control arm offers the tools.
                arm: if has_tools { Arm::Free } else { Arm::Control },
                ..case.clone()
            },
        }
    }

    /// Sends one case alone.
    pub(super) async fn send(&self, case: &Case, label: &str) -> Result<Observation> {
        sobench_client::send_one(
            &self.session.client,
            Arc::clone(&self.adapter),
            self.request,
            case,
            label,
            &self.shutdown,
        )
        .await
    }

    /// Notice where an answer names another model than its request.
    fn other_model(&self, case: &Case, seen: &Observation) -> Option<Notice> {
        let names = [&seen.answer.answered_by.model, self.request.model_of(case)];
        let [answered, requested] = names.map(|name| printable(name, NAME_CHARS));
        (!answered.is_empty() && answered != requested).then(|| {
            BenchNotice::ModelMismatch {
                answered,
                requested,
            }
            .into()
        })
    }

    fn trial_error(&self, case: &Case, outcome: &Outcome) -> Error {
        let place = format!(
            "{}{}",
            self.session.base_url.trim_end_matches('/'),
            self.session.path
        );
        let failed =
            |why: &str| Error::environment(format!("the trial run failed at {place}: {why}"));
        let refused =
            |status: &u16, body: &str| failed(&format!("{status} {}", printable_body(body)));
        if let Some(hint) = moved_hint(outcome) {
            return failed(&printable_message(&failure_message(outcome))).hint(hint);
        }
        match outcome {
            Outcome::Rejected { status, body, .. } => {
                refused(status, body).hint(refusal_hint(self.adapter.kind(), *status, case))
            }
            Outcome::ServerError { status, body, .. } => {
                refused(status, body).hint(server_error_hint(*status))
            }
            Outcome::StreamError { message } => failed(message).hint(stream_hint(message)),
            Outcome::Transport {
                cause: TransportCause::Connect,
                message,
            } => {
                let is_default_address = self.session.is_default_address;
                failed(message).hint(no_connection_hint(is_default_address, message))
            }
            Outcome::Transport { cause, message } => {
                failed(message).hint(no_exchange_hint(*cause, message))
            }
            Outcome::TimedOut { limit, .. } => failed(&failure_message(outcome))
                .hint(format!("raise {}, or check the server", limit.flag())),
            Outcome::Cancelled => {
                Error::interrupted("stopped during the trial run").hint("nothing was measured")
            }
            Outcome::Unsupported { what } => {
                Error::internal(format!("a trial that cannot be sent: {what}"))
            }
            Outcome::Completed | Outcome::Truncated | Outcome::Refused { .. } => {
                Error::internal("a trial run with an answer is not a failure")
            }
            Outcome::Abandoned => Error::internal("a trial run that was abandoned"),
        }
    }
}

/// The tokens of an answer, if they are more than its limit: by the server's count, or because there
/// are too many chunks. Some servers send a token in two chunks.
fn excess_tokens(limit: u32, seen: &Observation) -> Option<u64> {
    let stated = seen.usage.and_then(|usage| usage.completion_tokens);
    let received = seen.timing.chunks_ns.len() as u64 / 2;
    stated
        .filter(|tokens| *tokens <= MAX_STATED_TOKENS)
        .into_iter()
        .chain([received])
        .max()
        .filter(|tokens| *tokens > u64::from(limit))
}

/// Whether a server refuses `max_completion_tokens`, by its message.
fn names_token_limit(outcome: &Outcome) -> bool {
    outcome
        .content_refusal()
        .is_some_and(|(_, body)| body.contains("max_completion_tokens"))
}

/// Whether the model answered or refused.
fn is_response_of_model(outcome: &Outcome) -> bool {
    outcome.is_answer() || matches!(outcome, Outcome::Refused { .. })
}

/// Whether no further trial request can have an answer: there is no server, or the user stopped it.
fn ends_trial(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Cancelled
            | Outcome::Transport {
                cause: TransportCause::Connect | TransportCause::Local,
                ..
            }
    )
}

/// Whether nothing can be measured if every request ends like this one: without a response, at a
/// wrong address, without permission, or at a time limit.
fn is_unusable(seen: &Observation) -> bool {
    match &seen.outcome {
        Outcome::Transport { .. } => seen.timing.headers_ns.is_none(),
        Outcome::TimedOut { .. }
        | Outcome::Rejected {
            status: 401 | 403 | 404 | 405,
            ..
        } => true,
        outcome => moved_hint(outcome).is_some(),
    }
}

/// The hint for a redirect.
fn moved_hint(outcome: &Outcome) -> Option<&'static str> {
    let (Outcome::Rejected { advice, .. } | Outcome::ServerError { advice, .. }) = outcome else {
        return None;
    };
    matches!(advice, Some(Advice::Location(_)))
        .then_some("give the address of the redirect as --base-url; redirects are not followed")
}

/// The hint for a status of neither 200 nor 4xx.
fn server_error_hint(status: u16) -> &'static str {
    match status {
        201..300 => {
            "the server accepted the request, but sent no answer: check --endpoint and --backend"
        }
        300..400 => {
            "the server redirects without an address: check --base-url, --endpoint and any proxy"
        }
        502..=504 => {
            "the server may still load its model, or is down behind a proxy: --ready-check-timeout-sec waits for it"
        }
        _ => StreamFault::ServerError.hint(),
    }
}

/// The hint for a response of status 200 that is not an answer.
fn stream_hint(message: &str) -> &'static str {
    StreamFault::from_message(message).map_or(
        "the stream is not of this kind of server: check --backend and --endpoint",
        StreamFault::hint,
    )
}

/// The hint for a request without a connection.
fn no_connection_hint(is_default_address: bool, message: &str) -> &'static str {
    if is_default_address {
        DEFAULT_ADDRESS_HINT
    } else {
        no_exchange_hint(TransportCause::Connect, message)
    }
}

/// The hint for a request without a response.
fn no_exchange_hint(cause: TransportCause, message: &str) -> &'static str {
    match cause {
        _ if sobench_client::ends_with_hint(message) => {
            "follow the advice in the error above; nothing was measured"
        }
        TransportCause::Reset | TransportCause::Closed if has_begun(message) => {
            StreamFault::NoEnd.hint()
        }
        TransportCause::Connect => "is the server up? --ready-check-timeout-sec waits for it",
        TransportCause::Local => {
            "the request was not sent: this machine lacks the resource named above"
        }
        TransportCause::Reset | TransportCause::Closed => {
            "the server accepted the connection and closed it without a response; check its log; nothing was measured"
        }
        TransportCause::BodyTooLarge | TransportCause::Other => {
            "the response is not from a server of this kind: check --base-url, --endpoint and --backend"
        }
    }
}

/// Whether a response had begun when the connection failed.
fn has_begun(message: &str) -> bool {
    [Stage::BeforeFirstToken, Stage::MidStream, Stage::MidBody]
        .iter()
        .any(|stage| message.ends_with(stage.phrase()))
}

fn refusal_hint(kind: ServerKind, status: u16, case: &Case) -> String {
    let sent = case
        .constraint
        .as_ref()
        .filter(|_| case.arm.sends_constraint());
    match (status, sent) {
        (401 | 403, _) => kind.credentials().hint(),
        (429, _) => "the server is overloaded or limits the request rate: wait, then lower --request-rate or \
             --max-concurrency"
            .to_owned(),
        (413, _) => "the request is too large for the server or the proxy before it (nginx: client_max_body_size): raise its \
             limit, or use shorter prompts and constraints"
            .to_owned(),
        (404 | 405, _) => "check --model against /v1/models, and --endpoint and --backend against the server".to_owned(),
        (_, Some(constraint)) => format!(
            "the server refuses the request; if the cause is the {} constraint, try another --constraint-dialect or \
             --guided-decoding-backend, or a constraint that the engine supports",
            constraint.kind()
        ),
        _ => "the server refuses the request: its message says why".to_owned(),
    }
}

/// The first case, then the first case of each other constraint, up to the limit.
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
    fn the_trial_run_tries_each_constraint_once_up_to_the_limit() {
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
    fn hints_follow_the_cause_of_a_transport_failure() {
        use TransportCause::{Closed, Connect, Local, Other, Reset};
        for (cause, message, word) in [
            (
                Connect,
                "cannot connect: refused",
                "--ready-check-timeout-sec",
            ),
            (
                Connect,
                "cannot connect: no address: check the host name in --base-url and the DNS of this machine",
                "above",
            ),
            (Local, "open-file limit of sobench reached", "this machine"),
            (Reset, "reset by peer", "log"),
            (Closed, "closed", "without a response"),
            (Closed, "closed, mid-stream", "ended the stream early"),
            (
                Reset,
                "reset, before the first token",
                "ended the stream early",
            ),
            (
                Other,
                "the server does not speak HTTP/1.1: check whether the URL should start with https://",
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
    fn the_hint_without_a_connection_explains_the_default_address() {
        let message = "cannot connect: refused";
        let hint = no_connection_hint(true, message);
        assert!(
            hint.contains("127.0.0.1:8000") && hint.contains("embedded"),
            "{hint}"
        );
        assert_eq!(
            no_connection_hint(false, message),
            no_exchange_hint(TransportCause::Connect, message)
        );
    }

    #[test]
    fn hints_for_responses_that_are_not_answers_follow_their_fault() {
        for (status, word) in [
            (204, "sent no answer"),
            (302, "redirects without an address"),
            (503, "--ready-check-timeout-sec"),
            (500, "check its log"),
        ] {
            assert!(server_error_hint(status).contains(word), "{status}");
        }
        for fault in StreamFault::ALL {
            assert_eq!(stream_hint(&fault.message("words")), fault.hint());
        }
        assert!(stream_hint("unreadable event").contains("--backend"));
    }

    #[test]
    fn hints_name_the_likely_cause() {
        for (status, word) in [
            (401, "OPENAI_API_KEY"),
            (404, "--model"),
            (400, "regex"),
            (422, "regex"),
            (429, "--request-rate"),
            (413, "too large"),
        ] {
            assert!(
                refusal_hint(ServerKind::Vllm, status, &case(0, "a")).contains(word),
                "{status}"
            );
            assert_eq!(
                refusal_hint(ServerKind::Vllm, status, &case(0, "a"))
                    .contains("--constraint-dialect"),
                matches!(status, 400 | 422)
            );
        }
    }
}
