//! What speculative decoding did in a run, by the counters of vLLM's `/metrics` before and after
//! it. Knows no server.
//!
//! The figures and their arithmetic are those of `vllm bench serve` (`vllm/benchmarks/serve.py`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What the names of the counters begin with.
const PREFIX: &str = "vllm:spec_decode";

/// Counters of all engines of a server, from its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecDecodeCounts {
    drafts: u64,
    draft_tokens: u64,
    accepted_tokens: u64,
    accepted_by_position: BTreeMap<u32, u64>,
}

/// The difference of two readings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SpecDecode {
    /// Accepted of the drafted tokens, in percent.
    pub acceptance_rate: f64,
    /// Tokens that a step of the model brings on average, its own among them.
    pub acceptance_length: f64,
    pub num_drafts: u64,
    pub draft_tokens: u64,
    pub accepted_tokens: u64,
    /// For each place in a draft, the share of drafts (0 to 1) whose token there was accepted.
    pub per_position_acceptance_rates: Vec<f64>,
}

impl SpecDecodeCounts {
    /// Reads them from a page in Prometheus' text format; `None` where the server does not
    /// speculate. A line that makes no sense is left out, as vLLM leaves it out.
    pub fn parse(page: &str) -> Option<Self> {
        let mut counts = Self::default();
        let mut is_there = false;
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
            is_there = true;
            let Some(value) = value
                .parse::<f64>()
                .ok()
                .filter(|it| it.is_finite() && *it >= 0.0)
                .map(|it| it as u64)
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
        is_there.then_some(counts)
    }
}

fn position(labels: &str) -> Option<u32> {
    let (_, rest) = labels.split_once("position=\"")?;
    rest.split('"').next()?.parse().ok()
}

impl SpecDecode {
    /// What happened between two readings; `None` where nothing was drafted, or the server began
    /// anew meanwhile.
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
    fn figures_are_of_what_happened_between() {
        let [before, after] = [page(10, 20, 5, [4, 1]), page(30, 60, 35, [22, 13])]
            .map(|it| SpecDecodeCounts::parse(&it).unwrap());
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
            "the server began anew"
        );
    }

    #[test]
    fn a_server_that_does_not_speculate_has_none() {
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
