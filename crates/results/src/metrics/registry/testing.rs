//! A run in which every metric has a value, for tests.

use super::Values;
use crate::metrics::reasoning::ReasoningFacts;
use crate::metrics::stream_parity::Parity;
use crate::metrics::testing::{TestRequest, test_request, with_samples};
use crate::metrics::{MetricsOptions, Slo, summarise};
use sobench_core::answer::Channel;
use sobench_core::case::Arm;
use sobench_core::channel_timing::ChunkPart;
use sobench_core::observation::{Outcome, TOO_MANY_REQUESTS, TransportCause};
use sobench_core::verdict::{ExtraText, NotScored, Reason, ToolCallFault, Verdict};
use sobench_judge::accuracy::{Accuracy, Grade};
use sobench_judge::canary::{CanaryAnswer, CanaryClass};

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

/// Options with which every metric has a value.
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

/// The metrics of [`eventful_run`] with a duration of two seconds.
pub fn values() -> Values {
    with_samples(&eventful_run(), |samples| {
        summarise(samples, 2_000_000_000, &options()).values
    })
}
