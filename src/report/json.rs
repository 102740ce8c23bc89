//! The saved file: vLLM's keys and units first, in vLLM's order, then one object of our own. Knows no console.
//!
//! The keys up to the latencies are those of `vllm bench serve --save-result`, with the two of its structured-output script among
//! them. One of them holds another count than vLLM's: `max_output_tokens_per_s` is of tokens, as it says, while vLLM counts chunks
//! there; that count is `max_output_chunks_per_s` in our own part. The file's contract is
//! `schemas/contracts/result.schema.json`. A figure that is not known is `null`; no NaN, no infinity.

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::{About, Details, FORMAT_VERSION, Report, rate_or_inf};
use crate::metrics::LatencyMetric;
use crate::metrics::Metrics;
use crate::metrics::latency::Latency;
use crate::metrics::probe::Probed;
use crate::metrics::spec_decode::SpecDecode;
use crate::metrics::stats::{Rate, Summary};

/// Members of [`super::About`] that stand at the top under vLLM's names, and are not said twice.
const AT_THE_TOP: [&str; 10] = [
    "date",
    "endpoint_type",
    "backend",
    "label",
    "model_id",
    "tokenizer_id",
    "num_prompts",
    "request_rate",
    "burstiness",
    "max_concurrency",
];

/// The columns of a detailed file.
const DETAILS: [&str; 10] = [
    "input_lens",
    "output_lens",
    "ttfts",
    "itls",
    "latencies",
    "start_times",
    "queue_times",
    "generated_texts",
    "errors",
    "outputs",
];

/// What only some loads have. These, and the columns, are the file's own even where it has none of them.
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

/// The whole file, to be written by a serialiser: what it holds of every request is not copied.
#[derive(Clone, Debug)]
pub struct File<'a> {
    /// Every member in its place; `null` where it is a column.
    members: Map<String, Value>,
    details: Option<&'a Details>,
}

/// The whole file. `detailed` adds what the report holds of every request, if it does.
pub fn render(report: &Report, detailed: bool) -> File<'_> {
    let details = report.details.as_ref().filter(|_| detailed);
    let mut file = Map::new();
    add_settings(&mut file, report);
    add_totals(&mut file, &report.metrics);
    if let Some(details) = details {
        debug_assert_eq!(details.outputs.len(), report.metrics.outcomes.total(), "details and metrics are of the same run");
        file.extend(DETAILS.map(|key| (key.to_owned(), Value::Null)));
        report.load.iter().for_each(|load| load.add_columns(&mut file));
    }
    let throughput = &report.metrics.overall.throughput;
    // Tokens, as the key says. vLLM's chunks are `max_output_chunks_per_s` of our own part.
    put(&mut file, "max_output_tokens_per_s", throughput.max_output_tokens_per_s);
    put(&mut file, "max_concurrent_requests", throughput.max_concurrent_requests);
    report.probe.iter().for_each(|probed| add_probe(&mut file, probed));
    report.load.iter().for_each(|load| load.add_events(&mut file));
    report.spec_decode.iter().for_each(|spec_decode| add_spec_decode(&mut file, spec_decode));
    for metric in LatencyMetric::ALL {
        add_latency(&mut file, metric.key(), summary_of(&report.metrics.overall.latency, metric));
    }
    file.insert("sobench".to_owned(), own_part(report));
    File { members: file, details }
}

impl Serialize for File<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.members.len()))?;
        for (key, value) in &self.members {
            map.serialize_key(key)?;
            match self.details.filter(|_| DETAILS.contains(&key.as_str())) {
                Some(details) => map.serialize_value(&Column { key, details })?,
                None => map.serialize_value(value)?,
            }
        }
        map.end()
    }
}

/// What a detailed file holds of every request, under one of [`DETAILS`].
struct Column<'a> {
    key: &'a str,
    details: &'a Details,
}

impl Serialize for Column<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let details = self.details;
        match self.key {
            "input_lens" => serializer.collect_seq(details.outputs.iter().map(|it| it.tokens.input)),
            "output_lens" => serializer.collect_seq(details.outputs.iter().map(|it| it.tokens.output)),
            "ttfts" => details.ttfts.serialize(serializer),
            "itls" => details.itls.serialize(serializer),
            "latencies" => details.latencies.serialize(serializer),
            "start_times" => details.start_times.serialize(serializer),
            "queue_times" => details.queue_times.serialize(serializer),
            "generated_texts" => serializer.collect_seq(details.outputs.iter().map(|it| &it.generated)),
            "errors" => details.errors.serialize(serializer),
            "outputs" => details.outputs.serialize(serializer),
            other => unreachable!("DETAILS names the columns, and {other} is none"),
        }
    }
}

/// The summary that a latency's name stands for.
pub(super) fn summary_of(latency: &Latency, metric: LatencyMetric) -> &Summary {
    match metric {
        LatencyMetric::Ttft => &latency.ttft_ms,
        LatencyMetric::Tpot => &latency.tpot_ms,
        LatencyMetric::Itl => &latency.itl_ms,
        LatencyMetric::E2el => &latency.e2el_ms,
    }
}

fn add_settings(file: &mut Map<String, Value>, report: &Report) {
    let about = &report.about;
    let settings = settings(about);
    let setting = |key: &str| settings.get(key).cloned().expect("AT_THE_TOP names members of About");
    put(file, "date", &about.date);
    put(file, "endpoint_type", about.endpoint_type.as_ref().or(about.backend.as_ref()));
    for key in ["backend", "label", "model_id", "tokenizer_id", "num_prompts"] {
        file.insert(key.to_owned(), setting(key));
    }
    // As in vLLM, the user's pairs stand here, and a measured key of the same name takes their place. All of them are in our part.
    let taken: Vec<String> = file.keys().cloned().collect();
    for (key, value) in &about.metadata {
        if key != "sobench" && !taken.contains(key) && !DETAILS.contains(&key.as_str()) && !OF_SOME_LOADS.contains(&key.as_str())
        {
            put(file, key, value);
        }
    }
    for key in ["request_rate", "burstiness", "max_concurrency"] {
        file.insert(key.to_owned(), setting(key));
    }
    report.load.iter().for_each(|load| load.add_settings(file));
}

fn add_totals(file: &mut Map<String, Value>, metrics: &Metrics) {
    let percent = |rate: Option<Rate>| rate.map(|rate| rate.percent);
    let (overall, throughput) = (&metrics.overall, &metrics.overall.throughput);
    put(file, "correct_rate(%)", percent(metrics.quality.correct_rate));
    put(file, "vllm_correct_rate(%)", percent(metrics.quality.vllm.correct_rate));
    put(file, "duration", metrics.duration_ns as f64 / 1e9);
    put(file, "completed", overall.completed);
    put(file, "failed", overall.failed);
    put(file, "total_input_tokens", overall.tokens.input);
    put(file, "total_output_tokens", overall.tokens.output);
    put(file, "request_throughput", throughput.request_throughput);
    put(file, "request_goodput", throughput.request_goodput);
    put(file, "output_throughput", throughput.output_throughput);
    put(file, "total_token_throughput", throughput.total_token_throughput);
}

/// vLLM's keys of the small requests beside a run.
pub(super) fn add_probe(file: &mut Map<String, Value>, probed: &Probed) {
    put(file, "probe_completed", probed.completed);
    put(file, "probe_failed", probed.failed);
    put(file, "probe_median_e2el_ms", probed.median_e2el_ms);
    put(file, "probe_p99_e2el_ms", probed.p99_e2el_ms);
    put(file, "probe_max_e2el_ms", probed.max_e2el_ms);
}

/// vLLM's keys of what speculative decoding did.
pub(super) fn add_spec_decode(file: &mut Map<String, Value>, spec_decode: &SpecDecode) {
    put(file, "spec_decode_acceptance_rate", spec_decode.acceptance_rate);
    put(file, "spec_decode_acceptance_length", spec_decode.acceptance_length);
    put(file, "spec_decode_num_drafts", spec_decode.num_drafts);
    put(file, "spec_decode_draft_tokens", spec_decode.draft_tokens);
    put(file, "spec_decode_accepted_tokens", spec_decode.accepted_tokens);
    put(file, "spec_decode_per_position_acceptance_rates", &spec_decode.per_position_acceptance_rates);
}

/// Mean, median, deviation and percentiles under one name.
pub(super) fn add_latency(file: &mut Map<String, Value>, key: &str, summary: &Summary) {
    put(file, &format!("mean_{key}_ms"), summary.mean);
    put(file, &format!("median_{key}_ms"), summary.median);
    put(file, &format!("std_{key}_ms"), summary.std);
    for percentile in &summary.percentiles {
        put(file, &format!("p{}_{key}_ms", percentile.word()), percentile.value);
    }
}

/// What vLLM has no key for: the conditions of the run, every outcome, every rate with its interval, every arm.
fn own_part(report: &Report) -> Value {
    let metrics = &report.metrics;
    let mut own = Map::new();
    put(&mut own, "format_version", FORMAT_VERSION);
    own.extend(settings(&report.about).into_iter().filter(|(key, _)| !AT_THE_TOP.contains(&key.as_str())));
    put(&mut own, "percentile_metrics", &report.percentile_metrics);
    if !report.queue_metrics.is_empty() {
        put(&mut own, "queue_metrics", &report.queue_metrics);
    }
    put(&mut own, "load", &report.load);
    put(&mut own, "client", &report.client);
    if !report.shards.is_empty() {
        put(&mut own, "shards", &report.shards);
    }
    put(&mut own, "options", &metrics.options);
    put(&mut own, "outcomes", metrics.outcomes);
    put(&mut own, "quality", &metrics.quality);
    put(&mut own, "failures", &metrics.failures);
    put(&mut own, "overall", &metrics.overall);
    put(&mut own, "arms", &metrics.arms);
    if !report.parts.is_empty() {
        put(&mut own, "datasets", &report.parts);
    }
    Value::Object(own)
}

fn settings(about: &About) -> Map<String, Value> {
    match to_value(about) {
        Value::Object(settings) => settings,
        other => unreachable!("a struct with named fields is an object, not {other}"),
    }
}

/// Requests per second, in vLLM's spelling.
pub(super) struct Rps(pub(super) f64);

impl Serialize for Rps {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        rate_or_inf(&Some(self.0), serializer)
    }
}

pub(super) fn put(map: &mut Map<String, Value>, key: &str, value: impl Serialize) {
    map.insert(key.to_owned(), to_value(value));
}

/// A value of ours as JSON. A number that JSON does not have becomes `null`.
fn to_value(value: impl Serialize) -> Value {
    serde_json::to_value(value).expect("reports hold only strings, numbers and structs of them, with string keys")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::testing::{Made, made, with_samples};
    use crate::metrics::{MetricsOptions, summarise};

    fn rendered(run: &[Made<'_>], about: About, detailed: bool) -> Value {
        let options = MetricsOptions { percentiles: vec![50.0, 99.9], ..MetricsOptions::default() };
        let report = with_samples(run, |samples| Report {
            details: Some(Details::of(samples, &options)),
            ..Report::new(about, summarise(samples, 2_000_000_000, &options))
        });
        to_value(render(&report, detailed))
    }

    fn keys(value: &Value) -> Vec<&str> {
        value.as_object().unwrap().keys().map(String::as_str).collect()
    }

    #[test]
    fn keys_come_in_vllms_order() {
        let about = About { metadata: vec![("gpu".into(), "none".into())], ..About::default() };
        let value = rendered(&[made()], about, false);
        let expected = "date endpoint_type backend label model_id tokenizer_id num_prompts gpu request_rate burstiness max_concurrency \
            correct_rate(%) vllm_correct_rate(%) duration completed failed total_input_tokens total_output_tokens request_throughput \
            request_goodput output_throughput total_token_throughput max_output_tokens_per_s max_concurrent_requests mean_ttft_ms \
            median_ttft_ms std_ttft_ms p50_ttft_ms p99.9_ttft_ms";
        assert_eq!(keys(&value)[..29].join(" "), expected.split_whitespace().collect::<Vec<_>>().join(" "));
        assert_eq!(*keys(&value).last().unwrap(), "sobench");
    }

    #[test]
    fn details_stand_where_vllm_has_them_and_only_on_request() {
        let value = rendered(&[made()], About::default(), true);
        let keys = keys(&value);
        let from = keys.iter().position(|it| *it == "input_lens").unwrap();
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
        assert_eq!(rendered(&[made()], About::default(), false).get("outputs"), None);
    }

    #[test]
    fn metadata_never_replaces_a_measured_figure() {
        let pairs =
            [("backend", "mine"), ("completed", "all"), ("sobench", "x"), ("rack", "6"), ("rack", "7"), ("errors", "none")];
        let metadata = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
        let value = rendered(&[made()], About { backend: Some("vllm".into()), metadata, ..About::default() }, false);
        assert_eq!((&value["backend"], &value["rack"]), (&Value::from("vllm"), &Value::from("7")));
        assert_eq!(value["completed"].as_u64(), Some(1));
        assert_eq!(value.get("errors"), None);
        assert_eq!(value["sobench"]["metadata"]["completed"], "all");
        assert_eq!(value["sobench"]["metadata"]["sobench"], "x");
    }

    #[test]
    fn an_infinite_rate_is_a_word_and_nothing_is_null() {
        let value = rendered(&[], About { request_rate: Some(f64::INFINITY), ..About::default() }, true);
        assert_eq!(value["request_rate"], "inf");
        for key in ["mean_ttft_ms", "p50_itl_ms", "correct_rate(%)", "request_goodput", "max_output_tokens_per_s", "model_id"] {
            assert!(value[key].is_null(), "{key}");
        }
        assert_eq!(value["duration"].as_f64(), Some(2.0));
    }

    #[test]
    fn no_not_a_number_reaches_the_file() {
        let about = About { burstiness: Some(f64::NAN), constrained_ratio: Some(f64::NEG_INFINITY), ..About::default() };
        let text = rendered(&[made()], about, true).to_string();
        assert!(!text.contains("NaN") && !text.to_lowercase().contains("infinity"));
    }

    #[test]
    fn peaks_count_what_their_keys_say() {
        let value = rendered(&[Made { output: Some(12), ..made() }], About::default(), false);
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
