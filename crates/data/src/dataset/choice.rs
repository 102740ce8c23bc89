//! The dataset `choice`: the sentiment of a sentence.

use clap::Args;
use serde::{Deserialize, Serialize};

use super::registry::{Constrained, Inputs, Kind, Spec};
use super::{DatasetArgs, DatasetPlan, Row, Rows, SHIPPED};
use sobench_core::constraint::Constraint;
use sobench_core::error::{Error, Result};

/// The prompt of vLLM's script.
const PROMPT: &str = "Classify this sentiment: vLLM is wonderful!";
const CHOICES: [&str; 2] = ["Positive", "Negative"];

/// The flags of `choice`.
#[derive(Args, Clone, Debug, Default)]
pub struct ChoiceFlags {
    /// Own choices for the choice dataset
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
    /// The user's own choices.
    pub choice: Option<Vec<String>>,
}

impl Kind for ChoicePlan {
    const SPEC: Spec = Spec {
        flags: &[ChoiceFlags::augment_args],
        is_in_vllm_script: true,
        ..Spec::new("choice", Constrained::ByTheRun)
    };

    fn new(flags: &DatasetArgs) -> Result<Self> {
        let choice = flags.choice.choice.clone();
        refuse_odd(choice.as_deref().unwrap_or_default())?;
        Ok(Self { choice })
    }

    /// One row; choices of the user's own keep the prompt.
    fn rows(&self, _plan: &DatasetPlan, _inputs: &Inputs<'_>) -> Result<Rows> {
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
        Ok(Rows::generated(
            vec![Row::new(PROMPT, Constraint::Choice(choices.into()))],
            source,
        ))
    }

    fn has_own_constraint(&self) -> bool {
        self.choice.is_some()
    }
}

fn refuse_odd(choices: &[String]) -> Result<()> {
    let odd = choices
        .iter()
        .enumerate()
        .find(|(place, choice)| choice.is_empty() || choices[..*place].contains(choice));
    odd.map_or(Ok(()), |(_, choice)| {
        Err(Error::usage(format!(
            "--choice has an empty or repeated choice: {choice:?}"
        ))
        .hint("give different words, e.g. yes,no"))
    })
}
