//! The result as records of the PyTorch benchmark database, as vLLM's tools write them with
//! `SAVE_TO_PYTORCH_BENCHMARK_FORMAT` (`convert_to_pytorch_benchmark_format` in
//! `vllm/benchmarks/lib/utils.py`).

use serde_json::{Map, Value, json};

use super::{Report, json};
use sobench_plan::record::RunRecord;

/// The figures that have a record, where the result has them.
const METRICS: [&str; 12] = [
    "median_ttft_ms",
    "mean_ttft_ms",
    "std_ttft_ms",
    "p99_ttft_ms",
    "mean_tpot_ms",
    "median_tpot_ms",
    "std_tpot_ms",
    "p99_tpot_ms",
    "median_itl_ms",
    "mean_itl_ms",
    "std_itl_ms",
    "p99_itl_ms",
];

/// vLLM copies it from the metadata to the arguments.
const TENSOR_PARALLEL_SIZE: &str = "tensor_parallel_size";

/// A record for each known figure. `filename` is the name of the result file that the user gave: as
/// in vLLM, `eager` in it means that nothing was compiled.
pub fn render(report: &Report, filename: Option<&str>) -> Value {
    let result = json::members(report, false);
    let is_extra = |key: &str| !METRICS.contains(&key) && key != "sobench";
    let extra: Map<String, Value> = result
        .iter()
        .filter(|(key, _)| is_extra(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let arguments = arguments(report);
    let use_compile = !filename.is_some_and(|name| name.contains("eager"));
    let known = METRICS
        .iter()
        .filter_map(|name| Some((name, result.get(*name).filter(|value| !value.is_null())?)));
    let record = |(name, value): (&&str, &Value)| {
        json!({
            "benchmark": {
                "name": "vLLM benchmark",
                "extra_info": {
                    "args": arguments,
                    "compilation_config.mode": "",
                    "optimization_level": "",
                    "use_compile": use_compile,
                },
            },
            "model": {"name": report.record.server.model_id},
            "metric": {"name": name, "benchmark_values": [value], "extra_info": extra},
        })
    };
    Value::Array(known.map(record).collect())
}

/// vLLM puts its whole command line here; ours are the conditions of the run, under vLLM's names
/// where it has them, and without secrets.
fn arguments(report: &Report) -> Map<String, Value> {
    let record = &report.record;
    let RunRecord {
        settings, server, ..
    } = record;
    let settings = json!({
        "backend": settings.backend,
        "base_url": server.base_url,
        "endpoint": server.endpoint,
        "dataset_name": settings.dataset.source.name,
        "dataset_path": settings.dataset.source.path(),
        "num_prompts": report.requests,
        "model": server.model_id,
        "tokenizer": record.tokenizer_id,
        "seed": settings.dataset.seed,
        "burstiness": settings.load.burstiness,
        "max_concurrency": record.own_cap(),
        "label": settings.report.label,
        "structured_output_ratio": record.constrained_ratio(),
        "sobench_version": record.sobench_version,
    });
    let Value::Object(mut settings) = settings else {
        unreachable!("it is written as an object above")
    };
    let rate = record.own_request_rate();
    let rate = if rate.is_infinite() {
        json!("inf")
    } else {
        json!(rate)
    };
    settings.insert("request_rate".to_owned(), rate);
    let size = record
        .settings
        .report
        .metadata
        .iter()
        .find(|(key, _)| key == TENSOR_PARALLEL_SIZE);
    settings.extend(size.map(|(key, value)| (key.clone(), Value::from(value.as_str()))));
    settings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::testing::with_view;
    use sobench_facts::testing::{TestRequest, test_request};
    use sobench_plan::record::testing::record;

    fn rendered(run: &[TestRequest<'_>], filename: Option<&str>) -> Vec<Value> {
        let mut tagged = record();
        tagged.settings.report.metadata = vec![
            (TENSOR_PARALLEL_SIZE.into(), "8".into()),
            ("gpu".into(), "h".into()),
        ];
        with_view(run, tagged, |view| render(view.report, filename))
            .as_array()
            .unwrap()
            .clone()
    }

    #[test]
    fn each_figure_has_a_record() {
        let records = rendered(&[test_request(), test_request()], None);
        let names: Vec<&str> = records
            .iter()
            .map(|record| record["metric"]["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, METRICS);
        let first = &records[0];
        assert_eq!(
            (&first["benchmark"]["name"], &first["model"]["name"]),
            (&json!("vLLM benchmark"), &json!("m"))
        );
        assert_eq!(first["metric"]["benchmark_values"][0].as_f64(), Some(10.0));
        let info = &first["benchmark"]["extra_info"];
        assert_eq!(
            (
                &info["args"][TENSOR_PARALLEL_SIZE],
                &info["args"]["request_rate"]
            ),
            (&json!("8"), &json!("inf"))
        );
        assert_eq!(info["use_compile"], true);
        let extra = first["metric"]["extra_info"].as_object().unwrap();
        assert_eq!(
            (&extra["completed"], &extra["gpu"]),
            (&json!(2), &json!("h"))
        );
        assert!(
            !extra.contains_key("sobench") && !METRICS.iter().any(|name| extra.contains_key(*name))
        );
    }

    #[test]
    fn unknown_figures_have_no_record() {
        assert!(rendered(&[], None).is_empty());
        let records = rendered(&[test_request()], Some("run-eager.json"));
        assert_eq!(records[0]["benchmark"]["extra_info"]["use_compile"], false);
    }
}
