//! xgrammar as an [`Engine`]: the crate `xgrammar-rs`, a port of xgrammar to Rust, and behind a
//! feature the original in C++.
//!
//! xgrammar takes most JSON Schemas and ignores what it has no rule for, with a warning on stderr
//! at most; that is what it does in servers, and nothing here mends it. [`Engine::validate`] is
//! vLLM's check of an incoming request, which turns some of these schemas away. Objects take their
//! members in the schema's order. A regex is anchored at both ends and its classes are ASCII. The
//! libraries' own caches are off: compiles are cold, and [`super::cache`] counts hits. A server has
//! them on, which also shares work between equal rules of one grammar; the port panics there on
//! some schemas.

#[cfg(feature = "engine-xgrammar-cpp")]
mod cpp;
mod features;
mod matcher;
mod size;
mod source;
mod words;

use std::sync::Arc;

use xgrammar_port::compiler::CompileError;
use xgrammar_port::{Grammar as Converted, GrammarCompiler, TokenizerInfo, VocabType};

use super::{
    Declared, Departure, Engine, EngineError, EnginePolicy, EngineSpec, Grammar, Open, Vocabulary,
};
use matcher::XgrammarGrammar;
use sobench_core::constraint::{Constraint, GrammarDialect};
use sobench_core::error::{Error, Result as OurResult};
use source::Source;
use words::classified;

/// Held to `Cargo.lock` by a test.
const VERSION: &str = "xgrammar-rs 0.2.8, port";

/// What the library takes for "no limit" on its cache, which is off.
const NO_LIMIT: i64 = -1;

pub(super) const SPEC: EngineSpec = EngineSpec {
    name: "xgrammar",
    open: Some(|vocabulary, policy| Ok(Arc::new(Xgrammar::new(vocabulary, policy)?))),
    build_hint: "",
    measured: true,
    departures: &DEPARTURES,
    listed_keywords: &[],
    relaxations: |policy| {
        let relaxed = EnginePolicy {
            xgrammar_strict: false,
            ..policy.clone()
        };
        policy
            .xgrammar_strict
            .then_some((Departure::AdditionalProperties, relaxed))
            .into_iter()
            .collect()
    },
};

/// The original in C++.
pub(super) const CPP_SPEC: EngineSpec = EngineSpec {
    name: "xgrammar-cpp",
    open: OPEN_CPP,
    build_hint: "build with --features engine-xgrammar-cpp, which needs cmake and clang++",
    measured: false,
    ..SPEC
};

#[cfg(feature = "engine-xgrammar-cpp")]
const OPEN_CPP: Option<Open> =
    Some(|vocabulary, policy| Ok(Arc::new(cpp::XgrammarCpp::new(vocabulary, policy)?)));
#[cfg(not(feature = "engine-xgrammar-cpp"))]
const OPEN_CPP: Option<Open> = None;

const DEPARTURES: [Declared; 2] = [
    Declared::new(
        Departure::MemberOrder,
        "members come in the order of the schema unless any_order is set",
        "xgrammar, Grammar.from_json_schema, any_order",
    ),
    Declared::new(
        Departure::AdditionalProperties,
        "with strict_mode no member or item that the schema does not name",
        "xgrammar, Grammar.from_json_schema, strict_mode",
    ),
];

/// The port: tokenizer tables built once, about 20 MB.
struct Xgrammar {
    compiler: GrammarCompiler,
    /// The compiler's own.
    tokenizer: Arc<TokenizerInfo>,
    vocabulary: Arc<Vocabulary>,
    policy: EnginePolicy,
}

/// The part of the policy that matters to both libraries.
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

/// The notations that both libraries read.
const DIALECTS: &[GrammarDialect] = &[GrammarDialect::Ebnf, GrammarDialect::Lark];

impl Xgrammar {
    fn new(vocabulary: Arc<Vocabulary>, policy: &EnginePolicy) -> OurResult<Self> {
        let threads = i32::try_from(policy.compile_threads).unwrap_or(i32::MAX);
        let compiler = GrammarCompiler::new(tokenizer(&vocabulary)?, threads, false, NO_LIMIT);
        // The compiler gives its tables away only with a grammar; a copy of them would take as much
        // memory again.
        let any = compiler
            .compile_grammar_ebnf("root ::= \"a\"", "root")
            .map_err(|error| unfit(&error))?;
        Ok(Self {
            tokenizer: any.tokenizer_info_arc(),
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
        size::refuse_explosive(constraint)
    }

    /// What `validate_xgrammar` of vLLM 0.33 does: its list of features, then the library's reading
    /// of the constraint.
    fn validate(&self, constraint: &Constraint) -> Result<(), EngineError> {
        if let Constraint::JsonSchema(schema) = constraint {
            refuse_listed(schema)?;
        }
        let EnginePolicy {
            any_whitespace,
            xgrammar_strict: strict,
            ..
        } = self.policy;
        let read: Result<Converted, CompileError> = match Source::of(constraint)? {
            Source::Schema(schema) => {
                Converted::from_json_schema(&schema, any_whitespace, None, None, strict, None)
                    .map_err(Into::into)
            }
            Source::Regex(regex) => Converted::from_regex(regex).map_err(Into::into),
            Source::Ebnf(text) => Converted::from_ebnf(&text, "root").map_err(Into::into),
            Source::Lark(text) => {
                Converted::from_lark(text, Some(&self.tokenizer), &[]).map_err(Into::into)
            }
            Source::StructuralTag(tag) => {
                Converted::from_structural_tag_with_tokenizer(&tag, &self.tokenizer)
                    .map_err(Into::into)
            }
        };
        read.map(|_| ())
            .map_err(|error| classified(&error.to_string()))
    }

    fn compile(&self, constraint: &Constraint) -> Result<Arc<dyn Grammar>, EngineError> {
        let EnginePolicy {
            any_whitespace,
            xgrammar_strict: strict,
            ..
        } = self.policy;
        let compiler = &self.compiler;
        let compiled = match Source::of(constraint)? {
            // Without indentation and separators of ours, the library takes those of Python's
            // `json.dumps`.
            Source::Schema(schema) => {
                compiler.compile_json_schema(&schema, any_whitespace, None, None, strict, None)
            }
            Source::Regex(regex) => compiler.compile_regex(regex),
            Source::Ebnf(text) => compiler.compile_grammar_ebnf(&text, "root"),
            Source::Lark(text) => compiler.compile_lark(text, &[]),
            Source::StructuralTag(tag) => compiler.compile_structural_tag(&tag),
        };
        let compiled = compiled.map_err(|error| classified(&error.to_string()))?;
        Ok(Arc::new(XgrammarGrammar::new(
            compiled,
            Arc::clone(&self.vocabulary),
        )))
    }
}

/// Refuses a schema for the first feature on vLLM's list.
fn refuse_listed(schema: &serde_json::Value) -> Result<(), EngineError> {
    let Some(feature) = features::unsupported(schema) else {
        return Ok(());
    };
    let words =
        format!("the JSON Schema has a feature that vLLM does not give to xgrammar: {feature}");
    Err(EngineError::unsupported(feature, words))
}

/// The vocabulary as the port wants it. Special and unused ids have no bytes, which is what makes a
/// token special there.
fn tokenizer(vocabulary: &Vocabulary) -> OurResult<TokenizerInfo> {
    let too_many = |_| Error::internal("vocabulary has more ids than xgrammar can count");
    let size = i32::try_from(vocabulary.len()).map_err(too_many)?;
    let eos = i32::try_from(vocabulary.eos()).map_err(too_many)?;
    let words: Vec<Vec<u8>> = (0..)
        .take(vocabulary.len())
        .map(|id| vocabulary.bytes(id).to_vec())
        .collect();
    TokenizerInfo::new_from_bytes(&words, VocabType::Raw, Some(size), Some(vec![eos]), false)
        .map_err(|error| unfit(&error))
}

fn unfit(error: &dyn std::fmt::Display) -> Error {
    Error::internal(format!("xgrammar does not take the vocabulary: {error}"))
}

#[cfg(test)]
mod tests;
