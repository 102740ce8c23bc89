//! Results of drafts, draft trees and forced tokens along the instances of an entry
//! (`sobench-tools mask --drafts K`).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::times::Durations;

/// Maximum tokens of a draft. Servers draft 1 to 16 tokens.
pub const MAX_DRAFT_TOKENS: usize = 64;

/// Results of one or more texts. All counts and durations can be added.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct DraftRow {
    /// Texts that were walked.
    pub texts: u64,
    /// Positions at which a matcher after rollback was compared with one that never drafted.
    pub positions: u64,
    /// Drafts of the next tokens of the text, and of its end.
    pub along: DraftCounts,
    /// Drafts with a refused token at a known place.
    pub leaving: DraftCounts,
    /// Durations of drafts along the text with K accepted tokens.
    pub times: DraftTimes,
    pub refused_rollbacks: RefusedRollbacks,
    pub trees: TreeCounts,
    pub forced: ForcedTokens,
    /// Number of differences by check; absent if there is none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub differences: BTreeMap<DraftCheck, u64>,
    /// The first difference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_difference: Option<DraftDifference>,
}

/// Drafts and their tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct DraftCounts {
    pub drafts: u64,
    /// Drafted tokens.
    pub tokens: u64,
    /// Tokens accepted before the first refused one.
    pub accepted: u64,
}

/// Durations of drafts. The unit of the first three is the draft.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct DraftTimes {
    /// K masks, one before each token of the draft.
    pub masks: Durations,
    /// K commits.
    pub commits: Durations,
    /// Rollback of K tokens.
    pub rollback: Durations,
    /// One fork.
    pub fork: Durations,
}

/// Rollbacks that the engine refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct RefusedRollbacks {
    pub rollbacks: u64,
    /// Maximum number of tokens that the engine rolled back where it refused more, the smallest if
    /// it differs by position; `None` if nothing was refused.
    pub limit: Option<usize>,
    /// The library's message of the first refusal.
    #[serde(rename = "words")]
    pub message: Option<String>,
}

/// Draft trees with two branches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct TreeCounts {
    pub trees: u64,
    /// Branches that were compared with a matcher that committed their tokens directly: two of a
    /// tree by fork, and two by rollback.
    pub branches: u64,
}

/// Forced tokens along the texts. The unit of the first group is the position, of the second the
/// token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ForcedTokens {
    /// Positions with a mask.
    pub positions: u64,
    /// Positions at which the mask allows exactly one token, which is not the end.
    pub one_allowed: u64,
    /// Positions at which the engine named the next tokens, so that no mask was computed.
    pub jumped: u64,
    /// Runs of jumped positions.
    pub jumps: u64,
    /// Forced tokens that the tokenizer writes for the same text, by mask or by the engine.
    pub canonical: u64,
    /// Forced tokens for which the tokenizer writes other tokens.
    pub not_canonical: u64,
    /// Forced tokens that cannot be compared: the text continues differently, or its own tokens are
    /// not canonical.
    pub uncompared: u64,
    /// Masks at all positions.
    pub mask_ns: u64,
    /// Masks at jumped positions, measured by a matcher that does not jump.
    pub saved_ns: u64,
    /// Calls that ask the engine for forced tokens.
    pub ask_ns: u64,
}

/// What is compared with a matcher that never drafted.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum DraftCheck {
    /// The mask after rollback.
    Mask,
    /// Whether the text may end, after rollback.
    End,
    /// Whether the next token of the text is accepted, after rollback.
    NextToken,
    /// A mask along the draft.
    DraftMask,
    /// The number of accepted tokens of a draft.
    Acceptance,
    /// The mask or the end of a branch by fork, or of the matcher that was forked.
    Fork,
    /// The mask or the end of a branch after the rollback of another one.
    Branch,
    /// The mask after forced tokens.
    Jump,
    /// The engine failed in a draft, and did not without one.
    Failed,
}

impl DraftCheck {
    /// Every check, in the order of reports.
    pub const ALL: [Self; 9] = [
        Self::Mask,
        Self::End,
        Self::NextToken,
        Self::DraftMask,
        Self::Acceptance,
        Self::Fork,
        Self::Branch,
        Self::Jump,
        Self::Failed,
    ];

    /// The title in reports.
    pub fn title(self) -> &'static str {
        match self {
            Self::Mask => "mask after rollback",
            Self::End => "end after rollback",
            Self::NextToken => "next token after rollback",
            Self::DraftMask => "mask along the draft",
            Self::Acceptance => "accepted tokens of a draft",
            Self::Fork => "branch by fork",
            Self::Branch => "branch by rollback",
            Self::Jump => "mask after forced tokens",
            Self::Failed => "failed in a draft",
        }
    }
}

/// A difference between a matcher that drafted and one that never did.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct DraftDifference {
    pub check: DraftCheck,
    /// Index of the instance in its entry, from 0.
    pub instance: usize,
    /// Tokens of the text before the draft.
    pub position: usize,
    /// Bytes of the text before the draft.
    pub byte: usize,
    /// Tokens that were drafted and accepted.
    pub drafted: usize,
    /// The end of the text before the draft.
    pub before: String,
    /// The library's message, if it failed.
    #[serde(default, rename = "words", skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl DraftRow {
    /// Adds the results of other texts.
    pub fn merge(&mut self, other: &Self) {
        self.texts += other.texts;
        self.positions += other.positions;
        self.along.merge(other.along);
        self.leaving.merge(other.leaving);
        self.times.merge(&other.times);
        self.refused_rollbacks.merge(&other.refused_rollbacks);
        self.trees.merge(other.trees);
        self.forced.merge(&other.forced);
        for (check, count) in &other.differences {
            *self.differences.entry(*check).or_default() += count;
        }
        if self.first_difference.is_none() {
            self.first_difference.clone_from(&other.first_difference);
        }
    }
}

impl DraftCounts {
    /// Adds other counts.
    pub fn merge(&mut self, other: Self) {
        self.drafts += other.drafts;
        self.tokens += other.tokens;
        self.accepted += other.accepted;
    }
}

impl DraftTimes {
    fn merge(&mut self, other: &Self) {
        self.masks.merge(&other.masks);
        self.commits.merge(&other.commits);
        self.rollback.merge(&other.rollback);
        self.fork.merge(&other.fork);
    }
}

impl TreeCounts {
    /// Adds other counts.
    pub fn merge(&mut self, other: Self) {
        self.trees += other.trees;
        self.branches += other.branches;
    }
}

impl RefusedRollbacks {
    /// Adds other refusals.
    pub fn merge(&mut self, other: &Self) {
        self.rollbacks += other.rollbacks;
        self.limit = match (self.limit, other.limit) {
            (Some(limit), Some(other)) => Some(limit.min(other)),
            (limit, other) => limit.or(other),
        };
        if self.message.is_none() {
            self.message.clone_from(&other.message);
        }
    }
}

impl ForcedTokens {
    /// Adds other counts.
    pub fn merge(&mut self, other: &Self) {
        self.positions += other.positions;
        self.one_allowed += other.one_allowed;
        self.jumped += other.jumped;
        self.jumps += other.jumps;
        self.canonical += other.canonical;
        self.not_canonical += other.not_canonical;
        self.uncompared += other.uncompared;
        self.mask_ns = self.mask_ns.saturating_add(other.mask_ns);
        self.saved_ns = self.saved_ns.saturating_add(other.saved_ns);
        self.ask_ns = self.ask_ns.saturating_add(other.ask_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_rows_keep_the_smallest_limit_and_the_first_difference() {
        let difference = |position| DraftDifference {
            check: DraftCheck::Mask,
            instance: 0,
            position,
            byte: 0,
            drafted: 1,
            before: String::new(),
            message: None,
        };
        let row = |limit: Option<usize>, position: Option<usize>| DraftRow {
            texts: 1,
            along: DraftCounts {
                drafts: 2,
                tokens: 8,
                accepted: 7,
            },
            refused_rollbacks: RefusedRollbacks {
                rollbacks: u64::from(limit.is_some()),
                limit,
                message: limit.map(|limit| format!("only {limit}")),
            },
            differences: position
                .map(|_| (DraftCheck::Mask, 3))
                .into_iter()
                .collect(),
            first_difference: position.map(difference),
            ..DraftRow::default()
        };
        let mut sum = DraftRow::default();
        for other in [
            row(None, None),
            row(Some(3), Some(5)),
            row(Some(2), Some(1)),
        ] {
            sum.merge(&other);
        }
        assert_eq!(
            (
                sum.texts,
                sum.along.accepted,
                sum.refused_rollbacks.rollbacks
            ),
            (3, 21, 2)
        );
        assert_eq!(sum.refused_rollbacks.limit, Some(2));
        assert_eq!(sum.refused_rollbacks.message.as_deref(), Some("only 3"));
        assert_eq!(sum.differences[&DraftCheck::Mask], 6);
        assert_eq!(sum.first_difference, Some(difference(5)));
    }

    #[test]
    fn every_check_has_its_own_title() {
        let titles: std::collections::BTreeSet<_> =
            DraftCheck::ALL.iter().map(|check| check.title()).collect();
        assert_eq!(titles.len(), DraftCheck::ALL.len());
    }
}
