//! The recogniser against brute force: on small grammars it knows every short sentence and every
//! beginning of one, and no other.
//!
//! Bytes: the choices of a grammar of up to four rules over `a` and `b`, with every operator of the
//! notation.

use std::collections::BTreeSet;

use sobench_core::constraint::GrammarDialect;
use sobench_grammar::{Membership, compile};

use super::draw::Draw;
use super::texts::texts;

/// All texts up to this length are tried: 63 of them.
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
    let (sentences, beginnings) = languages(&rules);
    for (dialect, text) in [
        (GrammarDialect::Lark, written(&rules, "start", ":")),
        (GrammarDialect::Ebnf, written(&rules, "root", "::=")),
    ] {
        let recogniser = match compile(dialect, &text) {
            Ok(recogniser) => recogniser,
            // A grammar without any sentence may be refused; one that has some may not.
            Err(error) => {
                assert!(
                    sentences.is_empty() && beginnings.is_empty(),
                    "refused with sentences: {error}\n{text}"
                );
                continue;
            }
        };
        for tried in texts(&['a', 'b'], MAX_LENGTH) {
            let membership = recogniser.recognise(&tried);
            assert_eq!(
                membership == Membership::Member,
                sentences.contains(&tried),
                "{tried:?}: {membership:?}\n{text}"
            );
            assert_eq!(
                recogniser.is_prefix(&tried),
                beginnings.contains(&tried),
                "beginning {tried:?}\n{text}"
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

fn written(rules: &[Node], start: &str, defines: &str) -> String {
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
        .map(|(index, rule)| format!("{} {defines} {}\n", name(index), spelt(rule, &name)));
    lines.collect()
}

fn spelt(node: &Node, name: &dyn Fn(usize) -> String) -> String {
    let joined = |parts: &[Node], by: &str| {
        parts
            .iter()
            .map(|part| spelt(part, name))
            .collect::<Vec<_>>()
            .join(by)
    };
    match node {
        Node::Text(text) => format!("\"{text}\""),
        Node::Rule(index) => name(*index),
        Node::Sequence(parts) => format!("({})", joined(parts, " ")),
        Node::Choice(parts) => format!("({})", joined(parts, " | ")),
        Node::Optional(part) => format!("({})?", spelt(part, name)),
        Node::Star(part) => format!("({})*", spelt(part, name)),
        Node::Plus(part) => format!("({})+", spelt(part, name)),
    }
}

/// The short sentences of the first rule, and the short beginnings of its sentences of any length.
///
/// A short sentence is made of short sentences, so that the sets grow to a fixed point. A beginning
/// of a sequence ends in one of its parts, of which all before are whole and all after have some
/// sentence, of whatever length.
fn languages(rules: &[Node]) -> (Texts, Texts) {
    let mut whole = vec![Texts::new(); rules.len()];
    fixed_point(&mut whole, |known| {
        rules.iter().map(|rule| sentences(rule, known)).collect()
    });
    let mut fruitful = vec![false; rules.len()];
    fixed_point(&mut fruitful, |known| {
        rules.iter().map(|rule| is_fruitful(rule, known)).collect()
    });
    let mut begun = vec![Texts::new(); rules.len()];
    fixed_point(&mut begun, |known| {
        rules
            .iter()
            .map(|rule| beginnings(rule, known, &whole, &fruitful))
            .collect()
    });
    (whole.swap_remove(0), begun.swap_remove(0))
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

fn is_fruitful(node: &Node, known: &[bool]) -> bool {
    match node {
        Node::Text(_) | Node::Optional(_) | Node::Star(_) => true,
        Node::Rule(index) => known[*index],
        Node::Sequence(parts) => parts.iter().all(|part| is_fruitful(part, known)),
        Node::Choice(parts) => parts.iter().any(|part| is_fruitful(part, known)),
        Node::Plus(part) => is_fruitful(part, known),
    }
}

fn beginnings(node: &Node, known: &[Texts], whole: &[Texts], fruitful: &[bool]) -> Texts {
    let inner = |node: &Node| beginnings(node, known, whole, fruitful);
    match node {
        Node::Text(text) => (0..=text.len()).map(|end| text[..end].to_owned()).collect(),
        Node::Rule(index) => known[*index].clone(),
        Node::Choice(parts) => parts.iter().flat_map(inner).collect(),
        Node::Optional(part) => &inner(part) | &empty(),
        Node::Star(part) => &joined(&repeated(&sentences(part, whole)), &inner(part)) | &empty(),
        Node::Plus(part) => joined(&repeated(&sentences(part, whole)), &inner(part)),
        Node::Sequence(parts) if !is_fruitful(node, fruitful) => {
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
