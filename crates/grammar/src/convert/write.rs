//! What both writers write with: bounded text, names, how closely things bind. Knows no notation.

use std::collections::HashMap;

use super::super::error::GrammarError;
use super::super::limits;

/// How closely what is being written is bound by what stands around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// Alternatives may stand here.
    Choice,
    /// An alternative: a sequence may stand here.
    Sequence,
    /// Part of a sequence: a sequence again, or an element with its quantifier.
    Element,
    /// Only what a quantifier can follow may.
    Atom,
}

/// The text so far.
#[derive(Debug, Default)]
pub(super) struct Output {
    pub(super) text: String,
}

impl Output {
    /// Adds to the text.
    ///
    /// # Errors
    /// More text than is read from a grammar of the user's own.
    pub(super) fn push(&mut self, text: &str) -> Result<(), GrammarError> {
        if self.text.len() + text.len() > limits::MAX_GRAMMAR_BYTES {
            return Err(GrammarError::Limit {
                what: format!(
                    "bytes of the converted grammar: {}",
                    limits::MAX_GRAMMAR_BYTES
                ),
            });
        }
        self.text.push_str(text);
        Ok(())
    }
}

/// The name in the result of each rule of the source.
#[derive(Debug, Default)]
pub(super) struct NameOf(pub(super) HashMap<String, String>);

impl NameOf {
    /// The name in the result.
    ///
    /// # Errors
    /// A name that no rule has, which [`super::plain`] finds before.
    pub(super) fn get(&self, source: &str) -> Result<&str, GrammarError> {
        self.0
            .get(source)
            .map(String::as_str)
            .ok_or_else(|| GrammarError::UndefinedRule {
                name: source.to_owned(),
            })
    }
}
