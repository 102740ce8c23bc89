//! Speculative decoding figures, from counters of the server's metrics page before and after a run.
//!
//! The figures and their arithmetic are those of `vllm bench serve` (`vllm/benchmarks/serve.py`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use sobench_core::server_sample::{Quantity, ServerSample};

/// The difference of two readings of the counters.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct SpecDecode {
    /// Accepted tokens in percent of drafted tokens.
    pub acceptance_rate: f64,
    /// Mean number of tokens per model step, including the model's own.
    pub acceptance_length: f64,
    pub num_drafts: u64,
    pub draft_tokens: u64,
    pub accepted_tokens: u64,
    /// For each position in a draft, the share of drafts (0 to 1) whose token was accepted.
    pub per_position_acceptance_rates: Vec<f64>,
}

impl SpecDecode {
    /// The difference of two samples; `None` if nothing was drafted, or the server restarted in
    /// between.
    pub fn between(before: &ServerSample, after: &ServerSample) -> Option<Self> {
        let grown = |quantity: Quantity| {
            let count = |sample: &ServerSample| Some(*sample.values.get(&quantity)? as u64);
            count(after)?.checked_sub(count(before)?)
        };
        let num_drafts = grown(Quantity::Drafts)?;
        let draft_tokens = grown(Quantity::DraftTokens).filter(|tokens| *tokens > 0)?;
        let accepted_tokens = grown(Quantity::AcceptedTokens)?;
        let share = |count: u64| count as f64 / num_drafts as f64;
        let earlier = before.accepted_by_position.iter().copied();
        let earlier = earlier.chain(std::iter::repeat(0.0));
        let rates = after
            .accepted_by_position
            .iter()
            .zip(earlier)
            .map(|(count, earlier)| share((*count as u64).saturating_sub(earlier as u64)));
        Some(Self {
            acceptance_rate: 100.0 * accepted_tokens as f64 / draft_tokens as f64,
            acceptance_length: if num_drafts > 0 {
                1.0 + share(accepted_tokens)
            } else {
                0.0
            },
            num_drafts,
            draft_tokens,
            accepted_tokens,
            per_position_acceptance_rates: if num_drafts > 0 {
                rates.collect()
            } else {
                Vec::new()
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(drafts: u64, tokens: u64, accepted: u64, at: [u64; 2]) -> ServerSample {
        ServerSample {
            values: [
                (Quantity::Drafts, drafts as f64),
                (Quantity::DraftTokens, tokens as f64),
                (Quantity::AcceptedTokens, accepted as f64),
            ]
            .into(),
            accepted_by_position: at.map(|count| count as f64).to_vec(),
            ..ServerSample::default()
        }
    }

    #[test]
    fn figures_are_differences_of_readings() {
        let [before, after] = [sample(10, 20, 5, [4, 1]), sample(30, 60, 35, [22, 13])];
        let found = SpecDecode::between(&before, &after).unwrap();
        assert_eq!(
            (found.num_drafts, found.draft_tokens, found.accepted_tokens),
            (20, 40, 30)
        );
        assert_eq!(
            (found.acceptance_rate, found.acceptance_length),
            (75.0, 2.5)
        );
        assert_eq!(found.per_position_acceptance_rates, [0.9, 0.6]);
        assert_eq!(
            SpecDecode::between(&before, &before),
            None,
            "nothing was drafted"
        );
        assert_eq!(
            SpecDecode::between(&after, &before),
            None,
            "the server restarted"
        );
    }

    #[test]
    fn server_without_speculative_decoding_has_no_figures() {
        let counted = sample(10, 40, 20, [10, 10]);
        let none = ServerSample::default();
        assert_eq!(SpecDecode::between(&none, &none), None);
        assert_eq!(SpecDecode::between(&none, &counted), None);
    }
}
