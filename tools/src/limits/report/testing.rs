//! Limits for tests.

use crate::limits::{
    Cancelled, End, Ladder, LadderKind, Latencies, ProcessSource, ServerLimits, Step, StepOutcome,
    Verdict,
};
use sobench_backend::{ConstraintDialect, ServerKind};

fn latencies(median_ms: f64, worst_ms: f64) -> Latencies {
    Latencies {
        requests: 10,
        failed: 0,
        median_ms,
        worst_ms,
    }
}

fn step(size: u64, outcome: StepOutcome, ms: f64) -> Step {
    Step {
        size,
        request_bytes: 300 + usize::try_from(size).unwrap() * 11,
        outcome,
        status: match outcome {
            StepOutcome::Accepted => Some(200),
            StepOutcome::Refused => Some(400),
            _ => None,
        },
        message: match outcome {
            StepOutcome::Refused => "<b>odd\u{202e}: grammar is too large".to_owned(),
            StepOutcome::TimedOut => "no answer within 10 s".to_owned(),
            _ => String::new(),
        },
        ttft_ms: (outcome == StepOutcome::Accepted).then_some(ms),
        end_ms: ms,
        neighbours: Some(latencies(5.0, 9.0)),
        stalls_others: false,
        memory_before_bytes: Some(300_000_000),
        memory_after_bytes: Some(300_000_000 + size * 4096),
    }
}

fn ladder(ladder: LadderKind, steps: Vec<Step>, end: End, verdicts: &[Verdict]) -> Ladder {
    Ladder {
        ladder,
        steps,
        end,
        reason: None,
        cancelled: None,
        verdicts: verdicts.to_vec(),
    }
}

/// Two servers. The second one stalls, hangs and is lost.
pub(super) fn servers() -> Vec<ServerLimits> {
    use StepOutcome::{Accepted, Refused, TimedOut};
    let base = ServerLimits {
        label: "vLLM, xgrammar".to_owned(),
        backend: ServerKind::Vllm,
        base_url: "http://127.0.0.1:8000".to_owned(),
        endpoint: "/v1/completions".to_owned(),
        model: "tiny\u{202e}".to_owned(),
        constraint_dialect: ConstraintDialect::StructuredOutputs,
        product: Some("vLLM".to_owned()),
        version: Some("0.12.0".to_owned()),
        engine: Some("xgrammar".to_owned()),
        stream: true,
        step_timeout_s: 10.0,
        process: Some(ProcessSource::Proc),
        neighbour: latencies(5.0, 8.0),
        small_constraint: latencies(7.0, 12.0),
        requests: 412,
        ladders: vec![
            ladder(
                LadderKind::EnumSize,
                vec![
                    step(100, Accepted, 8.0),
                    step(1000, Accepted, 80.0),
                    step(10_000, Refused, 20.0),
                ],
                End::Refused,
                &[Verdict::FailsFast],
            ),
            ladder(
                LadderKind::MaxItems,
                vec![step(100, Accepted, 8.0), step(1000, Accepted, 9.0)],
                End::LargestSize,
                &[Verdict::Fine],
            ),
        ],
    };
    let hanging = Ladder {
        cancelled: Some(Cancelled {
            size: 8,
            after_ms: 10_000.0,
            watched_ms: 10_020.0,
            answered_ms: None,
            recovered_ms: None,
            worked_ms: Some(10_020.0),
            is_working: true,
        }),
        ..ladder(
            LadderKind::OneOfDepth,
            vec![
                Step {
                    stalls_others: true,
                    neighbours: Some(latencies(5.0, 1900.0)),
                    ..step(4, Accepted, 2000.0)
                },
                step(8, TimedOut, 10_000.0),
            ],
            End::TimedOut,
            &[
                Verdict::Hangs,
                Verdict::KeepsCompiling,
                Verdict::StallsOthers,
                Verdict::Slow,
            ],
        )
    };
    let untested = Ladder {
        reason: Some(
            "the server answers no small constraint since the ladder oneof-depth, size 8"
                .to_owned(),
        ),
        ..ladder(
            LadderKind::EnumSize,
            Vec::new(),
            End::NotTested,
            &[Verdict::NotTested],
        )
    };
    let other = ServerLimits {
        label: "other".to_owned(),
        product: None,
        version: None,
        engine: None,
        process: None,
        ladders: vec![hanging, untested],
        ..base.clone()
    };
    vec![base, other]
}
