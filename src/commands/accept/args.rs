//! Flags of `sobench accept`.

use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

use crate::commands::bench::args::BenchArgs;
use crate::commands::flags::paths::{InputNames, InputPath, OutputPath};

/// Flags of `sobench accept`.
#[derive(Args, Clone, Debug)]
pub struct AcceptArgs {
    /// The file of requirements, or the name of a profile: vllm-release, kimi-vendor, minimax,
    /// openrouter, ci-smoke
    #[arg(value_name = "FILE|PROFILE")]
    pub requirements: InputNames,
    /// Print the profile instead, as a file to change
    #[arg(long)]
    pub print: bool,
    /// Private key that signs the JSON file of --save: of ssh-keygen, or of minisign
    #[arg(long, value_name = "KEY", requires = "save")]
    pub sign_key: Option<InputPath>,
    /// Write the result as a badge, in the JSON of shields.io
    #[arg(long, value_name = "FILE.json")]
    pub badge: Option<OutputPath>,
    #[command(flatten)]
    pub typed: TypedFlags,
}

/// The flags of `sobench bench` that were typed. They replace those of each run of the file.
#[derive(Clone, Debug)]
pub struct TypedFlags {
    pub flags: BenchArgs,
    /// The flags for the runs, as on a command line; those of the page are not among them.
    pub arguments: Vec<OsString>,
}

/// Flags of `bench` that say what the command itself does.
const OWN: [&str; 7] = [
    "save",
    "force",
    "dry_run",
    "undecided",
    "detail",
    "require",
    "color",
];

impl FromArgMatches for TypedFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let bench = BenchArgs::augment_args(Command::new("bench"));
        let is_typed = |flag: &&Arg| {
            let id = flag.get_id().as_str();
            !OWN.contains(&id) && matches.value_source(id) == Some(ValueSource::CommandLine)
        };
        let mut arguments = Vec::new();
        for flag in bench.get_arguments().filter(is_typed) {
            let name = OsString::from(format!("--{}", flag.get_long().unwrap_or_default()));
            if matches!(flag.get_action(), ArgAction::SetTrue) {
                arguments.push(name);
                continue;
            }
            for value in matches
                .get_raw(flag.get_id().as_str())
                .into_iter()
                .flatten()
            {
                let mut argument = name.clone();
                argument.push("=");
                argument.push(value);
                arguments.push(argument);
            }
        }
        Ok(Self {
            flags: BenchArgs::from_arg_matches(matches)?,
            arguments,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for TypedFlags {
    fn augment_args(command: Command) -> Command {
        BenchArgs::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        BenchArgs::augment_args_for_update(command)
    }
}
