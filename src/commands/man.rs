//! `sobench man`: manual pages, generated from the parser and the table of exit codes.

use std::io::{self, Write};

use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::commands::flags::paths::OutputFolder;
use crate::commands::output::CommandOutput;
use sobench_core::error::{Error, Result};
use sobench_core::exit_codes;
use sobench_core::output_files::{refuse_foreign, write_text};
use sobench_shutdown::Shutdown;

/// The flags of `sobench man`.
#[derive(Args, Clone, Debug)]
pub struct ManArgs {
    /// Command to print the page of [default: sobench itself]
    #[arg(value_name = "COMMAND")]
    pub command: Option<String>,
    /// Folder to write all pages to, one file each
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub output_dir: Option<OutputFolder>,
}

/// Prints a page, or writes all pages. `parser` is that of the whole program.
///
/// # Errors
/// The command is unknown, or the folder cannot be written to.
pub fn run(flags: ManArgs, parser: Command, shutdown: &Shutdown) -> Result<CommandOutput> {
    shutdown.run_or_abandon(move || write_pages(&flags, parser))
}

fn write_pages(arguments: &ManArgs, parser: Command) -> Result<CommandOutput> {
    let commands = documented(parser);
    let Some(folder) = &arguments.output_dir else {
        let name = arguments.command.as_deref().unwrap_or("sobench");
        let command = commands
            .iter()
            .find(|command| command.get_name() == name)
            .ok_or_else(|| unknown_command(name, &commands))?;
        return Ok(CommandOutput {
            stdout: page(command)?,
            ..CommandOutput::default()
        });
    };
    let mut output = CommandOutput::default();
    for command in &commands {
        let path = folder.join(format!("{}.1", full_name(command)));
        refuse_foreign(&path, "--output-dir")?;
        write_text(&path, &page(command)?)?;
        output.lines.push(format!("written: {}", path.display()));
    }
    Ok(output)
}

/// The program and its commands, except hidden ones.
fn documented(parser: Command) -> Vec<Command> {
    let mut program = parser.disable_help_subcommand(true);
    program.build();
    let commands: Vec<Command> = program
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .cloned()
        .collect();
    std::iter::once(program).chain(commands).collect()
}

fn full_name(command: &Command) -> &str {
    command
        .get_display_name()
        .unwrap_or_else(|| command.get_name())
}

fn page(command: &Command) -> Result<String> {
    let mut bytes = Vec::new();
    render(command, &mut bytes)
        .map_err(|error| Error::internal(format!("cannot generate a manual page: {error}")))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn render(command: &Command, bytes: &mut Vec<u8>) -> io::Result<()> {
    let man = Man::new(command.clone());
    // The date is empty. `Man` would omit it, so that the following fields would shift.
    writeln!(
        bytes,
        ".TH \"{}\" \"1\" \"\" \"sobench {}\" \"User Commands\"",
        full_name(command),
        env!("CARGO_PKG_VERSION")
    )?;
    man.render_name_section(bytes)?;
    synopsis(command).to_writer(bytes)?;
    man.render_description_section(bytes)?;
    man.render_options_section(bytes)?;
    let has_commands = command
        .get_subcommands()
        .any(|command| !command.is_hide_set());
    if has_commands {
        man.render_subcommands_section(bytes)?;
    }
    let mut roff = Roff::new();
    exit_status(command, &mut roff);
    if !has_commands {
        roff.control("SH", ["SEE ALSO"])
            .text([bold("sobench"), roman("(1)")]);
    }
    roff.to_writer(bytes)
}

/// The usage of `--help`; that of `Man` lists every flag.
fn synopsis(command: &Command) -> Roff {
    let usage = command.clone().render_usage().to_string();
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    for line in usage.trim_start_matches("Usage:").lines() {
        roff.text([bold(line.trim())]).control("br", []);
    }
    roff
}

/// The exit codes of a command. The page of the program has those of `bench`.
fn exit_status(command: &Command, roff: &mut Roff) {
    let name = if command.get_name() == "sobench" {
        "bench"
    } else {
        command.get_name()
    };
    roff.control("SH", ["EXIT STATUS"]);
    for meaning in exit_codes::TABLE
        .iter()
        .filter(|meaning| meaning.command.is_none_or(|command| command == name))
    {
        roff.control("TP", [])
            .text([bold(meaning.code.to_string())])
            .text([roman(meaning.means.replace('`', ""))]);
    }
}

fn unknown_command(name: &str, commands: &[Command]) -> Error {
    let names: Vec<&str> = commands.iter().skip(1).map(Command::get_name).collect();
    Error::usage(format!("unknown command: {name}"))
        .hint(format!("use one of: {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn printed(command: &str) -> String {
        write_pages(
            &ManArgs {
                command: Some(command.to_owned()),
                output_dir: None,
            },
            Cli::command(),
        )
        .unwrap()
        .stdout
    }

    #[test]
    fn a_page_has_the_flags_and_exit_codes_of_its_command() {
        let page = printed("compare");
        for text in [
            ".TH \"sobench-compare\" \"1\" \"\" \"sobench ",
            "sobench compare [OPTIONS]",
            "fail\\-on",
            ".SH GATE",
            ".SH \"EXIT STATUS\"",
            "not comparable",
        ] {
            assert!(page.contains(text), "{text} is missing:\n{page}");
        }
        assert!(
            !page.contains("stopped at an error limit"),
            "an exit code of bench only:\n{page}"
        );
        let program = printed("sobench");
        assert!(
            program.contains("stopped at an error limit")
                && program.contains("sobench\\-compare(1)"),
            "{program}"
        );
        assert!(!program.contains("calibrate\\-server"), "{program}");
    }

    #[test]
    fn every_command_in_the_table_of_exit_codes_has_a_page() {
        let commands = documented(Cli::command());
        for name in exit_codes::TABLE
            .iter()
            .filter_map(|meaning| meaning.command)
            .filter(|name| !name.starts_with("sobench-tools "))
        {
            assert!(
                commands.iter().any(|command| command.get_name() == name),
                "{name}"
            );
        }
    }

    #[test]
    fn all_pages_are_written_to_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let pages = folder.path().join("man1");
        let output = write_pages(
            &ManArgs {
                command: None,
                output_dir: Some(pages.clone().into()),
            },
            Cli::command(),
        )
        .unwrap();
        assert_eq!(
            std::fs::read_dir(&pages).unwrap().count(),
            output.lines.len()
        );
        assert_eq!(
            std::fs::read_to_string(pages.join("sobench-report.1")).unwrap(),
            printed("report")
        );
    }

    #[test]
    fn unknown_commands_and_unwritable_folders_are_errors() {
        let error = write_pages(
            &ManArgs {
                command: Some("calibrate-server".to_owned()),
                output_dir: None,
            },
            Cli::command(),
        )
        .unwrap_err();
        assert!(error.exit_code() == 2 && error.hint.unwrap().contains("compare"));
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = write_pages(
            &ManArgs {
                command: None,
                output_dir: Some(file.path().to_owned().into()),
            },
            Cli::command(),
        )
        .unwrap_err();
        assert!(error.exit_code() == 3 && error.hint.is_some(), "{error}");
    }
}
