//! The dataset `maskbench`: the schemas of MaskBench (guidance-ai/jsonschemabench,
//! `maskbench/data`), from its test files.
//!
//! Each file or line is `{"description": text, "meta": {"features": [text]}, "schema": any,
//! "tests": [{"valid": bool, "data": any}]}`. The features and the name become tags, and the first valid
//! document the reference answer. `sobench mask` measures engines on the same files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::custom::NAME_TAG;
use super::file::{check_rows, read_document, read_lines_with, required};
use super::flags::{HubLengthFlags, OrderFlags, PathFlags, ShortfallFlags};
use super::registry::{ConstraintScope, DOCUMENT_OUTPUT_LEN, DatasetKind, Inputs, Spec};
use super::{DatasetArgs, DatasetPlan, Order, Row, Rows, RowsKind, Shortfall, schema_prompt};
use sobench_core::constraint::Constraint;
use sobench_core::error::{Error, Result};
use sobench_core::input::json::{self, DuplicateKeys};
use sobench_core::input::list_files;
use sobench_notices::notice::DatasetNotice;

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

/// The options of `maskbench`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MaskbenchPlan {
    pub dataset_path: Option<String>,
    pub order: Order,
    pub shortfall: Shortfall,
}

impl DatasetKind for MaskbenchPlan {
    const SPEC: Spec = Spec {
        flags: &[
            PathFlags::augment_args,
            OrderFlags::augment_args,
            ShortfallFlags::augment_args,
            HubLengthFlags::augment_args,
        ],
        output_len: DOCUMENT_OUTPUT_LEN,
        own_output_len: |flags| flags.rows.hf.length.output_len(),
        ..Spec::new("maskbench", ConstraintScope::PerRow)
    };

    fn new(flags: &DatasetArgs) -> Result<Self> {
        Ok(Self {
            dataset_path: flags.path.path(),
            order: flags.rows.order.order(),
            shortfall: flags.rows.shortfall.shortfall(),
        })
    }

    /// One row per schema.
    fn rows(&self, plan: &DatasetPlan, inputs: &Inputs<'_>) -> Result<Rows> {
        let hint = "give --dataset-path the folder maskbench/data of guidance-ai/jsonschemabench, a file of it, or a JSONL file";
        let path = required(self.dataset_path.as_deref(), MaskbenchPlan::SPEC.name, hint)?;
        let (mut rows, mut unreadable, mut repeated) =
            (Vec::new(), Vec::new(), DuplicateKeys::default());
        let mut parse = |text: &str, location: String| match json::object_from_text::<Entry>(text) {
            Ok(entry) => {
                repeated.scan(text, |_| location.clone());
                rows.push(row(entry, location));
            }
            Err(error) => unreadable.push(format!("{location}: {error}")),
        };
        for (name, file) in files(path)? {
            if file.extension().is_some_and(|ending| ending == "jsonl") {
                for line in read_lines_with(&file, inputs.progress)? {
                    let (number, line) = line?;
                    parse(&line, format!("{name}, line {number}"));
                }
            } else {
                parse(&read_document(&file)?, name);
            }
        }
        if let (true, Some(first)) = (rows.is_empty(), unreadable.first()) {
            return Err(Error::usage(format!("no file in MaskBench's format; first error: {first}"))
                .hint("give files, or lines of a .jsonl file, that are objects with \"schema\" and \"tests\""));
        }
        check_rows(rows.len(), path)?;
        self.order.apply(plan.seed, &mut rows);
        let notices = schema_prompt::unreadable_notice(&unreadable)
            .into_iter()
            .chain(DatasetNotice::repeated_members(repeated))
            .collect();
        Ok(Rows {
            notices,
            ..Rows::new(rows, RowsKind::Sampled(self.shortfall), path.to_owned())
        })
    }

    fn path(&self) -> Option<&str> {
        self.dataset_path.as_deref()
    }
}

/// The JSON and JSONL files of a folder, by name, or the single file.
fn files(path: &str) -> Result<Vec<(String, PathBuf)>> {
    let folder = Path::new(path);
    if !folder.is_dir() {
        return Ok(vec![(path.to_owned(), folder.to_path_buf())]);
    }
    Ok(list_files(folder)?
        .into_iter()
        .filter(|name: &String| name.ends_with(".json") || name.ends_with(".jsonl"))
        .map(|name| (name.clone(), folder.join(name)))
        .collect())
}

fn row(entry: Entry, name: String) -> Row {
    let completion = entry
        .tests
        .iter()
        .find(|test| test.valid)
        .map(|test| test.data.to_string());
    let mut tags = entry.meta.features.unwrap_or_default();
    tags.push(format!("{NAME_TAG}{}", name.trim_end_matches(".json")));
    let prompt = schema_prompt::prompt(&entry.schema);
    let row = Row::new(&prompt, Constraint::JsonSchema(Arc::new(entry.schema)));
    Row {
        completion,
        tags,
        name,
        ..row
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::tests::{plan, rows};
    use crate::dataset::{DatasetName, Source};
    use crate::tokenizer::Tokenizer;

    const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/datasets");

    fn read_as(options: MaskbenchPlan) -> Result<Rows> {
        rows(
            &DatasetPlan {
                source: Source::Maskbench(options),
                ..plan(DatasetName::Maskbench)
            },
            &Tokenizer::embedded(),
        )
    }

    fn read(path: &str) -> Result<Rows> {
        let options = MaskbenchPlan {
            dataset_path: Some(format!("{FIXTURES}/{path}")),
            order: Order::AsStored,
            ..MaskbenchPlan::default()
        };
        read_as(options)
    }

    #[test]
    fn rows_have_tags_and_a_valid_document() {
        let found = read("maskbench").unwrap();
        let seen: Vec<(&str, Vec<&str>, Option<&str>)> = found
            .rows
            .iter()
            .map(|row| {
                (
                    row.name.as_str(),
                    row.tags.iter().map(String::as_str).collect(),
                    row.completion.as_deref(),
                )
            })
            .collect();
        let expected = [
            (
                "more.jsonl, line 1",
                vec!["enum", "name:more.jsonl, line 1"],
                None,
            ),
            ("more.jsonl, line 2", vec!["name:more.jsonl, line 2"], None),
            (
                "port.json",
                vec!["type", "maximum", "name:port"],
                Some("80"),
            ),
        ];
        assert_eq!(seen, expected);
        assert_eq!(read("maskbench/port.json").unwrap().rows.len(), 1);
    }

    #[test]
    fn files_in_other_formats_are_refused() {
        let mixed = read("bfcl").unwrap_err();
        assert!(
            mixed
                .what
                .starts_with("no file in MaskBench's format; first error: BFCL_v3_parallel.json: "),
            "{mixed}"
        );
        assert!(read("none").unwrap_err().what.starts_with("cannot read"));
        assert!(read_as(MaskbenchPlan::default()).is_err());
    }
}
