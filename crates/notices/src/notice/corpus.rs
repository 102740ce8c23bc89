//! Notices about corpora for in-process measurement. Their text comes from files, so the whole
//! sentence is truncated.

use std::fmt;

use serde::{Deserialize, Serialize};

use sobench_core::printable::printable;

/// Maximum number of characters of a sentence.
const MAX_CHARS: usize = 300;

#[derive(Clone, Debug, PartialEq, schemars::JsonSchema, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CorpusNotice {
    LongInstances {
        entry: String,
        max_bytes: usize,
        instances: usize,
    },
    #[serde(rename = "same_name")]
    DuplicateName {
        name: String,
    },
    Unreadable {
        why: String,
    },
    FilesLeftOut {
        corpus: String,
        names: Vec<String>,
        files: usize,
    },
    RepeatedMembersInCorpora {
        objects: usize,
        first: String,
    },
    MoreLikeThese {
        corpus: String,
        notices: usize,
    },
}

impl fmt::Display for CorpusNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sentence = match self {
            Self::LongInstances {
                entry,
                max_bytes,
                instances,
            } => {
                format!("{entry}: instances over {max_bytes} bytes are skipped: {instances}")
            }
            Self::DuplicateName { name } => format!("two entries have the same name: {name}"),
            Self::Unreadable { why } => why.clone(),
            Self::FilesLeftOut {
                corpus,
                names,
                files,
            } => {
                format!(
                    "{corpus}: files of {} are skipped: {files}",
                    names.join(", ")
                )
            }
            Self::RepeatedMembersInCorpora { objects, first } => {
                format!(
                    "JSON objects with duplicate members, of which the last one counts: {objects}; the first: {first}"
                )
            }
            // Not truncated: the user gave the path.
            Self::MoreLikeThese { corpus, notices } => {
                return write!(f, "{corpus}: {notices} more notices of this kind");
            }
        };
        f.write_str(&printable(&sentence, MAX_CHARS))
    }
}
