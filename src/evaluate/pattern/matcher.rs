//! Runs a pattern: in linear time where it is regular, else by backtracking with a limit. Part of `pattern`.

use super::{Dialect, Extent, Translated, Written};
use crate::verdict::NotScored;

/// Bytes that a pattern may have.
const MAX_PATTERN_BYTES: usize = 64 << 10;

/// Bytes that a compiled pattern may take.
const MAX_COMPILED_BYTES: usize = 32 << 20;

/// Backtracking steps after which one match is given up.
const MAX_STEPS: usize = 1_000_000;

/// A pattern that is ready to be matched.
pub(in super::super) enum Matcher {
    /// The `regex` crate.
    Linear(::regex::Regex),
    /// `fancy-regex`: look-around, back-references, atomic groups, conditions.
    Backtracking(fancy_regex::Regex),
}

/// Reads `pattern`, within the limit on its length.
pub(in super::super) fn read(pattern: &str, dialect: Dialect) -> Result<Translated, NotScored> {
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(NotScored::Limit { what: format!("regex over {MAX_PATTERN_BYTES} bytes") });
    }
    super::parser::translate(pattern, dialect).map_err(|what| NotScored::Unsupported { what: format!("regex: {what}") })
}

impl Matcher {
    /// Makes a pattern that has been read ready for matching.
    pub(in super::super) fn new(translated: &Translated, extent: Extent) -> Result<Self, NotScored> {
        let Written { pattern, backtracking } = translated.write(extent);
        let too_big = || NotScored::Limit { what: format!("regex compiles to over {MAX_COMPILED_BYTES} bytes") };
        if backtracking {
            let mut builder = fancy_regex::RegexBuilder::new(&pattern);
            builder
                .backtrack_limit(MAX_STEPS)
                .delegate_size_limit(MAX_COMPILED_BYTES)
                .delegate_dfa_size_limit(MAX_COMPILED_BYTES);
            return builder.build().map(Self::Backtracking).map_err(|error| match error {
                fancy_regex::Error::CompileError(cause) if is_size_limit(&cause) => too_big(),
                error => NotScored::Unsupported { what: one_line(&error.to_string()) },
            });
        }
        let mut builder = ::regex::RegexBuilder::new(&pattern);
        builder.size_limit(MAX_COMPILED_BYTES).dfa_size_limit(MAX_COMPILED_BYTES);
        builder.build().map(Self::Linear).map_err(|error| match error {
            ::regex::Error::CompiledTooBig(_) => too_big(),
            error => NotScored::Unsupported { what: one_line(&error.to_string()) },
        })
    }

    /// Whether `text` matches, as far as the pattern's extent asks.
    pub(in super::super) fn is_match(&self, text: &str) -> Result<bool, NotScored> {
        match self {
            Self::Linear(regex) => Ok(regex.is_match(text)),
            Self::Backtracking(regex) => {
                let over = |_| NotScored::Limit { what: format!("regex over {MAX_STEPS} backtracking steps") };
                regex.is_match(text).map_err(over)
            }
        }
    }
}

fn is_size_limit(cause: &fancy_regex::CompileError) -> bool {
    matches!(cause, fancy_regex::CompileError::InnerError(inner) if inner.size_limit().is_some())
}

/// The engines draw the pattern over several lines with the message last.
fn one_line(message: &str) -> String {
    let last = message.lines().last().unwrap_or(message).trim();
    format!("regex: {}", last.trim_start_matches("error: "))
}
