//! The dataset `xgrammar_bench`: `NousResearch/json-mode-eval`, or rows in its format.

use std::sync::Arc;

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::flags::{PathFlags, ShortfallFlags};
use super::json::parse_schema;
use super::message::messages;
use super::registry::{ConstraintScope, DatasetKind, Inputs, Spec};
use super::table::{self, Selection};
use super::{DatasetArgs, DatasetPlan, Row, Rows, RowsKind, Shortfall};
use sobench_core::case::Prompt;
use sobench_core::constraint::Constraint;
use sobench_core::error::{Error, Result};
use sobench_core::input::json::DuplicateKeys;
use sobench_core::scorer::Scorer;

/// The repository used by vLLM's script.
const REPOSITORY: &str = "NousResearch/json-mode-eval";
const COLUMNS: [&str; 3] = ["prompt", "schema", "completion"];

/// The options of `xgrammar_bench`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct XgrammarBenchPlan {
    /// A local path, or a repository of the Hub, `owner/name`.
    pub dataset_path: Option<String>,
    pub shortfall: Shortfall,
}

impl DatasetKind for XgrammarBenchPlan {
    const SPEC: Spec = Spec {
        flags: &[PathFlags::augment_args, ShortfallFlags::augment_args],
        is_in_vllm_script: true,
        ..Spec::new("xgrammar_bench", ConstraintScope::PerRow)
    };

    fn new(flags: &DatasetArgs) -> Result<Self> {
        Ok(Self {
            dataset_path: flags.path.path(),
            shortfall: flags.rows.shortfall.shortfall(),
        })
    }

    /// All rows of the split `train`. Rows whose schema an engine cannot compile are kept: the
    /// server's refusals are counted.
    fn rows(&self, _plan: &DatasetPlan, inputs: &Inputs<'_>) -> Result<Rows> {
        let found = table::find(
            self.dataset_path.as_deref().unwrap_or(REPOSITORY),
            &Selection::default(),
            inputs.hub,
        )?;
        let (mut rows, mut repeated) = (Vec::new(), DuplicateKeys::default());
        for (_, file) in &found.files {
            for named in table::read(file, &COLUMNS, &mut repeated, inputs.progress)? {
                let (location, members) = named?;
                rows.push(row(&members, location)?);
            }
        }
        found.into_rows(rows, RowsKind::Collected(self.shortfall), repeated, &[])
    }

    fn path(&self) -> Option<&str> {
        self.dataset_path.as_deref()
    }
}

/// A row has `prompt` (a chat), `schema` (a JSON Schema or its text) and `completion` (a reference
/// answer).
fn row(members: &Map<String, Value>, location: String) -> Result<Row> {
    let field = |name: &str| members.get(name).filter(|value| !value.is_null());
    let missing = |name: &str| bad_row(&location, &format!("no field {name}"));
    let chat = field("prompt").ok_or_else(|| missing("prompt"))?;
    let chat = messages("prompt", chat).map_err(|error| bad_row(&location, &error))?;
    let schema = match field("schema").ok_or_else(|| missing("schema"))? {
        Value::String(text) => parse_schema(text),
        value => parse_schema(&value.to_string()),
    };
    let schema = schema.map_err(|error| bad_row(&location, &format!("schema: {error}")))?;
    let completion = match field("completion") {
        None => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(_) => return Err(bad_row(&location, "completion must be a string")),
    };
    Ok(Row {
        constraint: Some(Arc::new(Constraint::JsonSchema(Arc::new(schema)))),
        score: completion.is_some().then_some(Scorer::Exact),
        completion,
        name: location,
        ..Row::unconstrained(Prompt::Messages(chat.into()))
    })
}

fn bad_row(location: &str, message: &str) -> Error {
    Error::usage(format!("{location}: {message}"))
        .hint("a row has prompt (messages), schema (the text of a JSON Schema) and completion")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_row(json: &str, expected: &str) {
        let error = row(
            &serde_json::from_str(json).unwrap(),
            "f.json, row index 3".to_owned(),
        )
        .unwrap_err();
        assert!(
            error.what.starts_with("f.json, row index 3: ") && error.what.contains(expected),
            "{error}"
        );
    }

    #[test]
    fn errors_name_the_row_and_the_field() {
        let chat = r#""prompt":[{"role":"user","content":"Hi"}]"#;
        check_row("{}", "no field prompt");
        check_row(&format!("{{{chat},\"schema\":null}}"), "no field schema");
        check_row(r#"{"prompt":"Hi","schema":"{}"}"#, "prompt must be a list");
        check_row(
            r#"{"prompt":[{"role":"user"}],"schema":"{}"}"#,
            "prompt[0]: content",
        );
        check_row(
            &format!("{{{chat},\"schema\":\"{{\"}}"),
            "schema: EOF while parsing an object at line 1",
        );
        check_row(
            &format!("{{{chat},\"schema\":\"[]\"}}"),
            "schema: a JSON Schema is an object or a boolean",
        );
        check_row(
            &format!("{{{chat},\"schema\":{{}},\"completion\":1}}"),
            "completion must be a string",
        );
    }
}
