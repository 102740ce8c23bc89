//! The result of `vllm bench serve`: one line of JSON. Knows no file.
//!
//! `max_output_tokens_per_s` holds vLLM's figure, which counts chunks; the key of the same name in sobench's own layout counts tokens.
//! Cancelled requests are `failed`, as vLLM has no other word. Keys that vLLM writes only about some runs (the probe, speculative
//! decoding) are there where it would write them; those of diffusion and of the server's own queue are not known here, and left out.

use super::{Column, Document, answered};
use crate::case::Prompt;
use crate::metrics::QueueMetric;
use crate::metrics::{Answers, Sample};
use crate::report::json;
use crate::report::load::add_ramp_settings;
use crate::report::view::View;
use crate::statistics::Summary;

/// The columns that only `--save-detailed` keeps. `latencies` and `queue_times` are not among them: vLLM forgot them, and readers have
/// come to find them there.
const DETAILS: [Column; 7] = [
    Column::InputLens,
    Column::OutputLens,
    Column::StartTimes,
    Column::Ttfts,
    Column::Itls,
    Column::GeneratedTexts,
    Column::Errors,
];

/// The file of a run; with every request in it if it is to be `detailed`.
pub fn document(view: View<'_>, detailed: bool) -> Document<'_> {
    let mut document = Document::new(view);
    settings(&mut document);
    match document.options().answers {
        Answers::Generated => generated(&mut document),
        Answers::Computed => computed(&mut document),
    }
    if !detailed {
        document.members.retain(|key, _| !DETAILS.iter().any(|column| column.key() == key));
    }
    // vLLM has no key of them where none came back.
    let probed = view.report.probe.as_ref().filter(|probed| probed.completed > 0);
    probed.iter().for_each(|probed| json::add_probe(&mut document.members, probed));
    let load = view.report.load.as_ref();
    load.iter().for_each(|load| load.add_rate_changes(&mut document.members));
    let spec_decode = view.report.spec_decode.as_ref();
    spec_decode.iter().for_each(|spec_decode| json::add_spec_decode(&mut document.members, spec_decode));
    document.latencies();
    queueing(&mut document);
    document
}

fn settings(document: &mut Document<'_>) {
    let report = document.view.report;
    let record = &report.record;
    let settings = &record.settings;
    document.put("date", record.date());
    document.put("endpoint_type", settings.backend);
    document.put("backend", settings.backend);
    document.put("label", &settings.report.label);
    document.put("model_id", &record.server.model_id);
    document.put("tokenizer_id", &record.tokenizer_id);
    document.put("num_prompts", report.requests);
    // The user's pairs never take the place of what is known, and what is measured takes theirs.
    for (key, value) in &settings.report.metadata {
        if !document.members.contains_key(key) && !Column::ALL.iter().any(|column| column.key() == key) {
            document.put(key, value);
        }
    }
    document.put("request_rate", json::Rps(record.own_request_rate()));
    document.put("burstiness", settings.load.burstiness);
    document.put("max_concurrency", record.own_cap());
    add_ramp_settings(&mut document.members, record);
}

fn generated(document: &mut Document<'_>) {
    let metrics = &document.view.report.metrics;
    let (overall, throughput) = (&metrics.overall, &metrics.overall.throughput);
    document.put("duration", metrics.duration_ns as f64 / super::NS_PER_S);
    document.put("completed", overall.completed);
    document.put("failed", overall.requests - overall.completed);
    document.put("total_input_tokens", overall.tokens.input);
    document.put("total_output_tokens", overall.tokens.output);
    document.put("request_throughput", throughput.request_throughput);
    document.put("request_goodput", throughput.request_goodput);
    document.put("output_throughput", throughput.output_throughput);
    document.put("total_token_throughput", throughput.total_token_throughput);
    for column in [
        Column::InputLens,
        Column::OutputLens,
        Column::Ttfts,
        Column::Itls,
        Column::Latencies,
        Column::StartTimes,
        Column::QueueTimes,
        Column::GeneratedTexts,
        Column::Errors,
    ] {
        document.column(column);
    }
    document.put("max_output_tokens_per_s", throughput.max_output_chunks_per_s.map(|chunks| chunks as f64));
    document.put("max_concurrent_requests", throughput.max_concurrent_requests);
    // Seconds of sound that went in, per second. How long a clip is, its file does not say in general.
    let has_sound = document.view.samples.iter().any(|it| matches!(it.question().prompt, Prompt::Audio(_)));
    document.put("rtfx", (!has_sound).then_some(0.0));
}

fn computed(document: &mut Document<'_>) {
    let metrics = &document.view.report.metrics;
    let (overall, throughput) = (&metrics.overall, &metrics.overall.throughput);
    let duration_s = metrics.duration_ns as f64 / super::NS_PER_S;
    let sequences: usize = answered(document.view.samples).map(sequences).sum();
    document.put("duration", duration_s);
    document.put("completed", overall.completed);
    document.put("total_input_tokens", overall.tokens.input);
    document.put("total_input_sequences", sequences);
    document.put("request_throughput", throughput.request_throughput);
    document.put("input_sequence_throughput", (duration_s > 0.0).then(|| sequences as f64 / duration_s));
    document.put("total_token_throughput", throughput.total_token_throughput);
    for column in [Column::InputLens, Column::Latencies, Column::QueueTimes, Column::Errors] {
        document.column(column);
    }
}

/// What a request asks to have computed: the documents of a ranking, else one text.
fn sequences(sample: &Sample<'_>) -> usize {
    match &sample.question().prompt {
        Prompt::Ranking { documents, .. } => documents.len(),
        Prompt::Text(_) | Prompt::Messages(_) | Prompt::Audio(_) => 1,
    }
}

/// The wait under the cap, of answers, where there is a cap; and with the time to the end where there is a rate as well.
fn queueing(document: &mut Document<'_>) {
    let report = document.view.report;
    let has_rate = report.record.own_request_rate().is_finite();
    for metric in QueueMetric::ALL.into_iter().filter(|it| report.queue_metrics().contains(it)) {
        let applies = report.record.own_cap().is_some() && (metric == QueueMetric::ClientQueueTime || has_rate);
        if applies {
            let options = document.options();
            let values = answered(document.view.samples).filter_map(|it| metric.of(&it.latency(options)));
            let summary = Summary::of(values.collect(), &options.percentiles);
            document.latency(metric.key(), &summary);
        }
    }
}
