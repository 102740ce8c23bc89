//! Output formats. Each command supports some of them.

use crate::error::Error;

/// Output format of a report, a comparison or a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputFormat {
    /// Tables for a terminal.
    Text,
    /// All data, for programs. For a run, equal to the file of `--save-result`.
    Json,
    /// JSON Lines: one value for each request or row.
    Jsonl,
    /// One line for each request or row.
    Csv,
    /// The columns of [`Self::Csv`], with types.
    Parquet,
    /// For a comment on a pull request.
    Markdown,
    /// Web page.
    Html,
    /// Test results for CI.
    Junit,
    /// The result of a run as `vllm bench serve` saves it.
    VllmServe,
    /// The result of a run as vLLM's structured-output script saves it.
    VllmStructured,
}

impl OutputFormat {
    /// All formats, in the order of help texts.
    pub const ALL: [Self; 10] = [
        Self::Text,
        Self::Json,
        Self::Jsonl,
        Self::Csv,
        Self::Parquet,
        Self::Markdown,
        Self::Html,
        Self::Junit,
        Self::VllmServe,
        Self::VllmStructured,
    ];

    /// Those of text, which can be printed.
    pub const PRINTED: [Self; 9] = [
        Self::Text,
        Self::Json,
        Self::Jsonl,
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
            Self::Jsonl => "jsonl",
            Self::Csv => "csv",
            Self::Parquet => "parquet",
            Self::Markdown => "markdown",
            Self::Html => "html",
            Self::Junit => "junit",
            Self::VllmServe => "vllm-serve",
            Self::VllmStructured => "vllm-structured",
        }
    }

    /// The extension of its files; `None` if another format has it.
    pub fn extension(self) -> Option<&'static str> {
        Some(match self {
            Self::Text => "txt",
            Self::Json => "json",
            Self::Jsonl => "jsonl",
            Self::Csv => "csv",
            Self::Parquet => "parquet",
            Self::Markdown => "md",
            Self::Html => "html",
            Self::Junit => "xml",
            Self::VllmServe | Self::VllmStructured => return None,
        })
    }

    /// The format for a file extension.
    pub fn from_extension(extension: &str) -> Option<Self> {
        let mut formats = Self::ALL.into_iter();
        formats.find(|format| format.extension() == Some(extension))
    }

    /// The error of a renderer without this format; the flags should have refused it.
    pub fn unsupported(self, what: &str) -> Error {
        Error::internal(format!("{what} has no format {}", self.name()))
    }
}
