//! Chat templates, in the Jinja environment of the transformers library. Knows no file and no
//! vocabulary.

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

/// Steps that a template may take for one prompt: a template comes from strangers, and may loop for
/// hours.
pub(super) const TEMPLATE_FUEL: u64 = 5_000_000;

/// How deep a value may be nested to be written by `tojson`.
const MAX_VALUE_DEPTH: usize = 128;

const NAME: &str = "chat template";

/// One template, parsed when it is first applied: a tokenizer that only counts never has to read
/// it.
pub(super) struct ChatTemplate {
    source: String,
    special_tokens: Vec<(String, String)>,
    /// The user's own variables, which win over all others.
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

    /// The prompt. `unix_s` is the instant that the template takes for now.
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
            .map_err(not_a_template)?;
        let messages: Value = messages.iter().map(message).collect();
        let now = move |format: &str| {
            strftime(format, unix_s).map_err(|directive| {
                failure(format!(
                    "strftime_now does not know the directive {directive}"
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
            .map_err(|error| not_a_template(&error))?;
        let prompt = template
            .render(Value::from_pairs(variables))
            .map_err(|error| refused(&error))?;
        if prompt.trim().is_empty() {
            return Err(Error::usage(
                "the tokenizer's chat template makes an empty prompt of the messages",
            )
            .hint("is its file whole? a chat backend leaves the template to the server"));
        }
        Ok(prompt)
    }
}

fn not_a_template(error: &minijinja::Error) -> Error {
    Error::usage(format!("the tokenizer's chat template cannot be read: {error}"))
        .hint("use a chat backend, which takes messages as they are and leaves the template to the server")
}

fn refused(error: &minijinja::Error) -> Error {
    let line = error
        .line()
        .map_or(String::new(), |line| format!(" (line {line})"));
    let words = error
        .detail()
        .map_or_else(|| error.kind().to_string(), str::to_owned);
    Error::usage(format!(
        "the tokenizer's chat template refuses the messages{line}: {words}"
    ))
    .hint("change the messages, or use a chat backend, which leaves the template to the server")
}

/// `_cached_compile_jinja_template` of transformers: blocks trimmed on both sides, loop controls,
/// Python's methods, three functions of its own, and a `tojson` that escapes nothing.
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
        |words: String| -> std::result::Result<String, minijinja::Error> { Err(failure(words)) },
    );
    environment.add_template_owned(NAME, without_generation_marks(source))?;
    Ok(environment)
}

/// `{% generation %}` marks what an assistant said, for training; it prints its body.
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

fn failure(words: String) -> minijinja::Error {
    minijinja::Error::new(ErrorKind::InvalidOperation, words)
}

fn message(message: &Message) -> Value {
    Value::from_pairs([
        ("role", Value::from(&message.role)),
        ("content", from_json(&message.content)),
    ])
}

/// By hand, since a number that keeps its text is a mapping to serde.
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
            return Err(failure("tojson takes two separators".to_owned()));
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
            "tojson writes no more than {MAX_VALUE_DEPTH} levels"
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
