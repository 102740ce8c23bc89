//! The flags of `sobench score`, and their checks.

use std::str::FromStr;

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::commands::flags::paths::{InputNames, InputPath};
use crate::commands::flags::rendering::SaveArgs;
use crate::commands::flags::values::{Described, described};
use sobench_core::error::{Error, Result};
use sobench_core::output_format::OutputFormat;
use sobench_data::dataset::flags::{PathFlags, TypedFlags};
use sobench_data::dataset::{
    ChoiceFlags, DatasetArgs, DatasetName, DatasetPlan, GrammarFlags, JsonFlags,
    JsonSchemaPathFlags, JsonSchemaSource, RegexFlags, SHIPPED_SCHEMAS, Shortfall, Source,
};
use sobench_plan::dataset::PromptForm;

/// The flags of `sobench score`.
#[derive(Args, Clone, Debug)]
pub struct ScoreArgs {
    /// Files with answers: run logs, JSON of vLLM's structured-output script or of `vllm bench
    /// serve --save-detailed`, or JSON Lines with {"constraint": ..., "text": ...}; - reads stdin
    #[arg(value_name = "FILE", required = true, num_args = 1..)]
    pub files: Vec<InputPath>,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = described(&FORMATS))]
    pub format: OutputFormat,
    #[command(flatten)]
    pub save: SaveArgs,
    #[command(flatten, next_help_heading = "Dataset, for files without constraints")]
    pub dataset: ScoreDatasetArgs,
    /// Share of requests that had a constraint (0 to 1)
    #[arg(
        long,
        visible_alias = "structured-output-ratio",
        value_name = "RATIO",
        default_value_t = 1.0,
        allow_negative_numbers = true
    )]
    pub guided_decoding_ratio: f64,
    /// No request had a constraint (ratio 0)
    #[arg(
        long,
        visible_alias = "no-structured-output",
        conflicts_with = "guided_decoding_ratio"
    )]
    pub no_guided_decoding: bool,
    /// Seed with which the constrained requests were chosen
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Ignore the keyword `format` of JSON Schemas
    #[arg(long)]
    pub no_format_assertion: bool,
}

/// The dataset of the requests.
#[derive(Args, Clone, Debug)]
pub struct ScoreDatasetArgs {
    // This field is first: clap removes a flag from the matches when it is read.
    #[command(flatten)]
    pub typed: TypedFlags,
    /// Dataset of the requests; a flag of the dataset, such as --regex, implies it
    #[arg(long, visible_alias = "dataset-name", value_name = "NAME",
          value_parser = PossibleValuesParser::new(DatasetName::ALL.map(DatasetName::name)))]
    pub dataset: Option<String>,
    /// File of requests, or file or Hub id of xgrammar_bench
    #[arg(long, value_name = "PATH")]
    pub dataset_path: Option<InputNames>,
    /// File with the JSON Schema of the requests
    #[arg(long, value_name = "PATH", conflicts_with = "json_schema")]
    pub json_schema_path: Option<InputPath>,
    /// Shipped JSON Schema of the requests
    #[arg(long, value_name = "NAME", default_value = "brief", value_parser = described(&SHIPPED_SCHEMAS))]
    pub json_schema: JsonSchemaSource,
    /// File with the grammar of the requests (.lark, .ebnf or .gbnf)
    #[arg(long, value_name = "PATH")]
    pub grammar_path: Option<InputPath>,
    /// Judge answers by this pest grammar in place of the general recogniser
    #[arg(long, value_name = "PATH")]
    pub grammar_oracle: Option<InputPath>,
    /// Regular expression of the requests
    #[arg(long, value_name = "REGEX", allow_hyphen_values = true)]
    pub regex: Option<String>,
    /// Choices of the requests
    #[arg(
        long,
        value_name = "A,B,C",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    pub choice: Option<Vec<String>>,
}

/// The formats of the report.
pub(super) const FORMATS: [Described<OutputFormat>; 3] = [
    Described(OutputFormat::Text, "text", "Tables"),
    Described(OutputFormat::Json, "json", "All figures, in one value"),
    Described(OutputFormat::Jsonl, "jsonl", "One verdict for each answer"),
];

impl ScoreArgs {
    /// The dataset for files without constraints; the file determines the number of requests.
    ///
    /// # Errors
    /// Usage errors that name the flag and its value.
    pub fn dataset_plan(&self) -> Result<Option<DatasetPlan>> {
        dataset_name(&self.dataset)?
            .map(|name| dataset(self, name))
            .transpose()
    }
}

/// The named dataset, or the one that the given constraint implies.
fn dataset_name(flags: &ScoreDatasetArgs) -> Result<Option<DatasetName>> {
    if let Some(name) = &flags.dataset {
        return DatasetName::from_str(name).map(Some);
    }
    let rows = [
        (
            DatasetName::Json,
            flags.json_schema_path.is_some() || flags.json_schema != JsonSchemaSource::Brief,
        ),
        (DatasetName::Regex, flags.regex.is_some()),
        (DatasetName::Choice, flags.choice.is_some()),
        (
            DatasetName::Grammar,
            flags.grammar_path.is_some() || flags.grammar_oracle.is_some(),
        ),
    ];
    let mut named = rows
        .into_iter()
        .filter(|(_, given)| *given)
        .map(|(name, _)| name);
    match (named.next(), named.next()) {
        (Some(one), Some(other)) => Err(Error::usage(format!(
            "flags of two datasets: {one} and {other}"
        ))
        .hint("give the flags of one dataset, and score other files separately")),
        (one, _) => Ok(one),
    }
}

fn dataset(flags: &ScoreArgs, name: DatasetName) -> Result<DatasetPlan> {
    let own = &flags.dataset;
    if name.is_unconstrained() {
        return Err(
            Error::usage(format!("the dataset has no constraints: {name}"))
                .hint("give the dataset of the requests"),
        );
    }
    if !name.is_in_vllm_script() && name != DatasetName::Requests {
        return Err(
            Error::usage(format!("the dataset exists in sobench only: {name}"))
                .hint("score the run log, or write rows of {\"constraint\": ..., \"text\": ...}"),
        );
    }
    own.typed.refuse_unused(name)?;
    let mut source = Source::new(name, &bench_flags(own))?;
    if let Source::Requests(requests) = &mut source {
        // Answers are found by their names.
        requests.shortfall = Shortfall::FewerRequests;
    }
    let ratio = if flags.no_guided_decoding {
        0.0
    } else {
        flags.guided_decoding_ratio
    };
    if !(0.0..=1.0).contains(&ratio) {
        return Err(Error::usage(format!(
            "--guided-decoding-ratio is not between 0 and 1: {ratio}"
        ))
        .hint("give 1.0 if every request had a constraint"));
    }
    Ok(DatasetPlan {
        seed: flags.seed,
        constrained_ratio: ratio,
        // Messages need no chat template, and prompts are not used.
        prompt_form: PromptForm::Messages,
        // The number of prompts is replaced by that of the answers in the file.
        ..DatasetPlan::with_defaults(source, 1, 1)
    })
}

/// These flags as flags of `bench`.
fn bench_flags(flags: &ScoreDatasetArgs) -> DatasetArgs {
    let flags = flags.clone();
    DatasetArgs {
        path: PathFlags {
            dataset_path: flags.dataset_path,
        },
        json: JsonFlags {
            path: JsonSchemaPathFlags {
                json_schema_path: flags.json_schema_path,
            },
            json_schema: flags.json_schema,
        },
        grammar: GrammarFlags {
            grammar_path: flags.grammar_path,
            grammar_oracle: flags.grammar_oracle,
        },
        regex: RegexFlags { regex: flags.regex },
        choice: ChoiceFlags {
            choice: flags.choice,
        },
        ..DatasetArgs::default()
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::cli::{Cli, Command};

    fn dataset_plan(arguments: &[&str]) -> Result<Option<DatasetPlan>> {
        let arguments = ["sobench", "score"]
            .iter()
            .chain(arguments)
            .map(OsString::from);
        let command = Cli::parse_arguments(arguments)
            .expect("clap takes these arguments")
            .into_command();
        let Command::Score(arguments) = command else {
            panic!("{command:?}")
        };
        arguments.dataset_plan()
    }

    #[test]
    fn a_constraint_flag_implies_its_dataset() {
        for (arguments, expected) in [
            (&["a.json"][..], None),
            (
                &["a.json", "--dataset", "xgrammar_bench"],
                Some(DatasetName::XgrammarBench),
            ),
            (&["a.json", "--regex", "a+"], Some(DatasetName::Regex)),
            (&["a.json", "--choice", "a,b"], Some(DatasetName::Choice)),
            (
                &["a.json", "--json-schema-path", "x"],
                Some(DatasetName::Json),
            ),
            (
                &["a.json", "--grammar-path", "x"],
                Some(DatasetName::Grammar),
            ),
        ] {
            assert_eq!(
                dataset_plan(arguments)
                    .unwrap()
                    .map(|dataset| dataset.source.name()),
                expected,
                "{arguments:?}"
            );
        }
        let half = dataset_plan(&[
            "a",
            "--dataset",
            "json",
            "--structured-output-ratio",
            "0.5",
            "--seed",
            "7",
        ])
        .unwrap()
        .unwrap();
        assert_eq!((half.constrained_ratio, half.seed), (0.5, 7));
    }

    #[test]
    fn contradicting_flags_are_refused() {
        for (arguments, words) in [
            (
                &["a", "--regex", "a", "--choice", "b"][..],
                "flags of two datasets: regex and choice",
            ),
            (
                &["a", "--dataset", "json", "--regex", "a"],
                "--regex has no effect with --dataset json",
            ),
            (
                &["a", "--dataset", "custom"],
                "the dataset exists in sobench only: custom",
            ),
            (
                &["a", "--choice", "b,b"],
                "--choice has an empty or repeated choice: \"b\"",
            ),
            (
                &["a", "--dataset", "json", "--guided-decoding-ratio", "2"],
                "--guided-decoding-ratio is not between 0 and 1: 2",
            ),
        ] {
            let error = dataset_plan(arguments).unwrap_err();
            assert_eq!((error.what.as_str(), error.exit_code()), (words, 2));
            assert!(error.hint.is_some());
        }
    }
}
