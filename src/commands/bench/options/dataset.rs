//! Flags to what is asked: the dataset, its own inputs, which of its rows and how long they are. Opens no file.

use std::str::FromStr;

use serde::Deserialize;

use crate::backend::ServerKind;
use crate::commands::bench::args::BenchArgs;
use crate::commands::bench::options::constraint::{ConstraintArgs, constrained_ratio};
use crate::commands::bench::options::non_generative;
use crate::commands::flags::dataset::{DatasetArgs, DrawingArgs, refuse_odd_choices, refuse_stray_flags};
use crate::constraint::{GrammarDialect, GrammarSpelling};
use crate::dataset::{
    Constraints, DatasetName, DatasetPlan, Drawing, JsonSchemaSource, Lengths, Order, OutputLength, OwnInput, Part, Shortfall,
};
use crate::error::{Error, Result};

/// Tokens of an answer where nobody said: the structured-output script's default, and that of most datasets of `vllm bench serve`.
const DEFAULT_OUTPUT_LEN: u32 = 128;
/// Tokens of an answer that is a whole document or a call: vLLM's default for `bfcl`.
const DOCUMENT_OUTPUT_LEN: u32 = 512;

/// The dataset that is named, or the default of the kind of server.
///
/// # Errors
/// There is none of this name.
pub(crate) fn name(arguments: &BenchArgs, backend: ServerKind) -> Result<DatasetName> {
    if arguments.dataset.mix.is_some() {
        return Ok(DatasetName::Mix);
    }
    let named = arguments.dataset.dataset.first();
    named.map_or(Ok(non_generative::default_dataset(backend)), |name| DatasetName::from_str(name))
}

/// Checks the flags of the dataset and turns them into a plan.
///
/// # Errors
/// Usage errors that name the flag and its value.
pub(crate) fn plan(arguments: &BenchArgs, backend: ServerKind, name: DatasetName, num_prompts: usize) -> Result<DatasetPlan> {
    if let Some(mix) = &arguments.dataset.mix {
        return super::mix::plan(arguments, backend, mix, num_prompts);
    }
    let DatasetArgs { dataset_path, json_schema_path, json_schema, drawing: rows, .. } = &arguments.dataset;
    refuse_stray_flags(name, &arguments.dataset, arguments.constraint.grammar_notation().is_some())?;
    refuse_odd_choices(arguments.dataset.choice.as_deref().unwrap_or_default())?;
    let takes_constraints = backend.takes_constraints() && !name.is_plain();
    if !takes_constraints {
        refuse_constraint(&arguments.constraint, name)?;
    }
    let (output_len, output) = output_len(name, rows, arguments.traffic.output_len)?;
    Ok(DatasetPlan {
        name,
        num_prompts,
        output_len,
        seed: arguments.traffic.seed,
        constrained_ratio: if takes_constraints { constrained_ratio(&arguments.constraint)? } else { 0.0 },
        constraints: if takes_constraints { Constraints::Kept } else { Constraints::LeftOut },
        prompt_form: non_generative::prompt_form(backend, &arguments.dataset)?,
        audio: non_generative::audio(&arguments.dataset),
        json_schema: JsonSchemaSource::new(json_schema_path.as_deref(), json_schema),
        grammar_path: arguments.dataset.grammar_path.clone().map(Into::into),
        grammar_dialect: GrammarDialect::Ebnf,
        grammar_spelling: GrammarSpelling::AsWritten,
        grammar_oracle: arguments.dataset.grammar_oracle.clone().map(Into::into),
        regex: arguments.dataset.regex.clone(),
        choice: arguments.dataset.choice.clone(),
        dataset_path: dataset_path.clone().map(Into::into).or_else(|| rows.hf_name.clone()),
        drawing: Drawing {
            order: if rows.disable_shuffle { Order::AsStored } else { Order::Shuffled },
            shortfall: if rows.no_oversample { Shortfall::Fewer } else { Shortfall::AskAgain },
            output,
            lengths: lengths(name, rows)?,
            part: Part {
                name: rows.hf_name.clone(),
                subset: rows.hf_subset.clone(),
                split: rows.hf_split.clone(),
                text_column: rows.hf_text_column.clone(),
                messages_column: rows.hf_messages_column.clone(),
            },
            categories: rows.bfcl_categories.iter().map(|name| name.trim().to_owned()).collect(),
        },
        mix: Vec::new(),
    })
}

/// Whether the dataset makes prompts to which an answer has no end that would mean anything.
pub(crate) fn is_random(name: DatasetName) -> bool {
    matches!(name, DatasetName::Random | DatasetName::RandomPrefix)
}

/// Whether servers are asked to go on past the end of their answers, unless that is switched off: `vllm bench serve` asks those for
/// it that speak OpenAI's API, and others here have no field for it.
pub(crate) fn goes_on(flags: &DatasetArgs, backend: ServerKind, name: DatasetName) -> bool {
    is_random(name) && !flags.drawing.disable_ignore_eos && backend.generates() && backend.takes_ignore_eos()
}

/// The most tokens of an answer, and what they mean to rows with a length of their own. The general flag comes before the dataset's.
fn output_len(name: DatasetName, flags: &DrawingArgs, general: Option<u32>) -> Result<(u32, OutputLength)> {
    use DatasetName as Name;
    let (flag, own, default) = match name {
        Name::Random | Name::RandomPrefix => ("--random-output-len", flags.random_output_len, DEFAULT_OUTPUT_LEN),
        Name::PrefixRepetition => ("--prefix-repetition-output-len", flags.prefix_repetition_output_len, DEFAULT_OUTPUT_LEN),
        Name::Sonnet => ("--sonnet-output-len", flags.sonnet_output_len, 150),
        Name::Sharegpt => ("--sharegpt-output-len", flags.sharegpt_output_len, DEFAULT_OUTPUT_LEN),
        Name::Hf => ("--hf-output-len", flags.hf_output_len, DEFAULT_OUTPUT_LEN),
        Name::Jsonschemabench | Name::Maskbench | Name::Bfcl => ("--hf-output-len", flags.hf_output_len, DOCUMENT_OUTPUT_LEN),
        Name::Custom => return custom_output_len(flags, general),
        Name::Json
        | Name::JsonUnique
        | Name::Grammar
        | Name::Regex
        | Name::Choice
        | Name::XgrammarBench
        | Name::Audio
        | Name::Mix
        | Name::Burstgpt => ("--output-len", None, DEFAULT_OUTPUT_LEN),
    };
    let length = above_zero("--output-len", general)?.or(above_zero(flag, own)?);
    // Made prompts have no length of their own but one that is drawn around this one.
    let of_rows = matches!(name, Name::Sharegpt | Name::Burstgpt | Name::Hf);
    let output = if of_rows && length.is_some() { OutputLength::OfThePlan } else { OutputLength::OfTheRow };
    Ok((length.unwrap_or(default), output))
}

/// A row's own length comes before the general one, unless the dataset's flag says otherwise.
fn custom_output_len(flags: &DrawingArgs, general: Option<u32>) -> Result<(u32, OutputLength)> {
    let general = above_zero("--output-len", general)?;
    let wrong = |length: i64| {
        Error::usage(format!("--custom-output-len is no number of tokens: {length}"))
            .hint("give 1 or more for every answer, or -1 for each row's own")
    };
    match flags.custom_output_len {
        None => Ok((general.unwrap_or(DEFAULT_OUTPUT_LEN), OutputLength::OfTheRow)),
        Some(_) if general.is_some() => {
            Err(Error::usage("--custom-output-len and --output-len both say how long answers may be")
                .hint("leave one of them out; --output-len is for rows that do not say"))
        }
        Some(-1) => Ok((DEFAULT_OUTPUT_LEN, OutputLength::OfEveryRow)),
        Some(length) => {
            let length = u32::try_from(length).ok().filter(|length| *length > 0).ok_or_else(|| wrong(length))?;
            Ok((length, OutputLength::OfThePlan))
        }
    }
}

fn above_zero(flag: &str, length: Option<u32>) -> Result<Option<u32>> {
    if length == Some(0) {
        return Err(Error::usage(format!("{flag} is 0")).hint("allow at least one token"));
    }
    Ok(length)
}

/// Lengths of prompts, for the datasets that make some.
fn lengths(name: DatasetName, flags: &DrawingArgs) -> Result<Lengths> {
    let unset = Lengths::default();
    Ok(match name {
        DatasetName::Random | DatasetName::RandomPrefix => {
            if let Some(size) = flags.random_batch_size.filter(|size| *size != 1) {
                return Err(Error::usage(format!("--random-batch-size would put several inputs into one request: {size}"))
                    .hint("leave it out: each request has one input"));
            }
            let has_prefix = name == DatasetName::RandomPrefix;
            let prefix = flags.random_prefix_len.unwrap_or(if has_prefix { 256 } else { 0 });
            if has_prefix && prefix == 0 {
                return Err(Error::usage("--random-prefix-len is 0").hint("--dataset random has prompts that share nothing"));
            }
            let (input_range, output_range) = range(flags.random_range_ratio.as_deref())?;
            Lengths {
                prefix,
                prefixes: 1,
                input: flags.input_len.or(flags.random_input_len).unwrap_or(unset.input),
                input_range,
                output_range,
            }
        }
        DatasetName::PrefixRepetition => Lengths {
            prefix: flags.prefix_repetition_prefix_len.unwrap_or(256),
            prefixes: flags.prefix_repetition_num_prefixes.unwrap_or(10),
            input: flags.prefix_repetition_suffix_len.unwrap_or(256),
            ..unset
        },
        DatasetName::Sonnet => Lengths {
            prefix: flags.sonnet_prefix_len.unwrap_or(200),
            input: flags.input_len.or(flags.sonnet_input_len).unwrap_or(550),
            ..unset
        },
        _ => unset,
    })
}

/// `--random-range-ratio`: a number for both, or an object with one for each.
fn range(text: Option<&str>) -> Result<(f64, f64)> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Pair {
        input: f64,
        output: f64,
    }
    let Some(text) = text else { return Ok((0.0, 0.0)) };
    let pair = match text.parse::<f64>() {
        Ok(both) => Some((both, both)),
        Err(_) => serde_json::from_str::<Pair>(text).ok().map(|pair| (pair.input, pair.output)),
    };
    pair.filter(|(input, output)| (0.0..1.0).contains(input) && (0.0..1.0).contains(output)).ok_or_else(|| {
        Error::usage(format!("--random-range-ratio is no share from 0 to below 1: {text}"))
            .hint("give one number, or '{\"input\": 0.3, \"output\": 0.5}'")
    })
}

/// No answer to a dataset without constraints can be constrained.
fn refuse_constraint(flags: &ConstraintArgs, name: DatasetName) -> Result<()> {
    let ratio = flags.guided_decoding_ratio.filter(|&ratio| ratio != 0.0);
    let rows = [
        ("--guided-decoding-ratio", ratio.map(|ratio| ratio.to_string())),
        ("--constraint-dialect", flags.dialect().map(|dialect| dialect.to_string())),
    ];
    match rows.into_iter().find_map(|(flag, value)| Some((flag, value?))) {
        None => Ok(()),
        Some((flag, value)) => Err(Error::usage(format!("the dataset {name} has no constraint: {flag} {value}"))
            .hint(format!("leave {flag} out, or ask a dataset with constraints"))),
    }
}

/// Own inputs of one dataset are none of another's. What none of them reads stays, and is refused with the run.
pub(crate) fn leave_out_others(flags: &mut BenchArgs, dataset: DatasetName, all: &[DatasetName]) {
    let is_others = |input: OwnInput| !dataset.reads(input) && all.iter().any(|it| it.reads(input));
    let own = &mut flags.dataset;
    if is_others(OwnInput::JsonSchema) {
        own.json_schema_path = None;
        own.json_schema = JsonSchemaSource::Brief;
    }
    if is_others(OwnInput::Grammar) {
        own.grammar_path = None;
        own.grammar_oracle = None;
    }
    if is_others(OwnInput::Regex) {
        own.regex = None;
    }
    if is_others(OwnInput::Choice) {
        own.choice = None;
    }
    if is_others(OwnInput::Path) {
        own.dataset_path = None;
    }
    leave_out(&mut own.drawing, is_others);
    if dataset.is_plain() && all.iter().any(|it| !it.is_plain()) {
        flags.constraint.guided_decoding_ratio = None;
        flags.constraint.constraint_dialect = "auto".to_owned();
    }
    if is_others(OwnInput::GrammarDialect) {
        flags.constraint.grammar_dialect = "auto".to_owned();
    }
}

/// Takes those flags away that this dataset does not read and another one of the same comparison does.
fn leave_out(flags: &mut DrawingArgs, is_others: impl Fn(OwnInput) -> bool) {
    flags.disable_shuffle &= !is_others(OwnInput::Order);
    flags.no_oversample &= !is_others(OwnInput::Shortfall);
    if is_others(OwnInput::InputLength) {
        flags.input_len = None;
    }
    if is_others(OwnInput::RandomLengths) {
        flags.random_input_len = None;
        flags.random_output_len = None;
        flags.random_range_ratio = None;
        flags.random_prefix_len = None;
        flags.random_batch_size = None;
        flags.disable_ignore_eos = false;
    }
    if is_others(OwnInput::PrefixRepetition) {
        flags.prefix_repetition_prefix_len = None;
        flags.prefix_repetition_suffix_len = None;
        flags.prefix_repetition_num_prefixes = None;
        flags.prefix_repetition_output_len = None;
    }
    if is_others(OwnInput::Sonnet) {
        flags.sonnet_input_len = None;
        flags.sonnet_output_len = None;
        flags.sonnet_prefix_len = None;
    }
    flags.sharegpt_output_len = flags.sharegpt_output_len.filter(|_| !is_others(OwnInput::ShareGpt));
    flags.custom_output_len = flags.custom_output_len.filter(|_| !is_others(OwnInput::CustomRows));
    flags.skip_chat_template &= !is_others(OwnInput::CustomRows);
    flags.hf_output_len = flags.hf_output_len.filter(|_| !is_others(OwnInput::HubLength));
    if is_others(OwnInput::Part) {
        flags.hf_subset = None;
        flags.hf_split = None;
    }
    if is_others(OwnInput::Columns) {
        flags.hf_name = None;
        flags.hf_text_column = None;
        flags.hf_messages_column = None;
    }
    if is_others(OwnInput::Categories) {
        flags.bfcl_categories.clear();
    }
}

#[cfg(test)]
mod tests;
