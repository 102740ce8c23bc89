//! Errors for people: what is wrong, what to do, and which exit code follows. Knows no layer of the
//! program.

use std::fmt;

use crate::exit_codes::{COULD_NOT, INTERRUPTED, USAGE};

/// Whose turn it is to act; decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The command line or an input file is wrong.
    Usage,
    /// The world is not as needed (server unreachable, every request failed).
    Environment,
    /// A defect of sobench itself.
    Internal,
    /// The user stopped the program before there was anything to report.
    Interrupted,
}

/// One line that says what is wrong and where, and one that says what to do.
///
/// `what` is lower case, without a full stop, the offending value last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub kind: Kind,
    pub what: String,
    pub hint: Option<String>,
}

/// The result of everything that can go wrong in a way that a person has to be told.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A wrong flag or a wrong input file.
    pub fn usage(what: impl Into<String>) -> Self {
        Self::new(Kind::Usage, what)
    }

    /// Something outside the program that is missing or refuses.
    pub fn environment(what: impl Into<String>) -> Self {
        Self::new(Kind::Environment, what)
    }

    /// A broken promise inside the program.
    pub fn internal(what: impl Into<String>) -> Self {
        Self::new(Kind::Internal, what)
    }

    /// Stopped by the user.
    pub fn interrupted(what: impl Into<String>) -> Self {
        Self::new(Kind::Interrupted, what)
    }

    /// Adds the line that says what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The exit code that the program ends with; see [`crate::exit_codes`].
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            Kind::Usage => USAGE,
            Kind::Environment | Kind::Internal => COULD_NOT,
            Kind::Interrupted => INTERRUPTED,
        }
    }

    fn new(kind: Kind, what: impl Into<String>) -> Self {
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
    fn shows_the_hint_on_a_line_of_its_own() {
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
