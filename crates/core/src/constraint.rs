//! Constraints on answers: JSON Schema, JSON object, regular expression, choice, grammar,
//! structural tag, tools.

use std::fmt;
use std::sync::{Arc, LazyLock};

use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::tools::ToolSet;

/// Start of the name of a property that only one request of a run has. A UUID follows. It makes
/// schemas that no server has compiled, and shows which request an answer belongs to.
pub const UNIQUE_MEMBER_PREFIX: &str = "__optional_field_";

/// A constraint on an answer, independent of how a server receives it.
///
/// In files it is an object with one member: `{"json": ...}`, `{"json_object": true}`, `{"regex":
/// "..."}`, `{"choice": [...]}`, `{"grammar": {"dialect": "lark", "text": "..."}}`,
/// `{"structural_tag": ...}` or `{"tools": {"tools": [...], "tool_choice": ...}}`.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Constraint {
    /// A JSON Schema: an object or a boolean. Keeps member order and number spelling.
    #[serde(rename = "json")]
    JsonSchema(Arc<Value>),
    /// Any JSON object.
    JsonObject(AlwaysTrue),
    /// A regular expression in the dialect of Python's `re` that matches the complete answer.
    Regex(Arc<str>),
    /// One of these strings, byte for byte.
    Choice(Arc<[String]>),
    /// A grammar, in the notation of `text`.
    Grammar {
        dialect: GrammarDialect,
        text: Arc<str>,
    },
    /// xgrammar's structural tag, sent unchanged.
    StructuralTag(Arc<Value>),
    /// The tools that the answer may call. Constrains the tool calls of an answer, not its text.
    Tools(Arc<ToolSet>),
}

/// Whether constraints of this [`Constraint::kind`] require JSON.
pub fn is_json_kind(kind: &str) -> bool {
    matches!(kind, "json" | "json_object")
}

/// The value of `json_object`; `false` is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(try_from = "bool", into = "bool")]
pub struct AlwaysTrue;

impl TryFrom<bool> for AlwaysTrue {
    type Error = &'static str;
    fn try_from(value: bool) -> Result<Self, Self::Error> {
        if value {
            Ok(Self)
        } else {
            Err("json_object must be true")
        }
    }
}

impl From<AlwaysTrue> for bool {
    fn from(_: AlwaysTrue) -> Self {
        true
    }
}

/// The notation of a grammar. The same text can define different languages in different notations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrammarDialect {
    /// `name: ...`, start rule `start`, upper-case terminals: the variant that llguidance reads.
    Lark,
    /// `name ::= ...`, start rule `root`: GBNF (llama.cpp) and the EBNF of xgrammar.
    Ebnf,
}

impl GrammarDialect {
    /// Detects the notation of a grammar: EBNF if a line starts with a rule name and `::=`.
    pub fn detect(text: &str) -> Self {
        static RULE: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(r"(?m)^\s*[\w-]+\s*::=").expect("the expression is fixed and well formed")
        });
        if RULE.is_match(text) {
            Self::Ebnf
        } else {
            Self::Lark
        }
    }

    /// The name used in flags, files and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lark => "lark",
            Self::Ebnf => "ebnf",
        }
    }
}

/// How a grammar in another notation than the server's is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrammarSpelling {
    /// Unchanged: the server reads both notations, or its notation is unknown.
    AsWritten,
    /// Converted to the server's notation.
    Converted,
    /// Converted, and the shipped EBNF is renamed to names that every EBNF reader accepts: some do
    /// not accept `_`.
    Portable,
}

impl fmt::Display for GrammarDialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Constraint {
    /// Names of all kinds.
    pub const KINDS: [&str; 7] = [
        "json",
        "json_object",
        "regex",
        "choice",
        "grammar",
        "structural_tag",
        "tools",
    ];

    /// Names of the kinds that constrain the text of an answer: all but the last one, tools.
    pub const TEXT_KINDS: [&str; 6] = match Self::KINDS.first_chunk() {
        Some(kinds) => *kinds,
        None => unreachable!(),
    };

    /// The kind's name. For kinds that constrain text, it equals the member name in vLLM's
    /// `structured_outputs`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::JsonSchema(_) => "json",
            Self::JsonObject(_) => "json_object",
            Self::Regex(_) => "regex",
            Self::Choice(_) => "choice",
            Self::Grammar { .. } => "grammar",
            Self::StructuralTag(_) => "structural_tag",
            Self::Tools(_) => "tools",
        }
    }

    /// Whether the constraint requires JSON.
    pub fn is_json(&self) -> bool {
        is_json_kind(self.kind())
    }

    /// The tools that the answer may call, if the constraint is a tool set.
    pub fn tools(&self) -> Option<&ToolSet> {
        match self {
            Self::Tools(tools) => Some(tools),
            _ => None,
        }
    }

    /// SHA-256, in hex, of the constraint's JSON text; equal constraints have equal fingerprints.
    pub fn fingerprint(&self) -> String {
        let text =
            serde_json::to_string(self).expect("a constraint holds only strings and JSON values");
        sha256_hex(text.as_bytes())
    }
}

/// SHA-256 in lower-case hex.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Bytes in lower-case hex.
pub fn hex(digest: &[u8]) -> String {
    use fmt::Write as _;
    digest
        .iter()
        .fold(String::with_capacity(2 * digest.len()), |mut hex, byte| {
            write!(hex, "{byte:02x}").expect("writing to a string does not fail");
            hex
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(text: &str) -> Constraint {
        let constraint: Constraint = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&constraint).unwrap(), text);
        constraint
    }

    #[test]
    fn files_keep_order_and_number_spelling() {
        let constraint = round_trip(
            r#"{"json":{"type":"number","multipleOf":0.10,"maximum":12345678901234567890123}}"#,
        );
        assert_eq!(constraint.kind(), "json");
    }

    #[test]
    fn every_kind_reads_and_writes_the_same_text() {
        for (text, kind) in [
            (r#"{"json_object":true}"#, "json_object"),
            (r#"{"regex":"\\w+"}"#, "regex"),
            (r#"{"choice":["a","b"]}"#, "choice"),
            (
                r#"{"grammar":{"dialect":"lark","text":"start: \"a\""}}"#,
                "grammar",
            ),
            (r#"{"structural_tag":{"format":{}}}"#, "structural_tag"),
            (
                r#"{"tools":{"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","maxProperties":1.0}}}],"tool_choice":"auto"}}"#,
                "tools",
            ),
        ] {
            assert_eq!(round_trip(text).kind(), kind);
        }
        assert!(!Constraint::TEXT_KINDS.contains(&"tools"));
        assert!(serde_json::from_str::<Constraint>(r#"{"json_object":false}"#).is_err());
    }

    #[test]
    fn notation_is_detected_from_rules_and_not_from_strings() {
        for (text, dialect) in [
            ("root ::= \"a\"", GrammarDialect::Ebnf),
            ("# comment\n  a-b\n  ::= \"a\"", GrammarDialect::Ebnf),
            ("start: \"root ::= a\"", GrammarDialect::Lark),
        ] {
            assert_eq!(GrammarDialect::detect(text), dialect, "{text}");
        }
    }
}
