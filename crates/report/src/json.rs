//! The result file: vLLM's keys and units first, in vLLM's order, then the object `sobench`.
//!
//! The keys up to the latencies are those of `vllm bench serve --save-result`, with the two of its
//! structured-output script among them. One of them holds another count than vLLM's:
//! `max_output_tokens_per_s` is of tokens, as it says, while vLLM counts chunks there; that count
//! is `max_output_chunks_per_s` in our own part. The file's contract is
//! `schemas/contracts/result.schema.json`. A figure that is not known is `null`; no NaN, no
//! infinity.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::load::add_ramp_settings;
use super::saved_result::{Column, Layout, SavedResult};
use super::view::View;
use super::{FORMAT_VERSION, Report};
use sobench_core::json_numbers::number_or_inf;
use sobench_notices::notice::sentences;
use sobench_results::metrics::probe::ProbeResults;
use sobench_results::metrics::spec_decode::SpecDecode;
use sobench_results::metrics::{LatencyMetric, Metrics};
use sobench_results::record::{RunRecord, Settings};
use sobench_statistics::Summary;

/// Members of some loads only. These, and the columns, are reserved in every file.
const OF_SOME_LOADS: [&str; 17] = [
    "request_rates",
    "rps_change_events",
    "ramp_up_strategy",
    "ramp_up_start_rps",
    "ramp_up_end_rps",
    "steady_state",
    "probe_completed",
    "probe_failed",
    "probe_median_e2el_ms",
    "probe_p99_e2el_ms",
    "probe_max_e2el_ms",
    "spec_decode_acceptance_rate",
    "spec_decode_acceptance_length",
    "spec_decode_num_drafts",
    "spec_decode_draft_tokens",
    "spec_decode_accepted_tokens",
    "spec_decode_per_position_acceptance_rates",
];

/// The whole file; with every request in it if `detailed`.
pub fn document(view: View<'_>, detailed: bool) -> SavedResult<'_> {
    SavedResult {
        view,
        layout: Layout::Sobench,
        members: members(view.report, detailed),
    }
}

/// Every member in its place. Columns of a detailed file are `null`.
pub(super) fn members(report: &Report, detailed: bool) -> Map<String, Value> {
    let mut file = Map::new();
    add_settings(&mut file, report);
    let metrics = &report.metrics;
    put(
        &mut file,
        "correct_rate(%)",
        metrics.quality.correct_rate.map(|rate| rate.percent),
    );
    put(
        &mut file,
        "vllm_correct_rate(%)",
        metrics.quality.vllm.correct_rate.map(|rate| rate.percent),
    );
    add_totals(&mut file, metrics, metrics.overall.failed);
    if detailed {
        file.extend(Column::ALL.map(|(_, key)| (key.to_owned(), Value::Null)));
        report
            .load
            .iter()
            .for_each(|load| load.add_columns(&mut file));
    }
    let throughput = &metrics.overall.throughput;
    // Tokens, as the key says. vLLM's count of chunks is `max_output_chunks_per_s` in our own part.
    put(
        &mut file,
        "max_output_tokens_per_s",
        throughput.max_output_tokens_per_s,
    );
    put(
        &mut file,
        "max_concurrent_requests",
        throughput.max_concurrent_requests,
    );
    report
        .probe
        .iter()
        .for_each(|probed| add_probe(&mut file, probed));
    report
        .load
        .iter()
        .for_each(|load| load.add_events(&mut file, report.record.own_cap()));
    report
        .spec_decode
        .iter()
        .for_each(|spec_decode| add_spec_decode(&mut file, spec_decode));
    for metric in LatencyMetric::ALL {
        add_latency(
            &mut file,
            metric.key(),
            metrics.overall.latency.summary(metric),
        );
    }
    file.insert("sobench".to_owned(), own_part(report));
    file
}

fn add_settings(file: &mut Map<String, Value>, report: &Report) {
    add_identity(file, report);
    // As in vLLM, the user's pairs are here, and a measured key of the same name replaces them. Our
    // own part has all of them.
    let taken: Vec<String> = file.keys().cloned().collect();
    let columns = Column::ALL.map(|(_, key)| key);
    for (key, value) in &report.record.settings.report.metadata {
        let own = [&["sobench"], &columns[..], &OF_SOME_LOADS].concat();
        if !taken.contains(key) && !own.contains(&key.as_str()) {
            put(file, key, value);
        }
    }
    add_load(file, &report.record);
}

/// Server, model and dataset.
pub(super) fn add_identity(file: &mut Map<String, Value>, report: &Report) {
    let record = &report.record;
    put(file, "date", record.date());
    // vLLM's older name for the backend.
    put(file, "endpoint_type", record.settings.backend);
    put(file, "backend", record.settings.backend);
    put(file, "label", &record.settings.report.label);
    put(file, "model_id", &record.server.model_id);
    put(file, "tokenizer_id", &record.tokenizer_id);
    put(file, "num_prompts", report.requests);
}

/// The rate, the cap, and the settings of a ramp.
pub(super) fn add_load(file: &mut Map<String, Value>, record: &RunRecord) {
    add_rate(file, record);
    add_ramp_settings(file, record);
}

pub(super) fn add_rate(file: &mut Map<String, Value>, record: &RunRecord) {
    put(file, "request_rate", Rps(record.own_request_rate()));
    put(file, "burstiness", record.settings.load.burstiness);
    put(file, "max_concurrency", record.own_cap());
}

pub(super) fn add_totals(file: &mut Map<String, Value>, metrics: &Metrics, failed: usize) {
    let (overall, throughput) = (&metrics.overall, &metrics.overall.throughput);
    put(file, "duration", metrics.duration_ns as f64 / 1e9);
    put(file, "completed", overall.completed);
    put(file, "failed", failed);
    put(file, "total_input_tokens", overall.tokens.input);
    put(file, "total_output_tokens", overall.tokens.output);
    put(file, "request_throughput", throughput.request_throughput);
    put(file, "request_goodput", throughput.request_goodput);
    put(file, "output_throughput", throughput.output_throughput);
    put(
        file,
        "total_token_throughput",
        throughput.total_token_throughput,
    );
}

/// vLLM's keys of the probe requests.
pub(super) fn add_probe(file: &mut Map<String, Value>, probed: &ProbeResults) {
    add_prefixed(
        file,
        "probe",
        members_of(probed).filter(|(key, _)| key != "rate"),
    );
}

/// vLLM's keys of speculative decoding.
pub(super) fn add_spec_decode(file: &mut Map<String, Value>, spec_decode: &SpecDecode) {
    add_prefixed(file, "spec_decode", members_of(spec_decode));
}

fn add_prefixed(
    file: &mut Map<String, Value>,
    prefix: &str,
    members: impl Iterator<Item = (String, Value)>,
) {
    file.extend(members.map(|(key, value)| (format!("{prefix}_{key}"), value)));
}

/// Mean, median, standard deviation and percentiles of one latency.
pub(super) fn add_latency(file: &mut Map<String, Value>, key: &str, summary: &Summary) {
    put(file, &format!("mean_{key}_ms"), summary.mean);
    put(file, &format!("median_{key}_ms"), summary.median);
    put(file, &format!("std_{key}_ms"), summary.std);
    for percentile in &summary.percentiles {
        put(
            file,
            &format!("p{}_{key}_ms", percentile.label()),
            percentile.value,
        );
    }
}

/// The object `sobench`: the conditions of the run, every outcome, every rate with its interval,
/// every arm.
fn own_part(report: &Report) -> Value {
    let metrics = &report.metrics;
    let mut own = Map::new();
    put(&mut own, "format_version", FORMAT_VERSION);
    add_conditions(&mut own, report);
    put(&mut own, "percentile_metrics", report.percentile_metrics());
    if !report.queue_metrics().is_empty() {
        put(&mut own, "queue_metrics", report.queue_metrics());
    }
    put(
        &mut own,
        "load",
        report
            .load
            .as_ref()
            .map(|load| load.to_json(&report.record)),
    );
    put(&mut own, "client", &report.client);
    if !report.shards.is_empty() {
        put(&mut own, "shards", &report.shards);
    }
    put(&mut own, "options", &metrics.options);
    put(&mut own, "outcomes", metrics.outcomes);
    put(&mut own, "quality", &metrics.quality);
    put(&mut own, "failures", &metrics.failures);
    put(&mut own, "errors", &metrics.errors);
    if let Some(departures) = &metrics.departures {
        put(&mut own, "departures", departures);
    }
    put(&mut own, "control", &metrics.control);
    if let Some(accuracy) = &metrics.accuracy {
        put(&mut own, "accuracy", accuracy);
    }
    put(&mut own, "validity", &metrics.validity);
    put(&mut own, "repetition", metrics.repetition);
    put(&mut own, "drift", &metrics.drift);
    put(&mut own, "modes", &metrics.modes);
    put(&mut own, "bursts", metrics.bursts);
    if let Some(reasoning) = &metrics.reasoning {
        put(&mut own, "reasoning", reasoning);
    }
    if let Some(choices) = &metrics.free_choices {
        put(&mut own, "free_choices", choices);
    }
    if let Some(canaries) = &metrics.canaries {
        put(&mut own, "canary", canaries);
    }
    if let Some(parity) = &metrics.stream_parity {
        put(&mut own, "stream_parity", parity);
    }
    if let Some(times) = metrics.server_times {
        put(&mut own, "server_times", times);
    }
    if let Some(server) = &metrics.server {
        put(&mut own, "server_metrics", server);
    }
    if report.spec_decode.is_some() {
        put(
            &mut own,
            "spec_decode_by_arm",
            SpecDecode::by_arm(&metrics.arms),
        );
    }
    if let Some(recovery) = &report.recovery {
        put(&mut own, "recovery", recovery);
    }
    put(&mut own, "overall", &metrics.overall);
    put(&mut own, "arms", &metrics.arms);
    put(&mut own, "metrics", &metrics.values);
    if !report.parts.is_empty() {
        put(&mut own, "datasets", &report.parts);
    }
    put(&mut own, "record", &report.record);
    Value::Object(own)
}

/// The conditions of the run, under their keys in the file.
fn add_conditions(own: &mut Map<String, Value>, report: &Report) {
    let record = &report.record;
    let RunRecord {
        settings,
        server,
        dataset,
        ..
    } = record;
    put(own, "sobench_version", &record.sobench_version);
    put(own, "base_url", &server.base_url);
    put(own, "endpoint", &server.endpoint);
    let loaded = json!({
        "name": settings.dataset.name(),
        "path": settings.dataset.path(),
        "source": dataset.source,
        "rows": dataset.rows,
        "sha256": dataset.sha256,
        "grammar_converted_from": dataset.grammar_converted_from,
    });
    put(own, "dataset", loaded);
    put(own, "output_len", settings.output_len());
    put(own, "seed", settings.dataset.seed);
    put(own, "request", request(settings));
    put(own, "constrained_ratio", settings.constrained_ratio());
    put(own, "constraint_dialect", server.constraint_dialect);
    put(own, "constraint_kinds", &dataset.constraint_kinds);
    put(own, "guided_decoding_backend", &server.engine_choice);
    put(own, "engine", &report.engine);
    put(own, "server_version", &server.version);
    let metadata = settings
        .report
        .metadata
        .iter()
        .map(|(key, value)| (key.clone(), Value::from(value.as_str())));
    put(own, "metadata", metadata.collect::<Map<_, _>>());
    put(own, "embedded", server.embedded);
    if let Some(speed) = server.speed {
        put(own, "embedded_speed", speed);
    }
    put(own, "host", &record.host);
    put(own, "assert_formats", settings.evaluate.assert_formats);
    put(own, "trial_requests", record.trial_requests);
    put(own, "warmup_requests", record.warmup_requests);
    put(own, "partial", report.partial);
    put(own, "enforcement", &record.enforcement);
    put(own, "notices", sentences(&report.notices));
}

/// The settings of every request beside prompt, length and constraint; `null` was not sent.
fn request(settings: &Settings) -> Map<String, Value> {
    let (request, load) = (&settings.request, &settings.load);
    let mut own = Map::new();
    put(&mut own, "stream", request.stream);
    own.extend(members_of(&request.sampling));
    if let Some(share) = request.stream_parity {
        put(&mut own, "stream_parity", share);
    }
    put(&mut own, "ignore_eos", request.ignore_eos);
    put(&mut own, "extra_body", &request.extra_body);
    put(
        &mut own,
        "request_timeout_s",
        load.request_timeout.as_secs_f64(),
    );
    put(
        &mut own,
        "idle_timeout_s",
        load.idle_timeout.map(|limit| limit.as_secs_f64()),
    );
    own
}

/// Requests per second, in vLLM's spelling.
pub(super) struct Rps(pub(super) f64);

impl Serialize for Rps {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        number_or_inf::serialize(&self.0, serializer)
    }
}

pub(super) fn put(map: &mut Map<String, Value>, key: &str, value: impl Serialize) {
    map.insert(key.to_owned(), to_value(value));
}

/// The members of a struct as JSON.
pub(super) fn members_of(value: &impl Serialize) -> impl Iterator<Item = (String, Value)> {
    let members = match to_value(value) {
        Value::Object(members) => members,
        other => unreachable!("a struct is an object, not {other}"),
    };
    members.into_iter()
}

/// A value as JSON. A number that JSON does not have becomes `null`.
pub(super) fn to_value(value: impl Serialize) -> Value {
    serde_json::to_value(value)
        .expect("reports hold only strings, numbers and structs of them, with string keys")
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_results::metrics::testing::{TestRequest, test_request, with_samples};
    use sobench_results::metrics::{MetricsOptions, summarise};
    use sobench_results::record::testing::record;

    fn rendered(run: &[TestRequest<'_>], record: RunRecord, detailed: bool) -> Value {
        let options = MetricsOptions {
            percentiles: vec![50.0, 99.9],
            ..MetricsOptions::default()
        };
        with_samples(run, |samples| {
            let report = Report::new(record, summarise(samples, 2_000_000_000, &options));
            let answer = |place: usize| Ok(samples[place].observation().answer);
            to_value(document(
                View {
                    report: &report,
                    samples,
                    answer: &answer,
                    resend: None,
                    run_log: None,
                    requirements: None,
                },
                detailed,
            ))
        })
    }

    fn keys(value: &Value) -> Vec<&str> {
        value
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect()
    }

    #[test]
    fn keys_come_in_vllms_order() {
        let mut tagged = record();
        tagged.settings.report.metadata = vec![("gpu".into(), "none".into())];
        let value = rendered(&[test_request()], tagged, false);
        let expected = "date endpoint_type backend label model_id tokenizer_id num_prompts gpu request_rate burstiness max_concurrency \
            correct_rate(%) vllm_correct_rate(%) duration completed failed total_input_tokens total_output_tokens request_throughput \
            request_goodput output_throughput total_token_throughput max_output_tokens_per_s max_concurrent_requests mean_ttft_ms \
            median_ttft_ms std_ttft_ms p50_ttft_ms p99.9_ttft_ms";
        assert_eq!(
            keys(&value)[..29].join(" "),
            expected.split_whitespace().collect::<Vec<_>>().join(" ")
        );
        assert_eq!(*keys(&value).last().unwrap(), "sobench");
    }

    #[test]
    fn request_columns_are_in_vllms_place_and_only_with_save_detailed() {
        let value = rendered(&[test_request()], record(), true);
        let keys = keys(&value);
        let from = keys.iter().position(|key| *key == "input_lens").unwrap();
        assert_eq!(keys[from - 1], "total_token_throughput");
        assert_eq!(
            keys[from + 1..from + 11].join(" "),
            "output_lens ttfts itls latencies start_times queue_times generated_texts \
            errors outputs max_output_tokens_per_s"
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
        );
        assert_eq!(value["outputs"][0]["generated"], "{}");
        assert_eq!(
            rendered(&[test_request()], record(), false).get("outputs"),
            None
        );
    }

    #[test]
    fn metadata_never_replaces_a_measured_figure() {
        let pairs = [
            ("backend", "mine"),
            ("completed", "all"),
            ("sobench", "x"),
            ("rack", "6"),
            ("rack", "7"),
            ("errors", "none"),
        ];
        let metadata = pairs
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .to_vec();
        let mut tagged = record();
        tagged.settings.report.metadata = metadata;
        let value = rendered(&[test_request()], tagged, false);
        assert_eq!(
            (&value["backend"], &value["rack"]),
            (&Value::from("vllm"), &Value::from("7"))
        );
        assert_eq!(value["completed"].as_u64(), Some(1));
        assert_eq!(value.get("errors"), None);
        assert_eq!(value["sobench"]["metadata"]["completed"], "all");
        assert_eq!(value["sobench"]["metadata"]["sobench"], "x");
    }

    #[test]
    fn an_infinite_rate_is_inf_and_unknown_is_null() {
        let value = rendered(&[], record(), true);
        assert_eq!(value["request_rate"], "inf");
        for key in [
            "mean_ttft_ms",
            "p50_itl_ms",
            "correct_rate(%)",
            "request_goodput",
            "max_output_tokens_per_s",
            "max_concurrency",
        ] {
            assert!(value[key].is_null(), "{key}");
        }
        assert_eq!(value["duration"].as_f64(), Some(2.0));
    }

    #[test]
    fn nan_is_never_written() {
        let mut odd = record();
        odd.settings.load.burstiness = f64::NAN;
        odd.settings.dataset.constrained_ratio = f64::NEG_INFINITY;
        let text = rendered(&[test_request()], odd, true).to_string();
        assert!(!text.contains("NaN") && !text.to_lowercase().contains("infinity"));
    }

    #[test]
    fn peaks_count_what_their_keys_say() {
        let value = rendered(
            &[TestRequest {
                output: Some(12),
                ..test_request()
            }],
            record(),
            false,
        );
        let own = &value["sobench"]["overall"]["throughput"];
        for (figure, expected) in [
            (&value["max_output_tokens_per_s"], 12.0),
            (&own["max_output_tokens_per_s"], 12.0),
            (&own["max_output_chunks_per_s"], 3.0),
        ] {
            assert_eq!(figure.as_f64(), Some(expected));
        }
    }
}
