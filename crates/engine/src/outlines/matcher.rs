//! Stepping through an index that outlines-core compiled. Knows states and tokens, not what they
//! stand for.

use std::sync::Arc;

use outlines_core::index::Index;

use super::size::{outer_bytes, table_bytes};
use crate::{EngineError, Grammar, Matcher, TokenId, TokenMask, check_rollback, token_taken};

/// Bytes of an entry in a state's table: a token and the state after it.
const ENTRY_BYTES: u64 = 8;

/// Most tokens that are called forced at once.
const MAX_FORCED_TOKENS: usize = 1024;

/// A compiled constraint.
pub(super) struct OutlinesGrammar {
    core: Arc<Core>,
    bytes: u64,
}

struct Core {
    index: Index,
    eos: TokenId,
    /// Ids of the vocabulary: the length of a mask.
    tokens: usize,
}

impl OutlinesGrammar {
    /// Takes the index over a vocabulary of `tokens` ids that ends an answer with `eos`.
    pub(super) fn new(index: Index, eos: TokenId, tokens: usize) -> Self {
        let tables = index.transitions();
        let inner: u64 = tables
            .values()
            .map(|table| table_bytes(table.capacity() as u64, ENTRY_BYTES))
            .sum();
        let bytes = inner + outer_bytes(tables.capacity() as u64);
        Self {
            core: Arc::new(Core { index, eos, tokens }),
            bytes,
        }
    }
}

impl Grammar for OutlinesGrammar {
    fn matcher(&self) -> Result<Box<dyn Matcher>, EngineError> {
        let state = self.core.index.initial_state();
        Ok(Box::new(OutlinesMatcher {
            core: Arc::clone(&self.core),
            state,
            path: Vec::new(),
            ended: false,
        }))
    }

    /// The slots of the library's hash tables, from their capacities.
    fn memory_bytes(&self) -> Option<u64> {
        Some(self.bytes)
    }
}

#[derive(Clone)]
struct OutlinesMatcher {
    core: Arc<Core>,
    state: u32,
    /// The states before each committed token.
    path: Vec<u32>,
    ended: bool,
}

impl OutlinesMatcher {
    fn accepting(&self) -> bool {
        self.ended || self.core.index.is_final_state(&self.state)
    }
}

impl Matcher for OutlinesMatcher {
    fn mask(&mut self, mask: &mut TokenMask) -> Result<(), EngineError> {
        mask.clear(self.core.tokens);
        if self.ended {
            mask.allow(self.core.eos);
            return Ok(());
        }
        // A final state has an entry for the end token among the others.
        if let Some(tokens) = self.core.index.allowed_tokens_iter(&self.state) {
            tokens.for_each(|&token| mask.allow(token));
        }
        Ok(())
    }

    fn commit(&mut self, token: TokenId) -> Result<(), EngineError> {
        let next = if self.ended {
            None
        } else if token == self.core.eos {
            self.accepting().then_some(self.state)
        } else {
            self.core.index.next_state(&self.state, &token)
        };
        let Some(next) = next else {
            return token_taken(false, token);
        };
        self.path.push(self.state);
        self.state = next;
        self.ended = token == self.core.eos;
        Ok(())
    }

    fn is_accepting(&mut self) -> Result<bool, EngineError> {
        Ok(self.accepting())
    }

    fn forced_tokens(&mut self) -> Vec<TokenId> {
        let index = &self.core.index;
        let mut state = self.state;
        let only = std::iter::from_fn(|| {
            let mut allowed = index.allowed_tokens_iter(&state)?;
            let token = *allowed.next().filter(|_| allowed.next().is_none())?;
            // None for the end, which is the model's to say.
            state = index.next_state(&state, &token)?;
            Some(token)
        });
        // More steps than there are states: a circle, and nothing in it is ever finished.
        let steps = if self.ended {
            0
        } else {
            index.transitions().len().min(MAX_FORCED_TOKENS)
        };
        only.take(steps).collect()
    }

    fn rollback(&mut self, tokens: usize) -> Result<(), EngineError> {
        let held = self.path.len();
        check_rollback(tokens, held)?;
        if tokens > 0 {
            self.state = self.path[held - tokens];
            self.path.truncate(held - tokens);
            self.ended = false;
        }
        Ok(())
    }

    fn fork(&self) -> Box<dyn Matcher> {
        Box::new(self.clone())
    }
}
