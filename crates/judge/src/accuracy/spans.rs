//! Finds the answer in a text: the last number, or the last choice.

use std::sync::LazyLock;

use regex::Regex;

/// The last number of a text, without separators of thousands.
///
/// Source: the flexible extraction of GSM8K in `lm-evaluation-harness`, which takes the last number
/// and ignores `,` and `$`.
pub(super) fn last_number(text: &str) -> Option<f64> {
    static NUMBER: LazyLock<Regex> = LazyLock::new(|| {
        let pattern = r"-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][+-]?\d+)?";
        Regex::new(pattern).expect("the expression is fixed and well formed")
    });
    let last = NUMBER.find_iter(text).last()?;
    // The minus in `5-3` or `2024-11` separates.
    let is_separator = text[..last.start()].ends_with(|before: char| before.is_alphanumeric());
    let number = last.as_str().replace(',', "");
    let number = if is_separator {
        number.trim_start_matches('-')
    } else {
        &number
    };
    number.parse().ok()
}

/// The choice of a text: the whole text without quotes and punctuation around it, or else the
/// choice that ends last as a word of its own; of several that end there, the longest.
pub(super) fn last_choice<'a>(text: &str, choices: &[&'a str]) -> Option<&'a str> {
    let bare = text.trim_matches(|character: char| {
        character.is_whitespace() || matches!(character, '"' | '\'' | '.' | '`' | '*')
    });
    if let Some(choice) = choices
        .iter()
        .find(|choice| **choice == text || **choice == bare)
    {
        return Some(choice);
    }
    let mut last: Option<(usize, &'a str)> = None;
    for choice in choices.iter().filter(|choice| !choice.is_empty()) {
        let mut found = text
            .rmatch_indices(*choice)
            .map(|(start, _)| (start, start + choice.len()));
        let Some((_, end)) = found.find(|(start, end)| is_word(text, *start, *end)) else {
            continue;
        };
        let is_later =
            last.is_none_or(|(other_end, other)| (end, choice.len()) > (other_end, other.len()));
        if is_later {
            last = Some((end, choice));
        }
    }
    last.map(|(_, choice)| choice)
}

/// Whether the text after the last "answer is" or "answer:" starts with the reference. `None` if no
/// answer is stated in this way.
pub(super) fn starts_stated_answer(text: &str, reference: &str) -> Option<bool> {
    static STATED: LazyLock<Regex> = LazyLock::new(|| {
        let pattern = r"(?i)\banswer(?: is|:)[\s:]*";
        Regex::new(pattern).expect("the expression is fixed and well formed")
    });
    let end = STATED.find_iter(text).last()?.end();
    let stated = text[end..].trim_start_matches(|character: char| !character.is_alphanumeric());
    if stated.is_empty() {
        return None;
    }
    let is_start = stated.starts_with(reference);
    Some(is_start && is_word(stated, 0, reference.len()))
}

/// Whether no letter or digit touches the text from `start` to `end`.
fn is_word(text: &str, start: usize, end: usize) -> bool {
    !text[..start].ends_with(char::is_alphanumeric)
        && !text[end..].starts_with(char::is_alphanumeric)
}
