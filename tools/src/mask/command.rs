//! `sobench-tools mask`.

use std::io::BufReader;

use super::args::MaskArgs;
use super::options::MaskSettings;
use super::{measure, proof, worker};
use sobench::commands::output::CommandOutput;
use sobench_core::error::Result;
use sobench_shutdown::Shutdown;

/// Measures decoding engines, searches for mask errors, or replays witnesses.
///
/// # Errors
/// Those of the selected mode.
pub fn run(flags: &MaskArgs, shutdown: &Shutdown) -> Result<CommandOutput> {
    let options = MaskSettings::new(flags)?;
    let output = match (&options.proof.replay, options.mask.prove) {
        (Some(path), _) => proof::replay(&options, path, shutdown),
        (None, Some(effort)) => proof::run(&options, effort, shutdown),
        (None, None) => measure::run(&options, shutdown),
    };
    Ok(output?.or_save_with("--save"))
}

/// Runs one child process of [`run`]: JSON Lines over its standard streams.
///
/// # Errors
/// A stream cannot be read or written.
#[expect(
    clippy::disallowed_methods,
    reason = "a child process answers its parent over standard output"
)]
pub fn work() -> Result<CommandOutput> {
    worker::serve(BufReader::new(std::io::stdin()), std::io::stdout())
        .map(|()| CommandOutput::default())
}
