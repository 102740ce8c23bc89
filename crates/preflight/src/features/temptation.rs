//! Ways to make a model break a schema, and whether a model yields to them.
//!
//! "Every answer was valid" shows nothing if the model would not have broken the schema anyway. So
//! every feature is also requested without its keyword, or without any constraint, in the same
//! ways: these are its controls. A feature is called enforced only if the controls break the schema
//! often enough that a server that ignores the keyword would have been noticed.

use super::MARKS;
use super::data::Feature;
use sobench_core::verdict::{Reason, Verdict};
use sobench_judge::{Compiled, judge_text};

/// Ways to tempt, the free answer included. Each round of samples has all.
const WAYS: usize = 4;

/// The ways that request a text.
const TEXT_WAYS: usize = WAYS - 1;

/// Samples after which every one of `texts` was requested; that many controls are sent.
pub fn samples_for(texts: usize) -> usize {
    texts.div_ceil(TEXT_WAYS).max(1) * WAYS
}

/// Times that a text is shown before the model is expected to repeat it.
const REPETITIONS: usize = 3;

/// Added to the logits of the tokens of a text. On a small model, 4 made a repeated text likely.
pub const LOGIT_BIAS: f64 = 4.0;

/// The highest accepted chance that a keyword that is ignored goes unnoticed.
const MAX_MISS_PROBABILITY: f64 = 0.05;

/// How one sample tempts the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Temptation<'a> {
    pub prompt: String,
    /// The text whose tokens are made more likely, where the server has `logit_bias`.
    pub biased_text: Option<&'a str>,
}

impl<'a> Temptation<'a> {
    /// The temptation of a sample. The ways alternate: a text to continue, in which the invalid
    /// answer is repeated; an instruction to write it; and a free answer, which finds violations
    /// that the other texts do not have.
    pub fn new(feature: &'a Feature, sample: usize) -> Self {
        let text = requested(feature, sample);
        let way = sample % WAYS;
        let prompt = match text {
            Some(text) if way == 1 => instructed(text),
            Some(text) => repeated(text),
            None => format!("Make up a JSON document, number {sample}, and answer with it alone."),
        };
        Self {
            prompt,
            biased_text: text.filter(|_| way != 2),
        }
    }
}

/// The text that a sample requests; `None` for a free answer. The texts come in turn, and in each
/// round in other ways.
pub fn requested(feature: &Feature, sample: usize) -> Option<&str> {
    let (round, way) = (sample / WAYS, sample % WAYS);
    let texts = feature.violating.len();
    (way < TEXT_WAYS && texts > 0).then(|| {
        let turn = round * TEXT_WAYS + (way + 2 * round) % TEXT_WAYS;
        feature.violating[turn % texts].as_str()
    })
}

/// A text whose likely continuation is `text`, also for models without instruction training.
fn repeated(text: &str) -> String {
    let [before, after] = MARKS;
    let lines = format!("{text}\n").repeat(REPETITIONS);
    format!("{lines}{before}{text}{after}\n{before}")
}

fn instructed(text: &str) -> String {
    let [before, after] = MARKS;
    format!(
        "Answer with exactly the text between the marks, without the marks: {before}{text}{after}"
    )
}

/// Whether the answer of a control breaks the tested keyword: it starts with one of the requested
/// texts, or with a document that breaks the keyword.
pub fn yields(feature: &Feature, constraint: &Compiled, answer: &str) -> bool {
    let answer = answer.trim_start();
    if feature
        .violating
        .iter()
        .any(|text| answer.starts_with(text.as_str()))
    {
        return true;
    }
    let mut documents =
        serde_json::Deserializer::from_str(answer).into_iter::<serde::de::IgnoredAny>();
    let Some(Ok(_)) = documents.next() else {
        return false;
    };
    match judge_text(constraint, &answer[..documents.byte_offset()]) {
        Verdict::Invalid {
            reason: Reason::Schema { keyword, .. },
        } => keyword == feature.keyword,
        Verdict::Invalid {
            reason: Reason::DuplicateKey { .. },
        } => feature.is_about_duplicates(),
        _ => false,
    }
}

/// Whether `complete` valid answers show that the keyword is enforced, after `yielded` of
/// `controls` controls broke it. The rate of a server that ignores the keyword is taken as
/// `yielded / (controls + 1)`, because few controls may overstate it.
pub fn is_convincing(yielded: usize, controls: usize, complete: usize) -> bool {
    let rate = yielded as f64 / (controls as f64 + 1.0);
    let complete = i32::try_from(complete).unwrap_or(i32::MAX);
    (1.0 - rate).powi(complete) <= MAX_MISS_PROBABILITY
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::features::data::shipped;
    use sobench_judge::{Evaluator, JudgeSettings};

    fn feature(id: &str) -> Feature {
        let mut features = shipped().into_iter();
        features.find(|feature| feature.id == id).unwrap()
    }

    #[test]
    fn every_text_is_requested_in_every_way() {
        for feature in shipped() {
            let temptations: Vec<Temptation<'_>> = (0..16)
                .map(|sample| Temptation::new(&feature, sample))
                .collect();
            for text in &feature.violating {
                let requested = |temptation: &&Temptation<'_>| {
                    let [before, after] = MARKS;
                    temptation
                        .prompt
                        .contains(&format!("{before}{text}{after}"))
                };
                let ways = temptations.iter().filter(requested);
                let least = if feature.violating.len() > 6 { 1 } else { 2 };
                assert!(ways.count() >= least, "{}: {text}", feature.id);
            }
            let first = 0..samples_for(feature.violating.len());
            let asked: HashSet<_> = first.filter_map(|at| requested(&feature, at)).collect();
            assert_eq!(asked.len(), feature.violating.len(), "{}", feature.id);
            let free = temptations
                .iter()
                .filter(|temptation| !temptation.prompt.contains(MARKS[0]));
            assert_eq!(free.count(), 4, "{}", feature.id);
        }
        let enumeration = feature("enum");
        let repeated = Temptation::new(&enumeration, 0).prompt;
        assert_eq!(
            repeated,
            "{\"v\": \"purple\"}\n{\"v\": \"purple\"}\n{\"v\": \"purple\"}\n<<<{\"v\": \"purple\"}>>>\n<<<"
        );
    }

    #[test]
    fn only_a_violation_of_the_keyword_counts_as_yielding() {
        let mut evaluator = Evaluator::new(JudgeSettings::default());
        let mut check = |id: &str, answer: &str| {
            let feature = feature(id);
            yields(&feature, &evaluator.compile(&feature.constraint()), answer)
        };
        assert!(check("enum", " {\"v\": \"purple\"}>>>\nand so on"));
        assert!(check("enum", "{\"v\": \"mauve\"} is a colour"));
        assert!(!check("enum", "{\"v\": \"red\"}"));
        assert!(!check("enum", "{\"w\": \"mauve\"}"));
        assert!(!check("enum", "{\"v\": \"mau"));
        assert!(!check("enum", "The colour is mauve."));
        assert!(!check("enum", ""));
        assert!(check("empty-schema", "{\"v\": NaN}"));
        assert!(check("duplicate-members", "{\"a\": 1, \"b\": 2, \"b\": 3}"));
    }

    #[test]
    fn evidence_grows_with_yielding_controls_and_answers() {
        for (yielded, controls, complete, convincing) in [
            (0, 4, 1000, false),
            (0, 0, 16, false),
            (1, 4, 13, false),
            (1, 4, 16, true),
            (4, 4, 1, false),
            (4, 4, 2, true),
            (4, 4, 0, false),
        ] {
            assert_eq!(
                is_convincing(yielded, controls, complete),
                convincing,
                "{yielded} of {controls}, {complete}"
            );
        }
    }
}
