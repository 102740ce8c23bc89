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

/// Measures decoding engines, proves their mask errors, or replays a witness.
///
/// # Errors
/// Those of what the flags ask for.
pub fn run(flags: &MaskArgs, shutdown: &Shutdown) -> Result<CommandOutput> {
    let options = MaskOptions::new(flags)?;
    let output = match (&options.proof.replay, options.mask.prove) {
        (Some(path), _) => proof::replay(&options, path, shutdown),
        (None, Some(effort)) => proof::run(&options, effort, shutdown),
        (None, None) => measure::run(&options, shutdown),
    };
    Ok(output?.or_save_with("--json, --csv or --html"))
}

/// The first signal stops the measurement, with a report of what was done.
///
/// # Errors
/// No thread can be started.
fn listen(shutdown: &Shutdown) -> Result<Listener> {
    shutdown.listen(|_| terminal::say("stopping: what was measured is reported"))
}

/// One child process of [`run`]: JSON lines over its standard streams.
///
/// # Errors
/// A stream that cannot be read or written.
#[expect(
    clippy::disallowed_methods,
    reason = "a child process answers its parent over standard output"
)]
pub fn work() -> Result<CommandOutput> {
    worker::serve(BufReader::new(std::io::stdin()), std::io::stdout())
        .map(|()| CommandOutput::default())
}
