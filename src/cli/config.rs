//! Flags of a benchmark from a TOML file (`--config`). Each key becomes a flag on the command line.

use std::ffi::OsString;
use std::path::Path;

use clap::{Arg, ArgAction, Command, CommandFactory};
use toml_edit::{Document, Item, TableLike, Value};

use super::Cli;
use super::options::split_at_equals;
use super::usage_error::may_suggest;
use sobench_core::error::{Error, Result};
use sobench_core::input;

/// The largest configuration file.
const MAX_BYTES: u64 = 1 << 20;

/// The flag that names the file.
const CONFIG: &str = "config";

/// The least Jaro-Winkler similarity (0 to 1) of an unknown key to the flag that a hint suggests.
const MIN_SIMILARITY: f64 = 0.8;

/// Inserts the flags of the `--config` file before the typed flags. A typed flag replaces the same
/// flag of the file, and those that conflict with it.
///
/// # Errors
/// The file cannot be read, is not TOML, or has an unknown flag or a value of a wrong type.
pub fn expand(arguments: impl IntoIterator<Item = OsString>) -> Result<Vec<OsString>> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    let program = Cli::command();
    let first = arguments
        .get(1)
        .and_then(|argument| argument.to_str())
        .unwrap_or_default();
    let flags_at = if ["bench", "matrix"].contains(&first) {
        2
    } else {
        1
    };
    if flags_at == 1
        && program
            .get_subcommands()
            .any(|command| command.get_name() == first)
    {
        return Ok(arguments);
    }
    let Some(path) = config_path(&arguments[flags_at.min(arguments.len())..]) else {
        return Ok(arguments);
    };
    let bench = program.find_subcommand("bench").unwrap_or(&program);
    let added = file_flags(
        &input::read_text(Path::new(&path), MAX_BYTES)?,
        Path::new(&path),
        bench,
        &typed(bench, &arguments),
    )?;
    arguments.splice(flags_at..flags_at, added);
    Ok(arguments)
}

fn config_path(arguments: &[OsString]) -> Option<OsString> {
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument
            .to_str()
            .and_then(|text| text.strip_prefix("--"))
            .map(split_at_equals)
        {
            Some((CONFIG, "")) => return arguments.next().cloned(),
            Some((CONFIG, value)) => return Some(value[1..].into()),
            _ => {}
        }
    }
    None
}

/// The typed flags.
fn typed<'a>(bench: &'a Command, arguments: &[OsString]) -> Vec<&'a Arg> {
    let names = arguments
        .iter()
        .filter_map(|argument| argument.to_str()?.strip_prefix("--"));
    names
        .filter_map(|text| flag(bench, &split_at_equals(text).0.replace('_', "-")))
        .collect()
}

pub(crate) fn flag<'a>(bench: &'a Command, name: &str) -> Option<&'a Arg> {
    let is_named = |arg: &&Arg| super::names_of(arg).any(|known| known == name);
    bench.get_arguments().find(is_named)
}

fn file_flags(text: &str, path: &Path, bench: &Command, typed: &[&Arg]) -> Result<Vec<OsString>> {
    let document = parse_toml(text, path, "write each flag as a line: num-prompts = 200")?;
    if document.as_table().is_empty() {
        return Err(Error::usage(format!(
            "no flag in the configuration file: {}",
            path.display()
        ))
        .hint("add a flag, such as num-prompts = 200, or leave --config out"));
    }
    table_flags(document.as_table().iter(), text, path, bench, typed)
}

/// The text of a file as TOML.
///
/// # Errors
/// It is not, with its line.
pub(crate) fn parse_toml<'t>(text: &'t str, path: &Path, hint: &str) -> Result<Document<&'t str>> {
    Document::parse(text).map_err(|error| {
        let (line, column) = line_and_column(text, error.span().map_or(0, |span| span.start));
        let message = error
            .message()
            .lines()
            .map(str::trim)
            .collect::<Vec<_>>()
            .join(", ");
        Error::usage(format!(
            "{}, line {line}, column {column}: not TOML: {message}",
            path.display()
        ))
        .hint(hint)
    })
}

/// The flags of a command that these keys of a file stand for, except for those that typed flags
/// replace.
///
/// # Errors
/// An unknown flag, one that is given twice, or a value of a wrong type.
pub(crate) fn table_flags<'i>(
    items: impl Iterator<Item = (&'i str, &'i Item)>,
    text: &str,
    path: &Path,
    command: &Command,
    typed: &[&Arg],
) -> Result<Vec<OsString>> {
    let mut flags = Vec::new();
    let mut known: Vec<&str> = Vec::new();
    for (key, item) in items {
        let name = key.replace('_', "-");
        let arg = flag(command, &name)
            .filter(|_| name != CONFIG)
            .ok_or_else(|| unknown(key, &name, path, command))?;
        let id = arg.get_id().as_str();
        if known.contains(&id) {
            return Err(
                Error::usage(format!("flag given twice in {}: {key}", path.display()))
                    .hint("leave one of them out"),
            );
        }
        known.push(id);
        let conflicts = |one: &Arg, other: &Arg| {
            command
                .get_arg_conflicts_with(one)
                .iter()
                .any(|conflicting| conflicting.get_id() == other.get_id())
        };
        if !typed.iter().any(|typed: &&Arg| {
            typed.get_id() == arg.get_id() || conflicts(typed, arg) || conflicts(arg, typed)
        }) {
            flags.extend(as_typed(arg, &name, item).map_err(|what| {
                let written = item
                    .span()
                    .and_then(|span| text.get(span))
                    .unwrap_or_default();
                Error::usage(format!("{what} in {}: {key} = {written}", path.display())).hint(
                    "write the value as on the command line, or a list for a flag that takes several",
                )
            })?);
        }
    }
    Ok(flags)
}

/// The line and the column of a byte offset, both from 1.
fn line_and_column(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let line = before.rfind('\n').map_or(before, |end| &before[end + 1..]);
    (1 + before.matches('\n').count(), 1 + line.chars().count())
}

fn unknown(key: &str, name: &str, path: &Path, bench: &Command) -> Error {
    let names = bench
        .get_arguments()
        .filter_map(Arg::get_long_and_visible_aliases)
        .flatten();
    let similarity = |candidate: &str| strsim::jaro_winkler(candidate, name);
    let nearest = names
        .filter(|candidate| ![CONFIG, "help", "version"].contains(candidate))
        .filter(|candidate| may_suggest(name, candidate, bench))
        .max_by(|one, other| similarity(one).total_cmp(&similarity(other)));
    let hint = match nearest.filter(|candidate| similarity(candidate) >= MIN_SIMILARITY) {
        Some(nearest) => format!("try {nearest}"),
        None => "write a flag without its dashes; sobench bench --help lists all flags".to_owned(),
    };
    Error::usage(format!("unknown flag in {}: {key}", path.display())).hint(hint)
}

/// A key and its value as on the command line.
fn as_typed(
    arg: &Arg,
    name: &str,
    item: &Item,
) -> std::result::Result<Vec<OsString>, &'static str> {
    let with = |value: &str| OsString::from(format!("--{name}={value}"));
    if let (ArgAction::SetTrue, Some(value)) = (arg.get_action(), item.as_value()) {
        return match value.as_bool() {
            Some(true) => Ok(vec![format!("--{name}").into()]),
            Some(false) => Ok(Vec::new()),
            None => Err("neither true nor false for a switch"),
        };
    }
    let takes_several = matches!(arg.get_action(), ArgAction::Append);
    match item {
        Item::Value(Value::Array(_)) if !takes_several => {
            Err("list for a flag that takes one value")
        }
        Item::Value(Value::Array(values)) => values
            .iter()
            .map(|value| Ok(with(&scalar(value)?)))
            .collect(),
        Item::Value(Value::InlineTable(table)) => table_pairs(arg, table, &with),
        Item::Table(table) => table_pairs(arg, table, &with),
        Item::Value(value) => Ok(vec![with(&scalar(value)?)]),
        Item::None | Item::ArrayOfTables(_) => Err("not a value of a flag"),
    }
}

/// Pairs for a flag that takes `KEY=VALUE` or `METRIC:MS`.
fn table_pairs(
    arg: &Arg,
    table: &dyn TableLike,
    with: &dyn Fn(&str) -> OsString,
) -> std::result::Result<Vec<OsString>, &'static str> {
    let value_name = arg
        .get_value_names()
        .and_then(|names| names.first())
        .map(|name| name.as_str())
        .unwrap_or_default();
    let separator = ['=', ':']
        .into_iter()
        .find(|separator| value_name.contains(*separator))
        .ok_or("table for a flag that takes no pairs")?;
    let pair = |(key, item): (&str, &Item)| {
        let value = item.as_value().ok_or("table within a table")?;
        Ok(with(&format!("{key}{separator}{}", scalar(value)?)))
    };
    table.iter().map(pair).collect()
}

fn scalar(value: &Value) -> std::result::Result<String, &'static str> {
    match value {
        Value::String(text) => Ok(text.value().clone()),
        Value::Integer(number) => Ok(number.value().to_string()),
        Value::Float(number) => Ok(number.value().to_string()),
        Value::Boolean(value) => Ok(value.value().to_string()),
        Value::Datetime(_) | Value::Array(_) | Value::InlineTable(_) => {
            Err("value of a wrong type")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::cli::Command as Parsed;
    use crate::commands::bench::args::BenchArgs;

    /// The flags of these arguments and this configuration file.
    fn parse(file: &str, arguments: &[&str]) -> Result<BenchArgs> {
        let mut on_disk = tempfile::NamedTempFile::new().unwrap();
        on_disk.write_all(file.as_bytes()).unwrap();
        let config = on_disk.path().to_str().unwrap();
        let named = ["--config", config];
        let typed = ["sobench"]
            .iter()
            .chain(arguments)
            .chain(&named)
            .map(OsString::from);
        let parsed = Cli::parse_arguments(expand(typed)?).unwrap_or_else(|error| panic!("{error}"));
        match parsed.into_command() {
            Parsed::Bench(arguments) => Ok(*arguments),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn values_of_every_type_become_flags() {
        let file = r#"
            num_prompts = 7
            request-rate = inf
            temperature = 0.5
            dataset = ["json", "choice"]
            guided_decoding_backend = "xgrammar,guidance"
            save-result = true
            ignore_eos = false
            goodput = { ttft = 200, e2el = 5000.5 }
            extra-body = '{"a": 1}'
            [metadata]
            gpu = "none"
            [target]
            one = "http://a/v1"
        "#;
        for command in [&[][..], &["bench"]] {
            let found = parse(file, command).unwrap();
            assert_eq!(
                (found.traffic.num_prompts, found.traffic.request_rate),
                (Some(7), f64::INFINITY)
            );
            assert_eq!(found.sampling.temperature, Some(0.5));
            assert_eq!(found.dataset.dataset, ["json", "choice"]);
            assert_eq!(
                found.constraint.guided_decoding_backend,
                ["xgrammar", "guidance"]
            );
            assert_eq!(
                (found.output.save_result, found.sampling.ignore_eos),
                (true, false)
            );
            assert_eq!(found.output.goodput, ["ttft:200", "e2el:5000.5"]);
            assert_eq!(found.sampling.extra_body.as_deref(), Some("{\"a\": 1}"));
            assert_eq!(
                (&found.output.metadata[..], &found.matrix.target[..]),
                (
                    &["gpu=none".to_owned()][..],
                    &["one=http://a/v1".to_owned()][..]
                )
            );
        }
    }

    #[test]
    fn typed_flags_replace_those_of_the_file() {
        let file = "seed = 1\ndataset = ['json', 'choice']\nguided-decoding-ratio = 0.5\nrun_log = 'x.jsonl'\nnum-prompts = 3";
        let found = parse(
            file,
            &[
                "--seed=2",
                "--dataset-name",
                "regex",
                "--no_guided_decoding",
                "--no-run-log",
            ],
        )
        .unwrap();
        assert_eq!(
            (found.traffic.seed, found.traffic.num_prompts),
            (2, Some(3))
        );
        assert_eq!(
            found.dataset.dataset,
            ["regex"],
            "a list is replaced, not added to"
        );
        assert_eq!(
            (
                found.constraint.guided_decoding_ratio,
                found.constraint.no_guided_decoding
            ),
            (None, true)
        );
        assert_eq!(
            (found.output.run_log, found.output.no_run_log),
            (None, true)
        );
    }

    #[test]
    fn wrong_files_keys_and_values_are_refused() {
        for (file, what, hint) in [
            (
                "",
                "no flag in the configuration file: FILE",
                "leave --config out",
            ),
            (
                "num-promts = 3",
                "unknown flag in FILE: num-promts",
                "try num-prompts",
            ),
            (
                "requestrate = 3",
                "unknown flag in FILE: requestrate",
                "try request-rate",
            ),
            ("zzz = 3", "unknown flag in FILE: zzz", "without its dashes"),
            ("config = 'x'", "unknown flag in FILE: config", ""),
            (
                "seed = 1\nseed = 2",
                "FILE, line 2, column 1: not TOML: duplicate key",
                "num-prompts = 200",
            ),
            (
                "seed = 1\n'se_ed' = 1",
                "unknown flag in FILE: se_ed",
                "seed",
            ),
            (
                "run-log = 'a'\nrun_log = 'b'",
                "flag given twice in FILE: run_log",
                "leave one",
            ),
            (
                "seed = [1]",
                "list for a flag that takes one value in FILE: seed = [1]",
                "",
            ),
            (
                "ignore-eos = 1",
                "neither true nor false for a switch in FILE: ignore-eos = 1",
                "",
            ),
            (
                "seed = { a = 1 }",
                "table for a flag that takes no pairs in FILE",
                "",
            ),
            ("[[seed]]\na = 1", "not a value of a flag in FILE", ""),
            ("seed = 2020-01-01", "value of a wrong type in FILE", ""),
        ] {
            let error = parse(file, &[]).unwrap_err();
            let path = error
                .what
                .split([' ', ',', ':'])
                .find(|word| word.starts_with('/'))
                .unwrap_or_default();
            let found = error.what.replace(path, "FILE");
            assert!(found.starts_with(what), "{found}");
            assert!(error.hint.unwrap_or_default().contains(hint), "{file}");
            assert_eq!(error.kind, sobench_core::error::ErrorKind::Usage);
        }
        let missing =
            expand(["sobench", "--config", "/nowhere/x.toml"].map(OsString::from)).unwrap_err();
        assert_eq!(
            missing.what,
            "cannot read /nowhere/x.toml: No such file or directory (os error 2)"
        );
    }

    #[test]
    fn arguments_of_other_commands_are_unchanged() {
        for arguments in [
            &["sobench", "serve", "--config", "x"][..],
            &["sobench", "--seed", "1"],
            &["sobench"],
        ] {
            let typed: Vec<OsString> = arguments.iter().map(OsString::from).collect();
            assert_eq!(expand(typed.clone()).unwrap(), typed);
        }
    }
}
