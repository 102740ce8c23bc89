//! The constraint under which the model writes calls, as engines take it, and the parts of the
//! answer that it applies to.
//!
//! xgrammar gets a structural tag and llguidance a Lark grammar, both for the whole set of tools.
//! Where an engine or a format has no such constraint (outlines, `qwen3-coder` with llguidance,
//! custom tools), the server writes the markup, and each value has a constraint of its own.
//!
//! As in vLLM, the schema of a tool is enforced if the tool is strict or a call is required.
//! Otherwise any object is allowed. outlines has no constraint for any object, so it always
//! enforces the schema.

use std::sync::Arc;

use serde_json::{Value, json};

use super::decision::Decision;
use super::style::{
    Arguments, CUSTOM_END, CUSTOM_TRIGGER, PARAMETER, PARAMETER_END, StyleSpec, ToolStyle, is_text,
};
use crate::model::Step;
use sobench_core::constraint::{AlwaysTrue, Constraint, GrammarDialect};
use sobench_core::tools::{TextFormat, TextSyntax, Tool, ToolChoice, ToolInput, ToolSet};

/// Tokens of a text that nothing constrains.
const TEXT_WORDS: u32 = 3;

/// Most characters of a text of bounded length.
const MAX_TEXT_CHARS: u64 = 24;

/// How the calls of a server are constrained.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Enforcement {
    /// The name of the engine.
    pub(crate) engine: &'static str,
    pub(crate) style: ToolStyle,
    /// Whether schemas are ignored, and with them required parameters. An injected fault.
    pub(crate) is_dropped: bool,
}

/// A part of an answer whose constraint is not compiled yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CallPart {
    pub(crate) script: Vec<Step>,
    pub(crate) constraint: Option<Arc<Constraint>>,
}

/// The parts of an answer with tools.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CallParts {
    pub(crate) parts: Vec<CallPart>,
    /// A constraint that is compiled, but has no effect on this answer.
    pub(crate) unused: Option<Arc<Constraint>>,
}

/// The form of the constraint.
enum Form {
    StructuralTag,
    Lark,
    Values,
}

/// The parts of an answer that follows this decision.
pub(crate) fn call_parts(
    enforcement: Enforcement,
    tools: &ToolSet,
    mut decision: Decision,
) -> CallParts {
    let words = (decision.words > 0).then_some(Step::Words(decision.words));
    let is_text = decision.calls.is_empty();
    match enforcement.form(tools) {
        Form::StructuralTag => {
            let mut script: Vec<Step> = words.into_iter().collect();
            script.extend(enforcement.script(tools, &mut decision));
            let tag = (tools.choice != ToolChoice::None || !is_text)
                .then(|| enforcement.structural_tag(tools));
            CallParts {
                parts: vec![CallPart {
                    script,
                    constraint: tag.map(Arc::new),
                }],
                unused: None,
            }
        }
        form => {
            let mut parts = Vec::new();
            parts.extend(words.map(|words| CallPart {
                script: vec![words],
                constraint: None,
            }));
            let lark = matches!(form, Form::Lark).then(|| Arc::new(enforcement.lark(tools)));
            let is_compiled = tools.choice != ToolChoice::None;
            match lark {
                Some(lark) if !is_text => parts.push(CallPart {
                    script: enforcement.script(tools, &mut decision),
                    constraint: Some(lark),
                }),
                unused => {
                    parts.extend(enforcement.values(tools, &mut decision));
                    return CallParts {
                        parts,
                        unused: unused.filter(|_| is_compiled),
                    };
                }
            }
            CallParts {
                parts,
                unused: None,
            }
        }
    }
}

impl Enforcement {
    fn form(self, tools: &ToolSet) -> Form {
        let is_custom = |tool: &Tool| matches!(tool.input, ToolInput::Custom { .. });
        if tools.tools.iter().any(is_custom) {
            return Form::Values;
        }
        match (self.engine, self.spec().arguments) {
            ("outlines", _) | ("guidance", Arguments::Xml) => Form::Values,
            ("guidance", Arguments::Json) => Form::Lark,
            _ => Form::StructuralTag,
        }
    }

    fn spec(self) -> &'static StyleSpec {
        self.style.spec()
    }

    /// The schema of a tool's arguments that is enforced. `None` for any object.
    fn schema(self, tools: &ToolSet, tool: &Tool) -> Option<Value> {
        let is_enforced =
            tool.is_strict() || tools.choice.requires_call() || self.engine == "outlines";
        (is_enforced && !self.is_dropped).then(|| parameters(tool))
    }

    /// The tools that may be called. All, if the choice allows none: the fault of a call under
    /// `none` is injected.
    fn callable(tools: &ToolSet) -> impl Iterator<Item = &Tool> {
        let is_none = tools.choice == ToolChoice::None;
        tools
            .tools
            .iter()
            .filter(move |tool| is_none || tools.choice.allows(&tool.name))
    }

    fn allows_several(tools: &ToolSet) -> bool {
        tools.allows_several_calls() && !matches!(tools.choice, ToolChoice::Named(_))
    }

    /// The structural tag of all callable tools. If a call is required, the answer starts with it.
    fn structural_tag(self, tools: &ToolSet) -> Constraint {
        let StyleSpec {
            trigger,
            call,
            separator,
            start: calls_start,
            arguments,
            ..
        } = self.spec();
        let style = match arguments {
            Arguments::Json => "json",
            Arguments::Xml => "qwen_xml",
        };
        let tags: Vec<Value> = Self::callable(tools)
            .map(|tool| {
                let any = || json!({"type": "object", "additionalProperties": true});
                let schema = self.schema(tools, tool).unwrap_or_else(any);
                json!({
                    "type": "tag",
                    "begin": format!("{}{}{}", call[0], tool.name, call[1]),
                    "content": {"type": "json_schema", "json_schema": schema, "style": style},
                    "end": call[2],
                })
            })
            .collect();
        let is_single = !Self::allows_several(tools);
        let separated = |tags: Vec<Value>| {
            json!({"type": "tags_with_separator", "tags": tags, "separator": separator,
                "at_least_one": true, "stop_after_first": is_single})
        };
        let is_required = tools.choice.requires_call();
        let text = |value: &str| json!({"type": "const_string", "value": value});
        // A tag without an end may not contain a list of calls, so the text around all calls is not
        // a tag. Both formats of the list are allowed to have no end.
        let format = match (*calls_start, is_required) {
            ("", true) => separated(tags),
            ("", false) => json!({"type": "triggered_tags", "triggers": [trigger], "tags": tags,
                "at_least_one": false, "stop_after_first": is_single}),
            (start, true) => {
                json!({"type": "sequence", "elements": [text(start), separated(tags)]})
            }
            (start, false) => json!({"type": "dispatch", "rules": [[start, separated(tags)]],
                "loop": false}),
        };
        Constraint::StructuralTag(Arc::new(
            json!({"type": "structural_tag", "format": format}),
        ))
    }

    /// The Lark grammar of one call or more. Text before it is not constrained.
    fn lark(self, tools: &ToolSet) -> Constraint {
        let StyleSpec {
            call,
            separator,
            start: calls_start,
            ..
        } = self.spec();
        let quoted = |text: &str| Value::from(text).to_string();
        let mut rules = Vec::new();
        let mut alternatives = Vec::new();
        for (index, tool) in Self::callable(tools).enumerate() {
            let schema = self
                .schema(tools, tool)
                .unwrap_or_else(|| json!({"type": "object"}));
            let start = quoted(&format!("{}{}{}", call[0], tool.name, call[1]));
            rules.push(format!(
                "call_{index}: {start} %json {schema} {}",
                quoted(call[2])
            ));
            alternatives.push(format!("call_{index}"));
        }
        let more = if Self::allows_several(tools) {
            format!(" ({} call)*", quoted(separator))
        } else {
            String::new()
        };
        let start = match *calls_start {
            "" => format!("start: call{more}"),
            mark => format!("start: {} call{more}", quoted(mark)),
        };
        let call = format!("call: {}", alternatives.join(" | "));
        Constraint::Grammar {
            dialect: GrammarDialect::Lark,
            text: format!("{start}\n{call}\n{}\n", rules.join("\n")).into(),
        }
    }

    /// The steps of the calls under a constraint of the whole set.
    fn script(self, tools: &ToolSet, decision: &mut Decision) -> Vec<Step> {
        let StyleSpec {
            call,
            separator,
            start: calls_start,
            ..
        } = self.spec();
        let mut steps = Vec::new();
        for (position, index) in decision.calls.clone().into_iter().enumerate() {
            let tool = &tools.tools[index];
            let before = if position == 0 {
                *calls_start
            } else {
                *separator
            };
            steps.push(Step::Write(format!(
                "{before}{}{}{}",
                call[0], tool.name, call[1]
            )));
            match self.spec().arguments {
                Arguments::Json if self.is_dropped => {
                    steps.push(Step::Write(format!("{{}}{}", call[2])));
                }
                Arguments::Json => steps.push(Step::Fill {
                    end: call[2].to_owned(),
                    is_json: true,
                }),
                Arguments::Xml => {
                    let written = self.written_parameters(tool, decision);
                    for (position, (name, schema)) in written.into_iter().enumerate() {
                        let kind = ValueKind::new(&schema);
                        let before = if position == 0 { "" } else { "\n" };
                        steps.push(Step::Write(format!("{before}{PARAMETER}{name}>\n")));
                        let end = format!("\n{PARAMETER_END}");
                        if let ValueKind::Choice(choices) = &kind
                            && let Some(choice) = decision.choose(choices)
                        {
                            steps.push(Step::Write(choice.clone() + &end));
                            continue;
                        }
                        if kind == ValueKind::Text {
                            steps.push(Step::Words(TEXT_WORDS - 1));
                        }
                        steps.push(Step::Fill {
                            end,
                            is_json: matches!(kind, ValueKind::Json(_)),
                        });
                    }
                    steps.push(Step::Write(call[2].to_owned()));
                }
            }
        }
        steps.push(Step::End);
        steps
    }

    /// The parts of the calls if each value has a constraint of its own.
    fn values(self, tools: &ToolSet, decision: &mut Decision) -> Vec<CallPart> {
        let spec = self.spec();
        let mut parts = Vec::new();
        let write = |text: String| CallPart {
            script: vec![Step::Write(text)],
            constraint: None,
        };
        for (position, index) in decision.calls.clone().into_iter().enumerate() {
            let tool = &tools.tools[index];
            let before = if position == 0 {
                spec.start
            } else {
                spec.separator
            };
            if let ToolInput::Custom { format } = &tool.input {
                // Not part of the style's own markup, so a mark of the style is left out.
                let before = if position == 0 { "" } else { "\n" };
                parts.push(write(format!("{before}{CUSTOM_TRIGGER}{}>", tool.name)));
                parts.push(custom_input(format));
                parts.push(write(CUSTOM_END.to_owned()));
                continue;
            }
            parts.push(write(format!(
                "{before}{}{}{}",
                spec.call[0], tool.name, spec.call[1]
            )));
            match spec.arguments {
                Arguments::Json if self.is_dropped => parts.push(write("{}".to_owned())),
                Arguments::Json => {
                    let schema = self.schema(tools, tool);
                    let constraint = schema.map_or(Constraint::JsonObject(AlwaysTrue), |schema| {
                        Constraint::JsonSchema(Arc::new(schema))
                    });
                    parts.push(CallPart {
                        script: Vec::new(),
                        constraint: Some(Arc::new(constraint)),
                    });
                }
                Arguments::Xml => {
                    let is_enforced = self.schema(tools, tool).is_some();
                    let written = self.written_parameters(tool, decision);
                    for (position, (name, schema)) in written.into_iter().enumerate() {
                        let before = if position == 0 { "" } else { "\n" };
                        parts.push(write(format!("{before}{PARAMETER}{name}>\n")));
                        parts.push(if is_enforced {
                            ValueKind::new(&schema).part()
                        } else {
                            text_part()
                        });
                        parts.push(write(format!("\n{PARAMETER_END}")));
                    }
                }
            }
            parts.push(write(spec.call[2].to_owned()));
        }
        parts.push(CallPart {
            script: vec![Step::End],
            constraint: None,
        });
        parts
    }

    /// The parameters that the model writes, in the order of the schema, with their schemas:
    /// required ones, and some others.
    fn written_parameters(self, tool: &Tool, decision: &mut Decision) -> Vec<(String, Value)> {
        let schema = parameters(tool);
        if self.is_dropped {
            return Vec::new();
        }
        let required = schema.get("required").and_then(Value::as_array);
        let is_required =
            |name: &str| required.is_some_and(|names| names.iter().any(|known| known == name));
        let properties = schema.get("properties").and_then(Value::as_object);
        properties
            .into_iter()
            .flatten()
            .filter(|(name, _)| is_required(name) || decision.writes_optional())
            .map(|(name, value)| (name.clone(), with_definitions(value, &schema)))
            .collect()
    }
}

/// The schema of a tool's arguments. A tool without one has no parameters.
fn parameters(tool: &Tool) -> Value {
    let schema = match &tool.input {
        ToolInput::Function { parameters, .. } => parameters.clone(),
        ToolInput::Custom { .. } => None,
    };
    schema.unwrap_or_else(
        || json!({"type": "object", "properties": {}, "additionalProperties": false}),
    )
}

/// A part of a schema, with the definitions that its references need.
fn with_definitions(part: &Value, schema: &Value) -> Value {
    let mut part = part.clone();
    if let Value::Object(members) = &mut part {
        for name in ["$defs", "definitions"] {
            if let Some(definitions) = schema.get(name) {
                members.entry(name).or_insert_with(|| definitions.clone());
            }
        }
    }
    part
}

/// How the value of a parameter is constrained.
#[derive(Clone, Debug, PartialEq)]
enum ValueKind {
    /// A text without further keywords.
    Text,
    Choice(Vec<String>),
    Regex(String),
    Json(Value),
}

impl ValueKind {
    fn new(schema: &Value) -> Self {
        if !is_text(schema) {
            return Self::Json(schema.clone());
        }
        let strings = |values: &[Value]| {
            let texts = values.iter().filter_map(Value::as_str);
            texts.map(str::to_owned).collect::<Vec<_>>()
        };
        if let Some(Value::Array(values)) = schema.get("enum") {
            return Self::Choice(strings(values));
        }
        if let Some(value) = schema.get("const") {
            return Self::Choice(strings(std::slice::from_ref(value)));
        }
        let text = |name| schema.get(name).and_then(Value::as_str);
        if let Some(pattern) = text("pattern") {
            return Self::Regex(whole_match(pattern));
        }
        if let Some(regex) = text("format").and_then(format_regex) {
            return Self::Regex(regex.to_owned());
        }
        let number = |name| schema.get(name).and_then(Value::as_u64);
        match (number("minLength"), number("maxLength")) {
            (None, None) => Self::Text,
            (least, most) => {
                let least = least.unwrap_or(1).max(1);
                let most = most.unwrap_or(u64::MAX).min(least + MAX_TEXT_CHARS);
                Self::Regex(format!("[a-z]{{{least},{most}}}"))
            }
        }
    }

    fn part(self) -> CallPart {
        let constraint = match self {
            Self::Text => return text_part(),
            Self::Choice(choices) => Constraint::Choice(choices.into()),
            Self::Regex(regex) => Constraint::Regex(regex.into()),
            Self::Json(schema) => Constraint::JsonSchema(Arc::new(schema)),
        };
        CallPart {
            script: Vec::new(),
            constraint: Some(Arc::new(constraint)),
        }
    }
}

/// A text that nothing constrains.
fn text_part() -> CallPart {
    CallPart {
        script: vec![Step::Words(TEXT_WORDS)],
        constraint: None,
    }
}

fn custom_input(format: &TextFormat) -> CallPart {
    let TextFormat::Grammar { syntax, definition } = format else {
        return text_part();
    };
    let text: Arc<str> = definition.as_str().into();
    let constraint = match syntax {
        TextSyntax::Regex => Constraint::Regex(text),
        TextSyntax::Lark => Constraint::Grammar {
            dialect: GrammarDialect::Lark,
            text,
        },
    };
    CallPart {
        script: Vec::new(),
        constraint: Some(Arc::new(constraint)),
    }
}

/// A regex for whole texts from a pattern that may match a part.
fn whole_match(pattern: &str) -> String {
    let start = pattern.strip_prefix('^');
    let body = start.unwrap_or(pattern);
    let end = body.strip_suffix('$').filter(|body| !body.ends_with('\\'));
    let body = end.unwrap_or(body);
    let free = |is_anchored: bool| if is_anchored { "" } else { "[a-z]{0,8}" };
    format!("{}(?:{body}){}", free(start.is_some()), free(end.is_some()))
}

/// A regex for texts of a format. Narrower than the format.
fn format_regex(format: &str) -> Option<&'static str> {
    Some(match format {
        "date" => "20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])",
        "time" => "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z",
        "date-time" => {
            "20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z"
        }
        "email" => "[a-z]{2,10}@[a-z]{2,10}\\.com",
        "uri" => "https://[a-z]{3,12}\\.com/[a-z]{0,8}",
        "uuid" => "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}",
        "hostname" => "[a-z]{3,12}\\.com",
        "ipv4" => "10\\.[1-9]\\.[1-9]\\.[1-9]",
        _ => return None,
    })
}

/// Whether ignoring the schema of a called tool shows: the schema requires a member.
pub(crate) fn is_required_somewhere(tools: &ToolSet, calls: &[usize]) -> bool {
    let has_required = |tool: &Tool| {
        let schema = parameters(tool);
        let required = schema.get("required").and_then(Value::as_array);
        required.is_some_and(|names| !names.is_empty())
    };
    calls.iter().any(|call| {
        let tool = &tools.tools[*call];
        (tool.is_strict() || tools.choice.requires_call())
            && matches!(tool.input, ToolInput::Function { .. })
            && has_required(tool)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::decide;

    fn set(members: &Value) -> ToolSet {
        ToolSet::from_members(members.as_object().unwrap()).unwrap()
    }

    fn weather(choice: &str) -> ToolSet {
        set(&json!({"tool_choice": choice, "tools": [
            {"type": "function", "function": {"name": "weather", "strict": true, "parameters": {"type": "object",
                "properties": {"city": {"type": "string"}, "unit": {"enum": ["C", "F"]}}, "required": ["city", "unit"]}}},
            {"type": "function", "function": {"name": "time"}},
        ]}))
    }

    fn enforcement(engine: &'static str, style: ToolStyle) -> Enforcement {
        Enforcement {
            engine,
            style,
            is_dropped: false,
        }
    }

    fn tag(enforcement: Enforcement, tools: &ToolSet) -> Value {
        match enforcement.structural_tag(tools) {
            Constraint::StructuralTag(tag) => tag["format"].clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn tags_are_triggered_unless_a_call_is_required() {
        let hermes = enforcement("xgrammar", ToolStyle::Hermes);
        let auto = tag(hermes, &weather("auto"));
        assert_eq!(auto["type"], "triggered_tags");
        assert_eq!(
            auto["tags"][0]["begin"],
            "<tool_call>\n{\"name\": \"weather\", \"arguments\": "
        );
        let schema =
            |format: &Value, index: usize| format["tags"][index]["content"]["json_schema"].clone();
        assert_eq!(schema(&auto, 0)["required"], json!(["city", "unit"]));
        assert_eq!(schema(&auto, 1)["additionalProperties"], true);
        let required = tag(hermes, &weather("required"));
        assert_eq!(required["type"], "tags_with_separator");
        assert_eq!(schema(&required, 1)["additionalProperties"], false);
        let llama = tag(
            enforcement("xgrammar", ToolStyle::Llama3),
            &weather("required"),
        );
        assert_eq!(llama["elements"][0]["value"], "<|python_tag|>");
        assert_eq!(llama["elements"][1]["separator"], "; ");
        let dropped = Enforcement {
            is_dropped: true,
            ..hermes
        };
        let dropped = tag(dropped, &weather("required"));
        assert_eq!(schema(&dropped, 0)["additionalProperties"], true);
    }

    #[test]
    fn lark_has_a_rule_for_each_callable_tool() {
        let hermes = enforcement("guidance", ToolStyle::Hermes);
        let Constraint::Grammar { text, .. } = hermes.lark(&weather("auto")) else {
            panic!("not a grammar");
        };
        assert_eq!(
            &*text,
            "start: call (\"\\n\" call)*\ncall: call_0 | call_1\ncall_0: \"<tool_call>\\n{\\\"name\\\": \\\"weather\\\", \\\"arguments\\\": \" %json {\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"},\"unit\":{\"enum\":[\"C\",\"F\"]}},\"required\":[\"city\",\"unit\"]} \"}\\n</tool_call>\"\ncall_1: \"<tool_call>\\n{\\\"name\\\": \\\"time\\\", \\\"arguments\\\": \" %json {\"type\":\"object\"} \"}\\n</tool_call>\"\n"
        );
    }

    #[test]
    fn unused_constraints_are_compiled() {
        let text_seed = (0..100)
            .find(|seed| decide(&weather("auto"), *seed).calls.is_empty())
            .unwrap();
        let hermes = enforcement("guidance", ToolStyle::Hermes);
        let parts = |choice| {
            let tools = weather(choice);
            call_parts(hermes, &tools, decide(&tools, text_seed))
        };
        assert!(parts("auto").unused.is_some());
        assert!(parts("none").unused.is_none());
        for choice in ["auto", "none"] {
            let parts = parts(choice).parts;
            assert!(
                parts.iter().all(|part| part.constraint.is_none()),
                "{parts:?}"
            );
        }
    }

    #[test]
    fn values_have_constraints_of_their_own() {
        for (schema, expected) in [
            (json!({"type": "string"}), ValueKind::Text),
            (
                json!({"enum": ["a", "b"]}),
                ValueKind::Choice(vec!["a".to_owned(), "b".to_owned()]),
            ),
            (
                json!({"type": "string", "pattern": "^[A-Z]{3}$"}),
                ValueKind::Regex("(?:[A-Z]{3})".to_owned()),
            ),
            (
                json!({"type": "string", "maxLength": 5}),
                ValueKind::Regex("[a-z]{1,5}".to_owned()),
            ),
            (
                json!({"type": ["string", "null"]}),
                ValueKind::Json(json!({"type": ["string", "null"]})),
            ),
        ] {
            assert_eq!(ValueKind::new(&schema), expected, "{schema}");
        }
        assert_eq!(whole_match("a\\$"), "[a-z]{0,8}(?:a\\$)[a-z]{0,8}");
    }

    #[test]
    fn a_fault_shows_only_in_tools_with_required_members() {
        let tools = weather("auto");
        assert!(is_required_somewhere(&tools, &[1, 0]));
        assert!(!is_required_somewhere(&tools, &[1]));
    }
}
