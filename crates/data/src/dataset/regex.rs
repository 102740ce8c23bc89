//! The dataset `regex`: an e-mail address, or a user-supplied regular expression.

use clap::Args;
use serde::{Deserialize, Serialize};

use super::prompt_variants::{PromptVariantFlags, PromptVariants};
use super::registry::{ConstraintScope, DatasetKind, Inputs, Spec};
use super::{DatasetArgs, DatasetPlan, Row, Rows, SHIPPED};
use sobench_core::constraint::Constraint;
use sobench_core::error::Result;

/// The prompt of vLLM's script, including the blanks of its indentation. Its example does not match
/// its expression.
const PROMPT: &str = "Generate an email address for Alan Turing,             \
who works in Enigma. End in .com and new line.                 \
Example result: alan.turing@enigma.com\n";
/// The expression of the script. The line end is written as a backslash and an `n`.
const REGEX: &str = r"\w+@\w+\.com\n";

/// The flags of `regex`.
#[derive(Args, Clone, Debug, Default)]
pub struct RegexFlags {
    /// Regular expression for the regex dataset
    #[arg(long, value_name = "REGEX", allow_hyphen_values = true)]
    pub regex: Option<String>,
}

/// The options of `regex`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RegexPlan {
    /// A user-supplied expression.
    pub regex: Option<String>,
    #[serde(skip_serializing_if = "PromptVariants::is_one")]
    pub prompt_variants: PromptVariants,
}

impl DatasetKind for RegexPlan {
    const SPEC: Spec = Spec {
        flags: &[RegexFlags::augment_args, PromptVariantFlags::augment_args],
        is_in_vllm_script: true,
        ..Spec::new("regex", ConstraintScope::PerRun)
    };

    fn new(flags: &DatasetArgs) -> Result<Self> {
        Ok(Self {
            regex: flags.regex.regex.clone(),
            prompt_variants: PromptVariants::new(flags)?,
        })
    }

    /// One row for each wording of the prompt. The prompt is the same with a user-supplied expression.
    fn rows(&self, plan: &DatasetPlan, _inputs: &Inputs<'_>) -> Result<Rows> {
        let regex = self.regex.as_deref().unwrap_or(REGEX);
        let source = if self.regex.is_some() {
            "command line"
        } else {
            SHIPPED
        };
        let row = Row::new(PROMPT, Constraint::Regex(regex.into()));
        Ok(Rows::generated(
            self.prompt_variants.reword(vec![row], plan.seed),
            source,
        ))
    }

    fn has_own_constraint(&self) -> bool {
        self.regex.is_some()
    }
}
