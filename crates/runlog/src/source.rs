//! Source of the bytes of a run log: a file, and memory for the part that could not be written to
//! the file.

use std::io::{BufRead, BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use sobench_core::error::{Error, Result};
use sobench_core::input;

/// The bytes of a run log: the first part in a file, the rest in memory. Either may be empty.
#[derive(Clone, Debug)]
pub struct Source {
    file: Option<(PathBuf, u64)>,
    memory: Bytes,
}

impl Source {
    /// A whole file.
    pub fn file(path: &Path) -> Self {
        Self {
            file: Some((path.to_owned(), u64::MAX)),
            memory: Bytes::new(),
        }
    }

    /// The first bytes of a file, and the bytes after them in memory.
    pub(super) fn parts(file: Option<(PathBuf, u64)>, memory: Vec<u8>) -> Self {
        Self {
            file,
            memory: memory.into(),
        }
    }

    /// Limits the source to the bytes before `end`, because the log of a running run grows while it
    /// is read.
    pub(super) fn up_to(self, end: u64) -> Self {
        let file = self.file.map(|(path, on_disk)| (path, on_disk.min(end)));
        Self { file, ..self }
    }

    /// The name for messages.
    pub fn name(&self) -> String {
        self.file.as_ref().map_or_else(
            || "the run log in memory".to_owned(),
            |(path, _)| path.display().to_string(),
        )
    }

    /// Whether all bytes are in the file.
    pub(super) fn is_whole_file(&self) -> bool {
        self.memory.is_empty() && self.file.as_ref().is_some_and(|(_, on_disk)| *on_disk > 0)
    }

    /// Size in bytes; 0 if the size of the file is unknown.
    pub(super) fn len(&self) -> u64 {
        let of_file = |(path, on_disk): &(PathBuf, u64)| {
            let length = std::fs::metadata(path).map_or(0, |file| file.len());
            length.min(*on_disk)
        };
        self.file.as_ref().map_or(0, of_file) + self.memory.len() as u64
    }

    /// The path of the file, if there is one.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|(path, _)| path.as_path())
    }

    /// The bytes from `offset` on.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub(super) fn open(&self, offset: u64) -> Result<Box<dyn BufRead + Send>> {
        let in_memory = |offset: u64| {
            let mut bytes = Cursor::new(self.memory.clone());
            bytes.set_position(offset);
            bytes
        };
        let Some((path, on_disk)) = self.file.as_ref().filter(|(_, on_disk)| offset < *on_disk)
        else {
            let before = self.file.as_ref().map_or(0, |(_, on_disk)| *on_disk);
            return Ok(Box::new(in_memory(offset - before)));
        };
        let (mut file, _) = input::open(path, u64::MAX)?;
        file.seek(SeekFrom::Start(offset))
            .map_err(|error| self.unreadable(&error))?;
        Ok(Box::new(
            BufReader::new(file.take(on_disk - offset)).chain(in_memory(0)),
        ))
    }

    pub(super) fn unreadable(&self, error: &std::io::Error) -> Error {
        match self.path() {
            Some(path) => input::unreadable(path, error),
            None => Error::internal(format!("cannot read the run log in memory: {error}")),
        }
    }
}
