//! The list of commands, as clap parses them. The flags of each command are in its folder under
//! `commands`.

pub mod config;
pub mod overwrites;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::commands::bench::args::BenchArgs;
use crate::commands::calibrate::options::{CalibrateArgs, FloorArgs};
use crate::commands::compare::options::CompareArgs;
use crate::commands::completions::CompletionsArgs;
use crate::commands::flags::paths::with_path_hints;
use crate::commands::man::ManArgs;
use crate::commands::mask::args::MaskArgs;
use crate::commands::merge::args::MergeArgs;
use crate::commands::output::CommandOutput;
use crate::commands::preflight::args::PreflightArgs;
use crate::commands::report::args::ReportArgs;
use crate::commands::score::options::ScoreArgs;
use crate::commands::serve::options::ServeArgs;
use crate::commands::{
    self, calibrate, compare, completions, man, mask, merge, preflight, report, score, serve,
};
use crate::terminal;
use sobench_core::error::Error;
use sobench_core::exit_codes::{DONE, USAGE};
use sobench_shutdown::Shutdown;

/// sobench measures structured output (guided decoding) from language-model servers: does the
/// constraint bite, is the answer right, what does it cost.
///
/// With no server named it runs against its own embedded engine: a real constrained-decoding
/// library masking a synthetic model.
#[derive(Debug, Parser)]
#[command(
    name = "sobench",
    version,
    args_conflicts_with_subcommands = true,
    max_term_width = 110
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub bench: BenchArgs,
}

/// The commands; without one, `bench`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a benchmark (the default command).
    Bench(Box<BenchArgs>),
    /// Measure the client itself against a server of known timing, beside another client if you
    /// name one
    Calibrate(Box<CalibrateArgs>),
    /// Hold runs against each other: what changed, by more than chance, and whether a gate lets it
    /// pass
    Compare(Box<CompareArgs>),
    /// Print what a shell needs to complete commands, flags and their values
    Completions(CompletionsArgs),
    /// Print the manual page of sobench or of one of its commands, or write them all
    Man(ManArgs),
    /// Measure decoding engines in this process over a corpus of schemas: outcomes, compile and
    /// mask times, memory
    Mask(Box<MaskArgs>),
    /// Make one run of the logs of its shards (`--shard I/N`), and its report
    Merge(Box<MergeArgs>),
    /// Ask a server which constraints it enforces, and in which dialect
    Preflight(Box<PreflightArgs>),
    /// Render the report of a run again from its run log
    Report(Box<ReportArgs>),
    /// Judge stored answers again: a run log's, or those that other tools kept
    Score(Box<ScoreArgs>),
    /// Run the embedded server: vLLM's API over a synthetic model, for trying clients without a GPU
    Serve(Box<ServeArgs>),
    /// The server of known timing of `calibrate`; speaks JSON lines over its standard streams
    #[command(hide = true)]
    CalibrateServer,
    /// The bare loop of `calibrate --floor`
    #[command(hide = true)]
    CalibrateFloor(FloorArgs),
    /// One child process of `mask`; speaks JSON lines over its standard streams
    #[command(hide = true)]
    MaskWorker,
}

impl Command {
    /// Runs the command. How it ends at a shutdown signal is each command's own; child processes
    /// end with their parent.
    ///
    /// # Errors
    /// Those of the command.
    pub fn run(self, shutdown: &Shutdown) -> Result<CommandOutput, Error> {
        match self {
            Self::Bench(flags) => commands::bench(&flags, shutdown),
            Self::Calibrate(flags) => calibrate::run(*flags, shutdown),
            Self::Compare(flags) => compare::run(*flags, shutdown),
            Self::Completions(flags) => completions::run(flags, parser(), shutdown),
            Self::Man(flags) => man::run(flags, parser(), shutdown),
            Self::Mask(flags) => mask::run(&flags, shutdown),
            Self::Merge(flags) => merge::run(*flags, shutdown),
            Self::Preflight(flags) => preflight::run(*flags, shutdown),
            Self::Report(flags) => report::run(*flags, shutdown),
            Self::Score(flags) => score::run(*flags, shutdown),
            Self::Serve(flags) => serve::run(&flags, shutdown),
            Self::CalibrateServer => calibrate::run_server(),
            Self::CalibrateFloor(flags) => calibrate::run_floor(&flags),
            Self::MaskWorker => mask::work(),
        }
    }
}

/// Why there is no command to run.
pub enum Stopped {
    /// The parser's error, or the help or version that was asked for.
    Clap(clap::Error),
    /// Flags that no command takes together.
    Refused(Error),
}

/// The parser of the whole program.
pub fn parser() -> clap::Command {
    with_path_hints(Cli::command())
}

/// Parses the command line, with the flags of the file that `--config` names.
///
/// # Errors
/// [`Stopped`].
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, Stopped> {
    let matches = Cli::matches(config::expand(arguments).map_err(Stopped::Refused)?)
        .map_err(Stopped::Clap)?;
    overwrites::refuse(&matches).map_err(Stopped::Refused)?;
    Cli::from_arg_matches(&matches)
        .map(Cli::into_command)
        .map_err(Stopped::Clap)
}

impl Stopped {
    /// Prints it and returns the exit code.
    pub fn print(&self) -> ExitCode {
        let error = match self {
            Self::Refused(error) => return terminal::fail(error),
            Self::Clap(error) => error,
        };
        let code = u8::try_from(error.exit_code()).unwrap_or(USAGE);
        match error.print() {
            Err(error) if code == DONE && error.kind() != ErrorKind::BrokenPipe => {
                terminal::not_printed(&error, "")
            }
            // A closed stdout or stderr is success.
            _ => ExitCode::from(code),
        }
    }
}

impl Cli {
    /// Parses arguments as typed, program name first; long names may be spelt with `_` for `-`, as
    /// vLLM's parser allows.
    ///
    /// # Errors
    /// Clap's own error, which also carries `--help` and `--version`.
    pub fn parse_arguments(
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<Self, clap::Error> {
        Self::from_arg_matches(&Self::matches(arguments)?)
    }

    /// The same, before it is anything but what was typed.
    ///
    /// # Errors
    /// As [`Cli::parse_arguments`].
    pub fn matches(
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<ArgMatches, clap::Error> {
        let command = Self::command();
        let known = long_names(&command);
        command.try_get_matches_from(
            arguments
                .into_iter()
                .map(|argument| dashes_for_underscores(argument, &known)),
        )
    }

    /// What is to be done; a benchmark where no command was typed.
    pub fn into_command(self) -> Command {
        self.command
            .unwrap_or_else(|| Command::Bench(Box::new(self.bench)))
    }
}

fn long_names(command: &clap::Command) -> Vec<String> {
    let names = |argument: &clap::Arg| -> Vec<String> {
        argument
            .get_long_and_visible_aliases()
            .into_iter()
            .flatten()
            .map(str::to_owned)
            .collect()
    };
    let of_subcommands = command.get_subcommands().flat_map(long_names);
    command
        .get_arguments()
        .flat_map(names)
        .chain(of_subcommands)
        .collect()
}

/// Only a known flag's own name is respelt: values, and what follows `=`, stay as typed.
fn dashes_for_underscores(argument: OsString, known: &[String]) -> OsString {
    let Some((name, rest)) = argument
        .to_str()
        .and_then(|text| text.strip_prefix("--"))
        .map(split_at_equals)
    else {
        return argument;
    };
    let respelt = name.replace('_', "-");
    if name != respelt && known.contains(&respelt) {
        format!("--{respelt}{rest}").into()
    } else {
        argument
    }
}

fn split_at_equals(text: &str) -> (&str, &str) {
    text.split_at(text.find('=').unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use sobench_data::arguments::paths::{InputNames, OutputName, is_path};

    use super::*;

    fn parse(arguments: &[&str]) -> Result<BenchArgs, clap::Error> {
        let arguments = std::iter::once("sobench")
            .chain(arguments.iter().copied())
            .map(OsString::from);
        Cli::parse_arguments(arguments).map(|cli| match cli.into_command() {
            Command::Bench(arguments) => *arguments,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn the_parser_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn underscores_serve_for_dashes_in_names_only() {
        let arguments = parse(&[
            "--num_prompts",
            "7",
            "--result_filename=a_b.json",
            "--dataset_name",
            "xgrammar_bench",
        ])
        .unwrap();
        assert_eq!(arguments.traffic.num_prompts, Some(7));
        assert_eq!(
            arguments.output.result_filename.as_deref(),
            Some("a_b.json")
        );
        assert_eq!(arguments.dataset.dataset, ["xgrammar_bench"]);
    }

    #[test]
    fn bench_may_be_spelt_out() {
        assert_eq!(parse(&["bench", "--seed", "3"]).unwrap().traffic.seed, 3);
        assert_eq!(parse(&["--seed", "3"]).unwrap().traffic.seed, 3);
    }

    #[test]
    fn every_alias_of_the_script_is_known() {
        let arguments = parse(&[
            "--structured-output-ratio",
            "0.5",
            "--save-results",
            "--structured-output-backend",
            "guidance",
        ]);
        let arguments = arguments.unwrap();
        assert_eq!(arguments.constraint.guided_decoding_ratio, Some(0.5));
        assert!(arguments.output.save_result);
        assert_eq!(arguments.constraint.engine(), Some("guidance"));
        assert!(
            parse(&["--no-structured-output"])
                .unwrap()
                .constraint
                .no_guided_decoding
        );
    }

    #[test]
    fn an_unknown_value_names_the_allowed_ones_and_a_typo_gets_a_suggestion() {
        let message = parse(&["--dataset", "jsom"]).unwrap_err().to_string();
        assert!(
            message.contains("json-unique") && message.contains("xgrammar_bench"),
            "{message}"
        );
        let message = parse(&["--num-promts", "3"]).unwrap_err().to_string();
        assert!(message.contains("--num-prompts"), "{message}");
    }
    /// Arguments whose value is called a path and is none of a file.
    const NO_FILES: [&str; 1] = ["endpoint"];

    #[test]
    fn arguments_that_name_files_have_a_type_that_says_so() {
        let text = [
            std::any::TypeId::of::<InputNames>(),
            std::any::TypeId::of::<OutputName>(),
        ];
        let program = Cli::command();
        let mut seen = 0;
        for command in std::iter::once(&program).chain(program.get_subcommands()) {
            for argument in command.get_arguments() {
                let id = argument.get_id().as_str();
                let parsed = argument.get_value_parser().type_id();
                let names = argument.get_value_names().unwrap_or_default();
                let mut words = names
                    .iter()
                    .flat_map(|name| name.split(|character: char| !character.is_alphabetic()));
                let is_named =
                    words.any(|word| ["PATH", "FILE", "FOLDER", "DIR", "JSONL"].contains(&word));
                let is_typed = is_path(argument) || text.iter().any(|kind| parsed == *kind);
                seen += usize::from(is_typed);
                assert!(
                    is_typed || !is_named || NO_FILES.contains(&id),
                    "{}: {id}",
                    command.get_name()
                );
                assert!(
                    parsed != std::any::TypeId::of::<std::path::PathBuf>(),
                    "{}: {id} says neither that it is read nor that it is written",
                    command.get_name()
                );
            }
        }
        assert!(seen > 40, "{seen} arguments name files");
    }
}
