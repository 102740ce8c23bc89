//! The result file: vLLM's keys and units first, in vLLM's order, then the object `sobench`.
//!
//! The keys up to the latencies are those of `vllm bench serve --save-result`, with the two of its
//! structured-output script among them. One of them holds another count than vLLM's:
//! `max_output_tokens_per_s` is of tokens, as it says, while vLLM counts chunks there; that count
//! is `max_output_chunks_per_s` in our own part. The file's contract is
//! `schemas/contracts/result.schema.json`. A figure that is not known is `null`; no NaN, no
//! infinity.

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::load::{LoadPart, RampKeys, RpsChange};
use super::saved_result::{Column, Columns, Layout, SavedResult};
use super::shards::ShardReport;
use super::view::View;
use super::{FORMAT_VERSION, Report};
use sobench_backend::{ConstraintDialect, Sampling, ServerKind};
use sobench_core::constraint::GrammarDialect;
use sobench_core::json_numbers::{NumberOrInf, number_or_inf};
use sobench_core::speed::Speed;
use sobench_core::{contract, json_struct};
use sobench_notices::enforcement::Enforcement;
use sobench_notices::notice::sentences;
use sobench_plan::record::{DatasetRecord, Engine, EngineChoice, Host, RunRecord, Settings};
use sobench_results::metrics::Metrics;
use sobench_results::metrics::client_overhead::ClientOverhead;
use sobench_results::metrics::registry::{Metric, VllmNames, rates, totals};
use sobench_runlog::probe::ProbeResults;
use sobench_runlog::recovery::Recovery;
use sobench_runlog::spec_decode::SpecDecode;
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

/// The contract of the file.
pub fn contract() -> Value {
    contract::written::<ResultFile<'_>>()
}

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
        metrics.values.number(&rates::CORRECT_RATE),
    );
    put(
        &mut file,
        "vllm_correct_rate(%)",
        metrics.values.number(&rates::VLLM_CORRECT_RATE),
    );
    file.extend(members_of(&Totals::new(
        metrics,
        metrics.values.count(&totals::FAILED),
    )));
    if detailed {
        file.extend(Column::ALL.map(|(_, key)| (key.to_owned(), Value::Null)));
        report
            .load
            .iter()
            .for_each(|load| load.add_columns(&mut file));
    }
    let count = |metric: &Metric| metrics.values.known_count(metric);
    // Tokens, as the key says. vLLM's count of chunks is `max_output_chunks_per_s` in our own part.
    put(
        &mut file,
        "max_output_tokens_per_s",
        metrics.values.number(&totals::MAX_OUTPUT_TOKENS),
    );
    put(
        &mut file,
        "max_concurrent_requests",
        count(&totals::MAX_CONCURRENT_REQUESTS),
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
    for (metric, names) in saved_latencies() {
        add_latency(&mut file, names.key, metrics.values.summary(metric));
    }
    put(&mut file, "sobench", OwnPart::new(report));
    file
}

/// The latencies that every file has.
fn saved_latencies() -> impl Iterator<Item = (&'static Metric, VllmNames)> {
    Metric::of_vllm().filter(|(_, names)| !names.queued)
}

fn add_settings(file: &mut Map<String, Value>, report: &Report) {
    file.extend(members_of(&Identity::new(report)));
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

json_struct! {
    /// Server, model and dataset.
    pub(super) struct Identity<'a> = |report: &'a Report| [
        let record = &report.record;
    ] {
        /// The start of the run.
        date: String = record.date(),
        /// vLLM's older name for the backend.
        endpoint_type: ServerKind = record.settings.backend,
        backend: ServerKind = record.settings.backend,
        label: &'a Option<String> = &record.settings.report.label,
        model_id: &'a str = &record.server.model_id,
        tokenizer_id: &'a str = &record.tokenizer_id,
        num_prompts: usize = report.requests,
    }

    pub(super) struct RateKeys = |record: &RunRecord| {
        #[serde(with = "number_or_inf")]
        #[schemars(with = "NumberOrInf")]
        request_rate: f64 = record.own_request_rate(),
        /// `null` for even spacing.
        burstiness: Option<f64> =
            Some(record.settings.load.burstiness).filter(|shape| shape.is_finite()),
        max_concurrency: Option<usize> = record.own_cap(),
    }
}

/// The rate, the cap, and the settings of a ramp.
pub(super) fn add_load(file: &mut Map<String, Value>, record: &RunRecord) {
    file.extend(members_of(&RateKeys::new(record)));
    if let Some(ramp) = record.settings.load.pace.ramp() {
        file.extend(members_of(&RampKeys::new(&ramp)));
    }
}

json_struct! {
    pub(super) struct Totals = |metrics: &Metrics, failed: usize| [
        let number = |metric: &Metric| metrics.values.number(metric);
        let tokens = |metric: &Metric| metrics.values.known_count(metric);
    ] {
        duration: f64 = metrics.duration_ns as f64 / 1e9,
        completed: usize = metrics.values.count(&totals::COMPLETED),
        failed: usize = failed,
        total_input_tokens: Option<u64> = tokens(&totals::INPUT_TOKENS),
        total_output_tokens: Option<u64> = tokens(&totals::OUTPUT_TOKENS),
        request_throughput: Option<f64> = number(&totals::REQUEST_THROUGHPUT),
        request_goodput: Option<f64> = number(&totals::REQUEST_GOODPUT),
        output_throughput: Option<f64> = number(&totals::OUTPUT_THROUGHPUT),
        total_token_throughput: Option<f64> = number(&totals::TOTAL_TOKEN_THROUGHPUT),
    }
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

json_struct! {
    /// The object `sobench`: the conditions of the run, every outcome, every rate with its interval,
    /// every arm.
    struct OwnPart<'a> = |report: &'a Report| {
        format_version: u32 = FORMAT_VERSION,
        #[serde(flatten)]
        conditions: Conditions<'a> = Conditions::new(report),
        percentile_metrics: &'a [String] = &report.record.settings.report.percentile_metrics,
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        queue_metrics: &'a [String] = &report.record.settings.report.queue_metrics,
        load: Option<LoadPart<'a>> =
            report.load.as_ref().map(|load| LoadPart::new(load, &report.record)),
        client: &'a Option<ClientOverhead> = &report.client,
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        shards: &'a [ShardReport] = &report.shards,
        #[serde(flatten)]
        metrics: &'a Metrics = &report.metrics,
        #[serde(skip_serializing_if = "Option::is_none")]
        recovery: &'a Option<Recovery> = &report.recovery,
        record: &'a RunRecord = &report.record,
    }

    /// The conditions of the run, under their keys in the file.
    struct Conditions<'a> = |report: &'a Report| [
        let record = &report.record;
        let (settings, server, dataset) = (&record.settings, &record.server, &record.dataset);
    ] {
        sobench_version: &'a str = &record.sobench_version,
        base_url: &'a str = &server.base_url,
        endpoint: &'a str = &server.endpoint,
        dataset: LoadedDataset<'a> = LoadedDataset::new(settings, dataset),
        output_len: Option<u32> = settings.output_len(),
        seed: u64 = settings.dataset.seed,
        request: RequestPart<'a> = RequestPart::new(settings),
        constrained_ratio: Option<f64> = record.constrained_ratio(),
        constraint_dialect: Option<ConstraintDialect> = server.constraint_dialect,
        constraint_kinds: &'a [String] = &dataset.constraint_kinds,
        guided_decoding_backend: &'a EngineChoice = &server.engine_choice,
        engine: &'a Option<Engine> = &report.engine,
        server_version: &'a Option<String> = &server.version,
        metadata: IndexMap<&'a str, &'a str> =
            settings.report.metadata.iter().map(|(key, value)| (&**key, &**value)).collect(),
        embedded: bool = server.embedded,
        #[serde(skip_serializing_if = "Option::is_none")]
        embedded_speed: Option<Speed> = server.speed,
        host: &'a Host = &record.host,
        assert_formats: bool = settings.evaluate.assert_formats,
        trial_requests: usize = record.trial_requests,
        warmup_requests: usize = record.warmup_requests,
        partial: bool = report.partial,
        enforcement: &'a Enforcement = &record.enforcement,
        notices: Vec<String> = sentences(&report.notices),
    }

    struct LoadedDataset<'a> = |settings: &'a Settings, dataset: &'a DatasetRecord| {
        name: &'a str = &settings.dataset.source.name,
        path: Option<&'a str> = settings.dataset.source.path(),
        source: &'a str = &dataset.source,
        rows: usize = dataset.rows,
        sha256: &'a str = &dataset.sha256,
        grammar_converted_from: Option<GrammarDialect> = dataset.grammar_converted_from,
    }

    /// The settings of every request beside prompt, length and constraint; `null` was not sent.
    struct RequestPart<'a> = |settings: &'a Settings| [
        let (request, load) = (&settings.request, &settings.load);
    ] {
        stream: bool = request.stream,
        #[serde(flatten)]
        sampling: &'a Sampling = &request.sampling,
        #[serde(skip_serializing_if = "Option::is_none")]
        stream_parity: Option<f64> = request.stream_parity,
        ignore_eos: bool = request.ignore_eos,
        extra_body: &'a Option<Map<String, Value>> = &request.extra_body,
        request_timeout_s: f64 = load.request_timeout.as_secs_f64(),
        idle_timeout_s: Option<f64> = load.idle_timeout.map(|limit| limit.as_secs_f64()),
    }
}

/// The contract of the file, of which only the schema is used: [`members`] puts the keys in vLLM's
/// order.
#[derive(JsonSchema)]
#[schemars(transform = add_dynamic_keys)]
#[allow(dead_code, reason = "only its schema is used")]
pub(super) struct ResultFile<'a> {
    #[serde(flatten)]
    identity: Identity<'a>,
    #[serde(flatten)]
    rate: RateKeys,
    #[serde(flatten)]
    ramp: Option<RampKeys>,
    #[schemars(rename = "correct_rate(%)", range(min = 0, max = 100))]
    correct_rate: Option<f64>,
    #[schemars(rename = "vllm_correct_rate(%)", range(min = 0, max = 100))]
    vllm_correct_rate: Option<f64>,
    #[serde(flatten)]
    totals: Totals,
    #[serde(flatten)]
    columns: Option<Columns>,
    max_output_tokens_per_s: Option<f64>,
    max_concurrent_requests: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rps_change_events: Option<Vec<RpsChange>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    steady_state: Option<Map<String, Value>>,
    sobench: OwnPart<'a>,
}

/// Adds the keys of percentiles, of the probe and of speculative decoding. Other keys are metadata
/// of the user.
fn add_dynamic_keys(schema: &mut Schema) {
    let figure = json!({"type": ["number", "null"]});
    let properties = schema.ensure_object()["properties"].as_object_mut();
    let properties = properties.expect("the file is an object");
    let mut required = Vec::new();
    for (_, names) in saved_latencies() {
        for stat in ["mean", "median", "std"] {
            let key = format!("{stat}_{}_ms", names.key);
            properties.insert(key.clone(), figure.clone());
            required.push(Value::from(key));
        }
    }
    let (probe, drafts) = (
        contract::written::<ProbeResults>(),
        contract::written::<SpecDecode>(),
    );
    for (prefix, members) in [("probe", probe), ("spec_decode", drafts)] {
        let members = members["properties"].as_object().into_iter().flatten();
        let keys = members.filter(|(key, _)| *key != "rate");
        properties.extend(keys.map(|(key, schema)| (format!("{prefix}_{key}"), schema.clone())));
    }
    if let Some(Value::Array(known)) = schema.get_mut("required") {
        known.extend(required);
    }
    let names: Vec<&str> = saved_latencies().map(|(_, names)| names.key).collect();
    let names = names.join("|");
    schema.insert(
        "patternProperties".to_owned(),
        json!({format!("^p[0-9.]+_({names})_ms$"): figure}),
    );
    schema.insert("additionalProperties".to_owned(), json!({"type": "string"}));
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
    use sobench_facts::testing::{TestRequest, test_request, with_samples};
    use sobench_plan::metrics::MetricsSettings;
    use sobench_plan::record::testing::record;
    use sobench_results::metrics::summarise;

    fn rendered(run: &[TestRequest<'_>], record: RunRecord, detailed: bool) -> Value {
        let options = MetricsSettings {
            percentiles: vec![50.0, 99.9],
            ..MetricsSettings::default()
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
        let own = &value["sobench"]["metrics"];
        for (figure, expected) in [
            (&value["max_output_tokens_per_s"], 12.0),
            (&own["max_output_tokens_per_s"], 12.0),
            (&own["max_output_chunks_per_s"], 3.0),
        ] {
            assert_eq!(figure.as_f64(), Some(expected));
        }
    }
}
