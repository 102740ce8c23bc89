//! Limits of parsing, converting and recognising grammars.

use std::num::NonZeroUsize;

/// Maximum size of a grammar in bytes. The largest published grammars (all of C, or a schema with
/// thousands of members) are below a tenth of it.
pub const MAX_GRAMMAR_BYTES: usize = 256 * 1024;

/// Maximum nesting of groups. llguidance stops at 30, xgrammar at 1,000. The parsers recurse, so
/// the stack is the bound.
pub const MAX_NESTING: usize = 128;

/// Maximum number of quantifiers of one element, as in `"a"*?`: each is a level of nesting.
pub const MAX_QUANTIFIERS: usize = 8;

/// Maximum number of Unicode classes (`\w`, `\d`, `\s`, `\p{...}`) in the regular expressions of
/// one grammar; each has about 800 ranges.
pub const MAX_UNICODE_CLASSES: usize = 5_000;

/// Maximum count in `{m,n}`. Counted repetition costs only its logarithm here.
pub const MAX_REPETITIONS: u32 = 1 << 24;

/// Maximum number of symbols of the context-free grammar.
pub const MAX_SYMBOLS: usize = 500_000;

/// Maximum size in bits (32 MiB) of the table of characters and productions for the one-character
/// look-ahead.
pub const MAX_LOOKAHEAD_BITS: usize = 1 << 28;

/// Maximum number of items of one recognition, in finished columns (20 bytes each) and in the
/// current column.
pub const MAX_CHART_ITEMS: usize = 4_000_000;

/// Maximum number of item steps of one recognition, a second or two of work.
pub const MAX_STEPS: u64 = 50_000_000;

/// Maximum number of parts that a conversion may add while it removes empty repetitions.
pub const MAX_CONVERTED_PARTS: usize = 200_000;

/// Maximum count in `{m,n}` that llama.cpp supports (`MAX_REPETITION_THRESHOLD` is 2,000): from
/// there on it refuses the grammar or treats the count as unbounded.
pub const MAX_PORTABLE_REPETITIONS: u32 = 1999;

/// Maximum size of a pest oracle in bytes.
pub const MAX_ORACLE_BYTES: usize = 64 * 1024;

/// Maximum number of operators in one rule of a pest oracle: pest's optimiser recurses once for
/// each.
pub const MAX_ORACLE_OPERATORS: usize = 400;

/// Maximum nesting in a pest oracle.
pub const MAX_ORACLE_NESTING: usize = 64;

/// Maximum number of calls of one pest parse. pest has one process-wide setting, which a parse
/// reads at its start; it is set to this number before each parse.
pub const MAX_PEST_CALLS: NonZeroUsize = NonZeroUsize::new(20_000_000).expect("not zero");

/// Sets [`MAX_PEST_CALLS`]. Called before every parse; repeated calls have no effect.
pub(super) fn set_pest_call_limit() {
    pest::set_call_limit(Some(MAX_PEST_CALLS));
}

/// The name of [`MAX_NESTING`] in messages.
pub(super) fn nesting() -> String {
    format!("nested groups: {MAX_NESTING}")
}
