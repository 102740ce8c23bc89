//! Removes what people wrote from a request body, and keeps what decides the load: the lengths of
//! texts, shared prefixes, and the structure of schemas.
//!
//! Every string is replaced, except for the values of `KEPT`. The replacement depends on a random
//! key that is not kept, and on all characters before, so that equal starts stay equal and words
//! cannot be counted.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};

use serde_json::{Map, Number, Value};

use crate::dataset::exact_length::{fit_to_length, plain_tokens};
use crate::tokenizer::Tokenizer;
use sobench_core::error;
use sobench_core::schema_keywords::NAME_MAPS;

/// Members whose strings are words of an API.
const KEPT: [&str; 17] = [
    "type",
    "role",
    "model",
    "tool_choice",
    "mode",
    "format",
    "object",
    "status",
    "detail",
    "syntax",
    "truncation",
    "service_tier",
    "reasoning_effort",
    "effort",
    "verbosity",
    "encoding_format",
    "$schema",
];

/// Members with a JSON Schema, in bodies.
const SCHEMAS: [&str; 6] = [
    "schema",
    "parameters",
    "input_schema",
    "json",
    "json_schema",
    "guided_json",
];

const PATTERNS: [&str; 3] = ["pattern", "regex", "guided_regex"];
const CHOICES: [&str; 2] = ["choice", "guided_choice"];
const IDS: [&str; 4] = ["id", "tool_call_id", "tool_use_id", "call_id"];

/// Members that cannot be redacted, with what they are.
const REFUSED: [(&str, &str); 12] = [
    ("grammar", A_GRAMMAR),
    ("guided_grammar", A_GRAMMAR),
    ("ebnf", A_GRAMMAR),
    ("definition", A_GRAMMAR),
    ("structural_tag", A_GRAMMAR),
    ("image_url", A_FILE),
    ("input_audio", A_FILE),
    ("source", A_FILE),
    ("file", A_FILE),
    ("file_data", A_FILE),
    ("$id", AN_ID),
    ("$anchor", AN_ID),
];
const A_GRAMMAR: &str = "a grammar or a structural tag";
const A_FILE: &str = "an image, audio or a file";
const AN_ID: &str = "a schema with an identifier";

/// Letters in a row of a regular expression that are replaced.
const MIN_WORD: usize = 3;

/// What happens to names of properties, tools and definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    Keep,
    Hash,
}

/// Why a body cannot be redacted.
type Outcome = Result<(), &'static str>;

/// Redacts the bodies of a file.
pub struct Redaction<'t> {
    /// Gives replaced texts their number of tokens; without it, they have the same words.
    tokenizer: Option<&'t Tokenizer>,
    tokens: Vec<u32>,
    names: Names,
    key: RandomState,
}

impl<'t> Redaction<'t> {
    /// # Errors
    /// The tokenizer has only special tokens.
    pub fn new(tokenizer: Option<&'t Tokenizer>, names: Names) -> error::Result<Self> {
        Ok(Self {
            tokenizer,
            tokens: tokenizer.map_or(Ok(Vec::new()), plain_tokens)?,
            names,
            key: RandomState::new(),
        })
    }

    /// Redacts a body.
    ///
    /// # Errors
    /// What in the body cannot be redacted.
    pub fn body(&self, body: &mut Value) -> Outcome {
        self.member("", body)
    }

    /// The value of a member of a body, or of an object in it.
    fn member(&self, name: &str, value: &mut Value) -> Outcome {
        if let Some((_, what)) = REFUSED.iter().find(|(refused, _)| *refused == name)
            && !value.is_null()
        {
            return Err(what);
        }
        match value {
            Value::String(text) if SCHEMAS.contains(&name) => {
                let mut schema = serde_json::from_str(text).map_err(|_| "a broken JSON Schema")?;
                self.schema("", &mut schema)?;
                *text = schema.to_string();
            }
            Value::String(_) if KEPT.contains(&name) => {}
            Value::String(text) if name == "name" => *text = self.name(text),
            Value::String(text) if IDS.contains(&name) => *text = format!("id-{}", self.hash(text)),
            Value::String(text) if PATTERNS.contains(&name) => *text = self.pattern(text),
            Value::String(text) => *text = self.text(text),
            Value::Array(_) if CHOICES.contains(&name) => return self.literal(value),
            Value::Array(items) if name == "prompt" && items.iter().all(Value::is_number) => {
                return Err("a prompt of token ids");
            }
            Value::Array(items) => {
                return items
                    .iter_mut()
                    .try_for_each(|item| self.member(name, item));
            }
            // The envelope of a schema.
            Value::Object(members)
                if SCHEMAS.contains(&name) && !members.contains_key("schema") =>
            {
                return self.schema("", value);
            }
            Value::Object(_) if matches!(name, "arguments" | "input") => self.data(value),
            Value::Object(members) => {
                let mut members = members.iter_mut();
                return members.try_for_each(|(name, value)| self.member(name, value));
            }
            _ => {}
        }
        Ok(())
    }

    /// The value of a keyword of a schema, or a schema.
    fn schema(&self, keyword: &str, value: &mut Value) -> Outcome {
        if let Some((_, what)) = REFUSED.iter().find(|(refused, _)| *refused == keyword) {
            return Err(what);
        }
        match value {
            Value::Object(members)
                if NAME_MAPS.contains(&keyword) || keyword == "dependentRequired" =>
            {
                let rename = |name: &str| match keyword {
                    "patternProperties" => self.pattern(name),
                    _ => self.name(name),
                };
                renamed(members, rename);
                let mut schemas = members.values_mut();
                return schemas.try_for_each(|schema| match schema {
                    Value::Array(_) => self.schema("required", schema),
                    schema => self.schema("", schema),
                });
            }
            _ if matches!(
                keyword,
                "enum" | "const" | "default" | "examples" | "example"
            ) =>
            {
                return self.literal(value);
            }
            Value::Object(members) => {
                let mut members = members.iter_mut();
                return members.try_for_each(|(keyword, value)| self.schema(keyword, value));
            }
            Value::Array(items) => {
                return items
                    .iter_mut()
                    .try_for_each(|item| self.schema(keyword, item));
            }
            Value::String(text) => match keyword {
                "required" => *text = self.name(text),
                "$ref" | "$dynamicRef" => *text = self.reference(text)?,
                "pattern" => *text = self.pattern(text),
                "contentEncoding" | "contentMediaType" => {}
                kept if KEPT.contains(&kept) => {}
                _ => *text = self.text(text),
            },
            _ => {}
        }
        Ok(())
    }

    /// A pointer to a definition or a property of the same schema.
    fn reference(&self, text: &str) -> Result<String, &'static str> {
        let pointer = text
            .strip_prefix('#')
            .ok_or("a reference to another schema")?;
        let mut is_name = false;
        let parts = pointer.split('/').map(|part| {
            let renamed = match is_name {
                true => self.name(part),
                false => part.to_owned(),
            };
            is_name = !is_name && NAME_MAPS.contains(&part);
            renamed
        });
        Ok(format!("#{}", parts.collect::<Vec<_>>().join("/")))
    }

    /// Literals of a schema: numbers stay, and different strings stay different.
    fn literal(&self, value: &mut Value) -> Outcome {
        match value {
            Value::String(text) => *text = self.scrambled(0, text),
            Value::Array(items) => {
                let mut seen = HashSet::new();
                for item in items {
                    let Value::String(text) = item else {
                        self.literal(item)?;
                        continue;
                    };
                    let variants = (0..1000).map(|variant| self.scrambled(variant, text));
                    let mut new = variants.filter(|variant| !seen.contains(variant));
                    *text = new.next().ok_or("too many short choices")?;
                    seen.insert(text.clone());
                }
            }
            Value::Object(members) => {
                renamed(members, |name| self.name(name));
                return members
                    .values_mut()
                    .try_for_each(|value| self.literal(value));
            }
            _ => {}
        }
        Ok(())
    }

    /// JSON in a message: strings, numbers, and names of members.
    fn data(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Number(number) => {
                let changed = self.scrambled(0, &number.to_string());
                // A digit in front of others is not 0.
                let changed = changed.replace("-0", "-1");
                let changed = match changed.strip_prefix('0') {
                    Some(rest) if rest.starts_with(|c: char| c.is_ascii_digit()) => {
                        format!("1{rest}")
                    }
                    _ => changed,
                };
                *number = serde_json::from_str(&changed).unwrap_or_else(|_| Number::from(0));
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.data(item)),
            Value::Object(members) => {
                renamed(members, |name| self.name(name));
                members.values_mut().for_each(|value| self.data(value));
            }
            _ => {}
        }
    }

    fn name(&self, name: &str) -> String {
        match self.names {
            Names::Keep => name.to_owned(),
            Names::Hash => format!("n{}", self.hash(name)),
        }
    }

    fn hash(&self, text: &str) -> String {
        format!("{:08x}", self.key.hash_one(text) & 0xffff_ffff)
    }

    /// A text of the same length and kind: JSON stays JSON.
    fn text(&self, text: &str) -> String {
        let is_open = text.trim_start().starts_with(['{', '[']);
        if let (true, Ok(mut value)) = (is_open, serde_json::from_str(text)) {
            self.data(&mut value);
            return value.to_string();
        }
        let Some(tokenizer) = self.tokenizer else {
            return self.scrambled(0, text);
        };
        let tokens = tokenizer.encode(text);
        let mut state = 0;
        let drawn = tokens.iter().map(|token| {
            state = self.key.hash_one((state, token));
            self.token(state)
        });
        let drawn = drawn.collect();
        fit_to_length(tokenizer, drawn, tokens.len(), &mut |missing| {
            (0..missing as u64)
                .map(|place| self.token(self.key.hash_one((state, place))))
                .collect()
        })
        .text
    }

    fn token(&self, state: u64) -> u32 {
        self.tokens[(state % self.tokens.len() as u64) as usize]
    }

    /// The text with other letters and digits. `variant` chooses among several.
    fn scrambled(&self, variant: u64, text: &str) -> String {
        let mut state = variant;
        let scramble = |c: char| {
            state = self.key.hash_one((state, c));
            self.character(c, state)
        };
        text.chars().map(scramble).collect()
    }

    /// Another letter of the same case and block of Unicode, or another digit.
    fn character(&self, c: char, state: u64) -> char {
        let from = |first: u8, count: u64| char::from(first + (state % count) as u8);
        match c {
            'a'..='z' => from(b'a', 26),
            'A'..='Z' => from(b'A', 26),
            '0'..='9' => from(b'0', 10),
            c if c.is_alphabetic() => {
                let block = u32::from(c) & !0x3f;
                let candidates =
                    (0..64).map(|step| block | ((state as u32).wrapping_add(step) & 0x3f));
                let is_alike = |other: &char| {
                    other.is_alphabetic() && other.is_lowercase() == c.is_lowercase()
                };
                candidates
                    .filter_map(char::from_u32)
                    .find(is_alike)
                    .unwrap_or(c)
            }
            c => c,
        }
    }

    /// A regular expression with other words. Classes, escapes and quantifiers stay.
    fn pattern(&self, pattern: &str) -> String {
        let (mut out, mut word) = (String::new(), String::new());
        let mut rest = pattern;
        while let Some(c) = rest.chars().next() {
            if c.is_alphabetic() {
                word.push(c);
                rest = &rest[c.len_utf8()..];
                continue;
            }
            self.flush(&mut word, &mut out);
            let (part, after) = rest.split_at(syntax_len(rest));
            out.push_str(part);
            rest = after;
        }
        self.flush(&mut word, &mut out);
        out
    }

    fn flush(&self, word: &mut String, out: &mut String) {
        match word.chars().count() < MIN_WORD {
            true => out.push_str(word),
            false => out.push_str(&self.scrambled(0, word)),
        }
        word.clear();
    }
}

/// Bytes of the escape, class, group head, quantifier or character at the start of a regular
/// expression.
fn syntax_len(text: &str) -> usize {
    let up_to = |end: &[char]| text.find(end).map_or(text.len(), |at| at + 1);
    let first = text.chars().next().map_or(0, char::len_utf8);
    let second = text[first..].chars().next();
    match (text.as_bytes()[0], second) {
        (b'\\', Some('p' | 'P' | 'k' | 'u' | 'x')) if text[2..].starts_with(['{', '<']) => {
            up_to(&['}', '>'])
        }
        (b'\\', Some('u')) => text.len().min(6),
        (b'\\', Some('x')) => text.len().min(4),
        (b'\\', Some(escaped)) => first + escaped.len_utf8(),
        (b'[', _) => {
            let mut is_escaped = false;
            let end = text.char_indices().skip(2).find(|(_, c)| {
                let is_end = *c == ']' && !is_escaped;
                is_escaped = *c == '\\' && !is_escaped;
                is_end
            });
            end.map_or(text.len(), |(at, _)| at + 1)
        }
        (b'(', Some('?')) => up_to(&[':', '=', '!', '>']),
        (b'{', _) => up_to(&['}']),
        _ => first,
    }
}

/// Gives members other names, in the same order.
fn renamed(members: &mut Map<String, Value>, rename: impl Fn(&str) -> String) {
    let old = std::mem::take(members);
    members.extend(old.into_iter().map(|(name, value)| (rename(&name), value)));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn redacted(names: Names, mut body: Value) -> Value {
        let redaction = Redaction::new(None, names).unwrap();
        redaction.body(&mut body).unwrap();
        body
    }

    #[test]
    fn texts_keep_their_length_and_their_shared_start() {
        let tokenizer = Tokenizer::embedded();
        for tokenizer in [None, Some(&tokenizer)] {
            let redaction = Redaction::new(tokenizer, Names::Keep).unwrap();
            let text = |text: &str| redaction.text(text);
            let secret = "The sécret plan: call 0171";
            let (one, other) = (text(secret), text("The sécret plan: wait"));
            assert!(!one.contains("plan"), "{one}");
            assert_eq!(one, text(secret));
            assert_ne!(one, text("A sécret plan: call 0171"));
            let start = |text: &str| text.chars().take(4).collect::<String>();
            assert_eq!(start(&one), start(&other));
            if tokenizer.is_none() {
                assert_eq!(one.chars().count(), 26);
                assert_eq!(one.split(' ').count(), 5);
            }
        }
        let redaction = Redaction::new(Some(&tokenizer), Names::Keep).unwrap();
        let long = "What is the capital of the country, and who lives there? ".repeat(20);
        let (before, after) = (
            tokenizer.count(&long),
            tokenizer.count(&redaction.text(&long)),
        );
        assert!(before.abs_diff(after) <= before / 10, "{before} {after}");
    }

    #[test]
    fn schemas_keep_their_structure() {
        let body = json!({"model": "m", "messages": [
                {"role": "user", "content": "Secret"},
                {"role": "assistant", "tool_calls": [{"id": "call_secret", "type": "function",
                    "function": {"name": "f", "arguments": "{\"city\": \"Secret\", \"n\": 1234.5}"}}]}],
            "temperature": 0.5,
            "response_format": {"type": "json_schema", "json_schema": {"name": "f", "strict": true, "schema": {
                "type": "object", "description": "Secret",
                "properties": {"city": {"$ref": "#/$defs/City"}, "at": {"type": "string", "format": "date", "default": "Secret"}},
                "required": ["city"], "$defs": {"City": {"enum": ["Secret", "Sacred", 7]}},
                "patternProperties": {"^x_[a-z]+Secret\\d{3}$": {"maxLength": 9}}}}}});
        let kept = redacted(Names::Keep, body.clone());
        assert!(
            !kept.to_string().to_lowercase().contains("secret"),
            "{kept}"
        );
        let schema = &kept["response_format"]["json_schema"]["schema"];
        assert_eq!(
            schema["properties"]["city"],
            json!({"$ref": "#/$defs/City"})
        );
        assert_eq!(schema["required"], json!(["city"]));
        assert_eq!(schema["$defs"]["City"]["enum"][2], 7);
        let choices = &schema["$defs"]["City"]["enum"];
        assert_eq!(choices[0].as_str().unwrap().len(), 6);
        assert_ne!(choices[0], choices[1]);
        let pattern = schema["patternProperties"]
            .as_object()
            .unwrap()
            .keys()
            .next()
            .unwrap();
        assert!(
            pattern.starts_with("^x_[a-z]+") && pattern.ends_with("\\d{3}$"),
            "{pattern}"
        );
        let call = &kept["messages"][1]["tool_calls"][0]["function"];
        let arguments: Value = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
        assert!(
            arguments["city"].is_string() && arguments["n"].is_number(),
            "{arguments}"
        );
        assert_eq!(
            (&kept["temperature"], &kept["model"]),
            (&body["temperature"], &body["model"])
        );
        let hashed = redacted(Names::Hash, body);
        let schema = &hashed["response_format"]["json_schema"]["schema"];
        let name = schema["required"][0].as_str().unwrap();
        let reference = schema["properties"][name]["$ref"].as_str().unwrap();
        assert!(schema.pointer(&reference[1..]).is_some(), "{hashed}");
        assert!(!hashed.to_string().contains("city"), "{hashed}");
    }

    #[test]
    fn what_cannot_be_redacted_is_refused() {
        let redaction = Redaction::new(None, Names::Keep).unwrap();
        for (body, expected) in [
            (
                json!({"structured_outputs": {"grammar": "root ::= \"a\""}}),
                A_GRAMMAR,
            ),
            (
                json!({"messages": [{"content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}),
                A_FILE,
            ),
            (json!({"prompt": [1, 2]}), "a prompt of token ids"),
            (
                json!({"guided_json": {"$ref": "https://example.com"}}),
                "a reference to another schema",
            ),
        ] {
            assert_eq!(redaction.body(&mut body.clone()), Err(expected));
        }
    }
}
