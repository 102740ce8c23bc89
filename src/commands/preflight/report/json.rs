//! The JSON file of a preflight, specified by `schemas/contracts/preflight.schema.json`.

use std::collections::BTreeMap;

use sobench_core::json_struct;
use sobench_preflight::{
    Class, Preflight, ReasoningPreflight, Recommendation, ToolPreflight, WirePreflight,
};

json_struct! {
    /// Which kinds of constraints a server enforces, and in which dialect. Unknown values are `null`.
    pub struct PreflightFile<'a> = |preflight: &'a Preflight| {
        #[schemars(extend("const" = "sobench-preflight"))]
        format: &'static str = "sobench-preflight",
        /// Raised when a key is removed or changes its meaning.
        format_version: u32 = 1,
        sobench_version: &'static str = env!("CARGO_PKG_VERSION"),
        #[serde(flatten)]
        preflight: &'a Preflight = preflight,
        /// `null` if tool calls were not tested.
        tool_calls: Option<ToolCalls<'a>> = preflight.tool_calls.as_ref().map(ToolCalls::new),
        /// `null` if the reasoning boundary was not tested.
        reasoning: Option<Reasoning<'a>> = preflight.reasoning.as_ref().map(Reasoning::new),
        /// Left out if requests that must fail were not tested.
        #[serde(skip_serializing_if = "Option::is_none")]
        wire: Option<Wire<'a>> = preflight.wire.as_ref().map(Wire::new),
        /// The dialect that works best; `null` if none enforces anything.
        recommendation: Option<Recommended> = preflight.recommendation().map(Recommended::new),
        /// Whether a dialect enforces every tested kind that it carries.
        passed: bool = preflight.passed(),
        /// What the classes mean.
        classes: BTreeMap<Class, &'static str> = Class::ALL.map(|class| (class, class.meaning())).into(),
    }
}

json_struct! {
    struct ToolCalls<'a> = |found: &'a ToolPreflight| {
        #[serde(flatten)]
        found: &'a ToolPreflight = found,
        /// Rows whose streamed and whole responses have different results.
        differences: Vec<String> = found.differences(),
        passed: bool = found.passed(),
    }
}

json_struct! {
    struct Reasoning<'a> = |found: &'a ReasoningPreflight| {
        #[serde(flatten)]
        found: &'a ReasoningPreflight = found,
        passed: bool = found.passed(),
    }
}

json_struct! {
    struct Wire<'a> = |found: &'a WirePreflight| {
        #[serde(flatten)]
        found: &'a WirePreflight = found,
        passed: bool = found.passed(),
    }
}

json_struct! {
    struct Recommended = |best: Recommendation| {
        /// The flags to use it in a run.
        flags: String = best.flags(),
        #[serde(flatten)]
        best: Recommendation = best,
    }
}
