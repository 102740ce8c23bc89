//! Constraint dialects: which request fields carry a constraint. One dialect a file; knows no prompt.

mod guided;
mod llama_cpp;
mod ollama_format;
mod regex_schema;
mod response_format;
mod sglang;
mod spelling;
mod structured_outputs;
#[cfg(test)]
mod tests;
mod text_format;
mod tgi_grammar;
mod tool_call;
mod triton_guide;
mod trtllm_format;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::{ServerKind, Unsendable, named};
use crate::constraint::Constraint;
use crate::error::Error;

/// The fields that carry a constraint, as `--constraint-dialect` names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConstraintDialect {
    /// `structured_outputs: {...}`: vLLM from 0.11.
    StructuredOutputs,
    /// `guided_json`, `guided_regex`, ...: vLLM before 0.12, Aphrodite. Later vLLMs ignore these fields and answer unconstrained.
    Guided,
    /// `response_format: {...}`: OpenAI, and nearly every server for JSON. It has no place for regex, choice or grammar.
    ResponseFormat,
    /// SGLang's `regex` and `ebnf`, beside `response_format` or all in `sampling_params`.
    Sglang,
    /// llama.cpp server's `json_schema` and `grammar` (GBNF).
    LlamaCpp,
    /// TGI's `grammar: {type, value}`, on its chat endpoint as `response_format`.
    TgiGrammar,
    /// LMDeploy's `response_format` with the type `regex_schema` beside OpenAI's.
    RegexSchema,
    /// TensorRT-LLM's `response_format` with the types `json`, `regex` and `ebnf`.
    TrtllmFormat,
    /// TensorRT-LLM's `guided_decoding_guide_type` and `guided_decoding_guide` behind Triton.
    TritonGuide,
    /// `text.format` of the responses endpoint.
    TextFormat,
    /// Ollama's `format`.
    OllamaFormat,
    /// The schema as the parameters of one function, which has to be called (`strict`); its arguments are the answer.
    ToolCall,
}

impl ConstraintDialect {
    /// Every dialect, in the order of help texts.
    pub const ALL: [Self; 12] = [
        Self::StructuredOutputs,
        Self::Guided,
        Self::ResponseFormat,
        Self::Sglang,
        Self::LlamaCpp,
        Self::TgiGrammar,
        Self::RegexSchema,
        Self::TrtllmFormat,
        Self::TritonGuide,
        Self::TextFormat,
        Self::OllamaFormat,
        Self::ToolCall,
    ];

    /// The name used in flags, files and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::StructuredOutputs => "structured-outputs",
            Self::Guided => "guided",
            Self::ResponseFormat => "response-format",
            Self::Sglang => "sglang",
            Self::LlamaCpp => "llama-cpp",
            Self::TgiGrammar => "tgi-grammar",
            Self::RegexSchema => "regex-schema",
            Self::TrtllmFormat => "trtllm-format",
            Self::TritonGuide => "triton-guide",
            Self::TextFormat => "text-format",
            Self::OllamaFormat => "ollama-format",
            Self::ToolCall => "tool-call",
        }
    }

    /// The fields that carry `constraint` in this dialect to this kind of server; `engine` is `--guided-decoding-backend`.
    pub(super) fn carry(self, server: ServerKind, constraint: &Constraint, engine: Option<&str>) -> Result<Carried, Unsendable> {
        if !server.dialects().contains(&self) || !self.carries(constraint.kind()) {
            return Err(self.unsupported(server, constraint));
        }
        let carried = match self {
            Self::StructuredOutputs => Ok(structured_outputs::carry(constraint)),
            Self::Guided => guided::carry(constraint, engine),
            Self::ResponseFormat => response_format::carry(constraint),
            Self::Sglang => sglang::carry(server, constraint),
            Self::LlamaCpp => llama_cpp::carry(constraint),
            Self::TgiGrammar => tgi_grammar::carry(server, constraint),
            Self::RegexSchema => regex_schema::carry(constraint),
            Self::TrtllmFormat => trtllm_format::carry(constraint),
            Self::TritonGuide => triton_guide::carry(constraint),
            Self::TextFormat => text_format::carry(constraint),
            Self::OllamaFormat => ollama_format::carry(constraint),
            Self::ToolCall => tool_call::carry(server, constraint),
        };
        carried.map_err(|refusal| match refusal {
            Refusal::NoPlace => self.unsupported(server, constraint),
            Refusal::Unsendable(unsendable) => unsendable,
        })
    }

    /// Whether the dialect has a place for the kind that [`Constraint::kind`] names.
    pub fn carries(self, kind: &str) -> bool {
        let json_only = ["json", "json_object"];
        match self {
            Self::StructuredOutputs | Self::Guided => true,
            Self::ResponseFormat => json_only.contains(&kind) || kind == "structural_tag",
            Self::Sglang | Self::TrtllmFormat => Constraint::KINDS.contains(&kind),
            Self::LlamaCpp => json_only.contains(&kind) || matches!(kind, "choice" | "grammar"),
            Self::TgiGrammar => matches!(kind, "json" | "regex" | "choice"),
            Self::RegexSchema => json_only.contains(&kind) || matches!(kind, "regex" | "choice"),
            Self::TritonGuide => json_only.contains(&kind) || matches!(kind, "regex" | "choice" | "grammar"),
            Self::TextFormat | Self::OllamaFormat | Self::ToolCall => json_only.contains(&kind),
        }
    }

    /// Whether the embedded server reads this dialect.
    pub fn is_embedded(self) -> bool {
        matches!(self, Self::StructuredOutputs | Self::Guided | Self::ResponseFormat)
    }

    /// Whether a top-level request field constrains the answer, in any dialect that is known to us (that of mistral.rs among
    /// them): such a field in `--extra-body` would constrain the control arm as well.
    pub fn is_constraint_field(field: &str) -> bool {
        let is_option = matches!(field, "guided_decoding_backend" | "guided_whitespace_pattern");
        (field.starts_with("guided_") && !is_option)
            || matches!(
                field,
                "structured_outputs"
                    | "response_format"
                    | "structural_tag"
                    | "grammar"
                    | "json_schema"
                    | "regex"
                    | "ebnf"
                    | "format"
                    | "tool_choice"
            )
    }

    /// Whether a top-level request field constrains the answer by itself or by a member: `text.format`, and SGLang's and TGI's
    /// parameters hold constraints among other things.
    pub fn constrains(field: &str, value: &Value) -> bool {
        let members = || value.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
        Self::is_constraint_field(field)
            || (matches!(field, "text" | "sampling_params" | "parameters") && members().any(Self::is_constraint_field))
    }

    /// Says that no dialect of this kind of server has a place for the constraint.
    pub(super) fn no_field(server: ServerKind, constraint: &Constraint) -> Unsendable {
        let kind = constraint.kind();
        Unsendable {
            what: format!("unsupported by this server kind: the {server} backend has no field for a {kind} constraint"),
            hint: "nothing was sent, as the answers would be unconstrained; use another --backend that the server speaks, \
                   or --no-guided-decoding to measure without a constraint"
                .to_owned(),
        }
    }

    /// Says what would work, if anything does.
    fn unsupported(self, server: ServerKind, constraint: &Constraint) -> Unsendable {
        let kind = constraint.kind();
        let others: Vec<_> =
            server.dialects().iter().filter(|dialect| dialect.carries(kind)).map(|dialect| dialect.name()).collect();
        if others.is_empty() {
            return Self::no_field(server, constraint);
        }
        let what = if server.dialects().contains(&self) {
            format!("the {self} dialect cannot carry a {kind} constraint")
        } else {
            format!("the {server} backend does not speak the {self} dialect")
        };
        Unsendable { what, hint: format!("use --constraint-dialect {}, if the server takes it", others.join(" or ")) }
    }
}

impl fmt::Display for ConstraintDialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for ConstraintDialect {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for ConstraintDialect {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(|error: Error| serde::de::Error::custom(error.what))
    }
}

impl FromStr for ConstraintDialect {
    type Err = Error;
    fn from_str(name: &str) -> Result<Self, Error> {
        named(&Self::ALL, Self::name, "constraint dialect", name)
    }
}

/// Request fields that carry a constraint.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Carried {
    /// Top-level fields of the request, merged into those that are there already.
    pub(super) fields: Map<String, Value>,
    /// JSON pointers into the request whose values *are* the constraint: whatever is merged over them later must leave them as
    /// they are, or an answer would be judged by something else than was sent.
    pub(super) pinned: Vec<&'static str>,
}

impl Carried {
    fn new(field: &str, value: Value, pinned: &[&'static str]) -> Self {
        Self { fields: Map::from_iter([(field.to_owned(), value)]), pinned: pinned.to_vec() }
    }
}

/// Why a dialect cannot carry a constraint.
#[derive(Debug)]
enum Refusal {
    /// It has no field for this kind of constraint, which [`ConstraintDialect::carries`] says as well.
    NoPlace,
    /// It has one for the kind, and not for this very constraint.
    Unsendable(Unsendable),
}

impl From<Unsendable> for Refusal {
    fn from(unsendable: Unsendable) -> Self {
        Self::Unsendable(unsendable)
    }
}
