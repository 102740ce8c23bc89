//! `sobench completions`: completion scripts for shells, generated from the parser.

use clap::{Args, Command, ValueEnum};
use clap_complete::Shell;

use crate::commands::output::CommandOutput;
use sobench_core::error::Result;
use sobench_shutdown::Shutdown;

/// The flags of `sobench completions`.
#[derive(Args, Clone, Debug)]
pub struct CompletionsArgs {
    /// Shell to print the script for
    #[arg(value_enum, value_name = "SHELL")]
    pub shell: Shell,
}

const FISH_ARGPARSE: &str = "argparse -s (__fish_sobench_global_optspecs)";

/// The line of the fish script that rejects a command line with an incomplete flag.
const FISH_STRICT_ARGPARSE: &str =
    "argparse -s (__fish_sobench_global_optspecs) -- $cmd 2>/dev/null\n    or return";

/// Prints the script. `parser` is that of the whole program.
///
/// # Errors
/// Interrupted.
pub fn run(flags: CompletionsArgs, parser: Command, shutdown: &Shutdown) -> Result<CommandOutput> {
    shutdown.run_or_abandon(move || Ok(script(&flags, &parser)))
}

fn script(arguments: &CompletionsArgs, parser: &Command) -> CommandOutput {
    let mut script = Vec::new();
    clap_complete::generate(
        arguments.shell,
        &mut without_hidden(parser),
        "sobench",
        &mut script,
    );
    let mut script = String::from_utf8_lossy(&script).into_owned();
    if arguments.shell == Shell::Fish {
        script = patch_fish(&script);
    }
    CommandOutput {
        stdout: script,
        ..CommandOutput::default()
    }
}

/// Adds two things that clap_complete's script for fish lacks. A flag whose value is being typed
/// (`sobench --dataset <TAB>`) is not a command; `argparse` rejects such a line, so it is parsed
/// again without its last word. The only positional argument with a list of values gets these
/// values.
fn patch_fish(script: &str) -> String {
    let without_last = format!("{FISH_ARGPARSE} -- $cmd[1..-2] 2>/dev/null\n    or return");
    let patched = script.replacen(
        FISH_STRICT_ARGPARSE,
        &format!("{FISH_ARGPARSE} -- $cmd 2>/dev/null\n    or {without_last}"),
        1,
    );
    let shells: Vec<String> = Shell::value_variants()
        .iter()
        .map(ToString::to_string)
        .collect();
    format!(
        "{patched}complete -c sobench -n \"__fish_sobench_using_subcommand completions\" -f -a \"{}\"\n",
        shells.join(" ")
    )
}

/// The parser without hidden commands, which the generators would offer.
fn without_hidden(program: &Command) -> Command {
    let commands = program
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    Command::new("sobench")
        .version(env!("CARGO_PKG_VERSION"))
        .args(program.get_arguments())
        .groups(program.get_groups())
        .subcommands(commands)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn scripts_have_commands_and_flags_but_no_hidden_ones() {
        for shell in Shell::value_variants() {
            let script = script(&CompletionsArgs { shell: *shell }, &Cli::command()).stdout;
            for word in ["preflight", "num-prompts", "fail-on", "xgrammar_bench"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
            for word in ["calibrate-server", "calibrate-floor"] {
                assert!(!script.contains(word), "{shell}: {word}");
            }
        }
    }

    #[test]
    fn fish_completes_the_value_of_a_flag_without_a_command() {
        let script = script(&CompletionsArgs { shell: Shell::Fish }, &Cli::command()).stdout;
        assert!(
            !script.contains(FISH_STRICT_ARGPARSE),
            "clap_complete's line is not the expected one:\n{script}"
        );
        assert_eq!(script.matches("-- $cmd[1..-2]").count(), 1, "{script}");
        assert!(
            script.ends_with("-a \"bash elvish fish powershell zsh\"\n"),
            "{script}"
        );
    }
}
