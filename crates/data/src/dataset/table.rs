//! Tables of rows: selects the files of a split in a folder or repository, and reads their objects.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use ::regex::Regex;
use serde_json::{Map, Value};

use super::file::{self, MAX_DATASET_BYTES, check_rows, read_text};
use super::parquet;
use super::schema_prompt::unreadable_notice;
use super::{Row, Rows, RowsKind};
use crate::hub;
use crate::hub::{HubSettings, RepoKind};
use sobench_core::error::{Error, Result};
use sobench_core::input;
use sobench_core::input::json::{self, DuplicateKeys};
use sobench_core::input::list_files;
use sobench_core::progress::Progress;
use sobench_notices::notice::{DatasetNotice, Notice};

/// File formats of rows, in order of preference.
const FORMATS: [&str; 3] = ["parquet", "jsonl", "json"];
/// The default split.
const DEFAULT_SPLIT: &str = "train";

/// Selects files of a folder or repository.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    /// A configuration. `None` if there is only one.
    pub(super) subset: Option<String>,
    /// `None` means [`DEFAULT_SPLIT`], or the only file.
    pub(super) split: Option<String>,
    /// Whether, without a subset, files of several configurations may be combined.
    pub(super) allows_several_subsets: bool,
}
/// The files that hold the rows.
pub(super) struct TableFiles {
    /// Names within the folder or repository, and local paths.
    pub(super) files: Vec<(String, PathBuf)>,
    /// The name of the source in results.
    pub(super) source: String,
    pub(super) notices: Vec<Notice>,
}

impl TableFiles {
    /// The rows of the files in their final order, with the notices on them.
    ///
    /// # Errors
    /// There are no rows, or too many.
    pub(super) fn into_rows(
        self,
        rows: Vec<Row>,
        kind: RowsKind,
        repeated: DuplicateKeys,
        unreadable: &[String],
    ) -> Result<Rows> {
        check_rows(rows.len(), &self.source)?;
        let notices = self
            .notices
            .into_iter()
            .chain(unreadable_notice(unreadable))
            .chain(DatasetNotice::repeated_members(repeated))
            .collect();
        Ok(Rows {
            notices,
            ..Rows::new(rows, kind, self.source)
        })
    }
}

/// Finds the files of a local path, or of a repository on the Hub.
///
/// # Errors
/// No such path or repository exists, it has no matching file, a part of the split is missing, or
/// the Hub does not provide the files.
pub(super) fn find(name: &str, selection: &Selection, hub: &HubSettings) -> Result<TableFiles> {
    let path = Path::new(name);
    let local = |files| {
        Ok(TableFiles {
            files,
            source: name.to_owned(),
            notices: Vec::new(),
        })
    };
    if path.is_dir() {
        let names = list_files(path)?;
        let files = select_files(&names, selection);
        check_complete(name, &files, &names, selection)?;
        return local(
            files
                .into_iter()
                .map(|file| (file.clone(), path.join(file)))
                .collect(),
        );
    }
    if path.exists() {
        return local(vec![(name.to_owned(), path.to_path_buf())]);
    }
    if !name.contains('/') || !hub::is_repo_id(name) || format_of(path).is_some() {
        return Err(Error::usage(format!("no such dataset file or folder: {name}"))
            .hint("give --dataset-path a .parquet, .jsonl or .json file, a folder with such files, or owner/name on the Hub"));
    }
    let requested = selection.clone();
    let listing = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let listing_to_fill = std::sync::Arc::clone(&listing);
    let snapshot = hub::fetch(hub, RepoKind::Dataset, name, move |names| {
        if let Ok(mut listing) = listing_to_fill.lock() {
            *listing = names.to_vec();
        }
        let files = select_files(names, &requested);
        // An ambiguous selection is refused below, so do not fetch it.
        if subsets(&files).len() > 1 && !requested.allows_several_subsets {
            Vec::new()
        } else {
            files
        }
    })?;
    let names: Vec<String> = snapshot
        .files
        .iter()
        .map(|(name, _)| name.clone())
        .collect();
    let listed = listing
        .lock()
        .map(|names| names.clone())
        .unwrap_or_default();
    check_complete(name, &names, &listed, selection)?;
    let shown = if names.len() > 4 {
        format!("{} files", names.len())
    } else {
        names.join(", ")
    };
    Ok(TableFiles {
        source: format!("{name} at commit {}, {shown}", snapshot.commit),
        files: snapshot.files,
        notices: snapshot.notice.into_iter().collect(),
    })
}

/// The files of the split, by name and sorted, in the first format that has any. Without a
/// requested split and without a match, the only file of the first available format.
fn select_files(names: &[String], selection: &Selection) -> Vec<String> {
    let of_subset: Vec<&String> = match &selection.subset {
        Some(subset) => {
            let subset = name_part(subset);
            names.iter().filter(|name| subset.is_match(name)).collect()
        }
        None => names.iter().collect(),
    };
    let by_format = FORMATS.map(|format: &str| -> Vec<&String> {
        of_subset
            .iter()
            .copied()
            .filter(|name| format_of(Path::new(name)).as_deref() == Some(format))
            .collect()
    });
    let split = name_part(selection.split.as_deref().unwrap_or(DEFAULT_SPLIT));
    for files in &by_format {
        let mut of_split: Vec<String> = files
            .iter()
            .filter(|name| split.is_match(name))
            .map(|name| (*name).clone())
            .collect();
        if !of_split.is_empty() {
            of_split.sort_unstable();
            return of_split;
        }
    }
    match by_format
        .iter()
        .find(|files| !files.is_empty())
        .map(Vec::as_slice)
    {
        Some([only]) if selection.split.is_none() => vec![(*only).clone()],
        _ => Vec::new(),
    }
}

/// Matches the text as a part of a file name, delimited by its ends, dots, slashes, dashes or
/// underscores.
fn name_part(text: &str) -> Regex {
    let literal = ::regex::escape(text);
    Regex::new(&format!("(^|[/._-]){literal}([/._-]|$)"))
        .expect("an escaped text makes a well-formed expression")
}

/// The folders of the files, which are the configurations of a repository.
fn subsets(files: &[String]) -> Vec<String> {
    let mut folders: Vec<String> = files
        .iter()
        .map(|file| subset_of(file).to_owned())
        .collect();
    folders.sort_unstable();
    folders.dedup();
    folders
}

/// The configuration of a file: its folder.
pub(super) fn subset_of(file: &str) -> &str {
    file.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Refuses a selection without files, with several configurations, or with missing parts: files
/// named `...-00000-of-00002.parquet` are parts, and a missing one would change the measurement.
fn check_complete(
    name: &str,
    files: &[String],
    listed: &[String],
    selection: &Selection,
) -> Result<()> {
    static PART: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^(.*)-\d{5}-of-(\d{5})\.\w+$")
            .expect("the expression is fixed and well formed")
    });
    let split = selection.split.as_deref().unwrap_or(DEFAULT_SPLIT);
    let all = select_files(listed, selection);
    let folders = subsets(if files.is_empty() { &all } else { files });
    if folders.len() > 1 && !selection.allows_several_subsets {
        return Err(Error::usage(format!(
            "several configurations have a split {split}: {}",
            folders.join(", ")
        ))
        .hint("select one with --hf-subset"));
    }
    if files.is_empty() {
        let of_subset = selection
            .subset
            .as_ref()
            .map(|subset| format!(" of {subset}"))
            .unwrap_or_default();
        let message = format!(
            "no file of the split {split}{of_subset}, and no single .parquet, .jsonl or .json file, in {name}"
        );
        return Err(Error::usage(message)
            .hint("set --hf-split and --hf-subset, or give --dataset-path a single file"));
    }
    let mut parts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for found in files.iter().filter_map(|file| PART.captures(file)) {
        let expected = found[2].parse().unwrap_or(0);
        let (present, total) = parts.entry(found[1].to_owned()).or_default();
        (*present, *total) = (*present + 1, expected.max(*total));
    }
    match parts.values().find(|(present, total)| present != total) {
        Some((present, total)) => Err(Error::usage(format!(
            "the split {split} has {present} of {total} parts: {name}"
        ))
        .hint("fetch the repository again while online, or give --dataset-path a single part")),
        None => Ok(()),
    }
}

/// One of [`FORMATS`], by the extension.
fn format_of(path: &Path) -> Option<String> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    FORMATS.contains(&extension.as_str()).then_some(extension)
}

/// A row and its name in errors.
pub(super) type NamedRow = (String, Map<String, Value>);

/// The columns of a file: from the schema of a Parquet file, otherwise from the first row.
///
/// # Errors
/// The file cannot be read.
pub(super) fn columns(path: &Path) -> Result<Vec<String>> {
    let first = match format_of(path).as_deref() {
        Some("parquet") => return parquet::columns(path),
        _ => read(path, &[], &mut DuplicateKeys::default(), &())?
            .next()
            .transpose()?,
    };
    Ok(first
        .map(|(_, row)| row.keys().cloned().collect())
        .unwrap_or_default())
}

/// The rows of a file, of which JSON Lines are read one by one. `columns` selects the columns of
/// Parquet files. `repeated` collects repeated members.
///
/// # Errors
/// The file cannot be read, or is not a table of objects.
pub(super) fn read<'a>(
    path: &'a Path,
    columns: &[&str],
    repeated: &'a mut DuplicateKeys,
    progress: &'a dyn Progress,
) -> Result<Box<dyn Iterator<Item = Result<NamedRow>> + 'a>> {
    let shown = path.display();
    let numbered = |rows: Vec<Map<String, Value>>| -> Box<dyn Iterator<Item = Result<NamedRow>>> {
        let path = path.to_path_buf();
        let named = move |(index, row)| Ok((format!("{}, row index {index}", path.display()), row));
        Box::new(rows.into_iter().enumerate().map(named))
    };
    match format_of(path).as_deref() {
        Some("parquet") => Ok(numbered(parquet::read(path, columns)?)),
        Some("jsonl") => Ok(Box::new(read_lines(path, repeated, progress)?)),
        // Some repositories use this extension for JSON Lines.
        Some("json") if input::first_byte(path, MAX_DATASET_BYTES)? != Some(b'[') => {
            Ok(Box::new(read_lines(path, repeated, progress)?))
        }
        Some("json") => {
            let text = read_text(path)?;
            match serde_json::from_str(&text).map(numbered) {
                Ok(rows) => {
                    repeated.scan(&text, |line| format!("{shown}, line {line}"));
                    Ok(rows)
                }
                Err(error) => Err(Error::usage(format!(
                    "{shown}: not a JSON list of objects: {error}"
                ))
                .hint("give a list of JSON objects, or a file with one object per line")),
            }
        }
        _ => Err(
            Error::usage(format!("not a .parquet, .jsonl or .json file: {shown}"))
                .hint("use the extension of the file's format, or convert the file"),
        ),
    }
}

/// The rows of a file of JSON Lines, with any extension.
///
/// # Errors
/// A line is not a JSON object.
pub(super) fn read_lines<'a>(
    path: &'a Path,
    repeated: &'a mut DuplicateKeys,
    progress: &'a dyn Progress,
) -> Result<impl Iterator<Item = Result<NamedRow>> + 'a> {
    let row = move |line: Result<(usize, String)>| {
        let (number, line) = line?;
        repeated.scan(&line, |_| format!("{}, line {number}", path.display()));
        object(path, (number, line))
    };
    Ok(file::read_lines_with(path, progress)?.map(row))
}

fn object(path: &Path, (number, line): (usize, String)) -> Result<NamedRow> {
    let location = format!("{}, line {number}", path.display());
    let members = serde_json::from_str(&line).map_err(|error| {
        Error::usage(format!(
            "{location}: not a JSON object: {}",
            json::message_without_line(&error)
        ))
        .hint("put one row per line, as a JSON object")
    })?;
    Ok((location, members))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[track_caller]
    fn check_selection(selection: &Selection, names: &[&str], expected: &[&str]) {
        assert_eq!(select_files(&owned(names), selection), expected);
    }

    #[test]
    fn selects_the_split_by_name() {
        let train = &Selection::default();
        check_selection(
            train,
            &["README.md", "data/train-00000-of-00001.parquet"],
            &["data/train-00000-of-00001.parquet"],
        );
        check_selection(
            train,
            &[
                "data/train-00001-of-00002.parquet",
                "data/test-00000-of-00001.parquet",
                "data/train-00000-of-00002.parquet",
            ],
            &[
                "data/train-00000-of-00002.parquet",
                "data/train-00001-of-00002.parquet",
            ],
        );
        check_selection(
            train,
            &["train/a.jsonl", "training.jsonl", "dataset_infos.json"],
            &["train/a.jsonl"],
        );
        check_selection(
            train,
            &["eval.parquet", "dataset_infos.json"],
            &["eval.parquet"],
        );
        check_selection(train, &["a.parquet", "b.parquet"], &[]);
        check_selection(train, &["a.parquet", "b.parquet", "c.json"], &[]);
        check_selection(train, &["constrain.txt"], &[]);
        let names = [
            "main/train-0.parquet",
            "main/test-0.parquet",
            "other/test-0.parquet",
            "other_test.jsonl",
        ];
        let test = |subset: Option<&str>| Selection {
            subset: subset.map(str::to_owned),
            split: Some("test".to_owned()),
            ..Selection::default()
        };
        check_selection(
            &test(None),
            &names,
            &["main/test-0.parquet", "other/test-0.parquet"],
        );
        check_selection(&test(Some("other")), &names, &["other/test-0.parquet"]);
        check_selection(&test(Some("none")), &names, &[]);
        check_selection(&test(None), &["only.parquet"], &[]);
    }

    #[test]
    fn missing_parts_and_several_configurations_are_refused() {
        let parts = |count: usize| -> Vec<String> {
            (0..count)
                .map(|part| format!("data/train-{part:05}-of-00002.parquet"))
                .collect()
        };
        let train = &Selection::default();
        let check = |files: &[String], selection: &Selection| {
            check_complete("a/b", files, files, selection)
        };
        check(&parts(2), train).unwrap();
        check(&owned(&["train.jsonl"]), train).unwrap();
        assert_eq!(
            check(&parts(1), train).unwrap_err().what,
            "the split train has 1 of 2 parts: a/b"
        );
        let two = owned(&[
            "a/train-00000-of-00001.parquet",
            "b/train-00000-of-00001.parquet",
        ]);
        assert_eq!(
            check(&two, train).unwrap_err().what,
            "several configurations have a split train: a, b"
        );
        check(
            &two,
            &Selection {
                allows_several_subsets: true,
                ..Selection::default()
            },
        )
        .unwrap();
        let other = Selection {
            subset: Some("c".to_owned()),
            split: Some("test".to_owned()),
            allows_several_subsets: false,
        };
        let error = check_complete("a/b", &[], &two, &other).unwrap_err();
        assert!(
            error
                .what
                .starts_with("no file of the split test of c, and no single"),
            "{error}"
        );
    }

    #[test]
    fn json_lists_and_json_lines_are_detected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.json");
        for (text, rows) in [
            (r#"[{"a": 1}, {"a": 2}]"#, 2),
            ("{\"a\": 1}\n\n{\"a\": 2}\n{\"a\": 3}", 3),
            (r#"{"a": 1}"#, 1),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(
                read(&path, &[], &mut DuplicateKeys::default(), &())
                    .unwrap()
                    .map(Result::unwrap)
                    .count(),
                rows,
                "{text}"
            );
        }
        std::fs::write(&path, "{\"a\": 1}\n[]").unwrap();
        assert!(
            read(&path, &[], &mut DuplicateKeys::default(), &())
                .and_then(|rows| rows.collect::<Result<Vec<_>>>())
                .unwrap_err()
                .what
                .contains("rows.json, line 2: not a JSON object")
        );
        std::fs::write(&path, "[1]").unwrap();
        assert!(
            read(&path, &[], &mut DuplicateKeys::default(), &())
                .and_then(|rows| rows.collect::<Result<Vec<_>>>())
                .unwrap_err()
                .what
                .contains("not a JSON list of objects")
        );
        std::fs::write(&path, r#"[{"b": 1, "a": 2}]"#).unwrap();
        assert_eq!(columns(&path).unwrap(), ["b", "a"]);
    }
}
