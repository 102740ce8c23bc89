//! First and later uses in runs with known costs.

use super::*;
use sobench_core::observation::Outcome;
use sobench_facts::testing::{TestRequest, test_request, with_cases, with_samples};

/// A request with send time and TTFT in milliseconds, and a chunk every 10 ms.
fn sent(at: u64, ttft: u64) -> TestRequest<'static> {
    let first = at + ttft;
    TestRequest {
        due: at,
        sent: Some(at),
        chunks: vec![first, first + 10, first + 20],
        end: Some(first + 21),
        ..test_request()
    }
}

/// The samples of a run in which each request has the named constraint.
fn with_constraints<T>(
    run: &[(TestRequest<'_>, &str)],
    check: impl FnOnce(&[Sample<'_>]) -> T,
) -> T {
    let made: Vec<TestRequest<'_>> = run.iter().map(|(made, _)| made.clone()).collect();
    with_cases(
        &made,
        |index, case| case.constraint = Some(Arc::new(Constraint::Regex(run[index].1.into()))),
        check,
    )
}

fn first_uses(run: &[(TestRequest<'_>, &str)], known: &[&str]) -> FirstUses {
    let known = known
        .iter()
        .map(|name| Constraint::Regex((*name).into()).fingerprint())
        .collect();
    with_constraints(run, |samples| {
        FirstUses::new(samples, &MetricsSettings::default(), &known, 0)
    })
    .unwrap()
}

#[test]
fn first_uses_are_compared_with_later_ones_of_the_same_constraint() {
    let run = [
        (sent(0, 100), "a"),
        (sent(5, 95), "a"), // waits for the same compilation
        (sent(200, 20), "a"),
        (sent(300, 22), "a"),
        (sent(310, 150), "b"),
        (sent(900, 31), "b"),
        (sent(990, 40), "c"),
    ];
    let uses = first_uses(&run, &[]);
    assert_eq!(
        (
            uses.constraints,
            uses.known_before,
            uses.cold,
            uses.beside_first,
            uses.warm
        ),
        (3, 0, 3, 1, 3)
    );
    assert_eq!(
        (uses.cold_ttft_ms.mean, uses.warm_ttft_ms.max),
        (Some(290.0 / 3.0), Some(31.0))
    );
    let paired = uses.paired_difference_ms.unwrap();
    assert_eq!(
        (paired.n, paired.difference),
        (2, f64::midpoint(100.0 - 21.0, 150.0 - 31.0))
    );
    assert_eq!(
        (paired.low, paired.high),
        (None, None),
        "two pairs have no interval"
    );
    assert!((uses.difference_ms.unwrap().difference - (290.0 / 3.0 - 73.0 / 3.0)).abs() < 1e-9);
}

#[test]
fn known_constraint_is_warm_from_the_start() {
    let run = [(sent(0, 20), "a"), (sent(1, 21), "a"), (sent(2, 90), "b")];
    let uses = first_uses(&run, &["a"]);
    assert_eq!(
        (uses.known_before, uses.cold, uses.beside_first, uses.warm),
        (1, 1, 0, 2)
    );
    assert_eq!(uses.paired_difference_ms, None);
    assert_eq!(uses.difference_ms.unwrap().difference, 90.0 - 20.5);
}

#[test]
fn failed_first_use_hides_later_uses() {
    let failed = TestRequest {
        outcome: Outcome::TimedOut {
            limit_ms: 1,
            limit: Default::default(),
            stage: None,
        },
        chunks: vec![],
        ..sent(0, 20)
    };
    let uses = first_uses(&[(failed, "a"), (sent(50, 20), "a")], &[]);
    assert_eq!((uses.cold, uses.warm, uses.difference_ms), (0, 0, None));
}

#[test]
fn only_sent_constrained_requests_count() {
    let control = TestRequest {
        arm: Arm::Control,
        ..sent(0, 20)
    };
    let unsent = TestRequest {
        sent: None,
        chunks: vec![],
        end: None,
        outcome: Outcome::Cancelled,
        ..test_request()
    };
    let none = with_samples(&[control, unsent], |samples| {
        FirstUses::new(samples, &MetricsSettings::default(), &HashSet::new(), 0)
    });
    assert_eq!(none, None);
}
