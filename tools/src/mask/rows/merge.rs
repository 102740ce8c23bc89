//! Merges the rows files of all shards of a measurement.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::{
    Header, RowIndex, Rows, RowsFile, check_rows_header, header, index_rows, line_at,
    not_a_rows_file, rows_file_error,
};
use crate::mask::record::{MachineRecord, MaskRecord};
use crate::mask::row::Row;
use sobench_core::error::{Error, Result};
use sobench_core::input;
use sobench_core::shard::{Shard, check_all_present, check_same_settings};
use sobench_engine::EngineName;
use sobench_notices::notice::{MaskNotice, Notice, ShardValue};

/// The merged rows.
#[derive(Debug)]
pub struct MergedRows {
    /// The record of the whole measurement.
    pub record: MaskRecord,
    pub rows: Rows<Row>,
    /// Number of planned rows that are in no file.
    pub missing: usize,
    /// Notices for the reader.
    pub notices: Vec<Notice>,
}

/// One shard's file.
struct Part {
    path: PathBuf,
    record: MaskRecord,
    version: String,
    shard: Shard,
    /// Byte offset of each row, by engine index and entry index.
    rows: BTreeMap<(usize, usize), u64>,
    is_truncated: bool,
}

/// The key of a row.
#[derive(Deserialize)]
struct Key {
    engine: EngineName,
    index: usize,
}

/// Whether a file is a rows file, by its first bytes.
///
/// # Errors
/// The file cannot be read.
pub fn is_rows_file(path: &Path) -> Result<bool> {
    let first_bytes = input::read_prefix(path, u64::MAX)?;
    Ok(super::has_rows_header(&first_bytes))
}

/// Merges the rows of all shards into one file, in the order of the corpora; without a path, into a
/// temporary file.
///
/// # Errors
/// A usage error that names the file: it is not a shard, belongs to another measurement, is
/// repeated or missing, repeats a row of another file, or would be overwritten.
pub fn merge_rows(paths: &[PathBuf], to: Option<&Path>) -> Result<MergedRows> {
    let mut parts = paths
        .iter()
        .map(|path| Part::read(path))
        .collect::<Result<Vec<_>>>()?;
    parts.sort_by_key(|part| part.shard.number);
    if parts.is_empty() {
        return Err(Error::usage("no rows to merge").hint("name the rows file of every shard"));
    }
    let terms: Vec<_> = parts
        .iter()
        .map(|part| (part.terms(), part.path.display().to_string()))
        .collect();
    check_same_settings(
        "the rows are of different measurements",
        "measurement",
        &terms,
    )?;
    let named: Vec<(Shard, String)> = parts
        .iter()
        .map(|part| (part.shard, part.path.display().to_string()))
        .collect();
    check_all_present(
        &named,
        "give the file of each shard; the file of a killed shard may be incomplete",
    )?;
    let mut order: BTreeMap<(usize, usize), (usize, u64)> = BTreeMap::new();
    for (place, part) in parts.iter().enumerate() {
        for (key, offset) in &part.rows {
            if let Some((other, _)) = order.insert(*key, (place, *offset)) {
                let engine = part.record.engines[key.0].engine.name();
                let [one, two] = [&parts[other], part].map(|part| part.path.display());
                return Err(Error::usage(format!(
                    "entry {} under {engine} is in two files: {one} and {two}",
                    key.1
                ))
                .hint("restore the original files; one of them was edited"));
            }
        }
    }
    let first = &parts[0];
    let selected = parts.iter().map(|part| part.record.selected).sum();
    let record = MaskRecord {
        shard: None,
        selected,
        ..first.record.clone()
    };
    let mut file = RowsFile::<Row>::create(to, &record)?;
    let mut readers = parts.iter().map(Part::open).collect::<Result<Vec<_>>>()?;
    for (key, (place, offset)) in &order {
        let line = line_at(&mut readers[*place], *offset)
            .map_err(|error| rows_file_error(&parts[*place].path, &error))?;
        file.append_line(*key, &line)?;
    }
    let missing = (selected * record.engines.len()).saturating_sub(order.len());
    Ok(MergedRows {
        rows: file.rows(),
        notices: notices(&parts),
        missing,
        record,
    })
}

impl Part {
    fn read(path: &Path) -> Result<Self> {
        check_rows_header(path)?;
        let mut reader =
            BufReader::new(File::open(path).map_err(|error| rows_file_error(path, &error))?);
        let (header, length) = header(&mut reader, path)?;
        let Header {
            sobench, record, ..
        } = serde_json::from_value(header).map_err(|_| not_a_rows_file(path))?;
        let shard = record.shard.and_then(|shard| Shard::new(shard.number, shard.of)).ok_or_else(|| {
            Error::usage(format!("not the rows of a shard, but of a whole measurement: {}", path.display()))
                .hint("report it with sobench-tools mask --rows FILE --resume; create shards with --shard I/N")
        })?;
        let key = |line: &[u8]| {
            let Key { engine, index } = serde_json::from_slice(line).ok()?;
            Some((
                record
                    .engines
                    .iter()
                    .position(|known| known.engine == engine)?,
                index,
            ))
        };
        let refused = |number| {
            Error::usage(format!("line {number} is not a row: {}", path.display()))
                .hint("restore the original file; this one was edited or damaged")
        };
        let RowIndex {
            offsets: rows,
            is_truncated,
            ..
        } = index_rows(&mut reader, length, path, key, refused)?;
        Ok(Self {
            path: path.to_owned(),
            record,
            version: sobench,
            shard,
            rows,
            is_truncated,
        })
    }

    fn open(&self) -> Result<BufReader<File>> {
        File::open(&self.path)
            .map(BufReader::new)
            .map_err(|error| rows_file_error(&self.path, &error))
    }

    /// The settings that all shards share; machines may differ.
    fn terms(&self) -> Value {
        let record = MaskRecord {
            shard: None,
            selected: 0,
            host: MachineRecord::default(),
            ..self.record.clone()
        };
        serde_json::json!({"sobench": self.version, "shards": self.shard.of, "record": record})
    }
}

fn notices(parts: &[Part]) -> Vec<Notice> {
    let truncated = parts.iter().filter(|part| part.is_truncated);
    let truncated = truncated.map(|part| MaskNotice::TruncatedRowSkipped {
        file: part.path.display().to_string(),
    });
    let short = parts.iter().filter_map(|part| {
        let (rows, planned) = (
            part.rows.len(),
            part.record.selected * part.record.engines.len(),
        );
        let Shard {
            number: shard,
            of: shards,
        } = part.shard;
        (rows < planned).then_some(MaskNotice::RowsMissing {
            shard,
            shards,
            rows,
            planned,
        })
    });
    let cpu = |part: &Part| {
        part.record
            .host
            .cpu
            .clone()
            .unwrap_or_else(|| "unknown".to_owned())
    };
    let is_mixed = parts.iter().any(|part| cpu(part) != cpu(&parts[0]));
    let mixed = is_mixed.then(|| {
        let of_shard = |part: &Part| ShardValue {
            shard: part.shard.number,
            value: cpu(part),
        };
        MaskNotice::DifferentProcessors {
            processors: parts.iter().map(of_shard).collect(),
        }
    });
    truncated
        .chain(short)
        .chain(mixed)
        .map(Notice::from)
        .collect()
}

#[cfg(test)]
mod tests;
