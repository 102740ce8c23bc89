//! What xgrammar says when it refuses, told apart. Knows the messages of the port and of the
//! original, which are the same.

use crate::EngineError;

/// Words that name something the library does not implement, and what it is.
const UNSUPPORTED: [(&str, &str); 16] = [
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

/// Words that name a limit on size or depth.
const LARGE: [&str; 8] = [
    "too large",
    "too many",
    "exceeds",
    "exceeded the maximum",
    "not exceeding",
    "must not exceed ",
    "nested deeper",
    "precision loss",
];

/// Turns the library's words into a refusal.
pub(super) fn classified(words: &str) -> EngineError {
    let words = words.trim().to_owned();
    let lower = words.to_lowercase();
    if let Some((_, feature)) = UNSUPPORTED.iter().find(|(mark, _)| lower.contains(mark)) {
        return EngineError::unsupported(*feature, words);
    }
    if LARGE.iter().any(|mark| lower.contains(mark)) {
        return EngineError::TooLarge { words };
    }
    match unnamed_feature(&words) {
        Some(feature) => EngineError::Unsupported { feature, words },
        None => EngineError::Invalid { words },
    }
}

/// What stands before "is not supported" in the message's first line, without the place that an
/// error of Lark opens with.
fn unnamed_feature(words: &str) -> Option<String> {
    let line = words.lines().find(|line| line.contains("not supported"))?;
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
    fn features_limits_and_mistakes_are_told_apart() {
        let unsupported = |feature: &str, words: &str| EngineError::Unsupported {
            feature: feature.into(),
            words: words.into(),
        };
        for (words, feature) in [
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
            assert_eq!(classified(words), unsupported(feature, words));
        }
        for words in [
            "Nest layer exceeded the maximum limit",
            "Integer is too large: parsed 2, max allowed is 1",
        ] {
            assert_eq!(
                classified(words),
                EngineError::TooLarge {
                    words: words.into()
                }
            );
        }
        for words in [
            "Unsupported type \"strnig\"",
            "enum array must not be empty",
        ] {
            assert_eq!(
                classified(words),
                EngineError::Invalid {
                    words: words.into()
                }
            );
        }
    }
}
