//! Enforcement classes: how a server handled one constraint.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The result of one preflight request.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The answer satisfies the constraint, and no model produces it by chance.
    Enforced,
    /// Parts of the answer can only result from the constraint, but the answer violates it: it has
    /// extra text, or a part of the constraint was not enforced.
    Partial,
    /// Status 200, and an answer that shows no effect of the constraint.
    Ignored,
    /// The server used the schema's envelope as the schema, or wrapped the answer in an envelope.
    WrongWrapper,
    /// The answer is in a channel that clients of this request do not read: a tool call that was
    /// not requested, or content in place of the requested call.
    WrongChannel,
    /// A tool call is left as text, in the markup that the model writes: the server's parser did
    /// not read it.
    Leaked,
    /// Two tool calls arrived as one, with their arguments joined.
    Merged,
    /// The server rejected the request with a status 4xx or an equivalent error in the stream.
    Rejected,
    /// The request failed: status 5xx, a broken stream or connection, a timeout, or endless white
    /// space.
    Broken,
    /// The answer proves neither: it was truncated, empty, or possible without the constraint.
    Unproven,
    /// The dialect cannot express the kind, or the server kind does not support the dialect.
    NotCarried,
    /// The request was not sent, because the server was gone or the same request was sent before.
    #[serde(rename = "not_asked")]
    NotSent,
}

impl Class {
    /// Every class, in report order.
    pub const ALL: [Self; 12] = [
        Self::Enforced,
        Self::Partial,
        Self::Ignored,
        Self::WrongWrapper,
        Self::WrongChannel,
        Self::Leaked,
        Self::Merged,
        Self::Rejected,
        Self::Broken,
        Self::Unproven,
        Self::NotCarried,
        Self::NotSent,
    ];

    /// The name in tables and messages.
    pub fn name(self) -> &'static str {
        self.texts().0
    }

    /// A short explanation of the name.
    pub fn meaning(self) -> &'static str {
        self.texts().1
    }

    fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::Enforced => (
                "enforced",
                "the answer satisfies the constraint, and no model produces it by chance",
            ),
            Self::Partial => (
                "partial",
                "the answer shows an effect of the constraint, but violates it",
            ),
            Self::Ignored => (
                "ignored",
                "status 200, and the answer shows no effect of the constraint",
            ),
            Self::WrongWrapper => (
                "wrong wrapper",
                "the server used the schema's envelope as the schema, or wrapped the answer in it",
            ),
            Self::WrongChannel => (
                "wrong channel",
                "the answer is in a channel that clients of this request do not read",
            ),
            Self::Leaked => (
                "leaked",
                "a tool call is left as text in the content or the reasoning; clients find no call",
            ),
            Self::Merged => (
                "merged",
                "two tool calls arrived as one, with their arguments joined",
            ),
            Self::Rejected => (
                "rejected",
                "rejected with a status 4xx, or an equivalent error in the stream",
            ),
            Self::Broken => (
                "broken",
                "status 5xx, a broken stream or connection, a timeout, or endless white space",
            ),
            Self::Unproven => (
                "unproven",
                "the answer proves neither enforcement nor its absence",
            ),
            Self::NotCarried => (
                "not supported",
                "the dialect cannot express this constraint; nothing was sent",
            ),
            Self::NotSent => (
                "not sent",
                "the request was not sent, for the stated reason",
            ),
        }
    }

    /// Whether answers of this class show no effect of the constraint.
    pub fn is_unconstrained(self) -> bool {
        matches!(self, Self::Ignored | Self::WrongWrapper)
    }

    /// Whether the server read the constraint.
    pub fn has_effect(self) -> bool {
        matches!(
            self,
            Self::Enforced | Self::Partial | Self::WrongWrapper | Self::WrongChannel
        )
    }

    /// Whether the server accepts the constraint with status 200 but does not enforce all of it, or
    /// answers where no client looks. A run would measure answers that break the constraint.
    pub fn is_silent_loss(self) -> bool {
        matches!(
            self,
            Self::Partial
                | Self::Ignored
                | Self::WrongWrapper
                | Self::WrongChannel
                | Self::Leaked
                | Self::Merged
        )
    }
}

/// The cause of a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Status 5xx, or an equivalent error in the stream.
    ServerError,
    /// The server is overloaded (429) or timed out (408). The constraint is not the cause.
    Overloaded,
    /// The stream is malformed or ended early.
    StreamError,
    /// No usable HTTP exchange.
    Transport,
    /// The timeout of the request.
    TimedOut,
    /// JSON followed by white space until the token limit, which a schema that allows arbitrary
    /// white space permits.
    WhiteSpaceRunAway,
}

impl Cause {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::ServerError => "server error",
            Self::Overloaded => "overloaded",
            Self::StreamError => "stream",
            Self::Transport => "connection",
            Self::TimedOut => "timeout",
            Self::WhiteSpaceRunAway => "white space",
        }
    }
}

/// The finding of one preflight request.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Finding {
    pub class: Class,
    /// The cause of a failure; `None` if nothing failed.
    pub cause: Option<Cause>,
    /// The HTTP status, or the status equivalent to an error event, if it is not 200.
    pub status: Option<u16>,
    /// The reason for the class, or the server's message. Not escaped for terminals.
    #[serde(rename = "words")]
    pub reason: String,
    /// The raw answer, truncated to `sobench_preflight::MAX_KEPT_CHARS` characters; `None` without an answer.
    pub answer: Option<String>,
}

impl Finding {
    /// A finding with only a class and a reason.
    pub fn new(class: Class, reason: impl Into<String>) -> Self {
        Self {
            class,
            cause: None,
            status: None,
            reason: reason.into(),
            answer: None,
        }
    }

    /// A finding of a failed request.
    pub fn broken(cause: Cause, reason: impl Into<String>) -> Self {
        Self {
            cause: Some(cause),
            ..Self::new(Class::Broken, reason)
        }
    }

    /// Sets the status.
    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }
}
