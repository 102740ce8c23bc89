//! Judges regular expressions: the whole answer must match, in the dialect of Python's `re`.

use std::sync::OnceLock;

use super::pattern::{self, Dialect, Extent, Matcher, ParsedPattern, PrefixMatcher};
use sobench_core::verdict::{NotScored, Reason, Verdict};

/// A compiled pattern.
pub(super) struct RegexJudge {
    full: Matcher,
    pattern: ParsedPattern,
    /// Compiled for the first truncated answer. `None` if the pattern is too large.
    prefixes: OnceLock<Option<PrefixMatcher>>,
}

impl RegexJudge {
    /// Compiles `pattern`. The error is the reason why answers cannot be scored.
    pub(super) fn compile(pattern: &str) -> Result<Self, NotScored> {
        let pattern = pattern::parse(pattern, Dialect::Re)?;
        Ok(Self {
            full: Matcher::new(&pattern, Extent::Full)?,
            pattern,
            prefixes: OnceLock::new(),
        })
    }

    /// Whether the whole of `text` matches.
    pub(super) fn judge(&self, text: &str) -> Verdict {
        match self.full.is_match(text) {
            Ok(true) => Verdict::Valid,
            Ok(false) if text.is_empty() => Verdict::Invalid {
                reason: Reason::Empty,
            },
            Ok(false) => Verdict::Invalid {
                reason: Reason::Regex {
                    prefix: self.matches_prefix(text),
                },
            },
            Err(why) => Verdict::NotScored { why },
        }
    }

    /// Why no continuation of `text` can match, if that is certain.
    pub(super) fn final_violation(&self, text: &str) -> Option<Reason> {
        let prefixes = self
            .prefixes
            .get_or_init(|| PrefixMatcher::new(&self.pattern))
            .as_ref()?;
        (!prefixes.may_continue(text)).then(|| Reason::Regex {
            prefix: self.matches_prefix(text),
        })
    }

    /// Whether `re.match` matches; `false` also if it exceeds a limit. It only explains a failure,
    /// so it is compiled when one occurs.
    fn matches_prefix(&self, text: &str) -> bool {
        Matcher::new(&self.pattern, Extent::Prefix)
            .and_then(|matcher| matcher.is_match(text))
            .unwrap_or(false)
    }
}

/// Whether a prefix of `text` matches `pattern` as the Python package `regex` interprets it. `None`
/// if that is unknown.
pub(super) fn matches_regex_package(pattern: &str, text: &str) -> Option<bool> {
    let pattern = pattern::parse(pattern, Dialect::RegexPackage).ok()?;
    Matcher::new(&pattern, Extent::Prefix)
        .ok()?
        .is_match(text)
        .ok()
}
