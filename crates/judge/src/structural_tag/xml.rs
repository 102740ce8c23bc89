//! The XML styles of `json_schema` formats: parameters of a call, each in an element.
//!
//! The parameters are read as the members of an object, which is judged by the schema. A value is a
//! text or a JSON value. What it is, the element says (`string="true"`, `type="json"`), or the schema
//! does where it states a type; otherwise any reading that is valid counts. White space around a
//! value that is not a plain text is not part of it.

use std::collections::HashMap;

use serde_json::{Map, Value};
use sobench_core::schema_part::SchemaPart;
use sobench_core::verdict::{NotScored, Reason, Verdict};

use super::super::json_reader;
use super::super::json_scan::{Dialect, skip_white_space};
use super::super::schema::SchemaJudge;
use super::leaf::{LeafMatch, STEPS_PER_JUDGEMENT, Steps, white_space_ends};
use super::tree::Style;

/// Maximum number of readings of the same parameters.
const MAX_READINGS: usize = 1024;

/// Maximum nesting of elements (`cohere_xml`).
const MAX_NESTING: usize = 64;

/// Maximum bytes of a parameter's name.
const MAX_NAME_BYTES: usize = 4096;

/// Judges the parameters of a call.
pub(super) struct XmlJudge {
    judge: SchemaJudge,
    style: Style,
    /// The properties of the schema.
    declared: HashMap<String, ValueKinds>,
    required: Vec<String>,
    undeclared: Undeclared,
}

/// Names that the schema does not declare.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Undeclared {
    Refused,
    /// Identifiers, as xgrammar does.
    Identifiers,
    /// By `patternProperties` or `propertyNames`.
    Any,
}

/// The kinds of value that a schema may accept.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ValueKinds {
    text: bool,
    json: bool,
}

const ANY_KIND: ValueKinds = ValueKinds {
    text: true,
    json: true,
};

/// A parameter with the possible readings of its value.
struct Parameter {
    name: String,
    readings: Vec<Value>,
    end: usize,
}

/// Where and why the text stops being a parameter.
struct Stop {
    byte: usize,
    may_continue: bool,
    message: String,
}

type Parsed<T> = Result<T, Stop>;

impl XmlJudge {
    pub(super) fn new(schema: &Value, style: Style, judge: SchemaJudge) -> Result<Self, NotScored> {
        let root = SchemaPart::new(schema).here;
        let is_object = match root.get("type") {
            None => true,
            Some(Value::String(kind)) => kind == "object",
            Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
            Some(_) => false,
        };
        if !is_object {
            return Err(NotScored::Unsupported {
                what: "an XML style needs a schema of objects".to_owned(),
            });
        }
        let declared = match root.get("properties") {
            Some(Value::Object(properties)) => properties
                .iter()
                .map(|(name, property)| (name.clone(), ValueKinds::of(schema, property)))
                .collect(),
            _ => HashMap::new(),
        };
        let required = match root.get("required") {
            Some(Value::Array(names)) => names
                .iter()
                .filter_map(|name| name.as_str().map(str::to_owned))
                .collect(),
            _ => Vec::new(),
        };
        let undeclared =
            if root.get("patternProperties").is_some() || root.get("propertyNames").is_some() {
                Undeclared::Any
            } else if root.get("additionalProperties") == Some(&Value::Bool(false)) {
                Undeclared::Refused
            } else {
                Undeclared::Identifiers
            };
        Ok(Self {
            judge,
            style,
            declared,
            required,
            undeclared,
        })
    }

    /// Matches any number of parameters from byte `start` on.
    pub(super) fn matches(
        &self,
        text: &str,
        start: usize,
        steps: &mut Steps,
    ) -> Result<LeafMatch, NotScored> {
        let mut found = LeafMatch::default();
        let mut parameters: Vec<Parameter> = Vec::new();
        let mut end = start;
        loop {
            let violation = self.violation(&parameters, steps)?;
            if violation.is_none() {
                found.ends.extend(white_space_ends(text, end));
            }
            let next = skip_white_space(text, end);
            let reader = Reader { judge: self, text };
            let stop = match reader.parameter(next, &parameters) {
                Ok(parameter) => {
                    steps.take_bytes(parameter.end - end)?;
                    end = parameter.end;
                    parameters.push(parameter);
                    continue;
                }
                Err(stop) => stop,
            };
            steps.take_bytes(stop.byte.saturating_sub(end))?;
            found.furthest = stop.byte;
            found.may_continue = stop.may_continue;
            // Nothing of another parameter follows, so the parameters are what is wrong.
            match violation {
                Some(message) if stop.byte <= next => {
                    found.message = message;
                    found.shown = Some(start);
                }
                _ => {
                    found.message = stop.message;
                    found.shown = None;
                }
            }
            return Ok(found);
        }
    }

    /// Why the parameters are not valid in any reading, if they are not.
    fn violation(
        &self,
        parameters: &[Parameter],
        steps: &mut Steps,
    ) -> Result<Option<String>, NotScored> {
        let missing = |name: &&String| !parameters.iter().any(|found| found.name == **name);
        if let Some(name) = self.required.iter().find(missing) {
            return Ok(Some(format!("the parameter {name:?} is missing")));
        }
        let mut choice = vec![0; parameters.len()];
        let mut first = None;
        for _ in 0..MAX_READINGS {
            let members = parameters
                .iter()
                .zip(&choice)
                .map(|(parameter, &index)| {
                    (parameter.name.clone(), parameter.readings[index].clone())
                })
                .collect::<Map<_, _>>();
            steps.take(STEPS_PER_JUDGEMENT)?;
            match self.judge.judge(&Value::Object(members)) {
                Verdict::Valid => return Ok(None),
                Verdict::Invalid { reason } => {
                    first.get_or_insert_with(|| reason.to_string());
                }
                Verdict::NotScored { why } => return Err(why),
            }
            if !advance(&mut choice, parameters) {
                return Ok(first);
            }
        }
        Err(NotScored::Limit {
            what: format!("over {MAX_READINGS} readings of the parameters of a call"),
        })
    }
}

/// The next combination of readings. False after the last one.
fn advance(choice: &mut [usize], parameters: &[Parameter]) -> bool {
    for (index, parameter) in choice.iter_mut().zip(parameters) {
        *index += 1;
        if *index < parameter.readings.len() {
            return true;
        }
        *index = 0;
    }
    false
}

impl ValueKinds {
    fn of(root: &Value, property: &Value) -> Self {
        let schema = SchemaPart::within(root, property).here;
        let of_values = |values: &[Value]| Self {
            text: values.iter().any(Value::is_string),
            json: values.iter().any(|value| !value.is_string()),
        };
        match (schema.get("type"), schema.get("enum"), schema.get("const")) {
            (Some(Value::String(kind)), _, _) => Self {
                text: kind == "string",
                json: kind != "string",
            },
            (Some(Value::Array(kinds)), _, _) => Self {
                text: kinds.iter().any(|kind| kind == "string"),
                json: kinds.iter().any(|kind| kind != "string"),
            },
            (_, Some(Value::Array(values)), _) => of_values(values),
            (_, _, Some(value)) => of_values(std::slice::from_ref(value)),
            _ => ANY_KIND,
        }
    }
}

/// The fixed parts of an element.
struct Element {
    /// Before the name.
    start: &'static str,
    /// After the name.
    after_name: &'static str,
    /// Before the value, with white space before it.
    before_value: &'static str,
    end: &'static str,
}

impl Style {
    fn element(self) -> Element {
        let (start, after_name, before_value, end) = match self {
            Self::Json | Self::QwenXml => ("<parameter=", ">", "", "</parameter>"),
            Self::MinimaxXml => ("<parameter name=\"", "\">", "", "</parameter>"),
            Self::DeepseekXml => (
                "<｜DSML｜parameter name=\"",
                "\" string=\"",
                "",
                "</｜DSML｜parameter>",
            ),
            Self::GlmXml => ("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
            Self::CohereXml => ("<cofl:value name=\"", "\" type=\"", "", "</cofl:value>"),
            Self::KimiK3Xml => (
                "<|open|>argument key=\"",
                "\" type=\"",
                "",
                "<|close|>argument<|sep|>",
            ),
        };
        Element {
            start,
            after_name,
            before_value,
            end,
        }
    }
}

struct Reader<'a> {
    judge: &'a XmlJudge,
    text: &'a str,
}

impl Reader<'_> {
    fn parameter(&self, start: usize, earlier: &[Parameter]) -> Parsed<Parameter> {
        let style = self.judge.style;
        let element = style.element();
        let position = self.literal(start, element.start)?;
        let (name, position) = self.name(position, element.after_name)?;
        if earlier.iter().any(|parameter| parameter.name == name) {
            return Err(Stop {
                byte: position,
                may_continue: false,
                message: format!("the parameter {name:?} twice"),
            });
        }
        let kinds = self.judge.declared.get(&name).copied().unwrap_or(ANY_KIND);
        let (readings, end) = match style {
            Style::CohereXml => {
                let (value, end) = self.cohere_value(position, 0)?;
                (vec![value], end)
            }
            Style::DeepseekXml => {
                let (word, position) = self.word(position, &["true", "false"], "\">")?;
                let text = word == "true";
                self.value(position, ValueKinds { text, json: !text }, element.end)?
            }
            Style::KimiK3Xml => self.typed_value(position, element.end)?,
            _ if element.before_value.is_empty() => self.value(position, kinds, element.end)?,
            _ => {
                let position = skip_white_space(self.text, position);
                let position = self.literal(position, element.before_value)?;
                self.value(position, kinds, element.end)?
            }
        };
        Ok(Parameter {
            name,
            readings,
            end,
        })
    }

    /// The byte after `literal`.
    fn literal(&self, start: usize, literal: &str) -> Parsed<usize> {
        let rest = &self.text.as_bytes()[start..];
        let common = rest
            .iter()
            .zip(literal.as_bytes())
            .take_while(|(found, expected)| found == expected)
            .count();
        if common == literal.len() {
            return Ok(start + common);
        }
        Err(Stop {
            byte: self.floor(start + common),
            may_continue: common == rest.len(),
            message: format!("expected {literal:?}"),
        })
    }

    fn floor(&self, mut byte: usize) -> usize {
        while !self.text.is_char_boundary(byte) {
            byte -= 1;
        }
        byte
    }

    /// A name and the byte after `suffix`.
    fn name(&self, start: usize, suffix: &str) -> Parsed<(String, usize)> {
        let rest = self.name_window(start);
        let judge = self.judge;
        let found = rest.find(suffix).map(|length| &rest[..length]);
        if let Some(written) = found {
            let name = self.unescape(written);
            let is_allowed = judge.declared.contains_key(&name)
                || match judge.undeclared {
                    Undeclared::Refused => false,
                    Undeclared::Identifiers => is_identifier(&name),
                    Undeclared::Any => true,
                };
            if is_allowed {
                return Ok((name, start + written.len() + suffix.len()));
            }
        }
        let common = |declared: &String| {
            let declared = self.escape(declared) + suffix;
            let pairs = rest.char_indices().zip(declared.chars());
            pairs
                .take_while(|((_, found), expected)| found == expected)
                .last()
                .map_or(0, |((byte, found), _)| byte + found.len_utf8())
        };
        let declared = judge.declared.keys().map(common).max().unwrap_or(0);
        let undeclared = match judge.undeclared {
            Undeclared::Refused => 0,
            Undeclared::Identifiers if rest.starts_with(|first: char| first.is_ascii_digit()) => 0,
            Undeclared::Identifiers => rest
                .find(|character: char| !character.is_ascii_alphanumeric() && character != '_')
                .unwrap_or(rest.len()),
            Undeclared::Any => rest.len(),
        };
        let read = declared.max(undeclared);
        Err(Stop {
            byte: start + read,
            // The start of the suffix may follow.
            may_continue: found.is_none()
                && start + rest.len() == self.text.len()
                && (read == rest.len() || suffix.starts_with(&rest[read..])),
            message: "expected the name of a parameter".to_owned(),
        })
    }

    /// The text in which a name and what follows it are looked for.
    fn name_window(&self, start: usize) -> &str {
        let end = self.text.len().min(start + MAX_NAME_BYTES);
        &self.text[start..self.floor(end)]
    }

    /// Attribute values of `kimi_k3_xml` are escaped.
    fn unescape(&self, name: &str) -> String {
        match self.judge.style {
            Style::KimiK3Xml => name.replace("&quot;", "\"").replace("&amp;", "&"),
            _ => name.to_owned(),
        }
    }

    fn escape(&self, name: &str) -> String {
        match self.judge.style {
            Style::KimiK3Xml => name.replace('&', "&amp;").replace('"', "&quot;"),
            _ => name.to_owned(),
        }
    }

    /// One of `words`, and the byte after `suffix`.
    fn word<'w>(&self, start: usize, words: &[&'w str], suffix: &str) -> Parsed<(&'w str, usize)> {
        let mut furthest: Option<Stop> = None;
        for word in words {
            let read = self
                .literal(start, word)
                .and_then(|position| self.literal(position, suffix));
            match read {
                Ok(position) => return Ok((*word, position)),
                Err(stop) => {
                    if furthest.as_ref().is_none_or(|best| {
                        (best.byte, best.may_continue) < (stop.byte, stop.may_continue)
                    }) {
                        furthest = Some(stop);
                    }
                }
            }
        }
        let mut stop = furthest.expect("there are words");
        stop.message = format!("expected one of {}", words.join(", "));
        Err(stop)
    }

    /// The readings of a value, and the byte after `marker`.
    fn value(&self, start: usize, kinds: ValueKinds, marker: &str) -> Parsed<(Vec<Value>, usize)> {
        if !kinds.text {
            let (value, end) = self.json_value(start, marker)?;
            return Ok((vec![value], end));
        }
        let rest = &self.text[start..];
        // A JSON text may have the marker in a string.
        if kinds.json
            && let Ok((value, end)) = self.json_value(start, marker)
            && rest.find(marker) != Some(end - start - marker.len())
        {
            return Ok((vec![value], end));
        }
        let Some(length) = rest.find(marker) else {
            return Err(Stop {
                byte: self.text.len(),
                may_continue: true,
                message: format!("expected {marker:?}"),
            });
        };
        let written = &rest[..length];
        let trimmed = written.trim_matches([' ', '\t', '\n', '\r']);
        let mut readings = vec![Value::from(written)];
        if trimmed != written {
            readings.push(Value::from(trimmed));
        }
        if kinds.json
            && let Ok((value, _)) = self.json_value(start, marker)
        {
            readings.push(value);
        }
        Ok((readings, start + length + marker.len()))
    }

    /// A JSON value that is not a string, and the byte after `marker`.
    fn json_value(&self, start: usize, marker: &str) -> Parsed<(Value, usize)> {
        let start = skip_white_space(self.text, start);
        let stop = |byte, may_continue, message| Stop {
            byte,
            may_continue,
            message,
        };
        if self.text.as_bytes().get(start) == Some(&b'"') {
            let message = "expected a JSON value that is not a string".to_owned();
            return Err(stop(start, false, message));
        }
        let document = json_reader::read(self.text, start, Dialect::Rfc8259)
            .map_err(|error| stop(error.byte, error.at_end, error.message.to_owned()))?;
        let end = document.end;
        if let Some(reason) = document.irregularity() {
            return Err(stop(end, false, Reason::to_string(&reason)));
        }
        let value = document.root().to_value();
        let is_number = value.is_number();
        self.literal(skip_white_space(self.text, end), marker)
            .map(|end| (value, end))
            .map_err(|mut stop| {
                // More digits may follow a number at the end of the text.
                stop.may_continue |= is_number && end == self.text.len();
                stop
            })
    }

    /// A value of `kimi_k3_xml`: its type is stated.
    fn typed_value(&self, start: usize, marker: &str) -> Parsed<(Vec<Value>, usize)> {
        let types = [
            "string", "number", "integer", "boolean", "object", "array", "null",
        ];
        let (kind, position) = self.word(start, &types, "\"<|sep|>")?;
        if kind == "string" {
            let kinds = ValueKinds {
                text: true,
                json: false,
            };
            return self.value(position, kinds, marker);
        }
        let (value, end) = self.json_value(position, marker)?;
        let is_stated = match kind {
            "number" => value.is_number(),
            "integer" => value.is_i64() || value.is_u64(),
            "boolean" => value.is_boolean(),
            "object" => value.is_object(),
            "array" => value.is_array(),
            _ => value.is_null(),
        };
        if is_stated {
            return Ok((vec![value], end));
        }
        Err(Stop {
            byte: end,
            may_continue: false,
            message: format!("the value is not of the stated type {kind}"),
        })
    }

    /// A value of `cohere_xml` from its type on: a text, a JSON value, or elements.
    fn cohere_value(&self, start: usize, nesting: usize) -> Parsed<(Value, usize)> {
        let end = Style::CohereXml.element().end;
        if nesting > MAX_NESTING {
            return Err(Stop {
                byte: start,
                may_continue: false,
                message: format!("elements nested over {MAX_NESTING} levels"),
            });
        }
        let (kind, mut position) = self.word(start, &["raw", "json", "dict", "list"], "\">")?;
        match kind {
            "raw" => {
                let kinds = ValueKinds {
                    text: true,
                    json: false,
                };
                let (mut readings, end) = self.value(position, kinds, end)?;
                Ok((readings.swap_remove(0), end))
            }
            "json" => self.json_value(position, end),
            "dict" => {
                let mut members = Map::new();
                loop {
                    position = skip_white_space(self.text, position);
                    let stop = match self.literal(position, end) {
                        Ok(end) => return Ok((Value::Object(members), end)),
                        Err(stop) => stop,
                    };
                    let start = Style::CohereXml.element().start;
                    position = self
                        .literal(position, start)
                        .map_err(|other| furthest(stop, other))?;
                    let rest = self.name_window(position);
                    let Some(length) = rest.find("\" type=\"") else {
                        return Err(Stop {
                            byte: position + rest.len(),
                            may_continue: position + rest.len() == self.text.len(),
                            message: "expected a name".to_owned(),
                        });
                    };
                    let name = rest[..length].to_owned();
                    let value_start = position + length + "\" type=\"".len();
                    let (value, end) = self.cohere_value(value_start, nesting + 1)?;
                    position = end;
                    if members.insert(name.clone(), value).is_some() {
                        return Err(Stop {
                            byte: end,
                            may_continue: false,
                            message: format!("the member {name:?} twice"),
                        });
                    }
                }
            }
            _ => {
                let mut items = Vec::new();
                loop {
                    position = skip_white_space(self.text, position);
                    let stop = match self.literal(position, end) {
                        Ok(end) => return Ok((Value::Array(items), end)),
                        Err(stop) => stop,
                    };
                    let value_start = self
                        .literal(position, "<cofl:value type=\"")
                        .map_err(|other| furthest(stop, other))?;
                    let (value, end) = self.cohere_value(value_start, nesting + 1)?;
                    items.push(value);
                    position = end;
                }
            }
        }
    }
}

fn furthest(one: Stop, other: Stop) -> Stop {
    let may_continue = one.may_continue || other.may_continue;
    let mut best = if other.byte > one.byte { other } else { one };
    best.may_continue = may_continue;
    best
}

fn is_identifier(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    name.bytes().next().is_some_and(is_letter)
        && name
            .bytes()
            .all(|byte| is_letter(byte) || byte.is_ascii_digit())
}
