//! What happened to one case, as seen from the client. Facts only: no verdict, no statistics,
//! nothing repaired.

use serde::{Deserialize, Serialize};

use crate::answer::Answer;

/// What happened to one case. Instants are nanoseconds since the run began (the moment from which
/// due times count).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// Position of the case in the plan.
    pub case_index: usize,
    pub outcome: Outcome,
    pub timing: Timing,
    pub answer: Answer,
    /// The server's own word, e.g. `stop` or `length`.
    pub finish_reason: Option<String>,
    /// Token counts as the server stated them.
    pub usage: Option<Usage>,
}

/// The instants of one request, in nanoseconds since the run began; `None` where it never came to
/// that.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timing {
    /// When the schedule wanted it sent.
    pub due_ns: u64,
    /// Since when nothing but the client itself held it back: it was due, and a slot under the
    /// concurrency cap was free. `None` where it never came to that, or where nobody noted it.
    #[serde(default)]
    pub ready_ns: Option<u64>,
    /// When it was handed to the HTTP client, after waiting for a free slot under the concurrency
    /// cap.
    pub sent_ns: Option<u64>,
    /// When the response head arrived.
    pub headers_ns: Option<u64>,
    /// One instant for each chunk that carried generated content (text, reasoning, tool call), in
    /// order. A role-only or empty chunk is not among them.
    pub chunks_ns: Vec<u64>,
    /// When the first chunk with reasoning came.
    pub first_reasoning_ns: Option<u64>,
    /// When the first chunk came that carried something of the answer itself: text, or a tool call.
    /// That of a chunk with both is that of the reasoning too.
    pub first_answer_ns: Option<u64>,
    /// The output tokens up to and with each of those chunks, by the server's count; empty where it
    /// does not count in every one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chunk_tokens: Vec<u64>,
    /// When the response ended, for whatever reason.
    pub end_ns: Option<u64>,
    /// Whether the answer came, and was read, as an event stream. Not so where none was asked for,
    /// where the server sent one whole body all the same, and where no answer came. Without a
    /// stream the instants of chunks are the answer's end, and tell nothing of when generation
    /// began or how it went on.
    pub streamed: bool,
}

impl Timing {
    /// Whether the instants follow each other: due, ready, sent, headers, every chunk, end, as far
    /// as there are any. They are read off one clock, so that anything else is a defect of the
    /// client.
    pub fn is_in_order(&self) -> bool {
        let before = [
            Some(self.due_ns),
            self.ready_ns,
            self.sent_ns,
            self.headers_ns,
        ];
        before
            .into_iter()
            .flatten()
            .chain(self.chunks_ns.iter().copied())
            .chain(self.end_ns)
            .is_sorted()
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub prompt_tokens: Option<u64>,
    pub completion_tokens: Option<u64>,
    /// Whether a count was stated that is no whole number from 0 on, and so is not among these.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unreadable: bool,
}

/// The most tokens that a count of one request can mean: far above what any model reads or writes,
/// and small enough that a million of them add up exactly, in 64 bits as well as in the doubles of
/// whoever reads a result.
pub const MAX_STATED_TOKENS: u64 = 1_000_000_000;

impl Usage {
    /// The counts that can be right, of an answer that came in so many chunks with content: a chunk
    /// has a token at least.
    pub fn plausible(self, content_chunks: usize) -> Self {
        let prompt_tokens = self
            .prompt_tokens
            .filter(|count| *count <= MAX_STATED_TOKENS);
        let least = content_chunks as u64;
        let completion_tokens = self
            .completion_tokens
            .filter(|count| (least..=MAX_STATED_TOKENS).contains(count));
        Self {
            prompt_tokens,
            completion_tokens,
            unreadable: self.unreadable,
        }
    }

    /// Whether all that was stated can be right.
    pub fn makes_sense(self, content_chunks: usize) -> bool {
        !self.unreadable && self.plausible(content_chunks) == self
    }

    /// Of prompt and answer, whether a count was stated that cannot be right.
    pub fn senseless(self, content_chunks: usize) -> [bool; 2] {
        let kept = self.plausible(content_chunks);
        let is_lost = |stated: Option<u64>, kept: Option<u64>| {
            stated != kept || (self.unreadable && stated.is_none())
        };
        [
            is_lost(self.prompt_tokens, kept.prompt_tokens),
            is_lost(self.completion_tokens, kept.completion_tokens),
        ]
    }
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
    Rejected {
        status: u16,
        body: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        advice: Option<Advice>,
    },
    /// Nothing was sent: this kind of server has no field for the constraint, and without it the
    /// answer would be another one's.
    Unsupported { what: String },
    /// The server failed (5xx, or a 5xx inside a 200 stream before any content), or answered with a
    /// status that makes no sense.
    ServerError {
        status: u16,
        body: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        advice: Option<Advice>,
    },
    /// The stream broke its own rules: an error event after content, an end without a terminal
    /// event, an unreadable event.
    StreamError { message: String },
    /// No usable HTTP exchange took place, or it broke off.
    Transport {
        cause: TransportCause,
        message: String,
    },
    /// A named limit of ours ran out.
    TimedOut {
        limit_ms: u64,
        /// Which one; logs of older versions know one only.
        #[serde(default)]
        limit: TimeLimit,
        /// How far the request had come; `None` where nobody noted it, as older versions did not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stage: Option<Stage>,
    },
    /// The run was stopped before the request ended, or before it was sent.
    Cancelled,
}

/// The status of a server that has too much to do, or a limit on how fast it may be asked (RFC
/// 6585, section 4): it says nothing of what was asked.
pub const TOO_MANY_REQUESTS: u16 = 429;

/// A header by which a server that gave no answer says what to do. It is recorded and never
/// followed: asking again, or elsewhere, would be another load, and would hand credentials to
/// whoever is named.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Advice {
    /// `Retry-After`: seconds, or a date (RFC 9110, section 10.2.3).
    RetryAfter(String),
    /// `Location`, of a redirect.
    Location(String),
}

/// A limit of ours on the time of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeLimit {
    /// On all of it, from sent to end (`--request-timeout`).
    #[default]
    Request,
    /// On the time without any byte of the answer (`--idle-timeout`).
    Idle,
}

/// How far a request had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// No connection yet, TLS included.
    Connecting,
    /// Sent, or being sent, and the head of the answer is not there yet. Where a kept connection
    /// had to be replaced, connecting is part of it.
    BeforeHeaders,
    /// The head of a stream is there, and no generated content yet.
    BeforeFirstToken,
    /// In a stream, after its first content.
    MidStream,
    /// In an answer that comes whole, whose content shows at its end.
    MidBody,
}

impl TimeLimit {
    /// The flag that sets it.
    pub fn flag(self) -> &'static str {
        match self {
            Self::Request => "--request-timeout",
            Self::Idle => "--idle-timeout",
        }
    }
}

impl Stage {
    /// For sentences that begin with what happened: "cut ...", "stalled ...".
    pub fn words(self) -> &'static str {
        match self {
            Self::Connecting => "while connecting",
            Self::BeforeHeaders => "before headers",
            Self::BeforeFirstToken => "before the first token",
            Self::MidStream => "mid-stream",
            Self::MidBody => "in the body of a whole answer",
        }
    }
}

/// Why there was no usable HTTP exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TransportCause {
    Connect,
    /// This machine had nothing to make a connection with: it is out of files, ports or memory.
    /// Says nothing of the server.
    Local,
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

    /// Whether this machine had no connection for the request: the server never heard of it.
    pub fn is_local(&self) -> bool {
        matches!(
            self,
            Self::Transport {
                cause: TransportCause::Local,
                ..
            }
        )
    }

    /// Whether the server gave an answer, whole or cut at the token limit.
    pub fn is_answer(&self) -> bool {
        matches!(self, Self::Completed | Self::Truncated)
    }
}

/// What a request that got no answer ran into, in the server's or the network's own words; empty
/// for an answer.
pub fn failure_words(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Completed | Outcome::Truncated => String::new(),
        Outcome::Rejected {
            status,
            body,
            advice,
        }
        | Outcome::ServerError {
            status,
            body,
            advice,
        } => match advice {
            None => format!("HTTP {status}: {body}"),
            Some(Advice::RetryAfter(value)) => {
                format!("HTTP {status}, retry-after: {value}: {body}")
            }
            Some(Advice::Location(value)) => {
                format!(
                    "HTTP {status}, location: {value}: no redirect is followed, give that server as --base-url: {body}"
                )
            }
        },
        Outcome::Unsupported { what } => what.clone(),
        Outcome::StreamError { message } => message.clone(),
        Outcome::Transport { cause, message } => format!("{}: {message}", cause_name(*cause)),
        Outcome::TimedOut {
            limit_ms,
            limit,
            stage,
        } => {
            let (what, how) = match limit {
                TimeLimit::Request => ("no end within", "cut"),
                TimeLimit::Idle => ("no byte of an answer for", "stalled"),
            };
            let stage =
                stage.map_or_else(String::new, |stage| format!(", {how} {}", stage.words()));
            format!("{what} {limit_ms} ms ({}){stage}", limit.flag())
        }
        Outcome::Cancelled => "the run was stopped first".to_owned(),
    }
}

fn cause_name(cause: TransportCause) -> &'static str {
    match cause {
        TransportCause::Connect => "no connection",
        TransportCause::Local => "no connection from here",
        TransportCause::Reset => "connection reset",
        TransportCause::Closed => "connection closed",
        TransportCause::BodyTooLarge => "body too large",
        TransportCause::Other => "exchange failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_of_older_logs_are_read() {
        let read = |json: &str| {
            // By way of a value, as the log is read.
            serde_json::from_value::<Outcome>(serde_json::from_str(json).unwrap()).unwrap()
        };
        let old = r#"{"kind":"timed_out","limit_ms":5}"#;
        assert_eq!(
            read(old),
            Outcome::TimedOut {
                limit_ms: 5,
                limit: TimeLimit::Request,
                stage: None
            }
        );
        let old = r#"{"kind":"rejected","status":429,"body":"no"}"#;
        assert_eq!(
            read(old),
            Outcome::Rejected {
                status: 429,
                body: "no".to_owned(),
                advice: None
            }
        );
        for (outcome, json) in [
            (
                Outcome::TimedOut {
                    limit_ms: 5,
                    limit: TimeLimit::Idle,
                    stage: Some(Stage::MidStream),
                },
                r#"{"kind":"timed_out","limit_ms":5,"limit":"idle","stage":"mid_stream"}"#,
            ),
            (
                Outcome::Rejected {
                    status: 429,
                    body: String::new(),
                    advice: Some(Advice::RetryAfter("7".to_owned())),
                },
                r#"{"kind":"rejected","status":429,"body":"","advice":{"retry_after":"7"}}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&outcome).unwrap(), json);
            assert_eq!(read(json), outcome);
        }
    }

    #[test]
    fn counts_that_cannot_be_right_are_told_from_those_that_can() {
        let most = MAX_STATED_TOKENS;
        for (prompt, completion, chunks, plausible) in [
            (Some(3), Some(5), 5, (Some(3), Some(5))),
            (Some(0), Some(0), 0, (Some(0), Some(0))),
            (None, None, 5, (None, None)),
            (Some(most), Some(most), 5, (Some(most), Some(most))),
            (Some(most + 1), Some(5), 5, (None, Some(5))),
            (Some(3), Some(1_000_000_000_000), 5, (Some(3), None)),
            (Some(u64::MAX), Some(u64::MAX), 5, (None, None)),
            (Some(3), Some(4), 5, (Some(3), None)),
        ] {
            let usage = Usage {
                prompt_tokens: prompt,
                completion_tokens: completion,
                unreadable: false,
            };
            let kept = usage.plausible(chunks);
            assert_eq!(
                (kept.prompt_tokens, kept.completion_tokens),
                plausible,
                "{usage:?} {chunks}"
            );
            assert_eq!(
                usage.senseless(chunks),
                [prompt != plausible.0, completion != plausible.1]
            );
            let unreadable = Usage {
                unreadable: true,
                completion_tokens: None,
                ..usage
            }
            .senseless(chunks);
            assert_eq!(
                unreadable,
                [prompt != plausible.0 || prompt.is_none(), true]
            );
            assert_eq!(usage.makes_sense(chunks), plausible == (prompt, completion));
            assert!(
                !Usage {
                    unreadable: true,
                    ..usage
                }
                .makes_sense(chunks)
            );
        }
    }

    #[test]
    fn instants_follow_each_other() {
        let timing = |due_ns,
                      [ready_ns, sent_ns, headers_ns, end_ns]: [Option<u64>; 4],
                      chunks_ns: &[u64]| {
            let chunks_ns = chunks_ns.to_vec();
            Timing {
                due_ns,
                ready_ns,
                sent_ns,
                headers_ns,
                chunks_ns,
                end_ns,
                ..Timing::default()
            }
        };
        for (timing, expected) in [
            (timing(5, [None; 4], &[]), true),
            (
                timing(5, [Some(5), Some(5), Some(5), Some(5)], &[5, 5]),
                true,
            ),
            (
                timing(1, [Some(2), Some(3), Some(4), Some(8)], &[5, 7]),
                true,
            ),
            (timing(1, [Some(2), Some(3), None, Some(4)], &[]), true),
            (
                timing(3, [Some(2), Some(3), Some(4), Some(8)], &[5, 7]),
                false,
            ),
            (
                timing(1, [Some(4), Some(3), Some(4), Some(8)], &[5, 7]),
                false,
            ),
            (
                timing(1, [Some(2), Some(5), Some(4), Some(8)], &[5, 7]),
                false,
            ),
            (
                timing(1, [Some(2), Some(3), Some(6), Some(8)], &[5, 7]),
                false,
            ),
            (
                timing(1, [Some(2), Some(3), Some(4), Some(8)], &[7, 5]),
                false,
            ),
            (
                timing(1, [Some(2), Some(3), Some(4), Some(6)], &[5, 7]),
                false,
            ),
        ] {
            assert_eq!(timing.is_in_order(), expected, "{timing:?}");
        }
    }

    #[test]
    fn failures_are_told_in_the_servers_words() {
        for (outcome, expected) in [
            (Outcome::Completed, ""),
            (
                Outcome::Rejected {
                    status: 400,
                    body: "no such grammar".into(),
                    advice: None,
                },
                "HTTP 400: no such grammar",
            ),
            (
                Outcome::Rejected {
                    status: 429,
                    body: "slow".into(),
                    advice: Some(Advice::RetryAfter("7".into())),
                },
                "HTTP 429, retry-after: 7: slow",
            ),
            (
                Outcome::ServerError {
                    status: 307,
                    body: "".into(),
                    advice: Some(Advice::Location("http://b/".into())),
                },
                "HTTP 307, location: http://b/: no redirect is followed, give that server as --base-url: ",
            ),
            (
                Outcome::TimedOut {
                    limit_ms: 50,
                    limit: TimeLimit::Request,
                    stage: None,
                },
                "no end within 50 ms (--request-timeout)",
            ),
            (
                Outcome::TimedOut {
                    limit_ms: 50,
                    limit: TimeLimit::Idle,
                    stage: Some(Stage::MidStream),
                },
                "no byte of an answer for 50 ms (--idle-timeout), stalled mid-stream",
            ),
            (
                Outcome::Transport {
                    cause: TransportCause::Connect,
                    message: "refused".into(),
                },
                "no connection: refused",
            ),
        ] {
            assert_eq!(failure_words(&outcome), expected);
        }
    }
}
