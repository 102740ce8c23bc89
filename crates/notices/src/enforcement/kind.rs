//! Kinds of constraints.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use sobench_core::constraint::{Constraint, ConstraintKind};
use sobench_core::error::{Error, Result};

/// What preflight tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
pub enum ProbeKind {
    /// Constraints of this kind on the text of an answer, which a dialect carries.
    Text(ConstraintKind),
    /// Calls of tools.
    Tool,
    /// The boundary between reasoning and the constrained answer.
    Reasoning,
    /// Requests that must fail, and prompts that must count.
    Wire,
}

impl ProbeKind {
    /// Constraints that are JSON Schemas.
    pub const JSON_SCHEMA: Self = Self::Text(ConstraintKind::JsonSchema);
    /// Constraints that are grammars, in one of two notations.
    pub const GRAMMAR: Self = Self::Text(ConstraintKind::Grammar);

    /// Every kind, in the order of preflight requests. A plain JSON Schema comes first: the first
    /// constrained request fixes the engine of a vLLM server in `auto`, and every engine supports
    /// JSON Schema.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::of_text().chain([Self::Tool, Self::Reasoning, Self::Wire])
    }

    /// The kinds of constraints on the text of an answer.
    pub fn of_text() -> impl Iterator<Item = Self> {
        ConstraintKind::of_text().map(Self::Text)
    }

    /// The name in flags, files and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text(kind) => kind.name(),
            Self::Tool => "tool",
            Self::Reasoning => "reasoning",
            Self::Wire => "wire",
        }
    }

    /// Whether it constrains the text of an answer.
    pub fn is_of_text(self) -> bool {
        matches!(self, Self::Text(_))
    }

    /// The kind of a constraint.
    pub fn from_constraint(constraint: &Constraint) -> Self {
        let kind = ConstraintKind::from_constraint(constraint);
        if kind.is_of_text() {
            Self::Text(kind)
        } else {
            Self::Tool
        }
    }

    /// Parses a name.
    ///
    /// # Errors
    /// A usage error that lists the names.
    pub fn parse(name: &str) -> Result<Self> {
        Self::all().find(|kind| kind.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Self::all().map(Self::name).collect();
            Error::usage(format!("unknown constraint kind: {name}"))
                .hint(format!("use one of {}", names.join(", ")))
        })
    }
}

impl fmt::Display for ProbeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<ProbeKind> for &'static str {
    fn from(kind: ProbeKind) -> Self {
        kind.name()
    }
}

impl TryFrom<String> for ProbeKind {
    type Error = String;

    fn try_from(name: String) -> std::result::Result<Self, String> {
        Self::parse(&name).map_err(|error| error.what)
    }
}

impl JsonSchema for ProbeKind {
    fn schema_name() -> Cow<'static, str> {
        "Kind".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "enum": Self::all().map(Self::name).collect::<Vec<_>>(),
            "description": "What preflight tests: kinds of constraints on the text of an answer, with the names of `Constraint::kind`; calls of tools; where the constraint begins after reasoning; and requests that must fail, with prompts that must count (`wire`).",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_and_are_written() {
        for kind in ProbeKind::all() {
            assert_eq!(ProbeKind::parse(kind.name()).unwrap(), kind);
            let written = serde_json::to_value(kind).unwrap();
            assert_eq!(written, kind.name());
            assert_eq!(serde_json::from_value::<ProbeKind>(written).unwrap(), kind);
        }
        let error = ProbeKind::parse("xml").unwrap_err();
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
