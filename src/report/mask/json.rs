//! The saved file: everything the summary holds, with units in names. Knows no console. Its contract is
//! `schemas/contracts/mask.schema.json`. What is not known is `null`; no NaN, no infinity.

use serde::Serialize;
use serde_json::{Map, Value};

use super::definitions::{DEFINITIONS, PERCENTILE};
use super::maskbench::DIFFERENCES;
use super::tags::TagCounts;
use super::{EngineSummary, Summary};

/// The version of the file, raised whenever a key changes its meaning or goes away.
pub const FORMAT_VERSION: u32 = 1;

/// The whole file.
pub fn render(summary: &Summary) -> Value {
    let measurement = &summary.measurement;
    let mut file = Map::new();
    put(&mut file, "format", "sobench-mask");
    put(&mut file, "format_version", FORMAT_VERSION);
    put(&mut file, "sobench_version", &measurement.sobench_version);
    put(&mut file, "date", &measurement.date);
    put(&mut file, "wall_ns", measurement.wall_ns);
    put(&mut file, "interrupted", measurement.interrupted);
    put(&mut file, "notices", &measurement.notices);
    put(&mut file, "about", &measurement.about);
    file.insert("definitions".to_owned(), definitions());
    put(&mut file, "headline_spelling", summary.headline);
    put(&mut file, "common_schemas", summary.common_schemas);
    put(&mut file, "engines", &summary.engines);
    put(&mut file, "tag_rows_left_out", summary.tags.rows_left_out());
    let tags = summary.tags.sorted();
    file.insert("tags".to_owned(), tags.iter().map(|tag| tag_entry(tag, &summary.engines)).collect());
    put(&mut file, "disputed", &summary.disputes);
    Value::Object(file)
}

fn definitions() -> Value {
    let mut words: Map<String, Value> =
        DEFINITIONS.iter().map(|(name, meaning)| ((*name).to_owned(), (*meaning).into())).collect();
    put(&mut words, "percentile", PERCENTILE);
    put(&mut words, "maskbench", DIFFERENCES);
    Value::Object(words)
}

/// A tag's outcomes by engine; the unit is the schema.
fn tag_entry(tag: &TagCounts<'_>, engines: &[EngineSummary]) -> Value {
    let counts = engines.iter().zip(tag.engines).map(|(engine, counts)| (engine.engine.name().to_owned(), to_value(counts)));
    let mut entry = Map::new();
    put(&mut entry, "tag", tag.tag);
    put(&mut entry, "schemas", tag.schemas());
    entry.insert("engines".to_owned(), Value::Object(counts.collect()));
    Value::Object(entry)
}

fn put(map: &mut Map<String, Value>, key: &str, value: impl Serialize) {
    map.insert(key.to_owned(), to_value(value));
}

/// A value of ours as JSON. A number that JSON does not have becomes `null`.
fn to_value(value: impl Serialize) -> Value {
    serde_json::to_value(value).expect("summaries hold only strings, numbers and structs of them, with string keys")
}
