//! The result of `vllm bench serve`: one line of JSON.
//!
//! `max_output_tokens_per_s` is vLLM's figure, which counts chunks; the same key in sobench's own
//! layout counts tokens. Cancelled requests are `failed`, since vLLM has no other key. Keys of the
//! probe and of speculative decoding are present where vLLM would write them. Keys of diffusion and
//! of the server's queue are left out.

use super::{Column, SavedResult, answered, empty};
use crate::json::{self, Identity, Totals};
use crate::view::View;
use sobench_core::case::Prompt;
use sobench_facts::Sample;
use sobench_plan::metrics::Answers;
use sobench_results::metrics::registry::{latencies, totals};

/// Columns that are kept without `--save-detailed`, as in vLLM.
const KEPT: [Column; 2] = [Column::Latencies, Column::QueueTimes];

/// The file of a run, with every request in it if `detailed`.
pub fn document(view: View<'_>, detailed: bool) -> SavedResult<'_> {
    let mut document = empty(view);
    settings(&mut document);
    match document.options().answers {
        Answers::Generated => generated(&mut document),
        Answers::Computed => computed(&mut document),
    }
    if !detailed {
        document.members.retain(|key, _| {
            Column::ALL
                .iter()
                .all(|(column, name)| name != key || KEPT.contains(column))
        });
    }
    // vLLM has no key for them without results.
    let probed = view
        .report
        .probe
        .as_ref()
        .filter(|probed| probed.completed > 0);
    probed
        .iter()
        .for_each(|probed| json::add_probe(&mut document.members, probed));
    let load = view.report.load.as_ref();
    load.iter()
        .for_each(|load| load.add_rate_changes(&mut document.members));
    let spec_decode = view.report.spec_decode.as_ref();
    spec_decode
        .iter()
        .for_each(|spec_decode| json::add_spec_decode(&mut document.members, spec_decode));
    document.latencies();
    queueing(&mut document);
    document
}

fn settings(document: &mut SavedResult<'_>) {
    let report = document.view.report;
    let record = &report.record;
    document
        .members
        .extend(json::members_of(&Identity::new(report)));
    // The user's pairs never replace conditions, and measured figures replace them.
    for (key, value) in &record.settings.report.metadata {
        if !document.members.contains_key(key)
            && Column::ALL.iter().all(|(_, column)| column != key)
        {
            document.put(key, value);
        }
    }
    json::add_load(&mut document.members, record);
}

fn generated(document: &mut SavedResult<'_>) {
    let metrics = &document.view.report.metrics;
    let values = &metrics.values;
    let failed = values.count(&totals::REQUESTS) - values.count(&totals::COMPLETED);
    let totals = Totals::new(metrics, failed);
    document.members.extend(json::members_of(&totals));
    let columns = Column::ALL.map(|(column, _)| column);
    document.columns(&columns[..columns.len() - 1]);
    document.put(
        "max_output_tokens_per_s",
        values.number(&totals::MAX_OUTPUT_CHUNKS),
    );
    document.put(
        "max_concurrent_requests",
        values.known_count(&totals::MAX_CONCURRENT_REQUESTS),
    );
    // Seconds of sound sent per second. The length of a clip is not in every file.
    let has_sound = document
        .view
        .samples
        .iter()
        .any(|sample| matches!(sample.request_input().prompt, Prompt::Audio(_)));
    document.put("rtfx", (!has_sound).then_some(0.0));
}

fn computed(document: &mut SavedResult<'_>) {
    let metrics = &document.view.report.metrics;
    let values = &metrics.values;
    let number = |metric| values.number(metric);
    let duration_s = metrics.duration_ns as f64 / 1e9;
    let sequences: usize = answered(document.view.samples).map(sequences).sum();
    document.put("duration", duration_s);
    document.put("completed", values.count(&totals::COMPLETED));
    let input = values.known_count(&totals::INPUT_TOKENS);
    document.put("total_input_tokens", input);
    document.put("total_input_sequences", sequences);
    document.put("request_throughput", number(&totals::REQUEST_THROUGHPUT));
    document.put(
        "input_sequence_throughput",
        (duration_s > 0.0).then(|| sequences as f64 / duration_s),
    );
    document.put(
        "total_token_throughput",
        number(&totals::TOTAL_TOKEN_THROUGHPUT),
    );
    document.columns(&[
        Column::InputLens,
        Column::Latencies,
        Column::QueueTimes,
        Column::Errors,
    ]);
}

/// The input to compute: the documents of a ranking, else one text.
fn sequences(sample: &Sample<'_>) -> usize {
    match &sample.request_input().prompt {
        Prompt::Ranking { documents, .. } => documents.len(),
        Prompt::Text(_) | Prompt::Messages(_) | Prompt::Audio(_) | Prompt::Body(_) => 1,
    }
}

/// The wait under the cap, of answers, where there is a cap; and with the time to the end where
/// there is a rate too.
fn queueing(document: &mut SavedResult<'_>) {
    let report = document.view.report;
    let has_rate = report.record.own_request_rate().is_finite();
    for (metric, names) in report.printed().filter(|(_, names)| names.queued) {
        let applies =
            report.record.own_cap().is_some() && (*metric == latencies::SCHEDULE_LAG || has_rate);
        if applies {
            let options = document.options();
            let answers: Vec<&Sample<'_>> = answered(document.view.samples).collect();
            let summary = metric.summary(&answers, options);
            json::add_latency(&mut document.members, names.key, &summary);
        }
    }
}
