//! Compares schedules with NumPy's figures and checks properties of every schedule.

use serde::Deserialize;

use super::*;

fn steady(rate: f64) -> Pace {
    Pace::Steady(Rate::PerSecond(rate))
}

fn seconds(requests: usize, rate: f64, burstiness: f64) -> Vec<f64> {
    due_times(requests, steady(rate), burstiness, 0)
        .iter()
        .map(Duration::as_secs_f64)
        .collect()
}

fn ramp(strategy: RampStrategy, start_rps: u32, end_rps: u32) -> Ramp {
    Ramp {
        strategy,
        start_rps,
        end_rps,
    }
}

#[test]
fn all_requests_of_an_infinite_rate_are_due_immediately() {
    assert_eq!(
        due_times(3, Pace::Steady(Rate::Infinite), 1.0, 0),
        vec![Duration::ZERO; 3]
    );
    assert!(due_times(0, steady(1.0), 1.0, 0).is_empty());
}

#[test]
fn the_last_request_is_due_at_requests_over_rate() {
    for burstiness in [0.3, 1.0, 5.0, f64::INFINITY] {
        let due = seconds(200, 50.0, burstiness);
        assert!(
            (due[199] - 4.0).abs() < 1e-6,
            "burstiness {burstiness}: {}",
            due[199]
        );
        assert!(
            due.windows(2).all(|pair| pair[0] <= pair[1]),
            "burstiness {burstiness}"
        );
    }
}

#[test]
fn infinite_burstiness_spaces_evenly() {
    assert_eq!(seconds(4, 2.0, f64::INFINITY), vec![0.5, 1.0, 1.5, 2.0]);
}

#[test]
fn gaps_have_the_coefficient_of_variation_of_the_gamma_shape() {
    for (burstiness, expected) in [(0.25, 2.0), (1.0, 1.0), (4.0, 0.5)] {
        let due = seconds(20_000, 1.0, burstiness);
        let gaps: Vec<f64> = std::iter::once(due[0])
            .chain(due.windows(2).map(|pair| pair[1] - pair[0]))
            .collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        let variation = variance.sqrt() / mean;
        assert!(
            (variation / expected - 1.0).abs() < 0.05,
            "burstiness {burstiness}: {variation}"
        );
    }
}

/// A row of `fixtures/numpy/schedule.json`.
#[derive(Deserialize)]
struct Row {
    seed: u64,
    requests: usize,
    burstiness: serde_json::Value,
    rate: Option<f64>,
    ramp: Option<RampRow>,
    rates: Vec<f64>,
    due_s: Vec<f64>,
}

#[derive(Deserialize)]
struct RampRow {
    strategy: String,
    start_rps: u32,
    end_rps: u32,
}

#[test]
fn the_same_seed_gives_the_schedule_of_vllm_bench_serve() {
    let rows: Vec<Row> =
        serde_json::from_str(include_str!("../../../../fixtures/numpy/schedule.json")).unwrap();
    assert!(rows.iter().any(|row| row.ramp.is_some()) && rows.iter().any(|row| row.rate.is_some()));
    for (position, row) in rows.iter().enumerate() {
        let pace = match (&row.ramp, row.rate) {
            (Some(row), _) => {
                let strategy = if row.strategy == "linear" {
                    RampStrategy::Linear
                } else {
                    RampStrategy::Exponential
                };
                Pace::Ramp(ramp(strategy, row.start_rps, row.end_rps))
            }
            (None, rate) => steady(rate.unwrap()),
        };
        let burstiness = row.burstiness.as_f64().unwrap_or(f64::INFINITY);
        let due = due_times(row.requests, pace, burstiness, row.seed);
        assert_eq!(due.len(), row.due_s.len());
        for (index, (ours, theirs)) in due.iter().zip(&row.due_s).enumerate() {
            assert!(
                (ours.as_secs_f64() - theirs).abs() < 2e-9,
                "row {position}, request {index}: {ours:?}, not {theirs} s"
            );
            assert!(
                (pace.rate_at(index, row.requests) / row.rates[index] - 1.0).abs() < 1e-12,
                "row {position}, request {index}"
            );
        }
    }
}

/// Over many seeds and shapes: due times never decrease, are repeatable, and end at requests /
/// rate.
#[test]
fn schedules_are_sorted_repeatable_and_keep_the_rate() {
    let paces = [
        steady(0.01),
        steady(1e5),
        Pace::Ramp(ramp(RampStrategy::Linear, 1, 1000)),
        Pace::Ramp(ramp(RampStrategy::Exponential, 1, 1000)),
        Pace::Ramp(ramp(RampStrategy::Exponential, u32::MAX, u32::MAX)),
    ];
    for seed in 0..40 {
        for pace in paces {
            for burstiness in [0.05, 1.0, 30.0, f64::INFINITY] {
                for requests in [1, 2, 77] {
                    let due = due_times(requests, pace, burstiness, seed * 104_729);
                    let what = format!(
                        "{pace:?}, burstiness {burstiness}, {requests} requests, seed {seed}"
                    );
                    assert!(due.is_sorted(), "{what}");
                    assert_eq!(
                        due,
                        due_times(requests, pace, burstiness, seed * 104_729),
                        "{what}"
                    );
                    if let Pace::Steady(rate) = pace {
                        let last_s = requests as f64 / rate.per_second();
                        assert!(
                            (due[requests - 1].as_secs_f64() / last_s - 1.0).abs() < 1e-3,
                            "{what}: {due:?}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn ramp_steps_list_each_whole_rate() {
    let at = |rps, ms| RateStep {
        rps,
        at: Duration::from_millis(ms),
    };
    let due: Vec<Duration> = (1..=5)
        .map(|index| Duration::from_millis(100 * index))
        .collect();
    // Rates 2, 4, 6, 8, 10.
    let linear = ramp(RampStrategy::Linear, 2, 10);
    let steps = linear.steps(5, &due);
    assert_eq!(steps[..4], [at(2, 0), at(3, 200), at(4, 200), at(5, 300)]);
    assert_eq!(steps.last(), Some(&at(10, 500)));
    assert_eq!(
        linear.steps(5, &due[..2]).last(),
        Some(&at(4, 200)),
        "rates of unsent requests are not reached"
    );
    assert_eq!(
        ramp(RampStrategy::Exponential, 7, 7).steps(5, &due),
        [at(7, 0)]
    );
}

#[test]
fn requests_within_a_duration_are_counted() {
    let ten = Duration::from_secs(10);
    assert_eq!(Pace::Steady(Rate::Infinite).requests_within(ten), None);
    assert_eq!(steady(50.0).requests_within(ten), Some(500.0));
    for strategy in [RampStrategy::Linear, RampStrategy::Exponential] {
        let pace = Pace::Ramp(ramp(strategy, 1, 20));
        let requests = pace.requests_within(ten).unwrap() as usize;
        let due = due_times(requests, pace, f64::INFINITY, 0);
        let last_s = due[requests - 1].as_secs_f64();
        assert!(
            (9.0..=10.6).contains(&last_s),
            "{strategy:?}: {requests} requests, the last at {last_s} s"
        );
        assert_eq!(
            Pace::Ramp(ramp(strategy, 5, 5)).requests_within(ten),
            Some(50.0)
        );
    }
}

#[test]
fn cases_due_by_the_end_count_as_missing() {
    let s = Duration::from_secs;
    for (until, due, owed) in [
        (Until::LastCase, s(99), true),
        (Until::Time(s(10)), s(10), true),
        (Until::Time(s(10)), s(11), false),
        (Until::Time(s(10)), s(0), false),
        (Until::Cycling(s(10)), s(0), false),
    ] {
        assert_eq!(until.counts_as_missing(due), owed, "{until:?} {due:?}");
    }
}

#[test]
fn recorded_times_are_replayed_at_a_speed() {
    let due = |speed| replayed(&[10.0, 10.0, 11.0, 14.0], speed);
    let seconds = |all: [f64; 4]| all.map(Duration::from_secs_f64).to_vec();
    assert_eq!(due(1.0), seconds([0.0, 0.0, 1.0, 4.0]));
    assert_eq!(due(2.0), seconds([0.0, 0.0, 0.5, 2.0]));
    assert!(replayed(&[], 1.0).is_empty());
}
