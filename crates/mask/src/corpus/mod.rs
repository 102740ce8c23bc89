//! Corpora: constraints with instances, from files of several layouts. Knows no engine.
//!
//! A file, group or line that cannot be read, or that a child process could not read, costs itself
//! alone: it is counted, and the first ones are named in notices. A corpus of which nothing can be
//! read is an error. Entries are kept as the text that a child process is sent, since a tree of
//! values of a whole corpus takes gigabytes.

mod custom;
mod detect;
mod jsonschemabench;
mod jsts;
mod maskbench;
pub(super) mod tags;

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
use sobench_core::input::json::Repeated;
use sobench_core::shard::Shard;
use sobench_notices::notice::{CorpusNotice, Notice};
use sobench_pycompat::random::PythonRandom;

/// Notices kept of one corpus; what is past them is counted.
const MAX_NOTICES: usize = 20;

/// A constraint with texts or values that match it or do not.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    /// The file's path in its corpus, with a number where it holds several.
    pub(super) name: String,
    /// Keywords that the constraint uses, or what else the corpus says of it.
    pub(super) tags: Vec<String>,
    pub(super) constraint: Constraint,
    pub(super) instances: Vec<Instance>,
}

/// A text or value, and what the corpus says of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Instance {
    pub(super) content: Content,
    /// Whether it matches the constraint; `None` where the corpus does not say.
    pub(super) label: Option<bool>,
}

/// A test as MaskBench and the JSON-Schema-Test-Suite write it.
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

/// What an instance is made of.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Content {
    /// A JSON text of one line with the digits of its file, which can be written in several ways.
    Json(Box<RawValue>),
    /// The text itself.
    Text(String),
}

/// An entry that is going to be measured.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Selected {
    /// Its place among all entries of all corpora, from 0.
    pub(super) index: usize,
    pub(super) name: String,
    pub(super) tags: Vec<String>,
    pub(super) kind: &'static str,
    /// The [`Entry`] as JSON.
    pub(super) json: String,
}

/// All corpora of a plan.
pub(super) struct Corpora {
    pub(super) about: Vec<CorpusRecord>,
    pub(super) selected: Vec<Selected>,
    pub(super) notices: Vec<Notice>,
}

impl Corpora {
    /// The entry of this place, which is none where it was not selected.
    pub(super) fn selected(&self, index: usize) -> Option<&Selected> {
        let place = self
            .selected
            .binary_search_by_key(&index, |entry| entry.index)
            .ok()?;
        self.selected.get(place)
    }
}

/// Reads the corpora of a plan, and selects from them.
///
/// # Errors
/// A usage error for a filter that is no regular expression, a corpus of unknown layout or one
/// without a readable entry, and where nothing is selected.
pub(super) fn load(plan: &MaskPlan) -> Result<Corpora> {
    let filter = plan.filter.as_deref().map(compile_filter).transpose()?;
    let mut sink = Sink {
        filter,
        limit: plan.limit.unwrap_or(usize::MAX),
        selected: Vec::new(),
        next: 0,
        corpus: OneCorpus::default(),
        repeated: Repeated::default(),
    };
    let (mut about, mut notices) = (Vec::new(), Vec::new());
    for source in &plan.corpora {
        about.push(read_one(source, &mut sink)?);
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
        // Every corpus has an entry, and a limit is one at least.
        let filter = plan.filter.as_deref().unwrap_or_default();
        return Err(Error::usage(format!(
            "no entry is left to measure, of {} with filter: {filter}",
            sink.next
        ))
        .hint("the filter is a regular expression on names and tags"));
    }
    let mut selected = sink.selected;
    if let Some(sample) = plan.sample {
        selected = drawn(selected, sample);
    }
    if let Some(shard) = plan.shard {
        selected = part(selected, shard)?;
    }
    Ok(Corpora {
        about,
        selected,
        notices,
    })
}

/// Those of a shard: each so many-th of what all shards would select.
fn part(selected: Vec<Selected>, shard: Shard) -> Result<Vec<Selected>> {
    let whole = selected.len();
    let own = selected
        .into_iter()
        .enumerate()
        .filter(|(place, _)| shard.takes(*place))
        .map(|(_, entry)| entry);
    match own.collect::<Vec<_>>() {
        own if own.is_empty() => Err(Error::usage(format!(
            "{whole} entries are selected, none for --shard {shard}"
        ))
        .hint("take fewer shards, so that each has an entry at least")),
        own => Ok(own),
    }
}

/// Those of a sample, in their order.
fn drawn(selected: Vec<Selected>, sample: Sample) -> Vec<Selected> {
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
        Error::usage(format!("filter is no regular expression: {filter}"))
            .hint("escape brackets and dots with a backslash")
    })
}

fn read_one(source: &CorpusSource, sink: &mut Sink) -> Result<CorpusRecord> {
    let kind = source.kind.map_or_else(|| detect::kind(&source.path), Ok)?;
    let path = source.path.as_path();
    match kind {
        CorpusKind::Maskbench => maskbench::read(path, sink)?,
        CorpusKind::JsonSchemaBench => jsonschemabench::read(path, sink)?,
        CorpusKind::Jsts => jsts::read(path, sink)?,
        CorpusKind::Custom => custom::read(path, sink)?,
        CorpusKind::Shipped => custom::shipped(sink),
    }
    let corpus = &sink.corpus;
    if corpus.entries == 0 {
        if corpus.notices.is_empty() && path.metadata().is_ok_and(|it| it.is_file()) {
            return Err(
                Error::usage(format!("there is no entry in the file: {}", path.display()))
                    .hint("give a file that has some"),
            );
        }
        let hint = corpus
            .notices
            .first()
            .map(ToString::to_string)
            .unwrap_or_else(|| format!("a corpus can be {}", detect::KINDS));
        return Err(Error::usage(format!(
            "nothing to measure in the {} corpus {}",
            kind.name(),
            path.display()
        ))
        .hint(hint));
    }
    Ok(CorpusRecord {
        source: path.display().to_string(),
        kind,
        entries: corpus.entries,
        instances: corpus.instances,
        unreadable: corpus.unreadable,
        sha256: hex(&corpus.hash.clone().finalize()),
    })
}

/// The files below a folder whose names end in one of `endings`, as (name in the corpus, path); a
/// single file is its own corpus.
fn files(path: &Path, endings: &[&str]) -> Result<Vec<(String, std::path::PathBuf)>> {
    if !path.is_dir() {
        let name = path.file_name().map_or_else(
            || path.display().to_string(),
            |name| name.to_string_lossy().into_owned(),
        );
        return Ok(vec![(name, path.to_path_buf())]);
    }
    let names = sobench_core::input::list(path)?
        .into_iter()
        .filter(|name| endings.iter().any(|ending| name.ends_with(ending)));
    let files: Vec<_> = names.map(|name| (name.clone(), path.join(name))).collect();
    if files.is_empty() {
        return Err(Error::usage(format!(
            "no file ending in {} below {}",
            endings.join(" or "),
            path.display()
        ))
        .hint(format!("a corpus can be {}", detect::KINDS)));
    }
    Ok(files)
}

/// Takes entries as they are read.
pub(super) struct Sink {
    filter: Option<Regex>,
    limit: usize,
    selected: Vec<Selected>,
    /// The place of the next entry.
    next: usize,
    corpus: OneCorpus,
    repeated: Repeated,
}

#[derive(Default)]
struct OneCorpus {
    entries: usize,
    instances: usize,
    unreadable: usize,
    hash: Sha256,
    names: HashSet<String>,
    notices: Vec<Notice>,
    more_notices: usize,
}

impl Sink {
    fn entry(&mut self, mut entry: Entry) {
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
        if let Err(words) = protocol::check_entry(&json) {
            return self.unreadable(&format!("{name}: {words}"));
        }
        if !self.corpus.names.insert(name.clone()) {
            self.notice(CorpusNotice::SameName { name: name.clone() });
        }
        self.corpus.entries += 1;
        self.corpus.instances += entry.instances.len();
        self.corpus.hash.update(json.as_bytes());
        self.corpus.hash.update(b"\n");
        let index = self.next;
        self.next += 1;
        let wanted = |filter: &Regex| {
            filter.is_match(&entry.name) || entry.tags.iter().any(|tag| filter.is_match(tag))
        };
        if self.selected.len() < self.limit && self.filter.as_ref().is_none_or(wanted) {
            self.selected.push(Selected {
                index,
                name,
                tags: entry.tags,
                kind: entry.constraint.kind(),
                json,
            });
        }
    }

    /// Takes an entry, or counts that it cannot be read, for this reason.
    fn entry_or_reason(&mut self, entry: std::result::Result<Entry, String>) {
        match entry {
            Ok(entry) => self.entry(entry),
            Err(words) => self.unreadable(&words),
        }
    }

    /// Counts something that cannot be read, and says why.
    fn unreadable(&mut self, words: &str) {
        self.corpus.unreadable += 1;
        self.notice(CorpusNotice::Unreadable {
            why: words.to_owned(),
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
