//! The datasets `random` and `random-prefix`: prompts of random tokens with a given length.
//!
//! Follows `RandomDataset` in vLLM 0.32: lengths, positions in the vocabulary and the shared prefix
//! come from one `numpy.random.default_rng(seed)`, in this order, so that the same seed and
//! tokenizer give the same prompts. vLLM also corrects lengths through the server's `/tokenize`, if
//! it has one. This is not done here: lengths are those of the run's tokenizer.

use clap::Args;
use serde::{Deserialize, Serialize};

use super::exact_length::{check_amount, fit_to_length, notice, plain_tokens, vocabulary_size};
use super::flags::InputLenFlags;
use super::registry::{ConstraintScope, DatasetKind, Inputs, Spec};
use super::{DatasetArgs, DatasetPlan, MAX_PROMPT_TOKENS, Row, Rows, RowsKind, SHIPPED};
use crate::tokenizer::Tokenizer;
use sobench_core::case::Prompt;
use sobench_core::error::{Error, Result};
use sobench_pycompat::random::NumpyGenerator;

/// The flags of `random` and `random-prefix`.
#[derive(Args, Clone, Debug, Default)]
pub struct RandomFlags {
    /// Tokens of each prompt of random and random-prefix, without the shared prefix [default: 1024]
    #[arg(
        long,
        value_name = "TOKENS",
        visible_alias = "random-input",
        allow_negative_numbers = true
    )]
    pub random_input_len: Option<u32>,
    /// Tokens of each answer to random and random-prefix [default: 128]
    #[arg(
        long,
        value_name = "TOKENS",
        visible_alias = "random-output",
        allow_negative_numbers = true
    )]
    pub random_output_len: Option<u32>,
    /// Relative range of those lengths: one number, or {"input": 0.3, "output": 0.5} [default: 0.0]
    #[arg(long, value_name = "RATIO|JSON", allow_negative_numbers = true)]
    pub random_range_ratio: Option<String>,
    /// Tokens of the prefix that all prompts of random and random-prefix share [default: 0;
    /// random-prefix: 256]
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    pub random_prefix_len: Option<u32>,
    /// Inputs per request; only 1 is supported
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub random_batch_size: Option<u32>,
    /// Let the server end answers to random and random-prefix, instead of sending ignore_eos as
    /// `vllm bench serve` does
    #[arg(long)]
    pub disable_ignore_eos: bool,
}

/// The options of `random`: lengths in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RandomPlan {
    /// Length of the shared prefix.
    pub prefix: u32,
    /// Mean length of the text after the prefix.
    pub input: u32,
    /// Input lengths are drawn from `input * (1 - range)` to `input * (1 + range)`. From 0 to below
    /// 1.
    pub input_range: f64,
    /// The same for answer lengths.
    pub output_range: f64,
}

impl Default for RandomPlan {
    fn default() -> Self {
        Self {
            prefix: 0,
            input: 1024,
            input_range: 0.0,
            output_range: 0.0,
        }
    }
}

/// The options of `random-prefix`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RandomPrefixPlan(pub RandomPlan);

const SPEC: Spec = Spec {
    flags: &[InputLenFlags::augment_args, RandomFlags::augment_args],
    ignores_eos: true,
    own_output_len: |flags| {
        flags
            .rows
            .random
            .random_output_len
            .map(|length| ("--random-output-len", length))
    },
    ..Spec::new("random", ConstraintScope::Unconstrained)
};

impl DatasetKind for RandomPlan {
    const SPEC: Spec = SPEC;

    fn new(flags: &DatasetArgs) -> Result<Self> {
        let options = &flags.rows.random;
        if let Some(size) = options.random_batch_size.filter(|size| *size != 1) {
            return Err(
                Error::usage(format!("--random-batch-size is not 1: {size}"))
                    .hint("remove it: each request has one input"),
            );
        }
        let default = Self::default();
        let (input_range, output_range) = options
            .random_range_ratio
            .as_deref()
            .map_or(Ok((0.0, 0.0)), range)?;
        Ok(Self {
            prefix: options.random_prefix_len.unwrap_or(default.prefix),
            input: flags
                .rows
                .input_len
                .input_len
                .or(options.random_input_len)
                .unwrap_or(default.input),
            input_range,
            output_range,
        })
    }

    /// One row per prompt.
    fn rows(&self, plan: &DatasetPlan, inputs: &Inputs<'_>) -> Result<Rows> {
        let (input, output) = bounds(self, plan, inputs.tokenizer)?;
        let mut random = TokenSource {
            generator: NumpyGenerator::new(plan.seed),
            vocabulary_size: vocabulary_size(inputs.tokenizer)?,
        };
        let count = plan.num_prompts;
        let input_lens = random.lengths(input, count);
        let output_lens = random.lengths(output, count);
        let offsets = random.tokens(count);
        let allowed = plain_tokens(inputs.tokenizer)?;
        let prefix_len = self.prefix as usize;
        let prefix = if prefix_len == 0 {
            Vec::new()
        } else {
            let indices = random
                .generator
                .integers(0, allowed.len() as u64, prefix_len);
            let drawn = indices
                .into_iter()
                .map(|index| allowed[index as usize])
                .collect();
            fit_to_length(inputs.tokenizer, drawn, prefix_len, &mut |missing| {
                random.tokens(missing)
            })
            .tokens
        };
        let mut excess = 0;
        let mut rows = Vec::with_capacity(count);
        for (index, ((input_len, output_len), offset)) in input_lens
            .into_iter()
            .zip(output_lens)
            .zip(offsets)
            .enumerate()
        {
            let first = offset as usize + index;
            let body =
                (0..input_len as usize).map(|position| allowed[(first + position) % allowed.len()]);
            let tokens = prefix.iter().copied().chain(body).collect();
            let target = prefix_len + input_len as usize;
            let sized = fit_to_length(inputs.tokenizer, tokens, target, &mut |missing| {
                random.tokens(missing)
            });
            excess += sized.excess(target);
            let row = Row::unconstrained(Prompt::Text(sized.text.into()));
            rows.push(Row {
                output_len: u32::try_from(output_len).ok(),
                name: format!("prompt {index}"),
                ..row
            });
        }
        let notices = notice(excess).into_iter().collect();
        Ok(Rows {
            notices,
            ..Rows::new(rows, RowsKind::Complete, SHIPPED.to_owned())
        })
    }
}

impl DatasetKind for RandomPrefixPlan {
    const SPEC: Spec = Spec {
        name: "random-prefix",
        ..SPEC
    };

    fn new(flags: &DatasetArgs) -> Result<Self> {
        let prefix = flags.rows.random.random_prefix_len.unwrap_or(256);
        if prefix == 0 {
            return Err(Error::usage("--random-prefix-len is 0")
                .hint("use --dataset random for prompts without a shared prefix"));
        }
        Ok(Self(RandomPlan {
            prefix,
            ..RandomPlan::new(flags)?
        }))
    }

    fn rows(&self, plan: &DatasetPlan, inputs: &Inputs<'_>) -> Result<Rows> {
        self.0.rows(plan, inputs)
    }
}

/// Parses `--random-range-ratio`: one number for inputs and answers, or an object with a number for
/// each.
fn range(text: &str) -> Result<(f64, f64)> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Pair {
        input: f64,
        output: f64,
    }
    let pair = match text.parse::<f64>() {
        Ok(both) => Some((both, both)),
        Err(_) => serde_json::from_str::<Pair>(text)
            .ok()
            .map(|pair| (pair.input, pair.output)),
    };
    pair.filter(|(input, output)| (0.0..1.0).contains(input) && (0.0..1.0).contains(output))
        .ok_or_else(|| {
            Error::usage(format!(
                "--random-range-ratio is not a number from 0 to below 1: {text}"
            ))
            .hint("give one number, or '{\"input\": 0.3, \"output\": 0.5}'")
        })
}

/// Draws lengths and tokens.
struct TokenSource {
    generator: NumpyGenerator,
    vocabulary_size: u32,
}

impl TokenSource {
    /// Draws lengths from an inclusive range.
    fn lengths(&mut self, (least, most): (u64, u64), count: usize) -> Vec<u64> {
        self.generator.integers(least, most + 1, count)
    }

    /// Draws ids from the whole vocabulary.
    fn tokens(&mut self, count: usize) -> Vec<u32> {
        let drawn = self
            .generator
            .integers(0, u64::from(self.vocabulary_size), count);
        drawn.into_iter().map(|id| id as u32).collect()
    }
}

/// The shortest and the longest input without the prefix, and the same for answers. The tokens that
/// the tokenizer adds to every text are subtracted from the input.
fn bounds(
    lengths: &RandomPlan,
    plan: &DatasetPlan,
    tokenizer: &Tokenizer,
) -> Result<((u64, u64), (u64, u64))> {
    for range in [lengths.input_range, lengths.output_range] {
        if !(0.0..1.0).contains(&range) {
            return Err(Error::usage(format!(
                "the range of lengths must be from 0 to below 1: {range}"
            ))
            .hint("give --random-range-ratio 0.3, or '{\"input\": 0.3, \"output\": 0.5}'"));
        }
    }
    let around = |middle: f64, range: f64| {
        (
            (middle * (1.0 - range)).floor() as u64,
            (middle * (1.0 + range)).ceil() as u64,
        )
    };
    let added = tokenizer.added_tokens();
    let input = around(
        (f64::from(lengths.input) - added as f64).max(0.0),
        lengths.input_range,
    );
    let (least, most) = around(f64::from(plan.output_len), lengths.output_range);
    if u64::from(lengths.prefix) + input.0 < 1 {
        let message = format!(
            "a prompt could have no tokens, with the {added} that the tokenizer adds: {}",
            lengths.input
        );
        return Err(Error::usage(message)
            .hint("raise --random-input-len or --random-prefix-len, or lower the range"));
    }
    check_amount(u64::from(lengths.prefix) + input.1, plan.num_prompts)?;
    if most > u64::from(MAX_PROMPT_TOKENS) && lengths.output_range > 0.0 {
        return Err(Error::usage(format!(
            "drawn answer lengths may be at most {MAX_PROMPT_TOKENS} tokens: {most}"
        ))
        .hint("lower --random-output-len"));
    }
    Ok((input, (least.max(1), most.max(1))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::golden_tests::{check, lengths};
    use crate::dataset::tests::{plan, rows, tokenizer};
    use crate::dataset::{DatasetName, Source};

    fn plan_with(
        seed: u64,
        num_prompts: usize,
        output_len: u32,
        lengths: RandomPlan,
    ) -> DatasetPlan {
        DatasetPlan {
            seed,
            num_prompts,
            output_len,
            source: Source::Random(lengths),
            ..plan(DatasetName::Random)
        }
    }

    #[test]
    fn prompts_and_lengths_match_vllm() {
        let some = RandomPlan::default();
        let plain = check(
            &plan_with(0, 6, 7, RandomPlan { input: 40, ..some }),
            "random",
            "plain",
        );
        assert_eq!(plain.cases[5].id, "random-5");
        let counted: Vec<u64> = plain
            .cases
            .iter()
            .map(|case| match &case.prompt {
                Prompt::Text(text) => tokenizer().count(text) as u64,
                other => panic!("not {}", other.kind()),
            })
            .collect();
        assert_eq!(counted, lengths("random", "plain"));
        check(
            &plan_with(
                7,
                8,
                20,
                RandomPlan {
                    input: 50,
                    input_range: 0.5,
                    output_range: 0.25,
                    ..some
                },
            ),
            "random",
            "ranged",
        );
        let prefixed = RandomPlan {
            prefix: 24,
            input: 16,
            input_range: 0.3,
            output_range: 0.3,
        };
        let plan = DatasetPlan {
            source: Source::RandomPrefix(RandomPrefixPlan(prefixed)),
            ..plan_with(4_294_967_301, 5, 3, prefixed)
        };
        check(&plan, "random", "prefixed");
    }

    #[test]
    fn the_embedded_tokenizer_reaches_the_target_length() {
        let plan = plan_with(
            1,
            20,
            3,
            RandomPlan {
                prefix: 7,
                input: 200,
                ..RandomPlan::default()
            },
        );
        let tokenizer = Tokenizer::embedded();
        for row in rows(&plan, &tokenizer).unwrap().rows {
            let Prompt::Text(text) = row.prompt else {
                panic!("expected a text")
            };
            let count = tokenizer.count(&text);
            assert!(count.abs_diff(207) <= 20, "{count}: {text}");
        }
    }

    #[test]
    fn the_longest_answers_do_not_overflow() {
        let long = |output_range| {
            plan_with(
                0,
                2,
                u32::MAX,
                RandomPlan {
                    input: 5,
                    output_range,
                    ..RandomPlan::default()
                },
            )
        };
        assert_eq!(
            rows(&long(0.0), &tokenizer()).unwrap().rows[1].output_len,
            Some(u32::MAX)
        );
        assert_eq!(
            rows(&long(0.5), &tokenizer()).unwrap_err().what,
            "drawn answer lengths may be at most 10000000 tokens: 6442450943"
        );
    }

    #[test]
    fn invalid_lengths_are_refused() {
        let some = RandomPlan::default();
        for (lengths, message) in [
            (
                RandomPlan {
                    input_range: 1.0,
                    ..some
                },
                "range of lengths must be from 0 to below 1: 1",
            ),
            (
                RandomPlan {
                    output_range: -0.5,
                    ..some
                },
                "range of lengths must be from 0 to below 1: -0.5",
            ),
            (
                RandomPlan {
                    output_range: f64::NAN,
                    ..some
                },
                "to below 1: NaN",
            ),
            (
                RandomPlan { input: 0, ..some },
                "a prompt could have no tokens",
            ),
            (
                RandomPlan {
                    input: 1,
                    input_range: 0.5,
                    ..some
                },
                "a prompt could have no tokens",
            ),
            (
                RandomPlan {
                    input: 9_999_999,
                    prefix: 2,
                    ..some
                },
                "more than 10000000 tokens: 10000001",
            ),
        ] {
            let error = rows(&plan_with(0, 1, 5, lengths), &tokenizer()).unwrap_err();
            assert!(error.what.contains(message), "{error}");
        }
    }
}
