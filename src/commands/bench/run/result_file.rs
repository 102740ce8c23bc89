//! The saved result: where it goes, under which name, and writing it.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::place;
use crate::commands::bench::options::OutputPlan;
use sobench_core::error::{Error, Result};
use sobench_core::output_files::{MAX_SAME_NAMES, filled, numbered_names, try_file};
use sobench_report as report;
use sobench_report::saved::{self, Place};
use sobench_report::view::View;

/// Makes the result's folder and sees that a file can be made there, before anything is sent: a run
/// is not to end in "no such folder".
///
/// # Errors
/// The name is no file's, the folder cannot be made, or no file can be made in it.
pub(super) fn make_room(output: &OutputPlan) -> Result<()> {
    let path = directory(output).join(output.filename.as_deref().unwrap_or(".sobench-probe"));
    if path.file_name().is_none() || path.is_dir() || output.filename.as_deref() == Some("") {
        return Err(
            Error::usage(format!("not the name of a file: {}", path.display())).hint(
                "give --result-filename a name, or leave it out for one that says what was run",
            ),
        );
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
    try_file(&path).map_err(|error| cannot_write(&path, &error))
}

/// Writes the result file and tells where. A name that the user gave is written over, as vLLM's
/// tools do; one of our own making never is, nor does it stand beside the log of another run: `log`
/// is its own.
///
/// # Errors
/// The file cannot be written, or an answer that belongs into it cannot be read from the log.
pub(super) fn save(output: &OutputPlan, view: &View<'_>, log: Option<&Path>) -> Result<PathBuf> {
    let stamp = view.report.record.date();
    let path = match &output.filename {
        Some(name) => directory(output).join(name),
        None => free_path(
            directory(output),
            &report::filename(
                &view.report.record,
                view.report.requests,
                output.result_format,
                &stamp,
            ),
            log,
        )?,
    };
    let place = if output.append {
        Place::Line
    } else {
        Place::Whole
    };
    let opened = if output.append {
        open_line(&path)
    } else {
        File::create(&path)
    };
    let file = opened.map_err(|error| cannot_write(&path, &error))?;
    let fill = |out: &mut dyn Write| {
        saved::write(
            view,
            output.result_format,
            view.report.record.settings.report.detailed,
            place,
            out,
        )
    };
    filled(file, fill, |error| cannot_write(&path, error))?;
    Ok(path)
}

/// Opens a file to add a line to it. A line that was cut short before, or one that vLLM left open,
/// is ended first.
fn open_line(path: &Path) -> std::io::Result<File> {
    let mut file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .open(path)?;
    let is_open = file.seek(SeekFrom::End(0))? > 0 && {
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        last != *b"\n"
    };
    if is_open {
        file.write_all(b"\n")?;
    }
    Ok(file)
}

/// Runs that begin in the same second would have the same name: the later ones get a number, by
/// which result and log of each belong together.
fn free_path(directory: &Path, name: &str, log: Option<&Path>) -> Result<PathBuf> {
    let is_of_another = |path: &Path| {
        let beside = place::beside(path);
        log != Some(&*beside) && beside.exists()
    };
    let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
    for path in numbered_names(stem, ending)
        .map(|name| directory.join(name))
        .filter(|path| !is_of_another(path))
    {
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(_) => return Ok(path),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(cannot_write(&path, &error)),
        }
    }
    Err(
        Error::environment(format!("{MAX_SAME_NAMES} results have this name: {name}"))
            .hint("give --result-filename a new one"),
    )
}

/// The folder of the saved result.
pub(super) fn directory(output: &OutputPlan) -> &Path {
    output.directory.as_deref().unwrap_or(Path::new("."))
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Error {
    Error::environment(format!(
        "the result cannot be written ({error}): {}",
        path.display()
    ))
    .hint("make room, or give --result-dir a folder that can be written to")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_and_log_of_a_run_have_one_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        // Two runs that began in the same second: the log of the second one was there first.
        ["run.jsonl", "run-2.jsonl"]
            .iter()
            .for_each(|name| std::fs::write(at(name), "").unwrap());
        let free = |log: &str| free_path(folder.path(), "run.json", Some(&at(log))).unwrap();
        assert_eq!(free("run-2.jsonl"), at("run-2.json"));
        assert_eq!(free("run.jsonl"), at("run.json"));
        assert_eq!(
            free_path(folder.path(), "run.json", None).unwrap(),
            at("run-3.json"),
            "a run without a log has no other's"
        );
        assert_eq!(free("elsewhere.jsonl"), at("run-4.json"));
    }
}
