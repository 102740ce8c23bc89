//! How answers ended for those who asked, which is not how their sequences ended: a fault, a
//! refusal or a client that goes away comes between. Knows neither HTTP nor the batch.

use std::sync::Arc;

use super::stats::Tally;

/// How an answer ended for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerEnd {
    /// It was written to its end.
    Whole,
    /// A status other than 200.
    Refused,
    /// It was broken off after it had begun, by a planted fault or a failure of the engine.
    Broken,
    /// The client went away first.
    Gone,
}

/// One request's account: counted once, when it is dropped.
pub(super) struct Account {
    tally: Arc<Tally>,
    end: AnswerEnd,
}

impl Account {
    /// Until something else is known, its client will have gone.
    pub(super) fn open(tally: Arc<Tally>) -> Self {
        Self {
            tally,
            end: AnswerEnd::Gone,
        }
    }

    pub(super) fn close(&mut self, end: AnswerEnd) {
        self.end = end;
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.tally.answered(self.end);
    }
}
