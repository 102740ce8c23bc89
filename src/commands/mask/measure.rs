//! `sobench mask` from options to report: measure, add up, render, write. Knows no engine and no
//! layout of a corpus.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use crate::commands::flags::paths::{InputPath, OutputPath};
use crate::commands::flags::rendering::RenderingArgs;
use crate::commands::mask::args::{FORMATS, MaskOutputArgs};
use crate::commands::mask::options::MaskOptions;
use crate::commands::mask::report::page::{self, Order};
use crate::commands::mask::report::{Measurement, Summary, csv, json};
use crate::commands::output::{CommandOutput, pretty};
use crate::terminal;
use crate::terminal::{Mode, Progress, Words};
use sobench_core::dates::date;
use sobench_core::error::{Error, Result};
use sobench_core::exit_codes::{DONE, INTERRUPTED};
use sobench_core::output_format::OutputFormat;
use sobench_core::printable::printable;
use sobench_engine::EngineName;
use sobench_mask::row::Row;
use sobench_mask::{self as mask, MaskEvent, MaskRun, MergedRows, WorkerCommand};
use sobench_notices::notice::MaskNotice;
use sobench_render::{Block, Document, html, text};
use sobench_shutdown::Shutdown;

/// Characters of a refusal's words that one line shows.
const WORDS_MAX_CHARS: usize = 300;

/// Measures, prints and writes what the options asks for.
///
/// # Errors
/// Whatever keeps the measurement from beginning, a report's file that cannot be written among it,
/// and rows that cannot be read again. A report that cannot be written after all is told at the
/// end, with exit code 3: it costs neither the measurement nor what is printed.
pub fn run(options: &MaskOptions, shutdown: &Shutdown) -> Result<CommandOutput> {
    options.output.files().try_for_each(try_file)?;
    let _listener = super::listen(shutdown)?;
    let measured = measure(options, shutdown)?;
    let summary = Summary::build(measurement(&measured), || Ok(measured.rows()))?;
    let mut stdout = rendered(options.output.format, &summary, measured.rows())?;
    let mut output = CommandOutput {
        exit_code: if measured.interrupted {
            INTERRUPTED
        } else {
            DONE
        },
        ..CommandOutput::default()
    };
    if options.output.explain {
        let routes = format!("\n{}", text::render(&explained(&measured)?));
        // Other formats are read by programs.
        if options.output.format == OutputFormat::Text {
            stdout.push_str(&routes)
        } else {
            output.lines.push(routes)
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
            "interrupted: the report covers the rows that were done; --rows with --resume goes on"
                .to_owned(),
        );
    }
    write_all(&options.output, &measured, &summary, &mut output)?;
    Ok(output)
}

/// Puts the rows of all shards of a measurement together, and reports on the whole (`sobench
/// merge`).
///
/// # Errors
/// The files are not those of all shards of one measurement; the merged file or the report cannot
/// be written.
pub(crate) fn merged(
    files: &[InputPath],
    merged: Option<&Path>,
    rendering: &RenderingArgs,
    report: Option<&Path>,
) -> Result<CommandOutput> {
    let format = rendering.format;
    if !FORMATS.contains(&format) {
        return Err(Error::usage(format!(
            "a measurement of engines has no such report: --format {}",
            format.name()
        ))
        .hint("rows have text, json, csv and html"));
    }
    let files: Vec<PathBuf> = files.iter().map(|path| path.to_path_buf()).collect();
    let MergedRows {
        about,
        rows,
        missing,
        notices,
    } = mask::merge_rows(&files, merged)?;
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
    if about.prove.is_some() {
        output
            .lines
            .push("proofs are reported from the merged rows by the command without --shard: --rows FILE --resume".to_owned());
        return Ok(output);
    }
    let measurement = Measurement {
        about,
        batches: Vec::new(),
        sobench_version: env!("CARGO_PKG_VERSION").to_owned(),
        date: None,
        wall_ns: None,
        interrupted: missing > 0,
        notices,
    };
    let summary = Summary::build(measurement, || Ok(rows.iter()))?;
    let rendered = rendered(format, &summary, rows.iter())?;
    match report {
        None => output.stdout = rendered,
        Some(path) => write_file(path, rendered.as_bytes(), &mut output),
    }
    Ok(output)
}

/// The report of rows in a format.
///
/// # Errors
/// Rows that cannot be read.
fn rendered(
    format: OutputFormat,
    summary: &Summary,
    rows: impl Iterator<Item = Result<Row>>,
) -> Result<String> {
    Ok(match format {
        OutputFormat::Text => text::render(&page::document(summary, Order::TablesFirst)),
        OutputFormat::Json => pretty(&json::render(summary)),
        OutputFormat::Csv => {
            String::from_utf8_lossy(&csv::render_rows(rows, &summary.measurement.about)?)
                .into_owned()
        }
        OutputFormat::Html => rendered_as_html(summary),
        other => return Err(other.unsupported("a measurement of engines")),
    })
}

fn rendered_as_html(summary: &Summary) -> String {
    html::render(&page::document(summary, Order::ConditionsFirst))
}

fn measure(options: &MaskOptions, shutdown: &Shutdown) -> Result<MaskRun> {
    let mode = Mode::detect(!options.output.disable_tqdm);
    let progress = std::sync::OnceLock::new();
    let words = Words {
        unit: "rows",
        failed: "stopped early",
    };
    let measured = mask::run(
        &options.mask,
        &WorkerCommand::current()?,
        shutdown,
        &|event| match event {
            MaskEvent::Started { rows, resumed } => {
                if resumed > 0 {
                    terminal::say(&format!("{resumed} of {rows} rows are there already"));
                }
                let _ = progress.set(Progress::new(mode, rows - resumed, words));
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
        about: measured.about.clone(),
        batches: measured.batches.clone(),
        sobench_version: env!("CARGO_PKG_VERSION").to_owned(),
        date: Some(date(measured.began)),
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

/// The page of `--explain`: where `auto` sent each entry.
fn explained(measured: &MaskRun) -> Result<Document> {
    let mut document = Document::new("sobench mask --explain");
    document.heading("Where auto sends each entry");
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
                printable(&declined.words, WORDS_MAX_CHARS)
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
        Ok(pretty(&json::render(summary)).into_bytes())
    })?;
    write(&files.csv, &|| {
        csv::render_rows(measured.rows(), &measured.about)
    })?;
    write(&files.csv_tags, &|| Ok(csv::render_tags(summary)))?;
    write(&files.html, &|| Ok(rendered_as_html(summary).into_bytes()))
}

/// Writes a report, and says whether it could; one that cannot be written costs nothing but itself.
pub(crate) fn write_file(path: &Path, bytes: &[u8], output: &mut CommandOutput) {
    match std::fs::write(path, bytes).map_err(|error| cannot_write(path, &error)) {
        Ok(()) => output.lines.push(format!("written: {}", path.display())),
        Err(error) => {
            output.lines.push(format!("error: {error}"));
            output.exit_code = output.exit_code.max(error.exit_code());
        }
    }
}

/// Whether a report will find its place: told before the measurement and not after it. What is
/// there stays as it is.
pub(crate) fn try_file(path: &Path) -> Result<()> {
    let is_new = !path.exists();
    OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .map_err(|error| cannot_write(path, &error))?;
    if is_new {
        // Where it cannot be removed, it is replaced in the end.
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Error {
    Error::environment(format!(
        "cannot write the report ({error}): {}",
        path.display()
    ))
    .hint("name a file in a folder that is there and may be written to")
}
