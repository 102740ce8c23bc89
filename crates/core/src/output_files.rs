//! Files that commands write: whether they can be made, asked before there is anything to write,
//! and writing them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::error::{Error, Result};

/// Sees that this file can be written to. What is there stays as it is, and what was not there is
/// not there afterwards.
///
/// # Errors
/// It cannot.
pub fn try_file(path: &Path) -> io::Result<()> {
    let existed = path.exists();
    OpenOptions::new().append(true).create(true).open(path)?;
    if existed {
        Ok(())
    } else {
        fs::remove_file(path)
    }
}

/// Makes the folder that a file is wanted in, where it has one and that is missing.
///
/// # Errors
/// It cannot be made.
pub fn make_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

/// Files of one name that a folder may hold.
pub const MAX_SAME_NAMES: u32 = 1000;

/// The names that a file of our own naming may have, in order: `stem.ending`, `stem-2.ending` and
/// so on, since runs that start in the same second would have the same name.
pub fn numbered_names(stem: &str, ending: &str) -> impl Iterator<Item = String> {
    let (stem, ending) = (stem.to_owned(), ending.to_owned());
    let numbered = move |number: u32| match number {
        1 => format!("{stem}.{ending}"),
        _ => format!("{stem}-{number}.{ending}"),
    };
    (1..=MAX_SAME_NAMES).map(numbered)
}

/// Writes a file; one that is there is written over, as vLLM's tools do. Folders that are missing
/// are made.
///
/// # Errors
/// It cannot be made, or `fill` fails.
pub fn write(path: &Path, fill: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let file = make_folder(path)
        .and_then(|()| File::create(path))
        .map_err(|error| cannot_write_report(path, &error))?;
    filled(file, fill, |error| cannot_write_report(path, error))
}

/// Fills a file that is open. Where the file itself gives out, `cannot_write` says so, which knows
/// its name.
///
/// # Errors
/// It gives out, or `fill` fails.
pub fn filled(
    file: File,
    fill: impl FnOnce(&mut dyn Write) -> Result<()>,
    cannot_write: impl Fn(&io::Error) -> Error,
) -> Result<()> {
    let mut out = Noting {
        to: BufWriter::new(file),
        failure: None,
    };
    let done = fill(&mut out).and_then(|()| out.flush().map_err(|error| cannot_write(&error)));
    match &out.failure {
        Some(error) => Err(cannot_write(error)),
        None => done,
    }
}

/// A writer that remembers its first failure, whatever becomes of it on the way up.
struct Noting {
    to: BufWriter<File>,
    failure: Option<io::Error>,
}

impl Noting {
    fn note(&mut self, error: io::Error) -> io::Error {
        let same = error
            .raw_os_error()
            .map_or_else(|| error.kind().into(), io::Error::from_raw_os_error);
        self.failure.get_or_insert(same);
        error
    }
}

impl Write for Noting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.write(bytes).map_err(|error| self.note(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush().map_err(|error| self.note(error))
    }
}

/// The error of a report whose file cannot be written.
pub fn cannot_write_report(path: &Path, error: &io::Error) -> Error {
    Error::environment(format!(
        "the report cannot be written ({error}): {}",
        path.display()
    ))
    .hint("make room, or name a file in a folder that can be written to")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trying_leaves_everything_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b.json");
        assert_eq!(try_file(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        make_folder(&path).unwrap();
        try_file(&path).unwrap();
        assert!(!path.exists());
        fs::write(&path, "kept").unwrap();
        try_file(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "kept");
        make_folder(Path::new("alone.json")).unwrap();
    }
}
