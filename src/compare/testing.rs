//! Runs made up for tests, so that a test states only what it is about.

use super::side::{Answer, FileKind, Request, Run, Side};
use crate::case::Arm;
use crate::metrics::registry::{Metric, RequestValues, latencies, rates};
use crate::record::condition::Field;

/// A constrained request that went well.
pub(crate) fn request() -> Request {
    let mut values = RequestValues::default();
    values.set_correct(Some(true));
    for rate in [&rates::VLLM_CORRECT_RATE, &rates::COMPLIANCE, &rates::COVERAGE] {
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
        answer: Some(Answer { text: "{}".into(), verdict: "valid".into() }),
        ..Request::default()
    }
}

impl Request {
    /// The request with another value.
    pub(crate) fn with(mut self, metric: &Metric, value: impl Into<Option<f64>>) -> Self {
        self.values.set_value(metric, value.into());
        self
    }

    /// The request with another verdict.
    pub(crate) fn with_correct(mut self, correct: impl Into<Option<bool>>) -> Self {
        self.values.set_correct(correct.into());
        self
    }
}

/// A run over the dataset `d`.
pub(crate) fn run(requests: Vec<Request>) -> Run {
    Run {
        file: "run.json".into(),
        kind: FileKind::SobenchResult,
        conditions: [(Field::Dataset, "d".to_owned()), (Field::Model, "m".to_owned())].into(),
        requests: Some(requests),
        duration_s: Some(10.0),
        figures: Default::default(),
        means: Default::default(),
        counts: Default::default(),
        notices: Vec::new(),
    }
}

/// A side of such runs.
pub(crate) fn side(name: &str, runs: Vec<Vec<Request>>) -> Side {
    Side { name: name.into(), runs: runs.into_iter().map(run).collect() }
}
