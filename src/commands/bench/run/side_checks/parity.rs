//! Sends requests again after the run, to compare streamed with whole answers (`--stream-parity`).
//!
//! The requests for whole answers follow the measured ones, so that they take no part in the load
//! and the figures of the run. They keep its concurrency cap.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::commands::bench::run::sending::Sending;
use crate::commands::bench::run::side_check::{CheckedRun, SideCheck, Step};
use crate::terminal;
use sobench_backend::BodySettings;
use sobench_client::Client;
use sobench_core::case::Case;
use sobench_core::error::Result;
use sobench_core::observation::{Observation, Outcome};
use sobench_core::run_event::{AnswerForm, Repeat, RunEvent};
use sobench_facts::parity::digest;
use sobench_runlog::write::EventSender;

/// The concurrency cap of requests that are sent again after a run without one.
const UNCAPPED_CONCURRENCY: usize = 8;

/// The field that only requests for streams may have.
const STREAM_OPTIONS: &str = "stream_options";

/// The measured requests that are sent again.
struct ParityCheck<'c> {
    cases: &'c [Case],
    /// The share of requests, above 0 and at most 1.
    share: f64,
    /// Digests of the streamed answers, by case.
    streamed: BTreeMap<usize, u64>,
}

/// Sends a share of the requests again.
pub(super) fn check(share: Option<f64>, cases: &[Case]) -> Option<Box<dyn SideCheck + '_>> {
    let check = ParityCheck {
        cases,
        share: share?,
        streamed: BTreeMap::new(),
    };
    Some(Box::new(check))
}

impl SideCheck for ParityCheck<'_> {
    /// Keeps the answer of a measured request in mind.
    fn on_event(&mut self, event: &RunEvent) {
        let RunEvent::Ended(observation) = event else {
            return;
        };
        let index = observation.case_index;
        let is_from_server = !matches!(
            observation.outcome,
            Outcome::Cancelled
                | Outcome::Abandoned
                | Outcome::Unsupported { .. }
                | Outcome::Transport { .. }
                | Outcome::TimedOut { .. }
        );
        if is_from_server && is_taken(index, self.share) {
            self.streamed.insert(index, digest(observation));
        }
    }

    /// Requests each answer whole, and once more streamed where the two differ.
    fn after<'a>(&'a mut self, run: &'a mut CheckedRun<'_>, log: &'a EventSender) -> Step<'a> {
        Box::pin(async move {
            let (sending, cases) = (&run.sending, self.cases);
            let indices: Vec<usize> = self.streamed.keys().copied().collect();
            let mut differing = Vec::new();
            let compare = |observation: &Observation| {
                let index = observation.case_index;
                if self.streamed.get(&index) != Some(&digest(observation)) {
                    differing.push(index);
                }
            };
            send_again(sending, cases, &indices, AnswerForm::Whole, log, compare).await?;
            differing.sort_unstable();
            send_again(
                sending,
                cases,
                &differing,
                AnswerForm::Streamed,
                log,
                |_| {},
            )
            .await
        })
    }
}

/// Whether a share of the requests, evenly spread, has this one.
fn is_taken(index: usize, share: f64) -> bool {
    let taken = |requests: usize| (requests as f64 * share).floor();
    taken(index + 1) > taken(index)
}

async fn send_again(
    sending: &Sending<'_>,
    cases: &[Case],
    indices: &[usize],
    form: AnswerForm,
    log: &EventSender,
    mut on_end: impl FnMut(&Observation),
) -> Result<()> {
    if indices.is_empty() || sending.shutdown.is_requested() {
        return Ok(());
    }
    terminal::say(&format!(
        "stream parity: sending {} requests again, {}",
        indices.len(),
        match form {
            AnswerForm::Whole => "for whole answers",
            AnswerForm::Streamed => "streamed, because their answers differ",
        }
    ));
    let selected: Vec<Case> = indices
        .iter()
        .filter_map(|index| cases.get(*index).cloned())
        .collect();
    let is_streamed = form == AnswerForm::Streamed;
    let mut request = BodySettings {
        stream: is_streamed,
        ..sending.request.clone()
    };
    if let Some(fields) = request.extra_body.as_mut().filter(|_| !is_streamed) {
        fields.remove(STREAM_OPTIONS);
    }
    sobench_client::repeat(
        &client(sending, is_streamed)?,
        Arc::clone(&sending.adapter),
        &request,
        &selected,
        form,
        &sending.shutdown,
        |mut observation| {
            observation.case_index = indices[observation.case_index];
            on_end(&observation);
            log.send(RunEvent::Repeated(Box::new(Repeat { form, observation })));
        },
    )
    .await
}

/// A client with connections of its own. Some kinds of servers have another endpoint for whole
/// answers.
fn client(sending: &Sending<'_>, is_streamed: bool) -> Result<Client> {
    let mut options = sending.session.client.options().clone();
    let kind = sending.adapter.kind();
    if options.endpoint.path == kind.path(true) {
        options.endpoint.path = kind.path(is_streamed).to_owned();
    }
    options.max_concurrency = options.max_concurrency.or(Some(UNCAPPED_CONCURRENCY));
    Client::new(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_evenly_spread() {
        let taken = |share: f64, requests: usize| -> Vec<usize> {
            (0..requests)
                .filter(|index| is_taken(*index, share))
                .collect()
        };
        assert_eq!(taken(1.0, 4), [0, 1, 2, 3]);
        assert_eq!(taken(0.25, 8), [3, 7]);
        assert_eq!(taken(0.1, 1000).len(), 100);
        assert!(taken(0.001, 100).is_empty());
    }
}
