//! The window against runs whose steady part is known.

use super::*;
use crate::metrics::testing::{Made, made, with_samples};
use sobench_core::observation::Outcome;

const MS: u64 = 1_000_000;

/// A request under way from one millisecond to another, with a token at each third of its time.
fn flight(sent: u64, end: u64) -> Made<'static> {
    let third = (end - sent) / 3;
    let chunks = vec![sent + third, sent + 2 * third, end - 1];
    Made {
        due: sent,
        sent: Some(sent),
        chunks,
        end: Some(end),
        input: Some(10),
        output: Some(6),
        ..made()
    }
}

fn steady(
    run: &[Made<'_>],
    duration_ms: u64,
    target: usize,
    threshold: f64,
) -> Option<SteadyState> {
    with_samples(run, |samples| {
        SteadyState::of(
            samples,
            duration_ms * MS,
            &MetricsOptions::default(),
            target,
            threshold,
        )
    })
}

/// Ten requests come one a second and stay for 30 s; one more comes and goes while all are there.
fn plateau() -> Vec<Made<'static>> {
    (0..10)
        .map(|at| flight(at * 1000, at * 1000 + 30_000))
        .chain([flight(15_000, 20_000)])
        .collect()
}

#[test]
fn the_window_is_from_the_first_to_the_last_moment_at_the_threshold() {
    for (threshold, threshold_abs, start_s, end_s) in [
        (1.0, 10, 9.0, 30.0),
        (0.95, 10, 9.0, 30.0),
        (0.5, 5, 4.0, 35.0),
    ] {
        let window = steady(&plateau(), 39_000, 10, threshold).unwrap().window;
        assert_eq!(
            (window.start_s, window.end_s),
            (start_s, end_s),
            "{threshold}"
        );
        assert_eq!(
            (
                window.threshold_abs,
                window.target_concurrency,
                window.observed_peak
            ),
            (threshold_abs, 10, 11)
        );
        assert_eq!(window.warning, None);
    }
}

#[test]
fn the_figures_are_of_the_window_alone() {
    let steady = steady(&plateau(), 39_000, 10, 1.0).unwrap();
    // Sent at 9 s and at 15 s; ended (before 30 s, which is outside) at 20 s.
    assert_eq!(
        (
            steady.window.requests_started_in_window,
            steady.window.requests_completed_in_window
        ),
        (2, 1)
    );
    assert_eq!(steady.window.requests_total, 11);
    assert_eq!((steady.ttft_ms.n, steady.tpot_ms.n), (2, 2));
    assert_eq!(steady.request_throughput, Some(1.0 / 21.0));
    assert_eq!(steady.input_throughput, Some(20.0 / 21.0));
    // Two tokens a chunk: of the first nine requests 2 or 3 chunks came in the window, of the last
    // two all that did.
    let chunks: usize = plateau()
        .iter()
        .flat_map(|it| &it.chunks)
        .filter(|at| (9_000..30_000).contains(*at))
        .count();
    assert_eq!(steady.output_throughput, Some(2.0 * chunks as f64 / 21.0));
    assert_eq!(
        steady.total_token_throughput,
        Some((20.0 + 2.0 * chunks as f64) / 21.0)
    );
}

#[test]
fn one_that_ends_as_another_begins_is_not_beside_it() {
    let run = [
        flight(0, 5000),
        flight(2000, 5000),
        flight(5000, 7000),
        flight(5000, 9000),
    ];
    let window = steady(&run, 9000, 2, 1.0).unwrap().window;
    assert_eq!(
        (window.observed_peak, window.start_s, window.end_s),
        (2, 2.0, 7.0)
    );
}

#[test]
fn a_request_that_fails_holds_its_slot_and_is_in_no_latency() {
    let failed = Made {
        outcome: Outcome::TimedOut {
            limit_ms: 1,
            limit: Default::default(),
            stage: None,
        },
        chunks: vec![],
        ..flight(0, 10_000)
    };
    let run = [
        flight(0, 10_000),
        failed,
        Made {
            sent: None,
            end: None,
            ..flight(0, 3000)
        },
    ];
    let steady = steady(&run, 10_000, 2, 1.0).unwrap();
    assert_eq!(
        (
            steady.window.duration_s,
            steady.window.requests_total,
            steady.ttft_ms.n
        ),
        (10.0, 2, 1)
    );
}

#[test]
fn a_cap_that_was_never_reached_has_no_steady_state() {
    assert_eq!(
        steady(&[flight(0, 1000), flight(2000, 3000)], 3000, 2, 0.95),
        None
    );
    assert_eq!(steady(&[], 0, 1, 0.95), None);
    assert_eq!(
        steady(
            &[Made {
                sent: None,
                ..flight(0, 1000)
            }],
            0,
            1,
            0.95
        ),
        None
    );
}

#[test]
fn a_short_window_says_so() {
    let warned = |end: u64| {
        steady(&[flight(0, end)], end * 20, 1, 1.0)
            .unwrap()
            .window
            .warning
    };
    assert!(
        warned(9000)
            .unwrap()
            .contains("9.0 s (5.0 % of the run), under 18 s")
    );
    assert!(
        steady(&[flight(0, 20_000)], 20_000, 1, 1.0)
            .unwrap()
            .window
            .warning
            .is_none()
    );
}

#[test]
fn what_is_not_known_is_nothing() {
    let steady = steady(
        &[Made {
            output: None,
            ..flight(0, 20_000)
        }],
        20_000,
        1,
        1.0,
    )
    .unwrap();
    assert_eq!(
        (steady.output_throughput, steady.total_token_throughput),
        (None, None)
    );
    assert_eq!(steady.input_throughput, Some(0.5));
}

#[test]
fn the_keys_are_those_of_vllm_bench() {
    let steady = steady(&plateau(), 39_000, 10, 1.0).unwrap();
    let value = serde_json::to_value(steady.vllm_keys()).unwrap();
    let keys: Vec<&str> = value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(
        keys.join(" "),
        "window request_throughput input_throughput output_throughput total_token_throughput mean_ttft_ms median_ttft_ms \
         percentiles_ttft_ms mean_tpot_ms median_tpot_ms p90_tpot_ms p99_tpot_ms"
    );
    let window: Vec<&str> = value["window"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(
        window.join(" "),
        "start_s end_s duration_s target_concurrency threshold threshold_abs observed_peak requests_started_in_window \
         requests_completed_in_window requests_total warning"
    );
    assert_eq!(value["percentiles_ttft_ms"][0][0].as_f64(), Some(99.0));
    assert!(value["p90_tpot_ms"].as_f64().is_some());
}
