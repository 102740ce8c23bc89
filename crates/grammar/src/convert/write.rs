//! Output buffer, names and binding levels for the writers.

use std::collections::HashMap;

use super::super::error::GrammarError;
use super::super::limits;

/// How tightly the context binds the expression that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// Alternatives are allowed.
    Choice,
    /// Inside a choice: a sequence is allowed.
    Sequence,
    /// Inside a sequence: a sequence, or an element with its quantifier.
    Element,
    /// Before a quantifier: only an atom.
    Atom,
}

/// The output text.
#[derive(Debug, Default)]
pub(super) struct Output {
    pub(super) text: String,
}

impl Output {
    /// Appends text.
    ///
    /// # Errors
    /// The output exceeds the size limit of input grammars.
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

/// Maps source rule names to result rule names.
#[derive(Debug, Default)]
pub(super) struct RuleNames(pub(super) HashMap<String, String>);

impl RuleNames {
    /// The name in the result.
    ///
    /// # Errors
    /// An undefined name, which [`super::plain`] should have reported.
    pub(super) fn get(&self, source: &str) -> Result<&str, GrammarError> {
        self.0
            .get(source)
            .map(String::as_str)
            .ok_or_else(|| GrammarError::UndefinedRule {
                name: source.to_owned(),
            })
    }
}
