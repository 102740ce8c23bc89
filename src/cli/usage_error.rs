//! Errors of the argument parser as an error line and a hint line.

use std::error::Error as _;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::commands::flags::paths::is_output;
use sobench_core::error::Error;

/// An error of the parser of `command`, one of the commands of `program`.
pub(super) fn from_parser(error: &clap::Error, program: &Command, command: &Command) -> Error {
    let name = program.get_name();
    let (what, hint) = match error.kind() {
        ErrorKind::UnknownArgument => unknown_argument(error, name, command),
        ErrorKind::InvalidSubcommand => unknown_command(error, program),
        ErrorKind::InvalidValue => invalid_value(error, command),
        ErrorKind::ValueValidation => {
            let hint = error
                .source()
                .map(|source| number_hint(&source.to_string(), takes_a_list(error, command)));
            (wrong_value(error), hint)
        }
        ErrorKind::TooManyValues => (
            format!("unexpected value for {}: {}", flag(error), value(error)),
            Some("leave the value out".to_owned()),
        ),
        ErrorKind::ArgumentConflict => conflict(error),
        ErrorKind::MissingRequiredArgument => {
            let missing = texts(error, ContextKind::InvalidArg).join(", ");
            (
                format!("missing: {missing}"),
                Some(format!("add {missing}")),
            )
        }
        _ => (first_line(error), None),
    };
    let path = command.get_bin_name().unwrap_or(name);
    Error::usage(what).hint(hint.unwrap_or_else(|| format!("run {path} --help to list all flags")))
}

/// An error line and its hint; `None` refers to the help.
type Lines = (String, Option<String>);

fn unknown_argument(error: &clap::Error, program: &str, command: &Command) -> Lines {
    let argument = text(error, ContextKind::InvalidArg).unwrap_or_default();
    let what = if argument.starts_with('-') {
        format!("unknown flag: {argument}")
    } else {
        format!("unexpected argument: {argument}")
    };
    // Of a flag that another command has: "'preflight --features' exists".
    let elsewhere = || match error.get(ContextKind::Suggested) {
        Some(ContextValue::StyledStrs(sentences)) => {
            let sentence = sentences.last()?.to_string();
            let (command, _) = sentence.strip_prefix('\'')?.split_once('\'')?;
            Some(format!("try {program} {command}"))
        }
        _ => None,
    };
    let nearest = text(error, ContextKind::SuggestedArg)
        .filter(|flag| may_suggest(argument_name(argument), argument_name(flag), command))
        .map(|flag| format!("try {flag}"));
    (what, moved(argument).or(nearest).or_else(elsewhere))
}

/// What to write in place of a command or a flag that is gone.
fn moved(typed: &str) -> Option<String> {
    let instead = match typed {
        "mask" => "run sobench-tools mask, a program of its own",
        "--limits" => "run sobench-tools limits, a program of its own",
        "--html" | "--markdown" | "--csv" | "--junit" | "--json" | "--save-comparison"
        | "--output" | "--report" => "write --save FILE; the extension of FILE is the format",
        _ => return None,
    };
    Some(instead.to_owned())
}

/// The name of a flag without dashes and value.
fn argument_name(flag: &str) -> &str {
    let name = flag.trim_start_matches('-');
    name.split(['=', ' ']).next().unwrap_or(name)
}

/// Edits of a typing error.
const MAX_EDITS: usize = 2;

/// Whether a hint may name the flag `suggested` for the unknown `typed`. The value of an unknown flag
/// may be an input, so that an output is suggested only for a typing error.
pub(super) fn may_suggest(typed: &str, suggested: &str, command: &Command) -> bool {
    let mut arguments = command.get_arguments();
    let is_output = arguments
        .find(|argument| argument.get_long() == Some(suggested))
        .is_some_and(is_output);
    !is_output || strsim::osa_distance(typed, suggested) <= MAX_EDITS
}

fn unknown_command(error: &clap::Error, program: &Command) -> Lines {
    let command = text(error, ContextKind::InvalidSubcommand).unwrap_or_default();
    let nearest = texts(error, ContextKind::SuggestedSubcommand);
    let hint = moved(command).unwrap_or_else(|| match nearest.last() {
        Some(nearest) => format!("try {} {nearest}", program.get_name()),
        None => {
            let shown = program
                .get_subcommands()
                .filter(|command| !command.is_hide_set());
            let names: Vec<&str> = shown.map(Command::get_name).collect();
            format!("use one of: {}", names.join(", "))
        }
    });
    (format!("unknown command: {command}"), Some(hint))
}

fn invalid_value(error: &clap::Error, command: &Command) -> Lines {
    let (flag, value) = (flag(error), value(error));
    let possible = texts(error, ContextKind::ValidValue).join(", ");
    if value.is_empty() {
        let hint = if possible.is_empty() {
            format!(
                "write {}",
                text(error, ContextKind::InvalidArg).unwrap_or_default()
            )
        } else {
            format!("give one of: {possible}")
        };
        return (format!("{flag} needs a value"), Some(hint));
    }
    let of_path = format!("{}-path", flag.trim_start_matches('-'));
    let takes_path = command
        .get_arguments()
        .any(|argument| argument.get_long() == Some(&of_path));
    let hint = if takes_path && value.contains(['.', '/', '\\']) {
        format!("use --{of_path} {value} to read a file, or give one of: {possible}")
    } else {
        match text(error, ContextKind::SuggestedValue) {
            Some(nearest) => format!("try {nearest}, or give one of: {possible}"),
            None => format!("give one of: {possible}"),
        }
    };
    (wrong_value(error), Some(hint))
}

fn wrong_value(error: &clap::Error) -> String {
    format!("invalid value for {}: {}", flag(error), value(error))
}

/// Whether the flag takes several values, separated by commas.
fn takes_a_list(error: &clap::Error, command: &Command) -> bool {
    let flag = flag(error);
    let mut arguments = command.get_arguments();
    arguments
        .find(|argument| argument.get_long() == Some(flag.trim_start_matches('-')))
        .is_some_and(|argument| argument.get_value_delimiter().is_some())
}

/// The hint for a value of a numeric flag, from the sentence of the parser.
fn number_hint(sentence: &str, is_list: bool) -> String {
    if let Some((_, range)) = sentence.split_once(" is not in ") {
        return match range.split_once("..=") {
            Some(("", most)) => format!("give a number up to {most}"),
            Some((least, most)) => format!("give a number from {least} to {most}"),
            None => format!("give a number in {range}"),
        };
    }
    match sentence {
        "invalid digit found in string" | "cannot parse integer from empty string" => match is_list
        {
            true => "give whole numbers, separated by commas".to_owned(),
            false => "give a whole number".to_owned(),
        },
        "invalid float literal" | "cannot parse float from empty string" => match is_list {
            true => "give numbers, separated by commas".to_owned(),
            false => "give a number".to_owned(),
        },
        "value was not a boolean" => "give on or off".to_owned(),
        other => format!(
            "correct the value: {}",
            other.lines().collect::<Vec<_>>().join(" ")
        ),
    }
}

fn conflict(error: &clap::Error) -> Lines {
    let others: Vec<&str> = texts(error, ContextKind::PriorArg)
        .into_iter()
        .map(without_value)
        .collect();
    let others = others.join(", ");
    if let Some(command) = text(error, ContextKind::InvalidSubcommand) {
        return (
            format!("flags before the command {command}: {others}"),
            Some(format!("write the command first: sobench {command}")),
        );
    }
    let flag = flag(error);
    if others == flag || others.is_empty() {
        return (
            format!("flag given more than once: {flag}"),
            Some("give it once".to_owned()),
        );
    }
    (
        format!("{flag} cannot be used with {others}"),
        Some("leave one of them out".to_owned()),
    )
}

/// The first line of the parser's message, for errors without context.
fn first_line(error: &clap::Error) -> String {
    let message = error.to_string();
    let line = message.lines().next().unwrap_or_default();
    line.trim_start_matches("error: ").to_owned()
}

fn flag(error: &clap::Error) -> &str {
    without_value(text(error, ContextKind::InvalidArg).unwrap_or_default())
}

fn value(error: &clap::Error) -> &str {
    text(error, ContextKind::InvalidValue).unwrap_or_default()
}

/// `--dataset` of `--dataset <NAME>`; a positional argument is left as it is.
fn without_value(argument: &str) -> &str {
    if argument.starts_with('-') {
        argument.split([' ', '=', '[']).next().unwrap_or(argument)
    } else {
        argument
    }
}

fn text(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text),
        _ => None,
    }
}

fn texts(error: &clap::Error, kind: ContextKind) -> Vec<&str> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text],
        Some(ContextValue::Strings(texts)) => texts.iter().map(String::as_str).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use sobench_core::exit_codes::USAGE;

    use crate::cli::{Stopped, parse};

    #[test]
    fn errors_of_the_parser_have_one_line_and_one_hint() {
        for (typed, what, hint) in [
            (
                "--num-promts 3",
                "unknown flag: --num-promts",
                "try --num-prompts",
            ),
            (
                "--zzzz",
                "unknown flag: --zzzz",
                "run sobench bench --help to list all flags",
            ),
            (
                "score --zzzz",
                "unknown flag: --zzzz",
                "run sobench score --help to list all flags",
            ),
            ("comprae", "unknown command: comprae", "try sobench compare"),
            (
                "--port 99999",
                "invalid value for --port: 99999",
                "give a number from 0 to 65535",
            ),
            (
                "--seed x",
                "invalid value for --seed: x",
                "give a whole number",
            ),
            (
                "calibrate --streams 1,x",
                "invalid value for --streams: x",
                "give whole numbers, separated by commas",
            ),
            ("--top-p x", "invalid value for --top-p: x", "give a number"),
            (
                "--wire=maybe",
                "invalid value for --wire: maybe",
                "give on or off",
            ),
            ("--port", "--port needs a value", "write --port <PORT>"),
            (
                "--save-result=x",
                "unexpected value for --save-result: x",
                "leave the value out",
            ),
            (
                "--seed 1 --seed 2",
                "flag given more than once: --seed",
                "give it once",
            ),
            (
                "--no-run-log --run-log a",
                "--no-run-log cannot be used with --run-log",
                "leave one of them out",
            ),
            (
                "--ramp-up-start-rps 1",
                "missing: --ramp-up-end-rps <RPS>, --ramp-up-strategy <HOW>",
                "add --ramp-up-end-rps <RPS>, --ramp-up-strategy <HOW>",
            ),
            (
                "--seed 1 serve",
                "flags before the command serve: --seed",
                "write the command first: sobench serve",
            ),
            (
                "mask --corpus a",
                "unknown command: mask",
                "run sobench-tools mask, a program of its own",
            ),
            (
                "--html x",
                "unknown flag: --html",
                "write --save FILE; the extension of FILE is the format",
            ),
            (
                "report a --output x",
                "unknown flag: --output",
                "write --save FILE; the extension of FILE is the format",
            ),
            (
                "preflight --limits",
                "unknown flag: --limits",
                "run sobench-tools limits, a program of its own",
            ),
            (
                "--json-schema my.json",
                "invalid value for --json-schema: my.json",
                "use --json-schema-path my.json to read a file, or give one of: brief, nested",
            ),
            (
                "--grammar-dialect larc",
                "invalid value for --grammar-dialect: larc",
                "try lark, or give one of: auto, lark, ebnf",
            ),
        ] {
            let arguments = std::iter::once("sobench")
                .chain(typed.split(' '))
                .map(Into::into);
            let Err(Stopped::Failed(error)) = parse(arguments) else {
                panic!("{typed} is accepted");
            };
            let found = (
                error.what.as_str(),
                error.hint.as_deref(),
                error.exit_code(),
            );
            assert_eq!(found, (what, Some(hint), USAGE), "{typed}");
        }
    }

    #[test]
    fn help_and_version_are_not_errors() {
        for typed in ["--help", "-h", "--version", "serve --help"] {
            let arguments = std::iter::once("sobench")
                .chain(typed.split(' '))
                .map(Into::into);
            assert!(matches!(parse(arguments), Err(Stopped::Help(_))), "{typed}");
        }
    }
}
