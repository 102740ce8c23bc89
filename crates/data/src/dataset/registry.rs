//! What each dataset declares ([`Spec`], [`DatasetKind`]), and the enums generated from the list of all
//! datasets.

use clap::Command;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{DatasetArgs, DatasetPlan, Rows};
use crate::hub::HubSettings;
use crate::tokenizer::Tokenizer;
use sobench_core::error::{Error, Result};
use sobench_core::progress::Progress;
use sobench_plan::dataset::OutputLength;

/// Default answer length in tokens: that of vLLM's structured-output script and of most datasets of
/// `vllm bench serve`.
const DEFAULT_OUTPUT_LEN: u32 = 128;
/// Default length of an answer that is a whole document or a call: vLLM's default for `bfcl`.
pub(super) const DOCUMENT_OUTPUT_LEN: u32 = 512;

/// Default length of an answer in prose that ends with a short answer.
pub(super) const PROSE_OUTPUT_LEN: u32 = 256;

/// Adds a group of flags to a command: `augment_args` of a struct that derives [`clap::Args`].
pub(super) type FlagGroup = fn(Command) -> Command;

/// Source of a dataset's constraints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConstraintScope {
    /// No row has a constraint.
    Unconstrained,
    /// The run has one constraint, possibly with variants.
    PerRun,
    /// Each row has its own.
    PerRow,
}

/// What to do with a reference that breaks the schema of its own row, or that its scorer cannot
/// read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReferenceCheck {
    /// The rows are the user's, who can fix them: refuse the run.
    Refuse,
    /// The rows are of others: report their number.
    Report,
    /// The rows are generated, and tests check their references.
    Generated,
}

/// The fixed properties of a dataset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spec {
    /// The name in flags, files and messages.
    pub(super) name: &'static str,
    pub(super) constrained: ConstraintScope,
    /// The flags of the dataset. All other dataset flags are refused.
    pub(super) flags: &'static [FlagGroup],
    /// Default limit on the tokens of an answer.
    pub(super) output_len: u32,
    /// The dataset's own flag for the length of answers, and its value.
    pub(super) own_output_len: fn(&DatasetArgs) -> Option<(&'static str, u32)>,
    /// Whether a length set by a flag replaces the lengths of the rows.
    pub(super) replaces_row_lengths: bool,
    /// Whether rows can have grammars, so that `--grammar-dialect` applies.
    pub(super) has_grammars: bool,
    /// Whether a chat template can apply to prompts.
    pub(super) is_templated: bool,
    /// Whether answers have no natural end, so that servers must ignore the end-of-sequence token
    /// (`ignore_eos`).
    pub(super) ignores_eos: bool,
    /// Whether the purpose of the dataset is the accuracy of answers, so that items are sent in
    /// several arms by default.
    pub(super) measures_accuracy: bool,
    /// What to do with references that cannot be right.
    pub(super) references: ReferenceCheck,
    /// Whether vLLM's structured-output script has the dataset, so that `sobench score` can judge
    /// its answers.
    pub(super) is_in_vllm_script: bool,
}

impl Spec {
    /// A dataset without flags and with the most common defaults.
    pub(super) const fn new(name: &'static str, constrained: ConstraintScope) -> Self {
        Self {
            name,
            constrained,
            flags: &[],
            output_len: DEFAULT_OUTPUT_LEN,
            own_output_len: |_| None,
            replaces_row_lengths: false,
            has_grammars: false,
            is_templated: matches!(constrained, ConstraintScope::PerRow),
            ignores_eos: false,
            measures_accuracy: false,
            references: ReferenceCheck::Report,
            is_in_vllm_script: false,
        }
    }
}

/// Resources for loading rows.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    pub tokenizer: &'a Tokenizer,
    pub hub: &'a HubSettings,
    /// Gets how much of the files of rows was read.
    pub progress: &'a dyn Progress,
}

/// A dataset. The type holds its own options.
pub(super) trait DatasetKind: Sized + Serialize + DeserializeOwned {
    const SPEC: Spec;

    /// Builds the options from the flags of the groups in [`Spec::flags`].
    ///
    /// # Errors
    /// Usage errors that name the flag and its value.
    fn new(flags: &DatasetArgs) -> Result<Self>;

    /// Reads or generates the rows.
    ///
    /// # Errors
    /// A file or repository cannot be read, a row is invalid, or the options produce no row.
    fn rows(&self, plan: &DatasetPlan, inputs: &Inputs<'_>) -> Result<Rows>;

    /// The file, folder or repository given by the user.
    fn path(&self) -> Option<&str> {
        None
    }

    /// Whether a user-supplied constraint replaces the shipped one, and the shipped prompt does not
    /// contain it.
    fn has_own_constraint(&self) -> bool {
        false
    }

    /// The limit on the tokens of an answer, and how it applies to rows with a length of their own.
    /// `general` is `--output-len`, which overrides the dataset's own flag.
    ///
    /// # Errors
    /// A length is 0.
    fn output_len(flags: &DatasetArgs, general: Option<u32>) -> Result<(u32, OutputLength)> {
        let general = general
            .map(|length| above_zero("--output-len", length))
            .transpose()?;
        let own_length = (Self::SPEC.own_output_len)(flags)
            .map(|(flag, length)| above_zero(flag, length))
            .transpose()?;
        let given = general.or(own_length);
        let is_replaced = Self::SPEC.replaces_row_lengths && given.is_some();
        let output = if is_replaced {
            OutputLength::Fixed
        } else {
            OutputLength::RowOrDefault
        };
        Ok((given.unwrap_or(Self::SPEC.output_len), output))
    }
}

/// Refuses a length of 0.
pub(super) fn above_zero(flag: &str, length: u32) -> Result<u32> {
    if length == 0 {
        return Err(Error::usage(format!("{flag} is 0")).hint(format!("set {flag} to at least 1")));
    }
    Ok(length)
}

/// Generates [`super::DatasetName`] and [`super::Source`] from the list of all datasets, which has
/// the order of `--help` and hints. The mix comes last: `--dataset` cannot name it.
macro_rules! datasets {
    ($($(#[doc = $doc:literal])* $variant:ident($module:ident::$plan:ident),)+) => {
        $(pub use self::$module::$plan;)+

        /// Name of a dataset.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum DatasetName {
            $($(#[doc = $doc])* $variant,)+
            /// Several datasets in one run.
            Mix,
        }

        /// A dataset with its own options.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Source {
            $($variant($plan),)+
            Mix(MixPlan),
        }

        impl DatasetName {
            /// The datasets that flags can name.
            pub const ALL: [Self; [$(stringify!($variant)),+].len()] = [$(Self::$variant),+];

            fn spec(self) -> &'static Spec {
                match self {
                    $(Self::$variant => &<$plan as DatasetKind>::SPEC,)+
                    Self::Mix => &mix::SPEC,
                }
            }

            /// What the dataset contains: its comment in the list.
            pub fn description(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!($($doc),*).trim_ascii(),)+
                    Self::Mix => "Several datasets in one run.",
                }
            }

            /// The limit on the tokens of an answer, and how it applies to rows with a length of
            /// their own. `general` is `--output-len`.
            ///
            /// # Errors
            /// A length is 0, or two flags contradict each other.
            pub fn output_len(self, flags: &DatasetArgs, general: Option<u32>) -> Result<(u32, sobench_plan::dataset::OutputLength)> {
                match self {
                    $(Self::$variant => <$plan as DatasetKind>::output_len(flags, general),)+
                    Self::Mix => Err(mix::not_a_single_dataset()),
                }
            }
        }

        impl Source {
            /// Builds the options of a dataset from its flags.
            ///
            /// # Errors
            /// Usage errors that name the flag and its value, and a path that is not UTF-8.
            pub fn new(name: DatasetName, flags: &DatasetArgs) -> Result<Self> {
                let source = match name {
                    $(DatasetName::$variant => <$plan as DatasetKind>::new(flags).map(Self::$variant),)+
                    DatasetName::Mix => Err(mix::not_a_single_dataset()),
                }?;
                // The record of a run has the options.
                source.to_value().map_err(|error| {
                    sobench_core::error::Error::usage(format!("a file of the dataset {name} cannot be recorded: {error}"))
                        .hint("give the file a name in UTF-8")
                })?;
                Ok(source)
            }

            pub fn name(&self) -> DatasetName {
                match self {
                    $(Self::$variant(_) => DatasetName::$variant,)+
                    Self::Mix(_) => DatasetName::Mix,
                }
            }

            /// The file, folder or repository given by the user.
            pub fn path(&self) -> Option<&str> {
                match self {
                    $(Self::$variant(options) => options.path(),)+
                    Self::Mix(_) => None,
                }
            }

            /// Whether a user-supplied constraint is sent with a shipped prompt.
            pub fn has_own_constraint(&self) -> bool {
                match self {
                    $(Self::$variant(options) => options.has_own_constraint(),)+
                    Self::Mix(mix) => mix.parts.iter().any(|part| part.plan.source.has_own_constraint()),
                }
            }

            fn rows(&self, plan: &DatasetPlan, inputs: &Inputs<'_>) -> Result<Rows> {
                match self {
                    $(Self::$variant(options) => options.rows(plan, inputs),)+
                    Self::Mix(_) => Err(mix::not_a_single_dataset()),
                }
            }

            /// The options as a JSON object.
            fn to_value(&self) -> serde_json::Result<serde_json::Value> {
                match self {
                    $(Self::$variant(options) => serde_json::to_value(options),)+
                    Self::Mix(options) => serde_json::to_value(options),
                }
            }

            /// Reads the output of [`Self::to_value`]. Other members are ignored.
            fn from_value(name: DatasetName, members: serde_json::Value) -> serde_json::Result<Self> {
                match name {
                    $(DatasetName::$variant => serde_json::from_value(members).map(Self::$variant),)+
                    DatasetName::Mix => serde_json::from_value(members).map(Self::Mix),
                }
            }
        }
    };
}
pub(super) use datasets;
