//! The help of `sobench` without a command: the commands, the flags that most runs use, and
//! examples. `sobench bench --help` lists the flags of a run that people set, and `--help-all` all.

use clap::{Arg, Command};

use crate::commands::flags::engine::{EMBEDDED_HEADING, ENGINE_HEADING};

/// The ids of the flags that `sobench --help` shows.
const COMMON_FLAGS: &str = "\
    base_url port model backend dataset dataset_path json_schema_path guided_decoding_backend \
    guided_decoding_ratio num_prompts output_len request_rate max_concurrency repeat launch \
    require run_log save_result dry_run";

/// The ids of the flags that `bench --help` shows beside the common ones. The others have names of
/// other benchmarks, or are rarely set; `--help-all` shows them.
const SHOWN_FLAGS: &str = "\
    host endpoint tokenizer header insecure server_metrics ready_check_timeout_sec mix \
    json_schema grammar_path regex choice dataset_options no_guided_decoding arms score \
    constraint_dialect grammar_dialect allow_unenforced skip_preflight duration \
    burstiness seed num_warmups cold_schema_every cancel_rate stream_parity strict_client \
    request_timeout max_error_rate disable_stream temperature top_p extra_body save \
    save_detailed save_failures detail plot no_run_log undecided metadata percentile_metrics \
    metric_percentiles goodput shard embedded";

const HEADING: &str = "Common options of a run (more, and their values: sobench bench --help)";

const EXAMPLES: &str = "\
Examples:
  Measure the embedded server:
    sobench --num-prompts 100

  Measure a running server with your own JSON Schema, at 10 requests per second:
    sobench --base-url http://127.0.0.1:8000 --json-schema-path schema.json --request-rate 10

  Compare two engines on two datasets:
    sobench --guided-decoding-backend xgrammar,guidance --dataset json,regex --num-prompts 200";

/// Where the other flags of `sobench bench` are.
pub(super) const MORE: &str = "sobench bench --help-all lists every flag, also those of other benchmarks. Comparisons: sobench matrix --help";

/// What other flags do in `sobench accept`.
pub(super) const TYPED: &str =
    "The other flags of sobench bench replace those of each run of the file.";

/// Examples of `sobench matrix`.
pub(super) const MATRIX_EXAMPLES: &str = "\
Examples:
  Two engines of the embedded server, three runs of each with and without the constraint:
    sobench matrix --guided-decoding-backend xgrammar,guidance --repeat 3

  Two running servers:
    sobench matrix --target old=http://127.0.0.1:8000 --target new=http://127.0.0.1:8001 --repeat 3

  One server for each engine, started and stopped in turn:
    sobench matrix --guided-decoding-backend xgrammar,guidance --launch \"vllm serve MODEL --port {port} --structured-outputs-config.backend {backend}\"";

fn is_in(ids: &str, flag: &Arg) -> bool {
    ids.split(' ').any(|id| id == flag.get_id())
}

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

/// Limits `bench -h` to the common flags, and `bench --help` to those that people set.
pub(super) fn of_bench(flag: Arg) -> Arg {
    let is_common = is_in(COMMON_FLAGS, &flag);
    let is_shown = is_common || is_in(SHOWN_FLAGS, &flag);
    flag.hide(!is_shown).hide_short_help(!is_common)
}

/// Hides the flags of `serve` that are options of `--embedded`.
pub(super) fn of_serve(flag: Arg) -> Arg {
    let heading = flag.get_help_heading();
    let is_option = [Some(EMBEDDED_HEADING), Some(ENGINE_HEADING)].contains(&heading);
    let is_shown = flag.get_long() == Some("embedded");
    flag.hide(is_option && !is_shown)
}

/// Hides the flags of `explain` that `preflight` explains.
pub(super) fn of_explain(flag: Arg) -> Arg {
    let is_shown = is_in(EXPLAIN_FLAGS, &flag) || flag.get_long().is_none();
    let flag = match flag.get_id() == "backend" {
        true => flag
            .help("Kind of server, which determines the default endpoint [default: openai-chat]"),
        false => flag,
    };
    flag.hide(!is_shown)
}

/// The help of `bench` with every flag (`--help-all`).
pub(super) fn with_all(program: Command) -> Command {
    program.mut_subcommand("bench", |bench| {
        bench.mut_args(|flag| flag.hide(false).hide_short_help(false))
    })
}

/// Limits the help of `accept` to its own flags, and those that say which server.
pub(super) fn of_accept(flag: Arg) -> Arg {
    let is_own = flag.get_help_heading().is_none() && flag.get_id() != "help_all";
    let is_shown = is_own || is_in(ACCEPT_FLAGS, &flag);
    flag.hide(!is_shown)
}

/// Limits the help of `matrix` to its own flags and the common ones. The others are those of `bench`.
pub(super) fn of_matrix(flag: Arg) -> Arg {
    let is_own = flag.get_help_heading() == Some("Comparison");
    match is_in(COMMON_FLAGS, &flag) {
        true => shortened(flag).help_heading(HEADING),
        false => flag.hide(!is_own),
    }
}

/// Limits the help of the whole program to the common flags, and adds examples. Every flag is still
/// parsed.
pub(super) fn overview(program: Command) -> Command {
    program
        .mut_args(|flag| {
            if is_in(COMMON_FLAGS, &flag) {
                shortened(flag).help_heading(HEADING)
            } else {
                flag.hide(true)
            }
        })
        .after_help(EXAMPLES)
}

/// The ids of the flags of `bench` in the help of `accept`.
const ACCEPT_FLAGS: &str = "base_url backend model header save undecided dry_run";

/// The ids of the flags of `explain` in its help.
const EXPLAIN_FLAGS: &str = "case component base_url backend model guided_decoding_backend max_requests slow \
    i_own_this_server save format";

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use clap::error::ErrorKind;

    use crate::cli::{Cli, Command as Parsed, Stopped, parse};
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
            for id in super::COMMON_FLAGS.split(' ') {
                let flag = format!("--{}", id.replace('_', "-"));
                assert!(page.contains(&flag), "{flag} is missing:\n{page}");
            }
            for flag in ["--burstiness", "--top-k", "--trust-remote-code"] {
                assert!(!page.contains(flag), "{flag} is in:\n{page}");
            }
        }
    }

    #[test]
    fn help_of_bench_lists_its_flags_under_headings() {
        let page = help(&["bench", "--help"]);
        for text in [
            "Server:",
            "Traffic:",
            "--base-url",
            "--burstiness",
            "--shard",
        ] {
            assert!(page.contains(text), "{text} is missing:\n{page}");
        }
        assert!(!page.contains("--top-k"), "{page}");
        let Err(Stopped::Help(all)) = parse(["sobench", "--help-all"].map(Into::into)) else {
            panic!("--help-all is help")
        };
        for text in ["--top-k", "--random-input-len", "--use-beam-search"] {
            assert!(all.to_string().contains(text), "{text} is missing:\n{all}");
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

    /// The flags that help shows, by command. Those of `matrix` and `accept` that are not their own are of `bench`.
    #[test]
    fn the_number_of_shown_flags_is_limited() {
        let program = Cli::command();
        let own = |command: &clap::Command| {
            let flags = command.get_arguments().filter(|flag| {
                let is_own = match command.get_name() {
                    "matrix" => flag.get_help_heading() == Some("Comparison"),
                    "accept" => flag.get_help_heading().is_none(),
                    _ => true,
                };
                is_own && !flag.is_hide_set() && flag.get_long().is_some()
            });
            flags.count()
        };
        let shown = program
            .get_subcommands()
            .filter(|command| !command.is_hide_set());
        let counts: Vec<(&str, usize)> = shown
            .map(|command| (command.get_name(), own(command)))
            .collect();
        let bench = program.find_subcommand("bench").unwrap();
        assert!(own(bench) <= 70, "{counts:?}");
        let listed = [super::COMMON_FLAGS, super::SHOWN_FLAGS].map(|ids| ids.split(' ').count());
        let listed: usize = listed.iter().sum();
        assert_eq!(own(bench), listed, "each listed id is a flag");
        assert!(
            counts.iter().map(|(_, count)| count).sum::<usize>() <= 187,
            "{counts:?}"
        );
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
