//! JSONSchemaBench (epfl-dlab/JSONSchemaBench on the Hub): Parquet files of schemas without
//! instances.
//!
//! Columns: `json_schema` and `unique_id`, both text. The tags are the keywords of the schema.

use std::path::Path;

use serde_json::{Map, Value};

use super::{Entry, Sink, files};
use sobench_core::constraint::Constraint;
use sobench_core::error::Result;
use sobench_data::dataset::parquet;

const COLUMNS: [&str; 2] = ["json_schema", "unique_id"];

pub(super) fn read(path: &Path, sink: &mut Sink) -> Result<()> {
    for (name, path) in files(path, &[".parquet"])? {
        let rows = match parquet::read(&path, &COLUMNS) {
            Ok(rows) => rows,
            Err(error) => {
                sink.report_unreadable(&error.what);
                continue;
            }
        };
        if !rows.is_empty() && rows.iter().all(|row| !row.contains_key(COLUMNS[0])) {
            let there = parquet::columns(&path).unwrap_or_default().join(", ");
            sink.report_unreadable(&format!("{name}: no column {}; it has {there}", COLUMNS[0]));
            continue;
        }
        for (number, row) in rows.into_iter().enumerate() {
            sink.add_or_report(
                entry(&name, number, &row).map_err(|message| format!("{name}#{number}: {message}")),
            );
        }
    }
    Ok(())
}

fn entry(
    file: &str,
    number: usize,
    row: &Map<String, Value>,
) -> std::result::Result<Entry, String> {
    let text = row
        .get("json_schema")
        .and_then(Value::as_str)
        .ok_or("no text in the column json_schema")?;
    let schema: Value =
        serde_json::from_str(text).map_err(|error| format!("json_schema is not JSON: {error}"))?;
    let name = row
        .get("unique_id")
        .and_then(Value::as_str)
        .map_or_else(|| format!("{file}#{number}"), str::to_owned);
    Ok(Entry {
        name,
        tags: sobench_reduce::keywords::keywords_in_schema(&schema),
        constraint: Constraint::JsonSchema(schema.into()),
        instances: Vec::new(),
    })
}
