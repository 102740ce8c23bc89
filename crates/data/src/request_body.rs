//! The constraints of request bodies: of OpenAI's and Anthropic's APIs, vLLM, SGLang, llama.cpp and
//! Ollama.

use serde_json::{Map, Value, json};

use sobench_core::constraint::{Constraint, ConstraintKind};
use sobench_core::schema_keywords::NAME_MAPS;
use sobench_core::tools::ToolForm;

use crate::dataset::custom;

/// Where request bodies and rows hold the value of a constraint itself: of vLLM, SGLang, the rows
/// of this project, and llama.cpp. The name of a value follows.
const HOLDERS: [&str; 5] = [
    "/structured_outputs/",
    "/guided_",
    "/sampling_params/",
    "/constraint/",
    "/",
];
const VALUES: [(&str, ConstraintKind); 9] = [
    ("json", ConstraintKind::JsonSchema),
    ("json_schema", ConstraintKind::JsonSchema),
    ("schema", ConstraintKind::JsonSchema),
    ("json_object", ConstraintKind::JsonObject),
    ("regex", ConstraintKind::Regex),
    ("choice", ConstraintKind::Choice),
    ("grammar", ConstraintKind::Grammar),
    ("ebnf", ConstraintKind::Grammar),
    ("structural_tag", ConstraintKind::StructuralTag),
];

/// A JSON Schema has at least one of these keywords, or of [`NAME_MAPS`].
const SCHEMA_MARKS: [&str; 15] = [
    "$schema", "$id", "$ref", "type", "required", "items", "anyOf", "oneOf", "allOf", "not", "if",
    "enum", "const", "pattern", "minimum",
];

/// A tool without a type has one of these members, or a name and parameters.
const TOOL_MARKS: [&str; 3] = ["function", "inputSchema", "input_schema"];

/// A constraint.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// An object or a boolean. Its validity is not checked.
    Schema(Value),
    /// Tools in the form of chat completions: `{"type": "function", "function": {"name",
    /// "description", "parameters", "strict"}}`. Names and schemas may be invalid, and tools of
    /// other types are unchanged.
    Tools(Vec<Value>),
    /// A regular expression, choices, a grammar, a structural tag, or any JSON object.
    Text(Constraint),
}

impl Part {
    /// The schemas that answers must follow, with the tool whose parameters they are.
    pub fn schemas(&self) -> Vec<(Option<&str>, &Value)> {
        match self {
            Self::Schema(schema) => vec![(None, schema)],
            Self::Tools(tools) => tools
                .iter()
                .filter_map(|tool| {
                    let function = tool.get("function")?;
                    let parameters = function.get("parameters")?;
                    Some((function.get("name").and_then(Value::as_str), parameters))
                })
                .collect(),
            Self::Text(_) => Vec::new(),
        }
    }

    /// The schema itself, or the parameters of a tool.
    pub fn schema(&self, tool: Option<&str>) -> Option<&Value> {
        let mut schemas = self.schemas().into_iter();
        schemas.find_map(|(name, schema)| (name == tool).then_some(schema))
    }

    /// A text constraint is as in files of sobench.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Schema(schema) => schema.clone(),
            Self::Tools(tools) => tools.clone().into(),
            Self::Text(constraint) => serde_json::to_value(constraint).unwrap_or_default(),
        }
    }
}

/// A constraint in a request body or row: the JSON pointer of its field, the pointer of a schema in
/// the field's envelope, and the constraint.
pub type Field = (String, &'static str, Part);

/// The constraints of a request body, a row, or a part of one; tools first.
pub fn fields(body: &Value) -> std::result::Result<Vec<Field>, String> {
    let mut found = Vec::new();
    let mut add = |pointer: &str, part: std::result::Result<Option<(Part, _)>, String>| {
        let part = part.map_err(|error| format!("{}: {error}", label(pointer)))?;
        found.extend(part.map(|(part, suffix)| (pointer.to_owned(), suffix, part)));
        Ok::<_, String>(())
    };
    let tools = body.get("tools").and_then(tools);
    add("/tools", Ok(tools.map(|tools| (Part::Tools(tools), ""))))?;
    let present = |pointer: &str| body.pointer(pointer).filter(|value| !value.is_null());
    for pointer in ["/response_format", "/text/format", "/output_config/format"] {
        add(pointer, present(pointer).map_or(Ok(None), format))?;
    }
    // Ollama's format is the schema itself.
    if let Some(value) = present("/format") {
        let format = match format(value) {
            Ok(None) if value.is_object() => Ok(Some((Part::Schema(value.clone()), ""))),
            Ok(None) if value == "json" && body.get("model").is_some() => {
                typed(ConstraintKind::JsonObject, &true.into()).map(Some)
            }
            format => format,
        };
        add("/format", format)?;
    }
    for holder in HOLDERS {
        for (name, kind) in VALUES {
            let pointer = format!("{holder}{name}");
            let part = present(&pointer).map(|value| typed(kind, value));
            add(&pointer, part.transpose())?;
        }
    }
    Ok(found)
}

/// A field for people: `text.format`.
pub fn label(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}

/// The constraint of a format with a type, such as `response_format`, and where its schema is.
pub fn format(value: &Value) -> std::result::Result<Option<(Part, &'static str)>, String> {
    let kind = value.get("type").and_then(Value::as_str);
    let mut pointers = ["/json_schema/schema", "/schema"].into_iter();
    let pointer = pointers.find(|pointer| value.pointer(pointer).is_some());
    match (kind, pointer) {
        (Some("json_schema" | "json_object"), Some(pointer)) => {
            let schema = value.pointer(pointer).unwrap_or_default();
            let (part, _) = typed(ConstraintKind::JsonSchema, schema)?;
            Ok(Some((part, pointer)))
        }
        (Some("json_schema"), None) => Err("a format json_schema without a schema".to_owned()),
        (Some("json_object"), None) => typed(ConstraintKind::JsonObject, &true.into()).map(Some),
        (Some("structural_tag"), _) => typed(ConstraintKind::StructuralTag, value).map(Some),
        _ => Ok(None),
    }
}

/// The constraint of this kind with this value, and the pointer of a schema in an envelope. JSON
/// may be a string, as in vLLM's fields and in published datasets.
fn typed(kind: ConstraintKind, value: &Value) -> std::result::Result<(Part, &'static str), String> {
    let is_schema_kind = kind == ConstraintKind::JsonSchema;
    let value = match value {
        Value::String(text) if is_schema_kind || kind == ConstraintKind::StructuralTag => {
            serde_json::from_str(text)
                .map_err(|error| format!("the string is not JSON: {error}"))?
        }
        value => value.clone(),
    };
    let (value, suffix) = match value.get("schema") {
        Some(schema) if is_schema_kind && !is_schema(&value) => (schema.clone(), "/schema"),
        _ => (value, ""),
    };
    let members = Map::from_iter([(kind.name().to_owned(), value)]);
    let constraint = custom::constraint(&members)?.ok_or("not a constraint")?;
    Ok((part(&constraint), suffix))
}

pub fn part(constraint: &Constraint) -> Part {
    match constraint {
        Constraint::JsonSchema(schema) => Part::Schema(schema.as_ref().clone()),
        Constraint::Tools(set) => match set.to_members(ToolForm::Chat).remove("tools") {
            Some(Value::Array(tools)) => Part::Tools(tools),
            _ => Part::Tools(Vec::new()),
        },
        other => Part::Text(other.clone()),
    }
}

pub fn is_schema(value: &Value) -> bool {
    let is_mark = |name: &&str| value.get(name).is_some();
    value.is_boolean() || value == &json!({}) || SCHEMA_MARKS.iter().chain(&NAME_MAPS).any(is_mark)
}

/// Whether a value is a tool of chat completions, of the responses endpoint, or of MCP. It may lack
/// members that it must have.
pub fn is_tool(value: &Value) -> bool {
    let kind = value.get("type").and_then(Value::as_str);
    matches!(kind, Some("function" | "custom"))
        || TOOL_MARKS
            .iter()
            .any(|mark| value.get(mark).is_some_and(Value::is_object))
        || (kind.is_none() && value.get("name").is_some() && value.get("parameters").is_some())
}

/// The tools of a list, of an object with a list, or one tool. `None` if there is none.
pub fn tools(value: &Value) -> Option<Vec<Value>> {
    match value {
        Value::Array(tools) if tools.iter().any(is_tool) => {
            Some(tools.iter().map(chat_tool).collect())
        }
        _ if is_tool(value) => Some(vec![chat_tool(value)]),
        _ => value.get("tools").and_then(tools),
    }
}

/// A tool in the form of chat completions.
fn chat_tool(tool: &Value) -> Value {
    let Some(members) = tool.as_object().filter(|_| is_tool(tool)) else {
        return tool.clone();
    };
    let is_mcp = members.contains_key("inputSchema") || members.contains_key("input_schema");
    let kind = match members.get("type").and_then(Value::as_str) {
        Some(kind) if !is_mcp => kind,
        _ => "function",
    };
    if members.contains_key(kind) {
        return tool.clone();
    }
    let member = |(name, value): (&String, &Value)| {
        let name = match name.as_str() {
            "inputSchema" | "input_schema" => "parameters",
            "type" => return None,
            other if is_mcp && !matches!(other, "name" | "description") => return None,
            other => other,
        };
        Some((name.to_owned(), value.clone()))
    };
    let envelope: Map<String, Value> = members.iter().filter_map(member).collect();
    json!({"type": kind, kind: envelope})
}
