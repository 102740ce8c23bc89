//! The comparison of the runs of a matrix, and its output formats.
//!
//! [`Comparison`] is one table, backend by dataset: rates of the answers beside latencies and
//! throughputs. As JSON its contract is `schemas/contracts/matrix.schema.json`; the other formats
//! render the page of `page.rs`.

mod cells;
mod page;

use std::fmt;

use serde::{Serialize, Serializer};

use crate::commands::output::pretty;
use sobench_core::error::Result;
use sobench_core::output_format::OutputFormat;
use sobench_notices::notice::{Notice, as_sentences};
use sobench_render::{Document, html, markdown, text};
use sobench_results::metrics::Slo;
use sobench_results::metrics::knee::Knee;
use sobench_results::metrics::overhead::Overhead;
use sobench_results::metrics::registry::Values;
use sobench_statistics::{Rate, Summary};

/// What the file says that it is.
pub const FORMAT: &str = "sobench-arms";

/// The version of the file, raised whenever a key changes its meaning or goes away.
pub const FORMAT_VERSION: u32 = 1;

/// Runs held side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    pub format: &'static str,
    pub format_version: u32,
    pub about: MatrixConditions,
    /// By dataset, then by contender, then by load.
    pub rows: Vec<Row>,
    /// Where loads were swept and there are objectives: the highest load that each contender
    /// carries, by dataset.
    pub knees: Vec<KneeRow>,
    /// Every run, in the order in which they were made.
    pub runs: Vec<MatrixRun>,
    /// What the reader has to know besides the numbers.
    #[serde(serialize_with = "as_sentences")]
    pub notices: Vec<Notice>,
}

/// Under which conditions the numbers came about.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MatrixConditions {
    /// When the first run began, as vLLM writes it: `%Y%m%d-%H%M%S`.
    pub date: Option<String>,
    pub sobench_version: String,
    /// The kind of server (`vllm`, `openai-chat`, ...).
    pub backend: String,
    /// Who answered, e.g. `servers that were started one at a time`.
    pub servers: String,
    /// In which order the runs were made, in words.
    pub order: String,
    /// Whether the contenders of a dataset and load ran at once.
    pub interleaved: bool,
    /// Requests of one run.
    pub num_prompts: usize,
    /// The most tokens of an answer.
    pub output_len: u32,
    pub seed: u64,
    pub repeats: usize,
    /// Whether the same cases were sent without their constraint as well.
    pub control: bool,
    /// The objectives, and the share of requests in percent that has to be valid within them.
    pub goodput: Option<Slo>,
    pub goodput_share_percent: f64,
    /// Whether the user stopped it.
    pub partial: bool,
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    pub dataset: String,
    pub contender: String,
    pub load: Load,
    #[serde(flatten)]
    pub fate: Fate,
}

/// What came of a contender on a dataset under a load.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "fate", rename_all = "snake_case")]
pub enum Fate {
    Measured(Box<Figures>),
    /// It could not be measured, in the words of whoever refused.
    DidNotRun {
        reason: String,
    },
}

/// What the runs of one line came to. Latencies are in milliseconds, over all repeats; throughputs
/// per second of the runs' time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Runs with constraints.
    pub runs: usize,
    /// Requests that were sent with their constraint.
    pub requests: usize,
    pub correct_rate: Option<Rate>,
    pub compliance: Option<Rate>,
    pub coverage: Option<Rate>,
    pub ttft_ms: Summary,
    pub tpot_ms: Summary,
    pub e2el_ms: Summary,
    pub request_throughput: Option<f64>,
    pub output_throughput: Option<f64>,
    /// Valid answers.
    pub valid_throughput: Option<f64>,
    /// Constrained requests that were valid and met every objective.
    pub valid_within_objectives: Option<Rate>,
    /// TTFT of first uses of a constraint, and of later ones, on servers that are known not to have
    /// had it before.
    pub cold_ttft_ms: Summary,
    pub warm_ttft_ms: Summary,
    /// Where those first uses are from; `None` where none is known to be one.
    pub cold_from: Option<ColdFrom>,
    pub control: Option<Control>,
    /// Runs, controls among them, in which the client itself stood in the way: their latencies are
    /// no evidence.
    pub distrusted_runs: usize,
    pub server_version: Option<String>,
    /// The decoding engine as the server names it, with its version.
    pub engine: Option<String>,
    /// Every metric of the runs with constraints.
    pub metrics: Values,
}

/// Where first uses of constraints are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ColdFrom {
    /// The runs themselves, with the load around them.
    Run,
    /// Requests before the runs, each alone: the first use of the run's one constraint, and the
    /// same once more.
    Alone,
}

/// The same cases on the same schedule, without their constraint.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Control {
    pub runs: usize,
    pub requests: usize,
    /// How many answers happen to be valid.
    pub control_rate: Option<Rate>,
    pub ttft_ms: Summary,
    pub tpot_ms: Summary,
    pub output_throughput: Option<f64>,
    /// What the constraint costs, over requests that have a value with and without it.
    pub ttft_overhead: Option<Overhead>,
    pub tpot_overhead: Option<Overhead>,
}

/// The highest load that a contender carries on a dataset.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KneeRow {
    pub dataset: String,
    pub contender: String,
    pub knee: Knee<Load>,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MatrixRun {
    pub contender: String,
    pub dataset: String,
    pub load: Load,
    pub treatment: Treatment,
    /// From 1.
    pub repeat: usize,
    pub run_log: Option<String>,
    pub result: Option<String>,
    /// Why its latencies are not to be trusted: the client stood in the way.
    pub distrust: Option<String>,
    /// Why it is in no figure; `None` where it is.
    pub failure: Option<String>,
}

/// How much was sent at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// As the other flags say; nothing was swept.
    AsGiven,
    /// Requests per second; infinite where all are due at once.
    RequestRate(f64),
    /// The most requests in flight.
    MaxConcurrency(usize),
}

/// Whether the constraint was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Treatment {
    Control,
    Constrained,
}

/// The comparison in a format.
///
/// # Errors
/// There is no such format of a comparison.
pub fn render(comparison: &Comparison, format: OutputFormat) -> Result<String> {
    match format {
        OutputFormat::Json => Ok(pretty(comparison)),
        OutputFormat::Markdown => {
            let document = Document {
                title: "sobench: backends side by side".into(),
                ..page::document(comparison)
            };
            Ok(markdown::render(&document, 3))
        }
        OutputFormat::Html => Ok(html::render(&page::document(comparison))),
        OutputFormat::Text => Ok(text::render(&page::document(comparison))),
        OutputFormat::Csv
        | OutputFormat::Junit
        | OutputFormat::VllmServe
        | OutputFormat::VllmStructured => Err(format.unsupported("a comparison")),
    }
}

impl Row {
    /// What was measured; `None` where it did not run.
    pub(super) fn figures(&self) -> Option<&Figures> {
        match &self.fate {
            Fate::Measured(figures) => Some(figures),
            Fate::DidNotRun { .. } => None,
        }
    }
}

impl Load {
    /// How large it is, in its own unit; only loads of one kind are compared.
    pub fn size(self) -> f64 {
        match self {
            Self::AsGiven => f64::NAN,
            Self::RequestRate(rate) => rate,
            Self::MaxConcurrency(cap) => cap as f64,
        }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AsGiven => write!(f, "as given"),
            Self::RequestRate(rate) if rate.is_infinite() => write!(f, "all at once"),
            Self::RequestRate(rate) => write!(f, "{rate} req/s"),
            Self::MaxConcurrency(cap) => write!(f, "{cap} in flight"),
        }
    }
}

impl Serialize for Load {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Written {
            kind: &'static str,
            #[serde(with = "sobench_core::json_numbers::number_or_inf_or_null")]
            value: Option<f64>,
        }
        let (kind, value) = match self {
            Self::AsGiven => ("as_given", None),
            Self::RequestRate(rate) => ("request_rate", Some(*rate)),
            Self::MaxConcurrency(cap) => ("max_concurrency", Some(*cap as f64)),
        };
        Written { kind, value }.serialize(serializer)
    }
}

impl Treatment {
    /// The name in labels and lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::Constrained => "constrained",
        }
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
