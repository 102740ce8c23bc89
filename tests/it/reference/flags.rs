//! The page of flags, generated from the parser.

use clap::{Arg, Command, CommandFactory};
use sobench::cli::Cli;
use sobench::cli::help::first_sentence;

use super::table;

pub(super) fn page() -> String {
    let mut program = Cli::command();
    program.build();
    let commands = program
        .get_subcommands()
        .filter(|subcommand| !subcommand.is_hide_set() && subcommand.get_name() != "help");
    let intro = "Flag names accept `_` in place of `-`. The default command is `bench`. `--help` of a command has every value and detail, `sobench-tools --help` the second program.\n";
    let mut known = Vec::new();
    commands.fold(intro.to_owned(), |page, command| {
        page + &section(command, &mut known)
    })
}

/// `known` are the rows so far: a flag that another command has is named only.
fn section(command: &Command, known: &mut Vec<Vec<String>>) -> String {
    let about = command
        .get_about()
        .map(ToString::to_string)
        .unwrap_or_default();
    let mut section = format!("\n## sobench {}\n{about}\n", command.get_name());
    if command.get_name() == "matrix" {
        section.push_str("\nIt takes the flags of `bench`.\n");
        return section;
    }
    let shown = command.get_arguments();
    let shown = shown.filter(|argument| !argument.is_hide_set() && argument.get_id() != "help");
    let (repeated, shown): (Vec<&Arg>, Vec<&Arg>) =
        shown.partition(|argument| known.contains(&row(argument)));
    known.extend(shown.iter().map(|argument| row(argument)));
    if !repeated.is_empty() {
        let names: Vec<String> = repeated.iter().map(|argument| names(argument)).collect();
        section.push_str(&format!("\nAs above: {}.\n", names.join("; ")));
    }
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
        section.push_str(&format!("\n{}", table(&["flag", "default", "does"], &rows)));
    }
    section + &hidden(command)
}

/// The names of the flags that only `--help-all` explains, by heading.
fn hidden(command: &Command) -> String {
    if command.get_name() != "bench" {
        return String::new();
    }
    let mut by_heading: Vec<(&str, Vec<String>)> = Vec::new();
    for argument in command.get_arguments().filter(|flag| flag.is_hide_set()) {
        let heading = argument.get_help_heading().unwrap_or("Other");
        let name = format!("`{}`", argument.get_long().unwrap_or_default());
        match by_heading.iter_mut().find(|(known, _)| *known == heading) {
            Some((_, names)) => names.push(name),
            None => by_heading.push((heading, vec![name])),
        }
    }
    let lists = by_heading
        .iter()
        .map(|(heading, names)| format!("- {heading}: {}\n", names.join(", ")));
    format!(
        "\n### In `sobench bench --help-all` only\n{}",
        lists.collect::<String>()
    )
}

fn row(arg: &Arg) -> Vec<String> {
    let help = arg
        .get_long_help()
        .or(arg.get_help())
        .map(ToString::to_string)
        .unwrap_or_default();
    // The rest is in `--help`.
    vec![names(arg), default(arg), first_sentence(&help).to_owned()]
}

fn names(arg: &Arg) -> String {
    let long = arg
        .get_long_and_visible_aliases()
        .unwrap_or_default()
        .into_iter()
        .map(|name| format!("`--{name}`"));
    let short = arg.get_short().map(|letter| format!("`-{letter}`"));
    let value = if takes_values(arg) {
        value(arg)
    } else {
        String::new()
    };
    long.chain(short).collect::<Vec<_>>().join(", ") + &value
}

fn takes_values(arg: &Arg) -> bool {
    arg.get_num_args().is_some_and(|range| range.takes_values())
}

/// The value names of the flag; `...` if several are allowed.
fn value(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    let names: String = names.iter().map(|name| format!(" `{name}`")).collect();
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
