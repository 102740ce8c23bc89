//! Error responses in OpenAI's format, or in Anthropic's at the messages endpoint.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::endpoint::Endpoint;
use sobench_engine::EngineError;

/// An error response: status, message, and the parameter that caused it, if any.
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

    /// The server cannot accept the request now.
    pub(super) fn busy(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }

    /// An error that the request did not cause, such as a failure of the engine during an answer.
    pub(super) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    #[must_use]
    pub(super) fn about(mut self, param: &'static str) -> Self {
        self.param = Some(param);
        self
    }

    /// The response of this endpoint.
    pub(super) fn respond(self, endpoint: Endpoint) -> Response {
        match endpoint {
            Endpoint::Messages => (self.status, Json(self.message_body())).into_response(),
            _ => self.into_response(),
        }
    }

    /// The body in Anthropic's form.
    pub(super) fn message_body(&self) -> serde_json::Value {
        let kind = match self.status.as_u16() {
            401 => "authentication_error",
            404 => "not_found_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            503 | 529 => "overloaded_error",
            400..=499 => "invalid_request_error",
            _ => "api_error",
        };
        json!({"type": "error", "error": {"type": kind, "message": self.message}})
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
    /// Unsupported and invalid constraints are errors of the request. Engine failures are not.
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Unsupported { message: words, .. }
            | EngineError::Invalid { message: words }
            | EngineError::TooLarge { message: words } => Self::bad_request(words),
            EngineError::Crashed { message: words } => Self::internal(words),
            EngineError::Busy { message: words } => Self::busy(words),
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.status, Json(self.body())).into_response()
    }
}
