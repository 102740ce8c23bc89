//! The dataset `choice`: the sentiment of a sentence.

use super::{DatasetPlan, Row, Rows, SHIPPED};
use crate::constraint::Constraint;

/// The prompt of vLLM's script.
const PROMPT: &str = "Classify this sentiment: vLLM is wonderful!";
const CHOICES: [&str; 2] = ["Positive", "Negative"];

/// One row; choices of the user's own keep the prompt.
pub(super) fn rows(plan: &DatasetPlan) -> Rows {
    let choices = plan.choice.clone().unwrap_or_else(|| CHOICES.map(str::to_owned).to_vec());
    let source = if plan.choice.is_some() { "command line" } else { SHIPPED };
    Rows::generated(vec![Row::new(PROMPT, Constraint::Choice(choices.into()))], source)
}
