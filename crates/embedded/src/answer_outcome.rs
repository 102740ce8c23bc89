//! Outcomes of requests for their clients. They differ from the ends of sequences in the batch
//! because of faults, refusals and disconnects.

use std::sync::Arc;

use super::stats::Tally;

/// Outcome of a request for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerOutcome {
    /// The whole answer was written.
    Complete,
    /// The status was not 200.
    Refused,
    /// The answer was aborted after its start, by an injected fault or a failure of the engine.
    Aborted,
    /// The client disconnected first.
    Disconnected,
}

/// Records the outcome of one request when it is dropped.
pub(super) struct OutcomeRecorder {
    tally: Arc<Tally>,
    outcome: AnswerOutcome,
}

impl OutcomeRecorder {
    /// The outcome is `Disconnected` until it is set.
    pub(super) fn new(tally: Arc<Tally>) -> Self {
        Self {
            tally,
            outcome: AnswerOutcome::Disconnected,
        }
    }

    pub(super) fn set(&mut self, outcome: AnswerOutcome) {
        self.outcome = outcome;
    }
}

impl Drop for OutcomeRecorder {
    fn drop(&mut self) {
        self.tally.answer_ended(self.outcome);
    }
}
