//! Servers without constraints (embeddings, reranking, audio): runs and reports without constraints
//! and without meaningless figures.

use serde_json::{Value, json};
use sobench_testkit::scripted::{Request, ScriptedServer, models, whole};

use crate::support::{Folder, sobench_result};

/// A server that lists a model and answers every other request with `body`.
fn serving(content_type: &'static str, body: &'static str) -> ScriptedServer {
    ScriptedServer::answering(move |request| {
        if request.is_model_list() {
            models()
        } else {
            whole("200 OK", content_type, body)
        }
    })
}

/// Sends six requests to a server of this kind and returns the received requests too.
fn run(server: &ScriptedServer, backend: &str, arguments: &[&str]) -> (Value, Vec<Request>) {
    let fixed = [
        "--backend",
        backend,
        "--base-url",
        &server.base_url,
        "--num-prompts 6 --num-warmups 1",
    ];
    let (ran, result) = sobench_result(&[&fixed[..], arguments].concat());
    assert_eq!(ran.code, 0, "{}\n{}", ran.stdout, ran.stderr);
    let mut received = server.requests();
    received.retain(|request| request.line.starts_with("POST "));
    assert_eq!(received.len(), 8, "a trial, a warm-up and six requests");
    (result, received)
}

fn body(request: &Request) -> Value {
    serde_json::from_slice(&request.body).unwrap()
}

#[test]
fn vectors_and_scores_have_e2el_but_no_tokens() {
    let prompt = "Classify this sentiment: vLLM is wonderful!";
    for (backend, path, answer, expected) in [
        (
            "openai-embeddings",
            "/v1/embeddings",
            include_str!("../../fixtures/bodies/vllm-embeddings.json"),
            json!({"model": "tiny", "input": prompt}),
        ),
        (
            "vllm-pooling",
            "/pooling",
            include_str!("../../fixtures/bodies/vllm-pooling.json"),
            json!({"model": "tiny", "truncate_prompt_tokens": -1, "input": prompt}),
        ),
        (
            "vllm-rerank",
            "/rerank",
            include_str!("../../fixtures/bodies/vllm-rerank.json"),
            json!({"model": "tiny", "query": prompt, "documents": [prompt], "truncate_prompt_tokens": -1}),
        ),
    ] {
        let server = serving("application/json", answer);
        let (result, received) = run(
            &server,
            backend,
            &["--dataset choice --goodput e2el:600000"],
        );
        let without_warm_up = [&received[..1], &received[2..]].concat();
        for request in &without_warm_up {
            assert_eq!(body(request), expected, "{backend}");
        }
        assert_ne!(
            body(&received[1]),
            expected,
            "{backend}: the warm-up has another prompt"
        );
        assert_eq!(received[0].line, format!("POST {path} HTTP/1.1"));
        assert_eq!(received[0].header("content-type"), Some("application/json"));
        for (key, value) in [("completed", 6), ("failed", 0), ("total_input_tokens", 18)] {
            assert_eq!(result[key], value, "{backend} {key}");
        }
        for key in [
            "total_output_tokens",
            "output_throughput",
            "mean_ttft_ms",
            "p99_tpot_ms",
        ] {
            assert!(result[key].is_null(), "{backend} {key}: {}", result[key]);
        }
        for key in ["mean_e2el_ms", "total_token_throughput", "request_goodput"] {
            assert!(
                result[key].as_f64() > Some(0.0),
                "{backend} {key}: {}",
                result[key]
            );
        }
        let own = &result["sobench"];
        assert_eq!(own["options"]["answers"], "computed");
        for key in ["constraint_dialect", "output_len", "constrained_ratio"] {
            assert!(own[key].is_null(), "{backend} {key}");
        }
        assert!(result["correct_rate(%)"].is_null());
    }
}

#[test]
fn documents_are_assigned_to_requests_in_turn() {
    let server = serving(
        "application/json",
        include_str!("../../fixtures/bodies/vllm-rerank.json"),
    );
    let folder = Folder::new();
    let rows = ["q", "a", "b", "c"].map(|text| json!({"prompt": text, "regex": "x"}));
    let path = folder.lines("rows.jsonl", &rows);
    let rerank = "--rerank-documents 2 --max-concurrency 1";
    let arguments = ["--dataset custom --dataset-path", &path, rerank];
    let (result, received) = run(&server, "vllm-rerank", &arguments);
    let documents: Vec<Value> = received[2..]
        .iter()
        .map(|request| body(request)["documents"].take())
        .collect();
    let pairs = ["ab", "ca", "bc", "ab", "ab", "ca"].map(|pair| json!([pair[..1], pair[1..]]));
    assert_eq!(documents, pairs);
    assert!(
        received[2..]
            .iter()
            .all(|request| body(request)["query"] == "q")
    );
    // Constraints of rows are ignored.
    assert_eq!(result["sobench"]["constraint_kinds"], json!([]));
}

#[test]
fn audio_is_sent_as_a_form_and_its_transcript_is_timed() {
    let stream = include_str!("../../fixtures/streams/vllm-transcription.sse");
    let server = serving("text/event-stream", stream);
    let folder = Folder::new();
    let paths = [("one.wav", "first sound"), ("two.mp3", "second sound")];
    let paths = paths.map(|(name, sound)| folder.file(name, sound));
    let more = "--output-len 9 --max-concurrency 1 --temperature 0";
    let arguments = ["--audio-path", &paths[0], &paths[1], more];
    let (result, received) = run(&server, "openai-audio", &arguments);
    assert_eq!(received[0].line, "POST /v1/audio/transcriptions HTTP/1.1");
    let boundary = received[0]
        .header("content-type")
        .and_then(|kind| kind.strip_prefix("multipart/form-data; boundary="))
        .unwrap();
    let parts = |request: &Request| -> Vec<String> {
        let text = String::from_utf8(request.body.clone()).unwrap();
        let (parts, end) = text.rsplit_once(&format!("--{boundary}--\r\n")).unwrap();
        assert!(end.is_empty());
        parts
            .split(&format!("--{boundary}\r\n"))
            .skip(1)
            .map(str::to_owned)
            .collect()
    };
    let field = |name: &str, value: &str| {
        format!("Content-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    let file = |name: &str, kind: &str, bytes: &str| {
        format!(
            "Content-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\nContent-Type: {kind}\r\n\r\n{bytes}\r\n"
        )
    };
    let fields = [
        ("model", "tiny"),
        ("max_completion_tokens", "9"),
        ("language", "en"),
        ("stream_include_usage", "true"),
        ("stream_continuous_usage_stats", "true"),
        ("stream", "true"),
        ("temperature", "0.0"),
    ];
    let fields = fields.map(|(name, value)| field(name, value));
    let with = |file: String| [vec![file], fields.to_vec()].concat();
    let first = with(file("one.wav", "audio/wav", "first sound"));
    assert_eq!(parts(&received[2]), first);
    assert_eq!(
        parts(&received[3]),
        with(file("two.mp3", "audio/mpeg", "second sound"))
    );
    assert_eq!(parts(&received[4]), first, "files are sent in turn");
    let tokens = [
        &result["total_input_tokens"],
        &result["total_output_tokens"],
    ];
    assert_eq!(tokens, [&json!(24), &json!(30)]);
    assert!(result["mean_ttft_ms"].is_number() && result["mean_e2el_ms"].is_number());
    let own = &result["sobench"];
    assert_eq!(
        (&own["dataset"]["name"], &own["options"]["answers"]),
        (&json!("audio"), &json!("generated"))
    );
}
