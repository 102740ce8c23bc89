//! The JSON report: the whole summary, with units in key names. Unknown values are `null`; there is
//! no NaN and no infinity. Its JSON Schema is `schemas/contracts/mask.schema.json`.

use serde_json::{Map, Value, json};

use super::definitions::{DEFINITIONS, PERCENTILE};
use super::maskbench::DIFFERENCES;
use super::tags::TagCounts;
use super::{EngineSummary, Summary};
use sobench_notices::notice::sentences;

/// Version of the file format, raised when a key is removed or changes its meaning.
pub const FORMAT_VERSION: u32 = 1;

/// The whole report.
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
        "about": measurement.record,
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
    let message = DEFINITIONS.into_iter().chain([("percentile", PERCENTILE)]);
    let message = message.map(|(name, meaning)| (name.to_owned(), json!(meaning)));
    message
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
    use super::super::testing::{drafted, drafted_rows, eventful, eventful_rows, measurement, row};
    use super::*;
    use sobench_core::error::Result;
    use sobench_engine::EngineName;
    use sobench_mask::row::{Declined, RouteRow, Row};
    use sobench_testkit::contract::{check, with_member};

    const SUMMARY: &str = include_str!("../../../../schemas/contracts/mask.schema.json");
    const ROW: &str = include_str!("../../../../schemas/contracts/mask-row.schema.json");

    /// Round trip through text.
    fn read(value: &Value) -> Value {
        serde_json::from_str(&value.to_string()).expect("the output is JSON")
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
        let declined = rows[1].declined.clone().map(|declined| Declined {
            feature: Some("if".into()),
            ..declined
        });
        rows[1].declined = declined;
        rows
    }

    #[test]
    fn every_file_matches_its_json_schema() {
        let nothing = Summary::build(measurement(&EngineName::ALL), || {
            Ok(Vec::<Result<Row>>::new())
        })
        .unwrap();
        for summary in [eventful(), drafted(), nothing] {
            assert_eq!(check(SUMMARY, &read(&render(&summary))), Ok(()));
        }
        for row in rows().into_iter().chain(drafted_rows()) {
            assert_eq!(check(ROW, &read(&json!(row))), Ok(()), "{row:?}");
        }
    }

    #[test]
    fn contracts_reject_invalid_files() {
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
            (SUMMARY, &summary, "/tags/0/engines/other", json!({})),
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
            let broken = with_member(file, pointer, value);
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
    fn drafts_are_in_the_file_if_the_measurement_has_them() {
        let file = read(&render(&eventful()));
        assert!(file["engines"][0].get("drafts").is_none());
        let file = read(&render(&drafted()));
        assert_eq!(file["about"]["drafts"], 4);
        let drafts = |place: usize| &file["engines"][place]["drafts"];
        assert_eq!(drafts(0)["along"]["accepted"], 36);
        assert_eq!(
            drafts(0)["forced_by_corpus"][1]["corpus"],
            "also-made-by-hand"
        );
        assert!(drafts(0)["refused_rollbacks"]["limit"].is_null());
        assert_eq!(drafts(1)["refused_rollbacks"]["limit"], 2);
        assert_eq!(
            (&drafts(1)["schemas"], &drafts(1)["stopped"]),
            (&2.into(), &1.into())
        );
        assert_eq!(drafts(2)["differences"]["mask"], 2);
        assert_eq!(drafts(2)["first_differences"][0]["entry"], "entry-0.json");
        let mut broken = file.clone();
        broken["engines"][0]["drafts"]["along"]["refused"] = 1.into();
        assert!(check(SUMMARY, &broken).is_err());
    }

    #[test]
    fn censored_values_are_null_in_the_file() {
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
