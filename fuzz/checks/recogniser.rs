//! Compares the recogniser with brute force: on small grammars it accepts exactly the short
//! sentences and their prefixes.
//!
//! Bytes: choices for a grammar of up to four rules over `a` and `b`, with all operators of the
//! notation.

use std::collections::BTreeSet;

use sobench_core::constraint::GrammarDialect;
use sobench_grammar::{Membership, compile};

use super::draw::Draw;
use super::texts::texts;

/// Maximum length of the tested texts; there are 63.
const MAX_LENGTH: usize = 5;

const MAX_RULES: usize = 4;
const MAX_DEPTH: usize = 4;

enum Node {
    Text(&'static str),
    Rule(usize),
    Sequence(Vec<Node>),
    Choice(Vec<Node>),
    Optional(Box<Node>),
    Star(Box<Node>),
    Plus(Box<Node>),
}

/// Texts, none longer than [`MAX_LENGTH`].
type Texts = BTreeSet<String>;

pub(crate) fn check(bytes: &[u8]) {
    let mut draw = Draw::new(bytes);
    let count = 1 + draw.below(MAX_RULES);
    let rules: Vec<Node> = (0..count).map(|_| node(&mut draw, count, 0)).collect();
    let (sentences, prefixes) = languages(&rules);
    for (dialect, text) in [
        (GrammarDialect::Lark, grammar_text(&rules, "start", ":")),
        (GrammarDialect::Ebnf, grammar_text(&rules, "root", "::=")),
    ] {
        let recogniser = match compile(dialect, &text) {
            Ok(recogniser) => recogniser,
            // A grammar with an empty language may be refused, others may not.
            Err(error) => {
                assert!(
                    sentences.is_empty() && prefixes.is_empty(),
                    "refused with sentences: {error}\n{text}"
                );
                continue;
            }
        };
        for candidate in texts(&['a', 'b'], MAX_LENGTH) {
            let membership = recogniser.recognise(&candidate);
            assert_eq!(
                membership == Membership::Member,
                sentences.contains(&candidate),
                "{candidate:?}: {membership:?}\n{text}"
            );
            assert_eq!(
                recogniser.is_prefix(&candidate),
                prefixes.contains(&candidate),
                "prefix {candidate:?}\n{text}"
            );
        }
    }
}

fn node(draw: &mut Draw<'_>, rules: usize, depth: usize) -> Node {
    let parts = |draw: &mut Draw<'_>| {
        (0..1 + draw.below(3))
            .map(|_| node(draw, rules, depth + 1))
            .collect()
    };
    let part = |draw: &mut Draw<'_>| Box::new(node(draw, rules, depth + 1));
    match draw.below(if depth < MAX_DEPTH { 9 } else { 4 }) {
        0 => Node::Text("a"),
        1 => Node::Text("b"),
        2 => Node::Text(["", "ab", "ba"][draw.below(3)]),
        3 => Node::Rule(draw.below(rules)),
        4 => Node::Sequence(parts(draw)),
        5 => Node::Choice(parts(draw)),
        6 => Node::Optional(part(draw)),
        7 => Node::Star(part(draw)),
        _ => Node::Plus(part(draw)),
    }
}

fn grammar_text(rules: &[Node], start: &str, defines: &str) -> String {
    let name = |index: usize| {
        if index == 0 {
            start.to_owned()
        } else {
            format!("rule{index}")
        }
    };
    let lines = rules
        .iter()
        .enumerate()
        .map(|(index, rule)| format!("{} {defines} {}\n", name(index), node_text(rule, &name)));
    lines.collect()
}

fn node_text(node: &Node, name: &dyn Fn(usize) -> String) -> String {
    let joined = |parts: &[Node], by: &str| {
        parts
            .iter()
            .map(|part| node_text(part, name))
            .collect::<Vec<_>>()
            .join(by)
    };
    match node {
        Node::Text(text) => format!("\"{text}\""),
        Node::Rule(index) => name(*index),
        Node::Sequence(parts) => format!("({})", joined(parts, " ")),
        Node::Choice(parts) => format!("({})", joined(parts, " | ")),
        Node::Optional(part) => format!("({})?", node_text(part, name)),
        Node::Star(part) => format!("({})*", node_text(part, name)),
        Node::Plus(part) => format!("({})+", node_text(part, name)),
    }
}

/// The short sentences of the first rule, and the short prefixes of its sentences of any length.
///
/// Short sentences consist of short sentences, so the sets grow to a fixed point. A prefix of a
/// sequence ends in one of its parts: all earlier parts are complete, and all later parts derive
/// some text.
fn languages(rules: &[Node]) -> (Texts, Texts) {
    let mut whole = vec![Texts::new(); rules.len()];
    fixed_point(&mut whole, |known| {
        rules.iter().map(|rule| sentences(rule, known)).collect()
    });
    let mut productive = vec![false; rules.len()];
    fixed_point(&mut productive, |known| {
        rules
            .iter()
            .map(|rule| is_productive(rule, known))
            .collect()
    });
    let mut prefix_sets = vec![Texts::new(); rules.len()];
    fixed_point(&mut prefix_sets, |known| {
        rules
            .iter()
            .map(|rule| prefixes(rule, known, &whole, &productive))
            .collect()
    });
    (whole.swap_remove(0), prefix_sets.swap_remove(0))
}

fn fixed_point<T: PartialEq>(known: &mut T, step: impl Fn(&T) -> T) {
    loop {
        let next = step(known);
        if next == *known {
            return;
        }
        *known = next;
    }
}

fn sentences(node: &Node, known: &[Texts]) -> Texts {
    match node {
        Node::Text(text) => [(*text).to_owned()].into(),
        Node::Rule(index) => known[*index].clone(),
        Node::Sequence(parts) => parts.iter().fold(empty(), |before, part| {
            joined(&before, &sentences(part, known))
        }),
        Node::Choice(parts) => parts
            .iter()
            .flat_map(|part| sentences(part, known))
            .collect(),
        Node::Optional(part) => &sentences(part, known) | &empty(),
        Node::Star(part) => repeated(&sentences(part, known)),
        Node::Plus(part) => {
            let once = sentences(part, known);
            joined(&once, &repeated(&once))
        }
    }
}

fn is_productive(node: &Node, known: &[bool]) -> bool {
    match node {
        Node::Text(_) | Node::Optional(_) | Node::Star(_) => true,
        Node::Rule(index) => known[*index],
        Node::Sequence(parts) => parts.iter().all(|part| is_productive(part, known)),
        Node::Choice(parts) => parts.iter().any(|part| is_productive(part, known)),
        Node::Plus(part) => is_productive(part, known),
    }
}

fn prefixes(node: &Node, known: &[Texts], whole: &[Texts], productive: &[bool]) -> Texts {
    let inner = |node: &Node| prefixes(node, known, whole, productive);
    match node {
        Node::Text(text) => (0..=text.len()).map(|end| text[..end].to_owned()).collect(),
        Node::Rule(index) => known[*index].clone(),
        Node::Choice(parts) => parts.iter().flat_map(inner).collect(),
        Node::Optional(part) => &inner(part) | &empty(),
        Node::Star(part) => &joined(&repeated(&sentences(part, whole)), &inner(part)) | &empty(),
        Node::Plus(part) => joined(&repeated(&sentences(part, whole)), &inner(part)),
        Node::Sequence(parts) if !is_productive(node, productive) => {
            let _ = parts;
            Texts::new()
        }
        Node::Sequence(parts) => {
            let mut before = empty();
            let mut all = Texts::new();
            for part in parts {
                all.extend(joined(&before, &inner(part)));
                before = joined(&before, &sentences(part, whole));
            }
            all
        }
    }
}

fn empty() -> Texts {
    [String::new()].into()
}

fn joined(left: &Texts, right: &Texts) -> Texts {
    let pairs = left
        .iter()
        .flat_map(|left| right.iter().map(move |right| left.clone() + right));
    pairs.filter(|text| text.len() <= MAX_LENGTH).collect()
}

fn repeated(once: &Texts) -> Texts {
    let mut all = empty();
    fixed_point(&mut all, |known| known | &joined(known, once));
    all
}
