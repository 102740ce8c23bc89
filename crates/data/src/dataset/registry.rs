//! What a dataset has to say of itself ([`Spec`], [`Kind`]), and the types that are made of the
//! list of all datasets.

use clap::Command;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{DatasetArgs, DatasetPlan, OutputLength, Rows};
use crate::hub::HubSettings;
use crate::tokenizer::Tokenizer;
use sobench_core::error::{Error, Result};

/// Tokens of an answer where neither the user nor the row says: the structured-output script's
/// default, and that of most datasets of `vllm bench serve`.
const DEFAULT_OUTPUT_LEN: u32 = 128;
/// The same for an answer that is a whole document or a call: vLLM's default for `bfcl`.
pub(super) const DOCUMENT_OUTPUT_LEN: u32 = 512;

/// Adds a group of flags to a command: `augment_args` of a struct that derives [`clap::Args`].
pub(super) type FlagGroup = fn(Command) -> Command;

/// Where the constraints of a dataset come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Constrained {
    /// No row has a constraint.
    Never,
    /// The run has one constraint, with its variants.
    ByTheRun,
    /// Each row brings its own.
    ByTheRow,
}

/// The fixed properties of a dataset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spec {
    /// The name in flags, files and messages.
    pub(super) name: &'static str,
    pub(super) constrained: Constrained,
    /// The flags that the dataset reads. All other flags of datasets are refused.
    pub(super) flags: &'static [FlagGroup],
    /// The most tokens of an answer where neither the user nor the row says.
    pub(super) output_len: u32,
    /// The dataset's own flag for the length of answers, and its value.
    pub(super) own_output_len: fn(&DatasetArgs) -> Option<(&'static str, u32)>,
    /// Whether a length that the user gives replaces the lengths of the rows.
    pub(super) replaces_row_lengths: bool,
    /// Whether rows can have grammars, so that `--grammar-dialect` has a meaning.
    pub(super) has_grammars: bool,
    /// Whether prompts can go through a chat template.
    pub(super) is_templated: bool,
    /// Whether answers have no meaningful end, so that servers are asked to go on (`ignore_eos`).
    pub(super) ignores_eos: bool,
    /// Whether vLLM's structured-output script has the dataset too, so that `sobench score` can
    /// judge its answers.
    pub(super) is_in_vllm_script: bool,
}

impl Spec {
    /// A dataset without flags, with the defaults of most datasets.
    pub(super) const fn new(name: &'static str, constrained: Constrained) -> Self {
        Self {
            name,
            constrained,
            flags: &[],
            output_len: DEFAULT_OUTPUT_LEN,
            own_output_len: |_| None,
            replaces_row_lengths: false,
            has_grammars: false,
            is_templated: matches!(constrained, Constrained::ByTheRow),
            ignores_eos: false,
            is_in_vllm_script: false,
        }
    }
}

/// What rows are made of beside the plan.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
    pub(super) tokenizer: &'a Tokenizer,
    pub(super) hub: &'a HubSettings,
}

/// A dataset: its type holds the options that no other dataset has to know.
pub(super) trait Kind: Sized + Serialize + DeserializeOwned {
    const SPEC: Spec;

    /// Builds the options from the flags of the groups in [`Spec::flags`].
    ///
    /// # Errors
    /// Usage errors that name the flag and its value.
    fn new(flags: &DatasetArgs) -> Result<Self>;

    /// Makes or reads the rows.
    ///
    /// # Errors
    /// A file or repository cannot be read, a row is wrong, or the options make no row.
    fn rows(&self, plan: &DatasetPlan, inputs: &Inputs<'_>) -> Result<Rows>;

    /// The file, folder or repository that the user named.
    fn path(&self) -> Option<&str> {
        None
    }

    /// Whether a constraint of the user's own takes the place of the shipped one, beside the
    /// shipped prompt.
    fn has_own_constraint(&self) -> bool {
        false
    }

    /// The most tokens of an answer, and what they mean to rows with a length of their own.
    /// `general` is `--output-len`, which comes before the dataset's own flag.
    ///
    /// # Errors
    /// A length is 0.
    fn output_len(flags: &DatasetArgs, general: Option<u32>) -> Result<(u32, OutputLength)> {
        let general = general
            .map(|length| above_zero("--output-len", length))
            .transpose()?;
        let own = (Self::SPEC.own_output_len)(flags)
            .map(|(flag, length)| above_zero(flag, length))
            .transpose()?;
        let given = general.or(own);
        let is_replaced = Self::SPEC.replaces_row_lengths && given.is_some();
        let output = if is_replaced {
            OutputLength::OfThePlan
        } else {
            OutputLength::OfTheRow
        };
        Ok((given.unwrap_or(Self::SPEC.output_len), output))
    }
}

/// Refuses answers without a token.
pub(super) fn above_zero(flag: &str, length: u32) -> Result<u32> {
    if length == 0 {
        return Err(Error::usage(format!("{flag} is 0")).hint("allow at least one token"));
    }
    Ok(length)
}

/// Makes [`super::DatasetName`] and [`super::Source`] of the list of all datasets. The list has the
/// order of `--help` and of hints. The mix comes last: it has no name of its own in flags.
macro_rules! datasets {
    ($($(#[$doc:meta])* $variant:ident($module:ident::$plan:ident),)+) => {
        $(pub use self::$module::$plan;)+

        /// Which dataset.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum DatasetName {
            $($(#[$doc])* $variant,)+
            /// Several of the others in one run.
            Mix,
        }

        /// A dataset with its own options.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Source {
            $($variant($plan),)+
            Mix(MixPlan),
        }

        impl DatasetName {
            /// The datasets that can be named in flags.
            pub const ALL: [Self; [$(stringify!($variant)),+].len()] = [$(Self::$variant),+];

            fn spec(self) -> &'static Spec {
                match self {
                    $(Self::$variant => &<$plan as Kind>::SPEC,)+
                    Self::Mix => &mix::SPEC,
                }
            }

            /// The most tokens of an answer, and what they mean to rows with a length of their own.
            /// `general` is `--output-len`.
            ///
            /// # Errors
            /// A length is 0, or two flags contradict each other.
            pub fn output_len(self, flags: &DatasetArgs, general: Option<u32>) -> Result<(u32, OutputLength)> {
                match self {
                    $(Self::$variant => <$plan as Kind>::output_len(flags, general),)+
                    Self::Mix => Err(mix::unnamed()),
                }
            }
        }

        impl Source {
            /// Builds the options of a dataset from its flags.
            ///
            /// # Errors
            /// Usage errors that name the flag and its value.
            pub fn new(name: DatasetName, flags: &DatasetArgs) -> Result<Self> {
                match name {
                    $(DatasetName::$variant => <$plan as Kind>::new(flags).map(Self::$variant),)+
                    DatasetName::Mix => Err(mix::unnamed()),
                }
            }

            pub fn name(&self) -> DatasetName {
                match self {
                    $(Self::$variant(_) => DatasetName::$variant,)+
                    Self::Mix(_) => DatasetName::Mix,
                }
            }

            /// The file, folder or repository that the user named.
            pub fn path(&self) -> Option<&str> {
                match self {
                    $(Self::$variant(own) => own.path(),)+
                    Self::Mix(_) => None,
                }
            }

            /// Whether a constraint of the user's own is sent with a shipped prompt.
            pub fn has_own_constraint(&self) -> bool {
                match self {
                    $(Self::$variant(own) => own.has_own_constraint(),)+
                    Self::Mix(mix) => mix.parts.iter().any(|part| part.plan.source.has_own_constraint()),
                }
            }

            fn rows(&self, plan: &DatasetPlan, inputs: &Inputs<'_>) -> Result<Rows> {
                match self {
                    $(Self::$variant(own) => own.rows(plan, inputs),)+
                    Self::Mix(_) => Err(mix::unnamed()),
                }
            }

            /// The options as the members of an object.
            fn to_value(&self) -> serde_json::Result<serde_json::Value> {
                match self {
                    $(Self::$variant(own) => serde_json::to_value(own),)+
                    Self::Mix(own) => serde_json::to_value(own),
                }
            }

            /// Reads what [`Self::to_value`] makes. Members of others are ignored.
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
