//! Converts regular expressions of Python and ECMAScript to Rust's syntax, and matches them.
//!
//! Patterns are parsed (`sobench_grammar::pattern`) and rewritten completely, because many
//! constructs mean something else in Rust: Python's `{,3}`, `[[a]`, `&&` in a class, `$` before a
//! last newline, `\Z`, `\s`; ECMAScript's `.`, `\d`, `\w`, `\b`, `[^]`.
//!
//! Accepted in addition to Python's `re`, because decoding engines accept it: the constructs of
//! [`Syntax::Engines`], and look-behind of any width. Different from `re`: `(?i)` uses Unicode
//! simple case folding, and `\B` matches in an empty text, as in CPython from 3.14 on. Refused in
//! ECMA-262: references that `stale_captures.rs` finds.

mod class;
mod ends_matcher;
mod matcher;
mod prefix_matcher;
mod stale_captures;
#[cfg(test)]
mod tests;

pub(super) use ends_matcher::EndsMatcher;
use matcher::Cost;
pub(super) use matcher::{Matcher, parse};
pub(super) use prefix_matcher::PrefixMatcher;
use sobench_grammar::pattern::{Assertion, Group, Pattern, Syntax, Token};

/// Matches the empty string anywhere. Makes an empty group repeatable: the backtracking engine
/// refuses to repeat a group that is empty or contains only look-around, which both notations
/// allow.
const EMPTY_MATCH: &str = "(?:^|)";

/// Notation of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// CPython's `re`: `\w` is `str.isalnum()` or `_`, `\s` is `str.isspace()`.
    Re,
    /// The Python package `regex`: `re` with Unicode's `\w` (UTS 18) and white space.
    RegexPackage,
    /// ECMA-262, as required by JSON Schema.
    Ecma,
}

/// Extent of a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// The whole text: `re.fullmatch`.
    Full,
    /// A prefix of the text: `re.match`.
    Prefix,
    /// Anywhere: JSON Schema's `pattern`.
    Search,
}

/// Whether a pattern keeps its anchors when other assertions are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Anchors {
    Kept,
    Dropped,
}

/// A parsed pattern.
pub(super) struct ParsedPattern {
    pattern: Pattern,
    dialect: Dialect,
}

/// A pattern in Rust's syntax.
#[derive(Debug, PartialEq, Eq)]
struct RustPattern {
    pattern: String,
    backtracking: bool,
}

impl ParsedPattern {
    /// Parses `pattern`. The error is a message without a full stop.
    fn parse(pattern: &str, dialect: Dialect) -> Result<Self, String> {
        let syntax = if dialect == Dialect::Ecma {
            Syntax::Ecma
        } else {
            Syntax::Engines
        };
        let pattern =
            Pattern::parse(pattern, syntax, usize::MAX).map_err(|error| error.to_string())?;
        if dialect == Dialect::Ecma
            && let Some(group) = stale_captures::find_stale_capture(&pattern)
        {
            return Err(format!(
                "a reference to group {group} that may read a capture of an earlier iteration"
            ));
        }
        Ok(Self { pattern, dialect })
    }

    /// Converts the pattern to Rust's syntax, anchored by `extent`.
    fn to_rust(&self, extent: Extent) -> RustPattern {
        let (tokens, partners) = (&self.pattern.tokens, self.pattern.partners());
        let ends: Vec<bool> = self
            .must_end_here(&partners)
            .into_iter()
            .map(|must_end_here| extent == Extent::Full && must_end_here)
            .collect();
        let needs_look_ahead = |(token, ends): (&Token, &bool)| is_dollar(token) && !ends;
        let backtracking =
            self.needs_backtracking() || tokens.iter().zip(&ends).any(needs_look_ahead);
        let mut body = String::new();
        for (index, token) in tokens.iter().enumerate() {
            match token {
                Token::Open(group) => {
                    let repeat = match tokens.get(partners[index] + 1) {
                        Some(Token::Repeat(repeat)) => Some(repeat),
                        _ => None,
                    };
                    // Look-around consumes nothing, so matching it once is equivalent to repeating
                    // it. If zero repetitions are allowed, it becomes one of two alternatives. The
                    // backtracking engine refuses to repeat look-around.
                    let is_look = matches!(group, Group::Look(_));
                    if is_look && repeat.is_some_and(|repeat| repeat.least == 0) {
                        body.push_str("(?:");
                    }
                    body.push_str(&opening(*group));
                    if !is_look
                        && repeat.is_some()
                        && self.is_empty_or_look_around(index, &partners)
                    {
                        body.push_str(EMPTY_MATCH);
                    }
                }
                Token::Close => body.push(')'),
                Token::Alternate => body.push('|'),
                Token::Character(character) => body.push_str(&class::literal(*character)),
                Token::Class { negated, members } => {
                    body.push_str(&class::class(*negated, members, self.dialect));
                }
                Token::Assertion(assertion) => {
                    body.push_str(&self.assertion(*assertion, ends[index], backtracking));
                }
                // In ECMAScript, a reference to a group without a capture matches the empty string.
                Token::Reference(number) if self.dialect == Dialect::Ecma => {
                    body.push_str(&format!("(?({number})\\{number}|)"));
                }
                Token::Reference(number) => body.push_str(&format!("(?:\\{number})")),
                Token::Repeat(repeat) => match &tokens[partners[index - 1]] {
                    Token::Open(Group::Look(_)) => {
                        body.push_str(if repeat.least == 0 { "|)" } else { "" });
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
        RustPattern {
            pattern: format!("{start}(?:{flags}{body}){end}"),
            backtracking,
        }
    }

    /// A regular pattern in Rust's syntax that matches at least the texts that this one matches as a
    /// whole: without assertions and look-around, and with any text for a reference. Not anchored.
    fn to_regular_group(&self, anchors: Anchors) -> String {
        let (tokens, partners) = (&self.pattern.tokens, self.pattern.partners());
        let mut body = String::new();
        let mut index = 0;
        while let Some(token) = tokens.get(index) {
            match token {
                Token::Open(Group::Look(_)) => {
                    body.push_str("(?:)");
                    index = partners[index];
                }
                Token::Open(Group::Flags(ignores_case)) => {
                    body.push_str(&opening(Group::Flags(*ignores_case)));
                }
                // The second alternative may be left out, and is empty then.
                Token::Open(Group::Condition(_)) => body.push_str("(?:|"),
                Token::Open(_) => body.push_str("(?:"),
                Token::Close => body.push(')'),
                Token::Alternate => body.push('|'),
                Token::Character(character) => body.push_str(&class::literal(*character)),
                Token::Class { negated, members } => {
                    body.push_str(&class::class(*negated, members, self.dialect));
                }
                Token::Assertion(assertion) => body.push_str(match (anchors, assertion) {
                    (Anchors::Kept, Assertion::Start) => "\\A",
                    (Anchors::Kept, Assertion::End) => "\\z",
                    _ => "(?:)",
                }),
                Token::Reference(_) => body.push_str("(?s:.*)"),
                Token::Repeat(repeat) => body.push_str(&repeat.to_string()),
            }
            index += 1;
        }
        let flags = if self.pattern.ignores_case {
            "(?i)"
        } else {
            ""
        };
        format!("(?:{flags}{body})")
    }

    /// Whether every match starts at the start of the text: each alternative starts with an anchor.
    fn is_anchored_at_start(&self) -> bool {
        let tokens = &self.pattern.tokens;
        let (mut depth, mut is_start) = (0_usize, true);
        for (index, token) in tokens.iter().enumerate() {
            if std::mem::take(&mut is_start) {
                let is_anchor = matches!(token, Token::Assertion(Assertion::Start));
                if !is_anchor || matches!(tokens.get(index + 1), Some(Token::Repeat(_))) {
                    return false;
                }
            }
            match token {
                Token::Open(_) => depth += 1,
                Token::Close => depth -= 1,
                Token::Alternate => is_start = depth == 0,
                _ => {}
            }
        }
        !is_start
    }

    /// Whether the pattern has no assertions but anchors at its edges, and nothing else that is not
    /// regular, so that [`Self::to_regular_group`] matches the same texts as a whole.
    fn is_regular(&self) -> bool {
        let (tokens, partners) = (&self.pattern.tokens, self.pattern.partners());
        let must_end_here = self.must_end_here(&partners);
        let must_start_here = |index: usize| {
            tokens[..index].iter().all(|token: &Token| match token {
                Token::Open(group) => group.is_plain(),
                token => matches!(token, Token::Assertion(Assertion::Start)),
            })
        };
        !self.needs_backtracking()
            && tokens.iter().enumerate().all(|(index, token)| match token {
                Token::Assertion(Assertion::Start) => must_start_here(index),
                Token::Assertion(Assertion::End | Assertion::EndOrLastNewline) => {
                    must_end_here[index]
                }
                Token::Assertion(_) => false,
                _ => true,
            })
    }

    /// `ends`: the match must end here.
    fn assertion(&self, assertion: Assertion, ends: bool, backtracking: bool) -> String {
        let converted = match assertion {
            Assertion::Start => "^",
            Assertion::End => "\\z",
            Assertion::EndOrLastNewline if ends => "\\z",
            Assertion::EndOrLastNewline => "(?=\\n?\\z)",
            Assertion::LineStart => "(?m:^)",
            Assertion::LineEnd => "(?m:$)",
            // The backtracking engine cannot disable Unicode.
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
        converted.to_owned()
    }

    /// Whether the group is empty or contains only look-around.
    fn is_empty_or_look_around(&self, open: usize, partners: &[usize]) -> bool {
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

    /// For every token, whether nothing can be consumed after it, so that a full match must end
    /// there.
    fn must_end_here(&self, partners: &[usize]) -> Vec<bool> {
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
                // An alternative is followed by what follows the group.
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

    /// Number and nesting of groups with look-around, atomic groups and conditions.
    pub(super) fn cost(&self) -> Cost {
        let mut cost = Cost {
            groups: 0,
            nesting: 0,
        };
        let (mut open, mut inside) = (Vec::new(), 0);
        for token in &self.pattern.tokens {
            match token {
                Token::Open(group) => {
                    let look_arounds = usize::from(!group.is_plain());
                    open.push(look_arounds);
                    inside += look_arounds;
                    cost.groups += look_arounds;
                    cost.nesting = cost.nesting.max(inside);
                }
                Token::Close => inside -= open.pop().unwrap_or(0),
                _ => {}
            }
        }
        cost
    }

    /// Whether a match may need backtracking: look-around, references, atomic groups and conditions
    /// do. So do word boundaries, because only the backtracking engine can express the word
    /// characters of `re`.
    pub(super) fn needs_backtracking(&self) -> bool {
        self.pattern.tokens.iter().any(|token| match token {
            Token::Open(group) => !group.is_plain(),
            Token::Reference(_) => true,
            Token::Assertion(Assertion::Boundary { ascii: false, .. }) => {
                self.dialect == Dialect::Re
            }
            _ => false,
        })
    }

    /// Number of look-arounds in the converted pattern: groups, word boundaries and Python's `$`.
    fn look_arounds(&self) -> usize {
        let look_arounds = |token: &&Token| {
            is_dollar(token) || matches!(token, Token::Assertion(Assertion::Boundary { .. }))
        };
        self.cost().groups + self.pattern.tokens.iter().filter(look_arounds).count()
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
