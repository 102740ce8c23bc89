//! The dataset `last_letters`: the last letters of names, concatenated. Rows are drawn from the seed.
//!
//! The task is that of "Chain-of-Thought Prompting" (Wei et al., 2022) and of the quality tasks of
//! JSONSchemaBench, with four names. The answer has no reasoning member, so that arms differ in the
//! constraint only.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::answer_format::{answer_schema, in_prose, with_schema};
use super::extract::{FAMILY_NAMES, GIVEN_NAMES};
use super::registry::{
    ConstraintScope, DatasetKind, Inputs, PROSE_OUTPUT_LEN, ReferenceCheck, Spec,
};
use super::{DatasetArgs, DatasetPlan, Row, Rows, RowsKind, SHIPPED};
use sobench_core::case::Prompt;
use sobench_core::constraint::Constraint;
use sobench_core::error::Result;
use sobench_core::scorer::Scorer;
use sobench_pycompat::random::PythonRandom;

/// Names of one row.
const NAMES: usize = 4;

/// Separates the random stream of names from other draws: the ASCII codes of `last`, above the 64
/// bits of the seed.
const STREAM: u128 = 0x6c61_7374 << 64;

/// `last_letters` has no options of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LastLettersPlan {}

impl DatasetKind for LastLettersPlan {
    const SPEC: Spec = Spec {
        output_len: PROSE_OUTPUT_LEN,
        is_templated: false,
        measures_accuracy: true,
        references: ReferenceCheck::Generated,
        ..Spec::new("last_letters", ConstraintScope::PerRow)
    };

    fn new(_flags: &DatasetArgs) -> Result<Self> {
        Ok(Self {})
    }

    fn rows(&self, plan: &DatasetPlan, _inputs: &Inputs<'_>) -> Result<Rows> {
        let mut random = PythonRandom::from_u128(STREAM | u128::from(plan.seed));
        let schema = answer_schema("string");
        let constraint = Arc::new(Constraint::JsonSchema(Arc::new(schema.clone())));
        let names: Vec<&str> = [GIVEN_NAMES, FAMILY_NAMES].concat();
        let row = |index| {
            let drawn = random.sample(names.len(), NAMES);
            let drawn: Vec<&str> = drawn.into_iter().map(|name| names[name]).collect();
            let task = format!(
                "Take the last letters of the words in \"{}\" and concatenate them.",
                drawn.join(" ")
            );
            let letters: String = drawn
                .iter()
                .filter_map(|name| name.chars().last())
                .collect();
            Row {
                constraint: Some(Arc::clone(&constraint)),
                question: Some(Prompt::Text(in_prose(&task, "the letters").into())),
                completion: Some(letters),
                score: Some(Scorer::Choice),
                name: format!("row {index}"),
                ..Row::unconstrained(Prompt::Text(with_schema(&task, &schema, "").into()))
            }
        };
        Ok(Rows::new(
            (0..plan.num_prompts).map(row).collect(),
            RowsKind::Complete,
            SHIPPED,
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::dataset::DatasetName;
    use crate::dataset::tests::{plan, rows, tokenizer};
    use sobench_judge::accuracy::{Grade, Reference};

    #[test]
    fn answers_in_json_and_in_prose_are_scored_by_the_same_rule() {
        let made = rows(&plan(DatasetName::LastLetters), &tokenizer())
            .unwrap()
            .rows;
        let distinct: HashSet<String> =
            made.iter().map(|row| format!("{:?}", row.prompt)).collect();
        assert_eq!(distinct.len(), made.len());
        for row in &made {
            let letters = row.completion.as_deref().unwrap();
            let Prompt::Text(prompt) = &row.prompt else {
                panic!("expected a text")
            };
            let quoted = prompt.split('"').nth(1).unwrap();
            let expected: String = quoted
                .split(' ')
                .map(|name| name.chars().last().unwrap())
                .collect();
            assert_eq!((letters, letters.len()), (expected.as_str(), NAMES));
            let reference =
                Reference::new(Scorer::Choice, &letters.into(), row.constraint.as_deref()).unwrap();
            for (answer, grade) in [
                (format!("{{\"answer\": \"{letters}\"}}"), Grade::Right),
                (
                    format!("They are ... The answer is \"{letters}\"."),
                    Grade::Right,
                ),
                ("{\"answer\": \"zzzz\"}".to_owned(), Grade::Wrong),
                (format!("Not {letters}. The answer is zzzz."), Grade::Wrong),
                ("I do not know that.".to_owned(), Grade::Unparsed),
            ] {
                assert_eq!(reference.grade(&answer).grade, grade, "{answer}");
            }
        }
    }
}
