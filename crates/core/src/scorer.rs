//! Rules that compare an answer with the reference of its request. No model judges.

use serde::{Deserialize, Serialize};

/// A rule that compares an answer with a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scorer {
    /// Equal JSON: members in any order, numbers by value.
    Exact,
    /// Equal JSON, leaf by leaf. The schema may declare how a leaf is compared (`x-sobench-score`).
    Leaf,
    /// The same choice of a list.
    Choice,
    /// The same last number in the text, as for GSM8K.
    Number,
    /// The expected calls of functions.
    Calls,
}

impl Scorer {
    pub const ALL: [Self; 5] = [
        Self::Exact,
        Self::Leaf,
        Self::Choice,
        Self::Number,
        Self::Calls,
    ];

    /// The name in files, flags and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Leaf => "leaf",
            Self::Choice => "choice",
            Self::Number => "number",
            Self::Calls => "calls",
        }
    }

    /// The scorer of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scorer| scorer.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_files() {
        for scorer in Scorer::ALL {
            assert_eq!(Scorer::from_name(scorer.name()), Some(scorer));
            assert_eq!(serde_json::to_value(scorer).unwrap(), scorer.name());
        }
    }
}
