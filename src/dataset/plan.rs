//! What decides which cases are loaded. Knows no file's content and no format.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::drawing::{Drawing, Order};
use super::mix::MixPart;
use crate::constraint::{GrammarDialect, GrammarSpelling};
use crate::error::{Error, Result};
use crate::random::PythonRandom;

/// The most requests of one run; each is kept in memory from the start.
pub const MAX_PROMPTS: usize = 10_000_000;
/// The most documents of one request to rank them.
pub const MAX_DOCUMENTS: usize = 10_000;

/// Which dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DatasetName {
    /// One JSON Schema for all requests.
    #[serde(rename = "json")]
    Json,
    /// A JSON Schema of its own for each request, which defeats caches of compiled grammars.
    #[serde(rename = "json-unique")]
    JsonUnique,
    /// A small subset of SQL, as a context-free grammar.
    #[serde(rename = "grammar")]
    Grammar,
    /// An e-mail address, as a regular expression.
    #[serde(rename = "regex")]
    Regex,
    /// One of two words.
    #[serde(rename = "choice")]
    Choice,
    /// `NousResearch/json-mode-eval`: chats, each with a schema and a reference answer.
    #[serde(rename = "xgrammar_bench")]
    XgrammarBench,
    /// The user's own rows.
    #[serde(rename = "custom")]
    Custom,
    /// Sound, generated or the user's own, without constraints.
    #[serde(rename = "audio")]
    Audio,
    /// Tokens in a row from a random place of the vocabulary; no constraint, like all that follow up to `hf`.
    #[serde(rename = "random")]
    Random,
    /// The same behind a beginning that all prompts share.
    #[serde(rename = "random-prefix")]
    RandomPrefix,
    /// Random tokens behind one of several beginnings.
    #[serde(rename = "prefix_repetition")]
    PrefixRepetition,
    /// First turns of conversations, from a file in ShareGPT's layout.
    #[serde(rename = "sharegpt")]
    Sharegpt,
    /// Lengths of requests and answers from a file in BurstGPT's layout.
    #[serde(rename = "burstgpt")]
    Burstgpt,
    /// Lines of a poem.
    #[serde(rename = "sonnet")]
    Sonnet,
    /// Texts or chats of a repository on the Hub, or of local files.
    #[serde(rename = "hf")]
    Hf,
    /// `epfl-dlab/JSONSchemaBench`: schemas from the field.
    #[serde(rename = "jsonschemabench")]
    Jsonschemabench,
    /// The schemas of MaskBench, from its test files.
    #[serde(rename = "maskbench")]
    Maskbench,
    /// The Berkeley Function-Calling Leaderboard: questions, functions, and the calls that answer them.
    #[serde(rename = "bfcl")]
    Bfcl,
    /// Several of the others in one run; nobody asks for it by this name.
    #[serde(rename = "mix")]
    Mix,
}

/// Something of the user's own that takes the place of what ships, or is all there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnInput {
    JsonSchema,
    Grammar,
    GrammarOracle,
    /// The notation that grammars are sent in.
    GrammarDialect,
    Regex,
    Choice,
    Path,
    Audio,
    /// Whether rows are shuffled.
    Order,
    /// What becomes of too few rows.
    Shortfall,
    /// A length of every input.
    InputLength,
    RandomLengths,
    PrefixRepetition,
    ShareGpt,
    Sonnet,
    /// How own rows are taken.
    CustomRows,
    /// Which rows of a repository.
    Part,
    /// Which columns of a repository.
    Columns,
    /// The length of answers to rows of a repository.
    HubLength,
    Categories,
}

impl DatasetName {
    /// Whether the dataset reads such an input; given to another one, it would be ignored without a word.
    pub fn reads(self, input: OwnInput) -> bool {
        match input {
            OwnInput::JsonSchema => matches!(self, Self::Json | Self::JsonUnique),
            OwnInput::Grammar | OwnInput::GrammarOracle => self == Self::Grammar,
            OwnInput::GrammarDialect => matches!(self, Self::Grammar | Self::Custom),
            OwnInput::Regex => self == Self::Regex,
            OwnInput::Choice => self == Self::Choice,
            OwnInput::Path => self.has_rows() || matches!(self, Self::Sharegpt | Self::Burstgpt | Self::Sonnet | Self::Hf),
            OwnInput::Audio => self == Self::Audio,
            OwnInput::Order => {
                let is_made = self == Self::PrefixRepetition;
                is_made || matches!(self, Self::Sharegpt | Self::Hf | Self::Jsonschemabench | Self::Maskbench | Self::Bfcl)
            }
            OwnInput::Shortfall => self.has_rows() || matches!(self, Self::Sharegpt | Self::Hf),
            OwnInput::InputLength => matches!(self, Self::Random | Self::RandomPrefix | Self::Sonnet),
            OwnInput::RandomLengths => matches!(self, Self::Random | Self::RandomPrefix),
            OwnInput::PrefixRepetition => self == Self::PrefixRepetition,
            OwnInput::ShareGpt => self == Self::Sharegpt,
            OwnInput::Sonnet => self == Self::Sonnet,
            OwnInput::CustomRows => self == Self::Custom,
            OwnInput::Part => matches!(self, Self::Hf | Self::Jsonschemabench),
            OwnInput::Columns => self == Self::Hf,
            OwnInput::HubLength => matches!(self, Self::Hf | Self::Jsonschemabench | Self::Maskbench | Self::Bfcl),
            OwnInput::Categories => self == Self::Bfcl,
        }
    }

    /// All that can be asked for by name, in the order in which they are listed to people.
    pub const ALL: [Self; 18] = [
        Self::Json,
        Self::JsonUnique,
        Self::Grammar,
        Self::Regex,
        Self::Choice,
        Self::XgrammarBench,
        Self::Jsonschemabench,
        Self::Maskbench,
        Self::Bfcl,
        Self::Custom,
        Self::Random,
        Self::RandomPrefix,
        Self::PrefixRepetition,
        Self::Sharegpt,
        Self::Burstgpt,
        Self::Sonnet,
        Self::Hf,
        Self::Audio,
    ];

    /// Whether each row brings a constraint of its own; elsewhere one constraint (with its variants) is the run's, or there is none.
    pub fn has_rows(self) -> bool {
        matches!(self, Self::XgrammarBench | Self::Custom | Self::Jsonschemabench | Self::Maskbench | Self::Bfcl | Self::Mix)
    }

    /// Whether nothing of it has a constraint.
    pub fn is_plain(self) -> bool {
        match self {
            Self::Json
            | Self::JsonUnique
            | Self::Grammar
            | Self::Regex
            | Self::Choice
            | Self::XgrammarBench
            | Self::Jsonschemabench
            | Self::Mix
            | Self::Maskbench
            | Self::Bfcl
            | Self::Custom => false,
            Self::Audio
            | Self::Random
            | Self::RandomPrefix
            | Self::PrefixRepetition
            | Self::Sharegpt
            | Self::Burstgpt
            | Self::Sonnet
            | Self::Hf => true,
        }
    }

    /// The name in flags, files and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::JsonUnique => "json-unique",
            Self::Grammar => "grammar",
            Self::Regex => "regex",
            Self::Choice => "choice",
            Self::XgrammarBench => "xgrammar_bench",
            Self::Custom => "custom",
            Self::Audio => "audio",
            Self::Random => "random",
            Self::RandomPrefix => "random-prefix",
            Self::PrefixRepetition => "prefix_repetition",
            Self::Sharegpt => "sharegpt",
            Self::Burstgpt => "burstgpt",
            Self::Sonnet => "sonnet",
            Self::Hf => "hf",
            Self::Jsonschemabench => "jsonschemabench",
            Self::Maskbench => "maskbench",
            Self::Bfcl => "bfcl",
            Self::Mix => "mix",
        }
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
        Self::ALL.into_iter().find(|dataset| plain(dataset.name()) == plain(text)).ok_or_else(|| {
            Error::usage(format!("no such dataset: {text}"))
                .hint(format!("the datasets are {}", Self::ALL.map(Self::name).join(", ")))
        })
    }
}

/// Which JSON Schema the datasets `json` and `json-unique` are about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JsonSchemaSource {
    /// The brief user profile of vLLM's script, ten flat members.
    Brief,
    /// A nested user profile in the shape of the one that the script had before, with patterns and bounds.
    Nested,
    /// The user's own.
    Path(PathBuf),
}

impl JsonSchemaSource {
    /// The user's own, or one that ships.
    pub fn new(path: Option<&Path>, shipped: &Self) -> Self {
        path.map_or_else(|| shipped.clone(), |path| Self::Path(path.to_owned()))
    }
}

/// What the endpoint takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptForm {
    /// Text: messages are put into the tokenizer's chat template.
    Text,
    /// Chat messages, which are passed as they are: the server has the template, and a prompt must not be templated twice.
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
    /// Answers are judged by them, and [`DatasetPlan::constrained_ratio`] of the requests carry them.
    Kept,
    /// Only the prompts are asked: the answers are nothing that a constraint could be about.
    LeftOut,
}

/// Which sound the dataset `audio` has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AudioSource {
    /// WAV files of our own making, so many seconds long.
    Generated { seconds: f64 },
    /// The user's own files, in turn.
    Files(Vec<PathBuf>),
}

/// Everything that decides what is loaded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DatasetPlan {
    pub name: DatasetName,
    pub num_prompts: usize,
    /// The most tokens of an answer, for rows that do not say.
    pub output_len: u32,
    pub seed: u64,
    /// Share of the requests whose constraint is sent, from 0 to 1.
    pub constrained_ratio: f64,
    pub constraints: Constraints,
    pub prompt_form: PromptForm,
    /// For `audio`.
    pub audio: AudioSource,
    pub json_schema: JsonSchemaSource,
    /// The user's own grammar, for `grammar`.
    pub grammar_path: Option<PathBuf>,
    /// The dialect that the server takes; decides which of the shipped grammars is sent.
    pub grammar_dialect: GrammarDialect,
    /// What becomes of grammars of the user's own in the other dialect.
    pub grammar_spelling: GrammarSpelling,
    /// A pest grammar that decides membership, for `grammar`.
    pub grammar_oracle: Option<PathBuf>,
    /// The user's own expression, for `regex`.
    pub regex: Option<String>,
    /// The user's own choices, for `choice`.
    pub choice: Option<Vec<String>>,
    /// A local path; for `xgrammar_bench`, `hf`, `jsonschemabench` and `bfcl` also a repository of the Hub, `owner/name`.
    pub dataset_path: Option<String>,
    /// How rows are chosen or made, for the datasets that the serving benchmarks have.
    #[serde(default)]
    pub drawing: Drawing,
    /// The datasets of a mix.
    #[serde(default)]
    pub mix: Vec<MixPart>,
}

impl DatasetPlan {
    /// The file or folder that a dataset is read from which nobody else has.
    ///
    /// # Errors
    /// None is named; `hint` says which would do.
    pub(super) fn file(&self, hint: &str) -> Result<&String> {
        let missing = || Error::usage(format!("the dataset {} has no file", self.name)).hint(hint);
        self.dataset_path.as_ref().ok_or_else(missing)
    }

    /// Puts rows into the order in which they are asked: shuffled by CPython's `random.seed(seed)` and `random.shuffle`, or as they are.
    pub(super) fn put_in_order<T>(&self, rows: &mut [T]) {
        if self.drawing.order == Order::Shuffled {
            PythonRandom::new(self.seed).shuffle(rows);
        }
    }

    /// The seed, as NumPy's legacy generator takes it.
    ///
    /// # Errors
    /// It is above 2^32 - 1.
    pub(super) fn numpy_seed(&self) -> Result<u32> {
        u32::try_from(self.seed).map_err(|_| {
            Error::usage(format!("this dataset is drawn by a generator that takes no seed above {}: {}", u32::MAX, self.seed))
                .hint("lower --seed")
        })
    }

    /// Refuses numbers that mean nothing, and options of another dataset, which would go unheeded.
    pub(super) fn check(&self) -> Result<()> {
        if self.num_prompts == 0 || self.num_prompts > MAX_PROMPTS {
            return Err(Error::usage(format!("the number of prompts has to be from 1 to {MAX_PROMPTS}: {}", self.num_prompts)));
        }
        if self.output_len == 0 {
            return Err(Error::usage("the output length has to be at least one token: 0"));
        }
        if !(0.0..=1.0).contains(&self.constrained_ratio) {
            return Err(Error::usage(format!("the constrained ratio has to be from 0 to 1: {}", self.constrained_ratio)));
        }
        for (flag, is_given, input) in [
            ("a JSON schema", self.json_schema != JsonSchemaSource::Brief, OwnInput::JsonSchema),
            ("a grammar file", self.grammar_path.is_some(), OwnInput::Grammar),
            ("a grammar oracle", self.grammar_oracle.is_some(), OwnInput::GrammarOracle),
            ("a regex", self.regex.is_some(), OwnInput::Regex),
            ("a choice list", self.choice.is_some(), OwnInput::Choice),
            ("a dataset path", self.dataset_path.is_some(), OwnInput::Path),
        ] {
            if is_given && !self.name.reads(input) {
                return Err(Error::usage(format!("{flag} is given, and not read by the dataset {}", self.name))
                    .hint("name the dataset that reads it, or leave it away"));
            }
        }
        let audio = self.name == DatasetName::Audio;
        if audio != (self.prompt_form == PromptForm::Audio) {
            return Err(Error::usage(format!("the dataset {} has no prompts in the form that the endpoint takes", self.name))
                .hint("the dataset audio goes with --backend openai-audio, and nothing else does"));
        }
        if let PromptForm::Ranking { documents } = self.prompt_form
            && (documents == 0 || documents > MAX_DOCUMENTS)
        {
            return Err(Error::usage(format!("the documents of a request have to be from 1 to {MAX_DOCUMENTS}: {documents}")));
        }
        if self.choice.as_ref().is_some_and(Vec::is_empty) {
            return Err(Error::usage("the choice list is empty").hint("give at least one choice"));
        }
        Ok(())
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
        assert_eq!("xgrammar-bench".parse::<DatasetName>().unwrap(), DatasetName::XgrammarBench);
        let error = "jsn".parse::<DatasetName>().unwrap_err();
        assert_eq!(error.what, "no such dataset: jsn");
        assert!(error.hint.unwrap().contains("json-unique"));
    }
}
