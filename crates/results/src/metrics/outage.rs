//! Times in which nobody was there to answer: stretches of requests that ended, one after the
//! other, without an answer and for no reason of their own. Pure; knows no rendering.

use super::Sample;
use sobench_core::observation::{Outcome, Stage, TimeLimit, TransportCause};

/// So many requests in a row are no accident of a few.
pub const MIN_REQUESTS: usize = 3;

/// Statuses of what stands before a server that is not there (RFC 9110, sections 15.6.3 to 15.6.5).
const NOT_THERE: std::ops::RangeInclusive<u16> = 502..=504;

/// A time without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// The last sign of life before it; the begin where there was none.
    pub from_ns: u64,
    /// The first one after it; `None` where none came.
    pub to_ns: Option<u64>,
    /// Requests that ended in it without an answer.
    pub requests: usize,
}

/// The outages of a run in their order; none where nobody was there at all.
pub fn outages(samples: &[Sample<'_>]) -> Vec<Outage> {
    let mut ends: Vec<(u64, bool)> = samples.iter().filter_map(end).collect();
    ends.sort_unstable();
    let mut found = Vec::new();
    let mut open = Outage {
        from_ns: 0,
        to_ns: None,
        requests: 0,
    };
    let mut was_there = false;
    for (at_ns, is_there) in ends {
        if !is_there {
            open.requests += 1;
            continue;
        }
        was_there = true;
        if open.requests >= MIN_REQUESTS {
            found.push(Outage {
                to_ns: Some(at_ns),
                ..open
            });
        }
        open = Outage {
            from_ns: at_ns,
            to_ns: None,
            requests: 0,
        };
    }
    found.extend((open.requests >= MIN_REQUESTS && was_there).then_some(open));
    found
}

/// When a request ended that was sent, and whether somebody was there; `None` for what says nothing
/// of that.
fn end(sample: &Sample<'_>) -> Option<(u64, bool)> {
    let moments = sample.moments();
    moments.sent_ns?;
    let is_there = match sample.outcome() {
        Outcome::Completed
        | Outcome::Truncated
        | Outcome::Rejected { .. }
        | Outcome::StreamError { .. } => true,
        Outcome::ServerError { status, .. } => !NOT_THERE.contains(status),
        Outcome::Transport {
            cause: TransportCause::Connect | TransportCause::Reset | TransportCause::Closed,
            ..
        } => false,
        // An answer that was merely long had somebody behind it; one that fell silent had not, at
        // its end.
        Outcome::TimedOut { limit, stage, .. } => {
            *limit == TimeLimit::Request
                && matches!(
                    stage,
                    Some(Stage::BeforeFirstToken | Stage::MidStream | Stage::MidBody)
                )
        }
        Outcome::Transport { .. } | Outcome::Unsupported { .. } | Outcome::Cancelled => {
            return None;
        }
    };
    Some((moments.end_ns?, is_there))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::testing::{Made, made, with_samples};

    /// From, to and requests in milliseconds, for the ends of requests: when, and a letter for how.
    #[track_caller]
    fn check(ends: &[(u64, char)], expected: &[(u64, Option<u64>, usize)]) {
        let outcome = |letter| match letter {
            '.' => Outcome::Completed,
            'c' => Outcome::Transport {
                cause: TransportCause::Connect,
                message: String::new(),
            },
            'l' => Outcome::Transport {
                cause: TransportCause::Local,
                message: String::new(),
            },
            'r' => Outcome::Transport {
                cause: TransportCause::Reset,
                message: String::new(),
            },
            'p' => Outcome::ServerError {
                status: 502,
                body: String::new(),
                advice: None,
            },
            's' => Outcome::ServerError {
                status: 500,
                body: String::new(),
                advice: None,
            },
            'h' => Outcome::TimedOut {
                limit_ms: 1,
                limit: TimeLimit::Request,
                stage: Some(Stage::BeforeHeaders),
            },
            'm' => Outcome::TimedOut {
                limit_ms: 1,
                limit: TimeLimit::Request,
                stage: Some(Stage::MidStream),
            },
            'i' => Outcome::TimedOut {
                limit_ms: 1,
                limit: TimeLimit::Idle,
                stage: Some(Stage::MidStream),
            },
            'x' => Outcome::Cancelled,
            other => panic!("{other}"),
        };
        let made: Vec<Made<'_>> = ends
            .iter()
            .map(|(at, letter)| Made {
                outcome: outcome(*letter),
                chunks: vec![],
                answer: None,
                end: Some(*at),
                ..made()
            })
            .collect();
        with_samples(&made, |samples| {
            let ms = |ns: u64| ns / 1_000_000;
            let found: Vec<_> = outages(samples)
                .into_iter()
                .map(|it| (ms(it.from_ns), it.to_ns.map(ms), it.requests))
                .collect();
            assert_eq!(found, expected);
        });
    }

    #[test]
    fn stretches_without_an_answer_are_found_whatever_the_order() {
        check(
            &[(10, '.'), (20, 'c'), (30, 'r'), (40, 'p'), (50, '.')],
            &[(10, Some(50), 3)],
        );
        check(
            &[(50, '.'), (30, 'c'), (10, '.'), (40, 'c'), (20, 'c')],
            &[(10, Some(50), 3)],
        );
        check(
            &[(10, '.'), (20, 'c'), (30, 'c'), (40, 'c'), (45, 'x')],
            &[(10, None, 3)],
        );
        check(
            &[(20, 'c'), (30, 'c'), (40, 'c'), (45, '.')],
            &[(0, Some(45), 3)],
        );
        check(
            &[
                (10, '.'),
                (20, 'c'),
                (30, 'c'),
                (40, '.'),
                (50, 'c'),
                (60, 'c'),
            ],
            &[],
        );
        check(
            &[
                (10, '.'),
                (20, 'c'),
                (30, 's'),
                (40, 'c'),
                (50, 'l'),
                (60, 'c'),
                (70, '.'),
            ],
            &[],
        );
        check(
            &[(10, '.'), (20, 'h'), (30, 'i'), (40, 'h'), (50, '.')],
            &[(10, Some(50), 3)],
        );
        check(
            &[(10, '.'), (20, 'm'), (30, 'm'), (40, 'm'), (50, '.')],
            &[],
        );
        check(&[(20, 'c'), (30, 'c'), (40, 'c')], &[]);
        check(&[], &[]);
    }
}
