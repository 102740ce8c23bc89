//! The help of `sobench` without a command: the commands, the flags that most runs use, and
//! examples. `sobench bench --help` lists every flag of a run.

use clap::Command;

/// The ids of the flags that `sobench --help` shows.
const COMMON_FLAGS: [&str; 12] = [
    "base_url",
    "port",
    "model",
    "backend",
    "dataset",
    "json_schema_path",
    "guided_decoding_backend",
    "num_prompts",
    "request_rate",
    "max_concurrency",
    "save_result",
    "dry_run",
];

const HEADING: &str = "Common options of a run (all: sobench bench --help)";

const EXAMPLES: &str = "\
Examples:
  Measure the embedded server:
    sobench --num-prompts 100

  Measure a running server with your own JSON Schema, at 10 requests per second:
    sobench --base-url http://127.0.0.1:8000 --json-schema-path schema.json --request-rate 10

  Compare two engines on two datasets:
    sobench --guided-decoding-backend xgrammar,guidance --dataset json,regex --num-prompts 200";

/// Limits the help of the whole program to the common flags, and adds examples. Every flag is still
/// parsed.
pub(super) fn overview(program: Command) -> Command {
    program
        .mut_args(|flag| {
            if COMMON_FLAGS.contains(&flag.get_id().as_str()) {
                flag.help_heading(HEADING)
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
        for page in [help(&["bench", "--help"]), help(&["bench", "-h"])] {
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
        }
    }

    #[test]
    fn the_examples_parse() {
        let commands: Vec<&str> = super::EXAMPLES
            .lines()
            .map(str::trim)
            .filter(|line| line.starts_with("sobench "))
            .collect();
        assert_eq!(commands.len(), 3);
        for command in commands {
            let parsed = parse(command.split(' ').map(Into::into));
            assert!(matches!(parsed, Ok(Parsed::Bench(_))), "{command}");
        }
    }
}
