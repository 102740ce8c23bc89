//! Flags to what is asked: the dataset with its own options, and the options that all datasets
//! share. Opens no file.

use std::str::FromStr;

use crate::commands::bench::args::BenchArgs;
use crate::commands::bench::options::constraint::{ConstraintArgs, constrained_ratio};
use crate::commands::bench::options::non_generative;
use sobench_backend::ServerKind;
use sobench_core::constraint::{GrammarDialect, GrammarSpelling};
use sobench_core::error::{Error, Result};
use sobench_data::dataset::{self, Constraints, DatasetArgs, DatasetName, DatasetPlan, Source};

/// The dataset that is named, or the default of the kind of server.
///
/// # Errors
/// There is none of this name.
pub(crate) fn name(arguments: &BenchArgs, backend: ServerKind) -> Result<DatasetName> {
    if arguments.dataset.mix.is_some() {
        return Ok(DatasetName::Mix);
    }
    let named = arguments.dataset.dataset.first();
    named.map_or(Ok(non_generative::default_dataset(backend)), |name| {
        DatasetName::from_str(name)
    })
}

/// Checks the flags of the dataset and turns them into a plan.
///
/// # Errors
/// Usage errors that name the flag and its value.
pub(crate) fn plan(
    arguments: &BenchArgs,
    backend: ServerKind,
    name: DatasetName,
    num_prompts: usize,
) -> Result<DatasetPlan> {
    if let Some(mix) = &arguments.dataset.mix {
        return super::mix::plan(arguments, backend, mix, num_prompts);
    }
    if arguments.constraint.grammar_notation().is_some() && !name.has_grammars() {
        return Err(dataset::stray(
            "--grammar-dialect",
            name,
            DatasetName::has_grammars,
        ));
    }
    arguments.dataset.typed.refuse_stray(name)?;
    let source = Source::new(name, &arguments.dataset)?;
    let takes_constraints = backend.takes_constraints() && !name.is_plain();
    if !takes_constraints {
        refuse_constraint(&arguments.constraint, name)?;
    }
    let (output_len, output) = name.output_len(&arguments.dataset, arguments.traffic.output_len)?;
    Ok(DatasetPlan {
        source,
        num_prompts,
        output_len,
        output,
        seed: arguments.traffic.seed,
        constrained_ratio: if takes_constraints {
            constrained_ratio(&arguments.constraint)?
        } else {
            0.0
        },
        constraints: if takes_constraints {
            Constraints::Kept
        } else {
            Constraints::LeftOut
        },
        prompt_form: non_generative::prompt_form(backend, &arguments.dataset)?,
        grammar_dialect: GrammarDialect::Ebnf,
        grammar_spelling: GrammarSpelling::AsWritten,
    })
}

/// Whether servers are asked to go on past the end of their answers, unless that is switched off:
/// `vllm bench serve` asks those for it that speak OpenAI's API, and others here have no field for
/// it.
pub(crate) fn goes_on(flags: &DatasetArgs, backend: ServerKind, name: DatasetName) -> bool {
    name.ignores_eos()
        && !flags.rows.random.disable_ignore_eos
        && backend.generates()
        && backend.takes_ignore_eos()
}

/// No answer to a dataset without constraints can be constrained.
fn refuse_constraint(flags: &ConstraintArgs, name: DatasetName) -> Result<()> {
    let ratio = flags.guided_decoding_ratio.filter(|&ratio| ratio != 0.0);
    let rows = [
        (
            "--guided-decoding-ratio",
            ratio.map(|ratio| ratio.to_string()),
        ),
        (
            "--constraint-dialect",
            flags.dialect().map(|dialect| dialect.to_string()),
        ),
    ];
    match rows
        .into_iter()
        .find_map(|(flag, value)| Some((flag, value?)))
    {
        None => Ok(()),
        Some((flag, value)) => Err(Error::usage(format!(
            "the dataset {name} has no constraint: {flag} {value}"
        ))
        .hint(format!(
            "leave {flag} out, or ask a dataset with constraints"
        ))),
    }
}

/// Leaves out the flags that this dataset does not read and another one of the same command does. A
/// flag that none of them reads stays, and is refused with the run.
pub(crate) fn leave_out_others(flags: &mut BenchArgs, dataset: DatasetName, all: &[DatasetName]) {
    flags.dataset.typed.leave_out_others(dataset, all);
    if dataset.is_plain() && !all.iter().all(|other| other.is_plain()) {
        flags.constraint.guided_decoding_ratio = None;
        flags.constraint.constraint_dialect = "auto".to_owned();
    }
    if !dataset.has_grammars() && all.iter().any(|other| other.has_grammars()) {
        flags.constraint.grammar_dialect = "auto".to_owned();
    }
}

#[cfg(test)]
mod tests;
