//! Several wordings of a shipped prompt, so that the requests of a run differ.

use std::num::NonZeroUsize;

use clap::Args;
use serde::{Deserialize, Serialize};

use super::{DatasetArgs, Row};
use sobench_core::case::Prompt;
use sobench_core::error::{Error, Result};
use sobench_pycompat::random::PythonRandom;

/// What precedes and what follows the prompt. None of it changes what is asked for. The first of
/// each is empty: the first wording is the prompt itself.
const OPENINGS: [&str; 10] = [
    "",
    "Please help with this task. ",
    "Task: ",
    "Here is a request. ",
    "I need your help. ",
    "Read this carefully. ",
    "Work on the following. ",
    "A colleague asks: ",
    "Next item. ",
    "This is one of several questions. ",
];
const ENDINGS: [&str; 10] = [
    "",
    " Thank you.",
    " Be precise.",
    " Please be careful.",
    " Answer directly.",
    " Give one answer only.",
    " Do not explain.",
    " This is important.",
    " No further text is needed.",
    " Keep it brief.",
];

/// The number of wordings.
pub const MAX_PROMPT_VARIANTS: usize = OPENINGS.len() * ENDINGS.len();

/// Separates the random stream of wordings from other draws: the ASCII codes of `word`, above the
/// 64 bits of the seed.
const STREAM: u128 = 0x776f_7264 << 64;

/// The flag of datasets with a shipped prompt.
#[derive(Args, Clone, Debug, Default)]
pub struct PromptVariantFlags {
    /// Send the prompt of json, json-unique, grammar, regex and choice in N wordings, chosen by
    /// --seed; at most 100 [default: 1, the prompt of vLLM's script]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub prompt_variants: Option<usize>,
}

/// The number of wordings of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PromptVariants(NonZeroUsize);

impl Default for PromptVariants {
    fn default() -> Self {
        Self(NonZeroUsize::MIN)
    }
}

impl PromptVariants {
    /// The number of the flag.
    ///
    /// # Errors
    /// Usage error if there are not that many.
    pub(super) fn new(flags: &DatasetArgs) -> Result<Self> {
        let Some(count) = flags.prompt_variants.prompt_variants else {
            return Ok(Self::default());
        };
        NonZeroUsize::new(count)
            .filter(|count| count.get() <= MAX_PROMPT_VARIANTS)
            .map(Self)
            .ok_or_else(|| {
                Error::usage(format!(
                    "--prompt-variants must be from 1 to {MAX_PROMPT_VARIANTS}: {count}"
                ))
                .hint("set a number in this range")
            })
    }

    /// Whether there is only the prompt itself.
    pub(super) fn is_one(&self) -> bool {
        self.0 == NonZeroUsize::MIN
    }

    /// The rows with their prompts in these wordings, in turn; at least one row for each wording.
    /// The first wording is the prompt itself; the seed chooses the others.
    pub(super) fn reword(self, rows: Vec<Row>, seed: u64) -> Vec<Row> {
        if self.is_one() || rows.is_empty() {
            return rows;
        }
        let mut others: Vec<usize> = (1..MAX_PROMPT_VARIANTS).collect();
        PythonRandom::from_u128(STREAM | u128::from(seed)).shuffle(&mut others);
        others.insert(0, 0);
        (0..rows.len().max(self.0.get()))
            .map(|index| reworded(&rows[index % rows.len()], others[index % self.0.get()]))
            .collect()
    }
}

fn reworded(row: &Row, wording: usize) -> Row {
    let (opening, ending) = (
        OPENINGS[wording % OPENINGS.len()],
        ENDINGS[wording / OPENINGS.len()],
    );
    let mut row = row.clone();
    if let Prompt::Text(text) = &row.prompt {
        row.prompt = Prompt::Text(format!("{opening}{text}{ending}").into());
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn texts(rows: &[Row], count: usize, seed: u64) -> Vec<String> {
        let variants = PromptVariants(NonZeroUsize::new(count).unwrap());
        variants
            .reword(rows.to_vec(), seed)
            .into_iter()
            .map(|row| match row.prompt {
                Prompt::Text(text) => text.to_string(),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn wordings_differ_and_follow_the_seed() {
        let row = |text: &str| Row::unconstrained(Prompt::Text(text.into()));
        let one = [row("Say a.")];
        assert_eq!(texts(&one, 1, 7), ["Say a."]);
        let four = texts(&one, 4, 7);
        assert_eq!((four.len(), four[0].as_str()), (4, "Say a."));
        assert_eq!(four, texts(&one, 4, 7));
        assert_ne!(four, texts(&one, 4, 8));
        assert_eq!(four[..3], texts(&one, 3, 7));
        let all = texts(&one, MAX_PROMPT_VARIANTS, 7);
        assert_eq!(
            all.iter().collect::<HashSet<_>>().len(),
            MAX_PROMPT_VARIANTS
        );
        assert!(all.iter().all(|text| text.contains("Say a.")));
        let rows = [row("1"), row("2"), row("3")];
        let two = texts(&rows, 2, 7);
        assert_eq!((two.len(), two[0].as_str(), two[2].as_str()), (3, "1", "3"));
    }
}
