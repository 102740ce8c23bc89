//! A run log that was read, as a run. Knows no line of it.

use super::raw::Raw;
use super::{sobench, spelt};
use crate::compare::comparable::NONE;
use crate::compare::side::{Answer, Field, FileKind, Gaps, Request, Run};
use crate::error::{Error, Result};
use crate::metrics::latency::chunk_gaps_ms;
use crate::metrics::quality::{ENDED_BY_ITSELF, is_correct, is_taken_up};
use crate::metrics::{MetricsOptions, Sample, summarise};
use crate::observation::{Outcome, failure_words};
use crate::report::{Report, json};
use crate::runlog::RunLog;
use crate::verdict::Verdict;

const NS_PER_S: f64 = 1e9;

/// The run of a log. What was not judged (the run was killed) has no verdict and no token counts.
///
/// # Errors
/// A figure that is no JSON, which is a defect.
pub fn of_log(file: &str, log: &RunLog) -> Result<Run> {
    let samples = log.requests.samples();
    let last_ns = samples.iter().filter_map(|sample| sample.moments().end_ns).max();
    let duration_ns = log.footer.as_ref().map(|footer| footer.duration_ns).or(last_ns).unwrap_or(0);
    let header = &log.header;
    let metrics = summarise(&samples, duration_ns, &header.metrics);
    let mut report = Report::new(header.about.clone(), metrics);
    report.about.partial |= log.is_partial();
    let result = serde_json::to_value(json::render(&report, false))
        .map_err(|error| Error::internal(format!("the figures of a run log are not JSON: {error}")))?;
    let rest = result.as_object().cloned().unwrap_or_default();
    let mut run = sobench::read(file, Raw { rest, ..Raw::default() });
    run.kind = FileKind::SobenchRunLog;
    run.settings.extend(load(log));
    if !log.is_judged {
        run.notices.push("killed before its answers were judged: it has no rates".to_owned());
        run.counts.clear();
    }
    run.requests = Some(samples.iter().map(|sample| request(sample, &header.metrics)).collect());
    log.check()?;
    Ok(run)
}

/// The terms of the load, as a result spells them.
fn load(log: &RunLog) -> Vec<(Field, String)> {
    let load = &log.header.load;
    let number = |it: usize| spelt(&it.into()).unwrap_or_default();
    let seconds = load.duration_ns.map(|ns| (ns as f64 / NS_PER_S).to_string());
    let ramp = load.ramp.as_ref().map(|ramp| format!("{} from {} to {}", ramp.strategy, ramp.start_rps, ramp.end_rps));
    // As a result writes it: `20260131-235959` for `2026-01-31T23:59:59.5+00:00`.
    let started: String = log.header.started.chars().take(19).filter(|it| it.is_ascii_digit() || *it == 'T').collect();
    let mut fields = vec![
        (Field::Date, started.replace('T', "-")),
        (Field::NumPrompts, number(log.requests.len())),
        (Field::ColdSchemaEvery, load.cold_schema_every.map_or_else(|| NONE.to_owned(), number)),
        (Field::DurationLimit, seconds.unwrap_or_else(|| NONE.to_owned())),
        (Field::MaxErrorRate, load.max_error_rate.map_or_else(|| NONE.to_owned(), |share| share.to_string())),
        (Field::MaxConsecutiveErrors, load.max_consecutive_errors.map_or_else(|| NONE.to_owned(), number)),
    ];
    fields.extend(ramp.map(|ramp| (Field::Ramp, ramp)));
    fields
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
