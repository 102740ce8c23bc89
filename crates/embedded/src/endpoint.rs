//! The endpoints that generate.

/// The endpoint of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    Completions,
    Chat,
    Responses,
    Messages,
}

impl Endpoint {
    /// The endpoint of a path such as `/v1/chat/completions`.
    pub(super) fn from_path(path: &str) -> Option<Self> {
        match path.trim_start_matches('/') {
            "v1/completions" => Some(Self::Completions),
            "v1/chat/completions" => Some(Self::Chat),
            "v1/responses" => Some(Self::Responses),
            "v1/messages" => Some(Self::Messages),
            _ => None,
        }
    }
}
