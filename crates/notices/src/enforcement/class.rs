//! What a server made of one constraint, as a closed set. Knows neither questions nor how a class
//! is found.

use serde::{Deserialize, Serialize};

/// What came of one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The answer is what the constraint allows and no model gives by chance.
    Enforced,
    /// The answer shows words that it can have from the constraint only, and yet breaks it: other
    /// text beside what is allowed, or a part of the constraint that does not hold.
    Partial,
    /// Status 200 and an answer outside the constraint, in which nothing of it shows.
    Ignored,
    /// The envelope was taken for the schema, or the answer was put into one.
    WrongWrapper,
    /// The server refused, by status 4xx or by an error in the stream that stands for one.
    Rejected,
    /// The request failed: status 5xx, a broken stream or connection, a time limit, white space
    /// without end.
    Broken,
    /// An answer that proves neither: cut too early, empty, or as an unconstrained one might be.
    Unproven,
    /// The dialect has no place for the kind, or the kind of server none for the dialect.
    NotCarried,
    /// It was not sent, because the server was gone or the same had been asked for already.
    NotAsked,
}

impl Class {
    /// Every class, in the order of reports.
    pub const ALL: [Self; 9] = [
        Self::Enforced,
        Self::Partial,
        Self::Ignored,
        Self::WrongWrapper,
        Self::Rejected,
        Self::Broken,
        Self::Unproven,
        Self::NotCarried,
        Self::NotAsked,
    ];

    /// The name used in files and tables.
    pub fn name(self) -> &'static str {
        self.words().0
    }

    /// What the name means, in half a sentence.
    pub fn meaning(self) -> &'static str {
        self.words().1
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Enforced => (
                "enforced",
                "the answer is what the constraint allows, and no model gives it by chance",
            ),
            Self::Partial => (
                "partial",
                "the constraint shows in the answer, which breaks it all the same",
            ),
            Self::Ignored => (
                "ignored",
                "status 200, and an answer in which nothing of the constraint shows",
            ),
            Self::WrongWrapper => (
                "wrong wrapper",
                "the schema's envelope was taken for the schema, or the answer was put into one",
            ),
            Self::Rejected => (
                "rejected",
                "refused: a status 4xx, or an error in the stream that stands for one",
            ),
            Self::Broken => (
                "broken",
                "status 5xx, a broken stream or connection, a time limit, or white space without end",
            ),
            Self::Unproven => (
                "unproven",
                "an answer that proves neither the one nor the other",
            ),
            Self::NotCarried => (
                "not carried",
                "the dialect has no place for it; nothing was sent",
            ),
            Self::NotAsked => ("not asked", "not sent, for the reason given"),
        }
    }

    /// Whether a run would measure text that its constraint did not make: the server answers 200 as
    /// if all were well.
    pub fn is_silent_loss(self) -> bool {
        matches!(self, Self::Ignored | Self::WrongWrapper)
    }
}

/// What broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Status 5xx, or an error in the stream that stands for one.
    ServerError,
    /// The server is too busy (429) or gave up waiting (408): it refuses the moment, not the
    /// constraint.
    Overloaded,
    /// The stream broke its own rules, or ended in the middle.
    StreamError,
    /// No usable HTTP exchange.
    Transport,
    /// The time limit of a question ran out.
    TimedOut,
    /// JSON that goes on with white space until the token limit, as a schema that allows any white
    /// space lets a model do.
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
            Self::TimedOut => "time limit",
            Self::WhiteSpaceRunAway => "white space",
        }
    }
}

/// What was found out by one question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub class: Class,
    /// What broke; `None` where nothing did.
    pub cause: Option<Cause>,
    /// The HTTP status, or the one that an error event stands for, where it was not 200.
    pub status: Option<u16>,
    /// Why it is this class, in the server's own words where it has some. Not made fit for a
    /// terminal.
    pub words: String,
    /// The answer as it came, cut at [`super::MAX_KEPT_CHARS`]; `None` where there was none.
    pub answer: Option<String>,
}

impl Finding {
    /// A finding that needs no more than words.
    pub fn new(class: Class, words: impl Into<String>) -> Self {
        Self {
            class,
            cause: None,
            status: None,
            words: words.into(),
            answer: None,
        }
    }

    /// A finding that something broke.
    pub fn broken(cause: Cause, words: impl Into<String>) -> Self {
        Self {
            cause: Some(cause),
            ..Self::new(Class::Broken, words)
        }
    }

    /// Adds the status.
    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }
}
