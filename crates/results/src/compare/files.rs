//! Sides from paths, and baselines to them. The only part of comparing that touches a file system.

use std::fs;
use std::path::{Path, PathBuf};

use super::read;
use super::side::Side;
use crate::runlog::{Keep, RunLog};
use sobench_core::error::{Error, Result};
use sobench_core::input;

/// The most bytes of one file.
const MAX_FILE_BYTES: u64 = 4 << 30;

/// The most bytes of a run log of which the answers are kept.
const MAX_BYTES_WITH_TEXTS: u64 = 256 << 20;

/// The most files of one side.
const MAX_FILES: usize = 1000;

/// What the files in a folder are called that are taken for runs; the script of vLLM writes JSON to
/// `.txt`.
const ENDINGS: [&str; 3] = ["json", "jsonl", "txt"];

/// Reads a side: a file, a folder of files, or several files with commas between them.
///
/// # Errors
/// Usage errors that name the path.
pub fn side(words: &str) -> Result<Side> {
    let mut runs = Vec::new();
    for path in paths(words)? {
        let file = path.display().to_string();
        if RunLog::begins(&path)? {
            // Small logs with their answers, for the cases that changed; of large ones memory would
            // not hold them.
            let small = fs::metadata(&path).is_ok_and(|about| about.len() <= MAX_BYTES_WITH_TEXTS);
            let log = RunLog::read(
                &path,
                if small {
                    Keep::Texts
                } else {
                    Keep::WithoutTexts
                },
            )?;
            runs.push(read::of_log(&file, &log)?);
            continue;
        }
        runs.extend(read::runs(&file, &bytes(&path)?)?);
    }
    Ok(Side {
        name: words.to_owned(),
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
            "the baseline cannot be written ({error}): {}",
            path.display()
        ))
        .hint("give --write-baseline a place that can be written to")
    })
}

/// The bytes of a result; what does not begin as one is not read as a whole.
fn bytes(path: &Path) -> Result<Vec<u8>> {
    if input::first_byte(path, MAX_FILE_BYTES)?.is_some_and(|byte| byte != b'{') {
        return Err(read::no_result(
            &path.display().to_string(),
            "it does not begin with an object",
        ));
    }
    input::read_text_bytes(path, MAX_FILE_BYTES)
}

fn paths(words: &str) -> Result<Vec<PathBuf>> {
    let whole = Path::new(words);
    if whole.is_dir() {
        return files_of(whole);
    }
    // A file may have a comma in its name.
    if whole.exists() || !words.contains(',') {
        return Ok(vec![whole.to_owned()]);
    }
    Ok(words
        .split(',')
        .filter(|part| !part.is_empty())
        .map(PathBuf::from)
        .collect())
}

fn files_of(folder: &Path) -> Result<Vec<PathBuf>> {
    let name = folder.display().to_string();
    let unreadable = |error: std::io::Error| input::unreadable(folder, &error);
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_file()
            && path
                .extension()
                .is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known))
        {
            files.push(path);
        }
    }
    files.sort();
    match files.len() {
        0 => Err(
            Error::usage(format!("there is no result in this folder: {name}"))
                .hint("results are called .json, .jsonl or .txt"),
        ),
        1..=MAX_FILES => Ok(files),
        many => Err(
            Error::usage(format!("{many} files, {MAX_FILES} are allowed: {name}"))
                .hint("give fewer runs"),
        ),
    }
}
