//! Acceptance of drafted tokens in each arm.

use schemars::JsonSchema;
use serde::Serialize;

use super::Arms;

/// Acceptance in one arm. The counters of the server cover all arms together; but a step sends its
/// accepted tokens and the model's own in one chunk. Steps without a draft are chunks too, so this is
/// below the acceptance length, which is over drafts.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct ArmAcceptance {
    /// The name of the arm.
    pub arm: &'static str,
    pub output_tokens: u64,
    pub chunks: u64,
    /// Output tokens per chunk, which is a step of the model.
    pub tokens_per_step: f64,
}

/// Acceptance in each arm whose answers were streamed and have token counts.
pub fn by_arm(arms: &Arms) -> Vec<ArmAcceptance> {
    let arms = arms
        .iter()
        .filter(|(_, arm)| arm.latency.unstreamed_answers == 0);
    arms.filter_map(|(arm, metrics)| {
        let (output_tokens, chunks) = (metrics.tokens.output?, metrics.latency.chunks);
        let tokens_per_step = output_tokens as f64 / chunks as f64;
        tokens_per_step.is_finite().then(|| ArmAcceptance {
            arm: arm.name(),
            output_tokens,
            chunks,
            tokens_per_step,
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acceptance_by_arm_is_in_the_tokens_of_a_chunk() {
        use crate::metrics::summarise;
        use sobench_core::case::Arm;
        use sobench_facts::testing::{TestRequest, test_request, with_samples};
        use sobench_plan::metrics::MetricsOptions;
        // Three chunks each.
        let answer = |arm, output| TestRequest {
            arm,
            output: Some(output),
            ..test_request()
        };
        let run = [answer(Arm::Constrained, 6), answer(Arm::Control, 12)];
        let arms = with_samples(&run, |samples| {
            summarise(samples, 1, &MetricsOptions::default()).arms
        });
        let found: Vec<_> = by_arm(&arms)
            .into_iter()
            .map(|arm| (arm.arm, arm.tokens_per_step))
            .collect();
        assert_eq!(found, [("constrained", 2.0), ("control", 4.0)]);
    }
}
