//! The syntax of regular expressions as Python and ECMAScript write them: one parser, and the
//! tokens that it reads a pattern into.
//!
//! Sources: "Regular Expression Syntax" in the documentation of CPython's `re`, with its parser
//! `Lib/re/_parser.py`; ECMA-262, "RegExp (Regular Expression) Objects", read as with the flag `u`
//! and leniently where that refuses what Annex B allows.
//!
//! Refused, although Python takes it: a condition on a group that comes later. Refused of ECMA-262:
//! references to groups that come later, one name for two groups. Taken beyond ECMA-262: flags at
//! the start.

mod class;
mod cursor;
mod parser;

use std::fmt;

/// Whose notation a pattern is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// CPython's `re`. An escaped surrogate is read as U+FFFD.
    Python,
    /// CPython's `re` without `\N{..}` and surrogates, and with what decoding engines take beside
    /// it: `\p{..}`, `\z`, `(?<name>..)`.
    Engines,
    /// ECMA-262, as JSON Schema asks for.
    Ecma,
}

/// A pattern that has been read. The tokens are a flat list, so that deep nesting takes no stack.
#[derive(Debug)]
pub struct Pattern {
    /// Whether the pattern starts with the flag `i`.
    pub ignores_case: bool,
    pub tokens: Vec<Token>,
}

/// A part of a pattern. All flags but `i` are resolved: the same token means the same everywhere.
#[derive(Debug)]
pub enum Token {
    Open(Group),
    Close,
    /// The `|` between two alternatives of the group around it.
    Alternate,
    /// This character.
    Character(char),
    /// One character of a class: `.`, an escape, or what stands in brackets.
    Class {
        negated: bool,
        members: Vec<Member>,
    },
    Assertion(Assertion),
    /// To a capturing group that is closed before, by its number.
    Reference(usize),
    /// Repeats the group or token before it.
    Repeat(Repeat),
}

/// What a group does to what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// `(?:`
    Plain,
    /// A capturing group, with its number from 1.
    Capture(usize),
    /// `(?i:` and the like: whether case is ignored from here on, where the flags say so.
    Flags(Option<bool>),
    /// Look-around, by what follows the question mark: `=`, `!`, `<=` or `<!`.
    Look(&'static str),
    /// `(?>`, and around what a possessive repetition repeats.
    Atomic,
    /// `(?(1)`: two alternatives, chosen by whether this capturing group has matched.
    Condition(usize),
}

impl Group {
    /// Whether the group only groups: the match goes on where the group ended, and can come back to
    /// try another way through it.
    pub fn is_plain(self) -> bool {
        matches!(self, Self::Plain | Self::Capture(_) | Self::Flags(_))
    }
}

/// A part of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Member {
    Character(char),
    Range(char, char),
    /// `\d`, `\D`, `\s`, `\S`, `\w` or `\W`; `ascii` is Python's flag `a`.
    Set {
        letter: char,
        ascii: bool,
    },
    /// `\p{..}` or `\P{..}` as it is spelled; with [`Syntax::Python`] a character by its name,
    /// `\N{..}`.
    Property(String),
}

/// Something that matches no character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assertion {
    /// The start of the text.
    Start,
    /// The end of the text.
    End,
    /// The end of the text, or before a newline that ends it: Python's `$`.
    EndOrLastNewline,
    /// `^` with the flag `m`.
    LineStart,
    /// `$` with the flag `m`.
    LineEnd,
    /// `\b`, or `\B` if `negated`; `ascii` where words are of ASCII letters, digits and `_`.
    Boundary { negated: bool, ascii: bool },
}

/// How often the part before may come. A possessive repetition is one inside [`Group::Atomic`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeat {
    pub least: u32,
    /// `None` for any number.
    pub most: Option<u32>,
    /// Prefers fewer rounds.
    pub lazy: bool,
}

/// As Python, ECMAScript and Rust spell it alike.
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

/// Why a text is not taken as a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error("{0}")]
    Syntax(String),
    /// A limit of the caller.
    #[error("groups nest deeper than {0}")]
    Nesting(usize),
}

impl From<String> for PatternError {
    fn from(message: String) -> Self {
        Self::Syntax(message)
    }
}

impl Pattern {
    /// Reads `text`.
    ///
    /// # Errors
    /// What is not of the syntax; groups that nest deeper than `max_nesting`.
    pub fn parse(text: &str, syntax: Syntax, max_nesting: usize) -> Result<Self, PatternError> {
        parser::parse(text, syntax, max_nesting)
    }

    /// For every `Open` the index of its `Close` and the other way round; for every other token its
    /// own index.
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
    fn each_syntax_takes_its_own() {
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
    fn groups_know_their_ends_and_nest_within_the_limit() {
        let pattern = parse("(a(?:b)|c)d", Syntax::Python).unwrap();
        assert_eq!(pattern.partners(), [7, 1, 4, 3, 2, 5, 6, 0, 8]);
        assert!(parse("(((a)))", Syntax::Python).is_ok());
        assert_eq!(
            parse("((((a))))", Syntax::Python).unwrap_err(),
            PatternError::Nesting(3)
        );
        assert_eq!(
            parse("(((a", Syntax::Python).unwrap_err().to_string(),
            "a group is not closed"
        );
    }
}
