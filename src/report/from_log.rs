//! From a run log to the report: what a run prints at its end, and what `sobench report` makes of the file later, by the same code.
//! Knows no server and no clock.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::dates::{date, timestamp};
use crate::driver::schedule::{Pace, Ramp, RampStrategy, RateStep, due_times};
use crate::error::{Error, Result};
use crate::metrics::client::ClientPart;
use crate::metrics::cold::FirstUses;
use crate::metrics::cold_load::ColdLoad;
use crate::metrics::offered::Offered;
use crate::metrics::outage::{Outage, outages};
use crate::metrics::parts::parts;
use crate::metrics::steady::SteadyState;
use crate::metrics::{Metrics, Sample, summarise};
use crate::report::curl::Resend;
use crate::report::shards;
use crate::report::view::View;
use crate::report::{About, Details, EngineAbout, LoadReport, RampAbout, Report, RpsChange};
use crate::runlog::{Header, RampTerms, RunLog};
use crate::shard::Shard;

/// Times without an answer that are named; of more, those with the most requests.
const MAX_OUTAGES: usize = 3;

/// Shows a run to `what`, with answers that are read from the log where they are not in memory.
pub fn with_view<T>(log: &RunLog, report: &Report, what: impl FnOnce(&View<'_>) -> Result<T>) -> Result<T> {
    let samples = log.requests.samples();
    let answer = |place: usize| log.answer(place).map(|answer| answer.text);
    let header = &log.header;
    let model = header.model.as_deref().or(report.about.model_id.as_deref());
    let is_gone = log.footer.as_ref().map_or(report.about.embedded, |footer| footer.cost.includes_server);
    let resend = model.and_then(|model| Resend::of(&report.about, model, &header.header_names, is_gone));
    let shown = what(&View { report, samples: &samples, answer: &answer, resend: resend.as_ref() })?;
    log.check()?;
    Ok(shown)
}

/// Makes the report; with every request in it if it is to be `detailed`, for which the log has to have its texts in memory.
///
/// # Errors
/// An answer that is shown as an example cannot be read again; the log's own terms make no sense.
pub fn report(log: &RunLog, detailed: bool) -> Result<Report> {
    let header = &log.header;
    let samples = log.requests.samples();
    let duration_ns = log.duration_ns();
    let mut metrics = summarise(&samples, duration_ns, &header.metrics);
    fill_excerpts(&mut metrics, log)?;
    let mut report = Report::new(about(log), metrics);
    report.percentile_metrics.clone_from(&header.percentile_metrics);
    report.queue_metrics.clone_from(&header.queue_metrics);
    report.load = Some(load(header, &samples, duration_ns)?);
    report.shards = shards::reports(header, &samples);
    report.client = match (&report.shards[..], &log.footer) {
        ([], footer) => footer.as_ref().map(|footer| ClientPart::of(&samples, &header.metrics, footer.cost, 0)),
        (shards, _) => shards::worst_client(shards),
    };
    report.parts = parts(&samples, duration_ns, &header.metrics);
    report.probe = log.footer.as_ref().and_then(|footer| footer.probe.clone());
    report.spec_decode = log.footer.as_ref().and_then(|footer| footer.spec_decode.clone());
    report.details = detailed.then(|| Details::of(&samples, &header.metrics));
    report.about.notices.extend(rounded(&report.metrics));
    report.about.notices.extend(away(&samples));
    log.check()?;
    Ok(report)
}

fn about(log: &RunLog) -> About {
    let (header, footer) = (&log.header, log.footer.as_ref());
    let planned = &header.about;
    About {
        date: Some(date(header.started())),
        num_prompts: Some(log.requests.len()),
        request_rate: planned.request_rate.map(|rate| rate / header.part().of as f64),
        max_concurrency: header.own_cap(),
        // What the engine had done before the run is no figure of it.
        engine: match footer {
            Some(footer) => footer.engine.clone(),
            None => planned.engine.clone().map(|engine| EngineAbout { work: None, ..engine }),
        },
        partial: log.is_partial(),
        notices: shards::part_notice(header)
            .into_iter()
            .chain(shards::merged_notices(header))
            .chain(partial_notice(log))
            .chain(planned.notices.clone())
            .chain(footer.map(|footer| footer.notices.clone()).unwrap_or_default())
            .chain(log.notices.clone())
            .collect(),
        ..planned.clone()
    }
}

/// What the reader has to know of figures that are not exact.
fn rounded(metrics: &Metrics) -> Option<String> {
    let itl = &metrics.overall.latency.itl_ms;
    itl.within_percent.map(|percent| {
        format!("median and percentiles of the {} gaps between chunks (ITL) are right within {percent} %, means are exact", itl.n)
    })
}

/// When nobody was there to answer.
fn away(samples: &[Sample<'_>]) -> Option<String> {
    let mut found = outages(samples);
    let (all, s) = (found.len(), |ns: u64| ns as f64 / 1e9);
    found.sort_by_key(|it| std::cmp::Reverse(it.requests));
    found.truncate(MAX_OUTAGES);
    found.sort_by_key(|it| it.from_ns);
    let words = |it: &Outage| match it.to_ns {
        Some(to_ns) => format!("from {:.1} s to {:.1} s ({} requests)", s(it.from_ns), s(to_ns), it.requests),
        None => format!("from {:.1} s on ({} requests)", s(it.from_ns), it.requests),
    };
    let times: Vec<String> = found.iter().map(words).collect();
    let more = if all > found.len() { format!(", and {} times more", all - found.len()) } else { String::new() };
    (all > 0)
        .then(|| format!("nobody was there to answer {} of the run{more}: rates and throughput are with it", times.join(", ")))
}

fn partial_notice(log: &RunLog) -> Option<String> {
    match &log.footer {
        Some(footer) if footer.interrupted => {
            Some("partial: the run was interrupted, what had not ended by then is cancelled".to_owned())
        }
        Some(footer) => {
            let of_what = |why: &String| match log.is_partial() {
                true => format!("partial: {why}; what had not been sent by then is cancelled"),
                false => format!("{why}; nothing was left to be sent by then"),
            };
            footer.broken_off.as_ref().map(of_what)
        }
        None => Some(format!(
            "partial: the run log has no end, as of a run that was killed; {} of {} prepared requests had ended, what was under way is \
             lost, and of the client's own part nothing is known",
            log.requests.len(),
            log.header.own_requests()
        )),
    }
}

fn load(header: &Header, samples: &[Sample<'_>], duration_ns: u64) -> Result<LoadReport> {
    let (terms, seed) = (&header.load, header.load.seed);
    // What another shard sent before is in none of these figures.
    let is_whole = header.part() == Shard::WHOLE;
    let known: HashSet<String> = header.known_constraints.iter().cloned().collect();
    Ok(LoadReport {
        asked_rps: terms.request_rate.map(|rate| rate / header.part().of as f64),
        ramp: terms.ramp.as_ref().map(|ramp| ramp_about(ramp, header, samples)).transpose()?,
        max_error_rate: terms.max_error_rate,
        max_consecutive_errors: terms.max_consecutive_errors,
        duration_limit_s: terms.duration_ns.map(|ns| Duration::from_nanos(ns).as_secs_f64()),
        offered: Offered::of(samples),
        max_concurrency: header.own_cap(),
        first_uses: if is_whole { FirstUses::of(samples, &header.metrics, &known, seed) } else { None },
        cold_load: terms.cold_schema_every.filter(|_| is_whole).map(|every| ColdLoad::of(samples, &header.metrics, every, seed)),
        steady_state: header
            .own_cap()
            .and_then(|target| SteadyState::of(samples, duration_ns, &header.metrics, target, terms.steady_state_threshold)),
    })
}

fn ramp_about(terms: &RampTerms, header: &Header, samples: &[Sample<'_>]) -> Result<RampAbout> {
    let known = [RampStrategy::Linear, RampStrategy::Exponential];
    let strategy = known.into_iter().find(|strategy| strategy.name() == terms.strategy).ok_or_else(|| {
        Error::usage(format!("the run log names a ramp that is not known: {}", terms.strategy))
            .hint("use the sobench that wrote it, or a newer one")
    })?;
    let ramp = Ramp { strategy, start_rps: terms.start_rps, end_rps: terms.end_rps };
    let planned = header.load.requests;
    let due = due_times(planned, Pace::Ramp(ramp), header.load.burstiness, header.load.seed);
    let came = samples.last().map_or(0, |sample| sample.case_index() + 1);
    let steps = ramp.steps(planned, &due[..came.min(planned)]);
    let change = |step: RateStep| RpsChange { rps: step.rps, timestamp: timestamp(header.started() + step.at) };
    Ok(RampAbout {
        strategy: terms.strategy.clone(),
        start_rps: ramp.start_rps,
        end_rps: ramp.end_rps,
        events: steps.into_iter().map(change).collect(),
        rates: samples.iter().map(|sample| ramp.rate_at(sample.case_index(), planned)).collect(),
    })
}

/// Puts the answers into the examples: the few that are shown are all that is read again.
fn fill_excerpts(metrics: &mut Metrics, log: &RunLog) -> Result<()> {
    let shown: HashSet<String> = metrics.excerpts_mut().map(|excerpt| excerpt.case_id.clone()).collect();
    if shown.is_empty() {
        return Ok(());
    }
    let requests = log.requests.iter().enumerate().map(|(place, it)| (it.id(), place));
    let places: HashMap<String, usize> = requests.filter(|(id, _)| shown.contains(id)).collect();
    for excerpt in metrics.excerpts_mut() {
        if let Some(&place) = places.get(excerpt.case_id.as_str()) {
            excerpt.show(&log.answer(place)?.text);
        }
    }
    Ok(())
}
