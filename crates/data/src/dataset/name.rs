//! Names of datasets, and properties of a dataset by name.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use super::DatasetName;
use super::registry::{ConstraintScope, ReferenceCheck};
use sobench_core::case::Arm;
use sobench_core::error::{Error, Result};

impl DatasetName {
    /// The name in flags, files and messages.
    pub fn name(self) -> &'static str {
        self.spec().name
    }

    /// Whether each row has its own constraint. Otherwise one constraint, possibly with variants,
    /// applies to the run, or there is none.
    pub fn has_row_constraints(self) -> bool {
        self.spec().constrained == ConstraintScope::PerRow
    }

    /// Whether no row has a constraint.
    pub fn is_unconstrained(self) -> bool {
        self.spec().constrained == ConstraintScope::Unconstrained
    }

    /// The default limit on the tokens of an answer.
    pub fn default_output_len(self) -> u32 {
        self.spec().output_len
    }

    /// Whether rows can have grammars, so that `--grammar-dialect` applies.
    pub fn has_grammars(self) -> bool {
        self.spec().has_grammars
    }

    /// Whether a chat template can apply to prompts.
    pub fn is_templated(self) -> bool {
        self.spec().is_templated
    }

    /// Whether answers have no natural end, so that servers must ignore the end-of-sequence token
    /// (`ignore_eos`).
    pub fn ignores_eos(self) -> bool {
        self.spec().ignores_eos
    }

    /// The arms in which each item is sent unless flags select others; empty for datasets with one
    /// request for each row.
    pub fn default_arms(self) -> &'static [Arm] {
        if self.spec().measures_accuracy {
            &[Arm::Control, Arm::Constrained, Arm::ConstraintOnly]
        } else {
            &[]
        }
    }

    /// What to do with references that cannot be right.
    pub(super) fn reference_check(self) -> ReferenceCheck {
        self.spec().references
    }

    /// Whether vLLM's structured-output script has the dataset.
    pub fn is_in_vllm_script(self) -> bool {
        self.spec().is_in_vllm_script
    }
}

impl fmt::Display for DatasetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DatasetName {
    type Err = Error;

    /// Parses a name. `_` and `-` are equivalent.
    fn from_str(text: &str) -> Result<Self> {
        let normalised = |name: &str| name.replace('_', "-");
        Self::ALL
            .into_iter()
            .find(|dataset| normalised(dataset.name()) == normalised(text))
            .ok_or_else(|| {
                Error::usage(format!("unknown dataset: {text}")).hint(format!(
                    "use one of: {}",
                    Self::ALL.map(Self::name).join(", ")
                ))
            })
    }
}

impl Serialize for DatasetName {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_as_printed() {
        for name in DatasetName::ALL {
            assert_eq!(name.to_string().parse::<DatasetName>().unwrap(), name);
            assert_eq!(serde_json::to_value(name).unwrap(), name.name());
        }
        assert_eq!(
            "xgrammar-bench".parse::<DatasetName>().unwrap(),
            DatasetName::XgrammarBench
        );
        let error = "jsn".parse::<DatasetName>().unwrap_err();
        assert_eq!(error.what, "unknown dataset: jsn");
        assert_eq!(
            error.hint.unwrap(),
            "use one of: json, json-unique, grammar, regex, choice, suite, tools, sessions, canary, extract, last_letters, shuffled_objects, gsm8k, mmlu, sob, xgrammar_bench, jsonschemabench, maskbench, bfcl, custom, requests, random, random-prefix, prefix_repetition, sharegpt, burstgpt, sonnet, hf, audio"
        );
    }
}
