//! What decides which cases are loaded: the options that all datasets share, and those of the
//! dataset itself.

use serde::de::Error as _;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::{DatasetName, MixPart, Source};
use sobench_core::constraint::{GrammarDialect, GrammarSpelling};
use sobench_core::error::{Error, Result};

/// The most requests of one run; each is kept in memory from the start.
pub const MAX_PROMPTS: usize = 10_000_000;
/// The most documents of one request to rank them.
pub const MAX_DOCUMENTS: usize = 10_000;

/// What the endpoint takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptForm {
    /// Text: messages are put into the tokenizer's chat template.
    Text,
    /// Chat messages, which are passed as they are: the server has the template, and a prompt must
    /// not be templated twice.
    Messages,
    /// Sound, which only the dataset `audio` has.
    Audio,
    /// A query and so many documents, made from texts.
    Ranking { documents: usize },
}

/// What becomes of the constraints that rows have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Constraints {
    /// Answers are judged by them, and [`DatasetPlan::constrained_ratio`] of the requests carry
    /// them.
    Kept,
    /// Only the prompts are asked: the answers are nothing that a constraint could be about.
    LeftOut,
}

/// How long answers may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputLength {
    /// As the row says, and as the plan says where it does not.
    #[default]
    OfTheRow,
    /// As the row says, which has to.
    OfEveryRow,
    /// As the plan says, whatever the row says.
    OfThePlan,
}

/// Everything that decides what is loaded. Written as one object: the name, the options of the
/// dataset, and the shared ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DatasetPlan {
    #[serde(flatten)]
    pub source: Source,
    pub num_prompts: usize,
    /// The most tokens of an answer, for rows that do not say.
    pub output_len: u32,
    /// What rows that do say count for.
    #[serde(default)]
    pub output: OutputLength,
    pub seed: u64,
    /// Share of the requests whose constraint is sent, from 0 to 1.
    pub constrained_ratio: f64,
    pub constraints: Constraints,
    pub prompt_form: PromptForm,
    /// The dialect that the server takes; decides which of the shipped grammars is sent.
    pub grammar_dialect: GrammarDialect,
    /// What becomes of grammars of the user's own in the other dialect.
    pub grammar_spelling: GrammarSpelling,
}

impl DatasetPlan {
    pub fn name(&self) -> DatasetName {
        self.source.name()
    }

    /// The file, folder or repository that the user named.
    pub fn path(&self) -> Option<&str> {
        self.source.path()
    }

    /// The datasets of a mix; empty elsewhere.
    pub fn parts(&self) -> &[MixPart] {
        match &self.source {
            Source::Mix(mix) => &mix.parts,
            _ => &[],
        }
    }

    /// The seed, as NumPy's legacy generator takes it.
    ///
    /// # Errors
    /// It is above 2^32 - 1.
    pub(super) fn numpy_seed(&self) -> Result<u32> {
        u32::try_from(self.seed).map_err(|_| {
            Error::usage(format!(
                "this dataset is drawn by a generator that takes no seed above {}: {}",
                u32::MAX,
                self.seed
            ))
            .hint("lower --seed")
        })
    }

    /// Refuses numbers that mean nothing, and prompts in a form that the dataset does not have.
    pub(super) fn check(&self) -> Result<()> {
        if self.num_prompts == 0 || self.num_prompts > MAX_PROMPTS {
            return Err(Error::usage(format!(
                "the number of prompts has to be from 1 to {MAX_PROMPTS}: {}",
                self.num_prompts
            )));
        }
        if self.output_len == 0 {
            return Err(Error::usage(
                "the output length has to be at least one token: 0",
            ));
        }
        if !(0.0..=1.0).contains(&self.constrained_ratio) {
            return Err(Error::usage(format!(
                "the constrained ratio has to be from 0 to 1: {}",
                self.constrained_ratio
            )));
        }
        let is_audio = matches!(self.source, Source::Audio(_));
        if is_audio != (self.prompt_form == PromptForm::Audio) {
            return Err(Error::usage(format!(
                "the dataset {} has no prompts in the form that the endpoint takes",
                self.name()
            ))
            .hint("the dataset audio goes with --backend openai-audio, and nothing else does"));
        }
        if let PromptForm::Ranking { documents } = self.prompt_form
            && (documents == 0 || documents > MAX_DOCUMENTS)
        {
            return Err(Error::usage(format!(
                "the documents of a request have to be from 1 to {MAX_DOCUMENTS}: {documents}"
            )));
        }
        Ok(())
    }
}

/// The member that holds the dataset's name.
const NAME: &str = "name";

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

/// Goes through `Value`: with `arbitrary_precision`, serde's own tagged enums do not read numbers.
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

    #[test]
    fn plans_are_read_as_they_are_written() {
        for name in DatasetName::ALL {
            let mut plan = plan(name);
            plan.constrained_ratio = 0.3;
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
        }
    }

    #[test]
    fn an_unknown_dataset_is_refused() {
        let text = serde_json::to_string(&plan(DatasetName::Json))
            .unwrap()
            .replace("\"json\"", "\"jsn\"");
        assert!(
            serde_json::from_str::<DatasetPlan>(&text)
                .unwrap_err()
                .to_string()
                .contains("no such dataset")
        );
    }
}
