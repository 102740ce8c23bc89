//! Detects that constraints stopped being enforced during a run.

use serde::Serialize;

use sobench_core::verdict::Verdict;
use sobench_facts::Sample;

/// Minimum number of answers before and after a loss.
const MIN_ON_EACH_SIDE: usize = 3;

/// All answers before a request are valid, and none from this request on.
#[derive(Clone, Debug, PartialEq, Eq, schemars::JsonSchema, Serialize)]
pub struct ConstraintLoss {
    /// The first request with an invalid answer, in send order.
    pub case_id: String,
    /// Valid answers sent before it.
    pub valid_before: usize,
    /// Invalid answers from it on.
    pub invalid_after: usize,
}

/// Finds the loss of constraints in answers that ended normally and have a verdict; `None` without
/// a loss, or with too few answers before or after it.
pub(super) fn find_loss(ended: &[&Sample<'_>]) -> Option<ConstraintLoss> {
    let mut ended: Vec<&Sample<'_>> = ended.to_vec();
    ended.sort_by_key(|sample| sample.request_times().sent_ns);
    let is_valid = |sample: &&Sample<'_>| *sample.verdict() == Verdict::Valid;
    let before = ended.iter().take_while(|sample| is_valid(sample)).count();
    let after = &ended[before..];
    let is_change = before >= MIN_ON_EACH_SIDE
        && after.len() >= MIN_ON_EACH_SIDE
        && !after.iter().any(is_valid);
    let first = after.first().filter(|_| is_change)?;
    Some(ConstraintLoss {
        case_id: first.id(),
        valid_before: before,
        invalid_after: after.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_core::verdict::Reason;
    use sobench_facts::testing::{TestRequest, test_request, with_samples};

    fn lost(verdicts: &str) -> Option<(String, usize, usize)> {
        let made: Vec<TestRequest<'_>> = verdicts
            .bytes()
            .enumerate()
            .map(|(index, verdict)| {
                let verdict = if verdict == b'v' {
                    Verdict::Valid
                } else {
                    Verdict::Invalid {
                        reason: Reason::Choice,
                    }
                };
                // Sent in reverse order.
                TestRequest {
                    verdict,
                    sent: Some(100 - index as u64),
                    ..test_request()
                }
            })
            .collect();
        with_samples(&made, |samples| {
            let all: Vec<&Sample<'_>> = samples.iter().collect();
            find_loss(&all).map(|loss| (loss.case_id, loss.valid_before, loss.invalid_after))
        })
    }

    #[test]
    fn loss_needs_only_valid_answers_before_and_only_invalid_after() {
        assert_eq!(lost("iiiivvvvv"), Some(("case-3".to_owned(), 5, 4)));
        for other in [
            "", "v", "vvvvvv", "iiiiii", "iivvvv", "iiivv", "ivivivvv", "viiivvv",
        ] {
            assert_eq!(lost(other), None, "{other}");
        }
    }
}
