//! The help of `sobench` without a command: the commands, the flags that most runs use, and
//! examples. `sobench bench --help` lists every flag of a run.

use clap::{Arg, Command};

/// The ids of the flags that `sobench --help` shows.
const COMMON_FLAGS: [&str; 19] = [
    "base_url",
    "port",
    "model",
    "backend",
    "dataset",
    "dataset_path",
    "json_schema_path",
    "guided_decoding_backend",
    "guided_decoding_ratio",
    "num_prompts",
    "output_len",
    "request_rate",
    "max_concurrency",
    "repeat",
    "launch",
    "require",
    "run_log",
    "save_result",
    "dry_run",
];

const HEADING: &str = "Common options of a run (all, and their values: sobench bench --help)";

const EXAMPLES: &str = "\
Examples:
  Measure the embedded server:
    sobench --num-prompts 100

  Measure a running server with your own JSON Schema, at 10 requests per second:
    sobench --base-url http://127.0.0.1:8000 --json-schema-path schema.json --request-rate 10

  Compare two engines on two datasets:
    sobench --guided-decoding-backend xgrammar,guidance --dataset json,regex --num-prompts 200";

/// Examples of `sobench matrix`.
pub(super) const MATRIX_EXAMPLES: &str = "\
Examples:
  Two engines of the embedded server, three runs of each with and without the constraint:
    sobench matrix --guided-decoding-backend xgrammar,guidance --repeat 3

  Two running servers:
    sobench matrix --target old=http://127.0.0.1:8000 --target new=http://127.0.0.1:8001 --repeat 3

  One server for each engine, started and stopped in turn:
    sobench matrix --guided-decoding-backend xgrammar,guidance --launch \"vllm serve MODEL --port {port} --structured-outputs-config.backend {backend}\"";

/// The first sentence of a help text. What follows `e.g.` belongs to it.
pub fn first_sentence(text: &str) -> &str {
    let ends = text.match_indices(". ").map(|(at, _)| at);
    let mut ends = ends.filter(|at| text[at + 2..].starts_with(char::is_uppercase));
    ends.next().map_or(text, |at| &text[..at])
}

/// A flag with the first sentence of its help, without its values.
fn shortened(flag: Arg) -> Arg {
    let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
    let first = first_sentence(&help).to_owned();
    let takes_values = flag.get_action().takes_values();
    let flag = flag.help(first);
    match takes_values {
        true => flag.hide_possible_values(true),
        false => flag,
    }
}

/// Limits `bench -h` to the common flags; `bench --help` has all.
pub(super) fn of_bench(flag: Arg) -> Arg {
    let is_common = COMMON_FLAGS.contains(&flag.get_id().as_str());
    flag.hide_short_help(!is_common)
}

/// Limits the help of `matrix` to its own flags and the common ones. The others are those of `bench`.
pub(super) fn of_matrix(flag: Arg) -> Arg {
    let is_own = flag.get_help_heading() == Some("Comparison");
    match COMMON_FLAGS.contains(&flag.get_id().as_str()) {
        true => shortened(flag).help_heading(HEADING),
        false => flag.hide(!is_own),
    }
}

/// Limits the help of the whole program to the common flags, and adds examples. Every flag is still
/// parsed.
pub(super) fn overview(program: Command) -> Command {
    program
        .mut_args(|flag| {
            if COMMON_FLAGS.contains(&flag.get_id().as_str()) {
                shortened(flag).help_heading(HEADING)
            } else {
                flag.hide(true)
            }
        })
        .after_help(EXAMPLES)
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use crate::cli::{Cli, Command as Parsed, parse};
    use crate::commands::matrix::options::Benchmark;

    /// The help that these arguments print.
    fn help(arguments: &[&str]) -> String {
        let typed = std::iter::once(&"sobench").chain(arguments);
        let error = Cli::matches(typed.map(Into::into)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DisplayHelp, "{arguments:?}");
        error.to_string()
    }

    #[test]
    fn help_without_a_command_lists_commands_common_flags_and_examples() {
        for page in [help(&["--help"]), help(&["-h"])] {
            for text in [
                "Commands:",
                "  bench ",
                "  compare ",
                "Examples:",
                "bench --help",
            ] {
                assert!(page.contains(text), "{text} is missing:\n{page}");
            }
            for id in super::COMMON_FLAGS {
                let flag = format!("--{}", id.replace('_', "-"));
                assert!(page.contains(&flag), "{flag} is missing:\n{page}");
            }
            for flag in ["--burstiness", "--top-k", "--trust-remote-code"] {
                assert!(!page.contains(flag), "{flag} is in:\n{page}");
            }
        }
    }

    #[test]
    fn help_of_bench_lists_every_flag_under_headings() {
        let page = help(&["bench", "--help"]);
        for text in [
            "Server:",
            "Traffic:",
            "Comparison:",
            "--base-url",
            "--burstiness",
            "--top-k",
            "--shard",
        ] {
            assert!(page.contains(text), "{text} is missing:\n{page}");
        }
        let short = help(&["bench", "-h"]);
        assert!(short.contains("--base-url") && !short.contains("--burstiness"));
        assert!(short.lines().count() <= 100, "{short}");
    }

    #[test]
    fn help_of_matrix_lists_its_own_flags_and_the_common_ones() {
        let page = help(&["matrix", "--help"]);
        for text in ["--target", "--launch", "--repeat", "--sweep", "--dataset"] {
            assert!(page.contains(text), "{text} is missing:\n{page}");
        }
        assert!(!page.contains("--burstiness"), "{page}");
    }

    #[test]
    fn the_examples_parse() {
        let examples = [super::EXAMPLES, super::MATRIX_EXAMPLES].map(str::lines);
        let lines = examples.into_iter().flatten().map(str::trim);
        let commands: Vec<&str> = lines.filter(|line| line.starts_with("sobench ")).collect();
        assert_eq!(commands.len(), 6);
        for command in commands {
            // The quoted command of --launch is one word.
            let quoted = command.split('"').enumerate();
            let words = quoted.flat_map(|(place, part)| match place % 2 {
                0 => part.split_whitespace().collect(),
                _ => vec![part],
            });
            match parse(words.map(Into::into)) {
                Ok(Parsed::Bench(flags)) => assert!(Benchmark::new(&flags, false).is_ok()),
                Ok(Parsed::Matrix(flags)) => assert!(Benchmark::new(&flags, true).is_ok()),
                other => panic!("{command}: {other:?}"),
            }
        }
    }
}
