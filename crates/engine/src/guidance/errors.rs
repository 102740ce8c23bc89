//! Classifies llguidance's error messages.

use crate::error::EngineError;

/// Classifies a message. The library returns its errors only as text.
pub(super) fn classify(raw: &str) -> EngineError {
    let message = ["\n<non-verbose/>", "\n<backtrace>"]
        .iter()
        .fold(raw, |text, mark| text.split(mark).next().unwrap_or(text));
    let message = message.trim().to_owned();
    let feature = unsupported_feature(&message);
    // Whole phrases, because a message may quote the user's text.
    let large = [
        "fuel exhausted",
        "check fuel",
        "too large",
        "too big (limit",
        "too complex",
        "too many expressions",
        "too many states",
        "too many items",
        "size limit",
        "lexer precomputation failed",
    ];
    match feature {
        Some(feature) => EngineError::Unsupported { feature, message },
        None if message.contains("panic: ") => EngineError::Crashed { message },
        None if large
            .iter()
            .any(|mark| message.to_lowercase().contains(mark)) =>
        {
            EngineError::TooLarge { message }
        }
        None => EngineError::Invalid { message },
    }
}

/// Whether the message reports a permanent failure of the shared lexer: it ran out of effort, or a
/// panic poisoned its lock.
pub(super) fn is_lexer_failure(raw: &str) -> bool {
    raw.contains("PoisonError") || raw.contains("lexer error: ")
}

/// Phrases in llguidance's messages, and the unsupported features that they name.
const FEATURE_PHRASES: [(&str, &str); 14] = [
    ("oneOf constraints are not supported", "oneOf"),
    (
        "min/maxProperties only supported",
        "minProperties, maxProperties",
    ),
    (
        "Schema intersection stack level exceeded",
        "deeply nested intersection",
    ),
    (
        "circular references with sibling keys",
        "circular $ref with siblings",
    ),
    ("patternProperty regexes", "overlapping patternProperties"),
    (
        "'multipleOf' has too many digits",
        "multipleOf of many digits",
    ),
    ("retrieving it failed", "$ref out of the document"),
    ("look-around", "look-around"),
    ("backreferences are not supported", "back-reference"),
    ("template usage not supported", "lark template"),
    ("params not supported yet", "lark template"),
    ("priority not supported yet", "lark priority"),
    ("override statement not supported", "lark %override"),
    ("declare statement not supported", "lark %declare"),
];

/// The unsupported feature that a message names.
fn unsupported_feature(message: &str) -> Option<String> {
    let rest_of_line = |mark: &str| {
        message
            .split_once(mark)
            .map(|(_, rest)| rest.lines().next().unwrap_or(rest).trim())
    };
    if let Some(keys) = rest_of_line("Unimplemented keys: ") {
        return Some(keys.trim_matches(['[', ']']).replace('"', ""));
    }
    if let Some(format) = rest_of_line("Unknown format: ") {
        return Some(format!("format {format}"));
    }
    FEATURE_PHRASES
        .into_iter()
        .find(|(phrase, _)| message.contains(phrase))
        .map(|(_, feature)| feature.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_distinguished_from_invalid_input() {
        let large =
            "initial lexer configuration (grammar) too big (limit for this grammar: 1000000)";
        for (message, large) in [
            (large, true),
            ("schema too large", true),
            ("Too many items (limit 2000)", true),
            ("Invalid type: x", false),
        ] {
            assert_eq!(
                matches!(classify(message), EngineError::TooLarge { .. }),
                large,
                "{message}"
            );
        }
        assert_eq!(
            classify("panic: x\n<backtrace>\n1\n</backtrace>"),
            EngineError::Crashed {
                message: "panic: x".into()
            }
        );
    }
}
