//! The plan of a dataset with its own options, as loaders need it.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::{DatasetName, Source};
use sobench_core::error::{Error, Result};
use sobench_plan::dataset::{PromptForm, RecordedSource};

/// A plan that can be loaded.
pub type DatasetPlan = sobench_plan::dataset::DatasetPlan<Source>;

impl Source {
    /// The dataset as a record of a run has it.
    pub fn recorded(&self) -> RecordedSource {
        let options = match self.to_value() {
            Ok(Value::Object(options)) => options,
            other => unreachable!("options of a dataset are an object: {other:?}"),
        };
        RecordedSource {
            name: self.name().to_string(),
            options,
        }
    }
}

/// Refuses invalid numbers, and a prompt form that the dataset cannot provide.
pub(super) fn check(plan: &DatasetPlan) -> Result<()> {
    plan.check()?;
    let is_audio = matches!(plan.source, Source::Audio(_));
    if is_audio != (plan.prompt_form == PromptForm::Audio) {
        return Err(Error::usage(format!(
            "the dataset {} has no prompts in the form that the endpoint accepts",
            plan.source.name()
        ))
        .hint("use --dataset audio with --backend openai-audio, and only with it"));
    }
    Ok(())
}

impl Serialize for Source {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        self.recorded().serialize(serializer)
    }
}

/// Uses `Value`: with `arbitrary_precision`, serde's internally tagged enums cannot read numbers.
impl<'de> Deserialize<'de> for Source {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let RecordedSource { name, options } = RecordedSource::deserialize(deserializer)?;
        let mut known = DatasetName::ALL.into_iter().chain([DatasetName::Mix]);
        let name = known.find(|known| known.name() == name);
        let name = name.ok_or_else(|| D::Error::custom("no such dataset"))?;
        Self::from_value(name, Value::Object(options)).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::tests::plan;
    use sobench_core::case::Arm;
    use sobench_core::scorer::Scorer;

    #[test]
    fn plans_survive_serialisation() {
        for name in DatasetName::ALL {
            let mut plan = plan(name);
            plan.constrained_ratio = 0.3;
            plan.arms = Arm::ALL.to_vec();
            plan.score = Some(Scorer::Leaf);
            let text = serde_json::to_string(&plan).unwrap();
            assert!(
                text.starts_with(&format!("{{\"name\":\"{name}\"")),
                "{text}"
            );
            assert_eq!(
                serde_json::from_str::<DatasetPlan>(&text).unwrap(),
                plan,
                "{text}"
            );
            let recorded = plan.clone().with_source(plan.source.recorded());
            assert_eq!(serde_json::to_string(&recorded).unwrap(), text);
        }
    }

    #[test]
    fn an_unknown_dataset_is_refused() {
        let text = serde_json::to_string(&plan(DatasetName::Json))
            .unwrap()
            .replace("\"json\"", "\"jsn\"");
        assert_eq!(
            serde_json::from_str::<DatasetPlan>(&text)
                .unwrap_err()
                .to_string(),
            "no such dataset at line 1 column 224"
        );
    }

    #[test]
    fn a_path_that_cannot_be_recorded_is_refused() {
        use std::os::unix::ffi::OsStringExt as _;
        let path = std::path::PathBuf::from(std::ffi::OsString::from_vec(b"\xff.json".to_vec()));
        let mut flags = crate::dataset::DatasetArgs::default();
        flags.json.path.json_schema_path = Some(path.into());
        let error = Source::new(DatasetName::Json, &flags).unwrap_err();
        assert_eq!(
            error.what,
            "a file of the dataset json cannot be recorded: path contains invalid UTF-8 characters"
        );
        assert!(error.exit_code() == 2 && error.hint.is_some());
    }
}
