//! Writers of the endpoints whose events have types: responses and messages.

use super::deltas::Delta;
use super::wire::{AnswerEnd, Head, TokenCounts};

/// Writes the answers of an endpoint whose events have types.
pub(super) trait EventWriter: Send {
    /// The first events of a stream.
    fn open(&mut self, head: &Head, has_usage: bool, out: &mut Vec<u8>);

    /// The events of a part of the answer.
    fn write(&mut self, head: &Head, delta: &Delta, out: &mut Vec<u8>);

    /// The events of the end of the answer.
    fn finish(
        &mut self,
        head: &Head,
        end: AnswerEnd<'_>,
        counts: Option<TokenCounts>,
        out: &mut Vec<u8>,
    );

    /// The answer in one body, after all its parts are written.
    fn body(&self, head: &Head, end: AnswerEnd<'_>, counts: Option<TokenCounts>) -> Vec<u8>;

    /// The answer of these parts in one body.
    fn complete(
        &mut self,
        deltas: &[Delta],
        head: &Head,
        end: AnswerEnd<'_>,
        counts: Option<TokenCounts>,
    ) -> Vec<u8> {
        let mut events = Vec::new();
        for delta in deltas {
            self.write(head, delta, &mut events);
        }
        self.body(head, end, counts)
    }
}
