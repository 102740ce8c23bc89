//! Where a run's log goes: the file that the user named, one beside the saved result, or one in the
//! user's cache folder. Knows no line of it.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::result_file::directory;
use crate::commands::bench::options::{OutputPlan, RunLogPlan};
use crate::commands::flags::environment::cache_folder;
use sobench_core::error::{Error, Result};
use sobench_core::output_files::{MAX_SAME_NAMES, make_folder, numbered_names, try_file};
use sobench_notices::notice::{BenchNotice, Notice};
use sobench_report as report;
use sobench_results::record::RunRecord;
use sobench_results::runlog::write::{Access, Sink, cannot_write};

/// What names of logs end in.
const ENDING: &str = "jsonl";

/// What the name of a log ends in that another one took the place of.
const KEPT: &str = ".old";

/// A log that was opened, and what the user has to know of it.
pub(super) struct Opened {
    pub(super) sink: Sink,
    /// Belongs into the record of the run.
    pub(super) warning: Option<Notice>,
    /// Another log that it took the place of; nothing to this run.
    pub(super) replaced: Option<String>,
}

impl Opened {
    /// There is nothing to know.
    fn quietly(sink: Sink) -> Self {
        Self {
            sink,
            warning: None,
            replaced: None,
        }
    }
}

/// Sees that the file that the user named can be made, before anything is sent.
///
/// # Errors
/// It cannot, or it is no file's name.
pub(super) fn make_room(run_log: &RunLogPlan) -> Result<()> {
    let RunLogPlan::At(path) = run_log else {
        return Ok(());
    };
    if path.file_name().is_none() || path.is_dir() {
        return Err(
            Error::usage(format!("not the name of a file: {}", path.display()))
                .hint("give --run-log a file's name"),
        );
    }
    make_folder(path)
        .and_then(|()| try_file(path))
        .map_err(|error| cannot_write(path, &error))
}

/// Opens the log of a run that begins now. A failure is no end of the run: the log is then kept in
/// memory.
pub(super) fn open(output: &OutputPlan, record: &RunRecord) -> Opened {
    let stem = || {
        let name = report::filename(
            record,
            record.own_requests(),
            output.result_format,
            &record.date(),
        );
        name.rsplit_once('.')
            .map_or_else(|| name.clone(), |(stem, _)| stem.to_owned())
    };
    let asked = |made: io::Result<Sink>, path: &Path| match made {
        Ok(sink) => Opened::quietly(sink),
        Err(error) => Opened::quietly(Sink::failed(cannot_write(path, &error))),
    };
    let named = |path: &Path| match make_folder(path).and_then(|()| kept_aside(path)) {
        Ok(replaced) => Opened {
            replaced,
            ..asked(Sink::create(path, Access::Usual), path)
        },
        Err(error) => asked(Err(error), path),
    };
    match (&output.run_log, &output.filename) {
        (RunLogPlan::Off, _) => Opened::quietly(Sink::in_memory()),
        (RunLogPlan::At(path), _) => named(path),
        (RunLogPlan::Default, Some(name)) if output.save && !output.append => {
            named(&beside(&directory(output).join(name)))
        }
        // What a result is added to holds other runs, and each has a log of its own.
        (RunLogPlan::Default, _) if output.save => asked(
            fresh(directory(output), &stem(), Access::Usual),
            directory(output),
        ),
        (RunLogPlan::Default, _) => in_cache(&stem()),
    }
}

/// Keeps what another run wrote to this file under another name, and says so: a log is all that is
/// left of hours of load.
///
/// # Errors
/// It cannot be kept, and is where it was.
fn kept_aside(path: &Path) -> io::Result<Option<String>> {
    let is_something = fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() > 0);
    if !is_something {
        return Ok(None);
    }
    // Behind a link it is the file that is moved, and the link leads to the new one.
    let file = fs::canonicalize(path)?;
    let mut kept = file.clone().into_os_string();
    kept.push(KEPT);
    fs::rename(&file, &kept)?;
    Ok(Some(format!(
        "{} was there: what was in it is kept as {}",
        path.display(),
        Path::new(&kept).display()
    )))
}

/// Gives the log the name of the result that it stands beside, which only the end of the run made
/// known. A log that keeps its name has lost nothing by it.
pub(super) fn follow(output: &OutputPlan, sink: &mut Sink, result: &Path) {
    if output.append {
        return;
    }
    let named = beside(result);
    let Some(path) = sink
        .path()
        .filter(|path| output.run_log == RunLogPlan::Default && *path != named)
    else {
        return;
    };
    if !named.exists() && fs::rename(path, &named).is_ok() {
        sink.renamed(named);
    }
}

/// The log's name beside a result's: the same but for its ending.
pub(super) fn beside(result: &Path) -> PathBuf {
    let named = result.with_extension(ENDING);
    if named == result {
        result.with_extension(format!("run.{ENDING}"))
    } else {
        named
    }
}

/// The user's cache folder is nobody's order: where it cannot be written to, that is a warning.
fn in_cache(stem: &str) -> Opened {
    let made = cache_folder("runs").and_then(|folder| {
        fs::create_dir_all(&folder).and_then(|()| fresh(&folder, stem, Access::Private))
    });
    match made {
        Ok(sink) => Opened::quietly(sink),
        Err(error) => Opened {
            warning: Some(
                BenchNotice::NoRunLog {
                    why: error.to_string(),
                }
                .into(),
            ),
            ..Opened::quietly(Sink::in_memory())
        },
    }
}

/// A name of our own making is never written over: runs that begin in the same second get a number.
fn fresh(folder: &Path, stem: &str, access: Access) -> io::Result<Sink> {
    for name in numbered_names(stem, ENDING) {
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
    fn what_was_in_a_log_that_is_named_again_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.jsonl");
        assert_eq!(kept_aside(&path).unwrap(), None);
        fs::write(&path, "").unwrap();
        assert_eq!(kept_aside(&path).unwrap(), None, "nothing is lost");
        for text in ["first", "second"] {
            fs::write(&path, text).unwrap();
            let told = kept_aside(&path).unwrap().unwrap();
            assert!(told.ends_with("run.jsonl.old") && !path.exists(), "{told}");
            assert_eq!(
                fs::read_to_string(folder.path().join("run.jsonl.old")).unwrap(),
                text
            );
        }
    }

    #[cfg(unix)]
    #[test]
    fn behind_a_link_the_new_log_is_where_the_link_leads() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (
            folder.path().join("far.jsonl"),
            folder.path().join("run.jsonl"),
        );
        fs::write(&file, "first").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        kept_aside(&link).unwrap().unwrap();
        Sink::create(&link, Access::Usual).unwrap();
        assert!(file.exists() && link.is_symlink());
        assert_eq!(
            fs::read_to_string(folder.path().join("far.jsonl.old")).unwrap(),
            "first"
        );
    }

    #[test]
    fn a_name_of_our_own_is_never_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let names: Vec<PathBuf> = (0..3)
            .map(|_| {
                fresh(folder.path(), "run", Access::Private)
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
        assert!(fresh(&folder.path().join("none"), "run", Access::Private).is_err());
    }
}
