//! The dataset `gsm8k`: `openai/gsm8k`, or files in its format.
//!
//! Columns: `question`, and `answer`, whose last line is `#### NUMBER`. The default is the split
//! `test` of the configuration `main` (1,319 rows). The last number of an answer is compared, as by
//! the flexible extraction of `lm-evaluation-harness`, in prose and in JSON alike.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::answer_format::{answer_schema, in_prose, with_schema};
use super::registry::{DOCUMENT_OUTPUT_LEN, DatasetKind, Inputs, Spec};
use super::repository::{self, Layout, RepositoryPlan, text};
use super::{DatasetArgs, DatasetPlan, Row, Rows};
use sobench_core::case::Prompt;
use sobench_core::constraint::Constraint;
use sobench_core::error::Result;
use sobench_core::scorer::Scorer;

const LAYOUT: Layout = Layout {
    repository: "openai/gsm8k",
    subset: "main",
    split: "test",
    columns: &["question", "answer"],
    hint: "a row has question, and answer, whose last line is #### and a number",
};

/// What precedes the number of an answer.
const MARK: &str = "####";

/// The options of `gsm8k`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Gsm8kPlan(pub RepositoryPlan);

impl DatasetKind for Gsm8kPlan {
    const SPEC: Spec = repository::spec("gsm8k", DOCUMENT_OUTPUT_LEN);

    fn new(flags: &DatasetArgs) -> Result<Self> {
        Ok(Self(RepositoryPlan::new(flags)))
    }

    fn rows(&self, plan: &DatasetPlan, inputs: &Inputs<'_>) -> Result<Rows> {
        let schema = answer_schema("number");
        let constraint = Arc::new(Constraint::JsonSchema(Arc::new(schema.clone())));
        self.0.rows(&LAYOUT, plan, inputs, |members| {
            row(members, &schema, &constraint)
        })
    }

    fn path(&self) -> Option<&str> {
        self.0.dataset_path.as_deref()
    }
}

fn row(
    members: &Map<String, Value>,
    schema: &Value,
    constraint: &Arc<Constraint>,
) -> std::result::Result<Row, String> {
    let task = text(members, "question")?.trim();
    let answer = text(members, "answer")?;
    let number = answer.rsplit_once(MARK).map(|(_, number)| number.trim());
    let number = number.ok_or_else(|| format!("answer has no {MARK}"))?;
    let number = number.replace(',', "");
    if number.parse::<f64>().is_err() {
        return Err(format!("answer has no number after {MARK}: {number}"));
    }
    Ok(Row {
        constraint: Some(Arc::clone(constraint)),
        question: Some(Prompt::Text(in_prose(task, "the number").into())),
        completion: Some(number),
        score: Some(Scorer::Number),
        ..Row::unconstrained(Prompt::Text(with_schema(task, schema, "").into()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::tests::{plan, rows, tokenizer};
    use crate::dataset::{DatasetName, Order, Source};
    use sobench_judge::accuracy::{Grade, Reference};

    const FIXTURE: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/datasets/gsm8k/main/test.jsonl"
    );

    fn read(path: &str) -> Result<Rows> {
        let options = RepositoryPlan {
            dataset_path: Some(path.to_owned()),
            order: Order::AsStored,
            ..RepositoryPlan::default()
        };
        let plan = DatasetPlan {
            source: Source::Gsm8k(Gsm8kPlan(options)),
            ..plan(DatasetName::Gsm8k)
        };
        rows(&plan, &tokenizer())
    }

    #[test]
    fn the_number_after_the_mark_is_the_reference() {
        let folder = FIXTURE.trim_end_matches("/main/test.jsonl");
        for path in [FIXTURE, folder] {
            let rows = read(path).unwrap().rows;
            let numbers: Vec<&str> = rows
                .iter()
                .map(|row| row.completion.as_deref().unwrap())
                .collect();
            assert_eq!(numbers, ["21", "1250", "-4", "2.5"]);
            let Prompt::Text(prompt) = &rows[0].prompt else {
                panic!("expected a text")
            };
            assert!(
                prompt.ends_with("nothing else.\n{\"type\": \"object\", \"properties\": {\"answer\": {\"type\": \"number\"}}, \"required\": [\"answer\"], \"additionalProperties\": false}"),
                "{prompt}"
            );
            let Some(Prompt::Text(question)) = &rows[0].question else {
                panic!("expected a text")
            };
            assert!(question.ends_with("End with \"The answer is\" and the number."));
            let constraint = rows[1].constraint.as_deref();
            let reference = Reference::new(Scorer::Number, &"1250".into(), constraint).unwrap();
            for answer in ["{\"answer\": 1250.0}", "5 * 250. The answer is 1,250."] {
                assert_eq!(reference.grade(answer).grade, Grade::Right, "{answer}");
            }
        }
    }

    #[test]
    fn bad_rows_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.jsonl");
        for (line, message) in [
            (r#"{"answer": "1"}"#, "line 1: question is not a string"),
            (
                r#"{"question": "q", "answer": "1"}"#,
                "line 1: answer has no ####",
            ),
            (
                "{\"question\": \"q\", \"answer\": \"#### none\"}",
                "no number after ####: none",
            ),
        ] {
            std::fs::write(&path, line).unwrap();
            let error = read(path.to_str().unwrap()).unwrap_err();
            assert!(error.what.contains(message), "{error}");
            assert_eq!(
                error.hint.unwrap(),
                "a row has question, and answer, whose last line is #### and a number"
            );
        }
    }
}
