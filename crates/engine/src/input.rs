//! What a library compiles for a constraint.

use serde_json::Value;

use super::error::EngineError;
use sobench_core::constraint::{Constraint, GrammarDialect};

/// The input of a library. Each library reads some of these forms.
#[derive(Clone, Copy)]
pub(crate) enum Input<'a> {
    Schema(&'a Value),
    /// Any JSON object.
    AnyObject,
    Regex(&'a str),
    /// At least one text.
    Choice(&'a [String]),
    Grammar(GrammarDialect, &'a str),
    StructuralTag(&'a Value),
}

impl<'a> Input<'a> {
    /// # Errors
    /// A choice without texts, and tools.
    pub(crate) fn new(constraint: &'a Constraint) -> Result<Self, EngineError> {
        Ok(match constraint {
            Constraint::JsonSchema(schema) => Self::Schema(schema),
            Constraint::JsonObject(_) => Self::AnyObject,
            Constraint::Regex(regex) => Self::Regex(regex),
            Constraint::Choice(choices) if choices.is_empty() => {
                return Err(EngineError::Invalid {
                    message: "choice must name at least one string".into(),
                });
            }
            Constraint::Choice(choices) => Self::Choice(choices),
            Constraint::Grammar { dialect, text } => Self::Grammar(*dialect, text),
            Constraint::StructuralTag(tag) => Self::StructuralTag(tag),
            Constraint::Tools(_) => {
                return Err(EngineError::unsupported(
                    "tools",
                    "engines compile texts; the form of tool calls is up to the server",
                ));
            }
        })
    }
}
