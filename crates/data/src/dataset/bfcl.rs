//! The dataset `bfcl`: the Berkeley Function-Calling Leaderboard, with calls as JSON answers or as
//! calls of tools.
//!
//! Each category is a file, such as `BFCL_v3_simple.json`, of JSON Lines `{id, question: [[{role,
//! content}]], function: [{name, description, parameters}]}`. The expected calls are in
//! `possible_answer/` under the same name, as `{id, ground_truth: [{name: {parameter: [allowed
//! value]}}]}`. Of several turns the first is sent.
//!
//! By default a system message describes the functions, and the constraint is a JSON Schema for
//! `{"name", "arguments"}`, one branch per function (a list of such objects for several calls). This
//! works with every kind of server, and answers are judged as for other datasets. As tools
//! ([`CallForm::Tools`]), the functions are sent as `tools`, as `vllm bench serve` does, and the
//! model decides whether to call one. [`sobench_judge::function_calls`] compares the calls with the
//! reference that each case carries.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use ::regex::Regex;
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::file::check_rows;
use super::flags::{HubLengthFlags, OrderFlags, PathFlags, ShortfallFlags};
use super::message::messages;
use super::registry::{ConstraintScope, DOCUMENT_OUTPUT_LEN, DatasetKind, Inputs, Spec};
use super::table::read_lines;
use super::{DatasetArgs, DatasetPlan, Order, Row, Rows, RowsKind, Shortfall};
use crate::hub;
use crate::hub::{HubSettings, RepoKind};
use crate::tokenizer::python_json::dumps;
use sobench_core::case::{Message, Prompt};
use sobench_core::constraint::Constraint;
use sobench_core::error::{Error, Result};
use sobench_core::input::json::DuplicateKeys;
use sobench_core::input::list_files;
use sobench_core::progress::Progress;
use sobench_core::scorer::Scorer;
use sobench_core::tools::ToolSet;
use sobench_notices::notice::{DatasetNotice, Notice};

const REPOSITORY: &str = "gorilla-llm/Berkeley-Function-Calling-Leaderboard";
/// The default categories of vLLM.
const CATEGORIES: [&str; 3] = ["simple", "live_simple", "multiple"];
const ANSWERS: &str = "possible_answer";
/// Instructions of the system message. Written for this project.
const ONE_CALL: &str = "Answer with one call of one of these functions, as JSON: {\"name\": ..., \"arguments\": {...}}";
const SEVERAL_CALLS: &str = "Answer with a JSON list of calls of these functions, each {\"name\": ..., \"arguments\": {...}}";

/// The flags of `bfcl`.
#[derive(Args, Clone, Debug, Default)]
pub struct BfclFlags {
    /// Categories of bfcl [default: simple,live_simple,multiple]
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub bfcl_categories: Vec<String>,
    /// How the functions of bfcl are sent [default: json]
    #[arg(long, value_name = "FORM", value_enum)]
    pub bfcl_as: Option<CallForm>,
}

/// How functions are sent, and calls are returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum CallForm {
    /// In a system message, and the calls are JSON in the content
    #[default]
    Json,
    /// As tools, and the model decides whether to call one
    Tools,
}

impl CallForm {
    fn is_json(&self) -> bool {
        *self == Self::Json
    }
}

/// The options of `bfcl`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BfclPlan {
    /// A local path, or a repository of the Hub, `owner/name`.
    pub dataset_path: Option<String>,
    /// Names of categories. If empty, `CATEGORIES`.
    pub categories: Vec<String>,
    #[serde(rename = "bfcl_as", skip_serializing_if = "CallForm::is_json")]
    pub form: CallForm,
    pub order: Order,
    pub shortfall: Shortfall,
}

impl DatasetKind for BfclPlan {
    const SPEC: Spec = Spec {
        flags: &[
            PathFlags::augment_args,
            OrderFlags::augment_args,
            ShortfallFlags::augment_args,
            HubLengthFlags::augment_args,
            BfclFlags::augment_args,
        ],
        output_len: DOCUMENT_OUTPUT_LEN,
        own_output_len: |flags| flags.rows.hf.length.output_len(),
        ..Spec::new("bfcl", ConstraintScope::PerRow)
    };

    fn new(flags: &DatasetArgs) -> Result<Self> {
        Ok(Self {
            dataset_path: flags.path.path(),
            categories: flags
                .rows
                .bfcl
                .bfcl_categories
                .iter()
                .map(|name| name.trim().to_owned())
                .collect(),
            form: flags.rows.bfcl.bfcl_as.unwrap_or_default(),
            order: flags.rows.order.order(),
            shortfall: flags.rows.shortfall.shortfall(),
        })
    }

    /// The rows of all categories, one of each in turn and then shuffled, as in vLLM.
    fn rows(&self, plan: &DatasetPlan, inputs: &Inputs<'_>) -> Result<Rows> {
        let (categories, source, mut notices) = find(self, inputs.hub)?;
        let (mut by_category, mut repeated) = (Vec::new(), DuplicateKeys::default());
        for category in &categories {
            by_category.push(
                read_category(
                    category,
                    self.form,
                    &mut notices,
                    &mut repeated,
                    inputs.progress,
                )?
                .into_iter(),
            );
        }
        notices.extend(DatasetNotice::repeated_members(repeated));
        let mut rows = Vec::new();
        while let added @ 1.. = by_category
            .iter_mut()
            .filter_map(Iterator::next)
            .map(|row| rows.push(row))
            .count()
        {
            debug_assert!(added <= categories.len());
        }
        check_rows(rows.len(), &source)?;
        self.order.apply(plan.seed, &mut rows);
        Ok(Rows {
            notices,
            ..Rows::new(rows, RowsKind::Sampled(self.shortfall), source)
        })
    }

    fn path(&self) -> Option<&str> {
        self.dataset_path.as_deref()
    }
}

/// The file of a category's prompts, and the file of its expected calls, if it exists.
struct Category {
    name: String,
    questions: PathBuf,
    answers: Option<PathBuf>,
}

impl Category {
    /// Whether the expected answer is a list of calls.
    fn has_several_calls(&self) -> bool {
        self.name.contains("parallel")
    }

    /// Whether no function of a row fits its question.
    fn expects_no_call(&self) -> bool {
        self.name.contains("irrelevance")
    }
}

fn find(plan: &BfclPlan, hub: &HubSettings) -> Result<(Vec<Category>, String, Vec<Notice>)> {
    let name = plan.dataset_path.as_deref().unwrap_or(REPOSITORY);
    let path = Path::new(name);
    let selected: Vec<String> = match &plan.categories[..] {
        [] => CATEGORIES.map(str::to_owned).to_vec(),
        named => named.to_vec(),
    };
    if path.exists() && !path.is_dir() {
        let file = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let answers = path.with_file_name(ANSWERS).join(&file);
        let category =
            category_of(&file).unwrap_or_else(|| file.trim_end_matches(".json").to_owned());
        let answers = answers.is_file().then_some(answers);
        return Ok((
            vec![Category {
                name: category,
                questions: path.to_path_buf(),
                answers,
            }],
            name.to_owned(),
            Vec::new(),
        ));
    }
    if path.is_dir() {
        let files: Vec<(String, PathBuf)> = list_files(path)?
            .into_iter()
            .map(|file| (file.clone(), path.join(file)))
            .collect();
        return Ok((
            categories(&selected, &files, name)?,
            name.to_owned(),
            Vec::new(),
        ));
    }
    if !name.contains('/') || !hub::is_repo_id(name) {
        return Err(Error::usage(format!("no such dataset file or folder: {name}"))
            .hint("give --dataset-path a folder with BFCL_v3_*.json, one of those files, or owner/name on the Hub"));
    }
    let requested = selected.clone();
    let is_requested = move |file: &String| {
        category_of(file).is_some_and(|category| requested.contains(&category))
    };
    let snapshot = hub::fetch(hub, RepoKind::Dataset, name, move |files| {
        files
            .iter()
            .filter(|file| is_requested(file))
            .cloned()
            .collect()
    })?;
    let found = categories(&selected, &snapshot.files, name)?;
    let source = format!(
        "{name} at commit {}, {}",
        snapshot.commit,
        selected.join(", ")
    );
    Ok((found, source, snapshot.notice.into_iter().collect()))
}

/// The category of a file of prompts or expected calls.
fn category_of(file: &str) -> Option<String> {
    static NAME: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?:^|/)BFCL_v\d+_(\w+)\.json$")
            .expect("the expression is fixed and well formed")
    });
    NAME.captures(file).map(|found| found[1].to_owned())
}

fn categories(
    selected: &[String],
    files: &[(String, PathBuf)],
    name: &str,
) -> Result<Vec<Category>> {
    let is_answers = |file: &str| file.split('/').any(|folder| folder == ANSWERS);
    let find = |category: &str, answers: bool| {
        let mut fitting = files
            .iter()
            .filter(|(file, _)| category_of(file).as_deref() == Some(category));
        fitting
            .find(|(file, _)| is_answers(file) == answers)
            .map(|(_, path)| path.clone())
    };
    let category = |category: &String| {
        let questions = find(category, false).ok_or_else(|| {
            let mut available: Vec<String> = files
                .iter()
                .filter_map(|(file, _)| category_of(file))
                .collect();
            available.sort_unstable();
            available.dedup();
            Error::usage(format!("no category {category} in {name}")).hint(format!(
                "use --bfcl-categories with one or more of: {}",
                available.join(", ")
            ))
        })?;
        Ok(Category {
            name: category.clone(),
            questions,
            answers: find(category, true),
        })
    };
    selected.iter().map(category).collect()
}

fn read_category(
    category: &Category,
    form: CallForm,
    notices: &mut Vec<Notice>,
    repeated: &mut DuplicateKeys,
    progress: &dyn Progress,
) -> Result<Vec<Row>> {
    let mut answers = HashMap::new();
    if let Some(file) = &category.answers {
        for named in read_lines(file, repeated, progress)? {
            let (location, mut members) = named?;
            let id = id(&members, &location)?;
            let calls = members
                .remove("ground_truth")
                .ok_or_else(|| bad(&location, "no field ground_truth"))?;
            answers.insert(id, calls);
        }
    } else if !(form == CallForm::Tools && category.expects_no_call()) {
        notices.push(
            DatasetNotice::CategoryWithoutAnswers {
                category: category.name.clone(),
            }
            .into(),
        );
    }
    let (mut rows, mut without_functions) = (Vec::new(), 0);
    for named in read_lines(&category.questions, repeated, progress)? {
        let (location, members) = named?;
        let calls = answers.remove(&id(&members, &location)?);
        match members.get("function") {
            Some(Value::Array(functions)) if functions.is_empty() => without_functions += 1,
            _ => rows.push(row(&members, calls, category, form, location)?),
        }
    }
    if without_functions > 0 {
        notices.push(
            DatasetNotice::RowsWithoutFunctions {
                rows: without_functions,
                category: category.name.clone(),
            }
            .into(),
        );
    }
    Ok(rows)
}

fn id(members: &Map<String, Value>, location: &str) -> Result<String> {
    members
        .get("id")
        .and_then(Value::as_str)
        .map(str::to_owned)
        .ok_or_else(|| bad(location, "the field id is not a string"))
}

fn bad(location: &str, message: &str) -> Error {
    Error::usage(format!("{location}: {message}"))
        .hint("a row has id, question (a list of turns, each a list of messages) and function")
}

fn row(
    members: &Map<String, Value>,
    calls: Option<Value>,
    category: &Category,
    form: CallForm,
    location: String,
) -> Result<Row> {
    let turn = members
        .get("question")
        .and_then(|turns| turns.get(0))
        .ok_or_else(|| bad(&location, "question has no turn"))?;
    let mut chat = messages("question[0]", turn).map_err(|error| bad(&location, &error))?;
    let functions = match members.get("function") {
        Some(Value::Array(functions)) if !functions.is_empty() => functions.clone(),
        Some(function @ Value::Object(_)) => vec![function.clone()],
        _ => {
            return Err(bad(
                &location,
                "function is neither an object nor a list of objects",
            ));
        }
    };
    let name = |function: &Value| Some(function.get("name")?.as_str()?.to_owned());
    let names = functions.iter().map(name).collect::<Option<Vec<String>>>();
    let names = names.ok_or_else(|| bad(&location, "the name of a function is not a string"))?;
    let (constraint, calls) = match form {
        CallForm::Json => {
            let schema = answer_schema(&names, &functions, category.has_several_calls());
            describe_functions(&mut chat, functions, category.has_several_calls());
            (Constraint::JsonSchema(Arc::new(schema)), calls)
        }
        CallForm::Tools => {
            let tools: Value = names
                .iter()
                .zip(&functions)
                .map(|(name, function)| tool(name, function))
                .collect();
            let members = Map::from_iter([("tools".to_owned(), tools)]);
            let set = ToolSet::from_members(&members).map_err(|error| Error {
                what: format!("{location}: {}", error.what),
                ..error
            })?;
            let calls = match calls {
                None if category.expects_no_call() => Some(Value::Array(Vec::new())),
                calls => calls.map(with_tool_names),
            };
            (Constraint::Tools(Arc::new(set)), calls)
        }
    };
    Ok(Row {
        constraint: Some(Arc::new(constraint)),
        score: calls.is_some().then_some(Scorer::Calls),
        completion: calls.map(|calls| json!({"ground_truth": calls}).to_string()),
        tags: vec![category.name.clone()],
        name: location,
        ..Row::unconstrained(Prompt::Messages(chat.into()))
    })
}

/// Adds the functions to the system message.
fn describe_functions(chat: &mut Vec<Message>, functions: Vec<Value>, is_several: bool) {
    let instructions = if is_several { SEVERAL_CALLS } else { ONE_CALL };
    let instructions = format!("{instructions}\n\n{}", dumps(&Value::Array(functions)));
    match chat.first_mut().filter(|first| first.role == "system") {
        Some(Message {
            content: Value::String(text),
            ..
        }) => *text = format!("{text}\n\n{instructions}"),
        _ => chat.insert(0, Message::new("system", instructions)),
    }
}

/// The schema of an answer in JSON: one call, or a list of calls.
fn answer_schema(names: &[String], functions: &[Value], is_several: bool) -> Value {
    let calls = names.iter().zip(functions).map(|(name, function)| {
        json!({
            "type": "object",
            "properties": {"name": {"const": name}, "arguments": arguments_schema(function)},
            "required": ["name", "arguments"],
            "additionalProperties": false,
        })
    });
    let mut branches: Vec<Value> = calls.collect();
    let call = match branches.len() {
        1 => branches.remove(0),
        _ => json!({"anyOf": branches}),
    };
    if is_several {
        json!({"type": "array", "items": call, "minItems": 1})
    } else {
        call
    }
}

/// The function as a tool of a request. It is not strict: its parameters may be optional.
fn tool(name: &str, function: &Value) -> Value {
    let description = function.get("description").and_then(Value::as_str);
    json!({"type": "function", "function": {
        "name": tool_name(name),
        "description": description,
        "parameters": arguments_schema(function),
    }})
}

/// The name of a function as the name of a tool, which has no dots: the leaderboard replaces them
/// in the same way.
fn tool_name(name: &str) -> String {
    name.replace(
        |character: char| !character.is_ascii_alphanumeric() && !matches!(character, '_' | '-'),
        "_",
    )
}

/// The expected calls with the names of tools.
fn with_tool_names(calls: Value) -> Value {
    let renamed = |call: Value| match call {
        Value::Object(call) => call
            .into_iter()
            .map(|(name, parameters)| (tool_name(&name), parameters))
            .collect(),
        other => other,
    };
    match calls {
        Value::Array(calls) => calls.into_iter().map(renamed).collect(),
        other => other,
    }
}

/// The schema of the arguments of this function. Unknown parameters are not allowed.
fn arguments_schema(function: &Value) -> Value {
    let mut arguments = function
        .get("parameters")
        .map_or_else(|| json!({"type": "object"}), to_json_schema);
    if let Value::Object(members) = &mut arguments {
        members
            .entry("additionalProperties")
            .or_insert(Value::Bool(false));
    }
    arguments
}

/// Converts BFCL's schema language to JSON Schema: types of Python, Java and JavaScript become
/// those of JSON, and `any` becomes no type. Applies to schemas only, since a parameter may be
/// called `type`.
fn to_json_schema(schema: &Value) -> Value {
    let Value::Object(members) = schema else {
        return schema.clone();
    };
    let each = |value: &Value| match value {
        Value::Object(named) => Value::Object(
            named
                .iter()
                .map(|(name, schema)| (name.clone(), to_json_schema(schema)))
                .collect(),
        ),
        other => other.clone(),
    };
    let list = |value: &Value| match value {
        Value::Array(schemas) => Value::Array(schemas.iter().map(to_json_schema).collect()),
        other => to_json_schema(other),
    };
    let mut converted = Map::new();
    for (keyword, value) in members {
        let value = match (keyword.as_str(), value) {
            ("type", Value::String(name)) => match json_type(name) {
                Some(name) => Value::from(name),
                None => continue,
            },
            ("properties" | "patternProperties", value) => each(value),
            ("items" | "additionalProperties" | "anyOf" | "oneOf" | "allOf", value) => list(value),
            // These are written for people, and are not always valid JSON Schema.
            ("default" | "optional" | "example" | "examples" | "format", _) => continue,
            // Some rows mark a single parameter as required, where JSON Schema has a list.
            ("required", value) if !value.is_array() => continue,
            (_, value) => value.clone(),
        };
        converted.insert(keyword.clone(), value);
    }
    Value::Object(converted)
}

/// The type of JSON Schema for a type of BFCL. `None` means any value.
fn json_type(name: &str) -> Option<&'static str> {
    Some(match name {
        "dict" | "object" | "HashMap" | "Hashtable" => "object",
        "float" | "number" | "double" | "long_double" => "number",
        "integer" | "int" | "long" | "short" | "byte" | "Bigint" | "BigInt" => "integer",
        "array" | "list" | "tuple" | "ArrayList" | "Array" | "Queue" | "Stack" | "Set" => "array",
        "string" | "String" | "char" => "string",
        "boolean" | "Boolean" | "bool" => "boolean",
        "null" => "null",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::tests::{plan, rows};
    use crate::dataset::{DatasetName, Source};
    use crate::tokenizer::Tokenizer;
    use sobench_judge::function_calls;

    const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/datasets/bfcl");

    fn plan_with(path: &str, categories: &[&str]) -> BfclPlan {
        BfclPlan {
            dataset_path: Some(format!("{FIXTURES}{path}")),
            categories: categories.iter().map(|name| (*name).to_owned()).collect(),
            order: Order::AsStored,
            ..BfclPlan::default()
        }
    }

    fn read(options: &BfclPlan) -> Result<Rows> {
        rows(
            &DatasetPlan {
                source: Source::Bfcl(options.clone()),
                ..plan(DatasetName::Bfcl)
            },
            &Tokenizer::embedded(),
        )
    }

    fn schema(row: &Row) -> &Value {
        match row.constraint.as_deref() {
            Some(Constraint::JsonSchema(schema)) => schema,
            other => panic!("expected a schema: {other:?}"),
        }
    }

    #[test]
    fn prompts_include_the_functions_and_the_schema_of_a_call() {
        let read = read(&plan_with("", &["simple", "parallel"])).unwrap();
        let tags: Vec<&str> = read.rows.iter().map(|row| row.tags[0].as_str()).collect();
        assert_eq!(
            tags,
            ["simple", "parallel", "simple", "simple"],
            "one of each in turn"
        );
        let call = json!({
            "type": "object",
            "properties": {
                "name": {"const": "triangle.area"},
                "arguments": {
                    "type": "object",
                    "properties": {
                        "base": {"type": "integer", "description": "Its base."},
                        "height": {"type": "number", "description": "Its height."},
                        "unit": {"type": "string", "description": "Unit of length."}
                    },
                    "required": ["base", "height"],
                    "additionalProperties": false
                }
            },
            "required": ["name", "arguments"],
            "additionalProperties": false
        });
        assert_eq!(schema(&read.rows[0]), &call);
        let several = schema(&read.rows[1]);
        assert_eq!(
            (
                several["type"].as_str(),
                several["items"]["anyOf"].as_array().map(Vec::len)
            ),
            (Some("array"), Some(2))
        );
        let arguments = &schema(&read.rows[2])["properties"]["arguments"];
        assert_eq!(
            arguments["properties"]["type"],
            json!({}),
            "a parameter named type with type any"
        );
        assert_eq!(
            arguments["properties"]["items"],
            json!({"type": "array", "items": {"type": "number"}})
        );

        let Prompt::Messages(messages) = &read.rows[2].prompt else {
            panic!("expected a chat")
        };
        let system = messages[0].content.as_str().unwrap();
        assert!(
            messages.len() == 2
                && system.starts_with("You are terse.\n\nAnswer with one call")
                && system.contains("\"sort\"")
        );
        let Prompt::Messages(messages) = &read.rows[1].prompt else {
            panic!("expected a chat")
        };
        assert!(
            messages[0].role == "system"
                && messages[0]
                    .content
                    .as_str()
                    .unwrap()
                    .starts_with("Answer with a JSON list")
        );
    }

    #[test]
    fn expected_calls_are_valid_and_agree_with_the_reference() {
        let read = read(&plan_with("", &["simple", "parallel"])).unwrap();
        let answers = [
            r#"{"name": "triangle.area", "arguments": {"base": 10, "height": 5}}"#,
            r#"[{"name": "weather", "arguments": {"city": "Rome"}}, {"name": "weather", "arguments": {"city": "Paris"}}]"#,
            r#"{"name": "sort", "arguments": {"items": [3, 1], "options": {"down": true}}}"#,
        ];
        for (row, answer) in read.rows.iter().zip(answers) {
            let document: Value = serde_json::from_str(answer).unwrap();
            assert!(
                jsonschema::validator_for(schema(row))
                    .unwrap()
                    .is_valid(&document),
                "{answer}"
            );
            assert_eq!(
                function_calls::matches_reference(
                    row.completion.as_deref().unwrap(),
                    row.constraint.as_deref(),
                    answer
                ),
                Some(true),
                "{answer}"
            );
        }
        assert_eq!(read.rows[3].completion, None);
    }

    const PARALLEL_MULTIPLE: &str = r#"{"id": "a", "question": [[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Draw and print."}]], "function": [{"name": "shape.draw", "description": "Draws.", "parameters": {"type": "dict", "properties": {"size": {"type": "float"}, "at": {"type": "tuple", "items": {"type": "integer"}}, "style": {"type": "any", "description": "Style."}}, "required": ["size"]}}, {"name": "page_print", "description": "Prints.", "parameters": {"type": "dict", "properties": {}}}]}"#;
    const PARALLEL_MULTIPLE_ANSWERS: &str = r#"{"id": "a", "ground_truth": [{"shape.draw": {"size": [2.5], "at": [[1, 2], ""], "style": [""]}}, {"page_print": {}}]}"#;
    const IRRELEVANCE: &str = concat!(
        r#"{"id": "b", "question": [[{"role": "user", "content": "Hello!"}]], "function": [{"name": "f", "description": "F.", "parameters": {"type": "dict", "properties": {}}}]}"#,
        "\n",
        r#"{"id": "c", "question": [[{"role": "user", "content": "Hello?"}]], "function": []}"#,
    );

    #[test]
    fn functions_are_sent_as_tools() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(ANSWERS)).unwrap();
        for (file, text) in [
            ("BFCL_v4_live_parallel_multiple.json", PARALLEL_MULTIPLE),
            (
                "possible_answer/BFCL_v4_live_parallel_multiple.json",
                PARALLEL_MULTIPLE_ANSWERS,
            ),
            ("BFCL_v4_live_irrelevance.json", IRRELEVANCE),
        ] {
            std::fs::write(folder.path().join(file), text).unwrap();
        }
        let options = |form| BfclPlan {
            dataset_path: folder.path().to_str().map(str::to_owned),
            form,
            ..plan_with("", &["live_parallel_multiple", "live_irrelevance"])
        };
        let read_rows = read(&options(CallForm::Tools)).unwrap();
        let [calls, no_call] = &read_rows.rows[..] else {
            panic!("expected two rows: {:?}", read_rows.rows.len())
        };
        let skipped = "1 rows of the category live_irrelevance offer no function, and are skipped";
        let notices: Vec<String> = read_rows.notices.iter().map(ToString::to_string).collect();
        assert_eq!(notices, [skipped]);

        let set = calls.constraint.as_deref().unwrap().tools().unwrap();
        assert_eq!(
            serde_json::to_value(set).unwrap(),
            json!({
                "tools": [
                    {"type": "function", "function": {
                        "name": "shape_draw",
                        "description": "Draws.",
                        "parameters": {
                            "type": "object",
                            "properties": {
                                "size": {"type": "number"},
                                "at": {"type": "array", "items": {"type": "integer"}},
                                "style": {"description": "Style."}
                            },
                            "required": ["size"],
                            "additionalProperties": false
                        }
                    }},
                    {"type": "function", "function": {
                        "name": "page_print",
                        "description": "Prints.",
                        "parameters": {
                            "type": "object", "properties": {}, "additionalProperties": false
                        }
                    }}
                ],
                "tool_choice": "auto"
            })
        );
        let Prompt::Messages(messages) = &calls.prompt else {
            panic!("expected a chat")
        };
        assert_eq!(messages[0], Message::new("system", "Be brief."));
        let answer = json!([
            {"name": "page_print", "arguments": {}},
            {"name": "shape_draw", "arguments": {"size": 2.5, "at": [1, 2]}}
        ]);
        assert_eq!(
            function_calls::matches_reference(
                calls.completion.as_deref().unwrap(),
                calls.constraint.as_deref(),
                &answer.to_string()
            ),
            Some(true)
        );
        assert_eq!(
            no_call.completion.as_deref(),
            Some(r#"{"ground_truth":[]}"#)
        );

        let as_json = read(&options(CallForm::Json)).unwrap();
        assert_eq!(as_json.notices.len(), 2, "{:?}", as_json.notices);
        assert!(
            as_json.rows[0]
                .completion
                .as_deref()
                .unwrap()
                .contains("shape.draw")
        );
        assert_eq!(as_json.rows[1].completion, None);
    }

    #[test]
    fn finds_files_and_names_missing_ones() {
        let one = read(&plan_with("/BFCL_v3_parallel.json", &[])).unwrap();
        assert_eq!(
            (
                one.rows.len(),
                one.rows[0].tags[0].as_str(),
                one.rows[0].completion.is_some()
            ),
            (1, "parallel", true)
        );
        let error = read(&plan_with("", &[])).unwrap_err();
        assert!(
            error.what.starts_with("no category live_simple in"),
            "{error}"
        );
        assert_eq!(
            error.hint.as_deref(),
            Some("use --bfcl-categories with one or more of: parallel, simple")
        );

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("BFCL_v4_simple.json");
        for (text, message) in [
            ("{}", "line 1: the field id is not a string"),
            (r#"{"id": "a"}"#, "line 1: question has no turn"),
            (
                r#"{"id": "a", "question": [[]], "function": {}}"#,
                "question[0] must be a list of at least one message",
            ),
            (
                r#"{"id": "a", "question": [[{"role": "user", "content": "?"}]], "function": 1}"#,
                "function is neither",
            ),
            (
                r#"{"id": "a", "question": [[{"role": "user", "content": "?"}]], "function": [{}]}"#,
                "the name of a function is not a string",
            ),
        ] {
            std::fs::write(&path, text).unwrap();
            let options = BfclPlan {
                dataset_path: path.to_str().map(str::to_owned),
                ..plan_with("", &[])
            };
            let error = read(&options).unwrap_err();
            assert!(error.what.contains(message), "{error}");
        }
    }
}
