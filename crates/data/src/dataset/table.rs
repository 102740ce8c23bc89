//! Tables of rows: which files of a folder or a repository hold a split, and the objects in them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use ::regex::Regex;
use serde_json::{Map, Value};

use super::file::{self, MAX_DATASET_BYTES, read_text};
use super::parquet;
use crate::hub;
use crate::hub::{HubSettings, RepoKind};
use sobench_core::error::{Error, Result};
use sobench_core::input;
use sobench_core::input::json::{self, Repeated};
use sobench_core::input::list;
use sobench_notices::notice::Notice;

/// What rows come in, the preferred first.
const FORMATS: [&str; 3] = ["parquet", "jsonl", "json"];
/// The split that is taken where none is named.
const DEFAULT_SPLIT: &str = "train";

/// Which of the files are wanted.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    /// A configuration; `None` where there is one only.
    pub(super) subset: Option<String>,
    /// `None` is [`DEFAULT_SPLIT`], or the only file that there is.
    pub(super) split: Option<String>,
    /// Whether several configurations may be taken together where none is named.
    pub(super) takes_all: bool,
}

/// Files that hold the rows.
pub(super) struct Found {
    /// Their names within the folder or repository, and where they are.
    pub(super) files: Vec<(String, PathBuf)>,
    /// What results call them.
    pub(super) source: String,
    pub(super) notices: Vec<Notice>,
}

/// Finds the files of a local path, or of a repository on the Hub.
///
/// # Errors
/// There is nothing of this name, or not what is wanted, or a part of it is missing; the Hub does
/// not give it.
pub(super) fn find(name: &str, wanted: &Wanted, hub: &HubSettings) -> Result<Found> {
    let path = Path::new(name);
    let local = |files| {
        Ok(Found {
            files,
            source: name.to_owned(),
            notices: Vec::new(),
        })
    };
    if path.is_dir() {
        let names = list(path)?;
        let files = chosen(&names, wanted);
        check_whole(name, &files, &names, wanted)?;
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
            .hint("give --dataset-path a .parquet, .jsonl or .json file, a folder with one, or owner/name on the Hub"));
    }
    let asked = wanted.clone();
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let told = std::sync::Arc::clone(&seen);
    let snapshot = hub::fetch(hub, RepoKind::Dataset, name, move |names| {
        if let Ok(mut told) = told.lock() {
            *told = names.to_vec();
        }
        let files = chosen(names, &asked);
        // What is refused below need not be fetched.
        if subsets(&files).len() > 1 && !asked.takes_all {
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
    let listed = seen.lock().map(|names| names.clone()).unwrap_or_default();
    check_whole(name, &names, &listed, wanted)?;
    let shown = if names.len() > 4 {
        format!("{} files", names.len())
    } else {
        names.join(", ")
    };
    Ok(Found {
        source: format!("{name} at commit {}, {shown}", snapshot.commit),
        files: snapshot.files,
        notices: snapshot.notice.into_iter().collect(),
    })
}

/// Of the first format that has any, the files whose names say the split, sorted; where no split
/// was asked for and none is named so, the only file of the first format that there is.
fn chosen(names: &[String], wanted: &Wanted) -> Vec<String> {
    let of_subset: Vec<&String> = match &wanted.subset {
        Some(subset) => {
            let subset = word(subset);
            names.iter().filter(|name| subset.is_match(name)).collect()
        }
        None => names.iter().collect(),
    };
    let of_format = |format: &str| -> Vec<&String> {
        of_subset
            .iter()
            .copied()
            .filter(|name| format_of(Path::new(name)).as_deref() == Some(format))
            .collect()
    };
    let by_format = FORMATS.map(of_format);
    let split = word(wanted.split.as_deref().unwrap_or(DEFAULT_SPLIT));
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
        Some([only]) if wanted.split.is_none() => vec![(*only).clone()],
        _ => Vec::new(),
    }
}

/// The text as a part of a name, between its ends, dots, slashes, dashes and underscores.
fn word(text: &str) -> Regex {
    let literal = ::regex::escape(text);
    Regex::new(&format!("(^|[/._-]){literal}([/._-]|$)"))
        .expect("an escaped text makes a well-formed expression")
}

/// The folders that the files are in: the configurations, as repositories are laid out.
fn subsets(files: &[String]) -> Vec<String> {
    let mut folders: Vec<String> = files
        .iter()
        .map(|file| subset_of(file).to_owned())
        .collect();
    folders.sort_unstable();
    folders.dedup();
    folders
}

/// The configuration that a file belongs to, as far as its folder says so.
pub(super) fn subset_of(file: &str) -> &str {
    file.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Refuses a folder or repository without the split, with several configurations of which none was
/// named, or with a part of one: files named `...-00000-of-00002.parquet` are parts, and one that
/// is missing would change what is measured.
fn check_whole(name: &str, files: &[String], listed: &[String], wanted: &Wanted) -> Result<()> {
    static PART: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^(.*)-\d{5}-of-(\d{5})\.\w+$")
            .expect("the expression is fixed and well formed")
    });
    let split = wanted.split.as_deref().unwrap_or(DEFAULT_SPLIT);
    let all = chosen(listed, wanted);
    let folders = subsets(if files.is_empty() { &all } else { files });
    if folders.len() > 1 && !wanted.takes_all {
        return Err(Error::usage(format!(
            "several configurations have a split {split}: {}",
            folders.join(", ")
        ))
        .hint("name one with --hf-subset"));
    }
    if files.is_empty() {
        let of = wanted
            .subset
            .as_ref()
            .map(|subset| format!(" of {subset}"))
            .unwrap_or_default();
        let what = format!(
            "no file of the split {split}{of}, and no single .parquet, .jsonl or .json file, in {name}"
        );
        return Err(Error::usage(what).hint(
            "name others with --hf-split and --hf-subset, or give --dataset-path the file itself",
        ));
    }
    let mut parts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for found in files.iter().filter_map(|file| PART.captures(file)) {
        let promised = found[2].parse().unwrap_or(0);
        let (there, most) = parts.entry(found[1].to_owned()).or_default();
        (*there, *most) = (*there + 1, promised.max(*most));
    }
    match parts.values().find(|(there, promised)| there != promised) {
        Some((there, promised)) => Err(Error::usage(format!(
            "of {promised} parts of the split {split}, {there} are there: {name}"
        ))
        .hint("fetch the repository again while online, or give --dataset-path one part itself")),
        None => Ok(()),
    }
}

/// One of [`FORMATS`], by the extension.
fn format_of(path: &Path) -> Option<String> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    FORMATS.contains(&extension.as_str()).then_some(extension)
}

/// A row with the name that errors use.
pub(super) type Named = (String, Map<String, Value>);

/// The columns that a file has: of Parquet by its schema, else by its first row.
///
/// # Errors
/// The file cannot be read.
pub(super) fn columns(path: &Path) -> Result<Vec<String>> {
    let first = match format_of(path).as_deref() {
        Some("parquet") => return parquet::columns(path),
        Some("jsonl") => file::read_lines(path)?
            .next()
            .map(|line| object(path, line?))
            .transpose()?,
        _ => read(path, &[], &mut Repeated::default())?
            .into_iter()
            .next(),
    };
    Ok(first
        .map(|(_, row)| row.keys().cloned().collect())
        .unwrap_or_default())
}

/// The rows of a file. `columns` are those that are taken of Parquet files; `repeated` is told of
/// members that stand twice.
///
/// # Errors
/// The file cannot be read, or is no table of objects.
pub(super) fn read(path: &Path, columns: &[&str], repeated: &mut Repeated) -> Result<Vec<Named>> {
    let shown = path.display();
    let numbered = |rows: Vec<Map<String, Value>>| {
        rows.into_iter()
            .enumerate()
            .map(|(index, row)| (format!("{shown}, row index {index}"), row))
            .collect()
    };
    match format_of(path).as_deref() {
        Some("parquet") => Ok(numbered(parquet::read(path, columns)?)),
        Some("jsonl") => read_lines(path, repeated),
        // Some repositories name files of JSON Lines so.
        Some("json") if input::first_byte(path, MAX_DATASET_BYTES)? != Some(b'[') => {
            read_lines(path, repeated)
        }
        Some("json") => {
            let text = read_text(path)?;
            match serde_json::from_str(&text).map(numbered) {
                Ok(rows) => {
                    repeated.look(&text, |line| format!("{shown}, line {line}"));
                    Ok(rows)
                }
                Err(error) => Err(Error::usage(format!(
                    "{shown}: not a JSON list of objects: {error}"
                ))
                .hint("give a list of rows, each a JSON object, or a file with an object a line")),
            }
        }
        _ => Err(
            Error::usage(format!("neither .parquet, .jsonl nor .json: {shown}"))
                .hint("rename the file to say what it holds, or convert it"),
        ),
    }
}

/// The rows of a file of JSON Lines, whatever its name.
///
/// # Errors
/// A line is no JSON object.
pub(super) fn read_lines(path: &Path, repeated: &mut Repeated) -> Result<Vec<Named>> {
    let row = |line: Result<(usize, String)>| {
        let (number, line) = line?;
        repeated.look(&line, |_| format!("{}, line {number}", path.display()));
        object(path, (number, line))
    };
    file::read_lines(path)?.map(row).collect()
}

fn object(path: &Path, (number, line): (usize, String)) -> Result<Named> {
    let place = format!("{}, line {number}", path.display());
    let members = serde_json::from_str(&line).map_err(|error| {
        Error::usage(format!(
            "{place}: not a JSON object: {}",
            json::in_line(&error)
        ))
        .hint("each line holds one row, which is a JSON object")
    })?;
    Ok((place, members))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[track_caller]
    fn check_choice(wanted: &Wanted, names: &[&str], expected: &[&str]) {
        assert_eq!(chosen(&owned(names), wanted), expected);
    }

    #[test]
    fn the_split_is_found_by_its_name() {
        let train = &Wanted::default();
        check_choice(
            train,
            &["README.md", "data/train-00000-of-00001.parquet"],
            &["data/train-00000-of-00001.parquet"],
        );
        check_choice(
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
        check_choice(
            train,
            &["train/a.jsonl", "training.jsonl", "dataset_infos.json"],
            &["train/a.jsonl"],
        );
        check_choice(
            train,
            &["eval.parquet", "dataset_infos.json"],
            &["eval.parquet"],
        );
        check_choice(train, &["a.parquet", "b.parquet"], &[]);
        check_choice(train, &["a.parquet", "b.parquet", "c.json"], &[]);
        check_choice(train, &["constrain.txt"], &[]);
        let names = [
            "main/train-0.parquet",
            "main/test-0.parquet",
            "other/test-0.parquet",
            "other_test.jsonl",
        ];
        let test = |subset: Option<&str>| Wanted {
            subset: subset.map(str::to_owned),
            split: Some("test".to_owned()),
            ..Wanted::default()
        };
        check_choice(
            &test(None),
            &names,
            &["main/test-0.parquet", "other/test-0.parquet"],
        );
        check_choice(&test(Some("other")), &names, &["other/test-0.parquet"]);
        check_choice(&test(Some("none")), &names, &[]);
        check_choice(&test(None), &["only.parquet"], &[]);
    }

    #[test]
    fn a_split_with_a_part_missing_or_of_several_configurations_is_refused() {
        let parts = |count: usize| -> Vec<String> {
            (0..count)
                .map(|part| format!("data/train-{part:05}-of-00002.parquet"))
                .collect()
        };
        let train = &Wanted::default();
        let check = |files: &[String], wanted: &Wanted| check_whole("a/b", files, files, wanted);
        check(&parts(2), train).unwrap();
        check(&owned(&["train.jsonl"]), train).unwrap();
        assert_eq!(
            check(&parts(1), train).unwrap_err().what,
            "of 2 parts of the split train, 1 are there: a/b"
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
            &Wanted {
                takes_all: true,
                ..Wanted::default()
            },
        )
        .unwrap();
        let other = Wanted {
            subset: Some("c".to_owned()),
            split: Some("test".to_owned()),
            takes_all: false,
        };
        let error = check_whole("a/b", &[], &two, &other).unwrap_err();
        assert!(
            error
                .what
                .starts_with("no file of the split test of c, and no single"),
            "{error}"
        );
    }

    #[test]
    fn lists_and_lines_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.json");
        for (text, rows) in [
            (r#"[{"a": 1}, {"a": 2}]"#, 2),
            ("{\"a\": 1}\n\n{\"a\": 2}\n{\"a\": 3}", 3),
            (r#"{"a": 1}"#, 1),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(
                read(&path, &[], &mut Repeated::default()).unwrap().len(),
                rows,
                "{text}"
            );
        }
        std::fs::write(&path, "{\"a\": 1}\n[]").unwrap();
        assert!(
            read(&path, &[], &mut Repeated::default())
                .unwrap_err()
                .what
                .contains("rows.json, line 2: not a JSON object")
        );
        std::fs::write(&path, "[1]").unwrap();
        assert!(
            read(&path, &[], &mut Repeated::default())
                .unwrap_err()
                .what
                .contains("not a JSON list of objects")
        );
        std::fs::write(&path, r#"[{"b": 1, "a": 2}]"#).unwrap();
        assert_eq!(columns(&path).unwrap(), ["b", "a"]);
    }
}
