//! What a conversion did beside spelling: each is said, so that nothing of a grammar is lost in
//! silence. Knows no notation.

use std::fmt;

/// Something that a conversion did to a grammar.
///
/// Comments and layout are not carried over, and are not noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// Rules whose names the other notation does not have: the name in the source, the name in the
    /// result.
    Renamed(Vec<(String, String)>),
    /// What says nothing about the language is left out; by the lines of the source, counted from
    /// 1.
    Dropped { what: Dropped, lines: Vec<usize> },
    /// Rules that no sentence needs are left out.
    Unreached(Vec<String>),
    /// `%ignore` became a rule, which stands in the result wherever ignored text may stand.
    IgnoredWoven,
    /// Direct left recursion became repetition, in these rules of the source.
    LeftRecursion(Vec<String>),
    /// Repetition of what may be empty became repetition of what is not, in these rules of the
    /// source.
    EmptyRepetition(Vec<String>),
    /// Terminals of the source overlap. A lexer takes the longest one and never gives it back; the
    /// result has every reading, and so may have sentences that a reader of the source with a lexer
    /// refuses.
    LexerLeftOut,
    /// Strings that became single characters, one by one, so that a lexer that takes the longest
    /// terminal loses no sentence.
    Split(Vec<String>),
}

/// What of Lark does not change which texts are sentences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// `-> name`.
    Alias,
    /// `?rule` and `!rule`.
    Modifier,
    /// `TERMINAL.2`.
    Priority,
    /// `rule[capture]`.
    Capture,
}

/// How many names or lines a note lists before it counts the rest.
const MAX_LISTED: usize = 8;

/// How much of a name or string a note shows, in characters.
const MAX_SHOWN_CHARS: usize = 40;

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Renamed(names) => {
                let pairs: Vec<String> =
                    names.iter().take(MAX_LISTED).map(|(from, to)| format!("{} to {}", shown(from), shown(to))).collect();
                write!(f, "renamed {}{}", pairs.join(", "), rest(names.len()))
            }
            Self::Dropped { what, lines } => {
                let numbers: Vec<String> = lines.iter().take(MAX_LISTED).map(usize::to_string).collect();
                let word = if lines.len() == 1 { "line" } else { "lines" };
                write!(f, "left out {what} ({word} {}{})", numbers.join(", "), rest(lines.len()))
            }
            Self::Unreached(names) => write!(f, "left out rules that no sentence needs: {}", listed(names)),
            Self::IgnoredWoven => {
                f.write_str("%ignore became a rule of its own, which stands before, between and behind terminals")
            }
            Self::LeftRecursion(names) => write!(f, "left recursion became repetition: {}", listed(names)),
            Self::EmptyRepetition(names) => {
                write!(f, "repetition of what may be empty became repetition of what is not: {}", listed(names))
            }
            Self::LexerLeftOut => f.write_str(
                "terminals overlap, and every reading of them counts: a lexer that takes the longest one may accept fewer texts",
            ),
            Self::Split(texts) => {
                let quoted: Vec<String> = texts.iter().take(MAX_LISTED).map(|text| format!("{:?}", shown(text))).collect();
                let rest = rest(texts.len());
                write!(f, "strings became single characters, so that no lexer takes too much: {}{rest}", quoted.join(", "))
            }
        }
    }
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Alias => "aliases",
            Self::Modifier => "the prefixes ? and !",
            Self::Priority => "priorities",
            Self::Capture => "captures",
        })
    }
}

fn listed(names: &[String]) -> String {
    let first: Vec<String> = names
        .iter()
        .take(MAX_LISTED)
        .map(|name| shown(name))
        .collect();
    first.join(", ") + &rest(names.len())
}

fn rest(count: usize) -> String {
    if count > MAX_LISTED {
        format!(" and {} more", count - MAX_LISTED)
    } else {
        String::new()
    }
}

fn shown(name: &str) -> String {
    match name.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("{}...", &name[..end]),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("r{number}")).collect()
    }

    #[test]
    fn notes_are_short_lines() {
        for (note, line) in [
            (
                Note::Renamed(vec![
                    ("a_b".into(), "a-b".into()),
                    ("root".into(), "root-2".into()),
                ]),
                "renamed a_b to a-b, root to root-2",
            ),
            (
                Note::Dropped {
                    what: Dropped::Priority,
                    lines: vec![3],
                },
                "left out priorities (line 3)",
            ),
            (
                Note::Dropped {
                    what: Dropped::Alias,
                    lines: (1..=10).collect(),
                },
                "left out aliases (lines 1, 2, 3, 4, 5, 6, 7, 8 and 2 more)",
            ),
            (
                Note::Unreached(names(9)),
                "left out rules that no sentence needs: r0, r1, r2, r3, r4, r5, r6, r7 and 1 more",
            ),
            (
                Note::Split(vec!["é".repeat(50)]),
                &format!(
                    "strings became single characters, so that no lexer takes too much: \"{}...\"",
                    "é".repeat(40)
                ),
            ),
        ] {
            assert_eq!(note.to_string(), line);
        }
    }
}
