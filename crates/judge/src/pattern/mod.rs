//! Writes the regular expressions of Python and ECMAScript in Rust's notation, and runs them.
//!
//! Everything is parsed (`grammar::pattern`) and written anew, because many spellings mean
//! something else in Rust: Python's `{,3}`, `[[a]`, `&&` in a class, `$` before a last newline,
//! `\Z`, `\s`; ECMAScript's `.`, `\d`, `\w`, `\b`, `[^]`.
//!
//! Taken beyond Python's `re`, because decoding engines take it: what [`Syntax::Engines`] lists,
//! and look-behind of any width. Differing: `(?i)` goes by Unicode's simple case folding, and `\B`
//! matches in an empty text, as in CPython from 3.14 on. Refused of ECMA-262: references that
//! `rounds.rs` finds.

mod class;
mod matcher;
mod rounds;
#[cfg(test)]
mod tests;

use matcher::Cost;
pub(super) use matcher::{Matcher, read};
use sobench_grammar::pattern::{Assertion, Group, Pattern, Syntax, Token};

/// Matches anywhere and takes nothing. In a group it is something to repeat: the backtracking
/// engine refuses to repeat a group that is empty or only looks around, which both notations allow.
const NOTHING: &str = "(?:^|)";

/// Whose notation a pattern is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// CPython's `re`: `\w` is `str.isalnum()` or `_`, `\s` is `str.isspace()`.
    Re,
    /// The Python package `regex`, as far as it is `re` with Unicode's `\w` (UTS 18) and white
    /// space.
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
    pattern: Pattern,
    dialect: Dialect,
}

/// A pattern in Rust's spelling.
#[derive(Debug, PartialEq, Eq)]
struct Written {
    pattern: String,
    backtracking: bool,
}

impl Translated {
    /// Reads `pattern`; the error says what is wrong with it, without a full stop.
    fn read(pattern: &str, dialect: Dialect) -> Result<Self, String> {
        let syntax = if dialect == Dialect::Ecma {
            Syntax::Ecma
        } else {
            Syntax::Engines
        };
        let pattern =
            Pattern::parse(pattern, syntax, usize::MAX).map_err(|error| error.to_string())?;
        if dialect == Dialect::Ecma
            && let Some(group) = rounds::forgotten(&pattern)
        {
            return Err(format!(
                "a reference to group {group} that may go back to an earlier round of a repetition"
            ));
        }
        Ok(Self { pattern, dialect })
    }

    /// The pattern in Rust's spelling, anchored as `extent` says.
    fn write(&self, extent: Extent) -> Written {
        let (tokens, partners) = (&self.pattern.tokens, self.pattern.partners());
        let ends: Vec<bool> = self
            .is_last(&partners)
            .into_iter()
            .map(|is_last| extent == Extent::Full && is_last)
            .collect();
        let looks_ahead = |(token, ends): (&Token, &bool)| is_dollar(token) && !ends;
        let backtracking = self.backtracks() || tokens.iter().zip(&ends).any(looks_ahead);
        let mut body = String::new();
        for (index, token) in tokens.iter().enumerate() {
            match token {
                Token::Open(group) => {
                    let repeat = match tokens.get(partners[index] + 1) {
                        Some(Token::Repeat(repeat)) => Some(repeat),
                        _ => None,
                    };
                    // Look-around takes nothing, so that once is as good as often; and where none
                    // will do, it is one of two alternatives. The backtracking engine refuses the
                    // repetition itself.
                    let is_look = matches!(group, Group::Look(_));
                    if is_look && repeat.is_some_and(|repeat| repeat.least == 0) {
                        body.push_str("(?:");
                    }
                    body.push_str(&opening(*group));
                    if !is_look && repeat.is_some() && self.takes_nothing(index, &partners) {
                        body.push_str(NOTHING);
                    }
                }
                Token::Close => body.push(')'),
                Token::Alternate => body.push('|'),
                Token::Character(character) => body.push_str(&class::literal(*character)),
                Token::Class { negated, members } => {
                    body.push_str(&class::class(*negated, members, self.dialect))
                }
                Token::Assertion(assertion) => {
                    body.push_str(&self.assertion(*assertion, ends[index], backtracking))
                }
                // In ECMAScript a reference to a group that has not matched matches the empty text.
                Token::Reference(number) if self.dialect == Dialect::Ecma => {
                    body.push_str(&format!("(?({number})\\{number}|)"));
                }
                Token::Reference(number) => body.push_str(&format!("(?:\\{number})")),
                Token::Repeat(repeat) => match &tokens[partners[index - 1]] {
                    Token::Open(Group::Look(_)) => {
                        body.push_str(if repeat.least == 0 { "|)" } else { "" })
                    }
                    _ => body.push_str(&repeat.to_string()),
                },
            }
        }
        let (start, end) = match extent {
            Extent::Full => ("\\A", "\\z"),
            Extent::Prefix => ("\\A", ""),
            Extent::Search => ("", ""),
        };
        let flags = if self.pattern.ignores_case {
            "(?i)"
        } else {
            ""
        };
        Written {
            pattern: format!("{start}(?:{flags}{body}){end}"),
            backtracking,
        }
    }

    /// `ends`: the match has to end here.
    fn assertion(&self, assertion: Assertion, ends: bool, backtracking: bool) -> String {
        let spelled = match assertion {
            Assertion::Start => "^",
            Assertion::End => "\\z",
            Assertion::EndOrLastNewline if ends => "\\z",
            Assertion::EndOrLastNewline => "(?=\\n?\\z)",
            Assertion::LineStart => "(?m:^)",
            Assertion::LineEnd => "(?m:$)",
            // The backtracking engine cannot leave Unicode.
            Assertion::Boundary {
                negated: false,
                ascii: true,
            } if !backtracking => "(?-u:\\b)",
            Assertion::Boundary {
                negated: true,
                ascii: true,
            } if !backtracking => "(?-u:\\B)",
            Assertion::Boundary {
                negated: false,
                ascii: false,
            } if self.dialect == Dialect::RegexPackage => "\\b",
            Assertion::Boundary {
                negated: true,
                ascii: false,
            } if self.dialect == Dialect::RegexPackage => "\\B",
            Assertion::Boundary { negated, ascii } => return class::boundary(negated, ascii),
        };
        spelled.to_owned()
    }

    /// Whether the group holds nothing but look-around, if that.
    fn takes_nothing(&self, open: usize, partners: &[usize]) -> bool {
        let mut index = open;
        while index < partners[open] {
            match &self.pattern.tokens[index] {
                Token::Open(Group::Look(_)) => index = partners[index],
                Token::Open(Group::Capture(_)) => return false,
                Token::Open(_) | Token::Close => {}
                token if is_dollar(token) => {}
                _ => return false,
            }
            index += 1;
        }
        true
    }

    /// For every token, whether nothing can be consumed after it, so that a full match has to end
    /// right there.
    fn is_last(&self, partners: &[usize]) -> Vec<bool> {
        let tokens = &self.pattern.tokens;
        let mut last = vec![false; tokens.len()];
        let mut after = true;
        let mut after_group: Vec<bool> = Vec::new();
        for (index, token) in tokens.iter().enumerate().rev() {
            last[index] = after;
            after = match token {
                Token::Assertion(_) => after,
                Token::Close => {
                    let ends = after
                        && matches!(&tokens[partners[index]], Token::Open(group) if group.is_plain());
                    after_group.push(ends);
                    ends
                }
                // What follows one alternative is what follows the group.
                Token::Alternate => after_group.last().copied().unwrap_or(true),
                Token::Open(_) => {
                    after_group.pop();
                    false
                }
                Token::Repeat(_)
                | Token::Reference(_)
                | Token::Character(_)
                | Token::Class { .. } => false,
            };
        }
        last
    }

    /// How many groups look around (or are atomic, or conditions), and how deep in one another.
    pub(super) fn cost(&self) -> Cost {
        let mut cost = Cost {
            groups: 0,
            nesting: 0,
        };
        let (mut open, mut inside) = (Vec::new(), 0);
        for token in &self.pattern.tokens {
            match token {
                Token::Open(group) => {
                    let looks = usize::from(!group.is_plain());
                    open.push(looks);
                    inside += looks;
                    cost.groups += looks;
                    cost.nesting = cost.nesting.max(inside);
                }
                Token::Close => inside -= open.pop().unwrap_or(0),
                _ => {}
            }
        }
        cost
    }

    /// Whether a match may take more steps than there are in the text: look-around, references,
    /// atomic groups and conditions need a backtracking engine, and so do word boundaries, since no
    /// other engine has a way to say what `re` takes for a word.
    pub(super) fn backtracks(&self) -> bool {
        self.pattern.tokens.iter().any(|token| match token {
            Token::Open(group) => !group.is_plain(),
            Token::Reference(_) => true,
            Token::Assertion(Assertion::Boundary { ascii: false, .. }) => {
                self.dialect == Dialect::Re
            }
            _ => false,
        })
    }

    /// Places that look around once this is written for the backtracking engine: groups, word
    /// boundaries and Python's `$`.
    fn looks(&self) -> usize {
        let looks = |token: &&Token| {
            is_dollar(token) || matches!(token, Token::Assertion(Assertion::Boundary { .. }))
        };
        self.cost().groups + self.pattern.tokens.iter().filter(looks).count()
    }
}

fn is_dollar(token: &Token) -> bool {
    matches!(token, Token::Assertion(Assertion::EndOrLastNewline))
}

fn opening(group: Group) -> String {
    match group {
        Group::Plain | Group::Flags(None) => "(?:".to_owned(),
        Group::Capture(_) => "(".to_owned(),
        Group::Flags(Some(true)) => "(?i:".to_owned(),
        Group::Flags(Some(false)) => "(?-i:".to_owned(),
        Group::Look(look) => format!("(?{look}"),
        Group::Atomic => "(?>".to_owned(),
        Group::Condition(number) => format!("(?({number})"),
    }
}
