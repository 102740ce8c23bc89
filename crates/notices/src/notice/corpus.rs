//! Notices of the corpora that engines are measured with. Their texts come from files, so that the
//! whole sentence is cut.

use std::fmt;

use serde::{Deserialize, Serialize};

use sobench_core::printable::printable;

/// Characters of a sentence.
const MAX_CHARS: usize = 300;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CorpusNotice {
    LongInstances {
        entry: String,
        max_bytes: usize,
        instances: usize,
    },
    SameName {
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
                format!("{entry}: instances over {max_bytes} bytes are left out: {instances}")
            }
            Self::SameName { name } => format!("two entries have this name: {name}"),
            Self::Unreadable { why } => why.clone(),
            Self::FilesLeftOut {
                corpus,
                names,
                files,
            } => {
                format!(
                    "{corpus}: files of {} are left out: {files}",
                    names.join(", ")
                )
            }
            Self::RepeatedMembersInCorpora { objects, first } => {
                format!(
                    "objects that name a member twice, of which the last counts: {objects}; the first, {first}"
                )
            }
            // Not cut: the path is the user's.
            Self::MoreLikeThese { corpus, notices } => {
                return write!(f, "{corpus}: {notices} more notices like these");
            }
        };
        f.write_str(&printable(&sentence, MAX_CHARS))
    }
}
