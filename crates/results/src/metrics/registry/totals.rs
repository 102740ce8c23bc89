//! Metrics with a single value per group: throughput, peaks and counts. The formulas are in
//! [`crate::metrics::throughput`].

use super::{Better, Figure, Metric, MetricKind, RunSamples, Shown, Unit, rates};
use crate::metrics::channel_latency::late_percent;
use crate::metrics::session_ends;
use crate::metrics::throughput::{max_in_flight, sum};
use sobench_core::answer::Channel;
use sobench_core::observation::Outcome;
use sobench_facts::Sample;
use sobench_facts::latency::has_multi_token_chunks;

/// Answers per second.
pub static REQUEST_THROUGHPUT: Metric = per_second(
    "request_throughput",
    "Request throughput",
    Unit::RequestsPerSecond,
    |run| run.counts().answers,
);

/// Output tokens of answers per second.
pub static OUTPUT_THROUGHPUT: Metric = per_second(
    "output_throughput",
    "Output token throughput",
    Unit::TokensPerSecond,
    |run| run.counts().output_tokens,
);

/// Input and output tokens of answers per second; only input tokens if answers have none.
pub static TOTAL_TOKEN_THROUGHPUT: Metric = per_second(
    "total_token_throughput",
    "Total token throughput",
    Unit::TokensPerSecond,
    |run| run.counts().total_tokens,
);

/// Valid answers per second.
pub static VALID_THROUGHPUT: Metric = per_second(
    "valid_throughput",
    "Valid answer throughput",
    Unit::RequestsPerSecond,
    |run| run.counts().valid,
)
.shown(Shown::Unlike(&REQUEST_THROUGHPUT));

/// Answers that meet every objective, per second.
pub static REQUEST_GOODPUT: Metric = per_second(
    "request_goodput",
    "Request goodput",
    Unit::RequestsPerSecond,
    |run| run.counts().good,
);

/// Valid answers that meet every objective, per second.
pub static VALID_GOODPUT: Metric = per_second(
    "valid_goodput",
    "Valid request goodput",
    Unit::RequestsPerSecond,
    |run| run.counts().valid_good,
);

/// Maximum output tokens in a second of the run.
pub static MAX_OUTPUT_TOKENS: Metric = total(
    "max_output_tokens_per_s",
    "Peak output token throughput",
    Unit::TokensPerSecond,
    Better::Neither,
    |run| {
        // Below the mean, the run has no full second at its highest rate.
        let mean = mean_output(run);
        let peak = run.peaks().tokens;
        peak.filter(|peak| mean.is_none_or(|mean| *peak >= mean))
    },
);

/// Maximum content chunks in a second of the run.
pub static MAX_OUTPUT_CHUNKS: Metric = total(
    "max_output_chunks_per_s",
    "Peak output chunk throughput",
    Unit::ChunksPerSecond,
    Better::Neither,
    |run| run.peaks().chunks.map(|count| count as f64),
)
.shown(Shown::With(&MULTI_TOKEN_CHUNK_ANSWERS));

/// Maximum number of answers in progress during the same second of the run.
pub static MAX_CONCURRENT_REQUESTS: Metric = total(
    "max_concurrent_requests",
    "Peak concurrent requests",
    Unit::Count,
    Better::Neither,
    |run| run.peaks().overlapping.map(|count| count as f64),
);

/// Maximum number of requests in flight.
pub static MAX_IN_FLIGHT: Metric = total(
    "max_in_flight",
    "Peak requests in flight",
    Unit::Count,
    Better::Neither,
    |run| max_in_flight(run.samples, run.duration_ns).map(|count| count as f64),
);

/// Requests of any outcome.
pub static REQUESTS: Metric =
    in_files("requests", "Requests", |run| Some(run.samples.len() as f64));

/// Requests whose connection the client closed by plan.
pub static ABANDONED: Metric = in_files("abandoned", "Abandoned requests", |run| {
    count(run, |outcome| *outcome == Outcome::Abandoned)
});

/// Content chunks of all answers.
pub static CHUNKS: Metric = in_files("chunks", "Chunks", |run| {
    Some(run.answers().map(|answer| answer.chunks()).sum::<u64>() as f64)
});

/// Streamed answers with more tokens than chunks, not counting an end token. Their ITL is not the
/// time per token.
pub static MULTI_TOKEN_CHUNK_ANSWERS: Metric = in_files(
    "multi_token_chunk_answers",
    "Answers with several tokens in a chunk",
    |run| Some(multi_token_answers(run, |_| true)),
);

/// Streamed answers with at least two tokens, not counting an end token, in a single chunk. They have
/// no TPOT.
pub static SINGLE_CHUNK_ANSWERS: Metric =
    in_files("single_chunk_answers", "Answers in a single chunk", |run| {
        Some(multi_token_answers(run, |chunks| chunks == 1))
    });

/// Answers that were not streamed although a stream was requested. They have an E2EL, but no TTFT,
/// TPOT or ITL.
pub static UNSTREAMED_ANSWERS: Metric = in_files(
    "unstreamed_answers",
    "Answers that were not streamed",
    |run| {
        let unstreamed = run.answers().filter(|answer| {
            !answer.came_as_stream() && answer.request_input().prompt.allows_stream()
        });
        Some(unstreamed.filter(|_| run.options.streamed).count() as f64)
    },
);

/// Output tokens per chunk of streamed answers: the tokens of a step of the model, if speculative
/// decoding sends the accepted tokens and the model's own in one chunk. Steps without a draft are
/// chunks too, so this is below the acceptance length, which is over drafts.
pub static TOKENS_PER_STEP: Metric = in_files("tokens_per_step", "Tokens per step", |run| {
    let is_streamed = run.answers().all(|answer| answer.streamed(run.options));
    let chunks: u64 = run.answers().map(|answer| answer.chunks()).sum();
    let tokens = run
        .counts()
        .output_tokens
        .filter(|_| is_streamed && chunks > 0)?;
    Some(tokens as f64 / chunks as f64)
});

/// Answers with reasoning, streamed or not.
pub static REASONED_ANSWERS: Metric =
    in_files("reasoned_answers", "Answers with reasoning", |run| {
        Some(
            run.answers()
                .filter(|answer| answer.has_reasoning())
                .count() as f64,
        )
    });

/// Answers with reasoning and nothing after it.
pub static REASONING_ONLY_ANSWERS: Metric = in_files(
    "reasoning_only_answers",
    "Answers with reasoning only",
    |run| {
        let is_alone = |answer: &&Sample<'_>| {
            answer
                .reasoned_ns()
                .is_some_and(|(_, answer)| answer.is_none())
        };
        Some(run.answers().filter(is_alone).count() as f64)
    },
);

/// Requests with an answer, complete or truncated at the token limit.
pub static COMPLETED: Metric = total(
    "completed",
    "Successful requests",
    Unit::Count,
    Better::Up,
    |run| Some(run.answers().count() as f64),
);

/// Requests that were rejected, timed out, or failed in the server, the stream or the network.
pub static FAILED: Metric = total(
    "failed",
    "Failed requests",
    Unit::Count,
    Better::Down,
    |run| {
        let is_failed = |outcome: &Outcome| {
            !outcome.is_answer() && !matches!(outcome, Outcome::Cancelled | Outcome::Abandoned)
        };
        count(run, is_failed)
    },
);

/// Requests cancelled at the end of the run.
pub static CANCELLED: Metric = total(
    "cancelled",
    "Cancelled requests",
    Unit::Count,
    Better::Neither,
    |run| count(run, |outcome| *outcome == Outcome::Cancelled),
);

/// Answers truncated at the token limit, in all arms.
pub static TRUNCATED: Metric = total(
    "truncated",
    "Answers truncated at the token limit",
    Unit::Count,
    Better::Neither,
    |run| count(run, |outcome| *outcome == Outcome::Truncated),
)
.shown(Shown::Unlike(&rates::TRUNCATED_RATE));

/// Requests that were due and never sent, though the kind of server has a form for them. A later turn of
/// a session is due when the turns before it have an answer.
pub static NEVER_SENT: Metric = total(
    "never_sent",
    "Requests due and never sent",
    Unit::Count,
    Better::Neither,
    |run| {
        let unsent = run
            .samples
            .iter()
            .filter(|sample| sample.latency(run.options).schedule_lag_ms.is_none())
            .filter(|sample| !matches!(sample.outcome(), Outcome::Unsupported { .. }))
            .filter(|sample| sample.turn().is_none_or(|turn| turn.turn == 1));
        Some(unsent.count() as f64)
    },
)
.shown(Shown::AboveZero);

/// Answers without content.
pub static EMPTY_ANSWERS: Metric = total(
    "empty_answers",
    "Answers without content",
    Unit::Count,
    Better::Down,
    |run| Some(run.answers().filter(|answer| answer.chunks() == 0).count() as f64),
)
.shown(Shown::AboveZero);

/// Mean percentage of the reasoning that arrived in the last 100 ms of its answer.
pub static LATE_REASONING: Metric = total(
    "late_reasoning_percent",
    "Reasoning in the last 100 ms",
    Unit::Percent,
    Better::Down,
    |run| late_percent(run.samples, run.options, Channel::Reasoning),
);

/// Mean percentage of the content that arrived in the last 100 ms of its answer.
pub static LATE_CONTENT: Metric = total(
    "late_content_percent",
    "Content in the last 100 ms",
    Unit::Percent,
    Better::Down,
    |run| late_percent(run.samples, run.options, Channel::Content),
);

/// Mean percentage of the arguments of tool calls that arrived in the last 100 ms of their answer.
pub static LATE_ARGUMENTS: Metric = total(
    "late_arguments_percent",
    "Arguments in the last 100 ms",
    Unit::Percent,
    Better::Down,
    |run| late_percent(run.samples, run.options, Channel::ToolCalls),
);

/// Input tokens of all answers.
pub static INPUT_TOKENS: Metric = total(
    "total_input_tokens",
    "Total input tokens",
    Unit::Count,
    Better::Neither,
    |run| sum(run.answers().map(|answer| answer.tokens().input)).map(|count| count as f64),
);

/// Output tokens of all answers.
pub static OUTPUT_TOKENS: Metric = total(
    "total_output_tokens",
    "Total generated tokens",
    Unit::Count,
    Better::Neither,
    |run| run.counts().output_tokens.map(|count| count as f64),
);

/// Seconds from the start of the schedule to the end of the last request.
pub static DURATION: Metric = total(
    "duration",
    "Benchmark duration",
    Unit::Seconds,
    Better::Neither,
    |run| Some(run.duration_ns as f64 / 1e9),
);

/// Percentage of finished sessions without an invalid answer among those with a judged or a failed turn.
/// In this and the next two, sessions that the end of the run cut off do not count, and a session counts
/// only if the group has all of its turns.
pub static SESSION_VALID_RATE: Metric = total(
    "session_valid_rate",
    "Valid sessions",
    Unit::Percent,
    Better::Up,
    |run| session_ends::percent(run.session_ends(), |end| end.is_valid),
)
.shown(Shown::InFiles);

/// Percentage of sessions with an answer to every turn.
pub static SESSION_FINISHED_RATE: Metric = total(
    "session_finished_rate",
    "Finished sessions",
    Unit::Percent,
    Better::Up,
    |run| session_ends::percent(run.session_ends(), |end| Some(end.is_finished)),
)
.shown(Shown::InFiles);

/// Percentage of sessions whose last answer is right, among those whose last turn has a reference.
pub static SESSION_RIGHT_RATE: Metric = total(
    "session_right_rate",
    "Sessions with the right end",
    Unit::Percent,
    Better::Up,
    |run| session_ends::percent(run.session_ends(), |end| end.is_right),
)
.shown(Shown::InFiles);

/// The rates of sessions.
pub static OF_SESSIONS: [&Metric; 3] = [
    &SESSION_FINISHED_RATE,
    &SESSION_VALID_RATE,
    &SESSION_RIGHT_RATE,
];

/// F1 of the decision to call a tool, in percent: the harmonic mean of the shares of calls that were due
/// among those made, and of calls that were made among those due, as in MiniMax' provider verifier.
pub static TRIGGER_F1: Metric = total(
    "trigger_f1",
    "Trigger F1",
    Unit::Percent,
    Better::Up,
    |run| {
        let agreement = Figure::of(&rates::TRIGGER_AGREEMENT, run.arm);
        let share = agreement.rate(run.samples.iter().copied())?.percent / 100.0;
        Some(100.0 * 2.0 * share / (1.0 + share))
    },
)
.shown(Shown::InFiles);

/// Output tokens per second of the run.
fn mean_output(run: &RunSamples<'_>) -> Option<f64> {
    let tokens = run.counts().output_tokens.filter(|_| run.duration_ns > 0)?;
    Some(tokens as f64 / (run.duration_ns as f64 / 1e9))
}

/// The number of requests with an outcome.
fn count(run: &RunSamples<'_>, is_counted: fn(&Outcome) -> bool) -> Option<f64> {
    let counted = run
        .samples
        .iter()
        .filter(|sample| is_counted(sample.outcome()));
    Some(counted.count() as f64)
}

/// The number of streamed answers with several tokens in a chunk, by their number of chunks.
fn multi_token_answers(run: &RunSamples<'_>, is_counted: fn(u64) -> bool) -> f64 {
    let streamed = run.answers().filter(|answer| answer.streamed(run.options));
    let is_several = |answer: &&Sample<'_>| {
        let (tokens, chunks) = (answer.tokens().output, answer.chunks());
        tokens.is_some_and(|tokens| has_multi_token_chunks(tokens, chunks)) && is_counted(chunks)
    };
    streamed.filter(is_several).count() as f64
}

/// A count that pages use for other rows.
const fn in_files(
    name: &'static str,
    label: &'static str,
    value: fn(&RunSamples<'_>) -> Option<f64>,
) -> Metric {
    total(name, label, Unit::Count, Better::Neither, value).shown(Shown::InFiles)
}

const fn per_second(
    name: &'static str,
    label: &'static str,
    unit: Unit,
    count: fn(&RunSamples<'_>) -> Option<u64>,
) -> Metric {
    Metric::new(name, label, unit, Better::Up, MetricKind::PerSecond(count))
}

pub(super) const fn total(
    name: &'static str,
    label: &'static str,
    unit: Unit,
    better: Better,
    value: fn(&RunSamples<'_>) -> Option<f64>,
) -> Metric {
    Metric::new(name, label, unit, better, MetricKind::Total(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::summarise;
    use sobench_core::case::Arm;
    use sobench_facts::testing::{TestRequest, test_request, with_samples};
    use sobench_plan::metrics::MetricsSettings;

    #[test]
    fn each_arm_has_its_tokens_per_step() {
        // Three chunks each.
        let answer = |arm, output| TestRequest {
            arm,
            output: Some(output),
            ..test_request()
        };
        let run = [answer(Arm::Constrained, 6), answer(Arm::Control, 12)];
        let metrics = with_samples(&run, |samples| {
            summarise(samples, 1, &MetricsSettings::default())
        });
        let found: Vec<_> = metrics
            .arms()
            .map(|(arm, values)| (arm, values.number(&TOKENS_PER_STEP)))
            .collect();
        assert_eq!(
            found,
            [(Arm::Constrained, Some(2.0)), (Arm::Control, Some(4.0))]
        );
    }
}
