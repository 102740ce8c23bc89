//! Matcher for indexes compiled by outlines-core.

use std::sync::Arc;

use outlines_core::index::Index;

use super::index_size::{hash_table_bytes, state_table_bytes};
use crate::{EngineError, Grammar, Matcher, TokenId, TokenMask, check_rollback, commit_result};

/// Bytes of an entry in a state's table: a token and the next state.
const ENTRY_BYTES: u64 = 8;

/// Maximum number of forced tokens that are returned at once.
const MAX_FORCED_TOKENS: usize = 1024;

/// A compiled constraint.
pub(super) struct OutlinesGrammar {
    core: Arc<Core>,
    bytes: u64,
}

struct Core {
    index: Index,
    eos: TokenId,
    /// Vocabulary size: the length of a mask.
    tokens: usize,
}

impl OutlinesGrammar {
    /// Wraps an index over a vocabulary of `tokens` ids with the end token `eos`.
    pub(super) fn new(index: Index, eos: TokenId, tokens: usize) -> Self {
        let tables = index.transitions();
        let inner: u64 = tables
            .values()
            .map(|table| hash_table_bytes(table.capacity() as u64, ENTRY_BYTES))
            .sum();
        let bytes = inner + state_table_bytes(tables.capacity() as u64);
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
            previous_states: Vec::new(),
            ended: false,
        }))
    }

    /// Size of the library's hash tables, computed from their capacities.
    fn memory_bytes(&self) -> Option<u64> {
        Some(self.bytes)
    }
}

#[derive(Clone)]
struct OutlinesMatcher {
    core: Arc<Core>,
    state: u32,
    /// State before each committed token.
    previous_states: Vec<u32>,
    ended: bool,
}

impl OutlinesMatcher {
    fn is_final(&self) -> bool {
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
        // A final state has an entry for the end token.
        if let Some(tokens) = self.core.index.allowed_tokens_iter(&self.state) {
            tokens.for_each(|&token| mask.allow(token));
        }
        Ok(())
    }

    fn commit(&mut self, token: TokenId) -> Result<(), EngineError> {
        let next = if self.ended {
            None
        } else if token == self.core.eos {
            self.is_final().then_some(self.state)
        } else {
            self.core.index.next_state(&self.state, &token)
        };
        let Some(next) = next else {
            return commit_result(false, token);
        };
        self.previous_states.push(self.state);
        self.state = next;
        self.ended = token == self.core.eos;
        Ok(())
    }

    fn is_accepting(&mut self) -> Result<bool, EngineError> {
        Ok(self.is_final())
    }

    fn forced_tokens(&mut self) -> Vec<TokenId> {
        let index = &self.core.index;
        let mut state = self.state;
        let only = std::iter::from_fn(|| {
            let mut allowed = index.allowed_tokens_iter(&state)?;
            let token = *allowed.next().filter(|_| allowed.next().is_none())?;
            // `None` for the end token: ending is not forced.
            state = index.next_state(&state, &token)?;
            Some(token)
        });
        // More steps than states mean a cycle, which never reaches a final state.
        let steps = if self.ended {
            0
        } else {
            index.transitions().len().min(MAX_FORCED_TOKENS)
        };
        only.take(steps).collect()
    }

    fn rollback(&mut self, tokens: usize) -> Result<(), EngineError> {
        let committed = self.previous_states.len();
        check_rollback(tokens, committed)?;
        if tokens > 0 {
            self.state = self.previous_states[committed - tokens];
            self.previous_states.truncate(committed - tokens);
            self.ended = false;
        }
        Ok(())
    }

    fn fork(&self) -> Box<dyn Matcher> {
        Box::new(self.clone())
    }
}
