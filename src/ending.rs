//! How a command ends: what is printed, what is said, and the exit code. Knows no command.

/// The end of a command that came to one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// What stdout gets.
    pub stdout: String,
    /// Lines for stderr, after it.
    pub lines: Vec<String>,
    /// One of [`crate::exit_codes`].
    pub exit_code: u8,
}
