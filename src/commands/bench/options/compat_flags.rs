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

/// Flags with the same handling.
struct Group {
    handling: Handling,
    switches: &'static [&'static str],
    /// Flags with a value.
    values: &'static [&'static str],
}

const fn refused(reason: &'static str, hint: &'static str) -> Handling {
    Handling::Refused { reason, hint }
}

const GROUPS: &[Group] = &[
    Group {
        handling: Handling::Notice(
            "tokenizers are read from their files, and code of the repository is never executed",
        ),
        switches: &["trust-remote-code"],
        values: &[],
    },
    Group {
        handling: Handling::Notice(
            "tokenizer.json has one reader; tokens of answers are counted by the server if it reports them",
        ),
        switches: &[],
        values: &["tokenizer-mode"],
    },
    Group {
        handling: Handling::Notice(
            "the tokenizer counts only tokens that the server does not report, outside the timed path",
        ),
        switches: &["skip-tokenizer-init"],
        values: &[],
    },
    Group {
        handling: Handling::Notice("as in vLLM's tools, nothing is sent for it"),
        switches: &["use-beam-search"],
        values: &[],
    },
    Group {
        handling: Handling::Notice("datasets are read completely"),
        switches: &["no-stream"],
        values: &[],
    },
    Group {
        handling: Handling::Notice("the traffic flags always determine the arrival times"),
        switches: &["no-self-timed"],
        values: &[],
    },
    Group {
        handling: Handling::Notice("streams are read on threads of their own as it is"),
        switches: &["rust-client"],
        values: &["rust-worker-threads"],
    },
    Group {
        handling: Handling::Notice("cached tokens are in the report if the server states them"),
        switches: &["cache-report"],
        values: &[],
    },
    Group {
        handling: refused(
            "traces are recorded requests here",
            "use --dataset requests --dataset-path FILE --replay-speed 1",
        ),
        switches: &["self-timed", "use-trace-timestamps"],
        values: &[
            "timed-trace-chunk-hash-size",
            "timed-trace-sec-multiplier",
            "timed-trace-label-timestamp",
            "timed-trace-label-input-length",
            "timed-trace-label-output-length",
            "timed-trace-label-hash-ids",
            "mooncake-slowdown-factor",
            "mooncake-num-rounds",
            "mooncake-workload",
        ],
    },
    Group {
        handling: refused(
            "no dataset has images or video",
            "leave it out; for audio, use --backend openai-audio --audio-path",
        ),
        switches: &[
            "enable-multimodal-chat",
            "custom-ensure-client-side-data",
            "random-image-count",
        ],
        values: &[
            "random-mm-base-items-per-request",
            "random-mm-num-mm-items-range-ratio",
            "random-mm-limit-mm-per-prompt",
            "random-mm-bucket-config",
            "image-count",
            "image-resolution",
            "image-format",
            "image-content",
        ],
    },
    Group {
        handling: refused(
            "no such dataset",
            "use --dataset custom for prompts and constraints from JSONL, or --dataset hf for prompts from the Hub",
        ),
        switches: &[],
        values: &[
            "spec-bench-output-len",
            "spec-bench-category",
            "speed-bench-dataset-subset",
            "speed-bench-output-len",
            "speed-bench-category",
            "blazedit-min-distance",
            "blazedit-max-distance",
            "dataset-offset",
            "agentic-max-turns",
        ],
    },
    Group {
        handling: refused(
            "no such dataset: generated-shared-prefix",
            "use --dataset prefix_repetition for prompts with shared prefixes",
        ),
        switches: &["gsp-fast-prepare", "gsp-send-routing-key", "gsp-ordered"],
        values: &[
            "gsp-num-groups",
            "gsp-prompts-per-group",
            "gsp-system-prompt-len",
            "gsp-question-len",
            "gsp-output-len",
            "gsp-range-ratio",
            "gsp-num-turns",
            "gsp-group-distribution",
            "gsp-zipf-alpha",
        ],
    },
    Group {
        handling: refused(
            "audio is not selected by its length",
            "name the files with --audio-path",
        ),
        switches: &[],
        values: &["asr-min-audio-len-sec", "asr-max-audio-len-sec"],
    },
    Group {
        handling: refused(
            "documents are ranked only by a ranking endpoint of the server",
            "leave it out, and use --backend vllm-rerank",
        ),
        switches: &["no-reranker"],
        values: &[],
    },
    Group {
        handling: refused(
            "results are not appended to a file",
            "use --run-log FILE.jsonl for each request, or --save FILE.json for the result",
        ),
        switches: &[],
        values: &["output-file"],
    },
    Group {
        handling: refused(
            "each request is in the run log, not on the terminal",
            "use --run-log FILE.jsonl",
        ),
        switches: &["print-requests"],
        values: &[],
    },
    Group {
        handling: refused(
            "charts are in pages",
            "use --save FILE.html, or --plot-timeline",
        ),
        switches: &["plot-throughput"],
        values: &[],
    },
    Group {
        handling: refused(
            "fields of SGLang's own API have no flag",
            "use --logprobs, or --extra-body with the field",
        ),
        switches: &["return-logprob", "return-routed-experts"],
        values: &["top-logprobs-num", "token-ids-logprob", "logprob-start-len"],
    },
    Group {
        handling: refused(
            "prompts are sent as they are",
            "use --backend openai-chat for the server's template, or --dataset custom for prompts of your own",
        ),
        switches: &["apply-chat-template", "tokenize-prompt"],
        values: &["prompt-suffix"],
    },
    Group {
        handling: refused(
            "prompts are not selected by the context of the model",
            "leave it out; the report counts requests that the server rejects",
        ),
        switches: &[],
        values: &["sharegpt-context-len"],
    },
    Group {
        handling: refused(
            "the profiler is set up where the server is started",
            "use --profile alone",
        ),
        switches: &["profile-by-stage"],
        values: &[
            "profile-activities",
            "profile-start-step",
            "profile-steps",
            "profile-num-steps",
            "profile-stages",
            "profile-output-dir",
            "profile-prefix",
            "profile-prefill-url",
            "profile-decode-url",
        ],
    },
    Group {
        handling: refused(
            "adapters are assigned by --lora-assignment",
            "use --lora-modules with --lora-assignment random or round-robin",
        ),
        switches: &[],
        values: &["lora-request-distribution", "lora-zipf-alpha"],
    },
    Group {
        handling: refused(
            "the parts of a disaggregated server are not addressed",
            "give the address of its router with --base-url",
        ),
        switches: &["pd-separated", "fake-prefill"],
        values: &[],
    },
    Group {
        handling: refused(
            "the cache of the server is not flushed",
            "post to /flush_cache of the server before the run",
        ),
        switches: &["flush-cache"],
        values: &["flush-cache-timeout"],
    },
];

/// All of these flags.
pub fn compat_flags() -> impl Iterator<Item = CompatFlag> {
    GROUPS.iter().flat_map(|group| {
        let flag = |arity| {
            move |name: &&'static str| CompatFlag {
                name,
                arity,
                handling: group.handling,
            }
        };
        let switches = group.switches.iter().map(flag(Arity::Switch));
        switches.chain(group.values.iter().map(flag(Arity::Value)))
    })
}

/// The given ones.
#[derive(Clone, Debug, Default)]
pub struct CompatArgs {
    /// In the order of [`compat_flags`].
    pub given: Vec<CompatFlag>,
}

impl FromArgMatches for CompatArgs {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let is_given =
            |flag: &CompatFlag| matches.value_source(flag.name) == Some(ValueSource::CommandLine);
        Ok(Self {
            given: compat_flags().filter(is_given).collect(),
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
        compat_flags().fold(command, |command, flag| {
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
