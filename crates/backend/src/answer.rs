//! Decoded answers and their outcomes.

use super::stream_fault::StreamFault;
use sobench_core::answer::{self, Answer};
use sobench_core::channel_timing::ChunkPart;
use sobench_core::error_message::error_message;
use sobench_core::observation::{Advice, Outcome, ServerTimes, Usage};
use sobench_core::printable::{MESSAGE_CHARS, shortened};

/// Decodes the bytes of one response. Runs in the timed path, so it only extracts content.
pub trait Decoder: Send {
    /// Keeps the frames, to check their shape later.
    fn keep_frames(&mut self) {}

    /// Decodes the bytes of one read.
    fn push(&mut self, bytes: &[u8]) -> ReadSummary;

    /// Handles the end of the body.
    fn finish(&mut self) -> ReadSummary;

    /// The result so far; also valid if the body is incomplete.
    fn into_decoded(self: Box<Self>) -> Decoded;
}

/// The content of one read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadSummary {
    /// Chunks with generated content that the read completed; they share its instant.
    pub content_chunks: usize,
    /// Whether any of them contained reasoning.
    pub reasoning: bool,
    /// Whether any of them contained answer text or a tool call.
    pub answer: bool,
    /// Whether any of them contained arguments of a tool call.
    pub arguments: bool,
    /// Whether the answer is final: its terminal event was received, or it failed.
    pub ended: bool,
}

impl ReadSummary {
    /// Adds the content of more bytes of the same instant.
    pub fn merge(&mut self, more: Self) {
        self.content_chunks += more.content_chunks;
        self.reasoning |= more.reasoning;
        self.answer |= more.answer;
        self.arguments |= more.arguments;
        self.ended |= more.ended;
    }

    /// The summary of one event or body: one chunk if it has content.
    pub(super) fn chunk(reasoning: bool, answer: bool) -> Self {
        Self {
            content_chunks: usize::from(reasoning || answer),
            reasoning,
            answer,
            ..Self::default()
        }
    }
}

/// The result of decoding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decoded {
    pub answer: Answer,
    pub finish_reason: Option<String>,
    /// The last usage counts of the server.
    pub usage: Option<Usage>,
    /// Times that the server reported.
    pub server_times: Option<ServerTimes>,
    /// Cumulative output tokens for each chunk with content, if the server sends counts in chunks.
    pub chunk_tokens: Vec<u64>,
    /// The channels of each chunk with content, in order.
    pub parts: Vec<ChunkPart>,
    /// Whether any content was received.
    pub has_content: bool,
    /// Whether the server sent the whole answer, which may be empty.
    pub is_complete_answer: bool,
    /// Whether the terminal event (`[DONE]`) or a whole body was received.
    pub terminated: bool,
    /// The first error inside a response with status 200.
    pub error: Option<AnswerError>,
}

/// An error inside a response with status 200.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerError {
    /// The server sent an error instead of (more of) the answer.
    Server {
        /// The HTTP status that the error corresponds to, if known.
        status: Option<u16>,
        /// The event's data, or the body.
        body: String,
    },
    /// The bytes are not in the expected format.
    Unreadable { message: String },
}

/// Finish reasons of failed requests (vLLM and SGLang, aborted requests).
const FAILED_FINISH_REASONS: [&str; 2] = ["abort", "error"];

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Complete,
    TokenLimit,
    Failed,
}

impl Ending {
    fn from_reason(reason: &str) -> Self {
        match reason {
            "length" => Self::TokenLimit,
            reason if FAILED_FINISH_REASONS.contains(&reason) => Self::Failed,
            _ => Self::Complete,
        }
    }
}

impl Decoded {
    /// Adds a chunk with content: its bytes by channel, at least one of which is known.
    pub(super) fn add_chunk(
        &mut self,
        parts: impl IntoIterator<Item = (answer::Channel, Option<usize>)>,
    ) {
        let chunk = self.parts.last().map_or(0, |last| last.chunk + 1);
        let known = parts.into_iter().filter_map(|(channel, bytes)| {
            Some(ChunkPart {
                chunk,
                channel,
                bytes: bytes?,
            })
        });
        self.parts.extend(known);
    }

    /// Sets the finish reason. A second one that contradicts the first makes the answer unreadable,
    /// because it is unknown whether it was truncated. If both agree (`tool_calls`, then `stop`),
    /// the later one is kept.
    pub(super) fn finish(&mut self, reason: String) {
        if let Some(earlier) = self.finish_reason.as_deref()
            && Ending::from_reason(earlier) != Ending::from_reason(&reason)
        {
            let message =
                StreamFault::TwoFinishReasons.message(&format!("{earlier:?}, then {reason:?}"));
            self.error
                .get_or_insert(AnswerError::Unreadable { message });
        }
        self.finish_reason = Some(reason);
    }

    /// How the answer ended, once the body has ended without a transport error.
    ///
    /// - An error event of status 5xx is a [`Outcome::ServerError`]. One of status 4xx before any
    ///   content is [`Outcome::Rejected`]; after content it did not refuse the request, and is a
    ///   [`Outcome::StreamError`], as an error event without a status is.
    /// - A refusal in place of the answer is [`Outcome::Refused`], however it ended.
    /// - A finish reason ends the answer, with or without `[DONE]`: `length` is
    ///   [`Outcome::Truncated`], `abort` and `error` are [`Outcome::StreamError`], any other is
    ///   [`Outcome::Completed`].
    /// - `[DONE]` without a finish reason ends an answer that has content: [`Outcome::Completed`],
    ///   with `finish_reason` left empty, so that it does not count as ended by `stop`. The same
    ///   holds for a whole answer that is empty. With neither content nor a finish reason there is
    ///   no answer: [`Outcome::StreamError`].
    /// - A stream without a terminal event and a finish reason is incomplete:
    ///   [`Outcome::StreamError`].
    pub fn outcome(&self) -> Outcome {
        match &self.error {
            Some(AnswerError::Server {
                status: Some(status),
                body,
            }) if *status >= 500 || !self.has_content => {
                return outcome_of_status(*status, body.clone(), Some(Advice::InStream));
            }
            Some(AnswerError::Server { body, .. }) => {
                return stream_error(StreamFault::ServerError.message(&error_message(body)));
            }
            Some(AnswerError::Unreadable { message }) => return stream_error(message.clone()),
            None => {}
        }
        let ended = self.ended();
        if ended.is_answer() && !self.answer.refusal.is_empty() {
            return Outcome::Refused {
                message: shortened(&self.answer.refusal, MESSAGE_CHARS),
            };
        }
        ended
    }

    /// The outcome by the finish reason and the terminal event.
    fn ended(&self) -> Outcome {
        if let Some(reason) = self.finish_reason.as_deref() {
            return outcome_of_finish_reason(reason);
        }
        if !self.terminated {
            return stream_error(StreamFault::NoEnd.to_string());
        }
        if self.has_content || self.is_complete_answer {
            Outcome::Completed
        } else {
            stream_error("the stream ended with neither content nor a finish reason")
        }
    }
}

/// The outcome of an answer with this finish reason.
pub fn outcome_of_finish_reason(reason: &str) -> Outcome {
    match Ending::from_reason(reason) {
        Ending::TokenLimit => Outcome::Truncated,
        Ending::Failed => {
            stream_error(StreamFault::FailedFinishReason.message(&format!("{reason:?}")))
        }
        Ending::Complete => Outcome::Completed,
    }
}

/// The outcome of a status other than 200: 4xx is a rejection, anything else a server error.
pub fn outcome_of_status(status: u16, body: String, advice: Option<Advice>) -> Outcome {
    if (400..500).contains(&status) {
        Outcome::Rejected {
            status,
            body,
            advice,
        }
    } else {
        Outcome::ServerError {
            status,
            body,
            advice,
        }
    }
}

fn stream_error(message: impl Into<String>) -> Outcome {
    Outcome::StreamError {
        message: message.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(finish_reason: Option<&str>, has_content: bool, terminated: bool) -> Decoded {
        Decoded {
            finish_reason: finish_reason.map(str::to_owned),
            has_content,
            terminated,
            ..Decoded::default()
        }
    }

    #[test]
    fn outcomes_of_answers() {
        for (reason, has_content, terminated, name) in [
            (Some("stop"), true, true, "completed"),
            (Some("stop"), true, false, "completed"),
            (Some("stop"), false, true, "completed"),
            (Some("tool_calls"), true, true, "completed"),
            (Some("length"), true, true, "truncated"),
            (Some("length"), true, false, "truncated"),
            (Some("abort"), true, true, "stream_error"),
            (None, true, true, "completed"),
            (None, false, true, "stream_error"),
            (None, true, false, "stream_error"),
            (None, false, false, "stream_error"),
        ] {
            let outcome = answer(reason, has_content, terminated).outcome();
            assert_eq!(
                outcome.name(),
                name,
                "{reason:?} {has_content} {terminated}"
            );
        }
    }

    #[test]
    fn contradicting_finish_reasons_are_an_error() {
        for (reasons, name, kept) in [
            (&["stop", "stop"][..], "completed", "stop"),
            (&["tool_calls", "stop"], "completed", "stop"),
            (&["length", "length"], "truncated", "length"),
            (&["stop", "length"], "stream_error", "length"),
            (&["length", "stop"], "stream_error", "stop"),
            (&["abort", "stop"], "stream_error", "stop"),
            (&["stop", "length", "stop"], "stream_error", "stop"),
        ] {
            let mut answer = answer(None, true, true);
            reasons
                .iter()
                .for_each(|reason| answer.finish((*reason).to_owned()));
            assert_eq!(
                (answer.outcome().name(), answer.finish_reason.as_deref()),
                (name, Some(kept)),
                "{reasons:?}"
            );
        }
        let mut answer = answer(Some("stop"), true, true);
        answer.finish("length".to_owned());
        assert_eq!(
            answer.outcome(),
            stream_error("two finish reasons: \"stop\", then \"length\"")
        );
    }

    #[test]
    fn the_first_error_decides_the_outcome() {
        let error = |status, has_content| {
            let error = Some(AnswerError::Server {
                status,
                body: "words".to_owned(),
            });
            Decoded {
                error,
                ..answer(Some("stop"), has_content, true)
            }
            .outcome()
        };
        assert_eq!(
            error(Some(400), false),
            Outcome::Rejected {
                status: 400,
                body: "words".to_owned(),
                advice: Some(Advice::InStream)
            }
        );
        assert_eq!(
            error(Some(503), false),
            Outcome::ServerError {
                status: 503,
                body: "words".to_owned(),
                advice: Some(Advice::InStream)
            }
        );
        assert_eq!(error(Some(503), true), error(Some(503), false));
        let in_stream = stream_error("error from the server in a response with status 200: words");
        assert_eq!(error(Some(400), true), in_stream);
        assert_eq!(error(None, false), in_stream);
    }
}
