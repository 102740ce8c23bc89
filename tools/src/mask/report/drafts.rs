//! Drafts, draft trees and forced tokens of one engine, summed over rows.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::mask::drafts::{
    DraftCheck, DraftCounts, DraftDifference, DraftTimes, ForcedTokens, RefusedRollbacks,
    TreeCounts,
};
use crate::mask::record::CorpusRecord;
use crate::mask::row::{Row, Stage};
use crate::mask::times::Durations;
use sobench_results::metrics::distribution::Distribution;

/// Maximum listed differences, one per schema; all are counted.
const MAX_DIFFERENCES: usize = 20;

/// The drafts of one engine.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct DraftSummary {
    /// Schemas with drafts.
    pub schemas: u64,
    /// Schemas whose drafts were stopped early.
    pub stopped: u64,
    /// Texts with drafts.
    pub texts: u64,
    /// Positions at which a matcher after rollback was compared with one that never drafted.
    pub positions: u64,
    /// Drafts along the text.
    pub along: DraftCounts,
    /// Drafts with a refused token at a known place.
    pub leaving: DraftCounts,
    pub times: DraftTimesSummary,
    pub refused_rollbacks: RefusedRollbacks,
    pub trees: TreeCounts,
    /// Number of differences of each kind.
    pub differences: BTreeMap<DraftCheck, u64>,
    /// Schemas with a difference.
    pub different_schemas: u64,
    pub first_differences: Vec<EntryDifference>,
    /// Forced tokens in all corpora.
    pub forced: ForcedSummary,
    /// In the order of the corpora, for those with drafts.
    pub forced_by_corpus: Vec<CorpusForced>,
}

/// Durations of drafts.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct EntryDifference {
    pub entry_index: usize,
    pub entry: String,
    #[serde(flatten)]
    pub difference: DraftDifference,
}

/// Forced tokens with their shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct ForcedSummary {
    #[serde(flatten)]
    pub tokens: ForcedTokens,
    /// Share of the positions at which the mask allows one token, 0 to 1.
    pub share_one_allowed: Option<f64>,
    /// Share of the positions of tokens that the engine named in advance, 0 to 1.
    pub share_jumped: Option<f64>,
    /// Share of the mask time that forced tokens save, without the time to ask for them: negative
    /// if asking takes longer.
    pub share_saved: Option<f64>,
}

/// The forced tokens in one corpus.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct CorpusForced {
    /// The corpus as given by the user.
    pub corpus: String,
    pub forced: ForcedSummary,
}

impl DraftSummary {
    /// A summary without rows.
    pub fn new() -> Self {
        Self {
            differences: DraftCheck::ALL.map(|check| (check, 0)).into(),
            ..Self::default()
        }
    }

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
        self.texts += drafts.texts;
        self.positions += drafts.positions;
        self.along.merge(drafts.along);
        self.leaving.merge(drafts.leaving);
        self.times.add(&drafts.times);
        self.refused_rollbacks.merge(&drafts.refused_rollbacks);
        self.trees.merge(drafts.trees);
        for (check, count) in &drafts.differences {
            *self.differences.entry(*check).or_default() += count;
        }
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
        self.forced.merge(&drafts.forced);
        let Some(corpus) = corpus_of(row.index, corpora) else {
            return;
        };
        let mut known = self.forced_by_corpus.iter_mut();
        if let Some(known) = known.find(|known| known.corpus == corpus.source) {
            known.forced.merge(&drafts.forced);
        } else {
            let mut forced = ForcedSummary::default();
            forced.merge(&drafts.forced);
            let corpus = corpus.source.clone();
            self.forced_by_corpus.push(CorpusForced { corpus, forced });
        }
    }
}

impl ForcedSummary {
    fn merge(&mut self, other: &ForcedTokens) {
        self.tokens.merge(other);
        let forced = &self.tokens;
        let share =
            |part: u64| (forced.positions > 0).then(|| part as f64 / forced.positions as f64);
        self.share_one_allowed = share(forced.one_allowed);
        self.share_jumped = share(forced.jumped);
        let saved = forced.saved_ns as f64 - forced.ask_ns as f64;
        self.share_saved = (forced.mask_ns > 0).then(|| saved / forced.mask_ns as f64);
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
            .map(|corpus| (corpus.corpus.as_str(), corpus.forced.tokens.positions))
            .collect();
        assert_eq!(by_corpus, [("made-by-hand", 2 * one), ("second", 2 * one)]);
        assert_eq!(
            (summary.schemas, summary.forced.tokens.positions),
            (4, 4 * one)
        );
        assert_eq!(summary.times.masks.n(), 4 * drafts().times.masks.count());
    }

    #[test]
    fn asking_for_forced_tokens_can_cost_more_than_it_saves() {
        let mut forced = ForcedSummary::default();
        forced.merge(&ForcedTokens {
            positions: 4,
            jumped: 1,
            mask_ns: 100,
            saved_ns: 25,
            ask_ns: 75,
            ..ForcedTokens::default()
        });
        let shares = (
            forced.share_saved,
            forced.share_jumped,
            forced.share_one_allowed,
        );
        assert_eq!(shares, (Some(-0.5), Some(0.25), Some(0.0)));
        forced = ForcedSummary::default();
        forced.merge(&ForcedTokens::default());
        assert_eq!(forced, ForcedSummary::default());
    }
}
