//! Notes on the changes of a conversion, so that no loss is silent.

use std::fmt;

/// A change that a conversion made.
///
/// Comments and layout are dropped without a note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// Renamed rules: name in the source, name in the result.
    Renamed(Vec<(String, String)>),
    /// Dropped constructs that do not affect the language, with source lines from 1.
    Dropped { what: Dropped, lines: Vec<usize> },
    /// Dropped unreachable rules.
    Unreached(Vec<String>),
    /// `%ignore` became a rule, used wherever ignored text is allowed.
    IgnoreAsRule,
    /// Direct left recursion was replaced by repetition in these rules.
    LeftRecursion(Vec<String>),
    /// Repetition of nullable expressions was rewritten in these rules.
    EmptyRepetition(Vec<String>),
    /// Terminals overlap. A lexer takes the longest without backtracking; the result allows all
    /// derivations, so it may have sentences that an implementation with a lexer refuses.
    OverlappingTerminals,
    /// Strings that were split into characters, so that a longest-match lexer loses no sentence.
    Split(Vec<String>),
}

/// Lark constructs that do not change the language.
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

/// Maximum number of names or lines in a note; the rest is counted.
const MAX_LISTED: usize = 8;

/// Maximum number of characters shown of a name or string.
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
                let noun = if lines.len() == 1 { "line" } else { "lines" };
                write!(f, "dropped {what} ({noun} {}{})", numbers.join(", "), rest(lines.len()))
            }
            Self::Unreached(names) => write!(f, "dropped unreachable rules: {}", listed(names)),
            Self::IgnoreAsRule => {
                f.write_str("%ignore became a rule, used before, between and after terminals")
            }
            Self::LeftRecursion(names) => write!(f, "replaced left recursion by repetition: {}", listed(names)),
            Self::EmptyRepetition(names) => {
                write!(f, "rewrote repetition of expressions that can be empty: {}", listed(names))
            }
            Self::OverlappingTerminals => f.write_str(
                "terminals overlap and all derivations count; a longest-match lexer may accept fewer texts",
            ),
            Self::Split(texts) => {
                let quoted: Vec<String> = texts.iter().take(MAX_LISTED).map(|text| format!("{:?}", shown(text))).collect();
                let rest = rest(texts.len());
                write!(f, "split strings into characters to avoid longest-match lexing: {}{rest}", quoted.join(", "))
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
                "dropped priorities (line 3)",
            ),
            (
                Note::Dropped {
                    what: Dropped::Alias,
                    lines: (1..=10).collect(),
                },
                "dropped aliases (lines 1, 2, 3, 4, 5, 6, 7, 8 and 2 more)",
            ),
            (
                Note::Unreached(names(9)),
                "dropped unreachable rules: r0, r1, r2, r3, r4, r5, r6, r7 and 1 more",
            ),
            (
                Note::Split(vec!["é".repeat(50)]),
                &format!(
                    "split strings into characters to avoid longest-match lexing: \"{}...\"",
                    "é".repeat(40)
                ),
            ),
        ] {
            assert_eq!(note.to_string(), line);
        }
    }
}
