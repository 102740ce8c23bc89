//! When a run gives up on a server: the circuit breaker, which counts how requests end and says
//! when that is enough. Knows no socket and no clock.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sobench_core::load::{ErrorLimits, MIN_ENDED};
use sobench_core::observation::{Outcome, failure_words};
use sobench_core::printable::printable;
use sobench_core::run_event::{MAX_WORDS_CHARS, PassedLimit, Tripped};
use sobench_shutdown::Shutdown;

/// Kinds of errors that are told apart when the commonest is looked for; what comes later counts by
/// its outcome alone.
const MAX_KINDS: usize = 64;

/// Counts the ends of one run's requests, and stops the run when it is enough.
pub struct Breaker {
    limits: ErrorLimits,
    shutdown: Shutdown,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    ended: usize,
    errors: usize,
    in_a_row: InARow,
    /// By the beginning of their words: the words of the first, and how many.
    kinds: HashMap<String, (String, usize)>,
    has_tripped: bool,
}

/// Errors that came one after the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct InARow(usize);

impl InARow {
    /// Counts the end of a request, and tells how many errors it is by now. What says nothing of
    /// the server changes nothing.
    pub fn ended(&mut self, outcome: &Outcome) -> usize {
        match is_error(outcome) {
            Some(true) => self.0 += 1,
            Some(false) => self.0 = 0,
            None => {}
        }
        self.0
    }
}

/// Whether a request ended in an error, the server's or of the way there: a refusal (4xx) is one
/// too. `None` for what says nothing of that: what was cut off or never sent, or not for want of a
/// connection on this machine.
pub fn is_error(outcome: &Outcome) -> Option<bool> {
    match outcome {
        _ if outcome.is_local() => None,
        Outcome::Completed | Outcome::Truncated => Some(false),
        Outcome::Rejected { .. }
        | Outcome::ServerError { .. }
        | Outcome::StreamError { .. }
        | Outcome::Transport { .. }
        | Outcome::TimedOut { .. } => Some(true),
        Outcome::Unsupported { .. } | Outcome::Cancelled => None,
    }
}

impl Breaker {
    /// Drains the run when one of the limits is passed.
    pub fn new(limits: ErrorLimits, shutdown: Shutdown) -> Self {
        Self {
            limits,
            shutdown,
            seen: Mutex::default(),
        }
    }

    /// A request ended. When the limit is passed, the run is stopped before this returns; told
    /// once.
    pub fn ended(&self, index: usize, outcome: &Outcome, at: Duration) -> Option<Tripped> {
        let is_error = is_error(outcome)?;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.count(outcome, is_error);
        let limit = seen.passed(self.limits).filter(|_| !seen.has_tripped)?;
        seen.has_tripped = true;
        if !self.shutdown.drain() {
            // It was asked to end before.
            return None;
        }
        // Of several that are equally common, always the same one.
        let commonest = seen
            .kinds
            .iter()
            .max_by_key(|&(kind, (_, count))| (*count, std::cmp::Reverse(kind)));
        let commonest = commonest.map(|(_, first)| first.clone());
        Some(Tripped {
            limit,
            index,
            at,
            ended: seen.ended,
            errors: seen.errors,
            commonest,
        })
    }
}

impl Seen {
    fn passed(&self, limits: ErrorLimits) -> Option<PassedLimit> {
        let in_a_row = limits
            .max_consecutive_errors
            .filter(|most| self.in_a_row.0 >= *most)
            .map(PassedLimit::InARow);
        let share = self.errors as f64 / self.ended as f64;
        let rate = || {
            limits
                .max_error_rate
                .filter(|most| self.ended >= MIN_ENDED && share > *most)
                .map(PassedLimit::Rate)
        };
        in_a_row.or_else(rate)
    }

    fn count(&mut self, outcome: &Outcome, is_error: bool) {
        self.ended += 1;
        self.in_a_row.ended(outcome);
        if !is_error {
            return;
        }
        self.errors += 1;
        let words = format!("{}: {}", outcome.name(), failure_words(outcome));
        let kind = printable(&words, MAX_WORDS_CHARS);
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

    /// The place at which it fires, with all that it says; for the ends of requests, a letter each.
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
        let fired: Vec<Tripped> = ends.chars().enumerate().filter_map(ended).collect();
        let said: Vec<_> = fired
            .iter()
            .map(|it| (it.index, it.sentence("c", str::to_owned)))
            .collect();
        let expected: Vec<_> = expected
            .into_iter()
            .map(|(index, words)| (index, words.to_owned()))
            .collect();
        assert_eq!(said, expected);
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
    fn a_run_that_was_asked_to_end_does_not_trip() {
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
    fn errors_in_a_row() {
        let said = "--max-consecutive-errors 3 stopped the run at request 6 (c), 0.6 s after its begin: 3 errors one after the other, 4 in \
                    all of 6 requests that had ended; 2 times server_error: HTTP 503: no";
        check(None, Some(3), ".s.cxsrcc", Some((6, said)));
        check(None, Some(3), "cc.cc.ccxtcc", None);
        check(None, Some(3), "llllcc", None);
        check(None, Some(1), "xu..t", None);
        check(None, None, &"c".repeat(500), None);
        let first = "--max-consecutive-errors 1 stopped the run at request 0 (c), 0.0 s after its begin: an error, 1 in all of 1 request \
                     that had ended; 1 time transport: no connection: no";
        check(None, Some(1), "c", Some((0, first)));
    }

    #[test]
    fn shares_of_errors() {
        let said = "--max-error-rate 0.1 stopped the run at request 19 (c), 1.9 s after its begin: 15.0 % errors, 3 in all of 20 requests \
                    that had ended; 3 times stream_error: no";
        check(Some(0.1), None, "eee.................", Some((19, said)));
        check(Some(0.15), None, "eee.................", None);
        check(Some(0.0), None, &".".repeat(100), None);
        check(Some(0.5), None, &"c".repeat(MIN_ENDED - 1), None);
        let late = "--max-error-rate 0 stopped the run at request 25 (c), 2.5 s after its begin: 3.8 % errors, 1 in all of 26 requests \
                    that had ended; 1 time rejected: HTTP 400: no";
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
    fn secrets_are_taken_out_before_words_are_cut() {
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
            " ".repeat(3) + &"x".repeat(MAX_WORDS_CHARS - 30)
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
        let said = tripped.sentence("c", |words| words.replace(key, "***"));
        assert!(said.contains("x***") && !said.contains("sk-"), "{said}");
    }
}
