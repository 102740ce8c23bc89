//! What outlines-core says when it refuses, sorted. Knows nothing else of it.

use outlines_core::Error;
use serde_json::Value;

use crate::EngineError;

/// Longest message that is passed on; the library puts whole schemas and regexes into some.
const MAX_WORDS_BYTES: usize = 1000;

/// Members of a schema that say nothing about the instance.
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

/// Keywords that are named at most when the library finds none that it knows.
const MAX_NAMED_KEYWORDS: usize = 5;

/// Sorts an error of the library.
pub(super) fn classified(error: &Error) -> EngineError {
    let words = shortened(&chain(error));
    let feature = match error {
        Error::UnsupportedJsonSchema(schema) => unknown_keywords(schema),
        Error::StringTypeUnsupportedFormat(format) => format!("format {format}"),
        Error::ExternalReferencesNotSupported(_) => "external $ref".into(),
        Error::RefRecursionLimitReached(_) => "recursive $ref".into(),
        Error::UnsupportedEnumDataType(_) => "enum".into(),
        Error::UnsupportedConstDataType(_) => "const".into(),
        Error::DfaHasNoStartState => "leading anchor".into(),
        Error::IndexDfaError(_) => return of_automaton(words),
        _ => return EngineError::Invalid { words },
    };
    EngineError::Unsupported { feature, words }
}

/// Sorts what the automaton builder (regex-automata, regex-syntax) says; its errors are opaque but
/// for their text.
pub(super) fn of_automaton(words: String) -> EngineError {
    let features = [
        ("look-around", "look-around"),
        ("backreferences are not supported", "back-reference"),
        ("word boundaries", "word boundary"),
    ];
    // The last line: those before it quote the regex, which may say anything.
    let last = words.lines().last().unwrap_or(&words);
    if let Some((_, feature)) = features.iter().find(|(mark, _)| last.contains(mark)) {
        EngineError::unsupported(*feature, words)
    } else if last.contains("exceed") {
        EngineError::TooLarge { words }
    } else {
        EngineError::Invalid { words }
    }
}

/// An error's words and those of its causes, which the library leaves out of its own.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_words = inner.to_string();
        if !words.contains(&inner_words) {
            words = format!("{words}: {inner_words}");
        }
        cause = inner.source();
    }
    words
}

/// The words with their middle left out where they are long, and told so.
pub(super) fn shortened(words: &str) -> String {
    if words.len() <= MAX_WORDS_BYTES {
        return words.to_owned();
    }
    let head = (0..=MAX_WORDS_BYTES / 2)
        .rev()
        .find(|&at| words.is_char_boundary(at))
        .unwrap_or(0);
    let tail = (words.len() - MAX_WORDS_BYTES / 2..words.len())
        .find(|&at| words.is_char_boundary(at))
        .unwrap_or(words.len());
    format!(
        "{} [{} bytes left out] {}",
        &words[..head],
        tail - head,
        &words[tail..]
    )
}

fn unknown_keywords(schema: &Value) -> String {
    match schema {
        Value::Object(members) => {
            let known: Vec<&str> = members
                .keys()
                .map(String::as_str)
                .filter(|key| !ANNOTATIONS.contains(key))
                .collect();
            let named = known
                .iter()
                .take(MAX_NAMED_KEYWORDS)
                .copied()
                .collect::<Vec<_>>()
                .join(", ");
            if known.is_empty() {
                "schema without type".into()
            } else {
                shortened(&named)
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
    fn what_a_schema_lacks_is_named() {
        for (schema, feature) in [
            (json!({"minimum": 5}), "minimum"),
            (json!({"description": "x", "not": {}, "if": {}}), "not, if"),
            (json!({"title": "x"}), "schema without type"),
            (json!(false), "boolean schema"),
            (json!([{}]), "list in place of a schema"),
        ] {
            assert_eq!(unknown_keywords(&schema), feature);
        }
    }

    #[test]
    fn long_words_lose_their_middle_and_say_so() {
        let long = "é".repeat(5000);
        let short = shortened(&long);
        assert!(
            short.len() < MAX_WORDS_BYTES + 40 && short.contains("bytes left out] é"),
            "{}",
            short.len()
        );
        assert_eq!(shortened("words"), "words");
    }

    #[test]
    fn limits_of_the_automaton_are_told_from_mistakes() {
        for (words, large) in [
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
                matches!(of_automaton(words.into()), EngineError::TooLarge { .. }),
                large,
                "{words}"
            );
        }
    }
}
