//! Renders chat templates in the Jinja environment of the transformers library.

use std::sync::{LazyLock, OnceLock};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Environment, ErrorKind};
use regex::Regex;
use serde_json::{Map, Number, Value as Json};

use super::python_json::{Escape, Layout, dumps_with};
use sobench_core::case::Message;
use sobench_core::dates::strftime;
use sobench_core::error::{Error, Result};

/// Limit on the steps of one rendering: a template comes from a third party and may loop for hours.
pub(super) const TEMPLATE_FUEL: u64 = 5_000_000;

/// Deepest nesting of a value that `tojson` writes.
const MAX_VALUE_DEPTH: usize = 128;

const NAME: &str = "chat template";

/// A template, parsed on first use: a tokenizer that only counts never parses it.
pub(super) struct ChatTemplate {
    source: String,
    special_tokens: Vec<(String, String)>,
    /// Variables set by the user, which override all others.
    variables: Map<String, Json>,
    environment: OnceLock<std::result::Result<Environment<'static>, minijinja::Error>>,
}

impl ChatTemplate {
    pub(super) fn new(source: String, special_tokens: Vec<(String, String)>) -> Self {
        Self {
            source,
            special_tokens,
            variables: Map::new(),
            environment: OnceLock::new(),
        }
    }

    pub(super) fn set_variables(&mut self, variables: Map<String, Json>) {
        self.variables = variables;
    }

    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// Renders the prompt. `unix_s` is the current time for the template.
    pub(super) fn apply(
        &self,
        messages: &[Message],
        add_generation_prompt: bool,
        unix_s: i64,
    ) -> Result<String> {
        let environment = self
            .environment
            .get_or_init(|| environment(&self.source))
            .as_ref()
            .map_err(parse_error)?;
        let messages: Value = messages.iter().map(message).collect();
        let now = move |format: &str| {
            strftime(format, unix_s).map_err(|directive| {
                failure(format!(
                    "strftime_now does not support the directive {directive}"
                ))
            })
        };
        let mut variables = vec![
            ("messages".to_owned(), messages),
            (
                "add_generation_prompt".to_owned(),
                Value::from(add_generation_prompt),
            ),
            ("tools".to_owned(), Value::from(())),
            ("documents".to_owned(), Value::from(())),
            ("strftime_now".to_owned(), Value::from_function(now)),
        ];
        variables.extend(
            self.special_tokens
                .iter()
                .map(|(name, text)| (name.clone(), Value::from(text))),
        );
        variables.extend(
            self.variables
                .iter()
                .map(|(name, value)| (name.clone(), from_json(value))),
        );
        let template = environment
            .get_template(NAME)
            .map_err(|error| parse_error(&error))?;
        let prompt = template
            .render(Value::from_pairs(variables))
            .map_err(|error| render_error(&error))?;
        if prompt.trim().is_empty() {
            return Err(Error::usage(
                "the tokenizer's chat template makes an empty prompt from the messages",
            )
            .hint("check that the template is complete, or use a chat backend, which applies the template on the server"));
        }
        Ok(prompt)
    }
}

fn parse_error(error: &minijinja::Error) -> Error {
    Error::usage(format!(
        "cannot parse the tokenizer's chat template: {error}"
    ))
    .hint("use a chat backend, which applies the template on the server")
}

fn render_error(error: &minijinja::Error) -> Error {
    let line = error
        .line()
        .map_or(String::new(), |line| format!(" (line {line})"));
    let message = error
        .detail()
        .map_or_else(|| error.kind().to_string(), str::to_owned);
    Error::usage(format!(
        "the tokenizer's chat template refuses the messages{line}: {message}"
    ))
    .hint("change the messages, or use a chat backend, which applies the template on the server")
}

/// Same as `_cached_compile_jinja_template` of transformers: blocks trimmed on both sides, loop
/// controls, Python's methods, its three functions, and a `tojson` without escapes.
fn environment(source: &str) -> std::result::Result<Environment<'static>, minijinja::Error> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build();
    environment.set_syntax(syntax.expect("the standard delimiters are well formed"));
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_fuel(Some(TEMPLATE_FUEL));
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_filter("tojson", |value: &Value, options: Kwargs| {
        to_json(value, &options)
    });
    environment.add_function(
        "raise_exception",
        |message: String| -> std::result::Result<String, minijinja::Error> {
            Err(failure(message))
        },
    );
    environment.add_template_owned(NAME, without_generation_marks(source))?;
    Ok(environment)
}

/// `{% generation %}` marks the assistant's turns for training. It prints its body.
fn without_generation_marks(source: &str) -> String {
    static MARKS: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"\{%([-+]?)\s*(end)?generation\s*([-+]?)%\}")
            .expect("the expression is fixed and well formed")
    });
    let block = |captures: &regex::Captures<'_>| {
        let statement = if captures.get(2).is_some() {
            "endif"
        } else {
            "if true"
        };
        format!("{{%{} {statement} {}%}}", &captures[1], &captures[3])
    };
    MARKS.replace_all(source, block).into_owned()
}

fn failure(message: String) -> minijinja::Error {
    minijinja::Error::new(ErrorKind::InvalidOperation, message)
}

fn message(message: &Message) -> Value {
    let known = [
        ("role", Value::from(&message.role)),
        ("content", from_json(&message.content)),
    ];
    let known = known.map(|(name, value)| (name.to_owned(), value));
    let other = message.other.iter();
    Value::from_pairs(
        known
            .into_iter()
            .chain(other.map(|(name, value)| (name.clone(), from_json(value)))),
    )
}

/// Not through serde: with `arbitrary_precision`, serde serialises a number as a map.
fn from_json(json: &Json) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(value) => Value::from(*value),
        Json::Number(number) => from_number(number),
        Json::String(text) => Value::from(text),
        Json::Array(items) => items.iter().map(from_json).collect(),
        Json::Object(members) => Value::from_pairs(
            members
                .iter()
                .map(|(name, value)| (name.clone(), from_json(value))),
        ),
    }
}

fn from_number(number: &Number) -> Value {
    let text = number.to_string();
    match text.parse::<i128>() {
        Ok(integer) => Value::from(integer),
        Err(_) => Value::from(
            text.parse::<f64>()
                .expect("a JSON number reads as a double"),
        ),
    }
}

/// `tojson(ensure_ascii=False, indent=None, separators=None, sort_keys=False)` of transformers.
fn to_json(value: &Value, options: &Kwargs) -> std::result::Result<String, minijinja::Error> {
    let escape = if options
        .get::<Option<bool>>("ensure_ascii")?
        .unwrap_or(false)
    {
        Escape::NonAscii
    } else {
        Escape::Needed
    };
    let indent: Option<usize> = options.get("indent")?;
    let mut layout = indent.map_or_else(Layout::line, Layout::indented);
    if let Some(separators) = options.get::<Option<Vec<String>>>("separators")? {
        let Ok([item, key]) = <[String; 2]>::try_from(separators) else {
            return Err(failure("tojson needs two separators".to_owned()));
        };
        (layout.item_separator, layout.key_separator) = (item, key);
    }
    let sort_keys = options.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    options.assert_all_used()?;
    let mut json = into_json(value, 0)?;
    if sort_keys {
        json.sort_all_objects();
    }
    Ok(dumps_with(&json, escape, &layout))
}

fn into_json(value: &Value, depth: usize) -> std::result::Result<Json, minijinja::Error> {
    if depth > MAX_VALUE_DEPTH {
        return Err(failure(format!(
            "tojson supports at most {MAX_VALUE_DEPTH} levels"
        )));
    }
    Ok(match value.kind() {
        ValueKind::None => Json::Null,
        ValueKind::Bool => Json::Bool(value.is_true()),
        ValueKind::Number if value.is_integer() => {
            let integer = i128::try_from(value.clone())?;
            Json::Number(Number::from_i128(integer).expect("numbers of any size keep their text"))
        }
        ValueKind::Number => {
            Number::from_f64(f64::try_from(value.clone())?).map_or(Json::Null, Json::Number)
        }
        ValueKind::String => Json::String(value.as_str().expect("a string has a text").to_owned()),
        ValueKind::Seq | ValueKind::Iterable => Json::Array(
            value
                .try_iter()?
                .map(|item| into_json(&item, depth + 1))
                .collect::<std::result::Result<_, _>>()?,
        ),
        ValueKind::Map => {
            let mut members = serde_json::Map::new();
            for key in value.try_iter()? {
                members.insert(
                    key.to_string(),
                    into_json(&value.get_item(&key)?, depth + 1)?,
                );
            }
            Json::Object(members)
        }
        other => {
            return Err(failure(format!(
                "tojson cannot write this kind of value: {other}"
            )));
        }
    })
}
