//! Reads sides from files and folders, and writes baselines.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::read::GzDecoder;
use tempfile::{NamedTempFile, TempPath};

use super::changed_cases::CaseResult;
use super::requests::Requests;
use super::side::{FileKind, Run, Side};
use super::{Comparison, read};
use sobench_core::case::Arm;
use sobench_core::error::{Error, Result};
use sobench_core::input;
use sobench_core::output_files::write_text;
use sobench_core::progress::Progress;
use sobench_runlog::{AnswerReader, RunLog};

/// Maximum size of one file, in bytes.
const MAX_FILE_BYTES: u64 = 4 << 30;

/// Maximum number of files of one side.
const MAX_FILES: usize = 1000;

/// Extensions of the files in a folder that are read as runs. vLLM's script writes JSON to `.txt`.
const EXTENSIONS: [&str; 4] = ["json", "jsonl", "txt", PACKED];

/// The extension of a file that gzip has packed.
const PACKED: &str = "gz";

/// Reads a side: a file, a folder, or several files separated by commas. `judge` judges the answers
/// of a run log without verdicts, such as that of a killed run.
///
/// # Errors
/// Usage errors that name the path; errors of `judge`.
pub fn read_side(
    argument: &str,
    judge: impl Fn(&mut RunLog) -> Result<()>,
    progress: &dyn Progress,
) -> Result<Side> {
    let mut runs = Vec::new();
    for path in paths(argument)? {
        let file = path.display().to_string();
        let unpacked = unpacked(&path)?;
        let path = unpacked
            .as_ref()
            .map_or(path, |unpacked| unpacked.to_path_buf());
        let mut of_file = if RunLog::is_run_log(&path)? {
            let mut log = RunLog::read_with(&path, progress)?;
            judge(&mut log)?;
            vec![read::run_from_log(&file, &log)?]
        } else {
            read::parse_runs(&file, WithProgress::new(open(&path)?, &path, progress))?
        };
        for run in &mut of_file {
            run.path = Some(path.clone());
            run.unpacked.clone_from(&unpacked);
        }
        runs.extend(of_file);
    }
    let (controls, others): (Vec<Run>, Vec<Run>) = runs.into_iter().partition(|run: &Run| {
        let mut requests = run.requests.iter().flat_map(Requests::iter).peekable();
        requests.peek().is_some() && requests.all(|request| request.arm() == Some(Arm::Control))
    });
    let side = |runs, controls| Side {
        name: argument.to_owned(),
        runs,
        controls,
    };
    Ok(match (controls.is_empty(), others.is_empty()) {
        (false, false) => side(others, Some(Box::new(side(controls, None)))),
        (false, true) => side(controls, None),
        _ => side(others, None),
    })
}

/// The content of a packed file in a temporary one, which is removed with the last reference;
/// `None` for other files.
fn unpacked(path: &Path) -> Result<Option<Arc<TempPath>>> {
    if path.extension().is_none_or(|extension| extension != PACKED) {
        return Ok(None);
    }
    let packed = fs::File::open(path).map_err(|error| input::unreadable(path, &error))?;
    let mut content = GzDecoder::new(packed).take(MAX_FILE_BYTES + 1);
    let mut file = NamedTempFile::new().map_err(|error| {
        let path = path.display();
        Error::environment(format!("cannot unpack {path} to a temporary file: {error}"))
            .hint("set TMPDIR to a folder that can be written")
    })?;
    let bytes =
        io::copy(&mut content, &mut file).map_err(|error| input::unreadable(path, &error))?;
    if bytes > MAX_FILE_BYTES {
        let error = format!(
            "over {MAX_FILE_BYTES} bytes when unpacked: {}",
            path.display()
        );
        return Err(Error::usage(error).hint("compare a shorter run"));
    }
    Ok(Some(Arc::new(file.into_temp_path())))
}

/// Reads the texts of the answers that a comparison shows from their files.
///
/// # Errors
/// A file cannot be read, or has changed.
pub fn read_texts(comparison: &mut Comparison) -> Result<()> {
    let Comparison { sides, against, .. } = comparison;
    for found in against {
        let cases = || found.changed.iter().flat_map(|changed| &changed.cases);
        let of_a = texts(&sides[0], cases().map(|case| &case.a))?;
        let of_b = texts(&sides[found.other], cases().map(|case| &case.b))?;
        for case in found
            .changed
            .iter_mut()
            .flat_map(|changed| &mut changed.cases)
        {
            for (result, texts) in [(&mut case.a, &of_a), (&mut case.b, &of_b)] {
                let text = result.place.and_then(|place| texts.get(&place));
                if let (Some(answer), Some(text)) = (&mut result.answer, text) {
                    answer.text.clone_from(text);
                }
            }
        }
    }
    Ok(())
}

/// The texts of answers of a side, by run and request.
fn texts<'c>(
    side: &Side,
    results: impl Iterator<Item = &'c CaseResult>,
) -> Result<HashMap<(usize, usize), String>> {
    let mut wanted: BTreeMap<usize, HashSet<usize>> = BTreeMap::new();
    let with_answer = results.filter(|result| result.answer.is_some());
    for (run, request) in with_answer.filter_map(|result| result.place) {
        wanted.entry(run).or_default().insert(request);
    }
    let mut found = HashMap::new();
    for (number, wanted) in wanted {
        let run = &side.runs[number];
        let Some(path) = &run.path else { continue };
        let texts = match run.kind {
            FileKind::SobenchRunLog => texts_of_log(path, run, &wanted)?,
            _ => read::texts_of_run(&run.file, open(path)?, run.number, &wanted)?,
        };
        let in_run = texts.into_iter();
        found.extend(in_run.map(|(request, text)| ((number, request), text)));
    }
    Ok(found)
}

fn texts_of_log(path: &Path, run: &Run, wanted: &HashSet<usize>) -> Result<HashMap<usize, String>> {
    let mut answers = AnswerReader::open(path);
    let offset = |request: &usize| Some((*request, run.requests.as_ref()?.get(*request).offset()?));
    let mut places: Vec<(usize, u64)> = wanted.iter().filter_map(offset).collect();
    places.sort_unstable_by_key(|(_, offset)| *offset);
    let read = |(request, offset): (usize, u64)| {
        let logged = answers.at(offset)?;
        Ok((request, logged.answer.text().into_owned()))
    };
    places.into_iter().map(read).collect()
}

/// Writes a side as a baseline.
///
/// # Errors
/// The file cannot be written.
pub fn write_baseline(path: &Path, side: &Side) -> Result<()> {
    let text = read::write_baseline(&side.runs)?;
    write_text(path, &text)
}

/// Opens a result file. Rejects other files by their first byte.
fn open(path: &Path) -> Result<impl Read> {
    if input::first_byte(path, MAX_FILE_BYTES)?.is_some_and(|byte| byte != b'{') {
        return Err(read::no_result(
            &path.display().to_string(),
            "expected a JSON object",
        ));
    }
    input::open_text(path, MAX_FILE_BYTES)
}

/// Reads a file with progress.
struct WithProgress<'p, R> {
    file: R,
    progress: &'p dyn Progress,
}

impl<'p, R> WithProgress<'p, R> {
    fn new(file: R, path: &Path, progress: &'p dyn Progress) -> Self {
        progress.expect(fs::metadata(path).map_or(0, |file| file.len()));
        Self { file, progress }
    }
}

impl<R: Read> Read for WithProgress<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read(buffer)?;
        self.progress.advance(length as u64);
        Ok(length)
    }
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
            .hint("name results .json, .jsonl, .txt or .gz")),
        1..=MAX_FILES => Ok(files),
        many => Err(
            Error::usage(format!("{many} files, the limit is {MAX_FILES}: {name}"))
                .hint("give fewer runs"),
        ),
    }
}
