//! vLLM's check of a regex before it goes to outlines-core.
//!
//! vLLM (0.33, `backend_outlines.py`) parses the regex with CPython's own parser, refuses
//! back-references, look-around and word boundaries, and refuses what has an anchor before the
//! first character. It does not look everywhere: capturing groups, lazy and possessive repeats and
//! a lone negated character (`[^a]`) are passed over, and so they are here.

use std::slice::Iter;

use crate::EngineError;
use sobench_grammar::pattern::{Assertion, Group, Member, Pattern, PatternError, Syntax, Token};

/// Deepest nesting of groups that is read, the limit of the regex parser that outlines-core uses.
const MAX_NESTING: usize = 250;

/// Checks a regex as vLLM does before it goes to outlines-core.
///
/// # Errors
/// [`EngineError::Unsupported`] for what outlines-core cannot do, [`EngineError::Invalid`] for what
/// Python does not take.
pub(super) fn check(regex: &str) -> Result<(), EngineError> {
    let pattern =
        Pattern::parse(regex, Syntax::Python, MAX_NESTING).map_err(|error| match error {
            PatternError::Nesting(_) => EngineError::TooLarge {
                words: error.to_string(),
            },
            PatternError::Syntax(what) => EngineError::Invalid {
                words: format!("Python does not take the regex: {what}"),
            },
        })?;
    let items = items(&mut pattern.tokens.iter());
    if let Some(feature) = unsupported(&items) {
        let words = format!(
            "a regex with a {feature} is refused before outlines-core sees it, which has none"
        );
        return Err(EngineError::unsupported(feature, words));
    }
    if needs_context(&items) {
        let words = "an anchor or look-around before the first character leaves outlines-core without a start state";
        return Err(EngineError::unsupported("leading anchor", words));
    }
    Ok(())
}

/// A part of a regex, as far as the check tells parts apart.
enum Item {
    /// A character, a class, `.`.
    Consumer,
    /// What vLLM's check passes over without looking: `[^a]`, a lazy or possessive repeat, an
    /// atomic group.
    PassedOver,
    Anchor,
    WordBoundary,
    LookAround,
    BackReference,
    /// A capturing group or one with flags.
    Group(Vec<Item>),
    Branch(Vec<Vec<Item>>),
    /// A greedy repeat; `never` is `{0}`.
    Repeat {
        never: bool,
        items: Vec<Item>,
    },
}

/// The items up to the end of the group that the tokens are in; `(?:...)` dissolves into its items.
fn items(tokens: &mut Iter<'_, Token>) -> Vec<Item> {
    let (mut branches, mut items) = (Vec::new(), Vec::new());
    // What a repeat would repeat.
    let mut last = 0;
    while let Some(token) = tokens.next() {
        if let Token::Repeat(repeat) = token {
            let repeated = items.split_off(last);
            let never = repeat.most == Some(0);
            items.push(if repeat.lazy {
                Item::PassedOver
            } else {
                Item::Repeat {
                    never,
                    items: repeated,
                }
            });
            continue;
        }
        last = items.len();
        match token {
            Token::Close => break,
            Token::Alternate => branches.push(std::mem::take(&mut items)),
            Token::Open(group) => {
                let inner = self::items(tokens);
                match group {
                    Group::Plain => items.extend(inner),
                    Group::Capture(_) | Group::Flags(_) => items.push(Item::Group(inner)),
                    Group::Look(_) => items.push(Item::LookAround),
                    Group::Atomic => items.push(Item::PassedOver),
                    Group::Condition(_) => items.push(Item::BackReference),
                }
            }
            Token::Character(_) => items.push(Item::Consumer),
            Token::Class { negated, members } => {
                let single = matches!(members[..], [Member::Character(_), ..])
                    && members.iter().all(|member| *member == members[0]);
                items.push(if *negated && single {
                    Item::PassedOver
                } else {
                    Item::Consumer
                });
            }
            Token::Assertion(Assertion::Boundary { .. }) => items.push(Item::WordBoundary),
            Token::Assertion(_) => items.push(Item::Anchor),
            Token::Reference(_) => items.push(Item::BackReference),
            Token::Repeat(_) => {}
        }
    }
    branches.push(items);
    if branches.len() == 1 {
        branches.swap_remove(0)
    } else {
        vec![Item::Branch(branches)]
    }
}

fn unsupported(items: &[Item]) -> Option<&'static str> {
    items.iter().find_map(|item| match item {
        Item::BackReference => Some("back-reference"),
        Item::LookAround => Some("look-around"),
        Item::WordBoundary => Some("word boundary"),
        Item::Branch(branches) => branches.iter().find_map(|branch| unsupported(branch)),
        Item::Repeat { items, .. } => unsupported(items),
        Item::Consumer | Item::PassedOver | Item::Anchor | Item::Group(_) => None,
    })
}

fn needs_context(items: &[Item]) -> bool {
    for item in items {
        let branches: &[Vec<Item>] = match item {
            Item::Anchor | Item::WordBoundary | Item::LookAround => return true,
            Item::Consumer => return false,
            Item::PassedOver | Item::BackReference => continue,
            Item::Group(inner) | Item::Repeat { items: inner, .. } => std::slice::from_ref(inner),
            Item::Branch(branches) => branches,
        };
        if branches.iter().any(|branch| needs_context(branch)) {
            return true;
        }
        if branches.iter().any(|branch| consumes(branch)) {
            return false;
        }
    }
    false
}

fn consumes(items: &[Item]) -> bool {
    items.iter().any(|item| match item {
        Item::Consumer => true,
        Item::Group(inner) => consumes(inner),
        Item::Repeat { never, items } => !never && consumes(items),
        Item::Branch(branches) => branches.iter().any(|branch| consumes(branch)),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(regex: &str) -> String {
        match check(regex) {
            Ok(()) => "ok".into(),
            Err(EngineError::Unsupported { feature, .. }) => feature,
            Err(EngineError::Invalid { .. }) => "invalid".into(),
            Err(other) => panic!("{regex}: {other:?}"),
        }
    }

    /// The verdicts are what the same check says in CPython 3.11, with its own `re._parser`. Three
    /// spaces stand between regexes.
    #[test]
    fn sees_what_cpython_s_parser_sees() {
        let table = [
            (
                "ok",
                r#"a   a$   (?:a|b)$   (foo\b)   (a|foo\B)*   (?:\b)*?   [^ab]$   [^\d]$   x*$   x{0}$   x{0,3}$   a*+
(?:a*)*   a{,3}   a{x}   a{}   {   a{1,2,3}   []a]   [^]a]   [a-]   [\b]   a\Z   \x41   \u00e9
\N{DIGIT ONE}   \/   \-   (?i)a   (?i:a)$   (?-i:a)   (?>a|b)c   \012   \112   (|a)^   (?:a|)$   ()*
(?:)*   a((?=a))   [a-z&&[b]]   \w+@\w+\.com\n   (?:(?:a))   (?:a)(?:b*)*   (?:a*?)*   (?:(?>a))*"#,
            ),
            (
                "leading anchor",
                r#"^a   $   (^a)   (a|^b)   (?:^a)b   [^a]$   [^aa]$   [^\n]^   x*?$   (?:^)*   (^)*   \Aa   (?i:^a)
(?>a)$   (?#c)^a   ()^   (?:(?:^)a)   ((?=a))b   (?:^|a)b   (?:(?:^))*"#,
            ),
            (
                "look-around",
                r#"(?=a)b   a(?=b)   a(?!b)   (?<=a)b   (?<!a)b   (?:a(?=b))*   (?:(?=a))*   (?=a)*"#,
            ),
            ("back-reference", r#"(a)\1   (?P<n>a)(?P=n)   (a)(?(1)b|c)"#),
            (
                "word boundary",
                r#"\bfoo   foo\b   (?:foo\b)   a|foo\b   a*?\b   (?:\b)*"#,
            ),
            (
                "invalid",
                r#"(?P<n>a)(?P=m)   \1   a**   a*+*   *a   ^*   a{2,1}   (a   a)   [a   [z-a]   [\d-z]   [\B]   \p{L}
\z   \x4   \U00110000   a(?i)   (?<n>a)   (?#c   (?P<1>a)   (?P<n a>a)   (a\1)   \412   \   a(?"#,
            ),
        ];
        for (expected, regexes) in table {
            for regex in regexes.lines().flat_map(|line| line.split("   ")) {
                assert_eq!(verdict(regex), expected, "{regex}");
            }
        }
        assert_eq!(verdict(""), "ok");
    }

    #[test]
    fn nesting_is_bounded() {
        assert!(
            check(&"(".repeat(MAX_NESTING - 1))
                .is_err_and(|error| matches!(error, EngineError::Invalid { .. }))
        );
        assert!(
            check(&"(".repeat(1 << 20))
                .is_err_and(|error| matches!(error, EngineError::TooLarge { .. }))
        );
        assert!(check(&format!("{}a{}", "(".repeat(200), ")".repeat(200))).is_ok());
    }
}
