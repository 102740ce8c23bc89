//! Makes untrusted text safe to print on a terminal.

/// Maximum number of characters shown of an untrusted name.
pub const NAME_CHARS: usize = 200;

/// `text` on one line, cut to `max_chars` characters. Control characters and invisible characters
/// that reverse or hide text are escaped.
///
/// An ellipsis marks a cut.
pub fn printable(text: &str, max_chars: usize) -> String {
    let mut line = String::new();
    let mut used = 0;
    for character in text.chars() {
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

/// The body of a response for a one-line error, or `(no body)`.
pub fn printable_body(body: &str, max_chars: usize) -> String {
    match body.trim() {
        "" => "(no body)".to_owned(),
        text => printable(text, max_chars),
    }
}

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
    fn bodies_are_trimmed_and_cut_at_a_character() {
        assert_eq!(printable_body("  \n", 9), "(no body)");
        assert_eq!(printable_body(" no ", 9), "no");
        let long = printable_body(&"\u{e4}".repeat(2001), 2000);
        assert!(long.ends_with('…') && long.chars().count() == 2001);
        assert_eq!(printable_body("\u{1b}[31mred", 99), "\\u{1b}[31mred");
    }
}
