//! Notes on the constructs of a Lark grammar that a conversion drops, and refusal of those that it
//! must not drop.

use pest::iterators::Pair;

use super::super::error::{GrammarError, Position};
use super::super::lark::{Rule, parse};
use super::super::regex::{self, LexerFeature};
use super::note::{Dropped, Note};

/// Notes on dropped constructs.
///
/// # Errors
/// A lazy or anchored regular expression. Membership ignores both, but a context-free grammar
/// cannot express the author's intent: a lazy `/\/\*.*?\*\//` ends at the first `*/`.
pub(super) fn notes_of(text: &str) -> Result<Vec<Note>, GrammarError> {
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
                refuse_lexer_features(&pair)?;
                continue;
            }
            _ => continue,
        };
        if let Some((_, lines)) = found.iter_mut().find(|(known, _)| *known == what) {
            lines.push(line);
        }
    }
    let notes = found.into_iter().filter(|(_, lines)| !lines.is_empty());
    Ok(notes
        .map(|(what, lines)| Note::Dropped { what, lines })
        .collect())
}

fn refuse_lexer_features(pattern: &Pair<'_, Rule>) -> Result<(), GrammarError> {
    let position = Position::start_of(pattern);
    let (inner, flags) = pattern.as_str()[1..]
        .rsplit_once('/')
        .expect("a pattern ends with a slash");
    match regex::lexer_feature(inner, flags, position)? {
        None => Ok(()),
        Some(LexerFeature::Lazy) => {
            Err(position.unsupported("lazy repetition in a regular expression"))
        }
        Some(LexerFeature::Anchor) => {
            Err(position.unsupported("anchor or word boundary in a regular expression"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_constructs_are_noted_with_their_lines() {
        let text = "?start: a -> one\n  | B -> two\n!a[capture]: \"x\"\nB.2: \"y\"";
        let lines = notes_of(text)
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("; ");
        assert_eq!(
            lines,
            "dropped aliases (lines 1, 2); dropped the prefixes ? and ! (lines 1, 3); dropped priorities (line 4); dropped captures (line 3)"
        );
        assert_eq!(notes_of("start: \"a\" /b+/i").unwrap(), []);
    }

    #[test]
    fn lazy_and_anchored_patterns_are_refused() {
        for (pattern, construct) in [
            ("a.*?b", "lazy repetition"),
            ("(?U)a+", "lazy repetition"),
            ("(x(a??))+", "lazy repetition"),
            ("^a", "anchor or word boundary"),
            ("(a|b$)", "anchor or word boundary"),
            (r"\bword", "anchor or word boundary"),
        ] {
            let error = notes_of(&format!("start: X\nX: /{pattern}/"))
                .unwrap_err()
                .to_string();
            assert_eq!(
                error,
                format!("unsupported in a grammar: {construct} in a regular expression (line 2)")
            );
        }
    }
}
