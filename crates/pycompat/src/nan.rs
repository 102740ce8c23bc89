//! Python writes `NaN`, `Infinity` and `-Infinity` in JSON, for example in results of vLLM's tools
//! (the standard deviation of one request). They are replaced by `null`.

use std::borrow::Cow;

/// Replaces `NaN`, `Infinity` and `-Infinity` outside of strings by `null`.
pub fn without_nan(bytes: &[u8]) -> Cow<'_, [u8]> {
    const LITERALS: [&[u8]; 3] = [b"NaN", b"-Infinity", b"Infinity"];
    let has = |literal: &[u8]| bytes.windows(literal.len()).any(|window| window == literal);
    if !has(LITERALS[0]) && !has(LITERALS[2]) {
        return Cow::Borrowed(bytes);
    }
    let mut clean = Vec::with_capacity(bytes.len());
    let (mut position, mut in_string) = (0, false);
    while position < bytes.len() {
        let rest = &bytes[position..];
        let literal = LITERALS
            .into_iter()
            .find(|literal| !in_string && rest.starts_with(literal));
        if let Some(literal) = literal {
            clean.extend_from_slice(b"null");
            position += literal.len();
            continue;
        }
        let escaped = in_string && rest[0] == b'\\';
        let taken = if escaped { rest.len().min(2) } else { 1 };
        in_string ^= rest[0] == b'"';
        clean.extend_from_slice(&rest[..taken]);
        position += taken;
    }
    Cow::Owned(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn non_finite_numbers_are_null_outside_of_strings() {
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
