//! Strangers' text in pages, in XML and in Markdown. Knows no document.

use sobench_core::printable::printable;

/// Text that is safe between tags and inside quoted attributes, of HTML and of XML 1.0. What XML
/// does not allow becomes a replacement.
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
            it if it.is_control() && !matches!(it, '\n' | '\t') => safe.push('\u{fffd}'),
            it => safe.push(it),
        }
    }
    safe
}

/// A stranger's text in one line of Markdown, as code: there it is neither markup nor a name that
/// somebody is called by. `max_chars` as in [`printable`].
pub(crate) fn markdown_code(text: &str, max_chars: usize) -> String {
    // A stroke ends a cell even within code, and its escape is read as such in tables alone.
    let line = printable(text, max_chars).replace('|', "\u{2502}");
    let longest = line.split(|it| it != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    // A blank keeps a grave accent, or nothing at all, apart from the fence, and is not shown.
    if line.is_empty() || line.starts_with('`') || line.ends_with('`') {
        format!("{fence} {line} {fence}")
    } else {
        format!("{fence}{line}{fence}")
    }
}

/// A sentence of ours that quotes strangers, in one line of Markdown.
pub fn markdown_text(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' => safe.extend(['\\', character]),
            // Followed by a name or a number these would call somebody, or point at an issue.
            '@' | '#' => safe.extend([character, '\u{200b}']),
            '\n' | '\r' => safe.push(' '),
            it => safe.push(it),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_text_cannot_leave_its_place() {
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
    fn code_stays_code_and_a_cell_a_cell() {
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
            markdown_text("<b>|@you|</b>\n#12 `x`"),
            "&lt;b&gt;\\|@\u{200b}you\\|&lt;/b&gt; #\u{200b}12 \\`x\\`"
        );
    }
}
