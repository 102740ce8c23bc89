//! What a Lark text says beside its language: what may be left out, and what must not be. Knows
//! Lark's notation.

use pest::iterators::Pair;

use super::super::error::{GrammarError, Place};
use super::super::lark::{Rule, parse};
use super::super::regex::{self, Oddity};
use super::note::{Dropped, Note};

/// Notes on what a conversion leaves out.
///
/// # Errors
/// A regular expression that is lazy or anchored. Membership does not tell such a pattern from one
/// that is not, but its author meant something by it that a context-free grammar cannot say: a lazy
/// `/\/\*.*?\*\//` ends at the first `*/`.
pub(super) fn of(text: &str) -> Result<Vec<Note>, GrammarError> {
    let mut found = [
        Dropped::Alias,
        Dropped::Modifier,
        Dropped::Priority,
        Dropped::Capture,
    ]
    .map(|what| (what, Vec::new()));
    let (mut offset, mut line) = (0, 1);
    for pair in parse(text)?.flatten() {
        let start = pair.as_span().start();
        line += text[offset..start].matches('\n').count();
        offset = start;
        let what = match pair.as_rule() {
            Rule::alias => Dropped::Alias,
            Rule::modifiers => Dropped::Modifier,
            Rule::priority => Dropped::Priority,
            Rule::attributes => Dropped::Capture,
            Rule::pattern => {
                refuse_odd(&pair)?;
                continue;
            }
            _ => continue,
        };
        if let Some((_, lines)) = found.iter_mut().find(|(known, _)| *known == what) {
            lines.push(line);
        }
    }
    let noted = found.into_iter().filter(|(_, lines)| !lines.is_empty());
    Ok(noted
        .map(|(what, lines)| Note::Dropped { what, lines })
        .collect())
}

fn refuse_odd(pattern: &Pair<'_, Rule>) -> Result<(), GrammarError> {
    let place = Place::of(pattern);
    let (inner, flags) = pattern.as_str()[1..]
        .rsplit_once('/')
        .expect("a pattern ends with a slash");
    match regex::oddity(inner, flags, place)? {
        None => Ok(()),
        Some(Oddity::Lazy) => Err(place.unsupported("lazy repetition in a regular expression")),
        Some(Oddity::Anchor) => {
            Err(place.unsupported("anchor or word boundary in a regular expression"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_shapes_trees_is_noted_with_its_lines() {
        let text = "?start: a -> one\n  | B -> two\n!a[capture]: \"x\"\nB.2: \"y\"";
        let lines = of(text)
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("; ");
        assert_eq!(
            lines,
            "left out aliases (lines 1, 2); left out the prefixes ? and ! (lines 1, 3); left out priorities (line 4); left out captures (line 3)"
        );
        assert_eq!(of("start: \"a\" /b+/i").unwrap(), []);
    }

    #[test]
    fn patterns_that_mean_more_than_a_set_of_texts_are_refused() {
        for (pattern, construct) in [
            ("a.*?b", "lazy repetition"),
            ("(?U)a+", "lazy repetition"),
            ("(x(a??))+", "lazy repetition"),
            ("^a", "anchor or word boundary"),
            ("(a|b$)", "anchor or word boundary"),
            (r"\bword", "anchor or word boundary"),
        ] {
            let said = of(&format!("start: X\nX: /{pattern}/"))
                .unwrap_err()
                .to_string();
            assert_eq!(
                said,
                format!("unsupported in a grammar: {construct} in a regular expression (line 2)")
            );
        }
    }
}
