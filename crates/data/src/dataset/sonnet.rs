//! The dataset `sonnet`: random lines of a poem after its first lines, which all prompts share.
//!
//! Follows `SonnetDataset` of vLLM 0.9 (removed in 0.32). The number of lines is the target length
//! divided by the mean length of a line. The lines after the shared ones are drawn by
//! `random.seed(seed)` and `random.choices`, and drawn again if the prompt is too long with its
//! chat template.

use std::path::Path;

use clap::Args;
use serde::{Deserialize, Serialize};

use super::exact_length::check_amount;
use super::file::{check_rows, read_document, required};
use super::flags::{InputLenFlags, PathFlags};
use super::registry::{ConstraintScope, DatasetKind, Inputs, Spec};
use super::{DatasetArgs, DatasetPlan, Row, Rows, RowsKind};
use crate::tokenizer::Tokenizer;
use sobench_core::case::{Message, Prompt};
use sobench_core::error::{Error, Result};
use sobench_notices::notice::DatasetNotice;
use sobench_plan::dataset::PromptForm;
use sobench_pycompat::random::PythonRandom;

/// The start of every prompt.
const TASK: &str = "Pick as many lines as you can from these poem lines:\n";
/// The most draws for one prompt before the length is reported as impossible.
const MAX_DRAWS: usize = 1000;

/// The flags of `sonnet`.
#[derive(Args, Clone, Debug, Default)]
pub struct SonnetFlags {
    /// Tokens of each prompt of sonnet [default: 550]
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    pub sonnet_input_len: Option<u32>,
    /// Tokens of each answer to sonnet [default: 150]
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    pub sonnet_output_len: Option<u32>,
    /// Tokens that all prompts of sonnet share at the start [default: 200]
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    pub sonnet_prefix_len: Option<u32>,
}

/// The options of `sonnet`: lengths in tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SonnetPlan {
    pub dataset_path: Option<String>,
    /// Length of the shared prefix.
    pub prefix: u32,
    /// Length of the whole prompt.
    pub input: u32,
}

impl Default for SonnetPlan {
    fn default() -> Self {
        Self {
            dataset_path: None,
            prefix: 200,
            input: 550,
        }
    }
}

impl DatasetKind for SonnetPlan {
    const SPEC: Spec = Spec {
        flags: &[
            PathFlags::augment_args,
            InputLenFlags::augment_args,
            SonnetFlags::augment_args,
        ],
        output_len: 150,
        own_output_len: |flags| {
            flags
                .rows
                .sonnet
                .sonnet_output_len
                .map(|length| ("--sonnet-output-len", length))
        },
        ..Spec::new("sonnet", ConstraintScope::Unconstrained)
    };

    fn new(flags: &DatasetArgs) -> Result<Self> {
        let (options, default) = (&flags.rows.sonnet, Self::default());
        Ok(Self {
            dataset_path: flags.path.path(),
            prefix: options.sonnet_prefix_len.unwrap_or(default.prefix),
            input: flags
                .rows
                .input_len
                .input_len
                .or(options.sonnet_input_len)
                .unwrap_or(default.input),
        })
    }

    /// One row per prompt.
    fn rows(&self, plan: &DatasetPlan, inputs: &Inputs<'_>) -> Result<Rows> {
        let hint = "give --dataset-path a text file with one line of a poem per line";
        let path = required(self.dataset_path.as_deref(), SonnetPlan::SPEC.name, hint)?;
        // Line ends as Python reads them.
        let text = read_document(Path::new(path))?
            .replace("\r\n", "\n")
            .replace('\r', "\n");
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        check_rows(lines.len(), path)?;
        check_amount(u64::from(self.input), plan.num_prompts)?;

        let tokens: usize = lines
            .iter()
            .map(|line| inputs.tokenizer.count_with_added(line))
            .sum();
        let tokens_per_line = tokens as f64 / lines.len() as f64;
        // Otherwise a prompt could need any number of lines.
        if tokens < lines.len() {
            return Err(Error::usage(format!(
                "the tokenizer makes less than one token of a line of {path}: {}",
                inputs.tokenizer.id()
            ))
            .hint("give another --tokenizer, or a text with longer lines"));
        }
        let (base, templated) = formatted(inputs.tokenizer, TASK)?;
        let base = inputs.tokenizer.count_with_added(&base);
        let input = self.input as usize;
        if input <= base {
            return Err(Error::usage(format!(
                "the prompt has {base} tokens without any line, and may have at most: {input}"
            ))
            .hint("raise --sonnet-input-len"));
        }
        let lines_within = |length: usize| {
            ((length as f64 - base as f64) / tokens_per_line)
                .round_ties_even()
                .max(0.0) as usize
        };
        let shared = lines_within(self.prefix as usize);
        let drawn_lines = lines_within(input).saturating_sub(shared);
        let prefix = lines[..shared.min(lines.len())].concat();

        let mut random = PythonRandom::new(plan.seed);
        let mut rows = Vec::with_capacity(plan.num_prompts);
        for index in 0..plan.num_prompts {
            let fitting = (0..MAX_DRAWS).find_map(|_| {
                let drawn: Vec<&str> = random
                    .choices(lines.len(), drawn_lines)
                    .into_iter()
                    .map(|index| lines[index])
                    .collect();
                let prompt = format!("{TASK}{prefix}{}", drawn.concat());
                let templated = formatted(inputs.tokenizer, &prompt).map(|(text, _)| text);
                templated
                    .map(|templated| {
                        (inputs.tokenizer.count_with_added(&templated) <= input)
                            .then_some((prompt, templated))
                    })
                    .transpose()
            });
            let (prompt, templated_prompt) = fitting.transpose()?.ok_or_else(|| {
                Error::usage(format!(
                    "no prompt of at most {input} tokens in {MAX_DRAWS} draws"
                ))
                .hint("lower --sonnet-prefix-len, or raise --sonnet-input-len")
            })?;
            // A chat endpoint applies the template on the server.
            let text = if plan.prompt_form == PromptForm::Messages {
                prompt
            } else {
                templated_prompt
            };
            rows.push(Row {
                name: format!("prompt {index}"),
                ..Row::unconstrained(Prompt::Text(text.into()))
            });
        }
        let is_untemplated = !templated && plan.prompt_form != PromptForm::Messages;
        let notices = is_untemplated
            .then(|| DatasetNotice::NoChatTemplate.into())
            .into_iter()
            .collect();
        Ok(Rows {
            notices,
            ..Rows::new(rows, RowsKind::Complete, path.to_owned())
        })
    }

    fn path(&self) -> Option<&str> {
        self.dataset_path.as_deref()
    }
}

/// The text as a user message in the tokenizer's chat template, and whether the tokenizer has one.
fn formatted(tokenizer: &Tokenizer, text: &str) -> Result<(String, bool)> {
    if tokenizer.chat_template().is_none() {
        return Ok((text.to_owned(), false));
    }
    let message = Message::new("user", text);
    Ok((tokenizer.apply_chat_template(&[message], true)?, true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::golden_tests::check;
    use crate::dataset::tests::{plan, rows, tokenizer};
    use crate::dataset::{DatasetName, Source, load};

    const FIXTURE: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/datasets/sonnet.txt"
    );

    fn plan_with(seed: u64, input: u32, prefix: u32) -> DatasetPlan {
        let source = Source::Sonnet(SonnetPlan {
            dataset_path: Some(FIXTURE.to_owned()),
            prefix,
            input,
        });
        DatasetPlan {
            seed,
            num_prompts: 5,
            output_len: 9,
            source,
            ..plan(DatasetName::Sonnet)
        }
    }

    #[test]
    fn the_same_seed_picks_the_same_lines_as_vllm() {
        check(&plan_with(0, 300, 120), "sonnet", "plain");
        check(&plan_with(11, 200, 40), "sonnet", "no_prefix");
    }

    #[test]
    fn chat_endpoints_and_missing_templates_get_plain_text() {
        let chat = load(
            &DatasetPlan {
                prompt_form: PromptForm::Messages,
                ..plan_with(0, 300, 120)
            },
            &tokenizer(),
        )
        .unwrap();
        let bare = load(&plan_with(0, 300, 120), &Tokenizer::embedded()).unwrap();
        for dataset in [&chat, &bare] {
            let Prompt::Text(text) = &dataset.cases[0].prompt else {
                panic!("expected a text")
            };
            assert!(text.starts_with(TASK), "{text}");
        }
        assert_eq!((chat.notices.len(), bare.notices.len()), (0, 1));
    }

    #[test]
    fn impossible_lengths_are_refused() {
        for (plan, message) in [
            (plan_with(0, 3, 1), "tokens without any line"),
            (
                plan_with(0, 100, 2000),
                "no prompt of at most 100 tokens in 1000 draws",
            ),
            (plan(DatasetName::Sonnet), "needs a file"),
        ] {
            let error = rows(&plan, &tokenizer()).unwrap_err();
            assert!(error.what.contains(message), "{error}");
        }
    }
}
