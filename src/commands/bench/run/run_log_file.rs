//! The file of the run log: named by the user, beside the result, or in the user's cache folder.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::result_file::directory;
use crate::commands::bench::options::{OutputPlan, RunLogPlan};
use crate::commands::run_cache::{self, EXTENSION};
use sobench_core::error::{Error, Result};
use sobench_core::output_files::{self, MAX_SAME_NAMES, create_parent_folder, numbered_names};
use sobench_notices::notice::{BenchNotice, Notice};
use sobench_plan::record::RunRecord;
use sobench_report as report;
use sobench_runlog::write::{Access, Sink, cannot_write};

/// Ending of a log that was replaced.
const KEPT: &str = ".old";

/// An open log, with the notices about it.
pub(super) struct Opened {
    pub(super) sink: Sink,
    /// For the record of the run.
    pub(super) warning: Option<Notice>,
    /// The log that it replaced; not a notice of this run.
    pub(super) replaced: Option<String>,
}

impl Opened {
    /// Without notices.
    fn without_notices(sink: Sink) -> Self {
        Self {
            sink,
            warning: None,
            replaced: None,
        }
    }
}

/// Checks that the named file can be created, before anything is sent.
///
/// # Errors
/// The file cannot be created, or the path is not the name of a file.
pub(super) fn check_writable(output: &OutputPlan) -> Result<()> {
    let RunLogPlan::At(path) = &output.run_log else {
        let result = output
            .filename
            .as_ref()
            .filter(|_| output.save && !output.append);
        return match (result, &output.run_log) {
            (Some(name), RunLogPlan::Default) => {
                let path = beside(&directory(output).join(name));
                output.refuse_foreign(&path, "--run-log (beside the result)")
            }
            _ => Ok(()),
        };
    };
    if path.file_name().is_none() || path.is_dir() {
        return Err(
            Error::usage(format!("not the name of a file: {}", path.display()))
                .hint("give --run-log a file's name"),
        );
    }
    output.refuse_foreign(path, "--run-log")?;
    create_parent_folder(path)
        .and_then(|()| output_files::check_writable(path))
        .map_err(|error| cannot_write(path, &error))
}

/// Opens the log of a run. On failure the run goes on with the log in memory.
pub(super) fn open(output: &OutputPlan, record: &RunRecord) -> Opened {
    let stem = || {
        let name = report::filename(
            record,
            record.own_requests(),
            output.result_format,
            &record.date(),
        );
        let stem = name.rsplit_once('.').map_or(&*name, |(stem, _)| stem);
        record.shard.as_ref().map_or_else(
            || stem.to_owned(),
            |shard| format!("{stem}-shard-{}-of-{}", shard.number, shard.of),
        )
    };
    let opened = |made: io::Result<Sink>, path: &Path| match made {
        Ok(sink) => Opened::without_notices(sink),
        Err(error) => Opened::without_notices(Sink::failed(cannot_write(path, &error))),
    };
    let named = |path: &Path| match create_parent_folder(path).and_then(|()| kept_aside(path)) {
        Ok(replaced) => Opened {
            replaced,
            ..opened(Sink::create(path, Access::Default), path)
        },
        Err(error) => opened(Err(error), path),
    };
    match (&output.run_log, &output.filename) {
        (RunLogPlan::Off, _) => Opened::without_notices(Sink::in_memory()),
        (RunLogPlan::At(path), _) => named(path),
        (RunLogPlan::Default, Some(name)) if output.save && !output.append => {
            named(&beside(&directory(output).join(name)))
        }
        // A result that is appended has no name of its own for the log.
        (RunLogPlan::Default, _) if output.save => opened(
            create_numbered(directory(output), &stem(), Access::Default),
            directory(output),
        ),
        (RunLogPlan::Default, _) => in_cache(&run_cache::stem(record)),
    }
}

/// Renames a log of another run that is in the way: it may be all that is left of hours of load.
///
/// # Errors
/// The log cannot be renamed, and stays where it was.
fn kept_aside(path: &Path) -> io::Result<Option<String>> {
    let is_something = fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() > 0);
    if !is_something {
        return Ok(None);
    }
    // Of a link its target is renamed, and the link leads to the new file.
    let file = fs::canonicalize(path)?;
    let mut kept = file.clone().into_os_string();
    kept.push(KEPT);
    output_files::refuse_foreign(Path::new(&kept), "the old log")
        .map_err(|error| io::Error::new(ErrorKind::AlreadyExists, error.what))?;
    fs::rename(&file, &kept)?;
    Ok(Some(format!(
        "{} exists: the old log is kept as {}",
        path.display(),
        Path::new(&kept).display()
    )))
}

/// Renames the log after its result, whose name is known at the end of the run. On failure the log
/// keeps its name.
pub(super) fn rename_after_result(output: &OutputPlan, sink: &mut Sink, result: &Path) {
    let Some(named) = final_path(output, sink, Some(result)) else {
        return;
    };
    let is_renamed = sink
        .path()
        .is_some_and(|path| path != named && fs::rename(path, &named).is_ok());
    if is_renamed {
        sink.set_path(named);
    }
}

/// The path of the log after the run: beside the saved `result` where it follows its name.
pub(super) fn final_path(
    output: &OutputPlan,
    sink: &Sink,
    result: Option<&Path>,
) -> Option<PathBuf> {
    let path = sink.path()?;
    let named = result
        .filter(|_| output.run_log == RunLogPlan::Default && !output.append)
        .map(beside)
        .filter(|named| !named.exists());
    Some(named.unwrap_or_else(|| path.to_owned()))
}

/// The name of the log beside a result: another ending.
pub(super) fn beside(result: &Path) -> PathBuf {
    let named = result.with_extension(EXTENSION);
    if named == result {
        result.with_extension(format!("run.{EXTENSION}"))
    } else {
        named
    }
}

/// Opens a log in the cache folder, and removes the oldest logs there that exceed the limit. The
/// cache folder is a default, so a failure to write there is a warning.
fn in_cache(stem: &str) -> Opened {
    let made = run_cache::folder().and_then(|folder| {
        fs::create_dir_all(&folder)?;
        let sink = create_numbered(&folder, stem, Access::Private)?;
        run_cache::enforce_limit(&folder);
        Ok(sink)
    });
    match made {
        Ok(sink) => Opened::without_notices(sink),
        Err(error) => Opened {
            warning: Some(
                BenchNotice::NoRunLog {
                    why: error.to_string(),
                }
                .into(),
            ),
            ..Opened::without_notices(Sink::in_memory())
        },
    }
}

/// A default name is never overwritten: runs that start in the same second get a number.
fn create_numbered(folder: &Path, stem: &str, access: Access) -> io::Result<Sink> {
    for name in numbered_names(stem, EXTENSION) {
        match Sink::create_new(&folder.join(name), access) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return made,
        }
    }
    Err(io::Error::new(
        ErrorKind::AlreadyExists,
        format!("{MAX_SAME_NAMES} logs have this name"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_named_after_its_result() {
        for (result, expected) in [
            ("a/r.json", "a/r.jsonl"),
            ("r", "r.jsonl"),
            ("r.txt", "r.jsonl"),
            ("r.jsonl", "r.run.jsonl"),
            ("a.b.json", "a.b.jsonl"),
        ] {
            assert_eq!(beside(Path::new(result)), Path::new(expected));
        }
    }

    #[test]
    fn an_existing_log_is_kept_under_another_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.jsonl");
        assert_eq!(kept_aside(&path).unwrap(), None);
        fs::write(&path, "").unwrap();
        assert_eq!(kept_aside(&path).unwrap(), None, "nothing is lost");
        for text in ["first", "second"].map(|text| format!("{{\"header\":{{\"version\":2,{text}")) {
            fs::write(&path, &text).unwrap();
            let message = kept_aside(&path).unwrap().unwrap();
            assert!(
                message.ends_with("run.jsonl.old") && !path.exists(),
                "{message}"
            );
            assert_eq!(
                fs::read_to_string(folder.path().join("run.jsonl.old")).unwrap(),
                text
            );
        }
    }

    #[test]
    fn a_link_leads_to_the_new_log() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (
            folder.path().join("far.jsonl"),
            folder.path().join("run.jsonl"),
        );
        fs::write(&file, "first").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        kept_aside(&link).unwrap().unwrap();
        Sink::create(&link, Access::Default).unwrap();
        assert!(file.exists() && link.is_symlink());
        assert_eq!(
            fs::read_to_string(folder.path().join("far.jsonl.old")).unwrap(),
            "first"
        );
    }

    #[test]
    fn default_names_are_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let names: Vec<PathBuf> = (0..3)
            .map(|_| {
                create_numbered(folder.path(), "run", Access::Private)
                    .unwrap()
                    .path()
                    .unwrap()
                    .to_owned()
            })
            .collect();
        assert_eq!(
            names,
            ["run.jsonl", "run-2.jsonl", "run-3.jsonl"].map(|name| folder.path().join(name))
        );
        assert!(create_numbered(&folder.path().join("none"), "run", Access::Private).is_err());
    }
}
