//! Syntax tree of a grammar, independent of its notation.

use super::charset::CharSet;
use super::error::Position;

/// A parsed grammar.
#[derive(Debug)]
pub(super) struct Grammar<'t> {
    /// The rules in order, with unique names.
    pub(super) rules: Vec<Rule<'t>>,
    /// The name of the rule to start from.
    pub(super) start: &'static str,
    /// Text that is allowed before, after and between terminals (Lark's `%ignore`).
    pub(super) ignored: Vec<Expression>,
}

/// A rule or terminal.
#[derive(Debug)]
pub(super) struct Rule<'t> {
    pub(super) name: String,
    pub(super) kind: RuleKind,
    pub(super) body: Expression,
    pub(super) position: Position<'t>,
}

/// Whether ignored text is allowed inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RuleKind {
    /// Ignored text is allowed between the terminals of a rule.
    Rule,
    /// No ignored text inside a terminal.
    Terminal,
}

/// The right-hand side of a rule, or a part of one.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expression {
    /// Exactly this text.
    Text(String),
    /// One scalar of the set.
    Class(CharSet),
    /// Concatenation; empty for the empty text.
    Sequence(Vec<Expression>),
    /// Alternatives.
    Choice(Vec<Expression>),
    /// Repetition, from `least` to `most` times.
    Repeat {
        body: Box<Expression>,
        least: u32,
        most: Option<u32>,
    },
    /// An anonymous terminal: no ignored text inside.
    Terminal(Box<Expression>),
    /// A reference to a rule.
    Reference(String),
}

impl Expression {
    /// The empty text.
    pub(super) fn empty() -> Self {
        Self::Sequence(Vec::new())
    }

    /// A concatenation, unwrapped if it has a single part.
    pub(super) fn sequence(mut parts: Vec<Self>) -> Self {
        if parts.len() == 1 {
            parts.swap_remove(0)
        } else {
            Self::Sequence(parts)
        }
    }

    /// A choice, unwrapped if it has a single alternative.
    pub(super) fn choice(mut parts: Vec<Self>) -> Self {
        if parts.len() == 1 {
            parts.swap_remove(0)
        } else {
            Self::Choice(parts)
        }
    }

    /// Repeats this from `least` to `most` times.
    pub(super) fn repeat(self, least: u32, most: Option<u32>) -> Self {
        Self::Repeat {
            body: Box::new(self),
            least,
            most,
        }
    }
}
