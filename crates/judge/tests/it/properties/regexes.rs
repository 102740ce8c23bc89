//! Compares regular expressions of Python and ECMA-262 with a brute-force matcher.

use std::cell::Cell;

use serde_json::{Value, json};
use sobench_core::constraint::Constraint;
use sobench_core::verdict::Verdict;
use sobench_judge::{Evaluator, JudgeSettings, judge_text};

use super::expression::{Expression, LETTERS, Notation};
use super::source::{self, Source};

/// Number of generated expressions per notation.
const CASES: usize = 300;

/// Maximum characters of a text.
const LENGTH: usize = 4;

/// Number of different characters in the texts of one expression.
const ALPHABET: usize = 3;

/// All texts of up to [`LENGTH`] characters over a random alphabet.
pub(super) fn texts(source: &mut Source) -> Vec<String> {
    let alphabet: Vec<char> = source.permutation(LETTERS.len())[..ALPHABET]
        .iter()
        .map(|index| LETTERS[*index])
        .collect();
    let mut texts = vec![String::new()];
    let mut longest = texts.clone();
    for _ in 0..LENGTH {
        longest = longest
            .iter()
            .flat_map(|text| alphabet.iter().map(move |letter| format!("{text}{letter}")))
            .collect();
        texts.extend(longest.iter().cloned());
    }
    texts
}

fn check_expression(
    source: &mut Source,
    notation: Notation,
    matched: &Cell<usize>,
) -> Result<(), String> {
    let texts = texts(source);
    let expression = Expression::draw(source, notation);
    let pattern = expression.to_text();
    let constraint = match notation {
        Notation::Python => Constraint::Regex(pattern.as_str().into()),
        Notation::Ecma => Constraint::JsonSchema(json!({ "pattern": pattern }).into()),
    };
    let constraint = Evaluator::new(JudgeSettings::default()).compile(&constraint);
    for text in &texts {
        let (verdict, expected) = match notation {
            Notation::Python => (
                judge_text(&constraint, text),
                expression.matches_whole(text),
            ),
            Notation::Ecma => {
                let answer = Value::from(text.as_str()).to_string();
                (
                    judge_text(&constraint, &answer),
                    expression.matches_within(text),
                )
            }
        };
        let agrees = match verdict {
            Verdict::Valid => expected,
            Verdict::Invalid { .. } => !expected,
            Verdict::NotScored { .. } => false,
        };
        if !agrees {
            return Err(format!(
                "{pattern:?} on {text:?}: {verdict:?}, expected a match: {expected}"
            ));
        }
        matched.set(matched.get() + usize::from(expected));
    }
    Ok(())
}

fn check(notation: Notation, seed: u64) {
    let matched = Cell::new(0);
    source::check(seed, CASES, |source| {
        check_expression(source, notation, &matched)
    });
    let compared = CASES * 121;
    assert!(
        (compared / 50..compared * 49 / 50).contains(&matched.get()),
        "{} of {compared} match",
        matched.get()
    );
}

#[test]
fn python_full_matches_agree_with_brute_force() {
    check(Notation::Python, 0x9E6E_0001);
}

#[test]
fn ecma_searches_agree_with_brute_force() {
    check(Notation::Ecma, 0x9E6E_0002);
}
