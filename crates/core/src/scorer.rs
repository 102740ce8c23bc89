//! Rules that compare an answer with the reference of its request. No model judges.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The member of a schema that declares how a value is compared with the reference.
pub const SCORE_KEYWORD: &str = "x-sobench-score";

/// A rule that compares an answer with a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, schemars::JsonSchema, Serialize, Deserialize)]
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
    /// A query with the same result on an SQLite database; needs the feature `sql`.
    Sql,
}

impl Scorer {
    pub const ALL: [Self; 6] = [
        Self::Exact,
        Self::Leaf,
        Self::Choice,
        Self::Number,
        Self::Calls,
        Self::Sql,
    ];

    /// The name in files, flags and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Leaf => "leaf",
            Self::Choice => "choice",
            Self::Number => "number",
            Self::Calls => "calls",
            Self::Sql => "sql",
        }
    }

    /// The scorer of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scorer| scorer.name() == name)
    }
}

/// A schema without its declarations for scorers, which are no part of the request. `None` if it has
/// none.
pub fn without_score_declarations(schema: &Value) -> Option<Value> {
    fn has_any(schema: &Value) -> bool {
        match schema {
            Value::Object(members) => members
                .iter()
                .any(|(name, value)| name == SCORE_KEYWORD || has_any(value)),
            Value::Array(items) => items.iter().any(has_any),
            _ => false,
        }
    }
    fn remove(schema: &mut Value) {
        match schema {
            Value::Object(members) => {
                members.retain(|name, _| name != SCORE_KEYWORD);
                members.values_mut().for_each(remove);
            }
            Value::Array(items) => items.iter_mut().for_each(remove),
            _ => {}
        }
    }
    has_any(schema).then(|| {
        let mut schema = schema.clone();
        remove(&mut schema);
        schema
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn declarations_are_removed_at_every_depth() {
        let plain = json!({"properties": {"a": {"type": "string"}, "b": {"items": [{}]}}});
        let declared = json!({"properties": {
            "a": {"type": "string", "x-sobench-score": "date"},
            "b": {"items": [{"x-sobench-score": {"number": 1}}]},
        }});
        assert_eq!(without_score_declarations(&declared), Some(plain.clone()));
        assert_eq!(without_score_declarations(&plain), None);
    }

    #[test]
    fn names_are_those_of_files() {
        for scorer in Scorer::ALL {
            assert_eq!(Scorer::from_name(scorer.name()), Some(scorer));
            assert_eq!(serde_json::to_value(scorer).unwrap(), scorer.name());
        }
    }
}
