//! Flags of a benchmark from a TOML file (`--config`): each key is a flag, and is put where it
//! would have been typed. Knows the flags by what clap says of them, and no meaning of any.

use std::ffi::OsString;
use std::path::Path;

use clap::{Arg, ArgAction, Command, CommandFactory};
use toml_edit::{Document, Item, TableLike, Value};

use super::{Cli, split_at_equals};
use sobench_core::error::{Error, Result};
use sobench_core::input;

/// The most bytes of a file of flags.
const MAX_BYTES: u64 = 1 << 20;

/// The flag that names the file.
const CONFIG: &str = "config";

/// How like a known flag a key has to be to be taken for a slip of the fingers (Jaro-Winkler, 0 to
/// 1).
const LIKENESS: f64 = 0.8;

/// Puts the flags of the file that `--config` names before those that were typed. What was typed
/// wins: a key of the same flag, and of one that cannot stand beside what was typed, is left out.
///
/// # Errors
/// The file cannot be read, is not TOML, or has a key that is no flag of a benchmark, or a value
/// that no flag takes.
pub fn expand(arguments: impl IntoIterator<Item = OsString>) -> Result<Vec<OsString>> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    let program = Cli::command();
    let first = arguments
        .get(1)
        .and_then(|word| word.to_str())
        .unwrap_or_default();
    let flags_at = if first == "bench" { 2 } else { 1 };
    if flags_at == 1
        && program
            .get_subcommands()
            .any(|command| command.get_name() == first)
    {
        return Ok(arguments);
    }
    let Some(path) = named_file(&arguments[flags_at.min(arguments.len())..]) else {
        return Ok(arguments);
    };
    let bench = program.find_subcommand("bench").unwrap_or(&program);
    let added = flags_of(
        &input::read_text(Path::new(&path), MAX_BYTES)?,
        Path::new(&path),
        bench,
        &typed(bench, &arguments),
    )?;
    arguments.splice(flags_at..flags_at, added);
    Ok(arguments)
}

fn named_file(arguments: &[OsString]) -> Option<OsString> {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word
            .to_str()
            .and_then(|text| text.strip_prefix("--"))
            .map(split_at_equals)
        {
            Some((CONFIG, "")) => return words.next().cloned(),
            Some((CONFIG, value)) => return Some(value[1..].into()),
            _ => {}
        }
    }
    None
}

/// The flags that were typed.
fn typed<'a>(bench: &'a Command, arguments: &[OsString]) -> Vec<&'a Arg> {
    let names = arguments
        .iter()
        .filter_map(|word| word.to_str()?.strip_prefix("--"));
    names
        .filter_map(|text| flag(bench, &split_at_equals(text).0.replace('_', "-")))
        .collect()
}

fn flag<'a>(bench: &'a Command, name: &str) -> Option<&'a Arg> {
    let is_named = |arg: &&Arg| {
        arg.get_long_and_visible_aliases()
            .is_some_and(|names| names.contains(&name))
    };
    bench.get_arguments().find(is_named)
}

fn flags_of(text: &str, path: &Path, bench: &Command, typed: &[&Arg]) -> Result<Vec<OsString>> {
    let document = Document::parse(text).map_err(|error| {
        let (line, column) = place(text, error.span().map_or(0, |span| span.start));
        let words = error
            .message()
            .lines()
            .map(str::trim)
            .collect::<Vec<_>>()
            .join(", ");
        Error::usage(format!(
            "{}, line {line}, column {column}: not TOML: {words}",
            path.display()
        ))
        .hint("write each flag as a line: num-prompts = 200")
    })?;
    if document.as_table().is_empty() {
        return Err(Error::usage(format!(
            "there is no flag in the file of flags: {}",
            path.display()
        ))
        .hint("was it written to its end? to run without, leave --config out"));
    }
    let mut words = Vec::new();
    let mut known: Vec<&str> = Vec::new();
    for (key, item) in document.as_table().iter() {
        let name = key.replace('_', "-");
        let arg = flag(bench, &name)
            .filter(|_| name != CONFIG)
            .ok_or_else(|| unknown(key, &name, path, bench))?;
        let id = arg.get_id().as_str();
        if known.contains(&id) {
            return Err(Error::usage(format!(
                "a flag is given twice in {}: {key}",
                path.display()
            ))
            .hint("leave one of them out"));
        }
        known.push(id);
        let conflicts = |one: &Arg, other: &Arg| {
            bench
                .get_arg_conflicts_with(one)
                .iter()
                .any(|it| it.get_id() == other.get_id())
        };
        let is_beaten =
            |it: &&Arg| it.get_id() == arg.get_id() || conflicts(it, arg) || conflicts(arg, it);
        if !typed.iter().any(is_beaten) {
            words.extend(spelt(arg, &name, item).map_err(|what| {
                let written = item
                    .span()
                    .and_then(|span| text.get(span))
                    .unwrap_or_default();
                Error::usage(format!("{what} in {}: {key} = {written}", path.display())).hint(
                    "give the value as it would be typed; a list for a flag that takes several",
                )
            })?);
        }
    }
    Ok(words)
}

/// The line and the column, both from 1, of a byte of the text.
fn place(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let line = before.rfind('\n').map_or(before, |end| &before[end + 1..]);
    (1 + before.matches('\n').count(), 1 + line.chars().count())
}

fn unknown(key: &str, name: &str, path: &Path, bench: &Command) -> Error {
    let names = bench
        .get_arguments()
        .filter_map(Arg::get_long_and_visible_aliases)
        .flatten();
    let likeness = |candidate: &str| strsim::jaro_winkler(candidate, name);
    let nearest = names
        .filter(|it| ![CONFIG, "help", "version"].contains(it))
        .max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
    let hint = match nearest.filter(|it| likeness(it) >= LIKENESS) {
        Some(nearest) => format!("did you mean {nearest}?"),
        None => "a key is a flag of a benchmark without its dashes; sobench --help lists them"
            .to_owned(),
    };
    Error::usage(format!(
        "no flag of a benchmark in {}: {key}",
        path.display()
    ))
    .hint(hint)
}

/// A key and its value as they would be typed.
fn spelt(arg: &Arg, name: &str, item: &Item) -> std::result::Result<Vec<OsString>, &'static str> {
    let with = |value: &str| OsString::from(format!("--{name}={value}"));
    if let (ArgAction::SetTrue, Some(value)) = (arg.get_action(), item.as_value()) {
        return match value.as_bool() {
            Some(true) => Ok(vec![format!("--{name}").into()]),
            Some(false) => Ok(Vec::new()),
            None => Err("a switch that is neither true nor false"),
        };
    }
    let takes_several = matches!(arg.get_action(), ArgAction::Append);
    match item {
        Item::Value(Value::Array(_)) if !takes_several => {
            Err("a list for a flag that takes one value")
        }
        Item::Value(Value::Array(values)) => values
            .iter()
            .map(|value| Ok(with(&scalar(value)?)))
            .collect(),
        Item::Value(Value::InlineTable(table)) => of_table(arg, table, &with),
        Item::Table(table) => of_table(arg, table, &with),
        Item::Value(value) => Ok(vec![with(&scalar(value)?)]),
        Item::None | Item::ArrayOfTables(_) => Err("no value for a flag"),
    }
}

/// Pairs, for a flag that takes `KEY=VALUE` or the like.
fn of_table(
    arg: &Arg,
    table: &dyn TableLike,
    with: &dyn Fn(&str) -> OsString,
) -> std::result::Result<Vec<OsString>, &'static str> {
    let shape = arg
        .get_value_names()
        .and_then(|names| names.first())
        .map(|name| name.as_str())
        .unwrap_or_default();
    let between = ['=', ':']
        .into_iter()
        .find(|it| shape.contains(*it))
        .ok_or("a table for a flag that takes no pairs")?;
    let pair = |(key, item): (&str, &Item)| {
        let value = item.as_value().ok_or("a table within a table")?;
        Ok(with(&format!("{key}{between}{}", scalar(value)?)))
    };
    table.iter().map(pair).collect()
}

fn scalar(value: &Value) -> std::result::Result<String, &'static str> {
    match value {
        Value::String(text) => Ok(text.value().clone()),
        Value::Integer(number) => Ok(number.value().to_string()),
        Value::Float(number) => Ok(number.value().to_string()),
        Value::Boolean(word) => Ok(word.value().to_string()),
        Value::Datetime(_) | Value::Array(_) | Value::InlineTable(_) => {
            Err("a value that no flag takes")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::cli::Command as Wanted;
    use crate::commands::bench::args::BenchArgs;

    /// What is wanted by these words and this file.
    fn parse(file: &str, words: &[&str]) -> Result<BenchArgs> {
        let mut on_disk = tempfile::NamedTempFile::new().unwrap();
        on_disk.write_all(file.as_bytes()).unwrap();
        let config = on_disk.path().to_str().unwrap();
        let named = ["--config", config];
        let typed = ["sobench"]
            .iter()
            .chain(words)
            .chain(&named)
            .map(OsString::from);
        let parsed = Cli::parse_arguments(expand(typed)?).unwrap_or_else(|error| panic!("{error}"));
        match parsed.into_command() {
            Wanted::Bench(arguments) => Ok(*arguments),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_shape_of_a_value_is_a_flag() {
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
        for words in [&[][..], &["bench"]] {
            let found = parse(file, words).unwrap();
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
    fn what_is_typed_wins() {
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
    fn what_is_no_flag_is_refused() {
        for (file, what, hint) in [
            (
                "",
                "there is no flag in the file of flags: FILE",
                "leave --config out",
            ),
            (
                "num-promts = 3",
                "no flag of a benchmark in FILE: num-promts",
                "did you mean num-prompts?",
            ),
            (
                "requestrate = 3",
                "no flag of a benchmark in FILE: requestrate",
                "did you mean request-rate?",
            ),
            (
                "zzz = 3",
                "no flag of a benchmark in FILE: zzz",
                "without its dashes",
            ),
            ("config = 'x'", "no flag of a benchmark in FILE: config", ""),
            (
                "seed = 1\nseed = 2",
                "FILE, line 2, column 1: not TOML: duplicate key",
                "num-prompts = 200",
            ),
            (
                "seed = 1\n'se_ed' = 1",
                "no flag of a benchmark in FILE: se_ed",
                "seed",
            ),
            (
                "run-log = 'a'\nrun_log = 'b'",
                "a flag is given twice in FILE: run_log",
                "leave one",
            ),
            (
                "seed = [1]",
                "a list for a flag that takes one value in FILE: seed = [1]",
                "",
            ),
            (
                "ignore-eos = 1",
                "a switch that is neither true nor false in FILE: ignore-eos = 1",
                "",
            ),
            (
                "seed = { a = 1 }",
                "a table for a flag that takes no pairs in FILE",
                "",
            ),
            ("[[seed]]\na = 1", "no value for a flag in FILE", ""),
            (
                "seed = 2020-01-01",
                "a value that no flag takes in FILE",
                "",
            ),
        ] {
            let error = parse(file, &[]).unwrap_err();
            let path = error
                .what
                .split([' ', ',', ':'])
                .find(|word| word.starts_with('/'))
                .unwrap_or_default();
            let said = error.what.replace(path, "FILE");
            assert!(said.starts_with(what), "{said}");
            assert!(error.hint.unwrap_or_default().contains(hint), "{file}");
            assert_eq!(error.kind, sobench_core::error::Kind::Usage);
        }
        let missing =
            expand(["sobench", "--config", "/nowhere/x.toml"].map(OsString::from)).unwrap_err();
        assert!(missing.what.contains("/nowhere/x.toml"), "{missing}");
    }

    #[test]
    fn other_commands_keep_their_words() {
        for words in [
            &["sobench", "mask", "--config", "x"][..],
            &["sobench", "--seed", "1"],
            &["sobench"],
        ] {
            let typed: Vec<OsString> = words.iter().map(OsString::from).collect();
            assert_eq!(expand(typed.clone()).unwrap(), typed);
        }
    }
}
