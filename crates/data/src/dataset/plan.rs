//! The plan of a dataset: the options that all datasets share, and the options of the dataset
//! itself.

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::{DatasetName, MixPart, Source};
use sobench_core::case::Arm;
use sobench_core::constraint::{GrammarDialect, GrammarSpelling};
use sobench_core::error::{Error, Result};
use sobench_core::scorer::Scorer;

/// The most requests of one run. All are kept in memory from the start.
pub const MAX_PROMPTS: usize = 10_000_000;
/// The most documents of one rerank request.
pub const MAX_DOCUMENTS: usize = 10_000;

/// Form of the prompts that the endpoint accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptForm {
    /// Text. Messages go through the tokenizer's chat template.
    Text,
    /// Chat messages, sent unchanged: the server applies the template, and a prompt must not be
    /// templated twice.
    Messages,
    /// Audio, which only the dataset `audio` has.
    Audio,
    /// A query and this many documents, made from texts.
    Ranking { documents: usize },
}

/// Use of the rows' constraints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Constraints {
    /// Answers are judged by them, and [`DatasetPlan::constrained_ratio`] of the requests send
    /// them.
    Kept,
    /// Only the prompts are sent: the endpoint returns nothing to constrain.
    #[serde(rename = "left_out")]
    Dropped,
}

/// Limit on the length of answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputLength {
    /// The row's length, else the plan's.
    #[default]
    #[serde(rename = "of_the_row")]
    RowOrDefault,
    /// The row's length. Each row must have one.
    #[serde(rename = "of_every_row")]
    RowRequired,
    /// The plan's length for all rows.
    #[serde(rename = "of_the_plan")]
    Fixed,
}

/// Determines the loaded cases. Serialised as one object: the name, the options of the dataset, and
/// the shared ones.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct DatasetPlan {
    #[serde(flatten)]
    pub source: Source,
    /// The number of requests, or of items if there are [`DatasetPlan::arms`].
    pub num_prompts: usize,
    /// Limit on the tokens of an answer, for rows without their own.
    pub output_len: u32,
    /// Whether rows' own lengths apply.
    #[serde(default)]
    pub output: OutputLength,
    pub seed: u64,
    /// Share of the requests whose constraint is sent, from 0 to 1.
    pub constrained_ratio: f64,
    /// The arms in which each item is sent (`--arms`). Empty: one request for each row, with its
    /// constraint or without it, by [`DatasetPlan::constrained_ratio`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arms: Vec<Arm>,
    /// The scorer that replaces those of the rows (`--score`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<Scorer>,
    pub constraints: Constraints,
    pub prompt_form: PromptForm,
    /// The grammar notation that the server reads. Selects the shipped grammar.
    pub grammar_dialect: GrammarDialect,
    /// Conversion of user-supplied grammars in the other notation.
    pub grammar_spelling: GrammarSpelling,
}

impl DatasetPlan {
    /// A plan with the defaults of the command line.
    pub(super) fn with_defaults(source: Source, num_prompts: usize) -> Self {
        Self {
            num_prompts,
            output_len: source.name().default_output_len(),
            source,
            output: OutputLength::RowOrDefault,
            seed: 0,
            constrained_ratio: 1.0,
            arms: Vec::new(),
            score: None,
            constraints: Constraints::Kept,
            prompt_form: PromptForm::Text,
            grammar_dialect: GrammarDialect::Ebnf,
            grammar_spelling: GrammarSpelling::AsWritten,
        }
    }

    pub fn name(&self) -> DatasetName {
        self.source.name()
    }

    /// The file, folder or repository given by the user.
    pub fn path(&self) -> Option<&str> {
        self.source.path()
    }

    /// The datasets of a mix. Empty for other datasets.
    pub fn parts(&self) -> &[MixPart] {
        match &self.source {
            Source::Mix(mix) => &mix.parts,
            _ => &[],
        }
    }

    /// The number of requests that each row makes.
    pub fn requests_per_row(&self) -> usize {
        self.arms.len().max(1)
    }

    /// The number of rows, from the first one, that the requests can use.
    pub(super) fn rows_needed(&self) -> usize {
        match self.prompt_form {
            PromptForm::Ranking { documents } => {
                self.num_prompts.saturating_mul(documents).saturating_add(1)
            }
            PromptForm::Text | PromptForm::Messages | PromptForm::Audio => self.num_prompts,
        }
    }

    /// The seed, for NumPy's legacy generator.
    ///
    /// # Errors
    /// The seed is above 2^32 - 1.
    pub(super) fn numpy_seed(&self) -> Result<u32> {
        u32::try_from(self.seed).map_err(|_| {
            Error::usage(format!(
                "the random generator of this dataset has no seed above {}: {}",
                u32::MAX,
                self.seed
            ))
            .hint("use a lower --seed")
        })
    }

    /// Refuses invalid numbers, and a prompt form that the dataset cannot provide.
    pub(super) fn check(&self) -> Result<()> {
        if self.num_prompts == 0 || self.num_prompts > MAX_PROMPTS / self.requests_per_row() {
            return Err(Error::usage(format!(
                "the number of prompts must be from 1 to {}: {}",
                MAX_PROMPTS / self.requests_per_row(),
                self.num_prompts
            )));
        }
        if let Some(arm) = (1..self.arms.len()).find_map(|index| {
            self.arms[..index]
                .contains(&self.arms[index])
                .then(|| self.arms[index])
        }) {
            return Err(
                Error::usage(format!("--arms has an arm twice: {}", arm.flag()))
                    .hint("name each arm once; --num-prompts sets how many items are sent in each"),
            );
        }
        if self.output_len == 0 {
            return Err(Error::usage(
                "the output length must be at least one token: 0",
            ));
        }
        if !(0.0..=1.0).contains(&self.constrained_ratio) {
            return Err(Error::usage(format!(
                "the constrained ratio must be from 0 to 1: {}",
                self.constrained_ratio
            )));
        }
        let is_audio = matches!(self.source, Source::Audio(_));
        if is_audio != (self.prompt_form == PromptForm::Audio) {
            return Err(Error::usage(format!(
                "the dataset {} has no prompts in the form that the endpoint accepts",
                self.name()
            ))
            .hint("use --dataset audio with --backend openai-audio, and only with it"));
        }
        if let PromptForm::Ranking { documents } = self.prompt_form
            && (documents == 0 || documents > MAX_DOCUMENTS)
        {
            return Err(Error::usage(format!(
                "the number of documents per request must be from 1 to {MAX_DOCUMENTS}: {documents}"
            )));
        }
        Ok(())
    }
}

/// The member with the dataset's name.
const NAME: &str = "name";

/// The name of a dataset, and its own options.
#[derive(JsonSchema, Serialize)]
pub(super) struct SourceMembers {
    name: DatasetName,
    #[serde(flatten)]
    #[schemars(with = "Map<String, Value>")]
    options: Value,
}

impl Serialize for Source {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let name = self.name();
        let options = self.to_value().map_err(serde::ser::Error::custom)?;
        SourceMembers { name, options }.serialize(serializer)
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
