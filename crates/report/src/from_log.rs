//! Makes the report of a run log, at the end of a run and for `sobench report`.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use crate::arm_difference::ArmDifferences;
use crate::curl::Resend;
use crate::refusals;
use crate::view::View;
use crate::{LoadFigures, RampFigures, Report, RpsChange, shards};
use sobench_core::answer::Answer;
use sobench_core::case::Arm;
use sobench_core::dates::timestamp;
use sobench_core::error::Result;
use sobench_core::error_message::error_message;
use sobench_core::schedule::{Ramp, RateStep, due_times};
use sobench_core::shard::Shard;
use sobench_facts::Sample;
use sobench_notices::notice::{BenchNotice, FigureNotice, LogNotice, Notice, OutageSpan};
use sobench_plan::record::{Engine, RunRecord};
use sobench_results::metrics::client_overhead::run_overhead;
use sobench_results::metrics::cold_load::ColdLoad;
use sobench_results::metrics::first_uses::FirstUses;
use sobench_results::metrics::offered_load::OfferedLoad;
use sobench_results::metrics::outage::{Outage, outages};
use sobench_results::metrics::registry::latencies;
use sobench_results::metrics::server::MIB;
use sobench_results::metrics::steady_state::SteadyState;
use sobench_results::metrics::{Metrics, summarise_with_server};
use sobench_results::to_explain::{ToExplain, is_refused};
use sobench_runlog::RunLog;

/// Outages that are listed; of more, those with the most requests.
const MAX_OUTAGES: usize = 3;

/// Calls `show` with a run. Answers are read from the log.
pub fn with_view<T>(
    log: &RunLog,
    report: &Report,
    show: impl FnOnce(&View<'_>) -> Result<T>,
) -> Result<T> {
    let samples = log.requests.samples();
    let answers = RefCell::new(log.answers());
    let answer =
        |place: usize| -> Result<Answer> { Ok(answers.borrow_mut().read(samples[place])?.answer) };
    let resend = resend(log);
    let shown = show(&View {
        report,
        samples: &samples,
        answer: &answer,
        resend: Some(&resend),
        run_log: log.source().path(),
        requirements: None,
    })?;
    log.check()?;
    Ok(shown)
}

/// How requests of a run are sent again.
pub fn resend(log: &RunLog) -> Resend {
    let record = &log.record;
    let is_gone = log
        .footer
        .as_ref()
        .map_or(record.server.embedded, |footer| footer.cost.includes_server);
    Resend::new(record, is_gone)
}

/// Makes the report.
///
/// # Errors
/// An answer that is shown as an example cannot be read.
pub fn report(log: &RunLog) -> Result<Report> {
    let (record, footer) = (&log.record, log.footer.as_ref());
    let options = &record.settings.metrics;
    let samples = log.requests.samples();
    let duration_ns = log.duration_ns();
    let mut metrics = summarise_with_server(&samples, duration_ns, options, &log.server);
    fill_excerpts(&mut metrics, log)?;
    let shards = shards::reports(record, &samples, &metrics.values);
    let client =
        run_overhead(log, &samples, &metrics.values).or_else(|| shards::worst_client(&shards));
    let report = Report {
        record: record.clone(),
        requests: log.requests.len(),
        // Work of the engine before the run is not part of the run.
        engine: match footer {
            Some(footer) => footer.engine.clone(),
            None => record.server.engine.clone().map(|engine| Engine {
                work: None,
                ..engine
            }),
        },
        partial: log.is_partial(),
        notices: notices(log, &metrics, &samples),
        metrics,
        load: Some(load(record, &samples, duration_ns)),
        client,
        differences: ArmDifferences::new(&samples, options, record.settings.dataset.seed),
        shards,
        probe: footer.and_then(|footer| footer.probe.clone()),
        recovery: footer.and_then(|footer| footer.recovery.clone()),
        spec_decode: footer.and_then(|footer| footer.spec_decode.clone()),
        refusals: refusals::sentence(&samples),
        to_explain: ToExplain::new(&samples, &record.server),
    };
    log.check()?;
    Ok(report)
}

fn notices(log: &RunLog, metrics: &Metrics, samples: &[Sample<'_>]) -> Vec<Notice> {
    let record = &log.record;
    shards::part_notice(record)
        .into_iter()
        .chain(shards::merged_notices(record))
        .chain(partial_notice(log))
        .chain(record.notices.clone())
        .chain(
            log.footer
                .as_ref()
                .map(|footer| footer.notices.clone())
                .unwrap_or_default(),
        )
        .chain(log.notices.clone())
        .chain(refusal_notice(record, samples))
        .chain(rounding_notice(metrics))
        .chain(outage_notice(samples))
        .chain(server_notices(metrics))
        .collect()
}

/// Notice on the refused constraint of a run that had no answer to a constrained request. `None` if
/// the trial run found the refusal or no answer at all, and if the requests were refused for a reason that is unrelated
/// to the constraint: by the status, or because the control arm has no answer either.
fn refusal_notice(record: &RunRecord, samples: &[Sample<'_>]) -> Option<Notice> {
    let is_of_trial = |notice: &Notice| {
        matches!(
            notice,
            Notice::Bench(BenchNotice::ConstraintRefused { .. } | BenchNotice::TrialFailed { .. })
        )
    };
    let (constrained, control): (Vec<&Sample<'_>>, Vec<&Sample<'_>>) = samples
        .iter()
        .partition(|sample| sample.arm() == Arm::Constrained);
    let answers_without = control.iter().any(|sample| sample.outcome().is_answer());
    if record.notices.iter().any(is_of_trial)
        || !constrained.iter().all(|sample| is_refused(sample))
        || !(control.is_empty() || answers_without)
    {
        return None;
    }
    constrained.into_iter().find_map(|sample| {
        let (status, body) = sample.outcome().content_refusal()?;
        let constraint = sample.constraint().map(|constraint| &**constraint);
        let id = sample.id();
        let message = error_message(body);
        let notice = BenchNotice::constraint_refused(
            id,
            constraint,
            status,
            &message,
            answers_without,
            None,
        );
        Some(notice.into())
    })
}

/// Notice on rounded percentiles.
fn rounding_notice(metrics: &Metrics) -> Option<Notice> {
    let itl = metrics.values.summary(&latencies::ITL);
    itl.within_percent.map(|within_percent| {
        FigureNotice::RoundedItl {
            gaps: itl.n,
            within_percent,
        }
        .into()
    })
}

/// Notices on restarts and on memory that only grows.
fn server_notices(metrics: &Metrics) -> Vec<Notice> {
    let Some(server) = &metrics.server else {
        return Vec::new();
    };
    let restarted = (server.restarts > 0).then_some(FigureNotice::ServerRestarted {
        times: server.restarts,
    });
    let growth = server
        .memory_growth
        .filter(|growth| growth.never_gives_back);
    let grows = growth.map(|growth| FigureNotice::ServerMemoryGrows {
        mib: growth.bytes_per_constraint / MIB,
        low_mib: growth.low / MIB,
        high_mib: growth.high / MIB,
        constraints: growth.constraints,
    });
    restarted
        .into_iter()
        .chain(grows)
        .map(Notice::from)
        .collect()
}

/// Notice on server outages.
fn outage_notice(samples: &[Sample<'_>]) -> Option<Notice> {
    let mut found = outages(samples);
    let (all, s) = (found.len(), |ns: u64| ns as f64 / 1e9);
    found.sort_by_key(|outage| std::cmp::Reverse(outage.requests));
    found.truncate(MAX_OUTAGES);
    found.sort_by_key(|outage| outage.from_ns);
    let span = |outage: &Outage| OutageSpan {
        from_s: s(outage.from_ns),
        to_s: outage.to_ns.map(s),
        requests: outage.requests,
    };
    let spans: Vec<OutageSpan> = found.iter().map(span).collect();
    (all > 0).then(|| {
        FigureNotice::Outages {
            more: all - spans.len(),
            spans,
        }
        .into()
    })
}

fn partial_notice(log: &RunLog) -> Option<Notice> {
    let notice = match &log.footer {
        Some(footer) if footer.interrupted => LogNotice::Interrupted,
        Some(footer) => {
            let why = footer.broken_off.clone()?;
            if log.is_partial() {
                LogNotice::GaveUp { why }
            } else {
                LogNotice::GaveUpAfterLastRequest { why }
            }
        }
        None => LogNotice::Killed {
            ended: log.requests.len(),
            prepared: log.record.own_requests(),
        },
    };
    Some(notice.into())
}

fn load(record: &RunRecord, samples: &[Sample<'_>], duration_ns: u64) -> LoadFigures {
    let (settings, seed) = (&record.settings, record.settings.dataset.seed);
    let (load, options) = (&settings.load, &settings.metrics);
    // Constraints that other or missing shards sent before are unknown, so these figures are left out.
    let has_all = record.merged.iter().all(|shard| !shard.missing);
    let is_whole = record.part() == Shard::WHOLE && has_all;
    let known: HashSet<String> = record.known_constraints.iter().cloned().collect();
    LoadFigures {
        ramp: load
            .pace
            .ramp()
            .map(|ramp| ramp_figures(ramp, record, samples)),
        offered: OfferedLoad::new(samples),
        first_uses: if is_whole {
            FirstUses::new(samples, options, &known, seed)
        } else {
            None
        },
        cold_load: load
            .cold_schema_every
            .filter(|_| is_whole)
            .map(|every| ColdLoad::new(samples, options, every, seed)),
        steady_state: record.own_cap().and_then(|target| {
            SteadyState::new(
                samples,
                duration_ns,
                options,
                target,
                load.steady_state_threshold,
            )
        }),
    }
}

fn ramp_figures(ramp: Ramp, record: &RunRecord, samples: &[Sample<'_>]) -> RampFigures {
    let planned = record.dataset.requests;
    let load = &record.settings.load;
    let due = due_times(
        planned,
        load.pace,
        load.burstiness,
        record.settings.dataset.seed,
    );
    let reached = samples.last().map_or(0, |sample| sample.case_index() + 1);
    let steps = ramp.steps(planned, &due[..reached.min(planned)]);
    let change = |step: RateStep| RpsChange {
        rps: step.rps,
        timestamp: timestamp(record.started() + step.at),
    };
    RampFigures {
        events: steps.into_iter().map(change).collect(),
        rates: samples
            .iter()
            .map(|sample| ramp.rate_at(sample.case_index(), planned))
            .collect(),
    }
}

/// Puts answers into the examples. Only the examples' answers are read.
fn fill_excerpts(metrics: &mut Metrics, log: &RunLog) -> Result<()> {
    let shown: HashSet<String> = metrics
        .examples_mut()
        .map(|excerpt| excerpt.case_id.clone())
        .collect();
    if shown.is_empty() {
        return Ok(());
    }
    let requests = log
        .requests
        .iter()
        .enumerate()
        .map(|(place, request)| (request.id(), place));
    let places: HashMap<String, usize> = requests.filter(|(id, _)| shown.contains(id)).collect();
    for excerpt in metrics.examples_mut() {
        if let Some(&place) = places.get(excerpt.case_id.as_str()) {
            excerpt.set_text(&log.answer(place)?.answer.text());
        }
    }
    Ok(())
}
