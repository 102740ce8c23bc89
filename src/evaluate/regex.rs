//! Regular expressions: the whole answer matches, in the dialect of Python's `re`. Knows no JSON.
//!
//! Patterns that are regular run on the `regex` crate, in linear time. Look-around, back-references and atomic groups run on
//! `fancy-regex`, which backtracks and is stopped by a limit.

use super::python_re::{self, Extent, Flavour, Written};
use crate::verdict::{NotScored, Reason, Verdict};

/// Bytes that a pattern may have.
const MAX_PATTERN_BYTES: usize = 64 << 10;

/// Bytes that a compiled pattern may take.
const MAX_COMPILED_BYTES: usize = 32 << 20;

/// Backtracking steps after which one match is given up.
const MAX_STEPS: usize = 1_000_000;

/// A compiled pattern.
pub(super) struct RegexJudge {
    full: Matcher,
    /// Only explains a failure, so it is compiled when there is one.
    prefix: Written,
}

impl RegexJudge {
    /// Compiles `pattern`; where that is impossible, says why there will be no verdict.
    pub(super) fn compile(pattern: &str) -> Result<Self, NotScored> {
        let translated = translate(pattern, Flavour::Re)?;
        Ok(Self { full: Matcher::compile(&translated.write(Extent::Full))?, prefix: translated.write(Extent::Prefix) })
    }

    /// Whether the whole of `text` matches.
    pub(super) fn judge(&self, text: &str) -> Verdict {
        match self.full.is_match(text) {
            Ok(true) => Verdict::Valid,
            Ok(false) if text.is_empty() => Verdict::Invalid { reason: Reason::Empty },
            Ok(false) => Verdict::Invalid { reason: Reason::Regex { prefix: self.matches_prefix(text) } },
            Err(why) => Verdict::NotScored { why },
        }
    }

    /// Whether `re.match` would have been content; `false` also where that passes a limit.
    fn matches_prefix(&self, text: &str) -> bool {
        Matcher::compile(&self.prefix).and_then(|matcher| matcher.is_match(text)).unwrap_or(false)
    }
}

/// Whether a prefix of `text` matches as the Python package `regex` reads `pattern`; `None` where that cannot be told.
pub(super) fn package_match(pattern: &str, text: &str) -> Option<bool> {
    let written = translate(pattern, Flavour::RegexPackage).ok()?.write(Extent::Prefix);
    Matcher::compile(&written).ok()?.is_match(text).ok()
}

fn translate(pattern: &str, flavour: Flavour) -> Result<python_re::Translated, NotScored> {
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(NotScored::Limit { what: format!("regex over {MAX_PATTERN_BYTES} bytes") });
    }
    python_re::translate(pattern, flavour).map_err(|what| NotScored::Unsupported { what: format!("regex: {what}") })
}

enum Matcher {
    Linear(::regex::Regex),
    Backtracking(fancy_regex::Regex),
}

impl Matcher {
    fn compile(written: &Written) -> Result<Self, NotScored> {
        let too_big = || NotScored::Limit { what: format!("regex compiles to over {MAX_COMPILED_BYTES} bytes") };
        if written.backtracking {
            let mut builder = fancy_regex::RegexBuilder::new(&written.pattern);
            builder
                .backtrack_limit(MAX_STEPS)
                .delegate_size_limit(MAX_COMPILED_BYTES)
                .delegate_dfa_size_limit(MAX_COMPILED_BYTES);
            return builder.build().map(Self::Backtracking).map_err(|error| match error {
                fancy_regex::Error::CompileError(cause) if is_size_limit(&cause) => too_big(),
                error => NotScored::Unsupported { what: one_line(&error.to_string()) },
            });
        }
        let mut builder = ::regex::RegexBuilder::new(&written.pattern);
        builder.size_limit(MAX_COMPILED_BYTES).dfa_size_limit(MAX_COMPILED_BYTES);
        builder.build().map(Self::Linear).map_err(|error| match error {
            ::regex::Error::CompiledTooBig(_) => too_big(),
            error => NotScored::Unsupported { what: one_line(&error.to_string()) },
        })
    }

    fn is_match(&self, text: &str) -> Result<bool, NotScored> {
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
