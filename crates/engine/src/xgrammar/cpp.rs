//! Engine `xgrammar-cpp`: the original C++ xgrammar, through the crate `xgrammar`.
//!
//! The vocabulary is passed as JSON that the port writes, because the bindings support only
//! tokenizer files otherwise. The library reports refusals as exceptions whose message starts with
//! a time and a source location; both are removed. The library also computes forced text, but the
//! bindings do not expose it.

use std::ffi::c_void;
use std::sync::Arc;

use dlpark::ffi::{DataType, Device};
use dlpark::traits::{InferDataType, RowMajorCompactLayout, TensorLike};
use dlpark::versioned::SafeManagedTensorVersioned as Tensor;
use xgrammar_cpp::{
    CompiledGrammar, Grammar as ParsedGrammar, GrammarCompiler, GrammarMatcher, TokenizerInfo,
    XGrammarErr,
};

use super::errors::classify;
use super::input::EngineInput;
use super::{DIALECTS, refuse_vllm_unsupported, settings, unroll_estimate};
use crate::{
    Engine, EngineError, EnginePolicy, Grammar, Matcher, TokenId, TokenMask, Vocabulary,
    commit_result,
};
use sobench_core::constraint::{Constraint, GrammarDialect};
use sobench_core::error::{Error, Result as SobenchResult};

/// The version of the C++ library is the one in the README of the bindings. A test compares the
/// version of the bindings with `Cargo.lock`.
const VERSION: &str = "xgrammar (C++) 0.2.8 through xgrammar 0.6.0";

/// The original engine.
pub(super) struct XgrammarCpp {
    compiler: GrammarCompiler,
    tokenizer: TokenizerInfo,
    vocabulary: Arc<Vocabulary>,
    policy: EnginePolicy,
}

impl XgrammarCpp {
    pub(super) fn new(vocabulary: Arc<Vocabulary>, policy: &EnginePolicy) -> SobenchResult<Self> {
        let json = super::tokenizer(&vocabulary)?.serialize_json();
        let tokenizer = TokenizerInfo::deserialize_json(&json).map_err(|error| {
            Error::internal(format!(
                "xgrammar (C++) rejects the vocabulary: {}",
                library_message(&error)
            ))
        })?;
        let compiler =
            GrammarCompiler::with(&tokenizer, Some(policy.compile_threads), Some(false), None);
        Ok(Self {
            compiler,
            tokenizer,
            vocabulary,
            policy: policy.clone(),
        })
    }
}

impl Engine for XgrammarCpp {
    fn name(&self) -> &'static str {
        "xgrammar-cpp"
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

    /// As for the port.
    fn validate(&self, constraint: &Constraint) -> Result<(), EngineError> {
        if let Some(schema) = constraint.schema() {
            refuse_vllm_unsupported(schema)?;
        }
        self.parse(constraint).map(drop)
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
            EngineInput::Schema(schema) => compiler.compile_json_schema(
                &schema,
                Some(any_whitespace),
                None,
                None,
                Some(strict),
                None,
                None,
            ),
            EngineInput::Regex(regex) => compiler.compile_regex(regex),
            EngineInput::Ebnf(_) => compiler.compile_grammar(&self.parse(constraint)?),
            EngineInput::Lark(text) => compiler.compile_lark(text, None),
            EngineInput::StructuralTag(tag) => compiler.compile_structural_tag(&tag),
        };
        let compiled = compiled.map_err(|error| classify(&library_message(&error)))?;
        Ok(Arc::new(CppGrammar {
            compiled,
            vocabulary: Arc::clone(&self.vocabulary),
        }))
    }
}

impl XgrammarCpp {
    /// Parses a constraint without compiling it.
    fn parse(&self, constraint: &Constraint) -> Result<ParsedGrammar, EngineError> {
        let EnginePolicy {
            any_whitespace,
            xgrammar_strict: strict,
            ..
        } = self.policy;
        let parsed = match EngineInput::from_constraint(constraint)? {
            EngineInput::Schema(schema) => ParsedGrammar::from_json_schema(
                &schema,
                Some(any_whitespace),
                None,
                None,
                Some(strict),
                None,
                None,
                None,
            ),
            EngineInput::Regex(regex) => ParsedGrammar::from_regex(regex, None),
            EngineInput::Ebnf(text) => ParsedGrammar::from_ebnf(&text, Some("root")),
            EngineInput::Lark(text) => ParsedGrammar::from_lark(text, Some(&self.tokenizer), None),
            EngineInput::StructuralTag(tag) => {
                ParsedGrammar::from_structural_tag(&tag, Some(&self.tokenizer))
            }
        };
        parsed.map_err(|error| classify(&library_message(&error)))
    }
}

/// A compiled grammar.
struct CppGrammar {
    compiled: CompiledGrammar,
    vocabulary: Arc<Vocabulary>,
}

impl Grammar for CppGrammar {
    fn matcher(&self) -> Result<Box<dyn Matcher>, EngineError> {
        let inner = GrammarMatcher::with(&self.compiled, None, Some(false), None);
        Ok(Box::new(CppMatcher {
            inner,
            vocabulary: Arc::clone(&self.vocabulary),
        }))
    }

    fn memory_bytes(&self) -> Option<u64> {
        u64::try_from(self.compiled.memory_size_bytes()).ok()
    }
}

struct CppMatcher {
    inner: GrammarMatcher,
    vocabulary: Arc<Vocabulary>,
}

impl Matcher for CppMatcher {
    fn mask(&mut self, mask: &mut TokenMask) -> Result<(), EngineError> {
        let vocabulary = &self.vocabulary;
        let row = mask.words_mut(vocabulary.len());
        if self.inner.is_terminated() {
            mask.set_only(vocabulary.eos());
            return Ok(());
        }
        fill(&mut self.inner, row)?;
        mask.clear_past_end(vocabulary.len());
        Ok(())
    }

    fn commit(&mut self, token: TokenId) -> Result<(), EngineError> {
        // Not called after the end or with a token without bytes: the library would write a message
        // to stderr.
        let known = token == self.vocabulary.eos() || !self.vocabulary.bytes(token).is_empty();
        let may_accept = known && !self.inner.is_terminated();
        let accepted =
            may_accept && i32::try_from(token).is_ok_and(|id| self.inner.accept_token(id, None));
        commit_result(accepted, token)
    }

    fn is_accepting(&mut self) -> Result<bool, EngineError> {
        Ok(self.inner.is_completed())
    }

    fn forced_tokens(&mut self) -> Vec<TokenId> {
        Vec::new()
    }

    fn rollback(&mut self, tokens: usize) -> Result<(), EngineError> {
        let tokens = i32::try_from(tokens).unwrap_or(i32::MAX);
        self.inner
            .rollback(Some(tokens))
            .map_err(|error| classify(&library_message(&error)))
    }

    fn fork(&self) -> Box<dyn Matcher> {
        Box::new(Self {
            inner: self.inner.fork(),
            vocabulary: Arc::clone(&self.vocabulary),
        })
    }
}

/// The words of a mask as a borrowed tensor for the bindings.
struct MaskTensor {
    mask_words: *mut c_void,
    len: i64,
}

impl TensorLike<RowMajorCompactLayout> for MaskTensor {
    type Error = dlpark::Error;

    fn data_ptr(&self) -> *mut c_void {
        self.mask_words
    }

    fn memory_layout(&self) -> RowMajorCompactLayout {
        RowMajorCompactLayout::new(vec![self.len])
    }

    fn device(&self) -> dlpark::Result<Device> {
        Ok(Device::CPU)
    }

    fn data_type(&self) -> dlpark::Result<DataType> {
        Ok(i32::data_type())
    }

    fn byte_offset(&self) -> u64 {
        0
    }
}

/// Fills `mask_words` in place. The tensor is local to this function, so it does not outlive the
/// memory that it points to. Copying from a tensor that owns its memory would cost more than a
/// small mask.
fn fill(matcher: &mut GrammarMatcher, mask_words: &mut [u32]) -> Result<(), EngineError> {
    let row = MaskTensor {
        mask_words: mask_words.as_mut_ptr().cast(),
        len: mask_words.len() as i64,
    };
    let mut tensor = Tensor::new(row).map_err(|error| EngineError::Crashed {
        message: error.to_string(),
    })?;
    matcher
        .fill_next_token_bitmask(&mut tensor, None, None)
        .map_err(|error| classify(&library_message(&error)))?;
    Ok(())
}

/// The library's message without the time, the source location and the failed check.
fn library_message(error: &XGrammarErr) -> String {
    let message = error.to_string();
    let located = message
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("] "))
        .and_then(|(_, rest)| rest.split_once(": "));
    let message = located.map_or(message.as_str(), |(_, message)| message);
    let checked = message
        .strip_prefix("Check failed: ")
        .and_then(|rest| rest.split_once(" is false: "));
    checked
        .map_or(message, |(_, message)| message)
        .trim()
        .to_owned()
}

#[cfg(test)]
mod parity_tests;
