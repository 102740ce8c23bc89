//! Turns an answer's updates into bytes on the wire, planted faults included. Knows neither sockets
//! nor clocks.

use std::time::Duration;

use super::batching::Update;
use super::failure::Failure;
use super::faults::{FaultKind, Planted};
use super::request::UsageAsked;
use super::wire::{self, DONE, Head};

/// Texts of a stream before a fault in mid-answer strikes.
const TEXTS_BEFORE_FAULT: u32 = 4;

/// Stands for the byte that is not UTF-8 until the text has been written: a character of a private
/// use area, of three bytes.
const BROKEN: char = '\u{f8ff}';

const FENCE_OPENS: &str = "Here is the JSON:\n```json\n";
const FENCE_CLOSES: &str = "\n```";

/// What is to be done after an update's bytes have been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    GoOn,
    /// The answer is over.
    End,
    /// The answer is over before its time.
    BreakOff,
    /// The connection is to be reset.
    Reset,
}

/// Writes one answer.
pub(super) struct Events {
    head: Head,
    usage: UsageAsked,
    planted: Planted,
    opened: bool,
    texts: u32,
}

impl Events {
    pub(super) fn new(mut head: Head, usage: UsageAsked, planted: Planted) -> Self {
        if planted.has(FaultKind::WrongModel) {
            head.model.push_str("-other");
        }
        Self {
            head,
            usage,
            planted,
            opened: false,
            texts: 0,
        }
    }

    /// The pause to make before this update is written, if any: a fault in mid-answer.
    pub(super) fn pause_before(&mut self, update: &Update) -> Option<Duration> {
        if self.is_mid_answer(update) {
            self.planted.stall()
        } else {
            None
        }
    }

    /// Writes an update as events.
    pub(super) fn write(&mut self, update: Update, out: &mut Vec<u8>) -> Then {
        if self.is_mid_answer(&update) {
            if let Some(then) = self.cut_short() {
                return then;
            }
            if self.planted.strikes(FaultKind::ErrorMidStream) {
                return self.write_failure(&planted_failure(), out);
            }
        }
        let mut progress = match update {
            Ok(progress) => progress,
            Err(error) => return self.write_failure(&Failure::internal(error.to_string()), out),
        };
        let finish = progress.piece.finish;
        if self.texts == 0 {
            self.spoil_beginning(&mut progress.piece.text);
        }
        if finish.is_some() {
            self.spoil_end(&mut progress.piece.text);
        }
        self.texts += 1;
        if !self.opened {
            // With the first token, as vLLM does: its headers go out before, its role chunk does
            // not.
            self.opened = true;
            self.planted.strikes(FaultKind::WrongModel);
            let with_usage = self.has_usage(self.usage.in_every_chunk);
            out.extend(self.head.opening(with_usage).unwrap_or_default());
        }
        let with_usage = self.has_usage(self.usage.in_every_chunk);
        let chunk = self
            .head
            .chunk(&progress.piece, progress.tokens, with_usage);
        out.extend(self.broken(chunk));
        if finish.is_none() {
            return Then::GoOn;
        }
        if self.has_usage(self.usage.at_the_end) {
            out.extend(self.head.usage_chunk(progress.tokens));
        }
        self.write_done(out);
        Then::End
    }

    /// The bytes of a whole answer, and whether all of them are to be sent before it ends.
    ///
    /// # Errors
    /// The engine broke, or a planted fault says so.
    pub(super) fn whole(&mut self, update: Update) -> Result<(Vec<u8>, Then), Failure> {
        let mut progress = update.map_err(|error| Failure::internal(error.to_string()))?;
        if self.planted.strikes(FaultKind::ErrorMidStream) {
            return Err(planted_failure());
        }
        self.spoil_beginning(&mut progress.piece.text);
        self.spoil_end(&mut progress.piece.text);
        self.planted.strikes(FaultKind::WrongModel);
        let with_usage = self.has_usage(true);
        let whole = self
            .head
            .whole(&progress.piece, progress.tokens, with_usage);
        let mut body = self.broken(whole);
        let then = self.cut_short().unwrap_or(Then::End);
        if then != Then::End {
            body.truncate(body.len() / 2);
        }
        Ok((body, then))
    }

    /// What becomes of an answer that a planted fault cuts short.
    fn cut_short(&mut self) -> Option<Then> {
        let ways = [
            (FaultKind::Reset, Then::Reset),
            (FaultKind::Truncate, Then::BreakOff),
        ];
        ways.into_iter()
            .find_map(|(kind, then)| self.planted.strikes(kind).then_some(then))
    }

    fn is_mid_answer(&self, update: &Update) -> bool {
        self.texts >= TEXTS_BEFORE_FAULT
            || update
                .as_ref()
                .is_ok_and(|progress| progress.piece.finish.is_some())
    }

    /// Whether usage goes where it is asked for.
    fn has_usage(&mut self, asked: bool) -> bool {
        asked && !self.planted.strikes(FaultKind::NoUsage)
    }

    fn spoil_beginning(&mut self, text: &mut String) {
        if self.planted.strikes(FaultKind::ExtraText) {
            text.insert_str(0, FENCE_OPENS);
        }
        if self.planted.strikes(FaultKind::InvalidUtf8) {
            text.push(BROKEN);
        }
    }

    fn spoil_end(&mut self, text: &mut String) {
        if self.planted.strikes(FaultKind::ExtraText) {
            text.push_str(FENCE_CLOSES);
        }
    }

    /// Puts the broken byte where its stand-in is.
    fn broken(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        if self.planted.strikes(FaultKind::InvalidUtf8) {
            let mut stand_in = [0; 4];
            let stand_in = BROKEN.encode_utf8(&mut stand_in).as_bytes();
            if let Some(at) = bytes
                .windows(stand_in.len())
                .position(|window| window == stand_in)
            {
                bytes.splice(at..at + stand_in.len(), [0xff]);
            }
        }
        bytes
    }

    fn write_failure(&mut self, failure: &Failure, out: &mut Vec<u8>) -> Then {
        out.extend(wire::event(&failure.body()));
        self.write_done(out);
        Then::BreakOff
    }

    fn write_done(&mut self, out: &mut Vec<u8>) {
        if !self.planted.strikes(FaultKind::NoDone) {
            out.extend_from_slice(DONE);
        }
    }
}

/// The failure that a planted fault makes up.
pub(super) fn planted_failure() -> Failure {
    Failure::internal("a planted fault")
}
