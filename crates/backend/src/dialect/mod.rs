//! Constraint dialects: the request fields that carry a constraint. One file per dialect.

mod conversion;
mod guided;
mod llama_cpp;
mod ollama_format;
mod output_config;
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

use serde_json::{Map, Value, json};

use super::{ServerKind, Unsendable};
use crate::body::merge;
use sobench_core::answer::Channel;
use sobench_core::constraint::{Constraint, ConstraintKind, GrammarDialect, GrammarSpelling};
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
        OutputConfig => output_config::SPEC,
        ToolCall => tool_call::SPEC,
        ToolCallNonStrict => tool_call_non_strict::SPEC,
    }
}

/// The properties of a dialect.
pub(crate) struct DialectSpec {
    pub(crate) name: &'static str,
    /// Whether the embedded server supports it.
    embedded: bool,
    /// JSON pointer to the field for the decoding engine.
    engine_field: Option<&'static str>,
    /// How to handle a grammar in another notation than the one to send, unless the user sets the
    /// notation.
    pub(super) grammar_spelling: GrammarSpelling,
    /// Whether grammars must be GBNF, which is a form of EBNF.
    is_gbnf_only: bool,
    /// Whether a request field of this name constrains the answer, at the top level or in `holder`.
    is_field: fn(&str) -> bool,
    /// The top-level field that contains the dialect's fields.
    holder: Option<&'static str>,
    /// The kinds of constraints that it has fields for, and these fields. Without an entry for
    /// choices, they are carried as a regular expression or a grammar.
    fields: &'static [(ConstraintKind, Carry)],
}

/// The request fields for a constraint of one kind, in a request to a server kind, from the
/// constraint's content (see [`ConstraintDialect::content`]).
type Carry = fn(Value, ServerKind) -> Carried;

type Carried = Result<ConstraintFields, Unsendable>;

/// The base of every spec. A spec adds its fields.
const JSON_ONLY: DialectSpec = DialectSpec {
    name: "json only",
    embedded: false,
    engine_field: None,
    grammar_spelling: GrammarSpelling::AsWritten,
    is_gbnf_only: false,
    is_field: |_| false,
    holder: None,
    fields: &[],
};

/// The field at this JSON pointer.
fn at(pointer: &'static str, value: Value) -> Carried {
    let names = pointer.rsplit('/').filter(|name| !name.is_empty());
    Ok(ConstraintFields {
        fields: names.fold(value, |inner, name| {
            Value::Object(Map::from_iter([(name.to_owned(), inner)]))
        }),
        pinned: vec![pointer],
    })
}

impl ConstraintDialect {
    /// The fields that carry `constraint` in this dialect to this server kind; `engine` is
    /// `--guided-decoding-backend`.
    pub(super) fn carry(
        self,
        server: ServerKind,
        constraint: &Constraint,
        engine: Option<&str>,
    ) -> Result<ConstraintFields, Unsendable> {
        let field = self.field(ConstraintKind::from_constraint(constraint));
        let Some((kind, carry)) = field.filter(|_| server.dialects().contains(&self)) else {
            return Err(self.unsupported(server, constraint));
        };
        let mut carried = carry(self.content(server, constraint, *kind)?, server)?;
        if let (Some(engine), Some(field)) = (engine, self.spec().engine_field) {
            let engine = at(field, engine.into())?;
            merge(&mut carried.fields, &engine.fields);
            carried.pinned.extend(engine.pinned);
        }
        Ok(carried)
    }

    /// The field for a kind of constraint. A choice is also a regular expression, and a grammar.
    fn field(self, kind: ConstraintKind) -> Option<&'static (ConstraintKind, Carry)> {
        let fields = self.spec().fields;
        let find = |kind| fields.iter().find(|(own, _)| *own == kind);
        match kind {
            ConstraintKind::Choice => find(kind)
                .or_else(|| find(ConstraintKind::Regex))
                .or_else(|| find(ConstraintKind::Grammar)),
            kind => find(kind),
        }
    }

    /// The content of a constraint for the field of a kind.
    fn content(
        self,
        server: ServerKind,
        constraint: &Constraint,
        kind: ConstraintKind,
    ) -> Result<Value, Unsendable> {
        Ok(match constraint {
            Constraint::JsonSchema(schema) => {
                without_score_declarations(schema).unwrap_or_else(|| Value::clone(schema))
            }
            Constraint::JsonObject(_) => json!({"type": "object"}),
            Constraint::Regex(regex) => json!(regex),
            Constraint::Choice(choices) => match kind {
                ConstraintKind::Regex => conversion::choice_regex(choices)?.into(),
                ConstraintKind::Grammar => conversion::choice_gbnf(choices)?.into(),
                _ => json!(choices),
            },
            Constraint::Grammar {
                dialect: dialect @ GrammarDialect::Lark,
                ..
            } if self.spec().is_gbnf_only => {
                return Err(Unsendable::new(
                    format!("the {self} dialect carries grammars in GBNF only: {dialect}"),
                    "give a GBNF file (`root ::= ...`) with --grammar-path",
                ));
            }
            Constraint::Grammar { text, .. } => json!(text),
            Constraint::StructuralTag(tag) => Value::clone(tag),
            Constraint::Tools(_) => return Err(self.unsupported(server, constraint)),
        })
    }

    /// Whether the dialect has a field for a kind of constraint.
    pub fn carries(self, kind: ConstraintKind) -> bool {
        self.field(kind).is_some()
    }

    /// Whether the embedded server supports this dialect.
    pub fn is_embedded(self) -> bool {
        self.spec().embedded
    }

    /// Whether it has a field for the decoding engine.
    pub fn names_engine(self) -> bool {
        self.spec().engine_field.is_some()
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
        let hint = match constraint.tools() {
            Some(_) => {
                "use --backend openai-chat or openai-responses, if the server has their endpoints"
            }
            None => {
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
            .filter(|dialect| dialect.carries(ConstraintKind::from_constraint(constraint)))
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
}
