//! The client's record of one request: outcome, timing, answer and token counts. Holds unmodified
//! facts, without verdicts or statistics.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::case::Prompt;
use crate::channel_timing::ChannelTiming;
use crate::departure::Departure;
use crate::error_message::error_message;
use crate::printable::NO_BODY;

/// The client's record of one request. Instants are nanoseconds since the start of the run, from
/// which due times count.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Observation {
    /// Index of the case in the plan.
    pub case_index: usize,
    pub outcome: Outcome,
    pub timing: Timing,
    pub answer: Answer,
    /// As the server sent it, for example `stop` or `length`.
    pub finish_reason: Option<String>,
    /// Token counts that the server reported.
    pub usage: Option<Usage>,
}

/// Instants of one request, in nanoseconds since the start of the run; `None` if the request did
/// not get that far.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Timing {
    /// When the schedule required it to be sent.
    pub due_ns: u64,
    /// When it was due and a slot under the concurrency cap was free: from then on only the client
    /// delayed it. `None` if that never happened or was not recorded.
    #[serde(default)]
    pub ready_ns: Option<u64>,
    /// When it was handed to the HTTP client, after waiting for a free slot under the concurrency
    /// cap.
    pub sent_ns: Option<u64>,
    /// Duration of the system call that sent it: the request left this machine within this time
    /// after `sent_ns`. `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_call_ns: Option<u64>,
    /// When the response head arrived.
    pub headers_ns: Option<u64>,
    /// One instant for each chunk with generated content (text, reasoning, tool call), in order.
    /// Chunks that are empty or hold only a role are excluded.
    pub chunks_ns: Vec<u64>,
    /// Chunks that can have arrived earlier than recorded, in order: the index of the first chunk of
    /// a read from the socket, and by how much at most. It applies to the following chunks with the
    /// same instant as well. `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrival_slack_ns: Option<Vec<(usize, u64)>>,
    /// When the first chunk with reasoning arrived.
    pub first_reasoning_ns: Option<u64>,
    /// When the first chunk with text or a tool call arrived. A chunk with both reasoning and text
    /// sets both instants.
    pub first_answer_ns: Option<u64>,
    /// When the first chunk with arguments of a tool call arrived. The name of the function comes
    /// before it, and is `first_answer_ns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_arguments_ns: Option<u64>,
    /// The channels of those chunks; `None` for an answer with content only, and if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<ChannelTiming>,
    /// Cumulative output tokens at each of those chunks, as the server counted them; empty unless
    /// the server reports a count in every chunk.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chunk_tokens: Vec<u64>,
    /// When the response ended, for any reason.
    pub end_ns: Option<u64>,
    /// Times that the server reported with the answer; `None` without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerTimes>,
    /// Whether the answer was received and parsed as an event stream. False if no stream was
    /// requested, if the server sent one complete body anyway, and if there was no answer. Without
    /// a stream, the instants of chunks are the end of the answer and say nothing about generation.
    pub streamed: bool,
}

impl Timing {
    /// Whether the recorded instants are in order: due, ready, sent, headers, each chunk, end. They
    /// come from one clock, so any other order is a defect of the client.
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

    /// First content; TTFT counts to here.
    pub fn first_content_ns(&self) -> Option<u64> {
        self.chunks_ns.first().copied()
    }

    /// Last content; E2EL counts to here.
    pub fn last_content_ns(&self) -> Option<u64> {
        self.chunks_ns.last().copied()
    }
}

/// The slack of each chunk, from the entries of [`Timing::arrival_slack_ns`].
pub fn spread_slack(entries: &[(usize, u64)], chunks_ns: &[u64]) -> Vec<u64> {
    let mut slack = vec![0; chunks_ns.len()];
    for (first, slack_ns) in entries {
        let Some(at_ns) = chunks_ns.get(*first) else {
            continue;
        };
        let same_read = chunks_ns.iter().zip(&mut slack).skip(*first);
        for (_, of_chunk) in same_read.take_while(|(chunk_ns, _)| *chunk_ns == at_ns) {
            *of_chunk = *slack_ns;
        }
    }
    slack
}

/// Times of one request by the server's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ServerTimes {
    /// In the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_ns: Option<u64>,
    /// From the end of the queue to the first token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_token_ns: Option<u64>,
    /// From the first token to the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation_ns: Option<u64>,
}

/// Token counts that the server reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Usage {
    pub prompt_tokens: Option<u64>,
    pub completion_tokens: Option<u64>,
    /// Those of the reasoning among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
    /// Tokens of the prompt that the server took from its prefix cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u64>,
    /// Whether the server reported a count that is not a non-negative integer. Such a count is
    /// `None` above.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unreadable: bool,
}

/// The largest plausible token count of one request: far above what any model reads or writes, and
/// small enough that the sum of a million of them is exact in 64 bits and in doubles.
pub const MAX_STATED_TOKENS: u64 = 1_000_000_000;

/// A token count of the server that something else in the response contradicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountFault {
    /// Each chunk with content has a token.
    FewerThanChunks,
    /// The tokens of the reasoning are among all tokens.
    ReasoningAboveAll,
    /// The counts include the tokens of other choices, which are not in the answer.
    SeveralChoices,
    /// A prompt has a token.
    NoPromptTokens,
}

impl CountFault {
    /// Every fault.
    pub const ALL: [Self; 4] = [
        Self::FewerThanChunks,
        Self::ReasoningAboveAll,
        Self::SeveralChoices,
        Self::NoPromptTokens,
    ];
}

/// What the token counts of a response are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountChecks {
    /// Chunks with content.
    pub chunks: usize,
    /// Whether the prompt has a token at least.
    pub has_prompt: bool,
    pub has_other_choices: bool,
}

impl CountChecks {
    /// The checks of an answer to a prompt.
    pub fn new(prompt: &Prompt, answer: &Answer, chunks: usize) -> Self {
        Self {
            chunks,
            has_prompt: match prompt {
                Prompt::Text(text) => !text.is_empty(),
                Prompt::Messages(messages) => !messages.is_empty(),
                Prompt::Audio(_) => false,
                Prompt::Body(_) | Prompt::Ranking { .. } => true,
            },
            has_other_choices: answer.departures.has(Departure::SecondChoice),
        }
    }
}

impl Usage {
    /// Whether a count has this fault. A few more chunks than tokens are none: some servers send a
    /// token in two chunks.
    pub fn has_fault(self, fault: CountFault, checks: CountChecks) -> bool {
        let CountChecks {
            chunks,
            has_prompt,
            has_other_choices,
        } = checks;
        let output = self.completion_tokens;
        match fault {
            CountFault::FewerThanChunks => output.is_some_and(|tokens| {
                tokens.saturating_add(tokens / 10).saturating_add(1) < chunks as u64
            }),
            CountFault::ReasoningAboveAll => self.reasoning_tokens > output && output.is_some(),
            CountFault::SeveralChoices => has_other_choices && output.is_some(),
            CountFault::NoPromptTokens => has_prompt && self.prompt_tokens == Some(0),
        }
    }

    /// The counts that may be right. `max_output` is the token limit of the request, if it is the
    /// server's only one. Counts of several choices are not those of the answer, and a prompt has
    /// tokens. Each chunk with content has at least one token; half of that is required, because
    /// some servers send the same token in two chunks.
    pub fn plausible(self, checks: CountChecks, max_output: Option<u64>) -> Self {
        let prompt_tokens = self.prompt_tokens.filter(|count| {
            *count <= MAX_STATED_TOKENS && !self.has_fault(CountFault::NoPromptTokens, checks)
        });
        let least = (checks.chunks as u64).div_ceil(2);
        let most = max_output.unwrap_or(MAX_STATED_TOKENS);
        let completion_tokens = self.completion_tokens.filter(|count| {
            (least..=most.min(MAX_STATED_TOKENS)).contains(count)
                && !self.has_fault(CountFault::SeveralChoices, checks)
        });
        Self {
            prompt_tokens,
            completion_tokens,
            reasoning_tokens: self.reasoning_tokens.filter(|count| {
                *count <= MAX_STATED_TOKENS
                    && !self.has_fault(CountFault::ReasoningAboveAll, checks)
            }),
            cached_tokens: self.cached_tokens.filter(|count| {
                *count <= MAX_STATED_TOKENS && self.prompt_tokens.is_none_or(|all| *count <= all)
            }),
            unreadable: self.unreadable,
        }
    }

    /// For prompt and answer: whether the server reported a count, right or wrong. Zero tokens of an
    /// answer without content are no count.
    pub fn is_stated(self, content_chunks: usize) -> [bool; 2] {
        let output = self
            .completion_tokens
            .filter(|count| *count > 0 || content_chunks > 0);
        [self.prompt_tokens, output].map(|count| count.is_some() || self.unreadable)
    }
}

/// How a request ended. Not `non_exhaustive`: a new variant must be handled in every layer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    /// The model ended the answer.
    Completed,
    /// The answer reached the token limit (finish reason `length`).
    Truncated,
    /// The server refused the request (4xx, or a 400 inside a 200 stream before any content).
    Rejected {
        status: u16,
        body: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        advice: Option<Advice>,
    },
    /// The model refused: it sent a refusal in place of the answer (OpenAI's `refusal`).
    Refused { message: String },
    /// The request was not sent: this kind of server has no field for the constraint, and without
    /// it the answer would not be comparable.
    Unsupported { what: String },
    /// The server failed (5xx, or a 5xx inside a 200 stream before any content), or replied with an
    /// invalid status.
    ServerError {
        status: u16,
        body: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        advice: Option<Advice>,
    },
    /// The stream violated its protocol: an error event after content, an end without a terminal
    /// event, an unreadable event.
    StreamError { message: String },
    /// The HTTP exchange failed or broke off.
    Transport {
        cause: TransportCause,
        message: String,
    },
    /// One of the client's time limits expired.
    TimedOut {
        limit_ms: u64,
        /// Logs of older versions know only `Request`.
        #[serde(default)]
        limit: TimeLimit,
        /// How far the request had come; `None` if not recorded, as in logs of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stage: Option<Stage>,
    },
    /// The run was stopped before the request ended, or before it was sent; or an earlier turn of
    /// its session has no answer.
    Cancelled,
    /// The client closed the connection by plan, to test the server (`--cancel-rate`).
    Abandoned,
}

/// Status of an overloaded or rate-limited server (RFC 6585, section 4). It is unrelated to the
/// content of the request.
pub const TOO_MANY_REQUESTS: u16 = 429;

/// What a server that gave no answer sent beside its error. A retry or a redirect is recorded and
/// never followed: it would change the load, and a redirect would send credentials to another host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Advice {
    /// `Retry-After`: seconds, or a date (RFC 9110, section 10.2.3).
    RetryAfter(String),
    /// `Location`, of a redirect.
    Location(String),
    /// Status 200: the error is an event of the stream, or in the body, and names its own status.
    InStream,
}

/// The start of the message of an error in a response with status 200.
pub const ERROR_IN_STREAM: &str = "error from the server in a response with status 200";

/// A time limit of the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeLimit {
    /// From sent to end (`--request-timeout`).
    #[default]
    Request,
    /// Without any byte of the response (`--idle-timeout`).
    Idle,
}

/// How far a request had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// No connection yet, TLS included.
    Connecting,
    /// Sent or being sent; the response head has not arrived. Includes reconnecting if a kept
    /// connection had to be replaced.
    BeforeHeaders,
    /// The head of a stream has arrived, but no generated content.
    BeforeFirstToken,
    /// In a stream, after the first content.
    MidStream,
    /// In a response that is not a stream.
    MidBody,
}

impl TimeLimit {
    /// The flag that sets the limit.
    pub fn flag(self) -> &'static str {
        match self {
            Self::Request => "--request-timeout",
            Self::Idle => "--idle-timeout",
        }
    }
}

impl Stage {
    /// A phrase to follow a verb: "cut ...", "stalled ...".
    pub fn phrase(self) -> &'static str {
        match self {
            Self::Connecting => "while connecting",
            Self::BeforeHeaders => "before headers",
            Self::BeforeFirstToken => "before the first token",
            Self::MidStream => "mid-stream",
            Self::MidBody => "in the body of a response without a stream",
        }
    }
}

/// Why the HTTP exchange failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TransportCause {
    Connect,
    /// This machine has no files, ports or memory left for a connection. Independent of the server.
    Local,
    Reset,
    Closed,
    BodyTooLarge,
    Other,
}

impl Outcome {
    /// The name used as a key in counts.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Truncated => "truncated",
            Self::Rejected { .. } => "rejected",
            Self::Refused { .. } => "refused",
            Self::Unsupported { .. } => "unsupported",
            Self::ServerError { .. } => "server_error",
            Self::StreamError { .. } => "stream_error",
            Self::Transport { .. } => "transport",
            Self::TimedOut { .. } => "timed_out",
            Self::Cancelled => "cancelled",
            Self::Abandoned => "abandoned",
        }
    }

    /// Names of all outcomes, in the order of reports.
    pub const NAMES: [&'static str; 11] = [
        "completed",
        "truncated",
        "rejected",
        "refused",
        "unsupported",
        "server_error",
        "stream_error",
        "transport",
        "timed_out",
        "cancelled",
        "abandoned",
    ];

    /// Whether this machine could not open a connection, so that the request never reached the
    /// server.
    pub fn is_local(&self) -> bool {
        matches!(
            self,
            Self::Transport {
                cause: TransportCause::Local,
                ..
            }
        )
    }

    /// Whether there was no connection to the server.
    pub fn is_unreachable(&self) -> bool {
        matches!(
            self,
            Self::Transport {
                cause: TransportCause::Connect,
                ..
            } | Self::TimedOut {
                stage: Some(Stage::Connecting),
                ..
            }
        )
    }

    /// Whether the request counts: it was neither cancelled nor abandoned, and did not fail in the
    /// client.
    pub fn has_result(&self) -> bool {
        !self.is_local() && !self.is_cut_by_client()
    }

    /// Whether the client ended the request: at the end of the run, or by plan.
    pub fn is_cut_by_client(&self) -> bool {
        matches!(self, Self::Cancelled | Self::Abandoned)
    }

    /// Status and body of a response that refuses the content of the request, which may be its
    /// constraint. Other statuses, such as 401, 404 and 429, are unrelated to the constraint.
    pub fn content_refusal(&self) -> Option<(u16, &str)> {
        match self {
            Self::Rejected {
                status: status @ (400 | 422),
                body,
                ..
            } => Some((*status, body)),
            _ => None,
        }
    }

    /// Whether the server gave an answer, complete or cut at the token limit.
    pub fn is_answer(&self) -> bool {
        matches!(self, Self::Completed | Self::Truncated)
    }
}

/// The error of a request without an answer, as the server or the network reported it; empty for an
/// answer.
pub fn failure_message(outcome: &Outcome) -> String {
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
        } => {
            let message = Some(error_message(body)).filter(|message| !message.trim().is_empty());
            let message = message.as_deref();
            match advice {
                None => format!("HTTP {status}: {}", message.unwrap_or(NO_BODY)),
                Some(Advice::InStream) => {
                    format!("{ERROR_IN_STREAM}: {}", message.unwrap_or(NO_BODY))
                }
                Some(Advice::RetryAfter(value)) => {
                    let message = message.unwrap_or(NO_BODY);
                    format!("HTTP {status}, retry-after: {value}: {message}")
                }
                Some(Advice::Location(value)) => {
                    let body = message.map_or_else(String::new, |body| format!("; body: {body}"));
                    format!(
                        "HTTP {status}, location: {value}: redirects are not followed, set --base-url to that server{body}"
                    )
                }
            }
        }
        Outcome::Refused { message } => format!("the model refused: {message}"),
        Outcome::Unsupported { what } => what.clone(),
        Outcome::StreamError { message } => message.clone(),
        Outcome::Transport { cause, message } => format!("{}: {message}", cause_name(*cause)),
        Outcome::TimedOut {
            limit_ms,
            limit,
            stage,
        } => {
            let (problem, verb) = match limit {
                TimeLimit::Request => ("no end of the response within", "cut"),
                TimeLimit::Idle => ("no byte of the response for", "stalled"),
            };
            let stage =
                stage.map_or_else(String::new, |stage| format!(", {verb} {}", stage.phrase()));
            format!("{problem} {limit_ms} ms ({}){stage}", limit.flag())
        }
        Outcome::Cancelled => "the run was stopped before the request ended".to_owned(),
        Outcome::Abandoned => "the client closed the connection by plan (--cancel-rate)".to_owned(),
    }
}

fn cause_name(cause: TransportCause) -> &'static str {
    match cause {
        TransportCause::Connect => "no connection",
        TransportCause::Local => "no local resources for a connection",
        TransportCause::Reset => "connection reset",
        TransportCause::Closed => "connection closed",
        TransportCause::BodyTooLarge => "body too large",
        TransportCause::Other => "HTTP exchange failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_of_older_logs_are_read() {
        let read = |json: &str| {
            // Through a `Value`, as the log is read.
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

    fn checks(chunks: usize) -> CountChecks {
        CountChecks {
            chunks,
            has_prompt: chunks > 0,
            has_other_choices: false,
        }
    }

    #[test]
    fn counts_that_contradict_the_response_are_named() {
        use CountFault::{FewerThanChunks, NoPromptTokens, ReasoningAboveAll, SeveralChoices};
        let usage = |prompt_tokens, completion_tokens, reasoning_tokens| Usage {
            prompt_tokens: Some(prompt_tokens),
            completion_tokens: Some(completion_tokens),
            reasoning_tokens,
            cached_tokens: None,
            unreadable: false,
        };
        let two = |chunks| CountChecks {
            has_other_choices: true,
            ..checks(chunks)
        };
        for (usage, checks, faults, kept) in [
            (
                usage(3, 20, Some(20)),
                checks(20),
                vec![],
                [Some(3), Some(20), Some(20)],
            ),
            // Exactly half of the chunks, and a few tokens in two chunks.
            (
                usage(3, 10, None),
                checks(20),
                vec![FewerThanChunks],
                [Some(3), Some(10), None],
            ),
            (
                usage(3, 18, None),
                checks(20),
                vec![],
                [Some(3), Some(18), None],
            ),
            (
                usage(3, 20, Some(21)),
                checks(20),
                vec![ReasoningAboveAll],
                [Some(3), Some(20), None],
            ),
            (
                usage(3, 40, None),
                two(20),
                vec![SeveralChoices],
                [Some(3), None, None],
            ),
            (
                usage(0, 20, None),
                checks(20),
                vec![NoPromptTokens],
                [None, Some(20), None],
            ),
        ] {
            let found: Vec<CountFault> = CountFault::ALL
                .into_iter()
                .filter(|fault| usage.has_fault(*fault, checks))
                .collect();
            assert_eq!(found, faults, "{usage:?}");
            let plausible = usage.plausible(checks, None);
            assert_eq!(
                [
                    plausible.prompt_tokens,
                    plausible.completion_tokens,
                    plausible.reasoning_tokens
                ],
                kept,
                "{usage:?}"
            );
        }
    }

    #[test]
    fn implausible_token_counts_are_dropped() {
        let most = MAX_STATED_TOKENS;
        for (prompt, completion, chunks, limit, plausible) in [
            (Some(3), Some(5), 5, None, (Some(3), Some(5))),
            (Some(0), Some(0), 0, None, (Some(0), Some(0))),
            (None, None, 5, None, (None, None)),
            (Some(most), Some(most), 5, None, (Some(most), Some(most))),
            (Some(most + 1), Some(5), 5, None, (None, Some(5))),
            (Some(3), Some(1_000_000_000_000), 5, None, (Some(3), None)),
            (
                Some(u64::MAX),
                Some(u64::MAX),
                5,
                Some(u64::MAX),
                (None, None),
            ),
            (Some(3), Some(4), 5, None, (Some(3), Some(4))),
            (Some(3), Some(2), 5, None, (Some(3), None)),
            (Some(30), Some(16), 5, Some(16), (Some(30), Some(16))),
            (Some(30), Some(17), 5, Some(16), (Some(30), None)),
        ] {
            let usage = Usage {
                prompt_tokens: prompt,
                completion_tokens: completion,
                reasoning_tokens: None,
                cached_tokens: None,
                unreadable: false,
            };
            let kept = usage.plausible(checks(chunks), limit);
            assert_eq!(
                (kept.prompt_tokens, kept.completion_tokens),
                plausible,
                "{usage:?} {chunks}"
            );
        }
    }

    #[test]
    fn wrong_counts_are_stated_too() {
        let usage = |prompt_tokens, completion_tokens, unreadable| Usage {
            prompt_tokens,
            completion_tokens,
            reasoning_tokens: None,
            cached_tokens: None,
            unreadable,
        };
        for (usage, chunks, expected) in [
            (usage(Some(3), Some(u64::MAX), false), 1, [true, true]),
            (usage(Some(3), Some(0), false), 0, [true, false]),
            (usage(None, Some(0), false), 1, [false, true]),
            (usage(None, None, false), 1, [false, false]),
            (usage(Some(3), None, true), 1, [true, true]),
        ] {
            assert_eq!(usage.is_stated(chunks), expected, "{usage:?}");
        }
    }

    #[test]
    fn slack_applies_to_all_chunks_of_a_read() {
        let slack = spread_slack(&[(0, 4), (3, 7), (9, 1)], &[10, 10, 20, 30, 30, 30]);
        assert_eq!(slack, [4, 4, 0, 7, 7, 7]);
    }

    #[test]
    fn instants_must_be_in_order() {
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
    fn failure_messages_quote_the_server() {
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
                "HTTP 307, location: http://b/: redirects are not followed, set --base-url to that server",
            ),
            (
                Outcome::ServerError {
                    status: 307,
                    body: "moved".into(),
                    advice: Some(Advice::Location("http://b/".into())),
                },
                "HTTP 307, location: http://b/: redirects are not followed, set --base-url to that server; body: moved",
            ),
            (
                Outcome::ServerError {
                    status: 204,
                    body: "".into(),
                    advice: None,
                },
                "HTTP 204: (no body)",
            ),
            (
                Outcome::TimedOut {
                    limit_ms: 50,
                    limit: TimeLimit::Request,
                    stage: None,
                },
                "no end of the response within 50 ms (--request-timeout)",
            ),
            (
                Outcome::TimedOut {
                    limit_ms: 50,
                    limit: TimeLimit::Idle,
                    stage: Some(Stage::MidStream),
                },
                "no byte of the response for 50 ms (--idle-timeout), stalled mid-stream",
            ),
            (
                Outcome::Transport {
                    cause: TransportCause::Connect,
                    message: "refused".into(),
                },
                "no connection: refused",
            ),
        ] {
            assert_eq!(failure_message(&outcome), expected);
        }
    }
}
