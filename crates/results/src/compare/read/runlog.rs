//! A run log that was read, as a run.

use super::sobench;
use crate::compare::side::{Answer, FileKind, Gaps, Request, Run};
use crate::metrics::latency::chunk_gaps_ms;
use crate::metrics::registry::RequestValues;
use crate::metrics::{Metrics, MetricsOptions, Sample, summarise};
use crate::record::RunRecord;
use crate::runlog::RunLog;
use sobench_core::error::Result;
use sobench_core::observation::failure_words;

const NS_PER_S: f64 = 1e9;

/// The run of a log. What was not judged (the run was killed) has no verdict and no token counts.
///
/// # Errors
/// The log cannot be read again.
pub fn of_log(file: &str, log: &RunLog) -> Result<Run> {
    let samples = log.requests.samples();
    let last_ns = samples
        .iter()
        .filter_map(|sample| sample.moments().end_ns)
        .max();
    let duration_ns = log
        .footer
        .as_ref()
        .map(|footer| footer.duration_ns)
        .or(last_ns)
        .unwrap_or(0);
    let options = &log.record.settings.metrics;
    let metrics = summarise(&samples, duration_ns, options);
    let mut run = of_metrics(file, &log.record, &metrics);
    run.kind = FileKind::SobenchRunLog;
    run.notices = sobench::notices(&log.record, log.is_partial(), false);
    if !log.is_judged {
        run.notices
            .push("killed before its answers were judged: it has no rates".to_owned());
        run.counts.clear();
    }
    run.requests = Some(
        samples
            .iter()
            .map(|sample| request(sample, options))
            .collect(),
    );
    log.check()?;
    Ok(run)
}

/// The run of a record and its figures, without its requests: what a gate looks at when the run is
/// over.
pub fn of_metrics(file: &str, record: &RunRecord, metrics: &Metrics) -> Run {
    let mut run = Run {
        file: file.to_owned(),
        kind: FileKind::SobenchResult,
        conditions: record.conditions(metrics.outcomes.total()),
        duration_s: Some(metrics.duration_ns as f64 / NS_PER_S),
        ..Run::default()
    };
    run.set_values(&metrics.values);
    run
}

fn request(sample: &Sample<'_>, options: &MetricsOptions) -> Request {
    let (verdict, outcome, tokens) = (sample.verdict(), sample.outcome(), sample.tokens());
    let failure = failure_words(outcome);
    Request {
        case: Some(sample.id()),
        arm: Some(sample.arm()),
        answered: outcome.is_answer(),
        values: RequestValues::new(sample, options),
        gaps: Gaps::Each(if sample.streamed(options) {
            chunk_gaps_ms(&sample.chunks_ns()).collect()
        } else {
            Vec::new()
        }),
        sent_s: sample.moments().sent_ns.map(|ns| ns as f64 / NS_PER_S),
        input_tokens: tokens.input,
        output_tokens: tokens.output,
        answer: Some(Answer {
            text: sample.text().to_owned(),
            verdict: if failure.is_empty() {
                sobench::words(verdict)
            } else {
                failure
            },
        }),
    }
}
