//! Where the bytes of a run log are: in a file, or, from where the file could not be written, in memory. Knows no line.

use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};

/// The bytes of a run log, in two parts of which either may be empty.
#[derive(Clone, Debug)]
pub struct Source {
    file: Option<(PathBuf, u64)>,
    memory: Arc<Vec<u8>>,
}

impl Source {
    /// A whole file.
    pub fn file(path: &Path) -> Self {
        Self { file: Some((path.to_owned(), u64::MAX)), memory: Arc::default() }
    }

    /// The first `on_disk` bytes of a file, and what follows them.
    pub(super) fn parts(file: Option<(PathBuf, u64)>, memory: Vec<u8>) -> Self {
        Self { file, memory: Arc::new(memory) }
    }

    /// What messages call it.
    pub fn name(&self) -> String {
        self.file.as_ref().map_or_else(|| "the run log in memory".to_owned(), |(path, _)| path.display().to_string())
    }

    /// The file, if there is one.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|(path, _)| path.as_path())
    }

    /// The bytes from `offset` on.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub(super) fn open(&self, offset: u64) -> Result<Box<dyn BufRead + Send>> {
        let in_memory = |offset: u64| {
            let mut bytes = Cursor::new(Shared(Arc::clone(&self.memory)));
            bytes.set_position(offset);
            bytes
        };
        let Some((path, on_disk)) = self.file.as_ref().filter(|(_, on_disk)| offset < *on_disk) else {
            let before = self.file.as_ref().map_or(0, |(_, on_disk)| *on_disk);
            return Ok(Box::new(in_memory(offset - before)));
        };
        let opened = File::open(path).and_then(|mut file| file.seek(SeekFrom::Start(offset)).map(|_| file));
        let file = opened.map_err(|error| self.unreadable(&error))?;
        Ok(Box::new(BufReader::new(file.take(on_disk - offset)).chain(in_memory(0))))
    }

    pub(super) fn unreadable(&self, error: &std::io::Error) -> Error {
        Error::usage(format!("the run log cannot be read ({error}): {}", self.name())).hint("give the path of a file that exists")
    }
}

/// Bytes that a cursor may share.
struct Shared(Arc<Vec<u8>>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
