//! Finds all ends of matches that start at one place.

use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson;
use regex_automata::util::start;
use regex_automata::{Anchored, MatchKind};

use super::{Anchors, ParsedPattern};
use sobench_core::verdict::NotScored;

/// Maximum bytes of the automaton, and of its cache of states.
const MAX_BYTES: usize = 32 << 20;

/// An automaton that finds the ends of all matches from one place on.
pub(in super::super) struct EndsMatcher(DFA);

/// The matches at the start of a text.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) struct PrefixEnds {
    /// Their ends in bytes, ascending.
    pub ends: Vec<usize>,
    /// The byte up to which the text is the start of a match: the text's length if more text may
    /// complete one.
    pub read: usize,
}

impl EndsMatcher {
    /// The error is the reason why the pattern cannot be used.
    pub(in super::super) fn new(pattern: &ParsedPattern) -> Result<Self, NotScored> {
        if !pattern.is_regular() {
            return Err(NotScored::Unsupported {
                what: "regex with look-around, a reference or an inner anchor".to_owned(),
            });
        }
        DFA::builder()
            .configure(
                DFA::config()
                    .cache_capacity(MAX_BYTES)
                    .match_kind(MatchKind::All),
            )
            .thompson(thompson::Config::new().nfa_size_limit(Some(MAX_BYTES)))
            .build(&pattern.to_regular_group(Anchors::Dropped))
            .map(Self)
            .map_err(|_| NotScored::Limit {
                what: format!("regex compiles to over {MAX_BYTES} bytes"),
            })
    }

    pub(in super::super) fn cache(&self) -> Cache {
        self.0.create_cache()
    }

    /// `None` if the cache of states is exhausted.
    pub(in super::super) fn ends(&self, cache: &mut Cache, text: &str) -> Option<PrefixEnds> {
        let config = start::Config::new().anchored(Anchored::Yes);
        let mut state = self.0.start_state(cache, &config).ok()?;
        let mut ends = Vec::new();
        let mut read = text.len();
        // The automaton reports a match one byte after its end.
        for (index, byte) in text.bytes().enumerate() {
            let next = self.0.next_state(cache, state, byte).ok()?;
            if next.is_match() {
                ends.push(index);
            }
            if next.is_quit() {
                return None;
            }
            if next.is_dead() || (next.is_match() && self.only_reports_a_match(cache, next)?) {
                return Some(PrefixEnds { ends, read: index });
            }
            state = next;
        }
        if self.0.next_eoi_state(cache, state).ok()?.is_match() {
            ends.push(read);
        }
        if state.is_dead() {
            read = 0;
        }
        Some(PrefixEnds { ends, read })
    }

    /// Whether the state has no purpose but to report the match before the last byte.
    fn only_reports_a_match(&self, cache: &mut Cache, state: LazyStateID) -> Option<bool> {
        if self.0.next_eoi_state(cache, state).ok()?.is_match() {
            return Some(false);
        }
        for unit in self.0.byte_classes().representatives(0..=255) {
            let Some(byte) = unit.as_u8() else { continue };
            if !self.0.next_state(cache, state, byte).ok()?.is_dead() {
                return Some(false);
            }
        }
        Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Dialect, parse};
    use super::*;

    #[test]
    fn all_ends_of_matches_are_found() {
        for (pattern, text, ends, read) in [
            ("[a-z]+", "abc1", &[1, 2, 3][..], 3),
            ("[a-z]{2}", "abc", &[2], 2),
            ("a*", "b", &[0], 0),
            ("a*?", "aa", &[0, 1, 2], 2),
            ("^(?:a|ab)$", "abb", &[1, 2], 2),
            ("é.", "é日x", &[5], 5),
            ("abc", "ab", &[], 2),
            ("", "x", &[0], 0),
            ("", "", &[0], 0),
            ("a{3}b", "aab", &[], 2),
        ] {
            let matcher = EndsMatcher::new(&parse(pattern, Dialect::Ecma).unwrap()).unwrap();
            let found = matcher.ends(&mut matcher.cache(), text).unwrap();
            assert_eq!((&found.ends[..], found.read), (ends, read), "{pattern}");
        }
    }

    #[test]
    fn inner_anchors_and_look_around_are_refused() {
        for pattern in ["a^b", "(?=a)a", "(a)\\1", "a$b", "\\ba"] {
            assert!(EndsMatcher::new(&parse(pattern, Dialect::Ecma).unwrap()).is_err());
        }
    }
}
