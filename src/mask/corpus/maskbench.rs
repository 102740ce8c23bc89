//! MaskBench (guidance-ai/jsonschemabench, `maskbench/data`): a file is a schema with tests. Knows no other layout.
//!
//! `{"meta": {"features": [text]}, "schema": any, "tests": [{"valid": bool, "data": any}]}`; the features are the tags.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Content, Entry, Instance, Sink, files, tags};
use crate::constraint::Constraint;
use crate::dataset::file::read_document;
use crate::error::Result;
use crate::input::json;

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

#[derive(Deserialize)]
struct Test {
    valid: bool,
    data: Box<RawValue>,
}

pub(super) fn read(path: &Path, sink: &mut Sink) -> Result<()> {
    for (name, path) in files(path, &[".json"])? {
        let read = read_document(&path).map_err(|error| error.what).and_then(|text| {
            sink.repeated.look(&text, |line| format!("{name}, line {line}"));
            json::object_from_text::<File>(&text).map_err(|error| format!("{name} is no MaskBench file: {error}"))
        });
        match read {
            Ok(file) => sink.entry(entry(name, file)),
            Err(words) => sink.unreadable(&words),
        }
    }
    Ok(())
}

fn entry(name: String, file: File) -> Entry {
    let tags = file.meta.features.unwrap_or_else(|| tags::of_schema(&file.schema));
    let instances = file.tests.into_iter().map(|test| Instance { content: Content::json(&test.data), label: Some(test.valid) });
    Entry { name, tags, instances: instances.collect(), constraint: Constraint::JsonSchema(file.schema.into()) }
}
