//! The flags of `sobench score`: clap types only. What the dataset was is told by the flags of a run.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};

use crate::commands::flags::dataset::SHIPPED_SCHEMAS;
use crate::commands::flags::values::described;
use crate::dataset::{DatasetName, JsonSchemaSource};

/// Which answers are judged again, and by what.
#[derive(Args, Clone, Debug)]
pub struct ScoreArgs {
    /// Run logs; JSON of vLLM's structured-output script or of `vllm bench serve --save-detailed`; JSON Lines of
    /// {"constraint": ..., "text": ...}
    #[arg(value_name = "FILE", required = true, num_args = 1..)]
    pub files: Vec<PathBuf>,
    /// Form of the report
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = ScoreFormat::Text)]
    pub format: ScoreFormat,
    #[command(flatten, next_help_heading = "Dataset, for files that do not hold their constraints")]
    pub dataset: ScoreDatasetArgs,
    /// Share of the requests that carried their constraint
    #[arg(
        long,
        visible_alias = "structured-output-ratio",
        value_name = "RATIO",
        default_value_t = 1.0,
        allow_negative_numbers = true
    )]
    pub guided_decoding_ratio: f64,
    /// No request carried its constraint (ratio 0)
    #[arg(long, visible_alias = "no-structured-output", conflicts_with = "guided_decoding_ratio")]
    pub no_guided_decoding: bool,
    /// Seed by which those requests were drawn
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Do not assert `format` when judging answers by a JSON Schema
    #[arg(long)]
    pub no_format_assertion: bool,
}

/// The dataset that answers were given to.
#[derive(Args, Clone, Debug)]
pub struct ScoreDatasetArgs {
    /// Dataset that was asked; its own flag names it as well, e.g. --regex
    #[arg(long, visible_alias = "dataset-name", value_name = "NAME",
          value_parser = PossibleValuesParser::new(DatasetName::ALL.map(DatasetName::name)))]
    pub dataset: Option<String>,
    /// File or Hub id of xgrammar_bench
    #[arg(long, value_name = "PATH")]
    pub dataset_path: Option<String>,
    /// The JSON Schema that was sent
    #[arg(long, value_name = "PATH", conflicts_with = "json_schema")]
    pub json_schema_path: Option<PathBuf>,
    /// The shipped JSON Schema that was sent, for json
    #[arg(long, value_name = "NAME", default_value = "brief", value_parser = described(&SHIPPED_SCHEMAS))]
    pub json_schema: JsonSchemaSource,
    /// The grammar that was sent (.lark, .ebnf or .gbnf)
    #[arg(long, value_name = "PATH")]
    pub grammar_path: Option<PathBuf>,
    /// A pest grammar that judges the answers instead of the general recogniser
    #[arg(long, value_name = "PATH")]
    pub grammar_oracle: Option<PathBuf>,
    /// The regular expression that was sent
    #[arg(long, value_name = "REGEX", allow_hyphen_values = true)]
    pub regex: Option<String>,
    /// The choices that were sent
    #[arg(long, value_name = "A,B,C", value_delimiter = ',', allow_hyphen_values = true)]
    pub choice: Option<Vec<String>>,
}

/// Forms of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ScoreFormat {
    /// Tables
    Text,
    /// Everything
    Json,
}
