//! Makes one rows file of those of all shards of a measurement. Knows no more of a row than whose
//! it is, and of which entry.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::{
    Found, Header, Rows, RowsFile, check_begin, find_rows, header, line_at, not_rows, unusable,
};
use crate::record::{MachineRecord, MaskRecord};
use crate::row::Row;
use sobench_core::error::{Error, Result};
use sobench_core::input;
use sobench_core::shard::{Shard, each_once, same_terms};
use sobench_engine::EngineName;
use sobench_notices::notice::{MaskNotice, Notice, OfShard};

/// A rows file that is the whole.
#[derive(Debug)]
pub struct MergedRows {
    /// Of the whole: what a measurement without shards would say.
    pub about: MaskRecord,
    pub rows: Rows<Row>,
    /// Rows that are in no file.
    pub missing: usize,
    /// What the reader has to know.
    pub notices: Vec<Notice>,
}

/// One shard's file.
struct Part {
    path: PathBuf,
    about: MaskRecord,
    version: String,
    shard: Shard,
    /// Where each row is: by engine and by the entry's place in the corpora.
    rows: BTreeMap<(usize, usize), u64>,
    is_torn: bool,
}

/// What a row is found by.
#[derive(Deserialize)]
struct Key {
    engine: EngineName,
    index: usize,
}

/// Whether a file begins as a rows file does.
///
/// # Errors
/// It cannot be read.
pub fn begins(path: &Path) -> Result<bool> {
    let begin = input::beginning(path, u64::MAX)?;
    Ok(super::is_begin(&begin))
}

/// Puts the rows of all shards into one file, in the order of the corpora; without a path for it,
/// into a temporary one.
///
/// # Errors
/// Usage, by name: a file is no shard's, is of another measurement, is there twice or is missing;
/// two have the same row; a file that is there would be written over.
pub fn merge(paths: &[PathBuf], to: Option<&Path>) -> Result<MergedRows> {
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
    same_terms(
        "the rows are of different measurements",
        "measurement",
        &terms,
    )?;
    let named: Vec<(Shard, String)> = parts
        .iter()
        .map(|part| (part.shard, part.path.display().to_string()))
        .collect();
    each_once(&named)?;
    let mut order: BTreeMap<(usize, usize), (usize, u64)> = BTreeMap::new();
    for (place, part) in parts.iter().enumerate() {
        for (key, offset) in &part.rows {
            if let Some((other, _)) = order.insert(*key, (place, *offset)) {
                let engine = part.about.engines[key.0].engine.name();
                let [one, two] = [&parts[other], part].map(|part| part.path.display());
                return Err(Error::usage(format!(
                    "entry {} under {engine} is in two files: {one} and {two}",
                    key.1
                ))
                .hint("a file was changed; rows files are only ever added to"));
            }
        }
    }
    let first = &parts[0];
    let selected = parts.iter().map(|part| part.about.selected).sum();
    let about = MaskRecord {
        shard: None,
        selected,
        ..first.about.clone()
    };
    let mut file = RowsFile::<Row>::create(to, &about)?;
    let mut readers = parts.iter().map(Part::open).collect::<Result<Vec<_>>>()?;
    for (key, (place, offset)) in &order {
        let line = line_at(&mut readers[*place], *offset)
            .map_err(|error| unusable(&parts[*place].path, &error))?;
        file.append_line(*key, &line)?;
    }
    let missing = (selected * about.engines.len()).saturating_sub(order.len());
    Ok(MergedRows {
        rows: file.rows(),
        notices: notices(&parts),
        missing,
        about,
    })
}

impl Part {
    fn read(path: &Path) -> Result<Self> {
        check_begin(path)?;
        let mut reader = BufReader::new(File::open(path).map_err(|error| unusable(path, &error))?);
        let (header, length) = header(&mut reader, path)?;
        let Header { sobench, about, .. } =
            serde_json::from_value(header).map_err(|_| not_rows(path))?;
        let shard = about.shard.and_then(|shard| Shard::new(shard.number, shard.of)).ok_or_else(|| {
            Error::usage(format!("not the rows of a shard, for they are of a whole: {}", path.display()))
                .hint("sobench mask --rows FILE --resume reports on it; shards are measurements with --shard I/N")
        })?;
        let key = |line: &[u8]| {
            let Key { engine, index } = serde_json::from_slice(line).ok()?;
            Some((
                about
                    .engines
                    .iter()
                    .position(|known| known.engine == engine)?,
                index,
            ))
        };
        let refused = |number| {
            Error::usage(format!("line {number} is no row: {}", path.display()))
                .hint("the file was changed or damaged")
        };
        let Found {
            offsets: rows,
            is_torn,
            ..
        } = find_rows(&mut reader, length, path, key, refused)?;
        Ok(Self {
            path: path.to_owned(),
            about,
            version: sobench,
            shard,
            rows,
            is_torn,
        })
    }

    fn open(&self) -> Result<BufReader<File>> {
        File::open(&self.path)
            .map(BufReader::new)
            .map_err(|error| unusable(&self.path, &error))
    }

    /// What all shards have in common; what their machines are is each one's own.
    fn terms(&self) -> Value {
        let about = MaskRecord {
            shard: None,
            selected: 0,
            host: MachineRecord::default(),
            ..self.about.clone()
        };
        serde_json::json!({"sobench": self.version, "shards": self.shard.of, "about": about})
    }
}

fn notices(parts: &[Part]) -> Vec<Notice> {
    let torn = parts.iter().filter(|part| part.is_torn);
    let torn = torn.map(|part| MaskNotice::TornRowLeftOut {
        file: part.path.display().to_string(),
    });
    let short = parts.iter().filter_map(|part| {
        let (rows, planned) = (
            part.rows.len(),
            part.about.selected * part.about.engines.len(),
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
        part.about
            .host
            .cpu
            .clone()
            .unwrap_or_else(|| "unknown".to_owned())
    };
    let is_mixed = parts.iter().any(|part| cpu(part) != cpu(&parts[0]));
    let mixed = is_mixed.then(|| {
        let of_shard = |part: &Part| OfShard {
            shard: part.shard.number,
            value: cpu(part),
        };
        MaskNotice::DifferentProcessors {
            processors: parts.iter().map(of_shard).collect(),
        }
    });
    torn.chain(short).chain(mixed).map(Notice::from).collect()
}

#[cfg(test)]
mod tests;
