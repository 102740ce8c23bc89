//! The page of `--matrix-order paired`: that of `sobench compare` over the runs of both servers.

use std::path::PathBuf;

use crate::commands::compare;
use crate::commands::output::CommandOutput;
use sobench_core::error::Result;
use sobench_core::output_format::OutputFormat;
use sobench_plan::record::condition::Field;
use sobench_report::text::Detail;
use sobench_results::compare::side::Side;
use sobench_results::compare::{CompareSettings, Gate};

/// Maximum number of lost and won cases on the page.
const CASES: usize = 10;

/// Compares the sides. Both got the same requests, so that only their servers and models differ.
pub(super) fn page(
    sides: [Side; 2],
    gate: &Gate,
    detail: Detail,
    saved: &[(OutputFormat, PathBuf)],
) -> Result<CommandOutput> {
    let has_rules = !gate.limits.is_empty() || !gate.changes.is_empty();
    let settings = CompareSettings {
        allowed: Field::ALL
            .into_iter()
            .filter(|field| *field != Field::Dataset)
            .collect(),
        changed: CASES,
        gate: has_rules.then(|| gate.clone()),
        ..CompareSettings::default()
    };
    compare::page(sides.into(), &settings, OutputFormat::Text, detail, saved)
}
