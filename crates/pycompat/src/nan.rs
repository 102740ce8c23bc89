//! JSON as Python writes it: words for what JSON has no number for, which stand in results of
//! vLLM's tools (the standard deviation of one request is one). Knows nothing of what they mean:
//! they become `null`.

use std::borrow::Cow;

/// The same text with `null` for the three words that Python writes for what JSON has no number
/// for: `NaN`, `Infinity`, `-Infinity`.
pub fn without_nan(bytes: &[u8]) -> Cow<'_, [u8]> {
    const WORDS: [&[u8]; 3] = [b"NaN", b"-Infinity", b"Infinity"];
    let has = |word: &[u8]| bytes.windows(word.len()).any(|window| window == word);
    if !has(WORDS[0]) && !has(WORDS[2]) {
        return Cow::Borrowed(bytes);
    }
    let mut clean = Vec::with_capacity(bytes.len());
    let (mut place, mut in_string) = (0, false);
    while place < bytes.len() {
        let rest = &bytes[place..];
        let word = WORDS
            .into_iter()
            .find(|word| !in_string && rest.starts_with(word));
        if let Some(word) = word {
            clean.extend_from_slice(b"null");
            place += word.len();
            continue;
        }
        let escaped = in_string && rest[0] == b'\\';
        let taken = if escaped { rest.len().min(2) } else { 1 };
        in_string ^= rest[0] == b'"';
        clean.extend_from_slice(&rest[..taken]);
        place += taken;
    }
    Cow::Owned(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pythons_words_are_null_outside_of_strings() {
        for (text, expected) in [
            (
                r#"{"std": NaN, "a": [-Infinity, Infinity]}"#,
                r#"{"std": null, "a": [null, null]}"#,
            ),
            (
                r#"{"a": "NaN \" NaN \\", "b": NaN}"#,
                r#"{"a": "NaN \" NaN \\", "b": null}"#,
            ),
            ("{}", "{}"),
            (r#""NaN\"#, r#""NaN\"#),
        ] {
            assert_eq!(without_nan(text.as_bytes()), expected.as_bytes());
        }
    }
}
