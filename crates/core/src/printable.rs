//! Makes text of strangers fit for a terminal. Knows nothing of what the text is about.

/// The most characters that are shown of a name that came from outside.
pub const NAME_CHARS: usize = 200;

/// `text` in one line, at most `max_chars` characters wide before escaping is counted in, without
/// anything that a terminal would obey: control characters, and the invisible ones that turn or
/// hide the text around them, are written as escapes.
///
/// Where the text was cut, an ellipsis ends it.
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

/// What a server said in the body of an answer, fit for an error of one line; a body without text
/// is said to be one.
pub fn printable_body(body: &str, max_chars: usize) -> String {
    match body.trim() {
        "" => "(no body)".to_owned(),
        text => printable(text, max_chars),
    }
}

/// A count with its thousands apart.
pub fn thousands(value: u64) -> String {
    let digits = value.to_string();
    let mut shown = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

fn shown(character: char) -> String {
    match character {
        '\n' | '\r' | '\t' => character.escape_default().to_string(),
        it if it.is_control() || is_invisible(it) => it.escape_unicode().to_string(),
        it => it.to_string(),
    }
}

/// Zero-width characters, line separators and the controls of writing direction (Unicode's
/// `Bidi_Control`), byte order mark included.
pub fn is_invisible(character: char) -> bool {
    matches!(character, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_the_terminal_that_it_would_obey() {
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
    fn bodies_are_cut_at_a_character() {
        assert_eq!(printable_body("  \n", 9), "(no body)");
        assert_eq!(printable_body(" no ", 9), "no");
        let long = printable_body(&"\u{e4}".repeat(2001), 2000);
        assert!(long.ends_with('…') && long.chars().count() == 2001);
        assert_eq!(printable_body("\u{1b}[31mred", 99), "\\u{1b}[31mred");
    }
}
