//! Tests of the bounds.

use super::*;
use crate::metrics::{Metrics, summarise};
use sobench_facts::testing::{TestRequest, test_request, with_samples};

/// A request that is due at `due` and sent at `sent`, with content 100, 110 and 120 ms later; in
/// milliseconds.
fn request(due: u64, sent: u64) -> TestRequest<'static> {
    TestRequest {
        due,
        sent: Some(sent),
        chunks: vec![sent + 100, sent + 110, sent + 120],
        answer: Some(sent + 100),
        end: Some(sent + 120),
        ..test_request()
    }
}

fn bounds(run: &[TestRequest<'_>], max_concurrency: Option<usize>) -> Bounds {
    with_samples(run, |samples| {
        let options = MetricsSettings::default();
        let last_ns = samples
            .iter()
            .filter_map(|sample| sample.request_times().end_ns)
            .max();
        let Metrics { values, .. } = summarise(samples, last_ns.unwrap_or(1), &options);
        let client = Client {
            samples,
            options: &options,
            max_concurrency,
            start_ns: 0,
        };
        Bounds::new(&client, &values)
    })
}

#[track_caller]
fn check(bounds: &Bounds, figure: &str, added: f64, distrusted: bool) {
    let figure = Figure::parse(figure).unwrap();
    let bound = bounds.iter().find(|bound| bound.figure == figure).unwrap();
    // The resolution of each request in a slot adds to what throughput loses.
    let is_throughput = bound.figure.stat.is_none();
    let tolerance = if is_throughput { 5e-3 } else { 1e-9 };
    assert!(
        (bound.added.unwrap() - added).abs() < tolerance,
        "{bound:?}"
    );
    assert_eq!(bound.distrusted, distrusted, "{bound:?}");
    assert_eq!(bounds.is_distrusted(figure), distrusted);
}

#[test]
fn a_prompt_client_adds_only_the_resolution() {
    let run: Vec<_> = (0..50).map(|at| request(at * 100, at * 100)).collect();
    let bounds = bounds(&run, None);
    for figure in [
        "mean_ttft_ms",
        "p99_itl_ms",
        "median_e2el_ms",
        "p99_e2el_from_due_ms",
    ] {
        check(&bounds, figure, 0.02, false);
    }
    check(&bounds, "request_throughput", 0.0, false);
    assert!(!bounds.has_unknown());
    assert!(
        bounds
            .iter()
            .all(|bound| bound.figure.metric.name != "schedule_lag_ms"),
        "the schedule lag has the client's delay by design"
    );
}

#[test]
fn a_late_client_adds_only_to_figures_from_due() {
    let run: Vec<_> = (1..=50)
        .map(|at| request(at * 100, at * 100 + 31))
        .collect();
    let bounds = bounds(&run, None);
    check(&bounds, "p99_ttft_ms", 0.02, false);
    check(&bounds, "p99_ttft_from_due_ms", 31.02, true);
    check(&bounds, "mean_e2el_from_due_ms", 31.02, true);
    // 50 requests in 5.151 s that could have ended at 5.12 s.
    let rate = 50.0 / 5.151;
    check(&bounds, "request_throughput", rate * 0.031 / 5.12, false);
}

#[test]
fn the_send_call_adds_to_ttft_and_not_to_gaps() {
    let run = vec![
        TestRequest {
            send_call: Some(12),
            ..request(0, 0)
        };
        3
    ];
    let bounds = bounds(&run, None);
    check(&bounds, "mean_ttft_ms", 12.02, true);
    check(&bounds, "mean_e2el_ms", 12.02, true);
    check(&bounds, "mean_itl_ms", 0.02, false);
    check(&bounds, "mean_tpot_ms", 0.02, false);
    let shown: Vec<String> = bounds.distrusted().map(ToString::to_string).collect();
    assert!(
        shown.contains(&"TTFT mean: client may have added up to 12.0 of 100.0 ms".to_owned()),
        "{shown:?}"
    );
}

#[test]
fn shared_stamps_shift_gaps_in_both_directions() {
    // The second chunk can have arrived 4 ms earlier: the gap before it is too long, and the one
    // after it too short. Their sum, and so their mean, is right.
    let run = [TestRequest {
        slack: Some(vec![(1, 4)]),
        ..request(0, 0)
    }];
    let one = bounds(&run, None);
    check(&one, "mean_ttft_ms", 0.02, false);
    check(&one, "mean_e2el_ms", 0.02, false);
    check(&one, "mean_itl_ms", 0.02, false);
    check(&one, "median_itl_ms", 2.02, true);
    let last = [TestRequest {
        slack: Some(vec![(2, 9)]),
        output: Some(4),
        ..request(0, 0)
    }];
    let last = bounds(&last, None);
    check(&last, "mean_e2el_ms", 9.02, false);
    check(&last, "mean_tpot_ms", 3.02, true);
}

#[test]
fn a_slot_that_waits_for_the_client_delays_the_requests_after_it() {
    // One slot, all requests due at the start. Each is sent 30 ms after the slot was free.
    let run: Vec<_> = (0..4).map(|at| request(0, 30 + at * 150)).collect();
    let capped = bounds(&run, Some(1));
    // They lose 30, 60, 90 and 120 ms.
    check(&capped, "mean_ttft_from_due_ms", 75.05, true);
    check(&capped, "mean_ttft_ms", 0.02, false);
    let rate = 4.0 / 0.6;
    check(&capped, "request_throughput", rate * 0.12 / 0.48, true);
    let shown: Vec<String> = capped.distrusted().map(ToString::to_string).collect();
    assert!(
        shown.contains(&"Request throughput: client may have cost up to 25.0 %".to_owned()),
        "{shown:?}"
    );
}

#[test]
fn waiting_for_the_server_is_not_added_by_the_client() {
    let run: Vec<_> = (0..4).map(|at| request(0, at * 120)).collect();
    let capped = bounds(&run, Some(1));
    // Only the resolution of the requests before it in the slot.
    check(&capped, "mean_ttft_from_due_ms", 0.05, false);
    check(&capped, "request_throughput", 0.0, false);
    // The slot was free before the request was due: earlier delays do not matter.
    let later = [request(0, 50), request(400, 400)];
    check(
        &bounds(&later, Some(1)),
        "mean_ttft_from_due_ms",
        25.02,
        true,
    );
}

#[test]
fn bounds_below_a_tenth_of_a_millisecond_are_not_held_against_a_figure() {
    let fast = TestRequest {
        chunks: vec![0, 0, 0],
        end: Some(1),
        ..request(0, 0)
    };
    check(&bounds(&[fast], None), "mean_ttft_ms", 0.02, false);
}

#[test]
fn without_measured_slack_latencies_are_unknown() {
    let old = TestRequest {
        send_call: None,
        slack: None,
        ..request(0, 0)
    };
    let found = bounds(&[old, request(0, 0)], None);
    assert!(found.has_unknown());
    assert_eq!(found.distrusted().count(), 0);
    check(&found, "request_throughput", 0.0, false);
}

#[test]
fn bounds_round_trip_and_unknown_figures_are_ignored() {
    let run = [TestRequest {
        send_call: Some(12),
        ..request(0, 0)
    }];
    let found = bounds(&run, None);
    let mut json = serde_json::to_value(&found).unwrap();
    assert_eq!(
        serde_json::from_value::<Bounds>(json.clone()).unwrap(),
        found
    );
    json.as_array_mut()
        .unwrap()
        .push(serde_json::json!({"figure": "of_tomorrow", "value": 1.0, "added": null}));
    let read: Bounds = serde_json::from_value(json).unwrap();
    assert!(read.is_distrusted(Figure::from_distribution(&latencies::TTFT, Stat::Mean)));
    assert!(!read.is_distrusted(Figure::from_distribution(&latencies::ITL, Stat::Mean)));
    assert_eq!(read, found);
}
