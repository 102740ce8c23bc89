//! Makes text of strangers fit for a terminal. Knows nothing of what the text is about.

/// `text` in one line, at most `max_chars` characters wide before escaping is counted in, without anything that a terminal would
/// obey: control characters, and the invisible ones that turn or hide the text around them, are written as escapes.
///
/// Where the text was cut, an ellipsis ends it.
pub(crate) fn printable(text: &str, max_chars: usize) -> String {
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

fn shown(character: char) -> String {
    match character {
        '\n' | '\r' | '\t' => character.escape_default().to_string(),
        it if it.is_control() || is_invisible(it) => it.escape_unicode().to_string(),
        it => it.to_string(),
    }
}

/// Zero-width characters, line separators and the controls of writing direction (Unicode's `Bidi_Control`), byte order mark included.
fn is_invisible(character: char) -> bool {
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
}
