//! Detects the layout of a corpus from its files.

use std::path::Path;

use serde_json::Value;

use crate::mask::record::CorpusKind;
use sobench_core::error::{Error, Result};
use sobench_core::input::list_files;
use sobench_data::dataset::file::read_document;

/// The supported layouts, for hints.
pub(super) const KINDS: &str = "a file or folder of MaskBench, JSONSchemaBench or the JSON-Schema-Test-Suite, or custom \
                                JSON Lines; force a layout with maskbench:PATH, jsonschemabench:PATH, jsts:PATH or custom:PATH";

/// Number of JSON files of a folder that are examined.
const FILES_EXAMINED: usize = 50;

/// The layout of the corpus at `path`.
///
/// # Errors
/// A usage error if the path does not exist or the layout is unknown.
pub(super) fn kind(path: &Path) -> Result<CorpusKind> {
    let unknown = || {
        Error::usage(format!("unknown corpus layout: {}", path.display()))
            .hint(format!("use {KINDS}"))
    };
    if !path.exists() {
        return Err(Error::usage(format!("no such corpus: {}", path.display()))
            .hint("give a file or folder, shipped or tags"));
    }
    if !path.is_dir() {
        return kind_of_file(path)?.ok_or_else(unknown);
    }
    let names = list_files(path)?;
    if names.is_empty() {
        return Err(
            Error::usage(format!("corpus is an empty folder: {}", path.display()))
                .hint(format!("use {KINDS}")),
        );
    }
    if names.iter().any(|name| name.ends_with(".parquet")) {
        return Ok(CorpusKind::JsonSchemaBench);
    }
    let json = names
        .iter()
        .filter(|name| name.ends_with(".json"))
        .take(FILES_EXAMINED);
    let mut found = json.filter_map(|name| kind_of_file(&path.join(name)).ok().flatten());
    found
        .next()
        .or_else(|| {
            names
                .iter()
                .any(|name| is_json_lines(name))
                .then_some(CorpusKind::Custom)
        })
        .ok_or_else(unknown)
}

/// The layout of a file; `None` for JSON of an unknown layout.
fn kind_of_file(path: &Path) -> Result<Option<CorpusKind>> {
    let Some(name) = path.to_str() else {
        return Ok(None);
    };
    if name.ends_with(".parquet") {
        return Ok(Some(CorpusKind::JsonSchemaBench));
    }
    if is_json_lines(name) {
        return Ok(Some(CorpusKind::Custom));
    }
    let value = serde_json::from_str(&read_document(path)?).map_err(|error| {
        Error::usage(format!("{name}: not JSON: {error}")).hint(format!("use {KINDS}"))
    })?;
    Ok(match value {
        Value::Array(groups) => groups
            .first()
            .and_then(|group| group.get("tests"))
            .map(|_| CorpusKind::Jsts),
        Value::Object(members) => (members.contains_key("schema") && members.contains_key("tests"))
            .then_some(CorpusKind::Maskbench),
        _ => None,
    })
}

fn is_json_lines(name: &str) -> bool {
    name.ends_with(".jsonl") || name.ends_with(".ndjson")
}
