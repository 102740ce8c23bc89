//! Regular expressions: for patterns of common operators, the verdict equals that of an exhaustive
//! matcher; any other pattern is parsed or refused.
//!
//! Bytes: if the first is 0 modulo 4, a pattern, a NUL and a text; otherwise choices for a pattern.

use std::collections::BTreeSet;

use sobench_core::constraint::Constraint;
use sobench_core::verdict::Verdict;

use super::compiled;
use super::draw::Draw;
use super::texts::texts;
use sobench_judge::judge_text;

const MAX_DEPTH: usize = 4;

/// Maximum length of the tested texts over the letters.
const MAX_LENGTH: usize = 4;
const LETTERS: [char; 3] = ['a', 'B', '\n'];

enum Node {
    Letter(char),
    /// `.`: anything except a line feed.
    Any,
    Class {
        negated: bool,
        letters: &'static str,
    },
    /// `\w`, `\s`, `\d` and their opposites.
    Escape(char),
    Sequence(Vec<Node>),
    Choice(Vec<Node>),
    Repeat {
        part: Box<Node>,
        least: usize,
        most: Option<usize>,
        spelling: &'static str,
        lazy: bool,
    },
    /// `(?=`, `(?!`.
    Ahead {
        part: Box<Node>,
        negated: bool,
    },
    /// `\A`, `\Z` of Python, `^` and `$` without flags.
    Anchor(&'static str),
}

pub(crate) fn check(bytes: &[u8]) {
    let mut draw = Draw::new(bytes);
    if draw.below(4) == 0 {
        let (pattern, text) = draw.two_texts();
        // Must not panic.
        let _ = judge_text(&compiled(&Constraint::Regex(pattern.into())), &text);
        return;
    }
    let node = node(&mut draw, 0);
    let pattern = pattern_text(&node);
    let constraint = compiled(&Constraint::Regex(pattern.as_str().into()));
    for text in texts(&LETTERS, MAX_LENGTH) {
        let letters: Vec<char> = text.chars().collect();
        let expected = ends(&node, &letters, 0).contains(&letters.len());
        match judge_text(&constraint, &text) {
            Verdict::NotScored { why } => {
                panic!("{pattern:?} is supported, but not scored: {why:?}")
            }
            verdict => assert_eq!(
                verdict == Verdict::Valid,
                expected,
                "{pattern:?} on {text:?}: {verdict:?}"
            ),
        }
    }
}

fn node(draw: &mut Draw<'_>, depth: usize) -> Node {
    let parts = |draw: &mut Draw<'_>| {
        (0..1 + draw.below(3))
            .map(|_| node(draw, depth + 1))
            .collect()
    };
    match draw.below(if depth < MAX_DEPTH { 12 } else { 5 }) {
        0 => Node::Letter('a'),
        1 => Node::Letter(LETTERS[draw.below(LETTERS.len())]),
        2 => Node::Any,
        3 => Node::Class {
            negated: draw.below(2) == 1,
            letters: ["a", "aB", "a-c", "\\n", "^a", "a^", "-a"][draw.below(7)],
        },
        4 => Node::Escape(['w', 'W', 's', 'S', 'd', 'D'][draw.below(6)]),
        5 | 6 => Node::Sequence(parts(draw)),
        7 => Node::Choice(parts(draw)),
        8 | 9 => repeat(draw, depth),
        10 => Node::Ahead {
            part: Box::new(node(draw, depth + 1)),
            negated: draw.below(2) == 1,
        },
        _ => Node::Anchor(["\\A", "\\Z", "^", "$"][draw.below(4)]),
    }
}

fn repeat(draw: &mut Draw<'_>, depth: usize) -> Node {
    let (least, most, spelling) = [
        (0, None, "*"),
        (1, None, "+"),
        (0, Some(1), "?"),
        (0, Some(2), "{,2}"),
        (2, None, "{2,}"),
        (1, Some(2), "{1,2}"),
        (2, Some(2), "{2}"),
    ][draw.below(7)];
    let lazy = draw.below(2) == 1;
    Node::Repeat {
        part: Box::new(node(draw, depth + 1)),
        least,
        most,
        spelling,
        lazy,
    }
}

fn pattern_text(node: &Node) -> String {
    match node {
        Node::Letter('\n') => "\\n".to_owned(),
        Node::Letter(letter) => letter.to_string(),
        Node::Any => ".".to_owned(),
        // A caret in front would negate.
        Node::Class {
            negated: false,
            letters: "^a",
        } => "[\\^a]".to_owned(),
        Node::Class { negated, letters } => {
            format!("[{}{letters}]", if *negated { "^" } else { "" })
        }
        Node::Escape(letter) => format!("\\{letter}"),
        Node::Sequence(parts) => parts.iter().map(pattern_text).collect(),
        Node::Choice(parts) => format!(
            "(?:{})",
            parts.iter().map(pattern_text).collect::<Vec<_>>().join("|")
        ),
        Node::Repeat {
            part,
            spelling,
            lazy,
            ..
        } => format!(
            "(?:{}){spelling}{}",
            pattern_text(part),
            if *lazy { "?" } else { "" }
        ),
        Node::Ahead { part, negated } => {
            format!(
                "(?{}{})",
                if *negated { '!' } else { '=' },
                pattern_text(part)
            )
        }
        Node::Anchor(anchor) => (*anchor).to_owned(),
    }
}

/// All ends of matches that start at `at`.
fn ends(node: &Node, text: &[char], at: usize) -> BTreeSet<usize> {
    let one = |fits: bool| {
        if fits {
            [at + 1].into()
        } else {
            BTreeSet::new()
        }
    };
    let here = |holds: bool| if holds { [at].into() } else { BTreeSet::new() };
    let next = text.get(at).copied();
    match node {
        Node::Letter(letter) => one(next == Some(*letter)),
        Node::Any => one(next.is_some_and(|character| character != '\n')),
        Node::Class { negated, letters } => {
            one(next.is_some_and(|character| is_in_class(letters, character) != *negated))
        }
        Node::Escape(letter) => {
            one(next.is_some_and(|character| matches_escape(*letter, character)))
        }
        Node::Sequence(parts) => parts
            .iter()
            .fold([at].into(), |from, part| all_ends(part, text, &from)),
        Node::Choice(parts) => parts.iter().flat_map(|part| ends(part, text, at)).collect(),
        Node::Repeat {
            part, least, most, ..
        } => repeated(part, (*least, *most), text, at),
        Node::Ahead { part, negated } => here(ends(part, text, at).is_empty() == *negated),
        Node::Anchor("\\A" | "^") => here(at == 0),
        Node::Anchor("$") => here(at == text.len() || (at + 1 == text.len() && next == Some('\n'))),
        Node::Anchor(_) => here(at == text.len()),
    }
}

fn all_ends(part: &Node, text: &[char], from: &BTreeSet<usize>) -> BTreeSet<usize> {
    from.iter().flat_map(|at| ends(part, text, *at)).collect()
}

fn repeated(
    part: &Node,
    (least, most): (usize, Option<usize>),
    text: &[char],
    at: usize,
) -> BTreeSet<usize> {
    let mut now: BTreeSet<usize> = [at].into();
    for _ in 0..least {
        now = all_ends(part, text, &now);
    }
    let mut all = now.clone();
    // More repetitions than characters reach no further.
    for _ in 0..most.map_or(text.len() + 1, |most| most - least) {
        now = all_ends(part, text, &now);
        all.extend(&now);
    }
    all
}

fn is_in_class(letters: &str, letter: char) -> bool {
    match letters {
        "a-c" => ('a'..='c').contains(&letter),
        "\\n" => letter == '\n',
        listed => listed.contains(letter),
    }
}

fn matches_escape(escape: char, letter: char) -> bool {
    match escape {
        'w' => letter.is_alphanumeric(),
        'W' => !letter.is_alphanumeric(),
        's' => letter.is_whitespace(),
        'S' => !letter.is_whitespace(),
        'd' => letter.is_ascii_digit(),
        _ => !letter.is_ascii_digit(),
    }
}
