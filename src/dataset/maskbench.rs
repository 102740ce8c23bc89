//! The dataset `maskbench`: the schemas of MaskBench (guidance-ai/jsonschemabench, `maskbench/data`), from its test files. Knows no
//! other layout.
//!
//! `{"description": text, "meta": {"features": [text]}, "schema": any, "tests": [{"valid": bool, "data": any}]}`, a file each or a line
//! each. Features are the tags; the first valid document is the reference answer. `sobench mask` measures engines on the same files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::file::{check_rows, read_document, read_lines};
use super::{DatasetPlan, Row, Rows, RowsKind, document};
use crate::constraint::Constraint;
use crate::error::{Error, Result};
use crate::input::json::{self, Repeated};
use crate::input::list;

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    meta: Meta,
    schema: Value,
    #[serde(default)]
    tests: Vec<Test>,
}

#[derive(Default, Deserialize)]
struct Meta {
    #[serde(default)]
    features: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Test {
    valid: bool,
    data: Value,
}

/// A row a schema.
///
/// # Errors
/// There is no such file or folder, or nothing in it is one of MaskBench's.
pub(super) fn rows(plan: &DatasetPlan) -> Result<Rows> {
    let path = plan.file(
        "give --dataset-path the folder maskbench/data of guidance-ai/jsonschemabench, one of its files, or a JSONL file",
    )?;
    let (mut rows, mut unreadable, mut repeated) = (Vec::new(), Vec::new(), Repeated::default());
    let mut take = |text: &str, place: String| match json::object_from_text::<Entry>(text) {
        Ok(entry) => {
            repeated.look(text, |_| place.clone());
            rows.push(row(entry, place));
        }
        Err(error) => unreadable.push(format!("{place}: {error}")),
    };
    for (name, file) in files(path)? {
        if file.extension().is_some_and(|ending| ending == "jsonl") {
            for line in read_lines(&file)? {
                let (number, line) = line?;
                take(&line, format!("{name}, line {number}"));
            }
        } else {
            take(&read_document(&file)?, name);
        }
    }
    if let (true, Some(first)) = (rows.is_empty(), unreadable.first()) {
        return Err(Error::usage(format!("no file of MaskBench's layout; the first, {first}"))
            .hint("a file, or a line of a .jsonl file, is an object with \"schema\" and \"tests\""));
    }
    check_rows(rows.len(), path)?;
    plan.put_in_order(&mut rows);
    let notices = document::unreadable(&unreadable).into_iter().chain(repeated.notice()).collect();
    Ok(Rows { rows, kind: RowsKind::Sampled, source: path.clone(), converted_from: None, notices })
}

/// The files below a folder, by name, or the one that is named.
fn files(path: &str) -> Result<Vec<(String, PathBuf)>> {
    let folder = Path::new(path);
    if !folder.is_dir() {
        return Ok(vec![(path.to_owned(), folder.to_path_buf())]);
    }
    let is_one = |name: &String| name.ends_with(".json") || name.ends_with(".jsonl");
    Ok(list(folder)?.into_iter().filter(is_one).map(|name| (name.clone(), folder.join(name))).collect())
}

fn row(entry: Entry, name: String) -> Row {
    let completion = entry.tests.iter().find(|test| test.valid).map(|test| test.data.to_string());
    let prompt = document::prompt(&entry.schema);
    let row = Row::new(&prompt, Constraint::JsonSchema(Arc::new(entry.schema)));
    Row { completion, tags: entry.meta.features.unwrap_or_default(), name, ..row }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::tests::plan;
    use crate::dataset::{DatasetName, Drawing, Order};

    const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/datasets");

    fn of(path: &str) -> DatasetPlan {
        let drawing = Drawing { order: Order::AsStored, ..Drawing::default() };
        DatasetPlan { drawing, dataset_path: Some(format!("{FIXTURES}/{path}")), ..plan(DatasetName::Maskbench) }
    }

    #[test]
    fn files_and_lines_are_schemas_with_tags_and_a_valid_document() {
        let read = rows(&of("maskbench")).unwrap();
        let seen: Vec<(&str, Vec<&str>, Option<&str>)> = read
            .rows
            .iter()
            .map(|row| (row.name.as_str(), row.tags.iter().map(String::as_str).collect(), row.completion.as_deref()))
            .collect();
        let expected = [
            ("more.jsonl, line 1", vec!["enum"], None),
            ("more.jsonl, line 2", vec![], None),
            ("port.json", vec!["type", "maximum"], Some("80")),
        ];
        assert_eq!(seen, expected);
        assert_eq!(rows(&of("maskbench/port.json")).unwrap().rows.len(), 1);
    }

    #[test]
    fn other_files_are_told() {
        let mixed = rows(&of("bfcl")).unwrap_err();
        assert!(mixed.what.starts_with("no file of MaskBench's layout; the first, BFCL_v3_parallel.json: "), "{mixed}");
        assert!(rows(&of("none")).unwrap_err().what.starts_with("cannot read"));
        assert!(rows(&DatasetPlan { dataset_path: None, ..of("maskbench") }).is_err());
    }
}
