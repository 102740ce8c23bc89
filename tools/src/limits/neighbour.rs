//! Small requests without a constraint, beside a step of a ladder.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::Latencies;
use sobench_backend::Adapter;
use sobench_client::{Client, send_body};
use sobench_core::observation::{Observation, Outcome, TransportCause};
use sobench_core::run_event::AnswerForm;
use sobench_shutdown::Shutdown;

/// The pause between two small requests.
const PAUSE: Duration = Duration::from_millis(10);

/// Sends small requests, one after the other.
pub(super) struct Neighbour {
    pub(super) client: Client,
    pub(super) adapter: Arc<dyn Adapter>,
    pub(super) body: Bytes,
    pub(super) form: AnswerForm,
    pub(super) shutdown: Shutdown,
}

impl Neighbour {
    /// Sends one request.
    pub(super) async fn send(&self) -> Observation {
        let (body, adapter) = (self.body.clone(), Arc::clone(&self.adapter));
        let label = "limits-neighbour";
        send_body(
            &self.client,
            adapter,
            body,
            self.form,
            None,
            label,
            &self.shutdown,
        )
        .await
    }

    /// Sends requests until `step` ends, and returns its result, their latencies and their number.
    pub(super) async fn beside<T>(
        &self,
        step: impl Future<Output = T>,
    ) -> (T, Option<Latencies>, usize) {
        let (mut ms, mut failed) = (Vec::new(), 0);
        let mut record = |observation: &Observation| {
            ms.push(duration_ms(observation));
            failed += usize::from(!observation.outcome.is_answer());
        };
        let mut step = pin!(step);
        let result = loop {
            let mut request = pin!(self.send());
            tokio::select! {
                result = &mut step => {
                    record(&request.await);
                    break result;
                }
                observation = &mut request => record(&observation),
            }
            tokio::select! {
                result = &mut step => break result,
                () = tokio::time::sleep(PAUSE) => {}
            }
        };
        let sent = ms.len();
        (result, Latencies::new(ms, failed), sent)
    }
}

/// From sent to the end, in milliseconds.
pub(super) fn duration_ms(observation: &Observation) -> f64 {
    let timing = &observation.timing;
    let sent = timing.sent_ns.unwrap_or_default();
    timing.end_ns.unwrap_or(sent).saturating_sub(sent) as f64 / 1e6
}

/// From sent to the first token, in milliseconds.
pub(super) fn first_token_ms(observation: &Observation) -> Option<f64> {
    let timing = &observation.timing;
    let first = timing.first_content_ns()?;
    Some(first.saturating_sub(timing.sent_ns?) as f64 / 1e6)
}

/// Whether no connection could be made.
pub(super) fn is_unreachable(observation: &Observation) -> bool {
    matches!(
        observation.outcome,
        Outcome::Transport {
            cause: TransportCause::Connect,
            ..
        }
    )
}
