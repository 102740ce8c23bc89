//! Errors of engines.

/// Why an engine refused a constraint or failed. `message` is the library's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub enum EngineError {
    /// The constraint is valid, but the library does not implement `feature`.
    Unsupported { feature: String, message: String },
    /// The constraint is invalid for the library, or a token is not allowed.
    Invalid { message: String },
    /// A limit on size, time or effort was reached.
    TooLarge { message: String },
    /// The library panicked.
    Crashed { message: String },
    /// The engine is overloaded. The request can be retried, and the result is never cached.
    Busy { message: String },
}

impl EngineError {
    pub(crate) fn unsupported(feature: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Unsupported {
            feature: feature.into(),
            message: message.into(),
        }
    }
}
