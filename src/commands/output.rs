//! The output of a command: stdout, stderr, and the exit code.

use std::path::{Path, PathBuf};

use serde::Serialize;

use sobench_core::error::Result;
use sobench_core::output_files::{self, cannot_write_report, create_parent_folder, write_text};
use sobench_core::output_format::OutputFormat;

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

    /// Writes a file, and says so. If it cannot be written, only the exit code changes.
    pub fn write(&mut self, path: &Path, text: &str) {
        match write_text(path, text) {
            Ok(()) => self.lines.push(format!("written: {}", path.display())),
            Err(error) => {
                self.lines.push(format!("error: {error}"));
                self.exit_code = self.exit_code.max(error.exit_code());
            }
        }
    }

    /// Writes the files of `--save`.
    ///
    /// # Errors
    /// The text of a format cannot be made.
    pub fn save(
        &mut self,
        files: &[(OutputFormat, PathBuf)],
        rendered: impl Fn(OutputFormat) -> Result<String>,
    ) -> Result<()> {
        for (format, path) in files {
            self.write(path, &rendered(*format)?);
        }
        Ok(())
    }
}

/// The paths of the files of `--save`.
pub fn paths(files: &[(OutputFormat, PathBuf)]) -> impl Iterator<Item = &Path> {
    files.iter().map(|(_, path)| &**path)
}

/// Checks before work that takes long that its files can be written. Missing folders are made.
///
/// # Errors
/// One cannot be written.
pub fn check_writable<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Result<()> {
    paths.into_iter().try_for_each(|path| {
        create_parent_folder(path)
            .and_then(|()| output_files::check_writable(path))
            .map_err(|error| cannot_write_report(path, &error))
    })
}

/// A value as pretty JSON with a line end.
pub fn pretty(value: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("all keys are strings");
    text.push('\n');
    text
}
