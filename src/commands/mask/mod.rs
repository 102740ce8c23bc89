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
use crate::error::Result;
use crate::mask::worker;

/// Measures decoding engines, proves their mask errors, or replays a witness.
///
/// # Errors
/// Those of what the flags ask for.
pub fn run(flags: &MaskArgs) -> Result<CommandOutput> {
    let options = MaskOptions::new(flags)?;
    let output = match (&options.proof.replay, options.mask.prove) {
        (Some(path), _) => proof::replay(&options, path),
        (None, Some(effort)) => proof::run(&options, effort),
        (None, None) => measure::run(&options),
    };
    Ok(output?.or_save_with("--json, --csv or --html"))
}

/// One child process of [`run`]: JSON lines over its standard streams.
///
/// # Errors
/// A stream that cannot be read or written.
pub fn work() -> Result<CommandOutput> {
    worker::serve(BufReader::new(std::io::stdin()), std::io::stdout()).map(|()| CommandOutput::default())
}
