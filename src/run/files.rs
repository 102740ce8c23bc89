//! Files that a report is written to. Knows no form of it.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::error::{Error, Result};

/// Writes a file; one that is there is written over, as vLLM's tools do. Folders that are missing are made.
///
/// # Errors
/// It cannot be made, or `fill` fails.
pub(super) fn write(path: &Path, fill: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let made = make_folder(path).and_then(|()| File::create(path));
    let mut file = BufWriter::new(made.map_err(|error| cannot_write(path, &error))?);
    fill(&mut file)?;
    file.flush().map_err(|error| cannot_write(path, &error))
}

/// A report is not to take the place of the log that it is made from.
///
/// # Errors
/// Both paths are of one file.
pub(super) fn refuse_same(path: &Path, log: &Path) -> Result<()> {
    let is_same = matches!((path.canonicalize(), log.canonicalize()), (Ok(one), Ok(other)) if one == other);
    if !is_same {
        return Ok(());
    }
    Err(Error::usage(format!("the report would be written over its run log: {}", path.display()))
        .hint("give the report another file"))
}

fn make_folder(path: &Path) -> std::io::Result<()> {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).map_or(Ok(()), std::fs::create_dir_all)
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Error {
    Error::environment(format!("the report cannot be written ({error}): {}", path.display()))
        .hint("name a file in a folder that can be written to")
}
