//! The corpus `tags`: structural tags of tools, in the styles that servers send, with answers.
//!
//! The tools are those of the dataset `tools`. The answers have no call, one or several, with text
//! around them; others name an unknown tool, have wrong arguments, or lack the end of a tag.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::tool_arguments::{draw, violations};
use super::{Content, Entry, Instance, Sink};
use crate::mask::record::CorpusKind;
use sobench_core::constraint::Constraint;
use sobench_core::error::{Error, Result};
use sobench_core::tools::{Tool, ToolInput};
use sobench_data::dataset::draw_tools;
use sobench_pycompat::random::PythonRandom;

/// Numbers of tools of `--corpus tags`.
const TOOLS: [usize; 3] = [10, 100, 500];

/// Text around calls.
const BEFORE: &str = "I will look that up <now> & answer.\n";
const BETWEEN: &str = "\nThen the next one:\n";
const AFTER: &str = "\nDone – that is all.";

/// Reads `tags` or `tags:N`.
///
/// # Errors
/// The number of tools is invalid.
pub(super) fn read(path: &Path, seed: u64, sink: &mut Sink) -> Result<()> {
    for count in tool_counts(path)? {
        let tools = draw_tools(count, seed)?;
        for layout in &LAYOUTS {
            sink.add(layout.entry(&tools, seed));
        }
    }
    Ok(())
}

fn tool_counts(path: &Path) -> Result<Vec<usize>> {
    let typed = path.to_str().unwrap_or_default();
    let Some((_, count)) = typed.split_once(':') else {
        return Ok(TOOLS.to_vec());
    };
    let count = count.parse().map_err(|_| {
        Error::usage(format!("invalid number of tools: {count}"))
            .hint(format!("use {}:10, for example", CorpusKind::Tags.name()))
    })?;
    Ok(vec![count])
}

/// How a call is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CallStyle {
    /// `<tool_call>` around an object with name and arguments.
    Hermes,
    /// `<function=name>` around the arguments.
    Function,
    /// An object with name and parameters.
    Object,
    /// Parameters in XML elements.
    QwenXml,
}

/// Where calls may stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Placement {
    /// Anywhere in free text.
    Triggered,
    /// The same in the older form, with `structures` and `triggers`.
    Legacy,
    /// One after another, with this separator.
    Separated(&'static str),
}

/// One kind of tag.
struct Layout {
    name: &'static str,
    style: CallStyle,
    placement: Placement,
    at_least_one: bool,
    stop_after_first: bool,
    any_order: bool,
    /// Text before and after all calls, with a format of its own.
    frame: Option<Frame>,
}

/// What stands around the calls.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Frame {
    /// Reasoning before the answer.
    Reasoning,
    /// Brackets.
    List,
}

const AUTO: Layout = Layout {
    name: "",
    style: CallStyle::Hermes,
    placement: Placement::Triggered,
    at_least_one: false,
    stop_after_first: false,
    any_order: false,
    frame: None,
};

const LAYOUTS: [Layout; 10] = [
    Layout {
        name: "hermes",
        ..AUTO
    },
    Layout {
        name: "hermes-required",
        at_least_one: true,
        ..AUTO
    },
    Layout {
        name: "hermes-reasoning",
        frame: Some(Frame::Reasoning),
        ..AUTO
    },
    Layout {
        name: "hermes-lines",
        placement: Placement::Separated("\n"),
        ..AUTO
    },
    Layout {
        name: "function",
        style: CallStyle::Function,
        ..AUTO
    },
    Layout {
        name: "function-single",
        style: CallStyle::Function,
        at_least_one: true,
        stop_after_first: true,
        ..AUTO
    },
    Layout {
        name: "function-any-order",
        style: CallStyle::Function,
        stop_after_first: true,
        any_order: true,
        ..AUTO
    },
    Layout {
        name: "function-legacy",
        style: CallStyle::Function,
        placement: Placement::Legacy,
        ..AUTO
    },
    Layout {
        name: "list",
        style: CallStyle::Object,
        placement: Placement::Separated(", "),
        at_least_one: true,
        frame: Some(Frame::List),
        ..AUTO
    },
    Layout {
        name: "qwen-xml",
        style: CallStyle::QwenXml,
        ..AUTO
    },
];

/// An answer in parts.
#[derive(Default)]
struct AnswerParts<'a> {
    before: &'a str,
    between: &'a str,
    after: &'a str,
    calls: &'a [String],
}

impl Layout {
    fn entry(&self, tools: &[Tool], seed: u64) -> Entry {
        Entry {
            name: format!("tags/{}-{}", self.name, tools.len()),
            tags: self.tags(tools.len()),
            constraint: Constraint::StructuralTag(Arc::new(self.tag(tools))),
            instances: self.instances(tools, seed),
        }
    }

    fn tags(&self, tools: usize) -> Vec<String> {
        let mut tags = vec![
            format!("tools:{tools}"),
            format!("style:{}", self.style.name()),
        ];
        tags.push(match self.placement {
            Placement::Triggered => "triggered_tags".to_owned(),
            Placement::Legacy => "structures".to_owned(),
            Placement::Separated(_) => "tags_with_separator".to_owned(),
        });
        for (is_set, tag) in [
            (self.at_least_one, "at_least_one"),
            (self.stop_after_first, "stop_after_first"),
            (self.any_order, "any_order"),
        ] {
            tags.extend(is_set.then(|| tag.to_owned()));
        }
        tags
    }

    fn tag(&self, tools: &[Tool]) -> Value {
        if self.placement == Placement::Legacy {
            let structure = |tool: &Tool| {
                let [begin, end] = self.style.edges(&tool.name);
                json!({"begin": begin, "schema": parameters(tool), "end": end})
            };
            let structures: Vec<Value> = tools.iter().map(structure).collect();
            return json!({"type": "structural_tag", "structures": structures, "triggers": [self.style.trigger()]});
        }
        let tag = |tool: &Tool| {
            let [begin, end] = self.style.edges(&tool.name);
            json!({"type": "tag", "begin": begin, "content": self.content(tool), "end": end})
        };
        let mut format = Map::new();
        match self.placement {
            Placement::Separated(separator) => {
                format.insert("type".to_owned(), "tags_with_separator".into());
                format.insert("separator".to_owned(), separator.into());
            }
            Placement::Triggered | Placement::Legacy => {
                format.insert("type".to_owned(), "triggered_tags".into());
                format.insert("triggers".to_owned(), json!([self.style.trigger()]));
            }
        }
        format.insert("tags".to_owned(), tools.iter().map(tag).collect());
        format.insert("at_least_one".to_owned(), self.at_least_one.into());
        format.insert("stop_after_first".to_owned(), self.stop_after_first.into());
        let calls = Value::Object(format);
        let text = |value: &str| json!({"type": "const_string", "value": value});
        let format = match self.frame {
            None => calls,
            Some(Frame::List) => {
                json!({"type": "sequence", "elements": [text("["), calls, text("]")]})
            }
            Some(Frame::Reasoning) => {
                let thinking = json!({"type": "tag", "begin": "<think>", "content": {"type": "any_text"}, "end": "</think>"});
                json!({"type": "sequence", "elements": [thinking, calls]})
            }
        };
        json!({"type": "structural_tag", "format": format})
    }

    fn content(&self, tool: &Tool) -> Value {
        let mut content = json!({"type": "json_schema", "json_schema": parameters(tool)});
        if self.style == CallStyle::QwenXml {
            content["style"] = "qwen_xml".into();
        }
        if self.any_order {
            content["any_order"] = true.into();
        }
        content
    }

    /// The text of a call.
    fn call(&self, name: &str, arguments: &Value) -> String {
        let [begin, end] = self.style.edges(name);
        let arguments = match (self.style, arguments) {
            (CallStyle::QwenXml, Value::Object(members)) => members
                .iter()
                .map(|(name, value)| match value {
                    Value::String(text) => format!("<parameter={name}>{text}</parameter>"),
                    value => format!("<parameter={name}>{value}</parameter>"),
                })
                .collect(),
            (_, arguments) => arguments.to_string(),
        };
        format!("{begin}{arguments}{end}")
    }

    fn is_free_text(&self) -> bool {
        !matches!(self.placement, Placement::Separated(_))
    }

    /// The whole answer.
    fn answer(&self, parts: &AnswerParts<'_>) -> String {
        let between = match self.placement {
            Placement::Separated(separator) => separator,
            _ => parts.between,
        };
        let calls = parts.calls.join(between);
        let (start, end) = match self.frame {
            None => ("", ""),
            Some(Frame::List) => ("[", "]"),
            Some(Frame::Reasoning) => ("<think>It is < 5 days & > 2.</think>", ""),
        };
        format!("{start}{}{calls}{}{end}", parts.before, parts.after)
    }

    /// Whether an answer with valid calls follows the tag.
    fn allows(&self, parts: &AnswerParts<'_>) -> bool {
        let calls = parts.calls.len();
        let is_bare = parts.before.is_empty() && parts.after.is_empty();
        if (self.at_least_one && calls == 0) || (self.stop_after_first && calls > 1) {
            return false;
        }
        if !self.is_free_text() {
            return is_bare;
        }
        (!self.at_least_one || parts.before.is_empty())
            && (!self.stop_after_first || calls == 0 || parts.after.is_empty())
    }

    fn instances(&self, tools: &[Tool], seed: u64) -> Vec<Instance> {
        let mut random = PythonRandom::new(seed.wrapping_add(tools.len() as u64));
        let drawn: Vec<(&Tool, Value)> = random
            .sample(tools.len(), tools.len().min(4))
            .into_iter()
            .map(|at| &tools[at])
            .map(|tool| (tool, draw(&parameters(tool), &mut random)))
            .collect();
        let calls: Vec<String> = drawn
            .iter()
            .map(|(tool, arguments)| self.call(&tool.name, arguments))
            .collect();
        let mut instances = Vec::new();
        let mut add = |text: String, is_valid: bool| {
            instances.push(Instance {
                content: Content::Text(text),
                label: Some(is_valid),
            });
        };
        let (before, between, after) = (BEFORE, BETWEEN, AFTER);
        let first = &calls[..1];
        let none = &calls[..0];
        let two = &calls[..calls.len().min(2)];
        for parts in [
            AnswerParts {
                calls: none,
                ..AnswerParts::default()
            },
            AnswerParts {
                before,
                calls: none,
                ..AnswerParts::default()
            },
            AnswerParts {
                calls: first,
                ..AnswerParts::default()
            },
            AnswerParts {
                before,
                calls: first,
                ..AnswerParts::default()
            },
            AnswerParts {
                calls: first,
                after,
                ..AnswerParts::default()
            },
            AnswerParts {
                calls: two,
                ..AnswerParts::default()
            },
            AnswerParts {
                calls: two,
                between,
                after,
                ..AnswerParts::default()
            },
            AnswerParts {
                before,
                between,
                after,
                calls: &calls,
            },
        ] {
            add(self.answer(&parts), self.allows(&parts));
        }
        // Wrong in one call.
        let [begin, end] = self.style.edges(&drawn[0].0.name);
        let mut wrong = vec![
            self.call("no_such_tool", &drawn[0].1),
            self.call(&format!("{}_", drawn[0].0.name), &drawn[0].1),
            calls[0][..calls[0].len() - end.len()].to_owned(),
            calls[0][..calls[0].len() - 1].to_owned(),
            format!("{begin}{end}"),
        ];
        // With `qwen_xml`, values are texts, and `{}` is no parameter.
        if self.style != CallStyle::QwenXml {
            let schema = parameters(drawn[0].0);
            let violations = violations(&schema, &drawn[0].1).into_iter();
            wrong.extend(violations.map(|(_, value)| self.call(&drawn[0].0.name, &value)));
        }
        for call in wrong {
            let calls = [call];
            let parts = AnswerParts {
                calls: &calls,
                ..AnswerParts::default()
            };
            add(self.answer(&parts), false);
        }
        instances
    }
}

impl CallStyle {
    fn name(self) -> &'static str {
        match self {
            Self::Hermes => "hermes",
            Self::Function => "function",
            Self::Object => "object",
            Self::QwenXml => "qwen_xml",
        }
    }

    fn trigger(self) -> &'static str {
        match self {
            Self::Hermes => "<tool_call>",
            Self::Function => "<function=",
            Self::Object => "{\"name\": ",
            Self::QwenXml => "<tool_call>\n<function=",
        }
    }

    /// Begin and end of the tag of a tool.
    fn edges(self, name: &str) -> [String; 2] {
        let (begin, end) = match self {
            Self::Hermes => (
                format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\": "),
                "}\n</tool_call>",
            ),
            Self::Function => (format!("<function={name}>"), "</function>"),
            Self::Object => (format!("{{\"name\": \"{name}\", \"parameters\": "), "}"),
            Self::QwenXml => (
                format!("<tool_call>\n<function={name}>\n"),
                "\n</function>\n</tool_call>",
            ),
        };
        [begin, end.to_owned()]
    }
}

/// The schema of the arguments.
fn parameters(tool: &Tool) -> Value {
    match &tool.input {
        ToolInput::Function {
            parameters: Some(parameters),
            ..
        } => parameters.clone(),
        _ => json!({"type": "object", "properties": {}, "additionalProperties": false}),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use sobench_core::verdict::Verdict;
    use sobench_judge::{Evaluator, JudgeSettings, judge_text};

    use super::*;

    fn entries(count: usize, seed: u64) -> Vec<Entry> {
        let tools = draw_tools(count, seed).unwrap();
        LAYOUTS
            .iter()
            .map(|layout| layout.entry(&tools, seed))
            .collect()
    }

    #[test]
    fn labels_of_answers_are_the_verdicts_of_the_judge() {
        let mut labels = BTreeSet::new();
        for (count, seed) in [(1, 0), (10, 1), (10, 2), (50, 3)] {
            for entry in entries(count, seed) {
                let constraint =
                    Evaluator::new(JudgeSettings::default()).compile(&entry.constraint);
                for instance in &entry.instances {
                    let Content::Text(text) = &instance.content else {
                        panic!("an answer is a text");
                    };
                    let verdict = judge_text(&constraint, text);
                    let is_valid = match &verdict {
                        Verdict::Valid => true,
                        Verdict::Invalid { .. } => false,
                        Verdict::NotScored { why } => panic!("{}: {why}", entry.name),
                    };
                    assert_eq!(
                        Some(is_valid),
                        instance.label,
                        "{}: {text}\n{verdict:?}",
                        entry.name
                    );
                    labels.insert((entry.name.clone(), is_valid));
                }
            }
        }
        assert!(labels.len() >= 2 * LAYOUTS.len(), "{labels:?}");
    }

    #[test]
    fn arguments_of_all_tools_match_their_schemas() {
        let mut evaluator = Evaluator::new(JudgeSettings::default());
        for (number, tool) in draw_tools(500, 5).unwrap().iter().enumerate() {
            let schema = parameters(tool);
            let constraint = Constraint::JsonSchema(Arc::new(schema.clone()));
            let drawn = draw(&schema, &mut PythonRandom::new(number as u64));
            let compiled = evaluator.compile(&constraint);
            assert!(
                compiled.accepts(&drawn.to_string()),
                "{}: {drawn}",
                tool.name
            );
            for (what, wrong) in violations(&schema, &drawn) {
                let verdict = judge_text(&compiled, &wrong.to_string());
                let is_invalid = verdict.into_reason().is_some();
                assert!(is_invalid, "{}, {what}: {wrong}", tool.name);
            }
        }
    }

    #[test]
    fn the_seed_decides_and_the_argument_names_the_number_of_tools() {
        let texts = |seed| {
            let entries = entries(10, seed);
            serde_json::to_string(&entries).unwrap()
        };
        assert_eq!(texts(1), texts(1));
        assert_ne!(texts(1), texts(2));
        let counts = |typed: &str| tool_counts(Path::new(typed));
        assert_eq!(counts("tags").unwrap(), TOOLS);
        assert_eq!(counts("tags:7").unwrap(), [7]);
        assert_eq!(
            counts("tags:many").unwrap_err().what,
            "invalid number of tools: many"
        );
    }
}
