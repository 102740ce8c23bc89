//! What llguidance says when it refuses, sorted. Knows nothing else of it.

use crate::EngineError;

/// Sorts the library's messages. They are all it gives: its errors are text.
pub(super) fn classified(raw: &str) -> EngineError {
    let words = ["\n<non-verbose/>", "\n<backtrace>"]
        .iter()
        .fold(raw, |text, mark| text.split(mark).next().unwrap_or(text));
    let words = words.trim().to_owned();
    let feature = feature(&words);
    // Phrases, not words: a message quotes the user's own text.
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
        Some(feature) => EngineError::Unsupported { feature, words },
        None if words.contains("panic: ") => EngineError::Crashed { words },
        None if large.iter().any(|mark| words.to_lowercase().contains(mark)) => {
            EngineError::TooLarge { words }
        }
        None => EngineError::Invalid { words },
    }
}

/// Whether a message is of the lexer that matchers share, and stays with it: it is out of effort,
/// or a panic held its lock.
pub(super) fn is_of_broken_lexer(raw: &str) -> bool {
    raw.contains("PoisonError") || raw.contains("lexer error: ")
}

/// Features that llguidance's messages name by a phrase of their own.
const FEATURES: [(&str, &str); 14] = [
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

/// What a message says is not implemented, if it says so.
fn feature(words: &str) -> Option<String> {
    let rest_of_line = |mark: &str| {
        words
            .split_once(mark)
            .map(|(_, rest)| rest.lines().next().unwrap_or(rest).trim())
    };
    if let Some(keys) = rest_of_line("Unimplemented keys: ") {
        return Some(keys.trim_matches(['[', ']']).replace('"', ""));
    }
    if let Some(format) = rest_of_line("Unknown format: ") {
        return Some(format!("format {format}"));
    }
    FEATURES
        .into_iter()
        .find(|(phrase, _)| words.contains(phrase))
        .map(|(_, feature)| feature.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_told_apart_from_mistakes() {
        let large =
            "initial lexer configuration (grammar) too big (limit for this grammar: 1000000)";
        for (words, large) in [
            (large, true),
            ("schema too large", true),
            ("Too many items (limit 2000)", true),
            ("Invalid type: x", false),
        ] {
            assert_eq!(
                matches!(classified(words), EngineError::TooLarge { .. }),
                large,
                "{words}"
            );
        }
        assert_eq!(
            classified("panic: x\n<backtrace>\n1\n</backtrace>"),
            EngineError::Crashed {
                words: "panic: x".into()
            }
        );
    }
}
