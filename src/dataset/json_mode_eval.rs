//! The dataset `xgrammar_bench`: `NousResearch/json-mode-eval`, or rows of its layout. Knows no chat template.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use ::regex::Regex;
use serde_json::{Map, Value};

use super::file::{check_rows, lines, list, read_text};
use super::hub::{self, HubSettings, RepoKind};
use super::json::parse_schema;
use super::message::messages;
use super::{DatasetPlan, Row, Rows, RowsKind, parquet};
use crate::case::Prompt;
use crate::constraint::Constraint;
use crate::error::{Error, Result};

/// The repository that vLLM's script takes.
const REPOSITORY: &str = "NousResearch/json-mode-eval";
const COLUMNS: [&str; 3] = ["prompt", "schema", "completion"];
/// What rows come in, the preferred first.
const FORMATS: [&str; 3] = ["parquet", "jsonl", "json"];

/// All rows of the split `train`. None is left out because an engine cannot compile its schema: what a server refuses is counted.
pub(super) fn rows(plan: &DatasetPlan, hub: &HubSettings) -> Result<Rows> {
    let found = find(plan.dataset_path.as_deref(), hub)?;
    let mut rows = Vec::new();
    for file in &found.files {
        for (place, members) in read(file)? {
            rows.push(row(&members, place)?);
        }
    }
    check_rows(rows.len(), &found.source)?;
    Ok(Rows { rows, kind: RowsKind::Collected, source: found.source, converted_from: None, notices: found.notices })
}

struct Found {
    files: Vec<PathBuf>,
    source: String,
    notices: Vec<String>,
}

fn find(dataset_path: Option<&str>, hub: &HubSettings) -> Result<Found> {
    let name = dataset_path.unwrap_or(REPOSITORY);
    let path = Path::new(name);
    let local = |files| Ok(Found { files, source: name.to_owned(), notices: Vec::new() });
    if dataset_path.is_some() && path.is_dir() {
        let files = of_split_train(&list(path));
        check_whole(name, &files)?;
        return local(files.into_iter().map(|file| path.join(file)).collect());
    }
    if dataset_path.is_some() && path.exists() {
        return local(vec![path.to_path_buf()]);
    }
    if !name.contains('/') || !hub::is_repo_id(name) || format_of(path).is_some() {
        return Err(Error::usage(format!("no such dataset file or folder: {name}"))
            .hint("give --dataset-path a .parquet, .jsonl or .json file, a folder with one, or owner/name on the Hub"));
    }
    let snapshot = hub::fetch(hub, RepoKind::Dataset, name, of_split_train)?;
    let names: Vec<_> = snapshot.files.iter().map(|(name, _)| name.clone()).collect();
    check_whole(name, &names)?;
    Ok(Found {
        source: format!("{name} at commit {}, {}", snapshot.commit, names.join(", ")),
        files: snapshot.files.into_iter().map(|(_, path)| path).collect(),
        notices: snapshot.notice.into_iter().collect(),
    })
}

/// Refuses a folder or repository without the split, or with a part of it: files named `...-00000-of-00002.parquet` are parts, and
/// one that is missing would change what is measured.
fn check_whole(name: &str, files: &[String]) -> Result<()> {
    static PART: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"-\d{5}-of-(\d{5})\.\w+$").expect("the expression is fixed and well formed"));
    if files.is_empty() {
        let what = format!("no file of the split train, and no single .parquet, .jsonl or .json file, in {name}");
        return Err(Error::usage(what).hint("give --dataset-path the file itself"));
    }
    let promised = files.iter().filter_map(|file| PART.captures(file)?[1].parse::<usize>().ok()).max();
    match promised {
        Some(promised) if promised != files.len() => {
            Err(Error::usage(format!("of {promised} parts of the split train, {} are there: {name}", files.len()))
                .hint("fetch the repository again while online, or give --dataset-path one part itself"))
        }
        _ => Ok(()),
    }
}

/// Of the first format that has any, the files whose name says `train`, sorted; else the only file of the first format that there
/// is.
fn of_split_train(names: &[String]) -> Vec<String> {
    static TRAIN: LazyLock<Regex> =
        LazyLock::new(|| Regex::new("(^|[/._-])train([/._-]|$)").expect("the expression is fixed and well formed"));
    let of_format = |format: &str| -> Vec<&String> {
        names.iter().filter(|name| format_of(Path::new(name)).as_deref() == Some(format)).collect()
    };
    let by_format = FORMATS.map(of_format);
    for files in &by_format {
        let mut train: Vec<_> = files.iter().filter(|name| TRAIN.is_match(name)).map(|name| (*name).clone()).collect();
        if !train.is_empty() {
            train.sort_unstable();
            return train;
        }
    }
    match by_format.iter().find(|files| !files.is_empty()).map(Vec::as_slice) {
        Some([only]) => vec![(*only).clone()],
        _ => Vec::new(),
    }
}

/// One of [`FORMATS`], by the extension.
fn format_of(path: &Path) -> Option<String> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    FORMATS.contains(&extension.as_str()).then_some(extension)
}

/// The rows of a file, each with the name that errors use.
fn read(path: &Path) -> Result<Vec<(String, Map<String, Value>)>> {
    let shown = path.display();
    let numbered = |rows: Vec<Map<String, Value>>| {
        rows.into_iter().enumerate().map(|(index, row)| (format!("{shown}, row index {index}"), row)).collect()
    };
    match format_of(path).as_deref() {
        Some("parquet") => Ok(numbered(parquet::read(path, &COLUMNS)?)),
        Some("jsonl") => {
            let text = read_text(path)?;
            let row = |(number, line)| {
                let place = format!("{shown}, line {number}");
                let members =
                    serde_json::from_str(line).map_err(|error| bad_row(&place, &format!("not a JSON object: {error}")))?;
                Ok((place, members))
            };
            lines(&text).map(row).collect()
        }
        Some("json") => {
            let rows = serde_json::from_str(&read_text(path)?);
            rows.map(numbered).map_err(|error| Error::usage(format!("{shown}: not a JSON list of objects: {error}")))
        }
        _ => Err(Error::usage(format!("neither .parquet, .jsonl nor .json: {shown}"))
            .hint("rename the file to say what it holds, or convert it")),
    }
}

/// `prompt` is a chat, `schema` the text of a JSON Schema (or the schema itself), `completion` a reference answer.
fn row(members: &Map<String, Value>, place: String) -> Result<Row> {
    let field = |name: &str| members.get(name).filter(|value| !value.is_null());
    let missing = |name: &str| bad_row(&place, &format!("no field {name}"));
    let chat = field("prompt").ok_or_else(|| missing("prompt"))?;
    let chat = messages("prompt", chat).map_err(|words| bad_row(&place, &words))?;
    let schema = match field("schema").ok_or_else(|| missing("schema"))? {
        Value::String(text) => parse_schema(text),
        value => parse_schema(&value.to_string()),
    };
    let schema = schema.map_err(|words| bad_row(&place, &format!("schema: {words}")))?;
    let completion = match field("completion") {
        None => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(_) => return Err(bad_row(&place, "completion has to be a text")),
    };
    Ok(Row {
        prompt: Prompt::Messages(chat.into()),
        constraint: Some(Arc::new(Constraint::JsonSchema(Arc::new(schema)))),
        output_len: None,
        completion,
        tags: Vec::new(),
        grammar_oracle: None,
        name: place,
    })
}

fn bad_row(place: &str, words: &str) -> Error {
    Error::usage(format!("{place}: {words}"))
        .hint("a row has prompt (messages), schema (the text of a JSON Schema) and completion")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_choice(names: &[&str], expected: &[&str]) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(of_split_train(&names), expected);
    }

    #[test]
    fn the_split_is_found_by_its_name() {
        check_choice(&["README.md", "data/train-00000-of-00001.parquet"], &["data/train-00000-of-00001.parquet"]);
        check_choice(
            &["data/train-00001-of-00002.parquet", "data/test-00000-of-00001.parquet", "data/train-00000-of-00002.parquet"],
            &["data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"],
        );
        check_choice(&["train/a.jsonl", "training.jsonl", "dataset_infos.json"], &["train/a.jsonl"]);
        check_choice(&["eval.parquet", "dataset_infos.json"], &["eval.parquet"]);
        check_choice(&["a.parquet", "b.parquet"], &[]);
        check_choice(&["a.parquet", "b.parquet", "c.json"], &[]);
        check_choice(&["constrain.txt"], &[]);
    }

    #[test]
    fn a_split_with_a_part_missing_is_refused() {
        let parts =
            |count: usize| -> Vec<String> { (0..count).map(|part| format!("data/train-{part:05}-of-00002.parquet")).collect() };
        check_whole("a/b", &parts(2)).unwrap();
        check_whole("a/b", &["train.jsonl".to_owned()]).unwrap();
        let error = check_whole("a/b", &parts(1)).unwrap_err();
        assert_eq!(error.what, "of 2 parts of the split train, 1 are there: a/b");
    }

    #[track_caller]
    fn check_row(json: &str, expected: &str) {
        let error = row(&serde_json::from_str(json).unwrap(), "f.json, row index 3".to_owned()).unwrap_err();
        assert!(error.what.starts_with("f.json, row index 3: ") && error.what.contains(expected), "{error}");
    }

    #[test]
    fn bad_rows_are_named_with_their_field() {
        let chat = r#""prompt":[{"role":"user","content":"Hi"}]"#;
        check_row("{}", "no field prompt");
        check_row(&format!("{{{chat},\"schema\":null}}"), "no field schema");
        check_row(r#"{"prompt":"Hi","schema":"{}"}"#, "prompt has to be a list");
        check_row(r#"{"prompt":[{"role":"user"}],"schema":"{}"}"#, "prompt[0]: content");
        check_row(&format!("{{{chat},\"schema\":\"{{\"}}"), "schema: EOF while parsing an object at line 1");
        check_row(&format!("{{{chat},\"schema\":\"[]\"}}"), "schema: a JSON Schema is an object or a boolean");
        check_row(&format!("{{{chat},\"schema\":{{}},\"completion\":1}}"), "completion has to be a text");
    }
}
