//! Errors of parsing and converting grammars.

use std::fmt::Display;

use pest::iterators::Pair;

use super::limits;

/// Error of compiling or converting a grammar.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrammarError {
    /// Syntax error; line and column count from 1, the column in characters.
    #[error("grammar syntax at line {line}, column {column}: {message}")]
    Syntax {
        line: usize,
        column: usize,
        message: String,
    },
    /// A rule is used but not defined.
    #[error("undefined rule in the grammar: {name}")]
    UndefinedRule { name: String },
    /// No start rule: `start` in Lark, `root` in EBNF.
    #[error("no start rule in the grammar")]
    NoStartRule,
    /// A construct of the notation that is not context-free membership or is not supported.
    #[error("unsupported in a grammar: {construct}")]
    Unsupported { construct: String },
    /// A named limit is exceeded.
    #[error("grammar beyond the limit: {what}")]
    Limit { what: String },
}

/// A position in a grammar. Line and column are computed only for errors, because counting costs
/// the length of the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position<'t> {
    text: &'t str,
    /// In bytes.
    offset: usize,
}

impl<'t> Position<'t> {
    /// The start of a pair.
    pub(super) fn start_of<R: pest::RuleType>(pair: &Pair<'t, R>) -> Self {
        Self {
            text: pair.get_input(),
            offset: pair.as_span().start(),
        }
    }

    /// The text before it on its line.
    pub(super) fn line_so_far(self) -> &'t str {
        let before = &self.text[..self.offset];
        &before[before.rfind(['\n', '\r']).map_or(0, |end| end + 1)..]
    }

    /// A syntax error at this position.
    pub(super) fn syntax(self, message: impl Into<String>) -> GrammarError {
        GrammarError::Syntax {
            line: self.line(),
            column: self.line_so_far().chars().count() + 1,
            message: message.into(),
        }
    }

    /// An unsupported construct at this position.
    pub(super) fn unsupported(self, construct: impl Display) -> GrammarError {
        GrammarError::Unsupported {
            construct: format!("{construct} (line {})", self.line()),
        }
    }

    fn line(self) -> usize {
        self.text[..self.offset].matches('\n').count() + 1
    }
}

/// Converts a pest error: its two limits become [`GrammarError::Limit`], other errors syntax
/// errors.
pub(super) fn from_pest<R: pest::RuleType>(
    error: &pest::error::Error<R>,
    name: impl Fn(&R) -> String,
) -> GrammarError {
    let (line, column) = match error.line_col {
        pest::error::LineColLocation::Pos(position)
        | pest::error::LineColLocation::Span(position, _) => position,
    };
    let message = match &error.variant {
        pest::error::ErrorVariant::CustomError { message } if message == STACK_LIMIT => {
            return GrammarError::Limit {
                what: limits::nesting(),
            };
        }
        pest::error::ErrorVariant::CustomError { message } if message == CALL_LIMIT => {
            return GrammarError::Limit {
                what: format!("calls of the grammar parser: {}", limits::MAX_PEST_CALLS),
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

/// pest's message for an exhausted native stack.
pub(super) const STACK_LIMIT: &str = "stack limit reached";
/// pest's message for exhausted calls.
pub(super) const CALL_LIMIT: &str = "call limit reached";

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The end of a text.
    pub(in super::super) fn end_of(text: &str) -> Position<'_> {
        Position {
            text,
            offset: text.len(),
        }
    }

    #[test]
    fn errors_are_one_line_with_the_offending_value_last() {
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
