//! The dataset `xgrammar_bench`: `NousResearch/json-mode-eval`, or rows of its layout.

use std::sync::Arc;

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::file::check_rows;
use super::flags::{PathFlags, ShortfallFlags};
use super::json::parse_schema;
use super::message::messages;
use super::registry::{Constrained, Inputs, Kind, Spec};
use super::table::{self, Wanted};
use super::{DatasetArgs, DatasetPlan, Row, Rows, RowsKind, Shortfall};
use sobench_core::case::Prompt;
use sobench_core::constraint::Constraint;
use sobench_core::error::{Error, Result};
use sobench_core::input::json::Repeated;
use sobench_notices::notice::DatasetNotice;

/// The repository that vLLM's script takes.
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

impl Kind for XgrammarBenchPlan {
    const SPEC: Spec = Spec {
        flags: &[PathFlags::augment_args, ShortfallFlags::augment_args],
        is_in_vllm_script: true,
        ..Spec::new("xgrammar_bench", Constrained::ByTheRow)
    };

    fn new(flags: &DatasetArgs) -> Result<Self> {
        Ok(Self {
            dataset_path: flags.path.path(),
            shortfall: flags.rows.shortfall.shortfall(),
        })
    }

    /// All rows of the split `train`. None is left out because an engine cannot compile its schema:
    /// what a server refuses is counted.
    fn rows(&self, _plan: &DatasetPlan, inputs: &Inputs<'_>) -> Result<Rows> {
        let found = table::find(
            self.dataset_path.as_deref().unwrap_or(REPOSITORY),
            &Wanted::default(),
            inputs.hub,
        )?;
        let (mut rows, mut repeated) = (Vec::new(), Repeated::default());
        for (_, file) in &found.files {
            for (place, members) in table::read(file, &COLUMNS, &mut repeated)? {
                rows.push(row(&members, place)?);
            }
        }
        check_rows(rows.len(), &found.source)?;
        let notices = found
            .notices
            .into_iter()
            .chain(DatasetNotice::repeated_members(repeated))
            .collect();
        Ok(Rows {
            rows,
            kind: RowsKind::Collected(self.shortfall),
            source: found.source,
            converted_from: None,
            notices,
        })
    }

    fn path(&self) -> Option<&str> {
        self.dataset_path.as_deref()
    }
}

/// `prompt` is a chat, `schema` the text of a JSON Schema (or the schema itself), `completion` a
/// reference answer.
fn row(members: &Map<String, Value>, place: String) -> Result<Row> {
    let field = |name: &str| members.get(name).filter(|value| !value.is_null());
    let missing = |name: &str| bad_row(&place, &format!("no field {name}"));
    let chat = field("prompt").ok_or_else(|| missing("prompt"))?;
    let chat = messages("prompt", chat).map_err(|words| bad_row(&place, &words))?;
    let schema = match field("schema").ok_or_else(|| missing("schema"))? {
        Value::String(text) => parse_schema(text),
        value => parse_schema(&value.to_string()),
    };
    let schema = schema.map_err(|words| bad_row(&place, &format!("schema: {words}")))?;
    let completion = match field("completion") {
        None => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(_) => return Err(bad_row(&place, "completion has to be a text")),
    };
    Ok(Row {
        prompt: Prompt::Messages(chat.into()),
        constraint: Some(Arc::new(Constraint::JsonSchema(Arc::new(schema)))),
        output_len: None,
        completion,
        tags: Vec::new(),
        grammar_oracle: None,
        name: place,
    })
}

fn bad_row(place: &str, words: &str) -> Error {
    Error::usage(format!("{place}: {words}"))
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
    fn bad_rows_are_named_with_their_field() {
        let chat = r#""prompt":[{"role":"user","content":"Hi"}]"#;
        check_row("{}", "no field prompt");
        check_row(&format!("{{{chat},\"schema\":null}}"), "no field schema");
        check_row(
            r#"{"prompt":"Hi","schema":"{}"}"#,
            "prompt has to be a list",
        );
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
            "completion has to be a text",
        );
    }
}
