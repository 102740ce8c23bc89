//! Engines `xgrammar`, the crate `xgrammar-rs` (a Rust port), and `xgrammar-cpp`, the original in
//! C++, behind a feature.
//!
//! xgrammar accepts most JSON Schemas and ignores unsupported keywords, at most with a warning on
//! stderr, as it does in servers. [`Engine::validate`] is vLLM's check of an incoming request,
//! which refuses some of these schemas. Object members are restricted to the order of the schema. A
//! regex is anchored at both ends, and its classes are ASCII. The libraries' caches are off:
//! compiles are cold, and [`super::cache`] counts hits. In servers they are on and also share work
//! between equal rules of a grammar; the port then panics on some schemas.

#[cfg(feature = "engine-xgrammar-cpp")]
mod cpp;
mod errors;
mod input;
mod matcher;
mod unroll_estimate;
mod vllm_unsupported;

use std::sync::Arc;

use xgrammar_port::compiler::CompileError;
use xgrammar_port::{Grammar as ParsedGrammar, GrammarCompiler, TokenizerInfo, VocabType};

use super::{
    DeclaredDeparture, Departure, Engine, EngineError, EnginePolicy, EngineSpec, Grammar, Open,
    Vocabulary,
};
use errors::classify;
use input::EngineInput;
use matcher::XgrammarGrammar;
use sobench_core::constraint::{Constraint, GrammarDialect};
use sobench_core::error::{Error, Result as SobenchResult};

/// A test compares it with `Cargo.lock`.
const VERSION: &str = "xgrammar-rs 0.2.8, port";

/// The library's value for an unlimited cache. The cache is off.
const NO_LIMIT: i64 = -1;

pub(super) const SPEC: EngineSpec = EngineSpec {
    name: "xgrammar",
    open: Some(|vocabulary, policy| Ok(Arc::new(Xgrammar::new(vocabulary, policy)?))),
    build_hint: "",
    measured_by_default: true,
    departures: &DEPARTURES,
    listed_keywords: &[],
    relaxations: |policy| {
        let relaxed = EnginePolicy {
            xgrammar_strict: false,
            ..policy.clone()
        };
        let strict = policy
            .xgrammar_strict
            .then_some((Departure::AdditionalProperties, relaxed));
        // `any_order` is undone in the tag.
        let ordered = (Departure::AnyOrder, policy.clone());
        strict.into_iter().chain([ordered]).collect()
    },
};

/// The original in C++.
pub(super) const CPP_SPEC: EngineSpec = EngineSpec {
    name: "xgrammar-cpp",
    open: OPEN_CPP,
    build_hint: "build with --features engine-xgrammar-cpp, which needs cmake and clang++",
    measured_by_default: false,
    ..SPEC
};

#[cfg(feature = "engine-xgrammar-cpp")]
const OPEN_CPP: Option<Open> =
    Some(|vocabulary, policy| Ok(Arc::new(cpp::XgrammarCpp::new(vocabulary, policy)?)));
#[cfg(not(feature = "engine-xgrammar-cpp"))]
const OPEN_CPP: Option<Open> = None;

/// The meaning of a structural tag is xgrammar's own. Where sobench judges the JSON in it by JSON
/// Schema and RFC 8259 instead, the difference is not an error of the engine.
const TAG_DIFFERENCES: &str = "sobench, Differences from xgrammar (decisions/structural-tags.md)";

const DEPARTURES: [DeclaredDeparture; 6] = [
    DeclaredDeparture::new(
        Departure::MemberOrder,
        "members come in the order of the schema unless any_order is set",
        "xgrammar, Grammar.from_json_schema, any_order",
    ),
    DeclaredDeparture::new(
        Departure::AdditionalProperties,
        "with strict_mode no member or item that the schema does not name",
        "xgrammar, Grammar.from_json_schema, strict_mode",
    ),
    DeclaredDeparture::in_tags(
        Departure::AnyOrder,
        "in structural tags with any_order: required members may be missing and members may repeat, only their number counts",
        "xgrammar, Structural Tag Usage, Property ordering with any_order",
    ),
    DeclaredDeparture::in_tags(
        Departure::OuterWhiteSpace,
        "in structural tags: no white space around a JSON value",
        TAG_DIFFERENCES,
    ),
    DeclaredDeparture::in_tags(
        Departure::Escapes,
        "in structural tags: no escapes in strings of bounded length or with a pattern",
        TAG_DIFFERENCES,
    ),
    DeclaredDeparture::in_tags(
        Departure::Numbers,
        "in structural tags: integers are written as digits",
        TAG_DIFFERENCES,
    ),
];

/// The port. The tokenizer tables are built once and take about 20 MB.
struct Xgrammar {
    compiler: GrammarCompiler,
    /// Shared with the compiler.
    tokenizer: Arc<TokenizerInfo>,
    vocabulary: Arc<Vocabulary>,
    policy: EnginePolicy,
}

/// Policy settings that apply to both libraries.
fn settings(policy: &EnginePolicy) -> Vec<(&'static str, String)> {
    let whitespace = if policy.any_whitespace {
        "any"
    } else {
        "after , and :"
    };
    vec![
        ("whitespace", whitespace.into()),
        ("strict_mode", policy.xgrammar_strict.to_string()),
        ("compile_threads", policy.compile_threads.to_string()),
        ("library_cache", "off".into()),
    ]
}

/// Grammar notations that both libraries read.
const DIALECTS: &[GrammarDialect] = &[GrammarDialect::Ebnf, GrammarDialect::Lark];

impl Xgrammar {
    fn new(vocabulary: Arc<Vocabulary>, policy: &EnginePolicy) -> SobenchResult<Self> {
        let threads = i32::try_from(policy.compile_threads).unwrap_or(i32::MAX);
        let compiler = GrammarCompiler::new(tokenizer(&vocabulary)?, threads, false, NO_LIMIT);
        // The compiler exposes its tables only through a grammar. A copy would double the memory.
        let probe = compiler
            .compile_grammar_ebnf("root ::= \"a\"", "root")
            .map_err(|error| vocabulary_error(&error))?;
        Ok(Self {
            tokenizer: probe.tokenizer_info_arc(),
            compiler,
            vocabulary,
            policy: policy.clone(),
        })
    }
}

impl Engine for Xgrammar {
    fn name(&self) -> &'static str {
        "xgrammar"
    }

    fn version(&self) -> &'static str {
        VERSION
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        settings(&self.policy)
    }

    fn grammar_dialects(&self) -> &'static [GrammarDialect] {
        DIALECTS
    }

    fn check_size(&self, constraint: &Constraint) -> Result<(), EngineError> {
        unroll_estimate::refuse_explosive(constraint)
    }

    /// vLLM 0.33's `validate_xgrammar`: the list of unsupported features, then parsing by the
    /// library.
    fn validate(&self, constraint: &Constraint) -> Result<(), EngineError> {
        if let Some(schema) = constraint.schema() {
            refuse_vllm_unsupported(schema)?;
        }
        let EnginePolicy {
            any_whitespace,
            xgrammar_strict: strict,
            ..
        } = self.policy;
        let parsed: Result<ParsedGrammar, CompileError> =
            match EngineInput::from_constraint(constraint)? {
                EngineInput::Schema(schema) => ParsedGrammar::from_json_schema(
                    &schema,
                    any_whitespace,
                    None,
                    None,
                    strict,
                    None,
                )
                .map_err(Into::into),
                EngineInput::Regex(regex) => ParsedGrammar::from_regex(regex).map_err(Into::into),
                EngineInput::Ebnf(text) => {
                    ParsedGrammar::from_ebnf(&text, "root").map_err(Into::into)
                }
                EngineInput::Lark(text) => {
                    ParsedGrammar::from_lark(text, Some(&self.tokenizer), &[]).map_err(Into::into)
                }
                EngineInput::StructuralTag(tag) => {
                    ParsedGrammar::from_structural_tag_with_tokenizer(&tag, &self.tokenizer)
                        .map_err(Into::into)
                }
            };
        parsed
            .map(|_| ())
            .map_err(|error| classify(&error.to_string()))
    }

    fn compile(&self, constraint: &Constraint) -> Result<Arc<dyn Grammar>, EngineError> {
        let EnginePolicy {
            any_whitespace,
            xgrammar_strict: strict,
            ..
        } = self.policy;
        let compiler = &self.compiler;
        let compiled = match EngineInput::from_constraint(constraint)? {
            // Without indentation and separators, the library uses those of Python's `json.dumps`.
            EngineInput::Schema(schema) => {
                compiler.compile_json_schema(&schema, any_whitespace, None, None, strict, None)
            }
            EngineInput::Regex(regex) => compiler.compile_regex(regex),
            EngineInput::Ebnf(text) => compiler.compile_grammar_ebnf(&text, "root"),
            EngineInput::Lark(text) => compiler.compile_lark(text, &[]),
            EngineInput::StructuralTag(tag) => compiler.compile_structural_tag(&tag),
        };
        let compiled = compiled.map_err(|error| classify(&error.to_string()))?;
        Ok(Arc::new(XgrammarGrammar::new(
            compiled,
            Arc::clone(&self.vocabulary),
        )))
    }
}

/// Refuses a schema with a feature on vLLM's list.
fn refuse_vllm_unsupported(schema: &serde_json::Value) -> Result<(), EngineError> {
    let Some(feature) = vllm_unsupported::unsupported_feature(schema) else {
        return Ok(());
    };
    let message = format!("vLLM does not route this JSON Schema feature to xgrammar: {feature}");
    Err(EngineError::unsupported(feature, message))
}

/// Converts the vocabulary for the port. Tokens without bytes (special and unused ids) are special
/// there.
fn tokenizer(vocabulary: &Vocabulary) -> SobenchResult<TokenizerInfo> {
    let too_many = |_| Error::internal("vocabulary ids do not fit in the 32-bit ids of xgrammar");
    let size = i32::try_from(vocabulary.len()).map_err(too_many)?;
    let eos = i32::try_from(vocabulary.eos()).map_err(too_many)?;
    let token_bytes: Vec<Vec<u8>> = (0..)
        .take(vocabulary.len())
        .map(|id| vocabulary.bytes(id).to_vec())
        .collect();
    TokenizerInfo::new_from_bytes(
        &token_bytes,
        VocabType::Raw,
        Some(size),
        Some(vec![eos]),
        false,
    )
    .map_err(|error| vocabulary_error(&error))
}

fn vocabulary_error(error: &dyn std::fmt::Display) -> Error {
    Error::internal(format!("xgrammar rejects the vocabulary: {error}"))
}

#[cfg(test)]
mod tests;
