//! Prompts of a wanted length: token ids to text, and back until the count is right.

use crate::tokenizer::Tokenizer;
use sobench_core::error::{Error, Result};
use sobench_notices::notice::{DatasetNotice, Notice};

/// The most tokens of one prompt that is made.
pub const MAX_PROMPT_TOKENS: u32 = 10_000_000;
/// The most tokens of all prompts together that are made.
pub const MAX_MADE_TOKENS: u64 = 1_000_000_000;
/// How often a text is cut or filled up before its length is taken as it is: vLLM's own limit.
const MAX_TRIES: usize = 10;

/// A text with the tokens that it has when it is read again.
pub(super) struct Exact {
    pub(super) text: String,
    pub(super) tokens: Vec<u32>,
}

impl Exact {
    /// How many tokens more than wanted it has; negative where it has fewer.
    pub(super) fn excess(&self, wanted: usize) -> i64 {
        self.tokens.len() as i64 - wanted as i64
    }
}

/// Spells the tokens, reads the text again, cuts what is too long and fills up with drawn tokens
/// what is too short, up to eleven times: two tokens side by side may be read as one, or as three
/// (`gen_prompt_decode_to_target_len` of vLLM's benchmarks).
pub(super) fn of_length(
    tokenizer: &Tokenizer,
    mut tokens: Vec<u32>,
    wanted: usize,
    draw: &mut dyn FnMut(usize) -> Vec<u32>,
) -> Exact {
    let mut tries = 0;
    loop {
        let text = tokenizer.decode(&tokens);
        tokens = tokenizer.encode(&text);
        if tries == MAX_TRIES || tokens.len() == wanted {
            return Exact { text, tokens };
        }
        let missing = wanted.saturating_sub(tokens.len());
        tokens.truncate(wanted);
        if missing > 0 {
            tokens.extend(draw(missing));
        }
        tries += 1;
    }
}

/// The number of tokens that prompts are made of, at least one.
///
/// # Errors
/// The tokenizer has none.
pub(super) fn vocabulary_size(tokenizer: &Tokenizer) -> Result<u32> {
    Some(tokenizer.vocabulary_size())
        .filter(|size| *size > 0)
        .ok_or_else(|| {
            Error::usage(format!(
                "the tokenizer has no token to make prompts of: {}",
                tokenizer.id()
            ))
            .hint("give --tokenizer another one, or leave it out")
        })
}

/// Refuses prompts that are too long, or too much together.
///
/// # Errors
/// More tokens than [`MAX_PROMPT_TOKENS`] in one, or than [`MAX_MADE_TOKENS`] in all.
pub(super) fn check_amount(tokens: u64, prompts: usize) -> Result<()> {
    if tokens > u64::from(MAX_PROMPT_TOKENS) {
        return Err(Error::usage(format!(
            "a prompt would have more than {MAX_PROMPT_TOKENS} tokens: {tokens}"
        ))
        .hint("ask for shorter prompts"));
    }
    let all = tokens.saturating_mul(prompts as u64);
    if all > MAX_MADE_TOKENS {
        return Err(Error::usage(format!(
            "the prompts would have more than {MAX_MADE_TOKENS} tokens in all: {all}"
        ))
        .hint("ask for shorter prompts, or for fewer"));
    }
    Ok(())
}

/// What is said of prompts that did not come out as long as wanted.
pub(super) fn notice(excess: i64) -> Option<Notice> {
    (excess != 0).then(|| {
        DatasetNotice::PromptLengths {
            excess_tokens: excess,
        }
        .into()
    })
}
