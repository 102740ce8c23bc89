//! The dataset `regex`: an e-mail address.

use super::{DatasetPlan, Row, Rows, SHIPPED};
use crate::constraint::Constraint;

/// The prompt of vLLM's script, the blanks of its indentation included. Its example does not match its expression.
const PROMPT: &str = "Generate an email address for Alan Turing,             \
who works in Enigma. End in .com and new line.                 \
Example result: alan.turing@enigma.com\n";
/// The script's expression; the line end is spelt as a backslash and an `n`.
const REGEX: &str = r"\w+@\w+\.com\n";

/// One row; an expression of the user's own keeps the prompt.
pub(super) fn rows(plan: &DatasetPlan) -> Rows {
    let regex = plan.regex.as_deref().unwrap_or(REGEX);
    let source = if plan.regex.is_some() { "command line" } else { SHIPPED };
    Rows::generated(vec![Row::new(PROMPT, Constraint::Regex(regex.into()))], source)
}
