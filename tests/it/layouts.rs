//! Results in the layouts of vLLM's tools, parsed by structs that reject unknown keys, missing keys
//! and wrong types. The structs were made from the output of vLLM 0.32 and 0.33.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use sobench_embedded::{EmbeddedOptions, EmbeddedServer, Fault};
use sobench_testkit::scripted::{ScriptedServer, models, whole};

use crate::support::sobench;

/// `vllm bench serve --percentile-metrics
/// ttft,tpot,itl,e2el,client_queue_time,e2el_including_client_queue --save-detailed`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "some members are only parsed")]
struct Detailed {
    input_lens: Vec<u64>,
    output_lens: Vec<u64>,
    ttfts: Vec<f64>,
    itls: Vec<Vec<f64>>,
    start_times: Vec<f64>,
    generated_texts: Vec<String>,
    errors: Vec<String>,
}

/// Members of every saved run, with the default latencies.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "some members are only parsed")]
struct Serve {
    date: String,
    endpoint_type: String,
    backend: String,
    label: Value,
    model_id: String,
    tokenizer_id: String,
    num_prompts: usize,
    request_rate: Value,
    burstiness: f64,
    max_concurrency: Value,
    duration: f64,
    completed: usize,
    failed: usize,
    total_input_tokens: u64,
    total_output_tokens: u64,
    request_throughput: f64,
    request_goodput: Value,
    output_throughput: f64,
    total_token_throughput: f64,
    latencies: Vec<f64>,
    queue_times: Vec<f64>,
    max_output_tokens_per_s: f64,
    max_concurrent_requests: u64,
    rtfx: f64,
    mean_ttft_ms: f64,
    median_ttft_ms: f64,
    std_ttft_ms: f64,
    p99_ttft_ms: f64,
    mean_tpot_ms: f64,
    median_tpot_ms: f64,
    std_tpot_ms: f64,
    p99_tpot_ms: f64,
    mean_itl_ms: f64,
    median_itl_ms: f64,
    std_itl_ms: f64,
    p99_itl_ms: f64,
}

/// The same for a backend that computes vectors.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "some members are only parsed")]
struct Pooling {
    date: String,
    endpoint_type: String,
    backend: String,
    label: Value,
    model_id: String,
    tokenizer_id: String,
    num_prompts: usize,
    request_rate: Value,
    burstiness: f64,
    max_concurrency: Value,
    duration: f64,
    completed: usize,
    total_input_tokens: u64,
    total_input_sequences: usize,
    request_throughput: f64,
    input_sequence_throughput: f64,
    total_token_throughput: f64,
    latencies: Vec<f64>,
    queue_times: Vec<f64>,
    mean_e2el_ms: f64,
    median_e2el_ms: f64,
    std_e2el_ms: f64,
    p99_e2el_ms: f64,
}

/// `benchmark_serving_structured_output.py --save-results`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "some members are only parsed")]
struct Structured {
    outputs: Vec<Output>,
    backend: String,
    model_id: String,
    tokenizer_id: String,
    num_prompts: usize,
    request_rate: Value,
    burstiness: f64,
    max_concurrency: Value,
    #[serde(rename = "correct_rate(%)")]
    correct_rate: f64,
    duration: f64,
    completed: usize,
    total_input_tokens: u64,
    total_output_tokens: u64,
    request_throughput: f64,
    output_throughput: f64,
    total_token_throughput: f64,
    ttft_description: Description,
    tpot_description: Description,
    input_lens: Vec<u64>,
    output_lens: Vec<u64>,
    ttfts: Vec<f64>,
    itls: Vec<Vec<f64>>,
    errors: Vec<String>,
    mean_ttft_ms: f64,
    median_ttft_ms: f64,
    std_ttft_ms: f64,
    p99_ttft_ms: f64,
    mean_tpot_ms: f64,
    median_tpot_ms: f64,
    std_tpot_ms: f64,
    p99_tpot_ms: f64,
    mean_itl_ms: f64,
    median_itl_ms: f64,
    std_itl_ms: f64,
    p99_itl_ms: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "some members are only parsed")]
struct Output {
    generated: String,
    #[serde(deserialize_with = "present")]
    expected: Option<String>,
    #[serde(deserialize_with = "present")]
    correctness: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "some members are only parsed")]
struct Description {
    count: f64,
    mean: f64,
    std: f64,
    min: f64,
    #[serde(rename = "25%")]
    lower: f64,
    #[serde(rename = "50%")]
    median: f64,
    #[serde(rename = "75%")]
    upper: f64,
    max: f64,
}

/// A member that may be `null` but not missing.
fn present<'de, T: Deserialize<'de>, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    Option::deserialize(deserializer)
}

const REQUESTS: usize = 40;

/// Saves a run on the embedded server in a layout under its default name. Returns the text and the
/// name of the file.
fn saved(folder: &Path, arguments: &[&str]) -> (String, String) {
    let path = folder.to_str().unwrap();
    let count = REQUESTS.to_string();
    let mut all = vec![
        "--num-prompts",
        &count,
        "--disable-tqdm",
        "--save-result",
        "--result-dir",
        path,
    ];
    all.extend_from_slice(arguments);
    let ran = sobench(&all);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let line = ran
        .stderr
        .lines()
        .find_map(|line| line.strip_prefix("result saved: "))
        .expect("the path is reported");
    (
        std::fs::read_to_string(line).unwrap(),
        Path::new(line)
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned(),
    )
}

/// The keys of an object in order. serde_json's map must preserve the order.
fn keys(text: &str) -> Vec<String> {
    let value: Value = serde_json::from_str(text).unwrap();
    value.as_object().unwrap().keys().cloned().collect()
}

fn faulty_server() -> EmbeddedServer {
    let faults = ["extra-text@0.3", "error-500@0.2"].map(|fault| Fault::parse(fault).unwrap());
    EmbeddedServer::start(EmbeddedOptions {
        faults: faults.to_vec(),
        ..EmbeddedOptions::default()
    })
    .unwrap()
}

#[test]
fn bench_serve_struct_parses_the_result() {
    let folder = tempfile::tempdir().unwrap();
    let server = faulty_server();
    let (text, name) = saved(
        folder.path(),
        &[
            "--result-format",
            "vllm-serve",
            "--base-url",
            server.base_url(),
            "--skip-preflight",
            "--max-concurrency",
            "4",
        ],
    );
    let result: Serve = serde_json::from_str(&text).unwrap();
    assert!(!text.contains('\n'), "one line, as json.dump writes it");
    assert_eq!(
        (result.num_prompts, result.completed + result.failed),
        (REQUESTS, REQUESTS)
    );
    assert!(result.failed > 0, "the planted failures show");
    assert_eq!(
        result
            .latencies
            .iter()
            .filter(|latency| **latency == 0.0)
            .count(),
        result.failed,
        "a failure counts as 0, as in vLLM"
    );
    assert_eq!(result.queue_times.len(), REQUESTS);
    assert_eq!(
        (result.request_rate, result.max_concurrency),
        ("inf".into(), 4.into())
    );
    assert_eq!(result.endpoint_type, result.backend);
    assert!(result.label.is_null() && result.request_goodput.is_null());
    assert!((result.request_throughput * result.duration - result.completed as f64).abs() < 1e-6);
    let (model, date) = (result.model_id.rsplit('/').next().unwrap(), &result.date);
    assert_eq!(
        name,
        format!("vllm-infqps-concurrency4-{model}-{date}.json")
    );
    let order = "date endpoint_type backend label model_id tokenizer_id num_prompts request_rate burstiness max_concurrency duration \
        completed failed total_input_tokens total_output_tokens request_throughput request_goodput output_throughput \
        total_token_throughput latencies queue_times max_output_tokens_per_s max_concurrent_requests rtfx mean_ttft_ms median_ttft_ms \
        std_ttft_ms p99_ttft_ms mean_tpot_ms median_tpot_ms std_tpot_ms p99_tpot_ms mean_itl_ms median_itl_ms std_itl_ms p99_itl_ms";
    assert_eq!(keys(&text), order.split_whitespace().collect::<Vec<_>>());
}

#[test]
fn details_ramp_up_metadata_and_queue_times_are_in_vllm_order() {
    let folder = tempfile::tempdir().unwrap();
    let (text, name) = saved(
        folder.path(),
        &[
            "--result-format",
            "vllm-serve",
            "--save-detailed",
            "--max-concurrency",
            "2",
            "--request-rate",
            "400",
            "--metadata",
            "gpu=none",
            "date=mine",
            "--label",
            "night",
            "--goodput",
            "e2el:60000",
            "--percentile-metrics",
            "e2el,client_queue_time,e2el_including_client_queue",
            "--metric-percentiles",
            "50,99.9",
        ],
    );
    assert!(name.starts_with("night-400.0qps-concurrency2-"), "{name}");
    let order = "date endpoint_type backend label model_id tokenizer_id num_prompts gpu request_rate burstiness max_concurrency duration \
        completed failed total_input_tokens total_output_tokens request_throughput request_goodput output_throughput \
        total_token_throughput input_lens output_lens ttfts itls latencies start_times queue_times generated_texts errors \
        max_output_tokens_per_s max_concurrent_requests rtfx mean_e2el_ms median_e2el_ms std_e2el_ms p50_e2el_ms p99.9_e2el_ms \
        mean_client_queue_time_ms median_client_queue_time_ms std_client_queue_time_ms p50_client_queue_time_ms \
        p99.9_client_queue_time_ms mean_e2el_including_client_queue_ms median_e2el_including_client_queue_ms \
        std_e2el_including_client_queue_ms p50_e2el_including_client_queue_ms p99.9_e2el_including_client_queue_ms";
    assert_eq!(keys(&text), order.split_whitespace().collect::<Vec<_>>());
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_ne!(value["date"], "mine", "known keys are not overwritten");
    let columns = "input_lens output_lens ttfts itls start_times generated_texts errors";
    let columns: serde_json::Map<String, Value> = columns
        .split_whitespace()
        .map(|key| (key.to_owned(), value[key].clone()))
        .collect();
    let columns: Detailed = serde_json::from_value(Value::Object(columns)).unwrap();
    let lengths = [
        columns.input_lens.len(),
        columns.output_lens.len(),
        columns.ttfts.len(),
        columns.itls.len(),
        columns.start_times.len(),
        columns.generated_texts.len(),
        columns.errors.len(),
    ];
    assert_eq!(lengths, [REQUESTS; 7]);
    assert!(
        columns
            .generated_texts
            .iter()
            .all(|text| text.starts_with('{')),
        "answers are complete"
    );
    let field = |key: &str| value[key].as_f64().unwrap();
    let waited = field("mean_e2el_including_client_queue_ms")
        - field("mean_e2el_ms")
        - field("mean_client_queue_time_ms");
    assert!(
        waited.abs() < 1e-6,
        "queue time and latency sum to the total"
    );

    let ramp = [
        "--ramp-up-strategy",
        "linear",
        "--ramp-up-start-rps",
        "200",
        "--ramp-up-end-rps",
        "400",
    ];
    let (text, name) = saved(
        folder.path(),
        &[&["--result-format", "vllm-serve"], &ramp[..]].concat(),
    );
    assert!(
        name.starts_with("vllm-ramp-up-linear-200qps-400qps-"),
        "{name}"
    );
    let keys = keys(&text);
    let after =
        |key: &str| keys[keys.iter().position(|candidate| candidate == key).unwrap() + 1].clone();
    assert_eq!(
        (after("max_concurrency"), after("rtfx")),
        ("ramp_up_strategy".into(), "rps_change_events".into())
    );
}

#[test]
fn append_result_writes_lines_as_bench_serve() {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        saved(
            folder.path(),
            &[
                "--result-format",
                "vllm-serve",
                "--append-result",
                "--result-filename",
                "all.jsonl",
            ],
        );
    }
    let file = std::fs::read_to_string(folder.path().join("all.jsonl")).unwrap();
    assert!(
        !file.ends_with('\n'),
        "bench serve writes the line feed before the next line"
    );
    let lines: Vec<Serve> = file
        .split('\n')
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 2);
}

#[test]
fn bench_serve_struct_parses_pooling_results() {
    let folder = tempfile::tempdir().unwrap();
    let vector = include_str!("../../fixtures/bodies/vllm-embeddings.json");
    let server = ScriptedServer::answering(move |request| {
        if request.is_model_list() {
            models()
        } else {
            whole("200 OK", "application/json", vector)
        }
    });
    let (text, _) = saved(
        folder.path(),
        &[
            "--result-format",
            "vllm-serve",
            "--backend",
            "openai-embeddings",
            "--base-url",
            &server.base_url,
        ],
    );
    let result: Pooling = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (result.total_input_sequences, result.completed),
        (REQUESTS, REQUESTS)
    );
}

#[test]
fn structured_output_script_struct_parses_the_result() {
    let folder = tempfile::tempdir().unwrap();
    let server = faulty_server();
    let arguments = [
        "--result-format",
        "vllm-structured",
        "--base-url",
        server.base_url(),
        "--skip-preflight",
    ];
    let (text, name) = saved(folder.path(), &arguments);
    let result: Structured = serde_json::from_str(&text).unwrap();
    assert!(
        text.starts_with("{\n    \"outputs\": [\n        {\n            \"generated\""),
        "indented by four spaces"
    );
    let model = result.model_id.rsplit('/').next().unwrap();
    assert_eq!(
        name,
        format!("1.0so_vllm_infqps_{model}_json_{REQUESTS}_out128.txt")
    );
    let valid = result
        .outputs
        .iter()
        .filter(|output| output.correctness == Some(true))
        .count();
    assert!(
        0 < valid && valid < result.completed,
        "the injected faults are visible"
    );
    assert!((result.correct_rate - 100.0 * valid as f64 / REQUESTS as f64).abs() < 1e-9);
    assert!(
        result
            .outputs
            .iter()
            .all(|output| output.expected.is_none())
    );
    let failed = result
        .errors
        .iter()
        .filter(|error| !error.is_empty())
        .count();
    assert_eq!(result.completed + failed, REQUESTS);
    let described = &result.ttft_description;
    assert_eq!(
        described.count, result.completed as f64,
        "failures do not count as 0"
    );
    assert!(described.min > 0.0 && (described.mean * 1000.0 - result.mean_ttft_ms).abs() < 1e-6);
    let order = [
        described.min,
        described.lower,
        described.median,
        described.upper,
        described.max,
    ];
    assert!(
        order.is_sorted() && described.std > result.std_ttft_ms / 1000.0,
        "sample standard deviation, as in pandas"
    );
    assert!(result.tpot_description.count <= described.count);
    assert_eq!(
        keys(&text)[..4],
        ["outputs", "backend", "model_id", "tokenizer_id"]
    );

    let (_, second) = saved(folder.path(), &arguments);
    assert_eq!(
        second,
        name.replace(".txt", "-2.txt"),
        "results are not overwritten"
    );
    let log = folder.path().join(name).with_extension("jsonl");
    let again = sobench(&[
        "report",
        log.to_str().unwrap(),
        "--format",
        "vllm-structured",
    ]);
    assert_eq!(again.stdout, text, "the log gives the same result");
}
