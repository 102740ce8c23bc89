//! Reads input files within the size limits of datasets.

use std::mem;
use std::path::Path;

use sobench_core::error::{Error, Result};
use sobench_core::input::{self, Lines};
use sobench_core::progress::Progress;

/// The largest file of rows, in bytes.
pub const MAX_DATASET_BYTES: u64 = 1 << 30;
/// The largest file of one schema, one grammar or the like, in bytes. Its parsed form may need
/// fifty times as much memory.
const MAX_DOCUMENT_BYTES: u64 = 64 << 20;
/// Bytes between two reports of progress.
const PROGRESS_BYTES: u64 = 1 << 16;
/// The most rows of a dataset.
pub const MAX_ROWS: usize = 1_000_000;

/// The text of a file of rows, without a byte-order mark.
pub fn read_text(path: &Path) -> Result<String> {
    input::read_text(path, MAX_DATASET_BYTES)
}

/// The text of a file with a single document, without a byte-order mark.
pub fn read_document(path: &Path) -> Result<String> {
    input::read_text(path, MAX_DOCUMENT_BYTES)
}

/// The lines of a file of rows. Reports their bytes.
pub(super) fn read_lines_with<'p>(
    path: &Path,
    progress: &'p dyn Progress,
) -> Result<impl Iterator<Item = Result<(usize, String)>> + use<'p>> {
    let lines = read_lines(path)?;
    progress.expect(lines.file_len());
    let mut unreported = 0;
    Ok(lines.inspect(move |line: &Result<(usize, String)>| {
        unreported += line.as_ref().map_or(0, |(_, text)| text.len() as u64 + 1);
        if unreported >= PROGRESS_BYTES {
            progress.advance(mem::take(&mut unreported));
        }
    }))
}

/// The path of a dataset that requires one.
///
/// # Errors
/// No path is given. `hint` describes the required file.
pub(super) fn required<'a>(path: Option<&'a str>, dataset: &str, hint: &str) -> Result<&'a str> {
    path.ok_or_else(|| Error::usage(format!("the dataset {dataset} needs a file")).hint(hint))
}

/// The lines of a file of rows.
pub fn read_lines(path: &Path) -> Result<Lines> {
    Lines::open(path, MAX_DATASET_BYTES)
}

/// Refuses an empty list of rows, and more than [`MAX_ROWS`].
pub(super) fn check_rows(count: usize, source: &str) -> Result<()> {
    match count {
        0 => Err(Error::usage(format!("no rows in {source}"))
            .hint("check that the file is complete, or give another one")),
        1..=MAX_ROWS => Ok(()),
        _ => Err(
            Error::usage(format!("more than {MAX_ROWS} rows in {source}: {count}"))
                .hint("split the file"),
        ),
    }
}
