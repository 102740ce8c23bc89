//! Regular expressions: the whole answer matches, in the dialect of Python's `re`. Knows no JSON.

use super::pattern::{self, Dialect, Extent, Matcher, Translated};
use sobench_core::verdict::{NotScored, Reason, Verdict};

/// A compiled pattern.
pub(super) struct RegexJudge {
    full: Matcher,
    pattern: Translated,
}

impl RegexJudge {
    /// Compiles `pattern`; where that is impossible, says why there will be no verdict.
    pub(super) fn compile(pattern: &str) -> Result<Self, NotScored> {
        let pattern = pattern::read(pattern, Dialect::Re)?;
        Ok(Self {
            full: Matcher::new(&pattern, Extent::Full)?,
            pattern,
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

    /// Whether `re.match` would have been content; `false` also where that passes a limit. It only
    /// explains a failure, so it is compiled when there is one.
    fn matches_prefix(&self, text: &str) -> bool {
        Matcher::new(&self.pattern, Extent::Prefix)
            .and_then(|matcher| matcher.is_match(text))
            .unwrap_or(false)
    }
}

/// Whether a prefix of `text` matches as the Python package `regex` reads `pattern`; `None` where
/// that cannot be told.
pub(super) fn package_match(pattern: &str, text: &str) -> Option<bool> {
    let pattern = pattern::read(pattern, Dialect::RegexPackage).ok()?;
    Matcher::new(&pattern, Extent::Prefix)
        .ok()?
        .is_match(text)
        .ok()
}
