//! Escapes untrusted text for HTML, XML and Markdown.

use sobench_core::printable::{printable, visible};

/// Escapes text for element content and quoted attributes of HTML and XML 1.0. Characters that XML
/// forbids become U+FFFD.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            _ if character.is_control() && !matches!(character, '\n' | '\t') => {
                safe.push('\u{fffd}');
            }
            _ => safe.push(character),
        }
    }
    safe
}

/// Untrusted text as inline code in one line of Markdown, so that it is neither markup nor a
/// mention. `max_chars` as in [`printable`].
pub(crate) fn markdown_code(text: &str, max_chars: usize) -> String {
    // A vertical bar ends a table cell even within code, and its escape works only in tables.
    let line = printable(text, max_chars).replace('|', "\u{2502}");
    let longest = line
        .split(|character| character != '`')
        .map(str::len)
        .max()
        .unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    // A blank separates a backtick, or empty text, from the fence; it is not rendered.
    if line.is_empty() || line.starts_with('`') || line.ends_with('`') {
        format!("{fence} {line} {fence}")
    } else {
        format!("{fence}{line}{fence}")
    }
}

/// Escapes a sentence with quoted text for one line of Markdown.
pub fn markdown_text(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in visible(text).chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' => safe.extend(['\\', character]),
            // Prevents mentions and links to issues.
            '@' | '#' => safe.extend([character, '\u{200b}']),
            '\n' | '\r' => safe.push(' '),
            _ => safe.push(character),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_control_characters_are_escaped() {
        assert_eq!(
            escape("<script>'\"&\u{1b}"),
            "&lt;script&gt;&#39;&quot;&amp;\u{fffd}"
        );
        assert_eq!(
            escape("a\u{0}\u{ffff}\n\r\u{9f}"),
            "a\u{fffd}\u{fffd}\n\u{fffd}\u{fffd}"
        );
    }

    #[test]
    fn markdown_code_and_cells_are_escaped() {
        for (text, expected) in [
            ("{}", "`{}`"),
            ("a|b\nc", "`a\u{2502}b\\nc`"),
            ("`", "`` ` ``"),
            ("a``b", "```a``b```"),
            ("", "`  `"),
            ("@you <b>", "`@you <b>`"),
        ] {
            assert_eq!(markdown_code(text, 99), expected);
        }
        assert_eq!(
            markdown_text("<b>|@you|</b>\n#12 `x`\u{1b}"),
            "&lt;b&gt;\\|@\u{200b}you\\|&lt;/b&gt; #\u{200b}12 \\`x\\`\\\\u{1b}"
        );
    }
}
