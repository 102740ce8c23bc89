//! The JSON report: the whole summary, with units in key names. Unknown values are `null`; there is
//! no NaN and no infinity. Its JSON Schema is `schemas/contracts/mask.schema.json`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::definitions::{DEFINITIONS, PERCENTILE};
use super::maskbench::DIFFERENCES;
use super::outcome::{Counts, SchemaOutcome};
use super::tags::TagCounts;
use super::witness::Disputes;
use super::{EngineSummary, Summary};
use crate::mask::record::MaskRecord;
use crate::mask::row::Spelling;
use sobench_core::json_struct;
use sobench_engine::EngineName;
use sobench_notices::notice::sentences;

json_struct! {
    /// What several decoding engines did over a corpus of constraints. Durations are in ns, sizes in
    /// bytes, shares from 0 to 1. Unknown values are `null`.
    pub struct MaskFile<'a> = |summary: &'a Summary| [
        let measurement = &summary.measurement;
        let tags = summary.tags.sorted();
        let definitions = DEFINITIONS.into_iter().chain([("percentile", PERCENTILE)]);
        let definitions = definitions.map(|(name, meaning)| (name.to_owned(), json!(meaning)));
    ] {
        #[schemars(extend("const" = "sobench-mask"))]
        format: &'static str = "sobench-mask",
        /// Raised when a key is removed or changes its meaning.
        format_version: u32 = 1,
        sobench_version: &'a str = &measurement.sobench_version,
        /// When it began: `%Y%m%d-%H%M%S`.
        date: Option<&'a str> = measurement.date.as_deref(),
        wall_ns: Option<u64> = measurement.wall_ns,
        /// Whether it was stopped early.
        interrupted: bool = measurement.interrupted,
        notices: Vec<String> = sentences(&measurement.notices),
        record: &'a MaskRecord = &measurement.record,
        /// What the words and figures mean.
        definitions: Map<String, Value> = definitions.chain([("maskbench".to_owned(), json!(DIFFERENCES))]).collect(),
        headline_spelling: Spelling = summary.headline,
        /// Schemas that every engine passes in the headline spelling.
        common_schemas: u64 = summary.common_schemas,
        engines: &'a [EngineSummary] = &summary.engines,
        /// Number of tags that exceed the limit of separate rows.
        tag_rows_left_out: u64 = summary.tags.rows_left_out(),
        /// Most faults first, of all engines together.
        tags: Vec<TagEntry<'a>> = tags.into_iter().map(|tag| TagEntry::new(tag, &summary.engines)).collect(),
        /// Label and evaluator disagree; in no outcome.
        disputed: &'a Disputes = &summary.disputes,
    }
}

json_struct! {
    /// A tag's outcomes by engine; the unit is the schema.
    struct TagEntry<'a> = |tag: TagCounts<'a>, engines: &[EngineSummary]| [
        let names = engines.iter().map(|engine| engine.engine);
    ] {
        tag: &'a str = tag.tag,
        schemas: u64 = tag.schemas(),
        engines: BTreeMap<EngineName, &'a Counts<SchemaOutcome>> = names.zip(tag.engines).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{drafted, eventful};
    use super::*;

    #[test]
    fn drafts_are_in_the_file_if_the_measurement_has_them() {
        let file = json!(MaskFile::new(&eventful()));
        assert!(file["engines"][0].get("drafts").is_none());
        let file = json!(MaskFile::new(&drafted()));
        assert_eq!(file["record"]["drafts"], 4);
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
    }

    #[test]
    fn censored_values_are_null_in_the_file() {
        let file = json!(MaskFile::new(&eventful()));
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
