//! Outputs that may not fit into memory.

use std::io::{self, Read as _, Seek as _};

use tempfile::SpooledTempFile;

use crate::terminal;
use sobench_core::error::{Error, Result};

/// Bytes of an output in memory; more are stored in a temporary file.
const MAX_IN_MEMORY: usize = 16 << 20;

/// An output that may not fit into memory.
pub(crate) fn large_output() -> SpooledTempFile {
    SpooledTempFile::new(MAX_IN_MEMORY)
}

/// The error if a large output cannot be stored.
pub(crate) fn cannot_store(error: &io::Error) -> Error {
    Error::environment(format!("cannot store the output: {error}"))
        .hint("free disk space in the folder for temporary files")
}

/// A large output as text for stdout. One in a temporary file is printed, and the text is empty.
///
/// # Errors
/// The output cannot be read again, or printed.
pub(crate) fn text_for_stdout(output: &mut SpooledTempFile) -> Result<String> {
    output.rewind().map_err(|error| cannot_store(&error))?;
    let mut text = String::new();
    if output.is_rolled() {
        terminal::copy_to_stdout(output).map_err(|error| {
            Error::environment(format!("cannot write to stdout: {error}"))
                .hint("use --save to write a file instead")
        })?;
    } else {
        output
            .read_to_string(&mut text)
            .map_err(|error| cannot_store(&error))?;
    }
    Ok(text)
}
