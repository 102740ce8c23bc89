//! Encodes the updates of an answer as response bytes, with injected faults.

use std::time::Duration;

use super::batching::{Progress, Update};
use super::deltas::{Delta, DeltaSettings, Deltas, WholeAnswer};
use super::endpoint::Endpoint;
use super::event_writer::EventWriter;
use super::failure::Failure;
use super::faults::{FaultKind, RequestFaults};
use super::generation::FinishReason;
use super::messages_wire::{self, MessageWriter};
use super::request::RequestedUsage;
use super::responses_wire::ResponseWriter;
use super::wire::{self, AnswerEnd, DONE, Head, TokenCounts};

/// Number of texts of a stream before a mid-answer fault.
const TEXTS_BEFORE_FAULT: u32 = 4;

const FENCE_OPENS: &str = "Here is the JSON:\n```json\n";
const FENCE_CLOSES: &str = "\n```";

/// What to do after the bytes of an update are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextAction {
    Continue,
    /// End the answer.
    End,
    /// End the answer early.
    Abort,
    /// Reset the connection.
    Reset,
}

/// Encodes one answer.
pub(super) struct Events {
    head: Head,
    usage: RequestedUsage,
    faults: RequestFaults,
    deltas: Deltas,
    /// `None` for completions and chats.
    writer: Option<Box<dyn EventWriter>>,
    /// Whether the usage has the tokens of reasoning.
    counts_reasoning: bool,
    is_open: bool,
    texts: u32,
}

impl Events {
    pub(super) fn new(
        mut head: Head,
        usage: RequestedUsage,
        mut faults: RequestFaults,
        options: DeltaSettings,
        counts_reasoning: bool,
    ) -> Self {
        let writer: Option<Box<dyn EventWriter>> = match head.endpoint {
            Endpoint::Completions | Endpoint::Chat => None,
            Endpoint::Responses => Some(Box::new(ResponseWriter::default())),
            Endpoint::Messages => Some(Box::new(MessageWriter::default())),
        };
        let deltas = Deltas::new(options, &mut faults);
        if faults.has(FaultKind::WrongModel) {
            head.model.push_str("-other");
        }
        Self {
            head,
            usage,
            faults,
            deltas,
            writer,
            counts_reasoning,
            is_open: false,
            texts: 0,
        }
    }

    /// The injected pause before this update, if any.
    pub(super) fn pause_before(&mut self, update: &Update) -> Option<Duration> {
        if self.is_mid_answer(update) {
            self.faults.stall()
        } else {
            None
        }
    }

    /// Encodes an update as events.
    pub(super) fn write(&mut self, update: Update, out: &mut Vec<u8>) -> NextAction {
        if self.is_mid_answer(&update) {
            if let Some(action) = self.injected_end() {
                return action;
            }
            if self.faults.inject(FaultKind::ErrorMidStream) {
                return self.write_failure(&injected_failure(), out);
            }
        }
        let mut progress = match update {
            Ok(progress) => progress,
            Err(error) => return self.write_failure(&Failure::internal(error.to_string()), out),
        };
        if self.texts == 0 {
            self.change_start(&mut progress.piece.text);
        }
        if progress.piece.finish.is_some() {
            self.change_end(&mut progress.piece.text);
        }
        self.texts += 1;
        let deltas = self.deltas.read(
            &progress.piece.text,
            progress.piece.finish.is_some(),
            &mut self.faults,
        );
        let finish = self.finish(&progress);
        if self.writer.is_some() {
            self.write_typed(&deltas, finish, &progress, out);
        } else {
            self.write_chunks(&deltas, finish, &progress, out);
        }
        if finish.is_none() {
            return NextAction::Continue;
        }
        self.write_done(out);
        NextAction::End
    }

    /// The finish reason for the client.
    fn finish(&self, progress: &Progress) -> Option<FinishReason> {
        let finish = progress.piece.finish?;
        let ends_with_calls = finish == FinishReason::Stop && self.deltas.has_calls();
        Some(if ends_with_calls {
            FinishReason::ToolCalls
        } else {
            finish
        })
    }

    fn counts(&self, progress: &Progress) -> TokenCounts {
        TokenCounts {
            tokens: progress.tokens,
            reasoning: self
                .counts_reasoning
                .then_some(progress.piece.reasoning_tokens),
        }
    }

    /// Writes the chunks of completions and chats.
    fn write_chunks(
        &mut self,
        deltas: &[Delta],
        finish: Option<FinishReason>,
        progress: &Progress,
        out: &mut Vec<u8>,
    ) {
        let counts = self.counts(progress);
        if !self.is_open {
            // As in vLLM, the headers are sent before the first token, and the role chunk with it.
            self.is_open = true;
            self.faults.inject(FaultKind::WrongModel);
            let usage = self.has_usage(self.usage.in_every_chunk);
            let opening = self.head.opening(usage.then(TokenCounts::default));
            out.extend(opening.unwrap_or_default());
        }
        let usage = self.has_usage(self.usage.in_every_chunk).then_some(counts);
        // The last chunk has the finish reason, and is empty if there is nothing else to send.
        let needs_chunk = deltas.is_empty() && finish.is_some();
        let chunks = deltas.iter().map(Some).chain(needs_chunk.then_some(None));
        let count = deltas.len().max(1);
        for (index, delta) in chunks.enumerate() {
            let end = if index + 1 == count {
                AnswerEnd {
                    finish,
                    stop: progress.piece.stop.as_deref(),
                }
            } else {
                AnswerEnd::default()
            };
            out.extend(self.head.chunk(delta, end, usage));
        }
        if finish.is_some() && self.has_usage(self.usage.at_the_end) {
            out.extend(self.head.usage_chunk(counts));
        }
    }

    /// Writes the events of the other endpoints.
    fn write_typed(
        &mut self,
        deltas: &[Delta],
        finish: Option<FinishReason>,
        progress: &Progress,
        out: &mut Vec<u8>,
    ) {
        let counts = self.counts(progress);
        let usage = finish.is_some() && self.has_usage(true);
        let Some(writer) = &mut self.writer else {
            return;
        };
        if !self.is_open {
            self.is_open = true;
            self.faults.inject(FaultKind::WrongModel);
            let has_usage = !self.faults.has(FaultKind::NoUsage);
            writer.open(&self.head, has_usage, out);
        }
        for delta in deltas {
            writer.write(&self.head, delta, out);
        }
        if finish.is_some() {
            let end = AnswerEnd {
                finish,
                stop: progress.piece.stop.as_deref(),
            };
            writer.finish(&self.head, end, usage.then_some(counts), out);
        }
    }

    /// The bytes of a complete answer, and the action after sending them.
    ///
    /// # Errors
    /// The engine failed, or a failure is injected.
    pub(super) fn complete(&mut self, update: Update) -> Result<(Vec<u8>, NextAction), Failure> {
        let mut progress = update.map_err(|error| Failure::internal(error.to_string()))?;
        if self.faults.inject(FaultKind::ErrorMidStream) {
            return Err(injected_failure());
        }
        self.change_start(&mut progress.piece.text);
        self.change_end(&mut progress.piece.text);
        self.faults.inject(FaultKind::WrongModel);
        let usage = self.has_usage(true).then_some(self.counts(&progress));
        let deltas = self
            .deltas
            .read(&progress.piece.text, true, &mut self.faults);
        let finish = self.finish(&progress);
        let end = AnswerEnd {
            finish,
            stop: progress.piece.stop.as_deref(),
        };
        let mut body = match &mut self.writer {
            Some(writer) => writer.complete(&deltas, &self.head, end, usage),
            None => self.head.complete(&WholeAnswer::new(deltas), end, usage),
        };
        let action = self.injected_end().unwrap_or(NextAction::End);
        if action != NextAction::End {
            body.truncate(body.len() / 2);
        }
        Ok((body, action))
    }

    /// The early end that a fault injects, if any.
    fn injected_end(&mut self) -> Option<NextAction> {
        let ends = [
            (FaultKind::Reset, NextAction::Reset),
            (FaultKind::Truncate, NextAction::Abort),
        ];
        ends.into_iter()
            .find_map(|(kind, action)| self.faults.inject(kind).then_some(action))
    }

    fn is_mid_answer(&self, update: &Update) -> bool {
        self.texts >= TEXTS_BEFORE_FAULT
            || update
                .as_ref()
                .is_ok_and(|progress| progress.piece.finish.is_some())
    }

    /// Whether requested usage is included.
    fn has_usage(&mut self, is_requested: bool) -> bool {
        is_requested && !self.faults.inject(FaultKind::NoUsage)
    }

    fn change_start(&mut self, text: &mut String) {
        if self.faults.inject(FaultKind::ExtraText) {
            text.insert_str(0, FENCE_OPENS);
        }
    }

    fn change_end(&mut self, text: &mut String) {
        if self.faults.inject(FaultKind::ExtraText) {
            text.push_str(FENCE_CLOSES);
        }
    }

    fn write_failure(&mut self, failure: &Failure, out: &mut Vec<u8>) -> NextAction {
        if self.head.endpoint == Endpoint::Messages {
            // An error is the last event.
            messages_wire::event(&failure.message_body(), out);
        } else {
            out.extend(wire::event(&failure.body()));
            self.write_done(out);
        }
        NextAction::Abort
    }

    fn write_done(&mut self, out: &mut Vec<u8>) {
        match self.head.endpoint {
            // The finish event ends the stream.
            Endpoint::Responses => {}
            _ if self.faults.inject(FaultKind::NoDone) => {}
            Endpoint::Messages => messages_wire::end(out),
            Endpoint::Completions | Endpoint::Chat => out.extend_from_slice(DONE),
        }
    }
}

/// The error of an injected fault.
pub(super) fn injected_failure() -> Failure {
    Failure::internal("a planted fault")
}
