//! Why a grammar cannot be used. Knows neither the dialects nor who asks.

use std::fmt::Display;

use pest::iterators::Pair;

use super::limits;

/// Why a grammar text cannot be turned into a recogniser.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrammarError {
    /// Not a text of the dialect; both counted from 1, the column in characters.
    #[error("grammar syntax at line {line}, column {column}: {message}")]
    Syntax {
        line: usize,
        column: usize,
        message: String,
    },
    /// A rule is used and nowhere defined.
    #[error("undefined rule in the grammar: {name}")]
    UndefinedRule { name: String },
    /// There is no rule to start from: `start` in Lark, `root` in EBNF.
    #[error("no start rule in the grammar")]
    NoStartRule,
    /// Part of the dialect, but not something that membership in a context-free language can
    /// decide, or not read by us.
    #[error("unsupported in a grammar: {construct}")]
    Unsupported { construct: String },
    /// Larger than a named limit.
    #[error("grammar beyond the limit: {what}")]
    Limit { what: String },
}

/// A place in a grammar text. Line and column are counted only once somebody has to be told:
/// counting costs the length of the line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'t> {
    text: &'t str,
    /// In bytes.
    offset: usize,
}

impl<'t> Place<'t> {
    /// Where a pair begins.
    pub(super) fn of<R: pest::RuleType>(pair: &Pair<'t, R>) -> Self {
        Self {
            text: pair.get_input(),
            offset: pair.as_span().start(),
        }
    }

    /// What stands before it on its line.
    pub(super) fn line_so_far(self) -> &'t str {
        let before = &self.text[..self.offset];
        &before[before.rfind(['\n', '\r']).map_or(0, |end| end + 1)..]
    }

    /// A syntax error here.
    pub(super) fn syntax(self, message: impl Into<String>) -> GrammarError {
        GrammarError::Syntax {
            line: self.line(),
            column: self.line_so_far().chars().count() + 1,
            message: message.into(),
        }
    }

    /// A construct here that we do not decide.
    pub(super) fn unsupported(self, construct: impl Display) -> GrammarError {
        GrammarError::Unsupported {
            construct: format!("{construct} (line {})", self.line()),
        }
    }

    fn line(self) -> usize {
        self.text[..self.offset].matches('\n').count() + 1
    }
}

/// Turns pest's error into ours: its two limits are limits, everything else is syntax at its place.
pub(super) fn from_pest<R: pest::RuleType>(
    error: &pest::error::Error<R>,
    name: impl Fn(&R) -> String,
) -> GrammarError {
    let (line, column) = match error.line_col {
        pest::error::LineColLocation::Pos(place) | pest::error::LineColLocation::Span(place, _) => {
            place
        }
    };
    let message = match &error.variant {
        pest::error::ErrorVariant::CustomError { message } if message == STACK_LIMIT => {
            return GrammarError::Limit {
                what: limits::nesting(),
            };
        }
        pest::error::ErrorVariant::CustomError { message } if message == CALL_LIMIT => {
            return GrammarError::Limit {
                what: format!("calls of the grammar reader: {}", limits::MAX_PEST_CALLS),
            };
        }
        pest::error::ErrorVariant::CustomError { message } => message.clone(),
        pest::error::ErrorVariant::ParsingError { positives, .. } if !positives.is_empty() => {
            let names: Vec<String> = positives.iter().map(name).collect();
            format!("expected {}", names.join(" or "))
        }
        pest::error::ErrorVariant::ParsingError { .. } => "unexpected text".to_owned(),
    };
    GrammarError::Syntax {
        line,
        column,
        message,
    }
}

/// pest's message for a parse that ran out of native stack.
pub(super) const STACK_LIMIT: &str = "stack limit reached";
/// pest's message for a parse that used up its calls.
pub(super) const CALL_LIMIT: &str = "call limit reached";

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The end of a text.
    pub(in super::super) fn end_of(text: &str) -> Place<'_> {
        Place {
            text,
            offset: text.len(),
        }
    }

    #[test]
    fn every_kind_is_one_line_with_the_offending_value_last() {
        for (error, line) in [
            (
                end_of("root\né ::= ").syntax("expected name"),
                "grammar syntax at line 2, column 7: expected name",
            ),
            (
                GrammarError::UndefinedRule {
                    name: "item".into(),
                },
                "undefined rule in the grammar: item",
            ),
            (GrammarError::NoStartRule, "no start rule in the grammar"),
            (
                end_of("\n\n").unsupported("%json"),
                "unsupported in a grammar: %json (line 3)",
            ),
            (
                GrammarError::Limit {
                    what: "symbols: 9".into(),
                },
                "grammar beyond the limit: symbols: 9",
            ),
        ] {
            assert_eq!(error.to_string(), line);
        }
    }
}
