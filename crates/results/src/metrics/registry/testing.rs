//! A run in which every metric has a value, for tests.

use std::sync::Arc;

use super::Values;
use crate::metrics::{Metrics, summarise_with_server};
use sobench_core::answer::Channel;
use sobench_core::case::{Arm, Turn};
use sobench_core::channel_timing::ChunkPart;
use sobench_core::constraint::Constraint;
use sobench_core::observation::{Outcome, TOO_MANY_REQUESTS, TransportCause};
use sobench_core::scorer::Scorer;
use sobench_core::server_sample::{HistogramCounts, Quantity, QuantityType, ServerSample};
use sobench_core::verdict::{ExtraText, NotScored, Reason, ToolCallFault, Verdict};
use sobench_facts::Sample;
use sobench_facts::parity::Parity;
use sobench_facts::reasoning::ReasoningFacts;
use sobench_facts::testing::{TestRequest, test_request, with_cases};
use sobench_judge::accuracy::{Accuracy, Grade};
use sobench_judge::canary::{CanaryAnswer, CanaryClass};
use sobench_plan::metrics::{MetricsSettings, Slo};

/// Requests that give every rate a hit and every total a count.
pub fn eventful_run() -> Vec<TestRequest<'static>> {
    let without_answer = |outcome: Outcome, why: NotScored| TestRequest {
        outcome,
        verdict: Verdict::NotScored { why },
        chunks: vec![],
        output: None,
        ..test_request()
    };
    let cut = TestRequest {
        outcome: Outcome::Truncated,
        verdict: Verdict::Invalid {
            reason: Reason::Truncated,
        },
        finish_reason: Some("length"),
        text: "{}                                ",
        ..test_request()
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
    let graded = |arm: Arm, grade: Grade| TestRequest {
        arm,
        accuracy: Some(Accuracy {
            grade,
            leaves: None,
        }),
        ..test_request()
    };
    let arms = Arm::ALL
        .into_iter()
        .flat_map(|arm| [Grade::Right, Grade::Unparsed].map(|grade| graded(arm, grade)));
    let mut run = vec![
        TestRequest {
            right_call: Some(true),
            made_call: Some(true),
            call_due: Some(true),
            reasoning: Some(5),
            answer: Some(20),
            arguments: Some(30),
            chunks: vec![5, 10, 20, 25, 30, 700],
            parts: [
                (0, Channel::Reasoning),
                (1, Channel::Reasoning),
                (2, Channel::Content),
                (3, Channel::Content),
                (4, Channel::ToolCalls),
                (5, Channel::ToolCalls),
            ]
            .map(|(chunk, channel)| ChunkPart {
                chunk,
                channel,
                bytes: 4,
            })
            .into(),
            end: Some(700),
            reasoning_facts: Some(ReasoningFacts {
                json_only: true,
                end_marker: true,
                ..ReasoningFacts::default()
            }),
            parity: Some(Parity::Equal),
            ..test_request()
        },
        TestRequest {
            outcome: Outcome::Truncated,
            finish_reason: Some("length"),
            reasoning: Some(5),
            answer: None,
            ..test_request()
        },
        TestRequest {
            arm: Arm::Control,
            reasoning: Some(5),
            ..test_request()
        },
        TestRequest {
            made_call: Some(true),
            call_due: Some(false),
            chunk_tokens: vec![1, 3, 9],
            output: Some(9),
            ..test_request()
        },
        TestRequest {
            made_call: Some(false),
            call_due: Some(true),
            chunks: vec![],
            output: Some(0),
            ..test_request()
        },
        TestRequest {
            arm: Arm::Control,
            ..test_request()
        },
        TestRequest {
            arm: Arm::Control,
            ..cut.clone()
        },
        TestRequest { whole: true, ..cut },
        TestRequest {
            finish_reason: None,
            ..test_request()
        },
        TestRequest {
            verdict: Verdict::NotScored {
                why: NotScored::Limit {
                    what: "too deep".into(),
                },
            },
            ..test_request()
        },
        without_answer(busy, NotScored::Refused),
        without_answer(error, NotScored::Failed),
        without_answer(no_connection, NotScored::NotSent),
        TestRequest {
            sent: None,
            end: None,
            ..without_answer(Outcome::Cancelled, NotScored::Cancelled)
        },
        TestRequest {
            verdict: Verdict::Invalid {
                reason: Reason::ExtraText {
                    byte: 0,
                    kind: ExtraText::Fence,
                    valid_if_stripped: true,
                },
            },
            ..test_request()
        },
        TestRequest {
            made_call: Some(false),
            verdict: Verdict::Invalid {
                reason: Reason::ToolCall(ToolCallFault::LeakedMarkup {
                    channel: Channel::Content,
                    markup: "<tool_call".to_owned(),
                    byte: 0,
                }),
            },
            ..test_request()
        },
    ];
    run.extend(arms);
    run.extend(CanaryClass::ALL.map(|class| TestRequest {
        canary: Some(CanaryAnswer {
            class,
            byte: None,
            nonce: None,
            excerpt: None,
        }),
        ..test_request()
    }));
    run
}

/// Settings with which every metric has a value.
pub fn options() -> MetricsSettings {
    let goodput = Some(Slo {
        e2el_ms: Some(1000.0),
        ..Slo::default()
    });
    MetricsSettings {
        percentiles: vec![50.0, 99.0],
        goodput,
        ..MetricsSettings::default()
    }
}

/// Samples of a server that reports every quantity, and whose memory grows with the constraints of
/// [`eventful_run`].
pub fn server_samples() -> Vec<ServerSample> {
    let sample = |number: i64| {
        let level = number as f64 / 2.0;
        let of_type = |wanted: QuantityType| {
            Quantity::ALL
                .into_iter()
                .filter(move |quantity| quantity.quantity_type() == wanted)
        };
        let histogram = HistogramCounts {
            count: level,
            sum: 8.0 * level,
            buckets: vec![(5.0, 0.0), (10.0, level)],
        };
        let mut values: std::collections::BTreeMap<Quantity, f64> = of_type(QuantityType::Counter)
            .chain(of_type(QuantityType::Gauge))
            .map(|quantity| (quantity, level))
            .collect();
        // The server restarts after the first reading.
        let started = if number == 0 { 1.0 } else { 100.0 };
        values.insert(Quantity::StartTime, started);
        values.insert(Quantity::Memory, 1e8 + 1e6 * level);
        ServerSample {
            offset_ns: number * 5_000_000,
            took_ns: 1_000_000,
            values,
            histograms: of_type(QuantityType::Histogram)
                .map(|quantity| (quantity, histogram.clone()))
                .collect(),
            ..ServerSample::default()
        }
    };
    (0..79).map(sample).collect()
}

/// Requests at the start of [`eventful_run`] that share their constraint, so that one has a control.
const SHARING: usize = 4;

/// Calls `check` with the samples of [`eventful_run`], almost each with a constraint of its own.
pub fn with_eventful_samples<T>(check: impl FnOnce(&[Sample<'_>]) -> T) -> T {
    let mut run = eventful_run();
    for (number, request) in run.iter_mut().enumerate() {
        let shift = 10 * number as u64;
        request.due += shift;
        request.sent = request.sent.map(|sent| sent + shift);
        request.end = request.end.map(|end| end + shift);
        request.chunks.iter_mut().for_each(|at| *at += shift);
        for first in [
            &mut request.reasoning,
            &mut request.answer,
            &mut request.arguments,
        ] {
            *first = first.map(|at| at + shift);
        }
    }
    // A session of one turn with the right end.
    let session = run.iter().position(|request| {
        let grade = request.accuracy.as_ref().map(|accuracy| accuracy.grade);
        grade == Some(Grade::Right) && request.verdict == Verdict::Valid
    });
    with_cases(
        &run,
        |index, case| {
            if case.constraint.is_some() && index >= SHARING {
                let pattern = format!("a{{1,{}}}", index + 1);
                case.constraint = Some(Arc::new(Constraint::Regex(pattern.into())));
            }
            if Some(index) == session {
                case.score = Some(Scorer::Exact);
                case.turn = Some(Arc::new(Turn {
                    turn: 1,
                    of: 1,
                    ..Turn::default()
                }));
            }
        },
        check,
    )
}

/// The metrics of [`with_eventful_samples`] and [`server_samples`] with a duration of two seconds.
pub fn metrics() -> Metrics {
    with_eventful_samples(|samples| {
        summarise_with_server(samples, 2_000_000_000, &options(), &server_samples())
    })
}

/// The values of [`metrics`].
pub fn values() -> Values {
    metrics().values
}
