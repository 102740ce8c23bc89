//! Why a grammar cannot be used. Knows neither the dialects nor who asks.

use std::fmt::Display;

use super::limits;

/// Why a grammar text cannot be turned into a recogniser.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrammarError {
    /// Not a text of the dialect; both counted from 1, the column in characters.
    #[error("grammar syntax at line {line}, column {column}: {message}")]
    Syntax { line: usize, column: usize, message: String },
    /// A rule is used and nowhere defined.
    #[error("undefined rule in the grammar: {name}")]
    UndefinedRule { name: String },
    /// There is no rule to start from: `start` in Lark, `root` in EBNF.
    #[error("no start rule in the grammar")]
    NoStartRule,
    /// Part of the dialect, but not something that membership in a context-free language can decide, or not read by us.
    #[error("unsupported in a grammar: {construct}")]
    Unsupported { construct: String },
    /// Larger than a named limit.
    #[error("grammar beyond the limit: {what}")]
    Limit { what: String },
}

/// A place in a grammar text; both counted from 1, the column in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl From<(usize, usize)> for Place {
    fn from((line, column): (usize, usize)) -> Self {
        Self { line, column }
    }
}

impl Place {
    /// A syntax error here.
    pub(super) fn syntax(self, message: impl Into<String>) -> GrammarError {
        GrammarError::Syntax { line: self.line, column: self.column, message: message.into() }
    }

    /// A construct here that we do not decide.
    pub(super) fn unsupported(self, construct: impl Display) -> GrammarError {
        GrammarError::Unsupported { construct: format!("{construct} (line {})", self.line) }
    }
}

/// Turns pest's error into ours: its two limits are limits, everything else is syntax at its place.
pub(super) fn from_pest<R: pest::RuleType>(error: &pest::error::Error<R>, name: impl Fn(&R) -> String) -> GrammarError {
    let (line, column) = match error.line_col {
        pest::error::LineColLocation::Pos(place) | pest::error::LineColLocation::Span(place, _) => place,
    };
    let message = match &error.variant {
        pest::error::ErrorVariant::CustomError { message } if message == STACK_LIMIT => {
            return GrammarError::Limit { what: limits::nesting() };
        }
        pest::error::ErrorVariant::CustomError { message } if message == CALL_LIMIT => {
            return GrammarError::Limit { what: format!("calls of the grammar reader: {}", limits::MAX_PEST_CALLS) };
        }
        pest::error::ErrorVariant::CustomError { message } => message.clone(),
        pest::error::ErrorVariant::ParsingError { positives, .. } if !positives.is_empty() => {
            let names: Vec<String> = positives.iter().map(name).collect();
            format!("expected {}", names.join(" or "))
        }
        pest::error::ErrorVariant::ParsingError { .. } => "unexpected text".to_owned(),
    };
    Place { line, column }.syntax(message)
}

/// pest's message for a parse that ran out of native stack.
pub(super) const STACK_LIMIT: &str = "stack limit reached";
/// pest's message for a parse that used up its calls.
pub(super) const CALL_LIMIT: &str = "call limit reached";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_one_line_with_the_offending_value_last() {
        for (error, line) in [
            (Place { line: 2, column: 7 }.syntax("expected name"), "grammar syntax at line 2, column 7: expected name"),
            (GrammarError::UndefinedRule { name: "item".into() }, "undefined rule in the grammar: item"),
            (GrammarError::NoStartRule, "no start rule in the grammar"),
            (Place { line: 3, column: 1 }.unsupported("%json"), "unsupported in a grammar: %json (line 3)"),
            (GrammarError::Limit { what: "symbols: 9".into() }, "grammar beyond the limit: symbols: 9"),
        ] {
            assert_eq!(error.to_string(), line);
        }
    }
}
