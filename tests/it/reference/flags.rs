//! The page of flags, generated from the parser.

use clap::{Arg, Command, CommandFactory};
use sobench::cli::Cli;

use super::table;

pub(super) fn page() -> String {
    let mut program = Cli::command();
    program.build();
    let commands = program
        .get_subcommands()
        .filter(|subcommand| !subcommand.is_hide_set() && subcommand.get_name() != "help");
    let intro = "Flag names accept `_` in place of `-`. The default command is `bench`. Every command has `--help` and `-h`.\n";
    commands.fold(intro.to_owned(), |page, command| page + &section(command))
}

fn section(command: &Command) -> String {
    let about = command
        .get_about()
        .map(ToString::to_string)
        .unwrap_or_default();
    let mut section = format!("\n## sobench {}\n{about}\n", command.get_name());
    if command.get_name() == "matrix" {
        section.push_str("\nIt takes the flags of `bench`.\n");
        return section;
    }
    let shown: Vec<&Arg> = command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set() && argument.get_id() != "help")
        .collect();
    let mut headings: Vec<Option<&str>> = Vec::new();
    for heading in shown.iter().map(|argument| argument.get_help_heading()) {
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    headings.sort_by_key(Option::is_some);
    for heading in headings {
        let rows: Vec<Vec<String>> = shown
            .iter()
            .filter(|argument| argument.get_help_heading() == heading)
            .map(|argument| row(argument))
            .collect();
        section.push_str(
            &heading
                .map(|title| format!("\n### {title}\n"))
                .unwrap_or_default(),
        );
        section.push_str(&format!(
            "\n{}",
            table(&["flag", "value", "default", "does"], &rows)
        ));
    }
    section
}

fn row(arg: &Arg) -> Vec<String> {
    let help = arg
        .get_long_help()
        .or(arg.get_help())
        .map(ToString::to_string)
        .unwrap_or_default();
    vec![names(arg), value(arg), default(arg), help + &values(arg)]
}

fn names(arg: &Arg) -> String {
    let long = arg
        .get_long_and_visible_aliases()
        .unwrap_or_default()
        .into_iter()
        .map(|name| format!("`--{name}`"));
    let short = arg.get_short().map(|letter| format!("`-{letter}`"));
    long.chain(short).collect::<Vec<_>>().join(", ")
}

fn takes_values(arg: &Arg) -> bool {
    arg.get_num_args().is_some_and(|range| range.takes_values())
}

/// The value names of the flag; `...` if several are allowed.
fn value(arg: &Arg) -> String {
    if !takes_values(arg) {
        return String::new();
    }
    let names = arg
        .get_value_names()
        .unwrap_or_default()
        .iter()
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(" ");
    let may_be_several = arg
        .get_num_args()
        .is_some_and(|range| range.max_values() > range.min_values().max(1));
    if may_be_several {
        format!("{names} ...")
    } else {
        names
    }
}

fn default(arg: &Arg) -> String {
    let values: Vec<String> = arg
        .get_default_values()
        .iter()
        .map(|value| format!("`{}`", value.to_string_lossy()))
        .collect();
    if takes_values(arg) {
        values.join(" ")
    } else {
        String::new()
    }
}

/// The possible values, if they are listed.
fn values(arg: &Arg) -> String {
    let listed = arg
        .get_possible_values()
        .into_iter()
        .filter(|value| !value.is_hide_set());
    let listed: Vec<String> = match takes_values(arg) {
        true => listed
            .map(|value| {
                format!(
                    "`{}`{}",
                    value.get_name(),
                    value
                        .get_help()
                        .map(|help| format!(" ({help})"))
                        .unwrap_or_default()
                )
            })
            .collect(),
        false => Vec::new(),
    };
    if listed.is_empty() {
        String::new()
    } else {
        format!(". One of {}", listed.join(", "))
    }
}
