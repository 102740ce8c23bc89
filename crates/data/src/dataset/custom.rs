//! The dataset `custom`: the user's rows, as JSON Lines. The contract is
//! `schemas/contracts/dataset-row.schema.json`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::file::{check_rows, read_lines_with, required};
use super::flags::{PathFlags, ShortfallFlags};
use super::json::{JsonSchemaPathFlags, check_schema, read_schema};
use super::message::messages;
use super::registry::{ConstraintScope, DatasetKind, Inputs, ReferenceCheck, Spec, above_zero};
use super::{DatasetArgs, DatasetPlan, Row, Rows, RowsKind, Shortfall, notation};
use sobench_core::case::Prompt;
use sobench_core::constraint::{AlwaysTrue, Constraint, ConstraintKind, GrammarDialect};
use sobench_core::error::{Error, Result};
use sobench_core::input::json::{self, DuplicateKeys};
use sobench_core::scorer::Scorer;
use sobench_core::tools::{self, ToolSet};
use sobench_judge::function_calls::expected_calls;
use sobench_notices::notice::DatasetNotice;
use sobench_plan::dataset::OutputLength;

/// The fields of a row that hold a constraint of the text of its answer.
pub const CONSTRAINTS: [&str; 7] = [
    "json",
    "json_schema",
    "json_object",
    "regex",
    "choice",
    "grammar",
    "structural_tag",
];

/// The fields of a row beside its constraint.
const OTHER_FIELDS: [&str; 13] = [
    "id",
    "name",
    "prompt",
    "messages",
    "question",
    "grammar_oracle",
    "output_len",
    "output_tokens",
    "completion",
    "reference",
    "score",
    "tags",
    "instances",
];

/// Prefix of the tag that holds the name of a row.
pub const NAME_TAG: &str = "name:";

/// The hint for a row with a schema that [`check_schema`] refuses.
pub const BROKEN_SCHEMA_HINT: &str = "fix the schema of this row, or remove the row";

/// The flags of `custom`.
#[derive(Args, Clone, Debug, Default)]
pub struct CustomFlags {
    /// Tokens of each answer to custom; overrides the rows; -1 requires a length in each row
    /// [default: the row's length, else --output-len]
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    pub custom_output_len: Option<i64>,
    /// Send the prompts of custom unchanged (this is always the case)
    #[arg(long)]
    pub skip_chat_template: bool,
}

/// The options of `custom`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CustomPlan {
    pub dataset_path: Option<String>,
    /// JSON Schema for rows without a constraint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json_schema_path: Option<PathBuf>,
    pub shortfall: Shortfall,
}

impl DatasetKind for CustomPlan {
    const SPEC: Spec = Spec {
        flags: &[
            PathFlags::augment_args,
            ShortfallFlags::augment_args,
            JsonSchemaPathFlags::augment_args,
            CustomFlags::augment_args,
        ],
        has_grammars: true,
        references: ReferenceCheck::Refuse,
        ..Spec::new("custom", ConstraintScope::PerRow)
    };

    fn new(flags: &DatasetArgs) -> Result<Self> {
        Ok(Self {
            dataset_path: flags.path.path(),
            json_schema_path: flags.json.path.json_schema_path.clone().map(Into::into),
            shortfall: flags.rows.shortfall.shortfall(),
        })
    }

    /// The first rows of the file, as many as the plan needs. The others are counted, and the last
    /// one is checked.
    fn rows(&self, plan: &DatasetPlan, inputs: &Inputs<'_>) -> Result<Rows> {
        let path = required(
            self.dataset_path.as_deref(),
            CustomPlan::SPEC.name,
            "give --dataset-path a JSONL file with one row per line",
        )?;
        let default = self
            .json_schema_path
            .as_deref()
            .map(read_schema)
            .transpose()?;
        let (default, schema_notice) = default.unzip();
        let default = default.map(|schema| Arc::new(Constraint::JsonSchema(Arc::new(schema))));
        let mut repeated = DuplicateKeys::default();
        let mut constraints = SharedConstraints::default();
        let mut read = |(number, line): (usize, String)| {
            let name = format!("{path}, line {number}");
            repeated.scan(&line, |_| name.clone());
            let wrong = |error: String| Error::usage(format!("{name}: {error}"));
            let known = constraints.0.len();
            let row = row(&line, &name, &mut constraints).map_err(|error| {
                wrong(error).hint("use prompt or messages, at most one constraint, and optionally id, name, question, grammar_oracle, output_len, completion or reference, score, tags and instances")
            })?;
            if constraints.0.len() > known {
                check_schemas(row.constraint.as_deref())
                    .map_err(|error| wrong(error).hint(BROKEN_SCHEMA_HINT))?;
            }
            Ok::<_, Error>(Row {
                constraint: row.constraint.or_else(|| default.clone()),
                ..row
            })
        };
        let (mut rows, mut available, mut last) = (Vec::new(), 0, None);
        for line in read_lines_with(Path::new(path), inputs.progress)? {
            let line = line?;
            available += 1;
            if rows.len() < plan.rows_needed() {
                rows.push(read(line)?);
            } else {
                last = Some(line);
            }
        }
        // A file that was cut off has a broken last row.
        last.map(read).transpose()?;
        check_rows(available, path)?;
        let notices = schema_notice
            .flatten()
            .into_iter()
            .chain(DatasetNotice::repeated_members(repeated))
            .collect();
        let rows = Rows {
            available,
            notices,
            ..Rows::new(rows, RowsKind::Collected(self.shortfall), path)
        };
        Ok(notation::convert_rows(plan, rows))
    }

    fn path(&self) -> Option<&str> {
        self.dataset_path.as_deref()
    }

    /// A row's own length overrides `--output-len`. `--custom-output-len` overrides both.
    fn output_len(flags: &DatasetArgs, general: Option<u32>) -> Result<(u32, OutputLength)> {
        let general = general
            .map(|length| above_zero("--output-len", length))
            .transpose()?;
        match flags.rows.custom.custom_output_len {
            None => Ok((
                general.unwrap_or(Self::SPEC.output_len),
                OutputLength::RowOrDefault,
            )),
            Some(_) if general.is_some() => Err(Error::usage(
                "--custom-output-len and --output-len both set the answer length",
            )
            .hint("remove one of them; --output-len applies to rows without a length")),
            Some(-1) => Ok((Self::SPEC.output_len, OutputLength::RowRequired)),
            Some(length) => {
                let tokens = u32::try_from(length)
                    .ok()
                    .filter(|tokens| *tokens > 0)
                    .ok_or_else(|| {
                        Error::usage(format!(
                            "--custom-output-len is not a number of tokens: {length}"
                        ))
                        .hint("give 1 or more for all answers, or -1 to use the length of each row")
                    })?;
                Ok((tokens, OutputLength::Fixed))
            }
        }
    }
}

/// The constraints of rows by the digest of their text: rows with the same one share it, so that it
/// is read and checked once.
#[derive(Default)]
pub(super) struct SharedConstraints(HashMap<[u8; 32], Option<Arc<Constraint>>>);

/// The members of a row as text.
type RawMembers<'l> = HashMap<String, &'l RawValue>;

/// Whether a row may have this field.
pub fn is_field(name: &str) -> bool {
    OTHER_FIELDS.contains(&name) || constraint_members().any(|member| member == name)
}

fn constraint_members() -> impl Iterator<Item = &'static str> {
    CONSTRAINTS.into_iter().chain(tools::MEMBERS)
}

/// The digest of the text of a constraint.
fn constraint_digest(members: &RawMembers<'_>) -> [u8; 32] {
    let mut hash = Sha256::new();
    for (name, value) in constraint_members().filter_map(|name| members.get_key_value(name)) {
        hash.update(format!("{} {name} {value}", value.get().len()));
    }
    hash.finalize().into()
}

/// The members beside the constraint. `None` if any is broken or not a field.
fn other_members(members: &RawMembers<'_>) -> Option<Map<String, Value>> {
    members
        .iter()
        .filter(|(name, _)| !constraint_members().any(|of_constraint| of_constraint == *name))
        .map(|(name, value)| {
            let value = serde_json::from_str(value.get()).ok()?;
            is_field(name).then(|| (name.clone(), value))
        })
        .collect()
}

/// The members of a row.
fn members(line: &str) -> std::result::Result<Map<String, Value>, String> {
    match serde_json::from_str(line) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err("a row must be an object".to_owned()),
        Err(error) => Err(format!("not JSON: {}", json::message_without_line(&error))),
    }
}

/// Parses a row. `location` is its name in errors. A constraint that is known is not read again.
pub(super) fn row(
    line: &str,
    location: &str,
    constraints: &mut SharedConstraints,
) -> std::result::Result<Row, String> {
    let raw: Option<RawMembers<'_>> = serde_json::from_str(line).ok();
    let digest = raw.as_ref().map(constraint_digest);
    let known = digest.and_then(|digest| constraints.0.get(&digest).cloned());
    let others = raw
        .filter(|_| known.is_some())
        .as_ref()
        .and_then(other_members);
    // Errors name the first broken member, and where it is.
    let members = &others.map_or_else(|| members(line), Ok)?;
    if let Some(unknown) = members.keys().find(|name| !is_field(name)) {
        return Err(format!("unknown field: {unknown}"));
    }
    let example = first_valid_example(members)?;
    let completion = completion(members)?;
    let constraint = match known {
        Some(constraint) => constraint,
        None => {
            let read = constraint_or_tools(members)?.map(Arc::new);
            constraints
                .0
                .extend(digest.map(|digest| (digest, read.clone())));
            read
        }
    };
    Ok(Row {
        prompt: prompt(members)?,
        question: question(members)?,
        score: scorer(members, constraint.as_deref(), completion.as_deref())?,
        grammar_oracle: grammar_oracle(members, constraint.as_deref())?.map(Arc::from),
        constraint,
        output_len: length(members)?,
        model: None,
        at: None,
        turn: None,
        completion: completion.or(example),
        tags: tags(members)?,
        name: match members.get("id") {
            Some(id) => format!("{location} (id {id})"),
            None => location.to_owned(),
        },
    })
}

/// Checks the schema of a constraint, or those of its tools.
pub(super) fn check_schemas(constraint: Option<&Constraint>) -> std::result::Result<(), String> {
    let tools = constraint.and_then(Constraint::tools);
    for tool in tools.into_iter().flat_map(|set| &set.tools) {
        let checked = tool.parameters().map_or(Ok(()), check_schema);
        checked.map_err(|error| format!("tool {}: {error}", tool.name))?;
    }
    let schema = constraint.and_then(Constraint::schema);
    schema.map_or(Ok(()), |schema| check_schema(schema))
}

/// The constraint of the answer's text, or its tools.
fn constraint_or_tools(
    members: &Map<String, Value>,
) -> std::result::Result<Option<Constraint>, String> {
    let constraint = constraint(members)?;
    if !members.contains_key("tools") {
        return match tools::MEMBERS
            .iter()
            .find(|name| members.contains_key(**name))
        {
            Some(name) => Err(format!("{name} needs tools")),
            None => Ok(constraint),
        };
    }
    if let Some(constraint) = constraint {
        let kind = constraint.kind();
        return Err(format!(
            "a row has at most one constraint, not both {kind} and tools"
        ));
    }
    let set = ToolSet::from_members(members).map_err(|error| match error.hint {
        Some(hint) => format!("{}; {hint}", error.what),
        None => error.what,
    })?;
    Ok(Some(Constraint::Tools(Arc::new(set))))
}

/// The text of `completion` or of `reference`, which is a text or any other JSON.
fn completion(members: &Map<String, Value>) -> std::result::Result<Option<String>, String> {
    match (members.get("completion"), members.get("reference")) {
        (Some(_), Some(_)) => Err("a row has completion or reference, not both".to_owned()),
        (Some(value), None) => text("completion", value).map(Some),
        (None, Some(Value::String(text))) => Ok(Some(text.clone())),
        (None, Some(value)) => Ok(Some(value.to_string())),
        (None, None) => Ok(None),
    }
}

/// The scorer of `score`; without it, that of a `reference` by its constraint, and the one of
/// expected calls.
fn scorer(
    members: &Map<String, Value>,
    constraint: Option<&Constraint>,
    completion: Option<&str>,
) -> std::result::Result<Option<Scorer>, String> {
    let known = || Scorer::ALL.map(Scorer::name).join(", ");
    if let Some(score) = members.get("score") {
        let scorer = score.as_str().and_then(Scorer::from_name);
        let scorer = scorer.ok_or_else(|| format!("score must be one of {}", known()))?;
        return match completion {
            Some(_) => Ok(Some(scorer)),
            None => Err("score needs a reference or a completion".to_owned()),
        };
    }
    let has_calls = completion.is_some_and(|text| expected_calls(text).is_some());
    if has_calls {
        return Ok(Some(Scorer::Calls));
    }
    if !members.contains_key("reference") {
        return Ok(None);
    }
    let scorer = constraint.and_then(Constraint::scorer);
    let unknown = || format!("reference needs a score: one of {}", known());
    scorer.map(Some).ok_or_else(unknown)
}

/// The prompt without schema and format instructions: a text or messages.
fn question(members: &Map<String, Value>) -> std::result::Result<Option<Prompt>, String> {
    match members.get("question") {
        None => Ok(None),
        Some(Value::String(text)) => {
            let text = not_empty("question", text.clone())?;
            Ok(Some(Prompt::Text(text.into())))
        }
        Some(value) => {
            let messages = messages("question", value)?;
            Ok(Some(Prompt::Messages(messages.into())))
        }
    }
}

/// The tags, and one for the name of the row.
fn tags(members: &Map<String, Value>) -> std::result::Result<Vec<String>, String> {
    let mut tags = members
        .get("tags")
        .map_or(Ok(Vec::new()), |value| texts("tags", value))?;
    if let Some(name) = members.get("name") {
        let name = not_empty("name", text("name", name)?)?;
        tags.push(format!("{NAME_TAG}{name}"));
    }
    Ok(tags)
}

fn grammar_oracle(
    members: &Map<String, Value>,
    constraint: Option<&Constraint>,
) -> std::result::Result<Option<String>, String> {
    let Some(oracle) = members.get("grammar_oracle") else {
        return Ok(None);
    };
    let oracle = text("grammar_oracle", oracle)?;
    if oracle.trim().is_empty() {
        return Err("grammar_oracle is blank".to_owned());
    }
    if constraint.and_then(Constraint::grammar).is_none() {
        return Err("grammar_oracle needs a grammar".to_owned());
    }
    Ok(Some(oracle))
}

/// The first valid example of `instances`, as text: the reference answer of a row without a
/// completion.
fn first_valid_example(
    members: &Map<String, Value>,
) -> std::result::Result<Option<String>, String> {
    let mut first = None;
    for (index, instance) in members
        .get("instances")
        .map_or(Ok(&[][..]), |list| {
            list.as_array()
                .map(Vec::as_slice)
                .ok_or("instances must be a list")
        })?
        .iter()
        .enumerate()
    {
        let (text, valid) =
            example(instance).map_err(|error| format!("instances[{index}]: {error}"))?;
        if valid {
            first.get_or_insert(text);
        }
    }
    Ok(first)
}

/// The text of an example, and whether it is marked as valid.
fn example(instance: &Value) -> std::result::Result<(String, bool), String> {
    let members = instance
        .as_object()
        .ok_or("an instance must be an object")?;
    let mut valid = false;
    for (name, value) in members {
        match (name.as_str(), value) {
            ("data", _) | ("text" | "description", Value::String(_)) => {}
            ("valid", Value::Bool(is_valid)) => valid = *is_valid,
            ("text" | "description", _) => return Err(format!("{name} must be a string")),
            ("valid", _) => return Err("valid must be true or false".to_owned()),
            _ => return Err(format!("unknown field: {name}")),
        }
    }
    match (members.get("data"), members.get("text")) {
        (Some(data), None) => Ok((data.to_string(), valid)),
        (None, Some(text)) => Ok((text.as_str().unwrap_or_default().to_owned(), valid)),
        _ => Err("an instance has data or text".to_owned()),
    }
}

fn prompt(members: &Map<String, Value>) -> std::result::Result<Prompt, String> {
    match (members.get("prompt"), members.get("messages")) {
        (Some(prompt), None) => Ok(Prompt::Text(
            not_empty("prompt", text("prompt", prompt)?)?.into(),
        )),
        (None, Some(list)) => Ok(Prompt::Messages(messages("messages", list)?.into())),
        (Some(_), Some(_)) => Err("a row has prompt or messages, not both".to_owned()),
        (None, None) => Err("neither prompt nor messages".to_owned()),
    }
}

/// The constraint among these members of a row; `json_schema` is another name of `json`.
pub fn constraint(members: &Map<String, Value>) -> std::result::Result<Option<Constraint>, String> {
    let mut found = None;
    for (name, value) in members {
        let kind = match name.as_str() {
            "json_schema" => Some(ConstraintKind::JsonSchema),
            name => ConstraintKind::from_name(name),
        };
        let read = match kind {
            Some(ConstraintKind::JsonSchema) => json(name, value)?,
            Some(ConstraintKind::JsonObject) => match value {
                Value::Bool(true) => Constraint::JsonObject(AlwaysTrue),
                _ => return Err("json_object must be true".to_owned()),
            },
            Some(ConstraintKind::Regex) => Constraint::Regex(text("regex", value)?.into()),
            Some(ConstraintKind::Choice) => choice(value)?,
            Some(ConstraintKind::Grammar) => grammar(value)?,
            Some(ConstraintKind::StructuralTag) if value.is_object() => {
                Constraint::StructuralTag(Arc::new(value.clone()))
            }
            Some(ConstraintKind::StructuralTag) => {
                return Err("structural_tag must be an object".to_owned());
            }
            Some(ConstraintKind::Tools) | None => continue,
        };
        if let Some(earlier) = found.replace((name, read)) {
            return Err(format!(
                "a row has at most one constraint, not both {} and {name}",
                earlier.0
            ));
        }
    }
    Ok(found.map(|(_, constraint)| constraint))
}

fn json(name: &str, value: &Value) -> std::result::Result<Constraint, String> {
    match value {
        Value::Object(_) | Value::Bool(_) => Ok(Constraint::JsonSchema(Arc::new(value.clone()))),
        Value::String(_) => Err(format!(
            "{name} must be the schema itself, not a string that contains it"
        )),
        _ => Err(format!(
            "{name} must be a JSON Schema, which is an object or a boolean"
        )),
    }
}

fn choice(value: &Value) -> std::result::Result<Constraint, String> {
    let choices = texts("choice", value)?;
    if choices.is_empty() {
        Err("choice must have at least one string".to_owned())
    } else {
        Ok(Constraint::Choice(choices.into()))
    }
}

/// A grammar is a string, whose notation is detected, or `{dialect, text}`.
fn grammar(value: &Value) -> std::result::Result<Constraint, String> {
    let (dialect, text) = match value {
        Value::String(text) => (GrammarDialect::detect(text), text),
        Value::Object(members) => {
            let dialect = match members.get("dialect").and_then(Value::as_str) {
                Some("lark") => GrammarDialect::Lark,
                Some("ebnf") => GrammarDialect::Ebnf,
                _ => return Err("grammar.dialect must be lark or ebnf".to_owned()),
            };
            let Some(Value::String(text)) = members.get("text") else {
                return Err("grammar.text must be a string".to_owned());
            };
            if let Some(unknown) = members
                .keys()
                .find(|name| !matches!(name.as_str(), "dialect" | "text"))
            {
                return Err(format!("grammar has only dialect and text: {unknown:?}"));
            }
            (dialect, text)
        }
        _ => return Err("grammar must be a string, or an object with dialect and text".to_owned()),
    };
    if text.trim().is_empty() {
        return Err("grammar is blank".to_owned());
    }
    Ok(Constraint::Grammar {
        dialect,
        text: text.as_str().into(),
    })
}

/// `output_len`, or `output_tokens`, its name in `vllm bench serve`.
fn length(members: &Map<String, Value>) -> std::result::Result<Option<u32>, String> {
    match (members.get("output_len"), members.get("output_tokens")) {
        (Some(_), Some(_)) => Err("a row has output_len or output_tokens, not both".to_owned()),
        (Some(value), None) => output_len("output_len", value).map(Some),
        (None, Some(value)) => output_len("output_tokens", value).map(Some),
        (None, None) => Ok(None),
    }
}

fn output_len(field: &str, value: &Value) -> std::result::Result<u32, String> {
    // JSON Schema accepts 64.0 as an integer, and the loader must agree with its contract.
    let double = value
        .as_f64()
        .filter(|length| length.fract() == 0.0 && (1.0..=f64::from(u32::MAX)).contains(length));
    double
        .map(|length| length as u32)
        .ok_or_else(|| format!("{field} must be an integer from 1 to {}", u32::MAX))
}

fn text(field: &str, value: &Value) -> std::result::Result<String, String> {
    value
        .as_str()
        .map(str::to_owned)
        .ok_or_else(|| format!("{field} must be a string"))
}

fn not_empty(field: &str, text: String) -> std::result::Result<String, String> {
    if text.is_empty() {
        Err(format!("{field} is empty"))
    } else {
        Ok(text)
    }
}

pub fn texts(field: &str, value: &Value) -> std::result::Result<Vec<String>, String> {
    let items = value
        .as_array()
        .ok_or_else(|| format!("{field} must be a list of strings"))?;
    items
        .iter()
        .map(|item| text(field, item).map_err(|_| format!("{field} must be a list of strings")))
        .collect()
}

#[cfg(test)]
mod tests;
