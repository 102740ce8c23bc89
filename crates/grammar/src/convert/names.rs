//! Names of rules that the other notation takes. Knows what a name may look like, not what the
//! rules say.

use std::collections::{HashMap, HashSet};

use sobench_core::constraint::GrammarDialect;

/// Names that mean something else to a reader: xgrammar lexes them as booleans.
const TAKEN: [&str; 2] = ["true", "false"];

/// Hands out names, each once.
#[derive(Debug)]
pub(super) struct Names {
    /// The rule that sentences are derived from.
    start: &'static str,
    /// What stands between the parts of a name.
    joint: char,
    given: HashSet<String>,
    /// The last number tried behind each base.
    numbers: HashMap<String, usize>,
}

impl Names {
    /// No names given yet but those that are not to be given.
    pub(super) fn new(dialect: GrammarDialect) -> Self {
        let (start, joint) = match dialect {
            GrammarDialect::Lark => ("start", '_'),
            GrammarDialect::Ebnf => ("root", '-'),
        };
        let given = TAKEN
            .into_iter()
            .chain([start])
            .map(str::to_owned)
            .collect();
        Self {
            start,
            joint,
            given,
            numbers: HashMap::new(),
        }
    }

    /// The name of the rule that sentences are derived from.
    pub(super) fn start(&self) -> &'static str {
        self.start
    }

    /// A new name as near to `source` as the notation allows: lower case, beginning with a letter,
    /// with `-` between the parts in EBNF (llama.cpp has no `_` in names) and `_` in Lark (stock
    /// Lark has no `-`).
    pub(super) fn give(&mut self, source: &str) -> String {
        let joint = self.joint;
        let letters = |scalar: char| {
            if scalar.is_ascii_alphanumeric() {
                scalar.to_ascii_lowercase()
            } else {
                joint
            }
        };
        let spelt: String = source.chars().map(letters).collect();
        let mut base = spelt.trim_matches(joint).to_owned();
        if !base.starts_with(|first: char| first.is_ascii_lowercase()) {
            base.insert(0, 'r');
        }
        if self.given.insert(base.clone()) {
            return base;
        }
        let number = self.numbers.entry(base.clone()).or_insert(1);
        loop {
            *number += 1;
            let name = format!("{base}{joint}{number}");
            if self.given.insert(name.clone()) {
                return name;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(dialect: GrammarDialect, sources: &[&str], expected: &[&str]) {
        let mut names = Names::new(dialect);
        let given: Vec<String> = sources.iter().map(|source| names.give(source)).collect();
        assert_eq!(given, expected);
    }

    #[test]
    fn names_are_legal_in_every_reader_and_given_once() {
        let sources = [
            "select_statement",
            "_EXP",
            "_exp",
            "a.b",
            "A-B",
            "0",
            "root",
            "root-2",
            "root",
            "start",
            "start",
            "true",
            "%ignore",
            "--",
            "x y",
        ];
        check(
            GrammarDialect::Ebnf,
            &sources,
            &[
                "select-statement",
                "exp",
                "exp-2",
                "a-b",
                "a-b-2",
                "r0",
                "root-2",
                "root-2-2",
                "root-3",
                "start",
                "start-2",
                "true-2",
                "ignore",
                "r",
                "x-y",
            ],
        );
        check(
            GrammarDialect::Lark,
            &sources,
            &[
                "select_statement",
                "exp",
                "exp_2",
                "a_b",
                "a_b_2",
                "r0",
                "root",
                "root_2",
                "root_3",
                "start_2",
                "start_3",
                "true_2",
                "ignore",
                "r",
                "x_y",
            ],
        );
    }
}
