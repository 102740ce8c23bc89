//! The saved file: everything the summary holds, with units in names. Knows no console. Its
//! contract is `schemas/contracts/mask.schema.json`. What is not known is `null`; no NaN, no
//! infinity.

use serde_json::{Map, Value, json};

use super::definitions::{DEFINITIONS, PERCENTILE};
use super::maskbench::DIFFERENCES;
use super::tags::TagCounts;
use super::{EngineSummary, Summary};
use sobench_notices::notice::sentences;

/// The version of the file, raised whenever a key changes its meaning or goes away.
pub const FORMAT_VERSION: u32 = 1;

/// The whole file.
pub fn render(summary: &Summary) -> Value {
    let measurement = &summary.measurement;
    json!({
        "format": "sobench-mask",
        "format_version": FORMAT_VERSION,
        "sobench_version": measurement.sobench_version,
        "date": measurement.date,
        "wall_ns": measurement.wall_ns,
        "interrupted": measurement.interrupted,
        "notices": sentences(&measurement.notices),
        "about": measurement.about,
        "definitions": definitions(),
        "headline_spelling": summary.headline,
        "common_schemas": summary.common_schemas,
        "engines": summary.engines,
        "tag_rows_left_out": summary.tags.rows_left_out(),
        "tags": summary.tags.sorted().iter().map(|tag| tag_entry(tag, &summary.engines)).collect::<Vec<_>>(),
        "disputed": summary.disputes,
    })
}

fn definitions() -> Map<String, Value> {
    let words = DEFINITIONS.into_iter().chain([("percentile", PERCENTILE)]);
    let words = words.map(|(name, meaning)| (name.to_owned(), json!(meaning)));
    words
        .chain([("maskbench".to_owned(), json!(DIFFERENCES))])
        .collect()
}

/// A tag's outcomes by engine; the unit is the schema.
fn tag_entry(tag: &TagCounts<'_>, engines: &[EngineSummary]) -> Value {
    let counts = engines
        .iter()
        .zip(tag.engines)
        .map(|(engine, counts)| (engine.engine.name().to_owned(), json!(counts)));
    json!({"tag": tag.tag, "schemas": tag.schemas(), "engines": counts.collect::<Map<_, _>>()})
}

#[cfg(test)]
mod tests {
    use super::super::testing::{eventful, eventful_rows, measurement, row};
    use super::*;
    use sobench_core::error::Result;
    use sobench_engine::EngineName;
    use sobench_mask::row::{Declined, RouteRow, Row};

    const SUMMARY: &str = include_str!("../../../../schemas/contracts/mask.schema.json");
    const ROW: &str = include_str!("../../../../schemas/contracts/mask-row.schema.json");

    fn check(contract: &str, file: &Value) -> std::result::Result<(), String> {
        let schema: Value = serde_json::from_str(contract).expect("the contract is JSON");
        jsonschema::draft202012::meta::validate(&schema)
            .map_err(|error| format!("the contract itself: {error}"))?;
        let validator = jsonschema::draft202012::new(&schema).expect("the contract is a schema");
        let errors: Vec<String> = validator
            .iter_errors(file)
            .map(|it| format!("{}: {it}", it.instance_path()))
            .collect();
        if errors.is_empty() {
            Ok(())
        } else {
            Err(errors.join("\n"))
        }
    }

    /// As a reader would have it: through text.
    fn read(value: &Value) -> Value {
        serde_json::from_str(&value.to_string()).expect("what we write is JSON")
    }

    fn rows() -> Vec<Row> {
        let mut rows = eventful_rows();
        let route = Some(RouteRow {
            engine: EngineName::Outlines,
            why: "a regex".into(),
        });
        rows.push(Row {
            route,
            ..row(9, EngineName::Auto)
        });
        let declined = rows[1].declined.clone().map(|it| Declined {
            feature: Some("if".into()),
            ..it
        });
        rows[1].declined = declined;
        rows
    }

    #[test]
    fn every_file_keeps_its_contract() {
        let nothing = Summary::build(measurement(&EngineName::ALL), || {
            Ok(Vec::<Result<Row>>::new())
        })
        .unwrap();
        for summary in [eventful(), nothing] {
            assert_eq!(check(SUMMARY, &read(&render(&summary))), Ok(()));
        }
        for row in rows() {
            assert_eq!(check(ROW, &read(&json!(row))), Ok(()), "{row:?}");
        }
    }

    #[test]
    fn the_contracts_bite() {
        let summary = read(&render(&eventful()));
        let row = read(&json!(rows()[5]));
        for (contract, file, pointer, value) in [
            (SUMMARY, &summary, "/extra", json!(1)),
            (SUMMARY, &summary, "/format_version", json!(2)),
            (
                SUMMARY,
                &summary,
                "/engines/0/compile/own/cold/mean_ns",
                json!("fast"),
            ),
            (
                SUMMARY,
                &summary,
                "/engines/0/compile/own/cold/mean",
                json!(1),
            ),
            (
                SUMMARY,
                &summary,
                "/engines/0/spellings/0/schemas/exploded",
                json!(1),
            ),
            (
                SUMMARY,
                &summary,
                "/engines/0/spellings/0/masks/own/warm/mask/share_over_1_ms",
                json!(2),
            ),
            (SUMMARY, &summary, "/tags/0/engines/nobody", json!({})),
            (SUMMARY, &summary, "/about/corpora/0/kind", json!("other")),
            (ROW, &row, "/extra", json!(1)),
            (ROW, &row, "/engine", json!("other")),
            (
                ROW,
                &row,
                "/instances/0/outcome",
                json!({"is": "pass", "byte": 1}),
            ),
            (ROW, &row, "/times/0/warm/mask/counts", json!([[1]])),
        ] {
            let mut broken = file.clone();
            let (parent, member) = pointer.rsplit_once('/').unwrap();
            broken
                .pointer_mut(parent)
                .unwrap()
                .as_object_mut()
                .unwrap()
                .insert(member.to_owned(), value);
            assert!(check(contract, &broken).is_err(), "{pointer} passed");
        }
        for (contract, file, member) in [
            (SUMMARY, &summary, "common_schemas"),
            (ROW, &row, "instances"),
        ] {
            let mut broken = file.clone();
            broken.as_object_mut().unwrap().remove(member);
            assert!(
                check(contract, &broken).is_err(),
                "without {member} it passed"
            );
        }
    }

    #[test]
    fn what_is_cut_off_is_no_value_in_the_file() {
        let file = read(&render(&eventful()));
        let cold = &file["engines"][1]["compile"]["own"]["cold"];
        assert_eq!(
            (cold["n"].as_u64(), cold["censored"].as_u64()),
            (Some(5), Some(1))
        );
        assert!(cold["mean_ns"].is_null() && cold["max_ns"].is_null());
        assert_eq!(cold["max_above_ns"].as_u64(), Some(60_000_000_000));
        assert_eq!(file["disputed"]["instances"].as_u64(), Some(1));
        assert_eq!(
            file["tags"][0]["engines"]["xgrammar"]["timeout"].as_u64(),
            Some(1)
        );
    }
}
