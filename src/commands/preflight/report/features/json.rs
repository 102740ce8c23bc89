//! The JSON file of `sobench preflight --features`, specified by
//! `schemas/contracts/preflight-features.schema.json`.

use std::collections::BTreeMap;

use sobench_core::json_struct;
use sobench_preflight::features::{Feature, FeatureVerdict, ServerSurvey, Settings, Survey};

json_struct! {
    /// How much of JSON Schema servers enforce. Unknown values are `null`.
    pub struct FeaturesFile<'a> = |survey: &'a Survey| {
        #[schemars(extend("const" = "sobench-preflight-features"))]
        format: &'static str = "sobench-preflight-features",
        /// Raised when a key is removed or changes its meaning.
        format_version: u32 = 1,
        sobench_version: &'static str = env!("CARGO_PKG_VERSION"),
        /// The sampling temperature.
        temperature: u32 = 1,
        #[serde(flatten)]
        settings: &'a Settings = &survey.settings,
        servers: Vec<ServerEntry<'a>> = survey.servers.iter().map(ServerEntry::new).collect(),
        features: &'a [Feature] = &survey.features,
        /// What the verdicts mean.
        verdicts: BTreeMap<FeatureVerdict, &'static str> = FeatureVerdict::ALL.map(|known| (known, known.meaning())).into(),
    }
}

json_struct! {
    struct ServerEntry<'a> = |server: &'a ServerSurvey| {
        #[serde(flatten)]
        server: &'a ServerSurvey = server,
        /// Features with each verdict.
        counts: BTreeMap<FeatureVerdict, usize> = FeatureVerdict::ALL.map(|known| (known, server.count(known))).into(),
    }
}
