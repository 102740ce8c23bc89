//! Classifies the error messages of xgrammar, which are the same in the port and in the original.

use crate::error::EngineError;

/// Phrases that name an unsupported feature, and the feature.
const UNSUPPORTED_PHRASES: [(&str, &str); 16] = [
    ("backreference", "back-reference"),
    ("lookahead", "look-ahead"),
    ("lookbehind", "look-behind"),
    ("word boundary", "word boundary"),
    ("unicode character class escape", "unicode property"),
    ("unicode property escape", "unicode property"),
    ("group modifier", "group modifier"),
    (
        "character class escape is not supported",
        "class escape in EBNF",
    ),
    ("items must be a boolean or an object", "items as an array"),
    (
        "prefixitems must be an array of objects or booleans",
        "boolean in prefixItems",
    ),
    (
        "propertynames must be an object",
        "propertyNames as a boolean",
    ),
    ("lark templates", "template"),
    ("priorities are not supported", "priority"),
    ("parametric", "parametric rule"),
    ("terminal intersection", "terminal intersection"),
    ("expression complement", "regex complement"),
];

/// Phrases that name a limit on size or depth.
const LIMIT_PHRASES: [&str; 8] = [
    "too large",
    "too many",
    "exceeds",
    "exceeded the maximum",
    "not exceeding",
    "must not exceed ",
    "nested deeper",
    "precision loss",
];

/// Classifies a message of the library.
pub(super) fn classify(message: &str) -> EngineError {
    let message = message.trim().to_owned();
    let lower = message.to_lowercase();
    if let Some((_, feature)) = UNSUPPORTED_PHRASES
        .iter()
        .find(|(mark, _)| lower.contains(mark))
    {
        return EngineError::unsupported(*feature, message);
    }
    if LIMIT_PHRASES.iter().any(|mark| lower.contains(mark)) {
        return EngineError::TooLarge { message };
    }
    match feature_before_not_supported(&message) {
        Some(feature) => EngineError::Unsupported { feature, message },
        None => EngineError::Invalid { message },
    }
}

/// The text before "is not supported" in the message, without the location prefix of Lark errors.
fn feature_before_not_supported(message: &str) -> Option<String> {
    let line = message
        .lines()
        .find(|line| line.contains("not supported"))?;
    let before = line.split_once(" not supported")?.0;
    let before = before.rsplit_once(": ").map_or(before, |(_, after)| after);
    Some(
        before
            .trim_end_matches(" is")
            .trim_end_matches(" are")
            .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_limits_and_invalid_input_are_distinguished() {
        let unsupported = |feature: &str, message: &str| EngineError::Unsupported {
            feature: feature.into(),
            message: message.into(),
        };
        for (message, feature) in [
            (
                "Regex parsing error at position 4: Backreference is not supported yet.",
                "back-reference",
            ),
            ("items must be a boolean or an object", "items as an array"),
            (
                "Lark error at line 1, column 8: directive %extend is not supported\nstart: x\n  ^",
                "directive %extend",
            ),
            (
                "Lark error at line 2, column 1: rule and terminal priorities are not supported",
                "priority",
            ),
        ] {
            assert_eq!(classify(message), unsupported(feature, message));
        }
        for message in [
            "Nest layer exceeded the maximum limit",
            "Integer is too large: parsed 2, max allowed is 1",
        ] {
            assert_eq!(
                classify(message),
                EngineError::TooLarge {
                    message: message.into()
                }
            );
        }
        for message in [
            "Unsupported type \"strnig\"",
            "enum array must not be empty",
        ] {
            assert_eq!(
                classify(message),
                EngineError::Invalid {
                    message: message.into()
                }
            );
        }
    }
}
