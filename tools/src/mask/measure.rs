//! Runs `sobench-tools mask`: measures, summarises, prints and writes the report.

use std::path::{Path, PathBuf};

use crate::mask::options::MaskSettings;
use crate::mask::report::json::MaskFile;
use crate::mask::report::page::{self, Order};
use crate::mask::report::{Measurement, Summary, csv};
use crate::mask::row::Row;
use crate::mask::{MaskEvent, MaskRun, MergedRows, WorkerCommand};
use sobench::commands::flags::paths::InputPath;
use sobench::commands::flags::rendering::SavedFile;
use sobench::commands::output::{CommandOutput, check_writable, paths, pretty};
use sobench::terminal;
use sobench::terminal::{Mode, Progress, ProgressLabels};
use sobench_core::dates::date;
use sobench_core::error::Result;
use sobench_core::exit_codes::{INTERRUPTED, SUCCESS};
use sobench_core::output_format::OutputFormat;
use sobench_core::printable::printable;
use sobench_engine::EngineName;
use sobench_notices::notice::MaskNotice;
use sobench_render::{Block, Document, html, text};
use sobench_shutdown::{Listener, Shutdown};

/// Maximum length of a decline message.
const MESSAGE_MAX_CHARS: usize = 300;

/// Measures, prints and writes the report.
///
/// # Errors
/// The measurement cannot start, a report file is not writable, or rows cannot be read back. A
/// report file that fails to be written after the measurement is reported with exit code 3; the
/// other outputs are unaffected.
pub fn run(options: &MaskSettings, shutdown: &Shutdown) -> Result<CommandOutput> {
    check_writable(paths(&options.files).chain(options.output.csv_tags.as_deref()))?;
    let _listener = listen(shutdown)?;
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
    if let Some(path) = &options.output.csv_tags {
        output.write(path, &String::from_utf8_lossy(&csv::render_tags(&summary)));
    }
    output.save(&options.files, |format| {
        render_report(format, &summary, measured.rows())
    })?;
    Ok(output)
}

/// The first signal stops the measurement and reports the completed part.
///
/// # Errors
/// The listener thread cannot be started.
pub(super) fn listen(shutdown: &Shutdown) -> Result<Listener> {
    shutdown.listen(|_| terminal::say("stopping: the completed part is reported"))
}

/// Merges the rows of all shards and reports on the whole measurement (`sobench-tools merge`).
///
/// # Errors
/// The files are not all shards of one measurement, or the merged file or the report cannot be
/// written.
pub(crate) fn report_merged(
    files: &[InputPath],
    merged: Option<&Path>,
    format: OutputFormat,
    reports: &[SavedFile],
) -> Result<CommandOutput> {
    let files: Vec<PathBuf> = files.iter().map(|path| path.to_path_buf()).collect();
    let MergedRows {
        record,
        rows,
        missing,
        notices,
    } = crate::mask::merge_rows(&files, merged)?;
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
    output.stdout = render_report(format, &summary, rows.iter())?;
    output.save(reports, |format| {
        render_report(format, &summary, rows.iter())
    })?;
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
        OutputFormat::Html => html::render(&page::document(summary, Order::ConditionsFirst)),
        other => return Err(other.unsupported("a measurement of engines")),
    })
}

fn measure(options: &MaskSettings, shutdown: &Shutdown) -> Result<MaskRun> {
    let mode = Mode::detect(!options.output.disable_tqdm);
    let progress = std::sync::OnceLock::new();
    let labels = ProgressLabels {
        unit: "rows",
        failed: "stopped early",
    };
    let measured = crate::mask::run(
        &options.mask,
        &WorkerCommand::current("mask-worker")?,
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
    let mut document = Document::new("sobench-tools mask --explain");
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
