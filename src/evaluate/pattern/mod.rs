//! Turns regular expressions in other languages' dialects into ones that Rust's engines read the same way, and runs them.
//!
//! Everything is parsed and written anew, so that a spelling which means something else in Rust (Python's `{,3}`, `[[a]`, `&&` in
//! a class, `$` before a last newline, `\Z`, `\s`; ECMAScript's `.`, `\d`, `\w`, `\b`, `[^]`) cannot slip through. Sources:
//! "Regular Expression Syntax" in the documentation of CPython's `re`, with its parser `Lib/re/_parser.py`; ECMA-262, "RegExp
//! (Regular Expression) Objects", read as with the flag `u` and leniently where that refuses what Annex B allows.
//!
//! Taken beyond Python's `re`, because the decoding engines take it: `\p{..}`, `\z`, `(?<name>..)`, look-behind of any width.
//! Refused: `\N{..}`, `(?L)`, flags in mid-pattern, and whatever else `re` refuses. Differing: `(?i)` goes by Unicode's simple
//! case folding, and `\B` matches in an empty text, as in CPython from 3.14 on. Taken beyond ECMA-262: flags at the start.
//! Refused of ECMA-262: references that `rounds.rs` finds, references to groups that come later, one name for two groups.

use std::fmt::Write as _;

mod class;
mod cursor;
mod matcher;
mod parser;
mod rounds;
#[cfg(test)]
mod tests;

use matcher::Cost;
pub(super) use matcher::{Matcher, read};

/// Whose notation a pattern is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// CPython's `re`: `\w` is `str.isalnum()` or `_`, `\s` is `str.isspace()`.
    Re,
    /// The Python package `regex`, as far as it is `re` with Unicode's `\w` (UTS 18) and white space.
    RegexPackage,
    /// ECMA-262, as JSON Schema asks for.
    Ecma,
}

/// How far a match has to reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// The whole text: `re.fullmatch`.
    Full,
    /// From the beginning: `re.match`.
    Prefix,
    /// Anywhere: JSON Schema's `pattern`.
    Search,
}

/// A pattern that has been read.
pub(super) struct Translated {
    tokens: Vec<Token>,
    flags: String,
    /// Needs look-around, back-references or atomic groups, which only a backtracking engine has.
    backtracking: bool,
}

/// A pattern in Rust's spelling.
#[derive(Debug, PartialEq, Eq)]
struct Written {
    pattern: String,
    backtracking: bool,
}

#[derive(Debug)]
enum Token {
    /// Opens a group.
    Open(Group, String),
    Close,
    Alternate,
    /// `\b` or `\B` by ASCII's idea of a word.
    AsciiBoundary(char),
    /// Python's `$` without `(?m)`: the end, or before a newline at the end.
    Dollar,
    Repeat(String),
    /// To a group, by its number.
    Reference(usize, String),
    Piece(String),
}

/// What a group does to what follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    /// It only groups or captures: the match goes on where the group ended.
    Plain,
    /// Look-around, an atomic group, a condition: its end is not simply followed by what stands after it.
    Other,
}

impl Translated {
    /// The pattern in Rust's spelling, anchored as `extent` says.
    fn write(&self, extent: Extent) -> Written {
        let mut body = String::new();
        let is_last = self.is_last();
        let looks_ahead =
            |(token, is_last): (&Token, &bool)| matches!(token, Token::Dollar) && !(extent == Extent::Full && *is_last);
        let backtracking = self.backtracking || self.tokens.iter().zip(&is_last).any(looks_ahead);
        for (token, is_last) in self.tokens.iter().zip(is_last) {
            match token {
                Token::Open(_, text) | Token::Repeat(text) | Token::Reference(_, text) | Token::Piece(text) => {
                    body.push_str(text);
                }
                Token::Close => body.push(')'),
                Token::Alternate => body.push('|'),
                Token::Dollar if extent == Extent::Full && is_last => body.push_str("\\z"),
                Token::Dollar => body.push_str("(?=\\n?\\z)"),
                // The backtracking engine cannot leave Unicode.
                Token::AsciiBoundary(letter) if backtracking => {
                    body.push_str(&class::boundary(*letter, &class::shorthand('w', true, Dialect::Re)));
                }
                Token::AsciiBoundary(letter) => {
                    write!(body, "(?-u:\\{letter})").expect("writing to a string does not fail");
                }
            }
        }
        let (start, end) = match extent {
            Extent::Full => ("\\A", "\\z"),
            Extent::Prefix => ("\\A", ""),
            Extent::Search => ("", ""),
        };
        Written { pattern: format!("{start}(?:{}{body}){end}", self.flags), backtracking }
    }

    /// For every token, whether nothing can be consumed after it, so that a full match has to end right there.
    fn is_last(&self) -> Vec<bool> {
        let groups = self.group_of_close();
        let mut last = vec![false; self.tokens.len()];
        let mut after = true;
        let mut after_group: Vec<bool> = Vec::new();
        for (index, token) in self.tokens.iter().enumerate().rev() {
            last[index] = after;
            after = match token {
                Token::Dollar | Token::AsciiBoundary(_) => after,
                Token::Close => {
                    let ends = after && groups[index] == Group::Plain;
                    after_group.push(ends);
                    ends
                }
                // What follows one alternative is what follows the group.
                Token::Alternate => after_group.last().copied().unwrap_or(true),
                Token::Open(..) => {
                    after_group.pop();
                    false
                }
                Token::Repeat(_) | Token::Reference(..) | Token::Piece(_) => false,
            };
        }
        last
    }

    /// How many groups look around (or are atomic, or conditions), and how deep in one another.
    pub(super) fn cost(&self) -> Cost {
        let mut cost = Cost { groups: 0, nesting: 0 };
        let (mut open, mut inside) = (Vec::new(), 0);
        for token in &self.tokens {
            match token {
                Token::Open(group, _) => {
                    open.push(*group);
                    inside += usize::from(*group == Group::Other);
                    cost.groups += usize::from(*group == Group::Other);
                    cost.nesting = cost.nesting.max(inside);
                }
                Token::Close => inside -= usize::from(open.pop() == Some(Group::Other)),
                _ => {}
            }
        }
        cost
    }

    /// Whether a match may take more steps than there are in the text.
    pub(super) fn backtracks(&self) -> bool {
        self.backtracking
    }

    /// Places that look around once this is written for the backtracking engine: groups, word boundaries and Python's `$`.
    fn looks(&self) -> usize {
        let looks = |token: &&Token| match token {
            Token::AsciiBoundary(_) | Token::Dollar => true,
            Token::Piece(text) => text.contains("(?<"),
            _ => false,
        };
        self.cost().groups + self.tokens.iter().filter(looks).count()
    }

    /// For every `Close`, the kind of group that it closes.
    fn group_of_close(&self) -> Vec<Group> {
        let mut groups = vec![Group::Other; self.tokens.len()];
        let mut open = Vec::new();
        for (index, token) in self.tokens.iter().enumerate() {
            match token {
                Token::Open(group, _) => open.push(*group),
                Token::Close => groups[index] = open.pop().expect("the parser closes only what it opened"),
                _ => {}
            }
        }
        groups
    }
}
