//! Results of sobench (`report::json`), with or without requests.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::outputs::OutputView;
use super::raw::Raw;
use super::{MS_PER_S, figures, number, set_times};
use crate::compare::requests::{Gaps, Request, Requests};
use crate::compare::side::{FileKind, Run};
use crate::metrics::accuracy::ArmPairs;
use crate::metrics::client_overhead::Bounds;
use crate::metrics::registry::{self, Figure, Metric, RequestValues, rates};
use sobench_core::case::Arm;
use sobench_core::error::{Error, Result};
use sobench_judge::accuracy::Grade;
use sobench_notices::enforcement::State;
use sobench_plan::record::RunRecord;

/// The members under the key `sobench`, as far as a comparison needs them.
#[derive(Deserialize)]
struct Own {
    record: RunRecord,
    #[serde(default)]
    partial: bool,
    client: Option<OwnClient>,
    /// `None` in results of older versions, which have only `quality` and `overall`.
    metrics: Option<Map<String, Value>>,
    #[serde(default)]
    groups: Vec<OwnGroup>,
    accuracy: Option<OwnAccuracy>,
    #[serde(default)]
    quality: Value,
    /// Only in results of versions before `metrics`.
    #[serde(default)]
    overall: Value,
}

/// The figures of a group; those of an arm have no other member.
#[derive(Deserialize)]
struct OwnGroup {
    arm: Option<Arm>,
    metrics: Map<String, Value>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Deserialize)]
struct OwnAccuracy {
    pairs: Vec<ArmPairs>,
}

#[derive(Deserialize)]
struct OwnClient {
    /// Empty in results of older versions.
    #[serde(default)]
    bounds: Bounds,
}

pub(super) fn read(file: &str, mut raw: Raw) -> Result<Run> {
    let own: Own = serde_json::from_value(raw.rest.remove("sobench").unwrap_or_default()).map_err(|error| {
        Error::usage(format!("cannot read the run record of this result ({error}): {file}"))
            .hint("create it again from its run log with sobench report --format json, or run the benchmark again")
    })?;
    let requests_of = raw
        .rest
        .get("num_prompts")
        .and_then(Value::as_u64)
        .and_then(|count| usize::try_from(count).ok());
    let distrusted = own.client.map_or_else(BTreeMap::new, |client| {
        client.bounds.distrusted_figures().collect()
    });
    let mut run = Run {
        file: file.to_owned(),
        kind: FileKind::SobenchResult,
        conditions: own
            .record
            .conditions(requests_of.unwrap_or_else(|| own.record.own_requests())),
        duration_s: raw.rest.get("duration").and_then(number),
        figures: figures(&raw.rest),
        notices: notices(&own.record, own.partial, !distrusted.is_empty()),
        is_partial: own.partial,
        distrusted,
        arm_pairs: own
            .accuracy
            .map_or_else(Vec::new, |accuracy| accuracy.pairs)
            .into_iter()
            .filter(|pairs| pairs.sample.is_consistent())
            .collect(),
        ..Run::default()
    };
    let values = match own.metrics {
        Some(metrics) => {
            let arms = own.groups.iter().filter(|group| group.others.is_empty());
            let mut values = members(&metrics, None);
            values.extend(arms.flat_map(|group| members(&group.metrics, group.arm)));
            values
        }
        None => values_by_part(&own.quality, &own.overall),
    };
    run.set_values(values.iter().map(|(figure, value)| (*figure, value)));
    run.requests = requests(raw);
    Ok(run)
}

/// The metrics of an object by name; of an arm, those that tables show of it.
fn members(metrics: &Map<String, Value>, arm: Option<Arm>) -> Vec<(Figure, registry::Value)> {
    let known = metrics.iter().filter_map(|(name, value)| {
        let named = Metric::named(name).map(Figure::new);
        // Older versions have metrics for arms.
        let figure = named.or_else(|| Figure::parse(name).ok())?;
        let figure = match arm {
            Some(arm) => Figure::of(figure.metric, Some(figure.arm.unwrap_or(arm))),
            None => figure,
        };
        let is_shown = arm.is_none()
            || figure
                .arm
                .is_some_and(|arm| figure.metric.also_of.contains(&arm));
        Some((figure, registry::Value::read(figure.metric, value)?)).filter(|_| is_shown)
    });
    known.collect()
}

/// The metrics of a result of an older version, from its parts.
fn values_by_part(quality: &Value, overall: &Value) -> Vec<(Figure, registry::Value)> {
    let latency = &overall["latency"];
    let mut parts = quality.as_object().cloned().unwrap_or_default();
    parts.insert(
        rates::VLLM_CORRECT_RATE.name.to_owned(),
        quality["vllm"]["correct_rate"].clone(),
    );
    let of_run = [&overall["throughput"], &latency["reasoning"], latency];
    for part in of_run.into_iter().filter_map(Value::as_object) {
        parts.extend(part.clone());
    }
    members(&parts, None)
}

/// Notices about a run for the reader of a comparison.
pub(super) fn notices(record: &RunRecord, partial: bool, distrusted: bool) -> Vec<String> {
    let notices = [
        (partial, "partial: the run was stopped early"),
        (
            record.enforcement.state == State::NotEnforced,
            "CONSTRAINT NOT ENFORCED: the figures describe unconstrained answers",
        ),
        (
            distrusted,
            "the client may have added much to some figures, which is taken off their differences",
        ),
    ];
    notices
        .into_iter()
        .filter(|(applies, _)| *applies)
        .map(|(_, text)| text.to_owned())
        .collect()
}

/// `None` if a column is missing or has a different length.
fn requests(raw: Raw) -> Option<Requests> {
    let (outputs, ttfts, itls, latencies, starts) = (
        raw.outputs?,
        raw.ttfts?,
        raw.itls?,
        raw.latencies?,
        raw.start_times?,
    );
    let errors = raw.errors.unwrap_or_default();
    let n = outputs.rows as usize;
    if [ttfts.len(), itls.len(), latencies.len(), starts.len()] != [n; 4] {
        return None;
    }
    let requests = outputs.iter().enumerate().map(|(index, output)| Request {
        case: output.case(),
        sent_s: starts.get(index),
        verdict: errors
            .get(index)
            .or_else(|| output.verdict())
            .map(str::to_owned)
            .or_else(|| Some(String::new())),
        ..request(
            output,
            [ttfts.get(index), latencies.get(index)],
            itls.get(index),
        )
    });
    Some(requests.collect())
}

/// A request without its case, its start and its verdict.
fn request(output: OutputView<'_>, [ttft_s, e2el_s]: [Option<f64>; 2], itls: &[f64]) -> Request {
    let (answered, is_abandoned) = (output.answered(), output.is_abandoned());
    let taken_up = answered || ttft_s.is_some();
    let mut values = RequestValues::default();
    values.set_hit(&rates::CORRECT_RATE, output.correctness());
    values.set_hit(&rates::VLLM_CORRECT_RATE, output.vllm_correctness());
    values.set_hit(&rates::COMPLIANCE, output.complied());
    let is = |grade: Grade| output.accuracy().map(|own| own == grade);
    values.set_hit(&rates::ACCURACY, is(Grade::Right));
    values.set_hit(&rates::UNPARSED_RATE, is(Grade::Unparsed));
    values.set_hit(
        &rates::COVERAGE,
        (taken_up && !is_abandoned || output.reached_server()).then_some(taken_up),
    );
    // The same rule as in `metrics::latency::tpot_ms`: at least two tokens in at least two chunks.
    set_times(
        &mut values,
        ttft_s,
        e2el_s,
        output.output_tokens().filter(|_| !itls.is_empty()),
    );
    Request {
        arm: output.arm(),
        answered,
        values,
        gaps: Gaps::Each(itls.iter().map(|gap_s| gap_s * MS_PER_S).collect()),
        input_tokens: output.input_tokens(),
        output_tokens: output.output_tokens(),
        ..Request::default()
    }
}
