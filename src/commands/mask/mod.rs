//! `sobench mask`.

pub mod args;
pub mod measure;
pub mod options;
pub mod proof;
pub mod proof_report;
pub mod report;

use std::io::BufReader;

use self::args::MaskArgs;
use self::options::MaskOptions;
use super::output::CommandOutput;
use crate::terminal;
use sobench_core::error::Result;
use sobench_mask::worker;
use sobench_shutdown::{Listener, Shutdown};

/// Measures decoding engines, searches for mask errors, or replays witnesses.
///
/// # Errors
/// Those of the selected mode.
pub fn run(flags: &MaskArgs, shutdown: &Shutdown) -> Result<CommandOutput> {
    let options = MaskOptions::new(flags)?;
    let output = match (&options.proof.replay, options.mask.prove) {
        (Some(path), _) => proof::replay(&options, path, shutdown),
        (None, Some(effort)) => proof::run(&options, effort, shutdown),
        (None, None) => measure::run(&options, shutdown),
    };
    Ok(output?.or_save_with("--json, --csv or --html"))
}

/// The first signal stops the measurement and reports the completed part.
///
/// # Errors
/// The listener thread cannot be started.
fn listen(shutdown: &Shutdown) -> Result<Listener> {
    shutdown.listen(|_| terminal::say("stopping: the completed part is reported"))
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
