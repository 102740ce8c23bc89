//! Sees that no command writes over a file that it reads, nor two of its outputs into one file. Knows which flags name files that are
//! read and which name files that are written; what is in them, and what a command does with them, it does not know.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use clap::ArgMatches;
use clap::parser::ValueSource;

use crate::error::{Error, Result};

/// Arguments that name files that are written, or a folder of them.
const WRITTEN: [&str; 15] = [
    "run_log",
    RESULT,
    "save_comparison",
    "write_baseline",
    "output",
    "report",
    "json",
    "csv",
    "csv_tags",
    "html",
    "markdown",
    "junit",
    "rows",
    "witnesses",
    "issues",
];

/// Names a file in the folder that another argument names.
const RESULT: &str = "result_filename";
const RESULT_FOLDER: &str = "result_dir";

/// Arguments that name files that are read; in some of them among other things.
const READ: [&str; 14] = [
    "audio_path",
    "config",
    "corpus",
    "dataset_path",
    "files",
    "grammar_oracle",
    "grammar_path",
    "json_schema_path",
    "log",
    "logs",
    "mix",
    "replay",
    "sides",
    "tokenizer",
];

/// What stands between a file's name and other things.
const AROUND_NAMES: [char; 3] = [',', ':', '='];

/// A file that a flag names.
struct Named {
    flag: String,
    path: PathBuf,
}

/// Looks at what was typed.
///
/// # Errors
/// Usage: an output that is an input, or another output.
pub fn refuse(matches: &ArgMatches) -> Result<()> {
    let matches = matches.subcommand().map_or(matches, |(_, of_command)| of_command);
    let written = written(matches);
    // What is no file is a name of another kind, and nothing that could be lost.
    let read = READ.iter().flat_map(|id| values(matches, id)).flat_map(|value| names_in(&value));
    let read: Vec<PathBuf> = read.filter(|path| path.is_file()).collect();
    for (place, Named { flag, path }) in written.iter().enumerate() {
        if let Some(read) = read.iter().find(|read| is_same(path, read)) {
            return Err(Error::usage(format!("{flag} would be written over what is read: {}", read.display()))
                .hint(format!("give {flag} another file")));
        }
        if let Some(Named { flag: other, .. }) = written[..place].iter().find(|other| is_same(path, &other.path)) {
            return Err(Error::usage(format!("{other} and {flag} name the same file: {}", path.display()))
                .hint("the later one would replace the other; name a file for each"));
        }
    }
    Ok(())
}

fn written(matches: &ArgMatches) -> Vec<Named> {
    let folder = values(matches, RESULT_FOLDER).into_iter().next().unwrap_or_default();
    let path_of = |id: &str, value: PathBuf| if id == RESULT { Path::new(&folder).join(value) } else { value };
    let named = |id: &&str| {
        let flag = format!("--{}", id.replace('_', "-"));
        values(matches, id)
            .into_iter()
            .map(move |value| Named { flag: flag.clone(), path: path_of(id, value.into()) })
            .collect::<Vec<_>>()
    };
    WRITTEN.iter().flat_map(named).collect()
}

/// What was typed for an argument; nothing where the command has no such argument.
fn values(matches: &ArgMatches, id: &str) -> Vec<OsString> {
    if !matches!(matches.try_contains_id(id), Ok(true)) || matches.value_source(id) != Some(ValueSource::CommandLine) {
        return Vec::new();
    }
    let values = matches.try_get_raw(id).ok().flatten();
    values.into_iter().flatten().map(OsStr::to_owned).collect()
}

/// The files that a value may name: the whole of it, and its parts.
fn names_in(value: &OsStr) -> Vec<PathBuf> {
    let parts = value.to_str().into_iter().flat_map(|text| text.split(AROUND_NAMES)).filter(|part| !part.is_empty());
    std::iter::once(PathBuf::from(value)).chain(parts.map(PathBuf::from)).collect()
}

/// Whether both names are of one file, by whatever links. What is no file, as a terminal, can be written to more than once.
fn is_same(one: &Path, other: &Path) -> bool {
    match (fs::metadata(one), fs::metadata(other)) {
        (Ok(a), Ok(b)) => a.is_file() && b.is_file() && is_same_file((one, &a), (other, &b)),
        (Err(_), Err(_)) => {
            matches!((std::path::absolute(one), std::path::absolute(other)), (Ok(one), Ok(other)) if one == other)
        }
        _ => false,
    }
}

#[cfg(unix)]
fn is_same_file((_, one): (&Path, &fs::Metadata), (_, other): (&Path, &fs::Metadata)) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(not(unix))]
fn is_same_file((one, _): (&Path, &fs::Metadata), (other, _): (&Path, &fs::Metadata)) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

#[cfg(test)]
mod tests {
    use std::any::TypeId;

    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn refused(typed: &[&str]) -> Option<String> {
        let matches = Cli::command().try_get_matches_from(std::iter::once(&"sobench").chain(typed)).unwrap();
        refuse(&matches).err().map(|error| {
            assert!(error.hint.is_some() && error.exit_code() == 2, "{error}");
            error.what
        })
    }

    #[test]
    fn what_is_read_is_not_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (file, link, new) = (path("a.jsonl"), path("b.jsonl"), path("new"));
        fs::write(&file, "").unwrap();
        fs::hard_link(&file, &link).unwrap();
        let (custom, mix, both) = (format!("custom:{file}"), format!("custom={file}:0.5,json:0.5"), format!("{new},{file}"));
        let folder = folder.path().to_str().unwrap();
        for typed in [
            &["--dataset", "custom", "--dataset-path", &file, "--run-log", &file][..],
            &["bench", "--dataset", "custom", "--dataset-path", &file, "--csv", &link],
            &["--mix", &mix, "--html", &file],
            &["--json-schema-path", &file, "--save-result", "--result-dir", folder, "--result-filename", "a.jsonl"],
            &["mask", "--corpus", &custom, "--json", &file],
            &["mask", "--replay", &file, "--json", &file],
            &["compare", &both, &new, "--write-baseline", &file],
            &["report", &file, "--output", &link],
            &["merge", &new, &file, "--report", &file],
        ] {
            let said = refused(typed).unwrap_or_else(|| panic!("{typed:?} is let pass"));
            assert!(said.contains("over what is read") && said.contains(&file), "{typed:?}: {said}");
        }
        for typed in [
            &["--dataset", "custom", "--dataset-path", &file, "--run-log", &new][..],
            &["mask", "--rows", &file, "--resume"],
            &["--csv", "/dev/null", "--html", "/dev/null"],
            &["--label", &file, "--run-log", &file],
            &["--mix", "json:0.5,choice:0.5", "--html", "choice"],
            &["serve"],
        ] {
            assert_eq!(refused(typed), None, "{typed:?}");
        }
    }

    #[test]
    fn two_outputs_are_two_files() {
        for typed in [&["--csv", "x", "--run-log", "./x"][..], &["mask", "--json", "x", "--csv", "x"]] {
            assert!(refused(typed).unwrap().contains("name the same file"), "{typed:?}");
        }
    }

    #[test]
    fn every_flag_that_takes_a_path_is_known_here() {
        // Folders, in which files have names of their own.
        let folders = [RESULT_FOLDER, "output_dir"];
        let program = Cli::command();
        for command in std::iter::once(&program).chain(program.get_subcommands()) {
            for argument in command.get_arguments() {
                let id = argument.get_id().as_str();
                let is_path = argument.get_value_parser().type_id() == TypeId::of::<PathBuf>();
                assert!(!is_path || [&WRITTEN[..], &READ, &folders].concat().contains(&id), "{}: {id}", command.get_name());
            }
        }
    }
}
