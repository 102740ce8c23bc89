//! Flags of other benchmarks that sobench knows and does not need, or cannot do. Each gets a notice
//! or an error; none is dropped in silence.
//!
//! `fixtures/flags.csv` says the same flag by flag and tool by tool; a test holds the two together.

use clap::builder::ArgAction;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use sobench_core::error::{Error, Result};
use sobench_notices::notice::{BenchNotice, Notice};

/// A flag of another benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// The long name, without dashes.
    pub name: &'static str,
    takes: Takes,
    pub fate: Fate,
}

/// What follows a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    Nothing,
    One,
}

/// What becomes of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is taken, and the run says why it changes nothing.
    Notice(&'static str),
    /// The run is refused, for this reason.
    Refused {
        reason: &'static str,
        hint: &'static str,
    },
}

const fn notice(name: &'static str, takes: Takes, words: &'static str) -> Foreign {
    Foreign {
        name,
        takes,
        fate: Fate::Notice(words),
    }
}

const fn refused(
    name: &'static str,
    takes: Takes,
    reason: &'static str,
    hint: &'static str,
) -> Foreign {
    Foreign {
        name,
        takes,
        fate: Fate::Refused { reason, hint },
    }
}

const NO_TRACE: &str = "there is no dataset of timed traces";
const NO_TRACE_HINT: &str =
    "--request-rate, --burstiness and --ramp-up-strategy say when requests are due";
const NO_IMAGES: &str = "no dataset has images or video";
const NO_IMAGES_HINT: &str = "leave it out; sound is sent with --backend openai-audio --audio-path";
const NO_SET: &str = "there is no dataset of this name";
const NO_SET_HINT: &str =
    "--dataset custom reads prompts and constraints from JSONL, --dataset hf prompts from the Hub";
const NO_SPEECH: &str = "sound is not picked by its length";
const NO_SPEECH_HINT: &str = "name the files with --audio-path";

use Takes::{Nothing, One};

/// Every such flag.
pub const FOREIGN: [Foreign; 29] = [
    notice(
        "trust-remote-code",
        Nothing,
        "a tokenizer is read from its files, and no code that comes with it is run",
    ),
    notice(
        "tokenizer-mode",
        One,
        "tokenizer.json is read in one way only; tokens of answers are the server's count where it gives one",
    ),
    notice(
        "skip-tokenizer-init",
        Nothing,
        "the tokenizer counts only what the server does not, and outside the timed path",
    ),
    notice(
        "use-beam-search",
        Nothing,
        "vLLM's tools take it and send nothing, and so does sobench",
    ),
    notice(
        "no-stream",
        Nothing,
        "the files of a dataset are read whole",
    ),
    notice(
        "no-self-timed",
        Nothing,
        "requests are always due as the traffic flags say",
    ),
    refused("self-timed", Nothing, NO_TRACE, NO_TRACE_HINT),
    refused("timed-trace-chunk-hash-size", One, NO_TRACE, NO_TRACE_HINT),
    refused("timed-trace-sec-multiplier", One, NO_TRACE, NO_TRACE_HINT),
    refused("timed-trace-label-timestamp", One, NO_TRACE, NO_TRACE_HINT),
    refused(
        "timed-trace-label-input-length",
        One,
        NO_TRACE,
        NO_TRACE_HINT,
    ),
    refused(
        "timed-trace-label-output-length",
        One,
        NO_TRACE,
        NO_TRACE_HINT,
    ),
    refused("timed-trace-label-hash-ids", One, NO_TRACE, NO_TRACE_HINT),
    refused("enable-multimodal-chat", Nothing, NO_IMAGES, NO_IMAGES_HINT),
    refused(
        "custom-ensure-client-side-data",
        Nothing,
        NO_IMAGES,
        NO_IMAGES_HINT,
    ),
    refused(
        "random-mm-base-items-per-request",
        One,
        NO_IMAGES,
        NO_IMAGES_HINT,
    ),
    refused(
        "random-mm-num-mm-items-range-ratio",
        One,
        NO_IMAGES,
        NO_IMAGES_HINT,
    ),
    refused(
        "random-mm-limit-mm-per-prompt",
        One,
        NO_IMAGES,
        NO_IMAGES_HINT,
    ),
    refused("random-mm-bucket-config", One, NO_IMAGES, NO_IMAGES_HINT),
    refused("spec-bench-output-len", One, NO_SET, NO_SET_HINT),
    refused("spec-bench-category", One, NO_SET, NO_SET_HINT),
    refused("speed-bench-dataset-subset", One, NO_SET, NO_SET_HINT),
    refused("speed-bench-output-len", One, NO_SET, NO_SET_HINT),
    refused("speed-bench-category", One, NO_SET, NO_SET_HINT),
    refused("blazedit-min-distance", One, NO_SET, NO_SET_HINT),
    refused("blazedit-max-distance", One, NO_SET, NO_SET_HINT),
    refused("asr-min-audio-len-sec", One, NO_SPEECH, NO_SPEECH_HINT),
    refused("asr-max-audio-len-sec", One, NO_SPEECH, NO_SPEECH_HINT),
    refused(
        "no-reranker",
        Nothing,
        "documents are ranked by the server's own ranking endpoint only",
        "leave it out, and rank with --backend vllm-rerank",
    ),
];

/// Those of them that were given.
#[derive(Clone, Debug, Default)]
pub struct ForeignArgs {
    /// In the order of [`FOREIGN`].
    pub given: Vec<Foreign>,
}

impl FromArgMatches for ForeignArgs {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let is_given =
            |it: &Foreign| matches.value_source(it.name) == Some(ValueSource::CommandLine);
        Ok(Self {
            given: FOREIGN.into_iter().filter(is_given).collect(),
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

impl Args for ForeignArgs {
    fn augment_args(command: Command) -> Command {
        FOREIGN.into_iter().fold(command, |command, it| {
            let argument = Arg::new(it.name).long(it.name);
            let argument = match it.takes {
                Takes::Nothing => argument.action(ArgAction::SetTrue),
                Takes::One => argument
                    .action(ArgAction::Set)
                    .value_name("X")
                    .allow_hyphen_values(true),
            };
            command.arg(match it.fate {
                Fate::Notice(words) => argument.help(format!("Taken, and without effect: {words}")),
                Fate::Refused { .. } => argument.hide(true),
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// A notice for each that changes nothing.
///
/// # Errors
/// One that cannot be done, with the reason.
pub(crate) fn notices(flags: &ForeignArgs) -> Result<Vec<Notice>> {
    let word = |flag: &Foreign| match flag.fate {
        Fate::Notice(words) => Ok(BenchNotice::FlagWithoutEffect {
            flag: flag.name.to_owned(),
            why: words.to_owned(),
        }
        .into()),
        Fate::Refused { reason, hint } => {
            Err(Error::usage(format!("{reason}: --{}", flag.name)).hint(hint))
        }
    };
    flags.given.iter().map(word).collect()
}
