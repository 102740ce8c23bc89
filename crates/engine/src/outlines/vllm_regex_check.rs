//! vLLM's check of a regex before it goes to outlines-core.
//!
//! vLLM (0.33, `backend_outlines.py`) parses the regex with CPython's parser. It refuses
//! back-references, look-around and word boundaries, and regexes with an anchor before the first
//! character. It does not inspect capturing groups, lazy and possessive repeats and a single
//! negated character (`[^a]`); neither does this check.

use std::slice::Iter;

use crate::error::EngineError;
use sobench_grammar::pattern::{Assertion, Group, Member, Pattern, PatternError, Syntax, Token};

/// Maximum nesting of groups, the limit of the regex parser of outlines-core.
const MAX_NESTING: usize = 250;

/// Checks a regex like vLLM before it is passed to outlines-core.
///
/// # Errors
/// [`EngineError::Unsupported`] for features that outlines-core lacks, [`EngineError::Invalid`] for
/// an invalid Python regex.
pub(super) fn check(regex: &str) -> Result<(), EngineError> {
    let pattern =
        Pattern::parse(regex, Syntax::Python, MAX_NESTING).map_err(|error| match error {
            PatternError::Nesting(_) => EngineError::TooLarge {
                message: error.to_string(),
            },
            PatternError::Syntax(what) => EngineError::Invalid {
                message: format!("invalid Python regex: {what}"),
            },
        })?;
    let items = items(&mut pattern.tokens.iter());
    if let Some(feature) = unsupported_feature(&items) {
        let message = format!("outlines-core does not support a {feature} in a regex");
        return Err(EngineError::unsupported(feature, message));
    }
    if starts_with_assertion(&items) {
        let message = "an anchor or look-around before the first character is unsupported: outlines-core finds no start state";
        return Err(EngineError::unsupported("leading anchor", message));
    }
    Ok(())
}

/// Part of a regex, as far as the check distinguishes parts.
enum Item {
    /// A character, a class, `.`.
    Consumer,
    /// Parts that vLLM's check ignores: `[^a]`, a lazy or possessive repeat, an atomic group.
    Ignored,
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

/// Returns the items up to the end of the current group. `(?:...)` is replaced by its items.
fn items(tokens: &mut Iter<'_, Token>) -> Vec<Item> {
    let (mut branches, mut items) = (Vec::new(), Vec::new());
    // Start of the item that a repeat applies to.
    let mut repeat_start = 0;
    while let Some(token) = tokens.next() {
        if let Token::Repeat(repeat) = token {
            let repeated = items.split_off(repeat_start);
            let never = repeat.most == Some(0);
            items.push(if repeat.lazy {
                Item::Ignored
            } else {
                Item::Repeat {
                    never,
                    items: repeated,
                }
            });
            continue;
        }
        repeat_start = items.len();
        match token {
            Token::Close => break,
            Token::Alternate => branches.push(std::mem::take(&mut items)),
            Token::Open(group) => {
                let inner = self::items(tokens);
                match group {
                    Group::Plain => items.extend(inner),
                    Group::Capture(_) | Group::Flags(_) => items.push(Item::Group(inner)),
                    Group::Look(_) => items.push(Item::LookAround),
                    Group::Atomic => items.push(Item::Ignored),
                    Group::Condition(_) => items.push(Item::BackReference),
                }
            }
            Token::Character(_) => items.push(Item::Consumer),
            Token::Class { negated, members } => {
                let is_single = matches!(members[..], [Member::Character(_), ..])
                    && members.iter().all(|member| *member == members[0]);
                items.push(if *negated && is_single {
                    Item::Ignored
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

fn unsupported_feature(items: &[Item]) -> Option<&'static str> {
    items.iter().find_map(|item| match item {
        Item::BackReference => Some("back-reference"),
        Item::LookAround => Some("look-around"),
        Item::WordBoundary => Some("word boundary"),
        Item::Branch(branches) => branches
            .iter()
            .find_map(|branch| unsupported_feature(branch)),
        Item::Repeat { items, .. } => unsupported_feature(items),
        Item::Consumer | Item::Ignored | Item::Anchor | Item::Group(_) => None,
    })
}

fn starts_with_assertion(items: &[Item]) -> bool {
    for item in items {
        let branches: &[Vec<Item>] = match item {
            Item::Anchor | Item::WordBoundary | Item::LookAround => return true,
            Item::Consumer => return false,
            Item::Ignored | Item::BackReference => continue,
            Item::Group(inner) | Item::Repeat { items: inner, .. } => std::slice::from_ref(inner),
            Item::Branch(branches) => branches,
        };
        if branches.iter().any(|branch| starts_with_assertion(branch)) {
            return true;
        }
        if branches.iter().any(|branch| consumes_input(branch)) {
            return false;
        }
    }
    false
}

fn consumes_input(items: &[Item]) -> bool {
    items.iter().any(|item| match item {
        Item::Consumer => true,
        Item::Group(inner) => consumes_input(inner),
        Item::Repeat { never, items } => !never && consumes_input(items),
        Item::Branch(branches) => branches.iter().any(|branch| consumes_input(branch)),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_result(regex: &str) -> String {
        match check(regex) {
            Ok(()) => "ok".into(),
            Err(EngineError::Unsupported { feature, .. }) => feature,
            Err(EngineError::Invalid { .. }) => "invalid".into(),
            Err(other) => panic!("{regex}: {other:?}"),
        }
    }

    /// Verdicts of the same check in CPython 3.11 with its `re._parser`. Regexes are separated by
    /// three spaces.
    #[test]
    fn the_check_agrees_with_cpython_s_parser() {
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
                assert_eq!(check_result(regex), expected, "{regex}");
            }
        }
        assert_eq!(check_result(""), "ok");
    }

    #[test]
    fn nesting_is_limited() {
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
