//! Classifies the errors of outlines-core.

use outlines_core::Error;
use serde_json::Value;

use crate::error::EngineError;

/// Maximum bytes of a message. The library includes whole schemas and regexes in some.
const MAX_MESSAGE_BYTES: usize = 1000;

/// Schema members that do not constrain the instance.
const ANNOTATIONS: [&str; 10] = [
    "$schema",
    "$id",
    "$comment",
    "$defs",
    "definitions",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
];

/// Maximum number of keywords that are named if the library knows none of them.
const MAX_NAMED_KEYWORDS: usize = 5;

/// Classifies an error of the library.
pub(super) fn classify(error: &Error) -> EngineError {
    let message = shorten(&error_chain(error));
    let feature = match error {
        Error::UnsupportedJsonSchema(schema) => unsupported_keywords(schema),
        Error::StringTypeUnsupportedFormat(format) => format!("format {format}"),
        Error::ExternalReferencesNotSupported(_) => "external $ref".into(),
        Error::RefRecursionLimitReached(_) => "recursive $ref".into(),
        Error::UnsupportedEnumDataType(_) => "enum".into(),
        Error::UnsupportedConstDataType(_) => "const".into(),
        Error::DfaHasNoStartState => "leading anchor".into(),
        Error::IndexDfaError(_) => return classify_automaton_error(message),
        _ => return EngineError::Invalid { message },
    };
    EngineError::Unsupported { feature, message }
}

/// Classifies errors of the automaton builder (regex-automata, regex-syntax), whose kind is only
/// visible in their text.
pub(super) fn classify_automaton_error(message: String) -> EngineError {
    let features = [
        ("look-around", "look-around"),
        ("backreferences are not supported", "back-reference"),
        ("word boundaries", "word boundary"),
    ];
    // Only the last line: the lines before it quote the regex.
    let last = message.lines().last().unwrap_or(&message);
    if let Some((_, feature)) = features.iter().find(|(mark, _)| last.contains(mark)) {
        EngineError::unsupported(*feature, message)
    } else if last.contains("exceed") {
        EngineError::TooLarge { message }
    } else {
        EngineError::Invalid { message }
    }
}

/// The messages of an error and of its causes, which the library omits from its own message.
pub(super) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let cause_message = inner.to_string();
        if !message.contains(&cause_message) {
            message = format!("{message}: {cause_message}");
        }
        cause = inner.source();
    }
    message
}

/// Replaces the middle of a long message by a note.
pub(super) fn shorten(message: &str) -> String {
    if message.len() <= MAX_MESSAGE_BYTES {
        return message.to_owned();
    }
    let head = (0..=MAX_MESSAGE_BYTES / 2)
        .rev()
        .find(|&at| message.is_char_boundary(at))
        .unwrap_or(0);
    let tail = (message.len() - MAX_MESSAGE_BYTES / 2..message.len())
        .find(|&at| message.is_char_boundary(at))
        .unwrap_or(message.len());
    format!(
        "{} [{} bytes omitted] {}",
        &message[..head],
        tail - head,
        &message[tail..]
    )
}

fn unsupported_keywords(schema: &Value) -> String {
    match schema {
        Value::Object(members) => {
            let keywords: Vec<&str> = members
                .keys()
                .map(String::as_str)
                .filter(|key| !ANNOTATIONS.contains(key))
                .collect();
            let named = keywords
                .iter()
                .take(MAX_NAMED_KEYWORDS)
                .copied()
                .collect::<Vec<_>>()
                .join(", ");
            if keywords.is_empty() {
                "schema without type".into()
            } else {
                shorten(&named)
            }
        }
        Value::Bool(_) => "boolean schema".into(),
        Value::Array(_) => "list in place of a schema".into(),
        _ => "value in place of a schema".into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unsupported_schema_parts_are_named() {
        for (schema, feature) in [
            (json!({"minimum": 5}), "minimum"),
            (json!({"description": "x", "not": {}, "if": {}}), "not, if"),
            (json!({"title": "x"}), "schema without type"),
            (json!(false), "boolean schema"),
            (json!([{}]), "list in place of a schema"),
        ] {
            assert_eq!(unsupported_keywords(&schema), feature);
        }
    }

    #[test]
    fn long_messages_are_shortened_in_the_middle() {
        let long = "é".repeat(5000);
        let short = shorten(&long);
        assert!(
            short.len() < MAX_MESSAGE_BYTES + 40 && short.contains("bytes omitted] é"),
            "{}",
            short.len()
        );
        assert_eq!(shorten("words"), "words");
    }

    #[test]
    fn automaton_limits_are_distinguished_from_invalid_input() {
        for (message, large) in [
            ("exceeded limit on number of bytes", true),
            (
                "exceed the maximum number of nested parentheses/brackets (250)",
                true,
            ),
            (
                "regex parse error:\n    (exceed\n    ^\nerror: unclosed group",
                false,
            ),
        ] {
            assert_eq!(
                matches!(
                    classify_automaton_error(message.into()),
                    EngineError::TooLarge { .. }
                ),
                large,
                "{message}"
            );
        }
    }
}
