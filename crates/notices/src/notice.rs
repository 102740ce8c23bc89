//! Notices: what the reader of a result has to know besides the figures, as data.
//!
//! Each area has an enum of its own in a file of its own, which holds the variants with their
//! sentences. Files of runs keep the enum as an object whose `kind` names the variant;
//! [`Display`](std::fmt::Display) gives the sentence that people read.

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

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

pub use self::bench::BenchNotice;
pub use self::corpus::CorpusNotice;
pub use self::dataset::{ConvertedRow, DatasetNotice};
pub use self::figures::{BreachCount, FigureNotice, OutageSpan};
pub use self::log::LogNotice;
pub use self::mask::MaskNotice;
pub use self::matrix::MatrixNotice;
pub use self::preflight::{ConstraintFinding, KindClass, PreflightNotice};

/// Makes [`Notice`] of the list of areas.
macro_rules! notices {
    ($($area:ident($notice:ident),)+) => {
        /// One notice. `thiserror` is here for its `Display`.
        #[derive(Clone, Debug, PartialEq, Serialize, thiserror::Error)]
        #[serde(untagged)]
        pub enum Notice {
            $(#[error("{0}")] $area($notice),)+
            /// An object of a kind that this version does not know.
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
    // By way of a `Value`: with serde_json's `arbitrary_precision`, tagged enums cannot read
    // numbers from text.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        match (Self::known(&value), value) {
            (Some(known), _) => Ok(known),
            (None, Value::String(sentence)) => Ok(Self::Other(sentence)),
            (None, Value::Object(members)) => Ok(Self::Unknown(members)),
            (None, _) => Err(serde::de::Error::custom(
                "a notice is an object with a kind, or a sentence",
            )),
        }
    }
}

/// The sentences of notices.
pub fn sentences(notices: &[Notice]) -> Vec<String> {
    notices.iter().map(ToString::to_string).collect()
}

/// Writes notices as their sentences, for files that keep text.
///
/// # Errors
/// Those of the serializer.
pub fn as_sentences<S: Serializer>(notices: &[Notice], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(notices.iter().map(ToString::to_string))
}

/// A value of one of several shards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{value} (shard {shard})")]
pub struct OfShard {
    /// From 1.
    pub shard: usize,
    pub value: String,
}

/// Values with commas between them.
fn list<T: ToString>(values: &[T]) -> String {
    values
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}
