//! Options in one flag: each `KEY=VALUE` of `--dataset-options` and `--embedded` becomes the flag that
//! it stands for, before the command line is parsed. These flags may be typed too: other benchmarks
//! have those of datasets. Only `--help-all` shows them.

use std::ffi::OsString;

use clap::{Arg, Command};

use crate::commands::flags::engine::{EMBEDDED_HEADING, ENGINE_HEADING};
use sobench_core::error::{Error, Result};
use sobench_data::dataset::OPTIONS_HEADING;

/// Flags that hold options, with the headings of the flags that these stand for.
const GROUPS: [(&str, &[&str]); 2] = [
    ("dataset-options", &[OPTIONS_HEADING]),
    ("embedded", &[EMBEDDED_HEADING, ENGINE_HEADING]),
];

/// What the flags of the embedded server start with, and its options do not.
const PREFIX: &str = "embedded-";

/// The options of a flag in a command: each key, with the flag that it stands for.
pub fn options<'a>(command: &'a Command, flag: &str) -> Vec<(&'a str, &'a Arg)> {
    let group = GROUPS.iter().find(|(name, _)| *name == flag);
    let headings = group.map_or(&[][..], |(_, headings)| headings);
    let key = |long: &'a str| long.strip_prefix(PREFIX).unwrap_or(long);
    let keyed = command.get_arguments().filter(|arg: &&Arg| {
        let heading = arg.get_help_heading();
        heading.is_some_and(|heading| headings.contains(&heading)) && arg.get_long() != Some(flag)
    });
    keyed
        .filter_map(|arg| Some((key(arg.get_long()?), arg)))
        .collect()
}

/// The command that a command line names: `bench`, if the program has it, without a name.
pub(super) fn command_of<'a>(program: &'a Command, arguments: &[OsString]) -> &'a Command {
    let first = arguments.get(1).and_then(|first| first.to_str());
    let named = first.and_then(|first| program.find_subcommand(first));
    let command = named.or_else(|| program.find_subcommand("bench"));
    command.unwrap_or(program)
}

/// Replaces the flags that hold options by the flags that these stand for.
///
/// # Errors
/// An unknown option, or one without a value.
pub(super) fn expand(program: &Command, arguments: &[OsString]) -> Result<Vec<OsString>> {
    let command = command_of(program, arguments);
    let mut expanded = Vec::with_capacity(arguments.len());
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let typed = argument.to_str().and_then(|text| text.strip_prefix("--"));
        let (name, value) = split_at_equals(typed.unwrap_or_default());
        let name = name.replace('_', "-");
        let options = options(command, &name);
        if options.is_empty() {
            expanded.push(argument.clone());
            continue;
        }
        let next = || rest.next().and_then(|value| value.to_str());
        let Some(value) = value.strip_prefix('=').or_else(next) else {
            return Err(Error::usage(format!("missing: value of --{name}"))
                .hint(format!("give options, such as {}=VALUE", options[0].0)));
        };
        for option in split(value, &options) {
            expanded.push(flag(option, &name, &options)?);
        }
    }
    Ok(expanded)
}

/// Splits at commas that a key follows. Values may have commas.
fn split<'a>(text: &'a str, options: &[(&str, &Arg)]) -> Vec<&'a str> {
    let mut parts = Vec::new();
    let mut from = 0;
    for (at, _) in text.match_indices(',') {
        let next = text[at + 1..].split([',', '=']).next();
        let next = next.unwrap_or_default().replace('_', "-");
        if options.iter().any(|(key, _)| *key == next) {
            parts.push(&text[from..at]);
            from = at + 1;
        }
    }
    parts.push(&text[from..]);
    parts
}

/// The name, and the rest from `=`.
pub(super) fn split_at_equals(text: &str) -> (&str, &str) {
    text.split_at(text.find('=').unwrap_or(text.len()))
}

/// The flag of one option.
fn flag(option: &str, group: &str, options: &[(&str, &Arg)]) -> Result<OsString> {
    let (key, value) = split_at_equals(option);
    let key = key.replace('_', "-");
    let Some((_, arg)) = options.iter().find(|(known, _)| *known == key) else {
        let known: Vec<&str> = options.iter().map(|(key, _)| *key).collect();
        return Err(Error::usage(format!("unknown option of --{group}: {key}"))
            .hint(format!("give one of {}", known.join(", "))));
    };
    let long = arg.get_long().unwrap_or_default();
    match (arg.get_action().takes_values(), value) {
        (true, "") => Err(
            Error::usage(format!("missing: value of {key} in --{group}"))
                .hint(format!("write {key}=VALUE")),
        ),
        (true, value) => Ok(format!("--{long}{value}").into()),
        (false, "" | "=true") => Ok(format!("--{long}").into()),
        (false, value) => Err(Error::usage(format!(
            "option of --{group} is a switch: {key}{value}"
        ))
        .hint(format!("write {key}=true, or leave it out"))),
    }
}

#[cfg(test)]
mod tests {
    use crate::cli::{Command as Parsed, Stopped, parse};

    fn parsed(typed: &[&str]) -> Result<Parsed, Stopped> {
        parse(std::iter::once(&"sobench").chain(typed).map(Into::into))
    }

    #[test]
    fn options_are_the_flags_that_they_stand_for() {
        let typed = [
            "--dataset",
            "random",
            "--dataset-options",
            "random-range-ratio={\"input\":0.1,\"output\":0.2},disable-shuffle=true",
            "--dataset_options=bfcl-categories=simple,parallel,random_input_len=7",
            "--embedded",
            "knows=0.1,0.2,0.3,max-batch=4,compile-threads=2",
        ];
        let Ok(Parsed::Bench(flags)) = parsed(&typed) else {
            panic!("{typed:?}")
        };
        let rows = format!("{:?}", flags.dataset.rows);
        for text in [
            "disable_shuffle: true",
            "\"simple\", \"parallel\"",
            "Some(7)",
        ] {
            assert!(rows.contains(text), "{text}: {rows}");
        }
        assert_eq!(flags.embedded.embedded_max_batch, 4);
        assert_eq!(flags.engine.compile_threads, 2);
        assert!(flags.knowledge.embedded_knows.is_some());
    }

    #[test]
    fn wrong_options_are_refused() {
        for (typed, what, hint) in [
            (
                &["--embedded", "speeed=1"][..],
                "unknown option of --embedded: speeed",
                "speed, ",
            ),
            (
                &["--embedded"],
                "missing: value of --embedded",
                "speed=VALUE",
            ),
            (
                &["--embedded", "speed"],
                "missing: value of speed in --embedded",
                "speed=VALUE",
            ),
            (
                &["--dataset-options", "no-oversample=1"],
                "option of --dataset-options is a switch: no-oversample=1",
                "no-oversample=true",
            ),
        ] {
            match parsed(typed) {
                Err(Stopped::Failed(error)) => {
                    assert_eq!(error.what, what);
                    let found = error.hint.as_deref().unwrap_or_default();
                    assert!(found.contains(hint), "{found}");
                }
                other => panic!("{typed:?}: {other:?}"),
            }
        }
    }
}
