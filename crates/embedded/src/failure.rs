//! Refusals in OpenAI's shape. Knows no route.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use sobench_engine::EngineError;

/// A request that gets no answer: status, words, and the parameter that is to blame where there is
/// one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Failure {
    pub(super) status: StatusCode,
    pub(super) message: String,
    pub(super) param: Option<&'static str>,
}

impl Failure {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            param: None,
        }
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    /// The server cannot take the request now.
    pub(super) fn busy(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }

    /// Something broke that is not the request's fault, such as an engine in mid-answer.
    pub(super) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    #[must_use]
    pub(super) fn about(mut self, param: &'static str) -> Self {
        self.param = Some(param);
        self
    }

    /// The body: `{"error": {message, type, param, code}}`, with vLLM's names for the types.
    pub(super) fn body(&self) -> serde_json::Value {
        let kind = match self.status {
            StatusCode::BAD_REQUEST => "BadRequestError",
            StatusCode::NOT_FOUND => "NotFoundError",
            StatusCode::METHOD_NOT_ALLOWED => "MethodNotAllowedError",
            StatusCode::TOO_MANY_REQUESTS => "RateLimitError",
            StatusCode::PAYLOAD_TOO_LARGE => "PayloadTooLargeError",
            StatusCode::SERVICE_UNAVAILABLE => "ServiceUnavailableError",
            _ => "InternalServerError",
        };
        json!({"error": {"message": self.message, "type": kind, "param": self.param, "code": self.status.as_u16()}})
    }
}

impl From<EngineError> for Failure {
    /// What an engine refuses is the request's fault; what it breaks on is not.
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Unsupported { words, .. }
            | EngineError::Invalid { words }
            | EngineError::TooLarge { words } => Self::bad_request(words),
            EngineError::Crashed { words } => Self::internal(words),
            EngineError::Busy { words } => Self::busy(words),
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.status, Json(self.body())).into_response()
    }
}
