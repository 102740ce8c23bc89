//! Refuses a command that would overwrite a file that it reads or that sobench did not write, or
//! write two outputs to one file.
//! The types of the arguments distinguish inputs from outputs.

use std::any::Any;
use std::fs;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{ArgMatches, Id};

use crate::commands::flags::paths::{InputNames, InputPath, OutputFolder, OutputName, OutputPath};
use sobench_core::error::{Error, Result};
use sobench_core::output_files::refuse_foreign;

/// An output file, and the flag that names it.
struct OutputFile {
    flag: String,
    path: PathBuf,
}

/// Checks the typed arguments.
///
/// # Errors
/// Usage: an output file is an input file or another output file, or sobench did not write it.
pub fn refuse(matches: &ArgMatches) -> Result<()> {
    let (command, matches) = matches.subcommand().unwrap_or(("bench", matches));
    let written = written(matches);
    let paths = typed::<InputPath>(matches).map(|(_, path)| path.to_path_buf());
    let named = typed::<InputNames>(matches).flat_map(|(_, names)| names.candidates());
    // A name may be something else than a file, such as a Hub id.
    let read: Vec<PathBuf> = paths.chain(named).filter(|path| path.is_file()).collect();
    for (index, OutputFile { flag, path }) in written.iter().enumerate() {
        if path == Path::new("-") {
            return Err(Error::usage(format!("{flag} needs a file name: -"))
                .hint("use --format to choose what stdout gets, or ./- for a file of that name"));
        }
        if let Some(read) = read.iter().find(|read| is_same(path, read)) {
            return Err(Error::usage(format!(
                "{flag} would overwrite an input file: {}",
                read.display()
            ))
            .hint(format!("give {flag} another path")));
        }
        if let Some(OutputFile { flag: other, .. }) = written[..index]
            .iter()
            .find(|other| is_same(path, &other.path))
        {
            return Err(Error::usage(format!(
                "{other} and {flag} name the same file: {}",
                path.display()
            ))
            .hint("name a different file for each"));
        }
    }
    let is_set = |flag: &str| matches!(matches.try_get_one::<bool>(flag), Ok(Some(true)));
    let keeps = |flag: &str| {
        KEEPS_FILES.contains(&(command, flag))
            || (flag == "--result-filename" && is_set("append_result"))
    };
    if is_set("force") {
        return Ok(());
    }
    let mut replaced = written.iter().filter(|file| !keeps(&file.flag));
    replaced.try_for_each(|file| refuse_foreign(&file.path, &file.flag))
}

/// Outputs that never replace a file.
const KEEPS_FILES: [(&str, &str); 1] = [("mask", "--rows")];

/// The files that would be written. A bare name is in the output folder of the command.
fn written(matches: &ArgMatches) -> Vec<OutputFile> {
    let folder = typed::<OutputFolder>(matches)
        .next()
        .map_or(Path::new(""), |(_, folder)| folder);
    let paths = typed::<OutputPath>(matches).map(|(id, path)| (id, path.to_path_buf()));
    let names = typed::<OutputName>(matches).map(|(id, name)| (id, folder.join(&**name)));
    paths
        .chain(names)
        .map(|(id, path)| OutputFile {
            flag: format!("--{}", id.replace('_', "-")),
            path,
        })
        .collect()
}

/// The typed values of a type in order, each with the id of its argument.
fn typed<T: Any + Clone + Send + Sync>(matches: &ArgMatches) -> impl Iterator<Item = (&str, &T)> {
    let ids = matches.ids().map(Id::as_str);
    let ids = ids.filter(|id| matches.value_source(id) == Some(ValueSource::CommandLine));
    ids.flat_map(|id| {
        matches
            .try_get_many::<T>(id)
            .ok()
            .flatten()
            .into_iter()
            .flatten()
            .map(move |value| (id, value))
    })
}

/// Whether both paths lead to the same regular file, through links as well. Devices, such as a
/// terminal, may be written to more than once.
fn is_same(one: &Path, other: &Path) -> bool {
    match (fs::metadata(one), fs::metadata(other)) {
        (Ok(a), Ok(b)) => a.is_file() && b.is_file() && is_same_file((one, &a), (other, &b)),
        (Err(_), Err(_)) => {
            matches!((std::path::absolute(one), std::path::absolute(other)), (Ok(one), Ok(other)) if one == other)
        }
        _ => false,
    }
}

fn is_same_file((_, one): (&Path, &fs::Metadata), (_, other): (&Path, &fs::Metadata)) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn refused(typed: &[&str]) -> Option<String> {
        let matches = Cli::command()
            .try_get_matches_from(std::iter::once(&"sobench").chain(typed))
            .unwrap();
        refuse(&matches).err().map(|error| {
            assert!(error.hint.is_some() && error.exit_code() == 2, "{error}");
            error.what
        })
    }

    #[test]
    fn an_output_that_is_an_input_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (file, link, new) = (path("a.jsonl"), path("b.jsonl"), path("new"));
        fs::write(&file, "").unwrap();
        fs::hard_link(&file, &link).unwrap();
        let (mix, both) = (
            format!("custom={file}:0.5,json:0.5"),
            format!("{new},{file}"),
        );
        let folder = folder.path().to_str().unwrap();
        for typed in [
            &[
                "--dataset",
                "custom",
                "--dataset-path",
                &file,
                "--run-log",
                &file,
            ][..],
            &[
                "bench",
                "--dataset",
                "custom",
                "--dataset-path",
                &file,
                "--save",
                &link,
            ],
            &["--mix", &mix, "--save", &file],
            &[
                "--json-schema-path",
                &file,
                "--save-result",
                "--result-dir",
                folder,
                "--result-filename",
                "a.jsonl",
            ],
            &["compare", &both, &new, "--write-baseline", &file],
            &["report", &file, "--save", &link],
            &["merge", &new, &file, "--save", &file],
        ] {
            let error = refused(typed).unwrap_or_else(|| panic!("{typed:?} is accepted"));
            assert!(
                error.contains("overwrite an input file") && error.contains(&file),
                "{typed:?}: {error}"
            );
        }
        for typed in [
            &[
                "--dataset",
                "custom",
                "--dataset-path",
                &file,
                "--run-log",
                &new,
            ][..],
            &["--save", "/dev/null", "--run-log", "/dev/null"],
            &["--label", &file, "--run-log", &file],
            &["--mix", "json:0.5,choice:0.5", "--save", "choice"],
            &["serve"],
        ] {
            assert_eq!(refused(typed), None, "{typed:?}");
        }
    }

    #[test]
    fn files_of_others_are_refused_unless_forced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own.json");
        fs::write(&path, "{\"type\": \"object\"}").unwrap();
        let (file, folder) = (path.to_str().unwrap(), folder.path().to_str().unwrap());
        for typed in [
            &["--save", "new.md", "--save", file][..],
            &["--run-log", file],
            &[
                "--save-result",
                "--result-dir",
                folder,
                "--result-filename",
                "own.json",
            ],
            &["preflight", "--save", file],
            &["compare", "a", "--write-baseline", file],
            &["report", "a", "--save", file],
            &["score", "a", "--save", file],
            &["merge", "a", "--save", file],
        ] {
            let error = refused(typed).unwrap_or_else(|| panic!("{typed:?} is accepted"));
            let expected = "would overwrite a file that sobench did not write: ";
            assert!(error.contains(expected) && error.contains(file), "{error}");
            assert_eq!(refused(&[typed, &["--force"]].concat()), None, "{typed:?}");
        }
        let appended = ["--append-result", "--result-dir", folder];
        let appended = [&appended[..], &["--result-filename", "own.json"]].concat();
        assert_eq!(refused(&appended), None);
    }

    #[test]
    fn two_outputs_in_one_file_are_refused() {
        for typed in [
            &["--save", "x", "--run-log", "./x"][..],
            &["report", "a", "--save", "x", "--save", "x"],
        ] {
            assert!(
                refused(typed).unwrap().contains("name the same file"),
                "{typed:?}"
            );
        }
    }
}
