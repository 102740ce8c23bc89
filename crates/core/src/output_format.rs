//! The formats of what commands print and write. Each command takes some of them.

use crate::error::Error;

/// A format of a report, a comparison or a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputFormat {
    /// Tables for a terminal.
    Text,
    /// Everything, for programs. Of a run: what `--save-result` saves.
    Json,
    /// A line for every request, or for every row.
    Csv,
    /// A comment on a pull request.
    Markdown,
    /// A page for a browser.
    Html,
    /// Tests for CI.
    Junit,
    /// The result of a run as `vllm bench serve` saves it.
    VllmServe,
    /// The result of a run as vLLM's structured-output script saves it.
    VllmStructured,
}

impl OutputFormat {
    /// Every format, in the order in which they are listed to people.
    pub const ALL: [Self; 8] = [
        Self::Text,
        Self::Json,
        Self::Csv,
        Self::Markdown,
        Self::Html,
        Self::Junit,
        Self::VllmServe,
        Self::VllmStructured,
    ];

    /// The name in flags.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Markdown => "markdown",
            Self::Html => "html",
            Self::Junit => "junit",
            Self::VllmServe => "vllm-serve",
            Self::VllmStructured => "vllm-structured",
        }
    }

    /// The format that the extension of a file names; `None` where it names none, or more than one.
    pub fn from_extension(extension: &str) -> Option<Self> {
        match extension {
            "txt" => Some(Self::Text),
            "json" => Some(Self::Json),
            "csv" => Some(Self::Csv),
            "md" => Some(Self::Markdown),
            "html" => Some(Self::Html),
            _ => None,
        }
    }

    /// The error of a renderer that has no such format, and whose flags let it through.
    pub fn unsupported(self, what: &str) -> Error {
        Error::internal(format!("{what} has no format {}", self.name()))
    }
}
