//! Matches patterns: in linear time if they are regular, otherwise by backtracking with a limit.

use std::sync::OnceLock;

use super::{Dialect, Extent, ParsedPattern, RustPattern};
use sobench_core::verdict::NotScored;

/// Maximum bytes of a pattern.
const MAX_PATTERN_BYTES: usize = 64 << 10;

/// Maximum bytes of a compiled pattern.
const MAX_COMPILED_BYTES: usize = 32 << 20;

/// Maximum number of look-arounds, atomic groups, conditions and word boundaries in a pattern: each
/// is an automaton of up to 70 KB.
const MAX_LOOK_AROUNDS: usize = 1000;

/// Limits on the backtracking steps of one match. Lower limits are tried first, so that the cost of
/// a match is known to within a factor.
const MAX_STEPS: [usize; 3] = [2_000, 50_000, 1_000_000];

/// Maximum bytes that all steps of one match may compare with captured groups.
const MAX_COMPARED_BYTES: usize = 1 << 32;

/// Maximum bytes that all steps of one match may read in look-arounds. Measured: 4.5 ns per byte,
/// because an automaton runs instead of a comparison.
const MAX_LOOK_AROUND_BYTES: usize = 1 << 28;

/// Backtracking steps that cost as much as one step of a validation.
const BACKTRACKING_PER_STEP: usize = 10;

/// Bytes that the `regex` crate matches in one step of a validation.
const BYTES_PER_STEP: usize = 16;

/// A compiled pattern.
pub(in super::super) enum Matcher {
    /// The `regex` crate.
    Linear(::regex::Regex),
    /// `fancy-regex`: look-around, back-references, atomic groups, conditions.
    Backtracking(Box<Backtracking>),
}

/// One pattern compiled with several step limits.
pub(in super::super) struct Backtracking {
    pattern: String,
    cost: Cost,
    /// One for each of [`MAX_STEPS`]. Later ones are compiled when needed.
    regexes: [OnceLock<fancy_regex::Regex>; MAX_STEPS.len()],
}

/// Parses `pattern`, within the limit on its length.
pub(in super::super) fn parse(pattern: &str, dialect: Dialect) -> Result<ParsedPattern, NotScored> {
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(NotScored::Limit {
            what: format!("regex over {MAX_PATTERN_BYTES} bytes"),
        });
    }
    ParsedPattern::parse(pattern, dialect).map_err(|what| NotScored::Unsupported {
        what: format!("regex: {what}"),
    })
}

impl Matcher {
    /// Compiles a parsed pattern.
    pub(in super::super) fn new(parsed: &ParsedPattern, extent: Extent) -> Result<Self, NotScored> {
        let RustPattern {
            pattern,
            backtracking,
        } = parsed.to_rust(extent);
        let too_large = || NotScored::Limit {
            what: format!("regex compiles to over {MAX_COMPILED_BYTES} bytes"),
        };
        if backtracking {
            if parsed.look_arounds() > MAX_LOOK_AROUNDS {
                return Err(NotScored::Limit {
                    what: format!("regex with over {MAX_LOOK_AROUNDS} look-arounds"),
                });
            }
            let first =
                build_backtracking(&pattern, MAX_STEPS[0]).map_err(|error| match error {
                    fancy_regex::Error::CompileError(cause) if is_size_limit(&cause) => too_large(),
                    error => NotScored::Unsupported {
                        what: one_line(&error.to_string()),
                    },
                })?;
            let regexes = [OnceLock::from(first), OnceLock::new(), OnceLock::new()];
            return Ok(Self::Backtracking(Box::new(Backtracking {
                pattern,
                cost: parsed.cost(),
                regexes,
            })));
        }
        let mut builder = ::regex::RegexBuilder::new(&pattern);
        builder
            .size_limit(MAX_COMPILED_BYTES)
            .dfa_size_limit(MAX_COMPILED_BYTES);
        builder
            .build()
            .map(Self::Linear)
            .map_err(|error| match error {
                ::regex::Error::CompiledTooBig(_) => too_large(),
                error => NotScored::Unsupported {
                    what: one_line(&error.to_string()),
                },
            })
    }

    /// Whether `text` matches with the extent of the pattern.
    pub(in super::super) fn is_match(&self, text: &str) -> Result<bool, NotScored> {
        self.is_match_counting(text, |_| ())
    }

    /// As [`Self::is_match`]. `count` is called with the number of steps before they are taken.
    pub(in super::super) fn is_match_counting(
        &self,
        text: &str,
        count: impl Fn(usize),
    ) -> Result<bool, NotScored> {
        count(text.len() / BYTES_PER_STEP);
        let Backtracking {
            pattern,
            cost,
            regexes,
        } = match self {
            Self::Linear(regex) => return Ok(regex.is_match(text)),
            Self::Backtracking(backtracking) => &**backtracking,
        };
        let max_text_bytes = cost.max_text_bytes();
        if text.len() > max_text_bytes {
            return Err(NotScored::Limit {
                what: format!("text over {max_text_bytes} bytes for a regex with look-around"),
            });
        }
        let bytes = if cost.groups == 0 {
            MAX_COMPARED_BYTES
        } else {
            MAX_LOOK_AROUND_BYTES
        };
        let affordable_steps = bytes / text.len().max(1);
        let affordable_limits = || {
            MAX_STEPS
                .into_iter()
                .enumerate()
                .filter(|(index, steps)| *index == 0 || *steps <= affordable_steps)
        };
        for ((_, steps), regex) in affordable_limits().zip(regexes) {
            count(steps / BACKTRACKING_PER_STEP);
            let build =
                || build_backtracking(pattern, steps).expect("it was built with a smaller limit");
            if let Ok(found) = regex.get_or_init(build).is_match(text) {
                return Ok(found);
            }
        }
        let highest_limit = affordable_limits()
            .next_back()
            .map_or(0, |(_, steps)| steps);
        Err(NotScored::Limit {
            what: format!("regex over {highest_limit} backtracking steps"),
        })
    }
}

/// Cost of matching that backtracking steps do not measure: groups with look-around, and their
/// nesting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Cost {
    pub(super) groups: usize,
    pub(super) nesting: usize,
}

impl Cost {
    /// Maximum bytes of a text: a loop can run a look-around at every character, and again for each
    /// nested one. Unlimited without such groups.
    pub(in super::super) fn max_text_bytes(self) -> usize {
        if self.groups == 0 {
            return usize::MAX;
        }
        let bytes_per_group = MAX_LOOK_AROUND_BYTES / self.groups;
        (1..32)
            .map(|bits| 1_usize << bits)
            .take_while(|length: &usize| {
                length
                    .checked_pow(self.nesting as u32 + 1)
                    .is_some_and(|bytes| bytes <= bytes_per_group)
            })
            .last()
            .unwrap_or(1)
    }
}

fn build_backtracking(
    pattern: &str,
    steps: usize,
) -> Result<fancy_regex::Regex, fancy_regex::Error> {
    let mut builder = fancy_regex::RegexBuilder::new(pattern);
    builder
        .backtrack_limit(steps)
        .delegate_size_limit(MAX_COMPILED_BYTES)
        .delegate_dfa_size_limit(MAX_COMPILED_BYTES);
    builder.build()
}

fn is_size_limit(cause: &fancy_regex::CompileError) -> bool {
    matches!(cause, fancy_regex::CompileError::InnerError(inner) if inner.size_limit().is_some())
}

/// The engines print the pattern over several lines, with the message last.
fn one_line(message: &str) -> String {
    let last = message.lines().last().unwrap_or(message).trim();
    format!("regex: {}", last.trim_start_matches("error: "))
}
