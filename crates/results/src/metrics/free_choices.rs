//! Free choices of engine and model in the JSON answers of a run, by arm.

use schemars::JsonSchema;
use serde::Serialize;

use super::Sample;
use sobench_core::answer::Answer;
use sobench_core::case::Arm;
use sobench_core::constraint::Constraint;
use sobench_core::observation::Outcome;
use sobench_judge::free_choices::{FreeChoices, MemberOrder, NonAscii, WhiteSpace};
use sobench_statistics::Rate;

/// The choices of a complete answer to a request for JSON; `None` for others.
pub fn free_choices(
    constraint: Option<&Constraint>,
    outcome: &Outcome,
    answer: &Answer,
) -> Option<FreeChoices> {
    let schema = constraint
        .filter(|constraint| constraint.is_json())?
        .schema();
    (*outcome == Outcome::Completed)
        .then(|| FreeChoices::new(&answer.text(), schema.map(|schema| &**schema), None))
        .flatten()
}

/// Shares of the choices in a run.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct FreeChoiceShares {
    /// The arms with JSON answers.
    pub arms: Vec<ArmFreeChoices>,
}

/// Shares of one arm, of its complete answers that are one JSON object or array.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct ArmFreeChoices {
    pub arm: Arm,
    pub answers: usize,
    /// Answers whose members are in the order of the schema / answers with an object that has two
    /// declared members.
    pub declared_order: Option<Rate>,
    /// Answers by their white space within the document.
    pub compact: Option<Rate>,
    pub spaced: Option<Rate>,
    pub lines: Option<Rate>,
    pub mixed: Option<Rate>,
    /// Answers with white space before or after the document.
    pub outer_white_space: Option<Rate>,
    /// Answers with an escaped non-ASCII character / answers with non-ASCII characters.
    pub non_ascii_escaped: Option<Rate>,
    /// Bytes of all answers over those of the compact spelling, in percent.
    pub over_compact_percent: f64,
}

impl FreeChoiceShares {
    /// `None` without JSON answers.
    pub fn new(samples: &[Sample<'_>]) -> Option<Self> {
        let arms: Vec<ArmFreeChoices> = Arm::ALL
            .into_iter()
            .filter_map(|arm| ArmFreeChoices::new(samples, arm))
            .collect();
        (!arms.is_empty()).then_some(Self { arms })
    }
}

impl ArmFreeChoices {
    fn new(samples: &[Sample<'_>], arm: Arm) -> Option<Self> {
        // Not a list: a run can have a million answers.
        let answers = || {
            let of_arm = samples.iter().filter(|sample| sample.arm() == arm);
            of_arm.filter_map(|sample| Some((sample.free_choices()?, sample)))
        };
        let rate = |hit: fn(&FreeChoices) -> Option<bool>| {
            let hits = answers();
            Rate::of_members(
                hits.filter_map(|(choices, sample)| Some((hit(&choices)?, sample.copy_hash()))),
            )
        };
        let (mut count, mut written, mut compact) = (0, 0, 0);
        for (choices, _) in answers() {
            count += 1;
            written += choices.bytes.written;
            compact += choices.bytes.compact;
        }
        (count > 0).then(|| Self {
            arm,
            answers: count,
            declared_order: rate(|choices| Some(choices.member_order? == MemberOrder::AsDeclared)),
            compact: rate(|choices| Some(choices.white_space == WhiteSpace::Compact)),
            spaced: rate(|choices| Some(choices.white_space == WhiteSpace::Spaced)),
            lines: rate(|choices| Some(choices.white_space == WhiteSpace::Lines)),
            mixed: rate(|choices| Some(choices.white_space == WhiteSpace::Mixed)),
            outer_white_space: rate(|choices| Some(choices.outer_white_space)),
            non_ascii_escaped: rate(|choices| Some(choices.non_ascii? == NonAscii::Escaped)),
            over_compact_percent: (written as f64 / compact as f64 - 1.0) * 100.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::metrics::testing::{TestRequest, test_request, with_samples};

    fn request(arm: Arm, text: &'static str) -> TestRequest<'static> {
        let schema = json!({"properties": {"b": {}, "a": {}}});
        let constraint = Constraint::JsonSchema(Arc::new(schema));
        let answer = Answer {
            content: text.to_owned(),
            ..Answer::default()
        };
        TestRequest {
            arm,
            text,
            free_choices: free_choices(Some(&constraint), &Outcome::Completed, &answer),
            ..test_request()
        }
    }

    #[test]
    fn shares_are_of_json_answers_of_an_arm() {
        let run = [
            request(Arm::Constrained, r#"{"b":1,"a":2}"#),
            request(Arm::Constrained, r#"{"a": 1, "b": "\u00fc"}"#),
            request(Arm::Constrained, "none"),
            request(Arm::Control, " {}"),
        ];
        let shares = with_samples(&run, FreeChoiceShares::new).unwrap();
        assert_eq!(shares.arms.len(), 2);
        let [constrained, control] = &shares.arms[..] else {
            panic!("{shares:?}")
        };
        let counts = |rate: Option<Rate>| rate.map(|rate| (rate.hits, rate.of));
        assert_eq!(constrained.answers, 2);
        assert_eq!(counts(constrained.declared_order), Some((1, 2)));
        assert_eq!(counts(constrained.compact), Some((1, 2)));
        assert_eq!(counts(constrained.spaced), Some((1, 2)));
        assert_eq!(counts(constrained.non_ascii_escaped), Some((1, 1)));
        // 13 bytes, and 23 in place of 16.
        let expected = (36.0 / 29.0 - 1.0) * 100.0;
        assert!(
            (constrained.over_compact_percent - expected).abs() < 1e-9,
            "{constrained:?}"
        );
        assert_eq!(counts(control.outer_white_space), Some((1, 1)));
        assert_eq!(control.declared_order, None);
    }

    #[test]
    fn other_constraints_and_cut_answers_have_no_choices() {
        let answer = Answer {
            content: "{}".to_owned(),
            ..Answer::default()
        };
        let regex = Constraint::Regex("{}".into());
        assert_eq!(
            free_choices(Some(&regex), &Outcome::Completed, &answer),
            None
        );
        assert_eq!(free_choices(None, &Outcome::Completed, &answer), None);
        let object = Constraint::JsonObject(sobench_core::constraint::AlwaysTrue);
        assert_eq!(
            free_choices(Some(&object), &Outcome::Truncated, &answer),
            None
        );
        assert!(free_choices(Some(&object), &Outcome::Completed, &answer).is_some());
    }
}
