//! The list of commands, and the parser of the command line. The flags of each command are in its
//! folder under `commands`.

pub mod config;
pub mod help;
pub mod options;
pub mod overwrites;
pub mod requirements;
mod usage_error;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::process::ExitCode;

use clap::{ArgMatches, ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand};

use self::options::split_at_equals;
use crate::commands::accept::args::AcceptArgs;
use crate::commands::bench::args::BenchArgs;
use crate::commands::calibrate::options::{CalibrateArgs, FloorArgs};
use crate::commands::compare::options::CompareArgs;
use crate::commands::completions::CompletionsArgs;
use crate::commands::datasets::DatasetsArgs;
use crate::commands::explain::args::ExplainArgs;
use crate::commands::flags::paths::with_path_hints;
use crate::commands::man::ManArgs;
use crate::commands::merge::args::MergeArgs;
use crate::commands::output::CommandOutput;
use crate::commands::preflight::args::PreflightArgs;
use crate::commands::report::args::ReportArgs;
use crate::commands::runs::RunsArgs;
use crate::commands::score::options::ScoreArgs;
use crate::commands::serve::options::ServeArgs;
use crate::commands::wire::WireArgs;
use crate::commands::{
    self, accept, calibrate, compare, completions, datasets, explain, man, merge, preflight,
    report, runs, score, serve, wire,
};
use crate::terminal;
use sobench_core::error::Error;
use sobench_core::exit_codes::SUCCESS;
use sobench_core::secrets;
use sobench_shutdown::Shutdown;

/// Measure structured output (guided decoding) of language-model servers: whether constraints are
/// enforced, how many answers are correct, and what it costs.
///
/// Without a server, sobench starts its embedded one: a real constrained-decoding library that
/// masks a synthetic model.
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
    /// When the verdict has colours; NO_COLOR turns them off
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t)]
    pub color: ColorChoice,
    #[command(flatten)]
    pub bench: BenchArgs,
}

/// The commands. `bench` is the default.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Decide whether a server meets the requirements of a file: met, not met, or not decided
    #[command(mut_args(help::of_accept), after_help = help::TYPED)]
    Accept(Box<AcceptArgs>),
    /// Run a benchmark (the default command)
    #[command(mut_args(help::of_bench), after_help = help::MORE)]
    Bench(Box<BenchArgs>),
    /// Measure the overhead of the client against a server with known timing, beside another client
    /// if one is given
    Calibrate(Box<CalibrateArgs>),
    /// Compare runs: significant differences, and an optional pass/fail gate
    Compare(Box<CompareArgs>),
    /// Print a shell script that completes commands, flags and values
    Completions(CompletionsArgs),
    /// List the datasets, show their rows, or convert recorded requests
    Datasets(DatasetsArgs),
    /// Find out why a constraint is refused, ignored or slow: the smallest input that fails, and cures
    #[command(mut_args(help::of_explain))]
    Explain(Box<ExplainArgs>),
    /// Print the manual page of sobench or of a command, or write all pages to a folder
    Man(ManArgs),
    /// Compare engines, servers, datasets or loads: balanced runs, each with a control run
    #[command(mut_args(help::of_matrix), after_help = help::MATRIX_EXAMPLES)]
    Matrix(Box<BenchArgs>),
    /// Merge the run logs of shards (--shard I/N) into one run, and print its report
    Merge(Box<MergeArgs>),
    /// Test which constraints a server enforces, and in which dialect
    Preflight(Box<PreflightArgs>),
    /// Print the report of a run from its run log
    Report(Box<ReportArgs>),
    /// List or remove the run logs in the cache
    Runs(RunsArgs),
    /// Score stored answers: those of a run log, or of another tool
    Score(Box<ScoreArgs>),
    /// Run the embedded server: vLLM's API over a synthetic model, for tests of clients without a
    /// GPU
    #[command(mut_args(help::of_serve))]
    Serve(Box<ServeArgs>),
    /// Show what client libraries read from recorded streams
    Wire(WireArgs),
    /// Run the server with known timing of `calibrate`: JSON Lines over the standard streams
    #[command(hide = true)]
    CalibrateServer,
    /// Run the embedded server with an engine for `explain`, until its input ends
    #[command(hide = true)]
    ExplainServer {
        engine: String,
        compile_timeout_s: f64,
    },
    /// Run the bare loop of `calibrate --floor`
    #[command(hide = true)]
    CalibrateFloor(FloorArgs),
}

impl Command {
    /// Runs the command. Each command handles shutdown signals itself; child processes end with
    /// their parent.
    ///
    /// # Errors
    /// The command's errors.
    pub fn run(self, shutdown: &Shutdown) -> Result<CommandOutput, Error> {
        match self {
            Self::Accept(flags) => accept::run(&flags, requirements::read(&flags)?, shutdown),
            Self::Bench(flags) => commands::bench(&flags, false, shutdown),
            Self::Matrix(flags) => commands::bench(&flags, true, shutdown),
            Self::Calibrate(flags) => calibrate::run(*flags, shutdown),
            Self::Compare(flags) => compare::run(*flags, shutdown),
            Self::Completions(flags) => completions::run(flags, parser(), shutdown),
            Self::Datasets(flags) => datasets::run(flags, shutdown),
            Self::Explain(flags) => explain::run(&flags, shutdown),
            Self::ExplainServer {
                engine,
                compile_timeout_s,
            } => explain::target::run_server(&engine, compile_timeout_s),
            Self::Man(flags) => man::run(flags, help::overview(parser()), shutdown),
            Self::Merge(flags) => merge::run(*flags, shutdown),
            Self::Preflight(flags) => match ExplainArgs::of_preflight(&flags) {
                Some(of_file) => explain::run(&of_file, shutdown),
                None => preflight::run(&flags, shutdown),
            },
            Self::Report(flags) => report::run(*flags, shutdown),
            Self::Runs(flags) => runs::run(flags, shutdown),
            Self::Score(flags) => score::run(*flags, shutdown),
            Self::Serve(flags) => serve::run(&flags, shutdown),
            Self::Wire(flags) => wire::run(&flags),
            Self::CalibrateServer => calibrate::run_server(),
            Self::CalibrateFloor(flags) => calibrate::run_floor(&flags),
        }
    }
}

/// Why no command runs.
#[derive(Debug)]
pub enum Stopped {
    /// The requested help or version.
    Help(clap::Error),
    /// A wrong command line.
    Failed(Error),
}

/// Runs a program: parses the command line, runs the command and prints its output.
pub fn execute<C>(
    parse: impl FnOnce() -> Result<C, Stopped>,
    run: impl FnOnce(C, &Shutdown) -> Result<CommandOutput, Error>,
) -> ExitCode {
    sobench_shutdown::handle_file_size_signal();
    let command = match parse() {
        Ok(command) => command,
        Err(stopped) => return stopped.print(),
    };
    match run(command, &Shutdown::new()) {
        Ok(output) => terminal::print(&output),
        Err(error) => terminal::fail(&error),
    }
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
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    register_secrets(&arguments);
    let arguments = config::expand(arguments).map_err(Stopped::Failed)?;
    let cli: Cli = parse_with(help::overview(Cli::command()), &arguments)?;
    terminal::set_up(cli.color);
    match cli.into_command() {
        Command::Bench(flags) | Command::Matrix(flags) if flags.help_all => {
            let program = help::with_all(Cli::command());
            let help = program.try_get_matches_from(["sobench", "bench", "--help"]);
            Err(Stopped::Help(help.expect_err("help is no command")))
        }
        command => Ok(command),
    }
}

/// Parses the command line of a program, whose parser this is.
///
/// # Errors
/// [`Stopped`]; also an output that would overwrite a file that is not ours.
pub fn parse_with<P: CommandFactory + FromArgMatches>(
    program: clap::Command,
    arguments: &[OsString],
) -> Result<P, Stopped> {
    register_secrets(arguments);
    let arguments = &options::expand(&program, arguments).map_err(Stopped::Failed)?;
    let stopped = |error| Stopped::new(error, P::command(), arguments);
    let matches = matches(program, arguments.iter().cloned()).map_err(stopped)?;
    overwrites::refuse(&matches).map_err(Stopped::Failed)?;
    P::from_arg_matches(&matches).map_err(stopped)
}

/// Long names may be spelled with `_` for `-`, as in vLLM's parser.
fn matches(
    program: clap::Command,
    arguments: impl Iterator<Item = OsString>,
) -> Result<ArgMatches, clap::Error> {
    let known = long_names(&program);
    program.try_get_matches_from(arguments.map(|argument| dashes_for_underscores(argument, &known)))
}

/// Flags whose values can have keys and passwords.
const SERVER_FLAGS: [&str; 9] = [
    HEADER,
    "base-url",
    "endpoint",
    "extra-body",
    "chat-template-kwargs",
    "server-metrics",
    "target",
    "launch",
    "against",
];
const HEADER: &str = "header";

/// Registers keys and passwords on the command line before it is parsed, because errors of the
/// parser quote values.
fn register_secrets(arguments: &[OsString]) {
    let mut flag = String::new();
    for argument in arguments.iter().filter_map(|argument| argument.to_str()) {
        let value = match argument.strip_prefix("--").map(split_at_equals) {
            Some((name, value)) => {
                flag = name.replace('_', "-");
                value.strip_prefix('=').unwrap_or_default()
            }
            None => argument,
        };
        match &*flag {
            HEADER => secrets::register_header(value),
            name if SERVER_FLAGS.contains(&name) => secrets::register_setting(value),
            _ => {}
        }
    }
}

impl Stopped {
    fn new(error: clap::Error, mut program: clap::Command, arguments: &[OsString]) -> Self {
        let is_help =
            error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
        if is_help || !error.use_stderr() {
            return Self::Help(error);
        }
        program.build();
        let command = options::command_of(&program, arguments);
        Self::Failed(usage_error::from_parser(&error, &program, command))
    }

    /// Prints it and returns the exit code.
    pub fn print(&self) -> ExitCode {
        let help = match self {
            Self::Failed(error) => return terminal::fail(error),
            Self::Help(help) => help,
        };
        match help.print() {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                terminal::stdout_failed(&error, "")
            }
            // A closed stdout is success.
            _ => ExitCode::from(SUCCESS),
        }
    }
}

impl Cli {
    /// Parses the arguments, program name first.
    ///
    /// # Errors
    /// Clap's own error, which is also returned for `--help` and `--version`.
    pub fn parse_arguments(
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<Self, clap::Error> {
        Self::from_arg_matches(&Self::matches(arguments)?)
    }

    /// Parses the arguments as [`Cli::parse_arguments`] does, and keeps which of them were typed.
    ///
    /// # Errors
    /// As [`Cli::parse_arguments`].
    pub fn matches(
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<ArgMatches, clap::Error> {
        matches(help::overview(Self::command()), arguments.into_iter())
    }

    /// The command to run: `bench` if none was typed.
    pub fn into_command(self) -> Command {
        self.command
            .unwrap_or_else(|| Command::Bench(Box::new(self.bench)))
    }
}

/// The long names of a flag, hidden ones included.
fn names_of(flag: &clap::Arg) -> impl Iterator<Item = &str> {
    let aliases = flag.get_all_aliases().into_iter().flatten();
    flag.get_long().into_iter().chain(aliases)
}

fn long_names(command: &clap::Command) -> Vec<String> {
    let names = |flag| names_of(flag).map(str::to_owned).collect::<Vec<_>>();
    let subcommand_names = command.get_subcommands().flat_map(long_names);
    command
        .get_arguments()
        .flat_map(names)
        .chain(subcommand_names)
        .collect()
}

/// Replaces `_` by `-` in the name of a known flag. Values, also those after `=`, are unchanged.
fn dashes_for_underscores(argument: OsString, known: &[String]) -> OsString {
    let Some((name, rest)) = argument
        .to_str()
        .and_then(|text| text.strip_prefix("--"))
        .map(split_at_equals)
    else {
        return argument;
    };
    let dashed = name.replace('_', "-");
    if name != dashed && known.contains(&dashed) {
        format!("--{dashed}{rest}").into()
    } else {
        argument
    }
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
    fn underscores_are_dashes_in_flag_names_only() {
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
    fn bench_is_the_default_command() {
        assert_eq!(parse(&["bench", "--seed", "3"]).unwrap().traffic.seed, 3);
        assert_eq!(parse(&["--seed", "3"]).unwrap().traffic.seed, 3);
    }

    #[test]
    fn aliases_of_the_vllm_script_are_accepted() {
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
    fn an_unknown_value_lists_the_possible_values_and_a_typo_gets_a_suggestion() {
        let message = parse(&["--dataset", "jsom"]).unwrap_err().to_string();
        assert!(
            message.contains("json-unique") && message.contains("xgrammar_bench"),
            "{message}"
        );
        let message = parse(&["--num-promts", "3"]).unwrap_err().to_string();
        assert!(message.contains("--num-prompts"), "{message}");
    }

    /// Arguments whose value is a path, but not of a file.
    const URL_PATHS: [&str; 1] = ["endpoint"];

    #[test]
    fn arguments_that_name_files_have_a_path_type() {
        let name_types = [
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
                let is_typed = is_path(argument) || name_types.iter().any(|kind| parsed == *kind);
                seen += usize::from(is_typed);
                assert!(
                    is_typed || !is_named || URL_PATHS.contains(&id),
                    "{}: {id}",
                    command.get_name()
                );
                assert!(
                    parsed != std::any::TypeId::of::<std::path::PathBuf>(),
                    "{}: {id} has a type that does not distinguish input from output",
                    command.get_name()
                );
            }
        }
        assert!(seen > 40, "{seen} arguments name files");
    }
}
