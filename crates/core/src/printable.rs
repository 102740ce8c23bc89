//! Makes untrusted text safe to print on a terminal.

use std::borrow::Cow;

use crate::error_message::error_message;
use crate::secrets::redacted;

/// Maximum number of characters shown of an untrusted name.
pub const NAME_CHARS: usize = 200;

/// Maximum number of characters shown of a sentence of a server or another program. No real one is
/// cut: the limit is against hostile length.
pub const MESSAGE_CHARS: usize = 1000;

/// `text` on one line, cut to `max_chars` characters. Control characters and invisible characters
/// that reverse or hide text are escaped, and secrets are redacted.
///
/// An ellipsis marks a cut.
pub fn printable(text: &str, max_chars: usize) -> String {
    let mut line = String::new();
    let mut used = 0;
    for character in redacted(text).chars() {
        let shown = shown(character);
        used += shown.chars().count();
        if used > max_chars {
            line.push('…');
            break;
        }
        line.push_str(&shown);
    }
    line
}

/// A text of several lines for a terminal: control characters other than line ends and tabs, and
/// characters that reverse or hide text, are escaped.
pub fn visible(text: &str) -> Cow<'_, str> {
    let is_shown = |character: char| {
        matches!(character, '\n' | '\t') || !(character.is_control() || is_invisible(character))
    };
    if text.chars().all(is_shown) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let ends_line = character == '\r' && characters.peek() == Some(&'\n');
        if ends_line || is_shown(character) {
            escaped.push(character);
        } else {
            escaped.push_str(&shown(character));
        }
    }
    Cow::Owned(escaped)
}

/// A sentence of a server or another program on one line. See [`shortened`] for its length.
pub fn printable_message(message: &str) -> String {
    printable(&shortened(message, MESSAGE_CHARS), usize::MAX)
}

/// Characters of the note on a cut. A shorter rest stays, so that no text is shortened twice.
const CUT_NOTE_CHARS: usize = 40;

/// `text`, or its first `max_chars` characters and the number of bytes that are left out. Not
/// escaped; secrets are redacted.
pub fn shortened(text: &str, max_chars: usize) -> String {
    let text = &*redacted(text);
    let mut ends = text.char_indices().map(|(at, _)| at).skip(max_chars);
    match (ends.next(), ends.nth(CUT_NOTE_CHARS - 1)) {
        (Some(end), Some(_)) => {
            format!("{}… ({} bytes left out)", &text[..end], text.len() - end)
        }
        _ => text.to_owned(),
    }
}

/// The longest prefix of `text` within `max_bytes` that does not split a character.
pub fn cut(text: &str, max_bytes: usize) -> &str {
    if text.len() <= max_bytes {
        return text;
    }
    let end = (0..=max_bytes)
        .rev()
        .find(|&end| text.is_char_boundary(end))
        .unwrap_or(0);
    &text[..end]
}

/// The message in the body of a response for a one-line error, or `(no body)`.
pub fn printable_body(body: &str) -> String {
    match error_message(body).trim() {
        "" => NO_BODY.to_owned(),
        text => printable_message(text),
    }
}

/// In place of an empty body.
pub(crate) const NO_BODY: &str = "(no body)";

/// A number with thousands separators.
pub fn thousands(value: u64) -> String {
    let digits = value.to_string();
    let mut shown = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

fn shown(character: char) -> String {
    match character {
        '\n' | '\r' | '\t' => character.escape_default().to_string(),
        _ if character.is_control() || is_invisible(character) => {
            character.escape_unicode().to_string()
        }
        _ => character.to_string(),
    }
}

/// Whether a character is zero-width, a line separator, a writing-direction control (Unicode's
/// `Bidi_Control`) or a byte order mark.
pub fn is_invisible(character: char) -> bool {
    matches!(character, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_invisible_characters_are_escaped() {
        for (text, max, expected) in [
            ("plain {\"a\": 1}", 40, "plain {\"a\": 1}"),
            ("a\nb\tc\r", 40, "a\\nb\\tc\\r"),
            ("\u{1b}[31mred\u{7}", 40, "\\u{1b}[31mred\\u{7}"),
            ("\u{202e}evil\u{200b}", 40, "\\u{202e}evil\\u{200b}"),
            ("\u{9b}31m", 40, "\\u{9b}31m"),
            ("日本語", 2, "日本…"),
            ("abcdef", 6, "abcdef"),
            ("abcdefg", 6, "abcdef…"),
            ("ab\n", 3, "ab…"),
            ("", 0, ""),
        ] {
            assert_eq!(printable(text, max), expected);
        }
    }

    #[test]
    fn pages_keep_their_lines() {
        assert_eq!(visible("a\tb\n\n日"), "a\tb\n\n日");
        assert_eq!(
            visible("a\r\nb\rc\u{1b}[2J\u{9b}2J\u{202e}"),
            "a\r\nb\\rc\\u{1b}[2J\\u{9b}2J\\u{202e}"
        );
    }

    #[test]
    fn messages_are_whole_up_to_the_limit() {
        assert_eq!(printable_body("  \n"), "(no body)");
        assert_eq!(printable_body(" no "), "no");
        assert_eq!(printable_body(r#"{"error":{"message":"no"}}"#), "no");
        assert_eq!(printable_body("\u{1b}[31mred"), "\\u{1b}[31mred");
        let start = "\u{e4}".repeat(MESSAGE_CHARS);
        let whole = start.clone() + &"b".repeat(CUT_NOTE_CHARS);
        assert_eq!(printable_message(&whole), whole);
        let cut = printable_message(&format!("{whole}\u{e4}"));
        assert_eq!(cut, format!("{start}… (42 bytes left out)"));
        assert_eq!(printable_message(&cut), cut);
    }
}
