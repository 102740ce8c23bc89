//! The dataset `burstgpt`: requests and answers with logged lengths. The prompts are consecutive
//! tokens.
//!
//! Follows `BurstGPTDataset` in vLLM 0.32: answered rows of GPT-4, drawn by pandas'
//! `DataFrame.sample(n, random_state=seed)`, with replacement if there are too few. The prompt of
//! request `i` is the text of the consecutive tokens from id `i` on. Its length is not corrected.

use std::path::Path;

use clap::Args;
use serde::{Deserialize, Serialize};

use super::exact_length::{check_amount, vocabulary_size};
use super::file::{check_rows, read_lines, required};
use super::flags::PathFlags;
use super::registry::{ConstraintScope, DatasetKind, Inputs, Spec};
use super::{DatasetArgs, DatasetPlan, Row, Rows, RowsKind};
use sobench_core::case::Prompt;
use sobench_core::error::{Error, Result};
use sobench_notices::notice::DatasetNotice;
use sobench_pycompat::random::NumpyRandom;

const MODEL: &str = "Model";
const REQUEST: &str = "Request tokens";
const RESPONSE: &str = "Response tokens";
/// The model whose requests are used.
const USED_MODEL: &str = "GPT-4";

/// The options of `burstgpt`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BurstgptPlan {
    pub dataset_path: Option<String>,
}

impl DatasetKind for BurstgptPlan {
    const SPEC: Spec = Spec {
        flags: &[PathFlags::augment_args],
        replaces_row_lengths: true,
        ..Spec::new("burstgpt", ConstraintScope::Unconstrained)
    };

    fn new(flags: &DatasetArgs) -> Result<Self> {
        Ok(Self {
            dataset_path: flags.path.path(),
        })
    }

    /// One row per prompt.
    fn rows(&self, plan: &DatasetPlan, inputs: &Inputs<'_>) -> Result<Rows> {
        let hint = "give --dataset-path a CSV file in BurstGPT's format";
        let path = required(self.dataset_path.as_deref(), BurstgptPlan::SPEC.name, hint)?;
        let logged = read(path)?;
        check_rows(logged.len(), path)?;
        let longest = logged
            .iter()
            .map(|row| row.request_tokens)
            .max()
            .unwrap_or(0);
        check_amount(u64::from(longest), plan.num_prompts)?;
        let mut random = NumpyRandom::new(plan.numpy_seed()?);
        let count = plan.num_prompts;
        let is_short = logged.len() < count;
        let indices: Vec<usize> = if is_short {
            random
                .randint(logged.len() as u64, count)
                .into_iter()
                .map(|index| index as usize)
                .collect()
        } else {
            random
                .permutation(logged.len())
                .into_iter()
                .take(count)
                .collect()
        };
        let size = u64::from(vocabulary_size(inputs.tokenizer)?);
        let rows = indices
            .into_iter()
            .enumerate()
            .map(|(index, logged_index)| {
                let row = logged[logged_index];
                let tokens: Vec<u32> = (0..u64::from(row.request_tokens))
                    .map(|token| ((index as u64 + token) % size) as u32)
                    .collect();
                let output_len = Some(row.response_tokens);
                Row {
                    output_len,
                    name: format!("prompt {index}"),
                    ..Row::unconstrained(Prompt::Text(inputs.tokenizer.decode(&tokens).into()))
                }
            });
        let rows: Vec<Row> = rows.collect();
        let notice = is_short.then(|| {
            DatasetNotice::LoggedRequestsDrawn {
                logged: logged.len(),
                prompts: count,
            }
            .into()
        });
        let notices = notice.into_iter().collect();
        Ok(Rows {
            notices,
            ..Rows::new(rows, RowsKind::Complete, path.to_owned())
        })
    }

    fn path(&self) -> Option<&str> {
        self.dataset_path.as_deref()
    }
}

/// The lengths of one line, in tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
struct LoggedRequest {
    request_tokens: u32,
    response_tokens: u32,
}

fn read(path: &str) -> Result<Vec<LoggedRequest>> {
    let mut lines = read_lines(Path::new(path))?;
    let wrong = |line: usize, message: &str| {
        Error::usage(format!("{path}, line {line}: {message}"))
        .hint(format!("name the columns in the first line, among them {MODEL}, {REQUEST} and {RESPONSE}, and do not quote fields"))
    };
    let Some((number, head)) = lines.next().transpose()? else {
        return Ok(Vec::new());
    };
    let names: Vec<&str> = head.split(',').map(str::trim).collect();
    let column = |name: &str| {
        names
            .iter()
            .position(|column| *column == name)
            .ok_or_else(|| wrong(number, &format!("no column {name}")))
    };
    let (model, request, response) = (column(MODEL)?, column(REQUEST)?, column(RESPONSE)?);
    let mut logged = Vec::new();
    for line in lines {
        let (number, line) = line?;
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        if fields.len() != names.len() || line.contains('"') {
            return Err(wrong(
                number,
                &format!(
                    "expected {} fields without quotes: {}",
                    names.len(),
                    fields.len()
                ),
            ));
        }
        if fields[model] != USED_MODEL {
            continue;
        }
        let tokens = |column: usize| {
            // pandas writes columns with missing values as floating-point numbers.
            let count = fields[column]
                .parse::<f64>()
                .ok()
                .filter(|count| count.fract() == 0.0 && *count <= f64::from(u32::MAX));
            count.ok_or_else(|| {
                wrong(
                    number,
                    &format!(
                        "{} is not a number of tokens: {}",
                        names[column], fields[column]
                    ),
                )
            })
        };
        let (request_tokens, response_tokens) = (tokens(request)?, tokens(response)?);
        if response_tokens > 0.0 {
            logged.push(LoggedRequest {
                request_tokens: request_tokens as u32,
                response_tokens: response_tokens as u32,
            });
        }
    }
    Ok(logged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::golden_tests::check;
    use crate::dataset::tests::{plan, rows, tokenizer};
    use crate::dataset::{DatasetName, Source};
    use sobench_notices::notice::sentences;

    fn plan_with(path: &str, seed: u64, num_prompts: usize) -> DatasetPlan {
        let options = BurstgptPlan {
            dataset_path: Some(path.to_owned()),
        };
        DatasetPlan {
            seed,
            num_prompts,
            source: Source::Burstgpt(options),
            ..plan(DatasetName::Burstgpt)
        }
    }

    #[test]
    fn the_same_seed_draws_the_same_requests_as_vllm() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../fixtures/datasets/burstgpt.csv"
        );
        assert_eq!(
            check(&plan_with(path, 0, 4), "burstgpt", "plain").notices,
            []
        );
        let again = check(&plan_with(path, 9, 12), "burstgpt", "again");
        assert_eq!(
            sentences(&again.notices),
            ["8 logged requests for 12 prompts: each prompt is drawn from all of them"]
        );
    }

    #[test]
    fn errors_name_the_line_and_the_column() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.csv");
        let path = path.to_str().unwrap();
        let head = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type";
        for (text, message) in [
            (String::new(), "no rows in"),
            (
                "Model,Request tokens\n".to_owned(),
                "line 1: no column Response tokens",
            ),
            (format!("{head}\n1,ChatGPT,2,3,5,API log\n"), "no rows in"),
            (
                format!("{head}\n\n1,GPT-4,2,3\n"),
                "line 3: expected 6 fields without quotes: 4",
            ),
            (
                format!("{head}\n1,GPT-4,x,3,5,API log\n"),
                "line 2: Request tokens is not a number of tokens: x",
            ),
            (
                format!("{head}\n1,GPT-4,2,1e99,5,API log\n"),
                "line 2: Response tokens is not a number of tokens: 1e99",
            ),
            (
                format!("{head}\n1,GPT-4,99999999,4,5,API log\n"),
                "more than 10000000 tokens: 99999999",
            ),
        ] {
            std::fs::write(path, text).unwrap();
            let error = rows(&plan_with(path, 0, 1), &tokenizer()).unwrap_err();
            assert!(error.what.contains(message), "{error}");
        }
    }
}
