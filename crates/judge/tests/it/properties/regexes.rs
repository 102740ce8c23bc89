//! Our reading of regular expressions, Python's and ECMA-262's, beside a matcher by brute force.

use std::cell::Cell;

use serde_json::{Value, json};
use sobench_core::constraint::Constraint;
use sobench_core::verdict::Verdict;
use sobench_judge::{EvaluateOptions, Evaluator};

use super::expression::{Expression, LETTERS, Notation};
use super::source::{self, Source};

/// Generated expressions of each notation.
const CASES: usize = 300;

/// Characters of a text at most.
const LENGTH: usize = 4;

/// Different characters that the texts of one expression are made of.
const ALPHABET: usize = 3;

/// Every text of up to [`LENGTH`] characters of some alphabet.
fn texts(source: &mut Source) -> Vec<String> {
    let alphabet: Vec<char> = source.order(LETTERS.len())[..ALPHABET]
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

fn agree(source: &mut Source, notation: Notation, matched: &Cell<usize>) -> Result<(), String> {
    let texts = texts(source);
    let expression = Expression::draw(source, notation);
    let written = expression.written();
    let constraint = match notation {
        Notation::Python => Constraint::Regex(written.as_str().into()),
        Notation::Ecma => Constraint::JsonSchema(json!({ "pattern": written }).into()),
    };
    let mut evaluator = Evaluator::new(EvaluateOptions::default());
    for text in &texts {
        let (verdict, expected) = match notation {
            Notation::Python => (
                evaluator.judge_text(&constraint, None, text),
                expression.matches_whole(text),
            ),
            Notation::Ecma => {
                let answer = Value::from(text.as_str()).to_string();
                (
                    evaluator.judge_text(&constraint, None, &answer),
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
                "{written:?} on {text:?}: {verdict:?}, expected a match: {expected}"
            ));
        }
        matched.set(matched.get() + usize::from(expected));
    }
    Ok(())
}

fn check(notation: Notation, seed: u64) {
    let matched = Cell::new(0);
    source::check(seed, CASES, |source| agree(source, notation, &matched));
    let compared = CASES * 121;
    assert!(
        (compared / 50..compared * 49 / 50).contains(&matched.get()),
        "{} of {compared} match",
        matched.get()
    );
}

#[test]
fn python_expressions_match_whole_answers_as_by_brute_force() {
    check(Notation::Python, 0x9E6E_0001);
}

#[test]
fn ecma_expressions_match_within_strings_as_by_brute_force() {
    check(Notation::Ecma, 0x9E6E_0002);
}
