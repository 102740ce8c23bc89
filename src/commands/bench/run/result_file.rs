//! The result file: its path, its name, and writing it.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::run_log_file;
use crate::commands::bench::options::OutputPlan;
use sobench_core::error::{Error, Result};
use sobench_core::output_files::{
    self, MAX_SAME_NAMES, numbered_names, replace, write_to_open_file,
};
use sobench_report as report;
use sobench_report::result_layout::{self, Framing};
use sobench_report::view::View;

/// Creates the folder of the result and checks that it is writable, before anything is sent.
///
/// # Errors
/// The path is not the name of a file, the folder cannot be created, or no file can be created in
/// it.
pub(super) fn check_writable(output: &OutputPlan) -> Result<()> {
    let path = directory(output).join(output.filename.as_deref().unwrap_or(".sobench-probe"));
    if path.file_name().is_none() || path.is_dir() || output.filename.as_deref() == Some("") {
        return Err(
            Error::usage(format!("not the name of a file: {}", path.display()))
                .hint("give --result-filename a file name, or leave it out for the default name"),
        );
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
    if output.filename.is_some() && !output.append {
        output.refuse_foreign(&path, "--result-filename")?;
    }
    output_files::check_writable(&path).map_err(|error| cannot_write(&path, &error))
}

/// Writes the result file and returns its path. A result with a name of the user is overwritten, as
/// in vLLM's tools. A default name never is, and never matches the log of another run: `log` is the log of
/// this run.
///
/// # Errors
/// The file cannot be written, or an answer cannot be read from the log.
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
    let framing = if output.append {
        Framing::Line
    } else {
        Framing::WholeFile
    };
    let fill = |out: &mut dyn Write| {
        result_layout::write(
            view,
            output.result_format,
            view.report.record.settings.report.detailed,
            framing,
            out,
        )
    };
    let cannot = |error: &std::io::Error| cannot_write(&path, error);
    if output.append {
        let (file, length) = open_line(&path).map_err(|error| cannot(&error))?;
        write_to_open_file(file, fill, cannot).inspect_err(|_| {
            // The earlier results stay without a part of this one.
            let _ = OpenOptions::new()
                .write(true)
                .open(&path)
                .and_then(|file| file.set_len(length));
        })?;
    } else {
        replace(&path, fill, cannot)?;
    }
    Ok(path)
}

/// Opens a file to append a line, and returns its length. An incomplete last line, such as vLLM
/// writes, is ended first.
fn open_line(path: &Path) -> std::io::Result<(File, u64)> {
    let mut file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .open(path)?;
    let length = file.seek(SeekFrom::End(0))?;
    let is_open = length > 0 && {
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        last != *b"\n"
    };
    if is_open {
        file.write_all(b"\n")?;
    }
    Ok((file, length))
}

/// Runs that start in the same second get numbered names, so that the result and the log of a run
/// have the same number.
fn free_path(directory: &Path, name: &str, log: Option<&Path>) -> Result<PathBuf> {
    let is_of_another = |path: &Path| {
        let beside = run_log_file::beside(path);
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
            .hint("give --result-filename another name"),
    )
}

/// The folder of the result file.
pub(super) fn directory(output: &OutputPlan) -> &Path {
    output.directory.as_deref().unwrap_or(Path::new("."))
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Error {
    Error::environment(format!(
        "cannot write the result ({error}): {}",
        path.display()
    ))
    .hint("free disk space, or give --result-dir a writable folder")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_and_log_of_a_run_have_the_same_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        // Two runs started in the same second; the log of the second one exists first.
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
