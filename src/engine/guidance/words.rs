//! What llguidance says when it refuses, sorted. Knows nothing else of it.

use crate::engine::EngineError;

/// Sorts the library's messages. They are all it gives: its errors are text.
pub(super) fn classified(raw: &str) -> EngineError {
    let words = ["\n<non-verbose/>", "\n<backtrace>"].iter().fold(raw, |text, mark| text.split(mark).next().unwrap_or(text));
    let words = words.trim().to_owned();
    let feature = if let Some((_, keys)) = words.split_once("Unimplemented keys: ") {
        Some(keys.lines().next().unwrap_or(keys).trim_matches(['[', ']']).replace('"', ""))
    } else if words.contains("oneOf constraints are not supported") {
        Some("oneOf".into())
    } else if let Some((_, format)) = words.split_once("Unknown format: ") {
        Some(format!("format {}", format.lines().next().unwrap_or(format)))
    } else if words.contains("min/maxProperties only supported") {
        Some("minProperties, maxProperties".into())
    } else if words.contains("look-around") {
        Some("look-around".into())
    } else if words.contains("backreferences are not supported") {
        Some("back-reference".into())
    } else {
        None
    };
    let large = ["fuel", "too large", "too big", "too complex", "limit", "too many"];
    match feature {
        Some(feature) => EngineError::Unsupported { feature, words },
        None if words.contains("panic: ") => EngineError::Crashed { words },
        None if large.iter().any(|mark| words.to_lowercase().contains(mark)) => EngineError::TooLarge { words },
        None => EngineError::Invalid { words },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_told_apart_from_mistakes() {
        let large = "initial lexer configuration (grammar) too big (limit for this grammar: 1000000)";
        for (words, large) in
            [(large, true), ("schema too large", true), ("Too many items (limit 2000)", true), ("Invalid type: x", false)]
        {
            assert_eq!(matches!(classified(words), EngineError::TooLarge { .. }), large, "{words}");
        }
        assert_eq!(classified("panic: x\n<backtrace>\n1\n</backtrace>"), EngineError::Crashed { words: "panic: x".into() });
    }
}
