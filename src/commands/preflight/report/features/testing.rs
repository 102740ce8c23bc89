//! A survey for tests.

use sobench_backend::{ConstraintDialect, ServerKind};
use sobench_notices::notice::Notice;
use sobench_preflight::ServerFacts;
use sobench_preflight::features::data::shipped;
use sobench_preflight::features::{
    FeatureResult, FeatureVerdict, InvalidAnswer, ServerSurvey, Settings, Survey,
};

/// Two servers, with a feature for every verdict.
pub(super) fn survey() -> Survey {
    let features: Vec<_> = shipped()
        .into_iter()
        .take(FeatureVerdict::ALL.len())
        .collect();
    let found = |verdicts: &[FeatureVerdict]| -> Vec<FeatureResult> {
        features
            .iter()
            .zip(verdicts)
            .map(|(feature, verdict)| feature_result(&feature.id, &feature.keyword, *verdict))
            .collect()
    };
    let mut reversed = FeatureVerdict::ALL;
    reversed.reverse();
    let servers = vec![
        server_survey("guidance", found(&FeatureVerdict::ALL)),
        server_survey("vLLM \u{202e}xgrammar", found(&reversed)),
    ];
    let settings = Settings {
        samples: 16,
        seed: 7,
        output_len: 192,
        max_concurrency: 8,
        request_timeout_s: 60.0,
        stream: true,
    };
    Survey {
        settings,
        features,
        servers,
    }
}

fn server_survey(label: &str, found: Vec<FeatureResult>) -> ServerSurvey {
    ServerSurvey {
        label: label.to_owned(),
        backend: ServerKind::Vllm,
        base_url: "http://127.0.0.1:8000".to_owned(),
        path: "/v1/completions".to_owned(),
        model: "tiny".to_owned(),
        dialect: ConstraintDialect::StructuredOutputs,
        facts: ServerFacts {
            version: Some("0.33.0".to_owned()),
            ..ServerFacts::default()
        },
        requests: 68,
        found,
        notices: vec![Notice::Other("a notice".to_owned())],
    }
}

fn feature_result(id: &str, keyword: &str, verdict: FeatureVerdict) -> FeatureResult {
    let is_answered = matches!(
        verdict,
        FeatureVerdict::Enforced | FeatureVerdict::NoViolationSeen | FeatureVerdict::UnderEnforced
    );
    let invalid = if verdict == FeatureVerdict::UnderEnforced {
        3
    } else {
        0
    };
    FeatureResult {
        first_ttft_ms: None,
        id: id.to_owned(),
        keyword: keyword.to_owned(),
        verdict,
        controls: if is_answered { 4 } else { 0 },
        yielded: match verdict {
            FeatureVerdict::Enforced => 3,
            FeatureVerdict::UnderEnforced => 1,
            _ => 0,
        },
        asked: match verdict {
            FeatureVerdict::NotAsked => 0,
            FeatureVerdict::Rejected => 1,
            _ => 16,
        },
        complete: if is_answered { 14 } else { 0 },
        valid: if is_answered { 14 - invalid } else { 0 },
        invalid,
        duplicate_members: if is_answered { 1 } else { 0 },
        offending: (invalid > 0).then(|| InvalidAnswer {
            text: "{\"v\": \"\u{1b}[31mred\"}".to_owned(),
            reason:
                "breaks `type` at /v: \"red\" is not of type \"integer\", and this sentence goes on for longer than any table"
                    .to_owned(),
            cut: false,
            sample: 2,
        }),
        status: (verdict == FeatureVerdict::Rejected).then_some(400),
        words: match verdict {
            FeatureVerdict::Rejected => "{\"error\": \"not supported\"}".to_owned(),
            FeatureVerdict::Crashed => "connection reset".to_owned(),
            FeatureVerdict::NotAsked => "the server does not accept connections any more".to_owned(),
            FeatureVerdict::Undecided => "16 of 16 cut at the token limit, 0 timed out".to_owned(),
            FeatureVerdict::Enforced
            | FeatureVerdict::NoViolationSeen
            | FeatureVerdict::UnderEnforced => String::new(),
        },
    }
}
