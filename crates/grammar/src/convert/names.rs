//! Generates rule names that all readers of a notation accept.

use std::collections::{HashMap, HashSet};

use sobench_core::constraint::GrammarDialect;

/// Reserved names: xgrammar lexes them as booleans.
const RESERVED: [&str; 2] = ["true", "false"];

/// Generates unique names.
#[derive(Debug)]
pub(super) struct Names {
    /// Name of the start rule.
    start: &'static str,
    /// Separator of the parts of a name.
    separator: char,
    used: HashSet<String>,
    /// The last suffix of each base name.
    numbers: HashMap<String, usize>,
}

impl Names {
    /// Creates a generator that avoids reserved names.
    pub(super) fn new(dialect: GrammarDialect) -> Self {
        let (start, separator) = match dialect {
            GrammarDialect::Lark => ("start", '_'),
            GrammarDialect::Ebnf => ("root", '-'),
        };
        let used = RESERVED
            .into_iter()
            .chain([start])
            .map(str::to_owned)
            .collect();
        Self {
            start,
            separator,
            used,
            numbers: HashMap::new(),
        }
    }

    /// Name of the start rule.
    pub(super) fn start(&self) -> &'static str {
        self.start
    }

    /// A new name close to `source`: lower case, starting with a letter, with `-` as separator in
    /// EBNF (llama.cpp has no `_` in names) and `_` in Lark (stock Lark has no `-`).
    pub(super) fn unique_name(&mut self, source: &str) -> String {
        let separator = self.separator;
        let letters = |scalar: char| {
            if scalar.is_ascii_alphanumeric() {
                scalar.to_ascii_lowercase()
            } else {
                separator
            }
        };
        let name: String = source.chars().map(letters).collect();
        let mut base = name.trim_matches(separator).to_owned();
        if !base.starts_with(|first: char| first.is_ascii_lowercase()) {
            base.insert(0, 'r');
        }
        if self.used.insert(base.clone()) {
            return base;
        }
        let number = self.numbers.entry(base.clone()).or_insert(1);
        loop {
            *number += 1;
            let name = format!("{base}{separator}{number}");
            if self.used.insert(name.clone()) {
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
        let used: Vec<String> = sources
            .iter()
            .map(|source| names.unique_name(source))
            .collect();
        assert_eq!(used, expected);
    }

    #[test]
    fn names_are_portable_and_unique() {
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
