//! The rows file: a line that says what was measured, then a line for every row, in the order in
//! which they ended. Knows neither engines nor corpora.

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

pub use self::merge::{MergedRows, begins, merge};
use super::record::MaskRecord;
use super::row::Row;
use sobench_core::error::{Error, Result};
use sobench_core::input::{self, json};
use sobench_core::printable::printable;
use sobench_engine::EngineName;
use sobench_notices::notice::{MaskNotice, Notice};

/// The version of the file's format.
const FORMAT: u32 = 1;

/// Bytes of a line.
const MAX_LINE_BYTES: u64 = 1 << 30;

/// Characters of a differing value that are shown.
const MAX_SHOWN: usize = 80;

/// What a row is found again by: whose it is, and of which entry.
pub trait Line: Serialize + DeserializeOwned {
    /// The engine that it is about, and the entry's place in the corpora.
    fn key(&self) -> (EngineName, usize);
}

impl Line for Row {
    fn key(&self) -> (EngineName, usize) {
        (self.engine, self.index)
    }
}

/// The first line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Header {
    sobench_mask_rows: u32,
    sobench: String,
    /// Without what differs from run to run.
    about: MaskRecord,
}

/// A rows file that is being written.
pub(super) struct RowsFile<R> {
    kept: Arc<Kept>,
    file: File,
    engines: Vec<EngineName>,
    /// Where each row's line starts, by the engine's place and the entry's.
    offsets: BTreeMap<(usize, usize), u64>,
    length: u64,
    rows: PhantomData<R>,
}

/// A file that goes when nobody needs it any more, if it is a temporary one.
#[derive(Debug)]
struct Kept {
    path: PathBuf,
    is_temporary: bool,
}

impl Drop for Kept {
    fn drop(&mut self) {
        if self.is_temporary {
            // Nothing can be done about a temporary file that stays.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The rows of a measurement, in a file: those of a whole corpus do not fit in memory with their
/// durations.
#[derive(Clone, Debug)]
pub struct Rows<R> {
    kept: Arc<Kept>,
    offsets: Arc<[u64]>,
    rows: PhantomData<R>,
}

impl<R: Line> Rows<R> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// The file that holds them, unless it is a temporary one.
    pub fn path(&self) -> Option<&Path> {
        (!self.kept.is_temporary).then_some(self.kept.path.as_path())
    }

    /// Reads them one at a time, by engine in the order asked for, then by the entry's place in the
    /// corpora.
    pub fn iter(&self) -> impl Iterator<Item = Result<R>> + '_ {
        let mut opened = None;
        self.offsets.iter().map(move |offset| {
            if opened.is_none() {
                opened = Some(BufReader::new(
                    File::open(&self.kept.path)
                        .map_err(|error| unusable(&self.kept.path, &error))?,
                ));
            }
            let file = opened.as_mut().expect("it was opened just now");
            let line = line_at(file, *offset).map_err(|error| unusable(&self.kept.path, &error))?;
            serde_json::from_slice(&line).map_err(|error| unusable(&self.kept.path, &error))
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

/// The first line, and its bytes.
fn header(reader: &mut impl BufRead, path: &Path) -> Result<(Value, u64)> {
    let mut line = Vec::new();
    let length = next_line(reader, &mut line).map_err(|error| unusable(path, &error))?;
    let header = line.strip_prefix(input::BYTE_ORDER_MARK).unwrap_or(&line);
    Ok((
        serde_json::from_slice(header).map_err(|_| not_rows(path))?,
        length,
    ))
}

/// Where the rows of a file are.
struct Found {
    /// By the engine's place and the entry's.
    offsets: BTreeMap<(usize, usize), u64>,
    /// The bytes of all whole lines.
    length: u64,
    /// Whether the last line is not whole.
    is_torn: bool,
}

/// Finds the rows after a header of so many bytes. `key` says of what a line is; `refused` is the
/// error for the line of a number that is no row and not the last one.
fn find_rows(
    reader: &mut impl BufRead,
    header_bytes: u64,
    path: &Path,
    key: impl Fn(&[u8]) -> Option<(usize, usize)>,
    refused: impl Fn(usize) -> Error,
) -> Result<Found> {
    let mut found = Found {
        offsets: BTreeMap::new(),
        length: header_bytes,
        is_torn: false,
    };
    let mut line = Vec::new();
    for number in 2.. {
        let read = next_line(reader, &mut line).map_err(|error| unusable(path, &error))?;
        if read == 0 {
            break;
        }
        match key(&line).filter(|_| line.ends_with(b"\n")) {
            Some(key) => found.offsets.insert(key, found.length),
            None if reader
                .fill_buf()
                .map_err(|error| unusable(path, &error))?
                .is_empty() =>
            {
                found.is_torn = true;
                break;
            }
            None => return Err(refused(number)),
        };
        found.length += read;
    }
    Ok(found)
}

fn unusable(path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::environment(format!(
        "cannot use the rows file {}: {error}",
        path.display()
    ))
}

impl<R: Line> RowsFile<R> {
    /// Begins a file, or goes on with one; also returns what the user should know.
    ///
    /// # Errors
    /// As [`RowsFile::create`] and [`RowsFile::resume`].
    pub(super) fn open(
        path: Option<&Path>,
        resume: bool,
        about: &MaskRecord,
    ) -> Result<(Self, Option<Notice>)> {
        match path {
            Some(path) if resume => Self::resume(path, about),
            path => Ok((Self::create(path, about)?, None)),
        }
    }

    /// Begins a file; without a path, a temporary one.
    ///
    /// # Errors
    /// There is one already, or it cannot be written.
    pub(super) fn create(path: Option<&Path>, about: &MaskRecord) -> Result<Self> {
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
                Error::usage(format!("rows file exists already: {}", path.display()))
                    .hint("go on with it by --resume, or name another with --rows"),
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
                .hint("name another with --rows")
            })?;
        let mut rows = Self::new(Kept { path, is_temporary }, file, about);
        let header = rows.line(&Header::of(about))?;
        rows.write(&header)?;
        Ok(rows)
    }

    fn new(kept: Kept, file: File, about: &MaskRecord) -> Self {
        let engines = about.engines.iter().map(|engine| engine.engine).collect();
        Self {
            kept: Arc::new(kept),
            file,
            engines,
            offsets: BTreeMap::new(),
            length: 0,
            rows: PhantomData,
        }
    }

    /// Goes on with a file, or begins it where there is none. Also returns what the user should
    /// know.
    ///
    /// # Errors
    /// It is of another measurement, is damaged before its last line, or cannot be written.
    pub(super) fn resume(path: &Path, about: &MaskRecord) -> Result<(Self, Option<Notice>)> {
        if !path.exists() {
            let notice = MaskNotice::NoRowsFile {
                file: path.display().to_string(),
            };
            return Ok((Self::create(Some(path), about)?, Some(notice.into())));
        }
        check_begin(path)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map_err(|error| unusable(path, &error))?;
        let mut rows = Self::new(
            Kept {
                path: path.to_path_buf(),
                is_temporary: false,
            },
            file,
            about,
        );
        let torn = rows.take_over(&Header::of(about))?;
        rows.file
            .set_len(rows.length)
            .map_err(|error| unusable(path, &error))?;
        rows.file
            .seek(SeekFrom::Start(rows.length))
            .map_err(|error| unusable(path, &error))?;
        let notice = torn.then(|| {
            MaskNotice::TornRow {
                file: path.display().to_string(),
            }
            .into()
        });
        Ok((rows, notice))
    }

    /// Reads the header and every row; whether the last line is torn.
    fn take_over(&mut self, expected: &Header) -> Result<bool> {
        let path = &self.kept.path;
        let mut reader = BufReader::new(&self.file);
        let (header, length) = header(&mut reader, path)?;
        expected.compare(&header, path)?;
        let refused = |number| {
            unusable(path, &format!("line {number} is no row")).hint("name one that --rows wrote")
        };
        let found = find_rows(&mut reader, length, path, |line| self.key(line), refused)?;
        (self.offsets, self.length) = (found.offsets, found.length);
        Ok(found.is_torn)
    }

    fn key(&self, line: &[u8]) -> Option<(usize, usize)> {
        let (engine, index) = serde_json::from_slice::<R>(line).ok()?.key();
        Some((self.place(engine)?, index))
    }

    fn place(&self, engine: EngineName) -> Option<usize> {
        self.engines.iter().position(|name| *name == engine)
    }

    /// Whether a row is there.
    pub(super) fn has(&self, engine: EngineName, index: usize) -> bool {
        self.place(engine)
            .is_some_and(|place| self.offsets.contains_key(&(place, index)))
    }

    /// Adds a row, which is on its way to the disk when this returns.
    pub(super) fn append(&mut self, row: &R) -> Result<()> {
        let (engine, index) = row.key();
        let unknown = || {
            Error::internal(format!(
                "row of an engine that is not measured: {}",
                engine.name()
            ))
        };
        let place = self.place(engine).ok_or_else(unknown)?;
        let line = self.line(row)?;
        self.append_line((place, index), &line)
    }

    /// Adds the line of a row of another file, by the engine's place and the entry's.
    fn append_line(&mut self, key: (usize, usize), line: &[u8]) -> Result<()> {
        let offset = self.length;
        self.write(line)?;
        self.offsets.insert(key, offset);
        Ok(())
    }

    fn line(&self, value: &impl Serialize) -> Result<Vec<u8>> {
        let mut line =
            serde_json::to_vec(value).map_err(|error| unusable(&self.kept.path, &error))?;
        line.push(b'\n');
        Ok(line)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| {
            unusable(&self.kept.path, &error).hint("make room, and go on by --resume")
        })?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// The rows as they are now.
    pub(super) fn rows(&self) -> Rows<R> {
        Rows {
            kept: Arc::clone(&self.kept),
            offsets: self.offsets.values().copied().collect(),
            rows: PhantomData,
        }
    }

    /// The rows of one engine as they are now.
    pub(super) fn rows_of(&self, engine: EngineName) -> Rows<R> {
        let place = self.place(engine);
        let offsets = self
            .offsets
            .iter()
            .filter(|((of, _), _)| Some(*of) == place)
            .map(|(_, offset)| *offset);
        Rows {
            kept: Arc::clone(&self.kept),
            offsets: offsets.collect(),
            rows: PhantomData,
        }
    }
}

/// Refuses what does not begin as a rows file, before a line of it is looked for: it may be all one
/// line.
fn check_begin(path: &Path) -> Result<()> {
    input::check_text(path, u64::MAX)?;
    let begin = input::beginning(path, u64::MAX)?;
    if is_begin(&begin) {
        Ok(())
    } else {
        Err(not_rows(path))
    }
}

/// Whether these first bytes are a rows file's; an editor may have put a byte-order mark before
/// them.
fn is_begin(bytes: &[u8]) -> bool {
    bytes
        .strip_prefix(input::BYTE_ORDER_MARK)
        .unwrap_or(bytes)
        .starts_with(b"{\"sobench_mask_rows\":")
}

fn not_rows(path: &Path) -> Error {
    Error::usage(format!(
        "not a rows file of sobench mask: {}",
        path.display()
    ))
    .hint("name one that --rows wrote")
}

impl Header {
    fn of(about: &MaskRecord) -> Self {
        let mut about = about.clone();
        for engine in &mut about.engines {
            (engine.peak_rss_bytes, engine.wall_ns, engine.open_ns) = (None, 0, None);
        }
        about.host.clock_ns = 0;
        Self {
            sobench_mask_rows: FORMAT,
            sobench: env!("CARGO_PKG_VERSION").to_owned(),
            about,
        }
    }

    /// Refuses the header of another measurement, naming the first thing that differs.
    fn compare(&self, found: &Value, path: &Path) -> Result<()> {
        let expected = serde_json::to_value(self).map_err(|error| unusable(path, &error))?;
        if found.get("sobench_mask_rows").is_none() {
            return Err(not_rows(path));
        }
        let refuse = |with: &str| {
            Err(Error::usage(format!(
                "rows file is of another measurement, with {with}: {}",
                path.display()
            ))
            .hint("resume with the same flags and files, or name another file with --rows"))
        };
        let [here, now] = [found, &expected].map(engine_names);
        if here != now {
            return refuse(&format!(
                "engines {} and not {}",
                printable(&here, MAX_SHOWN),
                printable(&now, MAX_SHOWN)
            ));
        }
        let Some((place, here, now)) = json::difference(found, &expected) else {
            return Ok(());
        };
        let place = place.trim_start_matches("about.");
        let (here, now) = (printable(&here, MAX_SHOWN), printable(&now, MAX_SHOWN));
        refuse(&format!("{place} {here} and not {now}"))
    }
}

/// The names of the engines in a header.
fn engine_names(header: &Value) -> String {
    let engines = header.pointer("/about/engines").and_then(Value::as_array);
    let names = engines
        .into_iter()
        .flatten()
        .map(|engine| engine["engine"].as_str().unwrap_or("?"));
    names.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests;
