//! Tests of the plan of a run: settings from flags, and refused flags.

use std::ffi::OsString;

use super::*;
use crate::cli::{Cli, Command};
use sobench_core::constraint::GrammarDialect;
use sobench_data::dataset::DatasetName;
use sobench_notices::enforcement::UnenforcedPolicy;
use sobench_plan::dataset::{Constraints, PromptForm};
use sobench_plan::metrics::Slo;

fn plan(arguments: &[&str]) -> Result<RunPlan> {
    let arguments = std::iter::once("sobench")
        .chain(arguments.iter().copied())
        .map(OsString::from);
    let command = Cli::parse_arguments(arguments)
        .expect("the arguments parse")
        .into_command();
    let Command::Bench(arguments) = command else {
        panic!("{command:?}")
    };
    RunPlan::new(&arguments, |_| Some("key-from-environment".to_owned()))
}

fn base_url(arguments: &[&str]) -> Option<String> {
    match plan(arguments).unwrap().target {
        Target::Server(ServerTarget { endpoint, .. }) => Some(endpoint.base_url),
        Target::Embedded { .. } => None,
    }
}

#[test]
fn the_embedded_server_runs_only_if_no_server_is_named() {
    for (arguments, expected) in [
        (&[][..], None),
        (&["--backend", "openai-chat"], None),
        (&["--port", "9000"], Some("http://127.0.0.1:9000")),
        (&["--host", "::1"], Some("http://[::1]:8000")),
        (&["--model", "m"], Some("http://127.0.0.1:8000")),
        (
            &["--base-url", "https://x/v1", "--port", "9"],
            Some("https://x/v1"),
        ),
    ] {
        assert_eq!(base_url(arguments).as_deref(), expected, "{arguments:?}");
    }
}

#[test]
fn the_address_is_the_default_one_only_if_a_model_alone_names_the_server() {
    for (arguments, expected) in [
        (&["--model", "m"][..], true),
        (&["--model", "m", "--port", "8000"], false),
        (&["--model", "m", "--host", "127.0.0.1"], false),
        (
            &["--model", "m", "--base-url", "http://127.0.0.1:8000"],
            false,
        ),
    ] {
        let Target::Server(target) = plan(arguments).unwrap().target else {
            panic!("a server is named")
        };
        assert_eq!(target.is_default_address, expected, "{arguments:?}");
    }
}

#[test]
fn stream_parity_fixes_temperature_and_seed() {
    let request = |flags: &[&str]| plan(flags).unwrap().settings.request;
    let sampling = |flags: &[&str]| {
        let found = request(flags);
        let (temperature, seed) = (found.sampling.temperature, found.sampling.seed);
        (found.stream_parity, temperature, seed)
    };
    assert_eq!(sampling(&["--seed", "3"]), (None, None, None));
    for (flags, expected) in [
        (
            &["--stream-parity", "--seed", "3"][..],
            (Some(1.0), Some(0.0), Some(3)),
        ),
        (
            &["--stream-parity=0.5", "--temperature", "0.7"],
            (Some(0.5), Some(0.7), Some(0)),
        ),
        // Responses have no field for a seed.
        (
            &[
                "--stream-parity",
                "--backend",
                "openai-responses",
                "--port",
                "1",
            ],
            (Some(1.0), Some(0.0), None),
        ),
    ] {
        assert_eq!(sampling(flags), expected, "{flags:?}");
    }
    let vectors = [
        "--stream-parity",
        "--backend",
        "openai-embeddings",
        "--port",
        "1",
    ];
    let error = plan(&vectors).unwrap_err();
    assert_eq!(
        error.what,
        "--stream-parity needs streamed answers, which --backend openai-embeddings does not have"
    );
}

#[test]
fn the_backend_determines_endpoint_and_prompt_form() {
    for (backend, path, form) in [
        ("vllm", "/v1/completions", PromptForm::Text),
        ("openai", "/v1/completions", PromptForm::Text),
        ("openai-chat", "/v1/chat/completions", PromptForm::Messages),
        ("openai-responses", "/v1/responses", PromptForm::Messages),
        ("llama.cpp", "/completion", PromptForm::Text),
        ("tgi", "/generate_stream", PromptForm::Text),
        (
            "openai-audio",
            "/v1/audio/transcriptions",
            PromptForm::Audio,
        ),
        ("openai-embeddings", "/v1/embeddings", PromptForm::Text),
        ("vllm-pooling", "/pooling", PromptForm::Text),
        (
            "vllm-rerank",
            "/rerank",
            PromptForm::Ranking { documents: 1 },
        ),
    ] {
        let plan = plan(&["--backend", backend, "--port", "1"]).unwrap();
        let Target::Server(ServerTarget { endpoint, .. }) = plan.target else {
            panic!("a port names a server")
        };
        assert_eq!(
            (endpoint.path.as_str(), plan.settings.dataset.prompt_form),
            (path, form)
        );
    }
}

#[test]
fn disabling_streams_changes_the_endpoint_of_some_backends() {
    for (arguments, path) in [
        (&["--backend", "tgi", "--disable-stream"][..], "/generate"),
        (
            &[
                "--backend",
                "tgi",
                "--disable-stream",
                "--endpoint",
                "/x/generate",
            ],
            "/x/generate",
        ),
        (
            &["--backend", "tensorrt-llm"],
            "/v2/models/ensemble/generate_stream",
        ),
        (&["--backend", "sglang", "--disable-stream"], "/generate"),
    ] {
        let plan = plan(&[arguments, &["--port", "1"]].concat()).unwrap();
        assert_eq!(plan.warnings(), Vec::new());
        let Target::Server(ServerTarget { endpoint, .. }) = plan.target else {
            panic!("a port names a server")
        };
        assert_eq!(endpoint.path, path);
    }
}

#[test]
fn debug_output_of_the_plan_has_no_secret() {
    let shown = format!(
        "{:?}",
        plan(&["--port", "1", "--header", "x-token=hush"]).unwrap()
    );
    assert!(
        !shown.contains("key-from-environment") && !shown.contains("hush"),
        "{shown}"
    );
}

#[test]
fn errors_name_flag_and_value() {
    for (arguments, message) in [
        (
            &["--guided-decoding-ratio", "1.5"][..],
            "--guided-decoding-ratio is not between 0 and 1: 1.5",
        ),
        (
            &["--request-rate", "nan"],
            "--request-rate is not a positive number: NaN",
        ),
        (
            &["--request-rate", "1e-9"],
            "--request-rate results in a schedule of 1000000000000 s: 0.000000001",
        ),
        (&["--burstiness", "0"], "--burstiness is not positive: 0"),
        (&["--max-concurrency", "0"], "--max-concurrency is 0"),
        (&["--num-prompts", "0"], "--num-prompts is 0"),
        (&["--output-len", "0"], "--output-len is 0"),
        (
            &["--request-timeout", "-1"],
            "--request-timeout is not a time: -1",
        ),
        (
            &["--metric-percentiles", "50,101"],
            "--metric-percentiles is not between 0 and 100: 101",
        ),
        (
            &["--goodput", "ttft:200", "tpt:50"],
            "--goodput is not METRIC:MS: tpt:50",
        ),
        (
            &["--metadata", "novalue"],
            "--metadata is not KEY=VALUE: novalue",
        ),
        (
            &["--port", "1", "--header", "=x"],
            "--header is not KEY=VALUE: =x",
        ),
        (
            &["--base-url", "localhost:8000"],
            "--base-url is not an http or https URL: localhost:8000",
        ),
        (
            &["--backend", "sglang"],
            "the embedded server does not support --backend sglang, and no other server is named",
        ),
        (
            &[
                "--backend",
                "openai-chat",
                "--constraint-dialect",
                "tool-call",
            ],
            "the embedded server does not support --constraint-dialect tool-call, and no other server is named",
        ),
        (
            &["--choice", "a,b"],
            "--choice has no effect with --dataset json",
        ),
        (
            &["--endpoint", "/x"],
            "the embedded server does not support --endpoint, and no other server is named",
        ),
        (
            &["--header", "a=b"],
            "the embedded server does not support --header, and no other server is named",
        ),
        (
            &["--port", "1", "--embedded-itl-ms", "3"],
            "--embedded-itl-ms applies to the embedded server only, but a server is named",
        ),
        (
            &["--port", "1", "--embedded-speed", "8b-h100"],
            "--embedded-speed applies to the embedded server only, but a server is named",
        ),
        (
            &["--grammar-dialect", "lark"],
            "--grammar-dialect has no effect with --dataset json",
        ),
        (
            &["--port", "1", "--backend", "tgi", "--continuous-usage"],
            "--backend tgi has no field for --continuous-usage",
        ),
        (
            &[
                "--continuous-usage",
                "--extra-body",
                r#"{"stream_options": {}}"#,
            ],
            "--continuous-usage and --extra-body both set stream_options",
        ),
        (
            &["--embedded-itl-ms", "-2"],
            "--embedded-itl-ms is not a time: -2",
        ),
    ] {
        let error = plan(arguments).expect_err("the value is wrong");
        assert_eq!((error.what.as_str(), error.exit_code()), (message, 2));
        assert!(error.hint.is_some(), "{arguments:?}");
    }
}

#[test]
fn datasets_with_grammars_accept_grammar_dialect() {
    for dataset in ["grammar", "custom"] {
        let plan = plan(&["--dataset", dataset, "--grammar-dialect", "lark"]).unwrap();
        assert_eq!(
            plan.settings.constraint.grammar_dialect,
            Some(GrammarDialect::Lark),
            "{dataset}"
        );
    }
}

#[test]
fn ratio_and_objectives_reach_the_settings() {
    assert_eq!(
        plan(&["--no-guided-decoding"])
            .unwrap()
            .settings
            .dataset
            .constrained_ratio,
        0.0
    );
    assert_eq!(plan(&[]).unwrap().settings.dataset.constrained_ratio, 1.0);
    let slo = plan(&["--goodput", "ttft:200", "e2el:5000"])
        .unwrap()
        .settings
        .metrics
        .goodput;
    assert_eq!(
        slo,
        Some(Slo {
            ttft_ms: Some(200.0),
            tpot_ms: None,
            e2el_ms: Some(5000.0),
            valid: false
        })
    );
    assert_eq!(plan(&["--ignore-eos"]).unwrap().warnings().len(), 1);
    assert!(
        plan(&["--ignore-eos", "--no-guided-decoding"])
            .unwrap()
            .warnings()
            .is_empty()
    );
}

#[test]
fn backends_without_constraints_have_own_defaults() {
    for (backend, dataset, streamed, latencies) in [
        (
            "openai-audio",
            DatasetName::Audio,
            true,
            &["ttft", "tpot", "itl"][..],
        ),
        ("openai-embeddings", DatasetName::Json, false, &["e2el"]),
        ("vllm-pooling", DatasetName::Json, false, &["e2el"]),
        ("vllm-rerank", DatasetName::Json, false, &["e2el"]),
    ] {
        let plan = plan(&[
            "--backend",
            backend,
            "--port",
            "1",
            "--guided-decoding-ratio",
            "0",
        ])
        .unwrap();
        assert_eq!(
            (
                plan.settings.dataset.source.name(),
                plan.settings.dataset.constrained_ratio
            ),
            (dataset, 0.0),
            "{backend}"
        );
        assert_eq!(plan.settings.dataset.constraints, Constraints::Dropped);
        assert_eq!(
            (plan.settings.request.stream, plan.settings.metrics.streamed),
            (streamed, streamed),
            "{backend}"
        );
        assert_eq!(
            plan.settings.report.percentile_metrics, latencies,
            "{backend}"
        );
    }
    let plan = plan(&[
        "--backend",
        "vllm-rerank",
        "--port",
        "1",
        "--rerank-documents",
        "8",
    ])
    .unwrap();
    assert_eq!(
        plan.settings.dataset.prompt_form,
        PromptForm::Ranking { documents: 8 }
    );
}

#[test]
fn backends_without_constraints_refuse_constraint_flags() {
    let rerank = &["--port", "1", "--backend", "vllm-rerank"][..];
    let audio = &["--port", "1", "--backend", "openai-audio"][..];
    for (kind, arguments, message) in [
        (
            rerank,
            &["--guided-decoding-ratio", "0.5"][..],
            "the vllm-rerank backend does not support constraints: --guided-decoding-ratio 0.5",
        ),
        (
            audio,
            &["--guided-decoding-ratio", "1"],
            "the openai-audio backend does not support constraints: --guided-decoding-ratio 1",
        ),
        (
            audio,
            &["--constraint-dialect", "guided"],
            "the openai-audio backend does not support constraints: --constraint-dialect guided",
        ),
        (
            rerank,
            &["--guided-decoding-backend", "guidance"],
            "does not support constraints: --guided-decoding-backend guidance",
        ),
        (
            rerank,
            &["--percentile-metrics", "e2el,ttft"],
            "the vllm-rerank backend generates no tokens: --percentile-metrics ttft",
        ),
        (
            rerank,
            &["--goodput", "tpot:5"],
            "the vllm-rerank backend generates no tokens: --goodput tpot:5",
        ),
        (
            rerank,
            &["--rerank-documents", "0"],
            "--rerank-documents is not from 1 to 10000: 0",
        ),
        (
            rerank,
            &["--audio-seconds", "3"],
            "--audio-seconds has no effect with --dataset json",
        ),
        (
            &["--port", "1"],
            &["--rerank-documents", "2"],
            "--rerank-documents has no meaning with --backend vllm",
        ),
        (
            &[],
            &["--backend", "openai-embeddings"],
            "the embedded server does not support --backend openai-embeddings, and no other server is named",
        ),
    ] {
        let error = plan(&[kind, arguments].concat()).unwrap_err();
        assert!(error.what.contains(message), "{arguments:?}: {error}");
        assert_eq!(error.exit_code(), 2);
    }
    assert!(
        plan(
            &[
                rerank,
                &["--goodput", "e2el:5", "--percentile-metrics", "e2el"]
            ]
            .concat()
        )
        .is_ok()
    );
    assert!(
        plan(
            &[
                audio,
                &["--goodput", "ttft:5", "--audio-path", "a.wav", "b.wav"]
            ]
            .concat()
        )
        .is_ok()
    );
}

#[test]
fn skip_preflight_makes_allow_unenforced_redundant() {
    let preflight = |flags: &[&str]| plan(flags).unwrap().settings.constraint.preflight;
    assert_eq!(preflight(&["--skip-preflight", "--allow-unenforced"]), None);
    assert_eq!(preflight(&["--skip-preflight"]), None);
    assert_eq!(
        preflight(&["--allow-unenforced"]),
        Some(UnenforcedPolicy::Allow)
    );
}

#[test]
fn flags_without_effect_are_one_line() {
    let plan = plan(&[
        "--trust-remote-code",
        "--ignore-eos",
        "--best-of",
        "1",
        "--use-beam-search",
    ])
    .unwrap();
    let lines = plan.warning_lines();
    assert_eq!(
        lines[0],
        "flags without effect: --trust-remote-code, --use-beam-search, --best-of"
    );
    assert_eq!((lines.len(), plan.warnings().len()), (2, 4));
}
