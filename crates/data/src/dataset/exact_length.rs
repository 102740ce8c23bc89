//! Generates prompts of a given length: decodes token ids to text and corrects the length.

use crate::tokenizer::Tokenizer;
use sobench_core::error::{Error, Result};
use sobench_notices::notice::{DatasetNotice, Notice};

/// The most tokens of one generated prompt.
pub const MAX_PROMPT_TOKENS: u32 = 10_000_000;
/// The most tokens of all generated prompts together.
pub const MAX_GENERATED_TOKENS: u64 = 1_000_000_000;
/// The most corrections of the length of one prompt: vLLM's limit.
const MAX_CORRECTIONS: usize = 10;

/// A text and the tokens that it encodes to.
pub(crate) struct SizedText {
    pub(crate) text: String,
    pub(super) tokens: Vec<u32>,
}

impl SizedText {
    /// The number of tokens above the target length. Negative if there are fewer.
    pub(super) fn excess(&self, target: usize) -> i64 {
        self.tokens.len() as i64 - target as i64
    }
}

/// Decodes the tokens and encodes the text again, since two adjacent tokens may encode as one, or
/// as three. Cuts a text that is too long and extends one that is too short with drawn tokens, at
/// most ten times (`gen_prompt_decode_to_target_len` of vLLM's benchmarks).
pub(crate) fn fit_to_length(
    tokenizer: &Tokenizer,
    mut tokens: Vec<u32>,
    target: usize,
    draw: &mut dyn FnMut(usize) -> Vec<u32>,
) -> SizedText {
    let mut corrections = 0;
    loop {
        let text = tokenizer.decode(&tokens);
        tokens = tokenizer.encode(&text);
        if corrections == MAX_CORRECTIONS || tokens.len() == target {
            return SizedText { text, tokens };
        }
        let missing = target.saturating_sub(tokens.len());
        tokens.truncate(target);
        if missing > 0 {
            tokens.extend(draw(missing));
        }
        corrections += 1;
    }
}

/// The size of the vocabulary for generated prompts, at least 1.
///
/// # Errors
/// The vocabulary is empty.
pub(super) fn vocabulary_size(tokenizer: &Tokenizer) -> Result<u32> {
    Some(tokenizer.vocabulary_size())
        .filter(|size| *size > 0)
        .ok_or_else(|| {
            Error::usage(format!(
                "the tokenizer has no tokens to generate prompts from: {}",
                tokenizer.id()
            ))
            .hint("give --tokenizer another one, or remove the flag")
        })
}

/// The tokens that are not special.
///
/// # Errors
/// All tokens are special.
pub(crate) fn plain_tokens(tokenizer: &Tokenizer) -> Result<Vec<u32>> {
    let special = tokenizer.special_ids();
    let plain: Vec<u32> = (0..tokenizer.vocabulary_size())
        .filter(|id| special.binary_search(id).is_err())
        .collect();
    match plain.is_empty() {
        true => Err(Error::usage(format!(
            "the tokenizer has only special tokens: {}",
            tokenizer.id()
        ))),
        false => Ok(plain),
    }
}

/// Refuses prompts that are too long, or that have too many tokens together.
///
/// # Errors
/// One prompt exceeds [`MAX_PROMPT_TOKENS`], or all together exceed [`MAX_GENERATED_TOKENS`].
pub(super) fn check_amount(tokens: u64, prompts: usize) -> Result<()> {
    if tokens > u64::from(MAX_PROMPT_TOKENS) {
        return Err(Error::usage(format!(
            "a prompt would have more than {MAX_PROMPT_TOKENS} tokens: {tokens}"
        ))
        .hint("request shorter prompts"));
    }
    check_total(tokens.saturating_mul(prompts as u64))
}

/// Refuses prompts that have too many tokens together.
///
/// # Errors
/// They exceed [`MAX_GENERATED_TOKENS`].
pub(super) fn check_total(total: u64) -> Result<()> {
    if total > MAX_GENERATED_TOKENS {
        return Err(Error::usage(format!(
            "the prompts would have more than {MAX_GENERATED_TOKENS} tokens in total: {total}"
        ))
        .hint("request shorter or fewer prompts"));
    }
    Ok(())
}

/// The notice about prompts that do not have the target length.
pub(super) fn notice(excess: i64) -> Option<Notice> {
    (excess != 0).then(|| {
        DatasetNotice::PromptLengths {
            excess_tokens: excess,
        }
        .into()
    })
}
