//! Constraints for files without them, from the dataset that the user names. An answer whose
//! request is uncertain is not judged. Assumptions are listed in the report.

use std::collections::HashMap;
use std::sync::Arc;

use crate::terminal::InputProgress;
use sobench_core::case::{Arm, Case, Prompt};
use sobench_core::error::{Error, Result};
use sobench_data::dataset::custom::NAME_TAG;
use sobench_data::dataset::{self, DatasetName, DatasetPlan, Inputs};
use sobench_data::hub::HubSettings;
use sobench_data::tokenizer::Tokenizer;

/// The constraints of a dataset, in the order of the requests.
pub(super) struct Known {
    plan: DatasetPlan,
    cases: Vec<Case>,
    source: String,
    /// Index of a row by its reference answer.
    by_completion: HashMap<String, usize>,
    /// Index of a request by the tag with its name.
    by_name: HashMap<String, usize>,
}

/// The constraint of one request.
pub(super) struct Due {
    pub(super) prompt: Prompt,
    pub(super) constraint: Option<Arc<sobench_core::constraint::Constraint>>,
    pub(super) oracle: Option<Arc<str>>,
    pub(super) arm: Arm,
    pub(super) unjudgeable: Option<String>,
}

impl Known {
    /// Loads as many requests as the file has answers.
    ///
    /// # Errors
    /// No dataset is named, it cannot be loaded, or its constraints were random.
    pub(super) fn load(plan: Option<&DatasetPlan>, answers: usize, file: &str) -> Result<Self> {
        let Some(plan) = plan else {
            return Err(Error::usage(format!("no constraints in this file: {file}")).hint(
                "give the --dataset of the run, with its --json-schema-path, --regex, --choice or --grammar-path, \
                 --structured-output-ratio and --seed",
            ));
        };
        if plan.source.name() == DatasetName::JsonUnique {
            return Err(Error::usage(format!(
                "the schemas of json-unique are random and not in this file: {file}"
            ))
            .hint("give --dataset json to check the members that all schemas share"));
        }
        let plan = DatasetPlan {
            num_prompts: answers.max(1),
            ..plan.clone()
        };
        let inputs = Inputs {
            tokenizer: &Tokenizer::embedded(),
            hub: &HubSettings::from_env(),
            progress: &InputProgress::of_files(),
        };
        let dataset = dataset::load_with(&plan, &inputs)?;
        let rows = dataset.cases.iter().take(dataset.rows).enumerate();
        let by_completion = rows
            .filter_map(|(row, case)| Some((case.completion.clone()?, row)))
            .collect();
        let names = dataset.cases.iter().enumerate();
        let by_name = names
            .filter_map(|(index, case)| {
                let mut tags = case.tags.iter();
                Some((tags.find(|tag| tag.starts_with(NAME_TAG))?.clone(), index))
            })
            .collect();
        Ok(Self {
            plan,
            cases: dataset.cases,
            source: dataset.source,
            by_completion,
            by_name,
        })
    }

    /// Whether requests have names.
    pub(super) fn has_names(&self) -> bool {
        !self.by_name.is_empty()
    }

    /// The index of the request with this tag.
    pub(super) fn named(&self, tag: &str) -> Option<usize> {
        self.by_name.get(tag).copied()
    }

    /// The constraint of request `index`; `expected` is its reference answer in the file.
    pub(super) fn due(&self, index: usize, expected: Option<&str>) -> Due {
        let Some(case) = self.cases.get(index) else {
            return Due {
                prompt: Prompt::Text("".into()),
                constraint: None,
                oracle: None,
                arm: Arm::Free,
                unjudgeable: None,
            };
        };
        let due = |row: &Case, unjudgeable: Option<String>| Due {
            prompt: row.prompt.clone(),
            constraint: row.constraint.clone(),
            oracle: row.grammar_oracle.clone(),
            arm: if row.constraint.is_none() {
                Arm::Free
            } else {
                case.arm
            },
            unjudgeable,
        };
        if !self.plan.source.name().has_row_constraints() || case.completion.as_deref() == expected
        {
            return due(case, None);
        }
        // Tools skip rows that sobench keeps: the reference answer identifies the row.
        match expected.and_then(|expected| self.by_completion.get(expected)) {
            Some(&row) => due(&self.cases[row], None),
            None => due(
                case,
                Some("the reference answer is not in the dataset".to_owned()),
            ),
        }
    }

    /// Facts that the file does not state.
    pub(super) fn assumptions(&self) -> Vec<String> {
        let DatasetPlan {
            constrained_ratio,
            seed,
            ..
        } = &self.plan;
        let name = self.plan.source.name();
        let constraints = format!(
            "constraints are those of --dataset {name} ({})",
            self.source
        );
        let arms = format!(
            "constrained requests are chosen as vLLM's script does, with --structured-output-ratio {constrained_ratio} and --seed {seed}"
        );
        let complete = "no answer was truncated at the token limit".to_owned();
        vec![constraints, arms, complete]
    }
}
