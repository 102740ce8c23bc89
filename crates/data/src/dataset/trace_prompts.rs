//! Prompts for requests of which only the lengths were recorded: random tokens. Prompts whose first
//! blocks have the same names have the same prefix.

use super::exact_length::{check_amount, check_total, fit_to_length, notice, plain_tokens};
use crate::recorded::{BLOCK_TOKENS, Lengths};
use crate::tokenizer::Tokenizer;
use sobench_core::error::Result;
use sobench_notices::notice::Notice;
use sobench_pycompat::random::PythonRandom;

/// Separates the random stream of these prompts from other draws: the ASCII codes of `trac`.
const STREAM: u128 = 0x7472_6163 << 96;

/// Makes the prompts of a trace.
pub struct TracePrompts<'t> {
    tokenizer: &'t Tokenizer,
    seed: u64,
    /// Tokens that are not special. Empty until the first prompt.
    allowed: Vec<u32>,
    /// The next name of a block that only one prompt has. They count down, because those of traces
    /// count up.
    own_block: u64,
    total_tokens: u64,
    /// Tokens above the recorded lengths.
    excess: i64,
}

impl<'t> TracePrompts<'t> {
    pub fn new(tokenizer: &'t Tokenizer, seed: u64) -> Self {
        Self {
            tokenizer,
            seed,
            allowed: Vec::new(),
            own_block: u64::MAX,
            total_tokens: 0,
            excess: 0,
        }
    }

    /// A prompt of this length.
    ///
    /// # Errors
    /// There are no tokens to draw from, or too many are needed.
    pub fn text(&mut self, lengths: &Lengths) -> Result<String> {
        if self.allowed.is_empty() {
            self.allowed = plain_tokens(self.tokenizer)?;
        }
        let length = lengths.input.max(1) as usize;
        self.total_tokens += length as u64;
        check_amount(length as u64, 1)?;
        check_total(self.total_tokens)?;
        let mut tokens = Vec::with_capacity(length + BLOCK_TOKENS);
        for place in 0..length.div_ceil(BLOCK_TOKENS) {
            let name = lengths.blocks.get(place).copied().unwrap_or_else(|| {
                self.own_block -= 1;
                self.own_block
            });
            tokens.extend(self.block(name));
        }
        tokens.truncate(length);
        let mut more = self.random(self.own_block);
        let sized = fit_to_length(self.tokenizer, tokens, length, &mut |missing| {
            draw(&mut more, &self.allowed, missing)
        });
        self.excess += sized.excess(length);
        Ok(sized.text)
    }

    /// The notice about prompts of other lengths.
    pub fn notice(&self) -> Option<Notice> {
        notice(self.excess)
    }

    fn block(&self, name: u64) -> Vec<u32> {
        draw(&mut self.random(name), &self.allowed, BLOCK_TOKENS)
    }

    fn random(&self, block: u64) -> PythonRandom {
        PythonRandom::from_u128(STREAM ^ (u128::from(block) << 64) ^ u128::from(self.seed))
    }
}

fn draw(random: &mut PythonRandom, allowed: &[u32], count: usize) -> Vec<u32> {
    (0..count)
        .map(|_| allowed[random.choice(allowed.len())])
        .collect()
}
