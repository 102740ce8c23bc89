//! What a decoder makes of the bytes of one answer, and which outcome that is. Knows no wire format
//! and no clock.

use sobench_core::answer::Answer;
use sobench_core::observation::{Advice, Outcome, Usage};

/// Turns the bytes of one answer into what they say. Runs in the timed path: it finds text, and
/// does nothing else with it.
pub trait Decoder: Send {
    /// Takes the bytes of one read.
    fn push(&mut self, bytes: &[u8]) -> Fed;

    /// Takes the end of the body.
    fn finish(&mut self) -> Fed;

    /// What has come so far; also right where the body broke off.
    fn into_decoded(self: Box<Self>) -> Decoded;
}

/// What one read brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fed {
    /// Chunks with generated content that the read completed; they share its instant.
    pub content_chunks: usize,
    /// Whether any of them had reasoning in it.
    pub reasoning: bool,
    /// Whether any of them had something of the answer itself in it: text, or a tool call.
    pub answer: bool,
    /// Whether nothing that follows can change the answer: its terminal event came, or it broke.
    pub ended: bool,
}

impl Fed {
    /// Adds what more bytes of the same instant brought.
    pub fn merge(&mut self, more: Self) {
        self.content_chunks += more.content_chunks;
        self.reasoning |= more.reasoning;
        self.answer |= more.answer;
        self.ended |= more.ended;
    }

    /// What one event or one body brought: a chunk, where it has content at all.
    pub(super) fn chunk(reasoning: bool, answer: bool) -> Self {
        Self {
            content_chunks: usize::from(reasoning || answer),
            reasoning,
            answer,
            ended: false,
        }
    }
}

/// What has been decoded so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decoded {
    pub answer: Answer,
    pub finish_reason: Option<String>,
    /// The last counts that the server stated.
    pub usage: Option<Usage>,
    /// For each chunk with generated content, the output tokens up to and with it, as far as the
    /// server states counts in chunks.
    pub chunk_tokens: Vec<u64>,
    /// Whether any generated content came.
    pub has_content: bool,
    /// Whether the server stated the whole answer, which may be empty.
    pub stated: bool,
    /// Whether the terminal event (`[DONE]`), or a whole body, came.
    pub terminated: bool,
    /// What went wrong inside a 200 answer; the first such thing wins over all that follows.
    pub broken: Option<Broken>,
}

/// What went wrong inside a 200 answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The server sent an error in place of (more) answer.
    ServerSaid {
        /// The HTTP status that the error stands for, where it can be told.
        status: Option<u16>,
        /// The server's own words: the event's data, or the body.
        body: String,
    },
    /// The bytes are not an answer in the expected format.
    Unreadable { message: String },
}

/// Finish reasons that name a failure of the server rather than an end of the answer (vLLM and
/// SGLang, aborted requests).
const FAILED_FINISH_REASONS: [&str; 2] = ["abort", "error"];

/// What a finish reason makes of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finish {
    ByItself,
    AtTheLimit,
    Failed,
}

impl Finish {
    fn of(reason: &str) -> Self {
        match reason {
            "length" => Self::AtTheLimit,
            reason if FAILED_FINISH_REASONS.contains(&reason) => Self::Failed,
            _ => Self::ByItself,
        }
    }
}

impl Decoded {
    /// Takes a finish reason. One that says something else of the end than an earlier one did
    /// breaks the answer: whether it ended or was cut cannot be told. Two that agree (`tool_calls`,
    /// then `stop`) are the later one.
    pub(super) fn finish(&mut self, reason: String) {
        if let Some(earlier) = self.finish_reason.as_deref()
            && Finish::of(earlier) != Finish::of(&reason)
        {
            let message = format!("two finish reasons: {earlier:?}, then {reason:?}");
            self.broken.get_or_insert(Broken::Unreadable { message });
        }
        self.finish_reason = Some(reason);
    }

    /// How the answer ended, once the body has ended without a transport error.
    ///
    /// - An error before any content is what it would have been as a status: 4xx [`Outcome::Rejected`], 5xx
    ///   [`Outcome::ServerError`]. After content, or without a status, it is a [`Outcome::StreamError`].
    /// - A finish reason ends the answer, with or without `[DONE]`: `length` is [`Outcome::Truncated`], `abort` and `error` are
    ///   [`Outcome::StreamError`], any other is [`Outcome::Completed`].
    /// - `[DONE]` without a finish reason ends an answer that has content: [`Outcome::Completed`], with `finish_reason` left
    ///   empty, so that nobody counts it as ended by `stop`. So does the end of one that the server stated whole, if empty. With
    ///   neither content nor a finish reason, nothing was answered: [`Outcome::StreamError`].
    /// - Neither is a stream that broke off: [`Outcome::StreamError`].
    pub fn outcome(&self) -> Outcome {
        match &self.broken {
            Some(Broken::ServerSaid {
                status: Some(status),
                body,
            }) if !self.has_content => {
                return outcome_of_status(*status, body.clone(), None);
            }
            Some(Broken::ServerSaid { body, .. }) => return stream_error(body.clone()),
            Some(Broken::Unreadable { message }) => return stream_error(message.clone()),
            None => {}
        }
        match self
            .finish_reason
            .as_deref()
            .map(|reason| (Finish::of(reason), reason))
        {
            Some((Finish::AtTheLimit, _)) => Outcome::Truncated,
            Some((Finish::Failed, reason)) => stream_error(format!("finish reason {reason:?}")),
            Some((Finish::ByItself, _)) => Outcome::Completed,
            None if self.terminated && (self.has_content || self.stated) => Outcome::Completed,
            None if self.terminated => {
                stream_error("ended with neither content nor a finish reason")
            }
            None => stream_error("ended without a terminal event and without a finish reason"),
        }
    }
}

/// The outcome of a status that is not 200: 4xx is a refusal, anything else the server's failure.
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
    fn how_an_answer_ended() {
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
    fn finish_reasons_have_to_agree() {
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
    fn an_error_wins_over_all_that_follows() {
        let broken = |status, has_content| {
            let broken = Some(Broken::ServerSaid {
                status,
                body: "words".to_owned(),
            });
            Decoded {
                broken,
                ..answer(Some("stop"), has_content, true)
            }
            .outcome()
        };
        assert_eq!(
            broken(Some(400), false),
            Outcome::Rejected {
                status: 400,
                body: "words".to_owned(),
                advice: None
            }
        );
        assert_eq!(
            broken(Some(503), false),
            Outcome::ServerError {
                status: 503,
                body: "words".to_owned(),
                advice: None
            }
        );
        assert_eq!(
            broken(Some(400), true),
            Outcome::StreamError {
                message: "words".to_owned()
            }
        );
        assert_eq!(
            broken(None, false),
            Outcome::StreamError {
                message: "words".to_owned()
            }
        );
    }
}
