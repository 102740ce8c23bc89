//! Results of sobench (`report::json`), with or without requests.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::raw::{Output, Raw};
use super::{MS_PER_S, figures, number, set_times};
use crate::compare::side::{Answer, FileKind, Gaps, Request, Run};
use crate::metrics::accuracy::ArmPairs;
use crate::metrics::client_overhead::Bounds;
use crate::metrics::quality::compliance;
use crate::metrics::registry::rates::ACCURACY_OF_ARMS;
use crate::metrics::registry::{self, Kind, RequestValues, Values, rates};
use crate::record::RunRecord;
use sobench_core::error::{Error, Result};
use sobench_core::observation::Outcome;
use sobench_core::verdict::{NotScored, Reason, Verdict};
use sobench_judge::accuracy::Grade;
use sobench_notices::enforcement::State;

/// The members under the key `sobench`, as far as a comparison needs them.
#[derive(Deserialize)]
struct Own {
    record: RunRecord,
    #[serde(default)]
    partial: bool,
    client: Option<OwnClient>,
    /// `None` in results of older versions, which have only `quality` and `overall`.
    metrics: Option<Values>,
    accuracy: Option<OwnAccuracy>,
    quality: Value,
    overall: Value,
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
    run.set_values(
        &own.metrics
            .unwrap_or_else(|| values_by_part(&own.quality, &own.overall)),
    );
    run.requests = requests(raw);
    Ok(run)
}

/// The metrics of a result of an older version, from its parts.
fn values_by_part(quality: &Value, overall: &Value) -> Values {
    let latency = &overall["latency"];
    Values::from_fn(|metric| {
        let name = metric.name;
        let found = match metric.kind {
            Kind::Rate { .. } if *metric == rates::VLLM_CORRECT_RATE => {
                &quality["vllm"]["correct_rate"]
            }
            Kind::Rate { .. } => &quality[name],
            Kind::Distribution { .. } | Kind::Pooled(_) => [latency, &latency["reasoning"]]
                .map(|part| &part[name])[usize::from(latency[name].is_null())],
            Kind::PerSecond(_) | Kind::Total(_) => &overall["throughput"][name],
        };
        registry::Value::read(metric, found)
    })
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
            "the client may have added too much to some figures: they are not compared",
        ),
    ];
    notices
        .into_iter()
        .filter(|(applies, _)| *applies)
        .map(|(_, text)| text.to_owned())
        .collect()
}

/// `None` if a column is missing or has a different length.
fn requests(raw: Raw) -> Option<Vec<Request>> {
    let (outputs, ttfts, itls, latencies, starts) = (
        raw.outputs?,
        raw.ttfts?,
        raw.itls?,
        raw.latencies?,
        raw.start_times?,
    );
    let errors = raw.errors.unwrap_or_default();
    let n = outputs.len();
    if [ttfts.len(), itls.len(), latencies.len(), starts.len()] != [n; 4] {
        return None;
    }
    let requests = outputs
        .into_iter()
        .zip(itls)
        .enumerate()
        .map(|(index, (output, itls))| {
            let error = errors
                .get(index)
                .cloned()
                .flatten()
                .filter(|message| !message.is_empty());
            request(
                output,
                error,
                [ttfts[index], latencies[index], starts[index]],
                itls,
            )
        });
    Some(requests.collect())
}

fn request(
    output: Output,
    error: Option<String>,
    [ttft_s, e2el_s, sent_s]: [Option<f64>; 3],
    itls: Vec<f64>,
) -> Request {
    let of_outcome = |member: &str| {
        output
            .outcome
            .as_ref()
            .and_then(|outcome| outcome.get(member))
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let kind = of_outcome("kind");
    // The same rule as in `metrics::quality::is_taken_up`.
    let is_abandoned = kind == Outcome::Abandoned.name();
    let reached_server = kind != "cancelled"
        && !is_abandoned
        && (kind, of_outcome("cause")) != ("transport", "local");
    let answered = matches!(kind, "completed" | "truncated");
    let verdict = output
        .verdict
        .and_then(|verdict| serde_json::from_value::<Verdict>(verdict).ok());
    let finish_reason = output.finish_reason.as_deref();
    let complied = verdict
        .as_ref()
        .and_then(|verdict| compliance(verdict, kind, finish_reason));
    let taken_up = answered || ttft_s.is_some();
    let shown_verdict =
        error.unwrap_or_else(|| verdict.as_ref().map(verdict_text).unwrap_or_default());
    let mut values = RequestValues::default();
    values.set_correct(output.correctness);
    values.set_hit(&rates::VLLM_CORRECT_RATE, output.vllm_correctness);
    values.set_hit(&rates::COMPLIANCE, complied);
    for (_, accuracy, unparsed) in ACCURACY_OF_ARMS {
        let is = |grade: Grade| output.accuracy.map(|own| own == grade);
        values.set_hit(accuracy, is(Grade::Right));
        values.set_hit(unparsed, is(Grade::Unparsed));
    }
    values.set_hit(
        &rates::COVERAGE,
        (taken_up && !is_abandoned || reached_server).then_some(taken_up),
    );
    // The same rule as in `metrics::latency::tpot_ms`: at least two tokens in at least two chunks.
    set_times(
        &mut values,
        ttft_s,
        e2el_s,
        output.tokens.output.filter(|_| !itls.is_empty()),
    );
    Request {
        case: output.case,
        arm: output.arm,
        answered,
        values,
        gaps: Gaps::Each(itls.into_iter().map(|gap_s| gap_s * MS_PER_S).collect()),
        sent_s,
        input_tokens: output.tokens.input,
        output_tokens: output.tokens.output,
        answer: Some(Answer {
            text: output.generated.unwrap_or_default(),
            verdict: shown_verdict,
        }),
    }
}

/// A verdict as text.
pub(super) fn verdict_text(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Valid => "valid".to_owned(),
        Verdict::Invalid { reason } => Reason::to_string(reason),
        Verdict::NotScored { why } => NotScored::to_string(why),
    }
}
