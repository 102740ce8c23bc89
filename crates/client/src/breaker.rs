//! Circuit breaker: counts failed requests and stops the run when an error limit is exceeded.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sobench_core::load::{ErrorLimits, MIN_FINISHED_REQUESTS};
use sobench_core::observation::{Outcome, failure_message};
use sobench_core::printable::printable;
use sobench_core::run_event::{ErrorLimit, ErrorLimitReached, MAX_ERROR_MESSAGE_CHARS};
use sobench_shutdown::Shutdown;

/// Distinct errors that are counted to find the commonest one; later ones are counted by outcome.
const MAX_KINDS: usize = 64;

/// Counts the outcomes of one run's requests and stops the run when a limit is exceeded.
pub struct Breaker {
    limits: ErrorLimits,
    shutdown: Shutdown,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    ended: usize,
    errors: usize,
    consecutive: ConsecutiveErrors,
    /// By the start of the message: the first full message, and the count.
    kinds: HashMap<String, (String, usize)>,
    has_tripped: bool,
}

/// Number of consecutive errors.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConsecutiveErrors(usize);

impl ConsecutiveErrors {
    /// Counts one outcome and returns the number of consecutive errors. Outcomes for which
    /// [`is_error`] is `None` change nothing.
    pub fn ended(&mut self, outcome: &Outcome) -> usize {
        match is_error(outcome) {
            Some(true) => self.0 += 1,
            Some(false) => self.0 = 0,
            None => {}
        }
        self.0
    }
}

/// Whether a request failed on the server or the network; a 4xx status is an error. `None` if the
/// request was cancelled, never sent, or failed for lack of a local resource.
pub fn is_error(outcome: &Outcome) -> Option<bool> {
    match outcome {
        _ if outcome.is_local() => None,
        Outcome::Completed | Outcome::Truncated | Outcome::Refused { .. } => Some(false),
        Outcome::Rejected { .. }
        | Outcome::ServerError { .. }
        | Outcome::StreamError { .. }
        | Outcome::Transport { .. }
        | Outcome::TimedOut { .. } => Some(true),
        Outcome::Unsupported { .. } | Outcome::Cancelled | Outcome::Abandoned => None,
    }
}

impl Breaker {
    /// A breaker that drains the run when one of the limits is exceeded.
    pub fn new(limits: ErrorLimits, shutdown: Shutdown) -> Self {
        Self {
            limits,
            shutdown,
            seen: Mutex::default(),
        }
    }

    /// Counts the end of a request. If a limit is exceeded, the run is stopped before this returns;
    /// returned once.
    pub fn ended(
        &self,
        index: usize,
        outcome: &Outcome,
        at: Duration,
    ) -> Option<ErrorLimitReached> {
        let is_error = is_error(outcome)?;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.count(outcome, is_error);
        let limit = seen.exceeded(self.limits).filter(|_| !seen.has_tripped)?;
        seen.has_tripped = true;
        if !self.shutdown.drain() {
            // A shutdown was requested before.
            return None;
        }
        // Ties are broken by the message, so that the result is deterministic.
        let most_frequent = seen
            .kinds
            .iter()
            .max_by_key(|&(kind, (_, count))| (*count, std::cmp::Reverse(kind)));
        let most_frequent = most_frequent.map(|(_, first)| first.clone());
        Some(ErrorLimitReached {
            limit,
            index,
            at,
            ended: seen.ended,
            errors: seen.errors,
            most_frequent,
        })
    }
}

impl Seen {
    fn exceeded(&self, limits: ErrorLimits) -> Option<ErrorLimit> {
        let consecutive = limits
            .max_consecutive_errors
            .filter(|most| self.consecutive.0 >= *most)
            .map(ErrorLimit::Consecutive);
        let share = self.errors as f64 / self.ended as f64;
        consecutive.or_else(|| {
            limits
                .max_error_rate
                .filter(|most| self.ended >= MIN_FINISHED_REQUESTS && share > *most)
                .map(ErrorLimit::Rate)
        })
    }

    fn count(&mut self, outcome: &Outcome, is_error: bool) {
        self.ended += 1;
        self.consecutive.ended(outcome);
        if !is_error {
            return;
        }
        self.errors += 1;
        let words = format!("{}: {}", outcome.name(), failure_message(outcome));
        let kind = printable(&words, MAX_ERROR_MESSAGE_CHARS);
        let is_room = self.kinds.len() < MAX_KINDS || self.kinds.contains_key(&kind);
        let (kind, words) = if is_room {
            (kind, words)
        } else {
            (outcome.name().to_owned(), outcome.name().to_owned())
        };
        self.kinds.entry(kind).or_insert((words, 0)).1 += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_core::observation::TransportCause;
    use sobench_shutdown::Stage;

    fn outcome(letter: char) -> Outcome {
        let body = || "no".to_owned();
        match letter {
            '.' => Outcome::Completed,
            't' => Outcome::Truncated,
            'r' => Outcome::Rejected {
                status: 400,
                body: body(),
                advice: None,
            },
            's' => Outcome::ServerError {
                status: 503,
                body: body(),
                advice: None,
            },
            'e' => Outcome::StreamError { message: body() },
            'c' => Outcome::Transport {
                cause: TransportCause::Connect,
                message: body(),
            },
            'x' => Outcome::Cancelled,
            'l' => Outcome::Transport {
                cause: TransportCause::Local,
                message: body(),
            },
            'u' => Outcome::Unsupported { what: body() },
            other => panic!("{other}"),
        }
    }

    /// The index at which the breaker trips, with its message; one letter for each outcome.
    #[track_caller]
    fn check(
        max_error_rate: Option<f64>,
        max_consecutive_errors: Option<usize>,
        ends: &str,
        expected: Option<(usize, &str)>,
    ) {
        let shutdown = Shutdown::new();
        let breaker = Breaker::new(
            ErrorLimits {
                max_error_rate,
                max_consecutive_errors,
            },
            shutdown.clone(),
        );
        let ended = |(index, letter)| {
            breaker.ended(
                index,
                &outcome(letter),
                Duration::from_millis(100 * index as u64),
            )
        };
        let fired: Vec<ErrorLimitReached> = ends.chars().enumerate().filter_map(ended).collect();
        let message: Vec<_> = fired
            .iter()
            .map(|tripped| (tripped.index, tripped.message("c")))
            .collect();
        let expected: Vec<_> = expected
            .into_iter()
            .map(|(index, words)| (index, words.to_owned()))
            .collect();
        assert_eq!(message, expected);
        assert_eq!(
            shutdown.stage(),
            if fired.is_empty() {
                Stage::Running
            } else {
                Stage::Draining
            }
        );
    }

    #[test]
    fn a_run_that_is_shutting_down_does_not_trip() {
        let shutdown = Shutdown::new();
        let breaker = Breaker::new(
            ErrorLimits {
                max_error_rate: None,
                max_consecutive_errors: Some(1),
            },
            shutdown.clone(),
        );
        shutdown.request();
        assert_eq!(breaker.ended(0, &outcome('c'), Duration::ZERO), None);
        assert_eq!(shutdown.stage(), Stage::Draining);
    }

    #[test]
    fn consecutive_errors_trip_the_breaker() {
        let message = "--max-consecutive-errors 3 stopped the run at request 6 (c), 0.6 s after the start: 3 consecutive errors; \
                    4 errors in 6 finished requests; most frequent error (2 times): server_error: HTTP 503: no";
        check(None, Some(3), ".s.cxsrcc", Some((6, message)));
        check(None, Some(3), "cc.cc.ccxtcc", None);
        check(None, Some(3), "llllcc", None);
        check(None, Some(1), "xu..t", None);
        check(None, None, &"c".repeat(500), None);
        let first = "--max-consecutive-errors 1 stopped the run at request 0 (c), 0.0 s after the start: 1 error; \
                     1 error in 1 finished request; most frequent error (1 time): transport: no connection: no";
        check(None, Some(1), "c", Some((0, first)));
    }

    #[test]
    fn error_rates_trip_the_breaker() {
        let message = "--max-error-rate 0.1 stopped the run at request 19 (c), 1.9 s after the start: 15.0 % errors; \
                    3 errors in 20 finished requests; most frequent error (3 times): stream_error: no";
        check(Some(0.1), None, "eee.................", Some((19, message)));
        check(Some(0.15), None, "eee.................", None);
        check(Some(0.0), None, &".".repeat(100), None);
        check(
            Some(0.5),
            None,
            &"c".repeat(MIN_FINISHED_REQUESTS - 1),
            None,
        );
        let late = "--max-error-rate 0 stopped the run at request 25 (c), 2.5 s after the start: 3.8 % errors; \
                    1 error in 26 finished requests; most frequent error (1 time): rejected: HTTP 400: no";
        check(
            Some(0.0),
            None,
            &format!("{}r..", ".".repeat(25)),
            Some((25, late)),
        );
    }

    #[test]
    fn kinds_are_bounded() {
        let mut seen = Seen::default();
        for number in 0..1000 {
            seen.count(
                &Outcome::Rejected {
                    status: 400,
                    body: number.to_string(),
                    advice: None,
                },
                true,
            );
        }
        assert_eq!(
            (seen.kinds.len(), seen.kinds["rejected"].1),
            (MAX_KINDS + 1, 1000 - MAX_KINDS)
        );
    }

    #[test]
    fn secrets_are_redacted_before_messages_are_cut() {
        let breaker = Breaker::new(
            ErrorLimits {
                max_error_rate: None,
                max_consecutive_errors: Some(1),
            },
            Shutdown::new(),
        );
        let key = "sk-0123456789";
        let body = format!(
            "{}{key} is no key",
            " ".repeat(3) + &"x".repeat(MAX_ERROR_MESSAGE_CHARS - 30)
        );
        let tripped = breaker
            .ended(
                0,
                &Outcome::Rejected {
                    status: 401,
                    body,
                    advice: None,
                },
                Duration::ZERO,
            )
            .unwrap();
        sobench_core::secrets::register(key);
        let message = tripped.message("c");
        assert!(
            message.contains("x***") && !message.contains("sk-"),
            "{message}"
        );
    }
}
