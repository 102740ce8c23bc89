//! The plan of a dataset with its own options, as loaders need it.

use serde::de::Error as _;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::{DatasetName, Source};
use sobench_core::error::{Error, Result};
use sobench_plan::dataset::{NAME, PromptForm, RecordedSource};

/// A plan that can be loaded.
pub type DatasetPlan = sobench_plan::dataset::DatasetPlan<Source>;

impl Source {
    /// The dataset as a record of a run has it.
    pub fn recorded(&self) -> RecordedSource {
        let members = serde_json::to_value(self);
        members
            .and_then(serde_json::from_value)
            .expect("a dataset is an object with a name")
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
        let members = self.to_value().map_err(serde::ser::Error::custom)?;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(NAME, &self.name())?;
        for (key, value) in members.as_object().into_iter().flatten() {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// Uses `Value`: with `arbitrary_precision`, serde's internally tagged enums cannot read numbers.
impl<'de> Deserialize<'de> for Source {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let members = Map::<String, Value>::deserialize(deserializer)?;
        let name = members
            .get(NAME)
            .and_then(Value::as_str)
            .ok_or_else(|| D::Error::missing_field(NAME))?;
        let mut known = DatasetName::ALL.into_iter().chain([DatasetName::Mix]);
        let name = known.find(|known| known.name() == name);
        let name = name.ok_or_else(|| D::Error::custom("no such dataset"))?;
        Self::from_value(name, Value::Object(members)).map_err(D::Error::custom)
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
}
