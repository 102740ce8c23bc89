//! A run log that was read, as a run. Knows no line of it.

use std::collections::BTreeMap;

use super::sobench;
use crate::compare::metric::{Flow, Metric, Plain, RateName, Stat};
use crate::compare::side::{Answer, FileKind, Gaps, Request, Run, SavedMean, Share};
use crate::error::Result;
use crate::metrics::latency::chunk_gaps_ms;
use crate::metrics::quality::{ENDED_BY_ITSELF, is_correct, is_taken_up};
use crate::metrics::stats::{Percentile, Rate};
use crate::metrics::{LatencyMetric, Metrics, MetricsOptions, Sample, summarise};
use crate::observation::{Outcome, failure_words};
use crate::record::RunRecord;
use crate::runlog::RunLog;
use crate::verdict::Verdict;

const NS_PER_S: f64 = 1e9;

/// The run of a log. What was not judged (the run was killed) has no verdict and no token counts.
///
/// # Errors
/// The log cannot be read again.
pub fn of_log(file: &str, log: &RunLog) -> Result<Run> {
    let samples = log.requests.samples();
    let last_ns = samples.iter().filter_map(|sample| sample.moments().end_ns).max();
    let duration_ns = log.footer.as_ref().map(|footer| footer.duration_ns).or(last_ns).unwrap_or(0);
    let options = &log.record.settings.metrics;
    let metrics = summarise(&samples, duration_ns, options);
    let mut run = of_metrics(file, &log.record, &metrics);
    run.kind = FileKind::SobenchRunLog;
    run.notices = sobench::notices(&log.record, log.is_partial(), false);
    if !log.is_judged {
        run.notices.push("killed before its answers were judged: it has no rates".to_owned());
        run.counts.clear();
    }
    run.requests = Some(samples.iter().map(|sample| request(sample, options)).collect());
    log.check()?;
    Ok(run)
}

/// The run of a record and its figures, without its requests: what a gate looks at when the run is over.
pub fn of_metrics(file: &str, record: &RunRecord, metrics: &Metrics) -> Run {
    let quality = &metrics.quality;
    let rate = |rate: RateName| match rate {
        RateName::Correct => quality.correct_rate,
        RateName::Compliance => quality.compliance,
        RateName::Coverage => quality.coverage,
        RateName::Control => quality.control_rate,
        RateName::Vllm => quality.vllm.correct_rate,
    };
    let count = |name: RateName| rate(name).map(|rate| (name, Share { hits: rate.hits, of: rate.of }));
    let summary = |series: LatencyMetric| metrics.overall.latency.summary(series);
    let mean = |series: LatencyMetric| {
        let summary = summary(series);
        (series, SavedMean { n: summary.n, standard_error: summary.standard_error })
    };
    Run {
        file: file.to_owned(),
        kind: FileKind::SobenchResult,
        conditions: record.conditions(metrics.outcomes.total()),
        duration_s: Some(metrics.duration_ns as f64 / NS_PER_S),
        figures: figures(metrics),
        means: LatencyMetric::ALL.into_iter().map(mean).collect(),
        counts: RateName::ALL.into_iter().filter_map(count).collect(),
        notices: Vec::new(),
        requests: None,
    }
}

/// The figures that a saved result has at its top, and those of its own part that it has no key for there.
fn figures(metrics: &Metrics) -> BTreeMap<String, f64> {
    let (overall, throughput) = (&metrics.overall, &metrics.overall.throughput);
    let count = |count: Option<u64>| count.map(|count| count as f64);
    let percent = |rate: Option<Rate>| rate.map(|rate| rate.percent);
    let plain = [
        (Metric::Rate(RateName::Correct), percent(metrics.quality.correct_rate)),
        (Metric::Rate(RateName::Vllm), percent(metrics.quality.vllm.correct_rate)),
        (Metric::Plain(Plain::Duration), Some(metrics.duration_ns as f64 / NS_PER_S)),
        (Metric::Plain(Plain::Completed), Some(overall.completed as f64)),
        (Metric::Plain(Plain::Failed), Some(overall.failed as f64)),
        (Metric::Plain(Plain::InputTokens), count(overall.tokens.input)),
        (Metric::Plain(Plain::OutputTokens), count(overall.tokens.output)),
        (Metric::Plain(Plain::Goodput), throughput.request_goodput),
        (Metric::Plain(Plain::ValidGoodput), throughput.valid_goodput),
        (Metric::Plain(Plain::MaxTokens), throughput.max_output_tokens_per_s),
        (Metric::Plain(Plain::MaxChunks), count(throughput.max_output_chunks_per_s)),
        (Metric::Plain(Plain::MaxConcurrent), count(throughput.max_concurrent_requests)),
        (Metric::Flow(Flow::Requests), throughput.request_throughput),
        (Metric::Flow(Flow::Output), throughput.output_throughput),
        (Metric::Flow(Flow::Total), throughput.total_token_throughput),
        (Metric::Flow(Flow::Valid), throughput.valid_throughput),
    ];
    let latencies = LatencyMetric::ALL.into_iter().flat_map(|series| {
        let summary = overall.latency.summary(series);
        let percentile = move |percentile: &Percentile| {
            let metric = Metric::parse(&format!("p{}_{}_ms", percentile.word(), series.key())).ok()?;
            Some((metric, percentile.value))
        };
        let of_all = [(Stat::Mean, summary.mean), (Stat::Median, summary.median), (Stat::Std, summary.std)];
        let of_all = of_all.map(|(stat, value)| (Metric::Latency(series, stat), value));
        of_all.into_iter().chain(summary.percentiles.iter().filter_map(percentile))
    });
    let known = |(metric, value): (Metric, Option<f64>)| Some((metric.to_string(), value.filter(|value| value.is_finite())?));
    plain.into_iter().chain(latencies).filter_map(known).collect()
}

fn request(sample: &Sample<'_>, options: &MetricsOptions) -> Request {
    let (verdict, outcome, tokens) = (sample.verdict(), sample.outcome(), sample.tokens());
    let latency = sample.latency(options);
    let ended = *outcome == Outcome::Completed && sample.finish_reason().is_some_and(|it| ENDED_BY_ITSELF.contains(&it));
    let answered = outcome.is_answer();
    let failure = failure_words(outcome);
    Request {
        case: Some(sample.id()),
        arm: Some(sample.arm()),
        correct: is_correct(verdict),
        vllm_correct: sample.vllm_correct(),
        complied: (ended && !matches!(verdict, Verdict::NotScored { .. })).then_some(*verdict == Verdict::Valid),
        accepted: is_taken_up(outcome, sample.moments().first_content_ns.is_some()),
        answered,
        ttft_ms: latency.ttft_ms,
        tpot_ms: latency.tpot_ms,
        e2el_ms: latency.e2el_ms,
        gaps: Gaps::Each(if sample.streamed(options) { chunk_gaps_ms(&sample.chunks_ns()).collect() } else { Vec::new() }),
        sent_s: sample.moments().sent_ns.map(|ns| ns as f64 / NS_PER_S),
        input_tokens: tokens.input,
        output_tokens: tokens.output,
        answer: Some(Answer {
            text: sample.text().to_owned(),
            verdict: if failure.is_empty() { sobench::words(verdict) } else { failure },
        }),
    }
}
