//! User-facing errors: message, hint and exit code.

use std::fmt;

use crate::exit_codes::{ENVIRONMENT, INTERRUPTED, USAGE};

/// Category of an error; determines the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The command line or an input file is wrong.
    Usage,
    /// The environment does not allow it (server unreachable, every request failed).
    Environment,
    /// A defect of sobench itself.
    Internal,
    /// The user stopped the program before there was a result.
    Interrupted,
}

/// A one-line message that says what is wrong and where, and an optional hint.
///
/// `what` is lower case, without a full stop, with the offending value last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub kind: ErrorKind,
    pub what: String,
    pub hint: Option<String>,
}

/// Result with a user-facing error.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A usage error: a wrong flag or input file.
    pub fn usage(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, what)
    }

    /// An environment error: something outside the program is missing or fails.
    pub fn environment(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Environment, what)
    }

    /// An internal error: a bug in sobench.
    pub fn internal(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, what)
    }

    /// Stopped by the user.
    pub fn interrupted(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Interrupted, what)
    }

    /// Sets the hint, which says what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The exit code; see [`crate::exit_codes`].
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            ErrorKind::Usage => USAGE,
            ErrorKind::Environment | ErrorKind::Internal => ENVIRONMENT,
            ErrorKind::Interrupted => INTERRUPTED,
        }
    }

    fn new(kind: ErrorKind, what: impl Into<String>) -> Self {
        Self {
            kind,
            what: what.into(),
            hint: None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_is_on_its_own_line() {
        let error =
            Error::usage("no such file: x.json").hint("give --json-schema-path a file that exists");
        assert_eq!(
            error.to_string(),
            "no such file: x.json\nhint: give --json-schema-path a file that exists"
        );
        assert_eq!(error.exit_code(), 2);
        assert_eq!(Error::environment("gone").exit_code(), 3);
        assert_eq!(Error::interrupted("stopped").exit_code(), 130);
    }
}
