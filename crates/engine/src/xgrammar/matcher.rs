//! Stepping through a grammar that the port of xgrammar compiled. Knows no JSON and no regex.

use std::sync::Arc;

use xgrammar_port::{CompiledGrammar, GrammarMatcher, MatcherError};

use crate::{EngineError, Grammar, Matcher, TokenId, TokenMask, Vocabulary, token_taken};

/// Tokens that are left off the end of a forced text. The tokenizer may join them with what
/// follows; with two left off, joined texts were not seen to be spelt differently.
const UNSETTLED_TOKENS: usize = 2;

/// A compiled grammar.
pub(super) struct XgrammarGrammar(Arc<Core>);

struct Core {
    compiled: CompiledGrammar,
    vocabulary: Arc<Vocabulary>,
    /// A rule may take only so many tokens. Where such a rule runs out, the end that the mask
    /// allows is not yet the end of the grammar, and only the mask knows.
    budgeted: bool,
}

impl XgrammarGrammar {
    pub(super) fn new(compiled: CompiledGrammar, vocabulary: Arc<Vocabulary>) -> Self {
        let budgeted = compiled
            .grammar()
            .rules()
            .iter()
            .any(|rule| rule.max_tokens >= 0);
        Self(Arc::new(Core {
            compiled,
            vocabulary,
            budgeted,
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

    /// As the library counts, without the bytes of the vocabulary, which it adds to every grammar
    /// although all share them.
    fn memory_bytes(&self) -> Option<u64> {
        /// What the library adds for a token beside its bytes.
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
        let row = mask.fit(vocabulary.len());
        if self.inner.is_terminated() {
            mask.only(vocabulary.eos());
            return Ok(());
        }
        // Whether the mask need be applied at all is not asked: every bit is written, also where
        // all are set.
        let words = row.len() as i64;
        self.inner
            .fill_next_token_bitmask(bytemuck::cast_slice_mut(row), &[words], 0)
            .map_err(refused)?;
        mask.cut(vocabulary.len());
        Ok(())
    }

    fn commit(&mut self, token: TokenId) -> Result<(), EngineError> {
        let vocabulary = &self.core.vocabulary;
        // Never asked after the end or about a token without bytes: the library would say no on
        // stderr.
        let askable = !self.inner.is_terminated()
            && (token == vocabulary.eos() || !vocabulary.bytes(token).is_empty());
        let taken = askable && i32::try_from(token).is_ok_and(|id| self.inner.accept_token(id));
        token_taken(taken, token)
    }

    fn is_accepting(&mut self) -> Result<bool, EngineError> {
        if self.core.budgeted && !self.inner.is_terminated() {
            let mut mask = TokenMask::default();
            self.clone().mask(&mut mask)?;
            return Ok(mask.allows(self.core.vocabulary.eos()));
        }
        Ok(self.inner.is_completed())
    }

    /// The library forces text, not tokens: its masks allow every way to spell what must come.
    /// These are the tokens in which a model would spell it.
    fn forced_tokens(&mut self) -> Vec<TokenId> {
        let Ok(mut bytes) = self.inner.find_jump_forward_string() else {
            return Vec::new();
        };
        let whole = match std::str::from_utf8(&bytes) {
            Ok(_) => bytes.len(),
            // The first bytes of a character are forced, and the rest is open.
            Err(error) => error.valid_up_to(),
        };
        bytes.truncate(whole);
        let text = String::from_utf8(bytes).unwrap_or_default();
        let mut tokens = self.core.vocabulary.encode(&text);
        tokens.truncate(tokens.len().saturating_sub(UNSETTLED_TOKENS));
        tokens
    }

    fn rollback(&mut self, tokens: usize) -> Result<(), EngineError> {
        let tokens = i32::try_from(tokens).unwrap_or(i32::MAX);
        self.inner.rollback(tokens).map_err(refused)
    }

    fn fork(&self) -> Box<dyn Matcher> {
        Box::new(self.clone())
    }
}

#[allow(clippy::needless_pass_by_value, reason = "given to map_err")]
fn refused(error: MatcherError) -> EngineError {
    EngineError::Invalid {
        words: error.to_string(),
    }
}
