//! Reads answers from CSV whose first line names the columns: `text`, and optionally those of a row
//! of JSON Lines, such as `id` and a constraint.

use std::path::Path;

use serde_json::{Map, Value};

use sobench_core::error::{Error, Result};
use sobench_core::input::{self, Lines};
use sobench_data::dataset::MAX_DATASET_BYTES;
use sobench_data::dataset::custom::CONSTRAINTS;

/// Columns of texts. The others that a row may have are JSON.
const TEXTS: [&str; 9] = [
    "id",
    "custom_id",
    "name",
    "prompt",
    "text",
    "finish_reason",
    "regex",
    "grammar",
    "score",
];

/// The line of a row, and its members or why it cannot be read.
pub(super) type NumberedRow = (usize, std::result::Result<Map<String, Value>, String>);

/// Whether the first line names a column `text`.
///
/// # Errors
/// The file cannot be read.
pub(super) fn is_file(path: &Path) -> Result<bool> {
    let first = Lines::open(path, u64::MAX)?.next().transpose()?;
    Ok(first.is_some_and(|(_, line)| {
        let mut columns = line.split(',').map(|name| name.trim().trim_matches('"'));
        !line.starts_with(['{', '[']) && columns.any(|name| name == "text")
    }))
}

/// Whether rows of these members have a constraint.
pub(super) fn has_constraint(members: &Map<String, Value>) -> bool {
    let mut names = CONSTRAINTS.iter().chain(&["constraint", "tools"]);
    names.any(|name| members.contains_key(*name))
}

/// The rows, each with its line.
///
/// # Errors
/// The file cannot be read.
pub(super) fn rows(path: &Path, name: &str) -> Result<Vec<NumberedRow>> {
    let broken = |error: csv::Error| {
        Error::usage(format!("{name}, line 1: not CSV: {error}"))
            .hint("name the columns in the first line, among them text")
    };
    let mut reader = csv::Reader::from_reader(input::open_text(path, MAX_DATASET_BYTES)?);
    let columns = reader.headers().map_err(broken)?.clone();
    let records = reader.records().map(|record| {
        let position = match &record {
            Ok(record) => record.position(),
            Err(error) => error.position(),
        };
        let line = position.map_or(0, |position| position.line() as usize);
        let members = record
            .map_err(|error| format!("not CSV: {error}"))
            .and_then(|record| {
                let cells = columns.iter().zip(&record);
                let filled = cells.filter(|(column, cell)| *column == "text" || !cell.is_empty());
                filled
                    .map(|(column, cell)| member(column.trim(), cell))
                    .collect()
            });
        (line, members)
    });
    Ok(records.collect())
}

fn member(column: &str, cell: &str) -> std::result::Result<(String, Value), String> {
    let value = match column {
        // Python writes True.
        "correct" => serde_json::from_str(&cell.to_lowercase()),
        column if TEXTS.contains(&column) => Ok(cell.into()),
        _ => serde_json::from_str(cell).or_else(|error| match CONSTRAINTS.contains(&column) {
            true => Err(error),
            false => Ok(cell.into()),
        }),
    };
    let value = value.map_err(|error| format!("column {column} is not JSON: {error}"))?;
    Ok((column.to_owned(), value))
}
