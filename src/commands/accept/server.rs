//! The server that was tested.

use schemars::JsonSchema;
use serde::Serialize;

use sobench_backend::identify::EMBEDDED_VERSION_PREFIX;

/// The server that was tested.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub(crate) struct AcceptedServer {
    pub(crate) base_url: String,
    pub(crate) model: String,
    pub(crate) version: Option<String>,
}

impl AcceptedServer {
    /// Whether it is the embedded server.
    pub(super) fn is_synthetic(&self) -> bool {
        let version = self.version.as_deref().unwrap_or_default();
        version.starts_with(EMBEDDED_VERSION_PREFIX)
    }
}
