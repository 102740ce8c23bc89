//! The JSON file of `sobench preflight --features`, specified by
//! `schemas/contracts/preflight-features.schema.json`.

use std::collections::BTreeMap;

use serde::Serialize;

use sobench_preflight::features::{Feature, FeatureVerdict, ServerSurvey, Settings, Survey};

/// The format version, increased when a key changes its meaning or is removed.
pub(crate) const FORMAT_VERSION: u32 = 1;

/// The sampling temperature.
const TEMPERATURE: u32 = 1;

/// How much of JSON Schema servers enforce. Unknown values are `null`.
#[derive(Serialize)]
pub struct FeaturesFile<'a> {
    format: &'static str,
    format_version: u32,
    sobench_version: &'static str,
    temperature: u32,
    #[serde(flatten)]
    settings: &'a Settings,
    servers: Vec<ServerEntry<'a>>,
    features: &'a [Feature],
    /// What the verdicts mean.
    verdicts: BTreeMap<FeatureVerdict, &'static str>,
}

#[derive(Serialize)]
struct ServerEntry<'a> {
    #[serde(flatten)]
    server: &'a ServerSurvey,
    /// Features with each verdict.
    counts: BTreeMap<FeatureVerdict, usize>,
}

impl<'a> FeaturesFile<'a> {
    /// The whole file.
    pub fn new(survey: &'a Survey) -> Self {
        let entry = |server: &'a ServerSurvey| ServerEntry {
            server,
            counts: FeatureVerdict::ALL
                .map(|known| (known, server.count(known)))
                .into(),
        };
        Self {
            format: "sobench-preflight-features",
            format_version: FORMAT_VERSION,
            sobench_version: env!("CARGO_PKG_VERSION"),
            temperature: TEMPERATURE,
            settings: &survey.settings,
            servers: survey.servers.iter().map(entry).collect(),
            features: &survey.features,
            verdicts: FeatureVerdict::ALL
                .map(|known| (known, known.meaning()))
                .into(),
        }
    }
}
