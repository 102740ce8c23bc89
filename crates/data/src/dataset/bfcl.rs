//! The dataset `bfcl`: the Berkeley Function-Calling Leaderboard, asked as JSON.
//!
//! A file a category, `BFCL_v3_simple.json`, of JSON Lines `{id, question: [[{role, content}]],
//! function: [{name, description, parameters}]}`; the calls that answer them in `possible_answer/`
//! under the same name, `{id, ground_truth: [{name: {parameter: [allowed value]}}]}`. Of several
//! turns the first is asked.
//!
//! `vllm bench serve` sends the functions as `tools` and leaves it to the model whether to call
//! one. Here they are told in a system message, and the constraint is a JSON Schema for `{"name",
//! "arguments"}`, one branch a function (a list of such where several calls are the answer): so
//! that every kind of server can be asked, and the answer judged as any other. Whether it is the
//! right call is another question, which [`sobench_judge::call`] answers by the reference that each
//! case carries.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use ::regex::Regex;
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::file::check_rows;
use super::flags::{HubLengthFlags, OrderFlags, PathFlags, ShortfallFlags};
use super::message::messages;
use super::registry::{Constrained, DOCUMENT_OUTPUT_LEN, Inputs, Kind, Spec};
use super::table::read_lines;
use super::{DatasetArgs, DatasetPlan, Order, Row, Rows, RowsKind, Shortfall};
use crate::hub;
use crate::hub::{HubSettings, RepoKind};
use crate::tokenizer::python_json::dumps;
use sobench_core::case::{Message, Prompt};
use sobench_core::constraint::Constraint;
use sobench_core::error::{Error, Result};
use sobench_core::input::json::Repeated;
use sobench_core::input::list;
use sobench_notices::notice::{DatasetNotice, Notice};

const REPOSITORY: &str = "gorilla-llm/Berkeley-Function-Calling-Leaderboard";
/// Those that vLLM takes where none is named.
const CATEGORIES: [&str; 3] = ["simple", "live_simple", "multiple"];
const ANSWERS: &str = "possible_answer";
/// What the model is told; written by us.
const ONE_CALL: &str = "Answer with one call of one of these functions, as JSON: {\"name\": ..., \"arguments\": {...}}";
const SEVERAL_CALLS: &str = "Answer with a JSON list of calls of these functions, each {\"name\": ..., \"arguments\": {...}}";

/// The flags of `bfcl`.
#[derive(Args, Clone, Debug, Default)]
pub struct BfclFlags {
    /// Categories of bfcl [default: simple,live_simple,multiple]
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub bfcl_categories: Vec<String>,
}

/// The options of `bfcl`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BfclPlan {
    /// A local path, or a repository of the Hub, `owner/name`.
    pub dataset_path: Option<String>,
    /// Names of categories; none are [`CATEGORIES`].
    pub categories: Vec<String>,
    pub order: Order,
    pub shortfall: Shortfall,
}

impl Kind for BfclPlan {
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
        ..Spec::new("bfcl", Constrained::ByTheRow)
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
            order: flags.rows.order.order(),
            shortfall: flags.rows.shortfall.shortfall(),
        })
    }

    /// Rows of all categories, one of each in turn and then shuffled, as vLLM does it.
    fn rows(&self, plan: &DatasetPlan, inputs: &Inputs<'_>) -> Result<Rows> {
        let (categories, source, mut notices) = find(self, inputs.hub)?;
        let (mut by_category, mut repeated) = (Vec::new(), Repeated::default());
        for category in &categories {
            by_category.push(of_category(category, &mut notices, &mut repeated)?.into_iter());
        }
        notices.extend(DatasetNotice::repeated_members(repeated));
        let mut rows = Vec::new();
        while let taken @ 1.. = by_category
            .iter_mut()
            .filter_map(Iterator::next)
            .map(|row| rows.push(row))
            .count()
        {
            debug_assert!(taken <= categories.len());
        }
        check_rows(rows.len(), &source)?;
        self.order.apply(plan.seed, &mut rows);
        Ok(Rows {
            rows,
            kind: RowsKind::Sampled(self.shortfall),
            source,
            converted_from: None,
            notices,
        })
    }

    fn path(&self) -> Option<&str> {
        self.dataset_path.as_deref()
    }
}

/// A category's questions, and its answers where they are there.
struct Category {
    name: String,
    questions: PathBuf,
    answers: Option<PathBuf>,
}

fn find(own: &BfclPlan, hub: &HubSettings) -> Result<(Vec<Category>, String, Vec<Notice>)> {
    let name = own.dataset_path.as_deref().unwrap_or(REPOSITORY);
    let path = Path::new(name);
    let wanted: Vec<String> = match &own.categories[..] {
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
        let files: Vec<(String, PathBuf)> = list(path)?
            .into_iter()
            .map(|file| (file.clone(), path.join(file)))
            .collect();
        return Ok((
            categories(&wanted, &files, name)?,
            name.to_owned(),
            Vec::new(),
        ));
    }
    if !name.contains('/') || !hub::is_repo_id(name) {
        return Err(Error::usage(format!("no such dataset file or folder: {name}"))
            .hint("give --dataset-path a folder with BFCL_v3_*.json, one of those files, or owner/name on the Hub"));
    }
    let asked = wanted.clone();
    let is_asked =
        move |file: &String| category_of(file).is_some_and(|category| asked.contains(&category));
    let snapshot = hub::fetch(hub, RepoKind::Dataset, name, move |files| {
        files
            .iter()
            .filter(|file| is_asked(file))
            .cloned()
            .collect()
    })?;
    let found = categories(&wanted, &snapshot.files, name)?;
    let source = format!(
        "{name} at commit {}, {}",
        snapshot.commit,
        wanted.join(", ")
    );
    Ok((found, source, snapshot.notice.into_iter().collect()))
}

/// The category that a file is about, whether it holds questions or answers.
fn category_of(file: &str) -> Option<String> {
    static NAME: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?:^|/)BFCL_v\d+_(\w+)\.json$")
            .expect("the expression is fixed and well formed")
    });
    NAME.captures(file).map(|found| found[1].to_owned())
}

fn categories(wanted: &[String], files: &[(String, PathBuf)], name: &str) -> Result<Vec<Category>> {
    let is_answers = |file: &str| file.split('/').any(|folder| folder == ANSWERS);
    let of = |category: &str, answers: bool| {
        let mut fitting = files
            .iter()
            .filter(|(file, _)| category_of(file).as_deref() == Some(category));
        fitting
            .find(|(file, _)| is_answers(file) == answers)
            .map(|(_, path)| path.clone())
    };
    let category = |category: &String| {
        let questions = of(category, false).ok_or_else(|| {
            let mut there: Vec<String> = files
                .iter()
                .filter_map(|(file, _)| category_of(file))
                .collect();
            there.sort_unstable();
            there.dedup();
            Error::usage(format!("no category {category} in {name}")).hint(format!(
                "--bfcl-categories names some of: {}",
                there.join(", ")
            ))
        })?;
        Ok(Category {
            name: category.clone(),
            questions,
            answers: of(category, true),
        })
    };
    wanted.iter().map(category).collect()
}

fn of_category(
    category: &Category,
    notices: &mut Vec<Notice>,
    repeated: &mut Repeated,
) -> Result<Vec<Row>> {
    let mut answers = HashMap::new();
    if let Some(file) = &category.answers {
        for (place, mut members) in read_lines(file, repeated)? {
            let id = id(&members, &place)?;
            let calls = members
                .remove("ground_truth")
                .ok_or_else(|| bad(&place, "no field ground_truth"))?;
            answers.insert(id, calls);
        }
    } else {
        notices.push(
            DatasetNotice::CategoryWithoutAnswers {
                category: category.name.clone(),
            }
            .into(),
        );
    }
    let mut rows = Vec::new();
    for (place, members) in read_lines(&category.questions, repeated)? {
        let truth = answers.remove(&id(&members, &place)?);
        rows.push(row(&members, truth, category, place)?);
    }
    Ok(rows)
}

fn id(members: &Map<String, Value>, place: &str) -> Result<String> {
    members
        .get("id")
        .and_then(Value::as_str)
        .map(str::to_owned)
        .ok_or_else(|| bad(place, "no text in the field id"))
}

fn bad(place: &str, words: &str) -> Error {
    Error::usage(format!("{place}: {words}"))
        .hint("a row has id, question (a list of turns, each a list of messages) and function")
}

fn row(
    members: &Map<String, Value>,
    truth: Option<Value>,
    category: &Category,
    place: String,
) -> Result<Row> {
    let turn = members
        .get("question")
        .and_then(|turns| turns.get(0))
        .ok_or_else(|| bad(&place, "question has no turn"))?;
    let mut asked = messages("question[0]", turn).map_err(|words| bad(&place, &words))?;
    let functions = match members.get("function") {
        Some(Value::Array(functions)) if !functions.is_empty() => functions.clone(),
        Some(function @ Value::Object(_)) => vec![function.clone()],
        _ => {
            return Err(bad(
                &place,
                "function is neither a function nor a list of them",
            ));
        }
    };
    let branches = functions.iter().map(branch).collect::<Option<Vec<Value>>>();
    let branches =
        branches.ok_or_else(|| bad(&place, "a function has no text in the field name"))?;
    let one = if branches.len() == 1 {
        branches[0].clone()
    } else {
        json!({"anyOf": branches})
    };
    let is_several = category.name.contains("parallel");
    let schema = if is_several {
        json!({"type": "array", "items": one, "minItems": 1})
    } else {
        one
    };
    let told = if is_several { SEVERAL_CALLS } else { ONE_CALL };
    let told = format!("{told}\n\n{}", dumps(&Value::Array(functions)));
    match asked.first_mut().filter(|first| first.role == "system") {
        Some(Message {
            content: Value::String(text),
            ..
        }) => *text = format!("{text}\n\n{told}"),
        _ => asked.insert(
            0,
            Message {
                role: "system".to_owned(),
                content: told.into(),
            },
        ),
    }
    Ok(Row {
        constraint: Some(Arc::new(Constraint::JsonSchema(Arc::new(schema)))),
        completion: truth.map(|calls| json!({"ground_truth": calls}).to_string()),
        tags: vec![category.name.clone()],
        name: place,
        ..Row::free(Prompt::Messages(asked.into()))
    })
}

/// The schema of a call of this function. A parameter that the function does not have is none of
/// its arguments.
fn branch(function: &Value) -> Option<Value> {
    let name = function.get("name")?.as_str()?;
    let mut arguments = function
        .get("parameters")
        .map_or_else(|| json!({"type": "object"}), translated);
    if let Value::Object(members) = &mut arguments {
        members
            .entry("additionalProperties")
            .or_insert(Value::Bool(false));
    }
    Some(json!({
        "type": "object",
        "properties": {"name": {"const": name}, "arguments": arguments},
        "required": ["name", "arguments"],
        "additionalProperties": false,
    }))
}

/// A schema in BFCL's words as JSON Schema: types of Python, Java and JavaScript become those of
/// JSON, and `any` becomes no type. Only where a schema stands: a parameter may be called `type`.
fn translated(schema: &Value) -> Value {
    let Value::Object(members) = schema else {
        return schema.clone();
    };
    let each = |value: &Value| match value {
        Value::Object(named) => Value::Object(
            named
                .iter()
                .map(|(name, schema)| (name.clone(), translated(schema)))
                .collect(),
        ),
        other => other.clone(),
    };
    let list = |value: &Value| match value {
        Value::Array(schemas) => Value::Array(schemas.iter().map(translated).collect()),
        other => translated(other),
    };
    let mut made = Map::new();
    for (keyword, value) in members {
        let value = match (keyword.as_str(), value) {
            ("type", Value::String(name)) => match json_type(name) {
                Some(name) => Value::from(name),
                None => continue,
            },
            ("properties" | "patternProperties", value) => each(value),
            ("items" | "additionalProperties" | "anyOf" | "oneOf" | "allOf", value) => list(value),
            // Written for people, and not always as JSON Schema has it.
            ("default" | "optional" | "example" | "examples" | "format", _) => continue,
            // Some rows mark a single parameter as required where a list belongs.
            ("required", value) if !value.is_array() => continue,
            (_, value) => value.clone(),
        };
        made.insert(keyword.clone(), value);
    }
    Value::Object(made)
}

/// The type that JSON Schema has for one of BFCL's; `None` for any value at all.
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
    use sobench_judge::call;

    const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/datasets/bfcl");

    fn of(path: &str, categories: &[&str]) -> BfclPlan {
        BfclPlan {
            dataset_path: Some(format!("{FIXTURES}{path}")),
            categories: categories.iter().map(|name| (*name).to_owned()).collect(),
            order: Order::AsStored,
            ..BfclPlan::default()
        }
    }

    fn read(own: &BfclPlan) -> Result<Rows> {
        rows(
            &DatasetPlan {
                source: Source::Bfcl(own.clone()),
                ..plan(DatasetName::Bfcl)
            },
            &Tokenizer::embedded(),
        )
    }

    fn schema(row: &Row) -> &Value {
        match row.constraint.as_deref() {
            Some(Constraint::JsonSchema(schema)) => schema,
            other => panic!("a schema was expected: {other:?}"),
        }
    }

    #[test]
    fn a_question_is_asked_with_its_functions_and_the_schema_of_a_call() {
        let read = read(&of("", &["simple", "parallel"])).unwrap();
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
            "any value, of a parameter that is called type"
        );
        assert_eq!(
            arguments["properties"]["items"],
            json!({"type": "array", "items": {"type": "number"}})
        );

        let Prompt::Messages(messages) = &read.rows[2].prompt else {
            panic!("a chat was expected")
        };
        let told = messages[0].content.as_str().unwrap();
        assert!(
            messages.len() == 2
                && told.starts_with("You are terse.\n\nAnswer with one call")
                && told.contains("\"sort\"")
        );
        let Prompt::Messages(messages) = &read.rows[1].prompt else {
            panic!("a chat was expected")
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
    fn the_right_call_is_known_and_valid() {
        let read = read(&of("", &["simple", "parallel"])).unwrap();
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
                call::agrees(row.completion.as_deref().unwrap(), answer),
                Some(true),
                "{answer}"
            );
        }
        assert_eq!(read.rows[3].completion, None);
    }

    #[test]
    fn files_and_folders_are_found_and_what_is_missing_is_named() {
        let one = read(&of("/BFCL_v3_parallel.json", &[])).unwrap();
        assert_eq!(
            (
                one.rows.len(),
                one.rows[0].tags[0].as_str(),
                one.rows[0].completion.is_some()
            ),
            (1, "parallel", true)
        );
        let error = read(&of("", &[])).unwrap_err();
        assert!(
            error.what.starts_with("no category live_simple in"),
            "{error}"
        );
        assert_eq!(
            error.hint.as_deref(),
            Some("--bfcl-categories names some of: parallel, simple")
        );

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("BFCL_v4_simple.json");
        for (text, words) in [
            ("{}", "line 1: no text in the field id"),
            (r#"{"id": "a"}"#, "line 1: question has no turn"),
            (
                r#"{"id": "a", "question": [[]], "function": []}"#,
                "question[0] has to be a list of at least one message",
            ),
            (
                r#"{"id": "a", "question": [[{"role": "user", "content": "?"}]], "function": []}"#,
                "function is neither",
            ),
            (
                r#"{"id": "a", "question": [[{"role": "user", "content": "?"}]], "function": [{}]}"#,
                "no text in the field name",
            ),
        ] {
            std::fs::write(&path, text).unwrap();
            let own = BfclPlan {
                dataset_path: path.to_str().map(str::to_owned),
                ..of("", &[])
            };
            let error = read(&own).unwrap_err();
            assert!(error.what.contains(words), "{error}");
        }
    }
}
