//! What happened to one case, as seen from the client. Facts only: no verdict, no statistics, nothing repaired.

use serde::{Deserialize, Serialize};

/// What happened to one case. Instants are nanoseconds since the run began (the moment from which due times count).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// Position of the case in the plan.
    pub case_index: usize,
    pub outcome: Outcome,
    pub timing: Timing,
    /// The answer: all content deltas in order.
    pub text: String,
    /// Reasoning deltas, kept apart from the answer.
    pub reasoning: String,
    /// The server's own word, e.g. `stop` or `length`.
    pub finish_reason: Option<String>,
    /// Token counts as the server stated them.
    pub usage: Option<Usage>,
}

/// The instants of one request, in nanoseconds since the run began; `None` where it never came to that.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timing {
    /// When the schedule wanted it sent.
    pub due_ns: u64,
    /// Since when nothing but the client itself held it back: it was due, and a slot under the concurrency cap was free. `None` where
    /// it never came to that, or where nobody noted it.
    #[serde(default)]
    pub ready_ns: Option<u64>,
    /// When it was handed to the HTTP client, after waiting for a free slot under the concurrency cap.
    pub sent_ns: Option<u64>,
    /// When the response head arrived.
    pub headers_ns: Option<u64>,
    /// One instant for each chunk that carried generated content (text, reasoning, tool call), in order. A role-only or empty
    /// chunk is not among them.
    pub chunks_ns: Vec<u64>,
    /// When the first chunk with reasoning came.
    pub first_reasoning_ns: Option<u64>,
    /// When the first chunk came that carried something of the answer itself: text, or a tool call. That of a chunk with both is
    /// that of the reasoning too.
    pub first_answer_ns: Option<u64>,
    /// The output tokens up to and with each of those chunks, by the server's count; empty where it does not count in every one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chunk_tokens: Vec<u64>,
    /// When the response ended, for whatever reason.
    pub end_ns: Option<u64>,
    /// Whether the answer came, and was read, as an event stream. Not so where none was asked for, where the server sent one whole
    /// body all the same, and where no answer came. Without a stream the instants of chunks are the answer's end, and tell nothing
    /// of when generation began or how it went on.
    pub streamed: bool,
}

impl Timing {
    /// Whether the instants follow each other: due, ready, sent, headers, every chunk, end, as far as there are any. They are read off
    /// one clock, so that anything else is a defect of the client.
    pub fn is_in_order(&self) -> bool {
        let before = [Some(self.due_ns), self.ready_ns, self.sent_ns, self.headers_ns];
        before.into_iter().flatten().chain(self.chunks_ns.iter().copied()).chain(self.end_ns).is_sorted()
    }

    /// First content, from which TTFT counts.
    pub fn first_content_ns(&self) -> Option<u64> {
        self.chunks_ns.first().copied()
    }

    /// Last content, to which E2EL counts.
    pub fn last_content_ns(&self) -> Option<u64> {
        self.chunks_ns.last().copied()
    }
}

/// Token counts by the server's account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub prompt_tokens: Option<u64>,
    pub completion_tokens: Option<u64>,
}

/// How a request ended. Closed: whoever adds a way to end adds what every layer makes of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    /// The answer ended by itself.
    Completed,
    /// The answer was cut at the token limit (finish reason `length`).
    Truncated,
    /// The server refused the request (4xx, or a 400 inside a 200 stream before any content).
    Rejected { status: u16, body: String },
    /// Nothing was sent: this kind of server has no field for the constraint, and without it the answer would be another one's.
    Unsupported { what: String },
    /// The server failed (5xx, or a 5xx inside a 200 stream before any content), or answered with a status that makes no sense.
    ServerError { status: u16, body: String },
    /// The stream broke its own rules: an error event after content, an end without a terminal event, an unreadable event.
    StreamError { message: String },
    /// No usable HTTP exchange took place, or it broke off.
    Transport { cause: TransportCause, message: String },
    /// A named limit of ours ran out.
    TimedOut { limit_ms: u64 },
    /// The run was stopped before the request ended, or before it was sent.
    Cancelled,
}

/// Why there was no usable HTTP exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TransportCause {
    Connect,
    Reset,
    Closed,
    BodyTooLarge,
    Other,
}

impl Outcome {
    /// The name used as a key wherever outcomes are counted.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Truncated => "truncated",
            Self::Rejected { .. } => "rejected",
            Self::Unsupported { .. } => "unsupported",
            Self::ServerError { .. } => "server_error",
            Self::StreamError { .. } => "stream_error",
            Self::Transport { .. } => "transport",
            Self::TimedOut { .. } => "timed_out",
            Self::Cancelled => "cancelled",
        }
    }

    /// Every outcome's name, in the order of reports.
    pub const NAMES: [&'static str; 9] = [
        "completed",
        "truncated",
        "rejected",
        "unsupported",
        "server_error",
        "stream_error",
        "transport",
        "timed_out",
        "cancelled",
    ];

    /// Whether the server gave an answer, whole or cut at the token limit.
    pub fn is_answer(&self) -> bool {
        matches!(self, Self::Completed | Self::Truncated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_follow_each_other() {
        let timing = |due_ns, [ready_ns, sent_ns, headers_ns, end_ns]: [Option<u64>; 4], chunks_ns: &[u64]| {
            let chunks_ns = chunks_ns.to_vec();
            Timing { due_ns, ready_ns, sent_ns, headers_ns, chunks_ns, end_ns, ..Timing::default() }
        };
        for (timing, expected) in [
            (timing(5, [None; 4], &[]), true),
            (timing(5, [Some(5), Some(5), Some(5), Some(5)], &[5, 5]), true),
            (timing(1, [Some(2), Some(3), Some(4), Some(8)], &[5, 7]), true),
            (timing(1, [Some(2), Some(3), None, Some(4)], &[]), true),
            (timing(3, [Some(2), Some(3), Some(4), Some(8)], &[5, 7]), false),
            (timing(1, [Some(4), Some(3), Some(4), Some(8)], &[5, 7]), false),
            (timing(1, [Some(2), Some(5), Some(4), Some(8)], &[5, 7]), false),
            (timing(1, [Some(2), Some(3), Some(6), Some(8)], &[5, 7]), false),
            (timing(1, [Some(2), Some(3), Some(4), Some(8)], &[7, 5]), false),
            (timing(1, [Some(2), Some(3), Some(4), Some(6)], &[5, 7]), false),
        ] {
            assert_eq!(timing.is_in_order(), expected, "{timing:?}");
        }
    }
}
