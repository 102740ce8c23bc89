//! The dataset `requests`: recorded request bodies, as JSON Lines, which are sent as they are.
//!
//! A line is the body itself, or a line of OpenAI's batch input (`custom_id`, `url`, `body`).
//! Answers are judged by the constraint or the tools of the body.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::custom::{NAME_TAG, check_schemas};
use super::file::{check_rows, read_lines_with, required};
use super::flags::{PathFlags, ShortfallFlags};
use super::registry::{ConstraintScope, DatasetKind, Inputs, Spec};
use super::{DatasetArgs, DatasetPlan, Row, Rows, RowsKind, Shortfall};
use crate::request_body::{Part, fields, label};
use sobench_core::case::Prompt;
use sobench_core::constraint::Constraint;
use sobench_core::error::{Error, Result};
use sobench_core::input::json::message_without_line;
use sobench_core::recorded::{NO_LIMIT, limit};
use sobench_core::tools::{ToolSet, chat_choice};
use sobench_notices::notice::DatasetNotice;

/// Members that one body of each endpoint has.
const PROMPTS: [&str; 3] = ["messages", "prompt", "input"];

/// The flags of `requests`.
#[derive(Args, Clone, Debug, Default)]
pub struct RequestsFlags {
    /// Send the model that each body of requests names, in place of --model
    #[arg(long)]
    pub keep_model: bool,
}

/// The options of `requests`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestsPlan {
    pub dataset_path: Option<String>,
    pub keep_model: bool,
    pub shortfall: Shortfall,
}

impl DatasetKind for RequestsPlan {
    const SPEC: Spec = Spec {
        flags: &[
            PathFlags::augment_args,
            ShortfallFlags::augment_args,
            RequestsFlags::augment_args,
        ],
        replaces_row_lengths: true,
        is_templated: false,
        ..Spec::new("requests", ConstraintScope::PerRow)
    };

    fn new(flags: &DatasetArgs) -> Result<Self> {
        Ok(Self {
            dataset_path: flags.path.path(),
            keep_model: flags.rows.requests.keep_model,
            shortfall: flags.rows.shortfall.shortfall(),
        })
    }

    /// The first lines of the file, as many as the plan needs. The others are counted and checked.
    fn rows(&self, plan: &DatasetPlan, inputs: &Inputs<'_>) -> Result<Rows> {
        let hint = "give --dataset-path a JSONL file with one request body per line";
        let path = required(self.dataset_path.as_deref(), Self::SPEC.name, hint)?;
        let mut ids = HashSet::new();
        let mut unjudged: BTreeMap<String, usize> = BTreeMap::new();
        let (mut rows, mut available) = (Vec::new(), 0);
        for line in read_lines_with(Path::new(path), inputs.progress)? {
            let (number, line) = line?;
            let name = format!("{path}, line {number}");
            let wrong = |what: String| {
                Error::usage(format!("{name}: {what}")).hint(
                    "a line is a request body with messages, prompt or input, or a line of batch input with custom_id and body",
                )
            };
            let recorded = Recorded::read(&line).map_err(wrong)?;
            if let Some(id) = recorded
                .id
                .as_ref()
                .filter(|id| !ids.insert(id.to_string()))
            {
                return Err(wrong(format!("the custom_id is not unique: {id:?}")));
            }
            available += 1;
            if rows.len() < plan.rows_needed() {
                let (row, reason) = self.row(&recorded, name);
                rows.push(row);
                if let Some(reason) = reason {
                    *unjudged.entry(reason).or_default() += 1;
                }
            }
        }
        check_rows(available, path)?;
        let notices = unjudged.into_iter();
        let notices =
            notices.map(|(reason, rows)| DatasetNotice::RequestsNotJudged { rows, reason }.into());
        Ok(Rows {
            available,
            notices: notices.collect(),
            ..Rows::new(rows, RowsKind::Collected(self.shortfall), path)
        })
    }

    fn path(&self) -> Option<&str> {
        self.dataset_path.as_deref()
    }
}

impl RequestsPlan {
    /// The row of a body, and why it is not judged although it has a constraint.
    fn row(&self, recorded: &Recorded<'_>, name: String) -> (Row, Option<String>) {
        let body = &recorded.body;
        let (constraint, reason) = match constraint(body) {
            Ok(constraint) => (constraint.map(Arc::new), None),
            Err(reason) => (None, Some(reason)),
        };
        let model = body["model"].as_str();
        let limit = body.as_object().and_then(limit);
        let row = Row {
            constraint,
            model: model.filter(|_| self.keep_model).map(Into::into),
            output_len: Some(limit.map_or(NO_LIMIT, |(_, limit)| limit)),
            tags: recorded
                .id
                .iter()
                .map(|id| format!("{NAME_TAG}{id}"))
                .collect(),
            name,
            ..Row::unconstrained(Prompt::Body(recorded.text.into()))
        };
        (row, reason)
    }
}

/// A line of the file.
struct Recorded<'l> {
    /// The `custom_id` of a line of batch input.
    id: Option<String>,
    /// The body as it was written.
    text: &'l str,
    /// An object.
    body: Value,
}

impl<'l> Recorded<'l> {
    fn read(line: &'l str) -> std::result::Result<Self, String> {
        let object = |text: &str| match serde_json::from_str(text) {
            Ok(value @ Value::Object(_)) => Ok(value),
            Ok(_) => Err("not an object".to_owned()),
            Err(error) => Err(format!("not JSON: {}", message_without_line(&error))),
        };
        #[derive(Deserialize)]
        struct BatchLine<'l> {
            #[serde(borrow)]
            body: &'l RawValue,
            custom_id: Option<String>,
        }
        let whole = object(line)?;
        let is_body = |body: &Value| PROMPTS.iter().any(|name| body.get(name).is_some());
        let (id, text, body) = if is_body(&whole) {
            (None, line.trim(), whole)
        } else {
            let batch: BatchLine<'_> =
                serde_json::from_str(line).map_err(|_| "no request body".to_owned())?;
            let text = batch.body.get();
            (batch.custom_id, text, object(text)?)
        };
        match is_body(&body) {
            true => Ok(Self { id, text, body }),
            false => Err("a body without messages, prompt or input".to_owned()),
        }
    }
}

/// The constraint that a body states, or why answers cannot be judged by it.
fn constraint(body: &Value) -> std::result::Result<Option<Constraint>, String> {
    let (mut tools, mut texts) = (None, Vec::new());
    for (pointer, _, part) in fields(body)? {
        match part {
            Part::Tools(list) => tools = Some(list),
            Part::Schema(schema) => {
                texts.push((pointer, Constraint::JsonSchema(Arc::new(schema))));
            }
            Part::Text(constraint) => texts.push((pointer, constraint)),
        }
    }
    let names: Vec<String> = texts.iter().map(|(pointer, _)| label(pointer)).collect();
    let constraint = match (tools, texts.pop()) {
        (Some(tools), None) => Some(Constraint::Tools(Arc::new(tool_set(tools, body)?))),
        (Some(_), Some(_)) => return Err(format!("tools beside {}", names.join(" and "))),
        (None, Some(_)) if !texts.is_empty() => return Err(names.join(" and ")),
        (None, constraint) => constraint.map(|(_, constraint)| constraint),
    };
    check_schemas(constraint.as_ref())?;
    Ok(constraint)
}

fn tool_set(tools: Vec<Value>, body: &Value) -> std::result::Result<ToolSet, String> {
    let is_other = |tool: &&Value| !matches!(tool["type"].as_str(), Some("function" | "custom"));
    if let Some(other) = tools.iter().find(is_other) {
        return Err(format!("tools of the type {}", other["type"]));
    }
    let mut members = Map::from_iter([("tools".to_owned(), tools.into())]);
    let choice = &body["tool_choice"];
    let chat = chat_choice(choice).unwrap_or_else(|| choice.clone());
    members.insert("tool_choice".to_owned(), chat);
    let several = match choice["disable_parallel_tool_use"].as_bool() {
        Some(is_single) => (!is_single).into(),
        None => body["parallel_tool_calls"].clone(),
    };
    members.insert("parallel_tool_calls".to_owned(), several);
    ToolSet::from_members(&members).map_err(|error| error.what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::tests::{plan, rows, tokenizer};
    use crate::dataset::{DatasetName, Source, load};
    use sobench_core::case::Arm;
    use sobench_notices::notice::sentences;

    fn plan_of(path: &Path, num_prompts: usize) -> DatasetPlan {
        let options = RequestsPlan {
            dataset_path: path.to_str().map(str::to_owned),
            ..RequestsPlan::default()
        };
        DatasetPlan {
            num_prompts,
            source: Source::Requests(options),
            ..plan(DatasetName::Requests)
        }
    }

    #[test]
    fn bodies_are_kept_and_judged_by_their_own_constraint() {
        let chat = |more: &str| format!(r#"{{"model" : "m","messages":[]{more}}}"#);
        let function = r#""tools":[{"type":"function","function":{"name":"f"}}]"#;
        let lines = [
            (chat(""), "none"),
            (chat(r#","response_format":{"type":"json_object"}"#), "json_object"),
            (chat(r#","response_format":{"type":"text"}"#), "none"),
            (chat(r#","structured_outputs":{"regex":"a"},"max_tokens":7"#), "regex"),
            (chat(r#","guided_choice":["a"]"#), "choice"),
            (chat(&format!(",{function},\"tool_choice\":\"required\"")), "tools"),
            (
                r#"{"input":"","text":{"format":{"type":"json_schema","name":"n","schema":{}}}}"#.to_owned(),
                "json",
            ),
            (
                r#"{"messages":[],"max_tokens":9,"output_config":{"format":{"type":"json_schema","schema":{}}}}"#
                    .to_owned(),
                "json",
            ),
            (
                r#"{"messages":[],"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"tool","name":"f"}}"#
                    .to_owned(),
                "tools",
            ),
            (
                r#"{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":"p", "json_schema":{}}}"#
                    .to_owned(),
                "json",
            ),
            (
                chat(&format!(",{function},\"response_format\":{{\"type\":\"json_object\"}}")),
                "none",
            ),
            (chat(r#","tools":[{"type":"function","function":{"name":"f"}},{"type":"mcp"}]"#), "none"),
        ];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("requests.jsonl");
        let text: Vec<&str> = lines.iter().map(|(line, _)| line.as_str()).collect();
        std::fs::write(&path, format!("\u{feff}{}\r\n", text.join("\r\n"))).unwrap();
        let loaded = load(&plan_of(&path, lines.len()), &tokenizer()).unwrap();
        for (case, (line, kind)) in loaded.cases.iter().zip(&lines) {
            let Prompt::Body(body) = &case.prompt else {
                panic!("{:?}", case.prompt)
            };
            let sent = line
                .split_once("\"body\":")
                .map_or(&line[..], |(_, rest)| &rest[..rest.len() - 1]);
            assert_eq!(&**body, sent);
            let found = case
                .constraint
                .as_ref()
                .map_or("none".to_owned(), |constraint| {
                    constraint.kind().to_string()
                });
            assert_eq!(found, *kind, "{line}");
            let limit = [("7", 7), ("9", 9)]
                .into_iter()
                .find(|(limit, _)| line.contains(&format!("\"max_tokens\":{limit}")));
            assert_eq!(case.output_len, limit.map_or(NO_LIMIT, |(_, limit)| limit));
            assert_eq!(case.arm == Arm::Free, *kind == "none");
        }
        assert_eq!(
            sentences(&loaded.notices),
            [
                "not judged: 1 of the requests (tools beside response_format)",
                "not judged: 1 of the requests (tools of the type \"mcp\")"
            ]
        );
    }

    #[test]
    fn errors_name_the_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("requests.jsonl");
        let body = r#"{"messages":[]}"#;
        for (text, message) in [
            (String::new(), "no rows in"),
            (format!("{body}\n\n{{"), "line 3: not JSON"),
            (format!("{body}\n[]"), "line 2: not an object"),
            (r#"{"a":1}"#.to_owned(), "line 1: no request body"),
            (
                r#"{"body":{"model":"m"}}"#.to_owned(),
                "line 1: a body without messages",
            ),
            (r#"{"body":[]}"#.to_owned(), "line 1: not an object"),
            (
                format!("{{\"custom_id\":\"a\",\"body\":{body}}}\n").repeat(2),
                "line 2: the custom_id is not unique: \"a\"",
            ),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = rows(&plan_of(&path, 1), &tokenizer()).unwrap_err();
            assert!(error.what.contains(message), "{error}");
        }
    }
}
