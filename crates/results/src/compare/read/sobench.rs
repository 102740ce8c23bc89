//! sobench's own result (`report::json`), with or without the requests.

use serde::Deserialize;
use serde_json::Value;

use super::raw::{Output, Raw};
use super::{MS_PER_S, figures, number, set_times};
use crate::compare::side::{Answer, FileKind, Gaps, Request, Run};
use crate::metrics::client::ClientVerdict;
use crate::metrics::quality::ENDED_BY_ITSELF;
use crate::metrics::registry::{self, Kind, RequestValues, Values, rates};
use crate::record::RunRecord;
use sobench_core::error::{Error, Result};
use sobench_core::verdict::{NotScored, Reason, Verdict};
use sobench_notices::enforcement::State;

/// The part of a result that vLLM has no keys for, as far as a comparison looks at it.
#[derive(Deserialize)]
struct Own {
    record: RunRecord,
    #[serde(default)]
    partial: bool,
    client: Option<OwnClient>,
    /// `None` in results of sobench before it wrote every metric by its name: they have the next
    /// two alone.
    metrics: Option<Values>,
    quality: Value,
    overall: Value,
}

#[derive(Deserialize)]
struct OwnClient {
    verdict: ClientVerdict,
}

pub(super) fn read(file: &str, mut raw: Raw) -> Result<Run> {
    let own: Own = serde_json::from_value(raw.rest.remove("sobench").unwrap_or_default()).map_err(|error| {
        Error::usage(format!("this result has no run record that can be read ({error}): {file}"))
            .hint("make it again from its run log, with sobench report --format json, or run the benchmark again")
    })?;
    let requests_of = raw
        .rest
        .get("num_prompts")
        .and_then(Value::as_u64)
        .and_then(|count| usize::try_from(count).ok());
    let distrusted = own
        .client
        .as_ref()
        .is_some_and(|client| client.verdict == ClientVerdict::DoNotTrust);
    let mut run = Run {
        file: file.to_owned(),
        kind: FileKind::SobenchResult,
        conditions: own
            .record
            .conditions(requests_of.unwrap_or_else(|| own.record.own_requests())),
        duration_s: raw.rest.get("duration").and_then(number),
        figures: figures(&raw.rest),
        notices: notices(&own.record, own.partial, distrusted),
        ..Run::default()
    };
    run.set_values(
        &own.metrics
            .unwrap_or_else(|| values_by_part(&own.quality, &own.overall)),
    );
    run.requests = requests(raw);
    Ok(run)
}

/// The metrics of a result that has them in its parts alone, each under its name.
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

/// What a reader of a comparison has to know of a run.
pub(super) fn notices(record: &RunRecord, partial: bool, distrusted: bool) -> Vec<String> {
    let notices = [
        (partial, "partial: the run was stopped before its end"),
        (
            record.enforcement.state == State::NotEnforced,
            "CONSTRAINT NOT ENFORCED: its figures are those of plain text",
        ),
        (
            distrusted,
            "its client stood in the way: do not trust its latencies",
        ),
    ];
    notices
        .into_iter()
        .filter(|(holds, _)| *holds)
        .map(|(_, words)| words.to_owned())
        .collect()
}

/// `None` where a column is missing or of another length than the records.
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
        .map(|(place, (output, itls))| {
            let error = errors
                .get(place)
                .cloned()
                .flatten()
                .filter(|words| !words.is_empty());
            request(
                output,
                error,
                [ttfts[place], latencies[place], starts[place]],
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
            .and_then(|it| it.get(member))
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let kind = of_outcome("kind");
    // As `metrics::quality::is_taken_up`.
    let came_there = kind != "cancelled" && (kind, of_outcome("cause")) != ("transport", "local");
    let answered = matches!(kind, "completed" | "truncated");
    let verdict = output
        .verdict
        .and_then(|verdict| serde_json::from_value::<Verdict>(verdict).ok());
    let ended = kind == "completed"
        && output
            .finish_reason
            .as_deref()
            .is_some_and(|it| ENDED_BY_ITSELF.contains(&it));
    let complied = match &verdict {
        Some(Verdict::Valid) if ended => Some(true),
        Some(Verdict::Invalid { .. }) if ended => Some(false),
        _ => None,
    };
    let taken_up = answered || ttft_s.is_some();
    let words = error.unwrap_or_else(|| verdict.as_ref().map(words).unwrap_or_default());
    let mut values = RequestValues::default();
    values.set_correct(output.correctness);
    values.set_hit(&rates::VLLM_CORRECT_RATE, output.vllm_correctness);
    values.set_hit(&rates::COMPLIANCE, complied);
    values.set_hit(
        &rates::COVERAGE,
        (taken_up || came_there).then_some(taken_up),
    );
    // As `metrics::latency::tpot_ms`: of answers of two tokens or more in two chunks or more.
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
        gaps: Gaps::Each(itls.into_iter().map(|it| it * MS_PER_S).collect()),
        sent_s,
        input_tokens: output.tokens.input,
        output_tokens: output.tokens.output,
        answer: Some(Answer {
            text: output.generated.unwrap_or_default(),
            verdict: words,
        }),
    }
}

/// A verdict in words.
pub(super) fn words(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Valid => "valid".to_owned(),
        Verdict::Invalid { reason } => Reason::to_string(reason),
        Verdict::NotScored { why } => NotScored::to_string(why),
    }
}
