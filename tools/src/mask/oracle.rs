//! The oracle of a measurement: the evaluator decides whether a text matches its constraint.

use std::sync::Arc;

use sobench_core::constraint::Constraint;
use sobench_core::verdict::Verdict;
use sobench_judge::{Evaluator, JudgeSettings, judge_text};

/// Judges texts against one constraint.
pub(super) struct Oracle {
    evaluator: Evaluator,
    constraint: Arc<Constraint>,
}

impl Oracle {
    pub(super) fn new(constraint: Arc<Constraint>, assert_formats: bool) -> Self {
        Self {
            evaluator: Evaluator::new(JudgeSettings { assert_formats }),
            constraint,
        }
    }

    /// Whether a text matches; `None` if it cannot be judged.
    pub(super) fn judge(&mut self, text: &str) -> Option<bool> {
        let constraint = self.evaluator.compile(&self.constraint);
        match judge_text(&constraint, text) {
            Verdict::Valid => Some(true),
            Verdict::Invalid { .. } => Some(false),
            Verdict::NotScored { .. } => None,
        }
    }

    /// The first of `ends` (ascending byte offsets of `text`) at which the text so far does not
    /// match. An offset inside a character counts, since the text so far is not UTF-8.
    pub(super) fn first_wrong_end(&mut self, text: &str, ends: &[usize]) -> Option<usize> {
        ends.iter().copied().find(|&end| match text.get(..end) {
            Some(prefix) => self.judge(prefix) == Some(false),
            None => true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_after_incomplete_texts_are_wrong() {
        let regex = |pattern: &str| Arc::new(Constraint::Regex(pattern.into()));
        let mut oracle = Oracle::new(regex("(ab|é)+"), true);
        assert_eq!(
            (oracle.judge("abab"), oracle.judge("aba")),
            (Some(true), Some(false))
        );
        for (ends, wrong) in [
            (vec![2, 4], None),
            (vec![2, 3, 4], Some(3)),
            (vec![2, 5], Some(5)),
            (vec![0], Some(0)),
            (vec![], None),
        ] {
            assert_eq!(oracle.first_wrong_end("ababé", &ends), wrong, "{ends:?}");
        }
        let mut blind = Oracle::new(regex("("), true);
        assert_eq!(
            (blind.judge("a"), blind.first_wrong_end("ab", &[1])),
            (None, None)
        );
    }
}
