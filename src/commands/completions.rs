//! `sobench completions`: what a shell has to know to complete flags, from the parser itself. Knows
//! no meaning of any flag.

use clap::{Args, Command, ValueEnum};
use clap_complete::Shell;

use crate::commands::output::CommandOutput;
use sobench_core::error::Result;
use sobench_shutdown::Shutdown;

/// Which shell asks.
#[derive(Args, Clone, Debug)]
pub struct CompletionsArgs {
    /// Shell that will read them
    #[arg(value_enum, value_name = "SHELL")]
    pub shell: Shell,
}

const FISH_PARSES: &str = "argparse -s (__fish_sobench_global_optspecs)";

/// Where the script for fish takes a line for one without a place for flags.
const FISH_GIVES_UP: &str =
    "argparse -s (__fish_sobench_global_optspecs) -- $cmd 2>/dev/null\n    or return";

/// The script for the shell, on stdout. `parser` is that of the whole program.
///
/// # Errors
/// Interrupted.
pub fn run(flags: CompletionsArgs, parser: Command, shutdown: &Shutdown) -> Result<CommandOutput> {
    shutdown.or_abandon(move || Ok(script(&flags, &parser)))
}

fn script(arguments: &CompletionsArgs, parser: &Command) -> CommandOutput {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut shown(parser), "sobench", &mut script);
    let mut script = String::from_utf8_lossy(&script).into_owned();
    if arguments.shell == Shell::Fish {
        script = mend_fish(&script);
    }
    CommandOutput {
        stdout: script,
        ..CommandOutput::default()
    }
}

/// Tells fish two things that clap_complete's script leaves out: that a flag whose value is still
/// to come (`sobench --dataset <TAB>`) is no command, which `argparse` cannot say because it
/// refuses the line; and the values of the only argument without a flag that has any.
fn mend_fish(script: &str) -> String {
    let without_last = format!("{FISH_PARSES} -- $cmd[1..-2] 2>/dev/null\n    or return");
    let mended = script.replacen(
        FISH_GIVES_UP,
        &format!("{FISH_PARSES} -- $cmd 2>/dev/null\n    or {without_last}"),
        1,
    );
    let shells: Vec<String> = Shell::value_variants()
        .iter()
        .map(ToString::to_string)
        .collect();
    format!(
        "{mended}complete -c sobench -n \"__fish_sobench_using_subcommand completions\" -f -a \"{}\"\n",
        shells.join(" ")
    )
}

/// The parser without the commands that are the program's own affair; the generators would offer
/// them.
fn shown(whole: &Command) -> Command {
    let commands = whole
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    Command::new("sobench")
        .version(env!("CARGO_PKG_VERSION"))
        .args(whole.get_arguments())
        .groups(whole.get_groups())
        .subcommands(commands)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_shell_is_told_of_commands_and_flags_and_of_nothing_that_is_hidden() {
        for shell in Shell::value_variants() {
            let script = script(&CompletionsArgs { shell: *shell }, &Cli::command()).stdout;
            for word in ["preflight", "num-prompts", "fail-on", "xgrammar_bench"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
            for word in ["mask-worker", "calibrate-server", "calibrate-floor"] {
                assert!(!script.contains(word), "{shell}: {word}");
            }
        }
    }

    #[test]
    fn fish_completes_the_value_of_a_flag_before_any_command() {
        let script = script(&CompletionsArgs { shell: Shell::Fish }, &Cli::command()).stdout;
        assert!(
            !script.contains(FISH_GIVES_UP),
            "clap_complete's line is not the one that is mended:\n{script}"
        );
        assert_eq!(script.matches("-- $cmd[1..-2]").count(), 1, "{script}");
        assert!(
            script.ends_with("-a \"bash elvish fish powershell zsh\"\n"),
            "{script}"
        );
    }
}
