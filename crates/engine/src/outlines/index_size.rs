//! Computes the size of an outlines-core index without building it.
//!
//! outlines-core walks the whole vocabulary from every reachable state and keeps one hash table per
//! state. Time and memory grow with states times tokens, and a compile cannot be stopped. This
//! module counts transitions on a trie of the tokens in which equivalent bytes of the automaton are
//! merged. The count is the same, takes a fraction of the time, and stops at the limit. The library
//! also builds the automaton for unanchored searches, which it never uses and which can be much
//! larger: a string of at most 16 characters takes 41 KB without it and 180 MB with it, and twice
//! that for each further character. Both are therefore built under limits, the anchored one first.

use std::collections::HashSet;

use regex_automata::Anchored;
use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::util::alphabet::ByteClasses;
use regex_automata::util::primitives::StateID;

use super::errors::{classify_automaton_error, error_chain, shorten};
use super::regex_length::MAX_REGEX_BYTES;
use crate::{EngineError, Vocabulary};

/// Limits of an index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Memory of the index.
    index_bytes: u64,
    /// Memory of the automaton. The NFA and the determinization may take half as much each.
    automaton_bytes: usize,
    /// Tokens tried from all states together.
    token_trials: u64,
}

/// Limits where only a timeout stops a compile. The library tries a token in about 10 ns and fills
/// 64 MiB of automaton in seconds: above these limits no compile ends within vLLM's 5 s
/// (`VLLM_REGEX_COMPILATION_TIMEOUT_S`) on current machines.
pub(super) const LIMITS: Limits = Limits {
    index_bytes: 2 << 30,
    automaton_bytes: 64 << 20,
    token_trials: 1_000_000_000,
};

/// Limits of compiles that take one or two seconds, at the rates of [`LIMITS`].
pub(super) const STRICT_LIMITS: Limits = Limits {
    index_bytes: 1 << 30,
    automaton_bytes: 16 << 20,
    token_trials: 150_000_000,
};

/// Size of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct IndexSize {
    /// States that tokens can reach.
    pub(super) states: u64,
    /// Entries of all state tables.
    pub(super) transitions: u64,
    /// Bytes of the tables.
    pub(super) bytes: u64,
}

/// Computes the size of the index for a regex over a vocabulary.
///
/// # Errors
/// [`EngineError::TooLarge`] above the limits, and the errors of the automaton builder, as in the
/// library.
pub(super) fn index_size(
    regex: &str,
    vocabulary: &Vocabulary,
    limits: &Limits,
) -> Result<IndexSize, EngineError> {
    if regex.len() as u64 > MAX_REGEX_BYTES {
        let message = format!(
            "regex of {} bytes exceeds the limit of {MAX_REGEX_BYTES} bytes",
            regex.len()
        );
        return Err(EngineError::TooLarge { message });
    }
    let half = Some(limits.automaton_bytes / 2);
    // The configuration of the library's builder, except for the limit.
    let config = thompson::Config::new()
        .which_captures(WhichCaptures::None)
        .nfa_size_limit(half);
    let nfa = thompson::Compiler::new()
        .configure(config)
        .build(regex)
        .map_err(|error| builder_error(&error))?;
    let automaton = |start: StartKind| {
        let config = dense::Config::new()
            .start_kind(start)
            .dfa_size_limit(Some(limits.automaton_bytes))
            .determinize_size_limit(half);
        dense::Builder::new()
            .configure(config)
            .build_from_nfa(&nfa)
            .map_err(|error| builder_error(&error))
    };
    let size = count(&automaton(StartKind::Anchored)?, vocabulary, limits)?;
    automaton(StartKind::Both)?;
    Ok(size)
}

fn builder_error(error: &dyn std::error::Error) -> EngineError {
    classify_automaton_error(shorten(&error_chain(error)))
}

fn count(
    dfa: &dense::DFA<Vec<u32>>,
    vocabulary: &Vocabulary,
    limits: &Limits,
) -> Result<IndexSize, EngineError> {
    let mut size = IndexSize::default();
    // Without a start state there is no index. The library reports the error itself.
    let Some(start) = dfa.universal_start_state(Anchored::Yes) else {
        return Ok(size);
    };
    let tokens = ClassTrie::new(vocabulary, dfa.byte_classes());
    let (mut seen, mut next) = (HashSet::from([start]), vec![start]);
    let mut tables = 0;
    while let Some(state) = next.pop() {
        size.states += 1;
        let mut transitions = tokens.count(dfa, state, &mut |reached| {
            if seen.insert(reached) {
                next.push(reached);
            }
        });
        transitions += u64::from(dfa.is_match_state(dfa.next_eoi_state(state)));
        size.transitions += transitions;
        tables += hash_table_bytes(transitions, INNER_ENTRY_BYTES);
        size.bytes = tables + state_table_bytes(size.states);
        // Every known state will be walked.
        if size.bytes > limits.index_bytes
            || (seen.len() as u64).saturating_mul(tokens.len) > limits.token_trials
        {
            return Err(too_large(size, seen.len(), tokens.len, limits));
        }
    }
    Ok(size)
}

fn too_large(size: IndexSize, known_states: usize, tokens: u64, limits: &Limits) -> EngineError {
    let message = format!(
        "the index would have at least {known_states} states over {tokens} tokens, {} of them take {} MiB; the limits are {} states and {} MiB",
        size.states,
        size.bytes >> 20,
        limits.token_trials / tokens.max(1),
        limits.index_bytes >> 20,
    );
    EngineError::TooLarge { message }
}

/// A token and the next state.
const INNER_ENTRY_BYTES: u64 = 8;

/// A state and its table's header.
const OUTER_ENTRY_BYTES: u64 = 40;

/// A final state.
const FINAL_ENTRY_BYTES: u64 = 4;

/// Bytes of a hashbrown table (Rust's standard hash table) for `entries`: a power of two of slots,
/// at most 7/8 of them full, one control byte per slot, and a group of 16 at the end.
pub(super) fn hash_table_bytes(entries: u64, entry_bytes: u64) -> u64 {
    let slots = match entries {
        0 => return 0,
        1..4 => 4,
        4..8 => 8,
        8..15 => 16,
        _ => (entries * 8 / 7).next_power_of_two(),
    };
    (slots * entry_bytes).next_multiple_of(16) + slots + 16
}

/// Bytes of the table of states and of the set of final states.
pub(super) fn state_table_bytes(states: u64) -> u64 {
    hash_table_bytes(states, OUTER_ENTRY_BYTES) + hash_table_bytes(states, FINAL_ENTRY_BYTES)
}

/// Trie of all tokens as sequences of byte classes.
struct ClassTrie {
    /// Nodes in preorder.
    nodes: Vec<Node>,
    /// Number of tokens with bytes.
    len: u64,
    /// One byte of each class.
    bytes: Vec<u8>,
}

#[derive(Default)]
struct Node {
    class: u8,
    /// Number of classes from the root, including this one.
    depth: u32,
    /// Index after the last node below this one.
    end: u32,
    /// Number of tokens that end here.
    tokens: u32,
}

impl ClassTrie {
    fn new(vocabulary: &Vocabulary, classes: &ByteClasses) -> Self {
        let (mut text, mut spans) = (Vec::new(), Vec::new());
        for id in (0..)
            .take(vocabulary.len())
            .filter(|&id| id != vocabulary.eos())
        {
            let start = text.len();
            text.extend(vocabulary.bytes(id).iter().map(|&byte| classes.get(byte)));
            if text.len() > start {
                spans.push((start, text.len()));
            }
        }
        spans.sort_unstable_by(|&(a, b), &(c, d)| text[a..b].cmp(&text[c..d]));
        let (mut nodes, mut open): (Vec<Node>, Vec<usize>) = (Vec::new(), Vec::new());
        let close = |nodes: &mut Vec<Node>, open: &mut Vec<usize>, depth: usize| {
            let end = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
            open.drain(depth..).for_each(|node| nodes[node].end = end);
        };
        for &(start, end) in &spans {
            let token = &text[start..end];
            let shared = open
                .iter()
                .zip(token)
                .take_while(|(node, class)| nodes[**node].class == **class)
                .count();
            close(&mut nodes, &mut open, shared);
            for (depth, &class) in (1..).zip(token).skip(shared) {
                open.push(nodes.len());
                nodes.push(Node {
                    class,
                    depth,
                    ..Node::default()
                });
            }
            if let Some(&last) = open.last() {
                nodes[last].tokens += 1;
            }
        }
        close(&mut nodes, &mut open, 0);
        let mut bytes = vec![0; 256];
        (0..=u8::MAX).for_each(|byte| bytes[usize::from(classes.get(byte))] = byte);
        Self {
            nodes,
            len: spans.len() as u64,
            bytes,
        }
    }

    /// Counts the tokens that are allowed in `state` by the library's rule, and calls `reached`
    /// with each state that a token ends in.
    fn count(
        &self,
        dfa: &dense::DFA<Vec<u32>>,
        state: StateID,
        reached: &mut impl FnMut(StateID),
    ) -> u64 {
        let (mut count, mut index) = (0, 0);
        let mut path = vec![state];
        while let Some(node) = self.nodes.get(index) {
            path.truncate(node.depth as usize);
            let next = dfa.next_state(path[path.len() - 1], self.bytes[usize::from(node.class)]);
            if dfa.is_dead_state(next) || dfa.is_quit_state(next) {
                index = node.end as usize;
                continue;
            }
            path.push(next);
            index += 1;
            if node.tokens > 0 {
                if !dfa.is_match_state(next) || dfa.is_match_state(dfa.next_eoi_state(next)) {
                    count += u64::from(node.tokens);
                }
                reached(next);
            }
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use outlines_core::index::Index;
    use outlines_core::json_schema::{STRING, regex_from_value};
    use serde_json::json;

    use super::*;
    use crate::Grammar;
    use crate::outlines::matcher::OutlinesGrammar;
    use crate::outlines::tests::engine;
    use crate::vocabulary::shared;

    #[test]
    fn sizes_match_the_indexes_of_the_library() {
        let schema = json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}, "n": {"type": "number"}},
            "required": ["name"]});
        let object = regex_from_value(&schema, None, None).unwrap();
        for regex in [
            "",
            "a",
            "abc|abd|x",
            "a|ab",
            "[0-9]{1,4}",
            r"\d+\.\d*",
            r"\w+@\w+\.com\n",
            "(?s).{3}",
            "[^a]*",
            "日本(語)?",
            "(?i)yes|no",
            "a*?b",
            "(a|b)*abb",
            STRING,
            object.as_str(),
        ] {
            let size = index_size(regex, &shared(), &LIMITS).unwrap();
            let index = Index::new(regex, &engine().tokens).unwrap();
            let transitions: usize = index.transitions().values().map(|table| table.len()).sum();
            assert_eq!(size.transitions, transitions as u64, "{regex}");
            assert!(size.states >= index.transitions().len() as u64, "{regex}");
            let actual = OutlinesGrammar::new(index, shared().eos(), shared().len())
                .memory_bytes()
                .unwrap();
            assert!(
                size.bytes >= actual,
                "{regex}: estimated {}, actual {actual}",
                size.bytes
            );
            assert!(
                size.bytes <= actual + actual / 4 + 1024,
                "{regex}: estimated {}, actual {actual}",
                size.bytes
            );
        }
    }

    #[test]
    fn each_limit_refuses_its_own_kind_of_regex() {
        let small = Limits {
            index_bytes: 1 << 20,
            automaton_bytes: 1 << 20,
            token_trials: 10_000_000,
        };
        let unlimited = Limits {
            index_bytes: u64::MAX,
            automaton_bytes: 64 << 20,
            token_trials: u64::MAX,
        };
        for (regex, limits, message) in [
            ("(((a{1000}){1000}){1000}){1000}", small, "NFA"),
            ("a[ab]{30}", small, "determiniz"),
            (
                r"\w{20}",
                Limits {
                    index_bytes: u64::MAX,
                    ..small
                },
                "determiniz",
            ),
            (
                STRING,
                Limits {
                    index_bytes: 1 << 20,
                    ..unlimited
                },
                "MiB",
            ),
            (
                "[0-9]{200}",
                Limits {
                    token_trials: 10_000_000,
                    ..unlimited
                },
                "states",
            ),
        ] {
            let error = index_size(regex, &shared(), &limits).unwrap_err();
            assert!(
                matches!(&error, EngineError::TooLarge { message: found } if found.contains(message)),
                "{regex}: {error:?}"
            );
        }
        let half = index_size(r#""([^"\\]|\\"){0,20}""#, &shared(), &small).unwrap_err();
        assert!(
            matches!(&half, EngineError::TooLarge { .. }),
            "small when anchored, large for a search: {half:?}"
        );
    }

    #[test]
    fn table_sizes_match_hashbrown() {
        for entries in [0_u64, 1, 3, 4, 7, 8, 14, 15, 28, 29, 1000, 114_688, 114_689] {
            let mut table = std::collections::HashMap::new();
            (0..entries).for_each(|entry| {
                table.insert(entry, ());
            });
            assert_eq!(
                hash_table_bytes(entries, 8),
                hash_table_bytes(table.capacity() as u64, 8),
                "{entries}"
            );
        }
        assert_eq!(
            (
                hash_table_bytes(1, 8),
                hash_table_bytes(14, 8),
                hash_table_bytes(15, 40)
            ),
            (52, 160, 32 * 40 + 48)
        );
    }
}
