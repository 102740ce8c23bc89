//! Server outages: runs of requests that failed because the server was unavailable.

use sobench_core::observation::{Outcome, Stage, TimeLimit, TransportCause};
use sobench_facts::Sample;

/// Minimum number of consecutive failures of an outage.
pub const MIN_REQUESTS: usize = 3;

/// Statuses of a proxy whose server is unavailable (RFC 9110, sections 15.6.3 to 15.6.5).
const UNAVAILABLE: std::ops::RangeInclusive<u16> = 502..=504;

/// One server outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// The last response before the outage, or the start of the run.
    pub from_ns: u64,
    /// The first response after the outage; `None` if it lasted to the end.
    pub to_ns: Option<u64>,
    /// Number of requests that ended without a response during the outage.
    pub requests: usize,
}

/// The outages of a run in order; empty if the server never responded.
pub fn outages(samples: &[Sample<'_>]) -> Vec<Outage> {
    let ends = || samples.iter().filter_map(end);
    if ends().all(|(_, is_available)| is_available) {
        return Vec::new();
    }
    let mut ends: Vec<(u64, bool)> = ends().collect();
    ends.sort_unstable();
    let mut found = Vec::new();
    let mut open = Outage {
        from_ns: 0,
        to_ns: None,
        requests: 0,
    };
    let mut was_available = false;
    for (at_ns, is_available) in ends {
        if !is_available {
            open.requests += 1;
            continue;
        }
        was_available = true;
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
    found.extend((open.requests >= MIN_REQUESTS && was_available).then_some(open));
    found
}

/// The end of a sent request, and whether the server was available; `None` if its outcome does not
/// show that.
fn end(sample: &Sample<'_>) -> Option<(u64, bool)> {
    let moments = sample.request_times();
    moments.sent_ns?;
    let is_available = match sample.outcome() {
        Outcome::Completed
        | Outcome::Truncated
        | Outcome::Rejected { .. }
        | Outcome::Refused { .. }
        | Outcome::StreamError { .. } => true,
        Outcome::ServerError { status, .. } => !UNAVAILABLE.contains(status),
        Outcome::Transport {
            cause: TransportCause::Connect | TransportCause::Reset | TransportCause::Closed,
            ..
        } => false,
        // A request timeout during an answer means that the server is slow. An idle timeout means
        // that it is unavailable.
        Outcome::TimedOut { limit, stage, .. } => {
            *limit == TimeLimit::Request
                && matches!(
                    stage,
                    Some(Stage::BeforeFirstToken | Stage::MidStream | Stage::MidBody)
                )
        }
        Outcome::Abandoned if moments.first_content_ns.is_some() => true,
        Outcome::Transport { .. }
        | Outcome::Unsupported { .. }
        | Outcome::Cancelled
        | Outcome::Abandoned => {
            return None;
        }
    };
    Some((moments.end_ns?, is_available))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_facts::testing::{TestRequest, test_request, with_samples};

    /// Checks outages as (from, to, requests) in milliseconds, for ends of requests as (time,
    /// outcome).
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
        let made: Vec<TestRequest<'_>> = ends
            .iter()
            .map(|(at, letter)| TestRequest {
                outcome: outcome(*letter),
                chunks: vec![],
                answer: None,
                end: Some(*at),
                ..test_request()
            })
            .collect();
        with_samples(&made, |samples| {
            let ms = |ns: u64| ns / 1_000_000;
            let found: Vec<_> = outages(samples)
                .into_iter()
                .map(|outage| (ms(outage.from_ns), outage.to_ns.map(ms), outage.requests))
                .collect();
            assert_eq!(found, expected);
        });
    }

    #[test]
    fn outages_are_found_in_any_order() {
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
