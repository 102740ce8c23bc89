//! The constraints of files that do not hold them: from the dataset that the user names, request by
//! request. Never guesses: what does not fit is not judged, and what the file does not say is said
//! to be assumed.

use std::collections::HashMap;
use std::sync::Arc;

use sobench_core::case::{Arm, Case};
use sobench_core::error::{Error, Result};
use sobench_data::dataset::{self, DatasetName, DatasetPlan};
use sobench_data::tokenizer::Tokenizer;

/// The constraints of a run of a dataset, in the order of its requests.
pub(super) struct Known {
    plan: DatasetPlan,
    cases: Vec<Case>,
    source: String,
    /// Where the answer to a row is known, by that.
    by_completion: HashMap<String, usize>,
}

/// What a request was to be judged by.
pub(super) struct Due {
    pub(super) constraint: Option<Arc<sobench_core::constraint::Constraint>>,
    pub(super) oracle: Option<Arc<str>>,
    pub(super) arm: Arm,
    pub(super) unjudgeable: Option<String>,
}

impl Known {
    /// Loads as many as the file has answers.
    ///
    /// # Errors
    /// No dataset is named, it cannot be loaded, or it is one whose constraints nobody can know
    /// again.
    pub(super) fn load(plan: Option<&DatasetPlan>, answers: usize, file: &str) -> Result<Self> {
        let Some(plan) = plan else {
            return Err(Error::usage(format!("this file does not hold the constraints of its answers: {file}")).hint(
                "give --dataset as it was measured, with its --json-schema-path, --regex, --choice or --grammar-path, \
                 --structured-output-ratio and --seed",
            ));
        };
        if plan.name() == DatasetName::JsonUnique {
            return Err(Error::usage(format!(
                "every schema of json-unique was random, and the file does not hold them: {file}"
            ))
            .hint(
                "--dataset json judges by what they have in common, all but one optional member",
            ));
        }
        let plan = DatasetPlan {
            num_prompts: answers.max(1),
            ..plan.clone()
        };
        let dataset = dataset::load(&plan, &Tokenizer::embedded())?;
        let rows = dataset.cases.iter().take(dataset.rows).enumerate();
        let by_completion = rows
            .filter_map(|(row, case)| Some((case.completion.clone()?, row)))
            .collect();
        Ok(Self {
            plan,
            cases: dataset.cases,
            source: dataset.source,
            by_completion,
        })
    }

    /// What request `index` is judged by; `expected` is the reference answer that the file has of
    /// it.
    pub(super) fn due(&self, index: usize, expected: Option<&str>) -> Due {
        let Some(case) = self.cases.get(index) else {
            return Due {
                constraint: None,
                oracle: None,
                arm: Arm::Free,
                unjudgeable: None,
            };
        };
        let of = |row: &Case, unjudgeable: Option<String>| Due {
            constraint: row.constraint.clone(),
            oracle: row.grammar_oracle.clone(),
            arm: if row.constraint.is_none() {
                Arm::Free
            } else {
                case.arm
            },
            unjudgeable,
        };
        if !self.plan.name().has_rows() || case.completion.as_deref() == expected {
            return of(case, None);
        }
        // Tools leave rows out that we do not, and then count on: the reference answer tells which
        // row it was.
        match expected.and_then(|expected| self.by_completion.get(expected)) {
            Some(&row) => of(&self.cases[row], None),
            None => {
                of(case, Some("its reference answer is that of no row of the dataset, so its constraint is not known".to_owned()))
            }
        }
    }

    /// What the file does not say.
    pub(super) fn assumptions(&self) -> Vec<String> {
        let DatasetPlan {
            constrained_ratio,
            seed,
            ..
        } = &self.plan;
        let name = self.plan.name();
        let place = format!(
            "constraints are those of --dataset {name} ({}); the file does not hold them",
            self.source
        );
        let arms = format!(
            "which requests were constrained is drawn as vLLM's script draws it, with --structured-output-ratio {constrained_ratio} and \
             --seed {seed}; the file does not say"
        );
        let cut = "the file does not tell which answers were cut at the token limit: they count as they read".to_owned();
        vec![place, arms, cut]
    }
}
