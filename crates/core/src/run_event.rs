//! Events of a run, sent from the client to the run log and the terminal.

use std::time::{Duration, SystemTime};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::observation::Observation;
use crate::printable::printable;
use crate::server_sample::ServerSample;
use crate::shard::ClockOffset;

/// How many characters of a server's error message are shown and used to group equal errors.
pub const MAX_ERROR_MESSAGE_CHARS: usize = 160;

/// An event of a run.
#[derive(Debug)]
pub enum RunEvent {
    /// Always first: the wall-clock instant from which due times count, and the clock's offset from
    /// shard 1's, if measured.
    Started {
        at: SystemTime,
        clock: Option<ClockOffset>,
    },
    /// A request is passed to the HTTP client.
    Sent { index: usize },
    /// The run stops because of too many errors. Precedes the end of the request that passed the
    /// limit.
    ErrorLimitReached(Box<ErrorLimitReached>),
    /// A case has ended, sent or not. Each case ends once, in any order.
    Ended(Box<Observation>),
    /// A case that was sent again after the run has ended.
    Repeated(Box<Repeat>),
    /// The server's metrics page was read at this instant, possibly before the run. The offset of
    /// the sample is not set yet.
    ServerSampled {
        at: SystemTime,
        sample: Box<ServerSample>,
    },
}

/// A case that was sent again after the measured requests, to compare its answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Repeat {
    pub form: AnswerForm,
    /// Its `case_index` is that of the measured request.
    pub observation: Observation,
}

/// The requested form of an answer.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum AnswerForm {
    Streamed,
    Whole,
}

impl AnswerForm {
    /// The form of a request that asks for a stream, or does not.
    pub fn new(is_streamed: bool) -> Self {
        if is_streamed {
            Self::Streamed
        } else {
            Self::Whole
        }
    }
}

/// The error limit that stopped a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ErrorLimit {
    Rate(f64),
    Consecutive(usize),
}

/// The reason why a run stopped at an error limit.
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorLimitReached {
    pub limit: ErrorLimit,
    /// The request that passed the limit.
    pub index: usize,
    /// Since the start of the run.
    pub at: Duration,
    /// Requests that had ended, this one included.
    pub ended: usize,
    /// Errors among them.
    pub errors: usize,
    /// The most frequent error (the complete message of its first occurrence) and its count.
    pub most_frequent: Option<(String, usize)>,
}

impl ErrorLimitReached {
    /// The message for the user; `case` is the ID of the request.
    pub fn message(&self, case: &str) -> String {
        let Self {
            limit,
            index,
            at,
            ended,
            errors,
            most_frequent,
        } = self;
        let (flag, most, why) = match limit {
            ErrorLimit::Rate(most) => {
                let percent = 100.0 * *errors as f64 / *ended as f64;
                (
                    "--max-error-rate",
                    most.to_string(),
                    format!("{percent:.1} % errors"),
                )
            }
            ErrorLimit::Consecutive(most) => {
                let why = if *most == 1 {
                    "1 error".to_owned()
                } else {
                    format!("{most} consecutive errors")
                };
                ("--max-consecutive-errors", most.to_string(), why)
            }
        };
        let why = format!(
            "{flag} {most} stopped the run at request {index} ({case}), {:.1} s after the start: {why}; {errors} {} in {ended} \
             finished {}",
            at.as_secs_f64(),
            if *errors == 1 { "error" } else { "errors" },
            if *ended == 1 { "request" } else { "requests" }
        );
        match most_frequent {
            Some((message, count)) => {
                let times = if *count == 1 { "time" } else { "times" };
                format!(
                    "{why}; most frequent error ({count} {times}): {}",
                    printable(message, MAX_ERROR_MESSAGE_CHARS)
                )
            }
            None => why,
        }
    }
}
