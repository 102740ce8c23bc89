//! Converts the regular expression of a terminal (in Rust's syntax, as in llguidance) to a grammar
//! expression.
//!
//! As in llguidance, an anchor at the very start or end has no effect, because a terminal is always
//! matched completely. Lazy repetition does not change the language.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind, Look};

use super::charset::CharSet;
use super::error::{GrammarError, Position};
use super::syntax::Expression;
use super::{ebnf, limits};

/// Parses a pattern. Flags are letters of Rust's syntax (`i`, `m`, `s`, `u`, `x`).
///
/// # Errors
/// A syntax error; look-around, back-references and inner anchors.
pub(super) fn read(
    pattern: &str,
    flags: &str,
    position: Position<'_>,
) -> Result<Expression, GrammarError> {
    lower(
        &parse(pattern, flags, position)?,
        Edges {
            first: true,
            last: true,
        },
        position,
    )
}

/// A construct that says more than which complete texts match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LexerFeature {
    /// A lazy repetition.
    Lazy,
    /// An anchor or a word boundary, including anchors without effect in [`read`].
    Anchor,
}

/// The first such construct of a pattern.
///
/// # Errors
/// A syntax error.
pub(super) fn lexer_feature(
    pattern: &str,
    flags: &str,
    position: Position<'_>,
) -> Result<Option<LexerFeature>, GrammarError> {
    let hir = parse(pattern, flags, position)?;
    let mut parts = vec![&hir];
    while let Some(part) = parts.pop() {
        match part.kind() {
            HirKind::Look(_) => return Ok(Some(LexerFeature::Anchor)),
            HirKind::Repetition(repetition) if !repetition.greedy => {
                return Ok(Some(LexerFeature::Lazy));
            }
            kind => parts.extend(kind.subs()),
        }
    }
    Ok(None)
}

fn parse(pattern: &str, flags: &str, position: Position<'_>) -> Result<Hir, GrammarError> {
    let flagged = if flags.is_empty() {
        pattern.to_owned()
    } else {
        format!("(?{flags}){pattern}")
    };
    let nest_limit = u32::try_from(limits::MAX_NESTING).expect("a nesting limit is small");
    ParserBuilder::new()
        .nest_limit(nest_limit)
        .build()
        .parse(&flagged)
        .map_err(|error| refuse(&error, position))
}

/// Whether a part is at the start and at the end of the pattern.
#[derive(Clone, Copy)]
struct Edges {
    first: bool,
    last: bool,
}

fn lower(hir: &Hir, edges: Edges, position: Position<'_>) -> Result<Expression, GrammarError> {
    Ok(match hir.kind() {
        HirKind::Empty => Expression::empty(),
        HirKind::Literal(literal) => match std::str::from_utf8(&literal.0) {
            Ok(text) => Expression::Text(text.to_owned()),
            Err(_) => return Err(position.unsupported("bytes in a regular expression")),
        },
        HirKind::Class(Class::Unicode(class)) => Expression::Class(CharSet::new(
            class
                .ranges()
                .iter()
                .map(|range| (u32::from(range.start()), u32::from(range.end()))),
        )),
        HirKind::Class(Class::Bytes(class)) if class.is_ascii() => Expression::Class(CharSet::new(
            class
                .ranges()
                .iter()
                .map(|range| (u32::from(range.start()), u32::from(range.end()))),
        )),
        HirKind::Class(Class::Bytes(_)) => {
            return Err(position.unsupported("bytes in a regular expression"));
        }
        HirKind::Look(Look::Start) if edges.first => Expression::empty(),
        HirKind::Look(Look::End) if edges.last => Expression::empty(),
        HirKind::Look(_) => {
            return Err(position.unsupported("anchor or word boundary inside a regular expression"));
        }
        HirKind::Repetition(repetition) => {
            let body = lower(
                &repetition.sub,
                Edges {
                    first: false,
                    last: false,
                },
                position,
            )?;
            let times = |count: u32| {
                if count <= limits::MAX_REPETITIONS {
                    Ok(count)
                } else {
                    ebnf::times(&count.to_string())
                }
            };
            body.repeat(
                times(repetition.min)?,
                repetition.max.map(times).transpose()?,
            )
        }
        HirKind::Capture(capture) if capture.name.as_deref() == Some("stop") => {
            return Err(position.unsupported("look-ahead (?P<stop>...)"));
        }
        HirKind::Capture(capture) => lower(&capture.sub, edges, position)?,
        HirKind::Concat(parts) => {
            let first = parts
                .iter()
                .position(|part| !is_look(part, Look::Start))
                .unwrap_or(parts.len());
            let last = parts
                .iter()
                .rposition(|part| !is_look(part, Look::End))
                .unwrap_or(0);
            let mut lowered = Vec::with_capacity(parts.len());
            for (index, part) in parts.iter().enumerate() {
                let part = lower(
                    part,
                    Edges {
                        first: edges.first && index <= first,
                        last: edges.last && index >= last,
                    },
                    position,
                )?;
                if part != Expression::empty() {
                    lowered.push(part);
                }
            }
            Expression::sequence(lowered)
        }
        HirKind::Alternation(parts) => Expression::Choice(
            parts
                .iter()
                .map(|part| lower(part, edges, position))
                .collect::<Result<_, _>>()?,
        ),
    })
}

fn is_look(hir: &Hir, look: Look) -> bool {
    matches!(hir.kind(), HirKind::Look(found) if *found == look)
}

fn refuse(error: &regex_syntax::Error, position: Position<'_>) -> GrammarError {
    use regex_syntax::ast::ErrorKind;
    match error {
        regex_syntax::Error::Parse(error) => match error.kind() {
            ErrorKind::UnsupportedLookAround => {
                position.unsupported("look-around in a regular expression")
            }
            ErrorKind::UnsupportedBackreference => {
                position.unsupported("back-reference in a regular expression")
            }
            ErrorKind::NestLimitExceeded(_) => GrammarError::Limit {
                what: limits::nesting(),
            },
            kind => position.syntax(format!("regular expression: {kind}")),
        },
        regex_syntax::Error::Translate(error) => {
            position.syntax(format!("regular expression: {}", error.kind()))
        }
        _ => position.syntax("invalid regular expression"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::error::tests::end_of;
    use super::*;

    #[test]
    fn equivalent_patterns_have_the_same_expression() {
        for (pattern, flags, same) in [
            ("^abc$", "", "abc"),
            ("(^a|^bc)$", "", "a|bc"),
            ("(?:a(?<x>b))", "", "a(b)"),
            (r"\/", "", "/"),
            ("a", "i", "[aA]"),
            (".", "s", r"[\s\S]"),
            ("a b # c", "x", "ab"),
        ] {
            assert_eq!(
                read(pattern, flags, end_of("\n\n\n ")),
                read(same, "", end_of("\n\n\n ")),
                "{pattern}"
            );
        }
    }

    #[test]
    fn unsupported_constructs_are_refused() {
        for (pattern, message) in [
            (
                "a(?=b)",
                "unsupported in a grammar: look-around in a regular expression (line 4)",
            ),
            (
                r"(a)\1",
                "unsupported in a grammar: back-reference in a regular expression (line 4)",
            ),
            (
                "a^b",
                "unsupported in a grammar: anchor or word boundary inside a regular expression (line 4)",
            ),
            (
                r"\bx",
                "unsupported in a grammar: anchor or word boundary inside a regular expression (line 4)",
            ),
            (
                "(?P<stop>x)",
                "unsupported in a grammar: look-ahead (?P<stop>...) (line 4)",
            ),
            (
                "a{99999999}",
                "grammar beyond the limit: repetitions: 16777216",
            ),
            (
                "(",
                "grammar syntax at line 4, column 2: regular expression: unclosed group",
            ),
            (
                "[z-a]",
                "grammar syntax at line 4, column 2: regular expression: invalid character class range, the start must be <= the end",
            ),
        ] {
            assert_eq!(
                read(pattern, "", end_of("\n\n\n "))
                    .unwrap_err()
                    .to_string(),
                message,
                "{pattern}"
            );
        }
        let deep = "(".repeat(5_000) + &")".repeat(5_000);
        assert_eq!(
            read(&deep, "", end_of("\n\n\n ")).unwrap_err().to_string(),
            "grammar beyond the limit: nested groups: 128"
        );
    }
}
