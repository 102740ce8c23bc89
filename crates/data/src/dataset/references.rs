//! Checks that the references of rows can be compared with answers.

use super::registry::ReferenceCheck;
use super::{DatasetPlan, Row};
use sobench_core::error::{Error, Result};
use sobench_core::scorer::Scorer;
use sobench_judge::accuracy::Reference;
use sobench_judge::function_calls::expected_calls;
use sobench_judge::{Evaluator, JudgeSettings, judge_text};
use sobench_notices::notice::{DatasetNotice, Notice};

/// A reference that no answer can equal.
#[derive(Clone, Debug, PartialEq)]
enum Fault {
    /// The scorer cannot read it.
    Unreadable(String),
    /// It is not valid under the schema of its row.
    BreaksSchema(String),
}

/// Checks the reference of each row. The scorer of a row whose reference cannot be read is removed.
///
/// # Errors
/// `--score` is given and no row has a reference; a reference of the user's own rows is faulty; all
/// references are.
pub(super) fn check(plan: &DatasetPlan, rows: &mut [Row]) -> Result<Vec<Notice>> {
    if let Some(scorer) = plan.score
        && rows.iter().all(|row| row.completion.is_none())
    {
        return Err(Error::usage(format!(
            "the dataset {} has no references: --score {}",
            plan.source.name(),
            scorer.name()
        ))
        .hint(
            "leave --score out, or use a dataset with references, such as extract or gsm8k; rows \
             of custom have the member reference",
        ));
    }
    let policy = plan.source.name().reference_check();
    if policy == ReferenceCheck::Generated && plan.score.is_none() {
        return Ok(Vec::new());
    }
    // A format that the run does not assert is no fault.
    let mut evaluator = Evaluator::new(JudgeSettings {
        assert_formats: false,
    });
    let (mut checked, mut unreadable, mut breaking) = (0, Vec::new(), Vec::new());
    for row in rows.iter_mut() {
        let (Some(scorer), Some(reference)) = (row.score, &row.completion) else {
            continue;
        };
        checked += 1;
        let Some(fault) = fault(scorer, reference, row, &mut evaluator) else {
            continue;
        };
        if policy == ReferenceCheck::Refuse {
            return Err(fault.into_error(scorer, &row.name));
        }
        match fault {
            Fault::Unreadable(why) => {
                unreadable.push(format!("{}: {why}", row.name));
                row.score = None;
            }
            Fault::BreaksSchema(why) => breaking.push(format!("{}: {why}", row.name)),
        }
    }
    let faulty = unreadable.len() + breaking.len();
    if checked > 0 && faulty == checked {
        let first = unreadable.first().or(breaking.first());
        let scorer = plan.score.map_or("the scorer", Scorer::name);
        return Err(Error::usage(format!(
            "no reference of the dataset {} can be compared by {scorer}; the first: {}",
            plan.source.name(),
            first.map_or("", String::as_str)
        ))
        .hint("leave --score out to use the scorer of the dataset"));
    }
    let unreadable = unreadable
        .first()
        .map(|first| DatasetNotice::ReferencesUnreadable {
            rows: unreadable.len(),
            first: first.clone(),
        });
    let breaking = breaking
        .first()
        .map(|first| DatasetNotice::ReferencesBreakSchemas {
            rows: breaking.len(),
            first: first.clone(),
        });
    Ok(unreadable
        .into_iter()
        .chain(breaking)
        .map(Notice::from)
        .collect())
}

impl Fault {
    fn into_error(self, scorer: Scorer, row: &str) -> Error {
        match self {
            Self::Unreadable(why) => Error::usage(format!(
                "{row}: the scorer {} cannot read the reference: {why}",
                scorer.name()
            ))
            .hint("fix the reference of this row, or name another scorer in its member score or with --score"),
            Self::BreaksSchema(why) => Error::usage(format!(
                "{row}: the reference breaks the schema of its row: {why}"
            ))
            .hint("fix the reference or the schema: no valid answer could be right"),
        }
    }
}

fn fault(scorer: Scorer, text: &str, row: &Row, evaluator: &mut Evaluator) -> Option<Fault> {
    if scorer == Scorer::Calls {
        return expected_calls(text)
            .is_none()
            .then(|| Fault::Unreadable("not {\"ground_truth\": [expected calls]}".to_owned()));
    }
    let constraint = row.constraint.as_deref();
    let reference = match Reference::new(scorer, &text.into(), constraint) {
        Ok(reference) => reference,
        Err(why) => return Some(Fault::Unreadable(why)),
    };
    let is_document = matches!(scorer, Scorer::Exact | Scorer::Leaf);
    let constraint = constraint.filter(|constraint| is_document && constraint.is_json())?;
    let compiled = evaluator.compile(constraint);
    let reason = judge_text(&compiled, &reference.value().to_string()).into_reason()?;
    Some(Fault::BreaksSchema(reason.to_string()))
}
