//! The output of a command: stdout, stderr, and the exit code.

use serde::Serialize;

/// The output of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandOutput {
    /// For stdout.
    pub stdout: String,
    /// Lines for stderr, after it.
    pub lines: Vec<String>,
    /// One of [`sobench_core::exit_codes`].
    pub exit_code: u8,
    /// The flags that write the same report to a file; empty without such flags.
    pub file_flags: &'static str,
}

impl CommandOutput {
    /// Sets the flags that write the same report to a file.
    #[must_use]
    pub fn or_save_with(mut self, file_flags: &'static str) -> Self {
        self.file_flags = file_flags;
        self
    }
}

/// A value as pretty JSON with a line end.
pub fn pretty(value: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("all keys are strings");
    text.push('\n');
    text
}
