//! The contracts of files: JSON Schemas of the types that are written and read. They are kept in
//! `schemas/contracts`, where tests update them.

use serde_json::Value;

use crate::commands::compare::report as comparison;
use crate::commands::matrix;
use sobench_core::contract::written;
use sobench_results::compare::read::baseline_contract;

/// Every contract by the name of its file.
pub fn all() -> Vec<(&'static str, Value)> {
    vec![
        ("baseline", baseline_contract()),
        ("comparison", comparison::contract()),
        ("failures", sobench_report::failures::contract()),
        ("matrix", written::<matrix::report::Comparison>()),
        ("result", sobench_report::json::contract()),
        ("run-log", sobench_results::runlog::contract()),
    ]
}
