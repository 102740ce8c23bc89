//! Files that a report is written to beside the saved result: its forms, the failing cases, vLLM's records. Knows no form of it.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::record::directory;
use crate::error::{Error, Result};
use crate::plan::RunPlan;
use crate::report::view::View;
use crate::report::{failures, filename, format, lengths_page, pytorch, requests_page};
use crate::try_file::{make_folder, try_file};

/// What the name of the file of failing cases ends in, and that of vLLM's records.
const FAILURES_ENDING: &str = "failures.jsonl";
const PYTORCH_ENDING: &str = "pytorch.json";

/// Files of one name that are looked past for a free one.
const MAX_SAME_NAMES: usize = 1000;

/// What the names of pages end in, as vLLM's do but for the second, which is a picture there.
const TIMELINE_ENDING: &str = "timeline.html";
const LENGTHS_ENDING: &str = "dataset_stats.html";

/// What became of the files: a line for each that was written, and why others were not. One that cannot be written does not keep the
/// others from it.
#[derive(Default)]
pub(super) struct Written {
    pub(super) lines: Vec<String>,
    pub(super) failures: Vec<Error>,
}

impl Written {
    fn add(&mut self, outcome: Result<String>) {
        match outcome {
            Ok(line) => self.lines.push(line),
            Err(error) => self.failures.push(error),
        }
    }
}

/// Sees that the files that were named can be made, before anything is sent.
///
/// # Errors
/// One of them cannot.
pub(super) fn make_room(plan: &RunPlan) -> Result<()> {
    for (_, path) in &plan.output.files {
        make_folder(path).and_then(|()| try_file(path)).map_err(|error| cannot_write(path, &error))?;
    }
    if plan.output.failures || plan.output.timeline.is_some() || plan.output.lengths {
        let folder = directory(plan);
        std::fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
    }
    Ok(())
}

/// Writes every file that the plan asks for. `saved` is where the result was saved.
pub(super) fn write_all(plan: &RunPlan, view: &View<'_>, saved: Option<&Path>) -> Written {
    let output = &plan.output;
    let mut written = Written::default();
    for (form, path) in &output.files {
        let done = write(path, |out| format::write(view, *form, output.forms, out));
        written.add(done.map(|()| format!("{} written: {}", form.name(), path.display())));
    }
    if output.failures {
        let path = beside(plan, view, saved, FAILURES_ENDING);
        let mut count = 0;
        let done = write(&path, |out| {
            count = failures::write(view, out)?;
            Ok(())
        });
        written.add(done.map(|()| format!("failing cases written: {count} to {}", path.display())));
    }
    let pages = [
        output.timeline.map(|thresholds| ("timeline", TIMELINE_ENDING, requests_page::render(view, thresholds))),
        output.lengths.then(|| ("lengths", LENGTHS_ENDING, lengths_page::render(view))),
    ];
    for (name, ending, page) in pages.into_iter().flatten() {
        let path = beside(plan, view, saved, ending);
        let done = write(&path, |out| out.write_all(page.as_bytes()).map_err(|error| cannot_write(&path, &error)));
        written.add(done.map(|()| format!("{name} written: {}", path.display())));
    }
    if let Some(result) = saved.filter(|_| output.pytorch) {
        let path = result.with_extension(PYTORCH_ENDING);
        let records = pytorch::render(view.report, output.filename.as_deref());
        let text = serde_json::to_string(&records).expect("a value is JSON");
        let done = write(&path, |out| out.write_all(text.as_bytes()).map_err(|error| cannot_write(&path, &error)));
        written.add(done.map(|()| format!("PyTorch benchmark records written: {}", path.display())));
    }
    written
}

/// The path of a file beside the result. Where the result has no file of its own, its name is the one that it would have had: what a
/// result is added to holds other runs.
fn beside(plan: &RunPlan, view: &View<'_>, saved: Option<&Path>, ending: &str) -> PathBuf {
    if let Some(result) = saved.filter(|_| !plan.output.append) {
        return result.with_extension(ending);
    }
    if let Some(name) = plan.output.filename.as_ref().filter(|_| !plan.output.append) {
        return directory(plan).join(name).with_extension(ending);
    }
    let name = filename(view.report, plan.output.result_format, view.report.about.date.as_deref().unwrap_or_default());
    let stem = Path::new(&name).with_extension("");
    let stem = stem.display();
    // As results, whose names of our own making are never written over.
    let names = std::iter::once(format!("{stem}.{ending}")).chain((2..).map(|number| format!("{stem}-{number}.{ending}")));
    let mut paths = names.map(|name| directory(plan).join(name)).take(MAX_SAME_NAMES);
    paths.find(|path| !path.exists()).unwrap_or_else(|| directory(plan).join(format!("{stem}.{ending}")))
}

/// Writes a file; one that is there is written over, as vLLM's tools do. Folders that are missing are made.
///
/// # Errors
/// It cannot be made, or `fill` fails.
pub(super) fn write(path: &Path, fill: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let file = make_folder(path).and_then(|()| File::create(path)).map_err(|error| cannot_write(path, &error))?;
    filled(file, fill, |error| cannot_write(path, error))
}

/// Fills a file that is open. Where the file itself gives out, `cannot_write` says so, which knows its name.
///
/// # Errors
/// It gives out, or `fill` fails.
pub(super) fn filled(
    file: File,
    fill: impl FnOnce(&mut dyn Write) -> Result<()>,
    cannot_write: impl Fn(&io::Error) -> Error,
) -> Result<()> {
    let mut out = Noting { to: BufWriter::new(file), failure: None };
    let done = fill(&mut out).and_then(|()| out.flush().map_err(|error| cannot_write(&error)));
    match &out.failure {
        Some(error) => Err(cannot_write(error)),
        None => done,
    }
}

/// A writer that remembers its first failure, whatever becomes of it on the way up.
struct Noting {
    to: BufWriter<File>,
    failure: Option<io::Error>,
}

impl Noting {
    fn note(&mut self, error: io::Error) -> io::Error {
        let same = error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error);
        self.failure.get_or_insert(same);
        error
    }
}

impl Write for Noting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.write(bytes).map_err(|error| self.note(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush().map_err(|error| self.note(error))
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> Error {
    Error::environment(format!("the report cannot be written ({error}): {}", path.display()))
        .hint("make room, or name a file in a folder that can be written to")
}
