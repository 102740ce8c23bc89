//! The dataset `sob`: the Structured Output Benchmark, `interfaze-ai/sob`, or files in its format.
//!
//! Columns, by the card of the repository: `context` (a text), `question`, `json_schema`, and
//! `validated_output`, the answer that its own scorer compares with (`ground_truth` in older files).
//! The card shows the last three as objects; a column with the text of a JSON document is read too.
//! The default is the split `test` of the text records, which are in the folder `data`; `image` and
//! `audio` have the split `train` only. Their contexts are texts as well. Not confirmed: whether the
//! parquet files of the Hub hold JSON as text. Rows are tagged with `schema_complexity`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::answer_format::with_schema;
use super::json::parse_schema;
use super::registry::{DOCUMENT_OUTPUT_LEN, DatasetKind, Inputs, Spec};
use super::repository::{self, Layout, RepositoryPlan, text};
use super::{DatasetArgs, DatasetPlan, Row, Rows};
use sobench_core::case::Prompt;
use sobench_core::constraint::Constraint;
use sobench_core::error::Result;
use sobench_core::scorer::Scorer;

const LAYOUT: Layout = Layout {
    repository: "interfaze-ai/sob",
    subset: "data",
    split: "test",
    columns: &[
        "context",
        "question",
        "json_schema",
        "validated_output",
        "ground_truth",
        "schema_complexity",
    ],
    hint: "a row has context, question, json_schema, and validated_output or ground_truth",
};

/// The name of the configuration whose folder is `data`.
const DEFAULT_SUBSET: &str = "default";

/// The options of `sob`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SobPlan(pub RepositoryPlan);

impl DatasetKind for SobPlan {
    const SPEC: Spec = repository::spec("sob", DOCUMENT_OUTPUT_LEN);

    fn new(flags: &DatasetArgs) -> Result<Self> {
        let mut options = RepositoryPlan::new(flags);
        match options.subset.as_deref() {
            Some(DEFAULT_SUBSET) => options.subset = Some(LAYOUT.subset.to_owned()),
            Some("image" | "audio") => {
                options.split.get_or_insert_with(|| "train".to_owned());
            }
            _ => {}
        }
        Ok(Self(options))
    }

    fn rows(&self, plan: &DatasetPlan, inputs: &Inputs<'_>) -> Result<Rows> {
        self.0.rows(&LAYOUT, plan, inputs, row)
    }

    fn path(&self) -> Option<&str> {
        self.0.dataset_path.as_deref()
    }
}

fn row(members: &Map<String, Value>) -> std::result::Result<Row, String> {
    let known = |name: &str| members.get(name).filter(|value| !value.is_null());
    let schema = match known("json_schema") {
        Some(Value::String(text)) => parse_schema(text),
        Some(schema @ Value::Object(_)) => Ok(schema.clone()),
        _ => Err("neither an object nor a string".to_owned()),
    };
    let schema = schema.map_err(|error| format!("json_schema: {error}"))?;
    let reference = known("validated_output").or_else(|| known("ground_truth"));
    let reference = match reference {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => return Err("no validated_output and no ground_truth".to_owned()),
    };
    let task = format!(
        "Answer the question from the text.\n\nText:\n{}\n\nQuestion: {}",
        text(members, "context")?,
        text(members, "question")?
    );
    let complexity = known("schema_complexity").and_then(Value::as_str);
    Ok(Row {
        question: Some(Prompt::Text(task.as_str().into())),
        completion: Some(reference),
        score: Some(Scorer::Leaf),
        tags: complexity
            .map(|complexity| format!("complexity:{complexity}"))
            .into_iter()
            .collect(),
        ..Row::new(
            &with_schema(&task, &schema, ""),
            Constraint::JsonSchema(Arc::new(schema)),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::tests::{plan, rows, tokenizer};
    use crate::dataset::{DatasetName, Order, Source, load};
    use sobench_notices::notice::sentences;

    const FIXTURE: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/datasets/sob/data/test.jsonl"
    );

    fn plan_with(path: &str) -> DatasetPlan {
        let options = RepositoryPlan {
            dataset_path: Some(path.to_owned()),
            order: Order::AsStored,
            ..RepositoryPlan::default()
        };
        DatasetPlan {
            source: Source::Sob(SobPlan(options)),
            ..plan(DatasetName::Sob)
        }
    }

    #[test]
    fn schemas_and_references_are_objects_or_texts() {
        let rows = rows(&plan_with(FIXTURE), &tokenizer()).unwrap().rows;
        let references: Vec<&str> = rows
            .iter()
            .map(|row| row.completion.as_deref().unwrap())
            .collect();
        assert_eq!(
            references,
            [
                r#"{"bridge":"Lindau Bridge","opened":1931}"#,
                r#"{"players": ["Ada", "Nils"]}"#,
                r#"{"mayor":5}"#
            ]
        );
        assert_eq!(rows[0].tags, ["complexity:medium"]);
        let (Prompt::Text(prompt), Some(Prompt::Text(question))) =
            (&rows[0].prompt, &rows[0].question)
        else {
            panic!("expected texts")
        };
        assert!(prompt.starts_with(&**question) && prompt.contains("\"opened\""));
        assert!(!question.contains("\"opened\""));
    }

    /// The third reference is not valid by its schema, as may happen in files of others.
    #[test]
    fn references_that_break_their_schema_are_counted() {
        let plan = DatasetPlan {
            num_prompts: 3,
            ..plan_with(FIXTURE)
        };
        let dataset = load(&plan, &tokenizer()).unwrap();
        let notices = sentences(&dataset.notices);
        assert!(
            notices[0].starts_with("references that break the schema of their own row, so that no valid answer is right: 1; the first: ")
                && notices[0].contains("test.jsonl, line 3: "),
            "{notices:?}"
        );
        assert!(
            dataset
                .cases
                .iter()
                .all(|case| case.score == Some(Scorer::Leaf))
        );
    }
}
