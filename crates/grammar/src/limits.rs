//! The named limits of reading grammars and of recognising with them. Knows neither dialects nor
//! charts.

use std::num::NonZeroUsize;

/// The longest grammar text that is read, in bytes. The largest grammars seen in the wild (all of
/// C, or a schema with thousands of members written out) stay under a tenth of it.
pub const MAX_GRAMMAR_BYTES: usize = 256 * 1024;

/// The deepest nesting of groups. llguidance stops at 30, xgrammar at 1,000; the readers recurse,
/// so the stack is the bound.
pub const MAX_NESTING: usize = 128;

/// The most quantifiers that one element may have, as in `"a"*?`: each is a level of nesting.
pub const MAX_QUANTIFIERS: usize = 8;

/// The most classes of Unicode (`\w`, `\d`, `\s`, `\p{...}`) that the regular expressions of one
/// grammar may name: each has some 800 ranges.
pub const MAX_UNICODE_CLASSES: usize = 5_000;

/// The largest number of times that `{m,n}` may ask for. Counted repetition costs only its
/// logarithm here.
pub const MAX_REPETITIONS: u32 = 1 << 24;

/// The largest number of symbols in the context-free grammar that a text is turned into.
pub const MAX_SYMBOLS: usize = 500_000;

/// The largest table of characters against productions, in bits (32 MiB), which drives the
/// one-character look-ahead.
pub const MAX_LOOKAHEAD_BITS: usize = 1 << 28;

/// The largest number of items that one recognition may keep, waiting (20 bytes each) or in the
/// column being built.
pub const MAX_CHART_ITEMS: usize = 4_000_000;

/// The largest number of item steps that one recognition may take: a second or two of work.
pub const MAX_STEPS: u64 = 50_000_000;

/// The largest number of parts that a conversion may add to a grammar while it takes apart what may
/// be empty.
pub const MAX_CONVERTED_PARTS: usize = 200_000;

/// The largest count in `{m,n}` that llama.cpp takes as it stands (`MAX_REPETITION_THRESHOLD` is
/// 2,000): from there on it refuses the grammar, or takes the count for no bound at all.
pub const MAX_PORTABLE_REPETITIONS: u32 = 1999;

/// The longest pest grammar that is taken as an oracle, in bytes.
pub const MAX_ORACLE_BYTES: usize = 64 * 1024;

/// The largest number of operators in one rule of a pest oracle: pest's optimiser recurses once for
/// each.
pub const MAX_ORACLE_OPERATORS: usize = 400;

/// The deepest nesting in a pest oracle.
pub const MAX_ORACLE_NESTING: usize = 64;

/// The largest number of calls that one pest parse may make, in this process. pest keeps one
/// process-wide setting, which every parse captures when it begins; since all of ours set this same
/// number first, they cannot disagree.
pub const MAX_PEST_CALLS: NonZeroUsize = NonZeroUsize::new(20_000_000).expect("not zero");

/// Puts [`MAX_PEST_CALLS`] in force. Called before every parse; setting the same number again
/// changes nothing.
pub(super) fn arm_pest() {
    pest::set_call_limit(Some(MAX_PEST_CALLS));
}

/// What [`MAX_NESTING`] is called in messages.
pub(super) fn nesting() -> String {
    format!("nested groups: {MAX_NESTING}")
}
