//! Tool sets: the tools that a request offers, and the calls that it allows.
//!
//! Source: OpenAI's API reference, "Create chat completion" and "Create a model response", and
//! Anthropic's, "Create a Message". The endpoints write the same members differently. The forms of
//! OpenAI are read from files, which have the form of chat completions.

use std::collections::HashSet;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::error::{Error, Result};

/// Maximum number of tools in a set. OpenAI accepts 128, other servers do not state a limit.
pub const MAX_TOOLS: usize = 10_000;

/// Maximum characters of a tool's name.
const MAX_NAME_CHARS: usize = 64;

/// The members of a request that make a tool set.
pub const MEMBERS: [&str; 3] = ["tools", "tool_choice", "parallel_tool_calls"];

/// The tools of a request, and which calls of them an answer may and must have.
#[derive(Clone, Debug, PartialEq, schemars::JsonSchema)]
#[schemars(with = "Map<String, Value>")]
pub struct ToolSet {
    /// At least one, with different names.
    pub tools: Vec<Tool>,
    pub choice: ToolChoice,
    /// `Some(false)` allows at most one call. `None` is not sent; servers then allow several.
    pub parallel_tool_calls: Option<bool>,
}

/// A tool that a model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// 1 to 64 of the characters `A-Z`, `a-z`, `0-9`, `_` and `-`.
    pub name: String,
    pub description: Option<String>,
    pub input: ToolInput,
}

/// What a call of a tool contains.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolInput {
    /// The arguments of a function: a JSON object.
    Function {
        /// The schema of the arguments. Without it, the function has no parameters.
        parameters: Option<Value>,
        /// Whether the server must enforce the schema.
        strict: Option<bool>,
    },
    /// The text for a custom tool.
    Custom { format: TextFormat },
}

/// The format of the text for a custom tool.
#[derive(Clone, Debug, PartialEq)]
pub enum TextFormat {
    Any,
    Grammar {
        syntax: TextSyntax,
        definition: String,
    },
}

/// The notation of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextSyntax {
    Lark,
    Regex,
}

/// The calls that an answer must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model decides: text, one call or several.
    Auto,
    /// At least one call.
    Required,
    /// No call.
    None,
    /// A call of this tool.
    Named(String),
    /// Only these tools, with or without a call.
    Allowed {
        is_required: bool,
        names: Vec<String>,
    },
}

/// How an endpoint writes the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolForm {
    /// Chat completions: `{"type": "function", "function": {"name": ...}}`.
    Chat,
    /// Responses: `{"type": "function", "name": ...}`.
    Responses,
    /// Ollama's `/api/chat`: functions as in chat completions, without `strict` and without a
    /// choice.
    Ollama,
    /// Anthropic's messages: `{"name": ..., "input_schema": ...}`; `tool_choice` is an object, and
    /// says whether several calls are allowed.
    Messages,
}

impl ToolForm {
    /// An object of this type with these members, in an envelope in chat completions.
    fn object(self, kind: &str, members: Map<String, Value>) -> Value {
        match self {
            Self::Chat | Self::Ollama => json!({"type": kind, kind: members}),
            Self::Messages => Value::Object(members),
            Self::Responses => {
                let mut object = Map::from_iter([("type".to_owned(), Value::from(kind))]);
                object.extend(members);
                Value::Object(object)
            }
        }
    }

    fn reference(self, tool: &Tool) -> Value {
        let name = Map::from_iter([("name".to_owned(), Value::from(tool.name.as_str()))]);
        self.object(tool.kind(), name)
    }
}

impl Tool {
    /// The schema of the arguments of a function that has one.
    pub fn parameters(&self) -> Option<&Value> {
        match &self.input {
            ToolInput::Function { parameters, .. } => parameters.as_ref(),
            ToolInput::Custom { .. } => None,
        }
    }

    /// A function with parameters, without `strict`.
    pub fn function(name: impl Into<String>, parameters: Value) -> Self {
        Self {
            name: name.into(),
            description: None,
            input: ToolInput::Function {
                parameters: Some(parameters),
                strict: None,
            },
        }
    }

    /// The value of `type` in requests.
    pub fn kind(&self) -> &'static str {
        match self.input {
            ToolInput::Function { .. } => "function",
            ToolInput::Custom { .. } => "custom",
        }
    }

    /// Whether the request asks the server to enforce the schema of the arguments.
    pub fn is_strict(&self) -> bool {
        matches!(
            self.input,
            ToolInput::Function {
                strict: Some(true),
                ..
            }
        )
    }

    /// Reads a tool in the form of either endpoint.
    fn from_value(value: &Value) -> Result<Self> {
        let kind = member_text(value, "type").unwrap_or_default();
        if !matches!(kind, "function" | "custom") {
            return Err(
                Error::usage(format!("unknown type: {}", shown(value.get("type"))))
                    .hint("a tool has the type function or custom"),
            );
        }
        let members = enveloped(value, kind)?;
        let known: &[&str] = match kind {
            "function" => &["type", "name", "description", "parameters", "strict"],
            _ => &["type", "name", "description", "format"],
        };
        if let Some(unknown) = members.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(Error::usage(format!("unknown member: {unknown:?}"))
                .hint(format!("a {kind} tool has {}", known[1..].join(", "))));
        }
        let name = match members.get("name") {
            None => return Err(Error::usage("no name").hint("give each tool a name")),
            Some(name) => checked_name(name)?,
        };
        let input = match kind {
            "function" => ToolInput::Function {
                parameters: members
                    .get("parameters")
                    .filter(|parameters| !parameters.is_null())
                    .map(checked_parameters)
                    .transpose()?,
                strict: optional_bool(members, "strict")?,
            },
            _ => ToolInput::Custom {
                format: members
                    .get("format")
                    .map_or(Ok(TextFormat::Any), TextFormat::from_value)?,
            },
        };
        Ok(Self {
            name,
            description: optional_text(members, "description")?,
            input,
        })
    }

    fn to_value(&self, form: ToolForm) -> Value {
        let mut members = Map::new();
        let mut add = |name: &str, value: Option<Value>| {
            members.extend(value.map(|value| (name.to_owned(), value)));
        };
        add("name", Some(self.name.as_str().into()));
        add("description", self.description.as_deref().map(Value::from));
        match &self.input {
            ToolInput::Function { parameters, strict } => {
                match form {
                    ToolForm::Messages => {
                        let no_parameters = || json!({"type": "object", "properties": {}});
                        let schema = parameters.clone().unwrap_or_else(no_parameters);
                        add("input_schema", Some(schema));
                    }
                    _ => add("parameters", parameters.clone()),
                }
                let strict = strict.filter(|_| form != ToolForm::Ollama);
                add("strict", strict.map(Value::from));
            }
            ToolInput::Custom { format } => add("format", format.to_value(form)),
        }
        form.object(self.kind(), members)
    }
}

impl TextFormat {
    fn from_value(value: &Value) -> Result<Self> {
        match member_text(value, "type") {
            Some("text") => return Ok(Self::Any),
            Some("grammar") => {}
            _ => {
                return Err(Error::usage(format!(
                    "unknown type of format: {}",
                    shown(value.get("type"))
                ))
                .hint("the format of a custom tool has the type text or grammar"));
            }
        }
        let grammar = value.get("grammar").unwrap_or(value);
        let syntax = match member_text(grammar, "syntax") {
            Some("lark") => TextSyntax::Lark,
            Some("regex") => TextSyntax::Regex,
            _ => {
                return Err(Error::usage(format!(
                    "unknown syntax: {}",
                    shown(grammar.get("syntax"))
                ))
                .hint("the syntax of a grammar is lark or regex"));
            }
        };
        let definition = member_text(grammar, "definition").filter(|text| !text.trim().is_empty());
        let definition = definition.ok_or_else(|| {
            Error::usage("a grammar without a definition").hint("give its text as definition")
        })?;
        Ok(Self::Grammar {
            syntax,
            definition: definition.to_owned(),
        })
    }

    fn to_value(&self, form: ToolForm) -> Option<Value> {
        let Self::Grammar { syntax, definition } = self else {
            return None;
        };
        let syntax = match syntax {
            TextSyntax::Lark => "lark",
            TextSyntax::Regex => "regex",
        };
        let grammar = json!({"syntax": syntax, "definition": definition});
        Some(match form {
            ToolForm::Responses => {
                json!({"type": "grammar", "syntax": syntax, "definition": definition})
            }
            _ => json!({"type": "grammar", "grammar": grammar}),
        })
    }
}

impl ToolChoice {
    /// Names of all choices, in the order of documentation.
    pub const NAMES: [&'static str; 5] = ["auto", "required", "named", "none", "allowed_tools"];

    /// The name used in tables and counts.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Required => "required",
            Self::Named(_) => "named",
            Self::None => "none",
            Self::Allowed { .. } => "allowed_tools",
        }
    }

    /// Whether an answer without a call is invalid.
    pub fn requires_call(&self) -> bool {
        match self {
            Self::Required | Self::Named(_) => true,
            Self::Allowed { is_required, .. } => *is_required,
            Self::Auto | Self::None => false,
        }
    }

    /// Whether a call of the tool is allowed.
    pub fn allows(&self, tool: &str) -> bool {
        match self {
            Self::Auto | Self::Required => true,
            Self::None => false,
            Self::Named(name) => name == tool,
            Self::Allowed { names, .. } => names.iter().any(|name| name == tool),
        }
    }

    /// Reads a choice in the form of either endpoint.
    fn from_value(value: &Value) -> Result<Self> {
        let unknown = || {
            Error::usage(format!("unknown tool_choice: {}", shown(Some(value)))).hint(
                "use auto, required, none, one tool by its name, or allowed_tools with a mode",
            )
        };
        if let Some(mode) = value.as_str() {
            return match mode {
                "auto" => Ok(Self::Auto),
                "required" => Ok(Self::Required),
                "none" => Ok(Self::None),
                _ => Err(unknown()),
            };
        }
        let name_of = |value: &Value| {
            let kind =
                member_text(value, "type").filter(|kind| matches!(*kind, "function" | "custom"))?;
            member_text(value.get(kind).unwrap_or(value), "name").map(str::to_owned)
        };
        if member_text(value, "type") != Some("allowed_tools") {
            return name_of(value).map(Self::Named).ok_or_else(unknown);
        }
        let allowed = value.get("allowed_tools").unwrap_or(value);
        let is_required = match member_text(allowed, "mode") {
            Some("auto") => false,
            Some("required") => true,
            _ => return Err(unknown()),
        };
        let tools = allowed.get("tools").and_then(Value::as_array);
        let names = tools.and_then(|tools| tools.iter().map(name_of).collect::<Option<Vec<_>>>());
        Ok(Self::Allowed {
            is_required,
            names: names
                .filter(|names| !names.is_empty())
                .ok_or_else(unknown)?,
        })
    }

    /// The tools that it names.
    fn names(&self) -> &[String] {
        match self {
            Self::Named(name) => std::slice::from_ref(name),
            Self::Allowed { names, .. } => names,
            Self::Auto | Self::Required | Self::None => &[],
        }
    }
}

/// A `tool_choice` of Anthropic's messages in the form of chat completions; `None` for other values.
pub fn chat_choice(choice: &Value) -> Option<Value> {
    match choice.get("type")?.as_str()? {
        mode @ ("auto" | "none") => Some(mode.into()),
        "any" => Some("required".into()),
        "tool" => Some(json!({"type": "function", "function": {"name": choice.get("name")}})),
        _ => None,
    }
}

impl ToolSet {
    /// Reads the members `tools`, `tool_choice` and `parallel_tool_calls` of a request or a row,
    /// in the form of either endpoint. Other members are ignored. Without `tool_choice` the model
    /// decides.
    ///
    /// # Errors
    /// A usage error with the position of the wrong tool. Schemas are not compiled.
    pub fn from_members(members: &Map<String, Value>) -> Result<Self> {
        let tools = members
            .get("tools")
            .and_then(Value::as_array)
            .filter(|tools| !tools.is_empty())
            .ok_or_else(|| {
                Error::usage("tools must be a list of at least one tool")
                    .hint("write the tools as in a request to chat completions")
            })?;
        if tools.len() > MAX_TOOLS {
            return Err(Error::usage(format!("too many tools: {}", tools.len()))
                .hint(format!("give at most {MAX_TOOLS} tools")));
        }
        let mut names = HashSet::with_capacity(tools.len());
        let mut read = Vec::with_capacity(tools.len());
        for (index, value) in tools.iter().enumerate() {
            let at = |error: Error| Error {
                what: format!("tools[{index}]: {}", error.what),
                ..error
            };
            let tool = Tool::from_value(value).map_err(at)?;
            if !names.insert(tool.name.clone()) {
                return Err(at(Error::usage(format!(
                    "the name is not unique: {:?}",
                    tool.name
                ))
                .hint("give each tool a name of its own")));
            }
            read.push(tool);
        }
        let choice = members
            .get("tool_choice")
            .filter(|choice| !choice.is_null())
            .map_or(Ok(ToolChoice::Auto), ToolChoice::from_value)?;
        if let Some(unknown) = choice.names().iter().find(|name| !names.contains(*name)) {
            return Err(
                Error::usage(format!("tool_choice names an unknown tool: {unknown:?}"))
                    .hint("name a tool of tools"),
            );
        }
        Ok(Self {
            tools: read,
            choice,
            parallel_tool_calls: optional_bool(members, "parallel_tool_calls")?,
        })
    }

    /// The member of the set that this form has no field for; such a set cannot be sent.
    pub fn unsendable_member(&self, form: ToolForm) -> Option<&'static str> {
        let is_custom = |tool: &Tool| matches!(tool.input, ToolInput::Custom { .. });
        match form {
            ToolForm::Chat | ToolForm::Responses => None,
            _ if self.tools.iter().any(is_custom) => Some("custom tools"),
            ToolForm::Messages => {
                matches!(self.choice, ToolChoice::Allowed { .. }).then_some("allowed_tools")
            }
            ToolForm::Ollama if self.choice != ToolChoice::Auto => Some("tool_choice"),
            ToolForm::Ollama => {
                (self.parallel_tool_calls == Some(false)).then_some("parallel_tool_calls")
            }
        }
    }

    /// The members of a request in this form.
    pub fn to_members(&self, form: ToolForm) -> Map<String, Value> {
        let tools: Vec<Value> = self.tools.iter().map(|tool| tool.to_value(form)).collect();
        let mut members = Map::new();
        members.insert("tools".to_owned(), tools.into());
        if form == ToolForm::Ollama {
            return members;
        }
        members.insert("tool_choice".to_owned(), self.choice_value(form));
        if form == ToolForm::Messages {
            return members;
        }
        if let Some(parallel) = self.parallel_tool_calls {
            members.insert("parallel_tool_calls".to_owned(), parallel.into());
        }
        members
    }

    fn choice_value(&self, form: ToolForm) -> Value {
        if form == ToolForm::Messages {
            return self.messages_choice();
        }
        let reference = |name: &String| self.tool(name).map(|tool| form.reference(tool));
        match &self.choice {
            ToolChoice::Auto => "auto".into(),
            ToolChoice::Required => "required".into(),
            ToolChoice::None => "none".into(),
            ToolChoice::Named(name) => reference(name).unwrap_or_default(),
            ToolChoice::Allowed { is_required, names } => {
                let mode = if *is_required { "required" } else { "auto" };
                let tools: Vec<Value> = names.iter().filter_map(reference).collect();
                let allowed = json!({"mode": mode, "tools": tools});
                match allowed {
                    Value::Object(allowed) => form.object("allowed_tools", allowed),
                    other => other,
                }
            }
        }
    }

    /// The choice of Anthropic's messages, which has no form of allowed tools.
    fn messages_choice(&self) -> Value {
        let mut choice = match &self.choice {
            ToolChoice::Auto | ToolChoice::Allowed { .. } => json!({"type": "auto"}),
            ToolChoice::Required => json!({"type": "any"}),
            ToolChoice::None => return json!({"type": "none"}),
            ToolChoice::Named(name) => json!({"type": "tool", "name": name}),
        };
        if let Some(parallel) = self.parallel_tool_calls {
            choice["disable_parallel_tool_use"] = (!parallel).into();
        }
        choice
    }

    /// The tool of this name.
    pub fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// Whether an answer may have more than one call.
    pub fn allows_several_calls(&self) -> bool {
        self.parallel_tool_calls != Some(false)
    }

    /// The set without what a server enforces: no `strict`, no grammars, and the model decides
    /// where a call was required. The tools stay, because they are part of the prompt. The
    /// responses endpoint is strict by default, so `strict` is false there.
    #[must_use]
    pub fn without_enforcement(&self, form: ToolForm) -> Self {
        let not_strict = (form == ToolForm::Responses).then_some(false);
        let choice = match &self.choice {
            ToolChoice::Auto | ToolChoice::Required | ToolChoice::Named(_) => ToolChoice::Auto,
            ToolChoice::None => ToolChoice::None,
            ToolChoice::Allowed { names, .. } => ToolChoice::Allowed {
                is_required: false,
                names: names.clone(),
            },
        };
        let tools = self.tools.iter().map(|tool| Tool {
            input: match &tool.input {
                ToolInput::Function { parameters, .. } => ToolInput::Function {
                    parameters: parameters.clone(),
                    strict: not_strict,
                },
                ToolInput::Custom { .. } => ToolInput::Custom {
                    format: TextFormat::Any,
                },
            },
            ..tool.clone()
        });
        Self {
            tools: tools.collect(),
            choice,
            parallel_tool_calls: self.parallel_tool_calls,
        }
    }
}

impl Serialize for ToolSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        self.to_members(ToolForm::Chat).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ToolSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let members = Map::deserialize(deserializer)?;
        if let Some(unknown) = members
            .keys()
            .find(|name| !MEMBERS.contains(&name.as_str()))
        {
            return Err(serde::de::Error::custom(format!(
                "unknown member: {unknown:?}"
            )));
        }
        Self::from_members(&members).map_err(|error| serde::de::Error::custom(error.what))
    }
}

/// The members of a tool, which chat completions put in an envelope.
fn enveloped<'a>(value: &'a Value, kind: &str) -> Result<&'a Map<String, Value>> {
    value.get(kind).unwrap_or(value).as_object().ok_or_else(|| {
        Error::usage(format!("{kind} must be an object"))
            .hint("write the tools as in a request to chat completions")
    })
}

fn checked_name(value: &Value) -> Result<String> {
    let is_name_char = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    value
        .as_str()
        .filter(|name| (1..=MAX_NAME_CHARS).contains(&name.len()) && name.bytes().all(is_name_char))
        .map(str::to_owned)
        .ok_or_else(|| {
            Error::usage(format!("not a name: {}", shown(Some(value)))).hint(format!(
                "use 1 to {MAX_NAME_CHARS} letters, digits, underscores and hyphens"
            ))
        })
}

/// The schema of the arguments, which are an object.
fn checked_parameters(value: &Value) -> Result<Value> {
    let is_schema_of_objects =
        |members: &Map<String, Value>| members.get("type").is_none_or(|kind| kind == "object");
    value
        .as_object()
        .filter(|members| is_schema_of_objects(members))
        .map(|_| value.clone())
        .ok_or_else(|| {
            Error::usage("parameters must be a JSON Schema of type object")
                .hint("give {\"type\": \"object\", \"properties\": {...}}, or no parameters")
        })
}

fn optional_bool(members: &Map<String, Value>, name: &str) -> Result<Option<bool>> {
    match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(value)) => Ok(Some(*value)),
        Some(other) => Err(Error::usage(format!(
            "{name} must be true or false: {}",
            shown(Some(other))
        ))
        .hint(format!("correct or remove {name}"))),
    }
}

fn optional_text(members: &Map<String, Value>, name: &str) -> Result<Option<String>> {
    match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(Error::usage(format!(
            "{name} must be a string: {}",
            shown(Some(other))
        ))
        .hint(format!("correct or remove {name}"))),
    }
}

fn member_text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name)?.as_str()
}

/// A value in an error message.
fn shown(value: Option<&Value>) -> String {
    const MAX_CHARS: usize = 80;
    let text = value.map_or_else(|| "none".to_owned(), Value::to_string);
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &Value) -> Result<ToolSet> {
        ToolSet::from_members(value.as_object().unwrap())
    }

    #[track_caller]
    fn check_refused(value: &Value, what: &str) {
        let error = read(value).unwrap_err();
        assert_eq!(error.what, what);
        assert!(error.hint.is_some_and(|hint| !hint.contains('\n')));
    }

    fn tool(name: &str) -> Value {
        json!({"type": "function", "function": {"name": name}})
    }

    #[test]
    fn chat_form_is_read_and_written_unchanged() {
        let text = r#"{"tools":[{"type":"function","function":{"name":"get_weather","description":"Weather","parameters":{"type":"object","properties":{"z":{"maximum":1.0},"a":{}}},"strict":true}},{"type":"custom","custom":{"name":"code","format":{"type":"grammar","grammar":{"syntax":"lark","definition":"start: \"a\""}}}}],"tool_choice":{"type":"function","function":{"name":"get_weather"}},"parallel_tool_calls":false}"#;
        let set: ToolSet = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&set).unwrap(), text);
        assert!(set.tools[0].is_strict() && !set.allows_several_calls());
    }

    #[test]
    fn ollama_is_sent_functions_without_strict_and_nothing_that_it_has_no_field_for() {
        let set = |members: Value| read(&members).unwrap();
        let strict = json!({"type": "function", "function": {"name": "f", "strict": true}});
        let free = set(json!({"tools": [strict], "parallel_tool_calls": true}));
        assert_eq!(free.unsendable_member(ToolForm::Ollama), None);
        assert_eq!(
            Value::from(free.to_members(ToolForm::Ollama)),
            json!({"tools": [tool("f")]})
        );
        for (members, member) in [
            (
                json!({"tools": [tool("f")], "tool_choice": "none"}),
                "tool_choice",
            ),
            (
                json!({"tools": [tool("f")], "parallel_tool_calls": false}),
                "parallel_tool_calls",
            ),
            (
                json!({"tools": [{"type": "custom", "custom": {"name": "f"}}]}),
                "custom tools",
            ),
        ] {
            let set = set(members);
            assert_eq!(set.unsendable_member(ToolForm::Ollama), Some(member));
            assert_eq!(set.unsendable_member(ToolForm::Chat), None);
        }
    }

    #[test]
    fn responses_form_is_read_and_written() {
        let members = json!({
            "tools": [
                {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": false},
                {"type": "custom", "name": "g", "format":
                    {"type": "grammar", "syntax": "regex", "definition": "a+"}},
            ],
            "tool_choice": {"type": "allowed_tools", "mode": "required", "tools": [
                {"type": "function", "name": "f"}, {"type": "custom", "name": "g"}]},
        });
        let set = read(&members).unwrap();
        assert_eq!(Value::Object(set.to_members(ToolForm::Responses)), members);
        assert_eq!(
            set.choice_value(ToolForm::Chat),
            json!({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [
                {"type": "function", "function": {"name": "f"}},
                {"type": "custom", "custom": {"name": "g"}}]}})
        );
        let again = ToolSet::from_members(&set.to_members(ToolForm::Chat)).unwrap();
        assert_eq!(again, set);
    }

    #[test]
    fn choices_allow_and_require_calls() {
        for (choice, name, requires, allowed) in [
            (json!("auto"), "auto", false, [true, true]),
            (Value::Null, "auto", false, [true, true]),
            (json!("required"), "required", true, [true, true]),
            (json!("none"), "none", false, [false, false]),
            (tool("f"), "named", true, [true, false]),
            (
                json!({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [tool("g")]}}),
                "allowed_tools",
                false,
                [false, true],
            ),
        ] {
            let set =
                read(&json!({"tools": [tool("f"), tool("g")], "tool_choice": choice})).unwrap();
            let choice = &set.choice;
            assert_eq!((choice.name(), choice.requires_call()), (name, requires));
            assert_eq!(["f", "g"].map(|tool| choice.allows(tool)), allowed);
            assert!(ToolChoice::NAMES.contains(&choice.name()));
        }
    }

    #[test]
    fn bad_sets_are_refused_with_the_position() {
        let function =
            |function: Value| json!({"tools": [{"type": "function", "function": function}]});
        for (set, what) in [
            (json!({}), "tools must be a list of at least one tool"),
            (
                json!({"tools": []}),
                "tools must be a list of at least one tool",
            ),
            (json!({"tools": [{}]}), "tools[0]: unknown type: none"),
            (
                json!({"tools": [tool("a"), {"type": "web_search"}]}),
                "tools[1]: unknown type: \"web_search\"",
            ),
            (function(json!({})), "tools[0]: no name"),
            (function(json!("f")), "tools[0]: function must be an object"),
            (function(json!({"name": ""})), "tools[0]: not a name: \"\""),
            (
                function(json!({"name": "a b"})),
                "tools[0]: not a name: \"a b\"",
            ),
            (function(json!({"name": 1})), "tools[0]: not a name: 1"),
            (
                function(json!({"name": "f", "arguments": {}})),
                "tools[0]: unknown member: \"arguments\"",
            ),
            (
                function(json!({"name": "f", "parameters": {"type": "array"}})),
                "tools[0]: parameters must be a JSON Schema of type object",
            ),
            (
                function(json!({"name": "f", "strict": "yes"})),
                "tools[0]: strict must be true or false: \"yes\"",
            ),
            (
                json!({"tools": [tool("f"), tool("f")]}),
                "tools[1]: the name is not unique: \"f\"",
            ),
            (
                json!({"tools": [tool("f")], "tool_choice": tool("g")}),
                "tool_choice names an unknown tool: \"g\"",
            ),
            (
                json!({"tools": [tool("f")], "tool_choice": "any"}),
                "unknown tool_choice: \"any\"",
            ),
            (
                json!({"tools": [tool("f")], "parallel_tool_calls": 2}),
                "parallel_tool_calls must be true or false: 2",
            ),
            (
                json!({"tools": [{"type": "custom", "custom": {"name": "f", "format": {"type": "grammar", "grammar": {"syntax": "ebnf"}}}}]}),
                "tools[0]: unknown syntax: \"ebnf\"",
            ),
        ] {
            check_refused(&set, what);
        }
        let long = "a".repeat(MAX_NAME_CHARS);
        assert!(read(&function(json!({"name": long}))).is_ok());
        assert!(read(&function(json!({"name": format!("{long}a")}))).is_err());
    }

    #[test]
    fn number_of_tools_is_limited() {
        let tools = |count: usize| {
            let tools: Vec<Value> = (0..count).map(|index| tool(&format!("t{index}"))).collect();
            json!({ "tools": tools })
        };
        assert_eq!(read(&tools(MAX_TOOLS)).unwrap().tools.len(), MAX_TOOLS);
        check_refused(&tools(MAX_TOOLS + 1), "too many tools: 10001");
    }

    #[test]
    fn without_enforcement_the_model_decides() {
        for (choice, control) in [
            (json!("auto"), json!("auto")),
            (json!("none"), json!("none")),
            (json!("required"), json!("auto")),
            (tool("f"), json!("auto")),
        ] {
            let strict = json!({"type": "function", "function": {"name": "f", "strict": true}});
            let set = read(&json!({
                "tools": [strict], "tool_choice": choice, "parallel_tool_calls": false}))
            .unwrap();
            assert_eq!(
                Value::Object(
                    set.without_enforcement(ToolForm::Chat)
                        .to_members(ToolForm::Chat)
                ),
                json!({"tools": [tool("f")], "tool_choice": control, "parallel_tool_calls": false})
            );
        }
    }

    #[test]
    fn responses_are_not_strict_without_enforcement() {
        let set = read(&json!({"tools": [tool("f")]})).unwrap();
        assert!(!set.tools[0].is_strict());
        let control = set.without_enforcement(ToolForm::Responses);
        assert_eq!(
            control.to_members(ToolForm::Responses)["tools"],
            json!([{"type": "function", "name": "f", "strict": false}])
        );
    }

    #[test]
    fn serde_names_unknown_members_and_wrong_sets() {
        for (text, message) in [
            (r#"{"tools":[],"x":1}"#, "unknown member: \"x\""),
            (
                r#"{"tools":[]}"#,
                "tools must be a list of at least one tool",
            ),
        ] {
            let error = serde_json::from_str::<ToolSet>(text).unwrap_err();
            assert!(error.to_string().starts_with(message), "{error}");
        }
    }
}
