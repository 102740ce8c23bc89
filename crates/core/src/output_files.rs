//! Checks that output files can be written before a run, and writes them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Checks that a file can be written. Leaves existing content unchanged, and removes the file again
/// if it did not exist.
///
/// # Errors
/// It cannot be written.
pub fn check_writable(path: &Path) -> io::Result<()> {
    let existed = path.exists();
    OpenOptions::new().append(true).create(true).open(path)?;
    if existed {
        Ok(())
    } else {
        fs::remove_file(path)
    }
}

/// Creates the parent folder of a file if it is missing.
///
/// # Errors
/// It cannot be created.
pub fn create_parent_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

/// Maximum number of numbered files with the same stem in a folder.
pub const MAX_SAME_NAMES: u32 = 1000;

/// File names to try in order: `stem.ending`, `stem-2.ending` and so on, because runs that start in
/// the same second get the same stem.
pub fn numbered_names(stem: &str, ending: &str) -> impl Iterator<Item = String> {
    let (stem, ending) = (stem.to_owned(), ending.to_owned());
    let numbered = move |number: u32| match number {
        1 => format!("{stem}.{ending}"),
        _ => format!("{stem}-{number}.{ending}"),
    };
    (1..=MAX_SAME_NAMES).map(numbered)
}

/// Appends parts to the stem of the file name.
pub fn with_suffix(path: &Path, parts: &[String]) -> PathBuf {
    if parts.is_empty() {
        return path.to_owned();
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = format!("{stem}-{}", parts.join("-"));
    match path.extension() {
        Some(extension) => path.with_file_name(format!("{name}.{}", extension.to_string_lossy())),
        None => path.with_file_name(name),
    }
}

/// Writes a file. Overwrites an existing file, as vLLM's tools do, and creates missing folders.
///
/// # Errors
/// It cannot be created or written, or `fill` fails.
pub fn write(path: &Path, fill: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let file = create_parent_folder(path)
        .and_then(|()| File::create(path))
        .map_err(|error| cannot_write_report(path, &error))?;
    write_to_open_file(file, fill, |error| cannot_write_report(path, error))
}

/// Writes to an open file. `cannot_write` converts I/O errors of the file to an error with its
/// name.
///
/// # Errors
/// It cannot be written, or `fill` fails.
pub fn write_to_open_file(
    file: File,
    fill: impl FnOnce(&mut dyn Write) -> Result<()>,
    cannot_write: impl Fn(&io::Error) -> Error,
) -> Result<()> {
    let mut out = FailureRecorder {
        inner: BufWriter::new(file),
        failure: None,
    };
    let done = fill(&mut out).and_then(|()| out.flush().map_err(|error| cannot_write(&error)));
    match &out.failure {
        Some(error) => Err(cannot_write(error)),
        None => done,
    }
}

/// A writer that records its first I/O error, which callers may replace by another error.
struct FailureRecorder {
    inner: BufWriter<File>,
    failure: Option<io::Error>,
}

impl FailureRecorder {
    fn record(&mut self, error: io::Error) -> io::Error {
        let copy = error
            .raw_os_error()
            .map_or_else(|| error.kind().into(), io::Error::from_raw_os_error);
        self.failure.get_or_insert(copy);
        error
    }
}

impl Write for FailureRecorder {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(bytes).map_err(|error| self.record(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush().map_err(|error| self.record(error))
    }
}

/// The error for a report file that cannot be written.
pub fn cannot_write_report(path: &Path, error: &io::Error) -> Error {
    Error::environment(format!(
        "cannot write the report ({error}): {}",
        path.display()
    ))
    .hint("free disk space, or choose a file in a writable folder")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checking_leaves_files_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b.json");
        assert_eq!(
            check_writable(&path).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        create_parent_folder(&path).unwrap();
        check_writable(&path).unwrap();
        assert!(!path.exists());
        fs::write(&path, "kept").unwrap();
        check_writable(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "kept");
        create_parent_folder(Path::new("alone.json")).unwrap();
    }
}
