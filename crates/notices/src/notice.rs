//! Notices: typed remarks about a run that are shown beside its figures.
//!
//! Each area has its own enum and file. Saved results keep a notice as an object whose `kind` is
//! the variant; [`Display`](std::fmt::Display) gives the sentence for people.

mod bench;
mod corpus;
mod dataset;
mod figures;
mod log;
mod mask;
mod matrix;
mod preflight;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

pub use self::bench::{BenchNotice, MaxTokensReason, RefusedPart};
pub use self::corpus::CorpusNotice;
pub use self::dataset::{ConvertedRow, DatasetNotice};
pub use self::figures::{
    BreachCount, FigureNotice, LatencyChange, LatencyModes, LossSplit, LossVariable, NameChange,
    NameCount, NameKind, OutageSpan, ValidAnswers,
};
pub use self::log::LogNotice;
pub use self::mask::MaskNotice;
pub use self::matrix::MatrixNotice;
pub use self::preflight::{ConstraintFinding, KindClass, PreflightNotice};

/// Defines [`Notice`] from the list of areas.
macro_rules! notices {
    ($($area:ident($notice:ident),)+) => {
        /// One notice. `thiserror` provides its `Display`.
        #[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, thiserror::Error)]
        #[serde(untagged)]
        pub enum Notice {
            $(#[error("{0}")] $area($notice),)+
            /// An object whose `kind` is unknown to this version.
            #[error("unknown notice: {}", Value::Object(.0.clone()))]
            Unknown(Map<String, Value>),
            /// A sentence of another program, or one from which a secret was removed.
            #[error("{0}")]
            Other(String),
        }

        $(impl From<$notice> for Notice {
            fn from(notice: $notice) -> Self {
                Self::$area(notice)
            }
        })+

        impl Notice {
            fn known(value: &Value) -> Option<Self> {
                $(if let Ok(notice) = $notice::deserialize(value) {
                    return Some(Self::$area(notice));
                })+
                None
            }
        }
    };
}

notices! {
    Bench(BenchNotice),
    Preflight(PreflightNotice),
    Dataset(DatasetNotice),
    Log(LogNotice),
    Figure(FigureNotice),
    Matrix(MatrixNotice),
    Mask(MaskNotice),
    Corpus(CorpusNotice),
}

impl<'de> Deserialize<'de> for Notice {
    // Reads a `Value` first: with `arbitrary_precision`, tagged enums cannot read numbers directly.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        match (Self::known(&value), value) {
            (Some(known), _) => Ok(known),
            (None, Value::String(sentence)) => Ok(Self::Other(sentence)),
            (None, Value::Object(members)) => Ok(Self::Unknown(members)),
            (None, _) => Err(serde::de::Error::custom(
                "expected an object with a kind, or a string",
            )),
        }
    }
}

/// The notices as sentences.
pub fn sentences(notices: &[Notice]) -> Vec<String> {
    notices.iter().map(ToString::to_string).collect()
}

/// Serializes notices as sentences, for files that keep text.
///
/// # Errors
/// Errors of the serializer.
pub fn as_sentences<S: Serializer>(notices: &[Notice], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(notices.iter().map(ToString::to_string))
}

/// A value that belongs to one shard.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize, thiserror::Error)]
#[error("{value} (shard {shard})")]
pub struct ShardValue {
    /// The number of the shard, from 1.
    pub shard: usize,
    pub value: String,
}

/// The values, separated by commas.
fn list<T: ToString>(values: &[T]) -> String {
    values
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}
