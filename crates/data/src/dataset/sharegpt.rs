//! The dataset `sharegpt`: the first turn of each conversation, with the length of the recorded
//! reply.
//!
//! Follows `ShareGPTDataset` in vLLM 0.32: takes conversations of two turns or more, shuffles them
//! by `random.seed(seed)` and `random.shuffle`, skips those that are too short or too long, and
//! stops when there are enough.

use std::path::Path;

use clap::Args;
use serde::{Deserialize, Serialize};

use super::file::{MAX_DATASET_BYTES, check_rows, read_text, required};
use super::flags::{OrderFlags, PathFlags, ShortfallFlags};
use super::registry::{ConstraintScope, DatasetKind, Inputs, Spec};
use super::{DatasetArgs, DatasetPlan, Order, Row, Rows, RowsKind, Shortfall};
use sobench_core::case::Prompt;
use sobench_core::error::{Error, Result};
use sobench_core::input;
use sobench_core::input::json::{self, DuplicateKeys};
use sobench_notices::notice::{DatasetNotice, Notice};
use sobench_plan::dataset::OutputLength;

/// The fewest tokens of a prompt, and of a reply whose length is used (`is_valid_sequence` of
/// vLLM's benchmarks, as the next two).
const MIN_TOKENS: usize = 4;
/// The most tokens of a prompt.
const MAX_PROMPT_TOKENS: usize = 1024;
/// The most tokens of a prompt and its reply.
const MAX_TOTAL_TOKENS: usize = 2048;
/// The description of skipped lengths.
pub(super) const SKIPPED_LENGTHS: &str =
    "shorter than 4 tokens, longer than 1024, or longer than 2048 with the reply";

/// The flags of `sharegpt`.
#[derive(Args, Clone, Debug, Default)]
pub struct SharegptFlags {
    /// Tokens of each answer to sharegpt [default: the length of the conversation's reply]
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    pub sharegpt_output_len: Option<u32>,
}

/// The options of `sharegpt`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SharegptPlan {
    pub dataset_path: Option<String>,
    pub order: Order,
    pub shortfall: Shortfall,
}

impl DatasetKind for SharegptPlan {
    const SPEC: Spec = Spec {
        flags: &[
            PathFlags::augment_args,
            OrderFlags::augment_args,
            ShortfallFlags::augment_args,
            SharegptFlags::augment_args,
        ],
        replaces_row_lengths: true,
        own_output_len: |flags| {
            flags
                .rows
                .sharegpt
                .sharegpt_output_len
                .map(|length| ("--sharegpt-output-len", length))
        },
        ..Spec::new("sharegpt", ConstraintScope::Unconstrained)
    };

    fn new(flags: &DatasetArgs) -> Result<Self> {
        Ok(Self {
            dataset_path: flags.path.path(),
            order: flags.rows.order.order(),
            shortfall: flags.rows.shortfall.shortfall(),
        })
    }

    /// The first valid rows, up to the number of prompts.
    fn rows(&self, plan: &DatasetPlan, inputs: &Inputs<'_>) -> Result<Rows> {
        let hint = "give --dataset-path a JSON file in ShareGPT's format";
        let path = required(self.dataset_path.as_deref(), SharegptPlan::SPEC.name, hint)?;
        let (entries, mut notices) = read(path)?;
        let mut conversations: Vec<(usize, Entry)> = entries
            .into_iter()
            .enumerate()
            .filter(|(_, entry)| turns(entry).len() >= 2)
            .collect();
        check_rows(conversations.len(), path)?;
        self.order.apply(plan.seed, &mut conversations);
        let fixed = (plan.output == OutputLength::Fixed).then_some(plan.output_len as usize);
        let (mut rows, mut with_images) = (Vec::new(), 0);
        for (number, entry) in conversations {
            if rows.len() == plan.num_prompts {
                break;
            }
            let name = format!("{path}, entry {number}");
            let text = |turn: usize| {
                let value = turns(&entry)[turn].value.as_deref();
                value.ok_or_else(|| {
                    Error::usage(format!(
                        "{name}: conversations[{turn}] has no text \"value\""
                    ))
                    .hint("correct or remove the entry")
                })
            };
            let (prompt, reply) = (text(0)?, text(1)?);
            let prompt_tokens = inputs.tokenizer.count_with_added(prompt);
            let reply_tokens = fixed.unwrap_or_else(|| inputs.tokenizer.count_with_added(reply));
            if !has_valid_length(prompt_tokens, reply_tokens, fixed.is_some()) {
                continue;
            }
            with_images += usize::from(entry.image.is_some() || entry.video.is_some());
            let row = Row::unconstrained(Prompt::Text(prompt.into()));
            rows.push(Row {
                output_len: u32::try_from(reply_tokens).ok(),
                name,
                ..row
            });
        }
        if rows.is_empty() {
            return Err(Error::usage(format!(
                "every conversation is skipped: {SKIPPED_LENGTHS}: {path}"
            ))
            .hint("give a file with other lengths, or set --sharegpt-output-len"));
        }
        notices.extend((with_images > 0).then(|| {
            DatasetNotice::ImagesNotSent {
                prompts: with_images,
            }
            .into()
        }));
        Ok(Rows {
            notices,
            ..Rows::new(rows, RowsKind::Sampled(self.shortfall), path.to_owned())
        })
    }

    fn path(&self) -> Option<&str> {
        self.dataset_path.as_deref()
    }
}

#[derive(Deserialize)]
struct Entry {
    conversations: Option<Vec<Turn>>,
    #[serde(default)]
    image: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    video: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct Turn {
    value: Option<String>,
}

/// The conversations, and notices about the file.
fn read(path: &str) -> Result<(Vec<Entry>, Vec<Notice>)> {
    let wrong = |message: &str| {
        Error::usage(format!("{path}: not a list of conversations: {message}"))
            .hint("give each entry \"conversations\", a list of turns with the text \"value\"")
    };
    if input::first_byte(Path::new(path), MAX_DATASET_BYTES)?.is_some_and(|byte| byte != b'[') {
        return Err(wrong("the file does not start with '['"));
    }
    let text = read_text(Path::new(path))?;
    let entries = json::from_text(&text).map_err(|error| wrong(&error.to_string()))?;
    let mut repeated = DuplicateKeys::default();
    repeated.scan(&text, |line| format!("{path}, line {line}"));
    Ok((
        entries,
        DatasetNotice::repeated_members(repeated)
            .into_iter()
            .collect(),
    ))
}

fn turns(entry: &Entry) -> &[Turn] {
    entry.conversations.as_deref().unwrap_or_default()
}

/// Whether vLLM sends a request with these lengths.
pub(super) fn has_valid_length(prompt_tokens: usize, reply_tokens: usize, is_fixed: bool) -> bool {
    let is_short = prompt_tokens < MIN_TOKENS || (!is_fixed && reply_tokens < MIN_TOKENS);
    !is_short
        && prompt_tokens <= MAX_PROMPT_TOKENS
        && prompt_tokens + reply_tokens <= MAX_TOTAL_TOKENS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::golden_tests::check;
    use crate::dataset::tests::{plan, rows, tokenizer};
    use crate::dataset::{DatasetName, Source};
    use sobench_notices::notice::sentences;

    const FIXTURE: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/datasets/sharegpt.json"
    );

    fn fixture() -> SharegptPlan {
        SharegptPlan {
            dataset_path: Some(FIXTURE.to_owned()),
            ..SharegptPlan::default()
        }
    }

    fn plan_with(seed: u64, num_prompts: usize, options: SharegptPlan) -> DatasetPlan {
        DatasetPlan {
            seed,
            num_prompts,
            source: Source::Sharegpt(options),
            ..plan(DatasetName::Sharegpt)
        }
    }

    #[test]
    fn the_same_seed_selects_the_same_rows_as_vllm() {
        let plain = fixture();
        assert_eq!(
            check(&plan_with(0, 4, plain.clone()), "sharegpt", "plain").notices,
            []
        );
        let again = check(&plan_with(1, 12, plain.clone()), "sharegpt", "oversampled");
        assert_eq!(
            sentences(&again.notices),
            ["8 rows for 12 prompts: 4 prompts are drawn from them again"]
        );
        check(
            &plan_with(
                1,
                12,
                SharegptPlan {
                    shortfall: Shortfall::FewerRequests,
                    ..plain.clone()
                },
            ),
            "sharegpt",
            "short",
        );
        check(
            &plan_with(
                0,
                3,
                SharegptPlan {
                    order: Order::AsStored,
                    ..plain.clone()
                },
            ),
            "sharegpt",
            "in_order",
        );
        let fixed = DatasetPlan {
            output_len: 2,
            output: OutputLength::Fixed,
            ..plan_with(5, 6, plain)
        };
        check(&fixed, "sharegpt", "fixed");
    }

    #[test]
    fn errors_name_the_file_and_the_field() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.json");
        for (text, message) in [
            ("{}", "not a list of conversations"),
            (
                "[\n{\"conversations\": [{\"value\": 1}]}]",
                "expected a string at line 2",
            ),
            (r#"[{"conversations": [{"value": "x"}]}]"#, "no rows in"),
            (
                r#"[{}, {"conversations": [{"value": "x"}, {"from": "gpt"}]}]"#,
                "entry 1: conversations[1] has no text \"value\"",
            ),
            (
                r#"[{"conversations": [{"value": "x"}, {"value": "y"}]}]"#,
                "every conversation is skipped: shorter than 4 tokens",
            ),
        ] {
            std::fs::write(&path, text).unwrap();
            let plan = plan_with(
                0,
                1,
                SharegptPlan {
                    dataset_path: path.to_str().map(str::to_owned),
                    ..fixture()
                },
            );
            let error = rows(&plan, &tokenizer()).unwrap_err();
            assert!(
                error.what.contains(message) && error.what.contains("rows.json"),
                "{error}"
            );
        }
        assert!(rows(&plan_with(0, 1, SharegptPlan::default()), &tokenizer()).is_err());
    }

    #[test]
    fn unsent_images_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.json");
        let turn = r#"{"value": "What is to be seen on this picture of ours?"}"#;
        std::fs::write(
            &path,
            format!(r#"[{{"image": "a.png", "conversations": [{turn}, {turn}]}}]"#),
        )
        .unwrap();
        let plan = plan_with(
            0,
            1,
            SharegptPlan {
                dataset_path: path.to_str().map(str::to_owned),
                ..fixture()
            },
        );
        assert_eq!(
            sentences(&rows(&plan, &tokenizer()).unwrap().notices),
            ["1 prompts refer to an image or a video, which is not sent"]
        );
    }
}
