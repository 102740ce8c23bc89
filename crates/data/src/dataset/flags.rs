//! Flags that several datasets read, and which flags belong to which dataset.

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
    /// a folder or JSONL; elsewhere parquet, JSON, JSONL, a folder with such files, or a Hub id)
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
    /// Take the rows in the order of the file, and not shuffled by --seed
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

/// What becomes of a run that wants more rows than there are.
#[derive(Args, Clone, Debug, Default)]
pub struct ShortfallFlags {
    /// Ask each row once, even if that makes fewer requests than --num-prompts
    #[arg(long)]
    pub no_oversample: bool,
}

impl ShortfallFlags {
    pub(super) fn shortfall(&self) -> Shortfall {
        if self.no_oversample {
            Shortfall::Fewer
        } else {
            Shortfall::AskAgain
        }
    }
}

/// The length of prompts that are made.
#[derive(Args, Clone, Debug, Default)]
pub struct InputLenFlags {
    /// Tokens of each prompt, in place of --random-input-len or --sonnet-input-len
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    pub input_len: Option<u32>,
}

/// Which rows of a repository are read.
#[derive(Args, Clone, Debug, Default)]
pub struct PartFlags {
    /// Configuration of a repository with several, for hf and jsonschemabench
    #[arg(long, value_name = "NAME")]
    pub hf_subset: Option<String>,
    /// Split of a repository [default: train]
    #[arg(long, value_name = "NAME")]
    pub hf_split: Option<String>,
}

/// The length of answers to rows of a repository.
#[derive(Args, Clone, Debug, Default)]
pub struct HubLengthFlags {
    /// Tokens of each answer to a dataset of the Hub [default: hf: the reply's in the chat, else
    /// 128; where a document is asked for: 512]
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    pub hf_output_len: Option<u32>,
}

impl HubLengthFlags {
    /// For [`super::registry::Spec::own_output_len`].
    pub(super) fn output_len(&self) -> Option<(&'static str, u32)> {
        self.hf_output_len.map(|length| ("--hf-output-len", length))
    }
}

/// The ids of the flags of each dataset.
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
    /// Whether the dataset reads a flag, given by its id.
    pub fn reads(self, flag: &str) -> bool {
        FLAGS
            .get(&self)
            .is_some_and(|flags| flags.iter().any(|read| read == flag))
    }

    /// Whether the dataset reads `--dataset-path`.
    pub fn reads_path(self) -> bool {
        self.reads("dataset_path")
    }
}

/// The flags of datasets that were typed, by their ids, in the order typed.
#[derive(Clone, Debug, Default)]
pub struct TypedFlags(Vec<String>);

impl TypedFlags {
    /// Whether a flag was typed, given by its id.
    pub fn contains(&self, flag: &str) -> bool {
        self.0.iter().any(|typed| typed == flag)
    }

    /// Refuses a flag that the dataset does not read.
    ///
    /// # Errors
    /// Usage: names the flag, and the datasets that read it.
    pub fn refuse_stray(&self, name: DatasetName) -> Result<()> {
        match self.0.iter().find(|flag| !name.reads(flag)) {
            None => Ok(()),
            Some(flag) => Err(stray(
                &format!("--{}", flag.replace('_', "-")),
                name,
                |dataset| dataset.reads(flag),
            )),
        }
    }

    /// Leaves out the flags that the dataset does not read and another dataset of the same command
    /// does.
    pub fn leave_out_others(&mut self, name: DatasetName, all: &[DatasetName]) {
        self.0
            .retain(|flag| name.reads(flag) || !all.iter().any(|other| other.reads(flag)));
    }
}

/// The error for a flag that a dataset does not read.
pub fn stray(flag: &str, name: DatasetName, is_reader: impl Fn(DatasetName) -> bool) -> Error {
    let readers = DatasetName::ALL
        .into_iter()
        .filter(|reader| is_reader(*reader));
    let readers: Vec<String> = readers
        .map(|reader| format!("--dataset {reader}"))
        .collect();
    Error::usage(format!("{flag} has no meaning with --dataset {name}")).hint(format!(
        "use it with {}, or leave it out",
        readers.join(" or ")
    ))
}

impl FromArgMatches for TypedFlags {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let is_typed = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
        let is_read = |id: &&str| FLAGS.values().flatten().any(|read| read == id);
        let ids = matches
            .ids()
            .map(Id::as_str)
            .filter(is_typed)
            .filter(is_read);
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

/// No flags of its own: it looks at those of the others.
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
