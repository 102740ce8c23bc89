//! The forms that a report can take. Knows no file: a form is written to whatever takes bytes.

use std::io::{self, Write};

use super::junit::{self, JunitPer};
use super::saved::{self, Place, ResultFormat};
use super::view::View;
use super::{csv, html, markdown, plot, text};
use sobench_core::error::{Error, Result};
use sobench_core::output_format::OutputFormat;

/// What the forms leave open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FormOptions {
    /// Whether the JSON holds every request; the samples have to have their texts.
    pub detailed: bool,
    pub junit_per: JunitPer,
    /// Whether the text has drawings at its end.
    pub plot: bool,
}

/// Writes a run in this form.
///
/// # Errors
/// An answer cannot be read from the log, or what is written to gives out.
pub fn write(
    view: &View<'_>,
    format: OutputFormat,
    options: FormOptions,
    out: &mut dyn Write,
) -> Result<()> {
    match format {
        OutputFormat::Text => {
            put(out, &text::render(view.report))?;
            if options.plot {
                put(out, &plot::render(view))
            } else {
                Ok(())
            }
        }
        OutputFormat::Json => saved::write(
            view,
            ResultFormat::Sobench,
            options.detailed,
            Place::Whole,
            out,
        ),
        OutputFormat::VllmServe => saved::write(
            view,
            ResultFormat::VllmServe,
            options.detailed,
            Place::Whole,
            out,
        ),
        OutputFormat::VllmStructured => saved::write(
            view,
            ResultFormat::VllmStructured,
            options.detailed,
            Place::Whole,
            out,
        ),
        OutputFormat::Csv => csv::write(view, out),
        OutputFormat::Markdown => put(out, &markdown::render(view.report)),
        OutputFormat::Html => put(out, &html::render(view)?),
        OutputFormat::Junit => junit::write(view, options.junit_per, out),
    }
}

/// Writes a piece of a form.
pub(super) fn put(out: &mut dyn Write, text: &str) -> Result<()> {
    out.write_all(text.as_bytes()).map_err(|error| lost(&error))
}

/// The error of a form that could not be written.
pub(super) fn lost(error: &io::Error) -> Error {
    Error::environment(format!("the report cannot be written: {error}"))
        .hint("make room, or name another file")
}
