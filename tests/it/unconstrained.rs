//! Servers without constraints (embeddings, reranking, audio): runs and reports without constraints
//! and without meaningless figures.

use serde_json::{Value, json};
use sobench_testkit::scripted::{Request, ScriptedServer, models, whole};

use crate::cli::{assert_exits, assert_fails};
use crate::support::{Ran, sobench, sobench_result};

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
fn run(server: &ScriptedServer, backend: &str, arguments: &[&str]) -> (Ran, Value, Vec<Request>) {
    let fixed = [
        "--backend",
        backend,
        "--base-url",
        &server.base_url,
        "--num-prompts",
        "6",
        "--num-warmups",
        "1",
    ];
    let (ran, result) = sobench_result(&[&fixed[..], arguments].concat());
    assert_eq!(ran.code, 0, "{}\n{}", ran.stdout, ran.stderr);
    let received: Vec<Request> = server
        .requests()
        .into_iter()
        .filter(|request| request.line.starts_with("POST "))
        .collect();
    assert_eq!(received.len(), 8, "a trial, a warm-up and six requests");
    (ran, result, received)
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
        let (ran, result, received) = run(
            &server,
            backend,
            &["--dataset", "choice", "--goodput", "e2el:600000"],
        );
        let without_warm_up = [&received[..1], &received[2..]].concat();
        assert!(
            without_warm_up
                .iter()
                .all(|request| body(request) == expected),
            "{backend}: {}",
            body(&received[0])
        );
        assert_ne!(
            body(&received[1]),
            expected,
            "{backend}: the warm-up has another prompt"
        );
        assert_eq!(received[0].line, format!("POST {path} HTTP/1.1"));
        assert_eq!(received[0].header("content-type"), Some("application/json"));

        for (key, value) in [("completed", 6), ("failed", 0), ("total_input_tokens", 18)] {
            assert_eq!(result[key].as_u64(), Some(value), "{backend} {key}");
        }
        for key in [
            "total_output_tokens",
            "output_throughput",
            "max_output_tokens_per_s",
            "mean_ttft_ms",
            "p99_tpot_ms",
            "mean_itl_ms",
        ] {
            assert!(result[key].is_null(), "{backend} {key}: {}", result[key]);
        }
        for key in [
            "mean_e2el_ms",
            "p99_e2el_ms",
            "total_token_throughput",
            "request_goodput",
        ] {
            assert!(
                result[key].as_f64().is_some_and(|figure| figure > 0.0),
                "{backend} {key}: {}",
                result[key]
            );
        }
        let own = &result["sobench"];
        assert_eq!(own["options"]["answers"], "computed");
        assert!(
            own["constraint_dialect"].is_null()
                && own["output_len"].is_null()
                && own["constrained_ratio"].is_null()
        );
        assert_eq!(
            own["overall"]["tokens"]["output_sources"],
            json!({"server": 0, "tokenizer": 0, "unknown": 0})
        );
        assert!(result["correct_rate(%)"].is_null());

        for text in [
            "Mean E2EL (ms):",
            "Total input tokens:                      18",
            "answers are computed in one piece",
        ] {
            assert!(
                ran.stdout.contains(text),
                "{backend}: no {text:?} in\n{}",
                ran.stdout
            );
        }
        for text in [
            "Mean TTFT",
            "TPOT (ms)",
            "generated tokens:",
            "Output token",
            "Answer quality",
            "counted by",
            "n/a",
        ] {
            assert!(
                !ran.stdout.contains(text),
                "{backend}: {text:?} in\n{}",
                ran.stdout
            );
        }
    }
}

#[test]
fn documents_are_assigned_to_requests_in_turn() {
    let server = serving(
        "application/json",
        include_str!("../../fixtures/bodies/vllm-rerank.json"),
    );
    let rows = tempfile::NamedTempFile::new().unwrap();
    let lines: String = ["q", "a", "b", "c"]
        .map(|text| format!("{}\n", json!({"prompt": text, "regex": "x"})))
        .concat();
    std::fs::write(rows.path(), lines).unwrap();
    let path = rows.path().to_str().unwrap();
    let arguments = [
        "--dataset",
        "custom",
        "--dataset-path",
        path,
        "--rerank-documents",
        "2",
        "--max-concurrency",
        "1",
    ];
    let (_, result, received) = run(&server, "vllm-rerank", &arguments);
    let documents: Vec<Value> = received[2..]
        .iter()
        .map(|request| body(request)["documents"].take())
        .collect();
    let pairs = [
        ["a", "b"],
        ["c", "a"],
        ["b", "c"],
        ["a", "b"],
        ["a", "b"],
        ["c", "a"],
    ];
    assert_eq!(documents, pairs.map(|pair| json!(pair)));
    assert!(
        received[2..]
            .iter()
            .all(|request| body(request)["query"] == "q")
    );
    assert!(
        result["sobench"]["constraint_kinds"]
            .as_array()
            .is_some_and(Vec::is_empty),
        "constraints of rows are ignored"
    );
}

#[test]
fn audio_is_sent_as_a_form_and_its_transcript_is_timed() {
    let stream = include_str!("../../fixtures/streams/vllm-transcription.sse");
    let server = serving("text/event-stream", stream);
    let folder = tempfile::tempdir().unwrap();
    let files = ["one.wav", "two.mp3"].map(|name| folder.path().join(name));
    files
        .iter()
        .zip(["first sound", "second sound"])
        .for_each(|(path, bytes)| std::fs::write(path, bytes).unwrap());
    let paths = files.each_ref().map(|path| path.to_str().unwrap());
    let arguments = [
        "--audio-path",
        paths[0],
        paths[1],
        "--output-len",
        "9",
        "--max-concurrency",
        "1",
        "--temperature",
        "0",
    ];
    let (ran, result, received) = run(&server, "openai-audio", &arguments);
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
    assert_eq!(
        parts(&received[2]),
        with(file("one.wav", "audio/wav", "first sound"))
    );
    assert_eq!(
        parts(&received[3]),
        with(file("two.mp3", "audio/mpeg", "second sound"))
    );
    assert_eq!(
        parts(&received[4]),
        parts(&received[2]),
        "files are sent in turn"
    );

    assert_eq!(
        (
            result["total_input_tokens"].as_u64(),
            result["total_output_tokens"].as_u64()
        ),
        (Some(24), Some(30))
    );
    assert!(
        result["mean_ttft_ms"].is_number() && result["mean_e2el_ms"].is_number(),
        "{}",
        ran.stdout
    );
    assert_eq!(
        (
            &result["sobench"]["dataset"]["name"],
            &result["sobench"]["options"]["answers"]
        ),
        (&json!("audio"), &json!("generated"))
    );
    assert!(!ran.stdout.contains("Answer quality"), "{}", ran.stdout);
}

#[test]
fn generated_audio_gives_a_notice() {
    let server = serving(
        "application/json",
        include_str!("../../fixtures/bodies/vllm-transcription.json"),
    );
    let (ran, result, received) = run(
        &server,
        "openai-audio",
        &["--disable-stream", "--audio-seconds", "0.25"],
    );
    let has_wav = |request: &Request| request.body.windows(8).any(|window| window == b"WAVEfmt ");
    assert!(received.iter().all(has_wav));
    let lengths: Vec<usize> = received.iter().map(|request| request.body.len()).collect();
    assert!(
        lengths
            .iter()
            .all(|&length| length > 8_044 && length < 9_500),
        "{lengths:?}"
    );
    assert_eq!(
        (
            result["completed"].as_u64(),
            result["mean_ttft_ms"].is_null()
        ),
        (Some(6), true)
    );
    assert!(ran.stdout.contains("contains no speech"), "{}", ran.stdout);
}

#[test]
fn response_of_another_kind_fails_every_request() {
    let server = serving(
        "application/json",
        r#"{"object":"list","data":[{"id":"tiny","object":"model"}]}"#,
    );
    let ran = sobench(&[
        "--backend",
        "openai-embeddings",
        "--base-url",
        &server.base_url,
        "--num-prompts",
        "2",
    ]);
    assert_exits(
        &ran,
        3,
        &[
            "none of 1 trial requests has an answer",
            "the body has no answer",
            "every request failed",
        ],
    );
}

#[test]
fn constraints_are_rejected_before_the_first_request() {
    let server = serving("application/json", "{}");
    for (backend, arguments, expected) in [
        (
            "vllm-rerank",
            &["--guided-decoding-ratio", "0.5"][..],
            "the vllm-rerank backend does not support constraints: --guided-decoding-ratio 0.5",
        ),
        (
            "openai-audio",
            &["--constraint-dialect", "response-format"],
            "does not support constraints: --constraint-dialect response-format",
        ),
        (
            "openai-audio",
            &["--dataset", "json"],
            "the dataset json has no prompts in the form that the endpoint accepts",
        ),
        (
            "vllm",
            &["--dataset", "audio"],
            "the dataset audio has no prompts in the form that the endpoint accepts",
        ),
        (
            "vllm-pooling",
            &["--temperature", "0"],
            "the vllm-pooling backend has no field for temperature",
        ),
        (
            "vllm-rerank",
            &["--extra-body", r#"{"query": "x"}"#],
            "--extra-body sets a field that sobench sets: query",
        ),
    ] {
        let fixed = [
            "--backend",
            backend,
            "--base-url",
            &server.base_url,
            "--num-prompts",
            "2",
        ];
        assert_fails(
            &sobench(&[&fixed[..], arguments].concat()),
            2,
            &[expected, "hint: "],
        );
    }
    assert!(
        server
            .requests()
            .iter()
            .all(|request| !request.line.starts_with("POST "))
    );
}
