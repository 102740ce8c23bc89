//! The rows file: a header line with the measurement, then one line per row in order of completion.

mod merge;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::merge::{MergedRows, is_rows_file, merge_rows};
use super::record::MaskRecord;
use super::row::Row;
use sobench_core::error::{Error, Result};
use sobench_core::input::{self, json};
use sobench_core::printable::printable;
use sobench_engine::EngineName;
use sobench_notices::notice::{MaskNotice, Notice};

/// Version of the file format.
const FORMAT: u32 = 1;

/// Maximum length of a line in bytes.
const MAX_LINE_BYTES: u64 = 1 << 30;

/// Maximum length of a differing value in an error message.
const MAX_SHOWN: usize = 80;

/// A row with a unique key.
pub trait KeyedRow: Serialize + DeserializeOwned {
    /// The engine and the index of the entry in the corpora.
    fn key(&self) -> (EngineName, usize);
}

impl KeyedRow for Row {
    fn key(&self) -> (EngineName, usize) {
        (self.engine, self.index)
    }
}

/// The header line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Header {
    sobench_mask_rows: u32,
    sobench: String,
    /// Without fields that differ between runs, such as durations.
    record: MaskRecord,
}

/// A rows file open for writing.
pub(super) struct RowsFile<R> {
    stored: Arc<StoredFile>,
    file: File,
    engines: Vec<EngineName>,
    /// Byte offset of each row's line, by engine index and entry index.
    offsets: BTreeMap<(usize, usize), u64>,
    length: u64,
    rows: PhantomData<R>,
}

/// A file that is removed after its last use if it is temporary.
#[derive(Debug)]
struct StoredFile {
    path: PathBuf,
    is_temporary: bool,
}

impl Drop for StoredFile {
    fn drop(&mut self) {
        if self.is_temporary {
            // A temporary file that cannot be removed is harmless.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The rows of a measurement, read from a file: with their durations, the rows of a whole corpus do
/// not fit in memory.
#[derive(Clone, Debug)]
pub struct Rows<R> {
    stored: Arc<StoredFile>,
    offsets: Arc<[u64]>,
    rows: PhantomData<R>,
}

impl<R: KeyedRow> Rows<R> {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// The path of the file, unless it is temporary.
    pub fn path(&self) -> Option<&Path> {
        (!self.stored.is_temporary).then_some(self.stored.path.as_path())
    }

    /// Reads the rows one at a time, ordered by engine in the requested order, then by entry.
    pub fn iter(&self) -> impl Iterator<Item = Result<R>> + '_ {
        let mut opened = None;
        self.offsets.iter().map(move |offset| {
            if opened.is_none() {
                opened = Some(BufReader::new(
                    File::open(&self.stored.path)
                        .map_err(|error| rows_file_error(&self.stored.path, &error))?,
                ));
            }
            let file = opened.as_mut().expect("the file was opened above");
            let line = line_at(file, *offset)
                .map_err(|error| rows_file_error(&self.stored.path, &error))?;
            serde_json::from_slice(&line)
                .map_err(|error| rows_file_error(&self.stored.path, &error))
        })
    }
}

fn next_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<u64> {
    line.clear();
    Ok(reader.take(MAX_LINE_BYTES).read_until(b'\n', line)? as u64)
}

fn line_at(reader: &mut BufReader<File>, offset: u64) -> std::io::Result<Vec<u8>> {
    let mut line = Vec::new();
    reader.seek(SeekFrom::Start(offset))?;
    next_line(reader, &mut line)?;
    Ok(line)
}

/// The header line and its length in bytes.
fn header(reader: &mut impl BufRead, path: &Path) -> Result<(Value, u64)> {
    let mut line = Vec::new();
    let length = next_line(reader, &mut line).map_err(|error| rows_file_error(path, &error))?;
    let header = line.strip_prefix(input::BYTE_ORDER_MARK).unwrap_or(&line);
    let mut header: Value = serde_json::from_slice(header).map_err(|_| not_a_rows_file(path))?;
    // The name of the member in files of earlier versions.
    if let Some(record) = header.as_object_mut().and_then(|all| all.remove("about")) {
        header["record"] = record;
    }
    Ok((header, length))
}

/// The positions of the rows in a file.
struct RowIndex {
    /// By engine index and entry index.
    offsets: BTreeMap<(usize, usize), u64>,
    /// Length of all complete lines in bytes.
    length: u64,
    /// Whether the last line is truncated.
    is_truncated: bool,
}

/// Indexes the rows after a header of `header_bytes` bytes. `key` returns the key of a line.
/// `refused` creates the error for an invalid line, by number, unless it is the last one.
fn index_rows(
    reader: &mut impl BufRead,
    header_bytes: u64,
    path: &Path,
    key: impl Fn(&[u8]) -> Option<(usize, usize)>,
    refused: impl Fn(usize) -> Error,
) -> Result<RowIndex> {
    let mut found = RowIndex {
        offsets: BTreeMap::new(),
        length: header_bytes,
        is_truncated: false,
    };
    let mut line = Vec::new();
    for number in 2.. {
        let read = next_line(reader, &mut line).map_err(|error| rows_file_error(path, &error))?;
        if read == 0 {
            break;
        }
        match key(&line).filter(|_| line.ends_with(b"\n")) {
            Some(key) => found.offsets.insert(key, found.length),
            None if reader
                .fill_buf()
                .map_err(|error| rows_file_error(path, &error))?
                .is_empty() =>
            {
                found.is_truncated = true;
                break;
            }
            None => return Err(refused(number)),
        };
        found.length += read;
    }
    Ok(found)
}

fn rows_file_error(path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::environment(format!(
        "cannot use the rows file {}: {error}",
        path.display()
    ))
}

impl<R: KeyedRow> RowsFile<R> {
    /// Creates or resumes a file. Also returns a notice for the user.
    ///
    /// # Errors
    /// As [`RowsFile::create`] and [`RowsFile::resume`].
    pub(super) fn open(
        path: Option<&Path>,
        resume: bool,
        record: &MaskRecord,
    ) -> Result<(Self, Option<Notice>)> {
        match path {
            Some(path) if resume => Self::resume(path, record),
            path => Ok((Self::create(path, record)?, None)),
        }
    }

    /// Creates a file; without a path, a temporary one.
    ///
    /// # Errors
    /// The file exists or cannot be written.
    pub(super) fn create(path: Option<&Path>, record: &MaskRecord) -> Result<Self> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let is_temporary = path.is_none();
        let path = path.map_or_else(
            || {
                let number = NUMBER.fetch_add(1, Ordering::SeqCst);
                std::env::temp_dir().join(format!(
                    "sobench-mask-{}-{number}.jsonl",
                    std::process::id()
                ))
            },
            Path::to_path_buf,
        );
        if !is_temporary && path.exists() {
            return Err(
                Error::usage(format!("rows file already exists: {}", path.display()))
                    .hint("continue it with --resume, or name another file with --rows"),
            );
        }
        let mut options = OpenOptions::new();
        let file = options
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(|error| {
                Error::usage(format!(
                    "cannot write the rows file {}: {error}",
                    path.display()
                ))
                .hint("name another file with --rows")
            })?;
        let mut rows = Self::new(StoredFile { path, is_temporary }, file, record);
        let header = rows.line(&Header::new(record))?;
        rows.write(&header)?;
        Ok(rows)
    }

    fn new(stored: StoredFile, file: File, record: &MaskRecord) -> Self {
        let engines = record.engines.iter().map(|engine| engine.engine).collect();
        Self {
            stored: Arc::new(stored),
            file,
            engines,
            offsets: BTreeMap::new(),
            length: 0,
            rows: PhantomData,
        }
    }

    /// Resumes a file, or creates it if it does not exist. Also returns a notice for the user.
    ///
    /// # Errors
    /// The file belongs to another measurement, is damaged before its last line, or cannot be
    /// written.
    pub(super) fn resume(path: &Path, record: &MaskRecord) -> Result<(Self, Option<Notice>)> {
        if !path.exists() {
            let notice = MaskNotice::NoRowsFile {
                file: path.display().to_string(),
            };
            return Ok((Self::create(Some(path), record)?, Some(notice.into())));
        }
        check_rows_header(path)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map_err(|error| rows_file_error(path, &error))?;
        let mut rows = Self::new(
            StoredFile {
                path: path.to_path_buf(),
                is_temporary: false,
            },
            file,
            record,
        );
        let truncated = rows.load_existing(&Header::new(record))?;
        rows.file
            .set_len(rows.length)
            .map_err(|error| rows_file_error(path, &error))?;
        rows.file
            .seek(SeekFrom::Start(rows.length))
            .map_err(|error| rows_file_error(path, &error))?;
        let notice = truncated.then(|| {
            MaskNotice::TruncatedRow {
                file: path.display().to_string(),
            }
            .into()
        });
        Ok((rows, notice))
    }

    /// Reads the header and indexes every row; returns whether the last line is truncated.
    fn load_existing(&mut self, expected: &Header) -> Result<bool> {
        let path = &self.stored.path;
        let mut reader = BufReader::new(&self.file);
        let (header, length) = header(&mut reader, path)?;
        expected.compare(&header, path)?;
        let refused = |number| {
            rows_file_error(path, &format!("line {number} is not a row"))
                .hint("name a file written by --rows")
        };
        let found = index_rows(&mut reader, length, path, |line| self.key(line), refused)?;
        (self.offsets, self.length) = (found.offsets, found.length);
        Ok(found.is_truncated)
    }

    fn key(&self, line: &[u8]) -> Option<(usize, usize)> {
        let (engine, index) = serde_json::from_slice::<R>(line).ok()?.key();
        Some((self.engine_index(engine)?, index))
    }

    fn engine_index(&self, engine: EngineName) -> Option<usize> {
        self.engines.iter().position(|name| *name == engine)
    }

    /// Whether the file has a row.
    pub(super) fn contains_row(&self, engine: EngineName, index: usize) -> bool {
        self.engine_index(engine)
            .is_some_and(|engine_index| self.offsets.contains_key(&(engine_index, index)))
    }

    /// Appends a row and writes it without buffering.
    pub(super) fn append(&mut self, row: &R) -> Result<()> {
        let (engine, index) = row.key();
        let engine_index = self.engine_index(engine).ok_or_else(|| {
            Error::internal(format!(
                "row of an engine that is not measured: {}",
                engine.name()
            ))
        })?;
        let line = self.line(row)?;
        self.append_line((engine_index, index), &line)
    }

    /// Appends the line of a row from another file, with its engine index and entry index.
    fn append_line(&mut self, key: (usize, usize), line: &[u8]) -> Result<()> {
        let offset = self.length;
        self.write(line)?;
        self.offsets.insert(key, offset);
        Ok(())
    }

    fn line(&self, value: &impl Serialize) -> Result<Vec<u8>> {
        let mut line = serde_json::to_vec(value)
            .map_err(|error| rows_file_error(&self.stored.path, &error))?;
        line.push(b'\n');
        Ok(line)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| {
            rows_file_error(&self.stored.path, &error)
                .hint("free disk space, then continue with --resume")
        })?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// The current rows.
    pub(super) fn rows(&self) -> Rows<R> {
        Rows {
            stored: Arc::clone(&self.stored),
            offsets: self.offsets.values().copied().collect(),
            rows: PhantomData,
        }
    }

    /// The current rows of one engine.
    pub(super) fn rows_of(&self, engine: EngineName) -> Rows<R> {
        let engine_index = self.engine_index(engine);
        let offsets = self
            .offsets
            .iter()
            .filter(|((of, _), _)| Some(*of) == engine_index)
            .map(|(_, offset)| *offset);
        Rows {
            stored: Arc::clone(&self.stored),
            offsets: offsets.collect(),
            rows: PhantomData,
        }
    }
}

/// Rejects other files by their first bytes, before a line is read: the file may be a single huge
/// line.
fn check_rows_header(path: &Path) -> Result<()> {
    input::check_text(path, u64::MAX)?;
    let first_bytes = input::read_prefix(path, u64::MAX)?;
    if has_rows_header(&first_bytes) {
        Ok(())
    } else {
        Err(not_a_rows_file(path))
    }
}

/// Whether these are the first bytes of a rows file, optionally after a byte-order mark.
fn has_rows_header(bytes: &[u8]) -> bool {
    bytes
        .strip_prefix(input::BYTE_ORDER_MARK)
        .unwrap_or(bytes)
        .starts_with(b"{\"sobench_mask_rows\":")
}

fn not_a_rows_file(path: &Path) -> Error {
    Error::usage(format!(
        "not a rows file of sobench-tools mask: {}",
        path.display()
    ))
    .hint("name a file written by --rows")
}

impl Header {
    fn new(record: &MaskRecord) -> Self {
        let mut record = record.clone();
        for engine in &mut record.engines {
            (engine.peak_rss_bytes, engine.wall_ns, engine.open_ns) = (None, 0, None);
        }
        record.host.clock_ns = 0;
        Self {
            sobench_mask_rows: FORMAT,
            sobench: env!("CARGO_PKG_VERSION").to_owned(),
            record,
        }
    }

    /// Rejects the header of another measurement and names the first difference.
    fn compare(&self, found: &Value, path: &Path) -> Result<()> {
        let expected = serde_json::to_value(self).map_err(|error| rows_file_error(path, &error))?;
        if found.get("sobench_mask_rows").is_none() {
            return Err(not_a_rows_file(path));
        }
        let refuse = |difference: &str| {
            Err(Error::usage(format!(
                "rows file belongs to another measurement, {difference}: {}",
                path.display()
            ))
            .hint("resume with the same flags and files, or name another file with --rows"))
        };
        let [here, now] = [found, &expected].map(engine_names);
        if here != now {
            return refuse(&format!(
                "engines is {}, expected {}",
                printable(&here, MAX_SHOWN),
                printable(&now, MAX_SHOWN)
            ));
        }
        let Some((field, here, now)) = json::first_difference(found, &expected) else {
            return Ok(());
        };
        let field = field.trim_start_matches("record.");
        let (here, now) = (printable(&here, MAX_SHOWN), printable(&now, MAX_SHOWN));
        refuse(&format!("{field} is {here}, expected {now}"))
    }
}

/// The names of the engines in a header.
fn engine_names(header: &Value) -> String {
    let engines = header.pointer("/record/engines").and_then(Value::as_array);
    let names = engines
        .into_iter()
        .flatten()
        .map(|engine| engine["engine"].as_str().unwrap_or("?"));
    names.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests;
