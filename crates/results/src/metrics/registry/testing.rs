//! A run in which every metric has a value, for tests.

use super::Values;
use crate::metrics::testing::{Made, made, with_samples};
use crate::metrics::{MetricsOptions, Slo, summarise};
use sobench_core::case::Arm;
use sobench_core::observation::{Outcome, TOO_MANY_REQUESTS, TransportCause};
use sobench_core::verdict::{NotScored, Reason, Verdict};

/// Requests of which every rate has a hit, and every total something to count.
pub fn eventful_run() -> Vec<Made<'static>> {
    let without_answer = |outcome: Outcome, why: NotScored| Made {
        outcome,
        verdict: Verdict::NotScored { why },
        chunks: vec![],
        output: None,
        ..made()
    };
    let cut = Made {
        outcome: Outcome::Truncated,
        verdict: Verdict::Invalid {
            reason: Reason::Truncated,
        },
        finish_reason: Some("length"),
        text: "{}                                ",
        ..made()
    };
    let busy = Outcome::Rejected {
        status: TOO_MANY_REQUESTS,
        body: "busy".into(),
        advice: None,
    };
    let no_connection = Outcome::Transport {
        cause: TransportCause::Local,
        message: "no files".into(),
    };
    let error = Outcome::ServerError {
        status: 500,
        body: "oops".into(),
        advice: None,
    };
    vec![
        Made {
            right_call: Some(true),
            reasoning: Some(5),
            answer: Some(20),
            ..made()
        },
        Made {
            chunk_tokens: vec![1, 3, 9],
            output: Some(9),
            ..made()
        },
        Made {
            chunks: vec![],
            output: Some(0),
            ..made()
        },
        Made {
            arm: Arm::Control,
            ..made()
        },
        Made {
            arm: Arm::Control,
            ..cut.clone()
        },
        cut,
        Made {
            verdict: Verdict::NotScored {
                why: NotScored::Limit {
                    what: "too deep".into(),
                },
            },
            ..made()
        },
        without_answer(busy, NotScored::Refused),
        without_answer(error, NotScored::Failed),
        without_answer(no_connection, NotScored::NotSent),
        Made {
            sent: None,
            end: None,
            ..without_answer(Outcome::Cancelled, NotScored::Cancelled)
        },
    ]
}

/// Options under which every metric has a value.
pub fn options() -> MetricsOptions {
    let goodput = Some(Slo {
        e2el_ms: Some(1000.0),
        ..Slo::default()
    });
    MetricsOptions {
        percentiles: vec![50.0, 99.0],
        goodput,
        ..MetricsOptions::default()
    }
}

/// The metrics of [`eventful_run`] over two seconds.
pub fn values() -> Values {
    with_samples(&eventful_run(), |samples| {
        summarise(samples, 2_000_000_000, &options()).values
    })
}
