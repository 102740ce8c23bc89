//! Files beside the result: reports in other formats, failing cases, pages, vLLM's records.

use std::path::{Path, PathBuf};

use super::result_file::directory;
use crate::commands::bench::options::OutputPlan;
use crate::commands::output::{check_writable as check_paths, paths};
use crate::commands::parquet::write_form;
use sobench_core::error::{Error, Result};
use sobench_core::output_files::{cannot_write_report, numbered_names, write};
use sobench_report::view::View;
use sobench_report::{failures, filename, lengths_page, pytorch, requests_page};

/// Endings of the files of failing cases and of vLLM's records.
const FAILURES_ENDING: &str = "failures.jsonl";
const PYTORCH_ENDING: &str = "pytorch.json";

/// Endings of the pages, as in vLLM, where the second is a picture.
const TIMELINE_ENDING: &str = "timeline.html";
const LENGTHS_ENDING: &str = "dataset_stats.html";

/// A line for each written file, and the errors of the others. An error does not stop the other
/// files.
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

/// Checks that the named files can be created, before anything is sent.
///
/// # Errors
/// A file cannot be created.
pub(super) fn check_writable(output: &OutputPlan) -> Result<()> {
    for path in paths(&output.files) {
        output.refuse_foreign(path, "--save")?;
    }
    check_paths(paths(&output.files))?;
    if let Some(name) = output.filename.as_ref().filter(|_| !output.append) {
        let result = directory(output).join(name);
        for (ending, flag, is_written) in [
            (FAILURES_ENDING, "--save-failures", output.failures),
            (
                TIMELINE_ENDING,
                "--plot-timeline",
                output.timeline.is_some(),
            ),
            (LENGTHS_ENDING, "--plot-dataset-stats", output.lengths),
            (
                PYTORCH_ENDING,
                "SAVE_TO_PYTORCH_BENCHMARK_FORMAT",
                output.pytorch,
            ),
        ] {
            if is_written {
                output.refuse_foreign(&result.with_extension(ending), flag)?;
            }
        }
    }
    if output.failures || output.timeline.is_some() || output.lengths {
        let folder = directory(output);
        std::fs::create_dir_all(folder).map_err(|error| cannot_write_report(folder, &error))?;
    }
    Ok(())
}

/// Writes every file of the plan. `saved` is the path of the result.
pub(super) fn write_all(output: &OutputPlan, view: &View<'_>, saved: Option<&Path>) -> Written {
    let mut written = Written::default();
    for (form, path) in &output.files {
        let done = write(path, |out| write_form(view, *form, output.forms, out));
        written.add(done.map(|()| format!("{} written: {}", form.name(), path.display())));
    }
    if output.failures {
        let path = beside(output, view, saved, FAILURES_ENDING);
        let mut count = 0;
        let done = write(&path, |out| {
            count = failures::write(view, out)?;
            Ok(())
        });
        written.add(done.map(|()| format!("failing cases written: {count} to {}", path.display())));
    }
    let texts = [
        output.timeline.map(|thresholds| {
            (
                "timeline",
                beside(output, view, saved, TIMELINE_ENDING),
                requests_page::render(view, thresholds),
            )
        }),
        output.lengths.then(|| {
            (
                "lengths",
                beside(output, view, saved, LENGTHS_ENDING),
                lengths_page::render(view),
            )
        }),
        saved.filter(|_| output.pytorch).map(|result| {
            let records = pytorch::render(view.report, output.filename.as_deref());
            (
                "PyTorch benchmark records",
                result.with_extension(PYTORCH_ENDING),
                records.to_string(),
            )
        }),
    ];
    for (name, path, text) in texts.into_iter().flatten() {
        let done = write(&path, |out| {
            out.write_all(text.as_bytes())
                .map_err(|error| cannot_write_report(&path, &error))
        });
        written.add(done.map(|()| format!("{name} written: {}", path.display())));
    }
    written
}

/// The path of a file beside the result. A result that is appended to other runs has no name of its
/// own; then the file has the default name.
fn beside(output: &OutputPlan, view: &View<'_>, saved: Option<&Path>, ending: &str) -> PathBuf {
    let named = saved
        .map(Path::to_owned)
        .or_else(|| Some(directory(output).join(output.filename.as_ref()?)));
    if let Some(path) = named.filter(|_| !output.append) {
        return path.with_extension(ending);
    }
    let name = filename(
        &view.report.record,
        view.report.requests,
        output.result_format,
        &view.report.record.date(),
    );
    let stem = Path::new(&name).with_extension("");
    let stem = stem.display().to_string();
    // Default names are never overwritten, as for results.
    let mut paths = numbered_names(&stem, ending).map(|name| directory(output).join(name));
    paths
        .find(|path| !path.exists())
        .unwrap_or_else(|| directory(output).join(format!("{stem}.{ending}")))
}
