//! `sobench compare`: reads the sides, compares them and renders the comparison.

mod lost;
pub mod options;
pub mod report;

use std::path::PathBuf;

use self::options::CompareArgs;
pub(crate) use self::options::FORMATS;
use crate::commands::output::{CommandOutput, pretty};
use crate::commands::report::verdicts;
use crate::commands::run_cache;
use crate::terminal::InputProgress;
use sobench_core::error::Result;
use sobench_core::exit_codes::{NOT_COMPARABLE, SUCCESS};
use sobench_core::output_format::OutputFormat;
use sobench_report::text::Detail;
use sobench_results::compare::side::Side;
use sobench_results::compare::{CompareSettings, compare, files};
use sobench_shutdown::Shutdown;

/// Compares the sides that the flags name.
///
/// # Errors
/// A file that is unreadable or not a result; a baseline that cannot be written.
pub fn run(flags: CompareArgs, shutdown: &Shutdown) -> Result<CommandOutput> {
    shutdown.run_or_abandon(move || compare_files(&flags))
}

fn compare_files(flags: &CompareArgs) -> Result<CommandOutput> {
    let options = flags.options()?;
    let saved = flags.save.files(&FORMATS)?;
    let progress = InputProgress::of_files();
    let cached = flags
        .last
        .map_or_else(|| Ok(Vec::new()), run_cache::newest)?;
    let cached = cached.iter().rev().map(|path| path.display().to_string());
    let named = flags.sides.iter().map(|name| name.to_string());
    let sides = named
        .chain(cached)
        .map(|argument| files::read_side(&argument, |log| verdicts(log, &progress), &progress))
        .collect::<Result<Vec<Side>>>()?;
    drop(progress);
    let mut lines = Vec::new();
    if let (Some(path), Some(first)) = (&flags.write_baseline, sides.first()) {
        files::write_baseline(path, first)?;
        lines.push(format!("baseline written to {}", path.display()));
    }
    if sides.len() < 2 {
        return Ok(CommandOutput {
            lines,
            ..CommandOutput::default()
        });
    }
    let output = page(sides, &options, flags.format, flags.detail.detail, &saved)?;
    lines.extend(output.lines);
    Ok(CommandOutput { lines, ..output })
}

/// Compares sides, and writes the comparison on the terminal and into files.
///
/// # Errors
/// A file has changed since it was read, or cannot be written.
pub(crate) fn page(
    sides: Vec<Side>,
    settings: &CompareSettings,
    format: OutputFormat,
    detail: Detail,
    saved: &[(OutputFormat, PathBuf)],
) -> Result<CommandOutput> {
    let mut comparison = compare(sides, settings);
    files::read_texts(&mut comparison)?;
    lost::add_curls(&mut comparison)?;
    let rendered = |format: OutputFormat| match format {
        OutputFormat::Text => Ok(report::text(&comparison, detail)),
        OutputFormat::Markdown => Ok(report::markdown(&comparison)),
        OutputFormat::Html => Ok(report::html(&comparison)),
        OutputFormat::Junit => Ok(report::junit(&comparison)),
        OutputFormat::Json => Ok(pretty(&report::json(&comparison))),
        other => Err(other.unsupported("a comparison")),
    };
    let exit_code = match comparison.gate_summary() {
        _ if !comparison.is_comparable() => NOT_COMPARABLE,
        Some(gate) => gate.verdict.exit_code(),
        None => SUCCESS,
    };
    let mut output = CommandOutput {
        stdout: rendered(format)?,
        lines: report::closing(&comparison),
        exit_code,
        file_flags: "--save",
    };
    output.save(saved, rendered)?;
    Ok(output)
}
