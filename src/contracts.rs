//! The contracts of files: JSON Schemas of the types that are written and read. They are kept in
//! `schemas/contracts`, where tests update them.

use serde_json::Value;

use crate::commands::compare::report as comparison;
use crate::commands::mask::proof_report::json::ProofFile;
use crate::commands::preflight::report::features::json::FeaturesFile;
use crate::commands::preflight::report::json::PreflightFile;
use crate::commands::preflight::report::limits::json::LimitsFile;
use crate::commands::{mask, score};
use sobench_core::contract::written;
use sobench_mask::prove::witness::Witness;
use sobench_results::compare::read::baseline_contract;

/// Every contract by the name of its file.
pub fn all() -> Vec<(&'static str, Value)> {
    vec![
        ("baseline", baseline_contract()),
        ("comparison", comparison::contract()),
        ("failures", sobench_report::failures::contract()),
        ("mask", written::<mask::report::json::MaskFile<'_>>()),
        ("mask-row", written::<sobench_mask::row::Row>()),
        (
            "matrix",
            written::<sobench_report::contenders::Comparison>(),
        ),
        ("preflight", written::<PreflightFile<'_>>()),
        ("preflight-features", written::<FeaturesFile<'_>>()),
        ("preflight-limits", written::<LimitsFile<'_>>()),
        ("proof", written::<ProofFile<'_>>()),
        ("result", sobench_report::json::contract()),
        ("run-log", sobench_runlog::contract()),
        ("score", written::<score::report::ScoreFile<'_>>()),
        ("verdict", written::<score::report::VerdictLine<'_>>()),
        ("witness", written::<Witness>()),
    ]
}
