//! Runs made up for tests, so that a test states only what it is about. Knows nothing that ships.

use super::side::{Answer, FileKind, Request, Run, Side};
use crate::case::Arm;
use crate::record::condition::Field;

/// A constrained request that went well.
pub(crate) fn request() -> Request {
    Request {
        case: Some("case".into()),
        arm: Some(Arm::Constrained),
        correct: Some(true),
        vllm_correct: Some(true),
        complied: Some(true),
        accepted: Some(true),
        answered: true,
        ttft_ms: Some(10.0),
        e2el_ms: Some(30.0),
        sent_s: Some(0.0),
        output_tokens: Some(3),
        answer: Some(Answer { text: "{}".into(), verdict: "valid".into() }),
        ..Request::default()
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
