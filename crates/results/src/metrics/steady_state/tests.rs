//! Steady-state windows of runs with a known steady part.

use super::*;
use sobench_core::observation::Outcome;
use sobench_facts::testing::{TestRequest, test_request, with_samples};

const MS: u64 = 1_000_000;

/// A request in flight between two times in milliseconds, with a token at each third of the time.
fn flight(sent: u64, end: u64) -> TestRequest<'static> {
    let third = (end - sent) / 3;
    let chunks = vec![sent + third, sent + 2 * third, end - 1];
    TestRequest {
        due: sent,
        sent: Some(sent),
        chunks,
        end: Some(end),
        input: Some(10),
        output: Some(6),
        ..test_request()
    }
}

fn steady(
    run: &[TestRequest<'_>],
    duration_ms: u64,
    target: usize,
    threshold: f64,
) -> Option<SteadyState> {
    with_samples(run, |samples| {
        SteadyState::new(
            samples,
            duration_ms * MS,
            &MetricsSettings::default(),
            target,
            threshold,
        )
    })
}

/// Ten requests start one second apart and take 30 s each; another one starts and ends while all
/// are in flight.
fn plateau() -> Vec<TestRequest<'static>> {
    (0..10)
        .map(|at| flight(at * 1000, at * 1000 + 30_000))
        .chain([flight(15_000, 20_000)])
        .collect()
}

#[test]
fn window_is_from_the_first_to_the_last_time_at_the_threshold() {
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
fn figures_cover_the_window_only() {
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
    // Two tokens per chunk. Of the first nine requests, 2 or 3 chunks are in the window; of the
    // last two, all chunks.
    let chunks: usize = plateau()
        .iter()
        .flat_map(|request| &request.chunks)
        .filter(|at| (9_000..30_000).contains(*at))
        .count();
    assert_eq!(steady.output_throughput, Some(2.0 * chunks as f64 / 21.0));
    assert_eq!(
        steady.total_token_throughput,
        Some((20.0 + 2.0 * chunks as f64) / 21.0)
    );
}

#[test]
fn request_that_ends_when_another_starts_is_not_concurrent() {
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
fn failed_request_occupies_a_slot_and_has_no_latency() {
    let failed = TestRequest {
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
        TestRequest {
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
fn cap_that_is_not_reached_has_no_steady_state() {
    assert_eq!(
        steady(&[flight(0, 1000), flight(2000, 3000)], 3000, 2, 0.95),
        None
    );
    assert_eq!(steady(&[], 0, 1, 0.95), None);
    assert_eq!(
        steady(
            &[TestRequest {
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
fn short_window_has_a_warning() {
    let warning = |end: u64| {
        steady(&[flight(0, end)], end * 20, 1, 1.0)
            .unwrap()
            .window
            .warning
    };
    assert!(
        warning(9000)
            .unwrap()
            .contains("9.0 s (5.0 % of the run) is shorter than 18 s")
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
fn unknown_counts_have_no_throughput() {
    let steady = steady(
        &[TestRequest {
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
fn keys_match_vllm_bench() {
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
