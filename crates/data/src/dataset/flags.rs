//! Flags shared by several datasets, and the check that a dataset reads the given flags.

use std::collections::HashMap;
use std::sync::LazyLock;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches, Id};

use super::DatasetName;
use super::rows::{Order, Shortfall};
use crate::arguments::paths::InputNames;
use sobench_core::error::{Error, Result};

/// The file of a dataset.
#[derive(Args, Clone, Debug, Default)]
pub struct PathFlags {
    /// File of the dataset (custom: JSONL; sharegpt: JSON; burstgpt: CSV; sonnet: text; maskbench:
    /// a folder or JSONL; others: parquet, JSON, JSONL, a folder with such files, or a Hub id)
    #[arg(long, value_name = "PATH")]
    pub dataset_path: Option<InputNames>,
}

impl PathFlags {
    pub(super) fn path(&self) -> Option<String> {
        self.dataset_path.clone().map(Into::into)
    }
}

/// Whether rows are shuffled.
#[derive(Args, Clone, Debug, Default)]
pub struct OrderFlags {
    /// Keep the order of the file instead of shuffling rows by --seed
    #[arg(long)]
    pub disable_shuffle: bool,
}

impl OrderFlags {
    pub(super) fn order(&self) -> Order {
        if self.disable_shuffle {
            Order::AsStored
        } else {
            Order::Shuffled
        }
    }
}

/// How to fill a run that needs more rows than the dataset has.
#[derive(Args, Clone, Debug, Default)]
pub struct ShortfallFlags {
    /// Send each row once, even if that makes fewer requests than --num-prompts
    #[arg(long)]
    pub no_oversample: bool,
}

impl ShortfallFlags {
    pub(super) fn shortfall(&self) -> Shortfall {
        if self.no_oversample {
            Shortfall::FewerRequests
        } else {
            Shortfall::RepeatRows
        }
    }
}

/// The length of generated prompts.
#[derive(Args, Clone, Debug, Default)]
pub struct InputLenFlags {
    /// Tokens of each prompt, in place of --random-input-len or --sonnet-input-len
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    pub input_len: Option<u32>,
}

/// The selected part of a repository.
#[derive(Args, Clone, Debug, Default)]
pub struct PartFlags {
    /// Configuration of a repository with several, for hf, jsonschemabench, gsm8k, mmlu and sob
    #[arg(long, value_name = "NAME")]
    pub hf_subset: Option<String>,
    /// Split of a repository [default: train; gsm8k, mmlu and sob: test]
    #[arg(long, value_name = "NAME")]
    pub hf_split: Option<String>,
}

/// The length of answers to rows of a repository.
#[derive(Args, Clone, Debug, Default)]
pub struct HubLengthFlags {
    /// Tokens of each answer to a dataset of the Hub [default: hf: the length of the chat's reply,
    /// else 128; datasets of documents: 512]
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    pub hf_output_len: Option<u32>,
}

impl HubLengthFlags {
    /// The value of [`super::registry::Spec::own_output_len`].
    pub(super) fn output_len(&self) -> Option<(&'static str, u32)> {
        self.hf_output_len.map(|length| ("--hf-output-len", length))
    }
}

/// Ids of the flags of each dataset.
static FLAGS: LazyLock<HashMap<DatasetName, Vec<String>>> = LazyLock::new(|| {
    let ids = |name: DatasetName| {
        let command = name
            .spec()
            .flags
            .iter()
            .fold(Command::new(""), |command, add| add(command));
        command
            .get_arguments()
            .map(|flag| flag.get_id().to_string())
            .collect()
    };
    DatasetName::ALL
        .into_iter()
        .map(|name| (name, ids(name)))
        .collect()
});

impl DatasetName {
    /// Whether the dataset reads the flag with this id.
    pub fn reads(self, flag: &str) -> bool {
        FLAGS
            .get(&self)
            .is_some_and(|flags| flags.iter().any(|read| read == flag))
    }

    /// The flags that the dataset reads, such as `--dataset-path`.
    pub fn flags(self) -> Vec<String> {
        let ids = FLAGS.get(&self).into_iter().flatten();
        ids.map(|id| format!("--{}", id.replace('_', "-")))
            .collect()
    }

    /// Whether the dataset reads `--dataset-path`.
    pub fn reads_path(self) -> bool {
        self.reads("dataset_path")
    }
}

/// Ids of the dataset flags on the command line, in the order given.
#[derive(Clone, Debug, Default)]
pub struct TypedFlags(Vec<String>);

impl TypedFlags {
    /// Whether the flag with this id was given.
    pub fn contains(&self, flag: &str) -> bool {
        self.0.iter().any(|typed| typed == flag)
    }

    /// Refuses a flag that the dataset does not read.
    ///
    /// # Errors
    /// Usage error with the flag and the datasets that read it.
    pub fn refuse_unused(&self, name: DatasetName) -> Result<()> {
        match self.0.iter().find(|flag| !name.reads(flag)) {
            None => Ok(()),
            Some(flag) => Err(unused_flag_error(
                &format!("--{}", flag.replace('_', "-")),
                name,
                |dataset| dataset.reads(flag),
            )),
        }
    }

    /// Drops the flags that this dataset does not read and another dataset of the same command
    /// does.
    pub fn drop_flags_of_others(&mut self, name: DatasetName, all: &[DatasetName]) {
        self.0
            .retain(|flag| name.reads(flag) || !all.iter().any(|other| other.reads(flag)));
    }
}

/// The error for a flag that a dataset does not read.
pub fn unused_flag_error(
    flag: &str,
    name: DatasetName,
    is_reader: impl Fn(DatasetName) -> bool,
) -> Error {
    let readers = DatasetName::ALL
        .into_iter()
        .filter(|reader| is_reader(*reader));
    let readers: Vec<String> = readers
        .map(|reader| format!("--dataset {reader}"))
        .collect();
    Error::usage(format!("{flag} has no effect with --dataset {name}")).hint(format!(
        "use it with {}, or remove it",
        readers.join(" or ")
    ))
}

impl FromArgMatches for TypedFlags {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let ids = matches
            .ids()
            .map(Id::as_str)
            .filter(|id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine))
            .filter(|id: &&str| FLAGS.values().flatten().any(|read| read == id));
        Ok(Self(ids.map(str::to_owned).collect()))
    }

    fn update_from_arg_matches(
        &mut self,
        matches: &ArgMatches,
    ) -> std::result::Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Declares no flags: it inspects those of the other groups.
impl Args for TypedFlags {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::DatasetArgs;

    #[test]
    fn every_flag_belongs_to_a_dataset() {
        let command = DatasetArgs::augment_args(Command::new(""));
        for flag in command.get_arguments().map(|flag| flag.get_id().as_str()) {
            let is_shared = ["dataset", "mix", "rerank_documents"].contains(&flag);
            assert_eq!(
                DatasetName::ALL.into_iter().any(|name| name.reads(flag)),
                !is_shared,
                "{flag}"
            );
        }
    }
}
