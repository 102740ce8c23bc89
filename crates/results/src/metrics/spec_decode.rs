//! Speculative decoding figures, from vLLM's `/metrics` counters before and after a run.
//!
//! The figures and their arithmetic are those of `vllm bench serve` (`vllm/benchmarks/serve.py`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Arms;

/// The prefix of the counters.
const PREFIX: &str = "vllm:spec_decode";

/// Counters of all engines of a server since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecDecodeCounts {
    drafts: u64,
    draft_tokens: u64,
    accepted_tokens: u64,
    accepted_by_position: BTreeMap<u32, u64>,
}

/// The difference of two readings of the counters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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

/// Acceptance in one arm. The counters of the server cover all arms together; but a step sends its
/// accepted tokens and the model's own in one chunk, so tokens per chunk are the length by arm.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ArmAcceptance {
    /// The name of the arm.
    pub arm: &'static str,
    pub output_tokens: u64,
    pub chunks: u64,
    /// Output tokens per chunk.
    pub acceptance_length: f64,
    /// Accepted tokens in percent of drafted tokens, if every step drafts as many tokens as the
    /// mean of the run.
    pub acceptance_rate: Option<f64>,
}

impl SpecDecodeCounts {
    /// Parses a page in Prometheus' text format; `None` if the server does not use speculative
    /// decoding. Invalid lines are ignored, as in vLLM.
    pub fn parse(page: &str) -> Option<Self> {
        let mut counts = Self::default();
        let mut is_used = false;
        for line in page
            .lines()
            .map(str::trim)
            .filter(|line| line.starts_with(PREFIX))
        {
            let (series, value) = line.rsplit_once(char::is_whitespace).unwrap_or((line, ""));
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            if !name.trim_end().ends_with("_total") {
                continue;
            }
            is_used = true;
            let Some(value) = value
                .parse::<f64>()
                .ok()
                .filter(|value| value.is_finite() && *value >= 0.0)
                .map(|value| value as u64)
            else {
                continue;
            };
            match name {
                _ if name.contains("num_drafts") => counts.drafts += value,
                _ if name.contains("num_draft_tokens") => counts.draft_tokens += value,
                _ if name.contains("num_accepted_tokens_per_pos") => {
                    if let Some(position) = position(labels) {
                        *counts.accepted_by_position.entry(position).or_default() += value;
                    }
                }
                _ if name.contains("num_accepted_tokens") => counts.accepted_tokens += value,
                _ => {}
            }
        }
        is_used.then_some(counts)
    }
}

fn position(labels: &str) -> Option<u32> {
    let (_, rest) = labels.split_once("position=\"")?;
    rest.split('"').next()?.parse().ok()
}

impl SpecDecode {
    /// Acceptance in each arm whose answers were streamed and have token counts.
    pub fn by_arm(&self, arms: &Arms) -> Vec<ArmAcceptance> {
        let drafted = self.draft_tokens as f64 / self.num_drafts as f64;
        let arms = arms
            .iter()
            .filter(|(_, arm)| arm.latency.unstreamed_answers == 0);
        arms.filter_map(|(arm, metrics)| {
            let (output_tokens, chunks) = (metrics.tokens.output?, metrics.latency.chunks);
            let length = output_tokens as f64 / chunks as f64;
            length.is_finite().then(|| ArmAcceptance {
                arm: arm.name(),
                output_tokens,
                chunks,
                acceptance_length: length,
                acceptance_rate: Some(100.0 * (length - 1.0) / drafted)
                    .filter(|rate| (0.0..=100.0).contains(rate)),
            })
        })
        .collect()
    }

    /// The difference of two readings; `None` if nothing was drafted, or the server restarted in
    /// between.
    pub fn between(before: &SpecDecodeCounts, after: &SpecDecodeCounts) -> Option<Self> {
        let num_drafts = after.drafts.checked_sub(before.drafts)?;
        let draft_tokens = after
            .draft_tokens
            .checked_sub(before.draft_tokens)
            .filter(|tokens| *tokens > 0)?;
        let accepted_tokens = after.accepted_tokens.checked_sub(before.accepted_tokens)?;
        let share = |count: u64| count as f64 / num_drafts as f64;
        let earlier = |position: &u32| {
            before
                .accepted_by_position
                .get(position)
                .copied()
                .unwrap_or(0)
        };
        let rates = after
            .accepted_by_position
            .iter()
            .map(|(position, count)| share(count.saturating_sub(earlier(position))));
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

    fn page(drafts: u64, tokens: u64, accepted: u64, at: [u64; 2]) -> String {
        let labels = "engine=\"0\",model_name=\"m num_drafts\"";
        format!(
            "# HELP vllm:spec_decode_num_drafts_total Number of drafts.\n\
             vllm:spec_decode_num_drafts_total{{{labels}}} {drafts}.0\n\
             vllm:spec_decode_num_drafts_created{{{labels}}} 1.79e+09\n\
             vllm:spec_decode_num_draft_tokens_total{{{labels}}} {tokens}.0\n\
             vllm:spec_decode_num_accepted_tokens_total{{{labels}}} {accepted}.0\n\
             vllm:spec_decode_num_accepted_tokens_per_pos_total{{{labels},position=\"0\"}} {}.0\n\
             vllm:spec_decode_num_accepted_tokens_per_pos_total{{{labels},position=\"1\"}} {}.0\n\
             vllm:num_requests_running 3\n",
            at[0], at[1]
        )
    }

    #[test]
    fn figures_are_differences_of_readings() {
        let [before, after] = [page(10, 20, 5, [4, 1]), page(30, 60, 35, [22, 13])]
            .map(|page| SpecDecodeCounts::parse(&page).unwrap());
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
    fn acceptance_by_arm_is_in_the_tokens_of_a_chunk() {
        use crate::metrics::testing::{TestRequest, test_request, with_samples};
        use crate::metrics::{MetricsOptions, summarise};
        use sobench_core::case::Arm;
        let [before, after] = [page(0, 0, 0, [0, 0]), page(10, 40, 20, [10, 10])]
            .map(|page| SpecDecodeCounts::parse(&page).unwrap());
        let found = SpecDecode::between(&before, &after).unwrap();
        // Three chunks each; four tokens are drafted in a step.
        let answer = |arm, output| TestRequest {
            arm,
            output: Some(output),
            ..test_request()
        };
        let run = [answer(Arm::Constrained, 6), answer(Arm::Control, 12)];
        let arms = with_samples(&run, |samples| {
            summarise(samples, 1, &MetricsOptions::default()).arms
        });
        let by_arm: Vec<_> = found
            .by_arm(&arms)
            .into_iter()
            .map(|arm| (arm.arm, arm.acceptance_length, arm.acceptance_rate))
            .collect();
        assert_eq!(
            by_arm,
            [
                ("constrained", 2.0, Some(25.0)),
                ("control", 4.0, Some(75.0))
            ]
        );
    }

    #[test]
    fn server_without_speculative_decoding_has_no_figures() {
        assert_eq!(
            SpecDecodeCounts::parse("vllm:num_requests_running 3\n"),
            None
        );
        assert_eq!(SpecDecodeCounts::parse(""), None);
        let odd = SpecDecodeCounts::parse(
            "vllm:spec_decode_num_drafts_total NaN\nvllm:spec_decode_num_drafts_total{a=\"b\"}",
        )
        .unwrap();
        assert_eq!(odd, SpecDecodeCounts::default());
    }
}
