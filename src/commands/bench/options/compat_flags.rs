//! Flags of other benchmarks: a word on those that change nothing, an error for those that cannot be done. Knows no plan.

use crate::commands::bench::compat_flags::ForeignArgs;
use crate::commands::bench::compat_flags::{Fate, Foreign};
use crate::error::{Error, Result};

/// A notice for each that changes nothing.
///
/// # Errors
/// One that cannot be done, with the reason.
pub(crate) fn notices(flags: &ForeignArgs) -> Result<Vec<String>> {
    let word = |flag: &Foreign| match flag.fate {
        Fate::Notice(words) => Ok(format!("--{} changes nothing here: {words}", flag.name)),
        Fate::Refused { reason, hint } => Err(Error::usage(format!("{reason}: --{}", flag.name)).hint(hint)),
    };
    flags.given().map(word).collect()
}
