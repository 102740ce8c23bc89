//! How often a run repeats requests and answers.

use serde::Serialize;

use sobench_facts::Sample;
use sobench_statistics::effective_size;

/// Distinct requests and answers of a run. Copies are the same request with the same answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, schemars::JsonSchema, Serialize)]
pub struct Repetition {
    pub requests: usize,
    pub distinct_requests: usize,
    pub answers: usize,
    /// Answers that differ, or that answer another request or another arm.
    pub distinct_answers: usize,
    /// The number of independent answers that all answers are worth ([`effective_size`]). Intervals
    /// of rates count copies in the same way.
    pub effective_answers: f64,
}

impl Repetition {
    /// Counts the requests of a run.
    pub fn new(samples: &[Sample<'_>]) -> Self {
        let distinct = |mut hashes: Vec<u64>| {
            hashes.sort_unstable();
            hashes.dedup();
            hashes.len()
        };
        let requests: Vec<u64> = samples.iter().map(Sample::request_hash).collect();
        let answers: Vec<u64> = samples
            .iter()
            .filter(|sample| sample.outcome().is_answer())
            .map(Sample::copy_hash)
            .collect();
        Self {
            requests: requests.len(),
            distinct_requests: distinct(requests),
            answers: answers.len(),
            distinct_answers: distinct(answers.clone()),
            effective_answers: effective_size(answers),
        }
    }

    /// Whether the run sent one request several times.
    pub fn has_one_request(&self) -> bool {
        self.requests > 1 && self.distinct_requests == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::registry::rates;
    use sobench_core::case::{Arm, Prompt};
    use sobench_core::observation::Outcome;
    use sobench_core::verdict::{NotScored, Verdict};
    use sobench_facts::testing::{TestRequest, test_request, with_cases, with_samples};

    fn answered(text: &str) -> TestRequest<'_> {
        TestRequest {
            text,
            ..test_request()
        }
    }

    #[test]
    fn equal_answers_to_equal_requests_are_copies() {
        let run = vec![test_request(); 20];
        with_samples(&run, |samples| {
            let found = Repetition::new(samples);
            assert_eq!(
                (found.distinct_requests, found.distinct_answers),
                (1, 1),
                "{found:?}"
            );
            assert!(found.has_one_request() && found.effective_answers == 1.0);
            let rate = rates::CORRECT_RATE.rate(samples).unwrap();
            assert_eq!((rate.hits, rate.of, rate.effective), (20, 20, Some(1.0)));
            assert!((rate.low_percent - 20.65).abs() < 0.01, "{rate:?}");
        });
        // The same answers to other requests are evidence.
        let reword = |index: usize, case: &mut sobench_core::case::Case| {
            case.prompt = Prompt::Text(format!("wording {index}").into());
        };
        with_cases(&run, reword, |samples| {
            let found = Repetition::new(samples);
            assert_eq!((found.distinct_requests, found.distinct_answers), (20, 20));
            assert_eq!(rates::CORRECT_RATE.rate(samples).unwrap().effective, None);
        });
    }

    #[test]
    fn arms_answers_and_failures_are_told_apart() {
        let failed = TestRequest {
            outcome: Outcome::ServerError {
                status: 500,
                body: "no".into(),
                advice: None,
            },
            verdict: Verdict::NotScored {
                why: NotScored::Failed,
            },
            text: "",
            ..test_request()
        };
        let control = TestRequest {
            arm: Arm::Control,
            ..test_request()
        };
        let run = [
            answered("1"),
            answered("2"),
            answered("2"),
            TestRequest {
                text: "1",
                ..control
            },
            failed.clone(),
            failed,
        ];
        with_samples(&run, |samples| {
            let found = Repetition::new(samples);
            assert_eq!((found.answers, found.distinct_answers), (4, 3));
            // Copies: 1, 2 and 2, and each failure for itself: 5^2 / (1 + 4 + 1 + 1).
            let rate = rates::CORRECT_RATE.rate(samples).unwrap();
            assert_eq!((rate.of, rate.effective), (5, Some(25.0 / 7.0)));
        });
    }
}
