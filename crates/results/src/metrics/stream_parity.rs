//! Parity of streamed and whole answers: whether a server sends the same answer in both forms.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use sobench_facts::Sample;
use sobench_facts::parity::{AnswerPart, Difference, Parity};

/// The parity of a run's answers.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct StreamParity {
    /// Requests whose answers were requested in both forms.
    pub requests: usize,
    pub equal: usize,
    pub different: usize,
    /// Requests whose answer streamed again differs from the first one.
    pub not_deterministic: usize,
    /// Those of them whose answer streamed again equals the whole one.
    pub repeat_equals_whole: usize,
    /// Requests with a difference and without an answer streamed again.
    pub unconfirmed: usize,
    /// Requests without two answers.
    pub not_compared: usize,
    /// What differs, the most frequent first.
    pub by_part: Vec<PartDifferences>,
}

/// Requests whose answers differ in one part. A request can be in several.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct PartDifferences {
    pub part: AnswerPart,
    /// Requests with other answers in the two forms.
    pub different: usize,
    /// Requests of a server that is not deterministic, or without a confirmation.
    pub undecided: usize,
    /// The first request, a different one if there is one.
    pub first_case: String,
    pub first: Difference,
}

impl StreamParity {
    /// `None` if no request was sent again.
    pub fn new(samples: &[Sample<'_>]) -> Option<Self> {
        let mut parity = Self {
            requests: 0,
            equal: 0,
            different: 0,
            not_deterministic: 0,
            repeat_equals_whole: 0,
            unconfirmed: 0,
            not_compared: 0,
            by_part: Vec::new(),
        };
        let mut by_part: BTreeMap<AnswerPart, PartDifferences> = BTreeMap::new();
        for sample in samples {
            let Some(found) = sample.parity() else {
                continue;
            };
            parity.requests += 1;
            match found {
                Parity::Equal => parity.equal += 1,
                Parity::Different { .. } => parity.different += 1,
                Parity::NotDeterministic {
                    repeat_equals_whole,
                    ..
                } => {
                    parity.not_deterministic += 1;
                    parity.repeat_equals_whole += usize::from(*repeat_equals_whole);
                }
                Parity::Unconfirmed { .. } => parity.unconfirmed += 1,
                Parity::NotCompared => parity.not_compared += 1,
            }
            add_parts(&mut by_part, sample, found);
        }
        parity.by_part = by_part.into_values().collect();
        parity
            .by_part
            .sort_by_key(|found| std::cmp::Reverse((found.different, found.undecided)));
        (parity.requests > 0).then_some(parity)
    }
}

/// Counts the parts of one request, each once.
fn add_parts(
    by_part: &mut BTreeMap<AnswerPart, PartDifferences>,
    sample: &Sample<'_>,
    parity: &Parity,
) {
    let is_decided = matches!(parity, Parity::Different { .. });
    let differences = parity.differences();
    for (index, difference) in differences.iter().enumerate() {
        let part = difference.part;
        if differences[..index].iter().any(|other| other.part == part) {
            continue;
        }
        let found = by_part.entry(part).or_insert_with(|| PartDifferences {
            part,
            different: 0,
            undecided: 0,
            first_case: sample.id(),
            first: difference.clone(),
        });
        if is_decided {
            if found.different == 0 {
                (found.first_case, found.first) = (sample.id(), difference.clone());
            }
            found.different += 1;
        } else {
            found.undecided += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_core::answer::Answer;
    use sobench_core::observation::Outcome;
    use sobench_facts::parity::Response;
    use sobench_facts::testing::{TestRequest, test_request, with_samples};

    fn text(content: &str) -> Response {
        Response {
            outcome: Outcome::Completed,
            answer: Answer::from_text(content.to_owned()),
            finish_reason: Some("stop".to_owned()),
            usage: None,
        }
    }

    #[test]
    fn requests_are_counted_by_result_and_part() {
        let with = |parity: Parity| TestRequest {
            parity: Some(parity),
            ..test_request()
        };
        let different = Parity::new(&text("a"), &text("b"), Some(&text("a")));
        let undecided = Parity::new(&text("a"), &text("c"), Some(&text("c")));
        let run = [
            test_request(),
            with(undecided),
            with(different.clone()),
            with(Parity::Equal),
            with(different),
            with(Parity::NotCompared),
        ];
        let found = with_samples(&run, StreamParity::new).unwrap();
        assert_eq!(
            (
                found.requests,
                found.equal,
                found.different,
                found.not_deterministic,
                found.repeat_equals_whole,
                found.not_compared
            ),
            (5, 1, 2, 1, 1, 1)
        );
        let [part] = &found.by_part[..] else {
            panic!("{found:?}")
        };
        assert_eq!(
            (part.part, part.different, part.undecided, &*part.first_case),
            (AnswerPart::Content, 2, 1, "case-2")
        );
        assert_eq!(with_samples(&[test_request()], StreamParity::new), None);
    }
}
