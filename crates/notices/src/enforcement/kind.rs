//! Kinds of constraints.

use std::fmt;

use serde::{Deserialize, Serialize};

use sobench_core::constraint::Constraint;
use sobench_core::error::{Error, Result};

/// A kind of constraint that preflight tests, with the names of [`Constraint::kind`]: those that
/// constrain the text of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Json,
    JsonObject,
    Regex,
    Choice,
    Grammar,
    StructuralTag,
}

impl Kind {
    /// Every kind, in the order of preflight requests. A plain JSON Schema comes first: the first
    /// constrained request fixes the engine of a vLLM server in `auto`, and every engine supports
    /// JSON Schema.
    pub const ALL: [Self; 6] = [
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
        }
    }

    /// The kind of a constraint; `None` for tools.
    pub fn from_constraint(constraint: &Constraint) -> Option<Self> {
        match constraint {
            Constraint::JsonSchema(_) => Some(Self::Json),
            Constraint::JsonObject(_) => Some(Self::JsonObject),
            Constraint::Regex(_) => Some(Self::Regex),
            Constraint::Choice(_) => Some(Self::Choice),
            Constraint::Grammar { .. } => Some(Self::Grammar),
            Constraint::StructuralTag(_) => Some(Self::StructuralTag),
            Constraint::Tools(_) => None,
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
        assert_eq!(Kind::ALL.map(Kind::name), Constraint::TEXT_KINDS);
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
                .is_some_and(|hint| hint.contains("structural_tag"))
        );
    }
}
