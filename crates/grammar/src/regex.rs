//! Turns the regular expression of a terminal into a part of a grammar. Knows Rust's regex syntax,
//! which llguidance uses; knows nothing of the grammar around it.
//!
//! As in llguidance, an anchor at the very beginning or end says nothing (a terminal is always
//! matched whole), and whether a repetition is lazy does not change the language.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind, Look};

use super::charset::CharSet;
use super::error::{GrammarError, Place};
use super::syntax::Expression;
use super::{ebnf, limits};

/// The language of a pattern. Flags are letters of Rust's syntax (`i`, `m`, `s`, `u`, `x`).
///
/// # Errors
/// A pattern that is not of the syntax; look-around, back-references and anchors inside.
pub(super) fn read(
    pattern: &str,
    flags: &str,
    place: Place<'_>,
) -> Result<Expression, GrammarError> {
    lower(
        &parse(pattern, flags, place)?,
        Edges {
            first: true,
            last: true,
        },
        place,
    )
}

/// What in a pattern says more than which texts it matches whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Oddity {
    /// A repetition that takes as little as it can.
    Lazy,
    /// An anchor or a word boundary, also where [`read`] finds that it says nothing.
    Anchor,
}

/// The first oddity of a pattern, if it has one.
///
/// # Errors
/// A pattern that is not of the syntax.
pub(super) fn oddity(
    pattern: &str,
    flags: &str,
    place: Place<'_>,
) -> Result<Option<Oddity>, GrammarError> {
    let hir = parse(pattern, flags, place)?;
    let mut parts = vec![&hir];
    while let Some(part) = parts.pop() {
        match part.kind() {
            HirKind::Look(_) => return Ok(Some(Oddity::Anchor)),
            HirKind::Repetition(repetition) if !repetition.greedy => return Ok(Some(Oddity::Lazy)),
            kind => parts.extend(kind.subs()),
        }
    }
    Ok(None)
}

fn parse(pattern: &str, flags: &str, place: Place<'_>) -> Result<Hir, GrammarError> {
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
        .map_err(|error| refuse(&error, place))
}

/// Whether a part stands at the beginning and at the end of the pattern.
#[derive(Clone, Copy)]
struct Edges {
    first: bool,
    last: bool,
}

fn lower(hir: &Hir, edges: Edges, place: Place<'_>) -> Result<Expression, GrammarError> {
    Ok(match hir.kind() {
        HirKind::Empty => Expression::empty(),
        HirKind::Literal(literal) => match std::str::from_utf8(&literal.0) {
            Ok(text) => Expression::Text(text.to_owned()),
            Err(_) => return Err(place.unsupported("bytes in a regular expression")),
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
            return Err(place.unsupported("bytes in a regular expression"));
        }
        HirKind::Look(Look::Start) if edges.first => Expression::empty(),
        HirKind::Look(Look::End) if edges.last => Expression::empty(),
        HirKind::Look(_) => {
            return Err(place.unsupported("anchor or word boundary inside a regular expression"));
        }
        HirKind::Repetition(repetition) => {
            let body = lower(
                &repetition.sub,
                Edges {
                    first: false,
                    last: false,
                },
                place,
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
            return Err(place.unsupported("look-ahead (?P<stop>...)"));
        }
        HirKind::Capture(capture) => lower(&capture.sub, edges, place)?,
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
                    place,
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
                .map(|part| lower(part, edges, place))
                .collect::<Result<_, _>>()?,
        ),
    })
}

fn is_look(hir: &Hir, look: Look) -> bool {
    matches!(hir.kind(), HirKind::Look(found) if *found == look)
}

fn refuse(error: &regex_syntax::Error, place: Place<'_>) -> GrammarError {
    use regex_syntax::ast::ErrorKind;
    match error {
        regex_syntax::Error::Parse(error) => match error.kind() {
            ErrorKind::UnsupportedLookAround => {
                place.unsupported("look-around in a regular expression")
            }
            ErrorKind::UnsupportedBackreference => {
                place.unsupported("back-reference in a regular expression")
            }
            ErrorKind::NestLimitExceeded(_) => GrammarError::Limit {
                what: limits::nesting(),
            },
            kind => place.syntax(format!("regular expression: {kind}")),
        },
        regex_syntax::Error::Translate(error) => {
            place.syntax(format!("regular expression: {}", error.kind()))
        }
        _ => place.syntax("regular expression that cannot be read"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::error::tests::end_of;
    use super::*;

    #[test]
    fn the_same_language_has_the_same_shape() {
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
    fn what_cannot_be_decided_is_refused() {
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
