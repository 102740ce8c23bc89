//! A prefix cache: which prefixes of prompts the server has seen. It saves no time, since the model is
//! synthetic; it gives the count of cached tokens.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Mutex, PoisonError};

/// Bytes of a block of a prompt, about 16 tokens.
const BLOCK_BYTES: usize = 64;
/// The most blocks of the cache. A full cache starts again.
const MAX_BLOCKS: usize = 1_000_000;

/// The blocks of prompts that were seen, each with all blocks before it.
#[derive(Default)]
pub(super) struct PrefixCache {
    blocks: Mutex<HashSet<u64>>,
}

impl PrefixCache {
    /// Adds a prompt of `tokens` tokens. Returns the tokens of its longest prefix of whole blocks that
    /// was seen before, in proportion to its bytes.
    pub(super) fn add(&self, prompt: &str, tokens: u32) -> u32 {
        let mut chain = DefaultHasher::new();
        let chained = prompt.as_bytes().chunks_exact(BLOCK_BYTES).map(|block| {
            block.hash(&mut chain);
            chain.finish()
        });
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        if blocks.len() > MAX_BLOCKS {
            blocks.clear();
        }
        // The blocks after the first unknown one are unknown.
        let new = chained
            .map(|block| blocks.insert(block))
            .collect::<Vec<_>>();
        let known = new.iter().take_while(|is_new| !**is_new).count() * BLOCK_BYTES;
        (f64::from(tokens) * known as f64 / prompt.len().max(1) as f64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_blocks_of_known_prefixes_are_cached() {
        let cache = PrefixCache::default();
        let one = "a".repeat(128);
        assert_eq!(cache.add(&one, 32), 0);
        assert_eq!(cache.add(&one, 32), 32);
        assert_eq!(cache.add(&format!("{one}{}", "b".repeat(128)), 64), 32);
        assert_eq!(cache.add(&format!("c{one}"), 32), 0, "another start");
    }
}
