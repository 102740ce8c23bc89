//! Converted grammars are accepted by the target engine and mean the same as their source: EBNF for
//! xgrammar, Lark for llguidance.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use serde::Deserialize;
use sobench_core::constraint::{Constraint, GrammarDialect};
use sobench_engine::{EngineName, Grammar, TokenMask, Vocabulary};
use sobench_grammar::{Membership, compile, convert};
use sobench_testkit::random::Random;
use sobench_testkit::repository_path;

use crate::engines::{cl100k, open, small};
use crate::guidance::{Engine, engine_accepts};

/// A text, and whether it is a sentence of a grammar in `fixtures/grammars`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sample {
    grammar: String,
    text: String,
    member: bool,
    /// llguidance's result where it departs: it skips no ignored text before the first terminal
    /// (`allow_initial_skip`).
    guidance: Option<bool>,
}

fn samples() -> BTreeMap<String, Vec<Sample>> {
    let text = fs::read_to_string(repository_path("fixtures/grammars/texts.jsonl")).unwrap();
    let mut found: BTreeMap<String, Vec<Sample>> = BTreeMap::new();
    for sample in text
        .lines()
        .map(|line| serde_json::from_str::<Sample>(line).unwrap())
    {
        found
            .entry(sample.grammar.clone())
            .or_default()
            .push(sample);
    }
    found
}

fn compiled(
    name: EngineName,
    vocabulary: &Arc<Vocabulary>,
    dialect: GrammarDialect,
    text: &str,
) -> Arc<dyn Grammar> {
    let constraint = Constraint::Grammar {
        dialect,
        text: text.into(),
    };
    open(name, vocabulary)
        .compile(&constraint)
        .unwrap_or_else(|error| panic!("{name:?} refuses: {error}\n{text}"))
}

/// Commits the text token by token, and returns whether it may end there.
fn accepts(grammar: &dyn Grammar, vocabulary: &Vocabulary, text: &str) -> bool {
    let mut matcher = grammar.matcher().unwrap();
    for token in vocabulary.encode(text) {
        let mut mask = TokenMask::new(vocabulary.len());
        matcher.mask(&mut mask).unwrap();
        if !mask.allows(token) {
            return false;
        }
        matcher.commit(token).unwrap();
    }
    matcher.is_accepting().unwrap()
}

#[test]
fn converted_grammars_mean_the_same_to_the_engines() {
    let (mut checked, mut mismatches) = (0, Vec::new());
    for (name, samples) in samples() {
        let text = fs::read_to_string(repository_path("fixtures/grammars").join(&name)).unwrap();
        let dialect = if name.ends_with(".lark") {
            GrammarDialect::Lark
        } else {
            GrammarDialect::Ebnf
        };
        let converted = |target| convert(dialect, target, &text).unwrap().text;
        // EBNF is always converted to its portable form, because xgrammar does not support the `.`
        // of GBNF.
        let ebnf = converted(GrammarDialect::Ebnf);
        let lark = if dialect == GrammarDialect::Lark {
            text.clone()
        } else {
            converted(GrammarDialect::Lark)
        };
        let source = compile(dialect, &text).unwrap();
        let guidance = compiled(EngineName::Guidance, cl100k(), GrammarDialect::Lark, &lark);
        let xgrammar = compiled(EngineName::Xgrammar, cl100k(), GrammarDialect::Ebnf, &ebnf);
        for Sample {
            text,
            member,
            guidance: departure,
            ..
        } in &samples
        {
            let results = [
                (
                    "sobench",
                    source.recognise(text) == Membership::Member,
                    *member,
                ),
                (
                    "guidance",
                    accepts(&*guidance, cl100k(), text),
                    departure.unwrap_or(*member),
                ),
                ("xgrammar", accepts(&*xgrammar, cl100k(), text), *member),
            ];
            mismatches.extend(
                results
                    .iter()
                    .filter(|(_, found, right)| found != right)
                    .map(|(engine, ..)| format!("{engine}, {name}: {text:?}")),
            );
            checked += 1;
        }
    }
    assert_eq!(mismatches, [""; 0]);
    assert!(checked >= 60, "{checked}");
}

/// A random expression over `a`, `b` and `c`, with strings that are prefixes of each other and
/// overlapping classes, in the syntax that both notations share.
fn expression(random: &mut Random, rules: u64, depth: u32) -> String {
    let kinds = if depth == 0 { 5 } else { 12 };
    let inner = |random: &mut Random| expression(random, rules, depth.saturating_sub(1));
    match random.below(kinds) {
        0..2 => [
            "\"a\"", "\"b\"", "\"ab\"", "\"abc\"", "\"ba\"", "\"cb\"", "\"cc\"",
        ][random.below(7) as usize]
            .to_owned(),
        2 | 3 => format!("t{}", random.below(2)),
        4 => format!("r{}", random.below(rules)),
        5..7 => format!("{} {}", inner(random), inner(random)),
        7 | 8 => format!("({} | {})", inner(random), inner(random)),
        9 => format!("({})*", inner(random)),
        10 => format!("({})?", inner(random)),
        _ => {
            let least = random.below(3);
            format!(
                "({}){{{least},{}}}",
                inner(random),
                least + 1 + random.below(2)
            )
        }
    }
}

/// Random rules, the first of them `r0`. `separator` separates a rule's name and body.
fn rules(random: &mut Random, separator: &str) -> String {
    let count = 1 + random.below(3);
    (0..count)
        .map(|number| format!("r{number} {separator} {}\n", expression(random, count, 3)))
        .collect()
}

/// All texts over three letters up to a length.
fn short_texts(longest: u32) -> Vec<String> {
    let mut texts = vec![String::new()];
    let shorter: usize = (0..longest).map(|length| 3_usize.pow(length)).sum();
    for index in 0..shorter {
        texts.extend(['a', 'b', 'c'].map(|letter| format!("{}{letter}", texts[index])));
    }
    texts
}

#[test]
fn converted_ebnf_keeps_all_sentences_in_llguidance() {
    let engine = Engine::new();
    let mut random = Random(0x2545_F491_4F6C_DD1D);
    let texts = short_texts(5);
    let (mut compared, mut members) = (0, 0);
    for _ in 0..200 {
        let source = format!(
            "root ::= r0\n{}t0 ::= [ab]\nt1 ::= [^ab]\n",
            rules(&mut random, "::=")
        );
        let Ok(converted) = convert(GrammarDialect::Ebnf, GrammarDialect::Lark, &source) else {
            continue;
        };
        let recogniser = compile(GrammarDialect::Ebnf, &source).unwrap();
        let matcher = engine
            .matcher(&converted.text)
            .unwrap_or_else(|error| panic!("{error}\n{}", converted.text));
        for text in &texts {
            let member = recogniser.recognise(text) == Membership::Member;
            assert_eq!(
                engine_accepts(&matcher, text),
                member,
                "{text:?} of {source}\nas\n{}",
                converted.text
            );
            compared += 1;
            members += usize::from(member);
        }
    }
    assert!(
        compared > 100 * texts.len() && members > 800,
        "{members} of {compared}"
    );
}

#[test]
fn converted_random_lark_means_the_same_in_xgrammar() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let texts = short_texts(4);
    let (mut compared, mut members) = (0, 0);
    for _ in 0..200 {
        let source = format!(
            "start: r0\n{}t0: /[ab]/\nt1: /[^ab]/ | start t0\n",
            rules(&mut random, ":")
        );
        let Ok(converted) = convert(GrammarDialect::Lark, GrammarDialect::Ebnf, &source) else {
            continue;
        };
        let recogniser = compile(GrammarDialect::Lark, &source).unwrap();
        let grammar = compiled(
            EngineName::Xgrammar,
            small(),
            GrammarDialect::Ebnf,
            &converted.text,
        );
        for text in &texts {
            let member = recogniser.recognise(text) == Membership::Member;
            assert_eq!(
                accepts(&*grammar, small(), text),
                member,
                "{text:?} of {source}\nas\n{}",
                converted.text
            );
            compared += 1;
            members += usize::from(member);
        }
    }
    assert!(
        compared > 60 * texts.len() && members > 300,
        "{members} of {compared}"
    );
}
