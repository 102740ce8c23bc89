//! The dataset `requests`: recorded requests ([`crate::recorded`]), whose bodies are sent as they
//! are. Answers are judged by the constraint or the tools of the body.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::custom::{NAME_TAG, check_schemas};
use super::file::{MAX_DATASET_BYTES, check_rows, required};
use super::flags::{PathFlags, ShortfallFlags};
use super::registry::{ConstraintScope, DatasetKind, Inputs, Spec};
use super::trace_prompts::TracePrompts;
use super::{ContextFlags, DatasetArgs, DatasetPlan, Row, Rows, RowsKind, Shortfall, ToolsFlags};
use crate::recorded::{self, Content, Found, Request};
use crate::request_body::{Part, fields, label};
use sobench_core::case::Prompt;
use sobench_core::constraint::Constraint;
use sobench_core::error::{Error, Result};
use sobench_core::input::json::message_without_line;
use sobench_core::recorded::{NO_LIMIT, limit};
use sobench_core::tools::{ToolSet, chat_choice};
use sobench_notices::notice::DatasetNotice;

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
            ToolsFlags::augment_args,
            ContextFlags::augment_args,
        ],
        replaces_row_lengths: true,
        is_templated: false,
        ..Spec::new("requests", ConstraintScope::PerRow)
    };

    fn new(flags: &DatasetArgs) -> Result<Self> {
        flags.tools.check()?;
        Ok(Self {
            dataset_path: flags.path.path(),
            keep_model: flags.rows.requests.keep_model,
            shortfall: flags.rows.shortfall.shortfall(),
        })
    }

    /// The first requests of the file, as many as the plan needs, by their time. The others are
    /// counted and checked.
    fn rows(&self, plan: &DatasetPlan, inputs: &Inputs<'_>) -> Result<Rows> {
        let hint = "give --dataset-path a file of recorded requests, such as a JSONL file with one request body per line";
        let path = required(self.dataset_path.as_deref(), Self::SPEC.name, hint)?;
        let mut prompts = TracePrompts::new(inputs.tokenizer, plan.seed);
        let mut names = Names::default();
        let mut skipped: BTreeMap<String, usize> = BTreeMap::new();
        let mut unjudged = skipped.clone();
        let (mut rows, mut available) = (Vec::new(), 0);
        let mut take = |place: String, _: &'static str, found: Found<'_>| {
            let request = match found {
                Found::Request(request) => request,
                Found::Skipped(reason) => {
                    *skipped.entry(reason.to_owned()).or_default() += 1;
                    return Ok(());
                }
            };
            names.add(&place, &request)?;
            available += 1;
            if rows.len() < plan.rows_needed() {
                let (row, reason) = self.row(&request, place, &mut prompts)?;
                rows.push(row);
                if let Some(reason) = reason {
                    *unjudged.entry(reason).or_default() += 1;
                }
            }
            Ok(())
        };
        recorded::read(
            Path::new(path),
            MAX_DATASET_BYTES,
            inputs.progress,
            &mut take,
        )?;
        if let (0, Some((reason, _))) = (available, skipped.first_key_value()) {
            return Err(Error::usage(format!("no requests in {path}: {reason}")).hint(hint));
        }
        check_rows(available, path)?;
        if rows.iter().all(|row: &Row| row.at.is_some()) {
            rows.sort_by(|one, other| {
                f64::total_cmp(&one.at.unwrap_or(0.0), &other.at.unwrap_or(0.0))
            });
        }
        let skipped = skipped.into_iter();
        let skipped =
            skipped.map(|(reason, rows)| DatasetNotice::RequestsSkipped { rows, reason }.into());
        let unjudged = unjudged.into_iter();
        let unjudged =
            unjudged.map(|(reason, rows)| DatasetNotice::RequestsNotJudged { rows, reason }.into());
        Ok(Rows {
            available,
            notices: skipped.chain(unjudged).chain(prompts.notice()).collect(),
            ..Rows::new(rows, RowsKind::Collected(self.shortfall), path)
        })
    }

    fn path(&self) -> Option<&str> {
        self.dataset_path.as_deref()
    }
}

impl RequestsPlan {
    /// The row of a request, and why it is not judged although it has a constraint.
    fn row(
        &self,
        request: &Request<'_>,
        name: String,
        prompts: &mut TracePrompts<'_>,
    ) -> Result<(Row, Option<String>)> {
        let tags = request.id.iter().map(|id| format!("{NAME_TAG}{id}"));
        let row = Row {
            at: request.at,
            tags: tags.collect(),
            name,
            ..Row::unconstrained(Prompt::Text("".into()))
        };
        let unjudged = request.unjudged.map(str::to_owned);
        let text = match &request.content {
            Content::Body(text) => text,
            Content::Lengths(lengths) => {
                let row = Row {
                    prompt: Prompt::Text(prompts.text(lengths)?.into()),
                    output_len: Some(lengths.output.max(1)),
                    ..row
                };
                return Ok((row, unjudged));
            }
        };
        let body = body(text, &row.name)?;
        let (constraint, reason) = match constraint(&body) {
            Ok(constraint) => (constraint.map(Arc::new), unjudged),
            Err(reason) => (None, Some(reason)),
        };
        let model = body["model"].as_str().filter(|model| !model.is_empty());
        let limit = limit(|name| body[name].as_u64());
        let row = Row {
            prompt: Prompt::Body((&**text).into()),
            constraint,
            model: model.filter(|_| self.keep_model).map(Into::into),
            output_len: Some(limit.map_or(NO_LIMIT, |(_, limit)| limit)),
            ..row
        };
        Ok((row, reason))
    }
}

/// The names of the requests of a file, which must differ.
#[derive(Default)]
pub struct Names(HashSet<String>);

impl Names {
    /// Adds the name of a request.
    ///
    /// # Errors
    /// Another request has it.
    pub fn add(&mut self, place: &str, request: &Request<'_>) -> Result<()> {
        match &request.id {
            Some(id) if !self.0.insert(id.clone()) => Err(Error::usage(format!(
                "{place}: the custom_id is not unique: {id:?}"
            ))
            .hint("give each request its own custom_id, or remove the copy")),
            _ => Ok(()),
        }
    }
}

/// The value of a body.
///
/// # Errors
/// A number or a string in it is invalid.
pub fn body(text: &str, place: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|error| {
        let what = message_without_line(&error);
        Error::usage(format!("{place}: not JSON: {what}"))
            .hint("correct this request, or remove it")
    })
}

/// Why answers cannot be judged by a body that has a constraint; `None` if they can.
pub fn unjudged(body: &Value) -> Option<String> {
    constraint(body).err()
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
