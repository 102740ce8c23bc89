//! Constraint dialects: which request fields carry a constraint. One dialect a file.

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

use serde_json::Value;

use super::{ServerKind, Unsendable};
use sobench_core::constraint::{Constraint, GrammarSpelling};
use sobench_core::registry;

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
    }
}

/// Everything that is known of a dialect.
pub(crate) struct DialectSpec {
    pub(crate) name: &'static str,
    /// The kinds of constraints that it has a place for, as [`Constraint::kind`] names them.
    kinds: &'static [&'static str],
    /// Whether the embedded server reads it.
    embedded: bool,
    /// Whether it has a field for the decoding engine.
    names_engine: bool,
    /// What becomes of a grammar that is not in the notation to be sent, unless the user names the
    /// notation.
    pub(super) grammar_spelling: GrammarSpelling,
    /// Whether a request field of this name constrains the answer, at the top of the request or in
    /// `holder`.
    is_field: fn(&str) -> bool,
    /// The top-level field that holds the dialect's fields among others.
    holder: Option<&'static str>,
    /// The fields that carry a constraint to a kind of server, with the engine that the request
    /// names.
    carry: fn(&Constraint, ServerKind, Option<&str>) -> Result<Carried, Refusal>,
}

/// The base of every spec: a dialect for JSON alone, which has yet to say which fields are its own
/// and how it carries a constraint.
const JSON_ONLY: DialectSpec = DialectSpec {
    name: "json only",
    kinds: &["json", "json_object"],
    embedded: false,
    names_engine: false,
    grammar_spelling: GrammarSpelling::AsWritten,
    is_field: |_| false,
    holder: None,
    carry: |_, _, _| Err(Refusal::NoPlace),
};

impl ConstraintDialect {
    /// The fields that carry `constraint` in this dialect to this kind of server; `engine` is
    /// `--guided-decoding-backend`.
    pub(super) fn carry(
        self,
        server: ServerKind,
        constraint: &Constraint,
        engine: Option<&str>,
    ) -> Result<Carried, Unsendable> {
        if !server.dialects().contains(&self) || !self.carries(constraint.kind()) {
            return Err(self.unsupported(server, constraint));
        }
        let carried = (self.spec().carry)(constraint, server, engine);
        carried.map_err(|refusal| match refusal {
            Refusal::NoPlace => self.unsupported(server, constraint),
            Refusal::Unsendable(unsendable) => unsendable,
        })
    }

    /// Whether the dialect has a place for the kind that [`Constraint::kind`] names.
    pub fn carries(self, kind: &str) -> bool {
        self.spec().kinds.contains(&kind)
    }

    /// Whether the embedded server reads this dialect.
    pub fn is_embedded(self) -> bool {
        self.spec().embedded
    }

    /// Whether it has a field for the decoding engine.
    pub fn names_engine(self) -> bool {
        self.spec().names_engine
    }

    /// Whether a top-level request field constrains the answer, in any dialect: such a field in
    /// `--extra-body` would constrain the control arm as well.
    pub fn is_constraint_field(field: &str) -> bool {
        Self::ALL
            .into_iter()
            .any(|dialect| (dialect.spec().is_field)(field))
    }

    /// Whether a top-level request field constrains the answer by itself or by a member:
    /// `text.format`, and SGLang's and TGI's parameters hold constraints among other things.
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

    /// Says that no dialect of this kind of server has a place for the constraint.
    pub(super) fn no_field(server: ServerKind, constraint: &Constraint) -> Unsendable {
        let kind = constraint.kind();
        Unsendable::new(
            format!(
                "unsupported by this server kind: the {server} backend has no field for a {kind} constraint"
            ),
            "nothing was sent, as the answers would be unconstrained; use another --backend that the server speaks, \
             or --no-guided-decoding to measure without a constraint",
        )
    }

    /// Says what would work, if anything does.
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
            format!("the {server} backend does not speak the {self} dialect")
        };
        Unsendable::new(
            what,
            format!(
                "use --constraint-dialect {}, if the server takes it",
                others.join(" or ")
            ),
        )
    }
}

/// Request fields that carry a constraint.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Carried {
    /// An object of top-level fields of the request, merged into those that are there already.
    pub(super) fields: Value,
    /// JSON pointers into the request whose values *are* the constraint: whatever is merged over
    /// them later must leave them as they are, or an answer would be judged by something else than
    /// was sent.
    pub(super) pinned: Vec<&'static str>,
}

impl Carried {
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
    /// It has no field for this kind of constraint, which [`ConstraintDialect::carries`] says as
    /// well.
    NoPlace,
    /// It has one for the kind, and not for this very constraint.
    Unsendable(Unsendable),
}

impl From<Unsendable> for Refusal {
    fn from(unsendable: Unsendable) -> Self {
        Self::Unsendable(unsendable)
    }
}
