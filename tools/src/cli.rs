//! The list of commands, and the parser of the command line.

use std::ffi::OsString;

use clap::{ColorChoice, CommandFactory, Parser, Subcommand};

use crate::limits::args::LimitsArgs;
use crate::mask::args::MaskArgs;
use crate::merge::MergeArgs;
use crate::{limits, mask, merge};
use sobench::cli::{Stopped, parse_with};
use sobench::commands::output::CommandOutput;
use sobench::terminal;
use sobench_core::error::Error;
use sobench_shutdown::Shutdown;

/// Measure constrained-decoding engines in this process, prove errors in their masks, and find the
/// limits of a server. The benchmark is sobench.
#[derive(Debug, Parser)]
#[command(
    name = "sobench-tools",
    version,
    arg_required_else_help = true,
    max_term_width = 110
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure decoding engines over a corpus of schemas: outcomes, compile and mask times, memory
    Mask(Box<MaskArgs>),
    /// Test the limits of a server: constraints that grow until it refuses them or takes too long,
    /// and their effect on other requests
    Limits(Box<LimitsArgs>),
    /// Merge the rows of shards of `mask`, and print their report
    Merge(MergeArgs),
    /// Run one child process of `mask`: JSON Lines over the standard streams
    #[command(hide = true)]
    MaskWorker,
}

impl Command {
    /// Runs the command.
    ///
    /// # Errors
    /// The command's errors.
    pub fn run(self, shutdown: &Shutdown) -> Result<CommandOutput, Error> {
        match self {
            Self::Mask(flags) => mask::command::run(&flags, shutdown),
            Self::Limits(flags) => limits::command::run(&flags, shutdown),
            Self::Merge(flags) => merge::run(flags, shutdown),
            Self::MaskWorker => mask::command::work(),
        }
    }
}

/// Parses the command line.
///
/// # Errors
/// [`Stopped`].
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, Stopped> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let cli: Cli = parse_with(Cli::command(), &arguments)?;
    terminal::set_up(ColorChoice::Auto);
    Ok(cli.command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parser_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn without_a_command_help_is_printed() {
        let parsed = parse(["sobench-tools"].map(OsString::from));
        assert!(matches!(parsed, Err(Stopped::Help(_))), "{parsed:?}");
    }

    #[test]
    fn only_rows_are_kept_in_a_file_of_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own.json");
        std::fs::write(&path, "{\"type\": \"object\"}").unwrap();
        let file = path.to_str().unwrap();
        let parsed = |typed: &[&str]| {
            let typed = std::iter::once(&"sobench-tools").chain(typed);
            parse(typed.map(OsString::from))
        };
        for typed in [
            &["mask", "--save", file][..],
            &["mask", "--csv-tags", file],
            &["mask", "--prove", "--witnesses", file],
            &["mask", "--replay", file, "--save", file],
            &["limits", "--save", file],
            &["merge", "a", "--save", file],
        ] {
            match parsed(typed) {
                Err(Stopped::Failed(error)) => assert!(error.what.contains(file), "{error}"),
                other => panic!("{typed:?}: {other:?}"),
            }
        }
        assert!(parsed(&["mask", "--rows", file]).is_ok());
    }
}
