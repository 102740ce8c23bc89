//! Corpora: constraints with instances, read from files of several layouts.
//!
//! A file, group or line that cannot be read is skipped and counted, as is an entry that a child
//! process could not parse; the first ones are named in notices. A corpus without a readable entry
//! is an error. Entries are stored as the JSON text that is sent to a child process, since a parsed
//! corpus takes gigabytes.

mod custom;
mod detect;
mod jsonschemabench;
mod jsts;
mod maskbench;
mod structural_tags;
mod tool_arguments;

use std::collections::HashSet;
use std::path::Path;

use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::plan::{CorpusSource, MAX_INSTANCE_BYTES, MaskPlan};
use super::record::{CorpusKind, CorpusRecord, Sample};
use super::row::Spelling;
use super::{protocol, spelling};
use sobench_core::constraint::{Constraint, hex};
use sobench_core::error::{Error, Result};
use sobench_core::input::json::DuplicateKeys;
use sobench_core::shard::Shard;
use sobench_notices::notice::{CorpusNotice, Notice};
use sobench_pycompat::random::PythonRandom;

/// Maximum number of notices per corpus; further ones are counted.
const MAX_NOTICES: usize = 20;

/// A constraint with instances.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    /// The file's path in its corpus, with a number if the file holds several entries.
    pub(super) name: String,
    /// Keywords of the constraint, or the corpus's own tags.
    pub(super) tags: Vec<String>,
    pub(super) constraint: Constraint,
    pub(super) instances: Vec<Instance>,
}

/// A text or JSON value with its label.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Instance {
    pub(super) content: Content,
    /// Whether it matches the constraint; `None` if the corpus has no label.
    pub(super) label: Option<bool>,
}

/// A test in the format of MaskBench and the JSON-Schema-Test-Suite.
#[derive(Deserialize)]
struct Test {
    data: Box<RawValue>,
    valid: bool,
}

impl From<Test> for Instance {
    fn from(test: Test) -> Self {
        Self {
            content: Content::json(&test.data),
            label: Some(test.valid),
        }
    }
}

/// The content of an instance.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Content {
    /// JSON text on one line with the digits of its file, which can be written in several
    /// spellings.
    Json(Box<RawValue>),
    /// Plain text.
    Text(String),
}

/// An entry selected for measurement.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Selected {
    /// Index among all entries of all corpora, from 0.
    pub(super) index: usize,
    pub(super) name: String,
    pub(super) tags: Vec<String>,
    pub(super) kind: &'static str,
    /// The [`Entry`] as JSON.
    pub(super) json: String,
}

/// The corpora of a plan.
pub(super) struct Corpora {
    pub(super) record: Vec<CorpusRecord>,
    pub(super) selected: Vec<Selected>,
    pub(super) notices: Vec<Notice>,
}

impl Corpora {
    /// The entry with this index, if it was selected.
    pub(super) fn selected(&self, index: usize) -> Option<&Selected> {
        let place = self
            .selected
            .binary_search_by_key(&index, |entry| entry.index)
            .ok()?;
        self.selected.get(place)
    }
}

/// Reads the corpora of a plan and selects entries.
///
/// # Errors
/// A usage error for an invalid filter, a corpus of unknown layout or without a readable entry, and
/// an empty selection.
pub(super) fn load(plan: &MaskPlan) -> Result<Corpora> {
    let filter = plan.filter.as_deref().map(compile_filter).transpose()?;
    let mut sink = Sink {
        filter,
        limit: plan.limit.unwrap_or(usize::MAX),
        selected: Vec::new(),
        next: 0,
        corpus: CorpusProgress::default(),
        repeated: DuplicateKeys::default(),
    };
    let (mut record, mut notices) = (Vec::new(), Vec::new());
    for source in &plan.corpora {
        record.push(read_corpus(source, plan.seed, &mut sink)?);
        let corpus = std::mem::take(&mut sink.corpus);
        notices.extend(corpus.notices);
        if corpus.more_notices > 0 {
            let corpus_name = source.path.display().to_string();
            notices.push(
                CorpusNotice::MoreLikeThese {
                    corpus: corpus_name,
                    notices: corpus.more_notices,
                }
                .into(),
            );
        }
    }
    if let Some((objects, first)) = std::mem::take(&mut sink.repeated).found() {
        notices.push(CorpusNotice::RepeatedMembersInCorpora { objects, first }.into());
    }
    if sink.selected.is_empty() {
        // Every corpus has an entry, and the limit is at least one.
        let filter = plan.filter.as_deref().unwrap_or_default();
        return Err(Error::usage(format!(
            "no entry matches the filter, of {} entries: {filter}",
            sink.next
        ))
        .hint("give --filter a regular expression that matches names or tags"));
    }
    let mut selected = sink.selected;
    if let Some(sample) = plan.sample {
        selected = sampled_entries(selected, sample);
    }
    if let Some(shard) = plan.shard {
        selected = shard_entries(selected, shard)?;
    }
    Ok(Corpora {
        record,
        selected,
        notices,
    })
}

/// Entries of a shard: each N-th of all selected entries.
fn shard_entries(selected: Vec<Selected>, shard: Shard) -> Result<Vec<Selected>> {
    let whole = selected.len();
    let own = selected
        .into_iter()
        .enumerate()
        .filter(|(place, _)| shard.takes(*place))
        .map(|(_, entry)| entry);
    match own.collect::<Vec<_>>() {
        own if own.is_empty() => Err(Error::usage(format!(
            "no entry for --shard {shard}, of {whole} selected entries"
        ))
        .hint("use fewer shards")),
        own => Ok(own),
    }
}

/// A random sample in corpus order.
fn sampled_entries(selected: Vec<Selected>, sample: Sample) -> Vec<Selected> {
    let count = sample.entries.min(selected.len());
    let places: HashSet<usize> = PythonRandom::new(sample.seed)
        .sample(selected.len(), count)
        .into_iter()
        .collect();
    selected
        .into_iter()
        .enumerate()
        .filter(|(place, _)| places.contains(place))
        .map(|(_, entry)| entry)
        .collect()
}

fn compile_filter(filter: &str) -> Result<Regex> {
    Regex::new(filter).map_err(|_| {
        Error::usage(format!("filter is not a regular expression: {filter}"))
            .hint("escape brackets and dots with a backslash")
    })
}

fn read_corpus(source: &CorpusSource, seed: u64, sink: &mut Sink) -> Result<CorpusRecord> {
    let kind = source.kind.map_or_else(|| detect::kind(&source.path), Ok)?;
    let path = source.path.as_path();
    match kind {
        CorpusKind::Maskbench => maskbench::read(path, sink)?,
        CorpusKind::JsonSchemaBench => jsonschemabench::read(path, sink)?,
        CorpusKind::Jsts => jsts::read(path, sink)?,
        CorpusKind::Custom => custom::read(path, sink)?,
        CorpusKind::Shipped => custom::read_shipped(sink),
        CorpusKind::Tags => structural_tags::read(path, seed, sink)?,
    }
    let corpus = &sink.corpus;
    if corpus.entries == 0 {
        if corpus.notices.is_empty() && path.metadata().is_ok_and(|metadata| metadata.is_file()) {
            return Err(
                Error::usage(format!("no entry in the file: {}", path.display()))
                    .hint("give a file with entries"),
            );
        }
        let hint = corpus
            .notices
            .first()
            .map(ToString::to_string)
            .unwrap_or_else(|| format!("use {}", detect::KINDS));
        return Err(Error::usage(format!(
            "nothing to measure in the {} corpus {}",
            kind.name(),
            path.display()
        ))
        .hint(hint));
    }
    Ok(CorpusRecord {
        source: match kind {
            CorpusKind::Tags => format!("{}, seed {seed}", path.display()),
            _ => path.display().to_string(),
        },
        kind,
        entries: corpus.entries,
        instances: corpus.instances,
        unreadable: corpus.unreadable,
        sha256: hex(&corpus.hash.clone().finalize()),
    })
}

/// The files below a folder with one of `endings`, as (name in the corpus, path). A single file is
/// a corpus of its own.
fn files(path: &Path, endings: &[&str]) -> Result<Vec<(String, std::path::PathBuf)>> {
    if !path.is_dir() {
        let name = path.file_name().map_or_else(
            || path.display().to_string(),
            |name| name.to_string_lossy().into_owned(),
        );
        return Ok(vec![(name, path.to_path_buf())]);
    }
    let names = sobench_core::input::list_files(path)?
        .into_iter()
        .filter(|name| endings.iter().any(|ending| name.ends_with(ending)));
    let files: Vec<_> = names.map(|name| (name.clone(), path.join(name))).collect();
    if files.is_empty() {
        return Err(Error::usage(format!(
            "no file ending in {} below {}",
            endings.join(" or "),
            path.display()
        ))
        .hint(format!("use {}", detect::KINDS)));
    }
    Ok(files)
}

/// Collects entries during reading.
pub(super) struct Sink {
    filter: Option<Regex>,
    limit: usize,
    selected: Vec<Selected>,
    /// Index of the next entry.
    next: usize,
    corpus: CorpusProgress,
    repeated: DuplicateKeys,
}

#[derive(Default)]
struct CorpusProgress {
    entries: usize,
    instances: usize,
    unreadable: usize,
    hash: Sha256,
    names: HashSet<String>,
    notices: Vec<Notice>,
    more_notices: usize,
}

impl Sink {
    fn add(&mut self, mut entry: Entry) {
        let name = entry.name.clone();
        let before = entry.instances.len();
        entry
            .instances
            .retain(|instance| instance.bytes() <= MAX_INSTANCE_BYTES);
        let instances = before - entry.instances.len();
        if instances > 0 {
            self.notice(CorpusNotice::LongInstances {
                entry: name.clone(),
                max_bytes: MAX_INSTANCE_BYTES,
                instances,
            });
        }
        let json =
            serde_json::to_string(&entry).expect("an entry holds only strings and JSON values");
        if let Err(message) = protocol::check_entry(&json) {
            return self.report_unreadable(&format!("{name}: {message}"));
        }
        if !self.corpus.names.insert(name.clone()) {
            self.notice(CorpusNotice::DuplicateName { name: name.clone() });
        }
        self.corpus.entries += 1;
        self.corpus.instances += entry.instances.len();
        self.corpus.hash.update(json.as_bytes());
        self.corpus.hash.update(b"\n");
        let index = self.next;
        self.next += 1;
        let matches_filter = |filter: &Regex| {
            filter.is_match(&entry.name) || entry.tags.iter().any(|tag| filter.is_match(tag))
        };
        if self.selected.len() < self.limit && self.filter.as_ref().is_none_or(matches_filter) {
            self.selected.push(Selected {
                index,
                name,
                tags: entry.tags,
                kind: entry.constraint.kind(),
                json,
            });
        }
    }

    /// Adds an entry, or counts and reports why it cannot be read.
    fn add_or_report(&mut self, entry: std::result::Result<Entry, String>) {
        match entry {
            Ok(entry) => self.add(entry),
            Err(message) => self.report_unreadable(&message),
        }
    }

    /// Counts an unreadable item and reports why.
    fn report_unreadable(&mut self, message: &str) {
        self.corpus.unreadable += 1;
        self.notice(CorpusNotice::Unreadable {
            why: message.to_owned(),
        });
    }

    fn notice(&mut self, notice: CorpusNotice) {
        if self.corpus.notices.len() < MAX_NOTICES {
            self.corpus.notices.push(notice.into());
        } else {
            self.corpus.more_notices += 1;
        }
    }
}

impl Content {
    fn json(written: &RawValue) -> Self {
        Self::Json(spelling::on_one_line(written))
    }
}

impl Instance {
    fn bytes(&self) -> usize {
        match &self.content {
            Content::Text(text) => text.len(),
            Content::Json(_) => {
                spelling::spell(&self.content, Spelling::Pretty).map_or(0, |text| text.len())
            }
        }
    }
}

#[cfg(test)]
mod tests;
