//! What may be typed: clap types only. Knows nothing of what the program does with it; [`crate::plan`] turns it into a plan.

mod arms;
mod bench;
mod calibrate;
mod compare;
pub mod completions;
pub mod config;
mod dataset;
mod engine;
pub mod foreign;
pub mod man;
mod mask;
mod merge;
pub mod overwrites;
mod preflight;
mod report;
mod score;
mod serve;
mod shard;

use std::ffi::OsString;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

pub use arms::{ArmOrder, ArmsArgs};
pub use bench::{BenchArgs, ConstraintArgs, LoraAssignmentName, OutputArgs, RampUpName, SamplingArgs, ServerArgs, TrafficArgs};
pub use calibrate::{CalibrateArgs, CalibrateFormat};
pub use compare::{CompareArgs, CompareFormat, UndecidedName};
pub use completions::CompletionsArgs;
pub use dataset::{DatasetArgs, DrawingArgs, JsonSchemaName};
pub use engine::{EmbeddedArgs, EngineArgs};
pub use foreign::ForeignArgs;
pub use man::ManArgs;
pub use mask::{MaskArgs, MaskFormat, MaskOutputArgs, ProofArgs};
pub use merge::MergeArgs;
pub use preflight::{PreflightArgs, PreflightFormat};
pub use report::{RenderingArgs, ReportArgs};
pub use score::{ScoreArgs, ScoreDatasetArgs, ScoreFormat};
pub use serve::ServeArgs;
pub use shard::ShardArgs;

/// sobench measures structured output (guided decoding) from language-model servers: does the constraint bite, is the answer
/// right, what does it cost.
///
/// With no server named it runs against its own embedded engine: a real constrained-decoding library masking a synthetic model.
#[derive(Debug, Parser)]
#[command(name = "sobench", version, args_conflicts_with_subcommands = true, max_term_width = 110)]
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
    /// Measure the client itself against a server of known timing, beside another client if you name one
    Calibrate(Box<CalibrateArgs>),
    /// Hold runs against each other: what changed, by more than chance, and whether a gate lets it pass
    Compare(Box<CompareArgs>),
    /// Print what a shell needs to complete commands, flags and their values
    Completions(CompletionsArgs),
    /// Print the manual page of sobench or of one of its commands, or write them all
    Man(ManArgs),
    /// Measure decoding engines in this process over a corpus of schemas: outcomes, compile and mask times, memory
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
    CalibrateFloor { port: u16, streams: usize, requests: usize, output_len: usize },
    /// One child process of `mask`; speaks JSON lines over its standard streams
    #[command(hide = true)]
    MaskWorker,
}

impl Cli {
    /// Parses arguments as typed, program name first; long names may be spelt with `_` for `-`, as vLLM's parser allows.
    ///
    /// # Errors
    /// Clap's own error, which also carries `--help` and `--version`.
    pub fn parse_arguments(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        Self::from_arg_matches(&Self::matches(arguments)?)
    }

    /// The same, before it is anything but what was typed.
    ///
    /// # Errors
    /// As [`Cli::parse_arguments`].
    pub fn matches(arguments: impl IntoIterator<Item = OsString>) -> Result<ArgMatches, clap::Error> {
        let command = Self::command();
        let known = long_names(&command);
        command.try_get_matches_from(arguments.into_iter().map(|argument| dashes_for_underscores(argument, &known)))
    }

    /// What is to be done; a benchmark where no command was typed.
    pub fn into_command(self) -> Command {
        self.command.unwrap_or_else(|| Command::Bench(Box::new(self.bench)))
    }
}

fn long_names(command: &clap::Command) -> Vec<String> {
    let names = |argument: &clap::Arg| -> Vec<String> {
        argument.get_long_and_visible_aliases().into_iter().flatten().map(str::to_owned).collect()
    };
    let of_subcommands = command.get_subcommands().flat_map(long_names);
    command.get_arguments().flat_map(names).chain(of_subcommands).collect()
}

/// Only a known flag's own name is respelt: values, and what follows `=`, stay as typed.
fn dashes_for_underscores(argument: OsString, known: &[String]) -> OsString {
    let Some((name, rest)) = argument.to_str().and_then(|text| text.strip_prefix("--")).map(split_at_equals) else {
        return argument;
    };
    let respelt = name.replace('_', "-");
    if name != respelt && known.contains(&respelt) { format!("--{respelt}{rest}").into() } else { argument }
}

fn split_at_equals(text: &str) -> (&str, &str) {
    text.split_at(text.find('=').unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<BenchArgs, clap::Error> {
        let arguments = std::iter::once("sobench").chain(arguments.iter().copied()).map(OsString::from);
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
        let arguments = parse(&["--num_prompts", "7", "--result_filename=a_b.json", "--dataset_name", "xgrammar_bench"]).unwrap();
        assert_eq!(arguments.traffic.num_prompts, Some(7));
        assert_eq!(arguments.output.result_filename.as_deref(), Some("a_b.json"));
        assert_eq!(arguments.dataset.dataset, ["xgrammar_bench"]);
    }

    #[test]
    fn bench_may_be_spelt_out() {
        assert_eq!(parse(&["bench", "--seed", "3"]).unwrap().traffic.seed, 3);
        assert_eq!(parse(&["--seed", "3"]).unwrap().traffic.seed, 3);
    }

    #[test]
    fn every_alias_of_the_script_is_known() {
        let arguments = parse(&["--structured-output-ratio", "0.5", "--save-results", "--structured-output-backend", "guidance"]);
        let arguments = arguments.unwrap();
        assert_eq!(arguments.constraint.guided_decoding_ratio, Some(0.5));
        assert!(arguments.output.save_result);
        assert_eq!(arguments.constraint.engine(), Some("guidance"));
        assert!(parse(&["--no-structured-output"]).unwrap().constraint.no_guided_decoding);
    }

    #[test]
    fn an_unknown_value_names_the_allowed_ones_and_a_typo_gets_a_suggestion() {
        let message = parse(&["--dataset", "jsom"]).unwrap_err().to_string();
        assert!(message.contains("json-unique") && message.contains("xgrammar_bench"), "{message}");
        let message = parse(&["--num-promts", "3"]).unwrap_err().to_string();
        assert!(message.contains("--num-prompts"), "{message}");
    }
}
