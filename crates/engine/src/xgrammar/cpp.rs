//! The original xgrammar in C++ as an [`Engine`], through the crate `xgrammar`. Knows tokens and
//! masks, neither HTTP nor models.
//!
//! The vocabulary is handed over as JSON that the port writes: the bindings have no other way for
//! tokens that are not a tokenizer's file. The library reports refusals by an exception, whose
//! message opens with a time and a path; both are cut off. It has a forced text as well, which the
//! bindings do not pass on.

use std::ffi::c_void;
use std::sync::Arc;

use dlpark::ffi::{DataType, Device};
use dlpark::traits::{InferDataType, RowMajorCompactLayout, TensorLike};
use dlpark::versioned::SafeManagedTensorVersioned as Tensor;
use xgrammar_cpp::{
    CompiledGrammar, Grammar as Converted, GrammarCompiler, GrammarMatcher, TokenizerInfo,
    XGrammarErr,
};

use super::source::Source;
use super::words::classified;
use super::{DIALECTS, refuse_listed, settings, size};
use crate::{
    Engine, EngineError, EnginePolicy, Grammar, Matcher, TokenId, TokenMask, Vocabulary,
    token_taken,
};
use sobench_core::constraint::{Constraint, GrammarDialect};
use sobench_core::error::{Error, Result as OurResult};

/// The original's version is the one that the bindings' README states; theirs is held to
/// `Cargo.lock` by a test.
const VERSION: &str = "xgrammar (C++) 0.2.8 through xgrammar 0.6.0";

/// The original.
pub(super) struct XgrammarCpp {
    compiler: GrammarCompiler,
    tokenizer: TokenizerInfo,
    vocabulary: Arc<Vocabulary>,
    policy: EnginePolicy,
}

impl XgrammarCpp {
    pub(super) fn new(vocabulary: Arc<Vocabulary>, policy: &EnginePolicy) -> OurResult<Self> {
        let json = super::tokenizer(&vocabulary)?.serialize_json();
        let tokenizer = TokenizerInfo::deserialize_json(&json).map_err(|error| {
            Error::internal(format!(
                "xgrammar (C++) does not take the vocabulary: {}",
                said(&error)
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
        size::refuse_explosive(constraint)
    }

    /// As the port's.
    fn validate(&self, constraint: &Constraint) -> Result<(), EngineError> {
        if let Constraint::JsonSchema(schema) = constraint {
            refuse_listed(schema)?;
        }
        self.read(constraint).map(drop)
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
            Source::Schema(schema) => compiler.compile_json_schema(
                &schema,
                Some(any_whitespace),
                None,
                None,
                Some(strict),
                None,
                None,
            ),
            Source::Regex(regex) => compiler.compile_regex(regex),
            Source::Ebnf(_) => compiler.compile_grammar(&self.read(constraint)?),
            Source::Lark(text) => compiler.compile_lark(text, None),
            Source::StructuralTag(tag) => compiler.compile_structural_tag(&tag),
        };
        let compiled = compiled.map_err(|error| classified(&said(&error)))?;
        Ok(Arc::new(CppGrammar {
            compiled,
            vocabulary: Arc::clone(&self.vocabulary),
        }))
    }
}

impl XgrammarCpp {
    /// The library's reading of a constraint, not compiled.
    fn read(&self, constraint: &Constraint) -> Result<Converted, EngineError> {
        let EnginePolicy {
            any_whitespace,
            xgrammar_strict: strict,
            ..
        } = self.policy;
        let read = match Source::of(constraint)? {
            Source::Schema(schema) => Converted::from_json_schema(
                &schema,
                Some(any_whitespace),
                None,
                None,
                Some(strict),
                None,
                None,
                None,
            ),
            Source::Regex(regex) => Converted::from_regex(regex, None),
            Source::Ebnf(text) => Converted::from_ebnf(&text, Some("root")),
            Source::Lark(text) => Converted::from_lark(text, Some(&self.tokenizer), None),
            Source::StructuralTag(tag) => {
                Converted::from_structural_tag(&tag, Some(&self.tokenizer))
            }
        };
        read.map_err(|error| classified(&said(&error)))
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
        let row = mask.fit(vocabulary.len());
        if self.inner.is_terminated() {
            mask.only(vocabulary.eos());
            return Ok(());
        }
        fill(&mut self.inner, row)?;
        mask.cut(vocabulary.len());
        Ok(())
    }

    fn commit(&mut self, token: TokenId) -> Result<(), EngineError> {
        // Never asked after the end or about a token without bytes: the library would say no on
        // stderr.
        let known = token == self.vocabulary.eos() || !self.vocabulary.bytes(token).is_empty();
        let askable = known && !self.inner.is_terminated();
        let taken =
            askable && i32::try_from(token).is_ok_and(|id| self.inner.accept_token(id, None));
        token_taken(taken, token)
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
            .map_err(|error| classified(&said(&error)))
    }

    fn fork(&self) -> Box<dyn Matcher> {
        Box::new(Self {
            inner: self.inner.fork(),
            vocabulary: Arc::clone(&self.vocabulary),
        })
    }
}

/// The words of a mask as the bindings want them: a tensor over memory that is not its own.
struct Row {
    words: *mut c_void,
    len: i64,
}

impl TensorLike<RowMajorCompactLayout> for Row {
    type Error = dlpark::Error;

    fn data_ptr(&self) -> *mut c_void {
        self.words
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

/// Fills `words` in place. The tensor lives in this function alone, and so does not outlive what it
/// points to; a copy out of a tensor that owns its memory would cost more than a small mask.
fn fill(matcher: &mut GrammarMatcher, words: &mut [u32]) -> Result<(), EngineError> {
    let row = Row {
        words: words.as_mut_ptr().cast(),
        len: words.len() as i64,
    };
    let mut tensor = Tensor::new(row).map_err(|error| EngineError::Crashed {
        words: error.to_string(),
    })?;
    matcher
        .fill_next_token_bitmask(&mut tensor, None, None)
        .map_err(|error| classified(&said(&error)))?;
    Ok(())
}

/// What the library said, without the time and the place in its source that it opens with, and the
/// check that failed there.
fn said(error: &XGrammarErr) -> String {
    let words = error.to_string();
    let placed = words
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("] "))
        .and_then(|(_, rest)| rest.split_once(": "));
    let message = placed.map_or(words.as_str(), |(_, message)| message);
    let checked = message
        .strip_prefix("Check failed: ")
        .and_then(|rest| rest.split_once(" is false: "));
    checked
        .map_or(message, |(_, message)| message)
        .trim()
        .to_owned()
}

#[cfg(test)]
mod parity;
