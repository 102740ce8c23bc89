//! The forms that a report can take. Knows no file: a form is written to whatever takes bytes.

use std::io::{self, Write};

use super::junit::{self, JunitPer};
use super::saved::{self, Place, ResultFormat};
use super::view::View;
use super::{csv, html, markdown, plot, text};
use crate::error::{Error, Result};

/// A form of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// What a run prints.
    Text,
    /// What `--save-result` saves.
    Json,
    /// A line for every request.
    Csv,
    /// A comment on a pull request.
    Markdown,
    /// A page for a browser.
    Html,
    /// Tests for CI.
    Junit,
    /// The result as `vllm bench serve` saves it.
    VllmServe,
    /// The result as vLLM's structured-output script saves it.
    VllmStructured,
}

/// What the forms leave open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FormOptions {
    /// Whether the JSON holds every request; [`super::Report::details`] has to be there.
    pub detailed: bool,
    pub junit_per: JunitPer,
    /// Whether the text has drawings at its end.
    pub plot: bool,
}

impl Format {
    /// Every form, in the order in which they are listed to people.
    pub const ALL: [Self; 8] =
        [Self::Text, Self::Json, Self::Csv, Self::Markdown, Self::Html, Self::Junit, Self::VllmServe, Self::VllmStructured];

    /// The name in flags.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Markdown => "markdown",
            Self::Html => "html",
            Self::Junit => "junit",
            Self::VllmServe => ResultFormat::VllmServe.name(),
            Self::VllmStructured => ResultFormat::VllmStructured.name(),
        }
    }
}

/// Writes a run in this form.
///
/// # Errors
/// An answer cannot be read from the log, or what is written to gives out.
pub fn write(view: &View<'_>, format: Format, options: FormOptions, out: &mut dyn Write) -> Result<()> {
    match format {
        Format::Text => {
            put(out, &text::render(view.report))?;
            if options.plot { put(out, &plot::render(view)) } else { Ok(()) }
        }
        Format::Json => saved::write(view, ResultFormat::Sobench, options.detailed, Place::Whole, out),
        Format::VllmServe => saved::write(view, ResultFormat::VllmServe, options.detailed, Place::Whole, out),
        Format::VllmStructured => saved::write(view, ResultFormat::VllmStructured, options.detailed, Place::Whole, out),
        Format::Csv => csv::write(view, out),
        Format::Markdown => put(out, &markdown::render(view.report)),
        Format::Html => put(out, &html::render(view)?),
        Format::Junit => junit::write(view, options.junit_per, out),
    }
}

/// Writes a piece of a form.
pub(super) fn put(out: &mut dyn Write, text: &str) -> Result<()> {
    out.write_all(text.as_bytes()).map_err(|error| lost(&error))
}

/// The error of a form that could not be written.
pub(super) fn lost(error: &io::Error) -> Error {
    Error::environment(format!("the report cannot be written: {error}")).hint("make room, or name another file")
}
