//! The JSON file of a preflight, specified by `schemas/contracts/preflight.schema.json`.

use std::collections::BTreeMap;

use serde::Serialize;

use sobench_preflight::{Class, Preflight, ReasoningPreflight, Recommendation, ToolPreflight};

/// The format version, increased when a key changes its meaning or is removed.
pub(crate) const FORMAT_VERSION: u32 = 1;

/// Which kinds of constraints a server enforces, and in which dialect. Unknown values are `null`.
#[derive(Serialize)]
pub struct PreflightFile<'a> {
    format: &'static str,
    format_version: u32,
    sobench_version: &'static str,
    #[serde(flatten)]
    preflight: &'a Preflight,
    /// `null` if tool calls were not tested.
    tool_calls: Option<ToolCalls<'a>>,
    /// `null` if the reasoning boundary was not tested.
    reasoning: Option<Reasoning<'a>>,
    /// The dialect that works best; `null` if none enforces anything.
    recommendation: Option<Recommended>,
    /// Whether a dialect enforces every tested kind that it carries.
    passed: bool,
    /// What the classes mean.
    classes: BTreeMap<Class, &'static str>,
}

#[derive(Serialize)]
struct ToolCalls<'a> {
    #[serde(flatten)]
    found: &'a ToolPreflight,
    /// Rows whose streamed and whole responses have different results.
    differences: Vec<String>,
    passed: bool,
}

#[derive(Serialize)]
struct Reasoning<'a> {
    #[serde(flatten)]
    found: &'a ReasoningPreflight,
    passed: bool,
}

#[derive(Serialize)]
struct Recommended {
    #[serde(flatten)]
    best: Recommendation,
    /// The flags to use it in a run.
    flags: String,
}

impl<'a> PreflightFile<'a> {
    /// The whole file.
    pub fn new(preflight: &'a Preflight) -> Self {
        Self {
            format: "sobench-preflight",
            format_version: FORMAT_VERSION,
            sobench_version: env!("CARGO_PKG_VERSION"),
            tool_calls: preflight.tool_calls.as_ref().map(|found| ToolCalls {
                differences: found.differences(),
                passed: found.passed(),
                found,
            }),
            reasoning: preflight.reasoning.as_ref().map(|found| Reasoning {
                passed: found.passed(),
                found,
            }),
            recommendation: preflight.recommendation().map(|best| Recommended {
                flags: best.flags(),
                best,
            }),
            passed: preflight.passed(),
            classes: Class::ALL.map(|class| (class, class.meaning())).into(),
            preflight,
        }
    }
}
