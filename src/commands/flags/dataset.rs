//! The flags that say what is asked, named as `vllm bench serve` and its structured-output script name them, and those of them that a
//! dataset does not read.

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::commands::flags::paths::{InputNames, InputPath};
use crate::commands::flags::values::{Described, described};
use crate::dataset::{DatasetName, JsonSchemaSource, OwnInput};
use crate::error::{Error, Result};

/// What is asked.
#[derive(Args, Clone, Debug)]
pub struct DatasetArgs {
    /// Dataset [default: json; audio with --backend openai-audio]; several are run one after the other
    #[arg(long, visible_alias = "dataset-name", value_name = "NAME", value_delimiter = ',',
          value_parser = PossibleValuesParser::new(DatasetName::ALL.map(DatasetName::name)))]
    pub dataset: Vec<String>,
    /// Several datasets in one run, their requests among each other, as NAME:SHARE or NAME=PATH:SHARE, e.g. 'sharegpt=chats.json:0.7,json:0.3';
    /// each has its own figures in the result
    #[arg(long, value_name = "MIX", conflicts_with = "dataset")]
    pub mix: Option<InputNames>,
    /// File of the dataset (custom: JSONL; sharegpt: JSON; burstgpt: CSV; sonnet: text; maskbench: a folder or JSONL; elsewhere
    /// parquet, JSON, JSONL, a folder with such files, or a Hub id)
    #[arg(long, value_name = "PATH")]
    pub dataset_path: Option<InputNames>,
    /// Own JSON Schema for json and json-unique
    #[arg(long, value_name = "PATH", conflicts_with = "json_schema")]
    pub json_schema_path: Option<InputPath>,
    /// Shipped JSON Schema for json and json-unique
    #[arg(long, value_name = "NAME", default_value = "brief", value_parser = described(&SHIPPED_SCHEMAS))]
    pub json_schema: JsonSchemaSource,
    /// Own grammar for the grammar dataset (.lark, .ebnf or .gbnf); converted where the server reads only the other notation
    #[arg(long, value_name = "PATH")]
    pub grammar_path: Option<InputPath>,
    /// A pest grammar that judges the answers instead of the general recogniser
    #[arg(long, value_name = "PATH")]
    pub grammar_oracle: Option<InputPath>,
    /// Own regular expression for the regex dataset
    #[arg(long, value_name = "REGEX", allow_hyphen_values = true)]
    pub regex: Option<String>,
    /// Own choices for the choice dataset
    #[arg(long, value_name = "A,B,C", value_delimiter = ',', allow_hyphen_values = true)]
    pub choice: Option<Vec<String>>,
    /// Own files of sound for the audio dataset, sent in turn [default: generated WAV files]
    #[arg(long, value_name = "PATH", num_args = 1.., conflicts_with = "audio_seconds")]
    pub audio_path: Vec<InputPath>,
    /// Length of each generated file of sound [default: 5]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub audio_seconds: Option<f64>,
    /// Documents of each request to rank them, for --backend vllm-rerank [default: 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub rerank_documents: Option<usize>,
    #[command(flatten, next_help_heading = "Rows of the dataset: which, in which order, how long")]
    pub drawing: DrawingArgs,
}

/// Which rows are asked, and how long those are that are made.
#[derive(Args, Clone, Debug, Default)]
pub struct DrawingArgs {
    /// Take the rows in the order of the file, and not shuffled by --seed
    #[arg(long)]
    pub disable_shuffle: bool,
    /// Ask each row once, even if that makes fewer requests than --num-prompts
    #[arg(long)]
    pub no_oversample: bool,
    /// Tokens of each prompt, in place of --random-input-len or --sonnet-input-len
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    pub input_len: Option<u32>,
    /// Tokens of each prompt of random and random-prefix, beside the shared ones [default: 1024]
    #[arg(long, value_name = "TOKENS", visible_alias = "random-input", allow_negative_numbers = true)]
    pub random_input_len: Option<u32>,
    /// Tokens of each answer to random and random-prefix [default: 128]
    #[arg(long, value_name = "TOKENS", visible_alias = "random-output", allow_negative_numbers = true)]
    pub random_output_len: Option<u32>,
    /// How far those lengths go up and down, as a share of them: one number, or {"input": 0.3, "output": 0.5} [default: 0.0]
    #[arg(long, value_name = "RATIO|JSON", allow_negative_numbers = true)]
    pub random_range_ratio: Option<String>,
    /// Tokens that all prompts of random and random-prefix share at their begin [default: 0; random-prefix: 256]
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    pub random_prefix_len: Option<u32>,
    /// Inputs in one request; only 1 is sent
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub random_batch_size: Option<u32>,
    /// Let servers end their answers to random and random-prefix, where `vllm bench serve` makes them go on (ignore_eos)
    #[arg(long)]
    pub disable_ignore_eos: bool,
    /// Tokens of each shared beginning of prefix_repetition [default: 256]
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    pub prefix_repetition_prefix_len: Option<u32>,
    /// Tokens of each prompt of prefix_repetition after that [default: 256]
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    pub prefix_repetition_suffix_len: Option<u32>,
    /// Different beginnings of prefix_repetition [default: 10]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub prefix_repetition_num_prefixes: Option<u32>,
    /// Tokens of each answer to prefix_repetition [default: 128]
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    pub prefix_repetition_output_len: Option<u32>,
    /// Tokens of each answer to sharegpt [default: as many as the conversation's own answer has]
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    pub sharegpt_output_len: Option<u32>,
    /// Tokens of each prompt of sonnet [default: 550]
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    pub sonnet_input_len: Option<u32>,
    /// Tokens of each answer to sonnet [default: 150]
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    pub sonnet_output_len: Option<u32>,
    /// Tokens that all prompts of sonnet share at their begin [default: 200]
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    pub sonnet_prefix_len: Option<u32>,
    /// Tokens of each answer to custom, whatever its row says; -1 takes each row's own [default: the row's, else --output-len]
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    pub custom_output_len: Option<i64>,
    /// Send the prompts of custom as they are, which is what is done anyway
    #[arg(long)]
    pub skip_chat_template: bool,
    /// Hub id of the dataset hf; beside a --dataset-path, only its name
    #[arg(long, value_name = "ID")]
    pub hf_name: Option<String>,
    /// Configuration of a repository with several, for hf and jsonschemabench
    #[arg(long, value_name = "NAME")]
    pub hf_subset: Option<String>,
    /// Split of a repository [default: train]
    #[arg(long, value_name = "NAME")]
    pub hf_split: Option<String>,
    /// Tokens of each answer to a dataset of the Hub [default: hf: the reply's in the chat, else 128; where a document is asked for:
    /// 512]
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    pub hf_output_len: Option<u32>,
    /// Column of hf whose texts are asked [default: found by its name]
    #[arg(long, value_name = "NAME", conflicts_with = "hf_messages_column")]
    pub hf_text_column: Option<String>,
    /// Column of hf whose chats are asked, up to the first reply [default: found by its name]
    #[arg(long, value_name = "NAME")]
    pub hf_messages_column: Option<String>,
    /// Categories of bfcl [default: simple,live_simple,multiple]
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub bfcl_categories: Vec<String>,
}

/// The JSON Schemas that ship.
pub(crate) const SHIPPED_SCHEMAS: [Described<JsonSchemaSource>; 2] = [
    Described(JsonSchemaSource::Brief, "brief", "The structured-output script's brief user profile"),
    Described(JsonSchemaSource::Nested, "nested", "The nested user profile of its predecessors"),
];

/// A flag that the chosen dataset would ignore is a mistake worth stopping for.
pub(crate) fn refuse_stray_flags(name: DatasetName, flags: &DatasetArgs, has_grammar_dialect: bool) -> Result<()> {
    let rows = [
        ("--grammar-dialect", has_grammar_dialect, OwnInput::GrammarDialect),
        ("--json-schema-path", flags.json_schema_path.is_some(), OwnInput::JsonSchema),
        ("--json-schema", flags.json_schema != JsonSchemaSource::Brief, OwnInput::JsonSchema),
        ("--grammar-path", flags.grammar_path.is_some(), OwnInput::Grammar),
        ("--grammar-oracle", flags.grammar_oracle.is_some(), OwnInput::GrammarOracle),
        ("--regex", flags.regex.is_some(), OwnInput::Regex),
        ("--choice", flags.choice.is_some(), OwnInput::Choice),
        ("--dataset-path", flags.dataset_path.is_some(), OwnInput::Path),
        ("--audio-path", !flags.audio_path.is_empty(), OwnInput::Audio),
        ("--audio-seconds", flags.audio_seconds.is_some(), OwnInput::Audio),
    ];
    let rows = rows.into_iter().chain(given(&flags.drawing));
    match rows.into_iter().find(|(_, given, input)| *given && !name.reads(*input)) {
        None => Ok(()),
        Some((flag, _, input)) => {
            let takers = DatasetName::ALL.into_iter().filter(|taker| taker.reads(input));
            let takers: Vec<String> = takers.map(|taker| format!("--dataset {taker}")).collect();
            Err(Error::usage(format!("{flag} has no meaning with --dataset {name}"))
                .hint(format!("use it with {}, or leave it out", takers.join(" or "))))
        }
    }
}

/// The flags of rows, whether each is given, and what it is an input of.
fn given(flags: &DrawingArgs) -> [(&'static str, bool, OwnInput); 24] {
    [
        ("--disable-shuffle", flags.disable_shuffle, OwnInput::Order),
        ("--no-oversample", flags.no_oversample, OwnInput::Shortfall),
        ("--input-len", flags.input_len.is_some(), OwnInput::InputLength),
        ("--random-input-len", flags.random_input_len.is_some(), OwnInput::RandomLengths),
        ("--random-output-len", flags.random_output_len.is_some(), OwnInput::RandomLengths),
        ("--random-range-ratio", flags.random_range_ratio.is_some(), OwnInput::RandomLengths),
        ("--random-prefix-len", flags.random_prefix_len.is_some(), OwnInput::RandomLengths),
        ("--random-batch-size", flags.random_batch_size.is_some(), OwnInput::RandomLengths),
        ("--disable-ignore-eos", flags.disable_ignore_eos, OwnInput::RandomLengths),
        ("--prefix-repetition-prefix-len", flags.prefix_repetition_prefix_len.is_some(), OwnInput::PrefixRepetition),
        ("--prefix-repetition-suffix-len", flags.prefix_repetition_suffix_len.is_some(), OwnInput::PrefixRepetition),
        ("--prefix-repetition-num-prefixes", flags.prefix_repetition_num_prefixes.is_some(), OwnInput::PrefixRepetition),
        ("--prefix-repetition-output-len", flags.prefix_repetition_output_len.is_some(), OwnInput::PrefixRepetition),
        ("--sharegpt-output-len", flags.sharegpt_output_len.is_some(), OwnInput::ShareGpt),
        ("--sonnet-input-len", flags.sonnet_input_len.is_some(), OwnInput::Sonnet),
        ("--sonnet-output-len", flags.sonnet_output_len.is_some(), OwnInput::Sonnet),
        ("--sonnet-prefix-len", flags.sonnet_prefix_len.is_some(), OwnInput::Sonnet),
        ("--custom-output-len", flags.custom_output_len.is_some(), OwnInput::CustomRows),
        ("--skip-chat-template", flags.skip_chat_template, OwnInput::CustomRows),
        ("--hf-name", flags.hf_name.is_some(), OwnInput::Columns),
        ("--hf-subset or --hf-split", flags.hf_subset.is_some() || flags.hf_split.is_some(), OwnInput::Part),
        ("--hf-output-len", flags.hf_output_len.is_some(), OwnInput::HubLength),
        (
            "--hf-text-column or --hf-messages-column",
            flags.hf_text_column.is_some() || flags.hf_messages_column.is_some(),
            OwnInput::Columns,
        ),
        ("--bfcl-categories", !flags.bfcl_categories.is_empty(), OwnInput::Categories),
    ]
}

pub(crate) fn refuse_odd_choices(choices: &[String]) -> Result<()> {
    let odd = choices.iter().enumerate().find(|(place, choice)| choice.is_empty() || choices[..*place].contains(choice));
    odd.map_or(Ok(()), |(_, choice)| {
        Err(Error::usage(format!("--choice has an empty or repeated choice: {choice:?}"))
            .hint("give different words, e.g. yes,no"))
    })
}
