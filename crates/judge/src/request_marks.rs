//! Marks of requests: texts that occur in the constraint of one request of a run only, so that an
//! answer shows to which request it belongs. A mark is a unique member (`json-unique`) or a nonce
//! (`canary`).

use std::collections::HashSet;

use serde_json::Value;

use sobench_core::constraint::{Constraint, UNIQUE_MEMBER_PREFIX};
use sobench_core::nonce::Nonce;

/// Characters of a UUID.
const UUID_CHARS: usize = 36;

/// The marks of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestMarks {
    /// UUIDs of unique members.
    uuids: HashSet<Box<str>>,
    nonces: HashSet<Nonce>,
}

impl RequestMarks {
    pub(super) fn is_empty(&self) -> bool {
        self.uuids.is_empty() && self.nonces.is_empty()
    }

    /// Whether a constraint has a mark.
    pub(super) fn has_mark(constraint: &Constraint) -> bool {
        uuids_of(constraint).next().is_some() || Nonce::from_constraint(constraint).is_some()
    }

    /// Adds the marks of a constraint.
    pub(super) fn add(&mut self, constraint: &Constraint) {
        self.uuids.extend(uuids_of(constraint).map(Box::from));
        self.nonces.extend(Nonce::from_constraint(constraint));
    }

    /// The mark of another request in `text`, the answer to `constraint`. The text is searched and
    /// not parsed: a mark has 64 random bits or more, so it occurs nowhere by chance.
    pub(super) fn of_another_request(&self, constraint: &Constraint, text: &str) -> Option<String> {
        self.other_uuid(constraint, text)
            .map(|uuid| format!("{UNIQUE_MEMBER_PREFIX}{uuid}"))
            .or_else(|| Some(self.other_nonce(constraint, text)?.to_string()))
    }

    /// The first nonce of another request in `text`.
    pub(super) fn other_nonce(&self, constraint: &Constraint, text: &str) -> Option<Nonce> {
        if self.nonces.is_empty() {
            return None;
        }
        let own = Nonce::from_constraint(constraint);
        Nonce::find_all(text)
            .map(|(_, nonce)| nonce)
            .find(|nonce| Some(*nonce) != own && self.nonces.contains(nonce))
    }

    /// The nonce of another request that has these digits in sequence. Linear in the requests.
    pub(super) fn nonce_with_digits(&self, own: Nonce, digits: &str) -> Option<Nonce> {
        if own.digits().contains(digits) {
            return None;
        }
        let mut nonces = self.nonces.iter().copied();
        nonces.find(|nonce| nonce.digits().contains(digits))
    }

    fn other_uuid<'t>(&self, constraint: &Constraint, text: &'t str) -> Option<&'t str> {
        if self.uuids.is_empty() {
            return None;
        }
        let mut found = text
            .match_indices(UNIQUE_MEMBER_PREFIX)
            .filter_map(|(at, prefix)| text.get(at + prefix.len()..)?.get(..UUID_CHARS));
        found.find(|uuid| {
            self.uuids.contains(*uuid) && !uuids_of(constraint).any(|own| own == *uuid)
        })
    }
}

/// The UUIDs of the unique members of a schema.
fn uuids_of(constraint: &Constraint) -> impl Iterator<Item = &str> {
    let properties = constraint
        .schema()
        .and_then(|schema| schema.get("properties"));
    properties
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(name, _)| name.strip_prefix(UNIQUE_MEMBER_PREFIX))
}
