//! Kinds of constraints.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use sobench_core::constraint::Constraint;
use sobench_core::error::{Error, Result};

/// What preflight tests: kinds of constraints on the text of an answer, with the names of
/// [`Constraint::kind`]; tool calls; and where the constraint begins after reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Json,
    JsonObject,
    Regex,
    Choice,
    Grammar,
    StructuralTag,
    /// Calls of tools.
    Tool,
    /// The boundary between reasoning and the constrained answer.
    Reasoning,
}

impl Kind {
    /// Every kind, in the order of preflight requests. A plain JSON Schema comes first: the first
    /// constrained request fixes the engine of a vLLM server in `auto`, and every engine supports
    /// JSON Schema.
    pub const ALL: [Self; 8] = [
        Self::Json,
        Self::JsonObject,
        Self::Regex,
        Self::Choice,
        Self::Grammar,
        Self::StructuralTag,
        Self::Tool,
        Self::Reasoning,
    ];

    /// The kinds of constraints on the text of an answer, which a dialect carries.
    pub const OF_TEXT: [Self; 6] = [
        Self::Json,
        Self::JsonObject,
        Self::Regex,
        Self::Choice,
        Self::Grammar,
        Self::StructuralTag,
    ];

    /// The default kinds of a preflight. Few engines support structural tags, so they are not among
    /// them.
    pub const USUAL: [Self; 5] = [
        Self::Json,
        Self::JsonObject,
        Self::Regex,
        Self::Choice,
        Self::Grammar,
    ];

    /// The name in flags, files and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::JsonObject => "json_object",
            Self::Regex => "regex",
            Self::Choice => "choice",
            Self::Grammar => "grammar",
            Self::StructuralTag => "structural_tag",
            Self::Tool => "tool",
            Self::Reasoning => "reasoning",
        }
    }

    /// Whether it constrains the text of an answer.
    pub fn is_of_text(self) -> bool {
        Self::OF_TEXT.contains(&self)
    }

    /// The kind of a constraint.
    pub fn from_constraint(constraint: &Constraint) -> Self {
        match constraint {
            Constraint::JsonSchema(_) => Self::Json,
            Constraint::JsonObject(_) => Self::JsonObject,
            Constraint::Regex(_) => Self::Regex,
            Constraint::Choice(_) => Self::Choice,
            Constraint::Grammar { .. } => Self::Grammar,
            Constraint::StructuralTag(_) => Self::StructuralTag,
            Constraint::Tools(_) => Self::Tool,
        }
    }

    /// Parses a name.
    ///
    /// # Errors
    /// A usage error that lists the names.
    pub fn parse(name: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| {
                let names = Self::ALL.map(Self::name).join(", ");
                Error::usage(format!("unknown constraint kind: {name}"))
                    .hint(format!("use one of {names}"))
            })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_constraint_kinds_and_parse() {
        assert_eq!(Kind::OF_TEXT.map(Kind::name), Constraint::TEXT_KINDS);
        for kind in Kind::ALL {
            assert_eq!(Kind::parse(kind.name()).unwrap(), kind);
        }
        let error = Kind::parse("xml").unwrap_err();
        assert_eq!(
            (error.what.as_str(), error.exit_code()),
            ("unknown constraint kind: xml", 2)
        );
        assert!(
            error
                .hint
                .is_some_and(|hint| hint.contains("structural_tag, tool, reasoning"))
        );
    }
}
