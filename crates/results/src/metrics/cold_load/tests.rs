//! Runs with a known effect of new schemas.

use super::*;
use sobench_core::case::Case;
use sobench_facts::testing::{TestRequest, test_request, with_cases};
use sobench_pycompat::random::NumpyRandom;

/// A request with send time, TTFT and gaps in milliseconds.
fn sent(at: u64, ttft: u64, gaps: &[u64]) -> TestRequest<'static> {
    let mut chunks = vec![at + ttft];
    chunks.extend(gaps.iter().scan(at + ttft, |last, gap| {
        *last += gap;
        Some(*last)
    }));
    let end = chunks.last().map(|last| last + 1);
    TestRequest {
        due: at,
        sent: Some(at),
        chunks,
        end,
        ..test_request()
    }
}

fn compared(run: &[(TestRequest<'_>, bool)], seed: u64) -> ColdLoad {
    let made: Vec<TestRequest<'_>> = run.iter().map(|(made, _)| made.clone()).collect();
    let tag =
        |index: usize, case: &mut Case| case.tags.extend(run[index].1.then(|| COLD_TAG.to_owned()));
    with_cases(&made, tag, |samples| {
        ColdLoad::new(samples, &MetricsSettings::default(), 10, seed)
    })
}

#[test]
fn latencies_are_assigned_to_the_preceding_request() {
    let run = [
        (sent(0, 30, &[10, 10]), false), // nothing was sent before it; its gaps start at 30 and 40, after nothing recent
        (sent(100, 40, &[]), true),      // the window is 40 ms
        (sent(139, 25, &[10]), false), // beside the new one; its gap starts at 164, beside nothing but itself
        (sent(95, 20, &[50, 10]), false), // starts before it; gaps at 115 (beside the new one) and 165 (beside the one of 139)
        (sent(170, 30, &[]), false),      // beside the one of 139
        (sent(500, 30, &[]), false),      // beside nothing
    ];
    let load = compared(&run, 0);
    assert_eq!(
        (load.every, load.requests, load.window_ms),
        (10, 1, Some(40.0))
    );
    assert_eq!(
        (load.ttft.beside_new_ms.n, load.ttft.beside_new_ms.mean),
        (1, Some(25.0))
    );
    assert_eq!(
        (load.ttft.beside_known_ms.n, load.ttft.beside_known_ms.mean),
        (1, Some(30.0))
    );
    assert_eq!(
        (load.itl.beside_new_ms.n, load.itl.beside_new_ms.max),
        (1, Some(50.0))
    );
    assert_eq!(
        (load.itl.beside_known_ms.n, load.itl.beside_known_ms.max),
        (1, Some(10.0))
    );
    let difference = load.itl.difference_ms.unwrap();
    assert_eq!(
        (
            difference.n,
            difference.m,
            difference.difference,
            difference.low
        ),
        (1, 1, 40.0, None)
    );
}

#[test]
fn without_new_answers_there_is_no_comparison() {
    let load = compared(
        &[(sent(0, 30, &[10]), false), (sent(1, 30, &[10]), false)],
        0,
    );
    assert_eq!(
        (
            load.requests,
            load.window_ms,
            load.ttft.difference_ms,
            load.itl.beside_known_ms.n
        ),
        (0, None, None, 0)
    );
}

/// Simulates a server with steps of 10 ms. A request joins at the next step and gets its first
/// token at the end of that step. Every tenth request has a new schema, which takes `compile_steps`
/// more steps and makes every step in that time longer by `harm_ms`.
fn in_steps(seed: u32, compile_steps: u64, harm_ms: u64) -> Vec<(TestRequest<'static>, bool)> {
    let mut random = NumpyRandom::new(seed);
    let mut at_ms = 0.0;
    let arrivals: Vec<u64> = (0..700)
        .map(|_| {
            at_ms += random.gamma(1.0, 50.0);
            at_ms as u64
        })
        .collect();
    // The end of each step, depending on compilations during it.
    let is_new = |index: usize| index % 10 == 9;
    let mut ends = vec![10_u64];
    while *ends.last().unwrap() < at_ms as u64 + 1000 {
        let start = *ends.last().unwrap();
        let compiles = arrivals
            .iter()
            .enumerate()
            .any(|(index, at)| is_new(index) && *at < start && start <= at + 10 * compile_steps);
        ends.push(start + 10 + if compiles { harm_ms } else { 0 });
    }
    let request = |(index, at): (usize, &u64)| {
        let joins = ends.partition_point(|end| end <= at)
            + if is_new(index) {
                compile_steps as usize
            } else {
                0
            };
        let chunks = &ends[joins + 1..joins + 16];
        let gaps: Vec<u64> = chunks.windows(2).map(|pair| pair[1] - pair[0]).collect();
        (sent(*at, chunks[0] - at, &gaps), is_new(index))
    };
    arrivals.iter().enumerate().map(request).collect()
}

/// Number of thirty runs whose interval excludes zero, for TTFT and ITL.
fn found(compile_steps: u64, harm_ms: u64) -> [usize; 2] {
    let excludes_zero = |beside: &BesideLatencies| {
        let difference = beside.difference_ms.unwrap();
        usize::from(
            difference.low.is_some_and(|low| low > 0.0)
                || difference.high.is_some_and(|high| high < 0.0),
        )
    };
    (0..30).fold([0, 0], |[ttft, itl], seed| {
        let load = compared(&in_steps(seed, compile_steps, harm_ms), u64::from(seed));
        [
            ttft + excludes_zero(&load.ttft),
            itl + excludes_zero(&load.itl),
        ]
    })
}

#[test]
fn placebo_has_no_effect() {
    // Of 30 intervals of 95 %, one or two may miss; five have a probability of 1.6 %.
    let [ttft, itl] = found(0, 0);
    assert!(
        ttft < 5 && itl < 5,
        "{ttft} and {itl} of 30 placebo runs show an effect"
    );
}

#[test]
fn slower_steps_are_detected() {
    let [ttft, itl] = found(3, 5);
    assert!(
        ttft > 25 && itl > 25,
        "only {ttft} and {itl} of 30 runs show the effect"
    );
}
