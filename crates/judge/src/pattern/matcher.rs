//! Runs a pattern: in linear time where it is regular, else by backtracking with a limit. Part of
//! `pattern`.

use std::sync::OnceLock;

use super::{Dialect, Extent, Translated, Written};
use sobench_core::verdict::NotScored;

/// Bytes that a pattern may have.
const MAX_PATTERN_BYTES: usize = 64 << 10;

/// Bytes that a compiled pattern may take.
const MAX_COMPILED_BYTES: usize = 32 << 20;

/// Look-around, atomic groups, conditions and word boundaries that a pattern may have: each is an
/// automaton of its own, of up to 70 KB.
const MAX_LOOKS: usize = 1000;

/// Backtracking steps after which one match is given up: tried with few first, so that what a match
/// took is known to within a factor.
const MAX_STEPS: [usize; 3] = [2_000, 50_000, 1_000_000];

/// Bytes that all steps of one match may go through together where each can compare with a group
/// that was matched before.
const MAX_COMPARED_BYTES: usize = 1 << 32;

/// The same where each can look around: 4.5 ns a byte were measured, an automaton at work instead
/// of a comparison.
const MAX_LOOKED_AT_BYTES: usize = 1 << 28;

/// Backtracking steps that cost as much as one step of a validation.
const BACKTRACKING_PER_STEP: usize = 10;

/// Bytes that the `regex` crate goes through in one step of a validation.
const BYTES_PER_STEP: usize = 16;

/// A pattern that is ready to be matched.
pub(in super::super) enum Matcher {
    /// The `regex` crate.
    Linear(::regex::Regex),
    /// `fancy-regex`: look-around, back-references, atomic groups, conditions.
    Backtracking(Box<Backtracking>),
}

/// One pattern under several limits.
pub(in super::super) struct Backtracking {
    pattern: String,
    cost: Cost,
    /// For each of [`MAX_STEPS`]; the later ones are made when they are needed.
    tries: [OnceLock<fancy_regex::Regex>; MAX_STEPS.len()],
}

/// Reads `pattern`, within the limit on its length.
pub(in super::super) fn read(pattern: &str, dialect: Dialect) -> Result<Translated, NotScored> {
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(NotScored::Limit {
            what: format!("regex over {MAX_PATTERN_BYTES} bytes"),
        });
    }
    Translated::read(pattern, dialect).map_err(|what| NotScored::Unsupported {
        what: format!("regex: {what}"),
    })
}

impl Matcher {
    /// Makes a pattern that has been read ready for matching.
    pub(in super::super) fn new(
        translated: &Translated,
        extent: Extent,
    ) -> Result<Self, NotScored> {
        let Written {
            pattern,
            backtracking,
        } = translated.write(extent);
        let too_big = || NotScored::Limit {
            what: format!("regex compiles to over {MAX_COMPILED_BYTES} bytes"),
        };
        if backtracking {
            if translated.looks() > MAX_LOOKS {
                return Err(NotScored::Limit {
                    what: format!("regex with over {MAX_LOOKS} places that look around"),
                });
            }
            let first =
                backtracking_within(&pattern, MAX_STEPS[0]).map_err(|error| match error {
                    fancy_regex::Error::CompileError(cause) if is_size_limit(&cause) => too_big(),
                    error => NotScored::Unsupported {
                        what: one_line(&error.to_string()),
                    },
                })?;
            let tries = [OnceLock::from(first), OnceLock::new(), OnceLock::new()];
            return Ok(Self::Backtracking(Box::new(Backtracking {
                pattern,
                cost: translated.cost(),
                tries,
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
                ::regex::Error::CompiledTooBig(_) => too_big(),
                error => NotScored::Unsupported {
                    what: one_line(&error.to_string()),
                },
            })
    }

    /// Whether `text` matches, as far as the pattern's extent asks.
    pub(in super::super) fn is_match(&self, text: &str) -> Result<bool, NotScored> {
        self.is_match_counting(text, |_| ())
    }

    /// As [`Self::is_match`]; `count` is told steps before they are taken.
    pub(in super::super) fn is_match_counting(
        &self,
        text: &str,
        count: impl Fn(usize),
    ) -> Result<bool, NotScored> {
        count(text.len() / BYTES_PER_STEP);
        let Backtracking {
            pattern,
            cost,
            tries,
        } = match self {
            Self::Linear(regex) => return Ok(regex.is_match(text)),
            Self::Backtracking(backtracking) => &**backtracking,
        };
        let longest = cost.longest_text();
        if text.len() > longest {
            return Err(NotScored::Limit {
                what: format!("text over {longest} bytes under a regex that looks around"),
            });
        }
        let bytes = if cost.groups == 0 {
            MAX_COMPARED_BYTES
        } else {
            MAX_LOOKED_AT_BYTES
        };
        let affordable = bytes / text.len().max(1);
        let tried = || {
            MAX_STEPS
                .into_iter()
                .enumerate()
                .filter(|(index, steps)| *index == 0 || *steps <= affordable)
        };
        for ((_, steps), regex) in tried().zip(tries) {
            count(steps / BACKTRACKING_PER_STEP);
            let build =
                || backtracking_within(pattern, steps).expect("it was built with a smaller limit");
            if let Ok(found) = regex.get_or_init(build).is_match(text) {
                return Ok(found);
            }
        }
        let most = tried().next_back().map_or(0, |(_, steps)| steps);
        Err(NotScored::Limit {
            what: format!("regex over {most} backtracking steps"),
        })
    }
}

/// What makes matching expensive that backtracking steps do not count: groups that look around, one
/// in the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Cost {
    pub(super) groups: usize,
    pub(super) nesting: usize,
}

impl Cost {
    /// The longest text, in bytes, that is matched: a loop around a group can run it at every
    /// character, and so again for each group inside. Without such groups there is no limit.
    pub(in super::super) fn longest_text(self) -> usize {
        if self.groups == 0 {
            return usize::MAX;
        }
        let each = MAX_LOOKED_AT_BYTES / self.groups;
        let fits = |length: &usize| {
            length
                .checked_pow(self.nesting as u32 + 1)
                .is_some_and(|bytes| bytes <= each)
        };
        (1..32)
            .map(|bits| 1_usize << bits)
            .take_while(fits)
            .last()
            .unwrap_or(1)
    }
}

fn backtracking_within(
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

/// The engines draw the pattern over several lines with the message last.
fn one_line(message: &str) -> String {
    let last = message.lines().last().unwrap_or(message).trim();
    format!("regex: {}", last.trim_start_matches("error: "))
}
