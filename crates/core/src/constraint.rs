//! Constraints on answers: JSON Schema, JSON object, regular expression, choice, grammar,
//! structural tag, tools.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead as _};
use std::path::Path;
use std::sync::{Arc, LazyLock};

use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::registry;
use crate::scorer::Scorer;
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

registry! {
    /// A kind of constraint.
    pub enum ConstraintKind is "constraint kind" with KindSpec {
        JsonSchema => JSON_SCHEMA,
        JsonObject => JSON_OBJECT,
        Regex => REGEX,
        Choice => CHOICE,
        Grammar => GRAMMAR,
        StructuralTag => STRUCTURAL_TAG,
        Tools => TOOLS,
    }
}

/// The properties of a kind of constraint.
pub struct KindSpec {
    /// The name in flags, files and messages. For kinds that constrain text, it equals the member
    /// name in vLLM's `structured_outputs`.
    name: &'static str,
    constrains: Constrained,
    /// How a reference is compared with the answer, unless its row names a scorer. JSON, choices
    /// and calls have one right answer; grammars and regular expressions may have several.
    scorer: Option<Scorer>,
}

/// The part of an answer that a kind constrains.
#[derive(Clone, Copy, PartialEq)]
enum Constrained {
    /// The text of the answer, which must be JSON.
    Json,
    /// The text of the answer.
    Text,
    ToolCalls,
}

const fn spec(name: &'static str, constrains: Constrained, scorer: Option<Scorer>) -> KindSpec {
    KindSpec {
        name,
        constrains,
        scorer,
    }
}

const JSON_SCHEMA: KindSpec = spec("json", Constrained::Json, Some(Scorer::Exact));
const JSON_OBJECT: KindSpec = spec("json_object", Constrained::Json, Some(Scorer::Exact));
const REGEX: KindSpec = spec("regex", Constrained::Text, None);
const CHOICE: KindSpec = spec("choice", Constrained::Text, Some(Scorer::Choice));
const GRAMMAR: KindSpec = spec("grammar", Constrained::Text, None);
const STRUCTURAL_TAG: KindSpec = spec("structural_tag", Constrained::Text, None);
const TOOLS: KindSpec = spec("tools", Constrained::ToolCalls, Some(Scorer::Calls));

impl ConstraintKind {
    /// The kinds that constrain the text of an answer.
    pub fn of_text() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|kind| kind.is_of_text())
    }

    /// Whether it constrains the text of an answer, and not its tool calls.
    pub fn is_of_text(self) -> bool {
        self.spec().constrains != Constrained::ToolCalls
    }

    /// Whether it requires JSON.
    pub fn is_json(self) -> bool {
        self.spec().constrains == Constrained::Json
    }

    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The kind of a constraint.
    pub fn from_constraint(constraint: &Constraint) -> Self {
        match constraint {
            Constraint::JsonSchema(_) => Self::JsonSchema,
            Constraint::JsonObject(_) => Self::JsonObject,
            Constraint::Regex(_) => Self::Regex,
            Constraint::Choice(_) => Self::Choice,
            Constraint::Grammar { .. } => Self::Grammar,
            Constraint::StructuralTag(_) => Self::StructuralTag,
            Constraint::Tools(_) => Self::Tools,
        }
    }
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
    /// The name of its [`ConstraintKind`].
    pub fn kind(&self) -> &'static str {
        ConstraintKind::from_constraint(self).name()
    }

    /// Whether the constraint requires JSON.
    pub fn is_json(&self) -> bool {
        ConstraintKind::from_constraint(self).is_json()
    }

    /// How a reference is compared with the answer, unless its row names a scorer.
    pub fn scorer(&self) -> Option<Scorer> {
        ConstraintKind::from_constraint(self).spec().scorer
    }

    /// The JSON Schema that the answer must satisfy, if the constraint is one.
    pub fn schema(&self) -> Option<&Arc<Value>> {
        match self {
            Self::JsonSchema(schema) => Some(schema),
            Self::JsonObject(_)
            | Self::Regex(_)
            | Self::Choice(_)
            | Self::Grammar { .. }
            | Self::StructuralTag(_)
            | Self::Tools(_) => None,
        }
    }

    /// The texts of which the answer must be one, if the constraint lists them.
    pub fn choices(&self) -> Option<&Arc<[String]>> {
        match self {
            Self::Choice(choices) => Some(choices),
            _ => None,
        }
    }

    /// The regular expression, if the constraint is one.
    pub fn regex(&self) -> Option<&str> {
        match self {
            Self::Regex(pattern) => Some(pattern),
            _ => None,
        }
    }

    /// The notation and the text of the grammar, if the constraint is one.
    pub fn grammar(&self) -> Option<(GrammarDialect, &Arc<str>)> {
        match self {
            Self::Grammar { dialect, text } => Some((*dialect, text)),
            _ => None,
        }
    }

    /// The structural tag, if the constraint is one.
    pub fn structural_tag(&self) -> Option<&Arc<Value>> {
        match self {
            Self::StructuralTag(tag) => Some(tag),
            _ => None,
        }
    }

    /// The tools that the answer may call, if the constraint is a tool set.
    pub fn tools(&self) -> Option<&ToolSet> {
        match self {
            Self::Tools(tools) => Some(tools),
            _ => None,
        }
    }

    /// The text that pages show.
    pub fn text(&self) -> String {
        let pretty = |value: &Value| serde_json::to_string_pretty(value).expect("a value is JSON");
        match self {
            Self::JsonSchema(value) | Self::StructuralTag(value) => pretty(value),
            Self::JsonObject(_) => "any JSON object".to_owned(),
            Self::Regex(text) | Self::Grammar { text, .. } => text.to_string(),
            Self::Choice(choices) => choices.join("\n"),
            Self::Tools(tools) => serde_json::to_string_pretty(tools).expect("tools are JSON"),
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

/// The SHA-256 of a file's bytes, in hex.
///
/// # Errors
/// It cannot be read.
pub fn sha256_of_file(path: &Path) -> io::Result<String> {
    let mut file = io::BufReader::with_capacity(1 << 16, File::open(path)?);
    let mut hasher = Sha256::new();
    loop {
        let bytes = file.fill_buf()?;
        if bytes.is_empty() {
            return Ok(hex(&hasher.finalize()));
        }
        hasher.update(bytes);
        let read = bytes.len();
        file.consume(read);
    }
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
        assert!(!ConstraintKind::of_text().any(|kind| kind == ConstraintKind::Tools));
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
