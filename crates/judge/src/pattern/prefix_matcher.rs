//! Decides whether the start of a text may become a match.

use regex_automata::Anchored;
use regex_automata::hybrid::dfa::DFA;
use regex_automata::nfa::thompson;
use regex_automata::util::start;

use super::{Anchors, ParsedPattern};

/// Maximum bytes of the automaton, and of its cache of states.
const MAX_BYTES: usize = 32 << 20;

/// An automaton that dies where no continuation matches.
///
/// It accepts at least what the pattern matches: assertions, look-around and references are
/// relaxed. So a text on which it dies is not the start of a match.
pub(in super::super) struct PrefixMatcher(DFA);

impl PrefixMatcher {
    /// For matches of the whole text. `None` if the pattern is too large.
    pub(in super::super) fn new(pattern: &ParsedPattern) -> Option<Self> {
        Self::regular(&pattern.to_regular_group(Anchors::Dropped))
    }

    /// For texts with a match anywhere. `None` if every text may be continued to one, or if the
    /// pattern is too large.
    pub(in super::super) fn search(pattern: &ParsedPattern) -> Option<Self> {
        let group = || pattern.to_regular_group(Anchors::Kept);
        pattern
            .is_anchored_at_start()
            .then(|| Self::regular(&format!("{}(?s:.*)", group())))?
    }

    /// For texts that match a regular expression in Rust's syntax as a whole.
    pub(in super::super) fn regular(expression: &str) -> Option<Self> {
        DFA::builder()
            .configure(DFA::config().cache_capacity(MAX_BYTES))
            .thompson(thompson::Config::new().nfa_size_limit(Some(MAX_BYTES)))
            .build(&format!("\\A(?:{expression})\\z"))
            .ok()
            .map(Self)
    }

    /// Whether some continuation of `text` may match. True if that cannot be decided.
    pub(in super::super) fn may_continue(&self, text: &str) -> bool {
        let mut cache = self.0.create_cache();
        let config = start::Config::new().anchored(Anchored::Yes);
        let Ok(mut state) = self.0.start_state(&mut cache, &config) else {
            return true;
        };
        for byte in text.bytes() {
            match self.0.next_state(&mut cache, state, byte) {
                Ok(next) if next.is_dead() => return false,
                Ok(next) if next.is_quit() => return true,
                Ok(next) => state = next,
                Err(_) => return true,
            }
        }
        true
    }
}
