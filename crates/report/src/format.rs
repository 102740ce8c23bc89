//! Writes a report in an output format.

use std::io::{self, Write};

use super::junit::{self, JunitPer};
use super::result_layout::{self, Framing, ResultFormat};
use super::text::Detail;
use super::view::View;
use super::{csv, html, markdown, plot, summary, text};
use sobench_core::error::{Error, Result};
use sobench_core::output_format::OutputFormat;

/// Options of the formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FormSettings {
    /// Whether the JSON holds every request.
    pub detailed: bool,
    pub junit_per: JunitPer,
    /// How much the text shows; the other formats show everything.
    pub detail: Detail,
    /// Whether charts follow the text.
    pub plot: bool,
}

/// Writes a run in this format.
///
/// # Errors
/// An answer cannot be read from the log, or the output cannot be written.
pub fn write(
    view: &View<'_>,
    format: OutputFormat,
    options: FormSettings,
    out: &mut dyn Write,
) -> Result<()> {
    match format {
        OutputFormat::Text => {
            let text = match options.detail {
                Detail::Summary => summary::render(view)?,
                Detail::Full => text::render(view),
            };
            put(out, &text)?;
            if options.plot {
                put(out, &plot::render(view))
            } else {
                Ok(())
            }
        }
        OutputFormat::Json => result_layout::write(
            view,
            ResultFormat::Sobench,
            options.detailed,
            Framing::WholeFile,
            out,
        ),
        OutputFormat::VllmServe => result_layout::write(
            view,
            ResultFormat::VllmServe,
            options.detailed,
            Framing::WholeFile,
            out,
        ),
        OutputFormat::VllmStructured => result_layout::write(
            view,
            ResultFormat::VllmStructured,
            options.detailed,
            Framing::WholeFile,
            out,
        ),
        OutputFormat::Csv => csv::write(view, out),
        OutputFormat::Markdown => put(out, &markdown::render(view.report)),
        OutputFormat::Html => put(out, &html::render(view)?),
        OutputFormat::Junit => junit::write(view, options.junit_per, out),
        OutputFormat::Jsonl | OutputFormat::Parquet => Err(format.unsupported("a report")),
    }
}

/// Writes a piece of text.
pub(super) fn put(out: &mut dyn Write, text: &str) -> Result<()> {
    out.write_all(text.as_bytes())
        .map_err(|error| cannot_write(&error))
}

/// The error of a report that cannot be written.
pub(super) fn cannot_write(error: &io::Error) -> Error {
    Error::environment(format!("cannot write the report: {error}"))
        .hint("free disk space, or name another file")
}
