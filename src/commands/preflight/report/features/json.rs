//! The JSON file of `sobench preflight --features`, specified by
//! `schemas/contracts/preflight-features.schema.json`. Unknown values are `null`.

use serde_json::{Map, Value, json};

use crate::commands::preflight::report::json::key;
use sobench_notices::notice::sentences;
use sobench_preflight::features::{FeatureVerdict, ServerSurvey, Survey};

/// The format version, increased when a key changes its meaning or is removed.
pub(crate) const FORMAT_VERSION: u32 = 1;

/// The sampling temperature.
const TEMPERATURE: u32 = 1;

/// The whole file.
pub(crate) fn render(survey: &Survey) -> Value {
    let settings = &survey.settings;
    let meanings: Map<String, Value> = FeatureVerdict::ALL
        .into_iter()
        .map(|verdict| (key(verdict), verdict.meaning().into()))
        .collect();
    json!({
        "format": "sobench-preflight-features",
        "format_version": FORMAT_VERSION,
        "sobench_version": env!("CARGO_PKG_VERSION"),
        "samples": settings.samples,
        "temperature": TEMPERATURE,
        "seed": settings.seed,
        "output_len": settings.output_len,
        "max_concurrency": settings.max_concurrency,
        "request_timeout_s": settings.request_timeout_s,
        "stream": settings.stream,
        "servers": survey.servers.iter().map(server).collect::<Value>(),
        "features": survey.features,
        "verdicts": meanings,
    })
}

fn server(server: &ServerSurvey) -> Value {
    let counts: Map<String, Value> = FeatureVerdict::ALL
        .into_iter()
        .map(|verdict| (key(verdict), server.count(verdict).into()))
        .collect();
    json!({
        "label": server.label,
        "backend": server.backend,
        "base_url": server.base_url,
        "endpoint": server.path,
        "model": server.model,
        "constraint_dialect": server.dialect,
        "server": server.facts,
        "requests": server.requests,
        "counts": counts,
        "found": server.found,
        "notices": sentences(&server.notices),
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::survey;
    use super::*;
    use sobench_testkit::contract;

    const CONTRACT: &str =
        include_str!("../../../../../schemas/contracts/preflight-features.schema.json");

    fn check(file: &Value) -> std::result::Result<(), String> {
        contract::check(CONTRACT, file)
    }

    #[test]
    fn files_match_the_contract_and_invalid_ones_are_rejected() {
        let file: Value =
            serde_json::from_str(&render(&survey()).to_string()).expect("what we write is JSON");
        assert_eq!(check(&file), Ok(()));
        for (pointer, value) in [
            ("/extra", json!(1)),
            ("/format_version", json!(2)),
            ("/servers/0/counts/enforced", json!(-1)),
            ("/servers/0/found/0/verdict", json!("perhaps")),
            ("/servers/0/found/0/extra", json!(1)),
            ("/servers/0/found/1/offending", json!("an answer")),
            ("/features/0/violating", json!([])),
        ] {
            let broken = contract::with_member(&file, pointer, value);
            assert!(check(&broken).is_err(), "{pointer} passed");
        }
    }
}
