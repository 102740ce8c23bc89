//! The dataset `prefix_repetition`: random tokens after one of several shared prefixes.
//!
//! Follows `PrefixRepetitionRandomDataset` in vLLM 0.32: `numpy.random.seed(seed)` and
//! `random.seed(seed)`, tokens by `numpy.random.randint`, the order by `random.shuffle`. Each
//! prefix gets the same number of prompts, so that there may be fewer than requested.

use clap::Args;
use serde::{Deserialize, Serialize};

use super::exact_length::{check_amount, fit_to_length, notice, vocabulary_size};
use super::flags::OrderFlags;
use super::registry::{ConstraintScope, DatasetKind, Inputs, Spec};
use super::{DatasetArgs, DatasetPlan, Order, Row, Rows, RowsKind, SHIPPED};
use sobench_core::case::Prompt;
use sobench_core::error::{Error, Result};
use sobench_notices::notice::DatasetNotice;
use sobench_pycompat::random::NumpyRandom;

/// The flags of `prefix_repetition`.
#[derive(Args, Clone, Debug, Default)]
pub struct PrefixRepetitionFlags {
    /// Tokens of each shared prefix of prefix_repetition [default: 256]
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    pub prefix_repetition_prefix_len: Option<u32>,
    /// Tokens of each prompt of prefix_repetition after the prefix [default: 256]
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    pub prefix_repetition_suffix_len: Option<u32>,
    /// Number of different prefixes of prefix_repetition [default: 10]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub prefix_repetition_num_prefixes: Option<u32>,
    /// Tokens of each answer to prefix_repetition [default: 128]
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    pub prefix_repetition_output_len: Option<u32>,
}

/// The options of `prefix_repetition`: lengths in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PrefixRepetitionPlan {
    /// Length of the shared prefix.
    pub prefix: u32,
    /// Number of different prefixes.
    pub prefixes: u32,
    /// Length of the text after the prefix.
    pub suffix: u32,
    pub order: Order,
}

impl Default for PrefixRepetitionPlan {
    fn default() -> Self {
        Self {
            prefix: 256,
            prefixes: 10,
            suffix: 256,
            order: Order::Shuffled,
        }
    }
}

impl DatasetKind for PrefixRepetitionPlan {
    const SPEC: Spec = Spec {
        flags: &[
            OrderFlags::augment_args,
            PrefixRepetitionFlags::augment_args,
        ],
        own_output_len: |flags| {
            flags
                .rows
                .prefix_repetition
                .prefix_repetition_output_len
                .map(|length| ("--prefix-repetition-output-len", length))
        },
        ..Spec::new("prefix_repetition", ConstraintScope::Unconstrained)
    };

    fn new(flags: &DatasetArgs) -> Result<Self> {
        let (options, default) = (&flags.rows.prefix_repetition, Self::default());
        Ok(Self {
            prefix: options
                .prefix_repetition_prefix_len
                .unwrap_or(default.prefix),
            prefixes: options
                .prefix_repetition_num_prefixes
                .unwrap_or(default.prefixes),
            suffix: options
                .prefix_repetition_suffix_len
                .unwrap_or(default.suffix),
            order: flags.rows.order.order(),
        })
    }

    /// One row per prompt.
    fn rows(&self, plan: &DatasetPlan, inputs: &Inputs<'_>) -> Result<Rows> {
        let (prefixes, count) = (self.prefixes as usize, plan.num_prompts);
        if prefixes == 0 || prefixes > count {
            return Err(Error::usage(format!(
                "{count} prompts cannot have {prefixes} different prefixes"
            ))
            .hint("lower --prefix-repetition-num-prefixes, or raise --num-prompts"));
        }
        let target = u64::from(self.prefix) + u64::from(self.suffix);
        if target == 0 {
            return Err(Error::usage("the prompts would have no tokens: 0")
                .hint("raise --prefix-repetition-suffix-len"));
        }
        check_amount(target, count)?;
        let mut random = NumpyRandom::new(plan.numpy_seed()?);
        let vocabulary_size = u64::from(vocabulary_size(inputs.tokenizer)?);
        let mut excess = 0;
        let mut tokens = |length: u32| {
            let mut draw = |count: usize| {
                random
                    .randint(vocabulary_size, count)
                    .into_iter()
                    .map(|id| id as u32)
                    .collect()
            };
            let drawn: Vec<u32> = draw(length as usize);
            let sized = fit_to_length(inputs.tokenizer, drawn, length as usize, &mut draw);
            excess += sized.excess(length as usize);
            sized.tokens
        };
        let mut rows = Vec::with_capacity(count);
        for _ in 0..prefixes {
            let prefix = tokens(self.prefix);
            for _ in 0..count / prefixes {
                let prompt: Vec<u32> = prefix.iter().copied().chain(tokens(self.suffix)).collect();
                let name = format!("prompt {}", rows.len());
                rows.push(Row {
                    name,
                    ..Row::unconstrained(Prompt::Text(inputs.tokenizer.decode(&prompt).into()))
                });
            }
        }
        self.order.apply(plan.seed, &mut rows);
        let fewer = (rows.len() < count).then(|| {
            DatasetNotice::FewerPrompts {
                prompts: rows.len(),
                wanted: count,
                prefixes,
            }
            .into()
        });
        let notices = notice(excess).into_iter().chain(fewer).collect();
        Ok(Rows {
            notices,
            ..Rows::new(rows, RowsKind::Complete, SHIPPED.to_owned())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::golden_tests::check;
    use crate::dataset::tests::{plan, rows, tokenizer};
    use crate::dataset::{DatasetName, Source};

    fn plan_with(seed: u64, num_prompts: usize, options: PrefixRepetitionPlan) -> DatasetPlan {
        DatasetPlan {
            seed,
            num_prompts,
            source: Source::PrefixRepetition(options),
            ..plan(DatasetName::PrefixRepetition)
        }
    }

    #[test]
    fn prompts_match_vllm() {
        let options = PrefixRepetitionPlan {
            prefix: 12,
            suffix: 9,
            prefixes: 3,
            order: Order::Shuffled,
        };
        let plain = check(
            &DatasetPlan {
                output_len: 5,
                ..plan_with(0, 11, options)
            },
            "prefix_repetition",
            "plain",
        );
        assert_eq!(
            plain.notices[1].to_string(),
            "9 of 11 prompts: each of the 3 prefixes gets the same number"
        );
        let options = PrefixRepetitionPlan {
            prefix: 5,
            suffix: 20,
            prefixes: 2,
            order: Order::AsStored,
        };
        check(&plan_with(3, 4, options), "prefix_repetition", "in_order");
    }

    #[test]
    fn invalid_lengths_and_seeds_are_refused() {
        let some = PrefixRepetitionPlan {
            prefix: 1,
            suffix: 1,
            prefixes: 3,
            order: Order::Shuffled,
        };
        for (plan, message) in [
            (
                plan_with(0, 2, some),
                "2 prompts cannot have 3 different prefixes",
            ),
            (
                plan_with(
                    0,
                    4,
                    PrefixRepetitionPlan {
                        prefixes: 0,
                        ..some
                    },
                ),
                "4 prompts cannot have 0 different prefixes",
            ),
            (
                plan_with(
                    0,
                    4,
                    PrefixRepetitionPlan {
                        prefix: 0,
                        suffix: 0,
                        ..some
                    },
                ),
                "no tokens",
            ),
            (
                plan_with(1 << 32, 4, some),
                "no seed above 4294967295: 4294967296",
            ),
            (
                plan_with(
                    0,
                    1000,
                    PrefixRepetitionPlan {
                        suffix: 9_000_000,
                        ..some
                    },
                ),
                "tokens in total: 9000001000",
            ),
        ] {
            let error = rows(&plan, &tokenizer()).unwrap_err();
            assert!(error.what.contains(message), "{error}");
        }
    }
}
