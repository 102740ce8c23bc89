//! Constraint dialects: the request fields that carry a constraint. One file per dialect.

mod conversion;
mod guided;
mod llama_cpp;
mod ollama_format;
mod regex_schema;
mod response_format;
mod sglang;
mod structured_outputs;
#[cfg(test)]
mod tests;
mod text_format;
mod tgi_grammar;
mod tool_call;
mod tool_call_non_strict;
mod triton_guide;
mod trtllm_format;

use serde_json::Value;

use super::{ServerKind, Unsendable};
use sobench_core::answer::Channel;
use sobench_core::constraint::{Constraint, GrammarSpelling};
use sobench_core::registry;
use sobench_core::scorer::without_score_declarations;
use sobench_core::tools::{ToolForm, ToolSet};

registry! {
    /// The fields that carry a constraint, as `--constraint-dialect` names them.
    pub enum ConstraintDialect is "constraint dialect" with DialectSpec {
        StructuredOutputs => structured_outputs::SPEC,
        Guided => guided::SPEC,
        ResponseFormat => response_format::SPEC,
        Sglang => sglang::SPEC,
        LlamaCpp => llama_cpp::SPEC,
        TgiGrammar => tgi_grammar::SPEC,
        RegexSchema => regex_schema::SPEC,
        TrtllmFormat => trtllm_format::SPEC,
        TritonGuide => triton_guide::SPEC,
        TextFormat => text_format::SPEC,
        OllamaFormat => ollama_format::SPEC,
        ToolCall => tool_call::SPEC,
        ToolCallNonStrict => tool_call_non_strict::SPEC,
    }
}

/// The properties of a dialect.
pub(crate) struct DialectSpec {
    pub(crate) name: &'static str,
    /// The kinds of constraints that it has fields for, as [`Constraint::kind`] names them.
    kinds: &'static [&'static str],
    /// Whether the embedded server supports it.
    embedded: bool,
    /// Whether it has a field for the decoding engine.
    names_engine: bool,
    /// How to handle a grammar in another notation than the one to send, unless the user sets the
    /// notation.
    pub(super) grammar_spelling: GrammarSpelling,
    /// Whether a request field of this name constrains the answer, at the top level or in `holder`.
    is_field: fn(&str) -> bool,
    /// The top-level field that contains the dialect's fields.
    holder: Option<&'static str>,
    /// The fields that carry a constraint to a server kind, with the requested engine.
    carry: fn(&Constraint, ServerKind, Option<&str>) -> Result<ConstraintFields, Refusal>,
}

/// The base of every spec: a dialect for JSON only. A spec adds its fields and how it carries a
/// constraint.
const JSON_ONLY: DialectSpec = DialectSpec {
    name: "json only",
    kinds: &["json", "json_object"],
    embedded: false,
    names_engine: false,
    grammar_spelling: GrammarSpelling::AsWritten,
    is_field: |_| false,
    holder: None,
    carry: |_, _, _| Err(Refusal::NoField),
};

impl ConstraintDialect {
    /// The fields that carry `constraint` in this dialect to this server kind; `engine` is
    /// `--guided-decoding-backend`.
    pub(super) fn carry(
        self,
        server: ServerKind,
        constraint: &Constraint,
        engine: Option<&str>,
    ) -> Result<ConstraintFields, Unsendable> {
        if !server.dialects().contains(&self) || !self.carries(constraint.kind()) {
            return Err(self.unsupported(server, constraint));
        }
        let undeclared = match constraint {
            Constraint::JsonSchema(schema) => without_score_declarations(schema),
            _ => None,
        };
        let undeclared = undeclared.map(|schema| Constraint::JsonSchema(schema.into()));
        let sent = undeclared.as_ref().unwrap_or(constraint);
        let carried = (self.spec().carry)(sent, server, engine);
        carried.map_err(|refusal| match refusal {
            Refusal::NoField => self.unsupported(server, constraint),
            Refusal::Unsendable(unsendable) => unsendable,
        })
    }

    /// Whether the dialect has a field for a kind of constraint ([`Constraint::kind`]).
    pub fn carries(self, kind: &str) -> bool {
        self.spec().kinds.contains(&kind)
    }

    /// Whether the embedded server supports this dialect.
    pub fn is_embedded(self) -> bool {
        self.spec().embedded
    }

    /// Whether it has a field for the decoding engine.
    pub fn names_engine(self) -> bool {
        self.spec().names_engine
    }

    /// Whether a top-level request field is a constraint in any dialect. In `--extra-body`, such a
    /// field would also constrain the control arm.
    pub fn is_constraint_field(field: &str) -> bool {
        Self::ALL
            .into_iter()
            .any(|dialect| (dialect.spec().is_field)(field))
    }

    /// Whether a top-level request field or one of its members is a constraint: `text.format`, and
    /// the parameters of SGLang and TGI, contain constraints and other fields.
    pub fn constrains(field: &str, value: &Value) -> bool {
        let members = || {
            value
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, _)| name.as_str())
        };
        let is_holder = Self::ALL
            .into_iter()
            .any(|dialect| dialect.spec().holder == Some(field));
        Self::is_constraint_field(field) || (is_holder && members().any(Self::is_constraint_field))
    }

    /// Whether answers are the arguments of a tool call, not content.
    pub fn answers_in_tool_calls(self) -> bool {
        matches!(self, Self::ToolCall | Self::ToolCallNonStrict)
    }

    /// The part of an answer that has the constrained text.
    pub fn expected_channel(self) -> Channel {
        if self.answers_in_tool_calls() {
            Channel::ToolCalls
        } else {
            Channel::Content
        }
    }

    /// The error if this server kind has no field for the constraint.
    pub(super) fn no_field(server: ServerKind, constraint: &Constraint) -> Unsendable {
        let kind = constraint.kind();
        let hint = match constraint {
            Constraint::Tools(_) => {
                "use --backend openai-chat or openai-responses, if the server has their endpoints"
            }
            _ => {
                "use another --backend that the server supports, or --no-guided-decoding to measure without a constraint"
            }
        };
        Unsendable::new(
            format!(
                "unsupported by this server kind: the {server} backend has no field for a {kind} constraint"
            ),
            hint,
        )
    }

    /// The error if this server kind has no field for a part of the tools.
    pub(super) fn no_tool_field(server: ServerKind, member: &str) -> Unsendable {
        Unsendable::new(
            format!(
                "unsupported by this server kind: the {server} backend has no field for {member}"
            ),
            "use --backend openai-chat, if the server has its endpoint",
        )
    }

    /// The error with the dialects that work, if any.
    fn unsupported(self, server: ServerKind, constraint: &Constraint) -> Unsendable {
        let kind = constraint.kind();
        let others: Vec<_> = server
            .dialects()
            .iter()
            .filter(|dialect| dialect.carries(kind))
            .map(|dialect| dialect.name())
            .collect();
        if others.is_empty() {
            return Self::no_field(server, constraint);
        }
        let what = if server.dialects().contains(&self) {
            format!("the {self} dialect cannot carry a {kind} constraint")
        } else {
            format!("the {server} backend does not support the {self} dialect")
        };
        Unsendable::new(
            what,
            format!(
                "use --constraint-dialect {}, if the server supports it",
                others.join(" or ")
            ),
        )
    }
}

/// Request fields that carry a constraint.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ConstraintFields {
    /// Top-level fields of the request, merged into the existing ones.
    pub(super) fields: Value,
    /// JSON pointers to the values that are the constraint. Later fields must not change them, or
    /// answers would be judged by another constraint than the one sent.
    pub(super) pinned: Vec<&'static str>,
}

impl ConstraintFields {
    /// The fields of a tool set.
    pub(super) fn tools(set: &ToolSet, form: ToolForm) -> Self {
        Self {
            fields: set.to_members(form).into(),
            pinned: vec!["/tools", "/tool_choice", "/parallel_tool_calls"],
        }
    }

    fn new(field: &str, value: Value, pinned: &[&'static str]) -> Self {
        Self {
            fields: Value::Object([(field.to_owned(), value)].into_iter().collect()),
            pinned: pinned.to_vec(),
        }
    }
}

/// Why a dialect cannot carry a constraint.
#[derive(Debug)]
enum Refusal {
    /// It has no field for this kind of constraint; see [`ConstraintDialect::carries`].
    NoField,
    /// It has a field for the kind, but cannot carry this constraint.
    Unsendable(Unsendable),
}

impl From<Unsendable> for Refusal {
    fn from(unsendable: Unsendable) -> Self {
        Self::Unsendable(unsendable)
    }
}
