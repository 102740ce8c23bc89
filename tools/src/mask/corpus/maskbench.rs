//! MaskBench (guidance-ai/jsonschemabench, `maskbench/data`): a file is a schema with tests.
//!
//! `{"meta": {"features": [text]}, "schema": any, "tests": [{"valid": bool, "data": any}]}`; the
//! features are the tags.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::{Entry, Instance, Sink, Test, files};
use sobench_core::constraint::Constraint;
use sobench_core::error::Result;
use sobench_core::input::json;
use sobench_data::dataset::file::read_document;

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    meta: Meta,
    schema: Value,
    tests: Vec<Test>,
}

#[derive(Default, Deserialize)]
struct Meta {
    features: Option<Vec<String>>,
}

pub(super) fn read(path: &Path, sink: &mut Sink) -> Result<()> {
    for (name, path) in files(path, &[".json"])? {
        let read = read_document(&path)
            .map_err(|error| error.what)
            .and_then(|text| {
                sink.repeated
                    .scan(&text, |line| format!("{name}, line {line}"));
                json::object_from_text::<File>(&text)
                    .map_err(|error| format!("{name}: not a MaskBench file: {error}"))
            });
        sink.add_or_report(read.map(|file| entry(name, file)));
    }
    Ok(())
}

fn entry(name: String, file: File) -> Entry {
    let tags = file
        .meta
        .features
        .unwrap_or_else(|| sobench_reduce::keywords::keywords_in_schema(&file.schema));
    let instances = file.tests.into_iter().map(Instance::from).collect();
    Entry {
        name,
        tags,
        instances,
        constraint: Constraint::JsonSchema(file.schema.into()),
    }
}
