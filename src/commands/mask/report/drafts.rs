//! Drafts, draft trees and forced tokens of one engine, summed over rows.

use serde::Serialize;
use serde_json::{Map, Value, json};

use sobench_mask::drafts::{
    DraftCheck, DraftCounts, DraftDifference, DraftRow, DraftTimes, ForcedTokens, RefusedRollbacks,
    TreeCounts,
};
use sobench_mask::record::CorpusRecord;
use sobench_mask::row::{Row, Stage};
use sobench_mask::times::Durations;
use sobench_results::metrics::distribution::Distribution;

/// Maximum listed differences, one per schema; all are counted.
const MAX_DIFFERENCES: usize = 20;

/// The drafts of one engine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DraftSummary {
    /// Schemas with drafts.
    pub schemas: u64,
    /// Schemas whose drafts were stopped early.
    pub stopped: u64,
    /// Sums over all rows, without the durations.
    sum: DraftRow,
    /// Schemas with a difference.
    pub different_schemas: u64,
    pub first_differences: Vec<EntryDifference>,
    pub times: DraftTimesSummary,
    /// In the order of the corpora, for those with drafts.
    pub forced_by_corpus: Vec<CorpusForced>,
}

/// Durations of drafts.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DraftTimesSummary {
    /// The masks of one draft.
    pub masks: Distribution,
    /// The commits of one draft.
    pub commits: Distribution,
    /// The rollback of one draft.
    pub rollback: Distribution,
    /// One fork.
    pub fork: Distribution,
}

/// The first difference of a schema.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EntryDifference {
    pub entry_index: usize,
    pub entry: String,
    #[serde(flatten)]
    pub difference: DraftDifference,
}

/// The forced tokens in one corpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorpusForced {
    /// The corpus as given by the user.
    pub corpus: String,
    pub forced: ForcedTokens,
}

impl DraftSummary {
    /// Adds a row, if it has drafts.
    pub fn add(&mut self, row: &Row, corpora: &[CorpusRecord]) {
        let is_stopped = row
            .stopped
            .as_ref()
            .is_some_and(|stopped| matches!(stopped.stage, Stage::Drafts { .. }));
        self.stopped += u64::from(is_stopped);
        let Some(drafts) = &row.drafts else {
            self.schemas += u64::from(is_stopped);
            return;
        };
        self.schemas += 1;
        self.times.add(&drafts.times);
        // The sum would hold every duration again.
        self.sum.merge(&DraftRow {
            times: DraftTimes::default(),
            ..drafts.clone()
        });
        if let Some(difference) = &drafts.first_difference {
            self.different_schemas += 1;
            if self.first_differences.len() < MAX_DIFFERENCES {
                self.first_differences.push(EntryDifference {
                    entry_index: row.index,
                    entry: row.entry.clone(),
                    difference: difference.clone(),
                });
            }
        }
        let Some(corpus) = corpus_of(row.index, corpora) else {
            return;
        };
        match self
            .forced_by_corpus
            .iter_mut()
            .find(|known| known.corpus == corpus.source)
        {
            Some(known) => known.forced.merge(&drafts.forced),
            None => self.forced_by_corpus.push(CorpusForced {
                corpus: corpus.source.clone(),
                forced: drafts.forced,
            }),
        }
    }

    /// Texts with drafts.
    pub fn texts(&self) -> u64 {
        self.sum.texts
    }

    /// Positions at which a matcher after rollback was compared with one that never drafted.
    pub fn positions(&self) -> u64 {
        self.sum.positions
    }

    /// Drafts along the text.
    pub fn along(&self) -> DraftCounts {
        self.sum.along
    }

    /// Drafts with a refused token at a known place.
    pub fn leaving(&self) -> DraftCounts {
        self.sum.leaving
    }

    /// Rollbacks that the engine refused.
    pub fn refused(&self) -> &RefusedRollbacks {
        &self.sum.refused_rollbacks
    }

    /// Draft trees.
    pub fn trees(&self) -> TreeCounts {
        self.sum.trees
    }

    /// Forced tokens in all corpora.
    pub fn forced(&self) -> &ForcedTokens {
        &self.sum.forced
    }

    /// Number of differences of one kind.
    pub fn differences(&self, check: DraftCheck) -> u64 {
        self.sum.differences.get(&check).copied().unwrap_or(0)
    }
}

impl Serialize for DraftSummary {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let differences: Map<String, Value> = DraftCheck::ALL
            .into_iter()
            .filter_map(|check| {
                let name = json!(check).as_str()?.to_owned();
                Some((name, json!(self.differences(check))))
            })
            .collect();
        let by_corpus: Vec<Value> = self
            .forced_by_corpus
            .iter()
            .map(|corpus| json!({"corpus": corpus.corpus, "forced": forced_json(&corpus.forced)}))
            .collect();
        let refused = self.refused();
        let entry = json!({
            "schemas": self.schemas,
            "stopped": self.stopped,
            "texts": self.sum.texts,
            "positions": self.sum.positions,
            "along": self.along(),
            "leaving": self.leaving(),
            "times": self.times,
            "refused_rollbacks": {
                "rollbacks": refused.rollbacks,
                "limit": refused.limit,
                "words": refused.message,
            },
            "trees": self.trees(),
            "differences": differences,
            "different_schemas": self.different_schemas,
            "first_differences": self.first_differences,
            "forced": forced_json(self.forced()),
            "forced_by_corpus": by_corpus,
        });
        entry.serialize(serializer)
    }
}

impl DraftTimesSummary {
    fn add(&mut self, times: &DraftTimes) {
        let parts: [(&mut Distribution, &Durations); 4] = [
            (&mut self.masks, &times.masks),
            (&mut self.commits, &times.commits),
            (&mut self.rollback, &times.rollback),
            (&mut self.fork, &times.fork),
        ];
        parts
            .into_iter()
            .for_each(|(sum, durations)| sum.merge(durations));
    }
}

/// Share of the positions, 0 to 1; `None` without positions.
pub fn share_of_positions(part: u64, forced: &ForcedTokens) -> Option<f64> {
    (forced.positions > 0).then(|| part as f64 / forced.positions as f64)
}

/// Share of the mask time that forced tokens save, without the time to ask for them: negative if
/// asking takes longer. `None` without masks.
pub fn saved_share(forced: &ForcedTokens) -> Option<f64> {
    let saved = forced.saved_ns as f64 - forced.ask_ns as f64;
    (forced.mask_ns > 0).then(|| saved / forced.mask_ns as f64)
}

fn forced_json(forced: &ForcedTokens) -> Value {
    let mut value = json!(forced);
    value["share_one_allowed"] = json!(share_of_positions(forced.one_allowed, forced));
    value["share_jumped"] = json!(share_of_positions(forced.jumped, forced));
    value["share_saved"] = json!(saved_share(forced));
    value
}

/// The corpus of an entry: entries are numbered through all corpora.
fn corpus_of(index: usize, corpora: &[CorpusRecord]) -> Option<&CorpusRecord> {
    let mut end = 0;
    corpora.iter().find(|corpus| {
        end += corpus.entries;
        index < end
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{drafts, measurement, row};
    use super::*;
    use sobench_engine::EngineName;

    #[test]
    fn forced_tokens_are_summed_by_corpus() {
        let first = measurement(&[EngineName::Guidance]).record.corpora[0].clone();
        let second = CorpusRecord {
            source: "second".into(),
            ..first.clone()
        };
        let corpora = [first, second];
        let mut summary = DraftSummary::default();
        for index in [0, 4, 5, 9] {
            let row = Row {
                drafts: Some(drafts()),
                ..row(index, EngineName::Guidance)
            };
            summary.add(&row, &corpora);
        }
        summary.add(&row(1, EngineName::Guidance), &corpora);
        let one = drafts().forced.positions;
        let by_corpus: Vec<_> = summary
            .forced_by_corpus
            .iter()
            .map(|corpus| (corpus.corpus.as_str(), corpus.forced.positions))
            .collect();
        assert_eq!(by_corpus, [("made-by-hand", 2 * one), ("second", 2 * one)]);
        assert_eq!((summary.schemas, summary.forced().positions), (4, 4 * one));
        assert_eq!(summary.times.masks.n(), 4 * drafts().times.masks.count());
    }

    #[test]
    fn asking_for_forced_tokens_can_cost_more_than_it_saves() {
        let mut forced = ForcedTokens {
            positions: 4,
            jumped: 1,
            mask_ns: 100,
            saved_ns: 25,
            ask_ns: 75,
            ..ForcedTokens::default()
        };
        assert_eq!(saved_share(&forced), Some(-0.5));
        assert_eq!(share_of_positions(forced.jumped, &forced), Some(0.25));
        forced = ForcedTokens::default();
        assert_eq!(saved_share(&forced), None);
        assert_eq!(share_of_positions(0, &forced), None);
    }
}
