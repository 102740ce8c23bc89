//! The flags of `sobench score`, checked. The dataset is described by the flags of a run. Opens no
//! file.

use std::str::FromStr;

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::commands::flags::paths::{InputNames, InputPath};
use crate::commands::flags::values::{Described, described};
use sobench_core::constraint::{GrammarDialect, GrammarSpelling};
use sobench_core::error::{Error, Result};
use sobench_core::output_format::OutputFormat;
use sobench_data::dataset::flags::{PathFlags, TypedFlags};
use sobench_data::dataset::{
    ChoiceFlags, Constraints, DatasetArgs, DatasetName, DatasetPlan, GrammarFlags, JsonFlags,
    JsonSchemaSource, OutputLength, PromptForm, RegexFlags, SHIPPED_SCHEMAS, Source,
};

/// Which answers are judged again, and by what.
#[derive(Args, Clone, Debug)]
pub struct ScoreArgs {
    /// Run logs; JSON of vLLM's structured-output script or of `vllm bench serve --save-detailed`;
    /// JSON Lines of {"constraint": ..., "text": ...}
    #[arg(value_name = "FILE", required = true, num_args = 1..)]
    pub files: Vec<InputPath>,
    /// Form of the report
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = described(&FORMATS))]
    pub format: OutputFormat,
    #[command(
        flatten,
        next_help_heading = "Dataset, for files that do not hold their constraints"
    )]
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
    #[arg(
        long,
        visible_alias = "no-structured-output",
        conflicts_with = "guided_decoding_ratio"
    )]
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
    // Stays first: reading a flag takes it out of what was typed.
    #[command(flatten)]
    pub typed: TypedFlags,
    /// Dataset that was asked; its own flag names it as well, e.g. --regex
    #[arg(long, visible_alias = "dataset-name", value_name = "NAME",
          value_parser = PossibleValuesParser::new(DatasetName::ALL.map(DatasetName::name)))]
    pub dataset: Option<String>,
    /// File or Hub id of xgrammar_bench
    #[arg(long, value_name = "PATH")]
    pub dataset_path: Option<InputNames>,
    /// The JSON Schema that was sent
    #[arg(long, value_name = "PATH", conflicts_with = "json_schema")]
    pub json_schema_path: Option<InputPath>,
    /// The shipped JSON Schema that was sent, for json
    #[arg(long, value_name = "NAME", default_value = "brief", value_parser = described(&SHIPPED_SCHEMAS))]
    pub json_schema: JsonSchemaSource,
    /// The grammar that was sent (.lark, .ebnf or .gbnf)
    #[arg(long, value_name = "PATH")]
    pub grammar_path: Option<InputPath>,
    /// A pest grammar that judges the answers instead of the general recogniser
    #[arg(long, value_name = "PATH")]
    pub grammar_oracle: Option<InputPath>,
    /// The regular expression that was sent
    #[arg(long, value_name = "REGEX", allow_hyphen_values = true)]
    pub regex: Option<String>,
    /// The choices that were sent
    #[arg(
        long,
        value_name = "A,B,C",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    pub choice: Option<Vec<String>>,
}

/// The formats of the report.
const FORMATS: [Described<OutputFormat>; 2] = [
    Described(OutputFormat::Text, "text", "Tables"),
    Described(OutputFormat::Json, "json", "Everything"),
];

impl ScoreArgs {
    /// The dataset of files that do not hold their constraints; how many requests it has is the
    /// file's.
    ///
    /// # Errors
    /// Usage errors that name the flag and its value.
    pub fn dataset_plan(&self) -> Result<Option<DatasetPlan>> {
        dataset_name(&self.dataset)?
            .map(|name| dataset(self, name))
            .transpose()
    }
}

/// The dataset that is named, or the only one that a constraint of the user's own can belong to.
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
            "constraints of two datasets are given: {one} and {other}"
        ))
        .hint("a file has one dataset: judge others apart")),
        (one, _) => Ok(one),
    }
}

fn dataset(flags: &ScoreArgs, name: DatasetName) -> Result<DatasetPlan> {
    let own = &flags.dataset;
    if name.is_plain() {
        return Err(Error::usage(format!(
            "the dataset has no constraint that answers could be judged by: {name}"
        ))
        .hint("name the dataset whose answers these are"));
    }
    if !name.is_in_vllm_script() {
        return Err(Error::usage(format!("no other tool has this dataset: {name}")).hint(
            "answers to own rows are in sobench's run log, or can be written as rows of {\"constraint\": ..., \"text\": ...}",
        ));
    }
    own.typed.refuse_stray(name)?;
    let source = Source::new(name, &as_of_a_run(own))?;
    let ratio = if flags.no_guided_decoding {
        0.0
    } else {
        flags.guided_decoding_ratio
    };
    if !(0.0..=1.0).contains(&ratio) {
        return Err(Error::usage(format!(
            "--guided-decoding-ratio is not between 0 and 1: {ratio}"
        ))
        .hint("1.0 is every request"));
    }
    Ok(DatasetPlan {
        source,
        // The file has as many as it has.
        num_prompts: 1,
        output_len: 1,
        output: OutputLength::OfTheRow,
        seed: flags.seed,
        constrained_ratio: ratio,
        constraints: Constraints::Kept,
        // Prompts are not needed, and messages take no template.
        prompt_form: PromptForm::Messages,
        grammar_dialect: GrammarDialect::Ebnf,
        grammar_spelling: GrammarSpelling::AsWritten,
    })
}

/// The flags as a run has them, of which options are built.
fn as_of_a_run(flags: &ScoreDatasetArgs) -> DatasetArgs {
    let flags = flags.clone();
    DatasetArgs {
        path: PathFlags {
            dataset_path: flags.dataset_path,
        },
        json: JsonFlags {
            json_schema_path: flags.json_schema_path,
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
    fn a_constraint_of_ones_own_names_its_dataset() {
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
                    .map(|dataset| dataset.name()),
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
    fn what_makes_no_sense_is_refused() {
        for (arguments, words) in [
            (
                &["a", "--regex", "a", "--choice", "b"][..],
                "constraints of two datasets are given: regex and choice",
            ),
            (
                &["a", "--dataset", "json", "--regex", "a"],
                "--regex has no meaning with --dataset json",
            ),
            (
                &["a", "--dataset", "custom"],
                "no other tool has this dataset: custom",
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
