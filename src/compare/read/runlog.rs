//! A run log that was read, as a run. Knows no line of it.

use super::raw::Raw;
use super::{sobench, spelt};
use crate::compare::comparable::NONE;
use crate::compare::side::{Answer, Field, FileKind, Gaps, Request, Run};
use crate::error::{Error, Result};
use crate::metrics::excerpt::failure_words;
use crate::metrics::latency::chunk_gaps_ms;
use crate::metrics::quality::{ENDED_BY_ITSELF, is_correct};
use crate::metrics::{MetricsOptions, Sample, Tokens, summarise};
use crate::observation::Outcome;
use crate::report::{Report, json};
use crate::runlog::{Judged, RunLog, samples};
use crate::verdict::{NotScored, Verdict};

const NS_PER_S: f64 = 1e9;

/// The run of a log. What was not judged (the run was killed) has no verdict and no token counts.
///
/// # Errors
/// A figure that is no JSON, which is a defect.
pub fn of_log(file: &str, log: &RunLog) -> Result<Run> {
    let unknown = || Judged {
        verdict: Verdict::NotScored { why: NotScored::Cancelled },
        tokens: Tokens::default(),
        vllm_correct: None,
        white_space_run: false,
    };
    let missing: Vec<Judged> = if log.judged.is_none() { log.requests.iter().map(|_| unknown()).collect() } else { Vec::new() };
    let samples = samples(&log.requests, log.judged.as_deref().unwrap_or(&missing));
    let last_ns = samples.iter().filter_map(|sample| sample.observation.timing.end_ns).max();
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
    if log.judged.is_none() {
        run.notices.push("killed before its answers were judged: it has no rates".to_owned());
        run.counts.clear();
    }
    run.requests = Some(samples.iter().map(|sample| request(sample, &header.metrics)).collect());
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
    ];
    fields.extend(ramp.map(|ramp| (Field::Ramp, ramp)));
    fields
}

fn request(sample: &Sample<'_>, options: &MetricsOptions) -> Request {
    let (observation, verdict) = (sample.observation, sample.verdict);
    let latency = sample.latency(options);
    let reason = observation.finish_reason.as_deref();
    let ended = observation.outcome == Outcome::Completed && reason.is_some_and(|reason| ENDED_BY_ITSELF.contains(&reason));
    let answered = observation.outcome.is_answer();
    let taken_up = answered || observation.timing.first_content_ns().is_some();
    let failure = failure_words(&observation.outcome);
    Request {
        case: Some(sample.case.id.clone()),
        arm: Some(sample.case.arm),
        correct: is_correct(verdict),
        vllm_correct: sample.vllm_correct,
        complied: (ended && !matches!(verdict, Verdict::NotScored { .. })).then_some(*verdict == Verdict::Valid),
        accepted: (taken_up || observation.outcome != Outcome::Cancelled).then_some(taken_up),
        answered,
        ttft_ms: latency.ttft_ms,
        tpot_ms: latency.tpot_ms,
        e2el_ms: latency.e2el_ms,
        gaps: Gaps::Each(if sample.streamed(options) { chunk_gaps_ms(&observation.timing).collect() } else { Vec::new() }),
        sent_s: observation.timing.sent_ns.map(|ns| ns as f64 / NS_PER_S),
        input_tokens: sample.tokens.input,
        output_tokens: sample.tokens.output,
        answer: Some(Answer {
            text: observation.text.clone(),
            verdict: if failure.is_empty() { sobench::words(verdict) } else { failure },
        }),
    }
}
