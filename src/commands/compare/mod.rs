//! `sobench compare` from plan to ending: reads sides, compares, renders. Knows no flag.

pub mod args;
pub mod options;
pub mod report;

use std::path::PathBuf;

use self::args::CompareArgs;
use crate::commands::output::CommandOutput;
use crate::compare::side::Side;
use crate::compare::{Options, compare, files};
use crate::error::{Error, Result};
use crate::exit_codes::{DONE, NOT_COMPARABLE, NOT_KEPT};

/// What `sobench compare` does.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Files, folders or lists of files, the baseline first.
    pub sides: Vec<String>,
    pub options: Options,
    pub format: Format,
    /// Where the first side goes as a baseline.
    pub write_baseline: Option<PathBuf>,
}

/// How the comparison is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Text,
    Json,
    Markdown,
}

/// Compares what the flags name.
///
/// # Errors
/// A file that cannot be read or is no result; a baseline that cannot be written.
pub fn run(flags: &CompareArgs) -> Result<CommandOutput> {
    let plan = options::compare_plan(flags)?;
    let sides = plan.sides.iter().map(|words| files::side(words)).collect::<Result<Vec<Side>>>()?;
    let mut lines = Vec::new();
    if let (Some(path), Some(first)) = (&plan.write_baseline, sides.first()) {
        files::write_baseline(path, first)?;
        lines.push(format!("baseline written to {}", path.display()));
    }
    if sides.len() < 2 {
        return Ok(CommandOutput { lines, ..CommandOutput::default() });
    }
    let comparison = compare(sides, &plan.options);
    let stdout = match plan.format {
        Format::Text => report::text(&comparison),
        Format::Markdown => report::markdown(&comparison),
        Format::Json => {
            let value = report::json(&comparison);
            let text = serde_json::to_string_pretty(&value)
                .map_err(|error| Error::internal(format!("the comparison is not JSON: {error}")))?;
            text + "\n"
        }
    };
    let exit_code = match (comparison.is_comparable(), comparison.is_failed()) {
        (false, _) => NOT_COMPARABLE,
        (true, true) => NOT_KEPT,
        (true, false) => DONE,
    };
    lines.extend(report::closing(&comparison));
    Ok(CommandOutput { stdout, lines, exit_code, ..CommandOutput::default() })
}
