//! Every start of a valid answer may still become valid, wherever it is cut: between any two bytes
//! of generated instances, sentences and matches. Answers that are invalid as a whole are invalid as
//! truncated answers too.

use std::cell::Cell;

use sobench_core::answer::Answer;
use sobench_core::constraint::{Constraint, GrammarDialect};
use sobench_core::observation::Outcome;
use sobench_core::verdict::Reason;
use sobench_judge::{Compiled, Ending, Evaluator, JudgeSettings, judge};

use super::expression::{Expression, Notation};
use super::regexes::texts;
use super::shape::Shape;
use super::source::{self, Source};
use super::spelling::{SpellingFreedom, spell};
use super::syntax::Syntax;
use super::violations::violations;
use super::write;
use crate::suite::corpus::Draft;

/// Number of generated schemas.
const SCHEMAS: usize = 300;

/// Number of generated grammars and regular expressions.
const LANGUAGES: usize = 100;

/// Maximum bytes of an answer that is cut at every byte.
const MAX_BYTES: usize = 600;

/// Maximum number of tested violations per instance.
const MAX_VIOLATIONS: usize = 8;

/// The text cut before byte `end`, as a client decodes it.
fn cut(text: &str, end: usize) -> String {
    String::from_utf8_lossy(&text.as_bytes()[..end]).into_owned()
}

fn compiled(constraint: &Constraint) -> Compiled {
    Evaluator::new(JudgeSettings::default()).compile(constraint)
}

/// The first byte at which the cut answer has a final violation.
fn first_violation(constraint: &Compiled, text: &str) -> Option<(usize, Reason)> {
    let ending = Ending {
        outcome: &Outcome::Truncated,
        finish_reason: None,
    };
    (0..=text.len()).find_map(|end| {
        let answer = Answer::from_text(cut(text, end));
        let reason = judge(constraint, &answer, ending).into_reason()?;
        (reason != Reason::Truncated).then_some((end, reason))
    })
}

fn accept_every_start(constraint: &Constraint, text: &str) -> Result<(), String> {
    match first_violation(&compiled(constraint), text) {
        None => Ok(()),
        Some((end, reason)) => Err(format!(
            "{constraint:?}\n{text}\ncut at byte {end}: {reason}"
        )),
    }
}

fn check_schema(
    source: &mut Source,
    early: &Cell<usize>,
    late: &Cell<usize>,
) -> Result<(), String> {
    let draft = Draft::ALL[source.below(Draft::ALL.len())];
    let shape = Shape::draw(source, 3);
    let constraint = Constraint::JsonSchema(write::schema(&shape, draft).into());
    let freedom = if draft == Draft::Draft4 {
        SpellingFreedom::PlainNumbers
    } else {
        SpellingFreedom::All
    };
    let value = shape.sample(source);
    let text = spell(&value, source, freedom);
    if text.len() <= MAX_BYTES {
        accept_every_start(&constraint, &text)?;
    }
    let compiled = compiled(&constraint);
    let found = violations(&shape, &value, draft);
    for index in source
        .permutation(found.len())
        .into_iter()
        .take(MAX_VIOLATIONS)
    {
        let broken = &found[index].value;
        let text = spell(broken, source, freedom);
        // A number may go on.
        if broken.is_number() || text.len() > MAX_BYTES {
            continue;
        }
        match first_violation(&compiled, &text) {
            Some((end, _)) if end < text.trim_end().len() => early.set(early.get() + 1),
            Some(_) => late.set(late.get() + 1),
            None => return Err(format!("{constraint:?}\n{text}\nis not found")),
        }
    }
    Ok(())
}

#[test]
fn every_start_of_a_generated_instance_may_become_valid() {
    let (early, late) = (Cell::new(0), Cell::new(0));
    source::check(0x97E5_1E55, SCHEMAS, |source| {
        check_schema(source, &early, &late)
    });
    let (early, late) = (early.get(), late.get());
    assert!(
        early > 200 && late > 50,
        "{early} violations were found before the end of the answer, {late} at it"
    );
}

#[test]
fn every_start_of_a_generated_match_may_become_one() {
    let (matches, dead) = (Cell::new(0), Cell::new(0));
    source::check(0x97E5_1E56, LANGUAGES, |source| {
        let texts = texts(source);
        let expression = Expression::draw(source, Notation::Python);
        let constraint = Constraint::Regex(expression.to_text().into());
        let compiled = compiled(&constraint);
        for text in &texts {
            if expression.matches_whole(text) {
                matches.set(matches.get() + 1);
                accept_every_start(&constraint, text)?;
            } else {
                let is_dead = !compiled.may_become_valid(text);
                dead.set(dead.get() + usize::from(is_dead));
            }
        }
        Ok(())
    });
    assert!(
        matches.get() > 500 && dead.get() > 500,
        "{} matches, {} that cannot become one",
        matches.get(),
        dead.get()
    );
}

#[test]
fn every_start_of_a_generated_sentence_may_become_one() {
    let sentences = Cell::new(0);
    source::check(0x97E5_1E57, LANGUAGES, |source| {
        let syntax = Syntax::draw(source);
        for (dialect, is_lark) in [(GrammarDialect::Lark, true), (GrammarDialect::Ebnf, false)] {
            let constraint = Constraint::Grammar {
                dialect,
                text: syntax.to_text(is_lark).into(),
            };
            let sentence = syntax.sentence(source);
            if let Some(text) = sentence.filter(|text| text.len() <= MAX_BYTES) {
                sentences.set(sentences.get() + 1);
                accept_every_start(&constraint, &text)?;
            }
        }
        Ok(())
    });
    assert!(sentences.get() > 20, "{} sentences", sentences.get());
}
