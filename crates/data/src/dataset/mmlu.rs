//! The dataset `mmlu`: `cais/mmlu`, or files in its format.
//!
//! Columns: `question`, `subject`, `choices` (four texts) and `answer` (the index of the right one,
//! or its letter). The default is the split `test` of the configuration `all`. The constraint is one
//! of the letters A to D. Rows are tagged with their subject.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::answer_format::{in_prose, with_choices};
use super::registry::{DatasetKind, Inputs, PROSE_OUTPUT_LEN, Spec};
use super::repository::{self, Layout, RepositoryPlan, text};
use super::{DatasetArgs, DatasetPlan, Row, Rows};
use sobench_core::case::Prompt;
use sobench_core::constraint::Constraint;
use sobench_core::error::Result;
use sobench_core::scorer::Scorer;

const LAYOUT: Layout = Layout {
    repository: "cais/mmlu",
    subset: "all",
    split: "test",
    columns: &["question", "subject", "choices", "answer"],
    hint: "a row has question, subject, choices (four texts) and answer (0 to 3, or A to D)",
};

const LETTERS: [&str; 4] = ["A", "B", "C", "D"];

/// The options of `mmlu`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MmluPlan(pub RepositoryPlan);

impl DatasetKind for MmluPlan {
    const SPEC: Spec = repository::spec("mmlu", PROSE_OUTPUT_LEN);

    fn new(flags: &DatasetArgs) -> Result<Self> {
        Ok(Self(RepositoryPlan::new(flags)))
    }

    fn rows(&self, plan: &DatasetPlan, inputs: &Inputs<'_>) -> Result<Rows> {
        let letters: Arc<[String]> = LETTERS.map(str::to_owned).into();
        let constraint = Arc::new(Constraint::Choice(Arc::clone(&letters)));
        self.0.rows(&LAYOUT, plan, inputs, |members| {
            row(members, &letters, &constraint)
        })
    }

    fn path(&self) -> Option<&str> {
        self.0.dataset_path.as_deref()
    }
}

fn row(
    members: &Map<String, Value>,
    letters: &[String],
    constraint: &Arc<Constraint>,
) -> std::result::Result<Row, String> {
    let choices = members.get("choices").and_then(Value::as_array);
    let choices: Option<Vec<&str>> =
        choices.and_then(|choices| choices.iter().map(Value::as_str).collect());
    let choices = choices
        .filter(|choices| choices.len() == LETTERS.len())
        .ok_or("choices is not a list of four strings")?;
    let answer = match members.get("answer") {
        Some(Value::String(letter)) => LETTERS.iter().position(|known| known == letter),
        Some(Value::Number(index)) => index.as_u64().and_then(|index| usize::try_from(index).ok()),
        _ => None,
    };
    let right = answer
        .and_then(|index| letters.get(index))
        .ok_or("answer is neither 0 to 3 nor A to D")?;
    let mut task = text(members, "question")?.trim().to_owned();
    for (letter, choice) in letters.iter().zip(choices) {
        task.push_str(&format!("\n{letter}. {choice}"));
    }
    let subject = members.get("subject").and_then(Value::as_str);
    Ok(Row {
        constraint: Some(Arc::clone(constraint)),
        question: Some(Prompt::Text(in_prose(&task, "the letter").into())),
        completion: Some(right.clone()),
        score: Some(Scorer::Choice),
        tags: subject
            .map(|subject| format!("subject:{subject}"))
            .into_iter()
            .collect(),
        ..Row::unconstrained(Prompt::Text(with_choices(&task, letters).into()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::tests::{plan, rows, tokenizer};
    use crate::dataset::{DatasetName, Order, Source};

    fn read(path: &str) -> Result<Rows> {
        let options = RepositoryPlan {
            dataset_path: Some(path.to_owned()),
            order: Order::AsStored,
            ..RepositoryPlan::default()
        };
        let plan = DatasetPlan {
            source: Source::Mmlu(MmluPlan(options)),
            ..plan(DatasetName::Mmlu)
        };
        rows(&plan, &tokenizer())
    }

    #[test]
    fn the_letter_of_the_right_choice_is_the_reference() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../fixtures/datasets/mmlu/test.jsonl"
        );
        let rows = read(path).unwrap().rows;
        let letters: Vec<&str> = rows
            .iter()
            .map(|row| row.completion.as_deref().unwrap())
            .collect();
        assert_eq!(letters, ["C", "A", "D"]);
        assert_eq!(rows[0].tags, ["subject:geography"]);
        let Prompt::Text(prompt) = &rows[0].prompt else {
            panic!("expected a text")
        };
        assert_eq!(
            &**prompt,
            "Which of these rivers flows through Vienna?\nA. Rhine\nB. Elbe\nC. Danube\nD. Oder\n\n\
             Answer with one of these, and nothing else: A, B, C, D"
        );
    }

    #[test]
    fn bad_rows_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.jsonl");
        for (line, message) in [
            (
                r#"{"question":"q","choices":["a"],"answer":0}"#,
                "line 1: choices is not",
            ),
            (
                r#"{"question":"q","choices":["a","b","c","d"],"answer":4}"#,
                "line 1: answer is neither",
            ),
            (
                r#"{"choices":["a","b","c","d"],"answer":"B"}"#,
                "line 1: question is not a string",
            ),
        ] {
            std::fs::write(&path, line).unwrap();
            let error = read(path.to_str().unwrap()).unwrap_err();
            assert!(error.what.contains(message), "{error}");
        }
    }
}
