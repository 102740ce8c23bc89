//! JSON as Python writes it: `NaN` and infinities, which no reader of JSON takes, stand in results of vLLM's script (the standard
//! deviation of one request). Knows nothing of what they mean: they become `null`.

/// The words, the longest first.
const WORDS: [&str; 3] = ["-Infinity", "Infinity", "NaN"];

/// The text with every such word outside of strings replaced.
pub(super) fn without_nan(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let (mut in_string, mut escaped) = (false, false);
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        if let Some(word) = WORDS.iter().find(|word| !in_string && rest.starts_with(**word)) {
            clean.push_str("null");
            rest = &rest[word.len()..];
            continue;
        }
        match character {
            '"' if !escaped => in_string = !in_string,
            _ => {}
        }
        escaped = in_string && character == '\\' && !escaped;
        clean.push(character);
        rest = &rest[character.len_utf8()..];
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bare_words_are_replaced() {
        for (text, expected) in [
            (r#"{"std": NaN, "a": [Infinity, -Infinity, -1]}"#, r#"{"std": null, "a": [null, null, -1]}"#),
            (r#"{"NaN": "é NaN \" NaN", "b": "\\", "c": NaN}"#, r#"{"NaN": "é NaN \" NaN", "b": "\\", "c": null}"#),
            ("", ""),
        ] {
            assert_eq!(without_nan(text), expected);
        }
    }
}
