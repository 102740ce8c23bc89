//! What client libraries read of an answer.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What each client reads of an answer that they do not all read alike, by the name of the client.
/// Empty if the frames were too long to keep.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClientReads(pub BTreeMap<String, ClientRead>);

/// What one client reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
pub struct ClientRead {
    /// Whether it reads an answer, and raises no error.
    pub readable: bool,
    /// Whether what it reads follows the constraint.
    pub valid: bool,
    /// Whether it equals the reference; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub right: Option<bool>,
}
