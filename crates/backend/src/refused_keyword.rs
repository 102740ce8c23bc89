//! Finds the keyword of a JSON Schema that a server's refusal names.

use serde_json::Value;
use sobench_core::constraint::Constraint;
use sobench_core::schema_keywords::{LITERAL_KEYWORDS, NAME_MAPS};

/// Keywords that are also words of ordinary sentences. They count only in quotes.
const ORDINARY_WORDS: [&str; 12] = [
    "not",
    "if",
    "then",
    "else",
    "contains",
    "default",
    "description",
    "examples",
    "items",
    "properties",
    "required",
    "title",
];

/// The first keyword of the constraint's schema that `message` names. `None` if it names none, and
/// for constraints other than schemas.
pub fn refused_keyword(message: &str, constraint: &Constraint) -> Option<String> {
    let mut keywords = Vec::new();
    add_keywords(constraint.schema()?, &mut keywords);
    let first = |is_named: fn(&str, &str, usize) -> bool| {
        let place = |keyword: &str| {
            let mut places = message.match_indices(keyword).map(|(place, _)| place);
            places.find(|place| is_named(message, keyword, *place))
        };
        let found = keywords
            .iter()
            .filter_map(|keyword| Some((place(keyword)?, *keyword)));
        found.min().map(|(_, keyword)| keyword.to_owned())
    };
    first(is_quoted).or_else(|| first(is_word))
}

fn add_keywords<'a>(schema: &'a Value, keywords: &mut Vec<&'a str>) {
    match schema {
        Value::Array(schemas) => {
            for schema in schemas {
                add_keywords(schema, keywords);
            }
        }
        Value::Object(members) => {
            for (keyword, value) in members {
                keywords.push(keyword);
                match value {
                    Value::Object(named) if NAME_MAPS.contains(&keyword.as_str()) => {
                        for schema in named.values() {
                            add_keywords(schema, keywords);
                        }
                    }
                    _ if LITERAL_KEYWORDS.contains(&keyword.as_str()) => {}
                    _ => add_keywords(value, keywords),
                }
            }
        }
        _ => {}
    }
}

/// Whether the keyword at `place` is in quotes, and not a member of a quoted JSON document.
fn is_quoted(message: &str, keyword: &str, place: usize) -> bool {
    let is_quote = |letter: char| matches!(letter, '"' | '\'' | '`');
    let after = &message[place + keyword.len()..];
    let after_quote = after.strip_prefix(is_quote);
    message[..place].ends_with(is_quote)
        && after_quote.is_some_and(|rest| !rest.trim_start().starts_with(':'))
}

/// Whether the keyword at `place` is a word of its own outside of quotes.
fn is_word(message: &str, keyword: &str, place: usize) -> bool {
    let is_inside = |letter: char| {
        letter.is_alphanumeric() || matches!(letter, '_' | '$' | '/' | '"' | '\'' | '`')
    };
    !ORDINARY_WORDS.contains(&keyword)
        && !message[..place].ends_with(is_inside)
        && !message[place + keyword.len()..].starts_with(is_inside)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    /// The messages are of vLLM 0.32 with guidance, xgrammar and outlines, of SGLang, llama-server
    /// and mistral.rs.
    #[test]
    fn the_keyword_is_found_in_the_messages_of_servers() {
        let schema = json!({
            "type": "object",
            "properties": {
                "required": { "type": "number", "multipleOf": 0.5, "minimum": 5, "maximum": 1 },
                "tags": { "type": "array", "items": { "format": "foo-bar" }, "uniqueItems": true },
                "next": { "$ref": "#/$defs/none", "not": {} },
            },
            "patternProperties": { "^x": {} },
            "$defs": { "multiple": { "enum": [{ "minLength": 1 }] } },
        });
        let schema = Constraint::JsonSchema(Arc::new(schema));
        for (message, keyword) in [
            (
                "Grammar error: Unimplemented keys: [\"uniqueItems\"]",
                Some("uniqueItems"),
            ),
            (
                "Invalid grammar. Unimplemented keys: [\"multipleOf\", \"uniqueItems\"]",
                Some("multipleOf"),
            ),
            (
                "Grammar error: Unsatisfiable schema: minimum (5) is greater than maximum (1)",
                Some("minimum"),
            ),
            ("Grammar error: Unknown format: foo-bar", Some("format")),
            ("Grammar error: Invalid type: strin", Some("type")),
            (
                "Failed to compile json grammar: /json_schema_converter.cc:4175: Unsupported type \"strin\"",
                Some("type"),
            ),
            (
                "JSON schema error at #: cannot resolve $ref #/$defs/none, $defs not found",
                Some("$ref"),
            ),
            (
                "The provided JSON schema contains features not supported by xgrammar.",
                None,
            ),
            ("Grammar error: Pointer '/$defs/none' does not exist", None),
            (
                "1 validation error: {'type': 'string_type', 'msg': 'Input should be a valid string'}",
                None,
            ),
            ("minLength is not supported", None),
            ("", None),
        ] {
            assert_eq!(
                refused_keyword(message, &schema).as_deref(),
                keyword,
                "{message}"
            );
        }
        let regex = Constraint::Regex("type".into());
        assert_eq!(refused_keyword("type", &regex), None);
    }
}
