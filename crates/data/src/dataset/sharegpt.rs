//! The dataset `sharegpt`: the first turn of each conversation, and an answer as long as the one
//! that was given.
//!
//! By the rules of `ShareGPTDataset` in vLLM 0.32: conversations of two turns or more, shuffled by
//! `random.seed(seed)` and `random.shuffle`, those left out that are too short or too long, until
//! there are enough.

use std::path::Path;

use clap::Args;
use serde::{Deserialize, Serialize};

use super::file::{MAX_DATASET_BYTES, check_rows, read_text, required};
use super::flags::{OrderFlags, PathFlags, ShortfallFlags};
use super::registry::{Constrained, Inputs, Kind, Spec};
use super::{DatasetArgs, DatasetPlan, Order, OutputLength, Row, Rows, RowsKind, Shortfall};
use sobench_core::case::Prompt;
use sobench_core::error::{Error, Result};
use sobench_core::input;
use sobench_core::input::json::{self, Repeated};
use sobench_notices::notice::{DatasetNotice, Notice};

/// The fewest tokens of a question, and of an answer whose length is the row's (`is_valid_sequence`
/// of vLLM's benchmarks, like the other two).
const MIN_TOKENS: usize = 4;
/// The most tokens of a question.
const MAX_PROMPT_TOKENS: usize = 1024;
/// The most tokens of a question and its answer.
const MAX_TOTAL_TOKENS: usize = 2048;
/// Those bounds in words.
pub(super) const UNASKED: &str =
    "shorter than 4 tokens, longer than 1024, or longer than 2048 with the reply";

/// The flags of `sharegpt`.
#[derive(Args, Clone, Debug, Default)]
pub struct SharegptFlags {
    /// Tokens of each answer to sharegpt [default: as many as the conversation's own answer has]
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

impl Kind for SharegptPlan {
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
        ..Spec::new("sharegpt", Constrained::Never)
    };

    fn new(flags: &DatasetArgs) -> Result<Self> {
        Ok(Self {
            dataset_path: flags.path.path(),
            order: flags.rows.order.order(),
            shortfall: flags.rows.shortfall.shortfall(),
        })
    }

    /// Rows in the order in which they are asked, no more than are needed.
    fn rows(&self, plan: &DatasetPlan, inputs: &Inputs<'_>) -> Result<Rows> {
        let hint = "give --dataset-path a JSON file in ShareGPT's layout";
        let path = required(self.dataset_path.as_deref(), SharegptPlan::SPEC.name, hint)?;
        let (entries, mut notices) = read(path)?;
        let mut kept: Vec<(usize, Entry)> = entries
            .into_iter()
            .enumerate()
            .filter(|(_, entry)| turns(entry).len() >= 2)
            .collect();
        check_rows(kept.len(), path)?;
        self.order.apply(plan.seed, &mut kept);
        let fixed = (plan.output == OutputLength::OfThePlan).then_some(plan.output_len as usize);
        let (mut rows, mut unseen) = (Vec::new(), 0);
        for (number, entry) in kept {
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
                    .hint("mend or drop the entry")
                })
            };
            let (question, answer) = (text(0)?, text(1)?);
            let prompt_tokens = inputs.tokenizer.count_with_added(question);
            let answer_tokens = fixed.unwrap_or_else(|| inputs.tokenizer.count_with_added(answer));
            if !is_asked(prompt_tokens, answer_tokens, fixed.is_some()) {
                continue;
            }
            unseen += usize::from(entry.image.is_some() || entry.video.is_some());
            let row = Row::free(Prompt::Text(question.into()));
            rows.push(Row {
                output_len: u32::try_from(answer_tokens).ok(),
                name,
                ..row
            });
        }
        if rows.is_empty() {
            return Err(
                Error::usage(format!("every conversation is left out: {UNASKED}: {path}"))
                    .hint("give a file with others, or set --sharegpt-output-len"),
            );
        }
        notices.extend(
            (unseen > 0).then(|| DatasetNotice::ImagesNotSent { questions: unseen }.into()),
        );
        Ok(Rows {
            rows,
            kind: RowsKind::Sampled(self.shortfall),
            source: path.to_owned(),
            converted_from: None,
            notices,
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

/// The conversations, and what is said of the file.
fn read(path: &str) -> Result<(Vec<Entry>, Vec<Notice>)> {
    let wrong = |words: &str| {
        Error::usage(format!("{path}: not a list of conversations: {words}"))
            .hint("each entry has \"conversations\", a list of turns, each with the text \"value\"")
    };
    if input::first_byte(Path::new(path), MAX_DATASET_BYTES)?.is_some_and(|byte| byte != b'[') {
        return Err(wrong("it does not begin with one"));
    }
    let text = read_text(Path::new(path))?;
    let entries = json::from_text(&text).map_err(|error| wrong(&error.to_string()))?;
    let mut repeated = Repeated::default();
    repeated.look(&text, |line| format!("{path}, line {line}"));
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

/// Whether question and answer are of a length that vLLM asks.
pub(super) fn is_asked(prompt_tokens: usize, answer_tokens: usize, is_fixed: bool) -> bool {
    let is_short = prompt_tokens < MIN_TOKENS || (!is_fixed && answer_tokens < MIN_TOKENS);
    !is_short
        && prompt_tokens <= MAX_PROMPT_TOKENS
        && prompt_tokens + answer_tokens <= MAX_TOTAL_TOKENS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::golden::check;
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

    fn of(seed: u64, num_prompts: usize, own: SharegptPlan) -> DatasetPlan {
        DatasetPlan {
            seed,
            num_prompts,
            source: Source::Sharegpt(own),
            ..plan(DatasetName::Sharegpt)
        }
    }

    #[test]
    fn the_same_seed_selects_the_rows_that_vllm_selects() {
        let plain = fixture();
        assert_eq!(
            check(&of(0, 4, plain.clone()), "sharegpt", "plain").notices,
            []
        );
        let again = check(&of(1, 12, plain.clone()), "sharegpt", "oversampled");
        assert_eq!(
            sentences(&again.notices),
            ["8 rows for 12 prompts: the other 4 are drawn from them again"]
        );
        check(
            &of(
                1,
                12,
                SharegptPlan {
                    shortfall: Shortfall::Fewer,
                    ..plain.clone()
                },
            ),
            "sharegpt",
            "short",
        );
        check(
            &of(
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
            output: OutputLength::OfThePlan,
            ..of(5, 6, plain)
        };
        check(&fixed, "sharegpt", "fixed");
    }

    #[test]
    fn bad_files_are_named_with_place_and_field() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.json");
        for (text, words) in [
            ("{}", "not a list of conversations"),
            (
                "[\n{\"conversations\": [{\"value\": 1}]}]",
                "expected a string at line 2",
            ),
            (
                r#"[{"conversations": [{"value": "x"}]}]"#,
                "there are no rows in",
            ),
            (
                r#"[{}, {"conversations": [{"value": "x"}, {"from": "gpt"}]}]"#,
                "entry 1: conversations[1] has no text \"value\"",
            ),
            (
                r#"[{"conversations": [{"value": "x"}, {"value": "y"}]}]"#,
                "every conversation is left out: shorter than 4 tokens",
            ),
        ] {
            std::fs::write(&path, text).unwrap();
            let plan = of(
                0,
                1,
                SharegptPlan {
                    dataset_path: path.to_str().map(str::to_owned),
                    ..fixture()
                },
            );
            let error = rows(&plan, &tokenizer()).unwrap_err();
            assert!(
                error.what.contains(words) && error.what.contains("rows.json"),
                "{error}"
            );
        }
        assert!(rows(&of(0, 1, SharegptPlan::default()), &tokenizer()).is_err());
    }

    #[test]
    fn images_are_left_out_and_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.json");
        let turn = r#"{"value": "What is to be seen on this picture of ours?"}"#;
        std::fs::write(
            &path,
            format!(r#"[{{"image": "a.png", "conversations": [{turn}, {turn}]}}]"#),
        )
        .unwrap();
        let plan = of(
            0,
            1,
            SharegptPlan {
                dataset_path: path.to_str().map(str::to_owned),
                ..fixture()
            },
        );
        assert_eq!(
            sentences(&rows(&plan, &tokenizer()).unwrap().notices),
            ["1 questions are about an image or a video, which is not sent"]
        );
    }
}
