//! The accuracy of answers whose rows have a reference.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Row, Stored, UnreadableRow};
use sobench_judge::accuracy::{Accuracy, Grade, Leaves, Scorer};
use sobench_judge::{Evaluator, judge_text};
use sobench_statistics::Rate;

/// The accuracy of all answers that one scorer compared.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct ScorerAccuracy {
    pub scorer: Scorer,
    /// Right answers / compared ones. An unparsed answer is not right.
    pub accuracy: Option<Rate>,
    /// Answers in which the scorer found nothing to compare.
    pub unparsed: Option<Rate>,
    /// Leaves of all answers, of the scorer `leaf`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaves: Option<Leaves>,
}

/// Counts of each scorer, in the order of their first answer.
#[derive(Default)]
pub(super) struct AccuracyTable {
    rows: Vec<(Scorer, Counts)>,
}

#[derive(Default)]
struct Counts {
    answers: usize,
    right: usize,
    unparsed: usize,
    leaves: Option<Leaves>,
}

impl AccuracyTable {
    /// Adds an answer; `None` if it was not compared.
    pub(super) fn add(&mut self, scorer: Option<Scorer>, accuracy: Option<&Accuracy>) {
        let (Some(scorer), Some(accuracy)) = (scorer, accuracy) else {
            return;
        };
        let known = self.rows.iter().position(|(other, _)| *other == scorer);
        let index = known.unwrap_or_else(|| {
            self.rows.push((scorer, Counts::default()));
            self.rows.len() - 1
        });
        let counts = &mut self.rows[index].1;
        counts.answers += 1;
        counts.right += usize::from(accuracy.grade == Grade::Right);
        counts.unparsed += usize::from(accuracy.grade == Grade::Unparsed);
        if let Some(leaves) = &accuracy.leaves {
            counts.leaves.get_or_insert_default().add(leaves);
        }
    }

    pub(super) fn finish(self) -> Vec<ScorerAccuracy> {
        let row = |(scorer, counts): (Scorer, Counts)| ScorerAccuracy {
            scorer,
            accuracy: Rate::new(counts.right, counts.answers),
            unparsed: Rate::new(counts.unparsed, counts.answers),
            leaves: counts.leaves,
        };
        self.rows.into_iter().map(row).collect()
    }
}

/// Compares an answer with the reference of its row; `None` without one.
pub(super) fn grade(stored: &Stored) -> Option<Accuracy> {
    let observation = &stored.observation;
    let reference = stored.reference.as_ref()?;
    reference.grade_answer(&observation.outcome, &observation.answer)
}

/// The row, or an unreadable one if its reference breaks the constraint of the row.
pub(super) fn with_valid_reference(row: Row, evaluator: &mut Evaluator) -> Row {
    let Row::Answer(stored) = row else {
        return row;
    };
    match reference_fault(&stored, evaluator) {
        None => Row::Answer(stored),
        Some(message) => Row::Unreadable(UnreadableRow {
            id: stored.case.id.clone(),
            message,
            members: stored.members,
        }),
    }
}

fn reference_fault(stored: &Stored, evaluator: &mut Evaluator) -> Option<String> {
    let reference = stored.reference.as_ref()?;
    let constraint = stored.case.constraint.as_deref()?;
    let is_document = matches!(reference.scorer(), Scorer::Exact | Scorer::Leaf);
    if !is_document || constraint.schema().is_none() {
        return None;
    }
    let compiled = evaluator.compile(constraint);
    let reason = judge_text(&compiled, &reference.value().to_string()).into_reason()?;
    Some(format!(
        "`reference` breaks the schema of its row: {reason}"
    ))
}
