//! What a grammar says, whatever dialect it was written in. Knows neither the dialects' spelling
//! nor recognition.

use super::charset::CharSet;
use super::error::Place;

/// A grammar as its author wrote it.
#[derive(Debug)]
pub(super) struct Grammar<'t> {
    /// The rules, in order; no two have the same name.
    pub(super) rules: Vec<Rule<'t>>,
    /// The name of the rule to start from.
    pub(super) start: &'static str,
    /// What may stand before, after and between terminals (Lark's `%ignore`).
    pub(super) ignored: Vec<Expression>,
}

/// A named part of a grammar.
#[derive(Debug)]
pub(super) struct Rule<'t> {
    pub(super) name: String,
    pub(super) kind: RuleKind,
    pub(super) body: Expression,
    pub(super) place: Place<'t>,
}

/// Whether ignored text may stand inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RuleKind {
    /// A rule: ignored text may stand between its terminals.
    Rule,
    /// A terminal: nothing is ignored inside.
    Terminal,
}

/// The right-hand side of a rule, or a part of one.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expression {
    /// Exactly this text.
    Text(String),
    /// One scalar of the set.
    Class(CharSet),
    /// One after the other; of nothing, the empty text.
    Sequence(Vec<Expression>),
    /// Any one of them.
    Choice(Vec<Expression>),
    /// At least `least` and at most `most` times.
    Repeat {
        body: Box<Expression>,
        least: u32,
        most: Option<u32>,
    },
    /// A terminal without a name: nothing is ignored inside.
    Terminal(Box<Expression>),
    /// What the rule of this name says.
    Reference(String),
}

impl Expression {
    /// The empty text.
    pub(super) fn empty() -> Self {
        Self::Sequence(Vec::new())
    }

    /// One after the other, without a wrapper around a single one.
    pub(super) fn sequence(mut parts: Vec<Self>) -> Self {
        if parts.len() == 1 {
            parts.swap_remove(0)
        } else {
            Self::Sequence(parts)
        }
    }

    /// Any one of them, without a wrapper around a single one.
    pub(super) fn choice(mut parts: Vec<Self>) -> Self {
        if parts.len() == 1 {
            parts.swap_remove(0)
        } else {
            Self::Choice(parts)
        }
    }

    /// This, at least `least` and at most `most` times.
    pub(super) fn repeat(self, least: u32, most: Option<u32>) -> Self {
        Self::Repeat {
            body: Box::new(self),
            least,
            most,
        }
    }
}
