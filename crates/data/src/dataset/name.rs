//! The names of datasets, and what is asked of a dataset by its name.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use super::DatasetName;
use super::registry::Constrained;
use sobench_core::error::{Error, Result};

impl DatasetName {
    /// The name in flags, files and messages.
    pub fn name(self) -> &'static str {
        self.spec().name
    }

    /// Whether each row brings a constraint of its own; elsewhere one constraint (with its
    /// variants) is the run's, or there is none.
    pub fn has_rows(self) -> bool {
        self.spec().constrained == Constrained::ByTheRow
    }

    /// Whether nothing of it has a constraint.
    pub fn is_plain(self) -> bool {
        self.spec().constrained == Constrained::Never
    }

    /// Whether rows can have grammars, so that `--grammar-dialect` has a meaning.
    pub fn has_grammars(self) -> bool {
        self.spec().has_grammars
    }

    /// Whether prompts can go through a chat template.
    pub fn is_templated(self) -> bool {
        self.spec().is_templated
    }

    /// Whether answers have no meaningful end, so that servers are asked to go on (`ignore_eos`).
    pub fn ignores_eos(self) -> bool {
        self.spec().ignores_eos
    }

    /// Whether vLLM's structured-output script has the dataset too.
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

    /// Reads a name; `_` and `-` are the same.
    fn from_str(text: &str) -> Result<Self> {
        let plain = |name: &str| name.replace('_', "-");
        Self::ALL
            .into_iter()
            .find(|dataset| plain(dataset.name()) == plain(text))
            .ok_or_else(|| {
                Error::usage(format!("no such dataset: {text}")).hint(format!(
                    "the datasets are {}",
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
    fn names_are_read_as_they_are_written() {
        for name in DatasetName::ALL {
            assert_eq!(name.to_string().parse::<DatasetName>().unwrap(), name);
            assert_eq!(serde_json::to_value(name).unwrap(), name.name());
        }
        assert_eq!(
            "xgrammar-bench".parse::<DatasetName>().unwrap(),
            DatasetName::XgrammarBench
        );
        let error = "jsn".parse::<DatasetName>().unwrap_err();
        assert_eq!(error.what, "no such dataset: jsn");
        assert!(error.hint.unwrap().contains("json-unique"));
    }
}
