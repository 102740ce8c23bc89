//! The datasets `random` and `random-prefix`: prompts of a wanted number of tokens, out of the
//! vocabulary.
//!
//! By the rules of `RandomDataset` in vLLM 0.32: lengths, places in the vocabulary and the shared
//! beginning come from one `numpy.random.default_rng(seed)`, in this order, so that the same seed
//! and tokenizer make the same prompts. vLLM then asks a server that has `/tokenize` to cut or fill
//! them up once more, which is not done here: the tokenizer is the run's own.

use clap::Args;
use serde::{Deserialize, Serialize};

use super::exact::{check_amount, notice, of_length, vocabulary_size};
use super::flags::InputLenFlags;
use super::registry::{Constrained, Inputs, Kind, Spec};
use super::{DatasetArgs, DatasetPlan, MAX_PROMPT_TOKENS, Row, Rows, RowsKind, SHIPPED};
use crate::tokenizer::Tokenizer;
use sobench_core::case::Prompt;
use sobench_core::error::{Error, Result};
use sobench_pycompat::random::NumpyGenerator;

/// The flags of `random` and `random-prefix`.
#[derive(Args, Clone, Debug, Default)]
pub struct RandomFlags {
    /// Tokens of each prompt of random and random-prefix, beside the shared ones [default: 1024]
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
    /// How far those lengths go up and down, as a share of them: one number, or {"input": 0.3,
    /// "output": 0.5} [default: 0.0]
    #[arg(long, value_name = "RATIO|JSON", allow_negative_numbers = true)]
    pub random_range_ratio: Option<String>,
    /// Tokens that all prompts of random and random-prefix share at their begin [default: 0;
    /// random-prefix: 256]
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    pub random_prefix_len: Option<u32>,
    /// Inputs in one request; only 1 is sent
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub random_batch_size: Option<u32>,
    /// Let servers end their answers to random and random-prefix, where `vllm bench serve` makes
    /// them go on (ignore_eos)
    #[arg(long)]
    pub disable_ignore_eos: bool,
}

/// The options of `random`: lengths in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RandomPlan {
    /// What prompts begin with in common.
    pub prefix: u32,
    /// The mean of what follows the beginning.
    pub input: u32,
    /// Lengths of inputs are drawn from `input * (1 - range)` to `input * (1 + range)`; from 0 to
    /// below 1.
    pub input_range: f64,
    /// The same for answers.
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
    ..Spec::new("random", Constrained::Never)
};

impl Kind for RandomPlan {
    const SPEC: Spec = SPEC;

    fn new(flags: &DatasetArgs) -> Result<Self> {
        let own = &flags.rows.random;
        if let Some(size) = own.random_batch_size.filter(|size| *size != 1) {
            return Err(Error::usage(format!(
                "--random-batch-size would put several inputs into one request: {size}"
            ))
            .hint("leave it out: each request has one input"));
        }
        let unset = Self::default();
        let (input_range, output_range) = own
            .random_range_ratio
            .as_deref()
            .map_or(Ok((0.0, 0.0)), range)?;
        Ok(Self {
            prefix: own.random_prefix_len.unwrap_or(unset.prefix),
            input: flags
                .rows
                .input_len
                .input_len
                .or(own.random_input_len)
                .unwrap_or(unset.input),
            input_range,
            output_range,
        })
    }

    /// A row a prompt.
    fn rows(&self, plan: &DatasetPlan, inputs: &Inputs<'_>) -> Result<Rows> {
        let (input, output) = bounds(self, plan, inputs.tokenizer)?;
        let mut source = Source {
            generator: NumpyGenerator::new(plan.seed),
            vocabulary_size: vocabulary_size(inputs.tokenizer)?,
        };
        let count = plan.num_prompts;
        let input_lens = source.within(input, count);
        let output_lens = source.within(output, count);
        let offsets = source.tokens(count);
        let special = inputs.tokenizer.special_ids();
        let allowed: Vec<u32> = (0..inputs.tokenizer.vocabulary_size())
            .filter(|id| special.binary_search(id).is_err())
            .collect();
        if allowed.is_empty() {
            return Err(Error::usage(format!(
                "the inputs.tokenizer has no token that is not special: {}",
                inputs.tokenizer.id()
            )));
        }

        let prefix_len = self.prefix as usize;
        let prefix = if prefix_len == 0 {
            Vec::new()
        } else {
            let places = source
                .generator
                .integers(0, allowed.len() as u64, prefix_len);
            let drawn = places
                .into_iter()
                .map(|place| allowed[place as usize])
                .collect();
            of_length(inputs.tokenizer, drawn, prefix_len, &mut |missing| {
                source.tokens(missing)
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
            let own = (0..input_len as usize).map(|place| allowed[(first + place) % allowed.len()]);
            let tokens = prefix.iter().copied().chain(own).collect();
            let wanted = prefix_len + input_len as usize;
            let made = of_length(inputs.tokenizer, tokens, wanted, &mut |missing| {
                source.tokens(missing)
            });
            excess += made.excess(wanted);
            let row = Row::free(Prompt::Text(made.text.into()));
            rows.push(Row {
                output_len: u32::try_from(output_len).ok(),
                name: format!("prompt {index}"),
                ..row
            });
        }
        let notices = notice(excess).into_iter().collect();
        Ok(Rows {
            rows,
            kind: RowsKind::Whole,
            source: SHIPPED.to_owned(),
            converted_from: None,
            notices,
        })
    }
}

impl Kind for RandomPrefixPlan {
    const SPEC: Spec = Spec {
        name: "random-prefix",
        ..SPEC
    };

    fn new(flags: &DatasetArgs) -> Result<Self> {
        let prefix = flags.rows.random.random_prefix_len.unwrap_or(256);
        if prefix == 0 {
            return Err(Error::usage("--random-prefix-len is 0")
                .hint("--dataset random has prompts that share nothing"));
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

/// `--random-range-ratio`: a number for inputs and answers, or an object with one for each.
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
                "--random-range-ratio is no share from 0 to below 1: {text}"
            ))
            .hint("give one number, or '{\"input\": 0.3, \"output\": 0.5}'")
        })
}

struct Source {
    generator: NumpyGenerator,
    vocabulary_size: u32,
}

impl Source {
    /// Numbers from the first to the second of the pair.
    fn within(&mut self, (least, most): (u64, u64), count: usize) -> Vec<u64> {
        self.generator.integers(least, most + 1, count)
    }

    /// Ids from the whole vocabulary.
    fn tokens(&mut self, count: usize) -> Vec<u32> {
        let drawn = self
            .generator
            .integers(0, u64::from(self.vocabulary_size), count);
        drawn.into_iter().map(|id| id as u32).collect()
    }
}

/// The least and the greatest length of an input without the shared beginning, and of an answer.
/// What the tokenizer adds to every text is taken off the input.
fn bounds(
    lengths: &RandomPlan,
    plan: &DatasetPlan,
    tokenizer: &Tokenizer,
) -> Result<((u64, u64), (u64, u64))> {
    for range in [lengths.input_range, lengths.output_range] {
        if !(0.0..1.0).contains(&range) {
            return Err(Error::usage(format!(
                "the range of lengths has to be from 0 to below 1: {range}"
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
        let what = format!(
            "a prompt could have no token, with the {added} that the tokenizer adds: {}",
            lengths.input
        );
        return Err(Error::usage(what)
            .hint("raise --random-input-len or --random-prefix-len, or lower the range"));
    }
    check_amount(u64::from(lengths.prefix) + input.1, plan.num_prompts)?;
    if most > u64::from(MAX_PROMPT_TOKENS) && lengths.output_range > 0.0 {
        return Err(Error::usage(format!(
            "answers of a drawn length may have at most {MAX_PROMPT_TOKENS} tokens: {most}"
        ))
        .hint("lower --random-output-len"));
    }
    Ok((input, (least.max(1), most.max(1))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::golden::{check, lengths};
    use crate::dataset::tests::{plan, rows, tokenizer};
    use crate::dataset::{DatasetName, Source};

    fn of(seed: u64, num_prompts: usize, output_len: u32, lengths: RandomPlan) -> DatasetPlan {
        DatasetPlan {
            seed,
            num_prompts,
            output_len,
            source: Source::Random(lengths),
            ..plan(DatasetName::Random)
        }
    }

    #[test]
    fn prompts_and_lengths_are_vllms() {
        let some = RandomPlan::default();
        let plain = check(
            &of(0, 6, 7, RandomPlan { input: 40, ..some }),
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
            &of(
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
            ..of(4_294_967_301, 5, 3, prefixed)
        };
        check(&plan, "random", "prefixed");
    }

    #[test]
    fn the_embedded_tokenizer_makes_prompts_of_the_length() {
        let plan = of(
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
                panic!("a text was expected")
            };
            let count = tokenizer.count(&text);
            assert!(count.abs_diff(207) <= 20, "{count}: {text}");
        }
    }

    #[test]
    fn answers_as_long_as_can_be_asked_for_are_no_panic() {
        let long = |output_range| {
            of(
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
        assert!(
            rows(&long(0.5), &tokenizer())
                .unwrap_err()
                .what
                .contains("at most 10000000 tokens: 6442450943")
        );
    }

    #[test]
    fn lengths_that_make_no_prompt_are_refused() {
        let some = RandomPlan::default();
        for (lengths, words) in [
            (
                RandomPlan {
                    input_range: 1.0,
                    ..some
                },
                "range of lengths has to be from 0 to below 1: 1",
            ),
            (
                RandomPlan {
                    output_range: -0.5,
                    ..some
                },
                "range of lengths has to be from 0 to below 1: -0.5",
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
                "a prompt could have no token",
            ),
            (
                RandomPlan {
                    input: 1,
                    input_range: 0.5,
                    ..some
                },
                "a prompt could have no token",
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
            let error = rows(&of(0, 1, 5, lengths), &tokenizer()).unwrap_err();
            assert!(error.what.contains(words), "{error}");
        }
    }
}
