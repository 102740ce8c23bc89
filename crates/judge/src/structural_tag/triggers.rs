//! Finds triggers and excluded texts in free text, as xgrammar's automaton does (Aho and Corasick,
//! "Efficient string matching", 1975).
//!
//! A complete trigger ends the free text, unless a longer trigger or excluded text that has the same
//! start goes on. A trigger that ends inside the start of a longer text of the list is not seen. An
//! excluded text is always seen.

use std::collections::{HashMap, VecDeque};

/// The state before the first byte.
pub(super) const START: u32 = 0;

/// An automaton over bytes.
#[derive(Debug)]
pub(super) struct Triggers {
    nodes: Vec<Node>,
    children: HashMap<(u32, u8), u32>,
}

#[derive(Debug, Default)]
struct Node {
    /// The longest proper suffix that is a node.
    fallback: u32,
    /// The triggers that end here, from their start.
    complete: Vec<u32>,
    /// Whether an excluded text ends here.
    is_excluded: bool,
}

impl Triggers {
    /// An automaton for texts that are not empty.
    pub(super) fn new<'a>(
        triggers: impl IntoIterator<Item = &'a str>,
        excludes: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let mut automaton = Self {
            nodes: vec![Node::default()],
            children: HashMap::new(),
        };
        for (index, trigger) in (0..).zip(triggers) {
            let node = automaton.add(trigger);
            automaton.nodes[node as usize].complete.push(index);
        }
        for excluded in excludes {
            let node = automaton.add(excluded);
            automaton.nodes[node as usize].is_excluded = true;
        }
        automaton.link();
        automaton
    }

    fn add(&mut self, text: &str) -> u32 {
        let mut node = START;
        for byte in text.bytes() {
            let next = self.nodes.len() as u32;
            let child = *self.children.entry((node, byte)).or_insert(next);
            if child == next {
                self.nodes.push(Node::default());
            }
            node = child;
        }
        node
    }

    /// Sets the fallback of every node, shorter ones first.
    fn link(&mut self) {
        let mut edges: HashMap<u32, Vec<(u8, u32)>> = HashMap::new();
        for (&(node, byte), &child) in &self.children {
            edges.entry(node).or_default().push((byte, child));
        }
        let mut pending = VecDeque::from([START]);
        while let Some(node) = pending.pop_front() {
            for &(byte, child) in edges.get(&node).into_iter().flatten() {
                let fallback = match node {
                    START => START,
                    node => self.follow(self.nodes[node as usize].fallback, byte),
                };
                self.nodes[child as usize].fallback = fallback;
                self.nodes[child as usize].is_excluded |= self.nodes[fallback as usize].is_excluded;
                pending.push_back(child);
            }
        }
    }

    fn follow(&self, mut node: u32, byte: u8) -> u32 {
        loop {
            match self.children.get(&(node, byte)) {
                Some(child) => return *child,
                None if node == START => return START,
                None => node = self.nodes[node as usize].fallback,
            }
        }
    }

    /// The state after a byte. `None` if the byte completes an excluded text, or cannot follow a
    /// complete trigger.
    pub(super) fn step(&self, state: u32, byte: u8) -> Option<u32> {
        let next = if self.complete(state).is_empty() {
            self.follow(state, byte)
        } else {
            *self.children.get(&(state, byte))?
        };
        (!self.nodes[next as usize].is_excluded).then_some(next)
    }

    /// The triggers that are complete in a state.
    pub(super) fn complete(&self, state: u32) -> &[u32] {
        &self.nodes[state as usize].complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The complete triggers after `text`; `None` if the automaton stops in it.
    fn run(triggers: &[&str], excludes: &[&str], text: &str) -> Option<Vec<u32>> {
        let automaton = Triggers::new(triggers.iter().copied(), excludes.iter().copied());
        let state = text
            .bytes()
            .try_fold(START, |state, byte| automaton.step(state, byte))?;
        Some(automaton.complete(state).to_vec())
    }

    #[test]
    fn triggers_and_excluded_texts_are_found_anywhere() {
        let none = || Some(Vec::new());
        for (triggers, excludes, text, found) in [
            (&["<f>"][..], &[][..], "a<<f>", Some(vec![0])),
            (&["<f>"], &[], "<f", none()),
            (&["ab", "abc"], &[], "ab", Some(vec![0])),
            (&["ab", "abc"], &[], "abc", Some(vec![1])),
            (&["ab"], &[], "abx", None),
            (&["a", "a"], &[], "a", Some(vec![0, 1])),
            (&["abce", "bcd"], &[], "abcd", Some(vec![1])),
            // The trigger `b` ends inside the start of `abc`.
            (&["abc", "b"], &[], "ab", none()),
            (&["ab"], &["b"], "ab", None),
            (&[], &["</a>"], "</a", none()),
            (&[], &["</a>"], "</</a>", None),
            (&[], &["é"], "aé", None),
        ] {
            assert_eq!(run(triggers, excludes, text), found, "{triggers:?} {text}");
        }
    }
}
