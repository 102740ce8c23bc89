//! `sobench compare` from plan to ending: reads sides, compares, renders. Knows no flag.

use std::path::PathBuf;

use super::side::Side;
use super::{Options, compare, files};
use crate::ending::Ending;
use crate::error::{Error, Result};
use crate::exit_codes::{DONE, NOT_COMPARABLE, NOT_KEPT};
use crate::report;

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

/// Does it.
///
/// # Errors
/// A file that cannot be read or is no result; a baseline that cannot be written.
pub fn run(plan: &Plan) -> Result<Ending> {
    let sides = plan.sides.iter().map(|words| files::side(words)).collect::<Result<Vec<Side>>>()?;
    let mut lines = Vec::new();
    if let (Some(path), Some(first)) = (&plan.write_baseline, sides.first()) {
        files::write_baseline(path, first)?;
        lines.push(format!("baseline written to {}", path.display()));
    }
    if sides.len() < 2 {
        return Ok(Ending { lines, ..Ending::default() });
    }
    let comparison = compare(sides, &plan.options);
    let stdout = match plan.format {
        Format::Text => report::compare::text(&comparison),
        Format::Markdown => report::compare::markdown(&comparison),
        Format::Json => {
            let value = report::compare::json(&comparison);
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
    lines.extend(report::compare::closing(&comparison));
    Ok(Ending { stdout, lines, exit_code })
}
