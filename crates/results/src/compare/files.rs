//! Reads sides from files and folders, and writes baselines.

use std::fs;
use std::path::{Path, PathBuf};

use super::read;
use super::side::Side;
use crate::runlog::{Keep, RunLog};
use sobench_core::error::{Error, Result};
use sobench_core::input;

/// Maximum size of one file, in bytes.
const MAX_FILE_BYTES: u64 = 4 << 30;

/// Maximum size of a run log whose answers are kept, in bytes.
const MAX_BYTES_WITH_TEXTS: u64 = 256 << 20;

/// Maximum number of files of one side.
const MAX_FILES: usize = 1000;

/// Extensions of the files in a folder that are read as runs. vLLM's script writes JSON to `.txt`.
const EXTENSIONS: [&str; 3] = ["json", "jsonl", "txt"];

/// Reads a side: a file, a folder, or several files separated by commas. `judge` judges the answers
/// of a run log without verdicts, such as that of a killed run.
///
/// # Errors
/// Usage errors that name the path; errors of `judge`.
pub fn read_side(argument: &str, judge: impl Fn(&mut RunLog) -> Result<()>) -> Result<Side> {
    let mut runs = Vec::new();
    for path in paths(argument)? {
        let file = path.display().to_string();
        if RunLog::is_run_log(&path)? {
            // Answers are kept for the list of changed cases, except for logs too large for memory.
            let small = fs::metadata(&path).is_ok_and(|about| about.len() <= MAX_BYTES_WITH_TEXTS);
            let mut log = RunLog::read(
                &path,
                if small {
                    Keep::Texts
                } else {
                    Keep::WithoutTexts
                },
            )?;
            judge(&mut log)?;
            runs.push(read::run_from_log(&file, &log)?);
            continue;
        }
        runs.extend(read::parse_runs(&file, &bytes(&path)?)?);
    }
    Ok(Side {
        name: argument.to_owned(),
        runs,
    })
}

/// Writes a side as a baseline.
///
/// # Errors
/// The file cannot be written.
pub fn write_baseline(path: &Path, side: &Side) -> Result<()> {
    let text = read::write_baseline(&side.runs)?;
    fs::write(path, text).map_err(|error| {
        Error::environment(format!(
            "cannot write the baseline: {}: {error}",
            path.display()
        ))
        .hint("give --write-baseline a writable path")
    })
}

/// The bytes of a result file. Rejects other files by their first byte.
fn bytes(path: &Path) -> Result<Vec<u8>> {
    if input::first_byte(path, MAX_FILE_BYTES)?.is_some_and(|byte| byte != b'{') {
        return Err(read::no_result(
            &path.display().to_string(),
            "expected a JSON object",
        ));
    }
    input::read_text_bytes(path, MAX_FILE_BYTES)
}

fn paths(argument: &str) -> Result<Vec<PathBuf>> {
    let whole = Path::new(argument);
    if whole.is_dir() {
        return files_in(whole);
    }
    // A file name may contain a comma.
    if whole.exists() || !argument.contains(',') {
        return Ok(vec![whole.to_owned()]);
    }
    Ok(argument
        .split(',')
        .filter(|part| !part.is_empty())
        .map(PathBuf::from)
        .collect())
}

fn files_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let name = folder.display().to_string();
    let unreadable = |error: std::io::Error| input::unreadable(folder, &error);
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_file()
            && path
                .extension()
                .is_some_and(|extension| EXTENSIONS.iter().any(|known| extension == *known))
        {
            files.push(path);
        }
    }
    files.sort();
    match files.len() {
        0 => Err(Error::usage(format!("no result in this folder: {name}"))
            .hint("name results .json, .jsonl or .txt")),
        1..=MAX_FILES => Ok(files),
        many => Err(
            Error::usage(format!("{many} files, the limit is {MAX_FILES}: {name}"))
                .hint("give fewer runs"),
        ),
    }
}
