//! Exports of AIPerf (`profile_export_aiperf.json`) and GuideLLM (`benchmarks.json`): their figures, by
//! the names of ours. Neither has verdicts.
//!
//! Both call the time of an answer after its first token, by its other tokens, the *inter-token
//! latency*: it is TPOT here. GuideLLM's own *time per output token* counts the first token, and has no
//! counterpart.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{MS_PER_S, known, normalized, number};
use crate::compare::side::{FileKind, Run, SavedMean};
use crate::metrics::registry::{Figure, Metric, Stat, latencies, totals};
use sobench_core::error::{Error, Result};
use sobench_plan::record::condition::{Conditions, Field};

/// Distributions of AIPerf.
const OF_AIPERF: [(&str, &Metric); 4] = [
    ("time_to_first_token", &latencies::TTFT),
    ("inter_token_latency", &latencies::TPOT),
    ("inter_chunk_latency", &latencies::ITL),
    ("request_latency", &latencies::E2EL),
];

/// Numbers of AIPerf.
const NUMBERS_OF_AIPERF: [(&str, &Metric); 5] = [
    ("request_throughput", &totals::REQUEST_THROUGHPUT),
    ("output_token_throughput", &totals::OUTPUT_THROUGHPUT),
    ("total_token_throughput", &totals::TOTAL_TOKEN_THROUGHPUT),
    ("request_count", &totals::COMPLETED),
    ("error_request_count", &totals::FAILED),
];

/// Distributions of GuideLLM, with their unit in milliseconds.
const OF_GUIDELLM: [(&str, &Metric, f64); 3] = [
    ("time_to_first_token_ms", &latencies::TTFT, 1.0),
    ("inter_token_latency_ms", &latencies::TPOT, 1.0),
    ("request_latency", &latencies::E2EL, MS_PER_S),
];

/// The kind of export, from its keys.
pub(super) fn kind(top: &Map<String, Value>) -> Option<FileKind> {
    let has = |key: &str, part: &str| top.get(key).is_some_and(|value| value.get(part).is_some());
    if has("request_latency", "unit") && top.contains_key("input_config") {
        return Some(FileKind::Aiperf);
    }
    let first = top.get("benchmarks")?.get(0)?;
    first.get("metrics").map(|_| FileKind::Guidellm)
}

/// What an export says so far.
#[derive(Default)]
struct Found {
    figures: BTreeMap<String, f64>,
    means: BTreeMap<&'static Metric, SavedMean>,
}

impl Found {
    /// Adds a distribution whose numbers are in units of `ms`. `stat` finds a number by its name and
    /// its percentile; `n` is its size.
    fn add(
        &mut self,
        metric: &'static Metric,
        ms: f64,
        n: Option<f64>,
        stat: impl Fn(Stat) -> Option<f64>,
        deviation: Option<f64>,
    ) {
        let stats = [
            Stat::Mean,
            Stat::Median,
            Stat::Percentile(90_000),
            Stat::Percentile(95_000),
            Stat::Percentile(99_000),
        ];
        for name in stats {
            let figure = Figure::from_distribution(metric, name).to_string();
            self.figures
                .extend(stat(name).map(|value| (figure, ms * value)));
        }
        if let Some(n) = n.filter(|n| *n >= 1.0) {
            let mean = SavedMean {
                n: n as usize,
                standard_error: deviation.map(|deviation| ms * deviation / n.sqrt()),
            };
            self.means.insert(metric, mean);
        }
    }

    fn run(
        self,
        file: &str,
        kind: FileKind,
        conditions: Conditions,
        duration_s: Option<f64>,
    ) -> Run {
        Run {
            file: file.to_owned(),
            kind,
            conditions,
            duration_s,
            figures: self.figures,
            means: self.means,
            ..Run::default()
        }
    }
}

/// An export of AIPerf.
pub(super) fn read_aiperf(file: &str, top: &Map<String, Value>) -> Run {
    let at = |name: &str, key: &str| top.get(name)?.get(key).and_then(number);
    let mut found = Found::default();
    let requests = at("request_count", "avg");
    for (name, metric) in OF_AIPERF {
        let unit = top.get(name).and_then(|value| value.get("unit")?.as_str());
        let ms = match unit {
            Some("ms") => 1.0,
            Some("sec" | "s") => MS_PER_S,
            Some("us") => 1e-3,
            Some("ns") => 1e-6,
            _ => continue,
        };
        let stat = |stat: Stat| {
            let key = match stat {
                Stat::Mean => "avg".to_owned(),
                Stat::Median => "p50".to_owned(),
                other => format!("p{}", other.percent()?),
            };
            at(name, &key)
        };
        let count = at(name, "count").or(requests.filter(|_| *metric != latencies::ITL));
        found.add(metric, ms, count, stat, at(name, "std"));
    }
    let numbers = NUMBERS_OF_AIPERF.into_iter();
    let numbers =
        numbers.filter_map(|(name, metric)| Some((metric.name.to_owned(), at(name, "avg")?)));
    found.figures.extend(numbers);
    let config = |part: &str, key: &str| top.get("input_config")?.get(part)?.get(key);
    let model = config("endpoint", "model_names").and_then(|names| normalized(names.get(0)?));
    let load = |key: &str| config("loadgen", key).and_then(normalized);
    let conditions = [
        (Field::Model, model),
        (Field::NumPrompts, load("request_count")),
        (Field::RequestRate, load("request_rate")),
        (Field::MaxConcurrency, load("concurrency")),
    ];
    let duration_s = at("benchmark_duration", "avg");
    found.run(file, FileKind::Aiperf, known(conditions), duration_s)
}

/// An export of GuideLLM with one benchmark.
///
/// # Errors
/// It has several, as of a sweep.
pub(super) fn read_guidellm(file: &str, top: &Map<String, Value>) -> Result<Run> {
    let benchmarks = top.get("benchmarks").and_then(Value::as_array);
    let Some([benchmark]) = benchmarks.map(Vec::as_slice) else {
        let count = benchmarks.map_or(0, Vec::len);
        return Err(
            Error::usage(format!("{count} benchmarks in one file: {file}"))
                .hint("compare exports with one benchmark each: run GuideLLM with one rate"),
        );
    };
    let metrics = &benchmark["metrics"];
    let of = |name: &str| metrics.get(name)?.get("successful");
    let at = |name: &str, key: &str| of(name)?.get(key).and_then(number);
    let mut found = Found::default();
    for (name, metric, ms) in OF_GUIDELLM {
        let stat = |stat: Stat| match stat {
            Stat::Mean => at(name, "mean"),
            Stat::Median => at(name, "median"),
            other => {
                let percentiles = of(name)?.get("percentiles")?;
                percentiles
                    .get(format!("p{}", other.percent()?))
                    .and_then(number)
            }
        };
        found.add(metric, ms, at(name, "count"), stat, at(name, "std_dev"));
    }
    for (name, metric) in [
        ("requests_per_second", &totals::REQUEST_THROUGHPUT),
        ("output_tokens_per_second", &totals::OUTPUT_THROUGHPUT),
        ("tokens_per_second", &totals::TOTAL_TOKEN_THROUGHPUT),
    ] {
        found
            .figures
            .extend(at(name, "mean").map(|value| (metric.name.to_owned(), value)));
    }
    let totals = metrics.get("request_totals");
    for (key, metric) in [
        ("successful", &totals::COMPLETED),
        ("errored", &totals::FAILED),
    ] {
        let count = totals.and_then(|totals| totals.get(key)).and_then(number);
        found
            .figures
            .extend(count.map(|count| (metric.name.to_owned(), count)));
    }
    let all = totals
        .and_then(|totals| totals.get("total"))
        .and_then(normalized);
    let conditions = known([(Field::NumPrompts, all)]);
    let duration_s = benchmark.get("duration").and_then(number);
    Ok(found.run(file, FileKind::Guidellm, conditions, duration_s))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::read::parse_runs;

    /// The shape of an export of AIPerf 0.5.
    const AIPERF: &str = r#"{
        "request_throughput": {"unit": "requests/sec", "avg": 12.5},
        "request_latency": {"unit": "sec", "avg": 0.8, "p50": 0.7, "p99": 1.4, "std": 0.2},
        "time_to_first_token": {"unit": "ms", "avg": 92.0, "p50": 88.0, "p90": 120.0, "p99": 210.0, "std": 30.0},
        "inter_token_latency": {"unit": "ms", "avg": 9.0, "p50": 8.5, "p99": 14.0, "std": 2.0},
        "output_token_throughput": {"unit": "tokens/sec", "avg": 900.0},
        "request_count": {"unit": "requests", "avg": 400.0},
        "error_request_count": {"unit": "requests", "avg": 3.0},
        "benchmark_duration": {"unit": "sec", "avg": 32.0},
        "input_config": {"endpoint": {"model_names": ["m"]}, "loadgen": {"concurrency": 8, "request_count": 403}}
    }"#;

    #[test]
    fn aiperf_calls_tpot_the_inter_token_latency() {
        let run = parse_runs("a.json", AIPERF.as_bytes()).unwrap().remove(0);
        assert_eq!(run.kind, FileKind::Aiperf);
        for (figure, expected) in [
            ("mean_ttft_ms", 92.0),
            ("median_ttft_ms", 88.0),
            ("p90_ttft_ms", 120.0),
            ("p99_ttft_ms", 210.0),
            ("median_tpot_ms", 8.5),
            ("median_e2el_ms", 700.0),
            ("request_throughput", 12.5),
            ("output_throughput", 900.0),
            ("completed", 400.0),
            ("failed", 3.0),
        ] {
            assert_eq!(run.figures.get(figure), Some(&expected), "{figure}");
        }
        assert!(!run.figures.contains_key("mean_itl_ms"));
        let mean = run.means[&latencies::E2EL];
        assert_eq!((mean.n, mean.standard_error), (400, Some(10.0)));
        let conditions = [Field::Model, Field::MaxConcurrency, Field::NumPrompts];
        let known = conditions.map(|field| run.conditions[&field].clone());
        assert_eq!(known, ["m", "8", "403"]);
        assert_eq!(run.duration_s, Some(32.0));
    }

    #[test]
    fn guidellm_has_latencies_in_seconds_and_one_benchmark() {
        let benchmark = r#"{"duration": 30.5, "metrics": {
            "request_totals": {"successful": 40, "errored": 2, "total": 42},
            "requests_per_second": {"successful": {"mean": 1.5}},
            "request_latency": {"successful": {"mean": 2.0, "median": 1.9, "std_dev": 0.4, "count": 100, "percentiles": {"p99": 3.5}}},
            "time_to_first_token_ms": {"successful": {"mean": 50.0, "median": 48.0, "std_dev": 5.0, "count": 40, "percentiles": {"p90": 60.0}}},
            "time_per_output_token_ms": {"successful": {"mean": 99.0, "median": 99.0}},
            "inter_token_latency_ms": {"successful": {"mean": 7.0, "median": 6.5}}}}"#;
        let text = |count: usize| {
            format!(
                r#"{{"benchmarks": [{}]}}"#,
                vec![benchmark; count].join(",")
            )
        };
        let run = parse_runs("g.json", text(1).as_bytes()).unwrap().remove(0);
        assert_eq!(run.kind, FileKind::Guidellm);
        for (figure, expected) in [
            ("mean_e2el_ms", 2000.0),
            ("p99_e2el_ms", 3500.0),
            ("p90_ttft_ms", 60.0),
            ("median_tpot_ms", 6.5),
            ("request_throughput", 1.5),
            ("failed", 2.0),
        ] {
            assert_eq!(run.figures.get(figure), Some(&expected), "{figure}");
        }
        assert_eq!(run.means[&latencies::E2EL].standard_error, Some(40.0));
        let error = parse_runs("g.json", text(2).as_bytes()).unwrap_err();
        assert_eq!(error.what, "2 benchmarks in one file: g.json");
    }
}
