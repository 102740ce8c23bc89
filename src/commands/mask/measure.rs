//! Runs `sobench mask`: measures, summarises, prints and writes the report.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::commands::flags::paths::{InputPath, OutputPath};
use crate::commands::flags::rendering::RenderingArgs;
use crate::commands::mask::args::{FORMATS, MaskOutputArgs};
use crate::commands::mask::options::MaskOptions;
use crate::commands::mask::report::json::MaskFile;
use crate::commands::mask::report::page::{self, Order};
use crate::commands::mask::report::{Measurement, Summary, csv};
use crate::commands::output::{CommandOutput, pretty};
use crate::terminal;
use crate::terminal::{Mode, Progress, ProgressLabels};
use sobench_core::dates::date;
use sobench_core::error::{Error, Result};
use sobench_core::exit_codes::{INTERRUPTED, SUCCESS};
use sobench_core::output_files;
use sobench_core::output_format::OutputFormat;
use sobench_core::printable::printable;
use sobench_engine::EngineName;
use sobench_mask::row::Row;
use sobench_mask::{MaskEvent, MaskRun, MergedRows, WorkerCommand};
use sobench_notices::notice::MaskNotice;
use sobench_render::{Block, Document, html, text};
use sobench_shutdown::Shutdown;

/// Maximum length of a decline message.
const MESSAGE_MAX_CHARS: usize = 300;

/// Measures, prints and writes the report.
///
/// # Errors
/// The measurement cannot start, a report file is not writable, or rows cannot be read back. A
/// report file that fails to be written after the measurement is reported with exit code 3; the
/// other outputs are unaffected.
pub fn run(options: &MaskOptions, shutdown: &Shutdown) -> Result<CommandOutput> {
    options.output.files().try_for_each(check_writable)?;
    let _listener = super::listen(shutdown)?;
    let measured = measure(options, shutdown)?;
    let summary = Summary::build(measurement(&measured), || Ok(measured.rows()))?;
    let mut stdout = render_report(options.output.format, &summary, measured.rows())?;
    let mut output = CommandOutput {
        exit_code: if measured.interrupted {
            INTERRUPTED
        } else {
            SUCCESS
        },
        ..CommandOutput::default()
    };
    if options.output.explain {
        let routes = format!("\n{}", text::render(&explain_routes(&measured)?));
        // Other formats are machine-readable.
        if options.output.format == OutputFormat::Text {
            stdout.push_str(&routes);
        } else {
            output.lines.push(routes);
        }
    }
    output.stdout = stdout;
    output.lines.extend(
        measured
            .rows_path()
            .map(|path| format!("rows: {}", path.display())),
    );
    if measured.interrupted {
        output.lines.push(
            "interrupted: the report covers the completed rows; continue with --rows and --resume"
                .to_owned(),
        );
    }
    write_all(&options.output, &measured, &summary, &mut output)?;
    Ok(output)
}

/// Merges the rows of all shards and reports on the whole measurement (`sobench merge`).
///
/// # Errors
/// The files are not all shards of one measurement, or the merged file or the report cannot be
/// written.
pub(crate) fn report_merged(
    files: &[InputPath],
    merged: Option<&Path>,
    rendering: &RenderingArgs,
    report: Option<&Path>,
) -> Result<CommandOutput> {
    let format = rendering.format;
    if !FORMATS.contains(&format) {
        return Err(Error::usage(format!(
            "unsupported format for a measurement of engines: --format {}",
            format.name()
        ))
        .hint("use one of text, json, csv, html"));
    }
    let files: Vec<PathBuf> = files.iter().map(|path| path.to_path_buf()).collect();
    let MergedRows {
        record,
        rows,
        missing,
        notices,
    } = sobench_mask::merge_rows(&files, merged)?;
    let mut output = CommandOutput {
        lines: notices
            .iter()
            .map(|notice| format!("warning: {notice}"))
            .collect(),
        ..CommandOutput::default()
    };
    output
        .lines
        .extend(rows.path().map(|path| format!("rows: {}", path.display())));
    if record.prove.is_some() {
        output.lines.push(
            "report the merged proofs with the same command without --shard: --rows FILE --resume"
                .to_owned(),
        );
        return Ok(output);
    }
    let measurement = Measurement {
        record,
        batches: Vec::new(),
        sobench_version: env!("CARGO_PKG_VERSION").to_owned(),
        date: None,
        wall_ns: None,
        interrupted: missing > 0,
        notices,
    };
    let summary = Summary::build(measurement, || Ok(rows.iter()))?;
    let render_report = render_report(format, &summary, rows.iter())?;
    match report {
        None => output.stdout = render_report,
        Some(path) => write_file(path, render_report.as_bytes(), &mut output),
    }
    Ok(output)
}

/// Renders the report in a format.
///
/// # Errors
/// Rows cannot be read.
fn render_report(
    format: OutputFormat,
    summary: &Summary,
    rows: impl Iterator<Item = Result<Row>>,
) -> Result<String> {
    Ok(match format {
        OutputFormat::Text => text::render(&page::document(summary, Order::TablesFirst)),
        OutputFormat::Json => pretty(&MaskFile::new(summary)),
        OutputFormat::Csv => {
            String::from_utf8_lossy(&csv::render_rows(rows, &summary.measurement.record)?)
                .into_owned()
        }
        OutputFormat::Html => render_html(summary),
        other => return Err(other.unsupported("a measurement of engines")),
    })
}

fn render_html(summary: &Summary) -> String {
    html::render(&page::document(summary, Order::ConditionsFirst))
}

fn measure(options: &MaskOptions, shutdown: &Shutdown) -> Result<MaskRun> {
    let mode = Mode::detect(!options.output.disable_tqdm);
    let progress = std::sync::OnceLock::new();
    let labels = ProgressLabels {
        unit: "rows",
        failed: "stopped early",
    };
    let measured = sobench_mask::run(
        &options.mask,
        &WorkerCommand::current()?,
        shutdown,
        &|event| match event {
            MaskEvent::Started { rows, resumed } => {
                if resumed > 0 {
                    terminal::say(&format!("resuming: {resumed} of {rows} rows are done"));
                }
                let _ = progress.set(Progress::new(mode, rows - resumed, labels));
            }
            MaskEvent::RowDone { row } => {
                if let Some(progress) = progress.get() {
                    progress.ended(row.stopped.is_none());
                }
            }
        },
    );
    progress.get().inspect(|progress| progress.finish());
    let measured = measured?;
    measured
        .notices
        .iter()
        .for_each(|notice| terminal::warn(&notice.to_string()));
    Ok(measured)
}

fn measurement(measured: &MaskRun) -> Measurement {
    Measurement {
        record: measured.record.clone(),
        batches: measured.batches.clone(),
        sobench_version: env!("CARGO_PKG_VERSION").to_owned(),
        date: Some(date(measured.started_at)),
        wall_ns: Some(measured.wall_ns),
        interrupted: measured.interrupted,
        notices: (measured
            .interrupted
            .then(|| MaskNotice::MeasurementStopped.into())
            .into_iter())
        .chain(measured.notices.iter().cloned())
        .collect(),
    }
}

/// The output of `--explain`: the engine that `auto` chose for each entry.
fn explain_routes(measured: &MaskRun) -> Result<Document> {
    let mut document = Document::new("sobench mask --explain");
    document.heading("Engine chosen by auto for each entry");
    for row in measured.rows() {
        let row = row?;
        if row.engine != EngineName::Auto {
            continue;
        }
        let text = match (&row.route, &row.declined) {
            (Some(route), _) => format!("{} -> {}: {}", row.entry, route.engine.name(), route.why),
            (None, Some(declined)) => format!(
                "{} -> none: {}",
                row.entry,
                printable(&declined.message, MESSAGE_MAX_CHARS)
            ),
            (None, None) => format!("{} -> none", row.entry),
        };
        document.push(Block::Item {
            text: text.into(),
            below: Vec::new(),
        });
    }
    Ok(document)
}

fn write_all(
    files: &MaskOutputArgs,
    measured: &MaskRun,
    summary: &Summary,
    output: &mut CommandOutput,
) -> Result<()> {
    let mut write =
        |path: &Option<OutputPath>, bytes: &dyn Fn() -> Result<Vec<u8>>| -> Result<()> {
            let Some(path) = path else { return Ok(()) };
            write_file(path, &bytes()?, output);
            Ok(())
        };
    write(&files.json, &|| {
        Ok(pretty(&MaskFile::new(summary)).into_bytes())
    })?;
    write(&files.csv, &|| {
        csv::render_rows(measured.rows(), &measured.record)
    })?;
    write(&files.csv_tags, &|| Ok(csv::render_tags(summary)))?;
    write(&files.html, &|| Ok(render_html(summary).into_bytes()))
}

/// Writes a report and records the result; a failure does not affect other outputs.
pub(crate) fn write_file(path: &Path, bytes: &[u8], output: &mut CommandOutput) {
    let cannot = |error: &std::io::Error| cannot_write(path, error);
    let fill = |out: &mut dyn Write| out.write_all(bytes).map_err(|error| cannot(&error));
    match output_files::replace(path, fill, cannot) {
        Ok(()) => output.lines.push(format!("written: {}", path.display())),
        Err(error) => {
            output.lines.push(format!("error: {error}"));
            output.exit_code = output.exit_code.max(error.exit_code());
        }
    }
}

/// Checks before the measurement that a report file is writable. An existing file is not changed.
pub(crate) fn check_writable(path: &Path) -> Result<()> {
    output_files::check_writable(path).map_err(|error| cannot_write(path, &error))
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Error {
    Error::environment(format!(
        "cannot write the report ({error}): {}",
        path.display()
    ))
    .hint("name a file in an existing, writable folder")
}
