//! The dataset `choice`: the sentiment of a sentence, or user-supplied choices.

use clap::Args;
use serde::{Deserialize, Serialize};

use super::prompt_variants::{PromptVariantFlags, PromptVariants};
use super::registry::{ConstraintScope, DatasetKind, Inputs, Spec};
use super::{DatasetArgs, DatasetPlan, Row, Rows, SHIPPED};
use sobench_core::constraint::Constraint;
use sobench_core::error::{Error, Result};

/// The prompt of vLLM's script.
const PROMPT: &str = "Classify this sentiment: vLLM is wonderful!";
const CHOICES: [&str; 2] = ["Positive", "Negative"];

/// The flags of `choice`.
#[derive(Args, Clone, Debug, Default)]
pub struct ChoiceFlags {
    /// Choices for the choice dataset
    #[arg(
        long,
        value_name = "A,B,C",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    pub choice: Option<Vec<String>>,
}

/// The options of `choice`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChoicePlan {
    /// User-supplied choices.
    pub choice: Option<Vec<String>>,
    #[serde(skip_serializing_if = "PromptVariants::is_one")]
    pub prompt_variants: PromptVariants,
}

impl DatasetKind for ChoicePlan {
    const SPEC: Spec = Spec {
        flags: &[ChoiceFlags::augment_args, PromptVariantFlags::augment_args],
        is_in_vllm_script: true,
        ..Spec::new("choice", ConstraintScope::PerRun)
    };

    fn new(flags: &DatasetArgs) -> Result<Self> {
        let choice = flags.choice.choice.clone();
        check_distinct(choice.as_deref().unwrap_or_default())?;
        Ok(Self {
            choice,
            prompt_variants: PromptVariants::new(flags)?,
        })
    }

    /// One row for each wording of the prompt. The prompt is the same with user-supplied choices.
    fn rows(&self, plan: &DatasetPlan, _inputs: &Inputs<'_>) -> Result<Rows> {
        let choices = self
            .choice
            .clone()
            .unwrap_or_else(|| CHOICES.map(str::to_owned).to_vec());
        if choices.is_empty() {
            return Err(Error::usage("the choice list is empty").hint("give at least one choice"));
        }
        let source = if self.choice.is_some() {
            "command line"
        } else {
            SHIPPED
        };
        let row = Row::new(PROMPT, Constraint::Choice(choices.into()));
        Ok(Rows::generated(
            self.prompt_variants.reword(vec![row], plan.seed),
            source,
        ))
    }

    fn has_own_constraint(&self) -> bool {
        self.choice.is_some()
    }
}

fn check_distinct(choices: &[String]) -> Result<()> {
    let invalid = choices
        .iter()
        .enumerate()
        .find(|(index, choice)| choice.is_empty() || choices[..*index].contains(choice));
    invalid.map_or(Ok(()), |(_, choice)| {
        Err(Error::usage(format!(
            "--choice has an empty or repeated choice: {choice:?}"
        ))
        .hint("give distinct choices, e.g. yes,no"))
    })
}
