//! The comparison of the runs of a matrix, and its output formats.
//!
//! [`Comparison`] is one table, backend by dataset: rates of the answers beside latencies and
//! throughputs. As JSON its contract is `schemas/contracts/matrix.schema.json`; the other formats
//! render the page of `page.rs`.

pub mod answers;
pub mod capacity;
mod cells;
pub mod charts;
pub mod console;
mod page;
pub mod sides;
pub mod verdicts;

use std::fmt;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

pub use self::page::STYLE;
use self::verdicts::Verdicts;
use crate::text::Detail;
use sobench_core::case::Arm;
use sobench_core::error::{Error, Result};
use sobench_core::output_format::OutputFormat;
use sobench_notices::notice::{Notice, as_sentences};
use sobench_plan::metrics::Slo;
use sobench_render::{Document, html, markdown, text};
use sobench_results::metrics::constraint_overhead::Added;
use sobench_results::metrics::knee::Knee;
use sobench_results::metrics::registry::Values;
use sobench_statistics::{Rate, Summary};

/// The `format` key of the file.
pub const FORMAT: &str = "sobench-matrix";

/// The version of the file format. It increases when a key changes its meaning or is removed.
pub const FORMAT_VERSION: u32 = 2;

/// Largest number of refusal messages of a row.
pub const MAX_REFUSALS: usize = 5;

/// Largest number of disagreements in the file.
pub const MAX_DISAGREEMENTS: usize = 100;

/// Largest number of characters of a message or an answer in a comparison.
pub const MAX_MESSAGE_CHARS: usize = 300;

/// The comparison of several runs.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Comparison {
    pub format: &'static str,
    pub format_version: u32,
    pub record: MatrixConditions,
    /// By dataset, then by contender, then by load.
    pub rows: Vec<Row>,
    /// The highest load at which each contender meets the objectives, by dataset. Empty without a
    /// sweep or without objectives.
    pub knees: Vec<KneeRow>,
    /// By dataset, then by contender. Empty without `--sweep`.
    pub capacity: Vec<capacity::CapacityRow>,
    /// Differences between the contenders, in words.
    pub verdicts: Verdicts,
    /// A row for each constraint of the datasets with several constraints, over all loads and
    /// repeats. Rows that need attention are first.
    pub schemas: Vec<SchemaRow>,
    /// The same for each tag that some of a dataset's constraints have; `name` is the tag. A request
    /// counts in the rows of all its tags.
    pub features: Vec<SchemaRow>,
    /// Requests whose answers are valid for one contender and invalid for another, at most
    /// [`MAX_DISAGREEMENTS`].
    pub disagreements: Vec<Disagreement>,
    /// Every run, in the order of execution.
    pub runs: Vec<MatrixRun>,
    /// Warnings about the numbers.
    #[serde(serialize_with = "as_sentences")]
    #[schemars(with = "Vec<String>")]
    pub notices: Vec<Notice>,
}

/// The conditions of the measurement.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct MatrixConditions {
    /// The start of the first run, in ISO 8601 and UTC.
    pub date: Option<String>,
    pub sobench_version: String,
    /// The kind of server (`vllm`, `openai-chat`, ...).
    pub backend: String,
    /// A description of the servers, e.g. `running servers`.
    pub servers: String,
    /// A description of the order of the runs.
    pub order: String,
    /// Whether the contenders of a dataset and load ran at once.
    pub interleaved: bool,
    /// Requests of one run.
    pub num_prompts: usize,
    /// The limit of tokens of an answer.
    pub output_len: u32,
    pub seed: u64,
    /// The load of a run without a sweep, e.g. `all at once, at most 8 in flight`.
    pub load: String,
    pub repeats: usize,
    /// Whether the same cases were also sent without their constraint.
    pub control: bool,
    /// The objectives, and the share of requests in percent that must be valid within them.
    pub goodput: Option<Slo>,
    pub goodput_share_percent: f64,
    /// Whether the user stopped the comparison.
    pub partial: bool,
}

/// One row of the table.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Row {
    pub dataset: String,
    pub contender: String,
    pub load: Load,
    #[serde(flatten)]
    pub result: RowResult,
}

/// The result of a contender on a dataset under a load.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum RowResult {
    Measured(Box<Figures>),
    /// No run succeeded. The reason may quote the server.
    DidNotRun {
        reason: String,
    },
}

/// The figures of one row. Latencies are in milliseconds over all repeats, throughputs per second
/// of the total duration of the runs.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Figures {
    /// Runs with constraints.
    pub runs: usize,
    /// Requests that were sent with their constraint.
    pub requests: usize,
    /// Repeats of a request count as far as their results vary, here and in the other rates of the
    /// row.
    pub correct_rate: Option<Rate>,
    /// Answers that were decoded at once, on average; `None` without streams or token counts.
    pub decoding: Option<f64>,
    /// Why the other requests are not correct; `None` if no request can be judged.
    pub causes: Option<Causes>,
    /// The distinct messages with which constraints were refused, the most frequent first, at most
    /// [`MAX_REFUSALS`].
    pub refusals: Vec<Refusal>,
    /// Why later runs were left out, if the server refused the only constraint.
    #[serde(skip)]
    pub only_refusal: Option<String>,
    /// Reasons of invalid answers, for the page; the results of the runs have them too.
    #[serde(skip)]
    pub reasons: Vec<charts::InvalidReason>,
    /// Curves for the page; the run logs have every value.
    #[serde(skip)]
    pub distributions: charts::Distributions,
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
    /// TTFT of first uses of a constraint, and of later uses, on servers that certainly had not
    /// received it before.
    pub cold_ttft_ms: Summary,
    pub warm_ttft_ms: Summary,
    /// The origin of those first uses; `None` if no first use is known.
    pub cold_from: Option<ColdFrom>,
    pub control: Option<Control>,
    /// Runs, including control runs, whose latencies the client distorted.
    pub distrusted_runs: usize,
    pub server_version: Option<String>,
    /// The name and version of the decoding engine, as reported by the server.
    pub engine: Option<String>,
    /// Every metric of the runs with constraints.
    pub metrics: Values,
}

/// Shares of the requests that are not correct, by cause. Every share is of the requests that the
/// correct rate counts, so that the correct rate and the four shares sum to 100 %.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Causes {
    /// Answers that violate their constraint, whether they ended normally or not.
    pub invalid: Rate,
    /// Answers that were cut at the token limit before they violated their constraint.
    pub truncated: Rate,
    /// Requests that the server rejected because of their constraint or that the model refused.
    pub refused: Rate,
    /// Requests that timed out, that failed in the server, the stream or the network, or that the
    /// server rejected because of its load (429).
    pub failed: Rate,
}

/// A message with which a server refused constraints.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Refusal {
    /// Requests that were refused with it.
    pub requests: usize,
    /// The keyword of JSON Schema that the message names.
    pub keyword: Option<String>,
    /// The server's message, shortened to [`MAX_MESSAGE_CHARS`].
    pub message: String,
}

/// The results of one constraint, or of the constraints with a tag.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct SchemaRow {
    pub dataset: String,
    /// The row's name in the dataset, or the id of its first request.
    pub name: String,
    /// Tags of the row in the dataset, without its name.
    pub tags: Vec<String>,
    /// A cell for each contender with a measured run on the dataset, in their order.
    pub cells: Vec<SchemaCell>,
}

/// The results of a contender for one constraint. The counts of correct, invalid, truncated,
/// refused and failed requests sum to `requests`.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct SchemaCell {
    pub contender: String,
    /// Requests that can be judged.
    pub requests: usize,
    pub correct: usize,
    pub invalid: usize,
    pub truncated: usize,
    pub refused: usize,
    pub failed: usize,
    /// The first message with which the server refused it.
    pub refusal: Option<Refusal>,
    /// The finding on the first invalid answer.
    pub finding: Option<String>,
    /// Median TTFT, in ms.
    pub ttft_ms: Option<f64>,
    /// Median of the differences in TTFT to the control of the same request, in ms.
    pub added_ttft_ms: Option<f64>,
    /// Whether its median TTFT is more than three times the median over the contender's other
    /// constraints, and at least 10 ms more.
    pub slow: bool,
}

/// A request whose answers are valid for one contender and invalid for another, in the same repeat.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Disagreement {
    pub dataset: String,
    /// The name of its [`SchemaRow`].
    pub schema: String,
    pub case_id: String,
    pub load: Load,
    /// From 1.
    pub repeat: usize,
    pub answers: Vec<JudgedAnswer>,
}

/// The answer of one contender.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct JudgedAnswer {
    pub contender: String,
    pub valid: bool,
    /// Why it is invalid.
    pub finding: Option<String>,
    /// The start of the answer.
    pub text: String,
}

/// The origin of first uses of constraints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ColdFrom {
    /// The runs, under load.
    Run,
    /// Single requests before the runs: the first use of the run's one constraint, and a second
    /// use.
    Alone,
}

/// The same cases on the same schedule, without their constraint.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Control {
    pub runs: usize,
    pub requests: usize,
    /// The rate of valid answers without the constraint.
    pub control_rate: Option<Rate>,
    pub ttft_ms: Summary,
    pub tpot_ms: Summary,
    pub output_throughput: Option<f64>,
    /// Answers that were decoded at once, on average.
    pub decoding: Option<f64>,
    /// The time that the constraint adds to each request, over requests that have a value with and
    /// without it. TTFT: of requests whose constraint the server had compiled before; and of first
    /// uses of a constraint with those that waited for them. These and `tpot_added` are `None` if the
    /// server decoded fewer answers at once with the constraint than without, and fewer tokens per
    /// second: the times are then those of different loads.
    pub ttft_added: Option<Added>,
    pub first_ttft_added: Option<Added>,
    pub tpot_added: Option<Added>,
    pub e2el_added: Option<Added>,
}

/// The highest load at which a contender meets the objectives on a dataset.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct KneeRow {
    pub dataset: String,
    pub contender: String,
    pub knee: Knee<Load>,
}

/// One run.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct MatrixRun {
    pub contender: String,
    pub dataset: String,
    pub load: Load,
    #[serde(rename = "treatment")]
    pub arm: Arm,
    /// From 1.
    pub repeat: usize,
    pub run_log: Option<String>,
    pub result: Option<String>,
    /// How the client distorted the latencies of the run.
    pub distrust: Option<String>,
    /// Why the run is excluded from the figures; `None` if it is included.
    pub failure: Option<String>,
}

impl Comparison {
    /// The rows with figures.
    fn measured(&self) -> impl Iterator<Item = (&Row, &Figures)> {
        let rows = self.rows.iter();
        rows.filter_map(|row| Some((row, row.figures()?)))
    }
}

/// The load of a run in a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema)]
#[schemars(with = "WrittenLoad")]
pub enum Load {
    /// The load of the other flags, without a sweep.
    #[default]
    AsGiven,
    /// Requests per second; infinite if all are due at once.
    RequestRate(f64),
    /// The concurrency cap.
    MaxConcurrency(usize),
}

/// Renders the comparison.
///
/// # Errors
/// The format does not apply to comparisons.
pub fn render(comparison: &Comparison, format: OutputFormat) -> Result<String> {
    match format {
        OutputFormat::Json => {
            let text = serde_json::to_string_pretty(comparison);
            Ok(text.map_err(|error| Error::internal(format!("not JSON: {error}")))? + "\n")
        }
        OutputFormat::Markdown => {
            let document = Document {
                title: "sobench: comparison of backends".into(),
                ..page::document(comparison)
            };
            Ok(markdown::render(&document, 3))
        }
        OutputFormat::Html => Ok(html::render(&page::document_with_charts(comparison))),
        OutputFormat::Text => Ok(render_text(comparison, Detail::Full)),
        OutputFormat::Csv
        | OutputFormat::Parquet
        | OutputFormat::Jsonl
        | OutputFormat::Junit
        | OutputFormat::VllmServe
        | OutputFormat::VllmStructured => Err(format.unsupported("a comparison")),
    }
}

/// Renders the comparison for a terminal.
pub fn render_text(comparison: &Comparison, detail: Detail) -> String {
    let page = match detail {
        Detail::Summary => page::summary(comparison),
        Detail::Full => page::document(comparison),
    };
    text::render(&text::fitted(page))
}

impl Row {
    /// The figures; `None` if no run succeeded.
    pub fn figures(&self) -> Option<&Figures> {
        match &self.result {
            RowResult::Measured(figures) => Some(figures),
            RowResult::DidNotRun { .. } => None,
        }
    }
}

impl SchemaRow {
    /// How much the row needs attention: 0 the most, [`Self::FINE`] not at all.
    pub fn attention(&self) -> u8 {
        let has = |is_so: fn(&SchemaCell) -> bool| self.cells.iter().any(is_so);
        let is_wrong = |cell: &SchemaCell| cell.invalid + cell.refused > 0;
        let differs =
            has(is_wrong) && has(|cell| cell.requests > 0 && cell.invalid + cell.refused == 0);
        match () {
            () if differs => 0,
            () if has(is_wrong) => 1,
            () if has(|cell| cell.failed > 0) => 2,
            () if has(|cell| cell.slow) => 3,
            () if has(|cell| cell.truncated > 0) => 4,
            () => Self::FINE,
        }
    }

    /// The attention of a row without anything to report.
    pub const FINE: u8 = 5;
}

impl Load {
    /// The size in the load's own unit. Only loads of the same kind are comparable.
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

#[derive(JsonSchema, Serialize)]
struct WrittenLoad {
    kind: &'static str,
    #[serde(with = "sobench_core::json_numbers::number_or_inf_or_null")]
    #[schemars(with = "Option<sobench_core::json_numbers::NumberOrInf>")]
    value: Option<f64>,
}

impl Serialize for Load {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let (kind, value) = match self {
            Self::AsGiven => ("as_given", None),
            Self::RequestRate(rate) => ("request_rate", Some(*rate)),
            Self::MaxConcurrency(cap) => ("max_concurrency", Some(*cap as f64)),
        };
        WrittenLoad { kind, value }.serialize(serializer)
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
