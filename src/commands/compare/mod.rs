//! `sobench compare`: reads the sides, compares them, renders the comparison.

pub mod options;
pub mod report;

use self::options::{CompareArgs, CompareOptions};
use crate::commands::output::CommandOutput;
use crate::compare::side::Side;
use crate::compare::{compare, files};
use crate::error::{Error, Result};
use crate::exit_codes::{DONE, NOT_COMPARABLE, NOT_KEPT};
use crate::output_format::OutputFormat;
use crate::shutdown::Shutdown;

/// Compares what the flags name.
///
/// # Errors
/// A file that cannot be read or is no result; a baseline that cannot be written.
pub fn run(flags: CompareArgs, shutdown: &Shutdown) -> Result<CommandOutput> {
    shutdown.or_abandon(move || compare_files(&CompareOptions::new(&flags)?))
}

fn compare_files(options: &CompareOptions) -> Result<CommandOutput> {
    let sides = options.sides.iter().map(|words| files::side(words)).collect::<Result<Vec<Side>>>()?;
    let mut lines = Vec::new();
    if let (Some(path), Some(first)) = (&options.write_baseline, sides.first()) {
        files::write_baseline(path, first)?;
        lines.push(format!("baseline written to {}", path.display()));
    }
    if sides.len() < 2 {
        return Ok(CommandOutput { lines, ..CommandOutput::default() });
    }
    let comparison = compare(sides, &options.options);
    let stdout = match options.format {
        OutputFormat::Text => report::text(&comparison),
        OutputFormat::Markdown => report::markdown(&comparison),
        OutputFormat::Json => {
            let value = report::json(&comparison);
            let text = serde_json::to_string_pretty(&value)
                .map_err(|error| Error::internal(format!("the comparison is not JSON: {error}")))?;
            text + "\n"
        }
        other => return Err(other.unsupported("a comparison")),
    };
    let exit_code = match (comparison.is_comparable(), comparison.is_failed()) {
        (false, _) => NOT_COMPARABLE,
        (true, true) => NOT_KEPT,
        (true, false) => DONE,
    };
    lines.extend(report::closing(&comparison));
    Ok(CommandOutput { stdout, lines, exit_code, ..CommandOutput::default() })
}
