//! Flags of other benchmarks that have no effect here or are not supported. The first get a notice,
//! the others an error.
//!
//! `fixtures/flags.csv` has the flags of each tool; a test compares it with this list.

use clap::builder::ArgAction;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use sobench_core::error::{Error, Result};
use sobench_notices::notice::{BenchNotice, Notice};

/// A flag of another benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompatFlag {
    /// The long name, without dashes.
    pub name: &'static str,
    arity: Arity,
    pub handling: Handling,
}

/// The number of values of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arity {
    Switch,
    Value,
}

/// The handling of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handling {
    /// The flag is accepted without effect, for this reason.
    Notice(&'static str),
    /// The run is refused, for this reason.
    Refused {
        reason: &'static str,
        hint: &'static str,
    },
}

const fn notice(name: &'static str, arity: Arity, reason: &'static str) -> CompatFlag {
    CompatFlag {
        name,
        arity,
        handling: Handling::Notice(reason),
    }
}

const fn refused(
    name: &'static str,
    arity: Arity,
    reason: &'static str,
    hint: &'static str,
) -> CompatFlag {
    CompatFlag {
        name,
        arity,
        handling: Handling::Refused { reason, hint },
    }
}

const NO_TRACE: &str = "no dataset has timed traces";
const NO_TRACE_HINT: &str =
    "use --request-rate, --burstiness and --ramp-up-strategy for the arrival times";
const NO_IMAGES: &str = "no dataset has images or video";
const NO_IMAGES_HINT: &str = "leave it out; for audio, use --backend openai-audio --audio-path";
const NO_SET: &str = "no such dataset";
const NO_SET_HINT: &str = "use --dataset custom for prompts and constraints from JSONL, or --dataset hf for prompts from the Hub";
const NO_SPEECH: &str = "audio is not selected by its length";
const NO_SPEECH_HINT: &str = "name the files with --audio-path";

use Arity::{Switch, Value};

/// All of these flags.
pub const COMPAT_FLAGS: [CompatFlag; 29] = [
    notice(
        "trust-remote-code",
        Switch,
        "tokenizers are read from their files, and code of the repository is never executed",
    ),
    notice(
        "tokenizer-mode",
        Value,
        "tokenizer.json has one reader; tokens of answers are counted by the server if it reports them",
    ),
    notice(
        "skip-tokenizer-init",
        Switch,
        "the tokenizer counts only tokens that the server does not report, outside the timed path",
    ),
    notice(
        "use-beam-search",
        Switch,
        "as in vLLM's tools, nothing is sent for it",
    ),
    notice("no-stream", Switch, "datasets are read completely"),
    notice(
        "no-self-timed",
        Switch,
        "the traffic flags always determine the arrival times",
    ),
    refused("self-timed", Switch, NO_TRACE, NO_TRACE_HINT),
    refused(
        "timed-trace-chunk-hash-size",
        Value,
        NO_TRACE,
        NO_TRACE_HINT,
    ),
    refused("timed-trace-sec-multiplier", Value, NO_TRACE, NO_TRACE_HINT),
    refused(
        "timed-trace-label-timestamp",
        Value,
        NO_TRACE,
        NO_TRACE_HINT,
    ),
    refused(
        "timed-trace-label-input-length",
        Value,
        NO_TRACE,
        NO_TRACE_HINT,
    ),
    refused(
        "timed-trace-label-output-length",
        Value,
        NO_TRACE,
        NO_TRACE_HINT,
    ),
    refused("timed-trace-label-hash-ids", Value, NO_TRACE, NO_TRACE_HINT),
    refused("enable-multimodal-chat", Switch, NO_IMAGES, NO_IMAGES_HINT),
    refused(
        "custom-ensure-client-side-data",
        Switch,
        NO_IMAGES,
        NO_IMAGES_HINT,
    ),
    refused(
        "random-mm-base-items-per-request",
        Value,
        NO_IMAGES,
        NO_IMAGES_HINT,
    ),
    refused(
        "random-mm-num-mm-items-range-ratio",
        Value,
        NO_IMAGES,
        NO_IMAGES_HINT,
    ),
    refused(
        "random-mm-limit-mm-per-prompt",
        Value,
        NO_IMAGES,
        NO_IMAGES_HINT,
    ),
    refused("random-mm-bucket-config", Value, NO_IMAGES, NO_IMAGES_HINT),
    refused("spec-bench-output-len", Value, NO_SET, NO_SET_HINT),
    refused("spec-bench-category", Value, NO_SET, NO_SET_HINT),
    refused("speed-bench-dataset-subset", Value, NO_SET, NO_SET_HINT),
    refused("speed-bench-output-len", Value, NO_SET, NO_SET_HINT),
    refused("speed-bench-category", Value, NO_SET, NO_SET_HINT),
    refused("blazedit-min-distance", Value, NO_SET, NO_SET_HINT),
    refused("blazedit-max-distance", Value, NO_SET, NO_SET_HINT),
    refused("asr-min-audio-len-sec", Value, NO_SPEECH, NO_SPEECH_HINT),
    refused("asr-max-audio-len-sec", Value, NO_SPEECH, NO_SPEECH_HINT),
    refused(
        "no-reranker",
        Switch,
        "documents are ranked only by a ranking endpoint of the server",
        "leave it out, and use --backend vllm-rerank",
    ),
];

/// The given ones.
#[derive(Clone, Debug, Default)]
pub struct CompatArgs {
    /// In the order of [`COMPAT_FLAGS`].
    pub given: Vec<CompatFlag>,
}

impl FromArgMatches for CompatArgs {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let is_given =
            |flag: &CompatFlag| matches.value_source(flag.name) == Some(ValueSource::CommandLine);
        Ok(Self {
            given: COMPAT_FLAGS.into_iter().filter(is_given).collect(),
        })
    }

    fn update_from_arg_matches(
        &mut self,
        matches: &ArgMatches,
    ) -> std::result::Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for CompatArgs {
    fn augment_args(command: Command) -> Command {
        COMPAT_FLAGS.into_iter().fold(command, |command, flag| {
            let argument = Arg::new(flag.name).long(flag.name);
            let argument = match flag.arity {
                Arity::Switch => argument.action(ArgAction::SetTrue),
                Arity::Value => argument
                    .action(ArgAction::Set)
                    .value_name("X")
                    .allow_hyphen_values(true),
            };
            command.arg(match flag.handling {
                Handling::Notice(reason) => argument.help(format!("No effect: {reason}")),
                Handling::Refused { .. } => argument.hide(true),
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// A notice for each flag without effect.
///
/// # Errors
/// An unsupported flag, with the reason.
pub(crate) fn notices(flags: &CompatArgs) -> Result<Vec<Notice>> {
    let notice = |flag: &CompatFlag| match flag.handling {
        Handling::Notice(reason) => Ok(BenchNotice::FlagWithoutEffect {
            flag: flag.name.to_owned(),
            why: reason.to_owned(),
        }
        .into()),
        Handling::Refused { reason, hint } => {
            Err(Error::usage(format!("{reason}: --{}", flag.name)).hint(hint))
        }
    };
    flags.given.iter().map(notice).collect()
}
