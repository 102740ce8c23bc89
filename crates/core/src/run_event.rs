//! The events of a run, from the driver to the run log and the terminal.

use std::time::{Duration, SystemTime};

use crate::observation::Observation;
use crate::printable::printable;
use crate::shard::ClockOffset;

/// How much of a server's words tells one error from another, and is shown.
pub const MAX_WORDS_CHARS: usize = 160;

/// An event of a run.
#[derive(Debug)]
pub enum RunEvent {
    /// Always the first: the instant from which due times count, by the wall clock, and the clock's
    /// offset from shard 1's, if measured.
    Started {
        at: SystemTime,
        clock: Option<ClockOffset>,
    },
    /// A request is handed to the HTTP client.
    Sent { index: usize },
    /// The run stops itself: too many errors. Comes before the end of the request that was one too
    /// many.
    Tripped(Box<Tripped>),
    /// A case has ended, sent or not. Each case ends once; cases end in any order.
    Ended(Box<Observation>),
}

/// Which limit was passed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PassedLimit {
    Rate(f64),
    InARow(usize),
}

/// Why a run stopped itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Tripped {
    pub limit: PassedLimit,
    /// The request whose end it was.
    pub index: usize,
    /// From the begin.
    pub at: Duration,
    /// Requests that had ended, this one included.
    pub ended: usize,
    /// Errors among them.
    pub errors: usize,
    /// The commonest of the errors, in the words of the first of them and uncut, and how often it
    /// was met.
    pub commonest: Option<(String, usize)>,
}

impl Tripped {
    /// What is said of it; `case` is the request's own name. What must not be shown is taken out of
    /// a server's words by `redacted`, before they are cut: half a key is known to nobody any more.
    pub fn sentence(&self, case: &str, redacted: impl Fn(&str) -> String) -> String {
        let Self {
            limit,
            index,
            at,
            ended,
            errors,
            commonest,
        } = self;
        let (flag, most, why) = match limit {
            PassedLimit::Rate(most) => {
                let percent = 100.0 * *errors as f64 / *ended as f64;
                (
                    "--max-error-rate",
                    most.to_string(),
                    format!("{percent:.1} % errors"),
                )
            }
            PassedLimit::InARow(most) => {
                let why = if *most == 1 {
                    "an error".to_owned()
                } else {
                    format!("{most} errors one after the other")
                };
                ("--max-consecutive-errors", most.to_string(), why)
            }
        };
        let why = format!(
            "{flag} {most} stopped the run at request {index} ({case}), {:.1} s after its begin: {why}, {errors} in all of {ended} \
             {} that had ended",
            at.as_secs_f64(),
            if *ended == 1 { "request" } else { "requests" }
        );
        match commonest {
            Some((words, count)) => {
                let times = if *count == 1 { "time" } else { "times" };
                format!(
                    "{why}; {count} {times} {}",
                    printable(&redacted(words), MAX_WORDS_CHARS)
                )
            }
            None => why,
        }
    }
}
