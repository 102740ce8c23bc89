//! The contracts of files: JSON Schemas of the types that are written and read. They are kept in
//! `schemas/contracts`, where tests update them.

use serde_json::Value;

use crate::commands::accept::json::AcceptFile;
use crate::commands::compare::report as comparison;
use crate::commands::explain::json::ExplainFile;
use crate::commands::preflight::report::features::json::FeaturesFile;
use crate::commands::preflight::report::json::PreflightFile;
use crate::commands::score;
use crate::commands::wire::json::WireFile;
use sobench_core::contract::written;
use sobench_results::compare::read::baseline_contract;

/// Every contract by the name of its file.
pub fn all() -> Vec<(&'static str, Value)> {
    vec![
        ("accept", written::<AcceptFile>()),
        ("baseline", baseline_contract()),
        ("comparison", comparison::contract()),
        ("explain", written::<ExplainFile<'_>>()),
        ("failures", sobench_report::failures::contract()),
        (
            "matrix",
            written::<sobench_report::contenders::Comparison>(),
        ),
        ("preflight", written::<PreflightFile<'_>>()),
        ("preflight-features", written::<FeaturesFile<'_>>()),
        ("result", sobench_report::json::contract()),
        ("run-log", sobench_runlog::contract()),
        ("score", written::<score::report::ScoreFile<'_>>()),
        ("verdict", written::<score::report::VerdictLine<'_>>()),
        ("wire", written::<WireFile<'_>>()),
    ]
}
