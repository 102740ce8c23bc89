//! Matcher for grammars compiled by the port of xgrammar.

use std::sync::Arc;

use xgrammar_port::{CompiledGrammar, GrammarMatcher, MatcherError};

use crate::{EngineError, Grammar, Matcher, TokenId, TokenMask, Vocabulary, commit_result};

/// Number of tokens that are dropped from the end of forced text. The tokenizer may merge them with
/// the following text; with two dropped, no different tokenization was observed.
const UNSETTLED_TOKENS: usize = 2;

/// A compiled grammar.
pub(super) struct XgrammarGrammar(Arc<Core>);

struct Core {
    compiled: CompiledGrammar,
    vocabulary: Arc<Vocabulary>,
    /// Whether a rule limits its number of tokens. After such a rule reaches its limit, the mask
    /// allows the end token although the grammar is not completed, so acceptance is read from the
    /// mask.
    has_token_limit: bool,
}

impl XgrammarGrammar {
    pub(super) fn new(compiled: CompiledGrammar, vocabulary: Arc<Vocabulary>) -> Self {
        let has_token_limit = compiled
            .grammar()
            .rules()
            .iter()
            .any(|rule| rule.max_tokens >= 0);
        Self(Arc::new(Core {
            compiled,
            vocabulary,
            has_token_limit,
        }))
    }
}

impl Grammar for XgrammarGrammar {
    fn matcher(&self) -> Result<Box<dyn Matcher>, EngineError> {
        let inner = GrammarMatcher::from_compiled_grammar(&self.0.compiled, false);
        Ok(Box::new(XgrammarMatcher {
            core: Arc::clone(&self.0),
            inner,
        }))
    }

    /// The library's count without the vocabulary bytes, which it adds to every grammar although
    /// all grammars share them.
    fn memory_bytes(&self) -> Option<u64> {
        /// Bytes that the library adds for a token beside its text.
        const TOKEN_OVERHEAD: usize = 16;
        let decoded = self.0.compiled.tokenizer_info().decoded_vocab();
        let vocabulary: usize = decoded
            .iter()
            .map(|token| token.len() + TOKEN_OVERHEAD)
            .sum();
        u64::try_from(
            self.0
                .compiled
                .memory_size_bytes()
                .saturating_sub(vocabulary),
        )
        .ok()
    }
}

#[derive(Clone)]
struct XgrammarMatcher {
    core: Arc<Core>,
    inner: GrammarMatcher,
}

impl Matcher for XgrammarMatcher {
    fn mask(&mut self, mask: &mut TokenMask) -> Result<(), EngineError> {
        let vocabulary = &self.core.vocabulary;
        let row = mask.words_mut(vocabulary.len());
        if self.inner.is_terminated() {
            mask.set_only(vocabulary.eos());
            return Ok(());
        }
        // The return value, whether the mask is restrictive, is ignored: every bit is written even
        // if all are set.
        let word_count = row.len() as i64;
        self.inner
            .fill_next_token_bitmask(bytemuck::cast_slice_mut(row), &[word_count], 0)
            .map_err(matcher_error)?;
        mask.clear_past_end(vocabulary.len());
        Ok(())
    }

    fn commit(&mut self, token: TokenId) -> Result<(), EngineError> {
        let vocabulary = &self.core.vocabulary;
        // Not called after the end or with a token without bytes: the library would write a message
        // to stderr.
        let may_accept = !self.inner.is_terminated()
            && (token == vocabulary.eos() || !vocabulary.bytes(token).is_empty());
        let accepted =
            may_accept && i32::try_from(token).is_ok_and(|id| self.inner.accept_token(id));
        commit_result(accepted, token)
    }

    fn is_accepting(&mut self) -> Result<bool, EngineError> {
        if self.core.has_token_limit && !self.inner.is_terminated() {
            let mut mask = TokenMask::default();
            self.clone().mask(&mut mask)?;
            return Ok(mask.allows(self.core.vocabulary.eos()));
        }
        Ok(self.inner.is_completed())
    }

    /// The library forces text, not tokens: its masks allow every tokenization of the forced text.
    /// Returns the tokens that a model would use.
    fn forced_tokens(&mut self) -> Vec<TokenId> {
        let Ok(mut bytes) = self.inner.find_jump_forward_string() else {
            return Vec::new();
        };
        let valid_bytes = match std::str::from_utf8(&bytes) {
            Ok(_) => bytes.len(),
            // Only the first bytes of the last character are forced.
            Err(error) => error.valid_up_to(),
        };
        bytes.truncate(valid_bytes);
        let text = String::from_utf8(bytes).unwrap_or_default();
        let mut tokens = self.core.vocabulary.encode(&text);
        tokens.truncate(tokens.len().saturating_sub(UNSETTLED_TOKENS));
        tokens
    }

    fn rollback(&mut self, tokens: usize) -> Result<(), EngineError> {
        let tokens = i32::try_from(tokens).unwrap_or(i32::MAX);
        self.inner.rollback(tokens).map_err(matcher_error)
    }

    fn fork(&self) -> Box<dyn Matcher> {
        Box::new(self.clone())
    }
}

#[allow(clippy::needless_pass_by_value, reason = "given to map_err")]
fn matcher_error(error: MatcherError) -> EngineError {
    EngineError::Invalid {
        message: error.to_string(),
    }
}
