//! Runs for tests, with defaults for everything that a test does not set.

use super::gate::{self, ChangeRuling};
use super::measure::{Resampling, measure};
use super::pairing::Pairing;
use super::requests::Request;
use super::rules::ChangeRule;
use super::run_spread::RunSpread;
use super::side::{Run, Side};
use crate::metrics::registry::{Figure, Metric, RequestValues, latencies, rates};
use sobench_core::case::Arm;
use sobench_plan::record::condition::Field;

/// A successful constrained request.
pub fn request() -> Request {
    let mut values = RequestValues::default();
    values.set_hit(&rates::CORRECT_RATE, Some(true));
    for rate in [
        &rates::VLLM_CORRECT_RATE,
        &rates::COMPLIANCE,
        &rates::COVERAGE,
    ] {
        values.set_hit(rate, Some(true));
    }
    values.set_value(&latencies::TTFT, Some(10.0));
    values.set_value(&latencies::E2EL, Some(30.0));
    Request {
        case: Some("case".into()),
        arm: Some(Arm::Constrained),
        answered: true,
        values,
        sent_s: Some(0.0),
        output_tokens: Some(3),
        verdict: Some("valid".into()),
        ..Request::default()
    }
}

impl Request {
    /// Sets a value.
    pub fn with(mut self, metric: &Metric, value: impl Into<Option<f64>>) -> Self {
        self.values.set_value(metric, value.into());
        self
    }

    /// Sets the verdict.
    pub fn with_correct(mut self, correct: impl Into<Option<bool>>) -> Self {
        self.values.set_hit(&rates::CORRECT_RATE, correct.into());
        self
    }
}

/// A run with the dataset `d` and the model `m`.
pub fn run(requests: Vec<Request>) -> Run {
    Run {
        file: "run.json".into(),
        conditions: [
            (Field::Dataset, "d".to_owned()),
            (Field::Model, "m".to_owned()),
        ]
        .into(),
        requests: Some(requests.into_iter().collect()),
        duration_s: Some(10.0),
        ..Run::default()
    }
}

/// A side with a run for each list of requests.
pub fn side(name: &str, runs: Vec<Vec<Request>>) -> Side {
    Side {
        name: name.into(),
        runs: runs.into_iter().map(run).collect(),
        ..Side::default()
    }
}

/// A side of three runs at this request rate: each sends a request every 100 ms for 10 s, and its
/// answers have this number of tokens.
pub fn steady(tokens: u64, request_rate: &str) -> Side {
    let one = |index: u32| Request {
        sent_s: Some(f64::from(index) * 0.1),
        output_tokens: Some(tokens),
        case: Some(index.to_string()),
        ..request()
    };
    let mut side = side("s", vec![(0..100).map(one).collect(); 3]);
    for run in &mut side.runs {
        let rate = request_rate.to_owned();
        run.conditions.insert(Field::RequestRate, rate);
    }
    side
}

/// Measures only the figures of the rules, and evaluates them.
pub fn evaluate_rules(
    a: &Side,
    b: &Side,
    rules: &[ChangeRule],
    run_spread: &RunSpread,
    resampling: Resampling,
) -> Vec<ChangeRuling> {
    let mut metrics: Vec<Figure> = rules.iter().map(|rule| rule.metric).collect();
    metrics.sort();
    metrics.dedup();
    let measured = measure(a, b, &Pairing::new(a, b), &metrics, run_spread, resampling);
    let level = gate::level(rules, [&measured[..]]);
    gate::evaluate_changes(rules, (a, b), &measured, level)
}
