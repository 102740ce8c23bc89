//! A run record for tests.

use std::time::Duration;

use super::{
    ConstraintSet, ConstraintSettings, DatasetRecord, EngineChoice, Host, ReportSettings,
    RequestSettings, RunRecord, ServerMetricsSettings, ServerRecord, Settings,
};
use crate::dataset::{DatasetPlan, RecordedSource};
use crate::metrics::MetricsSettings;
use sobench_backend::{ConstraintDialect, Sampling, ServerKind};
use sobench_core::constraint::GrammarDialect;
use sobench_core::load::{ErrorLimits, Load};
use sobench_core::schedule::{Pace, Rate, Until};
use sobench_judge::JudgeSettings;
use sobench_notices::enforcement::Enforcement;

/// A run with 1000 requests of the dataset `json`, sent at once to a vLLM server.
pub fn record() -> RunRecord {
    RunRecord {
        sobench_version: "0.1.0".to_owned(),
        started: "2026-01-02T03:04:05.000000+00:00".to_owned(),
        started_unix_ns: 1_767_323_045_000_000_000,
        settings: settings(),
        server: ServerRecord {
            base_url: "http://127.0.0.1:8000".to_owned(),
            endpoint: "/v1/completions".to_owned(),
            header_names: Vec::new(),
            model: "m".to_owned(),
            model_id: "m".to_owned(),
            version: None,
            embedded: false,
            speed: None,
            constraint_dialect: Some(ConstraintDialect::StructuredOutputs),
            max_tokens_only: false,
            engine_choice: EngineChoice::None,
            engine: None,
        },
        dataset: DatasetRecord {
            source: "shipped".to_owned(),
            rows: 1,
            sha256: "0123456789abcdef".to_owned(),
            grammar_converted_from: None,
            session_turns: Vec::new(),
            requests: 1000,
            constraint_kinds: vec!["json".to_owned()],
            scorers: Vec::new(),
            constraints: ConstraintSet {
                distinct: 1,
                sha256: Some("ab".to_owned()),
            },
            own_output_len: None,
        },
        tokenizer_id: "cl100k_base (embedded)".to_owned(),
        host: Host::default(),
        enforcement: Enforcement::default(),
        trial_requests: 0,
        warmup_requests: 0,
        known_constraints: Vec::new(),
        shard: None,
        merged: Vec::new(),
        notices: Vec::new(),
    }
}

fn settings() -> Settings {
    let source = RecordedSource {
        name: "json".to_owned(),
        options: [("json_schema".to_owned(), "shipped".into())]
            .into_iter()
            .collect(),
    };
    Settings {
        backend: ServerKind::Vllm,
        dataset: DatasetPlan {
            grammar_dialect: GrammarDialect::Lark,
            ..DatasetPlan::with_defaults(source, 1000, 128)
        },
        constraint: ConstraintSettings {
            dialect: None,
            grammar_dialect: None,
            guided_decoding_backend: None,
            explain: false,
            preflight: None,
        },
        load: Load {
            pace: Pace::Steady(Rate::Infinite),
            replay_speed: None,
            burstiness: 1.0,
            max_concurrency: None,
            warmups: 0,
            request_timeout: Duration::from_secs(21_600),
            idle_timeout: None,
            drain_timeout: Duration::from_secs(5),
            until: Until::LastCase,
            error_limits: ErrorLimits::default(),
            steady_state_threshold: 0.95,
            cold_schema_every: None,
            probe_request_rate: None,
            strict_client: false,
            cancellation: None,
        },
        request: RequestSettings {
            stream: true,
            sampling: Sampling::default(),
            stream_parity: None,
            wire: true,
            ignore_eos: false,
            extra_body: None,
            template_variables: None,
            request_id_prefix: None,
            session_header: None,
            lora: None,
            profile: false,
        },
        server_metrics: ServerMetricsSettings::default(),
        evaluate: JudgeSettings::default(),
        metrics: MetricsSettings::default(),
        report: ReportSettings {
            percentile_metrics: ["ttft", "tpot", "itl"].map(str::to_owned).into(),
            ..ReportSettings::default()
        },
        tokenizer: None,
    }
}
