//! Parses regular expressions of Python and ECMAScript into tokens.
//!
//! Sources: "Regular Expression Syntax" in the documentation of CPython's `re`, with its parser
//! `Lib/re/_parser.py`; ECMA-262, "RegExp (Regular Expression) Objects", with the flag `u`, plus
//! constructs that Annex B allows without it.
//!
//! Unsupported constructs of Python: a condition on a later group. Unsupported constructs of
//! ECMA-262: references to later groups, duplicate group names. Extension of ECMA-262: flags at the
//! start.

mod class;
mod cursor;
mod parser;

use std::fmt;

/// Syntax of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// CPython's `re`. An escaped surrogate becomes U+FFFD.
    Python,
    /// CPython's `re` without `\N{..}` and surrogates, plus constructs that decoding engines
    /// support: `\p{..}`, `\z`, `(?<name>..)`.
    Engines,
    /// ECMA-262, as JSON Schema requires.
    Ecma,
}

/// A parsed pattern. The tokens are a flat list, so that deep nesting needs no recursion.
#[derive(Debug)]
pub struct Pattern {
    /// Whether the pattern starts with the flag `i`.
    pub ignores_case: bool,
    pub tokens: Vec<Token>,
}

/// A token. Flags other than `i` are resolved: equal tokens have equal meaning.
#[derive(Debug)]
pub enum Token {
    Open(Group),
    Close,
    /// The `|` between two alternatives of the enclosing group.
    Alternate,
    /// A literal character.
    Character(char),
    /// A character class: `.`, an escape, or a bracketed class.
    Class {
        negated: bool,
        members: Vec<Member>,
    },
    Assertion(Assertion),
    /// A back-reference to a closed capturing group, by its number.
    Reference(usize),
    /// Repeats the preceding group or token.
    Repeat(Repeat),
}

/// Kind of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// `(?:`
    Plain,
    /// A capturing group, with its number from 1.
    Capture(usize),
    /// `(?i:` and similar: whether case is ignored in the group, if the flags say so.
    Flags(Option<bool>),
    /// Look-around, by the characters after the question mark: `=`, `!`, `<=` or `<!`.
    Look(&'static str),
    /// `(?>`, and the operand of a possessive repetition.
    Atomic,
    /// `(?(1)`: two alternatives, selected by whether the capturing group has matched.
    Condition(usize),
}

impl Group {
    /// Whether the group only groups: the match continues after it and can backtrack into it.
    pub fn is_plain(self) -> bool {
        matches!(self, Self::Plain | Self::Capture(_) | Self::Flags(_))
    }
}

/// A member of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Member {
    Character(char),
    Range(char, char),
    /// `\d`, `\D`, `\s`, `\S`, `\w` or `\W`; `ascii` is Python's flag `a`.
    Set {
        letter: char,
        ascii: bool,
    },
    /// `\p{..}` or `\P{..}` as written; with [`Syntax::Python`] a named character, `\N{..}`.
    Property(String),
}

/// A zero-width assertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assertion {
    /// The start of the text.
    Start,
    /// The end of the text.
    End,
    /// The end of the text, or before a final newline: Python's `$`.
    EndOrLastNewline,
    /// `^` with the flag `m`.
    LineStart,
    /// `$` with the flag `m`.
    LineEnd,
    /// `\b`, or `\B` if `negated`; with `ascii`, word characters are ASCII letters, digits and `_`.
    Boundary { negated: bool, ascii: bool },
}

/// A repetition. A possessive repetition is one inside [`Group::Atomic`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeat {
    pub least: u32,
    /// `None` for any number.
    pub most: Option<u32>,
    /// Prefers fewer repetitions.
    pub lazy: bool,
}

/// In the common syntax of Python, ECMAScript and Rust.
impl fmt::Display for Repeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.least, self.most) {
            (0, None) => f.write_str("*")?,
            (1, None) => f.write_str("+")?,
            (0, Some(1)) => f.write_str("?")?,
            (least, None) => write!(f, "{{{least},}}")?,
            (least, Some(most)) => write!(f, "{{{least},{most}}}")?,
        }
        f.write_str(if self.lazy { "?" } else { "" })
    }
}

/// Error of parsing a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error("{0}")]
    Syntax(String),
    /// The caller's nesting limit.
    #[error("groups nested deeper than {0}")]
    Nesting(usize),
}

impl From<String> for PatternError {
    fn from(message: String) -> Self {
        Self::Syntax(message)
    }
}

impl Pattern {
    /// Parses `text`.
    ///
    /// # Errors
    /// A syntax error; groups nested deeper than `max_nesting`.
    pub fn parse(text: &str, syntax: Syntax, max_nesting: usize) -> Result<Self, PatternError> {
        parser::parse(text, syntax, max_nesting)
    }

    /// For each `Open` the index of its `Close` and vice versa; for other tokens their own index.
    pub fn partners(&self) -> Vec<usize> {
        let mut partners: Vec<usize> = (0..self.tokens.len()).collect();
        let mut open = Vec::new();
        for (index, token) in self.tokens.iter().enumerate() {
            match token {
                Token::Open(_) => open.push(index),
                Token::Close => partners.swap(
                    open.pop().expect("the parser closes only what it opened"),
                    index,
                ),
                _ => {}
            }
        }
        partners
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, syntax: Syntax) -> Result<Pattern, PatternError> {
        Pattern::parse(text, syntax, 3)
    }

    #[test]
    fn each_syntax_accepts_its_own_constructs() {
        for (text, python, engines, ecma) in [
            (r"\p{Lu}", false, true, true),
            (r"\pL", false, true, false),
            (r"\N{DIGIT ONE}", true, false, false),
            (r"\ud83d", true, false, false),
            (r"\ud83d\ude00", true, false, true),
            (r"\U00110000", false, false, false),
            (r"a\z", false, true, false),
            (r"a\Z", true, true, false),
            ("(?<n>a)", false, true, true),
            ("(?P<n>a)", true, true, false),
            ("(?P<n$>a)", false, false, false),
            ("(?<n$>a)", false, false, true),
            ("a++", true, true, false),
            ("[]", false, false, true),
            ("[]]", true, true, true),
            ("(?i)a", true, true, true),
            ("(?i-i:a)", false, false, false),
            ("(?L)a", false, false, false),
        ] {
            let taken = [Syntax::Python, Syntax::Engines, Syntax::Ecma]
                .map(|syntax| parse(text, syntax).is_ok());
            assert_eq!(taken, [python, engines, ecma], "{text}");
        }
    }

    #[test]
    fn different_spellings_become_the_same_tokens() {
        for (text, same) in [
            ("(?x) a # b", "a"),
            ("a*+", "(?>a*)"),
            ("a{,}b{1,}c{,1}", "a*b+c?"),
            (r"AAA", "AAA"),
            ("(?#note)a", "a"),
        ] {
            let [found, expected] = [text, same]
                .map(|text| format!("{:?}", parse(text, Syntax::Python).unwrap().tokens));
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn groups_are_paired_and_nesting_is_limited() {
        let pattern = parse("(a(?:b)|c)d", Syntax::Python).unwrap();
        assert_eq!(pattern.partners(), [7, 1, 4, 3, 2, 5, 6, 0, 8]);
        assert!(parse("(((a)))", Syntax::Python).is_ok());
        assert_eq!(
            parse("((((a))))", Syntax::Python).unwrap_err(),
            PatternError::Nesting(3)
        );
        assert_eq!(
            parse("(((a", Syntax::Python).unwrap_err().to_string(),
            "unclosed group"
        );
    }
}
