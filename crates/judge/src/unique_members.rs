//! Members that occur in the schema of one request only, so that an answer shows to which request
//! it belongs.

use std::collections::HashSet;

use serde_json::Value;

use sobench_core::constraint::{Constraint, UNIQUE_MEMBER_PREFIX};

/// Characters of a UUID.
const UUID_CHARS: usize = 36;

/// The UUIDs of the unique members of a run.
#[derive(Debug, Default)]
pub(super) struct UniqueMembers(HashSet<Box<str>>);

impl UniqueMembers {
    /// Adds the unique member of a schema, if it has one.
    pub(super) fn add(&mut self, constraint: &Constraint) {
        self.0.extend(uuids_of(constraint).map(Box::from));
    }

    /// The unique member of another request in `text`, the answer to `constraint`. The text is
    /// searched and not parsed: the name has 122 random bits, so it occurs nowhere by chance.
    pub(super) fn of_another_request(&self, constraint: &Constraint, text: &str) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        let mut found = text
            .match_indices(UNIQUE_MEMBER_PREFIX)
            .filter_map(|(at, prefix)| text.get(at + prefix.len()..)?.get(..UUID_CHARS));
        found
            .find(|uuid| self.0.contains(*uuid) && !uuids_of(constraint).any(|own| own == *uuid))
            .map(|uuid| format!("{UNIQUE_MEMBER_PREFIX}{uuid}"))
    }
}

/// The UUIDs of the unique members of a schema.
fn uuids_of(constraint: &Constraint) -> impl Iterator<Item = &str> {
    let members = match constraint {
        Constraint::JsonSchema(schema) => schema.get("properties").and_then(Value::as_object),
        _ => None,
    };
    members
        .into_iter()
        .flatten()
        .filter_map(|(name, _)| name.strip_prefix(UNIQUE_MEMBER_PREFIX))
}
